#include "cuda/runtime.cuh"

#include <cmath>

#include "cnn/bf16/trial.h"
#include "cnn/fp32/seed.cuh"
#include "morph/net_trial.h"

struct trial {
    struct runtime *runtime;
    struct net_setup setup; /* of a single env */
    struct fp32_net *net;
};

/* An array on the device, filled from the host's. */
static float *place_array(struct runtime *rt, const float *from, size_t count)
{
    float *to = runtime_alloc<float>(rt, count + 1);
    runtime_copy_to(rt, to, from, count * sizeof *to);
    return to;
}

static void place_setup(struct trial *trial, const struct net_trial *given)
{
    struct runtime *rt = trial->runtime;
    const struct net_shape *shape = given->shape;
    static const float plain = 1.0f; /* it is copied later */
    struct net_setup *setup = &trial->setup;
    setup->shape = *shape;
    setup->host_shape = shape;
    setup->envs = setup->val_images = 1;
    setup->rates = given->rates;
    setup->source.batches = 1;
    setup->source.batch = (uint32_t)given->samples;
    setup->source.conditions.lr_factor = place_array(rt, &plain, 1);
    setup->host = place_array(rt, given->params.host, shape->host.storage);
    setup->stats = place_array(rt, given->params.stats, shape->stats);
    setup->seed = place_array(rt, given->params.seed, shape->seed_storage);
    setup->gate = place_array(rt, given->params.gate, shape->gate_storage);
    setup->host_momentum = place_array(rt, given->memory.first.host, shape->host.storage);
    setup->seed_momentum = place_array(rt, given->memory.first.seed, shape->seed_storage);
    setup->gate_momentum = place_array(rt, given->memory.first.gate, shape->gate_storage);
    setup->train_loss = runtime_alloc<double>(rt, 1);
    setup->train_accuracy = runtime_alloc<double>(rt, 1);
    setup->grads = runtime_alloc<struct slot_grads>(rt, SHAPE_SLOTS);
    setup->exec = runtime_alloc<struct slot_exec>(rt, SHAPE_SLOTS);
    runtime_copy_to(rt, setup->exec, given->exec, sizeof *given->exec * (size_t)shape->slots);
}

static void place_images(struct trial *trial, const struct net_trial *given)
{
    struct runtime *rt = trial->runtime;
    const struct net_view *net = &trial->net->view;
    const struct block_shape *first = &cnn_shape_of(given->shape)->block[0];
    const size_t floats = (size_t)(first->height * first->width) * GATHER_CHANNELS;
    std::vector<double> labels(given->labels, given->labels + given->samples);
    for (size_t n = 0; n < (size_t)given->samples; n++) {
        runtime_copy_to(rt, net->frames + n * net->frame + net->input, given->pixels + n * floats,
                        floats * sizeof(float));
        runtime_copy_to(rt, net->figures + n * net->figure + net->label, &labels[n], sizeof labels[n]);
    }
    runtime_wait(rt);
}

/* Fetches what a step leaves, in either implementation. */
static void take_arrays(struct trial *trial, struct net_trial *given)
{
    struct runtime *rt = trial->runtime;
    const struct net_shape *shape = given->shape;
    const struct net_setup *setup = &trial->setup;
    const struct {
        float *to;
        const float *from;
        size_t count;
    } arrays[] = {
        {given->params.host, setup->host, shape->host.storage},
        {given->params.stats, setup->stats, shape->stats},
        {given->params.seed, setup->seed, shape->seed_storage},
        {given->params.gate, setup->gate, shape->gate_storage},
        {given->memory.first.host, setup->host_momentum, shape->host.storage},
        {given->memory.first.seed, setup->seed_momentum, shape->seed_storage},
        {given->memory.first.gate, setup->gate_momentum, shape->gate_storage},
    };
    for (const auto &array : arrays)
        runtime_copy_from(rt, array.to, array.from, array.count * sizeof(float));
    runtime_copy_from(rt, given->result.grads, setup->grads, sizeof(struct slot_grads) * (size_t)shape->slots);
    runtime_wait(rt);
}

static void take_gradients(struct trial *trial, struct net_trial *given)
{
    struct runtime *rt = trial->runtime;
    const struct net_shape *shape = given->shape;
    const float *grads = trial->net->view.grads, *seeds = grads + shape->host.storage,
                *gates = seeds + shape->seed_storage;
    struct part_norms part[NET_PARTS] = {};
    runtime_copy_from(rt, given->grads.host, grads, shape->host.storage * sizeof(float));
    runtime_copy_from(rt, given->grads.seed, seeds, shape->seed_storage * sizeof(float));
    runtime_copy_from(rt, given->grads.gate, gates, shape->gate_storage * sizeof(float));
    runtime_copy_from(rt, part, trial->net->view.part, sizeof part[0] * (size_t)(1 + shape->slots));
    runtime_wait(rt);
    given->result.host_norm = std::sqrt(part[0].square);
    for (int j = 0; j < shape->slots; j++)
        given->result.slot_norm[j] = given->exec[j].train ? std::sqrt(part[1 + j].square) : 0;
}

/* Logits of every image, and the resulting loss and count. */
static void take_answers(struct trial *trial, struct net_trial *given)
{
    struct runtime *rt = trial->runtime;
    const struct net_view *net = &trial->net->view;
    given->result.score = {0, 0, (uint64_t)given->samples};
    for (size_t n = 0; n < (size_t)given->samples; n++) {
        double loss = 0, right = 0;
        runtime_copy_from(rt, given->logits + n * SHAPE_CLASSES, net->frames + n * net->frame + net->logit,
                          SHAPE_CLASSES * sizeof(float));
        runtime_copy_from(rt, &loss, net->figures + n * net->figure + net->loss, sizeof loss);
        runtime_copy_from(rt, &right, net->figures + n * net->figure + net->right, sizeof right);
        runtime_wait(rt);
        given->result.score.loss += loss;
        given->result.score.hits += right;
    }
}

static void exact_trial(struct trial *trial, struct net_trial *given)
{
    trial->net = fp32_net_of(cnn_fp32.create(trial->runtime, &trial->setup));
    if (!trial->net)
        return;
    place_images(trial, given);
    if (given->learn) {
        fp32_learn(trial->net, 0, 1);
        fp32_end_step(trial->net, 0, 1);
        take_gradients(trial, given);
    } else {
        fp32_look(trial->net);
    }
    take_answers(trial, given);
    cnn_fp32.free(trial->net);
}

/* A seed that makes up all of the slot's output: what exec says. */
IMAGE_KERNEL seed_alone(const struct net_view *net)
{
    const struct image image = image_of(net, 0, 0, blockIdx.x);
    float *x = image.frame + net->slot[0].x;
    slot_forward(image, 0, x, image.frame + net->slot[0].y);
    slot_backward(image, 0, x, image.frame + net->block[0].grad);
}

static void seed_trial(struct trial *trial, struct net_trial *given)
{
    struct runtime *rt = trial->runtime;
    trial->net = fp32_net_of(cnn_fp32.create(trial->runtime, &trial->setup));
    if (!trial->net)
        return;
    const struct net_view *net = &trial->net->view;
    const size_t map = (size_t)(net->slot[0].pixels * net->slot[0].channels), bytes = map * sizeof(float);
    for (size_t n = 0; n < (size_t)given->samples; n++) {
        float *frame = net->frames + n * net->frame;
        runtime_copy_to(rt, frame + net->slot[0].x, given->x + n * map, bytes);
        runtime_copy_to(rt, frame + net->block[0].grad, given->dy + n * map, bytes);
    }
    fp32_pack(trial->net, 0, 1);
    runtime_launch(rt, seed_alone, net_blocks((unsigned)given->samples, 1, BLOCK_THREADS), trial->net->net);
    fp32_update(trial->net, 0, 1);
    take_gradients(trial, given);
    for (size_t n = 0; n < (size_t)given->samples; n++) {
        const float *frame = net->frames + n * net->frame;
        runtime_copy_from(rt, given->y + n * map, frame + net->slot[0].y, bytes);
        runtime_copy_from(rt, given->dx + n * map, frame + net->block[0].grad, bytes);
    }
    runtime_wait(rt);
    cnn_fp32.free(trial->net);
}

static void run(struct trial *trial, struct net_trial *given)
{
    place_setup(trial, given);
    if (given->x)
        seed_trial(trial, given);
    else if (given->bf16)
        fast_trial(trial->runtime, &trial->setup, given);
    else
        exact_trial(trial, given);
    if (given->learn)
        take_arrays(trial, given);
}

enum esper_status cnn_trial_run(struct net_trial *given, struct esper_error *error)
{
    struct trial *trial = new struct trial();
    struct runtime *rt = trial->runtime = runtime_create(error);
    enum esper_status status = ESPER_FAILED;
    if (rt) {
        run(trial, given);
        status = rt->failed ? ESPER_FAILED : ESPER_OK;
        *error = rt->error;
        runtime_free(rt);
    }
    delete trial;
    return status;
}
