/*
 * What the programs that try the device share: checks, noise, and a world on either side, the CPU's engine and one of
 * the device's networks.
 */
#ifndef TESTS_DEVICE_RIG_CUH
#define TESTS_DEVICE_RIG_CUH

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "cnn/device.cuh"
#include "engine/mirror.cuh"

extern "C" {
#include "engine/parts.h"
}

/* ---- checks ------------------------------------------------------------------------------------------------------ */

static int checks, failures;

static inline void check(bool good, const std::string &name, const std::string &figure = "bit for bit")
{
    checks++;
    failures += !good;
    printf(good ? "ok   %s (%s)\n" : "FAIL %s: %s\n", name.c_str(), figure.c_str());
    fflush(stdout);
}

/* NAN fails. */
static inline void check_within(const std::string &name, double figure, double bound)
{
    char text[64];
    snprintf(text, sizeof text, figure <= bound ? "%.3g of %.3g" : "%.6g > %.6g", figure, bound);
    check(figure <= bound, name, text);
}

[[noreturn]] static inline void stop(const char *what, const char *why = "")
{
    printf("FAIL %s%s%s\n", what, *why ? ": " : "", why);
    exit(1);
}

static inline int conclude(void)
{
    printf("%d checks, %d failed\n", checks, failures);
    return failures ? 1 : 0;
}

static inline double relative(double a, double b, double floor = 1e-6)
{
    return a == b ? 0 : std::fabs(a - b) / std::max(floor, std::fabs(b));
}

/* |a - b| / |b| in the Euclidean norm, of both without `from`. */
template <class A, class B> static inline double distance(size_t count, const A *a, const B *b, const B *from = nullptr)
{
    double apart = 0, size = 0;
    for (size_t i = 0; i < count; i++) {
        const double start = from ? (double)from[i] : 0;
        apart += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        size += ((double)b[i] - start) * ((double)b[i] - start);
    }
    return apart == 0 ? 0 : size > 0 ? std::sqrt(apart / size) : INFINITY;
}

static inline float noise(uint32_t *state) /* in -0.5 .. 0.5 */
{
    *state = *state * 1664525u + 1013904223u;
    return (float)(*state >> 8) * 0x1p-24f - 0.5f;
}

/* ---- memory of the device ---------------------------------------------------------------------------------------- */

template <class T> static inline T *upload(struct runtime *rt, const std::vector<T> &v)
{
    T *to = runtime_alloc<T>(rt, v.size() + 16);
    runtime_copy_to(rt, to, v.data(), v.size() * sizeof(T));
    runtime_wait(rt);
    return to;
}

template <class T> static inline std::vector<T> download(struct runtime *rt, const T *from, size_t count)
{
    std::vector<T> v(count);
    runtime_copy_from(rt, v.data(), from, count * sizeof(T));
    runtime_wait(rt);
    if (rt->failed)
        stop("device", rt->error.text);
    return v;
}

static inline struct runtime *open_runtime(void)
{
    struct esper_error error = {};
    struct runtime *rt = runtime_create(&error);
    if (!rt)
        stop("device", error.text);
    return rt;
}

/* All arrays of a world, to compare or restore them. */
typedef std::vector<std::vector<char>> arenas;

static inline arenas arenas_of(const struct world *world)
{
    arenas all;
    for (int c = 0; c < CLASS_COUNT; c++)
        all.emplace_back((const char *)world->table.arena[c],
                         (const char *)world->table.arena[c] + world->table.arena_bytes[c]);
    return all;
}

static inline void arenas_restore(struct world *world, const arenas &all)
{
    for (int c = 0; c < CLASS_COUNT; c++)
        if (!all[(size_t)c].empty())
            memcpy(world->table.arena[c], all[(size_t)c].data(), all[(size_t)c].size());
}

/* ---- a world on either side -------------------------------------------------------------------------------------- */

struct world_case {
    const char *name;
    int base, blocks, kernel, pools, size;
    std::vector<const char *> slots;
    int batch, batches, envs, images;
};

struct pair {
    struct engine *engine; /* the CPU's: the reference */
    struct world *world;   /* its arrays; those of the device after a read */
    struct runtime *runtime;
    struct mirror mirror;
    const struct net_device_kernels *kernels;
    struct net_device *net;
};

static inline struct config config_of(const struct world_case &c)
{
    struct config config;
    struct esper_error error = {};
    config_defaults(&config);
    config.envs = c.envs;
    config.threads = 1;
    config.device = WISH_CPU;
    config.reward.mode = REWARD_SHAPED; /* whose first step is not a twin's */
    config.host_base = c.base;
    config.host_blocks = c.blocks;
    config.host_kernel = c.kernel;
    config.host_pools = c.pools;
    config.slot_count = (int)c.slots.size();
    for (size_t j = 0; j < c.slots.size(); j++)
        snprintf(config.slots[j], sizeof config.slots[j], "%s", c.slots[j]);
    config.max_seeds = 0;
    /* Every env has its own images, at least a batch of the ten thousand, labels and learning rate. */
    config.mixed = {c.batch > 200 ? 0.1 : 0.02, 0.3, 3, 1, 0};
    config.data_set = DATA_SYNTHETIC;
    config.data_size = c.size;
    config.data_batch = c.batch;
    config.data_batches = c.batches;
    config.data_val_images = config.data_test_images = c.images;
    config.policy.kind = POLICY_RANDOM;
    if (config_check(&config, &error) != ESPER_OK)
        stop(c.name, error.text);
    return config;
}

/* The CPU's side. */
static inline void pair_begin(struct pair *pair, const struct config &config, const char *name)
{
    struct esper_error error = {};
    *pair = {};
    if (engine_create(&pair->engine, &config, &error) != ESPER_OK)
        stop(name, error.text);
    engine_begin(pair->engine);
    pair->world = pair->engine->world;
}

static inline void pair_begin(struct pair *pair, const struct world_case &c)
{
    pair_begin(pair, config_of(c), c.name);
}

static inline void pair_attach(struct pair *pair, const struct net_device_kernels *kernels)
{
    pair->runtime = open_runtime();
    struct device_setup given = {};
    given.data = pair->engine->data;
    given.rates = &pair->engine->rates;
    given.batches = pair->engine->batches;
    mirror_create(&pair->mirror, pair->runtime, pair->world);
    const struct net_setup setup = mirror_net_setup(&pair->mirror, &given);
    pair->kernels = kernels;
    pair->net = kernels->create(pair->runtime, &setup);
    if (!pair->net)
        stop("the kernels do not take this host");
}

static inline void pair_open(struct pair *pair, const struct world_case &c, const struct net_device_kernels *kernels)
{
    pair_begin(pair, c);
    pair_attach(pair, kernels);
}

static inline void pair_write(struct pair *pair)
{
    mirror_write(&pair->mirror, pair->world->table.rows, pair->world->table.count);
}

static inline void pair_read(struct pair *pair)
{
    mirror_read(&pair->mirror, pair->world->table.rows, pair->world->table.count);
    if (pair->runtime->failed)
        stop("device", pair->runtime->error.text);
}

/* What an evaluation leaves in the arrays. */
struct evaluation {
    std::vector<uint32_t> count, mask;
    std::vector<double> score, loss, points;
};

static inline struct evaluation evaluation_of(const struct world *world)
{
    const size_t envs = (size_t)world->envs, all = envs * SUBSETS_MAX;
    return {{world->subset_count, world->subset_count + envs},
            {world->subset_mask, world->subset_mask + all},
            {world->subset_score, world->subset_score + all},
            {world->val_loss, world->val_loss + envs},
            {world->val_accuracy, world->val_accuracy + envs}};
}

/* How far two are apart at most; `same`: they have the same subsets, so many. */
struct evaluation_gap {
    bool same;
    int subsets;
    double score, loss, points;
};

static inline struct evaluation_gap evaluation_compare(const struct evaluation &a, const struct evaluation &b)
{
    struct evaluation_gap gap = {a.count == b.count && a.mask == b.mask, 0, 0, 0, 0};
    for (size_t e = 0; e < a.count.size(); e++) {
        gap.loss = std::max(gap.loss, relative(a.loss[e], b.loss[e]));
        gap.points = std::max(gap.points, std::fabs(a.points[e] - b.points[e]));
        for (uint32_t k = 0; k < a.count[e]; k++, gap.subsets++)
            gap.score = std::max(gap.score, std::fabs(a.score[e * SUBSETS_MAX + k] - b.score[e * SUBSETS_MAX + k]));
    }
    return gap;
}

static inline void pair_evaluate(struct pair *pair)
{
    pair->kernels->evaluate(pair->net, pair->net->setup.val_images);
}

/* Sets of an env's slots to be measured, as the kernels read them. */
struct sets {
    int count;
    uint32_t mask[NET_SETS_MAX];
    double score[NET_SETS_MAX];
};

static inline std::vector<struct sets> pair_measure(struct pair *pair, const std::vector<struct sets> &sets)
{
    struct sets *device = upload(pair->runtime, sets);
    pair->kernels->measure(pair->net, {&device->count, device->mask, device->score, sizeof *device},
                           pair->net->setup.val_images);
    return download(pair->runtime, device, sets.size());
}

static inline void pair_close(struct pair *pair)
{
    pair->kernels->free(pair->net);
    runtime_free(pair->runtime);
    engine_free(pair->engine);
}

/* A seed as the lifecycle would leave it, without parameters that are zero. */
static inline void plant(struct world *world, int env, int slot, int stage, int blueprint, int algorithm, float alpha)
{
    struct slot_state state;
    slot_clear(&state);
    state.stage = (uint8_t)stage;
    state.blueprint = (uint8_t)blueprint;
    state.algorithm = (uint8_t)algorithm;
    state.alpha = alpha;
    state.germinations = 1;
    world_set_slot(world, env, slot, &state);
    const struct slot_shape *shape = &world->shape.slot[slot];
    const int channels = world->host_shape.cnn.site[slot].channels;
    struct net_params params = world_params(world, env);
    struct param_layout layout;
    uint32_t random = (uint32_t)(env * 64 + slot + 1);
    for (int gate = 0; gate < 2; gate++) {
        float *to = gate ? params.gate + shape->gate : params.seed + shape->seed;
        gate ? gate_layout(channels, &layout) : blueprint_layout(blueprint, channels, &layout);
        for (int t = 0; t < layout.count; t++) {
            const struct tensor_layout &tensor = layout.tensor[t];
            const float bound = tensor.fan_in ? 2 / sqrtf((float)tensor.fan_in) : 0.2f;
            for (size_t i = 0; i < tensor.size; i++)
                to[tensor.offset + i] = tensor.value + bound * noise(&random);
        }
    }
}

#endif
