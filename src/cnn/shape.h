/*
 * The shape of a convolutional host: a chain of blocks, conv k x k -> BatchNorm -> ReLU [-> max pool], then global
 * average pooling and a linear classifier. Slot r0c{i} sits after the ReLU of block i, slot r1c{i} after its pool.
 */
#ifndef CNN_SHAPE_H
#define CNN_SHAPE_H

#include "cnn/blueprint.h"
#include "morph/family.h"

/* SHAPE_CLASSES: of the data sets that the program knows; the bf16 kernels have no others. */
enum { SHAPE_BLOCKS = 6, SHAPE_CLASSES = 10, SHAPE_CLASSES_MAX = 1000, SHAPE_COLOURS = 3, SLOT_ROWS = 2 };

struct block_shape {
    int cin, cout, height, width; /* the convolution's channels and maps */
    bool pool;
    int weight, gamma, beta; /* tensors of the host's layout */
    size_t mean, var;        /* offsets of the running statistics */
    int slot[SLOT_ROWS];     /* slot before and after the pool, or -1 */
};

/* The maps that pass through a slot. */
struct site_shape {
    int channels, height, width;
};

struct cnn_shape {
    struct net_shape net;
    int kernel, blocks;
    int features; /* channels that enter the classifier */
    int classes;  /* that leave it */
    struct block_shape block[SHAPE_BLOCKS];
    struct site_shape site[SHAPE_SLOTS]; /* of each slot */
    int fc_weight, fc_bias;              /* tensors of the host's layout */
};

/* All blueprints but NOOP. */
#define CNN_OFFERED ((1u << BLUEPRINT_COUNT) - 1u - (1u << BLUEPRINT_NOOP))

ESPER_RULE struct rotation cnn_rotation(void)
{
    struct rotation rotation = {
        {BLUEPRINT_CONV_LIGHT, BLUEPRINT_CONV_HEAVY, BLUEPRINT_ATTENTION, BLUEPRINT_NORM, BLUEPRINT_DEPTHWISE},
        {2, 1, 0, 4, 3}};
    return rotation;
}

/* Of a network known to be a CNN. */
static inline const struct cnn_shape *cnn_shape_of(const struct net_shape *shape)
{
    return (const struct cnn_shape *)shape;
}

/* The rules of the keys host.* and slots: whether such a host exists, and has these slots. */
enum esper_status cnn_check_keys(const struct config *config, struct esper_error *error);

/* The configuration must have passed config_check. It must outlive the shape, which points at its slot names. */
void cnn_shape_init(struct cnn_shape *shape, const struct config *config);
/* The same for images that need not be square. */
void cnn_shape_init_sized(struct cnn_shape *shape, const struct config *config, int height, int width);

/* Multiply-accumulates of one image: the host's forward pass, and a whole training step of the host alone. */
uint64_t cnn_forward_macs(const struct cnn_shape *shape);
uint64_t cnn_train_macs(const struct cnn_shape *shape);

#endif
