#include "model/network.h"

#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "data/dataset.h"

/* Plain loops gain little from a batch, and keep every value of each of its samples. */
enum { GRAPH_IMAGES = 8, GRAPH_TEXTS = 1 };

void network_close(struct network *network)
{
    model_runner_free(network->model_runner);
    model_free(network->model);
    graph_runner_free(network->graph_runner);
    graph_free(network->graph);
}

enum esper_status network_take(struct network *network, struct model *model, int batch, struct esper_error *error)
{
    network->model = model;
    network->sample = model_sample(model);
    model_describe(model, network->source);
    return model_runner_create(&network->model_runner, model, batch, error);
}

/* Whether some data set has such samples. */
static enum esper_status check_sample(const char *path, const struct model_sample *sample, struct esper_error *error)
{
    const bool text = sample->kind == KIND_TEXT;
    const size_t least = text ? TRANSFORMER_BYTES : 2, most = text ? TRANSFORMER_BYTES : DATASET_CLASSES_MAX;
    if (!text && (sample->bytes != (size_t)sample->size * (size_t)sample->size * DATASET_COLOURS ||
                  sample->size < DATASET_SIZE_MIN || sample->size > DATASET_SIZE_MAX))
        return error_set(error, ESPER_INVALID, "%s: takes images of %zux%d; data sets have from 16x16 to 64x64", path,
                         sample->bytes / DATASET_COLOURS / (size_t)sample->size, sample->size);
    if (sample->classes < least || sample->classes > most)
        return error_set(error, ESPER_INVALID, "%s: has %zu outputs; %s", path, sample->classes,
                         text ? "text has 256 bytes" : "data sets have from 2 to 1000 classes");
    return ESPER_OK;
}

static enum esper_status open_graph(struct network *network, const char *path, int batch, struct esper_error *error)
{
    TRY(onnx_read(path, &network->graph, error));
    const int most = graph_reads(network->graph) == KIND_TEXT ? GRAPH_TEXTS : GRAPH_IMAGES;
    memcpy(network->source, network->graph->source, sizeof network->source);
    if (graph_runner_create(&network->graph_runner, network->graph, batch < most ? batch : most, error) != ESPER_OK)
        return error_where(error, "%s", path);
    network->sample = graph_sample(network->graph_runner);
    return check_sample(path, &network->sample, error);
}

enum esper_status network_open(struct network *network, const char *path, int batch, struct esper_error *error)
{
    struct model *model;
    void *data;
    size_t size;
    TRY(file_load(path, &data, &size, error));
    const char *kind = file_kind(data, size);
    memory_free(data);
    if (kind && strcmp(kind, FILE_SAFETENSORS) == 0) {
        TRY(model_read(path, &model, error));
        return network_take(network, model, batch, error);
    }
    if (kind && strcmp(kind, FILE_ONNX) != 0)
        return error_set(error, ESPER_INVALID, "%s: is %s; give a network that `esper export` wrote", path, kind);
    return open_graph(network, path, batch, error);
}

void network_logits(struct network *network, const uint8_t *samples, size_t count, float *logits)
{
    if (network->model)
        model_logits(network->model_runner, samples, count, logits);
    else
        graph_logits(network->graph_runner, samples, count, logits);
}
