/* policy/network.h on the device, as device_net.c does for net.h. */
#include <string.h>

#include "check/learn_vectors.h"
#include "policy/network_trial.h"
#include "selftest/device_parts.h"

struct policy_net {
    const struct policy_shape *shape;
    const real *w;
    real *h, *c, *trunk, *logits, *value; /* of the last unroll */
};

static size_t state_reals(const struct policy_shape *shape, int envs)
{
    return (size_t)envs * (size_t)shape->hidden;
}

size_t policy_net_bytes(const struct policy_shape *shape, int envs, int steps)
{
    const size_t rows = (size_t)envs * (size_t)steps;
    return sizeof(struct policy_net) +
           sizeof(real) * (2 * state_reals(shape, envs) + rows * (size_t)(shape->hidden + shape->logits + 1));
}

struct policy_net *policy_net_init(const struct policy_shape *shape, int envs, int steps, struct pool *pool,
                                   void *memory)
{
    const size_t rows = (size_t)envs * (size_t)steps;
    struct policy_net *net = memory;
    (void)pool;
    net->shape = shape;
    net->h = (real *)(net + 1);
    net->c = net->h + state_reals(shape, envs);
    net->trunk = net->c + state_reals(shape, envs);
    net->logits = net->trunk + rows * (size_t)shape->hidden;
    net->value = net->logits + rows * (size_t)shape->logits;
    return net;
}

void policy_net_pack(struct policy_net *net, const real *w)
{
    net->w = w;
}

static void run(struct policy_trial *trial)
{
    struct esper_error error = {0};
    if (!device_failure->text[0] && device_tried->try_policy(trial, &error) != ESPER_OK)
        *device_failure = error;
}

void policy_net_act(struct policy_net *net, const struct policy_step *step)
{
    run(&(struct policy_trial){.shape = net->shape,
                               .w = net->w,
                               .envs = step->rows,
                               .steps = 1,
                               .obs = step->obs,
                               .bp = step->bp,
                               .act = true,
                               .tf32 = device_in_bf16,
                               .h = step->h,
                               .c = step->c,
                               .logits = step->logits,
                               .values = step->value});
}

static struct policy_trial unroll_of(struct policy_net *net, const struct policy_sequence *sequence)
{
    const size_t state = sizeof(real) * state_reals(net->shape, sequence->envs);
    memset(net->h, 0, state);
    memset(net->c, 0, state);
    if (sequence->h0) {
        memcpy(net->h, sequence->h0, state);
        memcpy(net->c, sequence->c0, state);
    }
    return (struct policy_trial){.shape = net->shape,
                                 .w = net->w,
                                 .envs = sequence->envs,
                                 .steps = sequence->steps,
                                 .obs = sequence->obs,
                                 .bp = sequence->bp,
                                 .reset = sequence->reset,
                                 .tf32 = device_in_bf16,
                                 .h = net->h,
                                 .c = net->c,
                                 .logits = net->logits,
                                 .values = net->value,
                                 .trunk = net->trunk};
}

void policy_net_unroll(struct policy_net *net, const struct policy_sequence *sequence, real *logits, real *value)
{
    const size_t rows = (size_t)sequence->envs * (size_t)sequence->steps;
    struct policy_trial trial = unroll_of(net, sequence);
    run(&trial);
    memcpy(logits, net->logits, sizeof(real) * rows * (size_t)net->shape->logits);
    memcpy(value, net->value, sizeof(real) * rows);
}

/* The device keeps nothing between two calls: it unrolls once more. */
void policy_net_backward(struct policy_net *net, const struct policy_sequence *sequence, const real *dlogits,
                         const real *dvalue, real *grad)
{
    struct policy_trial trial = unroll_of(net, sequence);
    trial.dlogits = dlogits;
    trial.dvalues = dvalue;
    trial.grad = grad;
    run(&trial);
}

const real *policy_net_trunk(const struct policy_net *net)
{
    return net->trunk;
}

void policy_net_state(const struct policy_net *net, const real **h, const real **c)
{
    *h = net->h;
    *c = net->c;
}

/* ---- its update -------------------------------------------------------------------------------------------------- */

static void update_run(struct update_trial *trial)
{
    struct esper_error error = {0};
    if (!device_failure->text[0] && device_tried->try_update(trial, &error) != ESPER_OK)
        *device_failure = error;
}

static void adam_step_device(const struct adam *adam, size_t count, real factor, const real *g, real *w, real *m,
                             real *v)
{
    update_run(&(struct update_trial){
        .part = UPDATE_ADAM, .adam = *adam, .count = count, .factor = factor, .g = g, .w = w, .m = m, .v = v});
}

void check_updates_on_device(const struct st_file *file, struct check_report *report)
{
    static const struct policy_kernels policy = {.net_bytes = policy_net_bytes,
                                                 .net_init = policy_net_init,
                                                 .pack = policy_net_pack,
                                                 .unroll = policy_net_unroll,
                                                 .backward = policy_net_backward,
                                                 .adam_step = adam_step_device};
    static const struct update_kernels kernels = {NULL, &policy, update_run};
    check_gae_and_ppo_on(&kernels, file, report);
}
