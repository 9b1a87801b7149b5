#!/bin/sh
# The page in a headless Chromium against runs that train, end and are killed (tests/page.mjs), and web/dist compared
# with what its sources build, its words with those of C. Then with many runs (tests/page_many.mjs): 60, or 500 with
# ESPER_SOAK set. With ESPER_SCREENSHOTS set, pictures of each view go to docs/images.
# Usage: run_page.sh ESPER
. tests/script.inc

# The words that the page shares with C are committed as a module: it must be what the lists in C make.
${CC:-cc} -Isrc web/words.c -o "$work/words" && "$work/words" >"$work/words.js"
verdict "web/src/words.js is what web/words.c prints; else run: make web" "$(diff "$work/words.js" web/src/words.js 2>&1)"

if ! lack=$(scripts/deps-web); then
    skip "no tests of the page: $lack"
    conclude
    exit
fi

# web/dist is committed so that building Esper does not need npm: it must be what the sources and pinned packages make.
mkdir "$work/web"
cp -R web/src web/build.mjs web/package.json web/package-lock.json "$work/web"
if (cd "$work/web" && npm ci --ignore-scripts --no-audit --no-fund --silent >"$work/npm.txt" 2>&1); then
    (cd "$work/web" && node build.mjs "$work/dist" >"$work/build.txt" 2>&1)
    verdict "the page is at most 72 kB gzipped" "$([ $? -eq 0 ] || cat "$work/build.txt")"
    verdict "web/dist is what web/src builds; else run: make web" "$(diff -rq web/dist "$work/dist" 2>&1)"
elif [ -n "${CI:-}" ]; then
    verdict "npm ci in web" "$(tail -3 "$work/npm.txt")"
else
    skip "web/dist is not compared with its sources: npm could not fetch the packages"
fi

node tests/page.mjs "$esper" "$work/runs" ${ESPER_SCREENSHOTS:+docs/images} >"$work/page.txt" 2>&1
status=$?
cat "$work/page.txt"
if [ $status -eq 77 ]; then
    skip "this build has no esper serve: libmicrohttpd is missing"
else
    verdict "the page in Chromium" "$([ $status -eq 0 ] || echo "see above")"
    many=${ESPER_SOAK:+500}
    many=${many:-60}
    sh tests/many_runs.sh "$esper" "$work/many" "$many"
    node tests/page_many.mjs "$esper" "$work/many" "$many"
    verdict "the page with $many runs in Chromium" "$([ $? -eq 0 ] || echo "see above")"
fi
conclude
