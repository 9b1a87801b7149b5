/* The data sets, and what is known of each before it is opened. A new one is a word here and a row in image_set.c. */
#ifndef DATA_IMAGE_SET_H
#define DATA_IMAGE_SET_H

#include <stdbool.h>

#include "base/vocabulary.h"

/* As the key data.set names them, in the order of their wire values. */
#define IMAGE_SETS(WORD, with)                                                                                         \
    WORD(with, CIFAR10, cifar10)                                                                                       \
    WORD(with, SYNTHETIC, synthetic)                                                                                   \
    WORD(with, FASHION, fashion)                                                                                       \
    WORD(with, MNIST, mnist)

enum data_set { IMAGE_SETS(WORD_ENUM, DATA) DATA_SETS };

struct image_set {
    const char *name;             /* in keys and commands, and of the packed file: NAME.safetensors */
    const char *title;            /* as people call it */
    bool packed;                  /* 32 x 32 pixels from a file; otherwise made in memory, 16 or 32 wide */
    bool crop, mirror;            /* what leaves its training images in their class (E-12) */
    int train, val, test;         /* images of each split (E-11) */
    double mean[3], deviation[3]; /* per colour, of all its training images as packed, in 0 .. 1 (E-11) */
};

const struct image_set *image_set_of(int set);
/* The set of that name; DATA_SETS when there is none. */
enum data_set image_set_named(const char *name);

#endif
