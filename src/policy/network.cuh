/*
 * The recurrent policy network on the device (policy/network.h says what it computes). Parameters and gradients are the
 * caller's own flat arrays, in the layout of policy_shape: no copies are kept, so nothing needs updating when they
 * change. Every call enqueues kernels on the runtime's stream; the configuration fixes their shapes.
 *
 * Acting and unrolling run different kernels; in each, a row's results are sums in an order that does not depend on the
 * number of rows.
 */
#ifndef POLICY_NETWORK_CUH
#define POLICY_NETWORK_CUH

#include "cuda/runtime.cuh"

extern "C" {
#include "base/envs.h"
#include "policy/network.h"
}

struct network_device;

struct network_places {
    const struct policy_shape *shape;
    int envs, steps;
    struct env_part acting; /* those of the envs that act */
    bool exact;             /* fp32 throughout; else tf32 products */
    const float *w;         /* on the device, as are all below */
    float *grad;            /* like w */
    const uint32_t *step;   /* [1] row of the rollout that act reads */
    const float *state;     /* [step][env][obs] */
    const int8_t *bp;       /* [step][env][slots] */
    const uint8_t *reset;   /* [step][env] */
    float *hidden, *cell;   /* [acting env][hidden] */
    float *act_logits;      /* [acting env][logits] */
    float *act_values;      /* [acting env] */
    float *logits, *values; /* [step][env]... of unroll */
    const float *dlogits, *dvalues;
    const uint32_t *stop; /* [1] not 0: unroll does nothing */
    const uint32_t *skip; /* [1] not 0: backward does nothing; stop implies it */
};

/* The widest recurrent layer that the device can run: its weights are kept in registers, by thread blocks that wait for
 * each other. */
int network_device_widest(const struct runtime *rt);

/* NULL after an error of the runtime. */
struct network_device *network_device_create(struct runtime *rt, const struct network_places *places);
void network_device_free(struct network_device *net);

void network_device_act(struct network_device *net);      /* hidden and cell are replaced */
void network_device_unroll(struct network_device *net);   /* the whole rollout, from a state of zero */
void network_device_backward(struct network_device *net); /* of the last unroll; writes every gradient */

/* The state before step 0 of an unroll, [env][hidden] on the device: zero unless the caller writes there. */
float *network_device_first_hidden(struct network_device *net);
float *network_device_first_cell(struct network_device *net);

/* Device addresses, of the last unroll: z [step][env][hidden]; h and c after the last step, [env][hidden]. */
const float *network_device_trunk(const struct network_device *net);
const float *network_device_hidden(const struct network_device *net);
const float *network_device_cell(const struct network_device *net);

#endif
