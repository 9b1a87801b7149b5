#!/bin/sh
# Bad input to `esper train` and `esper eval`: the right exit code, one line on stderr that names the culprit, nothing on
# stdout, and nothing lost: a run that was there goes on as if nothing had happened.
# Usage: badinput_train.sh ESPER (from the project's root).
. tests/script.inc
examples=$PWD/examples
enter_work

# a very short run
small="--envs 2 --steps 4 --set data.batches=1 --set data.val_images=20 --set data.test_images=20
    --set policy.feature_dim=16 --set policy.hidden=16"

refused() { # refused TEXT ARGUMENTS...: wrong input to train
    text=$1
    shift
    fails 2 "$text" train "$@"
}

# script TEXT CONTENT: the script CONTENT is refused with a line that names the file and holds TEXT
script() {
    printf '%s' "$2" >script.json
    refused "$1" --policy script --script script.json
    grep -qF script.json stderr.txt || verdict "script '$2'" "\"$(cat stderr.txt)\" does not name the file"
}

# action TEXT MEMBERS: a script with a good action before one of these members
action() {
    script "script.json: action 2: $1" '[{"step": 1, "op": "germinate", "slot": "r0c0", "blueprint": "norm"}, {'"$2"'}]'
}

# ---- the command line ------------------------------------------------------------------------------------------------
refused 'unknown option --scrip; did you mean --script?' --scrip x.json
refused 'unknown option -s' -s
refused '--script needs a value' --script
refused '--quiet takes no value' --quiet=yes
refused 'unexpected argument x.json' x.json
refused 'unknown task "quickstrat"; did you mean "quickstart"' --task quickstrat
refused 'nowhere.json: cannot open' --task ./nowhere.json
refused 'nowhere.json: cannot open' --config nowhere.json
refused 'unknown key "host.lrr"; did you mean "host.lr"' --set host.lrr=0.1
refused 'unknown key "ppo.lamda"; did you mean "ppo.lambda"' --set ppo.lamda=0.1
refused '--set host.lr: write --set key=value' --set host.lr
refused 'host.lr = fast: it must be a number' --set host.lr=fast
refused 'momentum = 1: it must be a number from 0 to 0.9999' --set momentum=1
refused 'host.lr = nan' --set host.lr=nan
refused 'host.pools = 3: the host has only 2 blocks' --set host.blocks=2 --set slots=r0c0
refused 'slots: r0c3 is not on this host' --set slots=r0c3
refused 'data.val_images = 2001: synthetic has 2000' --set data.val_images=2001
refused 'data.size = 16: cifar10 images are 32x32' --set data.set=cifar10
refused 'policy.hidden = 20: it must be a multiple of 8' --set policy.hidden=20
refused 'ppo.minibatches = 3: 2 envs cannot be dealt out in as many equal parts' --set ppo.minibatches=3 --envs 2
refused 'policy.prior.prune = -30: it must be a number from -20 to 20' --set policy.prior.prune=-30
refused 'policy.rate.prune = -1: it must be a number from 0 to 1000' --set policy.rate.prune=-1
refused '--envs: envs = 0' --envs 0
refused '--steps: steps = 1e3' --steps 1e3
refused '--rounds: rounds = 0' --rounds 0
refused '--seed: seed = -1' --seed -1
refused '--threads: threads = 1025' --threads 1025
refused '--policy: policy.kind = pop' --policy pop
refused 'needs policy.script' --policy script
refused 'needs policy.schedule' --policy schedule
refused 'needs policy.from' --policy replay
refused 'only --policy script reads it' --policy ppo --script x.json
refused 'only --policy schedule reads it' --policy static --schedule norm@1
refused 'only --policy script reads it' --script x.json --schedule norm@1
refused 'only --policy ppo and --policy replay read it' --policy static --from x
refused '--from: ' --policy replay --from nothing
refused '--device: device = gpu: it must be one of auto|cpu|cuda' --device gpu
refused '--precision: precision = half: it must be one of' --precision half
refused 'precision = bf16: the CPU computes in fp32' --device cpu --precision bf16
# a machine without a GPU, whatever this one has
export ESPER_CUDA_LIBRARY=/nowhere/libesper_cuda.so
fails 1 'device = cuda: ' train --device cuda
fails 1 'device = cuda: ' eval --policy static --device cuda
fails 1 'device = cuda: ' bench --device cuda
fails 1 'device = cuda: ' selftest --device cuda
fails 1 'precision = bf16: the CPU computes in fp32, and there is no GPU: ' train --precision bf16
fails 2 'precision = bf16: the CPU computes in fp32' bench --device cpu --precision bf16
fails 2 'unknown task "cifar_basline"; did you mean "cifar_baseline"' bench --task cifar_basline
fails 2 '--part all is unknown; choose from train, seeds, evaluate, loop' bench --part all
fails 2 '--envs 8;64: numbers from 1 to 4096' bench --envs '8;64'
fails 2 '--roof, --kernels and --peer' bench --roof --part train
fails 1 'device = cuda: ' selftest --device cuda --vectors tests/vectors
unset ESPER_CUDA_LIBRARY

# ---- the file --------------------------------------------------------------------------------------------------------
refused 'missing.json: cannot open' --policy script --script missing.json
refused '.: is a directory' --policy script --script .
script '1:1: ' ''
script '1:11: ' '[{"step": }]'
script '1:13: ' '[{"step": 1}'
script 'unexpected text' '[] []'
script 'key "step" appears twice' '[{"step": 1, "step": 2, "op": "wait"}]'
script 'is an object; a script is a list' '{"step": 1, "op": "wait"}'
script 'is a number; a script is a list' '7'
script 'action 1: is a string' '["germinate"]'
noise 3000 >noise.json
refused 'noise.json: ' --policy script --script noise.json

# ---- schedules (tests/test_schedule.c has all lines for one) -----------------------------------------------------------
refused 'policy.schedule: entry 2, "conv_hevy@1": blueprint "conv_hevy" is unknown' --schedule norm@1,conv_hevy@1
refused 'step "61" must be a whole number from 1 to 60' --schedule norm@61 --steps 60
refused 'slot "r1c0" is none of the task' --schedule r1c0=norm@1
refused 'blueprint "noop" has nothing to train' --schedule noop@1
refused 'the schedule is empty' --schedule ' '
refused '--schedule: policy.schedule = norm@1,norm@1,' --schedule "$(yes norm@1, | head -90 | tr -d '\n')"
refused 'missing.txt: cannot open' --schedule @missing.txt
refused '.: is a directory' --schedule @.
refused 'cannot open' --schedule @
: >lines.txt
refused 'lines.txt: is empty; it needs a schedule per line' --schedule @lines.txt
printf 'norm@1\n\nnorm@2\n' >lines.txt
refused 'lines.txt: line 2: the schedule is empty' --schedule @lines.txt
printf 'norm@1\nnorm@2\nconv_light/fast@3' >lines.txt
refused 'lines.txt: line 3: entry 1, "conv_light/fast@3": style "fast" is unknown' --schedule @lines.txt
refused 'lines.txt: 3 lines, but only 2 envs to play them' --schedule @lines.txt --envs 2
printf 'norm@1\000\n' >lines.txt
refused 'lines.txt: is not a text file' --schedule @lines.txt
fails 2 'only --policy schedule reads it' eval --policy static --schedule norm@1
verdict 'no run where a schedule was refused' "$([ ! -e runs ] || ls runs)"

# ---- its actions -----------------------------------------------------------------------------------------------------
action '"step" is missing' '"op": "wait"'
action '"op" is missing' '"step": 2'
action '"slot" is missing' '"step": 2, "op": "prune"'
action '"blueprint" is missing' '"step": 2, "op": "germinate", "slot": "r0c1"'
action 'unknown key "stop"; did you mean "step"' '"stop": 2, "op": "wait"'
action 'op "prun" is unknown; did you mean "prune"' '"step": 2, "op": "prun", "slot": "r0c0"'
action 'op "GERMINATE" is unknown' '"step": 2, "op": "GERMINATE", "slot": "r0c0"'
action 'slot "first" is not a slot; slots are named like r0c0' '"step": 2, "op": "prune", "slot": "first"'
script 'uses the slot r0c7; slots: r0c7 is not on this host, which has r0c0 to r0c2' \
    '[{"step": 2, "op": "prune", "slot": "r0c7"}]'
refused 'uses the slots r1c0, r1c1, r1c2, which the task lacks; add them with --set slots=r0c0,r0c1,r0c2,r1c0,r1c1,r1c2' \
    --script "$examples/six_seeds.json"
action 'blueprint "conv_lite" is unknown; did you mean "conv_light"' \
    '"step": 2, "op": "germinate", "slot": "r0c1", "blueprint": "conv_lite"'
action 'style "linear_ad" is unknown; did you mean "linear_add"' \
    '"step": 2, "op": "germinate", "slot": "r0c1", "blueprint": "norm", "style": "linear_ad"'
action 'curve "cosin" is unknown; did you mean "cosine"' '"step": 2, "op": "prune", "slot": "r0c0", "curve": "cosin"'
action 'tempo 4 is not offered; choose one of 3, 5, 8' \
    '"step": 2, "op": "germinate", "slot": "r0c1", "blueprint": "norm", "tempo": 4'
action 'target 0.6 is not offered; choose one of 0.5, 0.7, 1' \
    '"step": 2, "op": "set_alpha_target", "slot": "r0c0", "target": 0.6'
action 'speed 1 is not offered; choose one of 0, 3, 5, 8' '"step": 2, "op": "prune", "slot": "r0c0", "speed": 1'
action '"step" is 0; it must be a whole number from 1 to 40' '"step": 0, "op": "wait"'
action '"step" is 41; it must be a whole number from 1 to 40' '"step": 41, "op": "wait"'
action '"step" is 1.5' '"step": 1.5, "op": "wait"'
action '"env" is 8; it must be a whole number from 0 to 7' '"step": 2, "env": 8, "op": "wait"'
action '"env" is -1' '"step": 2, "env": -1, "op": "wait"'
action '"step" must be a whole number, not a string' '"step": "2", "op": "wait"'
action '"op" must be a string, not a number' '"step": 2, "op": 3'
action '"slot" must be a string, not a list' '"step": 2, "op": "prune", "slot": ["r0c0"]'
action '"tempo" must be a number, not a string' \
    '"step": 2, "op": "germinate", "slot": "r0c1", "blueprint": "norm", "tempo": "5"'
action 'op "a?b?[31m" is unknown' '"step": 2, "op": "a\nb\u001b[31m"'
script 'two actions for one env at step 3' \
    '[{"step": 3, "env": 1, "op": "wait"}, {"step": 2, "env": 1, "op": "wait"}, {"step": 3, "env": 1, "op": "wait"}]'
script 'two actions for one env at step 3' '[{"step": 3, "env": 0, "op": "wait"}, {"step": 3, "op": "wait"}]'

# ---- data ------------------------------------------------------------------------------------------------------------
refused 'esper data get cifar10' --task cifar_baseline
refused 'nowhere/x: no such file' --task cifar_baseline --set data.path=nowhere/x
echo 'no data' >damaged
refused 'damaged: ' --task cifar_baseline --set data.path=damaged

# a packed subset: 40, 20 and 30 black images of class 0 behind a header of 1024 bytes
tensor() { # tensor NAME SHAPE FROM TO
    printf ',"%s":{"dtype":"U8","shape":[%s],"data_offsets":[%s,%s]}' "$@"
}
header=$(
    printf '{"__metadata__":{"format":"esper-images","version":"1","name":"cifar10",'
    printf '"train":"40","val":"20","test":"30"}'
    tensor train.images 40,32,32,3 0 122880
    tensor train.labels 40 122880 122920
    tensor val.images 20,32,32,3 122920 184360
    tensor val.labels 20 184360 184380
    tensor test.images 30,32,32,3 184380 276540
    tensor test.labels 30 276540 276570
    printf '}'
)
{ printf '\000\004\000\000\000\000\000\000%-1024s' "$header" && head -c 276570 /dev/zero; } >subset
refused 'subset: holds CIFAR-10, not Fashion-MNIST' --task fashion_baseline --set data.path=subset
refused 'no mnist.safetensors in data, ' --task mnist_baseline
refused 'mixed.images_least=0.0001: an episode may have as few as 1 samples, and data.batch=32' --task quick_mixed \
    --set mixed.images_least=0.0001
refused 'mixed.price_least = 0.1: there is no price to draw a share of; set reward.price' --set mixed.price_least=0.1
refused 'mixed.price_free = 0.1: there is no price to draw a share of; set reward.price' --set mixed.price_free=0.1
small() { # small TEXT VAL TEST BATCH: the subset is refused
    refused "$1" --task cifar_minimal --envs 1 --set data.path=subset --set data.val_images="$2" \
        --set data.test_images="$3" --set data.batch="$4"
}
small 'data.val_images=21' 21 30 40
small 'data.test_images=31' 20 31 40
small 'data.batch=41: the data set holds 40 training samples' 20 30 41

# ---- evaluation ------------------------------------------------------------------------------------------------------
fails 2 'eval needs a run, or --policy' eval
fails 2 '--policy ppo: name the run' eval --policy ppo
fails 2 'no run "nothing"' eval nothing
fails 2 'unexpected argument b' eval a b
fails 2 '--episodes 0: it must be a whole number' eval --policy static --episodes 0
fails 2 '--greedy: only --policy ppo' eval --policy static --greedy
[ ! -e runs ] || verdict 'what is refused leaves nothing behind' "$(find runs | head -3)"

# ---- a run, and the wrong way to go on with it -----------------------------------------------------------------------
"$esper" train $small --rounds 2 --set checkpoint.rounds=1 --name good --quiet >/dev/null || verdict 'a good run' 'failed'
"$esper" train $small --rounds 1 --name wide --envs 3 --quiet >/dev/null || verdict 'a wider run' 'failed'
hash=$("$esper" inspect good --hash)
as_new() { # as_new NAME: a copy of the good run, to be spoilt
    rm -rf "runs/$1"
    cp -r runs/good "runs/$1"
    newest=$(ls runs/"$1"/checkpoints/r*.ckpt | tail -1)
    oldest=$(ls runs/"$1"/checkpoints/r*.ckpt | head -1)
}

refused 'already exists' $small --name good
refused 'latest' $small --name latest
refused 'no run "god" in runs; did you mean "good"' --resume god
refused '--from-scratch: only --resume reads it' $small --from-scratch
refused 'cannot open' --resume ./nowhere
for change in '--task quickstart' '--config x.json' '--set host.lr=1' '--envs 3' '--steps 3' '--seed 1' \
    '--policy static' '--script x.json' '--from good' '--name other'; do
    refused "${change%%=*}" --resume good $change
done
refused '--rounds: rounds = many' --resume good --rounds many
refused '--threads: threads = -1' --resume good --threads -1
refused '--device: device = gpu' --resume good --device gpu
refused 'precision = bf16: the CPU computes in fp32' --resume good --device cpu --precision bf16
fails 2 '--config: a run has its own configuration; --set changes a key of it' eval good --config x.json
fails 2 '--task text_quick: it has 2 slots' eval good --task text_quick

# a finished run says so
"$esper" train --resume good >stdout.txt 2>stderr.txt
got=$?
problem=
[ $got -eq 0 ] || problem="exit code $got"
grep -q 'finished' stdout.txt || problem="$problem; $(cat stdout.txt stderr.txt)"
[ "$("$esper" inspect good --hash)" = "$hash" ] || problem="$problem; it changed"
verdict 'a finished run says so' "$problem"

# goes_on NAME TEXT: a spoilt copy falls back to an older checkpoint, says so in one line, and ends like the good one
goes_on() {
    "$esper" train --resume "$1" --quiet >stdout.txt 2>stderr.txt
    got=$?
    problem=
    [ $got -eq 0 ] || problem="exit code $got"
    [ "$(wc -l <stderr.txt)" -eq 1 ] || problem="$problem; $(wc -l <stderr.txt) lines on stderr"
    grep -qF -- "$2" stderr.txt || problem="$problem; \"$(cat stderr.txt)\" does not say \"$2\""
    [ "$("$esper" inspect "$1" --hash 2>/dev/null)" = "$hash" ] || problem="$problem; it ends otherwise"
    verdict "fallback: $1" "$problem"
}
as_new cut
head -c 3000 runs/good/checkpoints/"$(basename "$newest")" >"$newest"
goes_on cut "$(basename "$newest")"
as_new flipped
size=$(wc -c <"$newest")
printf 'X' | dd of="$newest" bs=1 seek=$((size - 100)) conv=notrunc 2>/dev/null
goes_on flipped "$(basename "$newest")"

# nothing to fall back to: reported in one line, nothing touched
as_new gone
rm runs/gone/checkpoints/*
sum=$(cat runs/gone/telemetry.db runs/gone/*.json | cksum)
fails 4 '2 rounds were done, but runs/gone/checkpoints holds no checkpoint' train --resume gone --rounds 5
shows '`esper train --resume` cannot continue: runs/gone: 2 rounds were done' inspect gone
verdict 'what is refused stays as it is' "$([ "$(cat runs/gone/telemetry.db runs/gone/*.json | cksum)" = "$sum" ] || echo 'it changed')"
fails 4 '--from-scratch: runs/good can go on from ' train --resume good --from-scratch
shows '2 rounds done' train --resume gone --from-scratch --quiet
verdict 'from scratch, the same end' "$([ "$("$esper" inspect gone --hash)" = "$hash" ] || echo 'another hash')"
as_new noise
for file in runs/noise/checkpoints/*; do noise 4000 >"$file"; done
fails 4 'checkpoint' train --resume noise
as_new foreign
rm runs/foreign/checkpoints/*
cp runs/wide/checkpoints/r*.ckpt runs/foreign/checkpoints/
fails 4 'envs' train --resume foreign
as_new empty
: >runs/empty/run.json
fails 4 'run.json' train --resume empty
as_new record
noise 8000 >runs/record/telemetry.db
rm -f runs/record/telemetry.db-wal runs/record/telemetry.db-shm
fails 4 'telemetry.db' train --resume record --rounds 3
mkdir runs/hollow
fails 2 'no run.json' train --resume hollow
fails 2 'no run.json' eval hollow
as_new wider
rm runs/wider/checkpoints/*
fails 2 '' train $small --envs 3 --from wider --name never
[ ! -e runs/never ] || verdict 'a refused start leaves nothing behind' 'runs/never is there'
fails 2 '' train $small --set policy.hidden=24 --from good --name never
[ ! -e runs/never ] || verdict 'a refused start leaves nothing behind' 'runs/never is there'

# ---- two processes on one run ----------------------------------------------------------------------------------------
"$esper" train $small --steps 60000 --name busy --quiet >first.txt 2>&1 &
background=$!
wait_for runs/busy/telemetry.db
sleep 0.5
fails 1 "process $background is training this run" train --resume busy
fails 2 'already exists' train $small --name busy
kill -s INT "$background"
wait "$background"
got=$?
background=
problem=
[ $got -eq 130 ] || problem="exit code $got, not 130: $(cat first.txt)"
grep -q 'train --resume runs/busy' first.txt || problem="$problem; it does not say how to go on: $(cat first.txt)"
"$esper" inspect busy --hash >/dev/null || problem="$problem; it was not saved"
verdict 'a run that others asked for goes on, and stops well' "$problem"

"$esper" train --resume busy --quiet >first.txt 2>&1 &
background=$!
sleep 1
kill -s TERM "$background"
wait "$background"
got=$?
background=
verdict 'SIGTERM stops it too' "$([ $got -eq 130 ] || echo "exit code $got, not 130: $(cat first.txt)")"

# A terminal that closes, and a reader that leaves after two lines, stop it as well; under nohup it goes on.
stops() { # stops SIGNAL NAME: a run that gets it saves, and ends as interrupted
    env --default-signal="$1" "$esper" train $small --steps 60000 --name "$2" --plain >first.txt 2>&1 & # nohup ignores HUP
    background=$!
    wait_for "runs/$2/telemetry.db"
    sleep 0.3
    kill -s "$1" "$background"
    wait "$background"
    got=$?
    background=
    problem=
    [ $got -eq 130 ] || problem="exit code $got, not 130"
    grep -q 'saved; continue with' first.txt || problem="$problem; $(cat first.txt)"
    ls runs/"$2"/checkpoints/r*.ckpt >/dev/null 2>&1 || problem="$problem; no checkpoint"
    verdict "SIG$1 stops it too" "$problem"
}
stops HUP hung-up
{
    "$esper" train $small --rounds 100000 --set checkpoint.rounds=100000 --name piped --plain 2>&1
    echo $? >first.code
} | head -3 >first.txt
wait_for first.code
problem=
[ "$(cat first.code)" = 130 ] || problem="exit code $(cat first.code), not 130"
[ "$(wc -l <first.txt)" -eq 3 ] || problem="$problem; $(cat first.txt)"
ls runs/piped/checkpoints/r*.ckpt >/dev/null 2>&1 || problem="$problem; no checkpoint"
"$esper" inspect piped | grep -q ': interrupted, ' || problem="$problem; $("$esper" inspect piped | head -1)"
verdict 'a reader that leaves' "$problem"
(
    trap '' HUP
    exec "$esper" train $small --steps 60000 --name deaf --quiet >first.txt 2>&1
) &
background=$!
wait_for runs/deaf/telemetry.db
sleep 0.3
kill -s HUP "$background"
sleep 0.3
kill -s TERM "$background" 2>/dev/null || verdict 'under nohup' 'it stopped'
wait "$background"
background=

# A signal that comes twice at once, as `timeout` sends it, is one; someone who presses Ctrl-C a second later does not
# wait for the step in progress, here of twenty seconds on a fast machine, nor for saving it.
"$esper" train --envs 1 --steps 2 --set data.batches=60000 --set data.batch=128 --name heavy --plain >first.txt 2>&1 &
background=$!
until grep -q runs/heavy first.txt || ! kill -0 "$background" 2>/dev/null; do # the last words before the first step
    sleep 0.1
done
sleep 0.5
problem=
for signal in INT INT TERM HUP INT; do
    kill -s $signal "$background" 2>/dev/null || problem='the first signals did not wait for the step'
    sleep 0.05
done
sleep 1
for signal in TERM HUP INT; do
    kill -s $signal "$background" 2>/dev/null || problem='it did not wait for the step'
    sleep 0.05
done
wait "$background"
got=$?
background=
[ $got -eq 130 ] || problem="$problem; exit code $got, not 130"
! grep -q stopped first.txt || problem="$problem; $(cat first.txt)"
verdict 'a second Ctrl-C ends it at once' "$problem"

# ---- nowhere to write ------------------------------------------------------------------------------------------------
fails 2 '/proc/esper' train $small --runs /proc/esper
: >file
fails 2 'file' train $small --runs file
mkdir locked
chmod 555 locked
if [ "$(id -u)" -ne 0 ]; then
    fails 1 'locked' train $small --runs locked
elif setpriv --reuid=65534 --regid=65534 --clear-groups "$esper" --version >/dev/null 2>&1; then
    chmod 755 .
    printf '#!/bin/sh\nexec setpriv --reuid=65534 --regid=65534 --clear-groups "%s" "$@"\n' "$esper" >nobody
    chmod 755 nobody
    as_root=$esper
    esper=./nobody
    fails 1 'locked' train $small --runs locked
    esper=$as_root
else
    skip 'a locked directory: root cannot become another user here'
fi

# A full disk does not stop a run: one line reports the first checkpoint that could not be written, one the record,
# and the last line that the end could not be saved, with the number of rows that are lost. With room again the run
# goes on from what was saved, to the same end.
long="--rounds 12 --set checkpoint.rounds=1"
"$esper" train $small $long --name undisturbed --quiet >/dev/null
hash=$("$esper" inspect undisturbed --hash)
full() { # full DIRECTORY HOW: the result of a run that met a full disk is in full.txt and full.code
    code=$(cat full.code)
    problem=
    [ "$code" -eq 3 ] || problem="exit code $code"
    [ "$(wc -l <full.txt)" -eq 3 ] || problem="$problem; $(wc -l <full.txt) lines on stderr"
    [ "$(grep -c '^esper: .*/checkpoints/.* training goes on' full.txt)" -eq 1 ] || problem="$problem; $(cat full.txt)"
    [ "$(grep -c '^esper: .*/telemetry.db: .* training goes on' full.txt)" -eq 1 ] || problem="$problem; $(cat full.txt)"
    tail -1 full.txt | grep -q '^esper: .*r000012-s000.ckpt: .* [0-9]* rows of the record are lost$' ||
        problem="$problem; $(tail -1 full.txt)"
    verdict "$2: reported once each" "$problem"
    if [ -e "$1/disk/run.json" ]; then
        again=
        ls "$1"/disk/checkpoints/r*.ckpt >/dev/null 2>&1 || again=--from-scratch # none was ever written
        "$esper" train --resume "$1/disk" $again --quiet >/dev/null 2>stderr.txt || verdict "$2: resume" "$(cat stderr.txt)"
        verdict "$2: the same end" "$([ "$("$esper" inspect "$1/disk" --hash)" = "$hash" ] || echo 'another hash')"
    fi
}

checkpoint=$(wc -c <"$(ls runs/undisturbed/checkpoints/r*.ckpt | tail -1)")
(
    ulimit -f $((checkpoint / 512 / 2))
    "$esper" train $small $long --runs limited --name disk --quiet >/dev/null 2>full.txt
    echo $? >full.code
)
full limited 'a limit on file sizes'

# in a separate namespace, where a small file system can be mounted; it is copied out before it goes away
if unshare -rm true 2>/dev/null; then
    for kib in 300 $((3 * checkpoint / 1024)) $((6 * checkpoint / 1024)); do
        rm -rf full.txt full.code tiny saved
        mkdir tiny
        unshare -rm sh -c '
            mount -t tmpfs -o size='"$kib"'k none tiny || exit 9
            "$0" train '"$(echo $small $long)"' --runs tiny --name disk --quiet >/dev/null 2>full.txt
            echo $? >full.code
            cp -r tiny saved' "$esper"
        if [ -e full.code ] && [ "$(cat full.code)" -ne 0 ]; then
            full saved "a full disk of $kib KiB"
        else
            skip "a full disk of $kib KiB: it did not fill up, or cannot be mounted"
        fi
    done
else
    skip 'full disks: no name spaces here'
fi

# ---- what works ------------------------------------------------------------------------------------------------------
"$esper" train --task cifar_minimal --policy static --rounds 1 --envs 1 --steps 1 --set data.batches=1 \
    --set data.path=subset --set data.val_images=20 --set data.test_images=30 --set data.batch=40 --quiet \
    >stdout.txt 2>stderr.txt
verdict 'a subset that suffices' "$([ $? -eq 0 ] || cat stderr.txt)"

# a set of another name, found where data is kept: it trains, its network normalises as its set does
mkdir data
sed 's/"name":"cifar10"/"name":"fashion"/' subset >data/fashion.safetensors
"$esper" train --task fashion_baseline --policy static --rounds 1 --envs 1 --steps 1 --set data.batches=1 \
    --set data.val_images=20 --set data.test_images=30 --set data.batch=40 --name clothes --quiet >stdout.txt 2>stderr.txt
verdict 'another set' "$([ $? -eq 0 ] || cat stderr.txt)"
"$esper" export clothes --safetensors clothes.safetensors >stdout.txt 2>stderr.txt
verdict 'its network' "$(grep -q '"mean":\[0.219,0.219,0.219\]' clothes.safetensors || cat stderr.txt)"
for data in fashion data/fashion.safetensors; do
    shows 'test images of fashion' infer clothes.safetensors $data
done
fails 2 'no cifar10.safetensors in data' infer clothes.safetensors cifar10

printf '[{"step": 1, "op": "prune", "slot": "r0c1"}, {"step": 2, "op": "fossilize", "slot": "r0c0"}]' >early.json
"$esper" train $small --policy script --script early.json --rounds 1 --name early --plain >stdout.txt 2>stderr.txt
verdict 'refused actions do not stop a round' "$([ $? -eq 0 ] || cat stderr.txt)"

# What a discount does to a price is said, where there are both.
discounted() { "$esper" train $small --steps 50 --rounds 1 --quiet --name "$@" >stdout.txt 2>stderr.txt || cat stderr.txt; }
said='gamma = 0.98 leaves 36 % of a price that is paid after 50 steps; gamma=1 leaves all of it'
verdict 'a discounted price' "$(discounted far --set gamma=0.98 --set reward.price=1; grep -qF "$said" stderr.txt || cat stderr.txt)"
verdict 'neither without the other' "$(discounted near --set reward.price=1; grep -h gamma stderr.txt
    discounted free --set gamma=0.98; grep -h gamma stderr.txt)"

# Lessons: what they will be, and what was found out.
"$esper" train $small --steps 6 --rounds 3 --plain --name lessons --set lesson.tries=1 --set lesson.recitals=1 >stdout.txt 2>stderr.txt
verdict 'lessons are told' "$(grep -cE '^lessons: 1 rounds of trying schedules, 1 of|^the best of [0-9]+ schedules is ' stderr.txt |
    grep -vx 2; grep nan stderr.txt)"
verdict 'and recorded' "$("$esper" sql lessons 'select round, count(schedule), count(distinct schedule) from outcome group by round' \
    --csv | tail -n +2 | tr -d '\r' | tr '\n' ' ' | grep -vx '0,2,2 1,2,1 2,0,0 ')"
fails 2 'lesson.recitals = 1: nothing was tried that could be recited; set lesson.tries' train $small --set lesson.recitals=1
fails 2 'of 4 envs some must be left' train $small --envs 4 --set lesson.tries=1 --set lesson.reciters=4

conclude
