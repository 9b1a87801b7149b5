#!/bin/sh
# Wrong input on the command line: one clear line on stderr, the right exit code, nothing left behind.
# usage: badinput_config.sh PATH/TO/esper   (from the project's root)
. tests/script.inc
match=-q

shows 'usage: esper <command>' --help
shows 'usage: esper <command>' help
shows '^  esper train --task quickstart' help
shows 'usage: esper train' help train
shows 'usage: esper data get' help data get
shows '^esper [0-9]' version
shows '^esper [0-9]' --version
shows 'esper config --task NAME' tasks --help
shows 'usage: esper train' train --help
shows '^cifar_scale .* 99922 .* r0c0 r0c1 r0c2 r0c3 r0c4$' tasks
shows '^quickstart .* 398 ' tasks
shows '^host.lr  *0.02  *--set ' config --task quickstart --set host.lr=0.02
shows '^envs  *3  *flag ' config --task quickstart --set envs=2 --envs 3
shows '^seed  *9  *flag ' config --task=quickstart --seed=9
shows 'cJSON  *[0-9]' doctor
shows '^  python3  *' doctor

# without a command: the overview, but not as if something had been done
"$esper" >"$work/stdout.txt" 2>"$work/stderr.txt"
got=$?
problem=
[ $got -eq 2 ] || problem="exit code $got, not 2"
"$esper" help | cmp -s - "$work/stderr.txt" || problem="$problem; stderr is not the overview"
[ ! -s "$work/stdout.txt" ] || problem="$problem; output"
verdict 'no command' "$problem"

# every command that the overview lists has a help with an example of that command
commands=$("$esper" help | sed -n 's/^  \([a-z]*\)  .*/\1/p')
[ "$(echo "$commands" | wc -l)" -ge 18 ] || verdict 'the overview lists the commands' "$commands"
for command in $commands 'data get' 'data info'; do
    "$esper" $command --help >"$work/flag.txt" 2>&1
    problem=
    "$esper" help $command 2>&1 | cmp -s - "$work/flag.txt" || problem="help $command differs from $command --help"
    sed '1,/^example:/d' "$work/flag.txt" | grep -q "^  esper $command" || problem="$problem; no example"
    verdict "$command --help" "$problem"
done

fails 2 'unknown command "versoin"; did you mean "version"?' versoin
fails 2 'unknown command "evaluate"; did you mean "eval"?' evaluate
fails 2 'unknown command "frobnicate"; `esper help` lists them' frobnicate
fails 2 'unknown command "trian"; did you mean "train"?' help trian
fails 2 'version: unexpected argument' version now
shows '^slots = r0c0,r0c1$' config slots --set 'slots=["r0c0", "r0c1"]'
fails 2 'slots must be a list .* not this list' config --set 'slots=["r0c0", 1]'
fails 2 'unknown key "colour"; `esper config` lists them' config --set colour=red
fails 2 'unknown command "taks"; did you mean "tasks"' taks
fails 2 'config: unknown option --sett; did you mean --set?' config --sett a=b
fails 2 'config: --set needs a value' config --set
fails 2 'config: --set needs a value' config --set --envs 3
fails 2 'tasks: unknown option -x' tasks -x
fails 2 'unexpected argument one' tasks one
fails 2 'doctor: unexpected argument' doctor now
fails 2 'unknown task "quickstrat"; did you mean "quickstart"' config --task quickstrat
fails 2 'unknown key "host.bas"; did you mean "host.base"' config --task quickstart --set host.bas=4
fails 2 'host.base = 0: it must be a whole number from 1' config --task quickstart --set host.base=0
fails 2 '--envs: envs = many' config --task quickstart --envs many
fails 2 'slots: r1c0 is not on this host' config --task cifar_minimal --set slots=r1c0
fails 2 'nowhere.json: cannot open' config --task quickstart --config "$work/nowhere.json"

printf '{"envs": 2' >"$work/cut.json"
fails 2 'cut.json: 1:11: ' config --task quickstart --config "$work/cut.json"
printf '{"envs": 2, "envs": 3}' >"$work/twice.json"
fails 2 'twice.json: key "envs" appears twice' config --task quickstart --config "$work/twice.json"
printf '{"about": "a\\u001b[31m\\nb"}' >"$work/escape.json"
fails 2 'escape.json: about = a?\[31m?b' config --task quickstart --config "$work/escape.json"
noise 3000 >"$work/noise.json"
fails 2 'noise.json: ' config --task "$work/noise.json"

# a broken task does not hide the good ones
mkdir "$work/tasks"
echo '{"about": "fine"}' >"$work/tasks/fine.json"
echo '{"host.pools": 9}' >"$work/tasks/broken.json"
ESPER_TASKS=$work/tasks
export ESPER_TASKS
complaint 2 'broken.json: host.pools = 9' tasks
verdict 'tasks' "$problem"
problem=
grep -q '^fine ' "$work/stdout.txt" || problem='it is not listed'
verdict 'tasks lists the good task beside a broken one' "$problem"

conclude
