#!/bin/sh
# Does watching slow a run down? Trains the quick start alone and with the terminal viewer, a server, 20 streams and a page's
# questions every second, in turn, and compares the time of the rounds. Needs curl.   Usage: bench/watching.sh [TURNS [ROUNDS [ESPER]]]
set -eu
turns=${1:-5}
rounds=${2:-12}
esper=${3:-build/esper}
runs=$(mktemp -d)
watchers=
stop() {
    [ -z "$watchers" ] || kill $watchers 2>/dev/null || true
    pkill -f "tui $runs/" || true # `script` waits for it
    watchers=
}
trap 'stop; rm -rf "$runs"' EXIT
watch() { # watch RUN
    rm -f "$runs/address"
    "$esper" serve "$runs" --port 0 >"$runs/address" 2>/dev/null &
    watchers=$!
    until [ -s "$runs/address" ]; do sleep 0.1; done
    address=$(grep -o 'http://[0-9.:]*' "$runs/address")
    TERM=xterm LINES=40 COLUMNS=120 script -qc "$esper tui $runs/$1" /dev/null >/dev/null 2>&1 </dev/null &
    watchers="$watchers $!"
    # One process for all streams and one for a page's questions, and those at the lowest priority: the clients' own
    # work belongs to other machines.
    stream=$address/api/run/$1/stream
    nice -n 19 curl -sN --parallel --parallel-max 20 $(for i in $(seq 20); do echo "$stream -o /dev/null"; done) 2>/dev/null &
    watchers="$watchers $!"
    pages=$(for question in rounds ppo ops lanes alerts; do echo "$address/api/run/$1/ask/$question -o /dev/null"; done)
    while :; do
        nice -n 19 curl -s $pages || :
        sleep 1
    done &
    watchers="$watchers $!"
}
for turn in $(seq "$turns"); do
    for how in alone watched; do
        name=$how-$turn
        "$esper" train --rounds "$rounds" --runs "$runs" --name "$name" --quiet >/dev/null &
        trainer=$!
        until [ -s "$runs/$name/status.json" ]; do sleep 0.05; done
        [ $how = alone ] || watch "$name"
        wait $trainer
        stop
        echo "$turn $how $("$esper" sql "$runs/$name" 'select sum(seconds) from round' --csv | tail -1 | tr -d '\r')" \
            "$("$esper" inspect "$runs/$name" --hash)"
    done
done >"$runs/times"
awk '{ seconds[$1, $2] = $3; if (hash && hash != $4) different = 1; hash = $4 }
    END {
        for (t = 1; t <= $1; t++) {
            ratio = seconds[t, "watched"] / seconds[t, "alone"]
            printf "turn %d: %.3f of the time alone\n", t, ratio
            sum += ratio
        }
        printf "mean %.3f; the runs are %s\n", sum / $1, different ? "NOT THE SAME" : "the same bit for bit"
        exit different
    }' "$runs/times"
