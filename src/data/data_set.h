/* The data sets, and what is known of each before it is opened. A new one is a word here and a row in data_set.c. */
#ifndef DATA_DATA_SET_H
#define DATA_DATA_SET_H

#include <stdbool.h>

#include "base/config.h"
#include "base/vocabulary.h"

/* As the key data.set names them, in the order of their wire values. */
#define DATA_SET_WORDS(WORD, with)                                                                                     \
    WORD(with, CIFAR10, cifar10)                                                                                       \
    WORD(with, SYNTHETIC, synthetic)                                                                                   \
    WORD(with, FASHION, fashion)                                                                                       \
    WORD(with, MNIST, mnist)                                                                                           \
    WORD(with, TEXT, text)                                                                                             \
    WORD(with, LANGUAGE, language)                                                                                     \
    WORD(with, IMAGES, images)

enum data_set { DATA_SET_WORDS(WORD_ENUM, DATA) DATA_SETS };

enum data_kind { KIND_IMAGES, KIND_TEXT };

struct data_facts {
    const char *name;  /* in keys and commands, and of the packed file: NAME.safetensors */
    const char *title; /* as people call it */
    enum data_kind kind;
    bool packed;          /* from a file; otherwise made in memory */
    bool own;             /* somebody's own images: classes, size, counts and colours are the file's to say */
    int train, val, test; /* images of each split (E-11), or bytes; 0 where they are the file's to say */

    /* Of images alone. Those that are published are packed 32 pixels wide, the synthetic ones 16 or 32. */
    bool crop, mirror;            /* what leaves its training images in their class (E-12) */
    double mean[3], deviation[3]; /* per colour, of all its training images as packed, in 0 .. 1 (E-11) */
};

const struct data_facts *data_facts_of(int set);
/* The same for a configuration, which knows the colours of somebody's own images. */
struct data_facts data_facts_for(const struct config *config);
/* The set of that name; DATA_SETS when there is none. */
enum data_set data_set_named(const char *name);

#endif
