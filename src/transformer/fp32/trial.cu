#include "cuda/runtime.cuh"

#include "morph/net_trial.cuh"
#include "transformer/fp32/net.cuh"

struct exact_trial {
    struct runtime *runtime;
    struct net_setup setup; /* of a single env */
    struct transformer_net *net;
};

static size_t row_count(const struct exact_trial *trial)
{
    return (size_t)trial->net->view.rows;
}

static float *array_at(const struct exact_trial *trial, place_t place)
{
    return trial->net->view.frames + row_count(trial) * place;
}

/* Logits of every token, and the resulting score. */
static void take_answers(struct exact_trial *trial, struct net_trial *given)
{
    struct runtime *rt = trial->runtime;
    const struct exact_view *net = &trial->net->view;
    const size_t rows = row_count(trial);
    std::vector<double> losses(rows);
    std::vector<uint8_t> hits(rows);
    runtime_copy_from(rt, losses.data(), net->losses, rows * sizeof(double));
    runtime_copy_from(rt, hits.data(), net->hits, rows);
    if (given->logits && !given->bf16)
        runtime_copy_from(rt, given->logits, array_at(trial, net->logits),
                          rows * (size_t)net->vocabulary * sizeof(float));
    runtime_wait(rt);
    given->result.score = {0, 0, rows};
    for (size_t i = 0; i < rows; i++) {
        given->result.score.loss += losses[i];
        given->result.score.hits += hits[i];
    }
}

/* Before create copies the view to the device, the trial's own targets cannot be in it. */
static void place_targets(struct exact_trial *trial, const struct net_trial *given)
{
    struct runtime *rt = trial->runtime;
    struct exact_view *net = &trial->net->view;
    net->targets = trial_place(rt, given->targets, row_count(trial));
    runtime_copy_to(rt, trial->net->net, net, sizeof *net);
    runtime_wait(rt);
}

static void net_trial_run(struct exact_trial *trial, struct net_trial *given)
{
    struct runtime *rt = trial->runtime;
    const struct exact_view *net = &trial->net->view;
    place_targets(trial, given);
    runtime_copy_to(rt, net->windows, given->tokens, (size_t)given->samples * (size_t)(net->context + 1));
    transformer_begin_step(trial->net);
    transformer_ready(trial->net, 0, 1);
    if (given->learn || given->bf16)
        trial->net->learn(trial->net, 0, 1);
    else
        transformer_forward(trial->net, 0, 1);
    if (given->learn) {
        transformer_end_step(trial->net, 0, 1);
        trial_take_gradients(trial->runtime, given, trial->net->view.grads, trial->net->view.part);
    }
    take_answers(trial, given);
}

/* A seed that makes up all of the slot's output: what exec says. */
static void seed_trial_run(struct exact_trial *trial, struct net_trial *given)
{
    struct runtime *rt = trial->runtime;
    const struct exact_view *net = &trial->net->view;
    const struct exact_slot *slot = &net->slot[0];
    const size_t bytes = row_count(trial) * (size_t)net->width * sizeof(float);
    runtime_copy_to(rt, array_at(trial, slot->x.exact), given->x, bytes);
    runtime_copy_to(rt, array_at(trial, slot->dy.exact), given->dy, bytes);
    transformer_seed_alone(trial->net, 0);
    trial_take_gradients(trial->runtime, given, trial->net->view.grads, trial->net->view.part);
    runtime_copy_from(rt, given->y, array_at(trial, slot->to.exact), bytes);
    runtime_copy_from(rt, given->dx, array_at(trial, slot->dx.exact), bytes);
    runtime_wait(rt);
}

static void run(struct exact_trial *trial, struct net_trial *given)
{
    const struct net_device_kernels &kernels = given->bf16 ? transformer_bf16 : transformer_fp32;
    trial->setup = trial_setup(trial->runtime, given);
    struct net_device *net = kernels.create(trial->runtime, &trial->setup);
    if (!net)
        return;
    trial->net = transformer_net_of(net);
    if (given->x)
        seed_trial_run(trial, given);
    else
        net_trial_run(trial, given);
    if (given->learn)
        trial_take(trial->runtime, given, &trial->setup);
    kernels.free(trial->net);
}

enum esper_status transformer_trial_run(struct net_trial *given, struct esper_error *error)
{
    struct exact_trial trial = {};
    struct runtime *rt = trial.runtime = runtime_create(error);
    if (!rt)
        return ESPER_FAILED;
    run(&trial, given);
    const enum esper_status status = rt->failed ? ESPER_FAILED : ESPER_OK;
    *error = rt->error;
    runtime_free(rt);
    return status;
}
