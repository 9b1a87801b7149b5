/*
 * The synthetic set: stripes of five directions and two periods make ten classes, hue hints at them, noise covers both.
 * Integers only, so every machine makes the same bytes (E-10).
 */
#ifndef DATA_SYNTHETIC_H
#define DATA_SYNTHETIC_H

#include <stdint.h>

#include "data/dataset.h"

static inline int synthetic_label(uint32_t index)
{
    return (int)(index % DATASET_CLASSES);
}

/* Image `index` of a split as [size][size][3]; size is 16 or 32. */
void synthetic_image(enum split split, uint32_t index, int size, uint8_t *image);

#endif
