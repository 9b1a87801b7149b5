#!/bin/sh
# The Debian packages: unpacked into an empty root they are the program, the library and what it takes to build against it,
# with the right dependencies, pages, completions and notices; and what the Dockerfile names is there. Usage: run_deb.sh
# ESPER (from the project's root).
. tests/script.inc
root=$PWD
build=$(dirname "$esper")
mkdir "$work/about"

# ---- the Dockerfile, as far as it can be judged without building it ---------------------------------------------------
# its words, a line each, without those of other lines
words() { sed -n "s/.*$1 \([^&]*\).*/\1/p" Dockerfile | tr ' ' '\n' | sort -u; }
targets="$(words 'make -j"$(nproc)"') deb"
# shellcheck disable=SC2086
make --no-print-directory -n NVCC=nvcc BUILD=build $targets >"$work/make.txt" 2>&1
verdict "Dockerfile: make" "$([ $? -eq 0 ] || tail -1 "$work/make.txt")"
verdict 'Dockerfile: scripts/deps' "$([ -x scripts/deps ] && grep -q 'scripts/deps$' Dockerfile || echo missing)"
for stage in $(sed -n 's/.*--from=\([a-z-]*\) .*/\1/p; s/.*--target \([a-z]*\) .*/\1/p' Dockerfile); do
    verdict "Dockerfile: stage $stage" "$(grep -q "^FROM .* AS $stage\$" Dockerfile || echo missing)"
done
if command -v apt-cache >/dev/null && apt-cache show make >/dev/null 2>&1; then
    for package in $(words 'apt-get install -y --no-install-recommends' | grep "^[a-z]"); do
        verdict "Dockerfile: package $package" "$(apt-cache show "$package" 2>&1 >/dev/null)"
    done
else
    skip 'no list of packages here'
fi

# ---- the packages ----------------------------------------------------------------------------------------------------
if ! command -v dpkg-deb >/dev/null || ! command -v dpkg-shlibdeps >/dev/null; then
    skip 'dpkg-deb or dpkg-shlibdeps is not installed; add them with: apt-get install dpkg-dev'
    conclude
    exit
fi
if nm -D "$build/libesper.so" | grep -q __asan_init; then
    skip 'nobody packs a build with a sanitizer'
    conclude
    exit
fi
scripts/deb "$work/none" "$work/deb" >"$work/out.txt" 2>&1
verdict 'nothing to pack' "$([ $? -eq 1 ] && grep -q '^esper: nothing is built .*; run: make$' "$work/out.txt" || cat "$work/out.txt")"
[ -n "${ESPER_SOAK:-}" ] || export DPKG_DEB_COMPRESSOR_TYPE=none # in half the time
# a device library is a library: any will do to see it packed
mkdir "$work/built" && cp "$build/esper" "$build/libesper.so" "$work/built" && cp "$build/libesper.so" "$work/built/libesper_cuda.so"
build=$work/built
scripts/deb "$build" "$work/deb" >"$work/out.txt" 2>&1
verdict 'scripts/deb' "$([ $? -eq 0 ] || cat "$work/out.txt")"
abi=$(sed -n 's/^#define ESPER_ABI \([0-9]*\)$/\1/p' include/esper.h)
version=$(sed -n 's/^#define ESPER_VERSION "\(.*\)"$/\1/p' include/esper.h)
for package in esper libesper$abi libesper-dev esper-cuda; do
    file=$(ls "$work/deb/${package}_$version-1_"*.deb 2>/dev/null)
    verdict "$package" "$(dpkg-deb -x "$file" "$work/root" 2>&1; dpkg-deb -e "$file" "$work/about/$package" 2>&1)"
    verdict "$package: checksums" "$(cd "$work/root" && md5sum -c --quiet "$work/about/$package/md5sums" 2>&1)"
    verdict "$package: copyright" "$(grep -q 'Permission is hereby granted' "$work/root/usr/share/doc/$package/copyright" &&
        grep -q 'Jason Miller' "$work/root/usr/share/doc/$package/copyright" || echo incomplete)"
    verdict "$package: nothing but usr" "$(dpkg-deb -c "$file" | awk '$6 !~ /^\.\/(usr\/.*)?$/')"
done
needs() { # needs PACKAGE LIBRARY: it depends on the package of a library that its file is linked with
    verdict "$1 needs $2" "$(dpkg-deb -f "$work/deb/$1_"*.deb Depends | grep -q "$2" || dpkg-deb -f "$work/deb/$1_"*.deb Depends)"
}
for library in libc6 libcjson1 libsqlite3-0; do
    needs esper $library
    needs libesper$abi $library
done
needs libesper-dev "libesper$abi (= $version-1)"
needs esper-cuda "esper (= $version-1)"

cd "$work" || exit 1
unpacked=$work/root/usr
lib=$(dirname "$(ls "$unpacked"/lib/*/libesper.so.$abi)")
esper=$unpacked/bin/esper
shows "esper $version" version
"$esper" train --device cuda --rounds 1 --quiet >out.txt 2>&1
verdict 'the program finds its device library' "$(grep -q 'lib/esper/libesper_cuda.so was built for another version' out.txt || cat out.txt)"
shows '1 round done' train --device cpu --envs 1 --steps 2 --rounds 1 --set data.batches=1 --name first --quiet
for page in esper esper-train esper-archive esper-data-get; do
    verdict "$page(1)" "$(gzip -dc "$unpacked/share/man/man1/$page.1.gz" | grep -q '^\.TH' || echo missing)"
done
for file in bash-completion/completions/esper zsh/vendor-completions/_esper fish/vendor_completions.d/esper.fish esper/tasks/quickstart.json; do
    verdict "$file" "$([ -s "$unpacked/share/$file" ] || echo missing)"
done
verdict "its README" "$([ -s "$unpacked/share/doc/esper/"README.md ] || echo missing)"
verdict 'a program against it' "$(${CC:-cc} -std=c11 -I"$unpacked/include" "$unpacked/share/doc/libesper-dev/examples/random_player.c" -L"$lib" -lesper -o player 2>&1)"
verdict 'plays' "$(LD_LIBRARY_PATH=$lib ./player quickstart envs=1 steps=4 data.batches=1 2>&1 | grep -q '^env 0: validation' || echo no)"
for file in "$esper" "$lib/libesper.so.$abi"; do
    problem=
    readelf -dW "$file" | grep -q BIND_NOW || problem="no BIND_NOW"
    readelf -lW "$file" | grep -q GNU_RELRO || problem="$problem no RELRO"
    readelf --dyn-syms -W "$file" >symbols.txt
    grep -q __stack_chk_fail symbols.txt || problem="$problem no stack protector"
    grep -q '_chk@GLIBC' symbols.txt || problem="$problem no FORTIFY"
    readelf -lW "$file" | grep GNU_STACK | grep -q RWE && problem="$problem an executable stack"
    verdict "hardened: $(basename "$file")" "$problem"
done
verdict 'hardened: PIE' "$(readelf -dW "$esper" | grep -q 'FLAGS_1.*PIE' || readelf -hW "$esper")"

# dpkg itself, in a root of its own: what depends on what, files of two packages, and nothing left after removal
if [ "$(id -u)" = 0 ]; then
    mkdir -p system/var/lib/dpkg/info system/var/lib/dpkg/updates
    : >system/var/lib/dpkg/status
    in_root() { dpkg --root="$work/system" --force-depends --log=/dev/null "$@" >dpkg.txt 2>&1; }
    in_root -i deb/*.deb
    verdict 'dpkg -i' "$([ $? -eq 0 ] || cat dpkg.txt)"
    verdict 'four are installed' "$(dpkg --root="$work/system" -l | grep -c '^ii' | grep -vx 4)"
    in_root -P esper libesper$abi libesper-dev esper-cuda
    verdict 'dpkg -P' "$([ $? -eq 0 ] || cat dpkg.txt)"
    verdict 'nothing is left' "$(find system ! -type d ! -path 'system/var/lib/dpkg/*')"
else
    skip 'dpkg -i takes root'
fi

# ---- the long form ---------------------------------------------------------------------------------------------------
if [ -n "${ESPER_SOAK:-}" ] && command -v lintian >/dev/null; then
    # the packages close no bug of Debian's, since they were never uploaded there
    verdict 'lintian' "$(lintian --allow-root --suppress-tags initial-upload-closes-no-bugs deb/*.deb 2>&1)"
elif [ -n "${ESPER_SOAK:-}" ]; then
    skip 'lintian is not installed; add it with: apt-get install lintian'
fi
if [ -n "${ESPER_SOAK:-}" ]; then
    (cd "$root" && scripts/deb "$build" "$work/again") >out.txt 2>&1
    verdict 'the same packages again' "$(for file in deb/*.deb; do cmp "$file" "again/$(basename "$file")" 2>&1; done)"
fi
conclude
