#!/bin/sh
# Includes run one way, in C and in device code: a room sees itself and the rooms that its row names, all of them in rows
# above its own. The rows are the picture in docs/architecture.md; a new arrow changes both.
#   sh tests/arrows.sh [SOURCES]
set -u
cd "${1:-$(dirname "$0")/../src}" || exit 1

allowed='
base:
cuda:       base
data:       base cuda
nn:         base cuda
morph:      base cuda data nn
cnn:        base cuda data nn morph
transformer: base cuda data nn morph
host:       base morph cnn transformer
policy:     base cuda nn morph
reward:     base morph
learn:      base cuda nn policy
telemetry:  base
variant:    base nn morph policy
model:      base data nn morph cnn transformer host variant
check:      base nn morph cnn transformer policy reward learn variant
search:     base morph host policy telemetry
engine:     base cuda data morph host policy reward learn telemetry variant search
session:    base data morph policy learn telemetry variant model engine
api:        base host policy learn telemetry variant model engine session
exam:       base morph host policy telemetry search
sweep:      base telemetry search
selftest:   base morph cnn policy engine check
bench:      base data nn morph cnn variant engine
view:       base morph telemetry exam
cli:        base data morph host telemetry variant model engine session view search exam sweep selftest bench
'

# What is wrong under a directory, one line each. A name is an arrow, too: the world and who plays it are the engine's.
judged() {
    (cd "$1" && grep -rE '^[[:space:]]*#[[:space:]]*include[[:space:]]*"|struct (world|engine)\>' --include='*.[ch]' \
        --include='*.cu' --include='*.cuh' --include='*.inc' .) | awk -v allowed="$allowed" '
    BEGIN {
        rows = split(allowed, row, "\n")
        for (i = 1; i <= rows; i++) {
            rooms = split(row[i], room, /[: ]+/)
            for (k = 2; k <= rooms && room[k] != ""; k++) {
                sees[room[1], room[k]] = 1
                if (!(room[k] in place))
                    print "the row of " room[1] "/ names " room[k] "/, which is not above it"
            }
            place[room[1]] = i
        }
    }
    {
        file = substr($0, 3, index($0, ":") - 3)
        text = substr($0, index($0, ":") + 1)
        from = file
        sub("/.*", "", from)
        if (text !~ /^[ \t]*#/) {
            if (place[from] < place["engine"])
                print "src/" file " speaks of the world, which " from "/ may not see"
            next
        }
        split(text, part, "\"")
        if (part[2] == "esper.h" || part[2] == "emulate/cuda.h")
            next
        to = part[2]
        sub("/.*", "", to)
        if (!(to in place))
            print "src/" file " includes \"" part[2] "\", which names no room"
        else if (to != from && !((from, to) in sees))
            print "src/" file " includes " to "/, which " from "/ may not see"
        seen++
    }
    END {
        if (!seen)
            print "no include was found"
    }' | sort -u
}

# It can fail: each of these is found, in every kind of file.
probe=$(mktemp -d) && trap 'rm -rf "$probe"' EXIT && mkdir "$probe/nn" "$probe/morph" || exit 1
echo '#include "engine/world.h"' | tee "$probe/nn/a.c" "$probe/nn/b.h" "$probe/nn/c.cu" "$probe/nn/d.cuh" >"$probe/nn/e.inc"
printf 'extern "C" {\n  # include "engine/world.h"\n}\n' >"$probe/morph/f.cuh"
echo '#include "world.h"' >"$probe/morph/g.cu"
echo '#include "../engine/world.h"' >"$probe/morph/h.cu"
echo 'void train(const struct world *world);' >"$probe/morph/i.cuh"
found=$(judged "$probe")
[ "$(echo "$found" | wc -l)" -eq 9 ] || {
    printf 'of these, nine should be wrong:\n%s\n' "$found" >&2
    exit 1
}

wrong=$(judged .)
[ -z "$wrong" ] || { echo "$wrong" >&2; exit 1; }
echo "includes of C and of device code run one way"
