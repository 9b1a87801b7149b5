#!/bin/sh
# Types of the device library have one definition each: C++ takes two of one name for the same, and linkers may mix what
# they generate. Usage: one_definition.sh [ROOT]
cd "${1:-.}" || exit 1

# The library's sources and every header that they reach.
files=$(ls src/*/*.cu src/*/*/*.cu src/*/*.cuh src/*/*/*.cuh)
while :; do
    reached=$({ echo "$files"; sed -n 's,^#include "\(.*\)",src/\1,p' $files; } | sort -u | xargs ls 2>/dev/null)
    [ "$reached" != "$files" ] || break
    files=$reached
done

twice=$(awk '
    match($0, /^(template <[^>]*> )?(struct|union|enum|class) [a-z_0-9]+( *{| :|$)/) {
        sub(/^template <[^>]*> /, "")
        name = $2
        if (name in first)
            print "  " name ": " first[name] " and " FILENAME
        first[name] = FILENAME
    }' $files)
[ -z "$twice" ] && echo "ok: $(echo "$files" | wc -l) files" && exit
echo "types that are defined twice in the device library; rename one of each:"
echo "$twice"
exit 1
