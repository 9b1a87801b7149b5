#!/bin/sh
# What the shells offer after Tab is what the program's option tables say: bash and zsh at a terminal (tmux), fish asked what
# it would offer. Usage: run_completion.sh ESPER (from the project's root).
. tests/script.inc
root=$PWD
scripts/completion "$esper" "$work/share" >"$work/made.txt" 2>&1 || verdict 'made' "$(cat "$work/made.txt")"
enter_work
bash_file=$work/share/bash-completion/completions/esper
zsh_folder=$work/share/zsh/site-functions
fish_file=$work/share/fish/vendor_completions.d/esper.fish
PATH=$(dirname "$esper"):$PATH
export PATH
mkdir -p runs/quick runs/slow shelf/other
for run in runs/quick runs/slow shelf/other; do echo '{}' >$run/run.json; done
: >settings.json

# Every command's every option, against its help: the three tables have none too many and none too few.
"$esper" help | sed -n '/^commands:/,/^$/s/^  \([a-z]*\) .*/\1/p' >commands.txt
for command in $(cat commands.txt); do
    [ "$command" != data ] || continue
    "$esper" help "$command" | sed -n '/^options:/,/^$/s/^  \(--[a-z-]*\).*/\1/p' >expected.txt
    echo --help >>expected.txt
    sort -o expected.txt expected.txt
    sed -n "s/^    \*\" $command \"\*) words=\"\(.*\)\" ;;\$/\1/p" "$bash_file" | tr ' ' '\n' | sort >bash.txt
    sed -n "s/^complete -c esper -n '__esper_at $command' -l \([a-z-]*\) .*/--\1/p" "$fish_file" | sort >fish.txt
    awk -v command="$command" '$0 == "    " command ")" { on = 1 } on && match($0, /\*--[a-z-]+/) { print substr($0, RSTART + 1, RLENGTH - 1) } on && $1 == ";;" { exit }' \
        "$zsh_folder/_esper" | sort >zsh.txt
    for shell in bash zsh fish; do
        verdict "$shell: options of $command" "$(diff expected.txt $shell.txt)"
    done
done

# ---- bash and zsh at a terminal --------------------------------------------------------------------------------------
terminals=0
tmux() { command tmux -u -S "$work/tmux$terminals" -f /dev/null "$@"; }
close_terminal() { [ $terminals -eq 0 ] || tmux kill-server 2>/dev/null; }
trap 'close_terminal; cleanup' EXIT
sees() { # sees TEXT: the screen shows that line, within ten seconds
    tries=0
    while [ $tries -lt 500 ]; do
        tmux capture-pane -p | sed 's/ *$//' >screen.txt
        grep -qxF -- "$1" screen.txt && return
        sleep 0.02
        tries=$((tries + 1))
    done
    return 1
}
completes() { # completes TYPED LINE: what stands there after Tab
    tmux send-keys C-u C-l
    sees '>' || verdict "$shell: a free line" "$(cat screen.txt)"
    tmux send-keys -l "$1"
    tmux send-keys Tab
    if sees "> $2"; then verdict "$shell: $1" ''; else verdict "$shell: $1" "not \"$2\" but: $(cat screen.txt)"; fi
}
at_terminal() {
    completes 'esper trai' 'esper train'
    completes 'esper train --res' 'esper train --resume'
    completes 'esper train --log-level de' 'esper train --log-level debug'
    completes 'esper train --task cifar_pointw' 'esper train --task cifar_pointwise'
    completes 'esper inspect --ha' 'esper inspect --hash'
    completes 'esper data im' 'esper data import'
    completes 'esper data get --fr' 'esper data get --from'
    completes 'esper report qu' 'esper report quick'
    completes 'esper train --resume sl' 'esper train --resume slow'
    completes 'esper list --runs shelf ot' 'esper list --runs shelf other'
    completes 'esper help arch' 'esper help archive'
    completes 'esper train --config sett' 'esper train --config settings.json'
}
open_terminal() { # open_terminal SHELL COMMAND
    shell=$1
    close_terminal
    terminals=$((terminals + 1))
    tmux new-session -d -x 120 -y 30 "cd $work; $2"
}
if ! command -v tmux >/dev/null; then
    skip 'tmux is not installed; add it with: apt-get install tmux'
else
    if command -v bash >/dev/null; then
        printf 'PS1="> "\nunset PROMPT_COMMAND\n. %s\nbind "set bell-style none"\n' "$bash_file" >bashrc
        open_terminal bash "exec bash --noprofile --rcfile $work/bashrc -i"
        at_terminal
    else
        skip 'bash is not installed'
    fi
    if command -v zsh >/dev/null; then
        mkdir dots
        printf 'PS1="> "\nunsetopt beep auto_menu prompt_sp\nfpath=(%s $fpath)\nautoload -U compinit\ncompinit -u -D\n' "$zsh_folder" >dots/.zshrc
        open_terminal zsh "ZDOTDIR=$work/dots exec zsh -d -i"
        at_terminal
    else
        skip 'zsh is not installed; add it with: apt-get install zsh'
    fi
fi
close_terminal
terminals=0

# ---- fish ------------------------------------------------------------------------------------------------------------
offers() { # offers LINE WORDS: what fish would offer, in their order
    HOME=$work fish --no-config -c "source $fish_file; complete -C '$1'" 2>&1 | cut -f 1 | sort | tr '\n' ' ' >.offered
    verdict "fish: $1" "$([ "$(cat .offered)" = "$2" ] || echo "not \"$2\" but: $(cat .offered)")"
}
if command -v fish >/dev/null; then
    offers 'esper tr' 'train '
    offers 'esper se' 'search selftest serve '
    offers 'esper train --res' '--resume '
    offers 'esper train --log-level d' 'debug '
    offers 'esper train --task cifar_pointw' 'cifar_pointwise '
    offers 'esper data i' 'import info '
    offers 'esper data get --fr' '--from '
    offers 'esper report q' 'quick '
    offers 'esper train --resume sl' 'slow '
    offers 'esper list --runs shelf o' 'other '
    offers 'esper help arch' 'archive '
    offers 'esper inspect --ha' '--hash '
else
    skip 'fish is not installed; add it with: apt-get install fish'
fi
conclude
