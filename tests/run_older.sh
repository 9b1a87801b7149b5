#!/bin/sh
# Records are kept for years: one made by each version of the record (tests/records/) is read by everything that reads
# records, and continued. Usage: run_older.sh ESPER (from the project's root).
. tests/script.inc
records=$PWD/tests/records
enter_work

small="--envs 2 --steps 14 --rounds 3 --set data.batches=1 --set data.batch=8 --set data.val_images=32
    --set data.test_images=32 --set policy.feature_dim=8 --set policy.hidden=8 --quiet"
"$esper" train $small --name today >out.txt 2>err.txt || verdict 'train' "$(cat err.txt)"
of() { # of RUN SQL: what it answers
    "$esper" sql "$1" "$2" --csv | tail -n +2 | tr -d '\r'
}
columns="select m.name || '.' || c.name from sqlite_master m, pragma_table_info(m.name) c where m.type = 'table' order by 1"

for record in "$records"/v*; do
    name=${record##*/}
    mkdir "runs/$name" "runs/$name/checkpoints"
    cp "$record"/*.json "runs/$name"
    gzip -dc "$record/telemetry.db.gz" >"runs/$name/telemetry.db"
    cp -r "runs/$name" runs/twin

    shows 'finished, 3 rounds and 0 steps done' inspect "$name"
    grep -q UNUSABLE "$work/stdout.txt" && verdict "$name: inspect" "$(grep UNUSABLE "$work/stdout.txt")"
    shows 'validation accuracy at the end of the committed network' sql "$name"
    [ "$(of "$name" 'select count(*), min(round), max(round) from round')" = 3,0,2 ] || verdict "$name: sql" 'other rounds'
    [ "$(of "$name" 'select count(*) from step')" -eq 84 ] || verdict "$name: sql" 'other steps'
    # a column that came or went without a new version would never be added
    if [ "$(of "$name" 'pragma user_version')" = "$(of today 'pragma user_version')" ]; then
        of "$name" "$columns" >then.txt
        of today "$columns" >now.txt
        verdict "$name: its columns" "$(cmp then.txt now.txt || echo 'raise STORE_VERSION, and keep a record of it here')"
    fi
    shows "$name.html" report "$name" --output "$name.html"
    for tile in '3 rounds planned' 'after 3 rounds'; do
        grep -qi "$tile" "$name.html" || verdict "$name: report" "it does not say \"$tile\""
    done
    shows 'test accuracy' compare "$name" twin
    shows '"table":"round","round":3' export "$name" --jsonl -
    match=-q shows '^1,0,' export "$name" --csv outcome
    shows '"ph":"X"' export "$name" --trace -
    shows '3 rounds' export "$name" --tensorboard board

    if command -v curl >/dev/null && ! "$esper" serve . --bind nowhere 2>&1 | grep -q libmicrohttpd; then
        rm -f served.txt # of the record before
        "$esper" serve runs --port 0 >served.txt 2>&1 &
        background=$!
        wait_for served.txt
        url=$(grep -o 'http://[0-9.:]*' served.txt | head -1)
        for what in "run/$name" "run/$name/ask/rounds" "run/$name/ask/lanes" "run/$name/series?names=round.reward_mean"; do
            verdict "$name: $what" "$(curl -sf -m $((10 * patience)) "$url/api/$what" | grep -q '^{' || echo "$url does not answer")"
        done
        kill "$background"
        wait "$background"
        background=
    fi

    # without a checkpoint it begins again, in the same record, if told to
    fails 4 '3 rounds were done, but runs' train --resume "$name" --quiet
    shows '3 rounds done' train --resume "$name" --from-scratch --quiet
    [ "$(of "$name" 'select count(*) from step')" -eq 84 ] || verdict "$name: resume" 'other steps'
    rm -rf runs/twin
done

conclude
