/* esper infer: run an exported network on a data set. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/safetensors.h"
#include "cli/cli.h"
#include "data/dataset.h"
#include "model/graph.h"
#include "model/runner.h"

/* Either form of an exported network. */
struct network {
    struct model *model;
    struct model_runner *model_runner;
    struct graph *graph;
    struct graph_runner *graph_runner;
    int size;
    char source[MODEL_TEXT];
};

enum { MODEL_BATCH = 64, GRAPH_BATCH = 8 };

static void network_close(struct network *network)
{
    model_runner_free(network->model_runner);
    model_free(network->model);
    graph_runner_free(network->graph_runner);
    graph_free(network->graph);
}

static enum esper_status open_model(struct network *network, const char *path, struct esper_error *error)
{
    TRY(model_read(path, &network->model, error));
    network->size = network->model->config.data_size;
    model_describe(&network->model->source, network->source);
    return model_runner_create(&network->model_runner, network->model, MODEL_BATCH, error);
}

static enum esper_status open_graph(struct network *network, const char *path, struct esper_error *error)
{
    TRY(onnx_read(path, &network->graph, error));
    const struct graph_value *input = &network->graph->values[network->graph->input];
    memcpy(network->source, network->graph->source, sizeof network->source);
    network->size = (int)input->shape[2];
    if (input->shape[2] != input->shape[3] || (network->size != 16 && network->size != 32))
        return error_set(error, ESPER_INVALID, "%s: takes images of %lldx%lld; the data sets have 16x16 or 32x32", path,
                         (long long)input->shape[2], (long long)input->shape[3]);
    if (graph_runner_create(&network->graph_runner, network->graph, GRAPH_BATCH, error) != ESPER_OK)
        return error_where(error, "%s", path);
    if (graph_classes(network->graph_runner) != DATASET_CLASSES)
        return error_set(error, ESPER_INVALID, "%s: has %d outputs; the data sets have %d classes", path,
                         graph_classes(network->graph_runner), DATASET_CLASSES);
    return ESPER_OK;
}

static enum esper_status network_open(struct network *network, const char *path, struct esper_error *error)
{
    void *data;
    size_t size;
    TRY(file_load(path, &data, &size, error));
    const char *kind = file_kind(data, size);
    memory_free(data);
    if (kind && strcmp(kind, FILE_SAFETENSORS) == 0)
        return open_model(network, path, error);
    if (kind && strcmp(kind, FILE_ONNX) != 0)
        return error_set(error, ESPER_INVALID, "%s: is %s; give a network that `esper export` wrote", path, kind);
    return open_graph(network, path, error);
}

static enum esper_status open_data(const char *text, int size, struct dataset **data, struct esper_error *error)
{
    if (data_set_named(text) != DATA_SYNTHETIC && size != DATASET_SIZE_MAX)
        return error_set(error, ESPER_INVALID, "%s: its images are %dx%d, the network takes %dx%d; try synthetic", text,
                         DATASET_SIZE_MAX, DATASET_SIZE_MAX, size, size);
    TRY(dataset_open_named(text, size, 0, data, error));
    if ((*data)->kind != KIND_IMAGES)
        return error_set(error, ESPER_INVALID, "%s: holds text, the network takes images of %dx%d; give images", text,
                         size, size);
    return ESPER_OK;
}

static size_t count_correct(const float *logits, const uint8_t *labels, size_t count)
{
    size_t correct = 0;
    for (size_t i = 0; i < count; i++, logits += DATASET_CLASSES) {
        int best = 0;
        for (int k = 1; k < DATASET_CLASSES; k++)
            if (logits[k] > logits[best])
                best = k;
        correct += best == labels[i];
    }
    return correct;
}

/* Images, labels and logits, for comparing another runtime with this one. */
static enum esper_status write_output(const char *path, const struct dataset *data, enum split split, size_t count,
                                      const float *logits, struct esper_error *error)
{
    size_t size = (size_t)data->size;
    const struct st_tensor tensors[] = {
        {.name = "logits", .dtype = ST_F32, .dims = 2, .shape = {count, DATASET_CLASSES}, .data = logits},
        {.name = "images",
         .dtype = ST_U8,
         .dims = 4,
         .shape = {count, size, size, DATASET_COLOURS},
         .data = data->images[split]},
        {.name = "labels", .dtype = ST_U8, .dims = 1, .shape = {count}, .data = data->labels[split]},
    };
    return st_write(path, tensors, 3, NULL, 0, error);
}

struct infer_options {
    const char *split, *output;
    int images; /* 0: all */
};

static enum esper_status infer_data(struct network *network, const struct dataset *data,
                                    const struct infer_options *options, struct esper_error *error)
{
    enum split split = strcmp(options->split, "val") == 0 ? SPLIT_VAL : SPLIT_TEST;
    size_t count = options->images ? (size_t)options->images : data->count[split];
    if (count > data->count[split])
        return error_set(error, ESPER_INVALID, "--images %zu: the %s split has %zu", count, split_name(split),
                         data->count[split]);
    float *logits = memory_alloc(count * DATASET_CLASSES, sizeof *logits, error);
    if (!logits)
        return ESPER_FAILED;
    double start = clock_seconds();
    if (network->model)
        model_logits(network->model_runner, data->images[split], count, logits);
    else
        graph_logits(network->graph_runner, data->images[split], count, logits);
    double seconds = clock_seconds() - start;
    enum esper_status status = ESPER_OK;
    if (options->output)
        status = write_output(options->output, data, split, count, logits, error);
    if (status == ESPER_OK) {
        size_t correct = count_correct(logits, data->labels[split], count);
        if (network->source[0])
            cli_print("%s\n", network->source);
        cli_print("accuracy %.2f %% (%zu of %zu %s images of %s), %.0f images/s\n",
                  100.0 * (double)correct / (double)count, correct, count, split_name(split),
                  data_facts_of(data->set)->name, (double)count / (seconds > 0 ? seconds : 1e-9));
    }
    memory_free(logits);
    return status;
}

static enum esper_status infer(struct cli_call *call, struct esper_error *error)
{
    const struct infer_options *options = call->flags;
    struct network network = {0};
    struct dataset *data = NULL;
    cli_output(options->output);
    if (strcmp(options->split, "test") != 0 && strcmp(options->split, "val") != 0)
        return error_set(error, ESPER_INVALID, "--split %.60s: it must be test or val", options->split);
    enum esper_status status = network_open(&network, call->words.items[0], error);
    if (status == ESPER_OK)
        status = open_data(call->words.items[1], network.size, &data, error);
    if (status == ESPER_OK)
        status = infer_data(&network, data, options, error);
    dataset_close(data);
    network_close(&network);
    return status;
}

#define AT(member) offsetof(struct infer_options, member)
const struct cli_page infer_page = {
    .usage = "infer MODEL DATA [--images N] [--split test|val] [--output FILE]",
    .about = "Runs a network that `esper export` wrote, in either form, and prints its accuracy. DATA is cifar10,\n"
             "fashion, mnist, synthetic, or a packed file. A safetensors model is run by the trainer's own kernels,\n"
             "an ONNX file by plain loops that share nothing with them.",
    .example = "esper infer grown.safetensors synthetic",
    .options =
        (const struct cli_option[]){{"images", CLI_INT, "N", AT(images), "use only the first N images", 1, 1000000},
                                    {"split", CLI_TEXT, "SPLIT", AT(split), "test (default) or val", 0, 0},
                                    {"output", CLI_TEXT, "FILE", AT(output),
                                     "also write images, labels and logits as safetensors; - is stdout", 0, 0},
                                    {0}},
    .min_words = 2,
    .max_words = 2,
    .wanted = "a model and a data set",
    .run = infer,
    .flags_size = sizeof(struct infer_options),
    .defaults = &(const struct infer_options){.split = "test"},
};
