#!/bin/sh
# What docs/telemetry.md says of the record is true: its queries are run on fresh runs, by esper and by the stock
# sqlite3, the tables and columns it names are those of the schema, and `esper inspect` counts what is there in every state
# of a run. Usage: run_queries.sh ESPER (from the project's root).
. tests/script.inc
page=$PWD/docs/telemetry.md
small="--task quickstart --envs 4 --steps 40 --set data.batches=2 --set data.val_images=40 --set data.test_images=40
    --set policy.feature_dim=32 --set policy.hidden=32 --set checkpoint.rounds=2 --runs $work --quiet"

# Two runs cover between them what can happen: a policy under a governor that is easily alarmed, and a script whose seeds
# are fossilised, pruned and, halfway, refused.
cat >"$work/script.json" <<'JSON'
[{"step": 1, "op": "germinate", "slot": "r0c0", "blueprint": "conv_light", "tempo": 3},
 {"step": 2, "op": "germinate", "slot": "r0c2", "blueprint": "noop", "tempo": 3, "target": 0.5},
 {"step": 4, "op": "germinate", "slot": "r0c1", "blueprint": "norm"},
 {"step": 20, "op": "prune", "slot": "r0c1"},
 {"step": 24, "op": "advance", "slot": "r0c2"},
 {"step": 25, "op": "fossilize", "slot": "r0c0"}]
JSON
train() { # train NAME OPTIONS...
    name=$1
    shift
    "$esper" train $small --name "$name" "$@" >"$work/out" 2>&1 || { cat "$work/out"; exit 1; }
}
train learnt --rounds 6 --set governor.lobotomy_mean=0.95 --set governor.lobotomy_width=0.15
train scripted --rounds 2 --script "$work/script.json" --set data.batches=8
runs="learnt scripted"

number() { # number RUN QUESTION: its one answer
    "$esper" sql "$work/$1" "$2" --csv | sed -n '2s/\r$//p'
}
enough() { # enough WHAT COUNT: there is something to ask about
    verdict "$1" "$([ "${2:-0}" -gt 0 ] || echo none)"
}
enough 'rollbacks of the policy' "$(number learnt 'select count(*) from rollback')"
enough 'refusals of the script' "$(number scripted "select count(*) from step where result = 'refused'")"
enough 'prunes of the script' "$(number scripted "select count(*) from life where event = 'pruned'")"
enough 'fossils of the script' "$(number scripted "select count(*) from life where event = 'fossilized'")"

# ---- the questions ---------------------------------------------------------------------------------------------------
awk -v folder="$work" '/^```sql$/ { name = sprintf("%s/question%02d.sql", folder, ++count); next }
    /^```/ { name = "" } name { print > name }' "$page"
questions=$(find "$work" -name 'question*.sql' | sort)
verdict 'ten questions' "$([ "$(echo "$questions" | wc -l)" -ge 10 ] || echo "$questions")"

stock= # set where sqlite3 can be used as well
if command -v sqlite3 >/dev/null; then stock=yes; else skip 'sqlite3 is not installed'; fi
for question in $questions; do
    title=$(basename "$question" .sql)
    rows=0
    for run in $runs; do
        problem=
        "$esper" sql "$work/$run" - --csv <"$question" >"$work/answer" 2>"$work/err" || problem=$(cat "$work/err")
        verdict "$title, $run" "$problem"
        rows=$((rows + $(wc -l <"$work/answer") - 1))
        if [ -z "$stock" ] || grep -Eq '(stddev|median|percentile|corr)\(' "$question"; then continue; fi
        problem=
        sqlite3 -readonly "$work/$run/telemetry.db" <"$question" >"$work/stock" 2>"$work/err" || problem=$(cat "$work/err")
        [ "$(wc -l <"$work/stock")" -eq "$(($(wc -l <"$work/answer") - 1))" ] ||
            problem="$problem; $(wc -l <"$work/stock") rows"
        verdict "$title, $run, by sqlite3" "$problem"
    done
    enough "$title: rows" "$rows"
done

# ---- the tables ------------------------------------------------------------------------------------------------------
sed -n '/^## Tables/,/^## When/s/^| `\([a-z_]*\)` .*/\1/p' "$page" | sort >"$work/described"
"$esper" sql "$work/learnt" "select name from sqlite_master where type in ('table', 'view')" --csv | tr -d '\r' |
    sed 1d | sort >"$work/present"
verdict 'the tables described are those there are' "$(diff "$work/described" "$work/present" 2>&1)"
while read -r table; do
    columns=$(sed -n "s/^| \`$table\` | [^|]* | \(.*\) |\$/\1/p" "$page" | grep -o '`[a-z0-9_]*`' | tr -d '`')
    enough "$table: columns described" "$(echo "$columns" | wc -w)"
    verdict "$table: columns" \
        "$("$esper" sql "$work/learnt" "select $(echo $columns | sed 's/ /, /g') from $table limit 0" 2>&1 >/dev/null)"
done <"$work/described"

# ---- esper inspect ---------------------------------------------------------------------------------------------------
inspected() { # inspected RUN TEXT...: inspect works, its output has a line with each TEXT
    run=$1
    problem=
    "$esper" inspect "$work/$run" >"$work/out" 2>&1 || problem="exit code $?"
    shift
    for text in "$@"; do
        grep -qF -- "$text" "$work/out" || problem="$problem; no line says \"$text\""
    done
    verdict "inspect $run" "$problem"
}
counts() { # counts RUN: inspect's rows are the record's
    problem=
    while read -r table; do
        shown=$(sed -n "/^record,/,/^\$/s/^  $table  *\([0-9]*\).*/\1/p" "$work/out")
        there=$(number "$1" "select count(*) from $table")
        [ "$shown" = "$there" ] || problem="$problem; $table: $shown, there are $there"
    done <"$work/present"
    verdict "inspect $1: rows" "$problem"
}
inspected learnt ': finished, 6 rounds' "record, $(wc -c <"$work/learnt/telemetry.db") bytes" 'nothing to resume' \
    "esper train --resume $work/learnt --rounds 12"
counts learnt

"$esper" train $small --name victim --rounds 1000 >"$work/victim.txt" 2>&1 &
background=$!
wait_for "$work/victim/checkpoints/r000002-s000.ckpt"
inspected victim ': running, ' 'is training it now'
kill -s KILL $background
wait $background 2>/dev/null
background=
inspected victim ': crashed, ' 'this continues from r' "esper train --resume $work/victim"
counts victim
verdict 'the rows before the crash' "$([ "$(number victim 'select count(*) from step')" -ge 320 ] || cat "$work/out")"

"$esper" train --resume "$work/victim" --plain >"$work/victim.txt" 2>&1 &
background=$!
while kill -0 $background 2>/dev/null && ! grep -q '^round' "$work/victim.txt"; do sleep 0.05; done
kill -s INT $background
wait $background
background=
inspected victim ': interrupted, ' 'this continues from r' "esper train --resume $work/victim"
counts victim

# what is missing is shown beside what is there; a record that cannot be read keeps nothing else from being shown
if [ -n "$stock" ]; then
    sqlite3 "$work/victim/telemetry.db" "insert into drops values (0, 1, 'step', 'full', 7, 1, 9),
        (0, 1, 'seed', 'thinned', 11, null, null), (0, 2, 'seed', 'thinned', 2, null, null)"
    inspected victim ' 7 LOST' ' 13 thinned out'
fi
rm "$work"/victim/telemetry.db*
inspected victim ': interrupted, ' 'UNUSABLE: ' "esper train --resume $work/victim"

conclude
