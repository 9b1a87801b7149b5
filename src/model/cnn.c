/* CNNs as files and graphs (model/family.h): names of their tensors, and their host in a file's metadata. */
#include <stdio.h>
#include <string.h>

#include "data/dataset.h"
#include "model/family.h"
#include "nn/norm.h"

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

struct list {
    struct model_tensor *tensors;
    int count;
};

static void add(struct list *list, const char *prefix, const char *name, const struct tensor_layout *layout,
                float *part)
{
    list->tensors[list->count++] = model_tensor(prefix, name, layout, part);
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
        add(list, prefix, "conv.weight", &tensor[b->weight], model->params.host);
        add(list, prefix, "norm.gamma", &tensor[b->gamma], model->params.host);
        add(list, prefix, "norm.beta", &tensor[b->beta], model->params.host);
        add_vector(list, prefix, "norm.mean", b->cout, model->params.stats + b->mean);
        add_vector(list, prefix, "norm.var", b->cout, model->params.stats + b->var);
    }
    add(list, "host.classifier", "weight", &tensor[shape->fc_weight], model->params.host);
    add(list, "host.classifier", "bias", &tensor[shape->fc_bias], model->params.host);
}

/* The t-th tensor of a blueprint's layout. In a chain a layer and its norm carry the number of their step. */
static void seed_tensor_name(int index, int t, char name[24])
{
    enum { PARTS = 3 }; /* the most that a kind other than chains has */
    static const char *const norm[PARTS] = {"norm.gamma", "norm.beta", "norm.sigma"};
    static const char *const attention[PARTS] = {"squeeze.weight", "excite.weight", "excite.bias"};
    const struct seed_blueprint *blueprint = blueprint_at(index);
    if (blueprint->kind != SEED_CHAIN) {
        const char *const *parts = blueprint->kind == SEED_NORM ? norm : attention;
        snprintf(name, 24, "%s", t < PARTS ? parts[t] : "");
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
        add(list, prefix, name, &layout.tensor[t], model->params.seed + slot->seed);
    }
    gate_layout(model->host_shape.cnn.site[j].channels, &layout);
    for (int t = 0; model->exec[j].gate && t < layout.count; t++)
        add(list, prefix, gate_names[t], &layout.tensor[t], model->params.gate + slot->gate);
}

static struct model_sample sample_of(const struct model *model)
{
    const int size = model->config.data_size;
    return (struct model_sample){.kind = KIND_IMAGES,
                                 .size = size,
                                 .bytes = (size_t)size * (size_t)size * DATASET_COLOURS,
                                 .targets = 1,
                                 .classes = (size_t)model->host_shape.cnn.classes};
}

static int tensors_of(const struct model *model, struct model_tensor tensors[MODEL_TENSORS])
{
    struct list list = {tensors, 0};
    add_host(model, &list);
    for (int i = 0; i < model->shape.slots; i++)
        add_slot(model, model->shape.exec_order[i], &list);
    return list.count;
}

/* ---- the host in a file's metadata ------------------------------------------------------------------------------- */

static void copy_host(struct config *to, const struct config *from)
{
    to->host_base = from->host_base;
    to->host_blocks = from->host_blocks;
    to->host_kernel = from->host_kernel;
    to->host_pools = from->host_pools;
    to->data_size = from->data_size;
    to->data_classes = from->data_classes;
    memcpy(to->data_mean, from->data_mean, sizeof to->data_mean);
    memcpy(to->data_deviation, from->data_deviation, sizeof to->data_deviation);
}

static void write_host_keys(const struct model *model, cJSON *network)
{
    cJSON *host = json_add_object(network, "host");
    const struct config *config = &model->config;
    json_add_number(host, "base", config->host_base);
    json_add_number(host, "blocks", config->host_blocks);
    json_add_number(host, "kernel", config->host_kernel);
    json_add_number(host, "pools", config->host_pools);
    json_add_number(host, "classes", config->data_classes);
    json_add_number(host, "epsilon", NORM_EPS);
}

static void write_image(const struct model *model, cJSON *network)
{
    cJSON *image = json_add_object(network, "image");
    const struct data_facts set = data_facts_for(&model->config);
    json_add_number(image, "size", model->config.data_size);
    json_add(image, "mean", cJSON_CreateDoubleArray(set.mean, DATASET_COLOURS));
    json_add(image, "deviation", cJSON_CreateDoubleArray(set.deviation, DATASET_COLOURS));
}

/* What each step of a chain does, for readers that do not know the blueprints: "conv norm relu", ... */
static void write_chain(const struct seed_blueprint *blueprint, cJSON *entry)
{
    static const char *const words[] = {
        [ACT_NONE] = "conv", [ACT_RELU] = "conv relu", [ACT_NORM] = "conv norm", [ACT_NORM_RELU] = "conv norm relu"};
    cJSON *chain = json_add_list(entry, "chain");
    for (int i = 0; i < blueprint->steps; i++)
        json_add_text(chain, NULL, words[blueprint->step[i].act]);
}

static void write_host(const struct model *model, cJSON *network)
{
    write_host_keys(model, network);
    write_image(model, network);
}

static void write_seed(const struct model *model, int slot, cJSON *entry)
{
    const struct seed_blueprint *blueprint = blueprint_at(model->exec[slot].blueprint);
    json_add_number(entry, "groups", group_count(model->host_shape.cnn.site[slot].channels));
    if (blueprint->kind == SEED_CHAIN)
        write_chain(blueprint, entry);
}

static enum esper_status read_three(const cJSON *image, const char *name, double least, double out[DATASET_COLOURS],
                                    struct esper_error *error)
{
    const cJSON *list;
    TRY(json_get_array(image, name, &list, error));
    bool good = cJSON_GetArraySize(list) == DATASET_COLOURS;
    for (int i = 0; good && i < DATASET_COLOURS; i++) {
        const cJSON *value = cJSON_GetArrayItem(list, i);
        good = cJSON_IsNumber(value) && value->valuedouble >= least && value->valuedouble <= 1;
        out[i] = good ? value->valuedouble : 0;
    }
    return good ? ESPER_OK : error_set(error, ESPER_INVALID, "\"%s\" must be three numbers from %g to 1", name, least);
}

static bool same_colours(const double *a, const double *b)
{
    return a[0] == b[0] && a[1] == b[1] && a[2] == b[2];
}

/* The first data set of the program that is normalised this way and has such images; otherwise, somebody's own. */
static enum esper_status read_colours(const cJSON *image, struct config *config, struct esper_error *error)
{
    TRY(read_three(image, "mean", 0, config->data_mean, error));
    TRY(read_three(image, "deviation", DATASET_DEVIATION_LEAST, config->data_deviation, error));
    for (int i = 0; i < DATA_SETS; i++) {
        const struct data_facts *set = data_facts_of((enum data_set)i);
        const bool sized = config->data_size == DATASET_SIZE || (!set->packed && config->data_size == 16);
        if (set->kind == KIND_IMAGES && !set->own && sized && config->data_classes == DATASET_CLASSES &&
            same_colours(config->data_mean, set->mean) && same_colours(config->data_deviation, set->deviation)) {
            config->data_set = i;
            memset(config->data_mean, 0, sizeof config->data_mean);
            memset(config->data_deviation, 0, sizeof config->data_deviation);
            return ESPER_OK;
        }
    }
    config->data_set = DATA_IMAGES;
    return ESPER_OK;
}

static enum esper_status read_host(const cJSON *network, struct config *config, struct esper_error *error)
{
    const cJSON *host, *image;
    double epsilon;
    TRY(json_get_object(network, "host", &host, error));
    TRY(model_get_int(host, "base", 1, 512, &config->host_base, error));
    TRY(model_get_int(host, "blocks", 2, SHAPE_BLOCKS, &config->host_blocks, error));
    TRY(model_get_int(host, "kernel", 1, 3, &config->host_kernel, error));
    TRY(model_get_int(host, "pools", 0, SHAPE_BLOCKS, &config->host_pools, error));
    TRY(model_get_int(host, "classes", 2, SHAPE_CLASSES_MAX, &config->data_classes, error));
    TRY(json_get_number(host, "epsilon", NORM_EPS, NORM_EPS, &epsilon, error));
    if (config->host_kernel == 2)
        return error_set(error, ESPER_INVALID, "\"kernel\" must be 1 or 3");
    TRY(json_get_object(network, "image", &image, error));
    TRY(model_get_int(image, "size", DATASET_SIZE_MIN, DATASET_SIZE_MAX, &config->data_size, error));
    return read_colours(image, config, error);
}

const struct model_family model_cnn = {
    .layout = "conv [out][kh][kw][in], depthwise [kh][kw][channels], linear [out][in]",
    .sample = sample_of,
    .tensors = tensors_of,
    .copy_host = copy_host,
    .write_host = write_host,
    .write_seed = write_seed,
    .read_host = read_host,
    .build = cnn_graph_build,
};
