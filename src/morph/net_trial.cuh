/* What the trials of all families share: the arrays of a single env on the device, and back. */
#ifndef MORPH_NET_TRIAL_CUH
#define MORPH_NET_TRIAL_CUH

#include <cmath>

#include "morph/net_device.cuh"
#include "morph/net_trial.h"

/* An array on the device, filled from the host's; NULL where there is none. */
template <class T> static inline T *trial_place(struct runtime *rt, const T *from, size_t count)
{
    if (!from)
        return nullptr;
    T *to = runtime_alloc<T>(rt, count + 1);
    runtime_copy_to(rt, to, from, count * sizeof *to);
    return to;
}

/* The arrays of a trial's network and where they are on the device, one after the other. */
template <class F> static inline void trial_each(const struct net_trial *given, struct net_setup *setup, F f)
{
    const struct net_shape *shape = given->shape;
    f(given->params.host, &setup->host, shape->host.storage);
    f(given->params.stats, &setup->stats, shape->stats);
    f(given->params.seed, &setup->seed, shape->seed_storage);
    f(given->params.gate, &setup->gate, shape->gate_storage);
    f(given->memory.first.host, &setup->host_momentum, shape->host.storage);
    f(given->memory.first.seed, &setup->seed_momentum, shape->seed_storage);
    f(given->memory.first.gate, &setup->gate_momentum, shape->gate_storage);
    f(given->memory.second.host, &setup->host_second, shape->host.storage);
    f(given->memory.second.seed, &setup->seed_second, shape->seed_storage);
    f(given->memory.second.gate, &setup->gate_second, shape->gate_storage);
    f(given->memory.updates, &setup->updates, (size_t)net_parts(shape->slots));
}

/* One env, one batch. */
static inline struct net_setup trial_setup(struct runtime *rt, const struct net_trial *given)
{
    static const float plain = 1.0f; /* it is copied later */
    struct net_setup setup = {};
    setup.shape = *given->shape;
    setup.host_shape = given->shape;
    setup.envs = setup.val_images = setup.final_images = 1;
    setup.rates = given->rates;
    setup.source.batches = 1;
    setup.source.batch = (uint32_t)given->samples;
    setup.source.conditions.lr_factor = trial_place<float>(rt, &plain, 1);
    trial_each(given, &setup, [rt](auto *from, auto **to, size_t count) { *to = trial_place(rt, from, count); });
    setup.train_loss = runtime_alloc<double>(rt, 1);
    setup.train_accuracy = runtime_alloc<double>(rt, 1);
    setup.grads = runtime_alloc<struct slot_grads>(rt, SHAPE_SLOTS);
    setup.exec = runtime_alloc<struct slot_exec>(rt, SHAPE_SLOTS);
    runtime_copy_to(rt, setup.exec, given->exec, sizeof *given->exec * (size_t)given->shape->slots);
    return setup;
}

/* Fetches the gradients, host, seeds and gates one after the other, and the parts' norms. */
template <class Part>
static inline void trial_take_gradients(struct runtime *rt, struct net_trial *given, const float *grads,
                                        const Part *parts)
{
    const struct net_shape *shape = given->shape;
    const float *seeds = grads + shape->host.storage, *gates = seeds + shape->seed_storage;
    Part part[NET_NORMS] = {};
    runtime_copy_from(rt, given->grads.host, grads, shape->host.storage * sizeof(float));
    runtime_copy_from(rt, given->grads.seed, seeds, shape->seed_storage * sizeof(float));
    runtime_copy_from(rt, given->grads.gate, gates, shape->gate_storage * sizeof(float));
    runtime_copy_from(rt, part, parts, sizeof part[0] * (size_t)(1 + shape->slots));
    runtime_wait(rt);
    given->result.host_norm = std::sqrt(part[0].square);
    for (int j = 0; j < shape->slots; j++)
        given->result.slot_norm[j] = given->exec[j].train ? std::sqrt(part[1 + j].square) : 0;
}

/* Fetches what a step leaves. */
static inline void trial_take(struct runtime *rt, struct net_trial *given, struct net_setup *setup)
{
    trial_each(given, setup, [rt](auto *to, auto **from, size_t count) {
        if (to)
            runtime_copy_from(rt, to, *from, count * sizeof *to);
    });
    runtime_copy_from(rt, given->result.grads, setup->grads, sizeof(struct slot_grads) * (size_t)given->shape->slots);
    runtime_wait(rt);
}

#endif
