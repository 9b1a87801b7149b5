#!/bin/sh
# Runs the commands of README.md in their order, with fewer rounds, steps and images, in their own directory of runs.
# Those that need CIFAR-10 run where the file is there.
. tests/script.inc

small="--envs 2 --steps 4 --set data.batches=1 --set data.val_images=20 --set data.test_images=20"
commands=$(sed -n 's/^    \(build\/esper .*\)/\1/p' README.md | sed 's/ *#.*//')
[ -n "$commands" ] || { echo "README.md names no command"; exit 1; }
while IFS= read -r command; do
    full=$command
    case $command in
    *"data get"* | *"data import"* | *" tui "* | *" serve"*) command="$command --help" ;; # these have their own tests
    *"data info"* | *cifar_*)
        if ! "$esper" data info >/dev/null 2>&1; then
            skip "$command: no CIFAR-10 here"
            continue
        fi
        ;;
    esac
    # The last of two equal flags counts; a script's actions need the full round.
    case $command in
    *" help "* | *" data "*) ;;
    *" train "*--resume*) command="$command --rounds 3" ;;
    *" train "*--script*) command="$command --rounds 1 --envs 2" ;;
    *" train"*) command="$command $small --rounds 2" ;;
    *" eval "*) command="$command --episodes 2" ;;
    *" search "*) command="$command $small --budget 64 --episodes 2" ;;
    *" sweep "*) command="$command $small --rounds 1" ;;
    *" exam "*) command="$command $small --rounds 2 --seeds 1 --episodes 2 --catalogue-episodes 1" ;;
    *" bench"*) command="$command --kernels" ;;
    esac
    case $command in
    *" help "* | *" data "*) ;;
    *" train"* | *" eval "* | *" search "* | *" exam "* | *" sweep "* | *" compare "* | *" sample "* | *" inspect "* | *" sql "* | *" export "* | *" report "* | *" list"* | *" tag "* | *" rm "* | *" archive "*) command="$command --runs $work" ;;
    esac
    problem=
    sh -c "$(echo "$command" | sed "s|^build/esper|$esper|")" >"$work/out" 2>&1 ||
        problem="exit code $?: $(cat "$work/out")"
    verdict "$full ($command)" "$problem"
done <<EOF
$commands
EOF
conclude
