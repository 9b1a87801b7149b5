/* What an evaluation measured (walk.cuh), in points, and the phases that evaluate. */
#include "cuda/runtime.cuh"

#include "transformer/fp32/net.cuh"

enum { SCORE_THREADS = 128 };

/* ---- points ------------------------------------------------------------------------------------------------------ */

DEVICE struct net_score total_of(const struct exact_view *net, int env, uint32_t config, int windows)
{
    struct net_score total = {0, 0, 0};
    for (int part = 0; part < part_count(windows); part++)
        net_score_add(&total, part_scores(net, env, part)[config]);
    return total;
}

DEVICE double points_of(const struct net_setup *setup, const struct net_score &score)
{
    return net_points(setup->scored_by_loss, setup->classes, &score);
}

KERNEL void evaluated(const struct exact_view *net, int windows)
{
    const struct net_setup *setup = net->setup;
    const int env = (int)blockIdx.x;
    for (uint32_t k = threadIdx.x; k < SUBSETS_MAX; k += SCORE_THREADS) {
        const bool measured = k < net->plans[env].count;
        const struct net_score score = measured ? total_of(net, env, k, windows) : net_score{0, 0, 0};
        setup->subset_score[(size_t)env * SUBSETS_MAX + k] = measured ? points_of(setup, score) : 0;
        if (k == 0) { /* the whole set */
            setup->val_loss[env] = score.loss / (double)score.count;
            setup->val_accuracy[env] = points_of(setup, score);
        }
    }
}

KERNEL void measured(const struct exact_view *net, struct net_sets sets, int windows)
{
    const struct net_setup *setup = net->setup;
    const int env = (int)blockIdx.x;
    double *score = net_sets_of(sets.score, sets, (size_t)env);
    for (uint32_t k = threadIdx.x; k < net->plans[env].count; k += SCORE_THREADS)
        score[k] = points_of(setup, total_of(net, env, k, windows));
}

KERNEL void tested(const struct exact_view *net)
{
    const struct net_setup *setup = net->setup;
    const int env = (int)(blockIdx.x * SCORE_THREADS + threadIdx.x);
    if (env < setup->envs)
        setup->test_accuracy[env] = points_of(setup, total_of(net, env, 0, setup->test_images));
}

/* ---- enqueued ---------------------------------------------------------------------------------------------------- */

static struct launch block_per_env(const struct transformer_net *device)
{
    return net_blocks((unsigned)device->setup.envs, 1, SCORE_THREADS);
}

void transformer_evaluate_all(struct net_device *given, int windows)
{
    struct transformer_net *device = transformer_net_of(given);
    net_plan_evaluate(device, device->view.plans);
    device->walk(device, {SPLIT_VAL, windows});
    runtime_launch(device->runtime, evaluated, block_per_env(device), device->net, windows);
}

void transformer_measure_all(struct net_device *given, struct net_sets sets, int windows)
{
    struct transformer_net *device = transformer_net_of(given);
    net_plan_measure(device, device->view.plans, sets);
    device->walk(device, {SPLIT_VAL, windows});
    runtime_launch(device->runtime, measured, block_per_env(device), device->net, sets, windows);
}

void transformer_test_all(struct net_device *given)
{
    struct transformer_net *device = transformer_net_of(given);
    const unsigned blocks = ((unsigned)device->setup.envs + SCORE_THREADS - 1) / SCORE_THREADS;
    net_plan_test(device, device->view.plans);
    device->walk(device, {SPLIT_TEST, device->setup.test_images});
    runtime_launch(device->runtime, tested, net_blocks(blocks, 1, SCORE_THREADS), device->net);
}
