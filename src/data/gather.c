/*
 * A hot loop: every training image of every env passes through here. Contraction may be on, unlike elsewhere in plain
 * code: the steps of struct gather_table give the same bits either way.
 */
#pragma GCC optimize("O3", "unroll-loops", "fp-contract=fast")

#include "data/gather.h"

#include <math.h>
#include <string.h>

#include "data/order.h"
#include "data/window.h"

float gather_normalise(const struct data_facts *set, int channel, uint8_t value)
{
    return (float)((value / 255.0 - set->mean[channel]) / set->deviation[channel]);
}

struct gather_table gather_table_make(const struct data_facts *set)
{
    struct gather_table table = {0};
    if (set->kind != KIND_IMAGES)
        return table;
    for (int c = 0; c < DATASET_COLOURS; c++) {
        const double mean = 255 * set->mean[c], scale = 1 / (255 * set->deviation[c]);
        int exponent;
        frexp(scale, &exponent);
        /* 8 + 7 bits of t and 9 of slope: their product has 24. */
        const double centre = nearbyint(mean * 128) / 128, grid = ldexp(1, exponent - 9);
        const double slope = nearbyint(scale / grid) * grid;
        table.centre[c] = (float)centre;
        table.slope[c] = (float)slope;
        table.slope_rest[c] = (float)(scale - slope);
        table.offset[c] = (float)((centre - mean) * scale);
    }
    return table;
}

typedef uint8_t bytes16 __attribute__((vector_size(16)));
typedef uint16_t shorts8 __attribute__((vector_size(16)));
typedef float floats4 __attribute__((vector_size(16)));

enum {
    LOAD_SLACK = sizeof(bytes16), /* a pixel is loaded with the bytes that follow it */
    CACHE_LINE = 64,
};

/*
 * Three bytes, and one of the next pixel, each as the float PIXEL_BIAS + byte: put into the upper half of its 16 lowest
 * bits, a byte b turns the float 2^15 into 2^15 + b. The next pixel's byte will meet coefficients of 0.
 */
#define PIXEL_BIAS 0x1p15f

static inline floats4 pixel_load(const uint8_t *pixel)
{
    const bytes16 zero = {0};
    const shorts8 top = {0x4700, 0x4700, 0x4700, 0x4700, 0x4700, 0x4700, 0x4700, 0x4700};
    bytes16 bytes;
    memcpy(&bytes, pixel, sizeof bytes);
    bytes16 pairs = __builtin_shufflevector(zero, bytes, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    return (floats4)__builtin_shufflevector((shorts8)pairs, top, 0, 8, 1, 9, 2, 10, 3, 11);
}

static inline floats4 floats4_load(const float *from)
{
    floats4 value;
    memcpy(&value, from, sizeof value);
    return value;
}

/* `step` is the distance from one pixel written to the next: +4, or -4 to mirror. */
static inline void pixels_normalise(const struct gather_table *table, const uint8_t *from, int count, float *out,
                                    int step)
{
    const floats4 biased_centre = floats4_load(table->centre) + PIXEL_BIAS, slope = floats4_load(table->slope);
    const floats4 slope_rest = floats4_load(table->slope_rest), offset = floats4_load(table->offset);
    for (int x = 0; x < count; x++) {
        floats4 t = pixel_load(from + x * DATASET_COLOURS) - biased_centre;
        floats4 result = t * slope + (t * slope_rest + offset);
        memcpy(out + x * step, &result, sizeof result);
    }
}

/* One row of the crop: black where it looks beyond the image, whose columns first .. first + seen - 1 it shows. */
static inline void row_normalise(const struct gather_table *table, const uint8_t *row, int size, int left, float *out,
                                 int step)
{
    static const uint8_t black[CROP_PAD * DATASET_COLOURS + LOAD_SLACK];
    int before = left < CROP_PAD ? CROP_PAD - left : 0, after = left > CROP_PAD ? left - CROP_PAD : 0;
    int seen = size - before - after;
    pixels_normalise(table, black, before, out, step);
    pixels_normalise(table, row + after * DATASET_COLOURS, seen, out + before * step, step);
    pixels_normalise(table, black, after, out + (before + seen) * step, step);
}

void gather_image(const struct gather_table *table, const uint8_t *image, int size, int top, int left, bool flip,
                  float *out, size_t row_stride_floats)
{
    static const uint8_t black[DATASET_SIZE_MAX * DATASET_COLOURS + LOAD_SLACK];
    uint8_t last[DATASET_SIZE_MAX * DATASET_COLOURS + LOAD_SLACK]; /* the last row, where a load may run past the end */
    const size_t row = (size_t)size * DATASET_COLOURS;
    const int step = flip ? -GATHER_CHANNELS : GATHER_CHANNELS;
    memcpy(last, image + (size_t)(size - 1) * row, row);
    float *start = flip ? out + (size - 1) * GATHER_CHANNELS : out;
    for (int y = 0; y < size; y++, start += row_stride_floats) {
        int from = y + top - CROP_PAD;
        const uint8_t *bytes = from < 0 || from >= size ? black : from == size - 1 ? last : image + (size_t)from * row;
        row_normalise(table, bytes, size, left, start, step);
    }
}

/* An env's walk through the training samples, pass after pass: order_sample without the keys of every pass anew. */
struct walk {
    const struct gather_job *job;
    struct order order, own; /* of the pass; of the samples that the env has, if not all */
    uint32_t count, pass, place;
    bool all;
};

static struct walk walk_begin(const struct gather_job *job, size_t whole)
{
    const uint32_t count = job->conditions.images;
    const uint64_t first = ((uint64_t)(job->step - 1) * job->batches + job->index) * job->batch;
    return (struct walk){.job = job,
                         .order = order_of_pass(job->seed, job->round, job->env, (uint32_t)(first / count), count),
                         .own = order_of_pass(job->seed, job->round, job->env, ORDER_OWN, (uint32_t)whole),
                         .count = count,
                         .pass = (uint32_t)(first / count),
                         .place = (uint32_t)(first % count),
                         .all = count == whole};
}

static uint32_t walk_next(struct walk *walk)
{
    if (walk->place == walk->count) { /* a batch may end one pass and begin the next */
        walk->place = 0;
        walk->order = order_of_pass(walk->job->seed, walk->job->round, walk->job->env, ++walk->pass, walk->count);
    }
    const uint32_t sample = order_at(&walk->order, walk->place++);
    return walk->all ? sample : order_at(&walk->own, sample);
}

static void copy_window(const struct dataset *dataset, enum split split, uint64_t start,
                        const struct gather_target *target, size_t row)
{
    memcpy(target->tokens + row * target->token_stride, dataset->stream[split] + start, (size_t)dataset->context + 1);
}

void gather_batch(const struct gather_table *table, const struct dataset *dataset, const struct gather_job *job,
                  const struct gather_target *target)
{
    const size_t bytes = (size_t)dataset->size * (size_t)dataset->size * DATASET_COLOURS;
    struct walk walk = walk_begin(job, dataset->count[SPLIT_TRAIN]);
    if (dataset->kind == KIND_TEXT) {
        for (uint32_t sample = 0; sample < job->batch; sample++)
            copy_window(dataset, SPLIT_TRAIN, walk_next(&walk), target, sample);
        return;
    }
    uint32_t image = walk_next(&walk);
    for (uint32_t sample = 0; sample < job->batch; sample++) {
        /* Images are scattered over memory: prefetch the next one while this one is processed. */
        const uint32_t next = walk_next(&walk);
        for (size_t at = 0; at < bytes; at += CACHE_LINE)
            __builtin_prefetch(dataset->images[SPLIT_TRAIN] + next * bytes + at);
        const struct crop crop =
            crop_draw(job->augment, job->seed, job->round, job->env, job->step, job->index, sample);
        gather_image(table, dataset->images[SPLIT_TRAIN] + image * bytes, dataset->size, crop.top, crop.left, crop.flip,
                     target->images + sample * target->image_stride, target->row_stride);
        target->labels[sample] = conditions_label(&job->conditions, job->seed, job->round, job->env, image,
                                                  dataset->labels[SPLIT_TRAIN][image], (uint32_t)dataset->classes);
        image = next;
    }
}

void gather_range(const struct gather_table *table, const struct dataset *dataset, enum split split, size_t first,
                  size_t count, const struct gather_target *target)
{
    if (dataset->kind == KIND_TEXT) {
        for (size_t i = 0; i < count; i++)
            copy_window(dataset, split, window_place((uint32_t)(first + i), (uint32_t)dataset->context), target, i);
        return;
    }
    const size_t bytes = (size_t)dataset->size * (size_t)dataset->size * DATASET_COLOURS;
    for (size_t i = 0; i < count; i++) {
        gather_image(table, dataset->images[split] + (first + i) * bytes, dataset->size, CROP_PAD, CROP_PAD, false,
                     target->images + i * target->image_stride, target->row_stride);
        target->labels[i] = dataset->labels[split][first + i];
    }
}
