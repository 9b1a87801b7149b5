/*
 * powerloss ESPER LIBRARY WORK POINTS SEED: cuts the power at so many points of a run.
 *
 * A run that is trained, ended and extended logs what it does to its files (faults.c, log.h). At each point its folder
 * is rebuilt as a disk may hold it: what was synced is there; of what was not, data is kept, lost or torn, each write
 * by itself, and changes of names are kept up to some point, in each directory by itself, unless that was synced. Then
 * `esper train --resume` must come to the bits and the record of the run that was never disturbed.
 */
#include "child.h"
#include "log.h"

/* ---- the log ----------------------------------------------------------------------------------------------------- */

struct event {
    struct log_entry entry;
    const char *path, *other;
    const char *data;
};

static struct event *events;
static int event_count;

static void read_log(const char *path)
{
    size_t bytes, at = 0;
    char *data = read_whole(path, &bytes);
    int room = 0;
    event_count = 0;
    if (!data)
        give_up("%s: no log", path);
    while (at + sizeof(struct log_entry) <= bytes) {
        if (event_count == room)
            events = must_have(realloc(events, (size_t)(room = 2 * room + 1024) * sizeof *events));
        struct event *event = &events[event_count++];
        memcpy(&event->entry, data + at, sizeof event->entry);
        event->path = data + at + sizeof event->entry;
        event->other = event->entry.operation == LOG_RENAME ? event->path + strlen(event->path) + 1 : NULL;
        event->data = event->path + event->entry.path_bytes;
        at += sizeof event->entry + event->entry.path_bytes + event->entry.data_bytes;
    }
}

/* ---- the disk ---------------------------------------------------------------------------------------------------- */

enum { OBJECTS = 4096, NAMES = 256, CHANGES = 4096 };

/* A name in a directory, or a change of one: object -1 removes it. */
struct name {
    char text[64];
    int object;
};

struct names {
    struct name list[NAMES];
    int count;
};

/* A change to one directory. A rename within it is one change: it happens or does not. */
struct change {
    struct name set, unset;
};

struct object {
    bool directory;
    uint64_t inode;
    char *data; /* as synced */
    size_t size;
    int *writes; /* events since then */
    int write_count, write_room;
    struct names *synced, *now;
    struct change *changes; /* from `synced` to `now` */
    int change_count;
};

static struct object objects[OBJECTS];
static int object_count;

static int object_add(bool directory, uint64_t inode)
{
    if (object_count == OBJECTS)
        give_up("too many files");
    struct object *object = &objects[object_count];
    *object = (struct object){.directory = directory, .inode = inode};
    if (directory) {
        object->synced = must_have(calloc(1, sizeof *object->synced));
        object->now = must_have(calloc(1, sizeof *object->now));
        object->changes = must_have(calloc(CHANGES, sizeof *object->changes));
    }
    return object_count++;
}

static void disk_clear(void)
{
    for (int i = 0; i < object_count; i++) {
        free(objects[i].data);
        free(objects[i].writes);
        free(objects[i].synced);
        free(objects[i].now);
        free(objects[i].changes);
    }
    object_count = 0;
}

static int names_find(const struct names *names, const char *text)
{
    for (int i = 0; i < names->count; i++)
        if (strcmp(names->list[i].text, text) == 0)
            return i;
    return -1;
}

static void names_apply(struct names *names, const struct name *change)
{
    int at = names_find(names, change->text);
    if (!change->text[0])
        return;
    if (change->object < 0) {
        if (at >= 0)
            names->list[at] = names->list[--names->count];
        return;
    }
    if (at < 0 && names->count == NAMES)
        give_up("too many names in a directory");
    names->list[at < 0 ? names->count++ : at] = *change;
}

static void directory_change(int directory, const struct change *change)
{
    struct object *object = &objects[directory];
    if (object->change_count == CHANGES)
        give_up("too many changes of a directory");
    object->changes[object->change_count++] = *change;
    names_apply(object->now, &change->unset);
    names_apply(object->now, &change->set);
}

/* The directory that holds the path, as names are now, and the last part of the path; -1: not known. */
static int find_parent(const char *path, const char **last)
{
    int at = 0;
    for (const char *slash; (slash = strchr(path, '/')); path = slash + 1) {
        char part[64];
        snprintf(part, sizeof part, "%.*s", (int)(slash - path), path);
        int name = objects[at].directory ? names_find(objects[at].now, part) : -1;
        if (name < 0)
            return -1;
        at = objects[at].now->list[name].object;
    }
    *last = path;
    return at;
}

static struct name name_of(const char *text, int object)
{
    struct name name = {.object = object};
    snprintf(name.text, sizeof name.text, "%s", text);
    return name;
}

static int find_inode(uint64_t inode)
{
    for (int i = object_count - 1; i >= 0; i--)
        if (objects[i].inode == inode)
            return i;
    return -1;
}

/* ---- what happens to a file's data ------------------------------------------------------------------------------- */

static void resize(char **data, size_t *size, size_t to)
{
    if (to > *size) {
        *data = must_have(realloc(*data, to));
        memset(*data + *size, 0, to - *size);
    }
    *size = to;
}

/* The first `bytes` of a write. */
static void apply_write(char **data, size_t *size, const struct event *event, size_t bytes)
{
    if (event->entry.operation == LOG_TRUNCATE) {
        resize(data, size, event->entry.offset);
        return;
    }
    if (event->entry.offset + bytes > *size)
        resize(data, size, event->entry.offset + bytes);
    if (bytes)
        memcpy(*data + event->entry.offset, event->data, bytes);
}

static void sync_object(struct object *object)
{
    for (int i = 0; i < object->write_count; i++)
        apply_write(&object->data, &object->size, &events[object->writes[i]],
                    events[object->writes[i]].entry.data_bytes);
    object->write_count = 0;
    if (object->directory)
        *object->synced = *object->now;
    object->change_count = 0;
}

static void add_write(struct object *object, int event)
{
    if (object->write_count == object->write_room)
        object->writes = must_have(
            realloc(object->writes, (size_t)(object->write_room = 2 * object->write_room + 16) * sizeof(int)));
    object->writes[object->write_count++] = event;
}

/* ---- what happened up to a point --------------------------------------------------------------------------------- */

static void happen(int number)
{
    const struct event *event = &events[number];
    const char *last = NULL, *other = NULL;
    int directory = event->entry.path_bytes ? find_parent(event->path, &last) : -1, object, at;
    switch ((enum log_operation)event->entry.operation) {
    case LOG_MKDIR:
        object = object_add(true, event->entry.inode); /* the first one is the folder itself */
        if (directory >= 0)
            directory_change(directory, &(struct change){.set = name_of(last, object)});
        break;
    case LOG_CREATE:
        if (directory < 0 || names_find(objects[directory].now, last) >= 0)
            break;
        object = object_add(false, event->entry.inode);
        directory_change(directory, &(struct change){.set = name_of(last, object)});
        break;
    case LOG_UNLINK:
        at = directory >= 0 ? names_find(objects[directory].now, last) : -1;
        if (at < 0)
            break;
        objects[objects[directory].now->list[at].object].inode = 0; /* another file may get it */
        directory_change(directory, &(struct change){.unset = name_of(last, -1)});
        break;
    case LOG_RENAME:
        at = directory >= 0 ? names_find(objects[directory].now, last) : -1;
        if (at < 0)
            break;
        if (find_parent(event->other, &other) != directory)
            give_up("%s: moved to another directory", event->path);
        directory_change(directory, &(struct change){.set = name_of(other, objects[directory].now->list[at].object),
                                                     .unset = name_of(last, -1)});
        break;
    case LOG_WRITE:
    case LOG_TRUNCATE:
    case LOG_SYNC:
        object = find_inode(event->entry.inode);
        if (object < 0)
            break;
        if (event->entry.operation == LOG_SYNC)
            sync_object(&objects[object]);
        else
            add_write(&objects[object], number);
        break;
    }
}

/* ---- what is left ------------------------------------------------------------------------------------------------ */

enum fate { NOTHING_MORE, EVERYTHING, BY_CHANCE, FATES }; /* of what was not synced */

static void leave_file(const char *path, const struct object *object, enum fate fate, uint64_t *seed)
{
    char *data = NULL;
    size_t size = 0;
    resize(&data, &size, object->size);
    if (size)
        memcpy(data, object->data, size);
    for (int i = 0; i < object->write_count && fate != NOTHING_MORE; i++) {
        const struct event *event = &events[object->writes[i]];
        size_t bytes = event->entry.data_bytes;
        uint64_t chance = fate == BY_CHANCE ? choose(seed, 4) : 0;
        if (chance == 1)
            continue;
        if (chance == 2) /* some sectors of it */
            bytes = choose(seed, bytes / 512 + 1) * 512;
        apply_write(&data, &size, event, bytes);
    }
    write_whole(path, data, size);
    free(data);
}

static void leave_directory(const char *path, const struct object *object, enum fate fate, uint64_t *seed)
{
    struct names *names = must_have(malloc(sizeof *names));
    int changes = fate == NOTHING_MORE ? 0 : object->change_count;
    if (fate == BY_CHANCE)
        changes = (int)choose(seed, (uint64_t)changes + 1);
    *names = *object->synced;
    for (int i = 0; i < changes; i++) {
        names_apply(names, &object->changes[i].unset);
        names_apply(names, &object->changes[i].set);
    }
    if (mkdir(path, 0777) != 0)
        give_up("%s: %s", path, strerror(errno));
    for (int i = 0; i < names->count; i++) {
        char below[PATH_MAX];
        const struct object *child = &objects[names->list[i].object];
        snprintf(below, sizeof below, "%s/%s", path, names->list[i].text);
        if (child->directory)
            leave_directory(below, child, fate, seed);
        else
            leave_file(below, child, fate, seed);
    }
    free(names);
}

/* ---- the test ---------------------------------------------------------------------------------------------------- */

enum { STAGES = 2 };
static const char *const stage_rounds[STAGES] = {"6", "10"};

static const char *esper, *library, *work;
static struct stage {
    int events; /* of the log until its end */
    char hash[64];
    uint64_t record;
} stages[STAGES];
static int first_kept; /* the event from which on there is a checkpoint that nothing can take */

#define TRAIN                                                                                                          \
    "--task", "quickstart", "--envs", "2", "--steps", "8", "--threads", "1", "--set", "data.batches=1", "--set",       \
        "data.batch=8", "--set", "data.val_images=16", "--set", "data.test_images=16", "--set",                        \
        "policy.feature_dim=32", "--set", "policy.hidden=32", "--set", "ppo.epochs=1", "--set", "checkpoint.rounds=2", \
        "--set", "checkpoint.keep=2"

static void hash_of(const char *path, char hash[64])
{
    char *arguments[] = {(char *)esper, "inspect", (char *)path, "--hash", NULL};
    struct outcome outcome = run(work, arguments, NULL, 60);
    snprintf(hash, 64, "%.63s", outcome.code == 0 ? outcome.out : outcome.err);
    hash[strcspn(hash, "\n")] = '\0';
    outcome_free(&outcome);
}

/* The run that is never disturbed: trained to the end of one stage, then extended. */
static void train_whole(const char *runs, const char *path, const char *log)
{
    char preload[PATH_MAX + 16], to[PATH_MAX + 16], under[PATH_MAX + 16];
    snprintf(preload, sizeof preload, "LD_PRELOAD=%s", library);
    snprintf(to, sizeof to, "FAULTS_LOG=%s", log);
    snprintf(under, sizeof under, "FAULTS_UNDER=%s", runs);
    char *environment[] = {preload, to, under, NULL};
    char *begin[] = {(char *)esper, "train", TRAIN,     "--runs",   (char *)runs,
                     "--name",      "run",   "--quiet", "--rounds", (char *)stage_rounds[0],
                     NULL};
    for (int i = 0; i < STAGES; i++) {
        char *extend[] = {(char *)esper,           "train", "--resume", (char *)path, "--quiet", "--rounds",
                          (char *)stage_rounds[i], NULL};
        struct outcome outcome = run(work, i ? extend : begin, environment, 120);
        if (outcome.code != 0)
            give_up("the undisturbed run: exit code %d: %s", outcome.code, outcome.err);
        outcome_free(&outcome);
        read_log(log);
        stages[i].events = event_count;
        hash_of(path, stages[i].hash);
        stages[i].record = sum_record(path, true);
        if (!stages[i].record)
            give_up("the undisturbed run's record cannot be read");
    }
}

static bool is_checkpoint(const struct event *event)
{
    return event->entry.operation == LOG_RENAME && strstr(event->other, "/checkpoints/r");
}

static void find_first_kept(void)
{
    int renamed = 0;
    while (renamed < event_count && !is_checkpoint(&events[renamed]))
        renamed++;
    for (first_kept = renamed; first_kept < event_count; first_kept++)
        if (events[first_kept].entry.operation == LOG_SYNC)
            break;
    if (first_kept == event_count)
        give_up("the log has no checkpoint");
}

/* Every other point is one around a checkpoint's rename. */
static int choose_point(uint64_t *seed)
{
    int point = 1 + (int)choose(seed, (uint64_t)event_count);
    if (choose(seed, 2) == 0) {
        int at = point - 1;
        while (at > 0 && !is_checkpoint(&events[at]))
            at--;
        if (at > 0)
            point = at - 3 + (int)choose(seed, 16);
    }
    return point < 1 ? 1 : point > event_count ? event_count : point;
}

/* What is wrong with the run after a cut; "" if nothing is. */
static void judge(const char *path, int point, char problem[1024])
{
    char file[PATH_MAX + 64], hash[64];
    int stage = point > stages[0].events;
    char *resume[] = {(char *)esper,
                      "train",
                      "--resume",
                      (char *)path,
                      "--quiet",
                      stage ? "--rounds" : NULL,
                      (char *)stage_rounds[stage],
                      NULL};
    problem[0] = '\0';
    snprintf(file, sizeof file, "%s/run.json", path);
    if (access(file, F_OK) != 0) { /* it had not begun */
        if (point > first_kept)
            snprintf(problem, 1024, "the run is gone");
        return;
    }
    struct outcome outcome = run(work, resume, NULL, 60);
    hash_of(path, hash);
    if (outcome.code != 0)
        snprintf(problem, 1024, "resuming it: exit code %d: %.900s", outcome.code, outcome.err);
    else if (strcmp(hash, stages[stage].hash) != 0)
        snprintf(problem, 1024, "it ends with hash %s, not %s", hash, stages[stage].hash);
    else if (sum_record(path, true) != stages[stage].record)
        snprintf(problem, 1024, "its record is not that of the undisturbed run");
    outcome_free(&outcome);
}

int main(int argc, char **argv)
{
    static const char *const fate_names[FATES] = {"nothing else kept", "everything kept", "the rest by chance"};
    char runs[PATH_MAX], path[PATH_MAX + 8], log[PATH_MAX], cut[PATH_MAX], victim[PATH_MAX + 8];
    if (argc < 6)
        give_up("usage: powerloss ESPER LIBRARY WORK POINTS SEED [POINT FATE]");
    esper = must_find(argv[1]);
    library = must_find(argv[2]);
    work = must_find(argv[3]);
    int points = atoi(argv[4]), failures = 0, runs_lost = 0;
    snprintf(runs, sizeof runs, "%s/whole", work);
    snprintf(path, sizeof path, "%s/run", runs);
    snprintf(log, sizeof log, "%s/log", work);
    snprintf(cut, sizeof cut, "%s/cut", work);
    snprintf(victim, sizeof victim, "%s/run", cut);
    mkdir(runs, 0777);
    train_whole(runs, path, log);
    find_first_kept();
    for (int i = 0; i < points; i++) {
        uint64_t seed = strtoull(argv[5], NULL, 10) * 1000003u + (uint64_t)i;
        int point = choose_point(&seed);
        enum fate fate = (enum fate)choose(&seed, FATES);
        char problem[1024];
        disk_clear();
        for (int k = 0; k < point; k++)
            happen(k);
        leave_directory(cut, &objects[0], fate, &seed);
        runs_lost += access(victim, F_OK) != 0;
        judge(victim, point, problem);
        if (*problem) {
            failures++;
            printf("FAILED power cut %d, after %d of %d operations, %s: %s\n", i, point, event_count, fate_names[fate],
                   problem);
        }
        remove_tree(cut, NULL, NULL);
    }
    printf("%d power cuts, %d before the run had begun, %d failed\n", points, runs_lost, failures);
    return failures != 0;
}
