/*
 * The networks of the case table: hosts of many shapes whose slots hold every blueprint in every way. One list for the
 * CPU's variants, for the device's kernels, and for the gradients' central differences.
 */
#ifndef CHECK_NETWORKS_H
#define CHECK_NETWORKS_H

#include "cnn/blueprint.h"
#include "cnn/shape.h"
#include "morph/slot.h"

/* A host's geometry, and the images of a batch. */
struct rig_host {
    int base, blocks, kernel, pools, height, width, images;
    int classes; /* 0: SHAPE_CLASSES */
};

struct network_seat {
    const char *id;
    int mode, blueprint, algorithm;
    float alpha;
    bool frozen, isolate;
};

struct network_case {
    char name[40];
    const char *group; /* of those that were dealt to the same host */
    struct rig_host host;
    struct network_seat seat[SHAPE_SLOTS];
    int seats;
    bool probed;  /* by central differences as well */
    uint32_t key; /* of its random numbers */
};

/* false: past the last one. */
bool network_case_at(int index, struct network_case *out);

struct slot_exec network_exec(const struct network_seat *seat);

#endif
