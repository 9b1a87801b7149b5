/* Binary files: safetensors, exported networks, ONNX, packed data sets, arrays, pictures. */
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/safetensors.h"
#include "data/collection.h"
#include "data/picture.h"
#include "harness.h"
#include "model/graph.h"
#include "model/runner.h"

/* What is accepted lies in the file and is as long as its shape says: every byte is read. */
bool harness_safetensors(const uint8_t *data, size_t size)
{
    struct st_file *file;
    struct esper_error error = {0};
    if (!harness_accepted(st_open(harness_file("file", data, size), &file, &error), &error))
        return false;
    size_t total = 0;
    volatile unsigned sum = 0;
    for (int i = 0; i < st_count(file); i++) {
        const struct st_tensor *tensor = st_at(file, i);
        PROMISE(tensor->bytes == tensor->count * st_dtype_bytes(tensor->dtype));
        PROMISE(st_find(file, tensor->name) == tensor);
        for (size_t b = 0; b < tensor->bytes; b++)
            sum += ((const uint8_t *)tensor->data)[b];
        total += tensor->bytes;
    }
    PROMISE(total < size);
    st_close(file);
    return true;
}

/* What is accepted can be run on a sample of zeros. */
static void run_model(const struct model *model)
{
    struct model_runner *runner;
    struct esper_error error = {0};
    const struct model_sample sample = model_sample(model);
    uint8_t *zeros = memory_alloc(sample.bytes, 1, NULL);
    float *logits = memory_alloc(sample.targets * sample.classes, sizeof *logits, NULL);
    PROMISE(sample.bytes <= 64 * 64 * 3 && sample.classes <= 1000);
    if (zeros && logits && harness_accepted(model_runner_create(&runner, model, 1, &error), &error)) {
        model_logits(runner, zeros, 1, logits);
        model_runner_free(runner);
    }
    memory_free(zeros);
    memory_free(logits);
}

/* What is accepted can be run, as it is and as a graph. */
bool harness_network(const uint8_t *data, size_t size)
{
    struct model *model;
    struct graph *graph;
    struct esper_error error = {0};
    char text[MODEL_TEXT];
    if (!harness_accepted(model_read(harness_file("network", data, size), &model, &error), &error))
        return false;
    model_describe(model, text);
    run_model(model);
    PROMISE(graph_from_model(&graph, model, &error) == ESPER_OK);
    graph_free(graph);
    model_free(model);
    return true;
}

/* What is accepted and can be run, is, if that takes no longer than a host of ours would. */
bool harness_onnx(const uint8_t *data, size_t size)
{
    struct graph *graph;
    struct graph_runner *runner;
    struct esper_error error = {0};
    if (!harness_accepted(onnx_read(harness_file("network.onnx", data, size), &graph, &error), &error))
        return false;
    if (harness_accepted(graph_runner_create(&runner, graph, 1, &error), &error)) {
        const struct model_sample sample = graph_sample(runner);
        if (graph_work(runner) < 1e6 && sample.bytes < 1 << 16) {
            uint8_t *zeros = memory_alloc(sample.bytes, 1, NULL);
            float *logits = memory_alloc(sample.targets * sample.classes, sizeof *logits, NULL);
            if (zeros && logits)
                graph_logits(runner, zeros, 1, logits);
            memory_free(zeros);
            memory_free(logits);
        }
        graph_runner_free(runner);
    }
    graph_free(graph);
    return true;
}

/* What is accepted as a packed set can be trained on; what is accepted as arrays becomes one. */
static bool read_packed(const char *path)
{
    struct dataset *data;
    struct esper_error error = {0};
    if (!harness_accepted(dataset_open_named(path, 0, 0, &data, &error), &error))
        return false;
    volatile unsigned sum = 0;
    for (int split = 0; split < SPLIT_COUNT && data->kind == KIND_IMAGES; split++) {
        const size_t bytes = (size_t)data->size * (size_t)data->size * DATASET_COLOURS;
        for (size_t i = 0; i < data->count[split]; i++) {
            PROMISE(data->labels[split][i] < data->classes);
            sum += data->images[split][(i + 1) * bytes - 1];
        }
    }
    PROMISE(data->kind == KIND_TEXT || (data->size >= 16 && data->size <= 64 && data->classes <= 1000));
    dataset_close(data);
    return true;
}

bool harness_dataset(const uint8_t *data, size_t size)
{
    const char *path = harness_file("set", data, size);
    struct collection images;
    struct esper_error error = {0};
    size_t count[SPLIT_COUNT];
    const bool arrays = harness_accepted(collection_read(&images, path, &error), &error);
    if (arrays) {
        char packed[512];
        snprintf(packed, sizeof packed, "%s/packed", harness_folder());
        if (harness_accepted(collection_write(&images, "fuzzed", packed, count, &error), &error))
            PROMISE(read_packed(packed));
    }
    collection_free(&images);
    return read_packed(path) || arrays;
}

bool harness_picture(const uint8_t *data, size_t size)
{
    static struct picture picture;
    struct esper_error error = {0};
    const enum esper_status status = picture_decode(data, size, &picture, &error);
    if (status == ESPER_UNSUPPORTED) /* this build lacks the library */
        return true;
    if (!harness_accepted(status, &error))
        return false;
    PROMISE(picture.width >= 1 && picture.width <= 64 && picture.height >= 1 && picture.height <= 64);
    return true;
}
