#!/bin/sh
# `esper search`: the same command twice is the same search, one that was interrupted goes on to the same result, its
# stages are evaluation runs that halve, and the winner's line plays what was reported.
# Usage: run_search.sh ESPER (from the project's root).
. tests/script.inc
enter_work

small="--steps 20 --envs 2 --set data.batches=1 --set data.batch=8 --set data.val_images=32 --set data.test_images=32
    --set checkpoint.rounds=1 --seed 5"
search="search quickstart $small --schedules 8 --budget 1280 --episodes 4"
result() { tail -n +2 "$1"; } # without the folder's name

"$esper" $search --name whole >whole.txt 2>progress.txt || verdict 'a search' "$(cat progress.txt)"
verdict 'progress' "$(grep -q '^env-steps 1240/1240 .*the winner on fresh episodes' progress.txt || cat progress.txt)"
# 1280 env-steps are 8 rounds of 8 schedules: two for the first stage, three for the others (six envs in the last: two
# schedules at three tempos), and a winner besides
count() { "$esper" sql --runs runs/whole "$1" "$2" | tail -1 | tr -s ' ' | sed 's/^ //'; }
for stage in 'stage1 2 8' 'stage2 3 4' 'stage3 3 6' 'winner 2 1'; do
    set -- $stage
    lines=$(wc -l <"runs/whole/$1.txt" | tr -d ' ')
    verdict "$1" "$([ "$(count "$1" 'select count(distinct round) from outcome')" = "$2" ] && [ "$lines" = "$3" ] ||
        echo "$lines lines")"
done
said() { "$esper" sql --runs runs/whole stage3 'select schedule from outcome order by round, env' --csv | tail -n +2 | tr -d '"\r'; }
verdict 'the record says which schedule was played' \
    "$(said | head -6 | diff runs/whole/stage3.txt - && said | tail -6 | diff runs/whole/stage3.txt -)"
verdict 'a stage of its own seed each' "$(grep -h '"seed":.*,' runs/whole/stage?/run.json | grep -v flag | sort | uniq -d)"
verdict 'the winner on the episodes of --seed' "$(grep -q '"seed":.*5,' runs/whole/winner/run.json || echo 'another seed')"
# who survives is who scored best
best=$("$esper" sql --runs runs/whole stage1 'select env from outcome group by env order by avg(gain) desc, env limit 1' |
    tail -1 | tr -d ' ')
verdict 'the best of the first stage leads the second' \
    "$([ "$(sed -n "$((best + 1))p" runs/whole/stage1.txt)" = "$(head -1 runs/whole/stage2.txt)" ] || echo "$best")"

# the same again: nothing is played, the same is said; another budget is another search
"$esper" $search --name whole >again.txt 2>stderr.txt
verdict 'the same command again' "$([ ! -s stderr.txt ] && cmp whole.txt again.txt || cat stderr.txt)"
fails 2 'was begun with other settings, rounds = 2 and not 1; choose another --name' $search --budget 700 --name whole

# stopped, more than once, in the middle of whatever it is: the same result, bit for bit
stops=0
for part in stage1 stage2 winner; do
    "$esper" $search --name parts >parts.txt 2>stderr.txt &
    background=$!
    wait_for runs/parts/$part/run.json
    sleep 0.05
    kill -s INT $background 2>/dev/null
    wait $background
    [ $? -ne 130 ] || stops=$((stops + 1))
    background=
done
verdict 'stopped' "$([ $stops -gt 0 ] || echo 'never')"
"$esper" $search --name parts >parts.txt 2>stderr.txt
verdict 'gone on' "$([ $? -eq 0 ] || cat stderr.txt)"
result whole.txt | sed 's|runs/whole|runs/parts|' >expected.txt
verdict 'the same result' "$(result parts.txt | diff expected.txt - | head -4)"
for run in stage1 stage2 stage3 winner; do
    verdict "the same bits of $run" \
        "$([ "$("$esper" inspect runs/whole/$run --hash)" = "$("$esper" inspect runs/parts/$run --hash)" ] || echo differ)"
done

# the line that it ends with
line=$(sed -n 's/^  [^ ]* \(eval .*\)/\1/p' whole.txt)
eval "\"\$esper\" $line --name pasted --quiet" >stdout.txt 2>stderr.txt
verdict 'the winner, pasted' "$([ $? -eq 0 ] || cat stderr.txt)"
verdict 'plays what was reported' \
    "$([ "$("$esper" inspect pasted --hash)" = "$("$esper" inspect runs/whole/winner --hash)" ] || echo "$line")"

# the catalogue, by rule: 1 + 7 + 12 + 13 + 2 + 7 x 3 for three slots
"$esper" search quickstart --list >list.txt
verdict 'a catalogue' "$([ "$(wc -l <list.txt)" -eq 57 ] && grep -qx ' *6160  conv_heavy@1,conv_heavy@1,conv_heavy@1' list.txt &&
    grep -qx ' *0  none' list.txt && grep -qx ' *4672  r0c2=conv_heavy@1' list.txt || cat list.txt)"
verdict 'each once' "$(sort list.txt | uniq -d)"

# ---- bad input -------------------------------------------------------------------------------------------------------
fails 2 'unknown task "quickstrat"' search quickstrat
fails 2 'the task is quickstart already' search quickstart --task quickstart
fails 2 '--schedules' search --schedules 1
fails 2 '12 schedules cannot be halved to one; start from a power of 2' search --schedules 12
fails 2 '--budget: 100 env-steps do not suffice for 2 schedules of 60 steps; it takes 120' search --steps 60 --budget 100
fails 2 '--budget 1e6: a number of env-steps from 1 on' search --budget 1e6
fails 2 'runs/pasted: is a run; choose another --name' search --name pasted
fails 2 'unknown option --policy' search --policy ppo
verdict 'nothing begun where it was refused' "$(ls runs | grep -vx 'whole\|parts\|pasted\|latest')"

conclude
