/* Transformers as files and graphs (model/family.h): names of their tensors, and their host in a file's metadata. */
#include <stdio.h>

#include "model/family.h"
#include "nn/rows.h"

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

/* A seed's tensors by its kind, and the gate net's, in the order of their layouts. */
static const char *const branch_names[][LAYOUT_TENSORS] = {
    [BRANCH_NONE] = {"norm.gamma", "norm.beta", "norm.sigma"},
    [BRANCH_LORA] = {"down.weight", "up.weight"},
    [BRANCH_MLP] = {"fc.weight", "fc.bias", "fcproj.weight", "fcproj.bias"},
    [BRANCH_ATTENTION] = {"qkv.weight", "qkv.bias", "proj.weight", "proj.bias"}};
static const char *const gate_names[] = {"gate.hidden.weight", "gate.hidden.bias", "gate.out.weight", "gate.out.bias"};

static int add_slot(const struct model *model, int j, struct model_tensor *tensors)
{
    const struct slot_shape *slot = &model->shape.slot[j];
    const int blueprint = model->exec[j].blueprint, width = model->host_shape.transformer.width;
    const struct seed_plan *plan = transformer_seed(blueprint);
    struct param_layout layout;
    char prefix[24];
    int count = 0;
    snprintf(prefix, sizeof prefix, "slot.%s", slot->id);
    transformer_seed_layout(blueprint, width, &layout);
    for (int t = 0; t < layout.count; t++)
        tensors[count++] =
            model_tensor(prefix, branch_names[plan->kind][t], &layout.tensor[t], model->params.seed + slot->seed);
    transformer_gate_layout(width, &layout);
    for (int t = 0; model->exec[j].gate && t < layout.count; t++)
        tensors[count++] = model_tensor(prefix, gate_names[t], &layout.tensor[t], model->params.gate + slot->gate);
    return count;
}

static int tensors_of(const struct model *model, struct model_tensor tensors[MODEL_TENSORS])
{
    const struct param_layout *host = &model->shape.host;
    int count = 0;
    for (int t = 0; t < host->count; t++)
        tensors[count++] = model_tensor("host", host->tensor[t].name, &host->tensor[t], model->params.host);
    for (int j = 0; j < model->shape.slots; j++)
        count += add_slot(model, j, tensors + count);
    return count;
}

static struct model_sample sample_of(const struct model *model)
{
    const struct transformer_shape *shape = &model->host_shape.transformer;
    return (struct model_sample){.kind = KIND_TEXT,
                                 .size = shape->context,
                                 .bytes = (size_t)shape->context,
                                 .targets = (size_t)shape->context,
                                 .classes = (size_t)shape->vocabulary};
}

/* ---- the host in a file's metadata ------------------------------------------------------------------------------- */

static void copy_host(struct config *to, const struct config *from)
{
    to->host_width = from->host_width;
    to->host_heads = from->host_heads;
    to->host_layers = from->host_layers;
    to->host_context = from->host_context;
    to->host_segments = from->host_segments;
}

static void write_host(const struct model *model, cJSON *network)
{
    const struct transformer_shape *shape = &model->host_shape.transformer;
    cJSON *host = json_add_object(network, "host");
    json_add_number(host, "width", shape->width);
    json_add_number(host, "heads", shape->heads);
    json_add_number(host, "layers", shape->layers);
    json_add_number(host, "context", shape->context);
    json_add_number(host, "segments", shape->segments);
    json_add_number(host, "vocabulary", shape->vocabulary);
    json_add_number(host, "epsilon", LAYER_NORM_EPS);
}

static void write_seed(const struct model *model, int slot, cJSON *entry)
{
    const struct seed_plan *plan = transformer_seed(model->exec[slot].blueprint);
    if (plan && plan->kind == BRANCH_ATTENTION)
        json_add_number(entry, "heads", SEED_HEADS);
}

/* Any text will do: what it was trained on is no part of the network. */
static enum esper_status read_host(const cJSON *network, struct config *config, struct esper_error *error)
{
    const cJSON *host;
    double epsilon;
    int vocabulary;
    config->data_set = DATA_TEXT;
    TRY(json_get_object(network, "host", &host, error));
    TRY(model_get_int(host, "width", 8, 1024, &config->host_width, error));
    TRY(model_get_int(host, "heads", 1, 16, &config->host_heads, error));
    TRY(model_get_int(host, "layers", 0, TRANSFORMER_LAYERS, &config->host_layers, error));
    TRY(model_get_int(host, "context", 8, 1024, &config->host_context, error));
    TRY(model_get_int(host, "segments", 1, TRANSFORMER_LAYERS, &config->host_segments, error));
    TRY(model_get_int(host, "vocabulary", TRANSFORMER_BYTES, TRANSFORMER_BYTES, &vocabulary, error));
    return json_get_number(host, "epsilon", LAYER_NORM_EPS, LAYER_NORM_EPS, &epsilon, error);
}

const struct model_family model_transformer = {
    .layout = "linear [out][in], embeddings [row][width]",
    .sample = sample_of,
    .tensors = tensors_of,
    .copy_host = copy_host,
    .write_host = write_host,
    .write_seed = write_seed,
    .read_host = read_host,
    .build = transformer_graph_build,
};
