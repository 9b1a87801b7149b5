#!/bin/sh
# kill -9 at random moments: every time the record passes SQLite's integrity check, answers, and holds every step up to
# the newest checkpoint; `esper train --resume` goes on, and in the end the run and its record are those of an
# undisturbed run. 10 kills; 1000 with ESPER_SOAK set, ESPER_KILLS of them where it says how many.
# Usage: run_kill.sh ESPER (from the project's root).
. tests/script.inc
kills=${ESPER_SOAK:+1000}
kills=${ESPER_KILLS:-${kills:-10}}
rounds=40
envs=2
steps=16
small="--task quickstart --envs $envs --steps $steps --rounds $rounds --set data.batches=2 --set data.val_images=40
    --set data.test_images=40 --set policy.feature_dim=32 --set policy.hidden=32 --set checkpoint.rounds=1
    --runs $work --quiet"

fail() {
    echo "FAILED after $killed kills: $*"
    exit 1
}
killed=0
deps=${DEPS:+-isystem $DEPS/include -L$DEPS/lib -Wl,-rpath,$DEPS/lib}
${CC:-cc} tests/integrity.c $deps -lsqlite3 -o "$work/integrity" || fail "cannot compile tests/integrity.c"
check() { # check NAME: prints "ok ROUNDS OUTCOMES" or fails
    "$work/integrity" "$work/$1/telemetry.db" || fail "the record is damaged"
}
# What does not depend on time: all tables but phase, and checkpoint, round and ppo without their times.
timeless='step seed life subset outcome rollback alert ppo_head drops'
contents() { # contents NAME: a sum of its record
    {
        for table in $timeless; do "$esper" export "$work/$1" --csv $table; done
        "$esper" sql "$work/$1" --csv 'select file, kind, round, step, hash, bytes from checkpoint order by file'
        "$esper" sql "$work/$1" --csv 'select round, reward_mean, prunes, refusals from round order by round'
        "$esper" sql "$work/$1" --csv 'select round, policy_loss, kl, value_scale from ppo order by round'
    } 2>&1 | cksum
}
acknowledged() { # acknowledged NAME: what came before the newest checkpoint is in the record
    newest=$(ls "$work/$1/checkpoints" 2>/dev/null | sed -n 's/^r0*\([0-9]*\)-s0*\([0-9]*\)\.ckpt$/\1 \2/p' | tail -1)
    round=${newest% *}
    step=${newest#* }
    kept=$("$esper" sql "$work/$1" --csv "select count(*) from step where (round, step) <= (${round:-0}, ${step:-0})" \
        2>"$work/err") || fail "$1: esper sql: $(cat "$work/err")"
    kept=$(echo "$kept" | tail -1 | tr -d '\r')
    [ "$kept" = $((envs * (steps * ${round:-0} + ${step:-0}))) ] || fail "$1: $kept env-steps before checkpoint $newest"
}
same_end() { # same_end NAME: it ended as the undisturbed run did
    [ "$("$esper" inspect "$work/$1" --hash)" = "$whole" ] || fail "$1 ends with another hash"
    [ "$(check "$1")" = "ok $rounds $((rounds * envs))" ] || fail "$1: record: $(check "$1")"
    [ "$(contents "$1")" = "$whole_contents" ] || fail "$1: its record differs"
    finished=$((finished + 1))
}

"$esper" train $small --name whole >"$work/out" 2>&1 || fail "$(cat "$work/out")"
whole=$("$esper" inspect "$work/whole" --hash)
whole_contents=$(contents whole)

number=1
finished=0
while [ $killed -lt $kills ]; do
    name=victim$number
    if [ -e "$work/$name/run.json" ]; then
        "$esper" train --resume "$work/$name" --quiet >"$work/out" 2>&1 &
    else
        "$esper" train $small --name $name >"$work/out" 2>&1 &
    fi
    background=$!
    sleep "$(od -An -N2 -tu2 /dev/urandom | awk '{ printf "%.3f", 0.01 + 0.8 * $1 / 65536 }')"
    kill -s KILL $background 2>/dev/null
    wait $background 2>/dev/null
    code=$?
    background=
    case $code in
    137) killed=$((killed + 1)) ;;
    0) # it finished before the signal
        same_end $name
        rm -rf "${work:?}/$name"
        number=$((number + 1))
        continue
        ;;
    *) fail "$name cannot go on (exit code $code): $(cat "$work/out")" ;;
    esac
    if "$esper" sql "$work/$name" 'select count(*) from round' >/dev/null 2>"$work/err"; then
        acknowledged $name # as a reader finds it, before anything has repaired it
        check $name >/dev/null
    elif ls "$work/$name"/checkpoints/r*.ckpt >/dev/null 2>&1; then # else it had no time to make its record
        fail "$name: esper sql: $(cat "$work/err")"
    fi
done
name=victim$number
if [ -e "$work/$name/run.json" ]; then
    "$esper" train --resume "$work/$name" --quiet >"$work/out" 2>&1 || fail "$(cat "$work/out")"
    same_end $name
fi
echo "$killed kills, $finished runs came to the same end"
