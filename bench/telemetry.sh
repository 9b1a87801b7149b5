#!/bin/sh
# What does the record cost? Trains the quick start at every telemetry.level in turn, so that the machine's fluctuations
# affect all alike, and compares the time of the rounds.   Usage: bench/telemetry.sh [TURNS [ROUNDS [ESPER]]]
set -eu
turns=${1:-7}
rounds=${2:-12}
esper=${3:-build/esper}
runs=$(mktemp -d)
trap 'rm -rf "$runs"' EXIT
for turn in $(seq "$turns"); do
    for level in off normal debug; do
        "$esper" train --rounds "$rounds" --runs "$runs" --name "$level-$turn" --quiet --set telemetry.level=$level >/dev/null
        seconds=$("$esper" sql "$runs/$level-$turn" "select sum(seconds) from round" --csv | tail -1 | tr -d '\r')
        bytes=$(stat -c %s "$runs/$level-$turn/telemetry.db")
        echo "$turn $level $seconds $bytes"
    done
done >"$runs/times"
# Within a turn the levels are compared with off; the median turn counts.
awk -v steps="$((rounds * 8 * 40))" '
    { seconds[$1, $2] = $3; bytes[$2] = $4 }
    END {
        turns = $1
        for (i = split("off normal debug", level); i > 0; i--) {
            for (t = 1; t <= turns; t++) ratio[t] = seconds[t, level[i]] / seconds[t, "off"]
            for (a = 1; a < turns; a++) for (b = a + 1; b <= turns; b++)
                if (ratio[b] < ratio[a]) { x = ratio[a]; ratio[a] = ratio[b]; ratio[b] = x }
            middle = int((turns + 1) / 2)
            line[i] = sprintf("%-7s time %.3f of off (%.3f to %.3f), %6.0f bytes per env-step", level[i],
                              ratio[middle], ratio[1], ratio[turns], bytes[level[i]] / steps)
        }
        for (i = 1; i <= 3; i++) print line[i]
    }' "$runs/times"
