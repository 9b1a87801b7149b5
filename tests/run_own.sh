#!/bin/sh
# The pages docs/own-*.md are followed to the letter, in a copy of the tree: patches apply, new files are written, commands
# run. Short: what was changed compiles, and the policy's program plays against the built library. With ESPER_SOAK the copy
# is built with all of it, checked and trained. Usage: run_own.sh ESPER (from the project's root).
. tests/script.inc
root=$PWD
build=$(cd "$(dirname "$esper")" && pwd)
tree=$work/tree
mkdir "$tree"
cp -r Makefile README.md include src tests scripts tasks web docs "$tree" || exit 1
cd "$tree" || exit 1

# ---- a page ----------------------------------------------------------------------------------------------------------
# The blocks of a page in their order, as files: 01.diff, 02.c with 02.path, 03.sh
blocks() { # blocks PAGE FOLDER
    mkdir -p "$2"
    awk -v folder="$2" '
    /^New file `[^`]*`:$/ { path = $0; gsub(/^New file `|`:$/, "", path) }
    /^```$/ && block { close(block); block = ""; next }
    /^```(diff|c|sh)$/ {
        block = sprintf("%s/%02d.%s", folder, ++count, substr($0, 4))
        printf "" >block
        if ($0 == "```c") {
            print path >sprintf("%s/%02d.path", folder, count)
            path = ""
        }
        next
    }
    block { print >block }' "$1"
}

# What a page changes: patches, new files, and commands that are not for the built program. The names go to $work/PAGE.txt.
edit() { # edit PAGE
    blocks "$root/docs/$1".md "$work/$1"
    for block in "$work/$1"/*; do
        case $block in
        *.diff)
            verdict "$1: $(basename "$block")" "$(patch -p1 --batch --forward <"$block" 2>&1 | grep -iE 'fail|reject|malformed|No file|ignored')"
            sed -n 's|^+++ b/||p' "$block" >>"$work/$1.txt"
            ;;
        *.c)
            path=$(cat "${block%.c}.path")
            [ -n "$path" ] || verdict "$1: $(basename "$block")" 'no line says which file it is'
            mkdir -p "$(dirname "$path")" && cp "$block" "$path" && echo "$path" >>"$work/$1.txt"
            ;;
        *.sh)
            grep -E '^(sed|grep) ' "$block" >"$work/edits.sh"
            verdict "$1: edits of $(basename "$block")" "$(sh -e "$work/edits.sh" 2>&1 || echo "exit code $?")"
            ;;
        esac
    done
    verdict "$1: something was changed" "$([ -s "$work/$1.txt" ] || echo nothing)"
}

compiles() { # compiles PAGE: every file that it changed
    while read -r file; do
        case $file in
        *.c | *.h)
            verdict "$1: $file compiles" "$(${CC:-cc} -std=gnu11 -fsyntax-only -Wall -Wextra -Wno-psabi -Werror -Iinclude -Isrc -D_GNU_SOURCE \
                -DREAL=float -DVECTOR=4 -x c "$file" 2>&1)"
            ;;
        *.cu)
            command -v c++ >/dev/null || continue
            verdict "$1: $file compiles" "$(c++ -std=c++17 -fsyntax-only -DEMULATE -D_GNU_SOURCE -Iinclude -Isrc -Itests -Wno-unknown-pragmas -x c++ "$file" 2>&1)"
            ;;
        *.sh) verdict "$1: $file" "$(sh "$file" 2>&1 >/dev/null)" ;;
        esac
    done <"$work/$1.txt"
}

follow() { # follow PAGE: the commands for the built program; what they say goes to $work/PAGE.out
    cat "$work/$1"/*.sh | grep -vE '^(sed|grep) ' >"$work/commands.sh"
    sh -ex "$work/commands.sh" >"$work/$1.out" 2>&1
    verdict "$1: its commands" "$([ $? -eq 0 ] || tail -5 "$work/$1.out")"
}
says() { # says PAGE TEXT
    verdict "$1 says $2" "$(grep -qE -- "$2" "$work/$1.out" || tail -5 "$work/$1.out")"
}

pages='own-blueprint own-reward own-family'
for page in $pages; do
    edit "$page"
done
for page in $pages; do
    compiles "$page"
done
verdict 'own-blueprint: the README lists it' "$(grep -q 'conv_small conv_mixed bottleneck' README.md || echo no)"
verdict 'own-family: what is not text is for it' "$(grep -rq 'host_family == FAMILY_TRANSFORMER' src/data || echo no)"

# ---- the policy, against the library as it was built -----------------------------------------------------------------
if nm -D "$build/libesper.so" | grep -q __asan_init; then
    skip 'a library with a sanitizer takes a program with one'
else
    ln -s "$build" build
    edit own-policy
    follow own-policy
    says own-policy '^conv_light +[0-9]+ episodes, score [0-9]'
    verdict 'own-policy: it plays sixteen episodes' "$(awk '/ episodes, score / { sum += $2 } END { if (sum != 16) print sum }' "$work/own-policy.out")"
    rm build
fi

# ---- all of it, built ------------------------------------------------------------------------------------------------
if [ -n "${ESPER_SOAK:-}" ]; then
    MAKEFLAGS=-j$(nproc)
    ESPER_TASKS=$tree/tasks
    export MAKEFLAGS ESPER_TASKS
    for page in $pages; do
        follow "$page"
    done
    says own-blueprint '^conv_mixed +[0-9]+$'
    says own-blueprint ' 0 failed'
    says own-blueprint '^accuracy '
    says own-reward '^ *1 +1$'
    says own-reward 'thrift: what a live seed costs'
    says own-family '^accuracy '
    verdict 'own-family: another host than a CNN' "$(build/esper train --policy heuristic --envs 2 --steps 30 --rounds 1 --name plain --quiet >plain.txt 2>&1 || cat plain.txt
        [ "$(build/esper inspect plain --hash)" != "$(build/esper inspect own-family --hash)" ] || echo 'the same')"
    build/esper export own-family --onnx own-family.onnx >plain.txt 2>&1
    verdict 'own-family: no graph, said by name' "$(grep -q 'hosts of the family ink have no ONNX graph' plain.txt || cat plain.txt)"
fi
conclude
