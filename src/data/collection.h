/*
 * Images of one's own on their way into a packed file: whoever reads a format fills a collection; here it is split,
 * measured and written (E-24). docs/data.md describes what comes out.
 */
#ifndef DATA_COLLECTION_H
#define DATA_COLLECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "data/dataset.h"

/* Bytes of pixels, at most: they are packed in memory. */
#define COLLECTION_BYTES ((size_t)4 << 30)

struct collection {
    int size, classes;
    size_t count;
    uint8_t *images;         /* [count][size][size][3] */
    uint16_t *labels;        /* [count] */
    uint8_t *split;          /* [count] enum split; SPLIT_TRAIN where that is still open */
    bool given[SPLIT_COUNT]; /* the splits that its source has; what it lacks is taken from the training images */
    char *names;             /* of the classes, a line each; NULL: they are numbers */
    size_t ignored;          /* files that were no pictures */
};

/* Room for that many images of that size. */
enum esper_status collection_alloc(struct collection *images, size_t count, size_t width, size_t height,
                                   struct esper_error *error);
void collection_free(struct collection *images);

/* Image i from `pixels` [size][size][colours], where grey has one colour. */
void collection_put(struct collection *images, size_t i, const uint8_t *pixels, int colours);

/* Whether there are from 2 to 1000 classes, each with images. */
enum esper_status collection_check(const struct collection *images, struct esper_error *error);

/* Reads what `path` is: a folder of pictures by class, a folder of IDX files, or arrays in a safetensors file. The
 * collection is the caller's to free, whatever is returned. */
enum esper_status collection_read(struct collection *images, const char *path, struct esper_error *error);

/* The readers of these three. */
bool idx_folder(const char *path);
enum esper_status idx_collect(struct collection *images, const char *directory, struct esper_error *error);
enum esper_status folder_collect(struct collection *images, const char *directory, struct esper_error *error);
enum esper_status arrays_collect(struct collection *images, const char *path, struct esper_error *error);

/* Chooses the splits that are not given, a tenth of each class, and writes the packed file of a set called `title`;
 * `counts` becomes the images of each split. */
enum esper_status collection_write(struct collection *images, const char *title, const char *path,
                                   size_t counts[SPLIT_COUNT], struct esper_error *error);

/* Mean and deviation, rounded so that every machine normalises by them to the same bits (data/gather.h). */
void collection_round(double *mean, double *deviation);

#endif
