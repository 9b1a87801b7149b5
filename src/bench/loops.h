/*
 * The engine, on the CPU or on the GPU: how fast all envs train, evaluate, and go through the whole loop. Nothing here
 * knows which backend runs: an engine is made from a configuration, its slots are set by hand where a case asks for
 * seeds, and its phases are timed.
 *
 * The images are those of the task when its file is there; otherwise random ones of the same shape, so that cropping,
 * mirroring and normalising are part of every figure.
 */
#ifndef BENCH_LOOPS_H
#define BENCH_LOOPS_H

#include "bench/hosts.h"
#include "engine/choose.h"
#include "engine/device.h"

enum loop_kind {
    LOOP_TRAIN,    /* training steps alone: gather, forward, backward, clip, update; images/s */
    LOOP_EVALUATE, /* validation of all subsets alone; images x subsets/s */
    LOOP_WHOLE,    /* rounds from reset to update; env-steps/s */
    LOOP_KINDS
};

/* What is done per step, averaged over the timed ones; zero on the CPU. */
struct loop_counts {
    bool known;
    double launches, graph_launches, graph_nodes, syncs, allocations, copies, bytes_to, bytes_from;
    double most_syncs; /* of a whole loop: those of the step that had most */
};

struct loop_case {
    enum loop_kind kind;
    const char *task;
    int envs, batch, batches;
    int val_images;    /* 0: the task's */
    uint8_t blueprint; /* in every slot of every env; BLUEPRINT_NONE: none but those the policy plants */
    uint8_t stage;     /* TRAINING, or BLENDING at alpha 0.5. A whole loop's are fossils at 0.5, which cost the same and
                          which no policy takes away */

    /* the results */
    char failed[192]; /* why it could not be measured, or "" */
    char kernels[64]; /* engine_kernels */
    double rate, ms;  /* in the kind's unit; milliseconds of a step of all envs */
    double gflops;    /* of training; 0 where it is not counted */
    int steps;        /* of a round */
    double live[16];  /* by stage, mean over the envs and sampled steps */
    double subsets;   /* per env-step, likewise */
    double update_ms; /* of a whole loop's PPO update */
    struct loop_counts counts;
};

struct loops_options {
    enum device_wish device;
    enum precision_wish precision;
    unsigned kinds;    /* bit i: cases of kind i; 0: all */
    bool hosts, seeds; /* which cases of LOOP_TRAIN: bare hosts, every blueprint in every slot */
    const char *task;  /* NULL: the tables' own */
    const char *envs;  /* "1,16,64", or NULL: the tables' own */
    const char *batch; /* "128,512", likewise */
    int threads;       /* of the CPU; 0: all cores */
    double seconds;    /* of measuring per case */
};

enum { LOOPS_MAX = 96 };

struct loops {
    struct loops_options options;
    struct device_use use;
    int count;
    struct loop_case cases[LOOPS_MAX];
    char images[1024]; /* file of random images that was made, or "" */
};

/* Which cases; nothing is measured yet. */
enum esper_status loops_create(struct loops **out, const struct loops_options *options, struct esper_error *error);
void loops_free(struct loops *loops);

/* Measure one. A case that cannot run, for lack of memory say, reports it in `failed`; the others go on. */
void loop_measure(struct loops *loops, struct loop_case *loop);

const char *loop_kind_name(enum loop_kind kind);
const char *loop_unit(enum loop_kind kind);

#endif
