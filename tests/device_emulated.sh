#!/bin/sh
# The device backend, its kernels emulated on the CPU: a run on it is the CPU's run in fp32 as far as rounding lets it,
# the same seed gives the same bits, in whatever order streams do what events let them, an env does not notice how many
# there are nor that another one fails, and a run that was stopped goes on, there or on the CPU.
# With libesper_cuda.so as LIBRARY it does the same on a card (bench/h200.sh parity), but for a card that is not there.
# Usage: device_emulated.sh ESPER LIBRARY (from the project's root).
. tests/script.inc

case $2 in /*) ESPER_CUDA_LIBRARY=$2 ;; *) ESPER_CUDA_LIBRARY=$PWD/$2 ;; esac
export ESPER_CUDA_LIBRARY
case $2 in *emulated*) emulated=true ;; *) emulated=false ;; esac

small="--task quickstart --steps 16 --set data.batches=1 --set data.batch=4 --set data.val_images=8
    --set data.final_images=12 --set data.test_images=8 --set policy.feature_dim=32 --set policy.hidden=32 --set ppo.epochs=2 --runs $work"

train() { # train NAME OPTIONS...
    name=$1
    shift
    "$esper" train $small --name "$name" --quiet "$@" >"$work/out" 2>"$work/err" || { cat "$work/err"; exit 1; }
}
hash_of() { "$esper" inspect "$work/$1" --hash; }
same() { # same WHAT NAME NAME
    one=$(hash_of "$2")
    other=$(hash_of "$3")
    verdict "$1" "$([ -n "$one" ] && [ "$one" = "$other" ] || echo "$one and $other")"
}
ask() { "$esper" sql "$work/$1" "$2"; }
agree() { # agree WHAT NAME NAME QUESTION
    ask "$2" "$4" >"$work/first"
    ask "$3" "$4" >"$work/second"
    verdict "$1" "$([ -s "$work/first" ] && diff "$work/first" "$work/second" | head -4)"
}
cuda="--device cuda --precision fp32"

# In the first round policy and episodes are those of the CPU; what follows is a matter of rounding.
steps='select step, env, op, slot, blueprint, result, val_accuracy, round(train_loss, 3), round(val_loss, 3) from step
    where round = 0'
train cpu --envs 3 --rounds 2 --device cpu
train cuda --envs 3 --rounds 2 $cuda
agree 'first round as on the CPU' cpu cuda "$steps"
agree 'losses within a thousandth in the second' cpu cuda 'select step, env, round(val_loss, 2) from step where step < 5'
ESPER_EMULATE_ORDER=late # nothing before somebody waits for it
export ESPER_EMULATE_ORDER
train again --envs 3 --rounds 2 $cuda
unset ESPER_EMULATE_ORDER
same 'the same seed twice' cuda again
train one --envs 1 --rounds 1 $cuda
agree 'env 0 alone and among three' one cuda "select step, op, slot, result, train_loss, val_loss, reward, value from step
    where env = 0 and round = 0"
train timers --envs 1 --rounds 1 $cuda --set telemetry.timers=5
same 'env 0 whatever is timed' one timers
verdict 'every fifth step is timed' "$(ask timers "select group_concat(step) from (select step from phase
    where name in ('train', 'apply') order by step)" | tail -1 | tr -d ' ' | grep -vx 1,1,6,6,11,11,16,16)"
for policy in random heuristic static; do
    train $policy-cpu --envs 2 --rounds 1 --policy $policy --device cpu
    train $policy-cuda --envs 2 --rounds 1 --policy $policy $cuda
    agree "$policy" $policy-cpu $policy-cuda "$steps"
done
mixed="--task quick_mixed --envs 3 --rounds 2 --policy random --set reward.price=20 --set mixed.price_least=0.01 --set mixed.price_free=0.3"
train mixed-cpu $mixed --device cpu
train mixed-cuda $mixed $cuda
agree 'conditions of episodes' mixed-cpu mixed-cuda 'select round, env, images, label_noise, lr_factor, price from outcome'
agree 'episodes of different conditions' mixed-cpu mixed-cuda "$steps"
train script-cpu --envs 2 --rounds 1 --steps 40 --script examples/two_seeds.json --device cpu
train script-cuda --envs 2 --rounds 1 --steps 40 --script examples/two_seeds.json $cuda
agree 'seeds of a script' script-cpu script-cuda "select step, env, slot, stage, alpha, round(contribution, 3),
    round(grad_norm, 2), round(grad_health, 3) from seed"
fresh_gradients() { # fresh_gradients NAME ROWS: so many of its grown seeds at least, and no two with the same gradient
    told=$(ask "$1" "select count(*) >= $2 and count(*) = count(distinct grad_norm) and min(grad_health) >= 0 from seed
        where stage in ('holding', 'fossilized')" | tail -1 | tr -d ' ')
    verdict "gradients of grown seeds, measured at every step: $1" "$([ "$told" = 1 ] || echo "$told")"
}
fresh_gradients script-cpu 40
fresh_gradients script-cuda 40
agree 'their lives' script-cpu script-cuda 'select step, env, slot, event, from_stage, to_stage, passed from life'

# Images of one's own: sixty of 24x24 pixels in three classes. bf16 has not been on a card for such hosts: auto takes
# fp32, and says so.
{
    printf '\350\003\000\000\000\000\000\000%-1000s' '{"images":{"dtype":"U8","shape":[60,24,24],"data_offsets":[0,34560]},
        "labels":{"dtype":"U8","shape":[60],"data_offsets":[34560,34620]}}'
    awk 'BEGIN { for (x = 1; i++ < 34560;) { x = 16807 * x % 2147483647; printf "%c", 1 + x % 255 } }'
    i=0
    while [ $i -lt 20 ]; do printf '\000\001\002' && i=$((i + 1)); done
} >"$work/arrays"
"$esper" data import "$work/arrays" --as images --out "$work/own" >"$work/out" 2>&1 || cat "$work/out"
own="--envs 2 --rounds 1 --policy random --set data.set=images --set data.path=$work/own --set data.val_images=6 --set data.final_images=0
    --set data.test_images=6"
train own-cpu $own --device cpu
train own-cuda $own $cuda
train own-auto $own --device cuda
agree 'images of three classes' own-cpu own-cuda "$steps"
same 'auto takes fp32 for them' own-cuda own-auto
train own-bf16 $own --device cuda --precision bf16
agree 'bf16 when it is asked for' own-cpu own-bf16 'select step, env, op, slot, blueprint, round(val_loss, 1) from step'

# The objective: rewards of an episode sum to J on both backends, whose twins are the same hosts.
for device in cpu cuda; do
    train gain-$device --envs 2 --rounds 2 --steps 40 --script examples/two_seeds.json --device $device --precision fp32 \
        --set reward.mode=gain --set reward.price=2 --set reward.flop_price=0.5
    verdict "rewards sum to J: $device" "$(ask gain-$device 'select round, env, gain, sum(s.reward) from outcome o
        join step s using (round, env) group by round, env having fossilized <> 2 or abs(gain - sum(s.reward)) > 1e-9 or
        abs(gain - (o.val_accuracy - twin_accuracy - 2 * o.added_params / 1000.0 - 0.5 * (train_work - 1))) > 1e-9' |
        sed 1d)"
done
agree 'twins' gain-cpu gain-cuda 'select env, twin_accuracy from outcome where round = 0'

# Schedules, one per env: the rule, its masks and where it reads its lines are the same.
printf 'conv_light/3@1,conv_heavy/3@2\nr0c2=norm/3@4,r0c0=attention/gated_gate/3@1\nnone\n' >"$work/lines"
for device in cpu cuda; do
    train schedule-$device --envs 4 --rounds 1 --steps 32 --schedule "@$work/lines" --device $device --precision fp32
done
agree 'schedules' schedule-cpu schedule-cuda 'select step, env, op, slot, blueprint, style, tempo, result from step'
verdict 'they differ from env to env' "$(ask schedule-cuda "select env, count(*) from step where op in ('germinate', 'fossilize')
    group by env" | tail -n +2 | tr -s ' ' | tr '\n' ';' | grep -v '^ 0 4; 1 4; 3 4;$')"

# Lessons: the same schedules are tried and recited, and the policy learns as much from them; then it acts by itself.
for device in cpu cuda; do
    train lesson-$device --envs 3 --rounds 4 --device $device --precision fp32 --set lesson.tries=2 --set lesson.recitals=1 \
        --set lesson.reciters=1 --set ppo.minibatches=3
done
agree 'lessons' lesson-cpu lesson-cuda 'select round, step, env, op, slot, blueprint, result from step where round < 3'
agree 'what is learned from what is shown' lesson-cpu lesson-cuda "select round, round(policy_loss, 2), round(op_entropy, 2),
    epochs, forced_ratio from ppo where round < 3"
agree 'an env goes on reciting' lesson-cpu lesson-cuda 'select step, op, slot, blueprint from step where round = 3 and env = 0'
verdict 'envs that try schedules share births and images' "$(ask lesson-cuda 'select round, count(distinct twin_accuracy) = 1 from outcome
    where round < 2 group by round' | tail -n +2 | tr -s ' ' | tr '\n' ';' | grep -v '^ 0 1; 1 1;$')"
agree 'births in lessons' lesson-cpu lesson-cuda 'select round, env, twin_accuracy from outcome where round < 2'
verdict 'then the policy acts' "$(ask lesson-cuda 'select round, sum(forced) = count(*) from step group by round' | tail -n +2 |
    tr -s ' ' | tr '\n' ';' | grep -v '^ 0 1; 1 1; 2 0; 3 0;$')"

# Transformers: the same episodes on text; seeds of a script learn, blend and stay; auto says what it took.
cat >"$work/text.json" <<'END'
{"about": "a very small language model", "host.family": "transformer", "host.width": 8, "host.heads": 2, "host.layers": 2,
 "host.context": 8, "host.segments": 2, "slots": ["r0c0", "r0c1"], "host.lr": 0.003, "seed.lr": 0.003,
 "data.set": "language", "data.batches": 1, "data.batch": 3, "data.val_images": 2, "data.test_images": 2,
 "policy.feature_dim": 32, "policy.hidden": 32, "ppo.epochs": 2}
END
cat >"$work/text_seeds.json" <<'END'
[{"step": 1, "op": "germinate", "slot": "r0c0", "blueprint": "attention", "style": "gated_gate", "tempo": 3},
 {"step": 2, "op": "germinate", "slot": "r0c1", "blueprint": "mlp", "tempo": 3}]
END
text() { # text NAME OPTIONS...
    name=$1
    shift
    "$esper" train --task "$work/text.json" --runs "$work" --name "$name" --envs 2 --rounds 1 --steps 15 --quiet \
        --precision fp32 "$@" >"$work/out" 2>"$work/err" || { cat "$work/err"; exit 1; }
}
text_steps='select step, env, op, slot, blueprint, result, round(val_accuracy, 2), round(train_loss, 3), round(val_loss, 3) from step'
for device in cpu cuda; do
    text text-$device --device $device
    text text-script-$device --device $device --script "$work/text_seeds.json"
done
agree 'text as on the CPU' text-cpu text-cuda "$text_steps"
agree 'text with seeds of a script' text-script-cpu text-script-cuda "$text_steps"
agree 'its seeds' text-script-cpu text-script-cuda "select step, env, slot, stage, alpha, round(contribution, 2),
    round(grad_norm, 2), round(grad_health, 3) from seed"
ESPER_EMULATE_ORDER=late text text-again --device cuda
same 'text twice' text-cuda text-again
fails 1 'precision = bf16: there are no bf16 kernels for this host (2 layers of width 8' train --task "$work/text.json" \
    --runs "$work" --name none --device cuda --precision bf16

# In bf16, which hosts of width 32 with heads of 16 may be computed in: the same seeds, losses close to the CPU's, the
# same bits again by `auto`, which takes it and says so.
small_text="--script $work/text_seeds.json --set host.width=32 --set host.context=20"
text text-bf16-cpu --device cpu $small_text
text text-bf16-cuda --device cuda $small_text --precision bf16
ESPER_EMULATE_ORDER=late text text-auto-cuda --device cuda $small_text --precision auto
verdict 'auto is bf16 for text' "$(grep -q 'cuda bf16' "$work/err" || cat "$work/err")"
same 'text in bf16 twice' text-bf16-cuda text-auto-cuda
agree 'text in bf16, its seeds' text-bf16-cpu text-bf16-cuda 'select step, env, slot, stage, blueprint, alpha from seed'
agree 'text in bf16, its losses' text-bf16-cpu text-bf16-cuda 'select step, env, op, round(val_loss, 1) from step'

# In bf16, a wide host.
wide_text="--steps 3 --script $work/text_seeds.json --set host.width=128 --set host.heads=2"
text text-wide-cpu --device cpu $wide_text
text text-wide-cuda --device cuda $wide_text --precision bf16
agree 'wide text in bf16' text-wide-cpu text-wide-cuda 'select step, env, op, slot, blueprint, result, round(val_loss) from step'

# A CNN of the usual form.
usual="--task cifar_baseline --envs 1 --rounds 1 --steps 3 --set data.set=synthetic --set data.size=32 --set data.batches=3 --set data.batch=2"

# A card with less shared memory, as compute capability 8.9 has it: wide hosts are computed in fp32, or refused, and CNNs of
# the usual form by the bf16 kernels for any.
small_card() {
    ESPER_EMULATE_SHARED=101376
    export ESPER_EMULATE_SHARED
    text text-card --device cuda $wide_text --precision auto
    verdict 'what the card has no room for' "$(grep -q 'no bf16 kernels for this host on this GPU' "$work/out" || echo "not said: $(cat "$work/out")")"
    agree 'wide text on a small card' text-wide-cpu text-card 'select step, env, op, slot, round(val_loss, 2) from step'
    fails 1 'precision = bf16: there are no bf16 kernels for this host (2 layers of width 128' train --task "$work/text.json" \
        --runs "$work" --name none --device cuda $wide_text --precision bf16
    train card-bf16 $usual --device cuda --precision bf16
    unset ESPER_EMULATE_SHARED
    train card-cpu $usual --device cpu
    agree 'a CNN on a small card' card-cpu card-bf16 'select step, env, op, slot, round(val_loss, 1) from step'
}
! $emulated || small_card

# Without layers, which leaves slots in a row: as on the CPU; the long form also in bf16, and resumed.
slots_alone="--set host.layers=0 --script $work/text_seeds.json"
for device in cpu cuda; do
    text text-slots-$device --device $device $slots_alone
done
agree 'text without layers' text-slots-cpu text-slots-cuda "$text_steps"
agree 'its seeds' text-slots-cpu text-slots-cuda "select step, env, slot, stage, alpha, round(contribution, 2),
    round(grad_norm, 2), round(grad_health, 3) from seed"
if [ -n "${ESPER_SOAK:-}" ]; then
    text text-slots-two --device cuda $slots_alone --rounds 2
    "$esper" train --resume "$work/text-slots-cuda" --rounds 2 --quiet >"$work/out" 2>"$work/err" || cat "$work/err"
    same 'without layers, resumed' text-slots-two text-slots-cuda
    text text-slots-bf16-cpu --device cpu $slots_alone --set host.width=32 --set data.batch=5
    text text-slots-bf16-cuda --device cuda $slots_alone --set host.width=32 --set data.batch=5 --precision bf16
    agree 'without layers in bf16' text-slots-bf16-cpu text-slots-bf16-cuda 'select step, env, op, round(val_loss, 1) from step'
    text text-slots-wide-cpu --device cpu $wide_text --set host.layers=0
    text text-slots-wide-cuda --device cuda $wide_text --set host.layers=0 --precision bf16
    agree 'without layers, wide' text-slots-wide-cpu text-slots-wide-cuda 'select step, env, op, slot, round(val_loss) from step'
fi

# Six seeds at once: too many for a table of all subsets, so their shares in the outcome are sampled at the last step.
for device in cpu cuda; do
    train six-$device --envs 2 --rounds 2 --steps 24 --script examples/six_seeds.json --device $device --precision fp32 \
        --set slots=r0c0,r0c1,r0c2,r1c0,r1c1,r1c2
done
agree 'sampled shares' six-cpu six-cuda 'select round, step, env, slot, share, share_error from seed'
verdict 'errors of all sampled shares' \
    "$(ask six-cuda 'select step, count(*) from seed where share_error is not null group by step' | tail -1 |
        grep -vx ' *24 *24')"

# Streams beside the main one, as late and as early as events let them (tests/emulate/streams.h): the same bits, or a
# dependency is missing. emulated_seed does so with seeds in every state.
for order in capture late early; do
    ESPER_EMULATE_ORDER=$order
    export ESPER_EMULATE_ORDER
    train order-$order $usual --device cuda --precision bf16
done
unset ESPER_EMULATE_ORDER
same 'side streams late' order-capture order-late
same 'side streams early' order-capture order-early

# A NAN in one env's weights reaches no other before the update (E-03); some envs of a run play as among all of them;
# captured phases copy, fill and convert nothing that is not permitted.
for what in poison envs graphs; do
    program=$(dirname "$esper")/tests/test_$what
    if [ -x "$program" ]; then
        ESPER_TEST_DEVICE=cuda "$program" >"$work/out" 2>&1
        verdict "test_$what" "$([ $? -eq 0 ] || tail -5 "$work/out")"
    else
        skip "there is no test_$what; make unit"
    fi
done

# bench/h200.sh fails where a step does what it should not: it judges counters that it is given.
counts() { # counts LAUNCHES WAITS ALLOCATIONS COPIES
    printf 'loop,host,16 envs x 512,0,%s,%s,\n' 1000 env-steps/s "$1" launches/step 0.9 waits/step "$2" 'most waits/step' \
        "$3" allocations/step "$4" copies/step >"$work/counts.csv"
    sh bench/h200.sh --judge "$work/counts.csv" 2>>"$work/judged"
}
verdict 'counters as they should be' "$(counts 4 1 0 1 || cat "$work/judged")"
verdict 'counters beyond that' "$(counts 5 1 0 1; counts 4 2 0 1; counts 4 1 0.01 1; counts 4 1 0 2; : >"$work/counts.csv"
    sh bench/h200.sh --judge "$work/counts.csv" 2>/dev/null && echo 'none are accepted'
    wc -l <"$work/judged" | grep -vx ' *4')"

# Golden numbers: those of whole networks on the device, the rest is skipped and said so.
"$esper" selftest --vectors tests/vectors --device cuda >"$work/out" 2>"$work/err"
verdict 'golden vectors' "$([ $? -eq 0 ] && grep -q '^host_slots.safetensors, cuda' "$work/out" &&
    grep -q '^[0-9]\{4\} passed, 0 failed, ' "$work/out" || tail -3 "$work/out" "$work/err")"
"$esper" selftest --vectors tests/vectors --device cuda --precision bf16 >"$work/out" 2>"$work/err"
verdict 'golden vectors in bf16' "$([ $? -eq 0 ] && grep -q '^host_slots.safetensors, cuda bf16' "$work/out" &&
    grep -q '^[0-9]\{2,\} passed, 0 failed, ' "$work/out" || tail -5 "$work/out" "$work/err")"

# The case table (emulated_cases runs all of it): what a backend lacks is said by name.
"$esper" selftest --device cuda --precision bf16 --case 'network iso' >"$work/out" 2>"$work/err"
verdict 'what bf16 lacks' "$(grep -qx 'cuda bf16 lacks: network isolated' "$work/out" || tail -5 "$work/out" "$work/err")"
"$esper" selftest --device cuda --precision bf16 --case 'network no' >"$work/out" 2>"$work/err"
verdict 'case table in bf16' "$([ $? -eq 0 ] &&
    grep -q '^[1-9][0-9]* passed, 0 failed, ' "$work/out" || tail -5 "$work/out" "$work/err")"

# What is asked for by name is done or refused; auto says what it took. The bf16 kernels know hosts with room for a few
# rows of their maps in shared memory.
line='precision = bf16: there are no bf16 kernels for this host ('
wide="--set host.base=256 --set host.blocks=2 --set host.pools=0 --set host.kernel=3 --set slots=r0c0 --set data.size=32"
echo '{"about": "maps without room", "host.base": 256, "host.blocks": 2, "host.pools": 0, "host.kernel": 3,
    "slots": ["r0c0"], "data.set": "synthetic", "data.size": 32, "data.val_images": 8, "data.test_images": 8}' >"$work/wide.json"
fails 1 "$line" train $small $wide --device cuda --precision bf16 --name none
fails 1 "$line" train $small $wide --precision bf16 --name none
fails 1 "$line" eval --task quickstart $wide --policy static --runs "$work" --name none --precision bf16
fails 1 "$line" train --resume "$work/text-cuda" --rounds 3 --precision bf16
fails 1 "$line" bench --task "$work/wide.json" --envs 1 --part train --device cuda --precision bf16
verdict 'no run where none began' "$([ ! -e "$work/none" ] || ls "$work/none")"
first_line() { # first_line WHAT TEXT OPTIONS...
    what=$1
    text=$2
    shift 2
    "$esper" train $small --envs 1 --rounds 1 --name "$what" "$@" >"$work/out" 2>"$work/err"
    verdict "$what" "$(head -1 "$work/err" | grep -qF "$text" || head -2 "$work/err")"
}
first_line auto-fp32 ', cuda fp32, tf32 policy (bf16 for this host must be asked for)' --device cuda --steps 1
first_line named-fp32 ', cuda fp32' --device cuda --precision fp32 --steps 1
cat >"$work/grow.json" <<'END'
[{"step": 1, "op": "germinate", "slot": "r0c0", "blueprint": "norm", "tempo": 3},
 {"step": 18, "op": "fossilize", "slot": "r0c0"}]
END
first_line bf16 ', cuda bf16' --device cuda --precision bf16 --script "$work/grow.json" --steps 20 --set host.base=8 \
    --set host.kernel=3 --set data.size=32 --set data.batch=2 --set data.val_images=4 --set data.test_images=4
fresh_gradients bf16 2

# In bf16, hosts of any shape: seeds of a script live as on the CPU, the same seed gives the same bits, and an env does
# not notice how many there are.
planes="--steps 40 --rounds 1 --script examples/two_seeds.json"
train planes-cpu --envs 2 $planes --device cpu
train planes-cuda --envs 2 $planes --device cuda --precision bf16
ESPER_EMULATE_ORDER=late train planes-again --envs 2 $planes --device cuda --precision bf16
same 'any shape in bf16 twice' planes-cuda planes-again
agree 'any shape in bf16, its seeds' planes-cpu planes-cuda 'select step, env, slot, stage, blueprint, alpha from seed'
for name in planes-cpu planes-cuda; do ask $name 'select val_loss from step order by step, env' | sed 1d >"$work/$name.losses"; done
verdict 'any shape in bf16, its losses' "$(paste "$work/planes-cpu.losses" "$work/planes-cuda.losses" |
    awk '{ d = $1 > $2 ? $1 - $2 : $2 - $1; most = d > most ? d : most } END { if (NR != 80 || most > 0.3) print NR, most }')"
fresh_gradients planes-cuda 40
train planes-one --envs 1 --steps 10 --rounds 1 --policy random --device cuda --precision bf16
train planes-three --envs 3 --steps 10 --rounds 1 --policy random --device cuda --precision bf16
agree 'any shape in bf16, env 0 alone and among three' planes-one planes-three "select step, op, slot, result, train_loss,
    val_loss from step where env = 0"

# Stopped in the middle of a round, at a step of its own choice, and resumed: the run that was never stopped.
train whole --envs 2 --rounds 4 $cuda
"$esper" train $small --envs 2 --rounds 4 $cuda --name stopped --plain >"$work/out" 2>"$work/err" &
background=$!
while kill -0 $background 2>/dev/null && ! grep -q '^round 1/' "$work/err"; do sleep 0.02; done
$emulated && sleep 0.3 # a card is through with the next round by then
kill -s INT $background 2>/dev/null
wait $background
verdict 'SIGINT' "$([ $? -eq 130 ] || cat "$work/out" "$work/err")"
background=
"$esper" train --resume "$work/stopped" --quiet >"$work/out" 2>"$work/err" || cat "$work/err"
same 'stopped and resumed' whole stopped

# A policy that was learned elsewhere plays its first episode on a network that was made here.
for device in cpu cuda; do
    "$esper" eval "$work/cuda" --runs "$work" --episodes 3 --device $device --precision fp32 --name eval-$device --quiet \
        >"$work/out" 2>"$work/err" || cat "$work/err"
done
agree 'evaluation' eval-cpu eval-cuda "select step, env, op, slot, result, val_accuracy, round(val_loss, 3) from step"

# A checkpoint of either goes on with the other.
for turn in "4 5 cpu" "5 6 cuda"; do
    set -- $turn
    "$esper" train --resume "$work/whole" --rounds "$2" --device "$3" --quiet >"$work/out" 2>"$work/err"
    verdict "resumed on $3" "$([ $? -eq 0 ] && [ "$(ask whole 'select count(*) from round' | tail -1 | tr -d ' ')" = "$2" ] ||
        cat "$work/err")"
done

conclude
