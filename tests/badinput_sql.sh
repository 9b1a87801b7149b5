#!/bin/sh
# Queries of a record, as a user types them: wrong and hostile ones get one line on stderr and the right exit code,
# good ones an answer in every form, from a live, a finished and a crashed run. Nothing changes the record.
# Usage: badinput_sql.sh ESPER (from the project's root).
. tests/script.inc
enter_work

refused() { # refused TEXT QUESTION OPTIONS...
    text=$1
    shift
    fails 2 "$text" sql one "$@"
}

train() { # train NAME ARGUMENTS...: a run as small as can be
    name=$1
    shift
    "$esper" train --policy static --envs 2 --set data.batches=1 --set data.test_images=10 --set data.val_images=10 \
        --name "$name" --quiet "$@" >stdout.txt 2>stderr.txt
}

train one --steps 2 --rounds 3 || verdict 'a run to ask' "$(cat stderr.txt)"
before=$(cksum <runs/one/telemetry.db)

# ---- what is typed ---------------------------------------------------------------------------------------------------
fails 2 'give a run, and a question' sql
fails 2 'no run "onf" in runs; did you mean "one"?' sql onf 'select 1'
fails 2 'unexpected argument more' sql one 'select 1' more
fails 2 '--csv and --json: choose one' sql one 'select 1' --csv --json
fails 2 '--timeout 0: it must be a whole number' sql one 'select 1' --timeout 0
fails 2 '--rows -1: it must be a whole number' sql one 'select 1' --rows=-1
fails 2 'unknown option --jsn; did you mean --json?' sql one 'select 1' --jsn
refused 'the question is empty' ''
refused 'incomplete input' 'select'
refused 'syntax error' 'select 1 fro round'
refused 'no such column: rewrd; did you mean "reward"?' 'select rewrd from outcome'
refused 'no such column: entropy; another table has it' 'select entropy from outcome'
refused 'no such table: outcomes; did you mean "outcome"?' 'select * from outcomes'
refused 'no such function: medain; did you mean "median"?' 'select medain(reward) from outcome'
refused 'more than one statement' 'select 1; select 2'
printf 'select 1\000 + 1' >question
"$esper" sql one - <question >stdout.txt 2>stderr.txt
verdict 'a NUL byte on stdin' "$([ $? -eq 2 ] && grep -q 'contains a NUL byte' stderr.txt || cat stderr.txt)"
head -c 70000 /dev/zero | tr '\000' ' ' | "$esper" sql one - >stdout.txt 2>stderr.txt
verdict 'a question that is too long' "$([ $? -eq 2 ] && grep -q 'too long' stderr.txt || cat stderr.txt)"

# ---- more than reading -----------------------------------------------------------------------------------------------
refused 'refused: a change to the record' 'delete from round'
refused 'refused: a change to the record' 'create temp table t (x)'
refused 'refused: a change to the record' "vacuum into 'stolen.db'"
refused 'refused: ATTACH' "attach 'stolen.db' as stolen"
refused 'refused: PRAGMA writable_schema' 'pragma writable_schema = 1'
refused 'refused: PRAGMA journal_mode' 'pragma journal_mode = delete'
refused 'refused: the function load_extension' "select load_extension('./x')"
refused 'no such function: writefile' "select writefile('x', 'y')"
refused 'refused: a transaction' 'begin immediate'
refused 'too long' 'select zeroblob(1000000000)'
endless='with recursive t(x) as (select 1 union all select x + 1 from t)'
fails 1 'abandoned after 1 s' sql one "$endless select max(x) from t" --timeout 1
fails 1 'abandoned after 1 s' sql one "$endless select x from t where x < 0" --timeout 1 --json
"$esper" sql one "$endless select x from t" --csv 2>stderr.txt | head -3 >stdout.txt
verdict 'endless rows into head' "$([ "$(tr -d '\r' <stdout.txt)" = "$(printf 'x\n1\n2')" ] || cat stdout.txt stderr.txt)"
"$esper" sql one "$endless select max(x) from t" --timeout 60 >stdout.txt 2>stderr.txt &
background=$!
sleep 0.5
kill -s TERM $background
wait $background
verdict 'a question that is interrupted' "$([ $? -eq 130 ] && grep -q 'was interrupted' stderr.txt || cat stderr.txt)"
background=
[ ! -e stolen.db ] && [ ! -e x ] || verdict 'files left behind' "$(ls)"
[ "$(cksum <runs/one/telemetry.db)" = "$before" ] || verdict 'the record' 'has changed'

# ---- answers ---------------------------------------------------------------------------------------------------------
shows 'one row per finished round' sql one
grep -q 'val_accuracy_mean *REAL *.*percent' stdout.txt || verdict 'units' "$(cat stdout.txt)"
grep "^    esper sql" stdout.txt | cut -d"'" -f2 >examples.txt
[ "$(wc -l <examples.txt)" -eq 3 ] || verdict 'examples' "$(cat stdout.txt)"
while read -r example; do
    shows '' sql one "$example"
done <examples.txt
shows '  3' sql one 'select count(*) from round'
answer() { # answer TEXT QUESTION OPTIONS...: the whole answer, without carriage returns
    text=$1
    shift
    got=$("$esper" sql one "$@" 2>&1 | tr -d '\r')
    verdict "$*" "$([ "$got" = "$text" ] || echo "$got")"
}
answer "$(printf 'n  text  missing\n1  a           -\n2  b           -')" \
    "select column1 n, column2 text, null missing from (values (1, 'a'), (2, 'b'))"
answer "$(printf 'a,"b,c"\n1.5,"x ""y"""\n,""')" "select column1 a, column2 \"b,c\" from (values (1.5, 'x \"y\"'), (null, ''))" --csv
answer "$(printf '[\n{"a":0.1,"a_2":null,"b":"\\u000a"}\n]')" "select 0.1 a, 9e999 a, char(10) b" --json
answer '[]' 'select 1 where 0' --json
answer "$(printf 'a?[2Jb\n??[2Jb')" "select char(155) || '[2Jb' as \"a$(printf '\033')[2Jb\"" # no control characters
answer "$(printf 'round\n    0\nesper: these are the first 1 rows; --rows N shows more')" 'select round from round' --rows 1
printf 'select 1 as\n  one' >question
answer "$(printf 'one\n  1')" - <question
if [ -w /dev/full ]; then
    "$esper" sql one 'select * from round' --csv >/dev/full 2>stderr.txt
    verdict 'a full disk' "$([ $? -eq 1 ] && grep -q 'cannot write the output' stderr.txt || cat stderr.txt)"
fi
if [ -x /usr/bin/script ]; then # a terminal of 40 columns
    script -qec "stty cols 40; '$esper' sql one 'select * from run'; '$esper' sql one \"$endless select x from t\"" \
        /dev/null >terminal.txt 2>&1 </dev/null
    problem=
    [ "$(head -1 terminal.txt | tr -d '\r' | sed 's/…/./' | wc -c)" -le 41 ] || problem=$(head -1 terminal.txt)
    grep -q '…' terminal.txt || problem="$problem; nothing is cut"
    [ "$(grep -c '^ *[0-9][0-9]*.$' terminal.txt)" -eq 1000 ] || problem="$problem; $(wc -l <terminal.txt) lines"
    grep -q 'the first 1000 rows' terminal.txt || problem="$problem; no note"
    verdict 'a terminal' "$problem"
else
    skip 'no script(1): the form of tables on a terminal'
fi

# ---- live and crashed runs -------------------------------------------------------------------------------------------
"$esper" train --policy static --envs 1 --steps 10 --rounds 100000 --set data.batches=1 --set data.test_images=10 \
    --set data.val_images=10 --name busy --quiet >busy.txt 2>&1 &
background=$!
rounds=0
tries=0
while [ "$rounds" -lt 3 ] && [ $tries -lt 100 ]; do
    rounds=$("$esper" sql busy 'select count(*) from round' --csv 2>/dev/null | tail -1 | tr -d '\r')
    rounds=${rounds:-0}
    tries=$((tries + 1))
    sleep 0.1
done
later=$("$esper" sql busy "select count(*) from round" --json | tr -dc 0-9)
[ "$rounds" -ge 3 ] && [ "$later" -ge "$rounds" ] || verdict 'a live run' "$rounds, then $later rounds; $(cat busy.txt)"
kill -s KILL $background
wait $background 2>/dev/null
background=
rounds=$("$esper" sql busy 'select count(*) from round' --json | tr -dc 0-9)
verdict 'a crashed run' "$([ "${rounds:-0}" -ge "$later" ] || echo "$rounds rounds after $later")"
printf 'not a database, just a text that is longer than the header of one: %0200d' 0 >runs/one/telemetry.db
fails 2 'is not a record of a run' sql one 'select 1'
rm runs/one/telemetry.db*
fails 2 'runs/one: the run has no record yet' sql one

conclude
