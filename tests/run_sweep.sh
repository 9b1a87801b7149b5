#!/bin/sh
# `esper sweep`: several processes work on one folder, one is killed in the middle of a run, and every run is done once, to
# the bits of a sweep that one process played alone; halving, random draws, failures, what a user sees, and bad input. With
# ESPER_SOAK set: 64 runs, four processes, two of them killed.
# Usage: run_sweep.sh ESPER (from the project's root).
. tests/script.inc
enter_work

small="--envs 2 --set data.batches=1 --set data.batch=8 --set data.val_images=16 --set data.test_images=16
    --set policy.feature_dim=16 --set policy.hidden=16 --set checkpoint.rounds=2"
axes="--grid ppo.lr=1e-4,1e-3 --grid ppo.clip=0.1,0.2 --seeds 1..2 --steps 20 --rounds 5"
rounds=5
runs=8
workers='1 2 3'
victims='1'
if [ -n "${ESPER_SOAK:-}" ]; then
    axes="--grid ppo.lr=1e-4,3e-4,1e-3,3e-3 --grid ppo.clip=0.1,0.2,0.3,0.4 --seeds 1..4 --steps 20 --rounds 8"
    rounds=8
    runs=64
    workers='1 2 3 4'
    victims='1 3'
fi
plan="sweep quickstart $small $axes"
value() { "$esper" sql --runs "$1" "$2" --csv "$3" 2>&1 | tail -1 | tr -d '\r'; } # value RUNS RUN QUESTION
same_bits() { # same_bits RUN OTHER
    hash=$("$esper" inspect "$1" --hash) && [ -n "$hash" ] && [ "$hash" = "$("$esper" inspect "$2" --hash)" ]
}

# ---- many processes, some killed -------------------------------------------------------------------------------------
"$esper" $plan --threads 1 --name alone --quiet >alone.txt 2>stderr.txt || verdict 'one process alone' "$(cat stderr.txt)"
for worker in $workers; do
    "$esper" $plan --threads 1 --name many >out$worker.txt 2>err$worker.txt &
    eval "process$worker=\$!"
done
for victim in $victims; do
    tries=0 # in the middle of some run, long before the end
    until [ "$(ls -d runs/many/runs/*_s? 2>/dev/null | wc -l)" -gt $((victim * runs / 8)) ] || [ $tries -ge 1000 ]; do
        sleep 0.01
        tries=$((tries + 1))
    done
    eval "kill -s KILL \$process$victim"
done
for worker in $workers; do
    eval "wait \$process$worker"
    code=$?
    case " $victims " in
    *" $worker "*) verdict "worker $worker was killed" "$([ $code -eq 137 ] || echo "exit code $code, before it could be")" ;;
    *) verdict "worker $worker" "$([ $code -eq 0 ] || echo "exit code $code: $(cat err$worker.txt)")" ;;
    esac
done
verdict 'all runs are there' "$([ "$(ls runs/many/jobs | wc -l)" -eq $runs ] || echo "only: $(ls runs/many/jobs)")"
verdict 'none besides' "$(ls runs/many/runs | grep -v '_s[0-9]*$' | grep -vx latest)"
for run in $(ls runs/many/jobs); do
    problem=
    grep -q '"state": "finished"' "runs/many/runs/$run/status.json" || problem='not finished'
    # every round once, whoever played it
    [ "$(value runs/many/runs "$run" 'select count(*), count(distinct round) from round')" = "$rounds,$rounds" ] ||
        problem="$problem; rounds"
    same_bits "runs/many/runs/$run" "runs/alone/runs/$run" || problem="$problem; other bits"
    verdict "$run" "$problem"
done
sed 's|runs/alone|runs/many|' alone.txt >expected.txt
for worker in $workers; do
    case " $victims " in *" $worker "*) ;; *) verdict "the table of worker $worker" "$(diff expected.txt out$worker.txt | head -4)" ;; esac
done

# ---- what it leaves --------------------------------------------------------------------------------------------------
"$esper" sweep many --quiet >again.txt 2>stderr.txt
verdict 'a finished sweep plays nothing' "$(diff expected.txt again.txt | head -4)"
"$esper" config --config runs/many/best.json --json >config.json 2>stderr.txt
best=$(sed -n 's/^   1 .*ppo.lr=\([^ ]*\) .*/\1/p' again.txt)
verdict 'the best, as a file for --config' "$(grep -q "\"ppo.lr\":.*[^0-9]$best," config.json || echo "$best $(cat stderr.txt)")"
verdict 'without a seed of its own' "$(grep '"seed"' runs/many/best.json)"
"$esper" sweep many --table --json >table.json
verdict 'as JSON' "$([ "$(grep -c '"name"' table.json)" -eq $runs ] && grep -q '"complete":.*true' table.json || echo "otherwise: $(head -5 table.json)")"
shows 'finished' list --runs runs/many/runs

# ---- halving ---------------------------------------------------------------------------------------------------------
# 9 configurations: all play a round, three or more play three, one or more play nine; runs that go on do so to the bits of
# a training of their own. One process is stopped and another killed on the way.
halving="sweep quickstart $small --steps 16 --rounds 9 --range ppo.lr=log:1e-4..1e-2 --random 9 --halving 3 --threads 1"
"$esper" $halving --dry-run >plan.txt 2>stderr.txt
verdict 'the plan' "$(grep -q '^rungs: 1, 3, 9 rounds' plan.txt && [ "$(grep -c '^lr-0.* ppo.lr=0.*seed=42$' plan.txt)" -eq 9 ] || echo "otherwise: $(cat plan.txt)")"
verdict 'a dry run writes nothing' "$(ls runs | grep sweep)"
for worker in 1 2 3; do
    "$esper" $halving --name halving >out$worker.txt 2>err$worker.txt &
    eval "process$worker=\$!"
done
sleep 1
kill -s KILL $process1 2>/dev/null
kill -s TERM $process2 2>/dev/null
wait $process1 $process2 $process3
verdict 'halving, with a process killed and one stopped' "$([ $? -eq 0 ] || echo "otherwise: $(cat err3.txt)")"
problem=
full=0
third=0
for run in $(ls runs/halving/jobs); do
    case $(value runs/halving/runs "$run" 'select count(*), count(distinct round) from round') in
    1,1) ;;
    3,3) third=$((third + 1)) ;;
    9,9) full=$((full + 1)) ;;
    *) problem="$problem $run" ;;
    esac
done
verdict 'every run stands at a rung' "$problem"
verdict 'a third and a ninth, at least' "$([ $full -ge 1 ] && [ $((third + full)) -ge 3 ] && [ $((third + full)) -lt 9 ] || echo "$third, $full")"
winner=$(sed -n 's/^   1 .*ppo.lr=//p' out3.txt)
"$esper" train --config runs/halving/best.json --seed 42 --threads 1 --name winner --quiet >stdout.txt 2>stderr.txt
verdict 'to the bits of a training' "$(same_bits winner "runs/halving/runs/lr-${winner}_s42" || echo "otherwise: $(cat stderr.txt)")"

# ---- failures --------------------------------------------------------------------------------------------------------
# One run's checkpoint is damaged: it is put aside and played again. In the place of another lies a file for good.
failing="sweep quickstart $small --steps 16 --rounds 20 --grid ppo.clip=0.1,0.2,0.3 --threads 1 --name failing"
"$esper" $failing >out1.txt 2>err1.txt &
background=$!
tries=0
until ls runs/failing/runs/clip-0.1_s42/checkpoints/r* >found.txt 2>&1 || [ $tries -ge 1000 ]; do
    sleep 0.01
    tries=$((tries + 1))
done
kill -s INT $background
wait $background
code=$?
background=
verdict 'stopped' "$([ $code -eq 130 ] && grep -q 'stopped in runs/clip-0.1_s42, saved; the same command goes on' out1.txt || echo "otherwise: $(cat out1.txt err1.txt)")"
for file in runs/failing/runs/clip-0.1_s42/checkpoints/r*; do echo damaged >"$file"; done
rm -rf runs/failing/runs/clip-0.2_s42*
echo in the way | tee runs/failing/runs/clip-0.2_s42 >runs/failing/runs/clip-0.2_s42.failed
"$esper" $failing >out1.txt 2>err1.txt
verdict 'failures end no sweep' "$([ $? -eq 0 ] && grep -q 'clip-0.1_s42 failed and is tried once more' err1.txt || echo "otherwise: $(cat err1.txt)")"
verdict 'kept and named' "$([ -e runs/failing/runs/clip-0.1_s42.failed/run.json ] && grep -q '^  clip-0.2_s42, given up: ' out1.txt &&
    grep -q '^   - *failed .*ppo.clip=0.2$' out1.txt && grep -q '^  clip-0.1_s42, once: ' out1.txt || echo "otherwise: $(cat out1.txt)")"
verdict 'tried again' "$(grep -q '"state": "finished"' runs/failing/runs/clip-0.1_s42/status.json || echo "otherwise: $(cat err1.txt)")"

# Some call of the system fails (tests/faults): no crash, and the same command comes to the same end.
library=$(dirname "$esper")/tests/faults/libfaults.so
if [ -n "${ESPER_SOAK:-}" ] && [ -e "$library" ]; then
    faulty="sweep quickstart $small --steps 4 --rounds 1 --grid ppo.clip=0.1,0.2 --threads 1 --quiet"
    "$esper" $faulty --name right >stdout.txt 2>stderr.txt
    for fault in write:3:ENOSPC write:12:EIO write:30:ENOSPC:on sync:4:EIO rename:1:EIO rename:3:EIO rename:5:EIO rename:9:EIO \
        rename:12:EIO lock:1:ENOLCK lock:3:ENOLCK lock:5:ENOLCK alloc:20:ENOMEM alloc:100:ENOMEM open:10:EIO \
        open:30:EMFILE:on stat:5:EIO mkdir:3:ENOSPC read:5:EIO read:20:EIO; do
        rm -rf runs/faulty
        FAULTS_FAIL=$fault LD_PRELOAD=$library "$esper" $faulty --name faulty >stdout.txt 2>stderr.txt
        code=$?
        problem=
        [ $code -lt 126 ] || problem="exit code $code"
        "$esper" $faulty --name faulty >stdout.txt 2>stderr.txt || problem="$problem; then: $(cat stderr.txt)"
        for run in clip-0.1_s42 clip-0.2_s42; do
            same_bits runs/faulty/runs/$run runs/right/runs/$run || problem="$problem; $run: other bits"
        done
        verdict "$fault" "$problem"
    done
fi

# ---- a plan as a file ------------------------------------------------------------------------------------------------
cat >plan.json <<'END'
{"task": "quickstart", "set": {"envs": 2, "steps": 16, "rounds": 9, "data.batches": 1, "data.batch": 8},
 "range": {"ppo.lr": "log:1e-4..1e-2"}, "grid": {"ppo.clip": [0.1, 0.2], "slots": [["r0c0"], ["r0c0", "r0c2"]]},
 "random": 9, "seeds": "1..2", "halving": 3, "objective": "val_accuracy"}
END
"$esper" sweep plan.json --dry-run >one.txt 2>stderr.txt
"$esper" sweep quickstart --envs 2 --steps 16 --rounds 9 --set data.batches=1 --set data.batch=8 --range ppo.lr=log:1e-4..1e-2 \
    --grid ppo.clip=0.1,0.2 --random 9 --seeds 1,2 --halving 3 --objective val_accuracy --dry-run >other.txt 2>>stderr.txt
verdict 'a file and options' "$([ "$(wc -l <one.txt)" -eq 23 ] && [ "$(sed -n 1,3p one.txt)" = "$(sed -n 1,3p other.txt)" ] || echo "otherwise: $(cat stderr.txt one.txt)")"

# ---- mpirun ----------------------------------------------------------------------------------------------------------
# Its processes are no ranks here: each works by itself, and needs no MPI.
if command -v mpirun >found.txt; then
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_oob_tcp_if_include=lo \
        OMPI_MCA_plm_rsh_agent=false timeout $((60 * patience)) mpirun -n 2 "$esper" sweep quickstart $small --steps 8 --rounds 1 \
        --grid ppo.clip=0.1,0.2 --seeds 1..2 --threads 1 --name mpi >stdout.txt 2>stderr.txt
    verdict 'two processes of mpirun' "$([ $? -eq 0 ] && [ "$(grep -c '4 of 4 runs done' stdout.txt)" -eq 2 ] || echo "otherwise: $(cat stderr.txt)")"
    verdict 'share the runs' "$([ "$(grep -c ': score ' stderr.txt)" -eq 4 ] || echo "otherwise: $(cat stderr.txt)")"
else
    skip 'no mpirun: apt-get install openmpi-bin'
fi

# ---- bad input -------------------------------------------------------------------------------------------------------
fails 2 'nothing varies; give --grid KEY=A,B' sweep
fails 2 '--grid ppo.lr: write --grid KEY=A,B,C' sweep --grid ppo.lr
fails 2 '--grid: unknown key "ppo.lrr"; did you mean "ppo.lr"?' sweep --grid ppo.lrr=1,2
fails 2 '--grid: ppo.lr = fast: it must be a number' sweep --grid ppo.lr=1e-3,fast
fails 2 '--grid: ppo.lr = (nothing): it must be a number' sweep --grid ppo.lr=1e-3,
fails 2 '--grid: ppo.lr: has the value 0.001 twice' sweep --grid ppo.lr=1e-3,0.001
fails 2 '--grid: ppo.lr: is given twice' sweep --grid ppo.lr=1e-3 --grid ppo.lr=1e-4
fails 2 '--grid: seed: give seeds with --seeds' sweep --grid seed=1,2
fails 2 'envs=3: ppo.minibatches = 2: 3 envs cannot be dealt out' sweep --grid envs=2,3 --set ppo.minibatches=2
fails 2 '--range: ppo.lr = 1: a range is written 0.1..0.5' sweep --range ppo.lr=1 --random 3
fails 2 'a range is drawn from; say how often with --random N' sweep --range ppo.lr=0.1..0.2
fails 2 '--random 0: it must be a whole number from 1' sweep --random 0
fails 2 '--seeds 5: a range such as 1..5' sweep --seeds 5
fails 2 '--halving 3: 2 configurations of 9 rounds leave no rung' sweep --grid ppo.clip=0.1,0.2 --rounds 9 --halving 3
fails 2 '--first-rung 3: needs --halving' sweep --seeds 1..2 --first-rung 3
fails 2 '--objective: objective test: one of score and val_accuracy' sweep --seeds 1..2 --objective test
fails 2 'use --objective val_accuracy' sweep --grid reward.price=0,1
fails 2 'unknown task "nowhere"' sweep nowhere --seeds 1..2
fails 2 'missing.json: ' sweep missing.json
fails 2 'no folder of a sweep' sweep runs/winner
fails 2 '--grid: runs/many has its plan' sweep many --grid ppo.clip=0.1,0.2
fails 2 'runs/many: was begun as another sweep, seeds: ' sweep quickstart $small $axes --seeds 1..9 --name many
fails 2 'runs/many: was begun as another sweep, envs: 2 and not 4' sweep quickstart $small $axes --envs 4 --name many
fails 2 'runs/winner: is a run; choose another --name' sweep --seeds 1..2 --name winner
echo '{"task": "quickstart", "gird": {}}' >bad.json
fails 2 'bad.json: unknown key "gird"; did you mean "grid"?' sweep bad.json
echo '{"grid": {"ppo.lr": 3}}' >bad.json
fails 2 'bad.json: "grid": ppo.lr must be a list' sweep bad.json
echo '{"seeds": "1..3"' >bad.json
fails 2 'bad.json:' sweep bad.json
mkdir -p runs/odd && echo '{"format": 9}' >runs/odd/sweep.json
fails 2 'runs/odd/sweep.json: a plan of format 9' sweep odd
verdict 'nothing begun where it was refused' "$(ls runs | grep -vx 'alone\|many\|halving\|winner\|failing\|right\|faulty\|mpi\|odd\|latest')"

conclude
