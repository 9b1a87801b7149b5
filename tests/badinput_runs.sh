#!/bin/sh
# Bad runs: names, directories, records and disks that are not what they should be. Each gives one line on stderr that
# names the culprit, the right exit code, and loses nothing. Usage: badinput_runs.sh ESPER (from the project's root).
. tests/script.inc
enter_work

refused() { # refused TEXT ARGUMENTS...: what was typed is wrong
    fails 2 "$@"
}

# train NAME ARGUMENTS...: a run as small as can be
train() {
    name=$1
    shift
    "$esper" train --policy static --envs 1 --steps 2 --rounds 2 --set data.batches=1 --set data.test_images=10 \
        --set data.val_images=10 --name "$name" --quiet "$@" >stdout.txt 2>stderr.txt
}

train one || verdict 'a run to compare' "$(cat stderr.txt)"
train two || verdict 'a run to compare' "$(cat stderr.txt)"
"$esper" compare one two >stdout.txt 2>stderr.txt || verdict 'compare one two' "$(cat stderr.txt)"
grep -q '2 paired episodes' stdout.txt || verdict 'compare one two' "$(cat stdout.txt)"
grep -q 'static cannot be told from static: +0.0 points' stdout.txt || verdict 'compare in a line' "$(cat stdout.txt)"

# ---- what is typed ---------------------------------------------------------------------------------------------------
refused 'give two runs or more' compare
refused 'give two runs or more' compare one
refused 'no run "onf" in runs; did you mean "one"?' compare onf two
refused 'there are no runs in nowhere' compare --runs nowhere one two
refused 'name of a run is empty' compare one, two
refused 'both have seed 42' compare one,two one
refused 'unknown option --metrik; did you mean --metric?' compare --metrik reward one two
refused '--metric rewards is unknown; did you mean "reward"?' compare --metric rewards one two
refused 'runs/one/run.json: is part of a run; give the run' compare runs/one/run.json two
refused 'runs/one/checkpoints: is part of a run' compare two runs/one/checkpoints
refused 'runs: is a directory but not a run' compare runs two
refused './stdout.txt: is a file; a run is a directory' compare ./stdout.txt two
refused './nowhere: cannot open' compare ./nowhere two
refused 'cannot name a run' train --name a/b
refused 'cannot name a run' train --name .hidden
refused 'cannot name a run' train --name "$(printf 'x%0.0s' $(seq 101))"
refused '"latest" always means the newest run' train --name latest
refused 'runs/one: already exists; continue it with --resume' train --name one
echo 'not a directory' >plain
refused 'plain: is not a directory, so nothing can go to plain' train --runs plain --name x
refused 'plain: is not a directory, so nothing can go to plain/below' train --runs plain/below --name x

# ---- runs that do not pair -------------------------------------------------------------------------------------------
train longer --steps 3
refused 'do not pair: steps is 2 and 3' compare one longer
train other --seed 7
refused 'share no episodes' compare one other
train paid --set reward.mode=basic
"$esper" compare one paid >stdout.txt 2>stderr.txt
grep -q 'rewards are not compared: reward.mode differs' stdout.txt || verdict 'compare one paid' "$(cat stdout.txt stderr.txt)"

# ---- damage ----------------------------------------------------------------------------------------------------------
# damaged FILE TEXT SAYS: the run "two" with another content of that file
damaged() {
    rm -rf runs/hurt && cp -r runs/two runs/hurt && printf "$2" >"runs/hurt/$1"
    refused "$3" compare one hurt
    grep -qF "hurt/$1" stderr.txt || verdict "hurt/$1" "\"$(cat stderr.txt)\" does not name the file"
}
damaged run.json '' 'run.json: 1:1: '
damaged run.json '{"format": 1' 'run.json: 1:13: '
damaged run.json '[1]' 'expected an object'
damaged run.json '{"format": 9}' 'a run of format 9; this Esper'
damaged run.json '{"format": 1}' '"name" is missing'
damaged status.json '{"state": "running"}' '"round" is missing'
damaged telemetry.db 'not a database, just a text that is longer than the header of one: %0200d' 'is not a record of a run'
rm -rf runs/hurt && cp -r runs/two runs/hurt && sed 's/"configuration":.*{/&\n"warp": 9,/; s/"version":.*,/"version": "9.9.9",/' \
    runs/two/run.json >runs/hurt/run.json
refused 'the key "warp" is unknown here: Esper 9.9.9 created this run' compare one hurt
rm -f runs/hurt/telemetry.db* && cp runs/two/run.json runs/hurt/run.json
refused 'runs/hurt: the run has no record yet' compare one hurt
: >runs/hurt/telemetry.db
refused 'runs/hurt: the run has no record yet' compare one hurt
rm -f runs/hurt/telemetry.db* && cp runs/two/telemetry.db runs/hurt/
printf '\000\000\000\011' | dd of=runs/hurt/telemetry.db bs=1 seek=60 conv=notrunc 2>/dev/null
refused 'a record of version 9, by a newer Esper' compare one hurt
cp runs/two/telemetry.db runs/hurt/
printf 'ABCD' | dd of=runs/hurt/telemetry.db bs=1 seek=68 conv=notrunc 2>/dev/null
refused 'is a database, but not the record of a run' compare one hurt
rm -rf runs/hurt runs/gone
cp -r runs/two runs/gone && ln -sfn gone runs/latest && rm -rf runs/gone
refused 'runs/latest: points to "gone", which is gone' compare one latest

# ---- two processes on one run, and a death ---------------------------------------------------------------------------
"$esper" train --policy static --envs 1 --steps 40 --rounds 100000 --set data.batches=1 --set data.test_images=10 \
    --set data.val_images=10 --set checkpoint.rounds=1 --name busy --quiet >busy.txt 2>&1 &
background=$!
tries=0
while [ $tries -lt 100 ] && ! ls runs/busy/checkpoints/*.ckpt >/dev/null 2>&1; do
    tries=$((tries + 1))
    sleep 0.1
done
fails 1 "runs/busy: process $background is training this run" train --resume busy --quiet
refused 'runs/busy: already exists' train --name busy
kill -s KILL "$background"
wait "$background" 2>/dev/null
background=
problem=
"$esper" compare busy busy >stdout.txt 2>stderr.txt || problem=$(cat stderr.txt)
grep -q 'runs/busy (crashed)' stdout.txt || problem="$problem; $(head -3 stdout.txt)"
verdict 'a killed run can be read' "$problem"

# ---- disks: in a mount namespace of our own, where that is allowed ---------------------------------------------------
if unshare -m true 2>/dev/null && mkdir disk && unshare -m mount -t tmpfs tmpfs disk 2>/dev/null; then
    # disk SIZE OPTIONS ARGUMENTS...: run esper with a disk of that size at ./disk
    cat >on_disk <<'SCRIPT'
mount -t tmpfs -o "size=$1" tmpfs disk || exit 99
mkdir disk/runs
[ "$2" = rw ] || mount -o "remount,$2" disk || exit 99
shift 2
"$@"
code=$?
ls -A disk/runs >left.txt
exit $code
SCRIPT
    real=$esper
    printf '#!/bin/sh\nexec unshare -m sh on_disk "$size" "$mode" "%s" "$@"\n' "$real" >esper_on_disk
    chmod +x esper_on_disk
    esper=./esper_on_disk
    export size mode
    size=1m mode=ro
    fails 1 'disk/runs: cannot create a run there: Read-only file system' train --runs disk/runs --name x --quiet
    size=16k mode=rw
    fails 1 'No space left on device' train --runs disk/runs --name x --quiet
    [ ! -s left.txt ] || verdict 'full disk' "left behind: $(cat left.txt)"
    esper=$real
else
    skip 'no mount namespaces here: read-only and full disks'
fi

conclude
