#!/bin/sh
# Does the policy learn? Trains three seeds of a task, plays 64 evaluation episodes with each policy and with its
# controls, and compares them episode by episode.   Usage: bench/evidence.sh TASK ROUNDS [ESPER [RUNS]]
set -eu
task=$1
rounds=$2
esper=${3:-build/esper}
runs=${4:-runs}
group() { echo "$task-42-$1,$task-43-$1,$task-44-$1"; }
for seed in 42 43 44; do
    "$esper" train --task "$task" --rounds "$rounds" --seed $seed --runs "$runs" --name "$task-$seed" --plain
    for policy in ppo static random heuristic; do
        "$esper" eval "$task-$seed" --policy $policy --episodes 64 --runs "$runs" --name "$task-$seed-$policy" --quiet
    done
done
"$esper" compare --runs "$runs" "$(group ppo)" "$(group static)" "$(group random)" "$(group heuristic)"
