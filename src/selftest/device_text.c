/* transformer/net.h on the device: what the checks of golden vectors call, executed by its kernels, as device_net.c
 * does for CNNs. */
#include <string.h>

#include "check/numeric_text.h"
#include "morph/net_trial.h"
#include "selftest/device_parts.h"

struct net {
    const struct net_shape *shape;
    size_t context, vocabulary;
    uint8_t *tokens; /* [sequence][context + 1] */
    const uint8_t *targets;
    real *logits; /* [sequence][token][class] */
    struct net_params grads, spare;
    struct net_memory spare_memory;
};

static real *take(real **memory, size_t count)
{
    real *at = *memory;
    *memory += count;
    return at;
}

static void take_params(struct net_params *params, const struct net_shape *shape, real **memory)
{
    params->host = take(memory, shape->host.storage);
    params->seed = take(memory, shape->seed_storage);
    params->gate = take(memory, shape->gate_storage);
}

size_t transformer_bytes(const struct net_shape *shape, int batch)
{
    const struct transformer_shape *host = transformer_shape_of(shape);
    const size_t params = shape->host.storage + shape->seed_storage + shape->gate_storage,
                 rows = (size_t)batch * (size_t)host->context;
    return sizeof(struct net) + sizeof(real) * (3 * params + rows * (size_t)host->vocabulary) + rows + (size_t)batch;
}

struct net *transformer_init(const struct net_shape *shape, int batch, void *memory)
{
    struct net *net = memory;
    real *free = (real *)(net + 1);
    net->shape = shape;
    net->context = (size_t)transformer_shape_of(shape)->context;
    net->vocabulary = (size_t)transformer_shape_of(shape)->vocabulary;
    take_params(&net->grads, shape, &free);
    take_params(&net->spare, shape, &free);
    take_params(&net->spare_memory.first, shape, &free);
    net->logits = take(&free, (size_t)batch * net->context * net->vocabulary);
    net->tokens = (uint8_t *)free;
    return net;
}

struct net_input transformer_input(struct net *net)
{
    return (struct net_input){.tokens = net->tokens, .token_stride = net->context + 1};
}

void transformer_targets(struct net *net, const uint8_t *targets)
{
    net->targets = targets;
}

struct net_params transformer_grads(struct net *net)
{
    return net->grads;
}

static struct net_trial trial_of(struct net *net, int samples, const struct slot_exec *exec)
{
    return (struct net_trial){.shape = net->shape,
                              .samples = samples,
                              .tokens = net->tokens,
                              .targets = net->targets,
                              .exec = exec,
                              .bf16 = device_in_bf16,
                              .params = net->spare,
                              .memory = net->spare_memory,
                              .grads = net->grads,
                              .logits = net->logits};
}

static void copy_params(const struct net_shape *shape, const struct net_params *to, const struct net_params *from)
{
    memcpy(to->host, from->host, sizeof(real) * shape->host.storage);
    memcpy(to->seed, from->seed, sizeof(real) * shape->seed_storage);
    memcpy(to->gate, from->gate, sizeof(real) * shape->gate_storage);
}

/* The device can only take whole steps: this one is taken on a copy. */
void transformer_gradients(struct net *net, const struct net_params *params, const struct net_batch *batch,
                           struct net_result *result)
{
    struct net_trial trial = trial_of(net, batch->samples, batch->exec);
    trial.learn = true;
    copy_params(net->shape, &net->spare, params);
    device_run(&trial);
    *result = trial.result;
}

/* One configuration after the other. */
void transformer_evaluate(struct net *net, const struct net_params *params, struct net_eval *eval)
{
    const size_t logits = (size_t)eval->samples * net->context * net->vocabulary;
    for (int k = 0; k < eval->configs; k++) {
        struct slot_exec exec[SHAPE_SLOTS];
        memcpy(exec, eval->exec, sizeof *exec * (size_t)net->shape->slots);
        for (int j = 0; j < net->shape->slots; j++)
            exec[j].alpha = eval->alpha[k][j];
        struct net_trial trial = trial_of(net, eval->samples, exec);
        trial.params = *params;
        device_run(&trial);
        net_score_add(&eval->score[k], trial.result.score);
        if (eval->logits)
            memcpy(eval->logits + (size_t)k * logits, net->logits, sizeof(real) * logits);
    }
}

void text_step(struct text_rig *rig, const struct net_rates *rates, struct net_result *result)
{
    struct net_trial trial = trial_of(rig->net, rig->samples, rig->exec);
    trial.learn = true;
    trial.params = rig->params;
    trial.memory = rig->memory;
    trial.rates = *rates;
    device_run(&trial);
    *result = trial.result;
}

void text_seed_run(struct text_rig *rig, bool gate, const real *x, const real *dy, real *y, real *dx)
{
    struct net_trial trial = trial_of(rig->net, rig->samples, rig->exec);
    (void)gate; /* never: it has no separate kernels */
    trial.params = rig->params;
    trial.x = x;
    trial.dy = dy;
    trial.y = y;
    trial.dx = dx;
    device_run(&trial);
}
