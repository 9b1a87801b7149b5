#!/bin/sh
# Many ranks, one run (E-25): checkpoints and record of 1, 2, 3 and 4 ranks are the same bytes; a run that was stopped, or lost a
# rank, goes on with any number of them; what cannot work is refused in one line, and nothing hangs. With ESPER_SOAK set,
# ranks are killed at random, ESPER_KILLS times. On the emulated device: the same bytes, stopped and resumed.
# Usage: run_ranks.sh ESPER [DEVICE_LIBRARY] (from the project's root).
. tests/script.inc
folder=$(dirname "$esper")
if [ ! -e "$folder/libesper_mpi.so" ] || ! command -v mpirun >"$work/found"; then
    skip 'no Open MPI: apt-get install openmpi-bin libopenmpi-dev'
    conclude
    exit
fi
# One machine, no network; as root and on few cores too; mpirun's own time before it kills.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_odls_base_sigkill_timeout=1
export OMPI_MCA_btl=self,vader OMPI_MCA_btl_vader_single_copy_mechanism=none OMPI_MCA_oob_tcp_if_include=lo
export OMPI_MCA_plm_rsh_agent=false OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
limit=$((60 * patience))
on() { # on RANKS ARGUMENTS...: that many ranks of the program, which end in time
    ranks=$1
    shift
    if [ "$ranks" -eq 1 ]; then timeout $limit "$esper" "$@"; else timeout $limit mpirun -n "$ranks" "$esper" "$@"; fi
}

# Groups that ranks divide, twins, unlike episodes, rollbacks, lessons, a checkpoint in every round.
small="--task quickstart --envs 5 --steps 12 --set group=2 --set data.batches=1 --set data.batch=8 --set data.val_images=20
    --set data.test_images=20 --set policy.feature_dim=16 --set policy.hidden=16 --set checkpoint.rounds=1
    --set mixed.images_least=0.1 --set mixed.lr_factor=2 --set host.lr=0.1 --set governor.loss_limit=0
    --set governor.factor=0 --set governor.sigmas=0 --set governor.streak=1 --set lesson.tries=1 --set lesson.recitals=1
    --runs $work --quiet"
rounds=25
if [ $# -gt 1 ]; then
    case $2 in /*) ESPER_CUDA_LIBRARY=$2 ;; *) ESPER_CUDA_LIBRARY=$PWD/$2 ;; esac
    export ESPER_CUDA_LIBRARY
    small="$small --device cuda --precision fp32 --steps 6 --set data.batch=4 --set data.val_images=4 --set data.test_images=4"
    rounds=3
fi

contents() { # contents NAME: of its record, what does not depend on time
    for table in step seed life subset outcome rollback alert ppo_head drops; do "$esper" export "$work/$1" --csv $table; done
    "$esper" sql "$work/$1" --csv 'select file, kind, round, step, hash, bytes from checkpoint order by file, round'
    "$esper" sql "$work/$1" --csv 'select round, reward_mean, val_accuracy_mean, fossilizations, refusals from round'
    "$esper" sql "$work/$1" --csv 'select round, policy_loss, kl, value_scale, reward_scale from ppo order by round'
}
same() { # same WHAT NAME OTHER: the same checkpoints and the same record
    problem=
    for file in "$work/$2"/checkpoints/*; do
        cmp -s "$file" "$work/$3/checkpoints/$(basename "$file")" || problem="$problem $(basename "$file")"
    done
    [ "$(ls "$work/$2/checkpoints")" = "$(ls "$work/$3/checkpoints")" ] || problem="$problem other files"
    contents "$2" >"$work/one" 2>&1
    contents "$3" >"$work/other" 2>&1
    cmp -s "$work/one" "$work/other" || problem="$problem $(diff "$work/one" "$work/other" | head -3)"
    [ "$(wc -l <"$work/one")" -gt 100 ] || problem="$problem an empty record"
    verdict "$1" "$problem"
}

same_hash() { # same_hash WHAT NAME OTHER: the same state at the end
    verdict "$1" "$([ "$("$esper" inspect "$work/$2" --hash)" = "$("$esper" inspect "$work/$3" --hash)" ] || echo 'another hash')"
}

# ---- equal bits ------------------------------------------------------------------------------------------------------
play() { # play RANKS NAME OPTIONS...
    ranks=$1
    name=$2
    shift 2
    on "$ranks" train $small --name "$name" "$@" >"$work/out" 2>&1 || verdict "$name on $ranks ranks" "$(cat "$work/out")"
}
start() { # start RANKS NAME: in the background, until it has a checkpoint
    mpirun -n "$1" "$esper" train $small --rounds $rounds --name "$2" >"$work/out" 2>"$work/err" &
    background=$!
    tries=0
    while ! ls "$work/$2/checkpoints"/r* >"$work/found" 2>&1 && [ $tries -lt $((20 * limit)) ]; do
        sleep 0.05
        tries=$((tries + 1))
    done
}
rank() { pgrep -P "$background" -f "$esper train" | sed -n "$(($1 + 1))p"; } # rank NUMBER: its process
ended() { # ended: waits for it; its exit code
    wait "$background"
    code=$?
    background=
}
stop() { # stop RANKS OTHERS: a run on so many ranks is stopped in the middle, and goes on with the others
    start "$1" stopped
    kill -s USR1 "$background" # mpirun hands it on
    ended
    verdict 'stopped' "$([ $code -eq 130 ] && grep -q 'stopped after .* saved' "$work/out" || echo "$code $(cat "$work/out")")"
    on "$2" train --resume "$work/stopped" --quiet >"$work/out" 2>&1 || verdict 'resumed' "$(cat "$work/out")"
    same_hash "stopped on $1 ranks, resumed on $2" long stopped
}
play 1 long --rounds $rounds
if [ $# -gt 1 ]; then
    play 2 twice --rounds $rounds
    same '1 and 2 ranks on the device' long twice
    stop 2 1
    conclude
    exit
fi
for ranks in 1 2 3 4; do
    play $ranks r$ranks --rounds 3
    [ $ranks -eq 1 ] || same "1 and $ranks ranks" r1 r$ranks
    # who waited for whom: a row for every rank and round, none of a process that is alone
    wanted=$([ $ranks -eq 1 ] && echo 0,,0 || echo "$((3 * ranks)),$ranks,15")
    told=$("$esper" sql "$work/r$ranks" --csv "select count(*), nullif(count(distinct rank), 0), coalesce(sum(envs), 0)
        from rank where busy > 0 and waited >= 0 and node <> '' and device <> ''" | tail -1 | tr -d '\r')
    verdict "times of $ranks ranks" "$([ "$told" = "$wanted" ] || echo "$told, not $wanted")"
done
rollbacks=$("$esper" sql "$work/r1" --csv 'select count(*) from rollback' | tail -1 | tr -d '\r')
[ "${rollbacks:-0}" -gt 0 ] || verdict 'rollbacks' 'there were none: the test shows less than it should'
for ranks in 1 3; do
    on $ranks eval r1 --runs "$work" --episodes 5 --name eval$ranks --quiet >"$work/out" 2>&1 ||
        verdict "eval on $ranks ranks" "$(cat "$work/out")"
done
same 'eval on 1 and 3 ranks' eval1 eval3

# Rank 0 leads an exam and the search in it; the others play what it plays.
exam="exam $small --rounds 2 --seeds 1 --episodes 5 --catalogue-episodes 1 --json"
judged() { grep -v seconds "$work/$1.json" | sed "s/$1\b//"; }
on 1 $exam --name exam1 >"$work/exam1.json" 2>"$work/err" || verdict 'exam' "$(cat "$work/err")"
mpirun -n 3 "$esper" $exam --name exam3 >"$work/out" 2>"$work/err" &
background=$!
tries=0
while [ ! -e "$work/exam3/training-p0-s43" ] && [ $tries -lt $((20 * limit)) ]; do
    sleep 0.05
    tries=$((tries + 1))
done
kill -s USR1 "$background"
ended
verdict 'an exam is stopped' "$([ $code -eq 130 ] && grep -q 'exam3: stopped in .*; the same command goes on' "$work/out" ||
    echo "$code $(cat "$work/out" "$work/err")")"
on 2 $exam --name exam3 >"$work/exam3.json" 2>"$work/err" || verdict 'an exam goes on' "$(cat "$work/err")"
verdict 'an exam on 1 rank, and on 3 and 2' "$(judged exam1 >"$work/one"; judged exam3 >"$work/other"
    [ "$(wc -l <"$work/one")" -gt 100 ] || echo 'says little'; diff "$work/one" "$work/other" | head -5)"

# ---- stopped, lost, resumed ------------------------------------------------------------------------------------------
stop 3 2

start 2 lost
kill -s KILL "$(rank 1)"
ended
grep '^esper: ' "$work/err" >"$work/line"
verdict 'a rank is killed' "$([ $code -ne 0 ] && [ "$(wc -l <"$work/line")" -eq 1 ] &&
    grep -q "esper: rank 1 ([^)]*) has ended; the run goes on from its checkpoint r0000..-s....ckpt: .*lost" "$work/line" ||
    echo "$code $(cat "$work/err")")"
on 4 train --resume "$work/lost" --quiet >"$work/out" 2>&1 || verdict 'resumed after a loss' "$(cat "$work/out")"
same 'lost a rank of 2, resumed on 4' long lost

start 3 frozen
frozen=$(rank 2)
kill -s STOP "$frozen"
kill -s KILL "$(rank 0)" # and the one that would speak
ended
kill -s KILL "$frozen" 2>"$work/found"
verdict 'rank 0 is killed' "$(grep -q 'esper: rank 0 (.*) has ended; ' "$work/err" || cat "$work/err")"

# ---- what cannot work ------------------------------------------------------------------------------------------------
refused() { # refused TEXT COMMAND...: it ends with one line of ours that holds TEXT
    text=$1
    shift
    timeout $limit "$@" >"$work/out" 2>&1
    code=$?
    grep '^esper: ' "$work/out" >"$work/line"
    verdict "$text" "$([ $code -ne 0 ] && [ $code -ne 124 ] && [ "$(wc -l <"$work/line")" -eq 1 ] &&
        grep -qF -- "$text" "$work/line" || echo "$code: $(head -5 "$work/out")")"
}
refused '6 ranks for 5 envs' mpirun -n 6 "$esper" train $small --name none
refused ' its configuration has checksum' \
    mpirun -n 1 "$esper" train $small --seed 1 --name none : -n 1 "$esper" train $small --seed 2 --name none
refused 'did you mean --rounds' mpirun -n 3 "$esper" train --round 2
refused 'no run' mpirun -n 2 "$esper" train --resume nothing --runs "$work"
refused '--tui: not with many ranks' env OMPI_COMM_WORLD_SIZE=2 "$esper" train --tui
refused ' its configuration has checksum' \
    mpirun -n 1 "$esper" search --seed 1 --runs "$work" --name none : -n 1 "$esper" search --seed 2 --runs "$work" --name none
refused '--prices x: up to' mpirun -n 2 "$esper" exam --runs "$work" --name none --prices x
verdict 'each alone' "$(env ESPER_ALONE=1 OMPI_COMM_WORLD_SIZE=2 "$esper" train $small --rounds 1 --name single 2>&1 | grep -v '1 round done')"
mkdir "$work/bare" "$work/other_build"
cp "$esper" "$work/bare/esper"
refused 'apt-get install openmpi-bin libopenmpi-dev' env SLURM_STEP_NUM_TASKS=2 "$work/bare/esper" train $small --name none
cp "$esper" "$folder/libesper_mpi.so" "$work/other_build/"
printf x >>"$work/other_build/esper"
refused ' it is esper ' mpirun -n 1 "$esper" train $small --name none : -n 1 "$work/other_build/esper" train $small --name none
cat >"$work/alone.json" <<'END'
[{"step": 1, "op": "germinate", "slot": "r0c0", "blueprint": "norm"}]
END
# A file that one rank cannot see, as without a shared file system.
refused 'rank 1 (' mpirun -n 1 --wdir "$work" "$esper" train $small --script alone.json --name none : \
    -n 1 --wdir "$work/bare" "$esper" train $small --script alone.json --name none
verdict 'nothing was left behind' "$([ ! -e "$work/none" ] || echo 'a run')"

# ---- many envs -------------------------------------------------------------------------------------------------------
if [ -n "${ESPER_SOAK:-}" ]; then
    for ranks in 1 8; do
        play $ranks wide$ranks --rounds 1 --envs 8192 --steps 4 --set group=1 --set data.batch=2 --set data.val_images=2 \
            --set data.test_images=2 --set ppo.epochs=1 --threads 1
    done
    same_hash '8 192 envs on 1 and 8 ranks' wide1 wide8
    rm -rf "$work/wide1" "$work/wide8"
fi

# ---- random kills ----------------------------------------------------------------------------------------------------
kills=${ESPER_SOAK:+50}
kills=${ESPER_KILLS:-${kills:-0}}
killed=0
while [ "$killed" -lt "$kills" ]; do
    rm -rf "$work/victim"
    start 3 victim
    while [ "$killed" -lt "$kills" ]; do
        sleep "0.$(awk "BEGIN { srand($killed); printf \"%03d\", rand() * 1000 }")"
        victim=$(rank $((killed % 3)))
        [ -n "$victim" ] || break
        kill -s KILL "$victim"
        ended
        killed=$((killed + 1))
        "$esper" sql "$work/victim" 'select count(*) from step' >"$work/out" 2>&1 || verdict "kill $killed" "$(cat "$work/out")"
        mpirun -n $((killed % 4 + 2)) "$esper" train --resume "$work/victim" --quiet >"$work/out" 2>"$work/err" &
        background=$!
    done
    ended
    on 1 train --resume "$work/victim" --quiet >"$work/out" 2>&1
    same "after $killed kills" long victim
done
conclude
