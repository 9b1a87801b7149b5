/*
 * The data sets, in one list: what is known of each before it is opened. A new one is a row here and a place in
 * enum data_set.
 */
#ifndef BASE_IMAGE_SET_H
#define BASE_IMAGE_SET_H

#include <stdbool.h>

enum data_set { DATA_CIFAR10, DATA_SYNTHETIC, DATA_FASHION, DATA_MNIST, DATA_SETS };

struct image_set {
    const char *name;             /* in keys and commands, and of the packed file: NAME.safetensors */
    const char *title;            /* as people call it */
    bool packed;                  /* 32 x 32 pixels from a file; otherwise made in memory, 16 or 32 wide */
    bool crop, mirror;            /* what leaves its training images in their class (E-12) */
    int train, val, test;         /* images of each split (E-11) */
    double mean[3], deviation[3]; /* per colour, of all its training images as packed, in 0 .. 1 (E-11) */
};

const struct image_set *image_set_of(enum data_set set);
/* The set of that name; DATA_SETS when there is none. */
enum data_set image_set_named(const char *name);

#endif
