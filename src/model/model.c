#include "model/model.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"

/* ---- making ------------------------------------------------------------------------------------------------------ */

static enum esper_status check_seeds(const struct model_seed *seeds, int count, struct esper_error *error)
{
    int before = -1;
    if (count < 0 || count > SHAPE_SLOTS)
        return error_set(error, ESPER_INVALID, "%d seeds; a network has room for %d", count, SHAPE_SLOTS);
    for (int i = 0; i < count; i++) {
        const struct model_seed *seed = &seeds[i];
        int row, column;
        if (!config_parse_slot(seed->slot, &row, &column) || row >= SLOT_ROWS || column >= SHAPE_BLOCKS)
            return error_set(error, ESPER_INVALID, "\"%.7s\" is no slot", seed->slot);
        if (row * SHAPE_BLOCKS + column <= before)
            return error_set(error, ESPER_INVALID, "slot %s is out of order: r0c0, r0c1, ... r1c0, ...", seed->slot);
        before = row * SHAPE_BLOCKS + column;
        if (!blueprint_at(seed->blueprint))
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
    config->host_base = host->host_base;
    config->host_blocks = host->host_blocks;
    config->host_kernel = host->host_kernel;
    config->host_pools = host->host_pools;
    config->data_set = host->data_set;
    config->data_size = host->data_size;
    config->data_val_images = config->data_test_images = 1;
    config->slot_count = count;
    memset(config->slots, 0, sizeof config->slots);
    for (int i = 0; i < count; i++)
        memcpy(config->slots[i], seeds[i].slot, sizeof config->slots[i]);
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
    TRY(check_seeds(seeds, count, error));
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

struct list {
    struct model_tensor *tensors;
    int count;
};

static void add(struct list *list, const char *prefix, const char *name, const struct tensor_layout *layout,
                float *data)
{
    struct model_tensor *tensor = &list->tensors[list->count++];
    snprintf(tensor->name, sizeof tensor->name, "%s.%s", prefix, name);
    tensor->dims = layout->dims;
    memcpy(tensor->shape, layout->shape, sizeof tensor->shape);
    tensor->size = layout->size;
    tensor->data = data;
}

static void add_vector(struct list *list, const char *prefix, const char *name, int size, float *data)
{
    const struct tensor_layout layout = {.dims = 1, .shape = {size, 1, 1, 1}, .size = (size_t)size};
    add(list, prefix, name, &layout, data);
}

static void add_host(const struct model *model, struct list *list)
{
    const struct cnn_shape *shape = &model->host_shape.cnn;
    const struct tensor_layout *tensor = shape->net.host.tensor;
    for (int i = 0; i < shape->blocks; i++) {
        const struct block_shape *b = &shape->block[i];
        char prefix[24];
        snprintf(prefix, sizeof prefix, "host.block%d", i);
        add(list, prefix, "conv.weight", &tensor[b->weight], model->params.host + tensor[b->weight].offset);
        add(list, prefix, "norm.gamma", &tensor[b->gamma], model->params.host + tensor[b->gamma].offset);
        add(list, prefix, "norm.beta", &tensor[b->beta], model->params.host + tensor[b->beta].offset);
        add_vector(list, prefix, "norm.mean", b->cout, model->params.stats + b->mean);
        add_vector(list, prefix, "norm.var", b->cout, model->params.stats + b->var);
    }
    add(list, "host.classifier", "weight", &tensor[shape->fc_weight],
        model->params.host + tensor[shape->fc_weight].offset);
    add(list, "host.classifier", "bias", &tensor[shape->fc_bias], model->params.host + tensor[shape->fc_bias].offset);
}

/* The t-th tensor of a blueprint's layout. In a chain a layer and its norm carry the number of their step. */
static void seed_tensor_name(int index, int t, char name[24])
{
    static const char *const norm[] = {"norm.gamma", "norm.beta", "norm.sigma"};
    static const char *const attention[] = {"squeeze.weight", "excite.weight", "excite.bias"};
    const struct seed_blueprint *blueprint = blueprint_at(index);
    if (blueprint->kind != SEED_CHAIN) {
        snprintf(name, 24, "%s", blueprint->kind == SEED_NORM ? norm[t] : attention[t]);
        return;
    }
    for (int i = 0; i < blueprint->steps; i++) {
        int tensors = blueprint->step[i].gamma ? 3 : 1;
        if (t < tensors) {
            static const char *const part[] = {"conv%d.weight", "norm%d.gamma", "norm%d.beta"};
            snprintf(name, 24, part[t], i + 1);
            return;
        }
        t -= tensors;
    }
}

static void add_slot(const struct model *model, int j, struct list *list)
{
    static const char *const gate_names[] = {"gate.hidden.weight", "gate.hidden.bias", "gate.out.weight",
                                             "gate.out.bias"};
    const struct slot_shape *slot = &model->shape.slot[j];
    struct param_layout layout;
    char prefix[24], name[24];
    snprintf(prefix, sizeof prefix, "slot.%s", slot->id);
    blueprint_layout(model->exec[j].blueprint, model->host_shape.cnn.site[j].channels, &layout);
    for (int t = 0; t < layout.count; t++) {
        seed_tensor_name(model->exec[j].blueprint, t, name);
        add(list, prefix, name, &layout.tensor[t], model->params.seed + slot->seed + layout.tensor[t].offset);
    }
    gate_layout(model->host_shape.cnn.site[j].channels, &layout);
    for (int t = 0; model->exec[j].gate && t < layout.count; t++)
        add(list, prefix, gate_names[t], &layout.tensor[t], model->params.gate + slot->gate + layout.tensor[t].offset);
}

int model_tensors(const struct model *model, struct model_tensor tensors[MODEL_TENSORS])
{
    struct list list = {tensors, 0};
    add_host(model, &list);
    for (int i = 0; i < model->shape.slots; i++)
        add_slot(model, model->shape.exec_order[i], &list);
    return list.count;
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

void model_describe(const struct model_source *source, char text[MODEL_TEXT])
{
    snprintf(text, MODEL_TEXT, "%s %s, round %u, env %u, step %u, validation %.2f %%",
             source->best ? "best network of" : "a network of", source->run, (unsigned)source->round,
             (unsigned)source->env, (unsigned)source->step, source->val_accuracy);
}
