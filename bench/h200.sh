#!/bin/sh
# Everything that must be correct and fast on a GPU, in one command: builds, checks, measures, prints Markdown tables.
#
#   bench/h200.sh                        all parts, in this order
#   bench/h200.sh parity equal           these parts; `build` first, unless BUILD already holds a program
#   DEPS=PREFIX bench/h200.sh            on a machine without packages (scripts/deps-bundle makes PREFIX elsewhere)
#
#   build        make all cuda
#   parity       the programs that compare the device with the CPU, `esper selftest --device cuda` and runs on both
#   sanitize     compute-sanitizer memcheck and racecheck on short runs
#   same         the same seed twice; env 0 among 1, 16 and 256; on cifar_baseline, cifar_multichannel and cifar_scale
#   equal        the work of the original's reference run: 16 envs, 5 rounds of a fresh policy, record and update included
#   loops        the whole loop with 1 to 1 024 envs, grown, and on cifar_impaired and cifar_scale; fails where a step waits
#                more than once, allocates, launches anything but its graphs or copies anything but its reports
#   hosts        training only, envs x batch
#   blueprints   training with every blueprint in every slot, in TRAINING and BLENDING; validation of all subsets
#   shapes       hosts of other shapes in bf16 and fp32, bare and grown: training and validation in images/s
#   text         small transformers in bf16: training in tokens/s, envs x batch, bare and grown; time by kernel
#   busy         64 envs: where the time of a step goes, and how busy the GPU is
#   kernels      time, bytes/s and share of the peak by kernel (Nsight Compute, where counters are permitted)
#   torch        the same hosts in PyTorch, side by side (bench/torch_many.py)
#
# BUILD (build/gpu) is the build directory, OUT (bench/results) the directory of the CSV files, NAME (h200) their
# prefix, ARCHS the architectures to compile for (compiling for the card's own only is faster). CIFAR-10 is used if
# `esper doctor` finds it; otherwise images are synthetic, and the tables say so. Every part has a time limit and fails
# alone: the last table says which did.
set -u
cd "$(dirname "$0")/.." || exit 1
build=${BUILD:-build/gpu}
out=${OUT:-bench/results}
name=${NAME:-h200}
device=${DEVICE:-cuda} # cpu: to try this script itself
esper=$build/esper
parts='build parity sanitize same equal loops hosts blueprints shapes text busy kernels torch'
PATH=$PATH:/usr/local/cuda/bin
export PATH ESPER_TASKS="$PWD/tasks"

limit_of() { # seconds that a part may take
    case $1 in
    build) echo 600 ;;
    parity) echo 400 ;;
    sanitize) echo 300 ;;
    torch) echo 300 ;;
    *) echo 180 ;;
    esac
}

note() { echo "h200: $*" >&2; }

# ---- shared by the parts ----------------------------------------------------------------------------------------------

csv_header='kind,name,what,threads,value,unit,of_roof'

# Options that fit the available images: real ones, as many as the file holds, or synthetic ones.
images() {
    line=$("$esper" doctor | sed -n 's/^  cifar10 .*(\([0-9]*\) training, \([0-9]*\) validation, \([0-9]*\) test.*/\1 \2 \3/p')
    if [ -z "$line" ]; then
        echo "--set data.set=synthetic --set data.size=32 --set data.test_images=1000"
        return
    fi
    test=${line##* }
    echo "--set data.test_images=$test"
}

images_are() { "$esper" data info >/dev/null 2>&1 && echo 'CIFAR-10' || echo 'synthetic images, never augmented'; }

# Seeds before and after the pools of cifar_multichannel; in two blocks one trains while the other is blended.
both_rows='--script bench/both_rows.json --set max_seeds=4'

# a very short run in which every kind of seed can occur
short_run() { # short_run NAME TASK OPTIONS...
    run=$1
    task=$2
    shift 2
    # shellcheck disable=SC2046
    "$esper" train --task "$task" --runs "$runs" --name "$run" --quiet --device "$device" \
        $(images | sed 's/test_images=[0-9]*/test_images=64/') --set data.batch=32 --set data.batches=2 --set data.val_images=64 \
        --set policy.feature_dim=64 --set policy.hidden=64 --set ppo.epochs=2 "$@"
}

ask() { # ask RUN SQL: one line per row, fields separated by commas, no header
    "$esper" sql "$1" "$2" --csv --runs "$runs" --timeout 120 | tail -n +2 | tr -d '\r' # CSV ends lines with CR LF
}

# ---- parts ------------------------------------------------------------------------------------------------------------

part_build() {
    make -j"$(nproc)" BUILD="$build" ${DEPS:+DEPS="$DEPS"} ${ARCHS:+ESPER_CUDA_ARCHS="$ARCHS"} all cuda >"$runs/build.log" 2>&1 || {
        tail -40 "$runs/build.log" >&2
        return 1
    }
    grep -i missing "$runs/build.log" # parts that are left out are named
    "$esper" doctor | sed -n '/^GPU/,/^tasks/p' | sed '$d' | sed 's/^/    /'
}

part_parity() {
    bad=0
    echo '| program | result |'
    echo '|---|---|'
    for program in cuda_cases cuda_step cuda_net cuda_policy cuda_product cuda_text cuda_transformer_fp32 cuda_transformer_bf16 \
        cuda_transformer_wide; do
        if [ ! -x "$build/tests/$program" ]; then
            echo "| $program | not built |"
            bad=1
            continue
        fi
        timeout 240 "$build/tests/$program" >"$runs/$program.log" 2>&1 || bad=1
        grep '^FAIL' "$runs/$program.log" | head -5 >&2
        echo "| $program | $(tail -1 "$runs/$program.log") |"
    done
    for options in '--precision fp32' '--precision bf16' '--precision fp32 --vectors tests/vectors' \
        '--precision bf16 --vectors tests/vectors'; do
        # shellcheck disable=SC2086
        timeout 120 "$esper" selftest --device "$device" $options >"$runs/selftest.log" 2>&1 || bad=1
        grep '^FAILED' "$runs/selftest.log" | head -5 >&2
        echo "| esper selftest --device $device $options | $(tail -1 "$runs/selftest.log") |"
    done
    for program in test_api test_api_runs test_graphs; do # which find the device by themselves
        [ -x "$build/tests/$program" ] || continue
        ESPER_TEST_DEVICE=$device timeout 120 "$build/tests/$program" >"$runs/$program.log" 2>&1 || bad=1
        echo "| $program | $(tail -1 "$runs/$program.log") |"
    done
    timeout 240 sh tests/device_emulated.sh "$esper" "$build/libesper_cuda.so" >"$runs/device.log" 2>&1 || bad=1
    grep '^FAILED' "$runs/device.log" | head -5 >&2
    echo "| tests/device_emulated.sh, on the device itself | $(tail -1 "$runs/device.log") |"
    # Shares of more seeds than a table of subsets holds: sampled at the last step, the same coalitions everywhere.
    for where in cpu "$device"; do
        "$esper" train --task quickstart --runs "$runs" --name "shares-$where" --quiet --device "$where" --precision fp32 \
            --script examples/six_seeds.json --set slots=r0c0,r0c1,r0c2,r1c0,r1c1,r1c2 --envs 2 --steps 24 --rounds 1 \
            --set data.batches=1 --set data.batch=8 --set data.val_images=64 --set data.test_images=64 >/dev/null || bad=1
        ask "shares-$where" "SELECT share FROM seed WHERE share_error IS NOT NULL ORDER BY env, slot" >"$runs/shares-$where.csv"
    done
    apart=$(paste -d, "$runs/shares-cpu.csv" "$runs/shares-$device.csv" | awk -F, 'NF == 2 && $2 != "" { n++; d = $1 - $2
        d = d < 0 ? -d : d; most = d > most ? d : most } END { printf "%.2f of %d", most, n; exit !(n == 12 && most <= 2) }') || bad=1
    echo "| sampled shares against the CPU's, points apart at the most | $apart |"
    return $bad
}

sanitized() { # sanitized TOOL TASK OPTIONS...: a line of the table
    tool=$1
    task=$2
    shift 2
    count=$((count + 1))
    log=$runs/sanitize-$count.log
    # the program itself, so that no shell is checked
    # shellcheck disable=SC2046
    timeout 100 compute-sanitizer --tool "$tool" --error-exitcode 9 "$esper" train --task "$task" --runs "$runs" \
        --name "sanitize-$count" --quiet --device "$device" $(images | sed 's/test_images=[0-9]*/test_images=32/') --set data.batch=32 --set data.batches=1 \
        --set data.val_images=32 --set policy.feature_dim=16 --set policy.hidden=16 --set ppo.epochs=1 --rounds 1 "$@" \
        >"$log" 2>&1
    code=$?
    [ $code = 0 ] || bad=1
    echo "| $tool | $task $* | $(grep -h 'SUMMARY' "$log" | tail -1 | sed 's/^=* *//') (exit $code) |"
}

part_sanitize() {
    command -v compute-sanitizer >/dev/null || { note 'compute-sanitizer is not here'; return 1; }
    bad=0
    count=0
    echo '| tool | run | result |'
    echo '|---|---|---|'
    for tool in memcheck racecheck; do
        for precision in bf16 fp32; do
            for policy in ppo random; do
                sanitized "$tool" cifar_baseline --envs 2 --steps 6 --policy $policy --precision $precision
            done
        done
    done
    for tool in memcheck racecheck; do # hosts of any shape
        sanitized "$tool" cifar_scale --envs 1 --steps 6 --policy random --precision bf16
    done
    # shellcheck disable=SC2086
    sanitized memcheck cifar_multichannel --envs 1 --steps 13 --precision bf16 --set data.batches=2 $both_rows
    return $bad
}

# Four batches and more: buffers that batches use alternately are reused.
same_on() { # same_on TASK ENVS OPTIONS...: with at most this many envs
    task=$1
    most=$2
    shift 2
    for i in 1 2; do
        short_run "same-$task-$i" "$task" --envs 16 --steps 20 --rounds 2 --set data.batches=4 "$@" || return 1
    done
    one=$("$esper" inspect "$runs/same-$task-1" --hash)
    two=$("$esper" inspect "$runs/same-$task-2" --hash)
    [ -n "$one" ] && [ "$one" = "$two" ] || bad=1
    echo "$task, the same seed twice: checkpoints $one and $two"
    for envs in 1 16 "$most"; do
        short_run "among-$task-$envs" "$task" --envs "$envs" --steps 16 --rounds 1 "$@" || return 1
        for table in step seed; do
            ask "among-$task-$envs" "SELECT * FROM $table WHERE env = 0 AND round = 0 ORDER BY step"
        done >"$runs/among-$envs.csv"
        echo "$task, env 0 among $envs: $(wc -l <"$runs/among-$envs.csv") rows, $(md5sum <"$runs/among-$envs.csv" | cut -c1-16)"
        cmp -s "$runs/among-1.csv" "$runs/among-$envs.csv" || bad=1
    done
}

part_same() {
    bad=0
    same_on cifar_baseline 256 || return 1
    # shellcheck disable=SC2086
    same_on cifar_multichannel 64 $both_rows --set data.batch=128 --set data.batches=6 || return 1
    same_on cifar_scale 64 --precision bf16 || return 1
    return $bad
}

# The original's reward, which needs no twin, and its fresh policy, which prefers no op.
like_original='--set reward.mode=shaped'
for op in germinate set_alpha_target prune fossilize; do like_original="$like_original --set policy.prior.$op=0"; done

part_equal() {
    # shellcheck disable=SC2046,SC2086
    "$esper" train --task cifar_baseline --runs "$runs" --name equal --plain --device "$device" --envs 16 --steps 150 --rounds 5 \
        $(images) --set data.batch=512 --set data.batches=6 --set data.val_images=625 --set policy.feature_dim=512 \
        --set policy.hidden=512 --set ppo.epochs=4 --set telemetry.level=normal $like_original >"$runs/equal.log" 2>&1 ||
        { tail -5 "$runs/equal.log" >&2; return 1; }
    sed -n '1p' "$runs/equal.log"
    echo "$(images_are); seeds alive per env and step, by stage; subsets validated per env-step; drops: $(ask equal 'SELECT coalesce(sum(count), 0) FROM drops')"
    echo
    echo '| round | env-steps/s | training | blending | holding | fossilised | subsets |'
    echo '|---|---|---|---|---|---|---|'
    ask equal "
        WITH live AS (SELECT round, step, env, sum(stage IN ('germinated', 'training')) AS t, sum(stage = 'blending') AS b,
                             sum(stage = 'holding') AS h, sum(stage = 'fossilized') AS f,
                             1 << sum(stage IN ('blending', 'holding', 'fossilized') AND alpha > 0) AS subsets
                      FROM seed GROUP BY round, step, env),
             part AS (SELECT round, sum(t) / 2400.0 AS t, sum(b) / 2400.0 AS b, sum(h) / 2400.0 AS h, sum(f) / 2400.0 AS f,
                             (sum(subsets) + 2400 - count(*)) / 2400.0 AS subsets FROM live GROUP BY round)
        SELECT r.round + 1, printf('%.0f', r.env_steps_per_s), printf('%.2f', t), printf('%.2f', b), printf('%.2f', h),
               printf('%.2f', f), printf('%.2f', subsets)
        FROM round r LEFT JOIN part USING (round) ORDER BY r.round" | tee "$runs/equal.csv" | sed 's/,/ | /g; s/^/| /; s/$/ |/'
    rate=$(ask equal "SELECT printf('%.0f', sum(env_steps) / sum(seconds)) FROM round")
    echo "| all | **$rate** | | | | | |"
    {
        echo "$csv_header"
        awk -F, '{ printf "equal,cifar_baseline,round %s,0,%s,env-steps/s,\n", $1, $2 }' "$runs/equal.csv"
        echo "equal,cifar_baseline,5 rounds,0,$rate,env-steps/s,"
    } >"$out/$name-equal.csv"
}

# What the host may do in a step of a whole loop, by `esper bench --csv`: a line for each figure that is beyond it.
judge_counts() { # judge_counts CSV
    awk -F, '
        BEGIN { most["launches/step"] = 4; most["copies/step"] = 1; most["most waits/step"] = 1; most["allocations/step"] = 0 }
        $1 == "loop" && ($6 in most) { seen[$6]++; if ($5 > most[$6] + 0) { bad = 1; print "h200: " $2 ", " $3 ": " $5, $6 ", " most[$6] " permitted" } }
        $1 == "loop" && $6 == "env-steps/s" { loops++ }
        END { for (unit in most) if (!loops || seen[unit] != loops) { bad = 1; print "h200: " seen[unit] + 0 " of " loops + 0 " loops have " unit }
              exit bad }' "$1" >&2
}

part_loops() {
    "$esper" bench --device "$device" --part loop --csv "$out/$name-loops.csv" || return 1
    [ "$device" = cpu ] || judge_counts "$out/$name-loops.csv"
}

part_hosts() { "$esper" bench --device "$device" --part train --envs 1,8,16,64,256,1024 --batch 128,512 --csv "$out/$name-hosts.csv"; }

part_blueprints() {
    "$esper" bench --device "$device" --part seeds --part evaluate --envs 64 --batch 128 --csv "$out/$name-blueprints.csv"
}

# Lines of cuda_bench_planes as CSV.
shapes_csv() {
    echo "$csv_header"
    awk '$4 == "training" {
             printf "train,%s,%s %s,0,%.3g,images/s,\n", $1, $2, $3, 1e6 * $5
             for (i = 6; i < NF; i++) if ($i == "validation") printf "evaluate,%s,%s %s,0,%.3g,images/s,\n", $1, $2, $3, 1e6 * $(i + 1) }'
}

# Lines of cuda_bench_text as CSV: "16 envs x 32, bare: 1.5 us a batch, 2.5 M tokens/s; ...".
text_csv() { # text_csv TASK
    sed -n "s/^\([0-9]* envs x [0-9]*\), \(.*\): .* us a batch, \([0-9.]*\) M tokens.*/train,$1,\1 \2,0,\3e+06,tokens\/s,/p"
}

part_shapes() {
    [ -x "$build/tests/cuda_bench_planes" ] || {
        echo 'cuda_bench_planes is not built'
        return 1
    }
    "$build/tests/cuda_bench_planes" 16 512 | tee "$runs/shapes.txt" | sed 's/^/    /'
    shapes_csv <"$runs/shapes.txt" >"$out/$name-shapes.csv"
}

part_text() {
    [ -x "$build/tests/cuda_bench_text" ] || {
        echo 'cuda_bench_text is not built'
        return 1
    }
    "$build/tests/cuda_bench_text" 16 32 64 32 16 8 | tee "$runs/text.txt" | sed 's/^/    /'
    "$build/tests/cuda_bench_text" wide 1 32 16 8 | tee "$runs/wide.txt" | sed 's/^/    /'
    { echo "$csv_header"; text_csv text_bytes <"$runs/text.txt"; text_csv text_gpt <"$runs/wide.txt"; } >"$out/$name-text.csv"
}

# The recorder's spans are those of the host; nvidia-smi reports how busy the device is meanwhile.
part_busy() {
    if command -v nvidia-smi >/dev/null; then
        nvidia-smi --query-gpu=utilization.gpu,power.draw --format=csv,noheader,nounits -lms 100 >"$runs/busy.csv" 2>/dev/null &
        watcher=$!
    fi
    # shellcheck disable=SC2046
    "$esper" train --task cifar_baseline --runs "$runs" --name busy --quiet --device "$device" --envs 64 --steps 60 --rounds 12 \
        $(images) --set data.batch=512 --set data.batches=6 --set data.val_images=625 --trace >"$runs/busy.log" 2>&1
    code=$?
    [ -z "${watcher:-}" ] || kill "$watcher" 2>/dev/null
    [ $code = 0 ] || { tail -3 "$runs/busy.log" >&2; return 1; }
    cp "$runs/busy/trace.json" "$out/$name-trace.json"
    echo "64 envs, 12 rounds of 60 steps, $(images_are); trace: $out/$name-trace.json"
    echo
    echo '| phase | spans | ms each | share of the time |'
    echo '|---|---|---|---|'
    ask busy "SELECT name, count(*), printf('%.3f', avg(duration_us) / 1e3),
                     printf('%.1f %%', 100.0 * sum(duration_us) / (SELECT 1e6 * sum(seconds) FROM round))
              FROM phase WHERE env IS NULL OR env < 0 GROUP BY name ORDER BY sum(duration_us) DESC" |
        sed 's/,/ | /g; s/^/| /; s/$/ |/'
    ask busy "SELECT printf('the device works in its phases %.1f %% of the time', 100.0 * sum(duration_us) /
                            (SELECT 1e6 * sum(seconds) FROM round)) AS line
              FROM phase WHERE name IN ('train', 'evaluate', 'decide', 'apply', 'test', 'update') AND coalesce(env, -1) < 0" |
        sed 's/^/\n/; s/"//g'
    # the middle of the run: its start and end belong to the program, not to training
    [ ! -s "$runs/busy.csv" ] || awk -F', *' '{ busy[NR] = $1; watt[NR] = $2 }
        END { for (i = int(NR / 3); i <= int(NR * 4 / 5); i++) { b += busy[i]; w += watt[i]; n++ }
              if (n) printf "\nGPU busy %.0f %% of the time, %.0f W (nvidia-smi, middle of the run)\n", b / n, w / n }' "$runs/busy.csv"
}

part_kernels() {
    command -v ncu >/dev/null || { note 'ncu (Nsight Compute) is not here'; return 1; }
    metrics=gpu__time_duration.sum,dram__bytes.sum,dram__throughput.avg.pct_of_peak_sustained_elapsed,sm__throughput.avg.pct_of_peak_sustained_elapsed
    for what in train seeds; do
        options="--part train --envs 64 --batch 512"
        [ $what = train ] || options="--part loop --envs 16 --batch 512"
        # shellcheck disable=SC2086
        timeout 80 ncu --clock-control none --graph-profiling node --launch-count 120 --kill yes --csv --metrics $metrics \
            "$esper" bench --device "$device" $options --milliseconds 1 >"$runs/kernels.csv" 2>"$runs/kernels.log" ||
            grep -q '"ID"' "$runs/kernels.csv" || { note "ncu: $(grep -hm1 ERR "$runs/kernels.csv" "$runs/kernels.log")"; return 1; }
        echo "$options"
        echo
        awk -F'","' ' # every field is quoted, and kernels have commas in their names
            function bare(text) { gsub(/[",]/, "", text); return text }
            !columns { for (i = 1; i <= NF; i++) at[bare($i)] = i; columns = ("Metric Name" in at); next }
            { kernel = bare($at["Kernel Name"]); sub(/\(.*/, "", kernel); sub(/^void /, "", kernel)
              metric = bare($at["Metric Name"]); value = bare($at["Metric Value"]); unit = bare($at["Metric Unit"])
              if (metric ~ /time_duration/) {
                  scale = unit ~ /^(us|usecond)/ ? 1e-6 : unit ~ /^(ms|msecond)/ ? 1e-3 : unit ~ /^(s|second)/ ? 1 : 1e-9
                  time[kernel] += value * scale; all += value * scale; calls[kernel]++ }
              else if (metric ~ /dram__bytes/) {
                  scale = unit ~ /^G/ ? 1e9 : unit ~ /^M/ ? 1e6 : unit ~ /^K/ ? 1e3 : 1; bytes[kernel] += value * scale }
              else if (metric ~ /dram__throughput/) memory[kernel] += value
              else if (metric ~ /sm__throughput/) compute[kernel] += value }
            END { print "| kernel | calls | share of the time | us each | GB/s | of memory peak | of SM peak |"
                  print "|---|---|---|---|---|---|---|"
                  for (k in time) if (time[k] > 0.05 * all)
                      printf "| %s | %d | %.1f %% | %.1f | %.0f | %.0f %% | %.0f %% |\n", k, calls[k], 100 * time[k] / all,
                          1e6 * time[k] / calls[k], 1e-9 * bytes[k] / time[k], memory[k] / calls[k], compute[k] / calls[k] }' \
            "$runs/kernels.csv"
        cp "$runs/kernels.csv" "$out/$name-kernels-$what.csv"
    done
}

part_torch() {
    for python in "${PYTHON:-python3}" /usr/bin/python3; do
        if "$python" -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' 2>/dev/null; then
            "$python" bench/torch_many.py --seconds 240 --csv "$out/$name-torch.csv"
            return
        fi
    done
    note 'no PyTorch with CUDA here'
    return 1
}

# ---- one part, or all of them -----------------------------------------------------------------------------------------

if [ "${1:-}" = --judge ]; then # the counters of a file that `loops` wrote
    judge_counts "$2"
    exit
fi
if [ "${1:-}" = --inside ]; then # under its own time limit: timeout runs programs, not functions
    runs=$3
    "part_$2"
    exit
fi

[ $# -gt 0 ] || set -- $parts
for part; do
    case " $parts " in
    *" $part "*) ;;
    *)
        echo "h200: unknown part '$part'; there are: $parts" >&2
        exit 2
        ;;
    esac
done
[ "$1" = build ] || [ -x "$esper" ] || set -- build "$@"
mkdir -p "$out" || exit 1
runs=$(mktemp -d) || exit 1
trap 'rm -rf "$runs"' EXIT
trap 'exit 130' INT TERM

verdicts=
failed=0
for part; do
    start=$(date +%s)
    echo "## $part"
    echo
    timeout "$(limit_of "$part")" sh "$0" --inside "$part" "$runs"
    code=$?
    took=$(($(date +%s) - start))
    case $code in
    0) verdict=ok ;;
    124) verdict="stopped after $(limit_of "$part") s" ;;
    *) verdict="FAILED ($code)" ;;
    esac
    [ $code = 0 ] || failed=$((failed + 1))
    verdicts="$verdicts| $part | $verdict | $took |
"
    echo
    [ "$part $code" = 'build 0' ] || [ "$part" != build ] || break # nothing to measure
done
printf '## Summary\n\n| part | result | s |\n|---|---|---|\n%s' "$verdicts"
[ "$failed" = 0 ]
