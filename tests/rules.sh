#!/bin/sh
# Citations lead somewhere: every rule that code, tests and documentation cite is defined in docs/rules, once and on its
# page, and no comment cites a text that is not in the project.
set -u
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

complain() { # HEADLINE, then lines on stdin; silent when there are none
    sed 's/^/    /' >"$work/lines"
    [ -s "$work/lines" ] || return
    echo "$1"
    cat "$work/lines"
    : >"$work/failed"
}

sources=$(find src include tests scripts bench docs web/src README.md CONTRIBUTING.md CHANGELOG.md Makefile -type f \
    ! -path '*/vectors/*' ! -name '*.svg' ! -name '*.png' ! -path tests/rules.sh)

# ---- what is defined: "- **I-24** ..." -------------------------------------------------------------------------------

awk '/^- \*\*[A-Z]-[0-9]+\*\*/ { split($2, part, "*"); print part[3], FILENAME }' docs/rules/*.md >"$work/defined"
[ -s "$work/defined" ] || { echo "docs/rules defines nothing"; exit 1; }
cut -d' ' -f1 "$work/defined" | sort >"$work/ids"
uniq -d "$work/ids" | complain "defined twice:"

awk 'BEGIN { split("I lifecycle D lifecycle P policy R reward L learning E engine T telemetry", w); for (i = 1; i < 14; i += 2) page[w[i]] = w[i + 1] }
     $2 != "docs/rules/" page[substr($1, 1, 1)] ".md" || $1 !~ /^[A-Z]-[0-9][0-9]$/' "$work/defined" |
    complain "on the wrong page, or not a letter and two digits:"

# ---- what is cited ---------------------------------------------------------------------------------------------------

cites() { # PATTERN: "file:line:match" wherever it occurs
    # shellcheck disable=SC2086
    grep -EnIo "$1" $sources
}

cites '(^|[^A-Za-z0-9_+/.-])[A-Z]-[0-9]+([^A-Za-z0-9_.-]|$)' |
    awk -v ids="$work/ids" 'BEGIN { while ((getline id < ids) > 0) known[id] = 1 }
        { match($0, /[A-Z]-[0-9]+[^A-Za-z0-9_.-]?$/); id = substr($0, RSTART, RLENGTH); gsub(/[^A-Z0-9-]/, "", id) }
        !(id in known) { split($0, at, ":"); print at[1] ":" at[2] ": " id }' |
    complain "cited and not defined in docs/rules:"

# ---- what leads nowhere ----------------------------------------------------------------------------------------------

{
    cites '(DECISIONS|STAGE2|DESIGN [0-9]).*'
    cites '§.*'
    cites '\<([Tt]he|of) spec(ification)?\>.*'
    cites '\<((ppo|rewards|runtime|observability) (D-?)?[0-9]+(\.[0-9]+)?|esper [1-8])([ ,;:)]|$).*' # a chapter, a ruling
    cites '[( ]D[0-9][0-9]?[,;:)].*'                                                               # (D12)
    cites '/\* \([0-9]+\)(:|,| \*/).*'                                                             # (15): ...
    cites '/\* ---- (.*\([0-9][0-9.]*((, | to | and )[0-9.]+)*\) -|\([0-9]+\) ).*'                 # a heading's (5.9)
    cites '\<([Kk]asmina|[Tt]amiyo|[Ss]imic|[Tt]olaria|[Nn]issa|[Kk]arn)\>.*' | grep -v '^docs/glossary.md:'
} | sort -u -t: -k1,2 | complain "cites what is not in the project:"

cites '[A-Za-z0-9_./-]+\.md\>' | while IFS=: read -r file line name; do
    case $name in http*) continue ;; esac
    [ -e "$name" ] || [ -e "$(dirname "$file")/$name" ] || [ -e "docs/$name" ] || [ -e "${name#*/}" ] ||
        echo "$file:$line: $name"
done | complain "there is no such page:"

# Commands print names and texts of other people's runs: through cli_print, which keeps them text.
grep -nE '(^|[^a-z_(])printf\(' src/cli/*.c |
    complain "prints past cli_print:"

[ ! -e "$work/failed" ] || exit 1
echo "$(wc -l <"$work/ids") rules, $(cites '(^|[^A-Za-z0-9_+/.-])[A-Z]-[0-9][0-9]([^A-Za-z0-9_.-]|$)' | wc -l) citations"
