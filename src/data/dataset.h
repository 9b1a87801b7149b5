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
    DATASET_CLASSES = 10, /* of all sets that the program knows */
    DATASET_CLASSES_MAX = 1000,
    DATASET_COLOURS = 3, /* grey images have three equal ones */
    DATASET_SIZE = 32,   /* of the published sets, as they are packed */
    DATASET_SIZE_MIN = 16,
    DATASET_SIZE_MAX = 64,
    DATASET_CHECKSUM_TEXT = 9, /* eight hexadecimal digits */
};

#define DATASET_EXTENSION ".safetensors" /* of a packed file, after the set's name */
#define DATASET_IMAGES    "esper-images" /* the formats of a packed file, in its metadata */
#define DATASET_TEXT      "esper-text"
#define DATASET_VERSION   "1"
#define DATASET_CHECKSUM  "crc32" /* key of the checksum in the metadata */
#define DATASET_DOCUMENTS "documents"
/* Of somebody's own images (docs/data.md): how they are called, what they are, and how they are normalised. */
#define DATASET_TITLE       "title"
#define DATASET_PIXELS      "size"
#define DATASET_CLASS_COUNT "classes"
#define DATASET_CLASS_NAMES "class_names" /* a line each */
#define DATASET_MEAN        "mean"        /* red green blue, in 0 .. 1 */
#define DATASET_DEVIATION   "deviation"

#define DATASET_DEVIATION_LEAST 1e-4

struct dataset {
    enum data_kind kind;
    enum data_set set;
    size_t count[SPLIT_COUNT]; /* samples: images, or windows of the context (data/window.h) */

    int size; /* images are size x size */
    int classes;
    const uint8_t *images[SPLIT_COUNT];                       /* [count][size][size][3] */
    const uint16_t *labels[SPLIT_COUNT];                      /* [count], 0 .. classes - 1 */
    double mean[DATASET_COLOURS], deviation[DATASET_COLOURS]; /* by which they are normalised */
    const char *class_names;                                  /* a line each; NULL: they are numbers */
    const char *name;                                         /* of the set, or the title of somebody's own */

    int context;                        /* a window of text is context + 1 bytes; 0: it has none */
    const uint8_t *stream[SPLIT_COUNT]; /* [bytes] */
    size_t bytes[SPLIT_COUNT];
    size_t documents; /* that the streams are made of; 0: none in particular */

    uint16_t *label_memory; /* those of a packed file, whose own may be bytes */
    struct st_file *file;   /* what the pointers point into, if it is a packed file; otherwise these are empty */
    char path[CONFIG_PATH];
    char checksum[DATASET_CHECKSUM_TEXT]; /* of its content, whether or not the file states it */
};

/* The i-th directory in which data is looked for: $ESPER_DATA, data/ in the working directory, the user's data
 * directory ($XDG_DATA_HOME/esper or ~/.local/share/esper). False past the last one. */
bool dataset_place(int i, struct place *place);
/* The packed file of that name (a set's, or one that `esper data import` was given) in the first place that has it;
 * false when none does. */
bool dataset_find(const char *name, char path[CONFIG_PATH]);
/* Whether a packed file may be so called: letters, digits, '.', '_' and '-', the first a letter or a digit; and it is
 * not the name of a set. */
enum esper_status dataset_check_name(const char *name, struct esper_error *error);
/* The directory where it goes by default: $ESPER_DATA, data/ if that exists, the user's. */
void dataset_home(char path[CONFIG_PATH]);

/* `path` names the packed file of the set; NULL, empty or data/NAME.safetensors looks in all places. `size` is that of
 * a sample: published images have 32, synthetic ones, which have no path, 16 or 32, one's own what their file says or
 * 0 for whatever it says; of text it is the context, or 0. */
enum esper_status dataset_open(const char *path, enum data_set set, int size, struct dataset **out,
                               struct esper_error *error);
/* What a configuration asks for: the file that data.path or data.name says, holding what it was settled for. */
enum esper_status dataset_open_for(const struct config *config, struct dataset **out, struct esper_error *error);
/* The size of a run's samples. */
int dataset_size(const struct config *config);
/* A set by its name, the packed file of any, or the name that one was imported under: images of that size, or windows
 * of that context. */
enum esper_status dataset_open_named(const char *text, int size, int context, struct dataset **out,
                                     struct esper_error *error);
void dataset_close(struct dataset *dataset);

const char *split_name(enum split split);

/* The rules of the keys data.*: whether the set has what they ask for. */
enum esper_status dataset_check(const struct config *config, struct esper_error *error);

/*
 * Classes, size and colours of somebody's own images are what their file says: write them into a configuration that
 * names such a set, and no more images than there are where nobody asked for a number. A key that was given and says
 * something else is an error (E-24). Other sets are left as they are.
 */
enum esper_status dataset_settle(struct config *config, struct esper_error *error);
/* Whether that was done: without a deviation, images cannot be normalised. */
enum esper_status dataset_settled(const struct config *config, struct esper_error *error);
/* Whether a set is the one that a configuration was settled for: a file may have been replaced since. */
enum esper_status dataset_matches(const struct config *config, const struct dataset *data, struct esper_error *error);

/* What a split holds, for people and for the importers' checks: values of mean and deviation in 0 .. 1. */
struct split_summary {
    size_t histogram[DATASET_CLASSES_MAX];
    double mean[DATASET_COLOURS], deviation[DATASET_COLOURS];
};

struct text_summary {
    uint64_t histogram[256];
    int distinct;   /* bytes that occur */
    double entropy; /* of single bytes, in bits */
};

/* Add a stream to a histogram that starts empty; the other figures are of all that was added. */
void text_summarise(struct text_summary *summary, const uint8_t *stream, size_t bytes);

struct split_summary split_summarise(const uint8_t *images, const uint16_t *labels, size_t count, int size);

#endif
