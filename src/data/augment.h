/*
 * Augmentation: a training image is padded with black, cropped back to its size at a random place, and mirrored half of
 * the time. What is drawn depends only on where the image is used (E-08).
 */
#ifndef DATA_AUGMENT_H
#define DATA_AUGMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/philox.h"
#include "base/rule.h"

enum { CROP_PAD = 4 }; /* pixels of black on each side */

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
ESPER_RULE struct crop crop_draw(uint64_t seed, uint32_t round, uint32_t env, uint32_t step, uint32_t batch,
                                 uint32_t sample)
{
    struct philox_block words = random_block(random_at(seed, STREAM_AUGMENT, round, env, (step << 16) + batch), sample);
    struct crop crop;
    crop.top = (int)((uint64_t)words.word[0] * (2 * CROP_PAD + 1) >> 32);
    crop.left = (int)((uint64_t)words.word[1] * (2 * CROP_PAD + 1) >> 32);
    crop.flip = random_unit(words.word[2]) < 0.5f;
    return crop;
}

#endif
