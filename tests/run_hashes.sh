#!/bin/sh
# The bits of short runs of every task, against the list in tests/hashes.txt: seeds of every blueprint that blend in and
# become fossils, and a policy that learns. A line is DEVICE PRECISION TASK RUN, the hash of the run's last checkpoint and
# a checksum of figures in its record. Usage: run_hashes.sh ESPER [LIBRARY], LIBRARY being the emulated device.
#
# Where a change is meant to alter results, write the list anew, and say in the commit why:
#   for device in '' build/libesper_emulated.so; do RENEW=1 sh tests/run_hashes.sh build/esper $device; done
#
# The portable kernels, SSE2 without fused operations, round alike with every compiler; on other processors, and with a
# libm that rounds differently, there is no list to keep to, and two runs must agree.
. tests/script.inc

# The data of images is anybody's, and text_gpt would take minutes.
tasks=$(basename -s .json tasks/*.json | grep -vx -e images -e text_gpt)
list=$PWD/tests/hashes.txt
grown="cifar_baseline cifar_deep_impaired cifar_impaired cifar_minimal quick_mixed" # of the device's
library=${2:-}
case $library in '' | /*) ;; *) library=$PWD/$library ;; esac
enter_work
"$esper" doctor | grep -q ' base' && export ESPER_KERNELS=base
device=cpu
if [ -n "$library" ]; then
    device=cuda
    export ESPER_CUDA_LIBRARY="$library"
fi

# ---- tiny packed sets: noise, as every awk makes it -----------------------------------------------------------------
awk 'BEGIN { for (x = 1; i++ < 128 * 3072;) { x = 16807 * x % 2147483647; printf "%c", 1 + x % 255 } }' >pixels
for _ in 1 2 3 4 5 6 7; do printf '\000\001\002\003\004\005\006\007\010\011'; done >labels # 70: each split takes some
tensors() { # tensors SPLIT COUNT FROM: its two entries of the header
    middle=$(($3 + $2 * 3072))
    printf '"%s.images":{"dtype":"U8","shape":[%d,32,32,3],"data_offsets":[%d,%d]},' "$1" "$2" "$3" $middle
    printf '"%s.labels":{"dtype":"U8","shape":[%d],"data_offsets":[%d,%d]}' "$1" "$2" $middle $((middle + $2))
}
mkdir data
for set in cifar10 fashion mnist; do
    header=$(printf '{"__metadata__":{"format":"esper-images","version":"1","name":"%s","train":"64",' $set
        printf '"val":"32","test":"32"},%s,%s,' "$(tensors train 64 0)" "$(tensors val 32 196672)"
        printf '%s}' "$(tensors test 32 295008)")
    {
        printf '\350\003\000\000\000\000\000\000%-1000s' "$header"
        head -c 196608 pixels && head -c 64 labels
        tail -c +196609 pixels | head -c 98304 && head -c 32 labels
        tail -c 98304 pixels && head -c 32 labels
    } >data/$set.safetensors
done

# ---- the runs --------------------------------------------------------------------------------------------------------
nth() { # nth N WORDS...: the one that N is in turn for
    shift $((1 + $1 % ($# - 1)))
    echo "$1"
}
germinate() { # germinate STEP SLOT N
    case $task in
    text_*) blueprint=$(nth "$3" lora attention norm mlp lora_large mlp_small) ;;
    *) blueprint=$(nth "$3" conv_light attention norm depthwise bottleneck conv_small conv_heavy) ;;
    esac
    printf '{"step": %d, "op": "germinate", "slot": "%s", "blueprint": "%s", ' "$1" "$2" "$blueprint"
    printf '"style": "%s", "tempo": 3},\n' "$(nth "$3" linear_add sigmoid_add gated_gate linear_multiply)"
}
grow() { # grow: three seeds blend in; one becomes a fossil, one is turned down, one pruned
    number=$(echo "$task" | cksum) # tasks have different blueprints, whatever other tasks there are
    number=${number%% *}
    set -- $("$esper" config slots --task "$task" | sed -n '1s/.* = //p' | tr , ' ')
    first=$1
    shift $(($# / 2))
    middle=$1
    shift $(($# - 1))
    last=$1
    printf '['
    germinate 1 "$first" "$number"
    germinate 2 "$middle" $((number + 1))
    germinate 3 "$last" $((number + 2))
    printf '{"step": 14, "op": "fossilize", "slot": "%s"},\n' "$first"
    printf '{"step": 15, "op": "set_alpha_target", "slot": "%s", "target": 0.5, "speed": 3},\n' "$middle"
    printf '{"step": 16, "op": "prune", "slot": "%s"}]\n' "$last"
}

small="--set data.batches=1 --set data.batch=2 --set data.test_images=1 --seed 5 --quiet"
of_steps='select round, step, env, op, result, slot, blueprint, style, tempo, p_germinate, value, train_loss, val_loss,
    val_accuracy, live, added_params, reward, attribution, pbrs, rent from step order by round, step, env'
of_seeds='select round, step, env, slot, stage, blueprint, algorithm, params, alpha, contribution, share, grad_norm,
    grad_health from seed order by round, step, env, slot'

play() { # play DEVICE PRECISION TASK grown|learned: its line
    task=$3
    case $4 in
    grown)
        grow >grown.json
        options="--rounds 1 --steps 18 --script grown.json --set reward.mode=shaped"
        ;;
    learned)
        options="--rounds $rounds --steps $steps --set policy.prior.germinate=2 --set policy.feature_dim=32
            --set policy.hidden=32 --set ppo.epochs=2"
        ;;
    esac
    case $task in
    *_mixed) options="$options --set mixed.images_least=0.1" ;; # the sets are tiny
    text_*) options="$options --set data.set=language" ;;
    esac
    rm -rf runs
    "$esper" train --device "$1" --precision "$2" --task "$3" --name run --envs $envs --set data.val_images=$images \
        $small $options >out 2>err || {
        cat err
        exit 1
    } >&2
    figures=$(for question in "$of_steps" "$of_seeds"; do "$esper" sql run --csv "$question"; done | cksum)
    echo "$1 $2 $3 $4 $("$esper" inspect run --hash) ${figures%% *}"
}

play_all() { # all lines of the device
    if [ "$device" = cpu ]; then
        envs=2
        images=4
        rounds=2
        steps=5
        for task in $tasks; do
            play cpu fp32 "$task" grown
            play cpu fp32 "$task" learned
        done
        return
    fi
    envs=1 # the emulation takes a second for what the CPU does in some milliseconds
    images=1
    rounds=1
    steps=2
    for task in $tasks; do play cuda fp32 "$task" learned; done
    for task in $grown; do play cuda fp32 "$task" grown; done
    play cuda bf16 cifar_multichannel grown
    play cuda bf16 cifar_baseline learned
}

play_all >found
sort -o found found
here="$(uname -m), $(getconf GNU_LIBC_VERSION 2>/dev/null)"
made=$(sed -n '1s/^# //p' "$list")
if [ -n "${RENEW:-}" ]; then
    { echo "# $here" && grep -v -e '^#' -e "^$device " "$list" | sort - found; } >renewed
    cp renewed "$list"
    made=$here
fi
grep "^$device " "$list" | diff - found >differences || true
if [ -s differences ] && [ "$here" != "$made" ]; then
    skip "the list: it was made on $made and differs on $here"
    if [ -z "${ESPER_SOAK:-}" ]; then # a few will do
        tasks="quickstart cifar_impaired text_quick"
        grown=cifar_baseline
    fi
    play_all >again
    verdict "the same bits twice" "$([ -s again ] && grep -vxF -f found again)"
else
    verdict "the bits of every run" "$(cat differences)"
fi
ESPER_KERNELS=SSE
export ESPER_KERNELS
fails 2 'ESPER_KERNELS = SSE: no kernels that this machine runs' version
conclude
