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

enum { PACK_IMAGE_BYTES = DATASET_SIZE * DATASET_SIZE * DATASET_COLOURS };

struct pack {
    enum data_set set;
    size_t train, test; /* images; `train` includes those for validation */
    uint8_t *images;    /* [train + test][32][32][3] */
    uint16_t *labels;   /* [train + test] */
};

/* The splits of any set of images, as they are written. */
struct packed {
    int size, classes;
    size_t count[SPLIT_COUNT];
    const uint8_t *images[SPLIT_COUNT]; /* [count][size][size][3] */
    const uint16_t *labels[SPLIT_COUNT];
};

enum { PACKED_META = 16 }; /* most lines of metadata */

/* Write them; `meta` has the lines of metadata that say what they are and where they came from. */
enum esper_status packed_write(const struct packed *packed, const char *const meta[][2], int lines, const char *path,
                               struct esper_error *error);

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
