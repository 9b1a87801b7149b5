/*
 * The world in device memory: a copy of every arena of its table, and of the struct with pointers into these copies. It
 * gives the parts of the device, which know no world, what they work on.
 */
#ifndef ENGINE_MIRROR_CUH
#define ENGINE_MIRROR_CUH

#include "learn/update.cuh"
#include "morph/net_device.cuh"

extern "C" {
#include "engine/device.h"
#include "engine/world.h"
}

struct mirror {
    struct runtime *runtime;
    struct world *host;  /* shape, configuration, sizes; its arrays are stale while the device runs */
    struct world view;   /* the same with device addresses, for the host to pass on */
    struct world *world; /* that struct in device memory, for kernels to read */
    char *arena[CLASS_COUNT];
};

/* Allocates; nothing is copied to the arrays yet. After an error the runtime has failed. */
void mirror_create(struct mirror *mirror, struct runtime *rt, struct world *host);
/* The device address of something in an array of the host's table. */
void *mirror_place(const struct mirror *mirror, const void *host);
/* Copy rows of the host's table to the device and back; both wait. */
void mirror_write(const struct mirror *mirror, const struct table_row *rows, int count);
void mirror_read(const struct mirror *mirror, const struct table_row *rows, int count);

/* The networks' arrays, and the images. Allocates what the world does not have: exec, grads and test_accuracy. */
struct net_setup mirror_net_setup(const struct mirror *mirror, const struct device_setup *setup);
/* Without logits and values. Points into the mirror. */
struct policy_setup mirror_policy_setup(const struct mirror *mirror, const struct device_setup *setup);

#endif
