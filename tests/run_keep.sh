#!/bin/sh
# The life of runs after training: `list`, `tag`, `archive` and `rm` do what they say, to the runs that were meant and to no
# other; a live run is never touched, and nothing is lost by Ctrl-C (T-01). Usage: run_keep.sh ESPER (from the project's
# root).
. tests/script.inc
enter_work

small="--policy static --envs 1 --steps 2 --rounds 1 --set data.batches=1 --set data.test_images=10 --set data.val_images=10 --quiet"
"$esper" train $small --name first >stdout.txt 2>stderr.txt || verdict 'a run' "$(cat stderr.txt)"
for name in second third fourth; do
    cp -r runs/first runs/$name
done
sed -i 's/"updated": "[0-9-]*T/"updated": "2001-02-03T/' runs/third/status.json
names() { # names ARGUMENTS...: the runs that `list` shows
    "$esper" list "$@" | sed -n 's/^\([a-z]*\)  *finished .*/\1/p' | sort | tr '\n' ' '
}
is() { # is NAME EXPECTED GOT
    verdict "$1" "$([ "$2" = "$3" ] || echo "\"$3\", not \"$2\"")"
}

# ---- tags, notes, the list -------------------------------------------------------------------------------------------
shows 'runs/first: baseline good; a "note"' tag first second +good +baseline --note 'a "note"'
shows 'runs/second: baseline; a "note"' tag second -good
shows 'runs/first: baseline good; a "note"' tag first
shows 'no tags' tag fourth
shows 'baseline good' inspect first
shows 'a "note"' list
is 'all of them' 'first fourth second third ' "$(names)"
is 'by a tag' 'first second ' "$(names --tag baseline)"
is 'by two wishes' 'third ' "$(names --older 30d --state finished)"
is 'by name' 'second ' "$(names second)"
is 'none' '' "$(names --state crashed)"
shows '4 runs, ' list
shows '"tags":	["baseline", "good"]' list --json
bytes=$(find runs/first -type f -exec wc -c {} + | awk 'END { print $1 }')
shows "\"bytes\":	$bytes," list first --json
shows 'runs/second: no tags' tag second -baseline --note ''
verdict 'an empty label is no file' "$([ ! -e runs/second/label.json ] || cat runs/second/label.json)"
"$esper" inspect first --hash >before.txt

# ---- archives --------------------------------------------------------------------------------------------------------
shows 'would write two.tar: 2 runs' archive first third -o two.tar --dry-run
verdict 'a dry run writes nothing' "$(ls two.tar 2>/dev/null)"
shows 'two.tar: 2 runs' archive first third -o two.tar
mkdir elsewhere
if command -v tar >/dev/null; then
    verdict 'tar unpacks it' "$(tar -xf two.tar -C elsewhere 2>&1)"
    rm -f runs/first/lock runs/third/lock
    verdict 'to the same files' "$(for run in first third; do diff -r -x '*-shm' runs/$run elsewhere/$run; done)"
    "$esper" inspect elsewhere/first --hash >after.txt 2>&1
    is 'and the same hash' "$(cat before.txt)" "$(cat after.txt)"
    shows 'finished' inspect elsewhere/first
    shows 'round' sql elsewhere/first 'select round from round'
    shows 'report.html' report elsewhere/third
    "$esper" train --resume elsewhere/first --rounds 2 --quiet >stdout.txt 2>stderr.txt
    verdict 'and can be continued' "$(grep -q '2 rounds done' stdout.txt || cat stderr.txt)"
    "$esper" archive first third -o - >again.tar 2>stderr.txt
    verdict 'standard output gets the same' "$(cmp two.tar again.tar 2>&1)"
else
    skip 'there is no tar here'
fi
echo mine >runs/fourth/notes.txt
"$esper" archive fourth second -o gone.tar --remove >stdout.txt 2>stderr.txt
verdict 'archive --remove' "$([ $? -eq 0 ] && grep -q 'their directories are removed' stdout.txt || cat stderr.txt)"
is 'the directory with a file of mine stays' 'notes.txt' "$(ls runs/fourth)"
verdict 'and that is said' "$(grep -q 'runs/fourth: the directory stays, with notes.txt, which Esper did not write' stderr.txt || cat stderr.txt)"
verdict 'the other is gone' "$(ls runs/second 2>/dev/null)"
verdict 'what is mine is not packed' "$(tar -tf gone.tar | grep notes)"
is 'what is packed' 'fourth/run.json second/run.json ' "$(tar -tf gone.tar | grep run.json | sort | tr '\n' ' ')"

# Ctrl-C: no half of a file, and the run as it was
truncate -s 1G runs/first/checkpoints/r000009-s000.ckpt
"$esper" archive first -o big.tar --remove >stdout.txt 2>stderr.txt &
background=$!
tries=0
while ! ls big.tar.*.tmp >/dev/null 2>&1 && [ $tries -lt 500 ]; do
    sleep 0.01
    tries=$((tries + 1))
done
kill -s INT $background
wait $background
is 'Ctrl-C: exit code' 130 $?
background=
is 'Ctrl-C: no file' '' "$(ls | grep '^big')"
rm runs/first/checkpoints/r000009-s000.ckpt
"$esper" inspect first --hash >after.txt 2>&1
is 'Ctrl-C: the run' "$(cat before.txt)" "$(cat after.txt)"

# ---- a live run ------------------------------------------------------------------------------------------------------
"$esper" train $small --rounds 100000 --name live >stdout.txt 2>stderr.txt &
background=$!
wait_for runs/live/telemetry.db
shows 'running' list live
shows 'runs/live: hot' tag live +hot
fails 1 'runs/live: a process is training this run' rm live
fails 1 'runs/live: a process is training this run' rm first live
fails 1 'runs/live: a process is training this run' archive live -o live.tar --remove
"$esper" rm --tag hot >stdout.txt 2>stderr.txt
is 'by tag: nothing is meant' 'no run is meant; nothing was removed' "$(cat stdout.txt)"
verdict 'by tag: it is passed over, and that is said' "$(grep -q 'passed over: runs/live: a process is training' stderr.txt || cat stderr.txt)"
verdict 'neither has gone' "$([ -e runs/live/run.json ] && [ -e runs/first/run.json ] || ls runs)"
kill -s INT $background
wait $background
background=
verdict 'it ended in good order' "$("$esper" list live --state interrupted | grep -q hot || "$esper" list)"

# ---- rm --------------------------------------------------------------------------------------------------------------
is 'the newest run' live "$(readlink runs/latest)"
shows 'would remove runs/third' rm --older 30d --dry-run
verdict 'a dry run removes nothing' "$([ -e runs/third/run.json ] || echo gone)"
mkdir runs/strange && echo '{"a": 1}' >runs/strange/run.json && touch -d 2001-02-03 runs/strange/run.json
"$esper" rm --older 30d >stdout.txt 2>stderr.txt
verdict 'rm --older' "$(grep -q '^removed runs/third' stdout.txt || cat stdout.txt stderr.txt)"
verdict 'what is not a run is passed over, and that is said' \
    "$([ -e runs/strange/run.json ] && grep -q 'passed over: runs/strange/run.json: not a run' stderr.txt || cat stderr.txt)"
rm -r runs/strange
shows '"removed":	[{' rm live --json
verdict 'no link to what is gone' "$(readlink runs/latest)"
mkdir runs/folder && echo mine >runs/folder/file
fails 2 'runs/folder: is a directory but not a run' rm folder first
is 'what is left' 'first folder fourth ' "$(ls runs | tr '\n' ' ')"
shows 'removed runs/first' rm runs/first ./runs/first first
is 'and now' 'folder fourth ' "$(ls runs | tr '\n' ' ')"

# ---- how much is said, and rehearsals --------------------------------------------------------------------------------
"$esper" train $small --name loud --log-level debug >stdout.txt 2>stderr.txt
verdict 'debug says where a value is from' "$(grep -q '^esper: debug: steps = 2 (flag)' stderr.txt || cat stderr.txt)"
verdict 'and what it took' "$(grep -q '^esper: debug: train took .* MiB of memory' stderr.txt || cat stderr.txt)"
plain=$(echo "$small" | sed 's/--quiet//')
"$esper" train $plain --name quiet --log-level warning >stdout.txt 2>stderr.txt
is 'warning says nothing of a good run' '' "$(cat stderr.txt)"
verdict 'the result is told all the same' "$(grep -q '1 round done' stdout.txt || cat stdout.txt)"
"$esper" train $plain --name normal >stdout.txt 2>stderr.txt
verdict 'info is what there was' "$(grep -q '^training quickstart' stderr.txt || cat stderr.txt)"
shows 'would train quickstart, policy static: 1 envs x 2 steps x 1 rounds' train $small --name new --dry-run
verdict 'and nothing is trained' "$(ls runs/new 2>/dev/null)"
conclude
