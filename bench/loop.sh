#!/bin/sh
# Speed of the whole loop on this machine: two rounds of a fresh policy, update included, on the workload of the original's
# CPU figures: 4 envs x 150 steps, batch 128, 1 024 training and 250 validation images per env-step, 3 slots, policy 512.
# The counts at the end of a line are the slots by stage: T training, B blending, H holding, F fossilised.
# Needs CIFAR-10 (esper data get cifar10).   Usage: bench/loop.sh [ESPER]
set -eu
cd "$(dirname "$0")/.."
esper=${1:-build/esper}
runs=$(mktemp -d)
trap 'rm -rf "$runs"' EXIT
work="--envs 4 --steps 150 --rounds 2 --set data.batch=128 --set data.batches=8 --set data.val_images=250
    --set policy.feature_dim=512 --set policy.hidden=512 --set ppo.epochs=4 --runs $runs --plain"

# A script that fills every slot gives the figure for grown hosts: conv_light in each, one after the other.
grown=$runs/grown.json
cat >"$grown" <<'SCRIPT'
[{"step": 1, "op": "germinate", "slot": "r0c0", "blueprint": "conv_light", "tempo": 3},
 {"step": 15, "op": "germinate", "slot": "r0c1", "blueprint": "conv_light", "tempo": 3},
 {"step": 29, "op": "germinate", "slot": "r0c2", "blueprint": "conv_light", "tempo": 3}]
SCRIPT

for task in cifar_impaired cifar_baseline; do
    echo "$task, fresh policy"
    "$esper" train --task $task --name $task $work 2>&1 | grep '^round.*env-steps'
    echo "$task, conv_light in every slot from step 42 on (script, no policy)"
    "$esper" train --task $task --name $task-grown $work --policy script --script "$grown" --rounds 1 2>&1 |
        grep '^round.*env-steps'
done
