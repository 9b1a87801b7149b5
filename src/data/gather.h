/*
 * From bytes to what a network reads: pick images in an env's order, crop, flip, normalise, and lay them out as
 * NHWC floats with four floats per pixel (red, green, blue, 0), so that a pixel is one vector. Windows of text are
 * copied as they are.
 *
 * The values are those of the exact table normalised(u8) = (u8/255 - mean)/std, computed in f64 and rounded once.
 */
#ifndef DATA_GATHER_H
#define DATA_GATHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "data/augment.h"
#include "data/conditions.h"
#include "data/dataset.h"

enum {
    GATHER_CHANNELS = 4, /* floats per pixel written: three colours and a zero */
};

/*
 * The normalisation in three steps: t = u8 - centre, then t*slope + (t*slope_rest + offset). centre is the mean and
 * slope the scale, cut to so few bits that t and t*slope are exact in f32; slope_rest and offset carry what was cut
 * off. The result is bit-equal to the table for all 3 * 256 values, fused or not (tested exhaustively), and needs no
 * look-ups.
 */
struct gather_table {
    float centre[GATHER_CHANNELS], slope[GATHER_CHANNELS]; /* the fourth channel is 0 throughout */
    float slope_rest[GATHER_CHANNELS], offset[GATHER_CHANNELS];
};

/* For the mean and deviation of a data set; empty for text. */
struct gather_table gather_table_make(const struct data_facts *set);

/* The definition: what the vector form must equal, bit for bit. */
float gather_normalise(const struct data_facts *set, int channel, uint8_t value);

/*
 * Write one size x size image (size at most DATASET_SIZE_MAX), cropped at top, left of its padded frame (CROP_PAD each
 * leaves it as it is) and perhaps mirrored, to `out`, its first interior pixel; rows are row_stride_floats apart. The
 * space between the rows, such as a zero halo, belongs to the caller and is not touched.
 */
void gather_image(const struct gather_table *table, const uint8_t *image, int size, int top, int left, bool flip,
                  float *out, size_t row_stride_floats);

/* Where a batch goes. Strides in floats. */
struct gather_target {
    float *images;       /* first interior pixel of the first image */
    size_t image_stride; /* from an image to the next */
    size_t row_stride;   /* from a row to the next */
    uint16_t *labels;    /* [count] */
    uint8_t *tokens;     /* text: [count][context + 1]; the rest is for images, and NULL or 0 */
    size_t token_stride; /* bytes from a row to the next */
};

/* Which training batch: everything that determines its samples, and nothing else. */
struct gather_job {
    uint64_t seed;
    uint32_t round, env;
    uint32_t step;    /* from 1 */
    uint32_t index;   /* of the batch within the step, from 0 */
    uint32_t batches; /* per step */
    uint32_t batch;   /* samples per batch */
    enum augment augment;
    struct conditions conditions; /* of the env in this round */
};

/* Batch `job` of the training split, in the env's own order: images and labels, or tokens. */
void gather_batch(const struct gather_table *table, const struct dataset *dataset, const struct gather_job *job,
                  const struct gather_target *target);

/* Samples first .. first + count - 1 of a split in file order, as they are: validation and test. */
void gather_range(const struct gather_table *table, const struct dataset *dataset, enum split split, size_t first,
                  size_t count, const struct gather_target *target);

#endif
