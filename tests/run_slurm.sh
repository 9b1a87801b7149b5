#!/bin/sh
# The batch files of scripts/slurm with a Slurm of our own: slurmctld, munged and three slurmd that pretend to be nodes, on
# the loopback interface. A run of four ranks on two nodes is requeued, told of its time limit, and ends with the bits of a run
# on its own; a sweep by an array is preempted, requeued and loses a process, and every run is done once.
# Takes minutes, so it is part of `make soak` (ESPER_SOAK).
# Usage: run_slurm.sh ESPER (from the project's root).
. tests/script.inc
batch=$PWD/scripts/slurm
PATH=$PATH:/usr/sbin
if [ -z "${ESPER_SOAK:-}" ]; then
    skip 'minutes of Slurm: run it with ESPER_SOAK=1, or: make soak PART=runs'
    conclude
    exit
fi
for part in slurmctld slurmd munged srun mpirun "$(dirname "$esper")/libesper_mpi.so"; do
    if ! command -v "$part" >"$work/found" && [ ! -e "$part" ]; then
        skip "no $part: apt-get install slurm-wlm openmpi-bin libopenmpi-dev, then make"
        conclude
        exit
    fi
done
enter_work

# ---- a cluster -------------------------------------------------------------------------------------------------------
user=$(id -un)
host=$(hostname -s)
port=$((20000 + $$ % 20000))
nodes='n1 n2 n3'
mkdir -m 700 munge
mkdir state log
head -c 1024 /dev/urandom >munge/key
chmod 400 munge/key
cat >slurm.conf <<END
ClusterName=esper
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$port
SlurmUser=$user
SlurmdUser=$user
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket=$work/munge/socket
StateSaveLocation=$work/state
SlurmdSpoolDir=$work/spool-%n
TmpFS=$work/tmp-%n
SlurmctldPidFile=$work/slurmctld.pid
SlurmdPidFile=$work/slurmd-%n.pid
SlurmctldLogFile=$work/log/slurmctld
SlurmdLogFile=$work/log/slurmd-%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
ReturnToService=2
KillWait=20
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
NodeName=n[1-3] NodeHostname=$host NodeAddr=127.0.0.1 Port=[$((port + 1))-$((port + 3))] CPUs=$(nproc) State=UNKNOWN
PartitionName=low Nodes=n[1-3] Default=YES PriorityTier=1 PreemptMode=REQUEUE GraceTime=20 OverSubscribe=FORCE:4
PartitionName=high Nodes=n[1-3] PriorityTier=2 PreemptMode=OFF
END
SLURM_CONF=$work/slurm.conf
ESPER=$esper
ESPER_RUNS=$work/runs
# ranks that seem to be on different machines, and root
OMPI_MCA_btl=self,tcp
OMPI_MCA_btl_tcp_if_include=lo
OMPI_ALLOW_RUN_AS_ROOT=1
OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export SLURM_CONF ESPER ESPER_RUNS OMPI_MCA_btl OMPI_MCA_btl_tcp_if_include OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM

take_down() {
    scancel --user="$user" --full --signal=KILL 2>/dev/null
    for pid in slurmd-n1.pid slurmd-n2.pid slurmd-n3.pid slurmctld.pid munge/pid; do
        [ ! -s "$work/$pid" ] || kill "$(cat "$work/$pid")" 2>/dev/null
    done
    sleep 1
    cleanup
}
trap take_down EXIT
munged --force --key-file=munge/key --socket=munge/socket --pid-file=munge/pid --log-file=munge/log --seed-file=munge/seed \
    >log/munged 2>&1
slurmctld -c >log/start 2>&1
for node in $nodes; do
    mkdir "spool-$node" "tmp-$node"
    slurmd -N $node >>log/start 2>&1
done
tries=0
until [ "$(sinfo -h -p low -t idle -o %D 2>/dev/null)" = 3 ] || [ $tries -ge 60 ]; do
    sleep 0.5
    tries=$((tries + 1))
done
if [ $tries -ge 60 ]; then
    verdict 'a cluster' "$(sinfo 2>&1; cat log/start; tail -3 log/slurm*)"
    conclude
    exit
fi

state() { squeue -h -t all -j "$1" -o %t 2>/dev/null | sort -u | tr '\n' ' '; } # of a job's tasks
until_true() { # until_true SECONDS COMMAND...
    left=$(($1 * 2 * patience))
    shift
    until "$@" || [ $left -le 0 ]; do
        sleep 0.5
        left=$((left - 1))
    done
    [ $left -gt 0 ]
}
is() { [ "$(state "$1")" = "$2" ]; }      # is JOB STATES
ended() { # ended JOB: whatever became of it, it is in none of the states on the way there
    case $(state "$1") in
    '') return 1 ;; # no answer
    *PD* | *R* | *CG* | *CF* | *S*) return 1 ;;
    esac
}
has() { grep -q "$2" "$1" 2>/dev/null; }  # has FILE TEXT
many() { [ "$(ls "$1" 2>/dev/null | wc -l)" -ge "$2" ]; } # many FOLDER COUNT
# Slurm lets two minutes pass before it starts a requeued job; a few seconds do, but nodes refuse what starts in the same one.
start_now() {
    sleep 3
    for task in $(squeue -h -r -t PD -j "$1" -o %i); do scontrol update JobId="$task" StartTime=now; done
}

small="--task quickstart --set data.batches=1 --set data.batch=8 --set data.val_images=16 --set data.test_images=16
    --set policy.feature_dim=16 --set policy.hidden=16 --set checkpoint.rounds=5 --threads 1"
value() { "$esper" sql --runs "$1" "$2" --csv "$3" 2>&1 | tail -1 | tr -d '\r'; } # value RUNS RUN QUESTION
same_bits() { # same_bits RUN OTHER
    hash=$("$esper" inspect "$1" --hash) && [ -n "$hash" ] && [ "$hash" = "$("$esper" inspect "$2" --hash)" ]
}

# ---- a run on two nodes ----------------------------------------------------------------------------------------------
long="$small --envs 4 --steps 16 --rounds 150"
job=$(sbatch --parsable --nodes=2 --ntasks=4 --time=10 -o run.txt "$batch/run.sbatch" long $long)
until_true 60 has runs/long/status.json '"round": [1-9]'
verdict 'four ranks on two nodes' "$(grep -q 'on 4 ranks' run.txt || echo "otherwise: $(cat run.txt)")"
scontrol requeue "$job"
until_true 40 has run.txt 'stopped after .* saved'
verdict 'requeued: saved' "$(grep -q 'stopped after .* saved' run.txt || echo "otherwise: $(cat run.txt)")"
before=$(sed -n 's/.*"round": \([0-9]*\).*/\1/p' runs/long/status.json)
until_true 40 is "$job" 'PD '
start_now "$job"
until_true 40 has run.txt '^resuming quickstart'
verdict 'and resumed' "$(grep -q '^resuming quickstart' run.txt || echo "otherwise: $(cat run.txt)")"
sleep 1
scancel --signal=USR1 "$job" # what --signal sends before the time is over
until_true 40 is "$job" 'PD '
verdict 'told of its time limit: saved, and back in the queue' "$([ "$(grep -c 'stopped after .* saved' run.txt)" -eq 2 ] || echo "otherwise: $(tail -5 run.txt)")"
verdict 'in the middle' "$([ "${before:-150}" -lt 150 ] && ! grep -q finished runs/long/status.json || echo "round $before")"
start_now "$job"
until_true 120 ended "$job"
verdict 'finished' "$(grep -q '"state": "finished"' runs/long/status.json || echo "otherwise: $(tail -5 run.txt)")"
"$esper" train $long --name alone --quiet >stdout.txt 2>stderr.txt
verdict 'to the bits of a run on its own' "$(same_bits long alone || echo "otherwise: $(cat stderr.txt)")"

# ---- a sweep by an array ---------------------------------------------------------------------------------------------
axes="$small --envs 2 --steps 16 --rounds 10 --grid ppo.lr=1e-4,3e-4,1e-3,3e-3 --grid ppo.clip=0.1,0.2,0.3,0.4 --seeds 1..4"
job=$(sbatch --parsable --array=1-4 --time=10 -o sweep-%a.txt "$batch/sweep.sbatch" $axes --runs "$work/runs" --name array)
until_true 60 many runs/array/runs 16
# somebody more important comes and takes all nodes
urgent=$(sbatch --parsable --partition=high --nodes=3 --exclusive --time=1 -o urgent.txt --wrap 'sleep 1')
until_true 60 ended "$urgent"
until_true 30 is "$job" 'PD '
verdict 'preempted: all saved, and back in the queue' "$(for i in 1 2 3 4; do
    grep -q 'stopped.* goes on' sweep-$i.txt || echo "$i: $(tail -3 sweep-$i.txt)"
done)"
start_now "$job"
until_true 60 many runs/array/runs 36
scontrol requeue "${job}_1" # one goes back by itself
victim=$(pgrep -f "$esper sweep .* --name array" | tail -1) # the youngest is a task, not the srun that started it
verdict 'a process is killed' "$(kill -s KILL "$victim" 2>&1)"
until_true 30 is "${job}_1" 'PD '
start_now "$job"
until_true 240 ended "$job"
verdict 'the array has ended' "$(ended "$job" || state "$job")"
"$esper" sweep $axes --name local --quiet >local.txt 2>stderr.txt || verdict 'the same sweep, by one process' "$(cat stderr.txt)"
problem=
for run in $(ls runs/local/jobs); do
    grep -q '"state": "finished"' "runs/array/runs/$run/status.json" || problem="$problem; $run: not finished"
    [ "$(value runs/array/runs "$run" 'select count(*), count(distinct round) from round')" = 10,10 ] || problem="$problem; $run: rounds"
    same_bits "runs/array/runs/$run" "runs/local/runs/$run" || problem="$problem; $run: other bits"
done
verdict '64 runs, each done once' "$([ "$(ls runs/array/jobs | wc -l)" -eq 64 ] || echo "only: $(ls runs/array/jobs)")$problem"
verdict 'none failed' "$(ls runs/array/runs | grep failed)"
"$esper" sweep array --quiet >array.txt 2>stderr.txt
sed 's|runs/local|runs/array|' local.txt >expected.txt
verdict 'the same table' "$(diff expected.txt array.txt)"

conclude
