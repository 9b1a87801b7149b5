#!/bin/sh
# Calls of the C library fail while commands run: each ends with the right result or with a clean refusal
# (tests/faults/drive.c). 100 faults drawn by a seed, 10000 with ESPER_SOAK set, or
# ESPER_FAULTS of them; 0: every call fails once in every way, for hours.
# Usage: run_faults.sh ESPER (from the project's root).
. tests/script.inc
programs=$(dirname "$esper")/tests/faults
if [ ! -x "$programs/drive" ]; then
    skip "there is no fault library for this build"
    conclude
    exit
fi
faults=${ESPER_SOAK:+10000}
"$programs/drive" "$esper" "$programs/libfaults.so" "$work" "${ESPER_FAULTS:-${faults:-100}}" "${ESPER_FAULT_SEED:-1}"
