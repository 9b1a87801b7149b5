/*
 * The shape of a host and its slots: what never changes about a task's networks, as far as every family has it. A
 * family's own shape begins with this one; it is built once from the configuration.
 */
#ifndef MORPH_SHAPE_H
#define MORPH_SHAPE_H

#include "base/config.h"
#include "base/vocabulary.h"
#include "morph/layout.h"

enum { SHAPE_SLOTS = CONFIG_MAX_SLOTS, SHAPE_STATS = 16 };

struct slot_shape {
    const char *id;
    int row, column;
    size_t seed, seed_storage; /* the slot's part of an env's seed pool: room for its largest blueprint */
    size_t gate, gate_storage; /* likewise for the gate net */
};

/* Running statistics that start with the same value. */
struct stats_part {
    size_t first, count;
    float value;
};

struct net_shape {
    enum host_family_id family;
    int slots;
    struct slot_shape slot[SHAPE_SLOTS]; /* in action order: row by row */
    int exec_order[SHAPE_SLOTS];         /* slots in the order of the data flow: r0c0, r1c0, r0c1, ... (I-28) */
    struct param_layout host;
    size_t stats; /* running statistics, floats */
    int stats_parts;
    struct stats_part stats_part[SHAPE_STATS];
    size_t seed_storage, gate_storage; /* pools of one env, floats */
};

#endif
