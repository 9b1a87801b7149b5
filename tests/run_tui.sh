#!/bin/sh
# The terminal viewer, driven under tmux at 80x24, 120x40 and 250x70: what it shows of a live, a finished and a killed run
# is what `esper sql` says, and the terminal is restored however the viewer ends.
# Usage: run_tui.sh ESPER (from the project's root).
. tests/script.inc
if ! command -v tmux >/dev/null; then
    skip 'tmux is not installed; add it with: apt-get install tmux'
    conclude
    exit
fi
if "$esper" tui nothing --runs "$work" 2>&1 | grep -q 'ncurses was missing'; then
    skip 'this build has no ncurses'
    conclude
    exit
fi
enter_work
terminals=0 # each has its own server: one that is shutting down does not answer
tmux() { command tmux -u -S "$work/tmux$terminals" -f /dev/null "$@"; }
close_terminal() { [ $terminals -eq 0 ] || tmux kill-server 2>/dev/null; }
trap 'close_terminal; cleanup' EXIT
small="--task quickstart --envs 4 --steps 16 --set data.batches=1 --set data.val_images=64 --set data.test_images=64
    --set policy.feature_dim=32 --set policy.hidden=32 --runs $work"

# ---- helpers ---------------------------------------------------------------------------------------------------------

open_terminal() { # open_terminal COLUMNS ROWS [LOCALE]: a shell, its settings in $work/before
    close_terminal
    terminals=$((terminals + 1))
    rm -f "$work/before"
    tmux new-session -d -x "$1" -y "$2" "LC_ALL=${3:-C.UTF-8} ESPER_TASKS=$ESPER_TASKS PS1='ready> ' exec sh"
    type_line "stty -a | tail -n +2 >$work/before" # the first line is about its size
    wait_for "$work/before"
}

type_program() { # type_program ARGUMENTS...: with its process id in $work/pid
    rm -f "$work/pid"
    type_line "sh -c 'echo \$\$ >$work/pid; exec $esper $*'"
    wait_for "$work/pid"
}

type_line() { tmux send-keys -l "$1" \; send-keys Enter; }

screen() { tmux capture-pane -p; }

sees() { # sees TEXT [TENTHS]: within ten seconds, or this many tenths, the screen shows it; it is left in $work/screen
    tries=0
    while [ $tries -lt "${2:-100}" ]; do
        screen >"$work/screen" || return 1
        grep -qF -- "$1" "$work/screen" && return
        sleep 0.1
        tries=$((tries + 1))
    done
    return 1
}

look() { # look NAME TEXT: a separate case
    if sees "$2"; then verdict "$1" ''; else verdict "$1" "no \"$2\" in: $(cat "$work/screen")"; fi
}

ask() { "$esper" sql "$run" "$1" --csv --runs "$work" | tail -n +2 | tr -d '\r"'; }

restored() { # restored NAME: the shell answers, on its own screen, with the settings from before
    problem=
    for again in 1 2 3 4; do # what is typed too early goes to the viewer
        sleep 0.2
        type_line "stty -a | tail -n +2 >$work/after; echo 'the shell' is back"
        sees 'the shell is back' 15 && break
    done
    sees 'the shell is back' 1 || problem="no shell: $(cat "$work/screen")"
    cmp -s "$work/before" "$work/after" || problem="$problem; stty: $(diff "$work/before" "$work/after")"
    [ "$(tmux display-message -p '#{alternate_on} #{cursor_flag}')" = '0 1' ] ||
        problem="$problem; the alternate screen is on, or the cursor is off"
    verdict "$1: the terminal is itself again" "$problem"
    type_line clear
}

# ---- a finished run: numbers, screens, sizes -------------------------------------------------------------------------

run=done
"$esper" train $small --rounds 5 --name done --quiet >"$work/out" 2>&1 || verdict 'train' "$(cat "$work/out")"
for size in '80 24' '120 40' '250 70'; do
    open_terminal $size
    type_line "$esper tui done --runs $work"
    look "$size: state" 'finished  drops 0'
    look "$size: rounds" ' 5/5 '
    look "$size: accuracy" "$(ask "select printf('NOW accuracy %.1f %%, best env %.1f %%, test %.1f %%',
        val_accuracy_mean, val_accuracy_best, test_accuracy_mean) from round order by round desc limit 1")"
    look "$size: speed" "$(ask 'select round(env_steps_per_s) from round order by round desc limit 1' | sed 's/\.0//') env-steps/s"
    grep -q " reward  *$(ask "select printf('%.2f', reward_mean) from round order by round desc limit 1") " "$work/screen"
    verdict "$size: reward" "$([ $? -eq 0 ] || cat "$work/screen")"
    grep -q "wait  *$(ask "select count(*) from step where round = 4 and op = 'wait'") " "$work/screen"
    verdict "$size: decisions" "$([ $? -eq 0 ] || cat "$work/screen")"
    grep -q "F fossilized  *$(ask 'select fossilized from round order by round desc limit 1') " "$work/screen"
    verdict "$size: stages" "$([ $? -eq 0 ] || cat "$work/screen")"
    tmux send-keys 2
    look "$size: policy" 'update of round 5'
    look "$size: KL" "$(ask "select printf('%.3f', op_entropy) from ppo order by round desc limit 1")"
    look "$size: heads" "$(ask "select printf('%.5f', kl) from ppo_head where round = 4 and head = 'op'")"
    tmux send-keys 3 j
    look "$size: seeds of the next env" 'env 1, round 5: seeds step by step'
    look "$size: rounds of the blueprints" 'blueprints, rounds 1 to 5'
    look "$size: blueprints" "$(ask "select printf('%-10s%5d', substr(blueprint, 1, 10), count(*)) from life
        where event = 'germinated' group by blueprint order by count(*) desc, blueprint limit 1")"
    tmux send-keys 4
    # not its last digit: rewards are multiples of 100 / 64 points, and 1.5625 may be rounded either way
    look "$size: reward of the episode" "$(ask "select substr(printf('%.4f', sum(reward)), 1, 4) from step
        where round = 4 and env = 1")"
    look "$size: best episode" "$(ask "select printf('%6d %3d %6.1f', round + 1, env, test_accuracy) from outcome
        order by test_accuracy desc, added_params, round, env limit 1")"
    tmux send-keys '['
    look "$size: a round back" 'env 1, round 4: reward'
    tmux send-keys 5
    look "$size: phases" 'phases of round 5'
    look "$size: checkpoints" 'r000005-s000.ckpt'
    tmux send-keys 6
    look "$size: events" 'checkpoint  final r000005-s000.ckpt'
    tmux send-keys / best Enter
    look "$size: filter" "contain \"best\""
    tmux send-keys '?'
    look "$size: help" 'missing: it was not measured'
    tmux send-keys q
    restored "$size: q"
done

# Another run: the list beside this one, narrowed by what is typed; verdict and alerts of each have their rows.
"$esper" train $small --rounds 2 --seed 7 --name other --quiet >"$work/out" 2>&1
"$esper" tag other +chosen --runs "$work" >/dev/null
open_terminal 200 50
type_line "$esper tui done --runs $work"
look '200 50: plots have axes' '└┬─'
look '200 50: no alerts is a row' '✓ no alerts'
tmux send-keys r
look 'runs: both are listed' ': 2 of 2, the newest first'
tmux send-keys Tab
look 'runs: sorted' ': 2 of 2, by name'
tmux send-keys -l chosen
look 'runs: narrowed by a tag' ': 1 of 2, by name'
tmux send-keys Enter
look 'runs: another one is shown' ' other  quickstart'
look 'runs: its rounds' ' 2/2 '
tmux send-keys r
look 'runs: again' 'search:'
tmux send-keys Escape
look 'runs: back' ' other  quickstart'
tmux send-keys q
restored 'runs'

# An update that goes much too far raises an alert, which stands when the run ends: no banner, but part of the verdict.
"$esper" train $small --rounds 2 --set ppo.lr=0.3 --name alarmed --quiet >"$work/out" 2>&1
open_terminal 100 30
type_line "$esper tui alarmed --runs $work"
look 'a run that has ended: its verdict' ' watch  alert at the end: KL '
verdict 'a run that has ended: no banner' "$(grep '!! ' "$work/screen")"
tmux send-keys / kl: Enter
look 'a run that has ended: its alerts are events' 'critical raised, kl: KL '
tmux send-keys q

# ---- ASCII, few colours, none; any size ------------------------------------------------------------------------------

open_terminal 80 24 C
type_line "TERM=vt100 $esper tui done --runs $work"
look 'ASCII: state' '+ finished'
verdict 'ASCII: nothing else' "$(screen | LC_ALL=C grep '[^ -~]')"
tmux resize-window -x 10 -y 5
sleep 0.5
tmux resize-window -x 200 -y 60
look 'resized while running' "test $(ask "select printf('%.1f %%', test_accuracy_mean) from round order by round desc limit 1")"
[ "$(screen | wc -l)" -eq 60 ] && screen | tail -1 | grep -q 'q leave'
verdict 'the last line moved' "$([ $? -eq 0 ] || screen)"
tmux send-keys C-c
restored 'Ctrl-C'
for how in TERM HUP SEGV; do
    open_terminal 80 24
    type_program tui done --runs "$work"
    sees 'q leave'
    kill -s $how "$(cat "$work/pid")"
    restored "SIG$how"
done
type_line "TERM=dumb $esper tui done --runs $work"
look 'a terminal that cannot be drawn on' 'esper: tui: TERM=dumb'
restored 'TERM=dumb'
fails 2 'this is not a terminal' tui done --runs "$work"
fails 2 'no run "gone"' tui gone --runs "$work"

# ---- a live run, then a killed one -----------------------------------------------------------------------------------

run=live
"$esper" train $small --rounds 10000 --name live --quiet >"$work/out" 2>&1 &
background=$!
wait_for "$work/live/telemetry.db"
open_terminal 100 30
type_line "$esper tui live --runs $work"
look 'live: state' ' live  written 0.'
look 'live: rounds' '/10000 '
for again in 1 2; do # what is shown is never older than a second
    low=$(ask 'select count(*) from round')
    sleep 1
    shown=$(screen | sed -n 's/^ round [^0-9]* \([0-9]*\)\/10000 .*/\1/p')
    high=$(ask 'select count(*) from round')
    [ "$low" -lt "$high" ] && [ "$low" -le "${shown:-0}" ] && [ "${shown:-0}" -le "$high" ]
    verdict "live: it moves, $again" "$([ $? -eq 0 ] || echo "round $shown between $low and $high: $(screen)")"
done
kill -s KILL $background
wait $background 2>/dev/null
background=
look 'killed: state' 'crashed  drops'
look 'killed: the last number' " $(ask 'select count(*) from round')/10000"
tmux send-keys q
restored 'a killed run'

# ---- esper train --tui -----------------------------------------------------------------------------------------------

open_terminal 100 30
type_line "$esper train $(echo $small) --rounds 4 --name shown --tui; echo code=\$?"
look 'train --tui: it shows' ' shown  quickstart ppo'
look 'train --tui: to the end' 'finished  drops'
tmux send-keys q
look 'train --tui: then what was learned' 'try next'
look 'train --tui: exit code' 'code=0'
restored 'train --tui'
type_line "$esper train $(echo $small) --rounds 10000 --name stopped --tui; echo code=\$?"
look 'train --tui: live' ' live  written'
tmux send-keys C-c
look 'train --tui: Ctrl-C saves' 'saved; continue with'
look 'train --tui: interrupted' 'code=130'
restored 'train --tui, Ctrl-C'
type_line "$esper train $(echo $small) --rounds 10000 --name left --tui; echo code=\$?"
look 'train --tui, left: live' ' live  written'
tmux send-keys q
look 'train --tui, left: it says so' 'training goes on; Ctrl-C stops and saves it'
run=left
done=$(ask 'select count(*) from round')
sleep 1
shown=$(screen | sed -n 's/^ *\([0-9]*\)\/10000 .*/\1/p' | tail -1)
[ "${shown:-0}" -gt "$done" ]
verdict 'train --tui, left: the table goes on' "$([ $? -eq 0 ] || echo "no round after $done: $(screen)")"
[ "$(tmux display-message -p '#{alternate_on} #{cursor_flag}')" = '0 1' ]
verdict 'train --tui, left: on the own screen' "$([ $? -eq 0 ] || screen)"
tmux send-keys C-c
look 'train --tui, left: Ctrl-C saves' 'saved; continue with'
look 'train --tui, left: interrupted' 'code=130'
restored 'train --tui, left'
type_line "clear; $esper train --task nothing --tui --runs $work; echo code=\$?"
look 'train --tui: wrong input' 'code=2'
hash=$("$esper" inspect "$work/shown" --hash)
"$esper" train $small --rounds 4 --name alone --quiet >"$work/out" 2>&1
[ "$hash" = "$("$esper" inspect "$work/alone" --hash)" ]
verdict 'watching changes nothing' "$([ $? -eq 0 ] || echo 'another hash')"

conclude
