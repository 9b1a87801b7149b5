#include "cuda/runtime.cuh"

#include "policy/network.cuh"
#include "policy/network_trial.h"

static struct network_places places_of(struct runtime *rt, const struct policy_trial *trial)
{
    const size_t envs = (size_t)trial->envs, rows = envs * (size_t)trial->steps, storage = trial->shape->storage,
                 hidden = (size_t)trial->shape->hidden, logits = (size_t)trial->shape->logits;
    const uint32_t *zeros = runtime_place<uint32_t>(rt, nullptr, 1), stop = trial->stopped;
    struct network_places places = {};
    places.shape = trial->shape;
    places.envs = trial->envs;
    places.acting = {0, trial->envs};
    places.steps = trial->steps;
    places.exact = !trial->tf32;
    places.w = runtime_place(rt, trial->w, storage);
    places.grad = runtime_place<float>(rt, nullptr, storage);
    places.step = zeros;
    places.stop = places.skip = runtime_place(rt, &stop, 1);
    places.state = runtime_place(rt, trial->obs, rows * (size_t)trial->shape->obs);
    places.bp = runtime_place(rt, trial->bp, rows * (size_t)trial->shape->slots);
    places.reset = runtime_place(rt, trial->reset, rows);
    places.hidden = runtime_place(rt, trial->h, envs * hidden);
    places.cell = runtime_place(rt, trial->c, envs * hidden);
    places.act_logits = runtime_place<float>(rt, nullptr, envs * HEAD_MAX_LOGITS);
    places.act_values = runtime_place<float>(rt, nullptr, envs);
    places.logits = runtime_place<float>(rt, nullptr, rows * logits);
    places.values = runtime_place<float>(rt, nullptr, rows);
    places.dlogits = runtime_place(rt, trial->dlogits, rows * logits);
    places.dvalues = runtime_place(rt, trial->dvalues, rows);
    runtime_wait(rt);
    return places;
}

static void act(struct runtime *rt, const struct network_places &places, struct network_device *net,
                struct policy_trial *trial)
{
    const size_t envs = (size_t)trial->envs, state = envs * (size_t)trial->shape->hidden * sizeof(float);
    network_device_act(net);
    runtime_copy_from(rt, trial->h, places.hidden, state);
    runtime_copy_from(rt, trial->c, places.cell, state);
    runtime_copy_from(rt, trial->logits, places.act_logits, envs * (size_t)trial->shape->logits * sizeof(float));
    runtime_copy_from(rt, trial->values, places.act_values, envs * sizeof(float));
}

static void unroll(struct runtime *rt, const struct network_places &places, struct network_device *net,
                   struct policy_trial *trial)
{
    const size_t rows = (size_t)(trial->envs * trial->steps), hidden = (size_t)trial->shape->hidden * sizeof(float),
                 state = (size_t)trial->envs * hidden;
    runtime_copy_to(rt, network_device_first_hidden(net), trial->h, state);
    runtime_copy_to(rt, network_device_first_cell(net), trial->c, state);
    runtime_wait(rt);
    network_device_unroll(net);
    if (trial->dlogits) {
        network_device_backward(net);
        runtime_copy_from(rt, trial->grad, places.grad, trial->shape->storage * sizeof(float));
    }
    runtime_copy_from(rt, trial->h, network_device_hidden(net), state);
    runtime_copy_from(rt, trial->c, network_device_cell(net), state);
    runtime_copy_from(rt, trial->trunk, network_device_trunk(net), rows * hidden);
    runtime_copy_from(rt, trial->logits, places.logits, rows * (size_t)trial->shape->logits * sizeof(float));
    runtime_copy_from(rt, trial->values, places.values, rows * sizeof(float));
}

enum esper_status policy_trial_run(struct policy_trial *trial, struct esper_error *error)
{
    struct runtime *rt = runtime_create(error);
    if (!rt)
        return ESPER_FAILED;
    if (trial->shape->hidden > network_device_widest(rt)) {
        error_set(error, ESPER_INVALID, "the device runs recurrent layers of up to %d units; this one has %d",
                  network_device_widest(rt), trial->shape->hidden);
        runtime_free(rt);
        return ESPER_INVALID;
    }
    const struct network_places places = places_of(rt, trial);
    struct network_device *net = rt->failed ? nullptr : network_device_create(rt, &places);
    if (net) {
        (trial->act ? act : unroll)(rt, places, net, trial);
        runtime_wait(rt);
        network_device_free(net);
    }
    const enum esper_status status = rt->failed ? ESPER_FAILED : ESPER_OK;
    *error = rt->error;
    runtime_free(rt);
    return status;
}
