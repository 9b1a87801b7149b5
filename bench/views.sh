#!/bin/sh
# Do the viewers stay quick when a record is large? Plays one real round of 64 envs x 150 steps, repeats its rows for
# as many rounds as asked (as a trainer would write them: from the 201st round on idle steps are thinned), then times
# the report and every query that the page makes; likewise the list of 500 runs and an overlay of 50. Exits with 1 when
# one is too slow.
# Needs the sqlite3 shell and curl.   Usage: bench/views.sh [ROUNDS [ESPER]]
set -eu
rounds=${1:-1000}
esper=${2:-build/esper}
runs=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server"; rm -rf "$runs"' EXIT
"$esper" train --envs 64 --steps 150 --rounds 2 --runs "$runs" --name large --quiet --set data.batches=1 \
    --set data.val_images=64 --set data.test_images=64 --set policy.feature_dim=32 --set policy.hidden=32 >/dev/null
db=$runs/large/telemetry.db
columns() { sqlite3 "$db" "select group_concat(name) from pragma_table_info('$1') where name <> 'round'"; }
{
    echo 'pragma journal_mode = off; begin; create temp table n as
        with recursive n(i) as (select 2 union all select i + 1 from n where i < '$((rounds - 1))') select i from n;'
    for table in round ppo ppo_head outcome alert life phase; do
        echo "insert into $table (round, $(columns $table)) select i, $(columns $table) from n, $table where round = 1;"
    done
    echo "insert into step (round, $(columns step)) select i, $(columns step) from n, step
            where round = 1 and (i < 200 or op <> 'wait' or step % 10 = 0 or step = 150);
        insert into seed (round, $(columns seed)) select i, $(columns seed) from n, seed
            where round = 1 and (i < 200 or step % 10 = 0 or step = 150);
        insert into subset (round, $(columns subset)) select i, $(columns subset) from n, subset where round = 1;
        commit; pragma journal_mode = wal;"
} >"$runs/copies.sql" # written first: asking for the columns must not meet the insert's lock
sqlite3 "$db" <"$runs/copies.sql" >/dev/null
echo "$rounds rounds: $(($(stat -c %s "$db") / 1000000)) MB, $(sqlite3 "$db" 'select count(*) from step') rows of step"

slow=0
limit() { # limit NAME MILLISECONDS MOST
    echo "$1 $2 ms (at most $3)"
    [ "$2" -le "$3" ] || slow=1
}
now() { date +%s%N; }
start=$(now)
"$esper" report "$runs/large" -o "$runs/report.html" >/dev/null
limit report $((($(now) - start) / 1000000)) 5000

"$esper" serve "$runs" --port 0 >"$runs/address" &
server=$!
until [ -s "$runs/address" ]; do sleep 0.1; done
address=$(grep -o 'http://[0-9.:]*' "$runs/address")
questions=$(curl -sf "$address/api/questions" | grep -o '"name":"[a-z_]*"' | cut -d'"' -f4)
[ -n "$questions" ] || { echo 'the server names no questions'; exit 1; }
slowest=0
for path in /api/runs /api/run/large $(for q in $questions; do echo "/api/run/large/ask/$q"; done); do
    took=$(curl -sf -o /dev/null -w '%{time_total}' "$address$path" | awk '{ printf "%d", 1000 * $1 }')
    [ "$took" -le "$slowest" ] || { slowest=$took; where=$path; }
done
limit "slowest answer, $where," "$slowest" 200

# Hundreds of runs: the list once it is known, and what a page asks for when 50 of them are overlaid, for the first time.
kill $server
wait $server 2>/dev/null || true
sh tests/many_runs.sh "$esper" "$runs/many" 500
"$esper" serve "$runs/many" --port 0 >"$runs/address2" &
server=$!
until [ -s "$runs/address2" ]; do sleep 0.1; done
address=$(grep -o 'http://[0-9.:]*' "$runs/address2")
took() { curl -sf -o "$runs/answer" -w '%{time_total}' "$address$1" | awk '{ printf "%d", 1000 * $1 }'; }
limit 'list of 500 runs, nothing read yet,' "$(took /api/runs)" 400
start=$(now)
while ! grep -q '"unread":0,' "$runs/answer"; do took /api/runs >/dev/null; done
echo "all records of 500 runs read $((($(now) - start) / 1000000)) ms later"
limit 'list of 500 runs' "$(took /api/runs)" 200
limit 'settings of 500 runs' "$(took /api/settings)" 200
names=$(seq -f 'm%03g' 0 49 | paste -sd,)
limit 'overlay of 50 runs' "$(took "/api/overlay?name=round.val_accuracy_mean&runs=$names")" 500
limit 'overlay of 50 runs, again,' "$(took "/api/overlay?name=round.val_accuracy_mean&runs=$names")" 100
exit $slow
