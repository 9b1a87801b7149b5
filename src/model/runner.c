#include "model/runner.h"

#include <string.h>

#include "base/memory.h"
#include "data/gather.h"
#include "variant/variant.h"

struct model_runner {
    const struct model *model;
    const struct net_kernels *nets;
    struct gather_table normalise;
    struct model_sample sample;
    int batch;
    void *memory;
    struct net *net;
};

enum esper_status model_runner_create(struct model_runner **out, const struct model *model, int batch,
                                      struct esper_error *error)
{
    struct model_runner *runner = memory_alloc(1, sizeof *runner, error);
    if (!runner)
        return ESPER_FAILED;
    runner->model = model;
    runner->nets = variant_best()->net[host_family_of(&model->config)->id];
    const struct data_facts set = data_facts_for(&model->config);
    runner->normalise = gather_table_make(&set);
    runner->sample = model_sample(model);
    runner->batch = batch;
    runner->memory = memory_alloc(runner->nets->bytes(&model->shape, batch), 1, error);
    if (!runner->memory) {
        model_runner_free(runner);
        return ESPER_FAILED;
    }
    runner->net = runner->nets->init(&model->shape, batch, runner->memory);
    *out = runner;
    return ESPER_OK;
}

void model_runner_free(struct model_runner *runner)
{
    if (!runner)
        return;
    memory_free(runner->memory);
    memory_free(runner);
}

static void place_samples(struct model_runner *runner, const uint8_t *samples, int count)
{
    const struct net_input input = runner->nets->input(runner->net);
    const int size = runner->sample.size;
    for (int n = 0; n < count; n++, samples += runner->sample.bytes)
        if (runner->sample.kind == KIND_TEXT)
            memcpy(input.tokens + (size_t)n * input.token_stride, samples, runner->sample.bytes);
        else
            gather_image(&runner->normalise, samples, size, CROP_PAD, CROP_PAD, false,
                         input.pixels + (size_t)n * input.image_stride, input.row_stride);
}

static void run_batch(struct model_runner *runner, const uint8_t *samples, int count, float *logits)
{
    const struct model *model = runner->model;
    float alpha[1][SHAPE_SLOTS] = {{0}};
    struct net_score score = {0}; /* of targets that nobody gave: not used */
    place_samples(runner, samples, count);
    for (int j = 0; j < model->shape.slots; j++)
        alpha[0][j] = model->exec[j].alpha;
    struct net_eval eval = {.samples = count,
                            .exec = model->exec,
                            .configs = 1,
                            .alpha = (const float(*)[SHAPE_SLOTS])alpha,
                            .score = &score,
                            .logits = logits};
    runner->nets->evaluate(runner->net, &model->params, &eval);
}

void model_logits(struct model_runner *runner, const uint8_t *samples, size_t count, float *logits)
{
    const size_t batch = (size_t)runner->batch, outputs = runner->sample.targets * runner->sample.classes;
    for (size_t first = 0; first < count; first += batch)
        run_batch(runner, samples + first * runner->sample.bytes, (int)(count - first < batch ? count - first : batch),
                  logits + first * outputs);
}
