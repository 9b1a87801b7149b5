#!/bin/sh
# Transformers that read a language, from the keys to the record: growing, on any number of threads to the same bits,
# and hosts that cannot be. Usage: run_transformer.sh ESPER
. tests/script.inc
enter_work

cat >tiny.json <<'TASK'
{
    "host.family": "transformer", "host.width": 16, "host.heads": 2, "host.layers": 2, "host.context": 16,
    "host.segments": 2, "slots": ["r0c0", "r0c1"], "host.lr": 0.003, "seed.lr": 0.003,
    "data.set": "language", "data.batch": 8, "data.batches": 4, "data.val_images": 16, "data.test_images": 16,
    "envs": 2, "steps": 20, "rounds": 2, "device": "cpu"
}
TASK

# ---- seeds of several blueprints come to life and blend in -----------------------------------------------------------
cat >script.json <<'SCRIPT'
[{"step": 1, "env": 0, "op": "germinate", "slot": "r0c0", "blueprint": "attention", "style": "gated_gate", "tempo": 3},
 {"step": 1, "env": 1, "op": "germinate", "slot": "r0c1", "blueprint": "mlp", "style": "linear_multiply", "tempo": 3}]
SCRIPT
for threads in 1 2; do
    "$esper" train --task ./tiny.json --policy script --script script.json --threads $threads --name grown$threads \
        --quiet >out 2>err
    verdict "grows on $threads threads" "$(grep -v ': 2 rounds done' out err)"
done
verdict 'the same bits on any number of threads' \
    "$([ "$("$esper" inspect runs/grown1 --hash)" = "$("$esper" inspect runs/grown2 --hash)" ] || echo 'they differ')"
blended=$("$esper" sql runs/grown1 "select count(distinct blueprint) from seed where alpha > 0" | tail -1 | tr -d ' ')
verdict 'attention and mlp blend in' "$([ "$blended" = 2 ] || echo "$blended blueprints did")"

# ---- without layers everything must grow; stopped after a round and resumed, it is the run that was not -----------------
for name in whole halves; do
    rounds=2
    [ $name = whole ] || rounds=1
    "$esper" train --task ./tiny.json --set host.layers=0 --policy script --script script.json --rounds $rounds --name $name \
        --quiet >out 2>err
    verdict "grows without layers: $name" "$(grep -v ': [12] rounds* done' out err)"
done
"$esper" train --resume runs/halves --rounds 2 --quiet >out 2>err
verdict 'resumes without layers' "$([ "$("$esper" inspect runs/whole --hash)" = "$("$esper" inspect runs/halves --hash)" ] || cat out err)"
blended=$("$esper" sql runs/whole "select count(distinct blueprint) from seed where alpha > 0" | tail -1 | tr -d ' ')
verdict 'attention and mlp blend in without layers' "$([ "$blended" = 2 ] || echo "$blended blueprints did")"

# ---- a policy learns from it, and the host's points rise above guessing ----------------------------------------------
shows ': 2 rounds done' train --task ./tiny.json --name learned --quiet
points=$("$esper" sql runs/learned "select max(val_accuracy) > 30 from step" | tail -1 | tr -d ' ')
verdict 'points rise' "$([ "$points" = 1 ] || echo 'no more than 30')"

# ---- hosts that cannot be --------------------------------------------------------------------------------------------
fails 2 'host.heads = 3: does not divide' config --task ./tiny.json --set host.heads=3
fails 2 'host.segments = 2: does not divide' config --task ./tiny.json --set host.layers=3
fails 2 'r0c1 is not on this host' config --task ./tiny.json --set host.segments=1
conclude
