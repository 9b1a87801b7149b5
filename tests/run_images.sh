#!/bin/sh
# A stranger's folder of 500 PNG files in 7 classes, by the commands of docs/data.md alone: it is imported, trains, reports,
# exports and infers (E-24). Then other sizes, a resumed run, and data that was replaced. Usage: run_images.sh ESPER.
. tests/script.inc
. tests/pictures.inc
page=$PWD/docs/data.md
enter_work
if "$esper" doctor | grep -q 'libpng  *missing'; then
    skip 'built without libpng'
    conclude
    exit
fi

# ---- the folder: two pictures of each class, and copies of them ------------------------------------------------------
n=0
for class in aster daisy iris lily 'red rose' tulip 'violet (wild)'; do
    mkdir -p "flowers/$class"
    picture 16 $((n + 2)) 0 one.png
    picture 16 $((n + 2)) 1 two.png
    count=71
    [ $n -ge 3 ] || count=72 # 500 in all
    i=0
    while [ $i -lt $count ]; do
        name=one.png
        [ $((i % 2)) -eq 0 ] || name=two.png
        ln $name "flowers/$class/picture $i.png"
        i=$((i + 1))
    done
    rm one.png two.png
    n=$((n + 1))
done
verdict '500 pictures' "$([ "$(find flowers -name '*.png' | wc -l)" -eq 500 ] || find flowers -name '*.png' | wc -l)"
touch flowers/README flowers/tulip/notes.txt

# ---- the commands of the page, in their order, with fewer rounds and steps -------------------------------------------
small="--rounds 2 --envs 2 --steps 6 --set data.batches=2 --quiet"
commands=$(sed -n 's/^    esper \(data import flowers.*\|data info.*\|train .*\|report .*\|export .*\|infer .*\|data list\|data check .*\)/\1/p' "$page")
verdict 'the page has its commands' "$([ "$(echo "$commands" | wc -l)" -eq 8 ] || echo "$commands")"
while IFS= read -r command; do
    case $command in
    train*) command="$command $small" ;;
    esac
    problem=
    # shellcheck disable=SC2086
    "$esper" $command >"$work/out" 2>&1 || problem="exit code $?: $(cat "$work/out")"
    verdict "$command" "$problem"
    cat "$work/out" >>"$work/all"
done <<EOF
$commands
EOF
said() { # said TEXT: some command's output has it
    verdict "said: $1" "$(grep -q -- "$1" "$work/all" || echo "no line says so")"
}
said '7 classes, 16x16 pixels, 402 train, 49 val, 49 test images$'
said '^ignored 2 files'
said '^train  *402 .*per class 58 58 58 57 57 57 57$'
said '^class 6 violet (wild)$'
said '^runs/first: 2 rounds done'
said '^accuracy [0-9.]* % ([0-9]* of 49 test images of flowers)'
said '^flowers: good, checksum'
verdict 'a report' "$(grep -q '</html>' runs/first/report.html || echo none)"

# The three forms of the network give the same answers; it does not take other images.
for network in first grown.safetensors grown.onnx; do
    "$esper" infer $network flowers | sed -n 's/^\(accuracy .*flowers)\).*/\1/p' >answer.$network
    verdict "infer $network" "$(cmp answer.$network answer.first 2>&1; [ -s answer.$network ] || echo nothing)"
done
fails 2 'has 10 classes, the network answers with 7' infer grown.onnx synthetic

# ---- resuming --------------------------------------------------------------------------------------------------------
train="train --task images --set data.name=flowers --envs 2 --steps 4 --set data.batches=1 --policy random --quiet"
shows 'round' $train --rounds 2 --name whole
shows 'round' $train --rounds 1 --name parts
shows 'round' train --resume parts --rounds 2 --quiet
verdict 'resumed equals never stopped' \
    "$([ "$("$esper" inspect whole --hash)" = "$("$esper" inspect parts --hash)" ] || echo 'they differ')"
packed=$(find . -name flowers.safetensors)
mv "$packed" kept
mkdir other && cp -r flowers/tulip flowers/iris other/
"$esper" data import other --name flowers >/dev/null || verdict 'a second set' 'was not imported'
fails 4 'holds 2 classes of 16x16 pixels, not the data of this configuration, with 7' train --resume parts --rounds 3 --quiet
mv kept "$packed"

# ---- sizes and formats -----------------------------------------------------------------------------------------------
for size in 20 64; do
    for class in a b; do
        mkdir -p "of$size/train/$class" "of$size/test/$class"
        step=3
        [ $class = a ] || step=7
        for i in 0 1 2; do picture $size $step $i "of$size/train/$class/$i.png"; done
        picture $size $step 3 "of$size/test/$class/3.png"
    done
    shows "2 classes, ${size}x$size pixels, 4 train, 2 val, 2 test" data import of$size --name of$size
done
shows 'round' $train --set data.name=of64 --rounds 1 --name large
fails 2 '20x20 images (data.size) cannot be halved that often; use at most 2' $train --set data.name=of20 --rounds 1
shows 'round' $train --set data.name=of20 --set host.pools=2 --rounds 1 --name odd
match=-q
shows '^accuracy' infer odd of20
shows '^flowers  *images  *16x16, 7 classes' data list
conclude
