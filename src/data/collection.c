#include "data/collection.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/memory.h"
#include "base/philox.h"
#include "data/own.h"
#include "data/pack.h"

static size_t image_bytes(const struct collection *images)
{
    return (size_t)images->size * (size_t)images->size * DATASET_COLOURS;
}

enum esper_status collection_alloc(struct collection *images, size_t count, size_t width, size_t height,
                                   struct esper_error *error)
{
    if (width != height)
        return error_set(error, ESPER_INVALID, "images of %zux%zu pixels; they must be square", width, height);
    if (width < DATASET_SIZE_MIN || width > DATASET_SIZE_MAX)
        return error_set(error, ESPER_INVALID, "images of %zux%zu pixels; from %dx%d to %dx%d are allowed", width,
                         height, DATASET_SIZE_MIN, DATASET_SIZE_MIN, DATASET_SIZE_MAX, DATASET_SIZE_MAX);
    images->size = (int)width;
    if (count > COLLECTION_BYTES / image_bytes(images))
        return error_set(error, ESPER_INVALID, "%zu images of %zux%zu pixels; at most %zu are allowed", count, width,
                         height, COLLECTION_BYTES / image_bytes(images));
    images->count = count;
    images->images = memory_alloc(count, image_bytes(images), error);
    images->labels = images->images ? memory_alloc(count, sizeof *images->labels, error) : NULL;
    images->split = images->labels ? memory_alloc(count, 1, error) : NULL;
    return images->split ? ESPER_OK : ESPER_FAILED;
}

void collection_free(struct collection *images)
{
    memory_free(images->images);
    memory_free(images->labels);
    memory_free(images->split);
    memory_free(images->names);
    *images = (struct collection){0};
}

void collection_put(struct collection *images, size_t i, const uint8_t *pixels, int colours)
{
    const size_t bytes = image_bytes(images);
    uint8_t *to = images->images + i * bytes;
    if (colours == DATASET_COLOURS)
        memcpy(to, pixels, bytes);
    else
        for (size_t p = 0; p < bytes; p++)
            to[p] = pixels[p / DATASET_COLOURS];
}

enum esper_status collection_read(struct collection *images, const char *path, struct esper_error *error)
{
    struct stat info;
    *images = (struct collection){0};
    if (stat(path, &info) != 0)
        return error_set(error, ESPER_INVALID, "%s: no such file or directory", path);
    enum esper_status status = !S_ISDIR(info.st_mode) ? arrays_collect(images, path, error)
                               : idx_folder(path)     ? idx_collect(images, path, error)
                                                      : folder_collect(images, path, error);
    if (status == ESPER_OK && (status = collection_check(images, error)) != ESPER_OK)
        error_where(error, "%s", path);
    return status;
}

/* A class as people know it: "3 (tulip)". */
struct class_text {
    char text[OWN_CLASS_NAME + 16];
};

static struct class_text class_text(const struct collection *images, int k)
{
    struct class_text class;
    int length = 0;
    const char *name = images->names ? own_class_name(images->names, k, &length) : "";
    if (images->names)
        snprintf(class.text, sizeof class.text, "%d (%.*s)", k, length, name);
    else
        snprintf(class.text, sizeof class.text, "%d", k);
    return class;
}

/* ---- classes ----------------------------------------------------------------------------------------------------- */

enum esper_status collection_check(const struct collection *images, struct esper_error *error)
{
    size_t histogram[DATASET_CLASSES_MAX] = {0};
    if (images->classes < 2 || images->classes > DATASET_CLASSES_MAX)
        return error_set(error, ESPER_INVALID, "%d class%s; from 2 to %d are allowed", images->classes,
                         images->classes == 1 ? "" : "es", DATASET_CLASSES_MAX);
    for (size_t i = 0; i < images->count; i++)
        histogram[images->labels[i]]++;
    for (int k = 0; k < images->classes; k++)
        if (!histogram[k])
            return error_set(error, ESPER_INVALID, "no image of class %d, of %d classes; number them without gaps", k,
                             images->classes);
    return ESPER_OK;
}

/* ---- splits ------------------------------------------------------------------------------------------------------ */

/* An image in an order that is drawn once and for all: the same files give the same splits everywhere. */
struct entry {
    uint32_t group, draw;
    size_t image;
};

static int entry_order(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    if (x->group != y->group)
        return x->group < y->group ? -1 : 1;
    if (x->draw != y->draw)
        return x->draw < y->draw ? -1 : 1;
    return x->image < y->image ? -1 : x->image > y->image;
}

static uint32_t draw_of(size_t image)
{
    return random_word(random_at(0, STREAM_IMPORT, 0, 0, 0), (uint32_t)image);
}

/* How many of a class's n images a split takes that is not given: a tenth, and at least one. */
static size_t share_of(const struct collection *images, enum split split, size_t n)
{
    return images->given[split] ? 0 : n < 10 ? 1 : n / 10;
}

static enum esper_status split_class(struct collection *images, const struct entry *entries, size_t n,
                                     struct esper_error *error)
{
    const size_t val = share_of(images, SPLIT_VAL, n), test = share_of(images, SPLIT_TEST, n);
    if (n < val + test + 1)
        return error_set(error, ESPER_INVALID,
                         "class %s has %zu image%s, of which some validate and some test; give it at least %zu",
                         class_text(images, (int)entries[0].group).text, n, n == 1 ? "" : "s", val + test + 1);
    for (size_t i = 0; i < val + test; i++)
        images->split[entries[i].image] = i < val ? SPLIT_VAL : SPLIT_TEST;
    return ESPER_OK;
}

/* Every class gives its share of the training images to the splits that are not given. */
static enum esper_status split_all(struct collection *images, struct entry *entries, struct esper_error *error)
{
    size_t training = 0, of_class[DATASET_CLASSES_MAX] = {0};
    for (size_t i = 0; i < images->count; i++)
        if (images->split[i] == SPLIT_TRAIN) {
            entries[training++] = (struct entry){images->labels[i], draw_of(i), i};
            of_class[images->labels[i]]++;
        }
    qsort(entries, training, sizeof *entries, entry_order);
    const struct entry *next = entries;
    for (int k = 0; k < images->classes; next += of_class[k++]) {
        if (!of_class[k])
            return error_set(error, ESPER_INVALID, "class %s has no image to train on", class_text(images, k).text);
        TRY(split_class(images, next, of_class[k], error));
    }
    return ESPER_OK;
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

/* The splits one after the other, each in an order of its own: a run may use the first images of a split alone. */
static void put_in_order(const struct collection *images, struct entry *entries, uint8_t *pixels, uint16_t *labels,
                         struct packed *packed)
{
    const size_t bytes = image_bytes(images);
    for (size_t i = 0; i < images->count; i++)
        entries[i] = (struct entry){images->split[i], draw_of(i), i};
    qsort(entries, images->count, sizeof *entries, entry_order);
    for (int split = 0; split < SPLIT_COUNT; split++)
        packed->count[split] = 0;
    for (size_t i = 0; i < images->count; i++) {
        memcpy(pixels + i * bytes, images->images + entries[i].image * bytes, bytes);
        labels[i] = images->labels[entries[i].image];
        packed->count[entries[i].group]++;
    }
    for (int split = 0; split < SPLIT_COUNT; split++) {
        packed->images[split] = pixels;
        packed->labels[split] = labels;
        pixels += packed->count[split] * bytes;
        labels += packed->count[split];
    }
}

void collection_round(double *mean, double *deviation)
{
    int exponent;
    const double least = 1 / 255.0, scale = 1 / (255 * (*deviation > least ? *deviation : least)); /* of one colour */
    frexp(scale, &exponent);
    const double grid = ldexp(1, exponent - 9); /* the bits of struct gather_table's slope, and of its centre */
    *mean = nearbyint(*mean * 255 * 128) / 128 / 255;
    *deviation = 1 / (255 * (nearbyint(scale / grid) * grid));
}

static enum esper_status write_packed(const struct collection *images, const struct packed *packed, const char *title,
                                      const char *path, struct esper_error *error)
{
    struct split_summary summary = split_summarise(packed->images[SPLIT_TRAIN], packed->labels[SPLIT_TRAIN],
                                                   packed->count[SPLIT_TRAIN], images->size);
    char size[8], classes[8], mean[80], deviation[80];
    for (int c = 0; c < DATASET_COLOURS; c++)
        collection_round(&summary.mean[c], &summary.deviation[c]);
    snprintf(size, sizeof size, "%d", images->size);
    snprintf(classes, sizeof classes, "%d", images->classes);
    snprintf(mean, sizeof mean, "%.17g %.17g %.17g", summary.mean[0], summary.mean[1], summary.mean[2]);
    snprintf(deviation, sizeof deviation, "%.17g %.17g %.17g", summary.deviation[0], summary.deviation[1],
             summary.deviation[2]);
    const char *const meta[][2] = {{"name", data_facts_of(DATA_IMAGES)->name},
                                   {"source", "files on disk"},
                                   {DATASET_TITLE, title},
                                   {DATASET_PIXELS, size},
                                   {DATASET_CLASS_COUNT, classes},
                                   {DATASET_MEAN, mean},
                                   {DATASET_DEVIATION, deviation},
                                   {DATASET_CLASS_NAMES, images->names}};
    const int lines = sizeof meta / sizeof meta[0];
    return packed_write(packed, meta, images->names ? lines : lines - 1, path, error);
}

static enum esper_status write_with(struct collection *images, struct entry *entries, uint8_t *pixels, uint16_t *labels,
                                    const char *title, const char *path, size_t counts[SPLIT_COUNT],
                                    struct esper_error *error)
{
    struct packed packed = {.size = images->size, .classes = images->classes};
    TRY(split_all(images, entries, error));
    put_in_order(images, entries, pixels, labels, &packed);
    memcpy(counts, packed.count, sizeof packed.count);
    for (int split = 0; split < SPLIT_COUNT; split++)
        if (!packed.count[split])
            return error_set(error, ESPER_INVALID, "no image in %s", split_name((enum split)split));
    return write_packed(images, &packed, title, path, error);
}

enum esper_status collection_write(struct collection *images, const char *title, const char *path,
                                   size_t counts[SPLIT_COUNT], struct esper_error *error)
{
    struct entry *entries = memory_alloc(images->count, sizeof *entries, error);
    uint16_t *labels = entries ? memory_alloc(images->count, sizeof *labels, error) : NULL;
    uint8_t *pixels = labels ? memory_alloc(images->count, image_bytes(images), error) : NULL;
    enum esper_status status = pixels ? write_with(images, entries, pixels, labels, title, path, counts, error)
                                      : ESPER_FAILED;
    memory_free(entries);
    memory_free(labels);
    memory_free(pixels);
    return status;
}
