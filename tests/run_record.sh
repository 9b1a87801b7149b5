#!/bin/sh
# The record of whole runs at the command line: levels and traces change nothing, trouble with the files is reported
# once and stops nothing, the exit code says what is missing in the end.
# Usage: run_record.sh ESPER (from the project's root).
. tests/script.inc
enter_work

small="--envs 2 --steps 16 --set data.batches=1 --set data.val_images=20 --set data.test_images=20
    --set policy.feature_dim=16 --set policy.hidden=16 --quiet"

train() { # train NAME OPTIONS...: a run; its stderr in stderr.txt, its exit code in $got
    name=$1
    shift
    "$esper" train $small --name "$name" "$@" >stdout.txt 2>stderr.txt
    got=$?
}
good() { # good NAME OPTIONS...: a run that has nothing to report
    train "$@"
    [ $got -eq 0 ] && [ ! -s stderr.txt ] || verdict "train $*" "exit code $got: $(cat stderr.txt)"
}
hash_of() { "$esper" inspect "$1" --hash; }
rows() { "$esper" sql "$1" "select count(*) from $2" --csv | tail -1 | tr -d '\r'; }

# ---- levels ----------------------------------------------------------------------------------------------------------
good normal --rounds 3
good off --rounds 3 --set telemetry.level=off
good debug --rounds 3 --set telemetry.level=debug
good traced --rounds 3 --trace
for name in off debug traced; do
    verdict "the same run: $name" "$([ "$(hash_of normal)" = "$(hash_of $name)" ] || echo 'another hash')"
done
kept="$(rows off round) $(rows off outcome) $(rows off step) $(rows off phase)"
verdict 'off keeps rounds' "$([ "$kept" = '3 6 0 0' ] || echo "$kept")"
verdict 'debug keeps every subset' "$([ "$(rows debug '(select distinct round, step, env from subset)')" -eq 96 ] ||
    echo 'some are missing')"
fails 2 'telemetry.level = loud: it must be one of' train $small --set telemetry.level=loud
fails 2 '--trace: telemetry.level=off records no times' train $small --trace --set telemetry.level=off

# ---- traces ----------------------------------------------------------------------------------------------------------
# Spans of a thread nest: sorted by their beginning, none ends after one that began before it and is not over.
nests() { # nests FILE: prints the number of spans, or what is wrong
    awk -F '[:,}]' '/"ph":"X"/ {
        for (i = 1; i < NF; i++) {
            if ($i == "\"tid\"") tid = $(i + 1)
            if ($i == "\"ts\"") start = $(i + 1)
            if ($i == "\"dur\"") end = start + $(i + 1)
        }
        while (depth[tid] && open[tid, depth[tid]] <= start && !(open[tid, depth[tid]] == start && end == start))
            depth[tid]--
        if (depth[tid] && end > open[tid, depth[tid]]) wrong++
        open[tid, ++depth[tid]] = end
        count++
    }
    END { print wrong ? wrong " spans cross others" : count }' "$1"
}
is_json() { # is_json FILE: where a reader is available
    ! command -v python3 >/dev/null || python3 -c 'import json, sys; json.load(open(sys.argv[1]))' "$1"
}
verdict 'a trace is JSON' "$(is_json runs/traced/trace.json 2>&1)"
# 5 phases a step, 4 of them with a part for each env; test, update and reset a round, checkpoints
spans=$((3 * 16 * (5 + 4 * 2) + 3 * (3 + 2 * 2)))
found=$(nests runs/traced/trace.json)
verdict 'its spans nest' "$([ "$found" -ge $spans ] 2>/dev/null || echo "$found, not $spans")"
"$esper" train --resume traced --rounds 4 --trace --quiet >stdout.txt 2>stderr.txt || verdict 'resume --trace' "$(cat stderr.txt)"
spans=$((4 * spans / 3))
found=$(nests runs/traced/trace.json)
verdict 'and those of a resumed run' "$([ "$found" -ge $spans ] 2>/dev/null || echo "$found, not $spans")"
grep -q 'trace.json' stdout.txt || verdict 'the trace is named' "$(cat stdout.txt)"

# ---- trouble ---------------------------------------------------------------------------------------------------------
begin() { # begin NAME: a run without an end, in the background, until its first round is done
    rm -f out.txt err.txt
    "$esper" train $small --rounds 100000 --set checkpoint.rounds=100000 --name "$1" >out.txt 2>err.txt &
    background=$!
    tries=0
    while [ $tries -lt 200 ] && ! grep -q '"round": *[1-9]' "runs/$1/status.json" 2>/dev/null; do
        sleep 0.05
        tries=$((tries + 1))
    done
}
wait_told() { # wait_told PATTERN: until it says so, twenty seconds at most
    tries=0
    while [ $tries -lt 200 ] && ! grep -q "$1" err.txt; do
        sleep 0.1
        tries=$((tries + 1))
    done
}
end() { # end CODE: it is asked to stop, and ends with that exit code
    kill -s INT $background
    wait $background
    got=$?
    background=
    problem=
    [ $got -eq "$1" ] || problem="exit code $got, not $1: $(cat err.txt)"
}
once() { # once PATTERN...: each of them in exactly one line, and nothing else about the record
    expected=$#
    for pattern in "$@"; do
        [ "$(grep -c "^esper: .*$pattern" err.txt)" -eq 1 ] || problem="$problem; not one line \"$pattern\""
    done
    [ "$(grep -c record err.txt)" -eq "$expected" ] || problem="$problem; $(cat err.txt)"
}
accounted() { # accounted NAME: a row for every env-step that the run made, or a count of those that are missing
    problem="$problem$("$esper" sql "$1" --csv "select 2 * (c.round * 16 + c.step) as made, s.n as kept, d.n as lost from
        (select * from checkpoint order by round desc, step desc limit 1) c, (select count(*) as n from step) s,
        (select cast(total(count) as integer) as n from drops where name = 'step') d
        where made <> kept + lost" | tail -n +2)"
}

begin moved
mv runs/moved runs/away
wait_told 'moved or removed'
sleep 1
mv runs/away runs/moved
wait_told 'is being written again'
end 130
once 'moved or removed; training goes on, and writing the record' 'the record is being written again; [0-9]* rows were lost'
accounted moved
verdict 'a run that is moved away and back' "$problem"

begin removed
until rm -rf runs/removed 2>/dev/null; do :; done # it may just have written a file there
wait_told 'moved or removed'
end 3
once 'telemetry.db: .*training goes on, and writing the record' '; [0-9]* rows of the record are lost'
verdict 'a run that is removed' "$problem"

chmod 755 .
if [ "$(id -u)" -eq 0 ]; then
    printf '#!/bin/sh\nexec setpriv --reuid=65534 --regid=65534 --clear-groups "%s" "$@"\n' "$esper" >nobody
    chmod 755 nobody
    chmod 777 runs
    esper=./nobody
fi
if "$esper" --version >/dev/null 2>&1; then
    begin closed # what is open stays open: a record made read-only is written to its end
    chmod a-w runs/closed/telemetry.db*
    sleep 0.5
    end 130
    [ ! -s err.txt ] || problem="$problem; $(cat err.txt)"
    accounted closed
    verdict 'a record that becomes read-only' "$problem"
    fails 1 'telemetry.db' train --resume closed --quiet # one that cannot be opened is another matter
else
    skip 'read-only records: root cannot become another user here'
fi

conclude
