/*
 * Whole training steps and evaluation passes: one network per thread, each with its own parameters, as the engine runs
 * them. A step is gather and augmentation, forward, backward, clip and update of one batch; it is measured with the
 * gather and with the images already in place. The images are random bytes, so no data file is needed.
 */
#ifndef BENCH_STEPS_H
#define BENCH_STEPS_H

#include "bench/hosts.h"
#include "bench/measure.h"
#include "cnn/net.h"
#include "data/gather.h"
#include "morph/slot.h"

enum { STEP_HOSTS = 6, EVALUATIONS = 2 };

/* One network: the workspace and what the engine keeps per env. */
struct step_net {
    struct net *net;
    void *workspace;
    float *arrays;
    struct net_params params;
    struct net_memory memory;
    uint32_t steps; /* gathered so far: each step takes the next batch */
};

struct step_host {
    struct bench_host host;
    struct dataset dataset;
    int nets;
    struct step_net *net; /* [nets] */
};

/* A host alone, or grown: conv_light blended in every slot. */
struct step_case {
    struct step_host *host;
    bool grown;
    struct slot_exec exec[SHAPE_SLOTS];
    struct net_rates rates;
    struct gather_table normalise;
    struct measure in_place, gathered; /* images per second over all networks */
};

struct eval_case {
    struct step_host *host;
    int seeds, configs; /* every subset of the seeds is a configuration */
    struct slot_exec exec[SHAPE_SLOTS];
    float alpha[NET_MAX_CONFIGS][SHAPE_SLOTS];
    struct measure measure; /* images times configurations per second */
};

struct steps {
    int hosts, cases, evaluations;
    uint8_t *images; /* every host's data set */
    struct step_host host[STEP_HOSTS];
    struct step_case step[2 * STEP_HOSTS];
    struct eval_case evaluation[EVALUATIONS];
};

/* All hosts, or only what the PyTorch peer compares. `steps` must stay where it is. */
enum esper_status steps_init(struct steps *steps, int threads, bool peer, struct esper_error *error);
void steps_free(struct steps *steps);

#endif
