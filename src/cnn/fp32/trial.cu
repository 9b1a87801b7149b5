#include "cuda/runtime.cuh"

#include <cstring>

#include "cnn/bf16/trial.h"
#include "cnn/fp32/floats.cuh"
#include "cnn/fp32/passes.cuh"
#include "morph/net_trial.cuh"

struct trial {
    struct runtime *runtime;
    struct net_setup setup; /* of a single env */
    struct framed_net *net;
};

/* Pixels of planes: eight channels in bf16, of which three are colours, in as much room. */
static std::vector<float> rounded_pixels(const float *pixels, size_t floats)
{
    std::vector<float> to(floats);
    for (size_t p = 0; p < floats; p += GATHER_CHANNELS) {
        uint16_t eight[2 * GATHER_CHANNELS] = {};
        for (size_t c = 0; c < 3; c++)
            eight[c] = trial_rounded(pixels[p + c]);
        memcpy(&to[p], eight, sizeof eight);
    }
    return to;
}

static void place_images(struct trial *trial, const struct net_trial *given)
{
    struct runtime *rt = trial->runtime;
    const struct net_view *net = &trial->net->view;
    const struct block_shape *first = &cnn_shape_of(given->shape)->block[0];
    const size_t floats = (size_t)(first->height * first->width) * GATHER_CHANNELS;
    std::vector<double> labels(given->labels, given->labels + given->samples);
    const std::vector<float> rounded = given->bf16 ? rounded_pixels(given->pixels, floats * (size_t)given->samples)
                                                   : std::vector<float>();
    const float *pixels = given->bf16 ? rounded.data() : given->pixels;
    for (size_t n = 0; n < (size_t)given->samples; n++) {
        runtime_copy_to(rt, net->frames + n * net->frame + net->input, pixels + n * floats, floats * sizeof(float));
        runtime_copy_to(rt, net->figures + n * net->figure + net->label, &labels[n], sizeof labels[n]);
    }
    runtime_wait(rt);
}

/* Logits of every image, and the resulting loss and count. */
static void take_answers(struct trial *trial, struct net_trial *given)
{
    struct runtime *rt = trial->runtime;
    const struct net_view *net = &trial->net->view;
    given->result.score = {0, 0, (uint64_t)given->samples};
    for (size_t n = 0; n < (size_t)given->samples; n++) {
        double loss = 0, right = 0;
        runtime_copy_from(rt, given->logits + n * (size_t)net->classes, net->frames + n * net->frame + net->logit,
                          (size_t)net->classes * sizeof(float));
        runtime_copy_from(rt, &loss, net->figures + n * net->figure + net->loss, sizeof loss);
        runtime_copy_from(rt, &right, net->figures + n * net->figure + net->right, sizeof right);
        runtime_wait(rt);
        given->result.score.loss += loss;
        given->result.score.hits += right;
    }
}

static void framed_trial(struct trial *trial, struct net_trial *given)
{
    const struct net_device_kernels *kernels = given->bf16 ? &cnn_planes : &cnn_fp32;
    trial->net = framed_net_of(kernels->create(trial->runtime, &trial->setup));
    if (!trial->net)
        return;
    place_images(trial, given);
    if (given->learn) {
        trial->net->passes->learn(trial->net, 0, 1);
        framed_end_step(trial->net, 0, 1);
        trial_take_gradients(trial->runtime, given, trial->net->view.grads, trial->net->view.part);
    } else {
        trial->net->passes->look(trial->net);
    }
    take_answers(trial, given);
    kernels->free(trial->net);
}

/* A seed that makes up all of the slot's output: what exec says. */
IMAGE_KERNEL seed_alone(const struct net_view *net)
{
    const struct image image = image_of(net, 0, 0, blockIdx.x);
    float *x = image.frame + net->slot[0].x;
    slot_forward<floats>(image, 0, x, image.frame + net->slot[0].y);
    slot_backward<floats>(image, 0, x, image.frame + net->block[0].grad);
}

static void seed_trial(struct trial *trial, struct net_trial *given)
{
    struct runtime *rt = trial->runtime;
    trial->net = framed_net_of(cnn_fp32.create(trial->runtime, &trial->setup));
    if (!trial->net)
        return;
    const struct net_view *net = &trial->net->view;
    const size_t map = (size_t)(net->slot[0].pixels * net->slot[0].channels), bytes = map * sizeof(float);
    for (size_t n = 0; n < (size_t)given->samples; n++) {
        float *frame = net->frames + n * net->frame;
        runtime_copy_to(rt, frame + net->slot[0].x, given->x + n * map, bytes);
        runtime_copy_to(rt, frame + net->block[0].grad, given->dy + n * map, bytes);
    }
    trial->net->passes->pack(trial->net, 0, 1);
    runtime_launch(rt, seed_alone, net_blocks((unsigned)given->samples, 1, BLOCK_THREADS), trial->net->net);
    runtime_launch(rt, weights<floats>, net_blocks(trial->net->work, 1, BLOCK_THREADS), trial->net->net, 0);
    framed_update(trial->net, 0, 1);
    trial_take_gradients(trial->runtime, given, trial->net->view.grads, trial->net->view.part);
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
    trial->setup = trial_setup(trial->runtime, given);
    if (given->x)
        seed_trial(trial, given);
    else if (given->bf16 && cnn_bf16_fits(given->shape, given->samples))
        fast_trial(trial->runtime, &trial->setup, given);
    else
        framed_trial(trial, given);
    if (given->learn)
        trial_take(trial->runtime, given, &trial->setup);
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
