#!/bin/sh
# Equal seeds, equal bits: the same run twice; on one thread and on two; and a run that was stopped in the middle of a
# round and resumed. A run knows how many rounds it should have, counts them from 1 for people, and its report says how to
# reproduce it. Usage: run_resume.sh ESPER (from the project's root).
. tests/script.inc

# 24 steps let seeds come into blending and be fossilised
small="--task quickstart --envs 3 --steps 24 --set data.batches=2 --set data.val_images=40 --set data.test_images=40
    --set policy.feature_dim=32 --set policy.hidden=32 --set checkpoint.rounds=5 --runs $work"

train() { # train NAME OPTIONS...
    name=$1
    shift
    "$esper" train $small --name "$name" --quiet "$@" >"$work/out" 2>"$work/err" || { cat "$work/err"; exit 1; }
}
hash_of() { "$esper" inspect "$work/$1" --hash; }
same() { # same WHAT NAME NAME
    one=$(hash_of "$2")
    other=$(hash_of "$3")
    verdict "$1" "$([ -n "$one" ] && [ "$one" = "$other" ] || echo "$one and $other")"
}

train whole --rounds 12
train again --rounds 12
same 'the same seed twice' whole again
train one --rounds 12 --threads 1
train two --rounds 12 --threads 2
same 'one thread and two' one two
same 'all threads and one' whole one
train other --rounds 12 --seed 7
[ "$(hash_of whole)" != "$(hash_of other)" ] || verdict 'another seed' 'the same hash'
for policy in random heuristic; do
    train $policy-1 --rounds 3 --threads 1 --policy $policy
    train $policy-2 --rounds 3 --threads 2 --policy $policy
    same "$policy on one thread and two" $policy-1 $policy-2
done

# Stop after round 7, in the middle of a round. Where the signal lands is chance, and a round begins with its twins: try,
# later each time, until it lands there.
tries=0
while [ $tries -lt 10 ]; do
    rm -rf "$work/stopped"
    "$esper" train $small --rounds 12 --name stopped --plain >"$work/out" 2>"$work/err" &
    background=$!
    while kill -0 $background 2>/dev/null && ! grep -q '^round 7/' "$work/err"; do sleep 0.02; done
    sleep "0.$(printf %02d $((tries * 3)))"
    kill -s INT $background 2>/dev/null
    wait $background
    code=$?
    background=
    [ $code -eq 130 ] && ! grep -q ' and 0 steps' "$work/out" && break
    tries=$((tries + 1))
done
[ $code -eq 130 ] || verdict 'SIGINT' "exit code $code: $(cat "$work/out")"
grep -q 'stopped after [0-9]* rounds and [1-9][0-9]* steps, saved' "$work/out" ||
    verdict 'SIGINT in the middle of a round' "it did not stop there: $(cat "$work/out")"
"$esper" train --resume "$work/stopped" --threads 1 --quiet >"$work/out" 2>"$work/err" || cat "$work/err"
same 'stopped in a round and resumed' whole stopped

# A run that was extended is the run that was longer from the start only where nothing depends on the number of rounds;
# the entropy bonus does, so this one keeps it constant.
level="--set ppo.entropy_coef=0.02 --set ppo.entropy_coef_end=0.02"
train long --rounds 6 $level
train short --rounds 4 $level
"$esper" train --resume "$work/short" --rounds 6 --quiet >"$work/out" 2>"$work/err" || cat "$work/err"
same 'extended by --rounds' long short

# ---- how many rounds a run is to have --------------------------------------------------------------------------------
recipe_of() { # recipe_of NAME: the commands in its report
    rm -f "$work/$1.html"
    "$esper" report "$work/$1" --output "$work/$1.html" >/dev/null
    sed -n '/<pre>/,/<\/pre>/p' "$work/$1.html" |
        sed "s/.*<pre>//; s/<\/pre>.*//; s/&#39;/'/g; s/&quot;/\"/g; s/&lt;/</g; s/&gt;/>/g; s/&amp;/\&/g"
}
replays() { # replays NAME: they make the same bits in an empty folder
    recipe_of "$1" >"$work/recipe"
    rm -rf "$work/fresh"
    mkdir "$work/fresh"
    (
        esper() {
            command=$1
            shift
            "$esper" "$command" "$@" --quiet
        }
        cd "$work/fresh" && . "$work/recipe"
    ) >"$work/out" 2>&1
    verdict "the recipe of $1" "$([ "$("$esper" inspect "$work/fresh/runs/$1" --hash)" = "$(hash_of "$1")" ] ||
        cat "$work/recipe" "$work/out")"
    grep -q "$(hash_of "$1")" "$work/$1.html" || verdict "the hash in the report of $1" 'another one'
}
says() { # says WHAT PATTERN FILE
    verdict "$1" "$(grep -q "$2" "$3" || { echo "it does not say \"$2\""; head -5 "$3"; })"
}

printf '[{"step": 1, "op": "germinate", "slot": "r0c1", "blueprint": "norm", "style": "linear_add", "tempo": 3}]' >"$work/one.json"
train scripted --rounds 1 --policy script --script "$work/one.json" --set slots=r0c1,r0c0
rm "$work/one.json" # the run has its own
replays scripted
train grown --rounds 3 --set ppo.lr=0.00061 --seed 9
replays grown
"$esper" train --resume "$work/grown" --rounds 5 --quiet >"$work/out" 2>"$work/err" || cat "$work/err"
says 'a longer run is told' '5 rounds done' "$work/out"
replays grown
says 'the report plans them' ' 5 rounds planned' "$work/grown.html"
train direct --rounds 5 --set ppo.lr=0.00061 --seed 9
[ "$(hash_of direct)" != "$(hash_of grown)" ] || verdict 'the number of rounds matters' 'the same hash'
"$esper" inspect "$work/grown" >"$work/out"
says 'inspect plans them' '  rounds  *5$' "$work/out"
fails 4 'grown has 5 rounds done; ask for more than 5' train --resume "$work/grown" --rounds 4
shows 'all of its 5 rounds are done' train --resume "$work/grown"
shows 'all of its 5 rounds are done' train --resume "$work/grown" --rounds 5
[ "$("$esper" sql "$work/grown" --csv "select json_extract(configuration, '\$.rounds') from run" | tail -1 | tr -d '\r')" = 5 ] ||
    verdict 'the record plans them' 'another number'
"$esper" train --resume "$work/stopped" --rounds 13 --quiet >"$work/out" 2>"$work/err" || cat "$work/err"
recipe_of stopped >"$work/out"
says 'the end of the plan needs no word' '^esper train --resume stopped --rounds 13$' "$work/out"
mv "$work/stopped/plan.json" "$work/plan" # as if it had been stopped in round 8
sed 's/"from":[[:space:]]*12/"from": 7/' "$work/plan" >"$work/stopped/plan.json"
recipe_of stopped >"$work/out"
says 'what came before its end does' ' --rounds 12 --name stopped   # stop it with Ctrl-C while it plays round 8$' "$work/out"
printf '{"stages": [' >"$work/stopped/plan.json"
fails 2 'plan.json' inspect "$work/stopped"

# ---- rounds count from 1, SQL's from 0 and 8388608 ---------------------------------------------------------------------
"$esper" eval "$work/grown" --episodes 6 --quiet --runs "$work" >"$work/out" 2>"$work/err" || cat "$work/err"
eval=$work/grown-eval-ppo
[ "$("$esper" sql "$eval" --csv 'select min(round), max(round) from round' | tail -1 | tr -d '\r')" = 8388608,8388609 ] ||
    verdict 'rounds of an evaluation in SQL' 'other numbers'
shows 'from 0, in evaluations from 8388608; screens and exports count from 1' sql "$eval"

# ---- a policy on a task that it has not seen: the same in one line as with everything spelt out -------------------------
other='--task quick_mixed --episodes 3 --envs 3 --steps 12 --quiet'
own() { "$esper" sql "$work/grown" --csv "select configuration ->> '\$.\"policy.$1\"' from run" | tail -1 | tr -d '\r'; }
# shellcheck disable=SC2086
"$esper" eval "$work/grown" $other --runs "$work" >"$work/out" 2>"$work/err" || cat "$work/err"
# shellcheck disable=SC2086
"$esper" eval $other --policy ppo --from "$work/grown" --set "policy.hidden=$(own hidden)" \
    --set "policy.feature_dim=$(own feature_dim)" --set "policy.temperature=$(own temperature)" --runs "$work" --name spelt >"$work/out" 2>"$work/err" || cat "$work/err"
[ "$("$esper" inspect "$work/grown-on-quick_mixed-ppo" --hash)" = "$("$esper" inspect "$work/spelt" --hash)" ] ||
    verdict 'a policy on another task' 'other bits than with --policy ppo --from'
for run in "$work/grown" "$eval"; do
    for table in round outcome life step phase; do
        "$esper" export "$run" --csv $table | sed -n 2p >"$work/out"
        says "$run: $table" '^1,' "$work/out"
    done
    "$esper" export "$run" --trace - | grep -m 1 '"round":' >"$work/out"
    says "$run: its trace" '"round":1,' "$work/out"
done
"$esper" export "$eval" --jsonl "$work/eval.jsonl" >/dev/null
"$esper" report "$eval" --output "$work/eval.html" >/dev/null
for file in eval.jsonl eval.html; do
    verdict "$file" "$(grep -o '.\{30\}83886[01][0-9].\{10\}' "$work/$file" | head -1)"
done
says 'rounds done of a checkpoint' '"table":"checkpoint",.*"round":2,' "$work/eval.jsonl"

conclude
