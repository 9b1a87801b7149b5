#!/bin/sh
# Bad input to `esper export`, `esper infer` and `esper sample`: runs that have nothing to export, files that are damaged, foreign or of
# another version, disks that refuse. One clear line, the right exit code, nothing half written.
# Usage: badinput_export.sh ESPER (from the project's root).
set -u
LC_ALL=C
export LC_ALL
case $1 in /*) esper=$1 ;; *) esper=$PWD/$1 ;; esac
ESPER_TASKS=$PWD/tasks
export ESPER_TASKS
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
cd "$work" || exit 1
passed=0
failed=0

verdict() { # verdict NAME PROBLEM
    if [ -z "$2" ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED $1: $2"
    fi
}

# complains CODE TEXT ARGUMENTS...: that exit code, one line on stderr that starts with "esper: " and holds TEXT, no output
complains() {
    code=$1
    text=$2
    shift 2
    "$esper" "$@" >stdout.txt 2>stderr.txt
    got=$?
    problem=
    [ $got -eq "$code" ] || problem="exit code $got, not $code"
    [ "$(wc -l <stderr.txt)" -eq 1 ] || problem="$problem; $(wc -l <stderr.txt) lines on stderr"
    grep -q '^esper: ' stderr.txt || problem="$problem; the line does not start with \"esper: \""
    grep -qF -- "$text" stderr.txt || problem="$problem; \"$(cat stderr.txt)\" does not say \"$text\""
    [ ! -s stdout.txt ] || problem="$problem; output: $(head -1 stdout.txt)"
    verdict "$*" "$problem"
}

refused() {
    complains 2 "$@"
}

"$esper" train --policy static --envs 2 --steps 2 --rounds 1 --set data.batches=1 --set data.test_images=10 \
    --set data.val_images=10 --name one --quiet >stdout.txt 2>stderr.txt || cat stderr.txt
"$esper" export one --safetensors good --onnx good.onnx >stdout.txt 2>stderr.txt || cat stderr.txt
verdict 'what comes out runs' "$("$esper" infer good synthetic --images 20 2>&1 | grep -q '^accuracy .* of 20 test' || echo no)"

# ---- inspect: what a file is ------------------------------------------------------------------------------------------
problem=
"$esper" inspect good.onnx >stdout.txt 2>stderr.txt || problem=$(cat stderr.txt)
for line in '^good.onnx: ONNX model$' '^  source  *.*network of .*one' '^  input  *image Nx3x16x16$' '^  output  *logits$' \
    '^  operators  *[0-9]*:.* 3 Conv .* 3 MaxPool'; do
    grep -q "$line" stdout.txt || problem="$problem; nothing says $line: $(cat stdout.txt)"
done
verdict 'inspect good.onnx' "$problem"
refused 'missing.onnx: cannot open' inspect missing.onnx
printf '\211PNG\r\n\032\nrest of it' >picture
refused 'picture: not a safetensors file but a PNG picture' inspect picture
refused 'picture: is a PNG picture; give a network' infer picture synthetic
refused 'telemetry.db: not a safetensors file but an SQLite database' inspect runs/one/telemetry.db
head -c 100 /dev/zero | tr '\000' z >noise
refused 'noise: not a safetensors file' inspect noise
verdict 'inspect noise counts no bytes of a header' "$(grep header stderr.txt)"

# ---- export ----------------------------------------------------------------------------------------------------------
refused 'give a run' export
refused 'choose what to write' export one
refused '--onnx needs a value' export one --onnx
refused 'did you mean --onnx' export one --onx x
refused 'nowhere' export nowhere --onnx x
refused 'best or the number of an env' export one --onnx x --env some
refused 'best or the number of an env' export one --onnx x --env -1
refused 'the run has envs 0 to 1' export one --onnx x --env 2
refused 'every host is new' export one --onnx x --env 0
complains 2 'no/such/directory' export one --onnx no/such/directory/x
complains 2 'no/such/directory' export one --safetensors no/such/directory/x
cp -r runs/one runs/hurt
for checkpoint in runs/hurt/checkpoints/r*.ckpt; do head -c 1000 "$checkpoint" >cut && mv cut "$checkpoint"; done
refused 'is intact' export hurt --onnx x
rm -f runs/hurt/checkpoints/*
refused 'holds no checkpoint' export hurt --onnx x
refused 'no/such/directory' export one --jsonl no/such/directory/x
refused 'rounds' export one --csv rounds --output x
refused 'says where --csv TABLE goes' export one --jsonl - --output x
[ ! -e x ] || verdict 'nothing half written' "$(ls)"

"$esper" export one --csv outcome >csv.txt 2>stderr.txt
verdict 'a table as CSV' "$([ "$(wc -l <csv.txt)" -eq 3 ] || cat csv.txt stderr.txt)"
"$esper" export one --jsonl all.jsonl >stdout.txt 2>stderr.txt
verdict 'the record as JSON' "$(grep -q '\"table\":\"outcome\"' all.jsonl || cat stderr.txt)"

# ---- infer -----------------------------------------------------------------------------------------------------------
refused 'give a model and a data set' infer good
refused 'nowhere' infer nowhere synthetic
refused 'test or val' infer good synthetic --split train
refused 'the test split has 2000' infer good synthetic --images 2001
refused 'from 1 to' infer good synthetic --images 0
refused 'the network takes 16x16' infer good cifar10
refused 'some/file: no such file' infer good.onnx some/file
complains 2 'no/such/directory' infer good synthetic --images 10 --output no/such/directory/x
refused 'not a model' infer "$(ls runs/one/checkpoints/r*.ckpt | head -1)" synthetic
: >empty
refused 'empty' infer empty synthetic
echo 'some text that is no network at all' >text
refused 'text: neither a model' infer text synthetic
refused '' infer runs synthetic
head -c 2000 good >cut
refused 'cut:' infer cut synthetic
head -c 2000 good.onnx >cut.onnx
refused 'cut.onnx: neither a model' infer cut.onnx synthetic
sed 's/esper-model-1/esper-model-2/' good >newer
complains 1 'format esper-model-2; this Esper reads esper-model-1' infer newer synthetic
sed 's/MaxPool/MinPool/' good.onnx >other.onnx
refused 'no operator MinPool' infer other.onnx synthetic
sed 's/kernel_shape/kernel_shade/' good.onnx >other.onnx
refused 'an attribute this reader does not know: kernel_shade' infer other.onnx synthetic
sed '0,/host.block1.conv.weight/s//host.block1.conv.weighx/' good.onnx >other.onnx # the first: where it is read
refused 'a node reads what nothing before it made: host.block1.conv.weighx' infer other.onnx synthetic

# ---- language models -------------------------------------------------------------------------------------------------
cat >text.json <<JSON
{"host.family": "transformer", "host.width": 8, "host.heads": 2, "host.layers": 1, "host.context": 8, "host.segments": 1,
 "slots": ["r0c0"], "data.set": "language", "data.batch": 4, "data.val_images": 10, "data.test_images": 10}
JSON
"$esper" train --task ./text.json --policy static --envs 1 --steps 2 --rounds 1 --set data.batches=1 --name prose --quiet \
    >stdout.txt 2>stderr.txt || cat stderr.txt
"$esper" export prose --safetensors prose.safetensors --onnx prose.onnx >stdout.txt 2>stderr.txt || cat stderr.txt
verdict 'inspect prose.onnx' "$("$esper" inspect prose.onnx | grep -q '^  input  *tokens Nx8$' || echo no)"
for model in prose prose.safetensors prose.onnx; do
    verdict "what comes out runs: $model" \
        "$("$esper" infer $model language --images 20 2>&1 | grep -q '^bits per byte .* points (20 test windows of 8 bytes' || echo no)"
    refused 'synthetic: holds images, the network reads text' infer $model synthetic
    refused 'cifar10: holds images, the network reads text' infer $model cifar10
done
for model in one good good.onnx; do
    refused 'language: holds text, the network takes images of 16x16' infer $model language
    refused "$model: its network reads images; give a language model" sample $model
done
printf '%02000d' 0 >digits
"$esper" data import digits --as text --out digits.safetensors >stdout.txt 2>stderr.txt || cat stderr.txt
verdict 'a text of one'"'"'s own' "$("$esper" infer prose digits.safetensors 2>&1 | grep -q '^bits per byte .* of text), ' || echo no)"
refused 'text.json: not a safetensors file but a JSON file' infer prose text.json
refused 'the test split has' infer prose language --images 1000000
refused 'give a run or a file' sample
refused 'nowhere' sample nowhere
refused 'nowhere.onnx: cannot open' sample nowhere.onnx
refused 'text.json: is a JSON file; give a network' sample text.json
refused 'from 1 to' sample prose --bytes 0
refused 'from 1 to' sample prose --bytes -1
refused 'from 0 to' sample prose --seed -1
for heat in -1 -0.5 nan inf 101 1e999 hot '' 0x1; do
    refused 'it must be a number from 0 to 100' sample prose --temperature "$heat"
done
head -c 3000 prose.onnx >cut.onnx
refused 'cut.onnx: ' sample cut.onnx
sed 's/Softmax/Hardmax/' prose.onnx >other.onnx
refused 'no operator Hardmax' sample other.onnx
sed 's/transformer/transfoxmer/' prose.safetensors >other.safetensors
refused 'other.safetensors: metadata "network": "family": unknown value "transfoxmer"' sample other.safetensors

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
