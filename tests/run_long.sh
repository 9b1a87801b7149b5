#!/bin/sh
# Many short rounds, in the long form a day's worth of them: no env-step is missing from the record that was not left
# out on purpose, and the process stays as large as it was after a quarter of them. 20480 env-steps; a million with ESPER_SOAK set.
# Usage: run_long.sh ESPER (from the project's root).
. tests/script.inc
rounds=${ESPER_SOAK:+3125}
rounds=${rounds:-64}
room=4096 # KiB: pages that the allocator and SQLite come to use once
"$esper" train --task quickstart --envs 16 --steps 20 --rounds $rounds --set data.batches=1 --set data.batch=4 \
    --set data.val_images=16 --set data.test_images=16 --set policy.feature_dim=16 --set policy.hidden=16 \
    --set ppo.epochs=1 --set checkpoint.rounds=5 --runs "$work" --name long --quiet >"$work/out" 2>&1 &
background=$!

early=0
late=0
round=0
while kill -0 $background 2>/dev/null; do
    size=$(sed -n 's/^VmRSS:[[:space:]]*\([0-9]*\) kB/\1/p' /proc/$background/status 2>/dev/null)
    round=$(sed -n 's/.*"round": *\([0-9]*\).*/\1/p' "$work/long/status.json" 2>/dev/null)
    if [ "${round:-0}" -le $((rounds / 4)) ]; then
        [ "${size:-0}" -le $early ] || early=$size
    else
        [ "${size:-0}" -le $late ] || late=$size
    fi
    sleep 0.1
done
wait $background
code=$?
background=
verdict 'exit code' "$([ $code -eq 0 ] || echo "$code: $(tail -1 "$work/out")")"
verdict 'memory was measured' "$([ $early -gt 0 ] && [ $late -gt 0 ] || echo "$early and $late KiB")"
verdict 'flat memory' "$([ $late -le $((early + room)) ] || echo "$early KiB in the first quarter, $late afterwards")"
ask() { "$esper" sql "$work/long" --csv "$1" | tail -1 | tr -d '\r'; }
rows=$(ask 'select count(*) from step')
thinned=$(ask "select coalesce(sum(count), 0) from drops where name = 'step' and reason = 'thinned'")
verdict 'every env-step is in the record, or left out on purpose' \
    "$([ $((rows + thinned)) -eq $((rounds * 320)) ] || echo "$rows and $thinned of $((rounds * 320))")"
full=$(ask "select coalesce(sum(count), 0) from drops where reason = 'full'")
verdict 'nothing was lost' "$([ "$full" = 0 ] || echo "$full rows")"
echo "$((rows + thinned)) env-steps, $early KiB in the first quarter, $late afterwards"
conclude
