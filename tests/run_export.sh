#!/bin/sh
# Networks leave a run, CNNs and language models: grown by script in real runs, exported in both forms, run again. Their
# score is the one that the trainer recorded; the logits of both forms agree; so do PyTorch, onnx and onnxruntime (for
# Python or for node) where they are installed. Language models write text.
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
node=node
"$node" -e 'require("onnxruntime-node")' 2>/dev/null || node=
[ -n "$node" ] || echo 'onnxruntime-node is not installed: the comparison with it is skipped'

# peers NAME: what others make of the files of NAME
peers() {
    if [ -n "$python" ]; then
        "$python" tests/export_peer.py docs/export.md "$work/$1.safetensors" "$work/$1.onnx" "$work/a" >"$work/peer" 2>&1
        code=$?
        sed "s/^/$1: /" "$work/peer"
        verdict "$1: peers" "$([ $code -eq 0 ] || tail -3 "$work/peer")"
    fi
    if [ -n "$node" ]; then
        "$node" tests/export_peer.cjs "$work/$1.onnx" "$work/a" >"$work/peer" 2>&1
        code=$?
        sed "s/^/$1: /" "$work/peer"
        verdict "$1: onnxruntime" "$([ $code -eq 0 ] || tail -3 "$work/peer")"
    fi
}

# ---- CNNs ------------------------------------------------------------------------------------------------------------
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
    "$esper" infer $name synthetic --images 500 --runs "$work" >"$work/infer_run" 2>&1
    line=$(grep '^accuracy' "$work/infer" | sed 's/,.*//')
    [ -n "$line" ] && [ "$line" = "$(grep '^accuracy' "$work/infer_onnx" | sed 's/,.*//')" ] &&
        [ "$line" = "$(grep '^accuracy' "$work/infer_run" | sed 's/,.*//')" ]
    verdict "$name: both forms" "$([ $? -eq 0 ] || cat "$work/infer" "$work/infer_onnx" "$work/infer_run")"
    peers $name
    if command -v sqlite3 >/dev/null; then
        env=$(sed -n 's/.* env \([0-9]*\), .*/\1/p' "$work/export")
        recorded=$(sqlite3 "$work/$name/telemetry.db" \
            "select printf('accuracy %.2f %% (%d', test_accuracy, round(test_accuracy * 5)) from outcome where env = $env")
        case $line in "$recorded of 500 test"*) same= ;; *) same="$line; the record says $recorded" ;; esac
        verdict "$name: the accuracy that was recorded" "$same"
    fi
done

# ---- language models --------------------------------------------------------------------------------------------------
cat >"$work/language.json" <<JSON
{"host.family": "transformer", "host.width": 16, "host.heads": 2, "host.layers": 3, "host.context": 16, "host.segments": 3,
 "host.lr": 0.001, "seed.lr": 0.001, "slots": ["r0c0", "r0c1", "r0c2"], "data.set": "language", "data.batch": 8,
 "data.val_images": 50, "data.test_images": 100}
JSON
script text_one mlp_small gated_gate attention linear_multiply lora linear_add
script text_two mlp linear_add norm gated_gate lora_large sigmoid_add
script text_slots attention gated_gate mlp linear_multiply norm linear_add

# near NUMBER NUMBER LIMIT
near() {
    echo "$1 $2 $3" | awk '{ d = $1 - $2; exit !(NF == 3 && d <= $3 && -d <= $3) }'
}

for name in text_one text_two text_slots; do
    problem= layers=3
    [ $name != text_slots ] || layers=0
    grep -v r1c0 "$work/$name.json" >"$work/slots.json"
    "$esper" train --task "$work/language.json" --script "$work/slots.json" --name $name --envs 1 --rounds 1 --steps 30 \
        --set data.batches=4 --set host.layers=$layers --runs "$work" --quiet >"$work/out" 2>&1 || problem=$(cat "$work/out")
    model=$work/$name.safetensors onnx=$work/$name.onnx
    "$esper" export $name --runs "$work" --safetensors "$model" --onnx "$onnx" >"$work/export" 2>&1 ||
        problem="$problem$(cat "$work/export")"
    grep -q 'points, [0-9.]* bits per byte$' "$work/export" || problem="$problem; $(cat "$work/export")"
    grep -q 'r0c0 .*r0c1 .*r0c2 .* parameters grown' "$work/export" || problem="$problem; $(cat "$work/export")"
    verdict "$name: export" "$problem"

    # the windows that the trainer tested on
    score='^bits per byte \([0-9.]*\), loss [0-9.]* nats, score \([0-9.]*\) points (100 test windows of 16 bytes of language).*'
    "$esper" infer "$model" language --images 100 --output "$work/a" >"$work/infer" 2>&1
    "$esper" infer "$onnx" language --images 100 >"$work/infer_onnx" 2>&1
    "$esper" infer $name language --images 100 --runs "$work" >"$work/infer_run" 2>&1
    bits=$(sed -n "s/$score/\1/p" "$work/infer") points=$(sed -n "s/$score/\2/p" "$work/infer")
    near "$bits" "$(sed -n "s/$score/\1/p" "$work/infer_onnx")" 0.00011 &&
        near "$bits" "$(sed -n "s/$score/\1/p" "$work/infer_run")" 0 && near "$bits" "$(echo "$points" | awk '{ print 8 - $1 * 0.08 }')" 0.001
    verdict "$name: both forms" "$([ $? -eq 0 ] || cat "$work/infer" "$work/infer_onnx" "$work/infer_run")"
    peers $name
    if command -v sqlite3 >/dev/null; then
        recorded=$(sqlite3 "$work/$name/telemetry.db" 'select test_accuracy from outcome')
        near "$points" "$recorded" 0.011
        verdict "$name: the score that was recorded" "$([ $? -eq 0 ] || echo "$points; the record says $recorded")"
    fi
done

# sampled NAME OPTIONS...: into $work/NAME
sampled() {
    to=$work/$1
    shift
    "$esper" sample "$@" --bytes 300 >"$to" 2>&1
}
sampled s1 text_one --runs "$work" --prompt '([' --seed 1
sampled s2 text_one --runs "$work" --prompt '([' --seed 1
sampled s3 text_one --runs "$work" --prompt '([' --seed 2
sampled s4 "$work/text_one.onnx" --temperature 0 --seed 1
sampled s5 "$work/text_one.safetensors" --temperature 0 --seed 2
sampled s6 "$work/text_one.safetensors" --temperature 1e-9 --prompt "$(printf '\nx')"
verdict 'sample: as many bytes as asked for' "$([ "$(wc -c <"$work/s1")" -eq 300 ] || head -c 300 "$work/s1")"
verdict 'sample: the same seed' "$(cmp "$work/s1" "$work/s2" 2>&1)"
verdict 'sample: another seed' "$(cmp -s "$work/s1" "$work/s3" && echo 'the same bytes')"
verdict 'sample: the likeliest bytes, by any seed and from either form' "$(cmp "$work/s4" "$work/s5" 2>&1)"
verdict 'sample: the prompt counts' "$(cmp -s "$work/s5" "$work/s6" && echo 'the same bytes')"
if env script --version >/dev/null 2>&1; then # at this temperature any byte may come
    env script -qec "$esper sample $work/text_one.onnx --temperature 100 --bytes 400" /dev/null >"$work/terminal" </dev/null
    verdict 'sample: a terminal is not steered' \
        "$(grep -q '\\x[01][0-9a-f]' "$work/terminal" && ! tr -d '\r\n\t' <"$work/terminal" | grep -q '[[:cntrl:]]' || echo no)"
fi

# ---- the policy ------------------------------------------------------------------------------------------------------
learner="--envs 2 --rounds 2 --steps 12 --set data.batches=1 --set data.val_images=20 --set data.test_images=20
    --set policy.feature_dim=16 --set policy.hidden=16 --runs $work --quiet"
"$esper" train $learner --name learner >"$work/out" 2>&1 || cat "$work/out"
"$esper" export learner --runs "$work" --policy "$work/grower.policy" >"$work/export" 2>&1
verdict 'a policy' "$(grep -q '^wrote .*grower.policy, the policy of learner; play it with: ' "$work/export" || cat "$work/export")"
for from in learner grower.policy learner/checkpoints/r000002-s000.ckpt; do
    rm -rf "$work/played" "$work/went-on"
    "$esper" eval "$work/$from" --episodes 4 --runs "$work" --name played --quiet >"$work/out" 2>&1 || cat "$work/out"
    "$esper" train $learner --from "$work/$from" --name went-on >"$work/out" 2>&1 || cat "$work/out"
    echo "$("$esper" inspect "$work/played" --hash) $("$esper" inspect "$work/went-on" --hash)" >>"$work/hashes"
done
verdict 'it plays and learns as in its run, from any file' "$([ "$(sort -u "$work/hashes" | wc -l)" -eq 1 ] || cat "$work/hashes")"
verdict 'and is smaller than a checkpoint' "$([ "$(wc -c <"$work/grower.policy")" -lt "$(wc -c <"$work/learner/checkpoints/r000002-s000.ckpt")" ] ||
    ls -l "$work")"
"$esper" eval "$work/grower.policy" --task quick_mixed --episodes 2 --steps 12 --runs "$work" --quiet >"$work/out" 2>&1
verdict 'on another task' "$(grep -q '^[^ ]*/grower-on-quick_mixed-ppo: ' "$work/out" || cat "$work/out")"

# refused CODE TEXT ARGUMENTS...
refused() {
    code=$1 text=$2
    shift 2
    "$esper" "$@" >"$work/out" 2>"$work/err"
    got=$?
    verdict "$text" "$([ $got -eq "$code" ] && grep -qF -- "$text" "$work/err" && [ "$(wc -l <"$work/err")" -eq 1 ] ||
        echo "$got: $(cat "$work/err")")"
}
refused 2 'has no array best.accuracy' eval "$work/grower.policy" --policy replay --runs "$work" --quiet
refused 2 'is a file; a run is a directory' train --resume "$work/grower.policy" --quiet
refused 2 '--policy -: a policy goes to a file' export learner --runs "$work" --policy -
refused 2 'has learned no policy' export one --runs "$work" --policy "$work/none"
sed 's/policy.w/policy.x/' "$work/grower.policy" >"$work/bent.policy"
refused 2 'it is damaged or cut short' eval "$work/bent.policy" --runs "$work" --quiet
head -c 5000 "$work/grower.policy" >"$work/cut.policy"
refused 2 'it is damaged or cut short' eval "$work/cut.policy" --runs "$work" --quiet

# ---- an env as it stands ---------------------------------------------------------------------------------------------
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
