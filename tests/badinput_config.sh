#!/bin/sh
# Wrong input on the command line: one clear line on stderr, the right exit code, nothing left behind.
# usage: badinput_config.sh PATH/TO/esper   (from the project's root)
esper=$1
passed=0
failed=0
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

result() { # NAME OK?
    if [ "$2" = yes ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED: $1"
        sed 's/^/    /' "$work/err"
    fi
}

# refused CODE PATTERN ARGUMENTS...: exit code, exactly one line that starts with "esper: " and matches the pattern
refused() {
    code=$1
    pattern=$2
    shift 2
    "$esper" "$@" >"$work/out" 2>"$work/err"
    got=$?
    ok=no
    if [ "$got" -eq "$code" ] && [ "$(wc -l <"$work/err")" -eq 1 ] && grep -q "^esper: .*$pattern" "$work/err"; then
        ok=yes
    fi
    result "esper $* (exit $got, expected $code, pattern '$pattern')" $ok
}

# shows PATTERN ARGUMENTS...: exit code 0 and a line of output that matches
shows() {
    pattern=$1
    shift
    ok=no
    "$esper" "$@" >"$work/out" 2>"$work/err" && grep -q -- "$pattern" "$work/out" && ok=yes
    result "esper $* (pattern '$pattern')" $ok
}

shows 'usage: esper <command>' --help
shows '^esper [0-9]' --version
shows 'esper tasks cifar_baseline' tasks --help
shows '^cifar_scale .* 99922 .* r0c0 r0c1 r0c2 r0c3 r0c4$' tasks
shows '^quickstart .* 398 ' tasks
shows '^host.lr  *0.02  *--set ' tasks quickstart --set host.lr=0.02
shows '^envs  *3  *flag ' tasks quickstart --set envs=2 --envs 3
shows '^seed  *9  *flag ' tasks --task=quickstart --seed=9
shows 'cJSON  *[0-9]' doctor

refused 2 'no command given'
refused 2 'unknown command "taks"; did you mean "tasks"' taks
refused 2 'tasks: unknown option --sett; did you mean --set?' tasks --sett a=b
refused 2 'tasks: --set needs a value' tasks --set
refused 2 'tasks: --set needs a value' tasks --set --envs 3
refused 2 'tasks: unknown option -x' tasks -x
refused 2 'unexpected argument two' tasks one two
refused 2 'doctor: unexpected argument' doctor now
refused 2 'unknown task "quickstrat"; did you mean "quickstart"' tasks quickstrat
refused 2 'unknown key "host.bas"; did you mean "host.base"' tasks quickstart --set host.bas=4
refused 2 'host.base = 0: it must be a whole number from 1' tasks quickstart --set host.base=0
refused 2 '--envs: envs = many' tasks quickstart --envs many
refused 2 'slots: r1c0 is not on this host' tasks cifar_minimal --set slots=r1c0
refused 2 'nowhere.json: cannot open' tasks quickstart --config "$work/nowhere.json"

printf '{"envs": 2' >"$work/cut.json"
refused 2 'cut.json: 1:11: ' tasks quickstart --config "$work/cut.json"
printf '{"envs": 2, "envs": 3}' >"$work/twice.json"
refused 2 'twice.json: key "envs" appears twice' tasks quickstart --config "$work/twice.json"
printf '{"about": "a\\u001b[31m\\nb"}' >"$work/escape.json"
refused 2 'escape.json: about = a?\[31m?b' tasks quickstart --config "$work/escape.json"
head -c 3000 /dev/urandom >"$work/noise.json"
refused 2 'noise.json: ' tasks --task "$work/noise.json"

# a broken task does not hide the good ones
mkdir "$work/tasks"
echo '{"about": "fine"}' >"$work/tasks/fine.json"
echo '{"host.pools": 9}' >"$work/tasks/broken.json"
ESPER_TASKS=$work/tasks
export ESPER_TASKS
refused 2 'broken.json: host.pools = 9' tasks
ok=no
grep -q '^fine ' "$work/out" && ok=yes
result 'esper tasks lists the good task beside a broken one' $ok

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
