#!/bin/sh
# Equal seeds, equal bits: the same run twice; on one thread and on two; and a run that was stopped in the middle of a
# round and resumed. Usage: run_resume.sh ESPER (from the project's root).
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

train whole --rounds 20
train again --rounds 20
same 'the same seed twice' whole again
train one --rounds 20 --threads 1
train two --rounds 20 --threads 2
same 'one thread and two' one two
same 'all threads and one' whole one
train other --rounds 20 --seed 7
[ "$(hash_of whole)" != "$(hash_of other)" ] || verdict 'another seed' 'the same hash'
for policy in random heuristic; do
    train $policy-1 --rounds 3 --threads 1 --policy $policy
    train $policy-2 --rounds 3 --threads 2 --policy $policy
    same "$policy on one thread and two" $policy-1 $policy-2
done

# Stop after round 7, in the middle of a round. Where the signal falls is chance: try until it falls there.
tries=0
while [ $tries -lt 10 ]; do
    rm -rf "$work/stopped"
    "$esper" train $small --rounds 20 --name stopped --plain >"$work/out" 2>"$work/err" &
    background=$!
    while kill -0 $background 2>/dev/null && ! grep -q '^round 7/' "$work/err"; do sleep 0.02; done
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
# the entropy bonus does, so this one keeps it level.
level="--set ppo.entropy_coef=0.02 --set ppo.entropy_coef_end=0.02"
train long --rounds 6 $level
train short --rounds 4 $level
"$esper" train --resume "$work/short" --rounds 6 --quiet >"$work/out" 2>"$work/err" || cat "$work/err"
same 'extended by --rounds' long short

conclude
