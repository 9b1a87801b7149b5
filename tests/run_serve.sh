#!/bin/sh
# esper serve and esper train --serve as a user starts and stops them.
# Usage: run_serve.sh ESPER (from the project's root).
. tests/script.inc
small="--task quickstart --envs 2 --set data.batches=1 --set data.val_images=40 --set data.test_images=40
    --set policy.feature_dim=16 --set policy.hidden=16 --quiet"
root=$PWD
enter_work

# what scripts/embed puts into the program is what the files hold
mkdir page
printf '<!DOCTYPE html>' >page/index.html
"$esper" --help >page/app.js
head -c 5000 "$esper" >page/icon.png
"$root/scripts/embed" page page >assets.c
cat >print.c <<'END'
#include <stdio.h>
#include <string.h>
#include "view/assets.h"
int main(int count, char **words)
{
    for (int i = 0; i < page_asset_count; i++)
        if (count == 3 && strcmp(page_assets[i].name, words[1]) == 0)
            fwrite(*words[2] == 'g' ? page_assets[i].gzip : page_assets[i].plain, 1,
                   *words[2] == 'g' ? page_assets[i].gzip_bytes : page_assets[i].plain_bytes, stdout);
    return page_asset_count;
}
END
${CC:-cc} -I"$root/src" print.c assets.c -o print
for file in index.html app.js icon.png; do
    ./print $file plain >plain
    ./print $file gzip | gzip -d >unpacked
    verdict "embedded $file" "$(cmp page/$file plain && cmp page/$file unpacked || echo differs)"
done
"$root/scripts/embed" nowhere page >assets.c
${CC:-cc} -I"$root/src" print.c assets.c -o print && ./print
verdict "nothing to embed" "$([ $? -eq 0 ] || echo "$?")"

if "$esper" serve . --bind nowhere 2>&1 | grep -q libmicrohttpd; then
    skip "this build has no libmicrohttpd"
    conclude
    exit
fi

ask() { # ask URL: what it answers, or nothing
    curl -s -m $((5 * patience)) "$1"
}
gone() { # gone PID SECONDS
    tries=$(($2 * 10))
    while kill -0 "$1" 2>/dev/null && [ $tries -gt 0 ]; do
        sleep 0.1
        tries=$((tries - 1))
    done
    ! kill -0 "$1" 2>/dev/null
}

fails 2 'cannot open' serve nowhere
fails 2 'is a file' serve /proc/self/status
mkdir runs
fails 2 'expected a numeric address' serve runs --bind nowhere
fails 2 'needs --token-file' serve runs --bind 0.0.0.0
fails 2 'needs --token-file' serve runs --bind ::
echo short >token
chmod 644 token
fails 2 'chmod 600' serve runs --token-file token
chmod 600 token
fails 2 'the token has 5 characters' serve runs --token-file token
"$esper" train $small --rounds 2 --runs runs --name first >out 2>&1 || echo "FAILED: $(cat out)"
fails 2 'is a run' serve runs/first

# the URL on stdout, answers, a second server on the same port, Ctrl-C
"$esper" serve runs --port 0 >url 2>note &
background=$!
wait_for url
url=$(cat url)
verdict "the URL" "$(echo "$url" | grep -Eq '^http://127\.0\.0\.1:[0-9]+/$' || echo "\"$url\"")"
port=$(echo "$url" | sed 's/.*:\([0-9]*\).*/\1/')
fails 1 "port $port is taken" serve runs --port "$port"
if command -v curl >/dev/null; then
    verdict "/healthz" "$(ask "${url}healthz" | grep -q '"runs":1' || echo "$(ask "${url}healthz")")"
    verdict "/api/runs" "$(ask "${url}api/runs" | grep -q '"name":"first","state":"finished"' || echo "not there")"
    found=$(ask "${url}api/run/first/series?names=round.val_accuracy_mean" |
        sed 's/.*"last":\[\([^]]*\)\].*/\1/' | tr , '\n' | awk '{ printf "%.12g ", $1 }')
    wanted=$("$esper" sql runs/first --csv 'select val_accuracy_mean from round order by round' | tr -d '\r' |
        awk 'NR > 1 { printf "%.12g ", $1 }')
    verdict "the numbers of esper sql" "$([ "$found" = "$wanted" ] || echo "$found, not $wanted")"
else
    skip "no curl"
fi
kill -s INT $background
wait $background
code=$?
verdict "Ctrl-C" "$([ $code -eq 0 ] || echo "exit code $code")"
background=

# runs from strangers: pipes in place of files, a record with a view without end. Neither they nor what comes after them
# keeps the server from answering, or from ending
for file in run.json status.json lock telemetry.db telemetry.db-wal; do
    cp -r runs/first "runs/pipe-$file"
    rm -f "runs/pipe-$file/$file"
    mkfifo "runs/pipe-$file/$file"
done
if command -v curl >/dev/null && command -v python3 >/dev/null; then
    cp -r runs/first runs/view
    python3 - <<'END'
import sqlite3
db = sqlite3.connect('runs/view/telemetry.db')
db.execute('drop table outcome')
db.execute('create view outcome as with recursive t(x) as (select 1 union all select x + 1 from t) '
           'select x as round, x as env, x as reward from t')
db.commit()
END
    "$esper" serve runs --port 0 >address 2>note &
    background=$!
    wait_for address
    url=$(cat address)
    clients=
    for target in run/view 'compare?runs=first,view' 'compare?runs=view,first' run/view/ask/outcomes run/view/stream \
        run/pipe-lock run/pipe-status.json run/pipe-telemetry.db run/pipe-telemetry.db-wal run/pipe-lock/stream \
        run/pipe-run.json; do
        curl -s -m 8 -o /dev/null "${url}api/$target" &
        clients="$clients $!"
    done
    verdict "strangers' runs: another one" "$(curl -s -m $((3 * patience)) "${url}api/run/first" | grep -q '"state":"finished"' || echo "no answer")"
    verdict "strangers' runs: the list" \
        "$(curl -s -m $((3 * patience)) "${url}api/runs" | grep -q 'holds a view' || echo "no answer, or it does not say why")"
    begun=$(date +%s)
    kill -s TERM $background
    wait $background
    code=$?
    verdict "SIGTERM" "$([ $code -eq 0 ] && [ $(($(date +%s) - begun)) -le $((4 * patience)) ] || echo "exit code $code, $(($(date +%s) - begun)) s")"
    background=
    for client in $clients; do
        wait "$client"
    done
    "$esper" compare runs/first runs/view >out 2>note
    verdict "compare" "$([ $? -eq 2 ] && grep -q 'holds a view "outcome"' note || cat note)"
fi
rm -rf runs/pipe-* runs/view address

# a request that waits for a disk which does not answer: the server gives it a few seconds (looked at below) and ends
faults=$(dirname "$esper")/tests/faults/libfaults.so
hung=
if command -v curl >/dev/null && [ -e "$faults" ]; then
    LD_PRELOAD=$faults FAULTS_FAIL=lock:1:hang:on "$esper" serve runs --port 0 >address 2>note &
    hung=$!
    wait_for address
    curl -s -m 1 -o /dev/null "$(cat address)api/run/first"
    verdict "a request that hangs" "$([ $? -eq 28 ] || echo 'it was answered')"
    kill -s TERM $hung
    sleep 0.5
    verdict "a request that hangs: its time" "$(kill -0 $hung 2>/dev/null || echo 'the server did not wait for it')"
    rm address
else
    skip "a request that hangs: no curl, or no fault library for this build"
fi

# during training: the address, the run while it trains, and the end of both
"$esper" train $small --rounds 100000 --runs runs --name second --serve >out 2>address &
background=$!
wait_for address
url=$(sed -n 's/^watch it at //p' address)
child=$(cat /proc/$background/task/*/children 2>/dev/null | awk '{ print $1 }')
verdict "the address" "$(echo "$url" | grep -Eq '^http://127\.0\.0\.1:[0-9]+/$' || echo "no: $(cat address)")"
if command -v curl >/dev/null; then
    tries=0
    until ask "${url}api/run/second/ask/summary" | grep -q '"truncated":false' || [ $tries -ge 50 ]; do
        sleep 0.1
        tries=$((tries + 1))
    done
    verdict "a live run" "$(ask "${url}api/run/second" | grep -q '"state":"running"' || echo "not running")"
    (curl -s -N -m 60 "${url}api/run/second/stream" >events) &
    listener=$!
    tries=0
    until grep -qs '^event: tick' events || [ $tries -ge 100 ]; do
        sleep 0.1
        tries=$((tries + 1))
    done
fi
kill -s KILL $background
wait $background 2>/dev/null
background=
if command -v curl >/dev/null; then
    wait $listener
    verdict "hello" "$(grep -q '^event: hello' events || echo none)"
    verdict "ticks" "$(grep -q '^event: tick' events || echo none)"
    verdict "its death is reported" "$(tail -2 events | grep -q '"state":"crashed"' || echo "no: $(tail -3 events)")"
fi
if [ -n "$child" ]; then
    verdict "the server ends with the trainer" "$(gone "$child" 8 || echo "process $child is still there")"
fi
if [ -n "$hung" ]; then
    gone "$hung" 8 || kill -s KILL "$hung"
    wait "$hung"
    code=$?
    verdict "a request that hangs: SIGTERM" "$([ $code -eq 0 ] || echo "exit code $code")"
fi
conclude
