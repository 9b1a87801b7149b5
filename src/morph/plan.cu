#include "cuda/runtime.cuh"

#include "morph/plan.cuh"

extern "C" {
#include "base/assert.h"
}

enum { PLAN_THREADS = 128, ORDER_THREADS = 256 };

KERNEL void plan_exec(const struct net_setup *setup, struct slot_exec *exec)
{
    const size_t row = (size_t)blockIdx.x * PLAN_THREADS + threadIdx.x;
    if (row >= (size_t)setup->envs * (size_t)setup->shape.slots)
        return;
    struct slot_state slot = slot_load(&setup->slots, row);
    exec[row] = slot_exec_of(&slot);
    ESPER_ASSERT(exec[row].mode == SLOT_SKIP || exec[row].blueprint < BLUEPRINT_MAX);
}

/* The slots that an evaluation switches: blended and in the output. */
DEVICE uint32_t blended_slots(const struct net_setup *setup, size_t env, uint32_t *fossils)
{
    const int slots = setup->shape.slots;
    uint32_t blended = 0;
    *fossils = 0;
    for (int j = 0; j < slots; j++) {
        const size_t row = env * (size_t)slots + (size_t)j;
        const int stage = setup->slots.stage[row];
        if (stage_is_blended(stage) && setup->slots.alpha[row] > 0) {
            blended |= 1u << j;
            *fossils |= stage == STAGE_FOSSILIZED ? 1u << j : 0;
        }
    }
    return blended;
}

/* Whether mask a is visited before mask b. */
DEVICE bool visited_before(const struct net_shape *shape, uint32_t a, uint32_t b)
{
    int at = eval_parting(shape, a, b);
    return at < shape->slots && ((a >> shape->exec_order[at]) & 1u);
}

/* All threads of a block: a mask's position is the number of those that come before it. */
DEVICE void plan_visits(const struct net_shape *shape, struct eval_plan *plan, const uint32_t *mask, int count)
{
    if (threadIdx.x == 0)
        plan->count = (uint32_t)count;
    for (int k = (int)threadIdx.x; k < count; k += PLAN_THREADS) {
        int at = 0;
        for (int i = 0; i < count; i++)
            at += visited_before(shape, mask[i], mask[k]);
        ESPER_ASSERT(at < count && count <= NET_SETS_MAX);
        plan->mask[at] = mask[k];
        plan->config[at] = (uint16_t)k;
        plan->right[k] = 0;
    }
}

KERNEL void plan_evaluate(const struct net_setup *setup, struct eval_plan *plans)
{
    __shared__ struct subsets subsets;
    const size_t env = blockIdx.x;
    if (threadIdx.x == 0) {
        uint32_t fossils;
        const uint32_t blended = blended_slots(setup, env, &fossils);
        subsets_plan(&subsets, blended, fossils);
        setup->subset_all[env] = subsets.all;
        setup->subset_count[env] = (uint32_t)subsets.count;
    }
    __syncthreads();
    for (size_t k = threadIdx.x; k < SUBSETS_MAX; k += PLAN_THREADS)
        setup->subset_mask[env * SUBSETS_MAX + k] = subsets.mask[k];
    plan_visits(&setup->shape, &plans[env], subsets.mask, subsets.count);
}

KERNEL void plan_measure(const struct net_setup *setup, struct eval_plan *plans, struct net_sets sets)
{
    const size_t env = blockIdx.x;
    plan_visits(&setup->shape, &plans[env], net_sets_of(sets.mask, sets, env), *net_sets_of(sets.count, sets, env));
}

KERNEL void plan_test(const struct net_setup *setup, struct eval_plan *plans)
{
    const size_t env = (size_t)blockIdx.x * PLAN_THREADS + threadIdx.x;
    if (env >= (size_t)setup->envs)
        return;
    plans[env].count = 1;
    blended_slots(setup, env, &plans[env].mask[0]); /* the committed network (E-19) */
    plans[env].config[0] = 0;
    plans[env].right[0] = 0;
}

/* One block. An env's position is the number of those that come before it. */
KERNEL void plan_order(const struct eval_plan *plans, int envs, struct eval_order order)
{
    __shared__ uint32_t grown, plain;
    const uint32_t nothing = 0xffffffffu;
    if (threadIdx.x == 0)
        grown = plain = 0;
    __syncthreads();
    for (int e = (int)threadIdx.x; e < envs; e += ORDER_THREADS) {
        const struct eval_plan &plan = plans[e];
        const uint32_t weight = !plan.count ? nothing : plan.mask[0] ? plan.count : 0;
        order.weight[e] = weight;
        if (weight != nothing)
            atomicAdd(weight ? &grown : &plain, 1u);
    }
    __syncthreads();
    for (int e = (int)threadIdx.x; e < envs; e += ORDER_THREADS) {
        const uint32_t weight = order.weight[e];
        uint32_t place = 0;
        for (int i = 0; i < envs; i++) { /* those with nothing to do wrap around to the end */
            const uint32_t other = order.weight[i];
            place += other + 1 > weight + 1 || (other == weight && i < e);
        }
        order.env[place] = (uint32_t)e;
    }
    if (threadIdx.x == 0) {
        order.count[0] = grown;
        order.count[1] = plain;
    }
}

/* Of a family whose points are the targets predicted right, one per sample. */
DEVICE double points_of(const struct net_setup *setup, uint32_t right, int samples)
{
    const struct net_score score = {0, (double)right, (uint64_t)samples};
    return net_points(false, setup->classes, &score);
}

/* One block per env: every thread adds up its images in double, thread 0 the threads' sums, in order. */
KERNEL void plan_evaluated(const struct net_setup *setup, const struct eval_plan *plans, const float *losses,
                           int images)
{
    __shared__ double part[PLAN_THREADS];
    const size_t env = blockIdx.x;
    const struct eval_plan &plan = plans[env];
    double sum = 0;
    for (size_t k = threadIdx.x; k < SUBSETS_MAX; k += PLAN_THREADS)
        setup->subset_score[env * SUBSETS_MAX + k] = k < plan.count ? points_of(setup, plan.right[k], images) : 0;
    for (int n = (int)threadIdx.x; n < images; n += PLAN_THREADS)
        sum += (double)losses[env * (size_t)images + (size_t)n];
    part[threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.x > 0)
        return;
    for (int t = 1; t < PLAN_THREADS; t++)
        sum += part[t];
    setup->val_loss[env] = sum / images;
    setup->val_accuracy[env] = points_of(setup, plan.right[0], images); /* configuration 0 is the whole set */
}

KERNEL void plan_measured(const struct net_setup *setup, const struct eval_plan *plans, struct net_sets sets,
                          int images)
{
    const size_t env = blockIdx.x;
    double *score = net_sets_of(sets.score, sets, env);
    for (uint32_t k = threadIdx.x; k < plans[env].count; k += PLAN_THREADS)
        score[k] = points_of(setup, plans[env].right[k], images);
}

KERNEL void plan_tested(const struct net_setup *setup, const struct eval_plan *plans, double *accuracy)
{
    const size_t env = (size_t)blockIdx.x * PLAN_THREADS + threadIdx.x;
    if (env < (size_t)setup->envs)
        accuracy[env] = points_of(setup, plans[env].right[0], setup->test_images);
}

static struct launch threads_for(size_t count)
{
    struct launch shape = {dim3((unsigned)((count + PLAN_THREADS - 1) / PLAN_THREADS)), dim3(PLAN_THREADS), 0, false};
    return shape;
}

static struct launch block_per_env(const struct net_device *net)
{
    struct launch shape = {dim3((unsigned)net->setup.envs), dim3(PLAN_THREADS), 0, false};
    return shape;
}

void net_plan_train(struct net_device *net)
{
    const size_t rows = (size_t)net->setup.envs * (size_t)net->setup.shape.slots;
    runtime_launch(net->runtime, plan_exec, threads_for(rows ? rows : 1), net->placed, net->setup.exec);
}

void net_plan_evaluate(struct net_device *net, struct eval_plan *plans)
{
    net_plan_train(net);
    runtime_launch(net->runtime, plan_evaluate, block_per_env(net), net->placed, plans);
}

void net_plan_measure(struct net_device *net, struct eval_plan *plans, struct net_sets sets)
{
    runtime_launch(net->runtime, plan_measure, block_per_env(net), net->placed, plans, sets);
}

void net_plan_test(struct net_device *net, struct eval_plan *plans)
{
    net_plan_train(net);
    runtime_launch(net->runtime, plan_test, threads_for((size_t)net->setup.envs), net->placed, plans);
}

void net_plan_order(struct net_device *net, const struct eval_plan *plans, struct eval_order order)
{
    const struct launch one = {dim3(1), dim3(ORDER_THREADS), 0, false};
    runtime_launch(net->runtime, plan_order, one, plans, net->setup.envs, order);
}

void net_plan_evaluated(struct net_device *net, const struct eval_plan *plans, const float *losses, int images)
{
    runtime_launch(net->runtime, plan_evaluated, block_per_env(net), net->placed, plans, losses, images);
}

void net_plan_measured(struct net_device *net, const struct eval_plan *plans, struct net_sets sets, int images)
{
    runtime_launch(net->runtime, plan_measured, block_per_env(net), net->placed, plans, sets, images);
}

void net_plan_tested(struct net_device *net, const struct eval_plan *plans)
{
    runtime_launch(net->runtime, plan_tested, threads_for((size_t)net->setup.envs), net->placed, plans,
                   net->setup.test_accuracy);
}
