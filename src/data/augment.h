/*
 * Augmentation: a training image is padded with black and cropped back to its size at a random place; where the data
 * set allows it, half of the images are also mirrored. What is drawn depends only on where the image is used (E-08).
 */
#ifndef DATA_AUGMENT_H
#define DATA_AUGMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/config.h"
#include "base/philox.h"
#include "base/rule.h"
#include "data/data_set.h"

enum { CROP_PAD = 4 }; /* pixels of black on each side */

enum augment { AUGMENT_NONE, AUGMENT_CROP, AUGMENT_CROP_FLIP };

/* What a run does with the images of its set. */
static inline enum augment augment_of(const struct config *config)
{
    const struct data_facts *set = data_facts_of(config->data_set);
    return !config->data_augment || !set->crop ? AUGMENT_NONE : set->mirror ? AUGMENT_CROP_FLIP : AUGMENT_CROP;
}

struct crop {
    int top, left; /* 0 .. 2 * CROP_PAD; CROP_PAD leaves the image in place */
    bool flip;
};

ESPER_RULE struct crop crop_none(void)
{
    struct crop crop = {CROP_PAD, CROP_PAD, false};
    return crop;
}

/* Sample `sample` of a batch: stream 4, a = step * 2^16 + batch, block = sample, words top, left, flip. */
ESPER_RULE struct crop crop_draw(enum augment augment, uint64_t seed, uint32_t round, uint32_t env, uint32_t step,
                                 uint32_t batch, uint32_t sample)
{
    if (augment == AUGMENT_NONE)
        return crop_none();
    struct philox_block words = random_block(random_at(seed, STREAM_AUGMENT, round, env, (step << 16) + batch), sample);
    struct crop crop;
    crop.top = (int)((uint64_t)words.word[0] * (2 * CROP_PAD + 1) >> 32);
    crop.left = (int)((uint64_t)words.word[1] * (2 * CROP_PAD + 1) >> 32);
    crop.flip = augment == AUGMENT_CROP_FLIP && random_unit(words.word[2]) < 0.5f;
    return crop;
}

#endif
