#include "model/runner.h"

#include "base/memory.h"
#include "data/gather.h"
#include "variant/variant.h"

struct model_runner {
    const struct model *model;
    const struct net_kernels *nets;
    struct gather_table normalise;
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
    runner->normalise = gather_table_make(data_facts_of(model->config.data_set));
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

static void run_batch(struct model_runner *runner, const uint8_t *images, int count, float *logits)
{
    const struct model *model = runner->model;
    struct net_input input = runner->nets->input(runner->net);
    int size = model->config.data_size;
    size_t bytes = (size_t)size * (size_t)size * DATASET_COLOURS;
    float alpha[1][SHAPE_SLOTS] = {{0}};
    struct net_score score = {0}; /* of labels that nobody gave: not used */
    for (int n = 0; n < count; n++)
        gather_image(&runner->normalise, images + (size_t)n * bytes, size, CROP_PAD, CROP_PAD, false,
                     input.pixels + (size_t)n * input.image_stride, input.row_stride);
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

void model_logits(struct model_runner *runner, const uint8_t *images, size_t count, float *logits)
{
    int size = runner->model->config.data_size;
    size_t bytes = (size_t)size * (size_t)size * DATASET_COLOURS;
    for (size_t first = 0; first < count; first += (size_t)runner->batch) {
        size_t left = count - first;
        run_batch(runner, images + first * bytes, left < (size_t)runner->batch ? (int)left : runner->batch,
                  logits + first * SHAPE_CLASSES);
    }
}
