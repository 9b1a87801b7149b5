#include "transformer/shape.h"

#include <math.h>
#include <string.h>

#define INIT_DEVIATION 0.02

#define LAYER_NAMES(i)                                                                                                 \
    {                                                                                                                  \
        "layer" #i ".ln1.gamma", "layer" #i ".ln1.beta", "layer" #i ".qkv.weight", "layer" #i ".qkv.bias",             \
            "layer" #i ".proj.weight", "layer" #i ".proj.bias", "layer" #i ".ln2.gamma", "layer" #i ".ln2.beta",       \
            "layer" #i ".fc.weight", "layer" #i ".fc.bias", "layer" #i ".fcproj.weight", "layer" #i ".fcproj.bias"     \
    }
static const char *const layer_names[TRANSFORMER_LAYERS][LAYER_TENSORS] = {
    LAYER_NAMES(0), LAYER_NAMES(1), LAYER_NAMES(2), LAYER_NAMES(3),
    LAYER_NAMES(4), LAYER_NAMES(5), LAYER_NAMES(6), LAYER_NAMES(7)};

_Static_assert(HOST_LAYERS + TRANSFORMER_LAYERS * LAYER_TENSORS + 2 <= LAYOUT_HOST_TENSORS,
               "morph/layout.h has room for so many tensors");

static void add_vector(struct param_layout *host, const char *name, int size, float value)
{
    layout_add(host, name, 0, value, 1, (const int[]){size});
}

static void add_matrix(struct param_layout *host, const char *name, int rows, int columns, double deviation)
{
    layout_add_normal(host, name, deviation, 2, (const int[]){rows, columns});
}

/* What a layer adds to the stream starts smaller the more layers add to it. */
static void add_layer(struct transformer_shape *shape, int layer)
{
    struct param_layout *host = &shape->net.host;
    const char *const *name = layer_names[layer];
    const int c = shape->width, wide = MLP_WIDER * c;
    const double projected = INIT_DEVIATION / sqrt(2.0 * shape->layers);
    add_vector(host, name[LAYER_NORM1_GAMMA], c, 1);
    add_vector(host, name[LAYER_NORM1_BETA], c, 0);
    add_matrix(host, name[LAYER_QKV_WEIGHT], 3 * c, c, INIT_DEVIATION);
    add_vector(host, name[LAYER_QKV_BIAS], 3 * c, 0);
    add_matrix(host, name[LAYER_PROJ_WEIGHT], c, c, projected);
    add_vector(host, name[LAYER_PROJ_BIAS], c, 0);
    add_vector(host, name[LAYER_NORM2_GAMMA], c, 1);
    add_vector(host, name[LAYER_NORM2_BETA], c, 0);
    add_matrix(host, name[LAYER_FC_WEIGHT], wide, c, INIT_DEVIATION);
    add_vector(host, name[LAYER_FC_BIAS], wide, 0);
    add_matrix(host, name[LAYER_FCPROJ_WEIGHT], c, wide, projected);
    add_vector(host, name[LAYER_FCPROJ_BIAS], c, 0);
}

/* The most parameter storage that a seed of any blueprint needs: blueprints overlay one another (D-36). */
static size_t largest_seed(int width)
{
    size_t largest = 0;
    for (int i = 0; i < TRANSFORMER_BLUEPRINTS; i++) {
        struct param_layout layout;
        transformer_seed_layout(i, width, &layout);
        if (layout.storage > largest)
            largest = layout.storage;
    }
    return largest;
}

static void add_slots(struct transformer_shape *shape, const struct config *config)
{
    struct param_layout gate;
    transformer_gate_layout(shape->width, &gate);
    for (int i = 0; i < shape->segments; i++)
        shape->slot_after[i] = -1;
    for (int i = 0; i < config->slot_count; i++) {
        struct slot_shape *s = &shape->net.slot[i];
        *s = (struct slot_shape){.id = config->slots[i],
                                 .seed = shape->net.seed_storage,
                                 .seed_storage = largest_seed(shape->width),
                                 .gate = shape->net.gate_storage,
                                 .gate_storage = gate.storage};
        config_parse_slot(config->slots[i], &s->row, &s->column);
        shape->net.seed_storage += s->seed_storage;
        shape->net.gate_storage += s->gate_storage;
        shape->slot_after[s->column] = i;
        shape->net.exec_order[i] = i; /* one row: slots are sorted by column */
    }
}

void transformer_shape_init_sized(struct transformer_shape *shape, const struct config *config, int vocabulary)
{
    memset(shape, 0, sizeof *shape);
    shape->net.family = FAMILY_TRANSFORMER;
    shape->net.slots = config->slot_count;
    shape->width = config->host_width;
    shape->heads = config->host_heads;
    shape->layers = config->host_layers;
    shape->context = config->host_context;
    shape->segments = config->host_segments;
    shape->vocabulary = vocabulary;
    add_matrix(&shape->net.host, "tok_emb", vocabulary, shape->width, INIT_DEVIATION);
    add_matrix(&shape->net.host, "pos_emb", shape->context, shape->width, INIT_DEVIATION);
    for (int i = 0; i < shape->layers; i++)
        add_layer(shape, i);
    add_vector(&shape->net.host, "lnf.gamma", shape->width, 1);
    add_vector(&shape->net.host, "lnf.beta", shape->width, 0);
    add_slots(shape, config);
}

void transformer_shape_init(struct transformer_shape *shape, const struct config *config)
{
    transformer_shape_init_sized(shape, config, TRANSFORMER_BYTES);
}

double transformer_forward_macs(const struct transformer_shape *shape)
{
    const double c = shape->width, t = shape->context;
    return t * (shape->layers * (12 * c * c + 2 * t * c) + c * shape->vocabulary);
}

/* ---- the rules of its keys --------------------------------------------------------------------------------------- */

enum esper_status transformer_check_keys(const struct config *c, struct esper_error *error)
{
    if (c->host_width % c->host_heads != 0)
        return error_set(error, ESPER_INVALID, "host.heads = %d: does not divide the width of %d (host.width)",
                         c->host_heads, c->host_width);
    if (c->host_width % SEED_HEADS != 0)
        return error_set(error, ESPER_INVALID,
                         "host.width = %d: must be a multiple of %d, the heads of attention seeds", c->host_width,
                         SEED_HEADS);
    if (c->host_layers % c->host_segments != 0)
        return error_set(error, ESPER_INVALID, "host.segments = %d: does not divide the %d layers (host.layers)",
                         c->host_segments, c->host_layers);
    for (int i = 0; i < c->slot_count; i++) {
        int row = 0, column = 0;
        config_parse_slot(c->slots[i], &row, &column);
        if (row > 0 || column >= c->host_segments)
            return error_set(error, ESPER_INVALID,
                             "slots: %s is not on this host, which has r0c0 to r0c%d (host.segments = %d)", c->slots[i],
                             c->host_segments - 1, c->host_segments);
    }
    return ESPER_OK;
}
