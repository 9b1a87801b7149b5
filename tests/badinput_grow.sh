#!/bin/sh
# Bad input to `esper grow`: exit code 2, one line on stderr that names the culprit, nothing on stdout. Then what must not
# stop a round, a refused action, and what must, a signal. Usage: badinput_grow.sh ESPER (from the project's root).
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

# refused TEXT ARGUMENTS...: exit code 2, one line on stderr that starts with "esper: " and holds TEXT, no output
refused() {
    text=$1
    shift
    "$esper" grow "$@" >stdout.txt 2>stderr.txt
    got=$?
    problem=
    [ $got -eq 2 ] || problem="exit code $got, not 2"
    [ "$(wc -l <stderr.txt)" -eq 1 ] || problem="$problem; $(wc -l <stderr.txt) lines on stderr"
    grep -q '^esper: ' stderr.txt || problem="$problem; the line does not start with \"esper: \""
    grep -qF -- "$text" stderr.txt || problem="$problem; \"$(cat stderr.txt)\" does not say \"$text\""
    [ ! -s stdout.txt ] || problem="$problem; output: $(head -1 stdout.txt)"
    verdict "grow $*" "$problem"
}

# script TEXT CONTENT: the script CONTENT is refused with a line that names the file and holds TEXT
script() {
    printf '%s' "$2" >script.json
    refused "$1" --script script.json
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
refused '--set host.lr: write --set key=value' --set host.lr
refused 'host.lr = fast: it must be a number' --set host.lr=fast
refused 'momentum = 1: it must be a number from 0 to 0.9999' --set momentum=1
refused 'host.lr = nan' --set host.lr=nan
refused 'host.pools = 3: the host has only 2 blocks' --set host.blocks=2 --set slots=r0c0
refused 'slots: r0c3 is not on this host' --set slots=r0c3
refused 'data.val_images = 2001: synthetic has 2000' --set data.val_images=2001
refused 'data.size = 16: cifar10 images are 32x32' --set data.set=cifar10
refused '--envs: envs = 0' --envs 0
refused '--steps: steps = 1e3' --steps 1e3
refused '--seed: seed = -1' --seed -1
refused '--threads: threads = 1025' --threads 1025

# ---- the file --------------------------------------------------------------------------------------------------------
refused 'missing.json: cannot open' --script missing.json
refused '.: is a directory' --script .
script '1:1: ' ''
script '1:11: ' '[{"step": }]'
script '1:13: ' '[{"step": 1}'
script 'unexpected text' '[] []'
script 'key "step" appears twice' '[{"step": 1, "step": 2, "op": "wait"}]'
script 'is an object; a script is a list' '{"step": 1, "op": "wait"}'
script 'is a number; a script is a list' '7'
script 'action 1: is a string' '["germinate"]'
head -c 3000 /dev/urandom >noise.json
refused 'noise.json: ' --script noise.json

# ---- its actions -----------------------------------------------------------------------------------------------------
action '"step" is missing' '"op": "wait"'
action '"op" is missing' '"step": 2'
action '"slot" is missing' '"step": 2, "op": "prune"'
action '"blueprint" is missing' '"step": 2, "op": "germinate", "slot": "r0c1"'
action 'unknown key "stop"; did you mean "step"' '"stop": 2, "op": "wait"'
action 'op "prun" is unknown; did you mean "prune"' '"step": 2, "op": "prun", "slot": "r0c0"'
action 'op "GERMINATE" is unknown' '"step": 2, "op": "GERMINATE", "slot": "r0c0"'
action 'slot "r0c7" is not one of the task' '"step": 2, "op": "prune", "slot": "r0c7"'
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
small() { # small TEXT VAL TEST BATCH: the subset is refused
    refused "$1" --task cifar_minimal --envs 1 --set data.path=subset --set data.val_images="$2" \
        --set data.test_images="$3" --set data.batch="$4"
}
small 'data.val_images=21' 21 30 40
small 'data.test_images=31' 20 31 40
small 'data.batch=41: the data set holds 40 training images' 20 30 41

# ---- what works, and what stops it -----------------------------------------------------------------------------------
grow() { # grow CODE ARGUMENTS...: one env; leaves the problem, if any, in $problem
    code=$1
    shift
    "$esper" grow --envs 1 "$@" >stdout.txt 2>stderr.txt
    got=$?
    problem=
    [ $got -eq "$code" ] || problem="exit code $got, not $code: $(cat stderr.txt)"
}

grow 0 --task cifar_minimal --steps 1 --set data.batches=1 --set data.path=subset --set data.val_images=20 \
    --set data.test_images=30 --set data.batch=40
grep -q '^1 envs x 1 steps ' stdout.txt || problem="$problem; no table"
verdict 'a subset that suffices' "$problem"

printf '[{"step": 1, "op": "prune", "slot": "r0c1"}, {"step": 2, "op": "fossilize", "slot": "r0c0"}]' >early.json
grow 0 --script early.json --steps 3 --quiet
[ "$(grep -c 'was refused' stderr.txt)" -eq 2 ] || problem="$problem; stderr: $(cat stderr.txt)"
grep -qF 'esper: step 1, env 0: prune r0c1 was refused' stderr.txt || problem="$problem; the action is not named"
grep -q '^1 envs x 3 steps ' stdout.txt || problem="$problem; the round did not go on"
grep -q '^2 actions were refused' stdout.txt || problem="$problem; the table does not count them"
verdict 'refused actions do not stop a round' "$problem"
grow 0 --script early.json --steps 3 --quiet --json
grep -q '"refused":[[:blank:]]*2' stdout.txt || problem="$problem; $(cat stdout.txt)"
verdict 'refused actions are counted in JSON' "$problem"

for signal in INT TERM; do
    "$esper" grow --envs 1 --steps 65535 --quiet >stdout.txt 2>stderr.txt &
    pid=$!
    tries=0
    while sleep 1 && kill -s $signal $pid 2>/dev/null && [ $tries -lt 60 ]; do tries=$((tries + 1)); done
    [ $tries -lt 60 ] || kill -s KILL $pid 2>/dev/null
    wait $pid
    got=$?
    problem=
    [ $got -eq 130 ] || problem="exit code $got, not 130"
    grep -q '^1 envs x [1-9][0-9]* steps ' stdout.txt || problem="$problem; no table of the steps done"
    verdict "SIG$signal ends a round early" "$problem"
done

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
