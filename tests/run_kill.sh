#!/bin/sh
# kill -9 at random moments: every time `esper train --resume` goes on, the record passes SQLite's integrity check, and
# in the end the run is the one that nobody disturbed. 10 kills; 200 with ESPER_SOAK set.
# Usage: run_kill.sh ESPER (from the project's root).
. tests/script.inc
kills=${ESPER_SOAK:+200}
kills=${kills:-10}
rounds=40
envs=2
small="--task quickstart --envs $envs --steps 16 --rounds $rounds --set data.batches=2 --set data.val_images=40
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
same_end() { # same_end NAME: it ended as the undisturbed run did
    [ "$("$esper" inspect "$work/$1" --hash)" = "$whole" ] || fail "$1 ends with another hash"
    [ "$(check "$1")" = "ok $rounds $((rounds * envs))" ] || fail "$1: record: $(check "$1")"
    finished=$((finished + 1))
}

"$esper" train $small --name whole >"$work/out" 2>&1 || fail "$(cat "$work/out")"
whole=$("$esper" inspect "$work/whole" --hash)

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
    0) # it came to its end before the signal
        same_end $name
        rm -rf "${work:?}/$name"
        number=$((number + 1))
        continue
        ;;
    *) fail "$name cannot go on (exit code $code): $(cat "$work/out")" ;;
    esac
    if [ -e "$work/$name/telemetry.db" ]; then
        check $name >/dev/null
    fi
done
name=victim$number
if [ -e "$work/$name/run.json" ]; then
    "$esper" train --resume "$work/$name" --quiet >"$work/out" 2>&1 || fail "$(cat "$work/out")"
    same_end $name
fi
echo "$killed kills, $finished runs came to the same end"
