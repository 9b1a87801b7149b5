#!/bin/sh
# Wrong keys, foreign and damaged checkpoints: one clear line on stderr, the right exit code, nothing lost. Uses `esper
# config`, `inspect` and `train --resume`. Usage: badinput_checkpoints.sh ESPER (from the project's root).
. tests/script.inc
enter_work

# flip FILE OFFSET: change the byte there
flip() {
    old=$(dd if="$1" bs=1 skip="$2" count=1 2>/dev/null | od -An -tu1)
    # shellcheck disable=SC2059
    printf "\\$(printf %o $((old ^ 1)))" | dd of="$1" bs=1 seek="$2" conv=notrunc 2>/dev/null
}

size() {
    wc -c <"$1"
}

# ---- esper config ----------------------------------------------------------------------------------------------------
shows 'usage: esper config' config --help
shows 'task     learning rate of the policy' config
shows 'ppo.lr = 0.001' config ppo.lr
shows 'from: --set; default: 0.0005' config ppo.lr --set ppo.lr=0.5
shows 'from: flag; default: 42' config seed --set seed=1 --seed 2
shows 'governor.streak' config governor
shows 'governor.streak = 4' config governor.streak --task cifar_impaired --set governor.streak=4
shows '"ppo.lr":' config ppo.lr --json
fails 2 'unknown key "ppo.lrr"; did you mean "ppo.lr"?' config ppo.lrr
fails 2 'unknown key "ppo."' config ppo.
fails 2 'unknown key ""' config ''
fails 2 'unexpected argument envs' config seed envs
fails 2 'unknown option --chnged; did you mean --changed?' config --chnged
fails 2 'unknown task "quickstrat"; did you mean "quickstart"' config --task quickstrat
fails 2 'nowhere.json: cannot open' config --config nowhere.json
fails 2 '--set: unknown key "host.lrr"; did you mean "host.lr"' config --set host.lrr=1
fails 2 'momentum = 1: it must be a number from 0 to 0.9999' config --set momentum=1
fails 2 'slots: r0c3 is not on this host' config --set slots=r0c3
printf '{"ppo.lr": "fast"}' >bad.json
fails 2 'bad.json: ppo.lr must be a number' config --config bad.json

set -- --task cifar_deep_impaired --set seed=18446744073709551615 --set gamma=0.99012345678901234
"$esper" config --json "$@" >one.json 2>stderr.txt && "$esper" config --config one.json --json >two.json 2>>stderr.txt
problem=$(cat stderr.txt)
cmp -s one.json two.json || problem="$problem; what came back differs"
grep -q '"18446744073709551615"' two.json || problem="$problem; the seed is not exact"
verdict 'config --json comes back through --config' "$problem"
"$esper" config --changed --task cifar_deep_impaired >stdout.txt 2>stderr.txt
problem=$(cat stderr.txt)
grep -q '^max_seeds  *6  *task ' stdout.txt || problem="$problem; max_seeds is missing"
! grep -q '^momentum ' stdout.txt || problem="$problem; momentum is a default"
verdict 'config --changed' "$problem"

# ---- esper inspect: what is not a checkpoint -------------------------------------------------------------------------
shows 'usage: esper inspect' inspect --help
fails 2 'inspect: give a run' inspect
fails 2 'unexpected argument two' inspect one two
fails 2 'missing.ckpt: cannot open' inspect missing.ckpt
fails 2 'missing.ckpt: cannot open' inspect missing.ckpt --hash
fails 2 'no run "missing"' inspect missing
fails 2 'no run.json' inspect .
fails 2 'is a device, not a file' inspect /dev/null
: >empty.ckpt
fails 2 'empty.ckpt: 0 bytes are too few' inspect empty.ckpt
fails 2 'empty.ckpt: 0 bytes are too few' inspect empty.ckpt --hash
printf 'no checkpoint, only a line of text\n' >text.ckpt
fails 2 'text.ckpt: not a safetensors file' inspect text.ckpt
noise 5000 >noise.ckpt
fails 2 'noise.ckpt: ' inspect noise.ckpt
header='{"a\u001b[31m":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"__metadata__":{"format":"else"}}'
{ printf '\200\000\000\000\000\000\000\000%-128s' "$header" && printf '\000\000\200\077\000\000\300\177'; } >foreign.ckpt
shows 'a?[31m F32  2                         8            1            1            1          1' inspect foreign.ckpt
fails 2 'foreign.ckpt: a safetensors file, but not a checkpoint' inspect foreign.ckpt --hash

# ---- runs and their checkpoints --------------------------------------------------------------------------------------
# The entropy bonus is the same in every round: a resumed run has another number of rounds, and equal states are expected.
train() { # train NAME ARGUMENTS...: a small run
    name=$1
    shift
    "$esper" train --runs runs --name "$name" --steps 3 --rounds 4 --quiet --set data.batches=1 \
        --set data.val_images=16 --set data.test_images=16 --set policy.hidden=16 --set policy.feature_dim=16 \
        --set checkpoint.rounds=1 --set ppo.entropy_coef_end=0.05 "$@" >stdout.txt 2>stderr.txt
    got=$?
    [ $got -eq 0 ] && return
    echo "FAILED train $name: exit code $got: $(cat stderr.txt); nothing more can be tested"
    exit 1
}
resume() { # resume ROUNDS: the run under test goes on to this many rounds
    echo "train --runs runs --resume runs/it --rounds $1 --quiet"
}
fresh() { # fresh: the run under test, as it was; $newest and $before are its last two checkpoints
    rm -rf runs/it
    cp -r runs/a runs/it
    newest=runs/it/checkpoints/r000004-s000.ckpt
    before=runs/it/checkpoints/r000003-s000.ckpt
}

train a --envs 2
train other --envs 3
fresh
problem=
[ -f "$newest" ] || problem="no $newest"
[ -f "$before" ] || problem="$problem; no $before"
verdict 'a run leaves its checkpoints' "$problem"
shows 'finished, 4 rounds' inspect runs/it
shows 'finished, 4 rounds' inspect it --runs runs
shows 'checksums    all match' inspect "$newest"
"$esper" inspect runs/it --hash >run.txt 2>stderr.txt && "$esper" inspect "$newest" --hash >file.txt 2>>stderr.txt
problem=$(cat stderr.txt)
cmp -s run.txt file.txt || problem="$problem; run and file disagree"
[ "$(wc -l <run.txt)" -eq 1 ] && grep -qE '^[0-9a-f]{16}$' run.txt || problem="$problem; hash: $(cat run.txt)"
verdict 'inspect --hash' "$problem"
"$esper" inspect "$before" --hash >older.txt 2>stderr.txt

# Damage to the newest: it is refused by itself, and the run goes on from the one before, and says so.
fallback() { # fallback NAME TEXT: $newest has been damaged and is refused with TEXT
    fails 2 "$newest: " inspect "$newest"
    fails 2 "$2" inspect "$newest" --hash
    "$esper" inspect runs/it >stdout.txt 2>stderr.txt
    problem=$(cat stderr.txt)
    grep -q 'r000004-s000.ckpt .*UNUSABLE: ' stdout.txt || problem="$problem; the run's list does not say so"
    grep -q 'r000003-s000.ckpt .* sound$' stdout.txt || problem="$problem; the one before is not listed as sound"
    verdict "inspect of a run with $1" "$problem"
    "$esper" inspect runs/it --hash >run.txt 2>stderr.txt
    problem=
    cmp -s run.txt older.txt || problem="not the hash of the checkpoint before"
    grep -q 'r000004-s000.ckpt cannot be used .*; resuming from r000003-s000.ckpt' stderr.txt ||
        problem="$problem; note: $(cat stderr.txt)"
    verdict "hash of a run with $1" "$problem"
    # shellcheck disable=SC2046
    "$esper" $(resume 5) >stdout.txt 2>stderr.txt
    got=$?
    problem=
    [ $got -eq 0 ] || problem="exit code $got"
    grep -q 'r000004-s000.ckpt cannot be used .*; resuming from r000003-s000.ckpt' stderr.txt ||
        problem="$problem; note: $(cat stderr.txt)"
    "$esper" inspect runs/it --hash >run.txt 2>stderr.txt
    cmp -s run.txt whole.txt || problem="$problem; not the state of an unharmed run"
    verdict "resume with $1" "$problem"
}

problem=
# shellcheck disable=SC2046
"$esper" $(resume 5) >stdout.txt 2>stderr.txt || problem=$(cat stderr.txt)
verdict 'resume of an unharmed run' "$problem"
"$esper" inspect runs/it --hash >whole.txt 2>stderr.txt

# What takes something out of a run refuses it: nobody would know that it came from an older one.
strict() { # strict CODE TEXT: $newest cannot be used
    set -- "$1" "$2" runs/it
    fails "$1" "$2" eval "$3" --episodes 2 --runs runs --quiet
    fails "$1" "$2" eval "$3" --policy replay --episodes 2 --runs runs --quiet
    fails "$1" "$2" train --from "$3" --runs runs --name heir --quiet --set policy.hidden=16 --set policy.feature_dim=16
    fails "$1" "$2" export "$3" --onnx it.onnx
    verdict "nothing is left: $2" "$(ls -d it.onnx runs/it-eval* runs/heir 2>/dev/null)"
}
fresh
flip "$newest" $(($(size "$newest") - 1))
strict 2 'r000004-s000.ckpt cannot be used (tensor '
strict 2 'to use r000003-s000.ckpt instead, move what is damaged away'
fallback 'a flipped bit' 'does not match its checksum; it is damaged or cut short: take an older one or a copy'
fresh
flip "$newest" 3000
fallback 'a flipped bit in the header' "$newest: "
fresh
head -c $(($(size "$newest") - 100)) "$newest" >cut.ckpt && cp cut.ckpt "$newest"
fallback 'a file cut short' 'it is damaged or cut short'
fresh
: >"$newest"
fallback 'an empty file' '0 bytes are too few'
fresh
cp noise.ckpt "$newest"
fallback 'noise' 'it is damaged or cut short'

# One that cannot be read is not damaged: nothing older is used, and the system's reason is given.
fresh
chmod 000 "$newest"
as_user=$esper
if [ "$(id -u)" -eq 0 ] && setpriv --reuid=65534 --regid=65534 --clear-groups "$esper" --version >/dev/null 2>&1; then
    chmod 755 . && chmod -R a+rwX runs && chmod 000 "$newest"
    printf '#!/bin/sh\nexec setpriv --reuid=65534 --regid=65534 --clear-groups "%s" "$@"\n' "$esper" >nobody
    chmod 755 nobody
    esper=./nobody
fi
if [ "$(id -u)" -ne 0 ] || [ "$esper" = ./nobody ]; then
    strict 1 'r000004-s000.ckpt: cannot open: Permission denied'
    # shellcheck disable=SC2046
    fails 1 'r000004-s000.ckpt: cannot open: Permission denied' $(resume 5)
    fails 1 'r000004-s000.ckpt: cannot open: Permission denied' inspect runs/it --hash
else
    skip 'a checkpoint that may not be read: root cannot become another user here'
fi
esper=$as_user

# Nothing to resume from, or nothing that may be used: refused, and every file stays.
fresh
for file in runs/it/checkpoints/*.ckpt; do flip "$file" $(($(size "$file") - 1)); done
sum=$(cat runs/it/checkpoints/*.ckpt | cksum)
# shellcheck disable=SC2046
fails 4 'checkpoints is intact; the newest: ' $(resume 5)
fails 2 'checkpoints is intact; the newest: ' inspect runs/it --hash
problem=
[ "$(cat runs/it/checkpoints/*.ckpt | cksum)" = "$sum" ] || problem='something was written or removed'
verdict 'damaged checkpoints stay as they are' "$problem"
fresh
rm runs/it/checkpoints/*
fails 2 'holds no checkpoint to resume from' inspect runs/it --hash
fresh
cp runs/other/checkpoints/r000004-s000.ckpt "$newest"
# shellcheck disable=SC2046
fails 4 'a checkpoint of another world: envs is "3" there and "2" here' $(resume 5)
fresh
sed -i 's/esper-checkpoint-2/esper-checkpoint-1/' "$newest"
# shellcheck disable=SC2046
fails 1 'format esper-checkpoint-1' $(resume 5)
fails 1 'format esper-checkpoint-1' inspect "$newest"
fresh
rm -r runs/it/checkpoints
fails 2 'cannot list the checkpoints' inspect runs/it --hash
fresh
mkdir runs/it/checkpoints/r000009-s000.ckpt
shows 'UNUSABLE: is a directory, not a file' inspect runs/it

conclude
