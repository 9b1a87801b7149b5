#include "cuda/runtime.cuh"

#include <cmath>
#include <cstring>

#include "cnn/bf16/host.cuh"
#include "cnn/bf16/seed.cuh"
#include "cnn/bf16/trial.h"
#include "morph/net_trial.h"

uint16_t trial_rounded(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return (uint16_t)((u + 0x7fffu + (u >> 16 & 1u)) >> 16);
}

static void place_images(struct bf16_net *net, const struct net_trial *given)
{
    struct runtime *rt = net->runtime;
    const struct block_shape *first = &cnn_shape_of(given->shape)->block[0];
    const size_t pixels = (size_t)given->samples * (size_t)(first->height * first->width);
    std::vector<uint2> packed(pixels);
    for (size_t p = 0; p < pixels; p++) {
        const float *v = given->pixels + p * GATHER_CHANNELS;
        packed[p] = make_uint2(trial_rounded(v[0]) | (uint32_t)trial_rounded(v[1]) << 16, trial_rounded(v[2]));
    }
    runtime_copy_to(rt, net->gathered[0].pixels, packed.data(), pixels * sizeof packed[0]);
    const std::vector<uint8_t> labels(given->labels, given->labels + given->samples); /* of ten classes */
    runtime_copy_to(rt, net->gathered[0].labels, labels.data(), labels.size());
    runtime_wait(rt);
}

static void take_gradients(struct bf16_net *net, const struct net_trial *given)
{
    struct runtime *rt = net->runtime;
    const struct net_shape *shape = given->shape;
    runtime_copy_from(rt, given->grads.host, net->host.grad, shape->host.storage * sizeof(float));
    for (int j = 0; j < shape->slots; j++) {
        const struct seed_slot &slot = net->seeds->slot[j];
        runtime_copy_from(rt, given->grads.seed + slot.seed, slot.grad, slot.seed_storage * sizeof(float));
        runtime_copy_from(rt, given->grads.gate + slot.gate, slot.grad + slot.seed_storage,
                          slot.gate_storage * sizeof(float));
    }
}

void fast_trial(struct runtime *rt, const struct net_setup *setup, struct net_trial *given)
{
    struct bf16_net *net = bf16_net_of(cnn_bf16.create(rt, setup));
    double loss = 0, accuracy = 0;
    if (!net)
        return;
    place_images(net, given);
    seed_plan(net);
    fast_pack(net);
    fast_learn(net, 0);
    take_gradients(net, given);
    runtime_copy_from(rt, &given->result.host_norm, net->host.host_norm, sizeof(double));
    runtime_copy_from(rt, &loss, setup->train_loss, sizeof loss);
    runtime_copy_from(rt, &accuracy, setup->train_accuracy, sizeof accuracy);
    runtime_wait(rt);
    given->result.score = {loss * given->samples, std::round(accuracy * given->samples / 100),
                           (uint64_t)given->samples};
    cnn_bf16.free(net);
}
