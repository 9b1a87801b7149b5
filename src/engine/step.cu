#include "engine/step.cuh"

#include <cmath>
#include <cstring>

#include "cuda/warp.cuh"

extern "C" {
#include "engine/books.h"
#include "engine/fresh.h"
#include "engine/pick.h"
#include "engine/turn.h"
}

/* Few envs per block, one if there are enough SMs. Each has a warp, over whose lanes its rules are spread; what is not
 * spread is scalar code whose envs diverge, so that sharing a warp would gain nothing. */
enum { ENVS_PER_BLOCK_MAX = 4, TEAM = 32, COPY_THREADS = 256, SCALE_THREADS = 256, COPY_BLOCKS_MAX = 16 };

/* Working memory for an env's rules, in shared memory. */
union env_room {
    struct books books;
    struct turn turn;
    struct reward_pairs pairs;
    union pick_room pick;
};

static_assert(ENVS_PER_BLOCK_MAX * sizeof(union env_room) <= 48 * 1024,
              "rooms in the shared memory that any block has");

struct step_device {
    const struct mirror *mirror;
    struct step step;                /* its arrays are in device memory */
    struct shapley_plan *coalitions; /* [env]; NULL where there are too few slots to sample */
    struct shapley_sums *shares;
    struct action *given;              /* [env] decided outside */
    struct launch envs, teams, copies; /* a thread per env; a warp and a room per env */
};

/* ---- kernels ----------------------------------------------------------------------------------------------------- */

DEVICE int own_env()
{
    return (int)(blockIdx.x * blockDim.x + threadIdx.x);
}

/* A warp per env: its env, its room and its lanes. */
DEVICE int team_env()
{
    return (int)(blockIdx.x * blockDim.y + threadIdx.y);
}

DEVICE union env_room *team_room(unsigned char *shared)
{
    return (union env_room *)shared + threadIdx.y;
}

DEVICE struct lanes team_lanes()
{
    return {(int)threadIdx.x, TEAM};
}

KERNEL void reset_envs(const __grid_constant__ struct step step)
{
    SHARED_BYTES(shared);
    const int env = team_env();
    if (env < step.world->envs && threadIdx.x == 0)
        step_reset_env(&step, env, &team_room(shared)->pairs);
}

KERNEL void observe_envs(const __grid_constant__ struct step step)
{
    SHARED_BYTES(shared);
    const int env = team_env();
    if (env < step.world->envs)
        step_observe_env(&step, env, &team_room(shared)->books, team_lanes());
}

KERNEL void draw_coalitions(const __grid_constant__ struct step step, struct shapley_plan *plans)
{
    const int env = own_env();
    if (env < step.world->envs)
        step_draw_coalitions(step.world, env, &plans[env]);
}

KERNEL void estimate_shares(const __grid_constant__ struct step step, const struct shapley_plan *plans,
                            struct shapley_sums *shares)
{
    const int env = own_env();
    if (env < step.world->envs && plans[env].count)
        shapley_estimate(&plans[env], &shares[env]);
}

/* One block. */
KERNEL void keep_twins(const __grid_constant__ struct step step)
{
    for (int env = (int)threadIdx.x; env < step.world->envs; env += (int)blockDim.x)
        step_keep_twin(step.world, env);
    __syncthreads();
    if (threadIdx.x == 0)
        ++*step.world->step;
}

KERNEL void choose_envs(const __grid_constant__ struct step step)
{
    SHARED_BYTES(shared);
    device_wait();
    const int env = team_env();
    if (env < step.world->envs)
        step_pick_env(&step, env, &team_room(shared)->pick, team_lanes());
}

KERNEL void set_actions(const __grid_constant__ struct step step, const struct action *given)
{
    const int env = own_env();
    if (env < step.world->envs)
        step_set_action(&step, env, &given[env]);
}

KERNEL void apply_envs(const __grid_constant__ struct step step)
{
    SHARED_BYTES(shared);
    const int env = team_env();
    if (env < step.world->envs)
        step_apply_env(&step, env, &team_room(shared)->turn, team_lanes());
}

/* Executes the orders of a step, a row of blocks per env. Nothing is both restored and born. */
KERNEL void orders_execute(const __grid_constant__ struct step step)
{
    device_wait();
    const int env = (int)blockIdx.y;
    const uint32_t thread = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
    const struct env_orders *orders = &step.orders[env];
    ESPER_ASSERT(orders_are_apart(step.world, env, orders));
    orders_do_host(step.world, env, orders, thread, threads);
    orders_do_slots(step.world, env, orders, thread, threads);
    orders_do_snapshot(step.world, env, orders, thread, threads);
}

/* Those of a beginning, where the snapshot is one of what was just born. */
KERNEL void orders_make(const __grid_constant__ struct step step)
{
    const int env = (int)blockIdx.y;
    const uint32_t thread = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
    orders_do_host(step.world, env, &step.orders[env], thread, threads);
    orders_do_slots(step.world, env, &step.orders[env], thread, threads);
}

KERNEL void orders_keep(const __grid_constant__ struct step step)
{
    const int env = (int)blockIdx.y;
    const uint32_t thread = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
    orders_do_snapshot(step.world, env, &step.orders[env], thread, threads);
}

/* The moments of the step's rewards, added in env order by one thread; the others load for it. */
DEVICE struct moments step_moments(const struct step *step)
{
    __shared__ double raw[SCALE_THREADS];
    __shared__ uint8_t executed[SCALE_THREADS];
    const int envs = step->world->envs;
    struct moments moments = {0, 0, 0};
    for (int first = 0; first < envs; first += SCALE_THREADS) {
        const int env = first + (int)threadIdx.x, count = envs - first < SCALE_THREADS ? envs - first : SCALE_THREADS;
        if (env < envs) {
            raw[threadIdx.x] = step->rewards[env];
            executed[threadIdx.x] = step->executed[env];
        }
        __syncthreads();
        for (int i = 0; threadIdx.x == 0 && i < count; i++)
            rewards_add(&moments, executed[i], raw[i]);
        __syncthreads();
    }
    return moments;
}

/* One block: scale the rewards, or keep them for that, then end the step. */
KERNEL void end_step(const __grid_constant__ struct step step)
{
    __shared__ struct moments all;
    device_wait();
    const struct world *world = step.world;
    const struct learner *learner = &world->learner;
    for (int env = (int)threadIdx.x; step_scales(world) && world->earned && env < world->envs; env += (int)blockDim.x)
        step_keep_reward(&step, env);
    if (step_scales(world) && !world->earned) {
        struct moments moments = step_moments(&step);
        if (threadIdx.x == 0) {
            struct moments before = {*learner->reward_count, *learner->reward_mean, *learner->reward_m2};
            all = moments_merge(before, moments);
            *learner->reward_count = all.count;
            *learner->reward_mean = all.mean;
            *learner->reward_m2 = all.m2;
        }
        __syncthreads();
        for (int env = (int)threadIdx.x; env < world->envs; env += (int)blockDim.x) {
            step.scaled[env] = rewards_scaled(all, step.executed[env], step.rewards[env]);
            if (step.executed[env])
                world->rollout.reward[world_rollout_row(world, env)] =
                    world_last_step(world)
                        ? step_learned_reward(world, world->episode.reward_sum, env, step.scaled[env])
                        : step.scaled[env];
        }
    }
    __syncthreads(); /* rewards are kept by the step's number, which changes here */
    if (threadIdx.x == 0)
        step_count(world);
}

/* ---- lifetime ---------------------------------------------------------------------------------------------------- */

/* What a policy without a network plays, in device memory; NULL where there is none. */
template <typename T> static const T *upload(struct runtime *rt, const T *rows, size_t count)
{
    T *copy = rows ? runtime_alloc<T>(rt, count) : nullptr;
    if (copy)
        runtime_copy_to(rt, copy, rows, count * sizeof *copy);
    return copy;
}

static void plan_launches(struct step_device *device)
{
    const int envs = device->mirror->host->envs, room = 2 * runtime_processors(device->mirror->runtime);
    int blocks = room / envs, each = (envs + room - 1) / room;
    each = each < ENVS_PER_BLOCK_MAX ? each : ENVS_PER_BLOCK_MAX;
    blocks = blocks < 1 ? 1 : blocks > COPY_BLOCKS_MAX ? COPY_BLOCKS_MAX : blocks;
    device->envs = {dim3((unsigned)((envs + each - 1) / each)), dim3((unsigned)each), 0, false};
    device->teams = {device->envs.grid, dim3(TEAM, (unsigned)each), (size_t)each * sizeof(union env_room), false};
    device->copies = {dim3((unsigned)blocks, (unsigned)envs), dim3(COPY_THREADS), 0, false};
}

struct step_device *step_device_create(const struct mirror *mirror, const struct device_setup *setup,
                                       const struct slot_grads *grads, const float *logits, const float *values)
{
    struct runtime *rt = mirror->runtime;
    const struct world *host = mirror->host;
    const size_t envs = (size_t)host->envs;
    struct step_device *device = new struct step_device();
    struct step *step = &device->step;
    device->mirror = mirror;
    device->shares = runtime_alloc<struct shapley_sums>(rt, envs);
    device->given = runtime_alloc<struct action>(rt, envs);
    if (host->shape.slots > SUBSETS_EXACT)
        device->coalitions = runtime_alloc<struct shapley_plan>(rt, envs);
    step->world = mirror->world;
    step->gates = *setup->gates;
    step->grads = grads;
    step->shares = device->shares;
    step->logits = logits;
    step->values = values;
    step->script = upload(rt, setup->script, (size_t)host->config.steps * (size_t)host->config.envs);
    step->schedules = upload(rt, setup->schedules, (size_t)setup->schedule_count);
    step->schedule_count = setup->schedule_count;
    step->masks = runtime_alloc<struct masks>(rt, envs);
    step->actions = runtime_alloc<struct action>(rt, envs);
    step->decisions = runtime_alloc<struct decision>(rt, envs);
    step->orders = runtime_alloc<struct env_orders>(rt, envs);
    step->rewards = runtime_alloc<double>(rt, envs);
    step->scaled = runtime_alloc<float>(rt, envs);
    step->executed = runtime_alloc<uint8_t>(rt, envs);
    step->reports = runtime_alloc<struct step_report>(rt, envs);
    plan_launches(device);
    if (rt->failed) {
        step_device_free(device);
        return nullptr;
    }
    return device;
}

void step_device_free(struct step_device *device)
{
    delete device;
}

/* For a kernel that begins with device_wait, behind another of the same phase. */
static struct launch behind(struct launch shape)
{
    shape.overlap = true;
    return shape;
}

/* ---- phases ------------------------------------------------------------------------------------------------------ */

/* The same as rollout_clear. */
static void clear_rollout(struct step_device *device)
{
    struct runtime *rt = device->mirror->runtime;
    const struct rollout *r = &device->mirror->view.rollout;
    const size_t rows = (size_t)r->steps * (size_t)r->envs, obs = (size_t)r->obs;
    runtime_fill(rt, r->raw, 0, rows * obs * sizeof *r->raw);
    runtime_fill(rt, r->state, 0, rows * obs * sizeof *r->state);
    runtime_fill(rt, r->bp, -1, rows * (size_t)r->slots);
    runtime_fill(rt, r->choice, 0, rows * HEAD_COUNT);
    runtime_fill(rt, r->effective_op, 0, rows);
    runtime_fill(rt, r->mask, 0, rows * sizeof *r->mask);
    runtime_fill(rt, r->logp, 0, rows * HEAD_COUNT * sizeof *r->logp);
    float *const rest[] = {r->value, r->reward, r->bootstrap, r->advantage, r->returns, r->td_error};
    for (float *array : rest)
        runtime_fill(rt, array, 0, rows * sizeof *array);
    runtime_fill(rt, r->flags, 0, rows);
}

void step_reset(struct step_device *device)
{
    clear_rollout(device);
    runtime_fill(device->mirror->runtime, device->shares, 0,
                 sizeof *device->shares * (size_t)device->mirror->host->envs);
    runtime_launch(device->mirror->runtime, reset_envs, device->teams, device->step);
    runtime_launch(device->mirror->runtime, orders_make, device->copies, device->step);
    runtime_launch(device->mirror->runtime, orders_keep, device->copies, device->step);
}

void step_observe(struct step_device *device)
{
    runtime_launch(device->mirror->runtime, observe_envs, device->teams, device->step);
}

void step_twin(struct step_device *device)
{
    struct launch once = {dim3(1), dim3(SCALE_THREADS), 0, false};
    runtime_launch(device->mirror->runtime, keep_twins, once, device->step);
}

struct net_sets step_plan_shares(struct step_device *device)
{
    static_assert((int)SHAPLEY_MASKS <= (int)NET_SETS_MAX, "an env's coalitions are measured at once");
    static_assert(sizeof(struct shapley_plan) % sizeof(double) == 0, "plans are whole numbers apart");
    struct shapley_plan *plans = device->coalitions;
    runtime_launch(device->mirror->runtime, draw_coalitions, device->envs, device->step, plans);
    return {&plans->count, plans->mask, plans->score, sizeof *plans};
}

void step_estimate_shares(struct step_device *device)
{
    runtime_launch(device->mirror->runtime, estimate_shares, device->envs, device->step, device->coalitions,
                   device->shares);
}

void step_choose(struct step_device *device)
{
    runtime_launch(device->mirror->runtime, choose_envs, behind(device->teams), device->step);
}

struct action *step_given(struct step_device *device)
{
    return device->given;
}

void step_act(struct step_device *device)
{
    runtime_launch(device->mirror->runtime, set_actions, device->envs, device->step, device->given);
}

void step_apply(struct step_device *device)
{
    struct launch once = {dim3(1), dim3(SCALE_THREADS), 0, false};
    runtime_launch(device->mirror->runtime, apply_envs, device->teams, device->step);
    runtime_launch(device->mirror->runtime, orders_execute, behind(device->copies), device->step);
    runtime_launch(device->mirror->runtime, end_step, behind(once), device->step);
}

const struct step_report *step_reports(const struct step_device *device)
{
    return device->step.reports;
}

const struct step *step_arrays(const struct step_device *device)
{
    return &device->step;
}
