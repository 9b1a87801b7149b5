/*
 * Images as arrays. IDX, the format in which MNIST is published: a folder of
 *
 *   train-images-idx3-ubyte  train-labels-idx1-ubyte  [.gz]
 *
 * and, if there are, val-..., and test-... or t10k-...; idx4 has a fourth dimension of three colours. And safetensors:
 * the tensors `images` and `labels`, or `train.images`, `train.labels` and likewise for val and test.
 */
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#ifdef HAVE_PNG /* libpng, and zlib with it */
#include <zlib.h>
#endif

#include "base/file.h"
#include "base/memory.h"
#include "base/safetensors.h"
#include "data/collection.h"

/* The images and labels of a split, wherever they lie. */
struct array {
    const uint8_t *pixels; /* [count][height][width][colours] */
    size_t count, height, width;
    int colours;
    const void *labels; /* [count] */
    enum st_dtype type; /* of a label */
};

static bool label_at(const struct array *array, size_t i, int64_t *label)
{
    switch (array->type) {
    case ST_U8:
        *label = ((const uint8_t *)array->labels)[i];
        return true;
    case ST_U16:
        *label = ((const uint16_t *)array->labels)[i];
        return true;
    case ST_I32:
        *label = ((const int32_t *)array->labels)[i];
        return true;
    case ST_I64:
        *label = ((const int64_t *)array->labels)[i];
        return true;
    default:
        return false;
    }
}

/* All splits that there are, one after the other; those without images have no pixels. */
static enum esper_status take_arrays(struct collection *images, const struct array arrays[SPLIT_COUNT],
                                     struct esper_error *error)
{
    const struct array *train = &arrays[SPLIT_TRAIN];
    size_t count = 0, at = 0;
    for (int split = 0; split < SPLIT_COUNT; split++) {
        const struct array *array = &arrays[split];
        images->given[split] = array->pixels != NULL;
        if (array->pixels && (array->width != train->width || array->height != train->height))
            return error_set(error, ESPER_INVALID, "images of %zux%zu pixels in %s, of %zux%zu in train", array->width,
                             array->height, split_name((enum split)split), train->width, train->height);
        if (array->count > COLLECTION_BYTES)
            return error_set(error, ESPER_INVALID, "%zu images in %s; too many", array->count,
                             split_name((enum split)split));
        count += array->count;
    }
    TRY(collection_alloc(images, count, train->width, train->height, error));
    for (int split = 0; split < SPLIT_COUNT; split++)
        for (size_t i = 0; i < arrays[split].count; i++, at++) {
            const struct array *array = &arrays[split];
            int64_t label = -1;
            if (!label_at(array, i, &label) || label < 0 || label >= DATASET_CLASSES_MAX)
                return error_set(error, ESPER_INVALID, "label %zu of %s is %lld, not a class from 0 to %d", i,
                                 split_name((enum split)split), (long long)label, DATASET_CLASSES_MAX - 1);
            collection_put(images, at, array->pixels + i * array->height * array->width * (size_t)array->colours,
                           array->colours);
            images->labels[at] = (uint16_t)label;
            images->split[at] = (uint8_t)split;
            images->classes = label >= images->classes ? (int)label + 1 : images->classes;
        }
    return ESPER_OK;
}

/* ---- IDX --------------------------------------------------------------------------------------------------------- */

enum { IDX_DIMS = 4, IDX_WORD = 4, IDX_HEADER = (1 + IDX_DIMS) * IDX_WORD };

/* The bytes of a file, from its magic number on: bytes in `dims` dimensions of those sizes. */
struct idx {
    uint8_t *bytes; /* released with memory_free */
    size_t size, shape[IDX_DIMS];
    int dims;
};

static uint32_t big_endian(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

/* What a header says, and how many bytes such a file has. A number that lies must not become an allocation. */
static enum esper_status read_header(struct idx *idx, const uint8_t *header, size_t size, size_t *total,
                                     struct esper_error *error)
{
    const uint32_t magic = size >= IDX_WORD ? big_endian(header) : 0;
    idx->dims = (int)(magic & 0xff);
    if (magic >> 8 != 8 || (idx->dims != 1 && idx->dims != 3 && idx->dims != 4))
        return error_set(error, ESPER_INVALID, "not an IDX file of bytes in 1, 3 or 4 dimensions");
    const size_t head = IDX_WORD * (size_t)(1 + idx->dims);
    if (size < head)
        return error_set(error, ESPER_INVALID, "%zu bytes, too few for a header", size);
    *total = 1;
    for (int d = 0; d < idx->dims; d++) {
        idx->shape[d] = big_endian(header + IDX_WORD * (size_t)(1 + d));
        if (idx->shape[d] < 1 || idx->shape[d] > COLLECTION_BYTES / *total)
            return error_set(error, ESPER_INVALID, "its header announces nothing, or too much (%zu in dimension %d)",
                             idx->shape[d], d);
        *total *= idx->shape[d];
    }
    *total += head;
    return ESPER_OK;
}

static enum esper_status check_length(const struct idx *idx, size_t total, struct esper_error *error)
{
    if (idx->size != total)
        return error_set(error, ESPER_INVALID, "%zu bytes%s, its header says %zu", idx->size,
                         idx->size > total ? " or more" : "", total);
    return ESPER_OK;
}

static enum esper_status read_plain(struct idx *idx, const char *path, struct esper_error *error)
{
    void *data;
    size_t total;
    TRY(file_load(path, &data, &idx->size, error));
    idx->bytes = data;
    TRY(read_header(idx, idx->bytes, idx->size, &total, error));
    return check_length(idx, total, error);
}

#ifdef HAVE_PNG
static enum esper_status unpack(struct idx *idx, gzFile file, struct esper_error *error)
{
    uint8_t header[IDX_HEADER];
    size_t total;
    int got = gzread(file, header, sizeof header);
    TRY(read_header(idx, header, got < 0 ? 0 : (size_t)got, &total, error));
    idx->bytes = memory_alloc(total + 1, 1, error); /* a byte more shows that there are too many */
    if (!idx->bytes)
        return ESPER_FAILED;
    memcpy(idx->bytes, header, (size_t)got < total ? (size_t)got : total);
    idx->size = (size_t)got;
    while (idx->size <= total && got > 0) {
        const size_t left = total + 1 - idx->size;
        got = gzread(file, idx->bytes + idx->size, (unsigned)(left < INT_MAX ? left : INT_MAX));
        idx->size += got > 0 ? (size_t)got : 0;
    }
    return got < 0 ? error_set(error, ESPER_INVALID, "cannot be decompressed") : check_length(idx, total, error);
}

static enum esper_status read_packed(struct idx *idx, const char *path, struct esper_error *error)
{
    gzFile file = gzopen(path, "rb");
    if (!file)
        return error_set(error, ESPER_INVALID, "cannot be opened");
    enum esper_status status = unpack(idx, file, error);
    if (gzclose(file) != Z_OK && status == ESPER_OK)
        status = error_set(error, ESPER_INVALID, "cannot be decompressed to its end");
    return status;
}
#else
static enum esper_status read_packed(struct idx *idx, const char *path, struct esper_error *error)
{
    (void)idx;
    (void)path;
    return error_set(error, ESPER_UNSUPPORTED,
                     "built without zlib: decompress the files first (gzip -d), or apt-get install libpng-dev "
                     "zlib1g-dev and make again");
}
#endif

/* The file of images or labels that begins with `start`, as it is or compressed; false where there is none. */
static bool find_idx(const char *directory, const char *start, const char *what, char path[PATH_MAX], bool *packed)
{
    static const char *const ends[] = {"idx1", "idx3", "idx4"};
    const bool labels = strcmp(what, "labels") == 0;
    for (int end = labels ? 0 : 1; end < (labels ? 1 : 3); end++)
        for (int zipped = 0; zipped < 2; zipped++)
            if (snprintf(path, PATH_MAX, "%s/%s-%s-%s-ubyte%s", directory, start, what, ends[end],
                         zipped ? ".gz" : "") < PATH_MAX &&
                access(path, F_OK) == 0) {
                *packed = zipped;
                return true;
            }
    return false;
}

bool idx_folder(const char *path)
{
    char found[PATH_MAX];
    bool packed;
    return find_idx(path, "train", "images", found, &packed);
}

static enum esper_status read_idx(struct idx *idx, const char *directory, const char *start, const char *what,
                                  struct esper_error *error)
{
    char path[PATH_MAX];
    bool packed;
    if (!find_idx(directory, start, what, path, &packed))
        return error_set(error, ESPER_INVALID, "%s: no %s-%s-idx1-ubyte beside the images", directory, start, what);
    enum esper_status status = packed ? read_packed(idx, path, error) : read_plain(idx, path, error);
    const bool labels = strcmp(what, "labels") == 0;
    if (status == ESPER_OK && labels != (idx->dims == 1))
        status = error_set(error, ESPER_INVALID, "%d dimensions, not those of %s", idx->dims, what);
    if (status == ESPER_OK && idx->dims == 4 && idx->shape[3] != 1 && idx->shape[3] != DATASET_COLOURS)
        status = error_set(error, ESPER_INVALID, "%zu colours; grey has 1, colour 3", idx->shape[3]);
    return status == ESPER_OK ? ESPER_OK : error_where(error, "%s", path);
}

static enum esper_status read_split(struct idx idx[2], const char *directory, const char *start, struct array *array,
                                    struct esper_error *error)
{
    TRY(read_idx(&idx[0], directory, start, "images", error));
    TRY(read_idx(&idx[1], directory, start, "labels", error));
    const struct idx *images = &idx[0], *labels = &idx[1];
    if (labels->shape[0] != images->shape[0])
        return error_set(error, ESPER_INVALID, "%s: %zu images and %zu labels in %s", directory, images->shape[0],
                         labels->shape[0], start);
    *array = (struct array){.pixels = images->bytes + IDX_WORD * (size_t)(1 + images->dims),
                            .count = images->shape[0],
                            .height = images->shape[1],
                            .width = images->shape[2],
                            .colours = images->dims == 4 ? (int)images->shape[3] : 1,
                            .labels = labels->bytes + IDX_WORD * 2,
                            .type = ST_U8};
    return ESPER_OK;
}

enum esper_status idx_collect(struct collection *images, const char *directory, struct esper_error *error)
{
    static const char *const starts[SPLIT_COUNT] = {"train", "val", "test"};
    struct idx idx[SPLIT_COUNT][2] = {0};
    struct array arrays[SPLIT_COUNT] = {0};
    enum esper_status status = ESPER_OK;
    for (int split = 0; split < SPLIT_COUNT && status == ESPER_OK; split++) {
        char path[PATH_MAX];
        bool packed;
        const char *start = starts[split];
        if (split == SPLIT_TEST && !find_idx(directory, start, "images", path, &packed))
            start = "t10k"; /* as MNIST calls it */
        if (find_idx(directory, start, "images", path, &packed))
            status = read_split(idx[split], directory, start, &arrays[split], error);
    }
    if (status == ESPER_OK && (status = take_arrays(images, arrays, error)) != ESPER_OK)
        error_where(error, "%s", directory);
    for (int split = 0; split < SPLIT_COUNT; split++) {
        memory_free(idx[split][0].bytes);
        memory_free(idx[split][1].bytes);
    }
    return status;
}

/* ---- safetensors ------------------------------------------------------------------------------------------------- */

static enum esper_status check_images(const struct st_tensor *images, struct esper_error *error)
{
    if (images->dtype != ST_U8)
        return error_set(error, ESPER_INVALID, "tensor %s is %s; images are bytes, U8 from 0 to 255", images->name,
                         st_dtype_name(images->dtype));
    if (images->dims != 3 && (images->dims != 4 || (images->shape[3] != 1 && images->shape[3] != DATASET_COLOURS)))
        return error_set(error, ESPER_INVALID,
                         "tensor %s has not the shape [images, height, width] or [images, height, width, 1 or 3]: "
                         "colours come last",
                         images->name);
    return ESPER_OK;
}

static enum esper_status check_labels(const struct st_tensor *labels, const struct st_tensor *images,
                                      struct esper_error *error)
{
    if (labels->dtype != ST_U8 && labels->dtype != ST_U16 && labels->dtype != ST_I32 && labels->dtype != ST_I64)
        return error_set(error, ESPER_INVALID, "tensor %s is %s; labels are U8, U16, I32 or I64", labels->name,
                         st_dtype_name(labels->dtype));
    if (labels->dims != 1 || labels->shape[0] != images->shape[0] || labels->shape[0] == 0)
        return error_set(error, ESPER_INVALID, "tensor %s has not the shape [%zu], one label for each image",
                         labels->name, images->shape[0]);
    return ESPER_OK;
}

/* Tensors whose names begin so; images without labels, and the other way round, are an error. */
static enum esper_status find_arrays(const struct st_file *file, const char *start, struct array *array,
                                     struct esper_error *error)
{
    char images_name[32], labels_name[32];
    snprintf(images_name, sizeof images_name, "%simages", start);
    snprintf(labels_name, sizeof labels_name, "%slabels", start);
    const struct st_tensor *images = st_find(file, images_name), *labels = st_find(file, labels_name);
    if (!images && !labels)
        return ESPER_OK;
    if (!images || !labels)
        return error_set(error, ESPER_INVALID, "tensor %s is missing", images ? labels_name : images_name);
    TRY(check_images(images, error));
    TRY(check_labels(labels, images, error));
    *array = (struct array){.pixels = images->data,
                            .count = images->shape[0],
                            .height = images->shape[1],
                            .width = images->shape[2],
                            .colours = images->dims == 4 ? (int)images->shape[3] : 1,
                            .labels = labels->data,
                            .type = labels->dtype};
    return ESPER_OK;
}

static enum esper_status take_file(struct collection *images, const struct st_file *file, struct esper_error *error)
{
    static const char *const starts[SPLIT_COUNT] = {"train.", "val.", "test."};
    struct array arrays[SPLIT_COUNT] = {0};
    for (int split = 0; split < SPLIT_COUNT; split++)
        TRY(find_arrays(file, starts[split], &arrays[split], error));
    if (!arrays[SPLIT_TRAIN].pixels)
        TRY(find_arrays(file, "", &arrays[SPLIT_TRAIN], error));
    if (!arrays[SPLIT_TRAIN].pixels)
        return error_set(error, ESPER_INVALID, "no tensors images and labels here, nor train.images and train.labels");
    return take_arrays(images, arrays, error);
}

enum esper_status arrays_collect(struct collection *images, const char *path, struct esper_error *error)
{
    struct st_file *file;
    TRY(st_open(path, &file, error));
    enum esper_status status = take_file(images, file, error);
    st_close(file);
    return status == ESPER_OK ? ESPER_OK : error_where(error, "%s", path);
}
