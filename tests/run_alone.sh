#!/bin/sh
# The program alone, in an empty folder: it contains its tasks, finds the user's own tasks and data, and says where from.
# Also the version it was built as. Usage: run_alone.sh ESPER (from the project's root).
. tests/script.inc
root=$PWD
tiny="--envs 1 --steps 2 --rounds 1 --set data.batches=1 --set data.val_images=10 --set data.test_images=10 --quiet"
match=-q
mkdir "$work/bin" "$work/here" "$work/more" "$work/home"
cp "$esper" "$work/bin/esper"
esper=$work/bin/esper
HOME=$work/home
export HOME
unset ESPER_TASKS ESPER_DATA XDG_DATA_HOME
cd "$work/here" || exit 1

# ---- tasks -----------------------------------------------------------------------------------------------------------
shows '^runs/first: 1 round done' train --task quickstart --name first $tiny
for file in "$root"/tasks/*.json; do
    shows "^$(basename "$file" .json) " tasks
    "$esper" config --task "$file" | grep -v '^task ' >"$work/file.txt"
    "$esper" config --task "$(basename "$file" .json)" | grep -v '^task ' >"$work/built_in.txt"
    verdict "$file as built in" "$(cmp "$work/file.txt" "$work/built_in.txt" 2>&1)"
done
"$esper" tasks >tasks.txt
verdict 'built-in tasks need no path' "$(grep ' from ' tasks.txt)"
shows '^  built in  *[0-9][0-9]* tasks$' doctor
shows '^  beside esper .*/bin/tasks: not found$' doctor

# A file of that name in a nearer place wins: beside the program, then here, then in $ESPER_TASKS. --task FILE beats all.
steps_are() { # steps_are N ARGUMENTS...
    steps=$1
    shift
    shows "^steps = $steps\$" config steps "$@"
}
mkdir "$work/bin/tasks"
echo '{"steps": 11, "about": "beside"}' >"$work/bin/tasks/quickstart.json"
steps_are 11 --task quickstart
shows " from $work/bin/tasks/quickstart.json\$" tasks
mkdir tasks
echo '{"steps": 12, "about": "here"}' >tasks/quickstart.json
steps_are 12 --task quickstart
shows ' from tasks/quickstart.json$' tasks
echo '{"steps": 13, "about": "chosen"}' >"$work/more/quickstart.json"
echo '{"steps": 14, "about": "a new one"}' >"$work/more/other.json"
ESPER_TASKS=$work/more
export ESPER_TASKS
steps_are 13 --task quickstart
steps_are 14 --task other
steps_are 12 --task tasks/quickstart.json
shows ' from .*/more/other.json$' tasks
shows '^cifar_scale ' tasks
shows '^  \$ESPER_TASKS .*/more: 2 tasks$' doctor
fails 2 'unknown task "othre"; did you mean "other"' config --task othre
fails 2 'unknown task "words"; `esper tasks` lists them' config --task words
unset ESPER_TASKS
rm -r tasks "$work/bin/tasks"

# ---- data ------------------------------------------------------------------------------------------------------------
fails 2 "no cifar10.safetensors in data, $HOME/.local/share/esper; run .esper data get cifar10." data info
fails 2 'run .esper data get cifar10.' train --task cifar_pointwise $tiny
for set in cifar10 fashion mnist text; do shows "^  $set  *missing" doctor; done

# Images of two values per colour that have CIFAR-10's mean and deviation, in the form of its binary files.
plane() { # plane OCTAL: 1024 bytes of that value
    head -c 1024 /dev/zero | tr '\000' "\\$1"
}
{ plane 076 && plane 075 && plane 057; } >low
{ plane 274 && plane 271 && plane 265; } >high
for label in 000 001 002 003 004 005 006 007 010 011; do
    printf "\\$label" && cat low && printf "\\$label" && cat high
done >block
mkdir files
i=0
while [ $i -lt 500 ]; do cat block && i=$((i + 1)); done >files/data_batch_1.bin
for name in data_batch_2 data_batch_3 data_batch_4 data_batch_5 test_batch; do
    ln files/data_batch_1.bin files/$name.bin
done

get="data get cifar10 --from files --train 20 --val 20 --test 20"
shows "wrote $HOME/.local/share/esper/cifar10.safetensors" $get
shows "^  user's  *$HOME/.local/share/esper: cifar10.safetensors (20 training.*, in use\$" doctor
shows '^train  *20 ' data info
mkdir data
shows 'wrote data/cifar10.safetensors' $get
shows '^  here  *.*/here/data: cifar10.safetensors (20 .*, in use$' doctor
shows "^  user's .*images)\$" doctor
ESPER_DATA=$work/more/data
export ESPER_DATA
shows "wrote $ESPER_DATA/cifar10.safetensors" $get --train 30
shows '^train  *30 ' data info
unset ESPER_DATA
rm -r data
XDG_DATA_HOME=$work/more/xdg
export XDG_DATA_HOME
fails 2 "no cifar10.safetensors in data, $XDG_DATA_HOME/esper;" data info
unset XDG_DATA_HOME

# ---- version ---------------------------------------------------------------------------------------------------------
version=$("$esper" --version)
verdict "version: $version" "$(echo "$version" | grep -vE '^esper [0-9]+\.[0-9]+\.[0-9]+ \(([0-9a-f]{8,}(-dirty)?|unknown)\)$')"
verdict 'version and --version' "$([ "$version" = "$("$esper" version)" ] || echo differ)"
problem=
grep -qF "\"version\":	\"${version#esper }\"" runs/first/run.json || problem=$(grep version runs/first/run.json)
verdict 'a run names the build that made it' "$problem"

commit_is() { # commit_is PATTERN: what the build would write down here
    verdict "commit $1" "$("$root/scripts/commit" | grep -q "ESPER_VERSION \" ($1)\";" || "$root/scripts/commit")"
}
mkdir tree && cd tree || exit 1
commit_is unknown
if command -v git >/dev/null; then
    git init -q . && echo one >file && git add file &&
        git -c user.name=x -c user.email=x@localhost commit -q -m x
    commit_is '[0-9a-f]\{8,\}'
    git -c user.name=x -c user.email=x@localhost tag -a -m x v9
    commit_is '[0-9a-f]\{8,\}'
    echo two >file
    commit_is '[0-9a-f]\{8,\}-dirty'
    mkdir unpacked && cd unpacked || exit 1
    commit_is unknown
else
    skip 'no git here'
fi
conclude
