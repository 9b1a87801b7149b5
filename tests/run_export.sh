#!/bin/sh
# Networks leave a run: grown by script in real runs, exported in both forms, run again. Their accuracy is the one that
# the trainer recorded; the logits of both forms agree; so do PyTorch, onnx and onnxruntime where they are installed.
# Usage: run_export.sh ESPER (from the project's root).
set -u
LC_ALL=C
export LC_ALL
esper=$1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
passed=0
failed=0
small="--envs 2 --rounds 1 --set data.batches=4 --set data.test_images=500 --runs $work --quiet"

verdict() { # verdict NAME PROBLEM
    if [ -z "$2" ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED $1: $2"
    fi
}

# script NAME BLUEPRINT STYLE BLUEPRINT STYLE BLUEPRINT STYLE: a fossil in each slot, the last one made by the last action,
# and a fourth seed that is still blending when the round ends: it is not part of the committed network
script() {
    cat >"$work/$1.json" <<JSON
[{"step": 1, "op": "germinate", "slot": "r0c0", "blueprint": "$2", "style": "$3"},
 {"step": 2, "op": "germinate", "slot": "r0c1", "blueprint": "$4", "style": "$5"},
 {"step": 11, "op": "germinate", "slot": "r0c2", "blueprint": "$6", "style": "$7"},
 {"step": 17, "op": "fossilize", "slot": "r0c0"},
 {"step": 18, "op": "germinate", "slot": "r1c0", "blueprint": "conv_light", "tempo": 8},
 {"step": 20, "op": "fossilize", "slot": "r0c1"},
 {"step": 30, "op": "fossilize", "slot": "r0c2"}]
JSON
}
script one conv_light linear_add bottleneck gated_gate depthwise linear_multiply
script two conv_heavy gated_gate attention linear_multiply norm sigmoid_add
script three conv_small linear_multiply norm gated_gate attention linear_add
script four depthwise gated_gate noop linear_multiply bottleneck linear_multiply

python=/usr/bin/python3
"$python" -c 'import torch' 2>/dev/null || python=
[ -n "$python" ] || echo 'python3-torch is not installed: the comparison with PyTorch and onnx is skipped'

for name in one two three four; do
    kernel=1
    [ $name != four ] || kernel=3
    problem=
    "$esper" train --script "$work/$name.json" --name $name $small --steps 30 --set host.kernel=$kernel \
        --set slots=r0c0,r0c1,r0c2,r1c0 >"$work/out" 2>&1 || problem=$(cat "$work/out")
    model=$work/$name.safetensors onnx=$work/$name.onnx
    "$esper" export $name --runs "$work" --safetensors "$model" --onnx "$onnx" >"$work/export" 2>&1 ||
        problem="$problem$(cat "$work/export")"
    grep -q 'r0c0 .*r0c1 .*r0c2 .* parameters grown' "$work/export" && ! grep -q 'r1c0' "$work/export" ||
        problem="$problem; $(cat "$work/export")"
    verdict "$name: export" "$problem"

    # the same images that the trainer tested on, and the same count of them right
    "$esper" infer "$model" synthetic --images 500 --output "$work/a" >"$work/infer" 2>&1
    "$esper" infer "$onnx" synthetic --images 500 -o "$work/b" >"$work/infer_onnx" 2>&1
    line=$(grep '^accuracy' "$work/infer" | sed 's/,.*//')
    [ -n "$line" ] && [ "$line" = "$(grep '^accuracy' "$work/infer_onnx" | sed 's/,.*//')" ]
    verdict "$name: both forms" "$([ $? -eq 0 ] || cat "$work/infer" "$work/infer_onnx")"
    if [ -n "$python" ]; then
        "$python" tests/export_peer.py docs/export.md "$model" "$onnx" "$work/a" >"$work/peer" 2>&1
        code=$?
        sed "s/^/$name: /" "$work/peer"
        verdict "$name: peers" "$([ $code -eq 0 ] || tail -3 "$work/peer")"
    fi
    if command -v sqlite3 >/dev/null; then
        env=$(sed -n 's/.* env \([0-9]*\), .*/\1/p' "$work/export")
        recorded=$(sqlite3 "$work/$name/telemetry.db" \
            "select printf('accuracy %.2f %% (%d', test_accuracy, round(test_accuracy * 5)) from outcome where env = $env")
        case $line in "$recorded of 500 test"*) same= ;; *) same="$line; the record says $recorded" ;; esac
        verdict "$name: the accuracy that was recorded" "$same"
    fi
done

# a run that was stopped in the middle of a round: env N as it stands
"$esper" train --script "$work/one.json" --name stopped --envs 2 --rounds 100 --runs "$work" --plain --steps 30 \
    --set slots=r0c0,r0c1,r0c2,r1c0 >"$work/out" 2>&1 &
pid=$!
sleep 0.7
kill -s INT $pid
wait $pid
if grep -q 'and [1-9][0-9]* steps, saved' "$work/out"; then
    "$esper" export stopped --runs "$work" --env 1 --onnx "$work/env.onnx" >"$work/export" 2>&1
    verdict 'env 1 as it stands' "$(grep -q '^a network of stopped, round [0-9]*, env 1, ' "$work/export" || cat "$work/export")"
    "$esper" infer "$work/env.onnx" synthetic --split val --images 100 >"$work/infer" 2>&1
    verdict 'env 1: infer' "$(grep -q '^accuracy .* of 100 val images of synthetic' "$work/infer" || cat "$work/infer")"
else
    echo "the stop did not fall into a round: env N as it stands is not tried; $(tail -1 "$work/out")"
fi

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
