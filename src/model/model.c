#include "model/model.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "data/dataset.h"
#include "model/family.h"

const struct model_family *model_family_of(const struct config *config)
{
#define MODEL_FAMILY(with, NAME, name) [FAMILY_##NAME] = &model_##name,
    static const struct model_family *const families[FAMILY_COUNT] = {FAMILIES(MODEL_FAMILY, )};
    return families[config->host_family];
}

/* ---- making ------------------------------------------------------------------------------------------------------ */

static enum esper_status check_seeds(const struct host_family *family, const struct model_seed *seeds, int count,
                                     struct esper_error *error)
{
    enum { COLUMNS = 1000 }; /* more than a slot's name can say */
    int before = -1;
    if (count < 0 || count > SHAPE_SLOTS)
        return error_set(error, ESPER_INVALID, "%d seeds; a network has room for %d", count, SHAPE_SLOTS);
    for (int i = 0; i < count; i++) {
        const struct model_seed *seed = &seeds[i];
        int row, column;
        if (!config_parse_slot(seed->slot, &row, &column))
            return error_set(error, ESPER_INVALID, "\"%.7s\" is no slot", seed->slot);
        if (row * COLUMNS + column <= before)
            return error_set(error, ESPER_INVALID, "slot %s is out of order: r0c0, r0c1, ... r1c0, ...", seed->slot);
        before = row * COLUMNS + column;
        if (!family_has(family, seed->blueprint))
            return error_set(error, ESPER_INVALID, "slot %s: no such blueprint", seed->slot);
        if (seed->algorithm < ALGORITHM_ADD || seed->algorithm > ALGORITHM_GATE || !stage_is_blended(seed->stage))
            return error_set(error, ESPER_INVALID, "slot %s: its seed is not blended in", seed->slot);
        if (!(seed->alpha > 0 && seed->alpha <= 1))
            return error_set(error, ESPER_INVALID, "slot %s: alpha is %g, not above 0 and at most 1", seed->slot,
                             (double)seed->alpha);
    }
    return ESPER_OK;
}

/* Host and slots in a configuration that is otherwise the default one, so that its own rules check them. */
static enum esper_status set_geometry(struct config *config, const struct config *host, const struct model_seed *seeds,
                                      int count, struct esper_error *error)
{
    config_defaults(config);
    config->host_family = host->host_family;
    config->data_set = host->data_set;
    model_family_of(host)->copy_host(config, host);
    config->data_val_images = config->data_test_images = 1;
    config->slot_count = count;
    memset(config->slots, 0, sizeof config->slots);
    for (int i = 0; i < count; i++)
        memcpy(config->slots[i], seeds[i].slot, sizeof config->slots[i]);
    TRY(dataset_settled(config, error));
    return config_check(config, error);
}

static struct slot_exec exec_of(const struct model_seed *seed)
{
    return (struct slot_exec){.mode = SLOT_BLEND,
                              .algorithm = seed->algorithm,
                              .blueprint = seed->blueprint,
                              .gate = seed->algorithm == ALGORITHM_GATE,
                              .alpha = seed->alpha};
}

static enum esper_status make_parts(struct model *model, const struct config *host, const struct model_seed *seeds,
                                    int count, struct esper_error *error)
{
    TRY(check_seeds(host_family_of(host), seeds, count, error));
    TRY(set_geometry(&model->config, host, seeds, count, error));
    host_shape_init(&model->host_shape, &model->config);
    for (int j = 0; j < count; j++) {
        model->exec[j] = exec_of(&seeds[j]);
        model->stage[j] = seeds[j].stage;
    }
    const struct net_shape *shape = &model->shape;
    /* Each part starts where its own storage, a multiple of LAYOUT_ALIGN, ends; the statistics come last. */
    model->memory = memory_alloc(shape->host.storage + shape->seed_storage + shape->gate_storage + shape->stats,
                                 sizeof(float), error);
    if (!model->memory)
        return ESPER_FAILED;
    model->params.host = model->memory;
    model->params.seed = model->params.host + shape->host.storage;
    model->params.gate = model->params.seed + shape->seed_storage;
    model->params.stats = model->params.gate + shape->gate_storage;
    return ESPER_OK;
}

enum esper_status model_make(struct model **out, const struct config *host, const struct model_seed *seeds, int count,
                             struct esper_error *error)
{
    struct model *model = memory_alloc(1, sizeof *model, error);
    if (!model)
        return ESPER_FAILED;
    enum esper_status status = make_parts(model, host, seeds, count, error);
    if (status != ESPER_OK) {
        model_free(model);
        return status;
    }
    *out = model;
    return ESPER_OK;
}

void model_free(struct model *model)
{
    if (!model)
        return;
    memory_free(model->memory);
    memory_free(model);
}

/* ---- taking ------------------------------------------------------------------------------------------------------ */

static bool takes_part(const struct slot_state *slot)
{
    return stage_is_blended(slot->stage) && slot->alpha > 0;
}

static void name_left_out(const struct host_family *family, const struct net_shape *shape,
                          const struct slot_state *slots, char text[MODEL_TEXT])
{
    size_t used = 0;
    text[0] = '\0';
    for (int j = 0; j < shape->slots; j++)
        if (stage_is_live(slots[j].stage) && !takes_part(&slots[j]))
            used += (size_t)snprintf(text + used, MODEL_TEXT - used, "%s%s %s (%s)", used ? ", " : "",
                                     shape->slot[j].id, family_blueprint(family, slots[j].blueprint),
                                     stage_name(slots[j].stage));
}

/* The world's slot of that name; the model's slots are some of the world's. */
static const struct slot_shape *slot_named(const struct net_shape *shape, const char *id)
{
    int k = 0;
    while (k + 1 < shape->slots && strcmp(shape->slot[k].id, id) != 0)
        k++;
    return &shape->slot[k];
}

static void copy_params(struct model *model, const struct net_shape *shape, const struct net_params *params)
{
    struct growth growth;
    host_growth_init(&growth, &model->config);
    memcpy(model->params.host, params->host, sizeof(float) * shape->host.storage);
    memcpy(model->params.stats, params->stats, sizeof(float) * shape->stats);
    for (int j = 0; j < model->shape.slots; j++) {
        const struct slot_shape *to = &model->shape.slot[j], *from = slot_named(shape, to->id);
        memcpy(model->params.seed + to->seed, params->seed + from->seed,
               sizeof(float) * growth.seed[j][model->exec[j].blueprint].storage);
        if (model->exec[j].gate)
            memcpy(model->params.gate + to->gate, params->gate + from->gate, sizeof(float) * to->gate_storage);
    }
}

enum esper_status model_take(struct model **out, const struct config *host, const struct net_shape *shape,
                             const struct net_params *params, const struct slot_state *slots,
                             const struct model_source *source, struct esper_error *error)
{
    struct model_seed seeds[SHAPE_SLOTS] = {{{0}, 0, 0, 0, 0}};
    int count = 0;
    for (int j = 0; j < shape->slots; j++)
        if (takes_part(&slots[j])) {
            struct model_seed *seed = &seeds[count++];
            *seed = (struct model_seed){
                .stage = slots[j].stage, .blueprint = slots[j].blueprint, .algorithm = slots[j].algorithm};
            seed->alpha = slots[j].alpha;
            snprintf(seed->slot, sizeof seed->slot, "%s", shape->slot[j].id);
        }
    struct model *model;
    TRY(model_make(&model, host, seeds, count, error));
    copy_params(model, shape, params);
    model->source = *source;
    name_left_out(host_family_of(host), shape, slots, model->source.left_out);
    enum esper_status status = model_check(model, error);
    if (status != ESPER_OK) {
        model_free(model);
        return status;
    }
    *out = model;
    return ESPER_OK;
}

/* ---- what it holds ----------------------------------------------------------------------------------------------- */

struct model_sample model_sample(const struct model *model)
{
    return model_family_of(&model->config)->sample(model);
}

struct model_tensor model_tensor(const char *prefix, const char *name, const struct tensor_layout *layout, float *part)
{
    struct model_tensor tensor = {.dims = layout->dims, .size = layout->size, .data = part + layout->offset};
    snprintf(tensor.name, sizeof tensor.name, "%s.%s", prefix, name);
    memcpy(tensor.shape, layout->shape, sizeof tensor.shape);
    return tensor;
}

int model_tensors(const struct model *model, struct model_tensor tensors[MODEL_TENSORS])
{
    return model_family_of(&model->config)->tensors(model, tensors);
}

size_t model_host_params(const struct model *model)
{
    return model->shape.host.params;
}

size_t model_seed_params(const struct model *model)
{
    struct growth growth;
    size_t params = 0;
    host_growth_init(&growth, &model->config);
    for (int j = 0; j < model->shape.slots; j++) {
        params += growth.seed[j][model->exec[j].blueprint].params;
        params += model->exec[j].gate ? growth.gate[j].params : 0;
    }
    return params;
}

enum esper_status model_check(const struct model *model, struct esper_error *error)
{
    struct model_tensor tensors[MODEL_TENSORS];
    int count = model_tensors(model, tensors);
    for (int i = 0; i < count; i++) {
        const char *dot = strrchr(tensors[i].name, '.');
        bool variance = strcmp(dot, ".var") == 0;
        for (size_t k = 0; k < tensors[i].size; k++)
            if (!isfinite(tensors[i].data[k]) || (variance && tensors[i].data[k] < 0))
                return error_set(error, ESPER_INVALID, "tensor %s holds %g: the network has diverged", tensors[i].name,
                                 (double)tensors[i].data[k]);
    }
    return ESPER_OK;
}

void model_describe(const struct model *model, char text[MODEL_TEXT])
{
    const struct model_source *source = &model->source;
    const struct family_words *words = &host_family_of(&model->config)->words;
    const double bits = family_bits(words, source->val_accuracy);
    int used = snprintf(text, MODEL_TEXT, "%s %s, round %u, env %u, step %u, validation %.2f %s",
                        source->best ? "best network of" : "a network of", source->run, (unsigned)source->round,
                        (unsigned)source->env, (unsigned)source->step, source->val_accuracy, words->unit);
    if (isfinite(bits))
        snprintf(text + used, MODEL_TEXT - (size_t)used, ", %.3f " BITS_PER_BYTE, bits);
}
