/*
 * The contract of a host family: what grows, seen by everything that does not compute it. Slots, lifecycle, gates,
 * governor, rewards, policies, record and views know no family; they speak of score points, losses and parameters. How
 * a family's networks compute is struct net_kernels (morph/net.h) on the CPU and struct net_device_kernels
 * (morph/net_device.cuh) on a device.
 */
#ifndef MORPH_FAMILY_H
#define MORPH_FAMILY_H

#include "morph/birth.h"
#include "morph/shape.h"
#include "morph/stage.h"

/* What may grow in each slot, and what it costs: multiply-accumulates are those of one sample. */
struct growth {
    struct birth seed[SHAPE_SLOTS][BLUEPRINT_COUNT], gate[SHAPE_SLOTS]; /* how seeds and gate nets start */
    double seed_macs[SHAPE_SLOTS][BLUEPRINT_COUNT];                     /* of a forward pass */
    double host_macs, host_train_macs; /* the host's, of a forward pass and of a training step */
};

struct host_family {
    enum host_family_id id;
    const char *name;
    /* The rules of the keys host.* and slots: whether such a host exists, and has these slots. */
    enum esper_status (*check)(const struct config *config, struct esper_error *error);
    /* The configuration must have passed config_check and must outlive the shape, which points at its slot names.
     * `shape` is the beginning of a union host_shape (host/families.h): the family writes its own. */
    void (*shape)(const struct config *config, struct net_shape *shape);
    void (*growth)(const struct net_shape *shape, struct growth *growth);
    /* The host in a few words, for a message: "3 blocks from 8 channels, ...". */
    void (*describe)(const struct config *config, char *text, size_t size);
};

#endif
