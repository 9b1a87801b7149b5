/*
 * The device backend: the world's arenas mirrored in device memory, and every phase one captured graph over all envs.
 *
 * The host never looks at the device's state within a step: it enqueues the phases and, one step behind, takes the
 * reports of what happened, which a separate stream copies to a ring of pinned memory.
 */
#include <cstdio>
#include <cstring>

#include "engine/mirror.cuh"
#include "engine/step.cuh"
#include "learn/update_trial.h"
#include "morph/net_trial.h"
#include "policy/network_trial.h"

enum { RING = 4 };

#define DEVICE_LISTED(with, NAME, name) &name##_device,
static const struct host_device *const families[FAMILY_COUNT] = {FAMILIES(DEVICE_LISTED, )};

struct device {
    struct runtime *runtime;
    struct mirror mirror;
    const struct net_device_kernels *kernels;
    struct net_device *net;
    struct step_device *step;
    struct policy_device *policy; /* NULL where the policy is not a network */
    bool bf16;                    /* the networks' products are bf16 */
    bool exact;                   /* the policy's are fp32 */
    struct graph reset, train, evaluate, evaluate_last, shares, twin, decide, act, apply, test, update;
    uint32_t *clock;      /* pinned: round and step for the device's world */
    struct action *given; /* pinned, [env]: decided outside */
    double *accuracy;

    cudaStream_t copies;
    cudaEvent_t created, phase[RING][DEVICE_PHASES + 1], copied[RING];
    struct step_report *ring[RING]; /* pinned, [env] each */
    bool timed[RING];               /* whether the beginnings of its phases were marked */
    uint64_t written, taken;        /* steps put into the ring and taken from it */
};

/* ---- lifetime ---------------------------------------------------------------------------------------------------- */

static void create_ring(struct device *device)
{
    struct runtime *rt = device->runtime;
    RUNTIME_CALL(rt, cudaStreamCreateWithFlags(&device->copies, cudaStreamNonBlocking));
    RUNTIME_CALL(rt, cudaEventCreateWithFlags(&device->created, cudaEventDefault));
    RUNTIME_CALL(rt, cudaEventRecord(device->created, rt->stream));
    for (int i = 0; i < RING; i++) {
        for (int k = 0; k <= DEVICE_PHASES; k++)
            RUNTIME_CALL(rt, cudaEventCreateWithFlags(&device->phase[i][k], cudaEventDefault));
        RUNTIME_CALL(rt, cudaEventCreateWithFlags(&device->copied[i], cudaEventDisableTiming));
        device->ring[i] = runtime_pin<struct step_report>(rt, (size_t)device->mirror.host->envs);
    }
}

static void event_free(cudaEvent_t event)
{
    if (event)
        cudaEventDestroy(event);
}

static void device_free(struct device *device)
{
    if (!device)
        return;
    struct runtime *rt = device->runtime;
    if (!rt->failed)
        cudaDeviceSynchronize();
    struct graph *graphs[] = {&device->reset,  &device->train, &device->evaluate, &device->evaluate_last,
                              &device->shares, &device->twin,  &device->decide,   &device->act,
                              &device->apply,  &device->test,  &device->update};
    for (struct graph *graph : graphs)
        graph_free(graph);
    if (device->net)
        device->kernels->free(device->net);
    step_device_free(device->step);
    if (device->policy)
        policy_device_free(device->policy);
    for (int i = 0; i < RING; i++) {
        event_free(device->copied[i]);
        for (cudaEvent_t event : device->phase[i])
            event_free(event);
    }
    event_free(device->created);
    if (device->copies)
        cudaStreamDestroy(device->copies);
    runtime_free(rt);
    delete device;
}

static void create_parts(struct device *device, const struct device_setup *setup)
{
    struct runtime *rt = device->runtime;
    const size_t envs = (size_t)setup->world->envs;
    mirror_create(&device->mirror, rt, setup->world);
    const struct net_setup net = mirror_net_setup(&device->mirror, setup);
    struct policy_setup policy = mirror_policy_setup(&device->mirror, setup);
    policy.logits = runtime_alloc<float>(rt, envs * HEAD_MAX_LOGITS);
    policy.values = runtime_alloc<float>(rt, envs);
    device->clock = runtime_pin<uint32_t>(rt, 3);
    device->given = runtime_pin<struct action>(rt, envs);
    device->accuracy = runtime_pin<double>(rt, envs);
    create_ring(device);
    if (rt->failed)
        return;
    const struct host_device *nets = families[net.shape.family];
    device->kernels = setup->bf16 ? nets->bf16(net.host_shape, (int)net.source.batch) : nets->fp32;
    device->net = device->kernels->create(rt, &net);
    device->step = step_device_create(&device->mirror, setup, net.grads, policy.logits, policy.values);
    if (device->mirror.host->learns)
        device->policy = policy_device_create(rt, &policy);
    runtime_wait(rt);
}

static struct device *device_create(const struct device_setup *setup, struct esper_error *error)
{
    struct device *device = new struct device();
    device->bf16 = setup->bf16;
    device->exact = !setup->tf32;
    device->runtime = runtime_create(error);
    if (!device->runtime) {
        delete device;
        return nullptr;
    }
    create_parts(device, setup);
    if (device->runtime->failed) {
        *error = device->runtime->error;
        device_free(device);
        return nullptr;
    }
    return device;
}

static const char *device_kernels(const struct device *device)
{
    return device->bf16 ? "cuda bf16" : device->exact ? "cuda fp32" : "cuda fp32, tf32 policy";
}

/* ---- phases ------------------------------------------------------------------------------------------------------ */

static void device_reset(struct device *device)
{
    struct runtime *rt = device->runtime;
    const struct world *host = device->mirror.host, *view = &device->mirror.view;
    runtime_wait(rt); /* until the clock's memory is free again */
    device->clock[0] = *host->round;
    device->clock[1] = *host->step;
    runtime_copy_to(rt, view->round, &device->clock[0], sizeof *device->clock);
    runtime_copy_to(rt, view->step, &device->clock[1], sizeof *device->clock);
    if (host->twin_known) {
        device->clock[2] = *host->twin_known;
        runtime_copy_to(rt, view->twin_known, &device->clock[2], sizeof *device->clock);
    }
    if (graph_begin(rt, &device->reset))
        step_reset(device->step);
    graph_run(rt, &device->reset);
}

/* Marks the beginning of phase `k` of the step, if it is one that is timed, or, past the last, the end of the step, for
 * which its reports wait. */
static void mark_phase(struct device *device, int k)
{
    struct runtime *rt = device->runtime;
    const struct world *host = device->mirror.host;
    const int slot = (int)(device->written % RING);
    if (k == 0)
        device->timed[slot] = world_times_step(host, *host->step);
    if (!rt->failed && (k == DEVICE_PHASES || device->timed[slot]))
        RUNTIME_CALL(rt, cudaEventRecord(device->phase[slot][k], rt->stream));
}

static void device_train(struct device *device)
{
    mark_phase(device, 0);
    if (graph_begin(device->runtime, &device->train))
        device->kernels->train(device->net);
    graph_run(device->runtime, &device->train);
}

static void device_evaluate(struct device *device, bool shares)
{
    const struct world *host = device->mirror.host;
    const int images = world_val_images(host);
    struct graph *graph = images == host->config.data_val_images ? &device->evaluate : &device->evaluate_last;
    mark_phase(device, 1);
    if (graph_begin(device->runtime, graph))
        device->kernels->evaluate(device->net, images);
    graph_run(device->runtime, graph);
    if (!shares) /* of the last step alone */
        return;
    if (graph_begin(device->runtime, &device->shares)) {
        device->kernels->measure(device->net, step_plan_shares(device->step), images);
        step_estimate_shares(device->step);
    }
    graph_run(device->runtime, &device->shares);
}

static void device_twin(struct device *device)
{
    if (graph_begin(device->runtime, &device->twin))
        step_twin(device->step);
    graph_run(device->runtime, &device->twin);
}

static void device_decide(struct device *device)
{
    mark_phase(device, 2);
    if (graph_begin(device->runtime, &device->decide)) {
        step_observe(device->step);
        if (device->policy)
            policy_device_act(device->policy);
        step_choose(device->step);
    }
    graph_run(device->runtime, &device->decide);
}

static void device_ask(struct device *device, struct masks *masks, struct action *actions)
{
    struct runtime *rt = device->runtime;
    const struct step *step = step_arrays(device->step);
    const size_t envs = (size_t)device->mirror.host->envs;
    runtime_copy_from(rt, masks, step->masks, envs * sizeof *masks);
    runtime_copy_from(rt, actions, step->actions, envs * sizeof *actions);
    runtime_wait(rt);
}

/* Whoever decided has asked before, so nothing reads the last step's actions any more. */
static void device_act(struct device *device, const struct action *actions)
{
    struct runtime *rt = device->runtime;
    const size_t bytes = (size_t)device->mirror.host->envs * sizeof *actions;
    if (rt->failed)
        return;
    memcpy(device->given, actions, bytes);
    runtime_copy_to(rt, step_given(device->step), device->given, bytes);
    if (graph_begin(rt, &device->act))
        step_act(device->step);
    graph_run(rt, &device->act);
}

/* The reports of the last step must have been copied before this one writes its own. */
static void device_apply(struct device *device)
{
    struct runtime *rt = device->runtime;
    int slot = (int)(device->written % RING), before = (int)((device->written + RING - 1) % RING);
    size_t bytes = (size_t)device->mirror.host->envs * sizeof(struct step_report);
    mark_phase(device, 3);
    if (device->written > 0)
        RUNTIME_CALL(rt, cudaStreamWaitEvent(rt->stream, device->copied[before], 0));
    if (graph_begin(rt, &device->apply))
        step_apply(device->step);
    graph_run(rt, &device->apply);
    if (rt->failed)
        return;
    mark_phase(device, DEVICE_PHASES);
    RUNTIME_CALL(rt, cudaStreamWaitEvent(device->copies, device->phase[slot][DEVICE_PHASES], 0));
    RUNTIME_CALL(rt, cudaMemcpyAsync(device->ring[slot], step_reports(device->step), bytes, cudaMemcpyDeviceToHost,
                                     device->copies));
    RUNTIME_CALL(rt, cudaEventRecord(device->copied[slot], device->copies));
    rt->counters.copies++;
    rt->counters.bytes_from += bytes;
    device->written++;
}

static bool device_take(struct device *device, struct device_step *step)
{
    struct runtime *rt = device->runtime;
    if (rt->failed || device->taken == device->written)
        return false;
    int slot = (int)(device->taken++ % RING);
    rt->counters.syncs++;
    if (!RUNTIME_CALL(rt, cudaEventSynchronize(device->copied[slot])))
        return false;
    step->reports = device->ring[slot];
    step->timed = device->timed[slot];
    for (int k = 0; step->timed && k <= DEVICE_PHASES; k++) {
        float ms = 0;
        RUNTIME_CALL(rt, cudaEventElapsedTime(&ms, device->created, device->phase[slot][k]));
        step->time[k] = (double)ms / 1000;
    }
    return !rt->failed;
}

static void device_test(struct device *device, double *accuracy)
{
    struct runtime *rt = device->runtime;
    size_t bytes = (size_t)device->mirror.host->envs * sizeof(double);
    if (graph_begin(rt, &device->test))
        device->kernels->test(device->net);
    graph_run(rt, &device->test);
    runtime_copy_from(rt, device->accuracy, device->net->setup.test_accuracy, bytes);
    runtime_wait(rt);
    memcpy(accuracy, device->accuracy, bytes);
}

static void device_update(struct device *device, double progress, struct update_report *record,
                          struct head_report *heads)
{
    struct runtime *rt = device->runtime;
    policy_device_progress(device->policy, progress);
    if (graph_begin(rt, &device->update))
        policy_device_update(device->policy);
    graph_run(rt, &device->update);
    policy_device_fetch(device->policy);
    runtime_wait(rt);
    policy_device_records(device->policy, record, heads);
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

static void device_write(struct device *device, const struct table_row *rows, int count)
{
    mirror_write(&device->mirror, rows, count);
}

static void device_read(struct device *device, const struct table_row *rows, int count)
{
    mirror_read(&device->mirror, rows, count);
}

static void device_read_part(struct device *device, void *place, size_t bytes)
{
    runtime_copy_from(device->runtime, place, mirror_place(&device->mirror, place), bytes);
    runtime_wait(device->runtime);
}

static void device_wait_idle(struct device *device)
{
    runtime_wait(device->runtime);
}

static enum esper_status device_check(struct device *device, struct esper_error *error)
{
    struct runtime *rt = device->runtime;
    if (!rt->failed)
        return ESPER_OK;
    *error = rt->error;
    return ESPER_FAILED;
}

static void device_counters_of(const struct device *device, struct device_counters *out)
{
    *out = device->runtime->counters;
}

static int device_graphs(const struct device *device, struct device_graph out[DEVICE_GRAPHS])
{
    const struct {
        const char *name;
        const struct graph *graph;
    } all[] = {{"reset", &device->reset},       {"train", &device->train},
               {"evaluate", &device->evaluate}, {"evaluate last", &device->evaluate_last},
               {"shares", &device->shares},     {"twin", &device->twin},
               {"decide", &device->decide},     {"act", &device->act},
               {"apply", &device->apply},       {"test", &device->test},
               {"update", &device->update}};
    static_assert(sizeof all / sizeof all[0] == DEVICE_GRAPHS, "every graph");
    int count = 0;
    for (const auto &one : all)
        if (one.graph->exec) {
            out[count] = one.graph->nodes;
            out[count++].name = one.name;
        }
    return count;
}

/* ---- finding a device -------------------------------------------------------------------------------------------- */

static void device_look(struct device_info *info)
{
    cudaDeviceProp properties;
    int count = 0, driver = 0;
    cudaError_t code = cudaGetDeviceCount(&count);
    cudaDriverGetVersion(&driver);
    if (driver == 0) {
        snprintf(info->why, sizeof info->why, "no NVIDIA driver found; install one, or use --device cpu");
        return;
    }
    if (code != cudaSuccess || count == 0) {
        snprintf(info->why, sizeof info->why, "no CUDA device: %s; use --device cpu",
                 code == cudaSuccess ? "none is visible" : cudaGetErrorString(code));
        return;
    }
    if (info->exact && info->number >= count) {
        snprintf(info->why, sizeof info->why, "there is no cuda:%d; this machine has %d, from cuda:0", info->number,
                 count);
        return;
    }
    info->number %= count;
    runtime_choose(info->number);
    code = cudaGetDeviceProperties(&properties, info->number);
    if (code != cudaSuccess) {
        snprintf(info->why, sizeof info->why, "the CUDA device does not respond: %s", cudaGetErrorString(code));
        return;
    }
    snprintf(info->name, sizeof info->name, "%.100s", properties.name);
    info->processors = properties.multiProcessorCount;
    info->major = properties.major;
    info->minor = properties.minor;
    info->memory_gib = (double)properties.totalGlobalMem / (1u << 30);
    info->bf16 = properties.major >= 8;
    if (properties.major < 8) {
        snprintf(info->why, sizeof info->why, "%.80s has compute capability %d.%d; 8.0 or later is needed",
                 properties.name, properties.major, properties.minor);
        return;
    }
    if (!runtime_code_fits()) {
        snprintf(info->why, sizeof info->why,
                 "the library has no code for compute capability %d.%d; run: make cuda ESPER_CUDA_ARCHS=%d%d",
                 properties.major, properties.minor, properties.major, properties.minor);
        return;
    }
    info->found = true;
}

static bool computes(int family)
{
    return families[family]->fp32 != nullptr;
}

static bool bf16_fits(const struct net_shape *shape, int batch)
{
    const struct host_device *nets = families[shape->family];
    return nets->bf16 && nets->bf16(shape, batch);
}

static bool bf16_pays(const struct net_shape *shape, int batch)
{
    return bf16_fits(shape, batch) && families[shape->family]->bf16_pays(shape, batch);
}

static enum esper_status try_net(struct net_trial *trial, struct esper_error *error)
{
    return families[trial->shape->family]->try_net(trial, error);
}

extern "C" const struct device_api *esper_device_api(void)
{
    static const struct device_api api = {
        DEVICE_API_VERSION, sizeof(struct world),
        device_look,        device_create,
        device_free,        device_kernels,
        device_reset,       device_train,
        device_evaluate,    device_twin,
        device_decide,      device_ask,
        device_act,         device_apply,
        device_test,        device_update,
        device_take,        device_write,
        device_read,        device_read_part,
        device_wait_idle,   device_check,
        device_counters_of, device_graphs,
        computes,           bf16_fits,
        bf16_pays,          try_net,
        policy_trial_run,   update_trial_run,
    };
    return &api;
}
