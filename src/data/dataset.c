#include "data/dataset.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/crc32.h"
#include "base/memory.h"
#include "base/safetensors.h"
#include "data/language.h"
#include "data/own.h"
#include "data/synthetic.h"
#include "data/window.h"

const char *split_name(enum split split)
{
    static const char *const names[SPLIT_COUNT] = {"train", "val", "test"};
    return names[split];
}

static size_t image_bytes(int size)
{
    return (size_t)size * (size_t)size * DATASET_COLOURS;
}

/* ---- places ------------------------------------------------------------------------------------------------------ */

enum { PLACE_CHOSEN, PLACE_HERE, PLACE_USER, PLACE_COUNT };

bool dataset_place(int i, struct place *place)
{
    static const char *const labels[PLACE_COUNT] = {"$ESPER_DATA", "here", "user's"};
    const char *chosen = getenv("ESPER_DATA"), *shared = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
    int length = 0;
    if (i < 0 || i >= PLACE_COUNT)
        return false;
    *place = (struct place){.label = labels[i]};
    if (i == PLACE_CHOSEN && chosen)
        length = snprintf(place->path, sizeof place->path, "%s", chosen);
    else if (i == PLACE_HERE)
        length = snprintf(place->path, sizeof place->path, "data");
    else if (i == PLACE_USER && shared && shared[0] == '/') /* its specification says to ignore a relative one */
        length = snprintf(place->path, sizeof place->path, "%s/esper", shared);
    else if (i == PLACE_USER && home && home[0] == '/')
        length = snprintf(place->path, sizeof place->path, "%s/.local/share/esper", home);
    if (length >= (int)sizeof place->path)
        place->path[0] = '\0';
    return true;
}

bool dataset_find(const char *name, char path[CONFIG_PATH])
{
    struct place place;
    for (int i = 0; dataset_place(i, &place); i++)
        if (place.path[0] && snprintf(path, CONFIG_PATH, "%s/%s" DATASET_EXTENSION, place.path, name) < CONFIG_PATH &&
            access(path, F_OK) == 0)
            return true;
    return false;
}

enum esper_status dataset_check_name(const char *name, struct esper_error *error)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    const size_t length = strlen(name);
    if (!length || length >= CONFIG_DATA_NAME || strspn(name, letters) != length || strchr("._-", name[0]))
        return error_set(error, ESPER_INVALID,
                         "a data set is called by at most %d letters, digits, '.', '_' and '-', the first a letter or "
                         "a digit",
                         CONFIG_DATA_NAME - 1);
    if (data_set_named(name) != DATA_SETS)
        return error_set(error, ESPER_INVALID, "%s is the name of a data set of Esper; choose another", name);
    return ESPER_OK;
}

void dataset_home(char path[CONFIG_PATH])
{
    struct place chosen, here, user;
    struct stat info;
    dataset_place(PLACE_CHOSEN, &chosen);
    dataset_place(PLACE_HERE, &here);
    dataset_place(PLACE_USER, &user);
    bool used = stat(here.path, &info) == 0 && S_ISDIR(info.st_mode);
    const struct place *home = chosen.path[0] ? &chosen : used || !user.path[0] ? &here : &user;
    memcpy(path, home->path, sizeof home->path);
}

/* ---- synthetic -------------------------------------------------------------------------------------------------- */

/* All images of a size and then their labels. They are drawn once, for the first who wants them, and stay: for a small
 * run, drawing them is most of the work. */
static const uint8_t *synthetic_drawn(int size, const size_t count[SPLIT_COUNT], struct esper_error *error)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static uint8_t *kept[DATASET_SIZE + 1]; /* an image has an even number of bytes */
    const size_t bytes = image_bytes(size), total = count[0] + count[1] + count[2];
    pthread_mutex_lock(&lock);
    uint8_t *drawn = kept[size];
    if (!drawn && (drawn = memory_alloc(total, bytes + sizeof(uint16_t), error)) != NULL) {
        uint8_t *image = drawn;
        uint16_t *label = (uint16_t *)(void *)(drawn + total * bytes);
        for (int split = 0; split < SPLIT_COUNT; split++)
            for (uint32_t i = 0; i < count[split]; i++, image += bytes) {
                synthetic_image((enum split)split, i, size, image);
                *label++ = (uint16_t)synthetic_label(i);
            }
        kept[size] = drawn;
    }
    pthread_mutex_unlock(&lock);
    return drawn;
}

static enum esper_status synthetic_open(struct dataset *dataset, struct esper_error *error)
{
    if (dataset->size != 16 && dataset->size != 32)
        return error_set(error, ESPER_INVALID, "synthetic images are 16 or 32 pixels wide, not %d; set data.size",
                         dataset->size);
    const struct data_facts *set = data_facts_of(DATA_SYNTHETIC);
    const size_t count[SPLIT_COUNT] = {(size_t)set->train, (size_t)set->val, (size_t)set->test};
    const size_t bytes = image_bytes(dataset->size), total = count[0] + count[1] + count[2];
    const uint8_t *image = synthetic_drawn(dataset->size, count, error);
    if (!image)
        return ESPER_FAILED;
    const uint16_t *label = (const uint16_t *)(const void *)(image + total * bytes);
    for (int split = 0; split < SPLIT_COUNT; split++) {
        dataset->count[split] = count[split];
        dataset->images[split] = image;
        dataset->labels[split] = label;
        image += count[split] * bytes;
        label += count[split];
    }
    return ESPER_OK;
}

/* ---- text -------------------------------------------------------------------------------------------------------- */

/* The samples of a text follow from its context. */
static enum esper_status count_windows(struct dataset *dataset, struct esper_error *error)
{
    const uint32_t context = (uint32_t)dataset->context;
    for (int split = 0; split < SPLIT_COUNT && context; split++) {
        const size_t bytes = dataset->bytes[split];
        dataset->count[split] = split == SPLIT_TRAIN ? window_starts(bytes, context) : window_count(bytes, context);
        if (dataset->count[split] == 0)
            return error_set(
                error, ESPER_INVALID,
                "host.context = %d: a window has %d bytes, the %s split %zu; use a shorter context or more "
                "text",
                dataset->context, dataset->context + 1, split_name((enum split)split), bytes);
    }
    return ESPER_OK;
}

/* Written once, for the first who wants it, and kept. */
static enum esper_status language_open(struct dataset *dataset, struct esper_error *error)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static uint8_t *kept;
    const struct data_facts *set = data_facts_of(DATA_LANGUAGE);
    const size_t bytes[SPLIT_COUNT] = {(size_t)set->train, (size_t)set->val, (size_t)set->test};
    pthread_mutex_lock(&lock);
    if (!kept && (kept = memory_alloc(bytes[0] + bytes[1] + bytes[2], 1, error)) != NULL) {
        uint8_t *stream = kept;
        for (int split = 0; split < SPLIT_COUNT; stream += bytes[split++])
            language_write((enum split)split, stream, bytes[split]);
    }
    const uint8_t *stream = kept;
    pthread_mutex_unlock(&lock);
    for (int split = 0; split < SPLIT_COUNT && stream; stream += bytes[split++]) {
        dataset->stream[split] = stream;
        dataset->bytes[split] = bytes[split];
    }
    return stream ? count_windows(dataset, error) : ESPER_FAILED;
}

/* ---- a packed file ---------------------------------------------------------------------------------------------- */

static enum esper_status packed_find(const struct st_file *file, const char *split, const char *what, int dims,
                                     const struct st_tensor **out, struct esper_error *error)
{
    char name[32];
    snprintf(name, sizeof name, "%s.%s", split, what);
    *out = st_find(file, name);
    if (!*out)
        return error_set(error, ESPER_INVALID, "tensor %s is missing", name);
    const bool wide = (*out)->dtype == ST_U16 && strcmp(what, "labels") == 0; /* of more than 256 classes */
    if (((*out)->dtype != ST_U8 && !wide) || (*out)->dims != dims)
        return error_set(error, ESPER_INVALID, "tensor %s is not %d-dimensional U8", name, dims);
    return ESPER_OK;
}

static enum esper_status packed_count(const struct st_file *file, const char *split, size_t count, const char *what,
                                      struct esper_error *error)
{
    char text[24];
    snprintf(text, sizeof text, "%zu", count);
    const char *stated = st_meta(file, split);
    if (!stated || strcmp(stated, text) != 0)
        return error_set(error, ESPER_INVALID, "%s holds %zu %s, its metadata says %s", split, count, what,
                         stated ? stated : "nothing");
    return ESPER_OK;
}

/* Labels of either width, as `to`. */
static enum esper_status packed_labels(const struct st_tensor *labels, int classes, const char *split, uint16_t *to,
                                       struct esper_error *error)
{
    const uint8_t *narrow = labels->data;
    const uint16_t *wide = labels->data;
    for (size_t i = 0; i < labels->count; i++) {
        to[i] = labels->dtype == ST_U8 ? narrow[i] : wide[i];
        if (to[i] >= classes)
            return error_set(error, ESPER_INVALID, "%s.labels[%zu] is %d, not a class from 0 to %d", split, i, to[i],
                             classes - 1);
    }
    return ESPER_OK;
}

static enum esper_status packed_open_images(struct dataset *dataset, enum split split, uint16_t **room, uint32_t *crc,
                                            struct esper_error *error)
{
    const char *name = split_name(split);
    const struct st_tensor *images, *labels;
    TRY(packed_find(dataset->file, name, "images", 4, &images, error));
    TRY(packed_find(dataset->file, name, "labels", 1, &labels, error));
    const size_t count = images->shape[0], size = (size_t)dataset->size;
    if (images->shape[1] != size || images->shape[2] != size || images->shape[3] != DATASET_COLOURS)
        return error_set(error, ESPER_INVALID, "%s.images has shape [%zu,%zu,%zu,%zu], not [n,%zu,%zu,3]", name, count,
                         images->shape[1], images->shape[2], images->shape[3], size, size);
    if (count == 0 || labels->shape[0] != count)
        return error_set(error, ESPER_INVALID, "%s holds %zu images and %zu labels", name, count, labels->shape[0]);
    if (count > INT32_MAX)
        return error_set(error, ESPER_INVALID, "%s holds %zu images; at most %d are allowed", name, count, INT32_MAX);
    TRY(packed_count(dataset->file, name, count, "images", error));
    TRY(packed_labels(labels, dataset->classes, name, *room, error));
    *crc = crc32_update(crc32_update(*crc, images->data, images->bytes), labels->data, labels->bytes);
    dataset->count[split] = count;
    dataset->images[split] = images->data;
    dataset->labels[split] = *room;
    *room += count;
    return ESPER_OK;
}

static enum esper_status packed_open_text(struct dataset *dataset, enum split split, uint32_t *crc,
                                          struct esper_error *error)
{
    const char *name = split_name(split);
    const struct st_tensor *stream;
    TRY(packed_find(dataset->file, name, "bytes", 1, &stream, error));
    const size_t bytes = stream->shape[0];
    if (bytes < 2 || bytes > UINT32_MAX)
        return error_set(error, ESPER_INVALID, "%s.bytes has %zu bytes; it must be from 2 to %u", name, bytes,
                         UINT32_MAX);
    TRY(packed_count(dataset->file, name, bytes, "bytes", error));
    *crc = crc32_update(*crc, stream->data, bytes);
    dataset->stream[split] = stream->data;
    dataset->bytes[split] = bytes;
    return ESPER_OK;
}

/* A damaged image or text looks like any other: only the checksum tells. Files of earlier versions have none. */
static enum esper_status packed_check(struct dataset *dataset, uint32_t crc, struct esper_error *error)
{
    const char *stated = st_meta(dataset->file, DATASET_CHECKSUM);
    snprintf(dataset->checksum, sizeof dataset->checksum, "%08x", (unsigned)crc);
    if (stated && strcmp(stated, dataset->checksum) != 0)
        return error_set(error, ESPER_INVALID, "damaged: its checksum is %s, not %.8s", dataset->checksum, stated);
    return ESPER_OK;
}

/* The set that a packed file holds. */
static enum esper_status packed_set(const struct st_file *file, enum data_set *set, struct esper_error *error)
{
    const char *format = st_meta(file, "format"), *version = st_meta(file, "version"), *name = st_meta(file, "name");
    *set = name ? data_set_named(name) : DATA_SETS;
    const struct data_facts *facts = *set == DATA_SETS ? NULL : data_facts_of(*set);
    if (!facts || !facts->packed || !format ||
        strcmp(format, facts->kind == KIND_TEXT ? DATASET_TEXT : DATASET_IMAGES) != 0)
        return error_set(error, ESPER_INVALID, "not a packed data set");
    if (!version || strcmp(version, DATASET_VERSION) != 0)
        return error_set(error, ESPER_INVALID, "has format version %s, this program reads %s",
                         version ? version : "none", DATASET_VERSION);
    return ESPER_OK;
}

/* Room for the labels of all splits, as far as the file has them. */
static enum esper_status label_room(struct dataset *dataset, struct esper_error *error)
{
    size_t count = 0;
    for (int split = 0; split < SPLIT_COUNT; split++) {
        const struct st_tensor *labels;
        TRY(packed_find(dataset->file, split_name((enum split)split), "labels", 1, &labels, error));
        count += labels->count;
    }
    dataset->label_memory = memory_alloc(count, sizeof *dataset->label_memory, error);
    return dataset->label_memory ? ESPER_OK : ESPER_FAILED;
}

static enum esper_status packed_content(struct dataset *dataset, struct esper_error *error)
{
    const bool text = dataset->kind == KIND_TEXT;
    uint16_t *room = NULL;
    uint32_t crc = 0;
    if (!text) {
        TRY(own_facts(dataset, error));
        TRY(label_room(dataset, error));
        room = dataset->label_memory;
    }
    for (int split = 0; split < SPLIT_COUNT; split++)
        TRY(text ? packed_open_text(dataset, (enum split)split, &crc, error)
                 : packed_open_images(dataset, (enum split)split, &room, &crc, error));
    const char *documents = text ? st_meta(dataset->file, DATASET_DOCUMENTS) : NULL;
    dataset->documents = documents ? strtoul(documents, NULL, 10) : 0;
    return packed_check(dataset, crc, error);
}

static enum esper_status packed_read(const char *path, struct dataset *dataset, struct esper_error *error)
{
    TRY(st_open(path, &dataset->file, error));
    snprintf(dataset->path, sizeof dataset->path, "%s", path);
    enum data_set found;
    enum esper_status status = packed_set(dataset->file, &found, error);
    if (status == ESPER_OK && dataset->set != DATA_SETS && dataset->set != found)
        status = error_set(error, ESPER_INVALID, "holds %s, not %s", data_facts_of(found)->title,
                           data_facts_of(dataset->set)->title);
    if (status == ESPER_OK) {
        dataset->set = found;
        dataset->kind = data_facts_of(found)->kind;
        dataset->name = data_facts_of(found)->name;
        status = packed_content(dataset, error);
    }
    if (status != ESPER_OK)
        error_where(error, "%s", path);
    return status;
}

/* How to come by the packed file of a set; any, for DATA_SETS. */
struct remedy {
    char line[96];
};

static struct remedy remedy_for(enum data_set set)
{
    struct remedy remedy;
    if (set != DATA_SETS && data_facts_of(set)->own)
        snprintf(remedy.line, sizeof remedy.line, "`esper data import DIR --name NAME`");
    else
        snprintf(remedy.line, sizeof remedy.line, "`esper data get %s`%s",
                 set == DATA_SETS ? "SET" : data_facts_of(set)->name,
                 set == DATA_TEXT ? " or `esper data import FILE...`" : "");
    return remedy;
}

static enum esper_status nowhere(const char *name, const char *remedy, struct esper_error *error)
{
    struct place place;
    char looked[PLACE_COUNT * (CONFIG_PATH + 2)] = "";
    for (int i = 0; dataset_place(i, &place); i++) {
        size_t used = strlen(looked);
        if (place.path[0])
            snprintf(looked + used, sizeof looked - used, "%s%s", used ? ", " : "", place.path);
    }
    return error_set(error, ESPER_INVALID, "no %.64s" DATASET_EXTENSION " in %.300s; run %s or set data.path", name,
                     looked, remedy);
}

/* No path, or the one that runs of earlier versions wrote down: data/NAME.safetensors. */
static bool looks_everywhere(const char *path, enum data_set set)
{
    char usual[64];
    snprintf(usual, sizeof usual, "data/%s" DATASET_EXTENSION, data_facts_of(set)->name);
    return !path || !path[0] || strcmp(path, usual) == 0;
}

static enum esper_status packed_open(const char *path, struct dataset *dataset, struct esper_error *error)
{
    const enum data_set wanted = dataset->set; /* DATA_SETS: any */
    if (wanted != DATA_SETS && !data_facts_of(wanted)->own && dataset->kind == KIND_IMAGES &&
        dataset->size != DATASET_SIZE)
        return error_set(error, ESPER_INVALID, "%s: packed images are 32 pixels wide, not %d; set data.size=32",
                         data_facts_of(wanted)->name, dataset->size);
    char found[CONFIG_PATH];
    if (wanted != DATA_SETS && looks_everywhere(path, wanted)) {
        if (!dataset_find(data_facts_of(wanted)->name, found))
            return nowhere(data_facts_of(wanted)->name, remedy_for(wanted).line, error);
        path = found;
    }
    if (access(path, F_OK) != 0)
        return error_set(error, ESPER_INVALID, "%s: no such file; run %s or set data.path", path,
                         remedy_for(wanted).line);
    enum esper_status status = packed_read(path, dataset, error);
    if (status == ESPER_INVALID && error) {
        char line[sizeof error->text];
        memcpy(line, error->text, sizeof line);
        error_set(error, status, "%.420s; %s writes a good one", line, remedy_for(dataset->set).line);
    }
    if (status == ESPER_OK && dataset->kind == KIND_TEXT && (status = count_windows(dataset, error)) != ESPER_OK)
        error_where(error, "%s", path);
    return status;
}

/* ---- any of them ------------------------------------------------------------------------------------------------- */

static enum esper_status open_as(const char *path, enum data_set set, int size, int context, struct dataset **out,
                                 struct esper_error *error)
{
    *out = NULL;
    struct dataset *dataset = memory_alloc(1, sizeof *dataset, error);
    if (!dataset)
        return ESPER_FAILED;
    dataset->kind = set == DATA_SETS ? KIND_IMAGES : data_facts_of(set)->kind; /* or what the file turns out to be */
    dataset->size = size;
    dataset->context = context;
    dataset->classes = DATASET_CLASSES;
    dataset->set = set;
    if (set != DATA_SETS) {
        const struct data_facts *facts = data_facts_of(set);
        dataset->name = facts->name;
        memcpy(dataset->mean, facts->mean, sizeof dataset->mean);
        memcpy(dataset->deviation, facts->deviation, sizeof dataset->deviation);
    }
    enum esper_status status = set == DATA_SYNTHETIC  ? synthetic_open(dataset, error)
                               : set == DATA_LANGUAGE ? language_open(dataset, error)
                                                      : packed_open(path, dataset, error);
    if (status == ESPER_OK)
        *out = dataset;
    else
        dataset_close(dataset);
    return status;
}

enum esper_status dataset_open(const char *path, enum data_set set, int size, struct dataset **out,
                               struct esper_error *error)
{
    return open_as(path, set, size, size, out, error);
}

/* A name that was given to `esper data import`, as a path. */
static enum esper_status named_path(const char *name, char path[CONFIG_PATH], struct esper_error *error)
{
    return dataset_find(name, path) ? ESPER_OK : nowhere(name, "`esper data list` to see what there is,", error);
}

enum esper_status dataset_open_for(const struct config *config, struct dataset **out, struct esper_error *error)
{
    char found[CONFIG_PATH];
    const char *path = config->data_path;
    if (!path[0] && !config->data_name[0] && data_facts_of(config->data_set)->own)
        return error_set(error, ESPER_INVALID,
                         "data.set = images: say which, with data.name=NAME or data.path=FILE; `esper data list` "
                         "names those there are");
    if (!path[0] && config->data_name[0]) {
        TRY(named_path(config->data_name, found, error));
        path = found;
    }
    return dataset_open(path, (enum data_set)config->data_set, dataset_size(config), out, error);
}

enum esper_status dataset_open_named(const char *text, int size, int context, struct dataset **out,
                                     struct esper_error *error)
{
    const enum data_set set = data_set_named(text); /* DATA_SETS: whichever the file holds */
    char found[CONFIG_PATH];
    /* A name comes before a file that is called the same: it may be the very folder that was imported. */
    if (set == DATA_SETS && dataset_check_name(text, NULL) == ESPER_OK &&
        (dataset_find(text, found) || access(text, F_OK) != 0)) {
        TRY(named_path(text, found, error));
        text = found;
    }
    return open_as(set == DATA_SETS ? text : NULL, set, size, context, out, error);
}

void dataset_close(struct dataset *dataset)
{
    if (!dataset)
        return;
    if (dataset->file)
        st_close(dataset->file);
    memory_free(dataset->label_memory);
    memory_free(dataset);
}

struct split_summary split_summarise(const uint8_t *images, const uint16_t *labels, size_t count, int size)
{
    struct split_summary summary = {0};
    uint64_t sum[DATASET_COLOURS] = {0}, squares[DATASET_COLOURS] = {0};
    for (size_t i = 0; i < count; i++)
        summary.histogram[labels[i]]++;
    const size_t pixels = count * (size_t)size * (size_t)size;
    for (size_t i = 0; i < pixels; i++)
        for (int c = 0; c < DATASET_COLOURS; c++) {
            uint32_t value = images[i * DATASET_COLOURS + (size_t)c];
            sum[c] += value;
            squares[c] += value * value;
        }
    for (int c = 0; c < DATASET_COLOURS && pixels > 0; c++) {
        double mean = (double)sum[c] / (double)pixels;
        summary.mean[c] = mean / 255;
        summary.deviation[c] = sqrt((double)squares[c] / (double)pixels - mean * mean) / 255;
    }
    return summary;
}

void text_summarise(struct text_summary *summary, const uint8_t *stream, size_t bytes)
{
    uint64_t total = 0;
    for (size_t i = 0; i < bytes; i++)
        summary->histogram[stream[i]]++;
    for (int byte = 0; byte < 256; byte++)
        total += summary->histogram[byte];
    summary->distinct = 0;
    summary->entropy = 0;
    for (int byte = 0; byte < 256; byte++)
        if (summary->histogram[byte]) {
            const double share = (double)summary->histogram[byte] / (double)total;
            summary->distinct++;
            summary->entropy -= share * log2(share);
        }
}
