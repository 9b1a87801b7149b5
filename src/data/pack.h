/*
 * What importers fill and what becomes a packed file: the training images of a set, then its test images, in the order
 * of its files. The last of the training images are the validation split.
 */
#ifndef DATA_PACK_H
#define DATA_PACK_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "data/dataset.h"

enum { PACK_IMAGE_BYTES = DATASET_SIZE_MAX * DATASET_SIZE_MAX * DATASET_COLOURS };

struct pack {
    enum data_set set;
    size_t train, test; /* images; `train` includes those for validation */
    uint8_t *images;    /* [train + test][32][32][3] */
    uint8_t *labels;    /* [train + test] */
};

/* Room for that many images; real sets have pack_whole, tests use small ones. */
enum esper_status pack_alloc(struct pack *pack, enum data_set set, size_t train, size_t test,
                             struct esper_error *error);
enum esper_status pack_whole(struct pack *pack, enum data_set set, struct esper_error *error);
void pack_free(struct pack *pack);

/* The images of each split; validation gets its share of the training images, whatever their number. */
size_t pack_count(const struct pack *pack, enum split split);

/* Write the first count[split] images of each split; `source` says in the metadata where they came from. */
enum esper_status pack_write(const struct pack *pack, const size_t count[SPLIT_COUNT], const char *source,
                             const char *path, struct esper_error *error);

#endif
