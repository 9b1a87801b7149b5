#!/bin/sh
# Wrong input where hosts read text: one clear line on stderr, the right exit code, no run left behind. What `esper data`
# refuses is in badinput_data.sh, what `export` and `sample` refuse in badinput_export.sh.
# Usage: badinput_text.sh ESPER (from the project's root).
. tests/script.inc
enter_work

awk 'BEGIN { while (i++ < 400) printf "line %d of a text\n", i }' >words # 7492 bytes, of which 375 are for validation
"$esper" data import words --out texts >out 2>err || verdict 'import' "$(cat err)"
noise 4000 >rubbish
: >empty

small="--policy static --envs 1 --steps 2 --rounds 1 --device cpu --quiet --set data.batches=1 --set data.batch=4
    --set reward.mode=shaped --set data.val_images=4 --set data.test_images=4"
refused() { # refused TEXT KEY=VALUE...: a run with these keys, and it leaves nothing behind
    said=$1
    shift
    keys=
    for key; do keys="$keys --set $key"; done
    fails 2 "$said" train --task text_quick $small $keys
    [ ! -e runs ] || verdict "$*" "there is a run: $(ls runs)"
}

# ---- more than there is ----------------------------------------------------------------------------------------------
refused 'texts: host.context = 400: a window has 401 bytes, the val split 375; use a shorter context or more text' \
    data.set=text data.path=texts host.context=400
refused 'the data set holds 1 and 1 windows; ask for fewer, or use a shorter host.context' \
    data.set=text data.path=texts host.context=374
refused 'data.val_images=24 and data.test_images=4: the data set holds 23 and 23 windows' \
    data.set=text data.path=texts host.context=16 data.val_images=24
refused 'data.val_images=4 and data.test_images=24: the data set holds 23 and 23 windows' \
    data.set=text data.path=texts host.context=16 data.test_images=24
refused 'data.final_images=24: the data set holds 23; ask for fewer' data.set=text data.path=texts host.context=16 data.final_images=24
refused 'data.val_images = 2049: language has 2048 windows of host.context = 32' data.val_images=2049
refused 'host.context = 1025: it must be a whole number from 8 to 1024' host.context=1025
for bad in 0 -1 x 1e3; do refused 'host.context' host.context=$bad; done

# ---- what is no text -------------------------------------------------------------------------------------------------
refused 'rubbish: not a safetensors file; `esper data get text` or `esper data import FILE...` writes a good one' \
    data.set=text data.path=rubbish
refused 'words: not a safetensors file; `esper data get text` or `esper data import FILE...`' data.set=text data.path=words
refused 'empty: 0 bytes are too few for a safetensors file' data.set=text data.path=empty
refused 'nowhere: no such file; run `esper data get text` or `esper data import FILE...`' data.set=text data.path=nowhere
refused '.: is a directory, not a file' data.set=text data.path=.
refused 'no text.safetensors in ' data.set=text
refused 'data.set = synthetic: this host.family reads text; use data.set=text or data.set=language' data.set=synthetic
for file in rubbish empty words; do
    fails 2 "$file: neither a model in safetensors form nor an ONNX file, or damaged" sample $file
    fails 2 "$file: neither a model in safetensors form nor an ONNX file, or damaged" infer $file language
done

# ---- hosts that cannot be --------------------------------------------------------------------------------------------
refused 'host.heads = 4: does not divide the width of 30 (host.width)' host.width=30 host.heads=4
refused 'host.width = 6: it must be a whole number from 8 to 1024' host.width=6
refused 'host.segments = 2: does not divide' host.layers=3

# ---- networks of images ----------------------------------------------------------------------------------------------
images='{"envs": 1, "steps": 2, "rounds": 1, "slots": ["r0c0"], "data.batches": 1, "data.val_images": 20,
    "data.test_images": 20, "policy.feature_dim": 8, "policy.hidden": 8'
echo "$images, \"data.set\": \"synthetic\", \"data.size\": 16}" >task.json
shows '1 round done' train --task ./task.json --name images --quiet
echo "$images, \"host.family\": \"transformer\", \"data.set\": \"language\", \"host.width\": 8, \"host.heads\": 2,
    \"host.layers\": 1, \"host.segments\": 1, \"host.context\": 8}" >task.json
shows '1 round done' train --task ./task.json --name text --quiet
fails 2 'images: its network reads images; give a language model' sample images
fails 2 'language: holds text, the network takes images' infer images language
fails 2 '--task task.json: a run is resumed as it was started' train --resume images --task task.json
before=$("$esper" inspect runs/text --hash)
cp -r runs/text runs/mixed
rm runs/mixed/checkpoints/*
cp runs/images/checkpoints/r* runs/mixed/checkpoints
fails 4 'a checkpoint of another world: host.family is "cnn" there and "transformer" here' train --resume mixed --rounds 2 --quiet
verdict 'nothing is lost' "$([ "$("$esper" inspect runs/text --hash)" = "$before" ] || echo 'the run of text has changed')"
fails 2 '--metric test_bits_per_byte: runs/images is of images; only runs on text have it' \
    compare images images --metric test_bits_per_byte
fails 2 '--task text_quick: it has 2 slots, and the policy of images was made for 1' eval images --task text_quick
conclude
