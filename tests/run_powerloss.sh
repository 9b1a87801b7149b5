#!/bin/sh
# The power fails at random points of a run: its folder, rebuilt as a disk may hold it then, is resumed and comes to the
# same bits, with nothing missing from its record (tests/faults/powerloss.c). 40 points; 1000 with ESPER_SOAK set.
# Usage: run_powerloss.sh ESPER (from the project's root).
. tests/script.inc
programs=$(dirname "$esper")/tests/faults
if [ ! -x "$programs/powerloss" ]; then
    skip "there is no fault library for this build"
    conclude
    exit
fi
points=${ESPER_SOAK:+1000}
"$programs/powerloss" "$esper" "$programs/libfaults.so" "$work" "${points:-40}" "${ESPER_FAULT_SEED:-1}"
