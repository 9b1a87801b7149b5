#!/bin/sh
# Runs the commands of README.md, with fewer envs and steps. Those that need CIFAR-10 run where the file is there.
set -u
esper=${1:-build/esper}
passed=0
failed=0
skipped=0

run() {
    if sh -c "$1" >/dev/null 2>/tmp/esper-readme.$$; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAIL  $1"
        cat /tmp/esper-readme.$$
    fi
}

commands=$(sed -n 's/^    \(build\/esper .*\)/\1/p' README.md | sed 's/ *#.*//')
[ -n "$commands" ] || { echo "README.md names no command"; exit 1; }
while IFS= read -r command; do
    command=$(echo "$command" | sed "s|^build/esper|$esper|")
    case $command in
    *"data get"*) command="$command --help" ;; # the download has tests of its own
    *"data info"* | *cifar_*)
        if [ ! -e data/cifar10.safetensors ]; then
            skipped=$((skipped + 1))
            continue
        fi
        ;;
    esac
    case $command in
    *" grow "*)
        command="$(echo "$command" | sed 's/ --envs [0-9]*//; s/ --steps [0-9]*//') --envs 2 --quiet"
        case $command in
        *--script*) ;; # their actions need the full round
        *) command="$command --steps 3" ;;
        esac
        case $command in *cifar_*) command="$command --steps 20 --set data.batches=1" ;; esac
        ;;
    *" bench"*) command="$command --kernels" ;;
    esac
    run "$command"
done <<EOF
$commands
EOF
rm -f /tmp/esper-readme.$$
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
