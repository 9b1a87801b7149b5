#!/bin/sh
# The Python package: environments with Gymnasium and without, policies that reproduce `esper eval`, networks, records,
# documentation, examples and installing. Parts that other packages are needed for are skipped with
# the line that adds them. Usage: run_python.sh ESPER (from the project's root; PYTHON names another interpreter).
. tests/script.inc
root=$PWD
build=$(dirname "$esper")
python=
for candidate in ${PYTHON:-} python3 /usr/bin/python3; do
    [ -n "$python" ] || ! "$candidate" -c 'import numpy' 2>/dev/null || python=$candidate
done
if [ -z "$python" ]; then
    skip 'numpy is not installed, which the Python package needs; add it with: apt-get install python3-numpy'
    conclude
    exit
fi
if nm -D "$build/libesper.so" | grep -q __asan_init; then
    skip 'a library with a sanitizer cannot be loaded into Python'
    conclude
    exit
fi
PYTHONPATH=$root/python:$root/tests/python${PYTHONPATH:+:$PYTHONPATH}
PYTHONDONTWRITEBYTECODE=1
ESPER=$esper
ESPER_LIBRARY=$build/libesper.so
ESPER_TEST_RUN=$work
ESPER_TEST_FOLDER=$work
export PYTHONPATH PYTHONDONTWRITEBYTECODE ESPER ESPER_LIBRARY ESPER_TEST_RUN ESPER_TEST_FOLDER
enter_work

tests() { # tests NAME VARIABLES...: a file of tests/python, what it skips and how it fails
    name=$1
    shift
    if env "$@" "$python" "$root/tests/python/$name.py" "$root" >"$work/$name.txt" 2>&1; then
        verdict "$name $*" ''
        sed -n 's/^skipped: //p' "$work/$name.txt" | while read -r line; do echo "skipped: $line"; done
        ! grep -q '^skipped: ' "$work/$name.txt" || skipped=$((skipped + 1))
        grep 'KiB more' "$work/$name.txt"
    else
        verdict "$name $*" "$(tail -40 "$work/$name.txt")"
    fi
}

# ---- what was trained ------------------------------------------------------------------------------------------------
"$esper" train --envs 2 --steps 14 --rounds 1 --name first --quiet --set data.batches=1 --set data.batch=16 \
    --set data.val_images=32 --set data.test_images=32 --set reward.mode=shaped >train.txt 2>&1 || cat train.txt
"$esper" eval first --episodes 6 --quiet >/dev/null 2>&1
"$esper" eval first --episodes 6 --greedy --quiet >/dev/null 2>&1
"$esper" export first --safetensors grown.safetensors >/dev/null && "$esper" export first --onnx grown.onnx >/dev/null
"$esper" infer grown.onnx synthetic --images 70 --output logits.safetensors >/dev/null
tests test_trained

# ---- environments ----------------------------------------------------------------------------------------------------
tests test_env ESPER_ALONE=1
! "$python" -c 'import gymnasium' 2>/dev/null || tests test_env
tests test_gymnasium

# ---- documentation and examples, on a quick start that is quicker ----------------------------------------------------
mkdir tasks
cat >tasks/quickstart.json <<EOF
{"envs": 2, "steps": 6, "rounds": 2, "host.base": 4, "host.kernel": 1, "data.set": "synthetic", "data.size": 16, "data.batch": 16,
 "data.batches": 1, "data.val_images": 32, "data.test_images": 32}
EOF
tests test_docs ESPER_TASKS="$work/tasks"

# ---- the library is another one --------------------------------------------------------------------------------------
says() { # says NAME TEXT COMMAND...: it fails, with TEXT in the last line
    name=$1
    text=$2
    shift 2
    problem=
    "$@" >"$work/said.txt" 2>&1 && problem='exit code 0'
    tail -1 "$work/said.txt" | grep -qF -- "$text" || problem="$problem; $(tail -1 "$work/said.txt")"
    verdict "$name" "$problem"
}
says 'no library' 'build libesper.so with: make' env ESPER_LIBRARY=/nowhere/libesper.so "$python" -c 'import esper'
says 'another library' 'is older than this package' env ESPER_LIBRARY=libm.so.6 "$python" -c 'import esper'

# ---- installing ------------------------------------------------------------------------------------------------------
(cd "$root" && find python) >before.txt
if "$python" -c 'import setuptools, wheel, pip' 2>/dev/null; then
    if make --no-print-directory -C "$root" BUILD="$build" PYTHON="$python" WHEELS="$work/wheels" wheel >wheel.txt 2>&1; then
        "$python" -m pip install --quiet --no-index --no-deps --target "$work/site" "$work"/wheels/esper-*.whl >pip.txt 2>&1 ||
            cat pip.txt
        verdict 'a wheel, installed, by itself' "$(cd / && env -u ESPER_LIBRARY PYTHONPATH="$work/site" "$python" -c '
import esper
env = esper.VectorEnv("quickstart", 1, settings={"steps": 1, "data.batches": 1, "reward.mode": "shaped"})
env.reset()
assert env.step(env.sample_actions())[2].all()
assert esper.__file__.startswith("'"$work"'/site"), esper.__file__' 2>&1)"
    else
        verdict 'make wheel' "$(tail -20 wheel.txt)"
    fi
    (cd "$root" && find python) >after.txt
    verdict 'the tree is as it was' "$(diff before.txt after.txt)"
else
    skip 'pip, setuptools and wheel are not installed; add them with: apt-get install python3-pip python3-setuptools python3-wheel'
fi
conclude
