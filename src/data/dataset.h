/*
 * A data set: three splits of small colour images as bytes, or three streams of text, read-only and shared by all
 * threads.
 *
 * Photographs, drawings and books are read from one packed safetensors file each (`esper data get` and `esper data
 * import` write it), which a checksum protects; the synthetic images and the synthetic language are made in memory,
 * once per process, the same bytes on every machine.
 */
#ifndef DATA_DATASET_H
#define DATA_DATASET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/config.h"
#include "base/place.h"
#include "base/status.h"
#include "data/data_set.h"

enum split { SPLIT_TRAIN, SPLIT_VAL, SPLIT_TEST, SPLIT_COUNT };

enum {
    DATASET_CLASSES = 10,
    DATASET_COLOURS = 3,
    DATASET_SIZE_MAX = 32,
    DATASET_CHECKSUM_TEXT = 9, /* eight hexadecimal digits */
};

#define DATASET_EXTENSION ".safetensors" /* of a packed file, after the set's name */
#define DATASET_IMAGES    "esper-images" /* the formats of a packed file, in its metadata */
#define DATASET_TEXT      "esper-text"
#define DATASET_VERSION   "1"
#define DATASET_CHECKSUM  "crc32" /* key of the checksum in the metadata */
#define DATASET_DOCUMENTS "documents"

struct dataset {
    enum data_kind kind;
    enum data_set set;
    size_t count[SPLIT_COUNT]; /* samples: images, or windows of the context (data/window.h) */

    int size; /* images are size x size */
    int classes;
    const uint8_t *images[SPLIT_COUNT]; /* [count][size][size][3] */
    const uint8_t *labels[SPLIT_COUNT]; /* [count], 0 .. classes - 1 */

    int context;                        /* a window of text is context + 1 bytes; 0: it has none */
    const uint8_t *stream[SPLIT_COUNT]; /* [bytes] */
    size_t bytes[SPLIT_COUNT];
    size_t documents; /* that the streams are made of; 0: none in particular */

    struct st_file *file; /* what the pointers point into, if it is a packed file; otherwise these are empty */
    char path[CONFIG_PATH];
    char checksum[DATASET_CHECKSUM_TEXT]; /* of its content, whether or not the file states it */
};

/* The i-th directory in which data is looked for: $ESPER_DATA, data/ in the working directory, the user's data
 * directory ($XDG_DATA_HOME/esper or ~/.local/share/esper). False past the last one. */
bool dataset_place(int i, struct place *place);
/* The set's packed file in the first place that has it; false when none does. */
bool dataset_find(enum data_set set, char path[CONFIG_PATH]);
/* The directory where it goes by default: $ESPER_DATA, data/ if that exists, the user's. */
void dataset_home(char path[CONFIG_PATH]);

/* `path` names the packed file of the set; NULL, empty or data/NAME.safetensors looks in all places. `size` is that of
 * a sample: packed images have 32, synthetic ones, which have no path, 16 or 32; of text it is the context, or 0. */
enum esper_status dataset_open(const char *path, enum data_set set, int size, struct dataset **out,
                               struct esper_error *error);
/* The size of a run's samples. */
int dataset_size(const struct config *config);
/* A set by its name, or the packed file of any: images of that size, or windows of that context. */
enum esper_status dataset_open_named(const char *text, int size, int context, struct dataset **out,
                                     struct esper_error *error);
void dataset_close(struct dataset *dataset);

const char *split_name(enum split split);

/* The rules of the keys data.*: whether the set has what they ask for. */
enum esper_status dataset_check(const struct config *config, struct esper_error *error);

/* The checksum of a set after another split: `crc` is that of the splits before it, 0 at first. */
uint32_t split_checksum(uint32_t crc, const uint8_t *images, const uint8_t *labels, size_t count, int size);

/* What a split holds, for people and for the importers' checks: values of mean and deviation in 0 .. 1. */
struct split_summary {
    size_t histogram[DATASET_CLASSES];
    double mean[DATASET_COLOURS], deviation[DATASET_COLOURS];
};

struct text_summary {
    uint64_t histogram[256];
    int distinct;   /* bytes that occur */
    double entropy; /* of single bytes, in bits */
};

/* Add a stream to a histogram that starts empty; the other figures are of all that was added. */
void text_summarise(struct text_summary *summary, const uint8_t *stream, size_t bytes);

struct split_summary split_summarise(const uint8_t *images, const uint8_t *labels, size_t count, int size);

#endif
