#!/bin/sh
# Many ranks, one run: checkpoints and record of 1, 2, 3 and 4 ranks are the same bytes; a run that was stopped, or lost a
# rank, goes on with any number of them; what cannot work is refused in one line, and nothing hangs. With ESPER_SOAK set,
# ranks are killed at random, ESPER_KILLS times. ESPER_RANKS_DEVICE=cuda plays on the device.
# Usage: run_ranks.sh ESPER (from the project's root).
. tests/script.inc
folder=$(dirname "$esper")
if [ ! -e "$folder/libesper_mpi.so" ] || ! command -v mpirun >"$work/found"; then
    skip 'no Open MPI: apt-get install openmpi-bin libopenmpi-dev'
    conclude
    exit
fi
device=${ESPER_RANKS_DEVICE:-cpu}
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

# Groups that ranks divide, twins, unlike episodes, rollbacks, a checkpoint in every round.
small="--task quickstart --envs 5 --steps 12 --set group=2 --set data.batches=1 --set data.batch=8 --set data.val_images=20
    --set data.test_images=20 --set policy.feature_dim=16 --set policy.hidden=16 --set checkpoint.rounds=1
    --set mixed.images_least=0.1 --set mixed.lr_factor=2 --set host.lr=0.1 --set governor.loss_limit=0
    --set governor.factor=0 --set governor.sigmas=0 --set governor.streak=1 --runs $work --quiet --device $device"

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

# ---- equal bits ------------------------------------------------------------------------------------------------------
for ranks in 1 2 3 4; do
    on $ranks train $small --rounds 3 --name r$ranks >"$work/out" 2>&1 || verdict "$ranks ranks" "$(cat "$work/out")"
    [ $ranks -eq 1 ] || same "1 and $ranks ranks" r1 r$ranks
done
rollbacks=$("$esper" sql "$work/r1" --csv 'select count(*) from rollback' | tail -1 | tr -d '\r')
[ "${rollbacks:-0}" -gt 0 ] || verdict 'rollbacks' 'there were none: the test shows less than it should'
for ranks in 1 3; do
    on $ranks eval r1 --runs "$work" --episodes 5 --name eval$ranks --quiet >"$work/out" 2>&1 ||
        verdict "eval on $ranks ranks" "$(cat "$work/out")"
done
same 'eval on 1 and 3 ranks' eval1 eval3

# ---- stopped, lost, resumed ------------------------------------------------------------------------------------------
start() { # start RANKS NAME OPTIONS...: in the background, until it has a checkpoint
    ranks=$1
    name=$2
    shift 2
    mpirun -n "$ranks" "$esper" train $small --rounds 12 --name "$name" "$@" >"$work/out" 2>"$work/err" &
    background=$!
    tries=0
    while ! ls "$work/$name/checkpoints"/r* >"$work/found" 2>&1 && [ $tries -lt $limit ]; do
        sleep 0.2
        tries=$((tries + 1))
    done
}
rank() { pgrep -P "$background" -f "$esper train" | sed -n "$(($1 + 1))p"; } # rank NUMBER: its process
ended() { # ended: waits for it; its exit code
    wait "$background"
    code=$?
    background=
}
if [ "$device" = cpu ]; then
    on 1 train $small --rounds 12 --name long >"$work/out" 2>&1 || verdict 'the long one' "$(cat "$work/out")"
    start 3 stopped
    kill -s USR1 "$background" # mpirun hands it on
    ended
    verdict 'stopped' "$([ $code -eq 130 ] && grep -q 'stopped after .* saved' "$work/out" || echo "$code $(cat "$work/out")")"
    start_at=$("$esper" inspect "$work/stopped" --hash)
    on 2 train --resume "$work/stopped" --quiet >"$work/out" 2>&1 || verdict 'resumed' "$(cat "$work/out")"
    verdict 'it went on' "$([ "$start_at" != "$("$esper" inspect "$work/stopped" --hash)" ] || echo 'it did not')"
    verdict 'stopped on 3 ranks, resumed on 2' \
        "$([ "$("$esper" inspect "$work/long" --hash)" = "$("$esper" inspect "$work/stopped" --hash)" ] || echo 'another hash')"

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
fi

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
refused 'esper search is not spread over ranks' env OMPI_COMM_WORLD_SIZE=2 "$esper" search quickstart --runs "$work"
refused 'esper exam is not spread over ranks' env PMI_SIZE=2 "$esper" exam quickstart --runs "$work"
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
