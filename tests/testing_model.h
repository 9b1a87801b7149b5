/* Networks for the tests of exports: any host, any seeds, random weights. */
#ifndef TESTS_TESTING_MODEL_H
#define TESTS_TESTING_MODEL_H

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/philox.h"
#include "data/data_set.h"
#include "model/graph.h"
#include "model/runner.h"
#include "testing_folder.h"

static inline float random_float(struct random_site at, uint32_t i)
{
    return (float)random_word(at, i) * 0x1p-31f - 1;
}

/* Every parameter in use, statistics included: a fresh norm or a dead ReLU would hide a mistake. */
static inline void randomise(struct model *model, uint32_t number)
{
    struct model_tensor tensors[MODEL_TENSORS];
    int count = model_tensors(model, tensors);
    for (int t = 0; t < count; t++) {
        struct random_site at = {.seed = 77, .a = number, .env = (uint32_t)t};
        const char *part = strrchr(tensors[t].name, '.');
        int fan_in = 1;
        for (int d = 1; d < tensors[t].dims; d++)
            fan_in *= tensors[t].shape[d];
        for (size_t i = 0; i < tensors[t].size; i++) {
            float u = random_float(at, (uint32_t)i);
            bool positive = strcmp(part, ".gamma") == 0 || strcmp(part, ".beta") == 0 || strcmp(part, ".var") == 0;
            tensors[t].data[i] = positive ? 1 + 0.5f * u : tensors[t].dims < 2 ? u : u * sqrtf(3.0f / (float)fan_in);
        }
    }
}

struct host_case {
    const char *name;
    int base, blocks, kernel, pools, size;
};

static const struct host_case host_cases[] = {
    {"quickstart", 4, 3, 1, 3, 16},           {"cifar_impaired", 1, 3, 1, 3, 32},    {"cifar_baseline", 8, 3, 3, 3, 32},
    {"no pools, odd widths", 3, 2, 3, 0, 16}, {"down to one pixel", 5, 4, 3, 4, 16},
};
enum { HOST_CASES = sizeof host_cases / sizeof host_cases[0] };

static inline struct model *random_model(const struct host_case *host, const struct model_seed *seeds, int count,
                                         uint32_t number)
{
    const struct config config = {.host_base = host->base,
                                  .host_blocks = host->blocks,
                                  .host_kernel = host->kernel,
                                  .host_pools = host->pools,
                                  .data_set = DATA_SYNTHETIC,
                                  .data_size = host->size,
                                  .data_classes = SHAPE_CLASSES};
    struct model *model;
    struct esper_error error = {0};
    if (model_make(&model, &config, seeds, count, &error) != ESPER_OK)
        fail_msg("%s", error.text);
    randomise(model, number);
    snprintf(model->source.run, sizeof model->source.run, "test");
    return model;
}

/* ---- transformers ------------------------------------------------------------------------------------------------ */

struct text_case {
    const char *name;
    int width, heads, layers, context, segments;
};

static inline struct model *random_text_model(const struct text_case *host, const struct model_seed *seeds, int count,
                                              uint32_t number)
{
    const struct config config = {.host_family = FAMILY_TRANSFORMER,
                                  .host_width = host->width,
                                  .host_heads = host->heads,
                                  .host_layers = host->layers,
                                  .host_context = host->context,
                                  .host_segments = host->segments,
                                  .data_set = DATA_LANGUAGE};
    struct model *model;
    struct esper_error error = {0};
    if (model_make(&model, &config, seeds, count, &error) != ESPER_OK)
        fail_msg("%s", error.text);
    randomise(model, number);
    snprintf(model->source.run, sizeof model->source.run, "test");
    return model;
}

/* ---- samples ----------------------------------------------------------------------------------------------------- */

/* [count][size][size][3] bytes: noise around a different colour in every image. Release with memory_free. */
static inline uint8_t *random_images(int count, int size, uint32_t number)
{
    size_t bytes = (size_t)size * (size_t)size * 3;
    uint8_t *images = memory_alloc((size_t)count * bytes, 1, NULL);
    assert_non_null(images);
    for (int n = 0; n < count; n++) {
        struct random_site at = {.seed = 78, .a = number, .env = (uint32_t)n};
        for (size_t i = 0; i < bytes; i++)
            images[(size_t)n * bytes + i] =
                (uint8_t)(random_word(at, (uint32_t)(i % 3)) % 192 + random_word(at, (uint32_t)i + 3) % 64);
    }
    return images;
}

static inline void logits_of_model(const struct model *model, const uint8_t *samples, int count, float *logits)
{
    struct model_runner *runner;
    struct esper_error error = {0};
    if (model_runner_create(&runner, model, 8, &error) != ESPER_OK)
        fail_msg("%s", error.text);
    model_logits(runner, samples, (size_t)count, logits);
    model_runner_free(runner);
}

#endif
