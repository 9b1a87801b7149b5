#!/bin/sh
# Calls, allocations and launches of the emulated device fail: training and evaluation end with the right result or with
# a clean refusal (tests/faults/drive.c). 12 faults drawn by a seed, 500 with ESPER_SOAK set, or
# ESPER_FAULTS of them; 0: each fails once.
# Usage: device_faults.sh ESPER LIBRARY (from the project's root).
. tests/script.inc
case $2 in /*) ESPER_CUDA_LIBRARY=$2 ;; *) ESPER_CUDA_LIBRARY=$PWD/$2 ;; esac
export ESPER_CUDA_LIBRARY
programs=$(dirname "$esper")/tests/faults
if [ ! -x "$programs/drive" ]; then
    skip "there is no fault library for this build"
    conclude
    exit
fi
faults=${ESPER_SOAK:+500}
"$programs/drive" "$esper" "$programs/libfaults.so" "$work" "${ESPER_FAULTS:-${faults:-12}}" "${ESPER_FAULT_SEED:-1}"
