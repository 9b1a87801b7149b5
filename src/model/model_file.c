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
#include "model/family.h"

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static void add_seeds(cJSON *network, const struct model *model)
{
    const struct host_family *family = host_family_of(&model->config);
    cJSON *list = json_add_list(network, "slots");
    for (int j = 0; j < model->shape.slots; j++) {
        const struct slot_exec *exec = &model->exec[j];
        cJSON *entry = json_add_object(list, NULL);
        json_add_text(entry, "slot", model->shape.slot[j].id);
        json_add_text(entry, "stage", stage_name(model->stage[j]));
        json_add_text(entry, "blueprint", family_blueprint(family, exec->blueprint));
        json_add_text(entry, "algorithm", algorithm_name(exec->algorithm));
        json_add_number(entry, "alpha", (double)exec->alpha);
        model_family_of(&model->config)->write_seed(model, j, entry);
    }
}

static char *network_text(const struct model *model)
{
    cJSON *network = cJSON_CreateObject();
    json_add_text(network, "family", host_family_of(&model->config)->name);
    model_family_of(&model->config)->write_host(model, network);
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
                                   {"layout", model_family_of(&model->config)->layout},
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

static enum esper_status get_blueprint(const cJSON *entry, const struct host_family *family, uint8_t *out,
                                       struct esper_error *error)
{
    const char *text;
    TRY(json_get_string(entry, "blueprint", &text, error));
    for (int i = 0; i < family->blueprints; i++)
        if (family_has(family, i) && strcmp(family->blueprint_names[i], text) == 0) {
            *out = (uint8_t)i;
            return ESPER_OK;
        }
    return error_set(error, ESPER_INVALID, "\"blueprint\": unknown value \"%.40s\"", text);
}

enum esper_status model_get_int(const cJSON *object, const char *key, int min, int max, int *out,
                                struct esper_error *error)
{
    int64_t value;
    TRY(json_get_integer(object, key, min, max, &value, error));
    *out = (int)value;
    return ESPER_OK;
}

/* Files of earlier versions have no such word: they are CNNs. */
static enum esper_status read_family(const cJSON *network, struct config *host, struct esper_error *error)
{
    static const char *const words[] = {FAMILIES(WORD_NAME, )};
    const char *text;
    if (!json_find(network, "family"))
        return ESPER_OK;
    TRY(json_get_string(network, "family", &text, error));
    for (int i = 0; i < FAMILY_COUNT; i++)
        if (strcmp(words[i], text) == 0) {
            host->host_family = (enum host_family_id)i;
            return ESPER_OK;
        }
    return error_set(error, ESPER_INVALID, "\"family\": unknown value \"%.40s\"", text);
}

static enum esper_status read_seed(const cJSON *entry, const struct host_family *family, struct model_seed *seed,
                                   struct esper_error *error)
{
    double alpha;
    if (!cJSON_IsObject(entry))
        return error_set(error, ESPER_INVALID, "\"slots\" must hold objects, not %s", json_type_name(entry));
    TRY(get_text(entry, "slot", seed->slot, sizeof seed->slot, error));
    TRY(get_word(entry, "stage", stage_name, 0, STAGE_LIMIT, &seed->stage, error));
    TRY(get_blueprint(entry, family, &seed->blueprint, error));
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
    enum esper_status status = read_family(network, &host, error);
    if (status == ESPER_OK)
        status = model_family_of(&host)->read_host(network, &host, error);
    if (status == ESPER_OK)
        status = json_get_array(network, "slots", &list, error);
    for (const cJSON *entry = status == ESPER_OK ? list->child : NULL; entry && status == ESPER_OK; entry = entry->next)
        status = count == SHAPE_SLOTS ? error_set(error, ESPER_INVALID, "more than %d slots", SHAPE_SLOTS)
                                      : read_seed(entry, host_family_of(&host), &seeds[count++], error);
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
