#!/bin/sh
# Includes run one way: a room may include those of the same line or of a lower one that its row names. The rows are the
# picture in docs/architecture.md; a new arrow changes both.
#   sh tests/arrows.sh [SOURCES]
set -u
cd "${1:-$(dirname "$0")/../src}" || exit 1

allowed='
base:
cuda:       base
data:       base cuda
nn:         base cuda
morph:      base cuda data nn
policy:     base cuda nn morph
reward:     base morph
learn:      base cuda nn policy
telemetry:  base
variant:    nn morph policy
model:      base data nn morph variant
check:      base nn morph policy reward learn variant
engine:     base cuda data morph policy reward learn telemetry variant model
search:     base morph policy telemetry
exam:       base morph policy telemetry search
selftest:   base morph policy engine check
bench:      base data nn morph variant engine
view:       base morph telemetry exam
cli:        base data morph telemetry variant model engine view search exam selftest bench
'
# Not yet as it should be: device code reaches the world through its context.
known='cuda/context.cuh engine
cuda/context.cuh data'

arrows=$(grep -rE '^#include "[a-z]+/' --include='*.[ch]' --include='*.cu' --include='*.cuh' --include='*.inc' . |
    sed -E 's|^\./([^:]*):#include "([a-z]+)/.*|\1 \2|' | grep -v ' emulate$' | sort -u)
[ -n "$arrows" ] || { echo "arrows: no include found in $PWD" >&2; exit 1; }
wrong=$(echo "$arrows" | grep -vxF "$known" | while read -r file room; do
    from=${file%%/*}
    [ "$from" = "$room" ] && continue
    echo "$allowed" | grep -qE "^$from:(.* )?$room( |\$)" || echo "src/$file includes $room/, which $from/ may not see"
done)
[ -z "$wrong" ] || { echo "$wrong" >&2; exit 1; }
echo "$(echo "$arrows" | wc -l) arrows between files and rooms, none runs back up"
