/*
 * The shape of a host and its slots: everything about a task's network that never changes. Built once from the
 * configuration; the world, the kernels and the exporters read it.
 *
 * A host is a chain of blocks, conv k x k -> BatchNorm -> ReLU [-> max pool], then global average pooling and a linear
 * classifier. Slot r0c{i} sits after the ReLU of block i, slot r1c{i} after its pool.
 */
#ifndef MORPH_SHAPE_H
#define MORPH_SHAPE_H

#include "base/config.h"
#include "morph/blueprint.h"

enum { SHAPE_BLOCKS = 6, SHAPE_SLOTS = CONFIG_MAX_SLOTS, SHAPE_CLASSES = 10, SHAPE_COLOURS = 3, SLOT_ROWS = 2 };

struct block_shape {
    int cin, cout, height, width; /* the convolution's channels and maps */
    bool pool;
    int weight, gamma, beta; /* tensors of the host's layout */
    size_t mean, var;        /* offsets of the running statistics */
    int slot[SLOT_ROWS];     /* slot before and after the pool, or -1 */
};

struct slot_shape {
    const char *id;
    int row, column, channels, height, width;
    size_t seed, seed_storage; /* the slot's part of an env's seed pool: room for its largest blueprint */
    size_t gate, gate_storage; /* likewise for the gate net */
};

struct net_shape {
    int kernel, blocks, slots;
    int features; /* channels that enter the classifier */
    struct block_shape block[SHAPE_BLOCKS];
    struct slot_shape slot[SHAPE_SLOTS]; /* in action order: row by row */
    int exec_order[SHAPE_SLOTS];         /* slots in the order of the data flow: r0c0, r1c0, r0c1, ... (I-28) */
    struct param_layout host;
    int fc_weight, fc_bias;            /* tensors of the host's layout */
    size_t stats;                      /* running means and variances, floats */
    size_t seed_storage, gate_storage; /* pools of one env, floats */
};

/* The rules of the keys host.* and slots: whether such a host exists, and has these slots. */
enum esper_status shape_check(const struct config *config, struct esper_error *error);

/* The configuration must have passed config_check. It must outlive the shape, which points at its slot names. */
void shape_init(struct net_shape *shape, const struct config *config);
/* The same for images that need not be square. */
void shape_init_sized(struct net_shape *shape, const struct config *config, int height, int width);

/* Multiply-accumulates of one image: the host's forward pass, and a whole training step of the host alone. */
uint64_t shape_forward_macs(const struct net_shape *shape);
uint64_t shape_train_macs(const struct net_shape *shape);

#endif
