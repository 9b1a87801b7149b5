#!/bin/sh
# `esper sweep`: several processes work on one folder, one is killed in the middle of a run, and every run is done once, to
# the bits of a sweep that one process played alone; halving, random draws, failures, what a user sees, and bad input. With
# ESPER_SOAK set: 64 runs, four processes, two of them killed.
# Usage: run_sweep.sh ESPER (from the project's root).
. tests/script.inc
enter_work

small="--envs 2 --set data.batches=1 --set data.batch=8 --set data.val_images=16 --set data.test_images=16
    --set policy.feature_dim=16 --set policy.hidden=16 --set checkpoint.rounds=1"
axes="--grid ppo.lr=1e-4,1e-3 --grid ppo.clip=0.1,0.2 --seeds 1..3 --steps 20 --rounds 6"
runs=12
workers='1 2 3'
victims='1'
if [ -n "${ESPER_SOAK:-}" ]; then
    axes="--grid ppo.lr=1e-4,3e-4,1e-3,3e-3 --grid ppo.clip=0.1,0.2,0.3,0.4 --seeds 1..4 --steps 20 --rounds 8"
    runs=64
    workers='1 2 3 4'
    victims='1 3'
fi
plan="sweep quickstart $small $axes"
value() { "$esper" sql --runs "$1" "$2" --csv "$3" 2>&1 | tail -1 | tr -d '\r'; } # value RUNS RUN QUESTION

# ---- many processes, some killed -------------------------------------------------------------------------------------
"$esper" $plan --threads 1 --name alone --quiet >alone.txt 2>stderr.txt || verdict 'one process alone' "$(cat stderr.txt)"
for worker in $workers; do
    "$esper" $plan --threads 1 --name many >out$worker.txt 2>err$worker.txt &
    eval "process$worker=\$!"
done
for victim in $victims; do
    tries=0 # in the middle of a run that has begun a round more than it has saved
    until [ "$(ls -d runs/many/runs/*_s? 2>/dev/null | wc -l)" -ge $((2 + victim)) ] || [ $tries -ge 200 ]; do
        sleep 0.05
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
verdict 'all runs are there' "$([ "$(ls runs/many/jobs | wc -l)" -eq $runs ] || ls runs/many/jobs)"
verdict 'none besides' "$(ls runs/many/runs | grep -v '_s[0-9]*$' | grep -vx latest)"
for run in $(ls runs/many/jobs); do
    problem=
    grep -q '"state": "finished"' "runs/many/runs/$run/status.json" || problem='not finished'
    # every round once, whoever played it, and one end
    [ "$(value runs/many/runs "$run" 'select count(*), count(distinct round) from round')" = \
        "$(value runs/alone/runs "$run" 'select count(*), count(distinct round) from round')" ] || problem="$problem; rounds"
    [ "$(value runs/many/runs "$run" "select count(*) from checkpoint where kind = 'final' or round = (select 1 + max(round) from round)")" -ge 1 ] || problem="$problem; no end"
    [ "$("$esper" inspect "runs/many/runs/$run" --hash)" = "$("$esper" inspect "runs/alone/runs/$run" --hash)" ] ||
        problem="$problem; other bits"
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
verdict 'as JSON' "$([ "$(grep -c '"name"' table.json)" -eq $runs ] && grep -q '"complete":.*true' table.json || head -5 table.json)"
conclude
