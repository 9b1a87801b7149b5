#!/bin/sh
# Bad images of one's own: each case must end with the right exit code, one line on stderr that says what is wrong, and
# nothing half-written (E-13, E-24). Usage: badinput_images.sh ESPER.
. tests/script.inc
. tests/pictures.inc
enter_work
if "$esper" doctor | grep -q 'libpng  *missing'; then
    skip 'built without libpng'
    conclude
    exit
fi
mkdir data
refused() { # refused NAME CODE TEXT ARGUMENTS...: of `data import`; and no file is left in data/
    name=$1 code=$2 text=$3
    shift 3
    complaint "$code" "$text" data import "$@"
    left=$(find data -mindepth 1)
    [ -z "$left" ] || problem="$problem; left behind: $left"
    verdict "$name" "$problem"
}
fresh() { # fresh: a good set of two classes, as set/
    rm -rf set
    cp -r good set
}
mkdir -p good/a good/b
for i in 0 1 2; do
    picture 16 4 $i good/a/$i.png
    picture 16 6 $i good/b/$i.png
done

# ---- folders ---------------------------------------------------------------------------------------------------------
refused 'no such folder' 2 'No such file' nowhere --name x
mkdir empty
refused 'an empty folder' 2 'holds 0 folders of pictures' empty --name x
mkdir -p one && cp -r good/a one/
refused 'one class' 2 'holds 1 folder of pictures' one --name x
fresh && mkdir set/c
refused 'a class without pictures' 2 'set/c: no .png, .jpg or .jpeg' set --name x
fresh && rm set/b/2.png
refused 'too few to split' 2 'class 1 (b) has 2 images' set --name x
fresh && picture 20 4 0 set/b/1.png
refused 'mixed sizes' 2 'set/b/1.png: 20x20 pixels, and others have 16x16' set --name x
rm -rf set && mkdir -p set/a set/b
for i in 0 1 2; do picture 12 4 $i set/a/$i.png && picture 12 6 $i set/b/$i.png; done
refused 'too small' 2 '12x12 pixels; from 16x16' set --name x
fresh && head -c 90 good/b/1.png >set/b/1.png
refused 'a truncated PNG' 2 'set/b/1.png: a damaged PNG' set --name x
fresh && { printf '\377\330\377\340' && cat good/b/1.png; } >set/b/1.jpg
refused 'a damaged JPEG' "$("$esper" doctor | grep -q 'libjpeg  *missing' && echo 1 || echo 2)" 'set/b/1.jpg' set --name x
fresh && echo 'hello' >set/b/1.png
refused 'a text called .png' 2 'not a PNG or JPEG picture' set --name x
fresh && : >set/b/1.png
refused 'an empty file' 2 'set/b/1.png: empty' set --name x
fresh && head -c 5000000 /dev/zero >set/b/1.png
refused 'a file of 5 MB' 2 'set/b/1.png' set --name x
fresh && rm set/b/1.png && ln -s /etc/passwd set/b/1.png
refused 'a link to a file' 2 'set/b/1.png: a link' set --name x
fresh && ln -s / set/c
refused 'a link to a folder' 2 'set/c: a link' set --name x
fresh && rm set/b/1.png && mkfifo set/b/1.png
refused 'a pipe' 2 'set/b/1.png: is a pipe' set --name x
fresh && mkdir set/b/more
refused 'a folder among pictures' 2 'set/b/more: a folder among the pictures' set --name x
fresh && mv set/b "set/$(printf 'two\nlines')"
refused 'a class of two lines' 2 'the name of a class is text' set --name x
fresh && mv set/b "set/$(printf '\033]0;owned\007')"
refused 'a class that writes to terminals' 2 'the name of a class is text' set --name x
fresh && mv set/b "set/$(printf '\377\376')"
refused 'a class that is no text' 2 'the name of a class is text' set --name x
mkdir -p splits && cp -r good splits/train && mkdir -p splits/val && cp -r good/a splits/val/z
refused 'a class that is not trained' 2 'splits/val/z: the training images have no such class' splits --name x

# ---- arrays ----------------------------------------------------------------------------------------------------------
arrays() { # arrays DTYPE SHAPE BYTES LABELTYPE LABELS LABELBYTES: images of zeros
    header=$(printf '{"images":{"dtype":"%s","shape":%s,"data_offsets":[0,%d]},"labels":{"dtype":"%s","shape":[%d],' "$1" "$2" "$3" "$4" "$5"
        printf '"data_offsets":[%d,%d]}}' "$3" $(($3 + $6)))
    { printf '\350\003\000\000\000\000\000\000%-1000s' "$header" && head -c $(($3 + $6)) /dev/zero; } >arrays.safetensors
}
arrays F32 '[2,16,16]' 2048 U8 2 2
refused 'images of floats' 2 'tensor images is F32' arrays.safetensors --name x
arrays U8 '[2,3,16,16]' 1536 U8 2 2
refused 'colours first' 2 'colours come last' arrays.safetensors --name x
arrays U8 '[4,16,20]' 1280 U8 4 4
refused 'oblong' 2 'must be square' arrays.safetensors --name x
arrays U8 '[4,16,16]' 1024 U8 3 3
refused 'fewer labels than images' 2 'one label for each image' arrays.safetensors --name x
arrays U8 '[4,16,16]' 1024 F32 4 16
refused 'labels of floats' 2 'labels are U8, U16, I32 or I64' arrays.safetensors --name x
arrays U8 '[4,16,16]' 1024 U8 4 4
refused 'all of one class' 2 '1 class; from 2 to 1000' arrays.safetensors --name x
mkdir idx
{ printf '\000\000\010\003\000\000\000\144\000\000\000\020\000\000\000\020' && head -c 512 /dev/zero; } >idx/train-images-idx3-ubyte
printf '\000\000\010\001\000\000\000\002\000\001' >idx/train-labels-idx1-ubyte
refused 'an IDX length that lies' 2 'train-images-idx3-ubyte: 528 bytes, its header says 25616' idx --name x
printf '\000\000\010\003\377\377\377\377\377\377\377\377\377\377\377\377' | gzip -c >idx/train-images-idx3-ubyte.gz
rm idx/train-images-idx3-ubyte
refused 'an IDX length that asks for memory' 2 'too much' idx --name x

# ---- the command -----------------------------------------------------------------------------------------------------
for name in '' ../x .x -x 'a b' a/b cifar10 text "$(printf '%080d' 1)"; do
    refused "the name '$name'" 2 'name' good "--name=$name"
done
refused 'no name' 2 '--name NAME' good
refused 'two folders' 2 'one folder or one file' good set --name x
refused 'another kind' 2 'it must be images or text' good --name x --as sound
problem=
"$esper" data import good --name good >/dev/null 2>stderr.txt || problem=$(cat stderr.txt)
verdict 'a good set' "$problem"
fails 2 'data/good.safetensors is there already' data import set --name good
verdict 'nothing else was written' "$([ "$(ls data)" = good.safetensors ] || ls data)"
fails 2 'no x.safetensors in data' data info x
fails 2 'no x.safetensors in data' data check x
fails 2 'give the name of a data set, or a packed file' data check
shows 'good: good' data check good
head -c 2000 data/good.safetensors >data/cut.safetensors
complaint 2 'cut.safetensors' data list
verdict 'a damaged file in the list' "$problem"
verdict 'and the good one is still listed' "$(grep -q '^good ' "$work/stdout.txt" || echo 'it is not')"

# ---- tasks -----------------------------------------------------------------------------------------------------------
train="train --task images --rounds 1 --steps 2 --envs 1 --quiet"
fails 2 'data.set = images: say which' $train
fails 2 'no nowhere.safetensors in data' $train --set data.name=nowhere
fails 2 'data.name: a data set is called by' $train --set data.name=../good
fails 2 'data.classes = 3: good has 2' $train --set data.name=good --set data.classes=3
fails 2 'data.size = 32: good has 16' $train --set data.name=good --set data.size=32
fails 2 'data.val_images = 9: good has 2' $train --set data.name=good --set data.val_images=9
fails 2 'data.set = synthetic has no other name' train --task quickstart --set data.name=good
fails 2 'leave one of them out' $train --set data.name=good --set data.path=data/good.safetensors
fails 2 'data.classes = 7: synthetic has 10' train --task quickstart --set data.classes=7
fails 2 'synthetic images are 16x16 or 32x32' train --task quickstart --set data.size=24
fails 2 'holds images of your own, not CIFAR-10' train --task cifar_baseline --set data.path=data/good.safetensors
verdict 'no run was made' "$([ ! -d runs ] || ls runs)"
conclude
