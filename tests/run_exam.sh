#!/bin/sh
# `esper exam`: one command plays trainings, controls and searches as ordinary runs and ends with verdicts, a page and a
# picture; one that was interrupted goes on to the same result, and one with other settings is refused.
# Usage: run_exam.sh ESPER (from the project's root).
. tests/script.inc
enter_work

small="--steps 24 --envs 2 --rounds 2 --set data.batches=1 --set data.batch=4 --set data.val_images=16
    --set data.test_images=16 --set policy.hidden=8 --set policy.feature_dim=8 --set policy.prior.prune=-9
    --set policy.prior.fossilize=3 --set checkpoint.rounds=1 --threads 1 --seed 5"
exam="exam quickstart $small --seeds 2 --prices 0,0.5 --episodes 3 --catalogue-episodes 1 --name whole"
result() { sed 's/  [0-9a-z-]*$//' "$1"; } # without wall times

"$esper" $exam --list >list.txt 2>stderr.txt
verdict 'a plan' "$([ ! -s stderr.txt ] && [ ! -e runs ] && grep -qx ' *96   .*  search-p0.5           a search on .*' list.txt &&
    grep -qx ' *72   .*  replay-p0.5-s7        .*' list.txt || cat list.txt stderr.txt)"

# ---- the whole of it -------------------------------------------------------------------------------------------------
"$esper" $exam >whole.txt 2>progress.txt || verdict 'an exam' "$(tail -3 progress.txt)"
verdict 'progress to the end' "$(grep -q '^env-steps \([0-9]*\)/\1 .*  wide-work' progress.txt || tail -2 progress.txt)"
verdict 'eight verdicts at each price' \
    "$([ "$(grep -c '^  \(earns its rent\|does not\|undecided\) .*beats' whole.txt)" -eq 16 ] || cat whole.txt)"
for name in 'PPO, price 0' 'PPO, greedy, price 0.5' 'the bare host' 'the heuristic' 'random play' 'the searched schedule, price 0' \
    "random play at PPO's op rates, price 0.5" 'a wider host, as many parameters' 'a wider host, as much training' \
    "PPO's topology from scratch, price 0"; do
    verdict "$name" "$(grep -q "^$name  *[0-9][0-9.]* *[0-9][0-9.]*  \[" whole.txt || grep "$name" whole.txt)"
done

# all reported runs have the same episodes, of the exam's seed; what is selected or trained has others
for run in ppo-p0-s6 greedy-p0.5-s7 static heuristic random random-rates-p0 wide-work replay-p0-s7 schedule1 searched-p0.5; do
    "$esper" sql --runs runs/whole $run 'select group_concat(round || " " || env) from outcome' | tail -1
    sed -n 's/^.*"seed":[^0-9]*\([0-9][0-9]*\),/seed \1/p' runs/whole/$run/run.json
done | sort | uniq -c >episodes.txt
verdict 'the same episodes' "$([ "$(wc -l <episodes.txt)" -eq 2 ] && grep -qx ' *10 seed 5' episodes.txt || cat episodes.txt)"
verdict 'other seeds' "$(grep -l '"seed":[^0-9]*5,' runs/whole/training*/run.json runs/whole/catalogue/run.json runs/whole/search*/*/run.json)"
"$esper" compare --runs runs/whole ppo-p0-s6 static >compare.txt 2>&1
verdict 'ordinary runs that pair' "$(grep -q '3 paired episodes' compare.txt || cat compare.txt)"
# random play at PPO's op rates: what it never chose, the random policy never draws
verdict 'op rates' "$("$esper" sql --runs runs/whole ppo-p0-s6 'select distinct op from step' | sed 1,2d | tr -d ' ' | sort >ppo.txt
    "$esper" sql --runs runs/whole random-rates-p0 'select distinct op from step' | sed 1,2d | tr -d ' ' | sort >rated.txt
    comm -13 ppo.txt rated.txt)"

# a replay has from the first step on what its training's best network had grown, which may be nothing
ask() { "$esper" sql --runs runs/whole "$@" | tail -1 | tr -d ' '; }
for training in p0-s6 p0-s7 p0.5-s6 p0.5-s7; do
    grown=$(ask training-$training 'select fossilized > 0 from outcome order by val_accuracy desc, round, env limit 1')
    verdict "replay-$training" "$([ "$(ask replay-$training 'select min(added_params) > 0 from step')" = "$grown" ] || echo "not $grown")"
done

# the page and the picture: well-formed, complete, nothing from elsewhere
for file in report.html front.svg; do
    verdict "$file" "$([ -s runs/whole/$file ] || echo missing; ! command -v xmllint >/dev/null || xmllint --noout runs/whole/$file 2>&1
        grep -o 'https\?://[^"]*' runs/whole/$file | grep -v '^http://www.w3.org/2000/svg$')"
done
verdict 'verdicts on the page' "$([ "$(grep -c '^<tr><td class="[a-z]*">.* \(earns its rent\|does not\|undecided\)</td>' runs/whole/report.html)" -eq 16 ] || echo 'not 16')"
"$esper" $exam --json >json.txt 2>stderr.txt
verdict 'JSON' "$([ "$(grep -c '"verdict":' json.txt)" -eq 16 ] && [ "$(grep -c '"kind":' json.txt)" -gt 16 ] || head -20 json.txt)"

# ---- the same again, with other settings, and in parts ---------------------------------------------------------------
"$esper" $exam >again.txt 2>stderr.txt
verdict 'nothing is played twice' "$([ ! -s stderr.txt ] && cmp whole.txt again.txt || cat stderr.txt)"
fails 2 'catalogue: was begun with other settings, rounds = 1 and not 2; choose another --name' $exam --catalogue-episodes 2
fails 2 'was begun with other settings, envs = 3 and not 4; choose another --name' $exam --episodes 4

# some runs are gone; stopped in the middle of what is played again, with more to play after the first of them
hashes() { for run in $1; do "$esper" inspect "$run" --hash; done; }
stops=0
for gone in 'search-p0/stage?' 'training-p0*' 'ppo-p0*' 'random*'; do
    first=$(set -- runs/whole/$gone; echo "$1")
    before=$(hashes "runs/whole/$gone")
    rm -r runs/whole/$gone
    "$esper" $exam >parts.txt 2>stderr.txt &
    background=$!
    wait_for "$first/run.json"
    kill -s INT $background 2>/dev/null
    wait $background
    [ $? -ne 130 ] || stops=$((stops + 1))
    background=
    "$esper" $exam >parts.txt 2>stderr.txt || verdict "gone on after $first" "$(cat stderr.txt)"
    verdict "the same bits of $gone" "$([ "$(hashes "runs/whole/$gone")" = "$before" ] || echo "$before")"
done
verdict 'stopped' "$([ $stops -gt 0 ] || echo 'never')"
result whole.txt >expected.txt
verdict 'the same result' "$(result parts.txt | diff expected.txt - | head -4)"

# what has ended is needed as a record alone
rm -r runs/whole/static runs/whole/ppo-p0-s6/checkpoints runs/whole/training-p0.5*/checkpoints runs/whole/schedule*/checkpoints
"$esper" $exam >records.txt 2>stderr.txt || verdict 'gone on from records' "$(cat stderr.txt)"
verdict 'the same result from records' "$(result records.txt | diff expected.txt - | head -4)"

# ---- policies of another exam ----------------------------------------------------------------------------------------
source="exam quickstart $small --seeds 2 --episodes 3 --catalogue-episodes 1 --set reward.price=1 --set mixed.price_least=0.1"
transfer="exam quick_mixed $small --policies source --prices 0,0.5 --episodes 3 --catalogue-episodes 1"
"$esper" $source --prices 0,1 --name source >source.txt 2>stderr.txt || verdict 'an exam of one policy' "$(tail -3 stderr.txt)"
verdict 'one schedule for all prices, and one that was searched' "$(grep -q '^mean of all prices: net score of PPO .*; of the searched schedule, price ' source.txt &&
    [ "$(grep -c 'one policy beats the best s[a-z]* schedule' source.txt)" -eq 2 ] || cat source.txt)"
before=$(hashes 'runs/source/training*')
"$esper" $transfer >transfer.txt 2>stderr.txt || verdict 'a transfer' "$(tail -3 stderr.txt)"
verdict 'who is examined' "$(grep -q '^runs/transfer-quick_mixed-5: PPO trained 2 times on quickstart, not on this task; 3' transfer.txt || head -1 transfer.txt)"
verdict 'eighteen verdicts' "$([ "$(grep -c '^  \(earns its rent\|does not\|undecided\) .*beats' transfer.txt)" -eq 18 ] || cat transfer.txt)"
verdict 'nothing is trained' "$(ls -d runs/transfer-quick_mixed-5/training* 2>&1 | grep -v 'No such'; [ "$(hashes 'runs/source/training*')" = "$before" ] || echo 'changed')"
"$esper" eval --runs runs/source training-s7 --task quick_mixed ${small%--rounds*}${small#*--rounds 2} --episodes 3 --envs 3 --set reward.price=0.5 --set mixed.price_least=1 \
    --name by-hand >by-hand.txt 2>stderr.txt || verdict 'by hand' "$(cat stderr.txt)"
verdict 'as eval plays it' "$([ "$(hashes runs/source/by-hand)" = "$(hashes runs/transfer-quick_mixed-5/ppo-p0.5-s7)" ] || echo 'another hash')"
"$esper" $transfer --quiet >again.txt 2>stderr.txt
verdict 'the same transfer' "$(cmp transfer.txt again.txt)"
fails 2 'runs/whole: its trainings are for a price each' $transfer --policies whole
fails 2 '--policies nowhere: no folder of an exam with trainings, neither here nor in runs' $transfer --policies nowhere
mkdir runs/untaught && cp -R runs/source/static runs/untaught/training-static
fails 2 'runs/untaught/training-static: has learned no policy' $transfer --policies untaught
fails 2 '--seeds 3: runs/source has 2 trainings' $transfer --seeds 3
fails 2 '--task text_quick: it has 2 slots, and the policy of source was made for 3' exam text_quick --policies source

# ---- bad input -------------------------------------------------------------------------------------------------------
fails 2 'unknown task "quickstrat"' exam quickstrat
fails 2 'the task is quickstart already' exam quickstart --task quickstart
for prices in x '' 0, ,1 0,0 -1 1001 nan '0 1' 0,1,2,3,4,5,6,7,8; do
    fails 2 '--prices' exam --prices "$prices"
done
fails 2 '--seeds' exam --seeds 0
fails 2 '--seeds' exam --seeds 33
fails 2 '--episodes' exam --episodes 0
fails 2 'the search, which has the env-steps of a training: 60 env-steps do not suffice' exam --envs 1 --rounds 1 --steps 60
fails 2 'runs/whole/static: is a run; choose another --name' exam --runs runs/whole --name static
fails 2 'unknown option --policy' exam --policy ppo
shows 'esper exam quickstart --seeds 5' exam --help

conclude
