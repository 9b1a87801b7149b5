#!/bin/sh
# A directory of many runs, for what shows them: four short ones that were trained, with two settings and two seeds, and
# copies of them whose settings, seeds and tags differ. Copies have no checkpoints.
# Usage: many_runs.sh ESPER DIRECTORY COUNT [ROUNDS]
set -eu
esper=$1 runs=$2 count=$3 rounds=${4:-30}
mkdir -p "$runs"
models=$(mktemp -d)
trap 'rm -rf "$models"' EXIT
i=0
for rate in 0.0003 0.003; do
    for seed in 1 2; do
        "$esper" train --task quickstart --runs "$models" --name "model$i" --rounds "$rounds" --seed $seed --envs 2 \
            --steps 10 --quiet --threads 1 --set "ppo.lr=$rate" --set data.batches=1 --set data.val_images=64 \
            --set data.test_images=64 --set policy.feature_dim=32 --set policy.hidden=32 >/dev/null 2>&1
        rm -rf "$models/model$i/checkpoints"
        i=$((i + 1))
    done
done
# Ten settings of five seeds each, over and over: a name is its place in the list. One process writes all descriptions.
for i in $(seq 0 $((count - 1))); do
    name=$runs/$(printf 'm%03d' "$i")
    cp -rp "$models/model$((i / 5 % 2 * 2 + i % 2))" "$name"
    echo "$name"
done >"$models/copies"
awk -F '\t' '
{
    i = NR - 1; setting = int(i / 5) % 10; path = $0; name = path; sub(".*/", "", name)
    file = path "/run.json"; text = ""
    while ((getline line < file) > 0) {
        if (line ~ /^\t"name":/) line = "\t\"name\":\t\"" name "\","
        if (line ~ /^\t\t"seed":\t[0-9]/) line = "\t\t\"seed\":\t" i % 5 + 1 ","
        if (line ~ /^\t\t"ppo.lr":\t[0-9]/) line = "\t\t\"ppo.lr\":\t" 0.0001 * (setting + 1) ","
        if (line ~ /^\t\t"ppo.clip":\t[0-9]/) line = "\t\t\"ppo.clip\":\t" 0.1 * (setting % 3 + 1) ","
        text = text line "\n"
    }
    close(file); printf "%s", text > file; close(file)
    label = path "/label.json"
    if (i % 7 == 0) { printf "{\"tags\": [\"kept\", \"set%d\"], \"note\": \"every seventh\"}\n", setting > label; close(label) }
}' "$models/copies"
