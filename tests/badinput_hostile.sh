#!/bin/sh
# A run received from a stranger: links, pipes and directories in place of its files, sizes and names beyond reason. No
# command waits, writes outside of the run or sends the terminal anything but text. And what a command prints is written,
# or it fails. Usage: badinput_hostile.sh ESPER (from the project's root).
. tests/script.inc
root=$PWD
enter_work

small="--policy static --envs 1 --steps 2 --rounds 2 --set data.batches=1 --set data.test_images=10 --set data.val_images=10 --quiet"
"$esper" train $small --trace --name good >stdout.txt 2>stderr.txt || verdict 'a run' "$(cat stderr.txt)"
"$esper" train $small --name other >stdout.txt 2>stderr.txt || verdict 'a run' "$(cat stderr.txt)"
printf 'precious\n' >precious

# hurt FILE: the run "hurt", whose FILE is gone
hurt() {
    rm -rf runs/hurt
    cp -r runs/good runs/hurt
    rm -rf "runs/hurt/$1"
}
# meets FILE WHAT COMMAND...: this command ends at once, with a line that names the file and says what it is
meets() {
    file=$1 what=$2
    shift 2
    timeout $((5 * patience)) "$esper" "$@" >stdout.txt 2>stderr.txt </dev/null
    got=$?
    problem=
    case $got in 1 | 2 | 4) ;; *) problem="exit code $got" ;; esac
    cat stdout.txt stderr.txt | grep -q "$file: is $what, not a" ||
        problem="$problem; \"$(cat stderr.txt)\" does not say that $file is $what"
    verdict "$file, $what: $*" "$problem"
}
newest=$(cd runs/good/checkpoints && ls r*.ckpt | tail -1)
for file in run.json plan.json status.json lock telemetry.db telemetry.db-wal telemetry.db-journal checkpoints/$newest; do
    case $file in
    run.json | plan.json) set -- inspect report compare sql resume export ;;
    status.json) set -- inspect compare ;;
    lock) set -- inspect compare resume ;;
    telemetry*) set -- compare sql resume ;;
    checkpoints*) set -- hash ;;
    esac
    for kind in pipe link; do
        hurt "$file"
        case $kind in
        pipe) mkfifo "runs/hurt/$file"; what='a pipe' ;;
        link) ln -s "$PWD/precious" "runs/hurt/$file"; what='a symbolic link' ;;
        esac
        for command in "$@"; do
            case $command in
            compare) meets "$file" "$what" compare hurt other ;;
            resume) meets "$file" "$what" train --resume hurt --rounds 3 --quiet ;;
            export) meets "$file" "$what" export hurt --jsonl - ;;
            hash) meets "$file" "$what" inspect hurt --hash ;;
            *) meets "$file" "$what" $command hurt ;;
            esac
        done
    done
done
hurt checkpoints
ln -s ../good/checkpoints runs/hurt/checkpoints
meets checkpoints 'a symbolic link' train --resume hurt --rounds 3 --quiet

# trace.json is replaced, not written through
hurt trace.json
ln -s "$PWD/precious" runs/hurt/trace.json
timeout $((20 * patience)) "$esper" train --resume hurt --rounds 3 --trace --quiet >stdout.txt 2>stderr.txt
verdict 'a trace over a link' "$([ $? -eq 0 ] && [ ! -L runs/hurt/trace.json ] || cat stderr.txt)"
verdict 'what links led to' "$([ "$(cat precious)" = precious ] || echo "is now: $(head -1 precious)")"

# sizes, and links that people make
hurt status.json
truncate -s 5G runs/hurt/status.json
fails 2 'status.json: has 5368709120 bytes; at most' compare hurt other
ln -s runs shelf
shows 'episodes' compare --runs shelf good other
shows 'finished' inspect runs/latest
ln -s "runs/good/checkpoints/$newest" mine.ckpt
shows 'checksums' inspect mine.ckpt

# ---- text for a terminal ---------------------------------------------------------------------------------------------
escape=$(printf '\033')
quiet() { # quiet NAME COMMAND...: no ESC, neither on stdout nor on stderr
    name=$1
    shift
    timeout $((10 * patience)) "$esper" "$@" >stdout.txt 2>stderr.txt
    verdict "$name" "$(cat stdout.txt stderr.txt | LC_ALL=C grep -q "$escape\|$(printf '\302\233')" && echo 'an escape sequence')"
}
odd="od${escape}[2Jd$(printf '\302\233')x"
cp -r runs/good "runs/$odd"
quiet 'a name in inspect' inspect "runs/$odd"
quiet 'a name in compare' compare "runs/$odd" other
quiet 'a name in compare --json' compare "runs/$odd" other --json
quiet 'a name in eval' eval "runs/$odd" --quiet
quiet 'a name in resume' train --resume "runs/$odd" --rounds 3 --quiet
quiet 'a name in sql' sql "runs/$odd"
quiet 'a name in report' report "runs/$odd" -o page.html
quiet 'a name in export' export "runs/$odd" --safetensors "net${escape}[2J"
rm -rf runs/hurt
cp -r runs/good runs/hurt
sed -i 's/"version":.*"\([^"]*\)",$/"version": "\\u001b[2J",/' runs/hurt/run.json
fails 2 '"version" holds a control character' inspect hurt

# ---- output that cannot be written, and output that is stdout --------------------------------------------------------
if [ -w /dev/full ]; then
    for command in 'inspect good' 'compare good other' 'sql good' 'config' 'tasks' 'doctor' 'help' 'version' \
        'report good' 'report good -o -' 'export good --csv round' 'export good --jsonl -' 'data info synthetic'; do
        "$esper" $command >/dev/full 2>stderr.txt
        got=$?
        problem=
        [ $got -eq 1 ] || problem="exit code $got"
        grep -q 'No space left on device' stderr.txt || problem="$problem; \"$(cat stderr.txt)\""
        verdict "a full disk: $command" "$problem"
    done
fi
"$esper" report good -o page.html >stdout.txt
"$esper" report good -o - >stdout.txt 2>stderr.txt
verdict 'report -o -' "$(cmp page.html stdout.txt; cat stderr.txt)"
"$esper" export good --safetensors net.safetensors >stdout.txt
"$esper" export good --safetensors - >stdout.txt 2>stderr.txt
verdict 'export --safetensors -' "$(cmp net.safetensors stdout.txt; grep -q 'parameters grown' stderr.txt || echo silence)"
"$esper" infer net.safetensors synthetic --images 10 --output - >stdout.txt 2>stderr.txt
verdict 'infer --output -' "$("$esper" inspect stdout.txt | grep -q logits && grep -q accuracy stderr.txt || cat stderr.txt)"
verdict 'a file named -' "$([ ! -e ./- ] || echo 'was made')"

# ---- a report that lacks something is written, and says so -----------------------------------------------------------
rm -rf runs/hurt
cp -r runs/good runs/hurt
size=$(wc -c <runs/hurt/telemetry.db)
dd if=/dev/urandom of=runs/hurt/telemetry.db bs=8192 seek=3 count=$((size / 8192 - 3)) conv=notrunc 2>/dev/null
complaint 1 'the page is not complete: ' report hurt
verdict 'a report without its record' "$problem$([ -s runs/hurt/report.html ] || echo 'no page')"

# ---- what root runs: a link where the installer's log might go is not followed ----------------------------------------
mkdir tools
for tool in 'dpkg-query:exit 1' 'id:echo 0' 'apt-get:echo "from the network"'; do
    printf '#!/bin/sh\n%s\n' "${tool#*:}" >"tools/${tool%%:*}"
    chmod +x "tools/${tool%%:*}"
done
PATH=$work/tools:$PATH sh -c 'ln -s "$0" /tmp/esper-apt.$$ && echo $$ >pid && exec sh "$1/scripts/deps"' "$PWD/precious" "$root" >stdout.txt 2>&1
problem=
[ "$(cat precious)" = precious ] || problem="it is now: $(cat precious)"
grep -q '^esper: installing ' stdout.txt || problem="$problem; $(cat stdout.txt)"
rm -f "/tmp/esper-apt.$(cat pid)"
verdict "a link in place of the installer's log" "$problem"

# ---- little room on the stack ----------------------------------------------------------------------------------------
(ulimit -s 256 && "$esper" train $small --name narrow >stdout.txt 2>stderr.txt)
verdict '256 KiB of stack' "$([ $? -eq 0 ] || echo "no: $(cat stderr.txt)")"
verdict '256 KiB of stack: the same bits' \
    "$([ "$("$esper" inspect narrow --hash)" = "$("$esper" inspect good --hash)" ] || echo 'others')"

conclude
