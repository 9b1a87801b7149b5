/*
 * From bytes to pixels on the device: which image, which crop, which value; of text, which window. The rules are
 * data/order.h, data/augment.h and data/window.h; values are bit-equal to gather_normalise, fused or not (see struct
 * gather_table).
 */
#ifndef DATA_GATHER_CUH
#define DATA_GATHER_CUH

#include "cuda/runtime.cuh"

extern "C" {
#include "base/assert.h"
#include "base/envs.h"
#include "data/gather.h"
#include "data/order.h"
#include "data/window.h"
}

/* The splits in device memory, and how their bytes become pixels. */
struct gather_data {
    const uint8_t *images[SPLIT_COUNT]; /* NHWC, with 16 readable bytes after the last */
    const uint16_t *labels[SPLIT_COUNT];
    const uint8_t *stream[SPLIT_COUNT]; /* text; NULL where the set is one of images, whose pointers it has not */
    uint32_t count[SPLIT_COUNT];        /* samples */
    int size, classes;                  /* of an image */
    uint32_t context;                   /* of a window of text */
    struct gather_table normalise;
};

/* What determines a training batch: struct gather_job for all envs. */
struct gather_source {
    struct gather_data data;
    const uint32_t *round, *step;        /* [1] in device memory: the clock, read when a kernel runs */
    struct conditions_arrays conditions; /* [env] likewise */
    int first_env;                       /* number of the first env */
    struct births births;
    uint32_t batches, batch; /* per step; images each */
    uint64_t seed;
    enum augment augment;
};

/* Copies a data set to the device. */
struct gather_data gather_upload(struct runtime *rt, const struct dataset *data, const struct gather_table *normalise);

/* One image as the network sees it. */
struct gather_view {
    const uint8_t *image;
    struct crop crop;
    uint16_t label;
};

/* Sample `sample` of batch `index` of the step in progress. */
DEVICE struct gather_view gather_train_view(const struct gather_source &source, uint32_t env, uint32_t index,
                                            uint32_t sample)
{
    const uint32_t birth = births_first(source.births, *source.round, env_number(source.first_env, (int)env));
    const uint32_t round = *source.round, step = *source.step + 1, whole = source.data.count[SPLIT_TRAIN];
    const uint64_t at = ((uint64_t)(step - 1) * source.batches + index) * source.batch + sample;
    const struct conditions conditions = conditions_load(&source.conditions, env);
    const uint32_t image = order_sample(source.seed, round, birth, at, conditions.images, whole);
    struct gather_view view;
    ESPER_ASSERT(image < whole && index < source.batches && sample < source.batch);
    view.image = source.data.images[SPLIT_TRAIN] +
                 (size_t)image * (size_t)(source.data.size * source.data.size * DATASET_COLOURS);
    view.crop = crop_draw(source.augment, source.seed, round, birth, step, index, sample);
    view.label = conditions_label(&conditions, source.seed, round, birth, image, source.data.labels[SPLIT_TRAIN][image],
                                  (uint32_t)source.data.classes);
    ESPER_ASSERT(view.label < source.data.classes);
    return view;
}

/* The same of a text: the first of its context + 1 bytes. */
DEVICE const uint8_t *gather_train_window(const struct gather_source &source, uint32_t env, uint32_t index,
                                          uint32_t sample)
{
    const uint32_t birth = births_first(source.births, *source.round, env_number(source.first_env, (int)env));
    const uint64_t at = ((uint64_t)*source.step * source.batches + index) * source.batch + sample;
    return source.data.stream[SPLIT_TRAIN] + order_sample(source.seed, *source.round, birth, at,
                                                          source.conditions.images[env],
                                                          source.data.count[SPLIT_TRAIN]);
}

/* Window i of a split: validation and test. */
DEVICE const uint8_t *gather_range_window(const struct gather_data &data, enum split split, uint32_t i)
{
    ESPER_ASSERT(i < data.count[split]);
    return data.stream[split] + window_place(i, data.context);
}

/* Image `image` of a split as it is: validation and test. */
DEVICE struct gather_view gather_range_view(const struct gather_data &data, enum split split, uint32_t image)
{
    struct gather_view view;
    ESPER_ASSERT(image < data.count[split] && data.labels[split][image] < data.classes);
    view.image = data.images[split] + (size_t)image * (size_t)(data.size * data.size * DATASET_COLOURS);
    view.crop = crop_none();
    view.label = data.labels[split][image];
    return view;
}

DEVICE float gather_value(const struct gather_table &table, int colour, int byte)
{
    float t = (float)byte - table.centre[colour];
    return fmaf(t, table.slope[colour], fmaf(t, table.slope_rest[colour], table.offset[colour]));
}

/* The pixel that the view shows at (y, x): red, green, blue, 0. The image is surrounded by black. */
DEVICE float4 gather_pixel(const struct gather_table &table, const struct gather_view &view, int size, int y, int x)
{
    int row = y + view.crop.top - CROP_PAD, column = (view.crop.flip ? size - 1 - x : x) + view.crop.left - CROP_PAD;
    int red = 0, green = 0, blue = 0;
    if (row >= 0 && row < size && column >= 0 && column < size) {
        const uint8_t *pixel = view.image + (size_t)((row * size + column) * DATASET_COLOURS);
        red = pixel[0];
        green = pixel[1];
        blue = pixel[2];
    }
    return make_float4(gather_value(table, 0, red), gather_value(table, 1, green), gather_value(table, 2, blue), 0.0f);
}

/*
 * Whole batches for kernels that read bf16: [env][image][y][x][4], red, green, blue, 0 in 8 bytes, and labels
 * [env][image], of which a byte is enough: these kernels have ten classes.
 */
struct gather_bf16 {
    uint2 *pixels;
    uint8_t *labels;
};

/* Batch `index` of the step in progress, of all envs. */
void gather_train_bf16(struct runtime *rt, const struct gather_source *source, int envs, struct gather_bf16 target,
                       uint32_t index);

#endif
