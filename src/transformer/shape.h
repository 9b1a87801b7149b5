/*
 * The shape of a transformer host: a language model whose layers are h += attention(LN1(h)), h += mlp(LN2(h)), with a
 * last LayerNorm and the token embeddings once more as its classifier. Slot r0c{i} sits after segment i of the layers,
 * which may have none.
 */
#ifndef TRANSFORMER_SHAPE_H
#define TRANSFORMER_SHAPE_H

#include "morph/family.h"
#include "transformer/blueprint.h"

enum { TRANSFORMER_LAYERS = 8, TRANSFORMER_BYTES = 256, MLP_WIDER = 4 };

/* Tensors of the host's layout: two embeddings, each layer's twelve, and the last norm's two. */
enum { HOST_TOKENS, HOST_POSITIONS, HOST_LAYERS };
enum {
    LAYER_NORM1_GAMMA,
    LAYER_NORM1_BETA,
    LAYER_QKV_WEIGHT,
    LAYER_QKV_BIAS,
    LAYER_PROJ_WEIGHT,
    LAYER_PROJ_BIAS,
    LAYER_NORM2_GAMMA,
    LAYER_NORM2_BETA,
    LAYER_FC_WEIGHT,
    LAYER_FC_BIAS,
    LAYER_FCPROJ_WEIGHT,
    LAYER_FCPROJ_BIAS,
    LAYER_TENSORS
};

struct transformer_shape {
    struct net_shape net;
    int width, heads, layers, context, segments;
    int vocabulary;
    int slot_after[TRANSFORMER_LAYERS]; /* [segments]: the slot there, or -1 */
};

/* Of a network known to be a transformer. */
static inline const struct transformer_shape *transformer_shape_of(const struct net_shape *shape)
{
    return (const struct transformer_shape *)shape;
}

/* May be none: a host of embeddings and a classifier alone, which sees one token at a time. */
static inline int transformer_segment_layers(const struct transformer_shape *shape)
{
    return shape->layers / shape->segments;
}

static inline int layer_tensor(int layer, int tensor)
{
    return HOST_LAYERS + layer * LAYER_TENSORS + tensor;
}

static inline int last_norm_gamma(const struct transformer_shape *shape)
{
    return HOST_LAYERS + shape->layers * LAYER_TENSORS;
}

static inline int last_norm_beta(const struct transformer_shape *shape)
{
    return last_norm_gamma(shape) + 1;
}

/* Weight decay is for matrices alone: no embedding, norm or bias. */
static inline bool host_tensor_decays(const struct transformer_shape *shape, int tensor)
{
    return shape->net.host.tensor[tensor].dims == 2 && tensor >= HOST_LAYERS;
}

/* The rules of the keys host.* and slots: whether such a host exists, and has these slots. */
enum esper_status transformer_check_keys(const struct config *config, struct esper_error *error);

/* The configuration must have passed config_check. It must outlive the shape, which points at its slot names. */
void transformer_shape_init(struct transformer_shape *shape, const struct config *config);
/* The same for tokens of another vocabulary than bytes, of at most 256. */
void transformer_shape_init_sized(struct transformer_shape *shape, const struct config *config, int vocabulary);

/* Multiply-accumulates of one sequence: the host's forward pass. A training step costs three of them. */
double transformer_forward_macs(const struct transformer_shape *shape);

#endif
