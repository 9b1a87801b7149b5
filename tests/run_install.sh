#!/bin/sh
# What `make install` puts under a prefix is whole: other programs build and run against it, the program finds its device
# library, nothing but esper.h is to be seen in the library, and `make uninstall` leaves nothing. Usage: run_install.sh
# ESPER (from the project's root).
. tests/script.inc
root=$PWD
build=$(dirname "$esper")
prefix=$work/prefix
put() { # put TARGET VARIABLES...
    make --no-print-directory -C "$root" BUILD="$build" PREFIX="$prefix" "$@" >"$work/make.txt" 2>&1 ||
        { cat "$work/make.txt"; exit 1; }
}
fails_to() { # fails_to NAME TEXT COMMAND...: not a success, and TEXT in what it says
    name=$1
    text=$2
    shift 2
    problem=
    "$@" >"$work/said.txt" 2>&1 && problem="exit code 0"
    grep -qF -- "$text" "$work/said.txt" || problem="$problem; says $(cat "$work/said.txt")"
    verdict "$name" "$problem"
}
fails_to 'nothing to install' 'run: make' make --no-print-directory BUILD="$work/none" PREFIX="$prefix" install
verdict 'then nothing is installed' "$(ls "$prefix" 2>/dev/null)"
put install

# ---- what is there ---------------------------------------------------------------------------------------------------
doc=share/doc/esper
for file in bin/esper lib/libesper.so lib/pkgconfig/esper.pc include/esper.h share/esper/tasks/quickstart.json $doc/LICENSE \
    $doc/README.md $doc/docs/guide.md $doc/examples/own_policy.c $doc/examples/python/ppo.py; do
    verdict "$file" "$([ -s "$prefix/$file" ] || echo missing)"
done
put install DESTDIR="$work/stage"
(cd "$prefix" && find . | sort) >"$work/direct.txt"
(cd "$work/stage$prefix" && find . | sort) >"$work/staged.txt"
verdict 'the same through DESTDIR' "$(cmp "$work/direct.txt" "$work/staged.txt" 2>&1)"
verdict 'which no file names' "$(grep -rl "$work/stage" "$work/stage$prefix/lib/pkgconfig")"

library=$prefix/lib/libesper.so
abi=$(sed -n 's/^#define ESPER_ABI \([0-9]*\)$/\1/p' include/esper.h)
verdict 'soname' "$(readelf -dW "$library" | grep -q "soname: \[libesper.so.$abi\]" || readelf -dW "$library")"
verdict 'the name that the loader wants' "$([ -e "$prefix/lib/libesper.so.$abi" ] || ls "$prefix/lib")"
grep -oE '\besper_[a-z_]+\(' include/esper.h | tr -d '(' | sort -u >"$work/declared.txt"
nm -D --defined-only "$library" | awk '{ print $NF }' | grep -v '^__' | sort >"$work/exported.txt"
verdict 'exported is what is declared' "$(diff "$work/declared.txt" "$work/exported.txt")"
verdict 'and that is something' "$([ "$(wc -l <"$work/exported.txt")" -gt 20 ] || cat "$work/exported.txt")"

# ---- other programs --------------------------------------------------------------------------------------------------
PKG_CONFIG_PATH=$prefix/lib/pkgconfig
LD_LIBRARY_PATH=$prefix/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export PKG_CONFIG_PATH LD_LIBRARY_PATH
if command -v pkg-config >/dev/null; then
    flags=$(pkg-config --cflags --libs esper)
    verdict 'version of esper.pc' "$(pkg-config --modversion esper | grep -vxF "$(sed -n 's/^#define ESPER_VERSION "\(.*\)"$/\1/p' include/esper.h)")"
else
    flags=$(sed -n "s|^Cflags: ||p; s|^Libs: ||p" "$PKG_CONFIG_PATH/esper.pc" | sed "s|\${includedir}|$prefix/include|; s|\${libdir}|$prefix/lib|")
fi
sanitizer=
! nm -D "$library" | grep -q __asan_init || sanitizer=-fsanitize=address,undefined
mkdir "$work/project" && cd "$work/project" || exit 1
unset ESPER_TASKS
for name in random_player own_policy trained_policy inference train; do
    # shellcheck disable=SC2086
    verdict "build $name" "$(${CC:-cc} -std=c11 -Wall -Wextra -Wpedantic $sanitizer "$prefix/share/doc/esper/examples/$name.c" $flags -o $name 2>&1)"
done
cat >plain.cc <<EOF
#include <esper.h>
int main() { const struct esper_abi here = ESPER_ABI_HERE; return esper_abi_check(&here, nullptr); }
EOF
if command -v c++ >/dev/null; then
    # shellcheck disable=SC2086
    verdict 'esper.h in C++' "$(c++ -std=c++17 -Wall -Wextra -Wpedantic $sanitizer plain.cc $flags -o plain 2>&1 && ./plain 2>&1 || echo failed)"
fi

esper=$prefix/bin/esper
small="steps=14 data.batches=1 data.batch=16 data.val_images=32 data.test_images=32 reward.mode=shaped"
sets=$(for set in $small; do echo "--set $set"; done)
# shellcheck disable=SC2086
{
    verdict 'random player' "$(./random_player quickstart envs=3 $small 2>&1 | grep -c '^env [012]: validation [0-9]' | grep -vx 3)"
    ./own_policy conv_heavy quickstart envs=2 $small >own.txt 2>&1
    verdict 'hand-written policy' "$(grep -q '^step 1: env 0 did germinate in r0c0' own.txt && grep -q '^score of env 0' own.txt || cat own.txt)"
    ./train quickstart envs=2 rounds=2 policy.hidden=16 policy.feature_dim=16 $small >train.txt 2>&1
    verdict 'training' "$([ "$(grep -c '^round [12]: reward [-0-9]' train.txt)" -eq 2 ] && "$esper" inspect latest | grep -q finished || cat train.txt)"
    "$esper" train --envs 2 --rounds 1 --name first --quiet $sets >/dev/null 2>train.txt || verdict 'train' "$(cat train.txt)"
    "$esper" eval first --episodes 4 --quiet >/dev/null 2>&1
}
first=$((1 << 23))
"$esper" sql first-eval-ppo "select round - $first, env, printf('%!.17g', test_accuracy), printf('%!.17g', reward) from outcome order by 1, 2" --csv |
    sed 1d >evaluated.txt
./trained_policy first 2 >played.txt 2>&1
# as numbers: the programs may print the same one differently
for file in evaluated played; do
    awk -F, '{ printf "%d %d %.17g %.17g\n", $1, $2, $3, $4 }' "$file.txt" >"$file.numbers"
done
verdict 'the policy plays what eval played' "$(diff evaluated.numbers played.numbers)"
verdict 'four episodes of it' "$([ "$(wc -l <played.numbers)" -eq 4 ] || cat played.txt)"

"$esper" export first --safetensors grown.safetensors >/dev/null && "$esper" export first --onnx grown.onnx >/dev/null
head -c $((3 * 16 * 16 * 3)) /dev/urandom >images.bin
for file in grown.safetensors grown.onnx first; do
    ./inference $file <images.bin >classes.txt 2>source.txt
    verdict "inference of $file" "$(grep -cE '^[0-9]$' classes.txt | grep -vx 3)$(grep -q 'network of first' source.txt || cat source.txt)"
    [ $file = grown.safetensors ] && cp classes.txt same.txt
    verdict "the classes of $file" "$(cmp classes.txt same.txt 2>&1)"
done
fails_to 'a file that is none' 'inference: ' ./inference images.bin

# ---- manual pages and completion -------------------------------------------------------------------------------------
for command in $("$esper" help | sed -n '/^commands:/,/^$/s/^  \([a-z]*\) .*/\1/p'); do
    "$esper" help "$command" | sed -n '/^options:/,/^$/s/^  --\([a-z-]*\).*/\1/p' | sed 's/-/\\-/g' >"$work/options.txt"
    sed -n 's/^\.B \\-\\-\([^ ]*\).*/\1/p' "$prefix/share/man/man1/esper-$command.1" >"$work/paged.txt"
    verdict "options of esper-$command(1)" "$(diff "$work/options.txt" "$work/paged.txt" 2>&1)"
done
if command -v man >/dev/null && man -l "$prefix/share/man/man1/esper-train.1" >"$work/page.txt" 2>&1; then
    verdict 'man esper-train' "$(grep -q -- '--resume RUN' "$work/page.txt" && grep -q 'train hosts that grow' "$work/page.txt" || cat "$work/page.txt")"
fi
for file in bash-completion/completions/esper zsh/site-functions/_esper fish/vendor_completions.d/esper.fish; do
    verdict "$file" "$([ -s "$prefix/share/$file" ] || echo missing)" # run_completion.sh tries them
done

# ---- the device library ----------------------------------------------------------------------------------------------
# A library that is found and is not the right one is named. One beside the program comes first.
found_in() { # found_in FOLDER
    mkdir -p "$prefix/$1" && cp "$library" "$prefix/$1/libesper_cuda.so"
    "$esper" train --device cuda --rounds 1 --quiet >"$work/out.txt" 2>&1
    verdict "the device library in $1" "$(grep -q "$1/libesper_cuda.so was built for another version" "$work/out.txt" || cat "$work/out.txt")"
}
found_in lib/esper
found_in bin
rm "$prefix/bin/libesper_cuda.so"

# ---- uninstalling ----------------------------------------------------------------------------------------------------
put uninstall
put uninstall DESTDIR="$work/stage"
verdict 'nothing is left' "$(find "$prefix" "$work/stage" ! -type d)"
conclude
