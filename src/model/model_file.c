/*
 * A model as one safetensors file. Its metadata: "format"; "esper", the version that wrote it; "layout", how weights
 * are stored; "network" and "source", JSON objects. docs/export.md describes them for authors of other readers.
 */
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/memory.h"
#include "base/safetensors.h"
#include "base/text.h"
#include "data/dataset.h"
#include "model/model.h"
#include "nn/norm.h"

#define LAYOUT_TEXT "conv [out][kh][kw][in], depthwise [kh][kw][channels], linear [out][in]"

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static void add_host(cJSON *network, const struct model *model)
{
    cJSON *host = json_add_object(network, "host");
    const struct config *config = &model->config;
    json_add_number(host, "base", config->host_base);
    json_add_number(host, "blocks", config->host_blocks);
    json_add_number(host, "kernel", config->host_kernel);
    json_add_number(host, "pools", config->host_pools);
    json_add_number(host, "classes", SHAPE_CLASSES);
    json_add_number(host, "epsilon", NORM_EPS);
}

static void add_image(cJSON *network, const struct model *model)
{
    cJSON *image = json_add_object(network, "image");
    const struct image_set *set = image_set_of(model->config.data_set);
    json_add_number(image, "size", model->config.data_size);
    json_add(image, "mean", cJSON_CreateDoubleArray(set->mean, DATASET_COLOURS));
    json_add(image, "deviation", cJSON_CreateDoubleArray(set->deviation, DATASET_COLOURS));
}

/* What each step of a chain does, for readers that do not know the blueprints: "conv norm relu", ... */
static void add_chain(cJSON *entry, const struct seed_blueprint *blueprint)
{
    static const char *const words[] = {
        [ACT_NONE] = "conv", [ACT_RELU] = "conv relu", [ACT_NORM] = "conv norm", [ACT_NORM_RELU] = "conv norm relu"};
    cJSON *chain = json_add_list(entry, "chain");
    for (int i = 0; i < blueprint->steps; i++)
        json_add_text(chain, NULL, words[blueprint->step[i].act]);
}

static void add_seeds(cJSON *network, const struct model *model)
{
    cJSON *list = json_add_list(network, "slots");
    for (int j = 0; j < model->shape.slots; j++) {
        const struct slot_exec *exec = &model->exec[j];
        const struct seed_blueprint *blueprint = blueprint_at(exec->blueprint);
        cJSON *entry = json_add_object(list, NULL);
        json_add_text(entry, "slot", model->shape.slot[j].id);
        json_add_text(entry, "stage", stage_name(model->stage[j]));
        json_add_text(entry, "blueprint", blueprint_name(exec->blueprint));
        json_add_text(entry, "algorithm", algorithm_name(exec->algorithm));
        json_add_number(entry, "alpha", (double)exec->alpha);
        json_add_number(entry, "groups", group_count(model->host_shape.cnn.site[j].channels));
        if (blueprint->kind == SEED_CHAIN)
            add_chain(entry, blueprint);
    }
}

static char *network_text(const struct model *model)
{
    cJSON *network = cJSON_CreateObject();
    add_host(network, model);
    add_image(network, model);
    add_seeds(network, model);
    return json_finish(network, JSON_ONE_LINE);
}

static char *source_text(const struct model_source *source)
{
    cJSON *object = cJSON_CreateObject();
    json_add_text(object, "run", source->run);
    json_add_text(object, "task", source->task);
    json_add_number(object, "round", source->round);
    json_add_number(object, "step", source->step);
    json_add_number(object, "env", source->env);
    json_add_bool(object, "best", source->best);
    json_add_number(object, "val_accuracy", source->val_accuracy);
    json_add_text(object, "left_out", source->left_out);
    return json_finish(object, JSON_ONE_LINE);
}

enum esper_status model_write(const struct model *model, const char *path, struct esper_error *error)
{
    struct model_tensor tensors[MODEL_TENSORS];
    struct st_tensor stored[MODEL_TENSORS];
    int count = model_tensors(model, tensors);
    for (int i = 0; i < count; i++) {
        stored[i] = (struct st_tensor){.name = tensors[i].name, .dtype = ST_F32, .dims = tensors[i].dims};
        stored[i].data = tensors[i].data;
        for (int d = 0; d < tensors[i].dims; d++)
            stored[i].shape[d] = (size_t)tensors[i].shape[d];
    }
    char *network = network_text(model), *source = source_text(&model->source);
    const char *const meta[][2] = {{"format", MODEL_FORMAT},
                                   {"esper", ESPER_VERSION},
                                   {"layout", LAYOUT_TEXT},
                                   {"network", network},
                                   {"source", source}};
    enum esper_status status = network && source
                                   ? st_write(path, stored, count, meta, sizeof meta / sizeof meta[0], error)
                                   : error_set(error, ESPER_FAILED, "%s: out of memory", path);
    cJSON_free(network);
    cJSON_free(source);
    return status;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static enum esper_status get_int(const cJSON *object, const char *key, int min, int max, int *out,
                                 struct esper_error *error)
{
    int64_t value;
    TRY(json_get_integer(object, key, min, max, &value, error));
    *out = (int)value;
    return ESPER_OK;
}

static enum esper_status get_text(const cJSON *object, const char *key, char *out, size_t size,
                                  struct esper_error *error)
{
    const char *text;
    TRY(json_get_string(object, key, &text, error));
    if (strlen(text) >= size)
        return error_set(error, ESPER_INVALID, "\"%s\" is longer than %zu bytes", key, size - 1);
    if (!text_is_plain(text))
        return error_set(error, ESPER_INVALID, "\"%s\" holds a control character", key);
    memcpy(out, text, strlen(text) + 1);
    return ESPER_OK;
}

/* The number of a word in a short list; `from` is the first that is accepted. */
static enum esper_status get_word(const cJSON *object, const char *key, const char *(*name)(int), int from, int end,
                                  uint8_t *out, struct esper_error *error)
{
    const char *text;
    TRY(json_get_string(object, key, &text, error));
    for (int i = from; i < end; i++)
        if (strcmp(name(i), text) == 0) {
            *out = (uint8_t)i;
            return ESPER_OK;
        }
    return error_set(error, ESPER_INVALID, "\"%s\": unknown value \"%.40s\"", key, text);
}

static bool same_colours(const cJSON *list, const double *known)
{
    bool same = cJSON_GetArraySize(list) == DATASET_COLOURS;
    for (int i = 0; same && i < DATASET_COLOURS; i++) {
        const cJSON *value = cJSON_GetArrayItem(list, i);
        same = cJSON_IsNumber(value) && value->valuedouble == known[i];
    }
    return same;
}

/* The first data set that is normalised this way and has images of this size. The constants must be those of one, or
 * the kernels would compute something else. */
static enum esper_status read_colours(const cJSON *image, struct config *config, struct esper_error *error)
{
    const cJSON *mean, *deviation;
    TRY(json_get_array(image, "mean", &mean, error));
    TRY(json_get_array(image, "deviation", &deviation, error));
    for (int i = 0; i < DATA_SETS; i++) {
        const struct image_set *set = image_set_of((enum data_set)i);
        config->data_set = (enum data_set)i;
        if (same_colours(mean, set->mean) && same_colours(deviation, set->deviation) &&
            (!set->packed || config->data_size == DATASET_SIZE_MAX))
            return ESPER_OK;
    }
    return error_set(error, ESPER_INVALID,
                     "\"mean\" and \"deviation\" are those of no data set of this program: it normalises differently");
}

static enum esper_status read_geometry(const cJSON *network, struct config *config, struct esper_error *error)
{
    const cJSON *host, *image;
    double epsilon;
    int classes;
    TRY(json_get_object(network, "host", &host, error));
    TRY(get_int(host, "base", 1, 512, &config->host_base, error));
    TRY(get_int(host, "blocks", 2, SHAPE_BLOCKS, &config->host_blocks, error));
    TRY(get_int(host, "kernel", 1, 3, &config->host_kernel, error));
    TRY(get_int(host, "pools", 0, SHAPE_BLOCKS, &config->host_pools, error));
    TRY(get_int(host, "classes", SHAPE_CLASSES, SHAPE_CLASSES, &classes, error));
    TRY(json_get_number(host, "epsilon", NORM_EPS, NORM_EPS, &epsilon, error));
    if (config->host_kernel == 2)
        return error_set(error, ESPER_INVALID, "\"kernel\" must be 1 or 3");
    TRY(json_get_object(network, "image", &image, error));
    TRY(get_int(image, "size", 16, DATASET_SIZE_MAX, &config->data_size, error));
    if (config->data_size != 16 && config->data_size != 32)
        return error_set(error, ESPER_INVALID, "\"size\" must be 16 or 32");
    return read_colours(image, config, error);
}

static enum esper_status read_seed(const cJSON *entry, struct model_seed *seed, struct esper_error *error)
{
    double alpha;
    if (!cJSON_IsObject(entry))
        return error_set(error, ESPER_INVALID, "\"slots\" must hold objects, not %s", json_type_name(entry));
    TRY(get_text(entry, "slot", seed->slot, sizeof seed->slot, error));
    TRY(get_word(entry, "stage", stage_name, 0, STAGE_LIMIT, &seed->stage, error));
    TRY(get_word(entry, "blueprint", blueprint_name, 0, BLUEPRINT_COUNT, &seed->blueprint, error));
    TRY(get_word(entry, "algorithm", algorithm_name, ALGORITHM_ADD, ALGORITHM_GATE + 1, &seed->algorithm, error));
    TRY(json_get_number(entry, "alpha", 0, 1, &alpha, error));
    seed->alpha = (float)alpha;
    return ESPER_OK;
}

static enum esper_status read_network(const char *text, struct model **out, struct esper_error *error)
{
    cJSON *network;
    const cJSON *list;
    struct config host = {0};
    struct model_seed seeds[SHAPE_SLOTS] = {{{0}, 0, 0, 0, 0}};
    int count = 0;
    TRY(json_parse(text, strlen(text), &network, error));
    enum esper_status status = read_geometry(network, &host, error);
    if (status == ESPER_OK)
        status = json_get_array(network, "slots", &list, error);
    for (const cJSON *entry = status == ESPER_OK ? list->child : NULL; entry && status == ESPER_OK; entry = entry->next)
        status = count == SHAPE_SLOTS ? error_set(error, ESPER_INVALID, "more than %d slots", SHAPE_SLOTS)
                                      : read_seed(entry, &seeds[count++], error);
    if (status == ESPER_OK)
        status = model_make(out, &host, seeds, count, error);
    cJSON_Delete(network);
    return status;
}

static enum esper_status fill_source(const cJSON *object, struct model_source *source, struct esper_error *error)
{
    int64_t round, step, env;
    TRY(get_text(object, "run", source->run, sizeof source->run, error));
    TRY(get_text(object, "task", source->task, sizeof source->task, error));
    TRY(json_get_integer(object, "round", 0, UINT32_MAX, &round, error));
    TRY(json_get_integer(object, "step", 0, UINT32_MAX, &step, error));
    TRY(json_get_integer(object, "env", 0, UINT32_MAX, &env, error));
    TRY(json_get_bool(object, "best", &source->best, error));
    TRY(json_get_number(object, "val_accuracy", 0, 100, &source->val_accuracy, error));
    source->round = (uint32_t)round;
    source->step = (uint32_t)step;
    source->env = (uint32_t)env;
    return get_text(object, "left_out", source->left_out, sizeof source->left_out, error);
}

static enum esper_status read_source(const char *text, struct model_source *source, struct esper_error *error)
{
    cJSON *object;
    TRY(json_parse(text, strlen(text), &object, error));
    enum esper_status status = fill_source(object, source, error);
    cJSON_Delete(object);
    return status;
}

/* Each tensor exactly as the network's structure requires it, and nothing else. */
static enum esper_status read_tensors(const struct st_file *file, const struct model *model, struct esper_error *error)
{
    struct model_tensor tensors[MODEL_TENSORS];
    int count = model_tensors(model, tensors);
    for (int i = 0; i < count; i++) {
        const struct model_tensor *wanted = &tensors[i];
        const struct st_tensor *stored = st_find(file, wanted->name);
        if (!stored)
            return error_set(error, ESPER_INVALID, "tensor %s is missing", wanted->name);
        bool fits = stored->dtype == ST_F32 && stored->dims == wanted->dims;
        for (int d = 0; fits && d < wanted->dims; d++)
            fits = stored->shape[d] == (size_t)wanted->shape[d];
        if (!fits)
            return error_set(error, ESPER_INVALID, "tensor %s does not have the type and shape that its network needs",
                             wanted->name);
        memcpy(wanted->data, stored->data, sizeof(float) * wanted->size);
    }
    if (st_count(file) != count)
        return error_set(error, ESPER_INVALID, "%d tensors; its network has %d", st_count(file), count);
    return model_check(model, error);
}

static enum esper_status read_parts(const struct st_file *file, struct model **out, struct esper_error *error)
{
    const char *format = st_meta(file, "format");
    const char *network = st_meta(file, "network"), *source = st_meta(file, "source");
    if (!format || strncmp(format, "esper-model-", 12) != 0)
        return error_set(error, ESPER_INVALID, "not a model; `esper export RUN --safetensors FILE` writes one");
    if (strcmp(format, MODEL_FORMAT) != 0)
        return error_set(error, ESPER_UNSUPPORTED, "format %.40s; this Esper reads " MODEL_FORMAT, format);
    if (!network || !source)
        return error_set(error, ESPER_INVALID, "metadata \"%s\" is missing", network ? "source" : "network");
    if (read_network(network, out, error) != ESPER_OK)
        return error_where(error, "metadata \"network\"");
    if (read_source(source, &(*out)->source, error) != ESPER_OK)
        return error_where(error, "metadata \"source\"");
    return read_tensors(file, *out, error);
}

enum esper_status model_read(const char *path, struct model **out, struct esper_error *error)
{
    struct st_file *file;
    *out = NULL;
    TRY(st_open(path, &file, error));
    enum esper_status status = read_parts(file, out, error);
    st_close(file);
    if (status != ESPER_OK) {
        model_free(*out);
        *out = NULL;
        error_where(error, "%s", path);
    }
    return status;
}
