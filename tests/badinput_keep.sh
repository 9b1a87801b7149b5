#!/bin/sh
# Wrong words for `list`, `tag`, `rm` and `archive`, and runs from a stranger: exit code and one line each (E-13), and nothing
# outside of a run is changed. Usage: badinput_keep.sh ESPER (from the project's root).
. tests/script.inc
enter_work
small="--policy static --envs 1 --steps 2 --rounds 1 --set data.batches=1 --set data.test_images=10 --set data.val_images=10 --quiet"
"$esper" train $small --name good >stdout.txt 2>stderr.txt || verdict 'a run' "$(cat stderr.txt)"
printf 'precious\n' >precious
mkdir -p other && cp -r runs/good other/good

# ---- words -----------------------------------------------------------------------------------------------------------
fails 2 'no run "god" in runs; did you mean "good"?' list god
fails 2 'nowhere: cannot list the runs' list --runs nowhere
fails 2 '--older 30: give hours, days or weeks' list --older 30
fails 2 '--older -1d: give hours' list --older=-1d
fails 2 '--state finnished: there is no such state; did you mean "finished"?' list --state finnished
fails 2 '--tag: "a b" cannot be a tag' list --tag 'a b'
fails 2 'there is no such level' list --log-level loud
fails 2 '--log-level needs a value' list --log-level
fails 2 'tag: give a run' tag +good
fails 2 'give a run' tag
fails 2 '"a/b" cannot be a tag' tag good +a/b
fails 2 '"" cannot be a tag' tag good +
fails 2 'the note is not one line' tag good --note "two
lines"
fails 2 'the note has 600 bytes' tag good --note "$(printf '%600s' x)"
fails 2 'unknown option --nte; did you mean --note?' tag good --nte x
fails 2 'rm: name runs, or say which' rm
fails 2 'rm: name runs, or say which' rm --dry-run
fails 2 'unknown option -r' rm -r good
fails 2 'archive: say where to' archive good
fails 2 'archive: name runs, or say which' archive -o x.tar
fails 2 'precious: already exists' archive good -o precious
fails 2 '--remove: what goes to standard output' archive good -o - --remove
fails 2 'have the same name' archive good other/good -o x.tar
fails 2 'nowhere/x.tar: cannot create a file there' archive good -o nowhere/x.tar
fails 2 'precious: is a file; a run is a directory' rm precious
fails 2 '/: is a directory but not a run' rm /
fails 2 '--dry-run: for a new run' train --resume good --dry-run
fails 2 'runs/good: already exists' train --name good --dry-run
fails 2 'envs = 0: it must be' train --dry-run --envs 0
verdict 'no archive was made' "$(ls | grep '\.tar')"
verdict 'the run is as it was' "$(diff -r runs/good other/good)"
for number in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do "$esper" tag good +t$number >/dev/null; done
fails 2 'a run has at most 16 tags' tag good +more

# ---- a stranger's run ------------------------------------------------------------------------------------------------
# hurt FILE: the run "hurt", whose FILE is gone
hurt() {
    rm -rf runs/hurt
    cp -r other/good runs/hurt
    rm -rf "runs/hurt/$1"
}
meets() { # meets WHAT COMMAND...: ends at once, with a line that says what is there
    said=$1
    shift
    timeout $((5 * patience)) "$esper" "$@" >stdout.txt 2>stderr.txt </dev/null
    got=$?
    problem=
    case $got in 1 | 2) ;; *) problem="exit code $got" ;; esac
    grep -q "$said" stderr.txt || problem="$problem; \"$(cat stderr.txt)\" does not say $said"
    verdict "$said: $*" "$problem"
}
for kind in pipe link; do
    for file in label.json run.json; do
        hurt $file
        case $kind in
        pipe) mkfifo runs/hurt/$file; what='is a pipe' ;;
        link) ln -s "$PWD/precious" runs/hurt/$file; what='is a symbolic link' ;;
        esac
        meets "$file: $what" list hurt
        meets "$file: $what" tag hurt +x
        [ $file = label.json ] || meets "$file: $what" rm hurt
        [ $file = label.json ] || meets "$file: $what" archive hurt -o x.tar
    done
    hurt lock
    case $kind in
    pipe) mkfifo runs/hurt/lock; what='is a pipe' ;;
    link) ln -s "$PWD/precious" runs/hurt/lock; what='is a symbolic link' ;;
    esac
    meets "lock: $what" rm hurt
    meets "lock: $what" archive hurt -o x.tar
    meets "lock: $what" list hurt
done
hurt label.json
truncate -s 5G runs/hurt/label.json
meets 'label.json: has 5368709120 bytes' list hurt
printf '{"tags": [], "note": "\\u001b[2J"}' >runs/hurt/label.json
meets 'the note is not one line' list hurt
printf '[1]' >runs/hurt/label.json
meets 'label.json: ' inspect hurt
printf '{"format": 1}' >runs/hurt/run.json
meets 'run.json: not a run' rm hurt
verdict 'a directory that is no run stays' "$([ -e runs/hurt/telemetry.db ] || ls runs/hurt)"

# links lead nowhere: neither the archive nor rm follows them
hurt telemetry.db
ln -s "$PWD/precious" runs/hurt/telemetry.db
rm -rf runs/hurt/checkpoints && ln -s "$PWD/other/good/checkpoints" runs/hurt/checkpoints
"$esper" archive hurt -o links.tar >stdout.txt 2>stderr.txt
verdict 'no link is packed' "$(tar -tf links.tar | grep -E 'telemetry.db|ckpt')"
"$esper" rm hurt >stdout.txt 2>stderr.txt
verdict 'no link is followed' "$([ -s precious ] && ls other/good/checkpoints | grep -q ckpt || echo 'something is gone')"
verdict 'what Esper did not write stays' "$([ -L runs/hurt/telemetry.db ] && [ -L runs/hurt/checkpoints ] && [ ! -e runs/hurt/run.json ] || ls -l runs/hurt)"
ln -s ../other/good runs/alias
fails 2 'runs/alias: is a symbolic link' rm alias
rm other/good/lock
fails 2 'runs/alias: is a symbolic link' archive alias -o x.tar
verdict 'nothing is made where a link leads' "$(ls other/good/lock 2>/dev/null)"
rm runs/alias
shows 'would write x.tar' archive other/good -o x.tar --dry-run
verdict 'a dry run makes no lock' "$(ls other/good/lock 2>/dev/null)"
cp -r other/good "runs/$(printf 'od\033[2Jd')"
"$esper" list >stdout.txt 2>stderr.txt
verdict 'names reach a terminal as text' "$(cat stdout.txt stderr.txt | grep -q "$(printf '\033')" && echo 'an escape sequence')"
fails 2 'cannot name a run' archive runs/od* -o x.tar

# ---- trouble ---------------------------------------------------------------------------------------------------------
if [ -w /dev/full ]; then
    fails 2 '/dev/full: already exists' archive good -o /dev/full
    "$esper" archive good -o - >/dev/full 2>stderr.txt
    verdict 'a full disk' "$([ $? -eq 1 ] && grep -q 'No space left' stderr.txt || cat stderr.txt)"
    "$esper" list >/dev/full 2>stderr.txt
    verdict 'a list to a full disk' "$(grep -q 'No space left' stderr.txt || cat stderr.txt)"
fi
(ulimit -f 64 && "$esper" archive good -o large.tar --remove >stdout.txt 2>stderr.txt)
verdict 'too large a file' "$([ $? -eq 1 ] && [ ! -e large.tar ] && [ -e runs/good/run.json ] || cat stderr.txt)"
if [ "$(id -u)" != 0 ]; then
    chmod a-w runs/good runs/good/checkpoints
    fails 1 'annot' rm good
    shows 'read.tar: 1 run' archive good -o read.tar
    chmod u+w runs/good runs/good/checkpoints
else
    skip 'permissions mean nothing to root'
fi
conclude
