/*
 * The fp32 networks on the device compared with the CPU's: a step of training, a validation of all subsets and a test,
 * for hosts of many shapes whose slots hold every blueprint in every way. Then what must be bit-identical: repetition,
 * other envs, empty slots and seeds in TRAINING.
 *
 *     cuda_net [name]    runs the hosts whose names begin with it
 */
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "cnn/fp32/net.cuh"
#include "cuda/warp.cuh"
#include "engine/mirror.cuh"

extern "C" {
#include "engine/parts.h"
}

static int checks, failures;

static void check(bool good, const std::string &name, const char *figure)
{
    checks++;
    failures += !good;
    printf(good ? "ok   %s (%s)\n" : "FAIL %s: %s\n", name.c_str(), figure);
    fflush(stdout);
}

/* ---- a world on either side -------------------------------------------------------------------------------------- */

struct host_case {
    const char *name;
    int base, blocks, kernel, pools, size;
    std::vector<const char *> slots;
    int batch, batches, envs;
};

static struct config config_of(const struct host_case &c, int envs)
{
    struct config config;
    struct esper_error error = {};
    config_defaults(&config);
    config.envs = envs;
    config.threads = 1;
    config.device = WISH_CPU;           /* the reference */
    config.reward.mode = REWARD_SHAPED; /* whose first step is not a twin's */
    config.host_base = c.base;
    config.host_blocks = c.blocks;
    config.host_kernel = c.kernel;
    config.host_pools = c.pools;
    config.slot_count = (int)c.slots.size();
    for (size_t j = 0; j < c.slots.size(); j++)
        snprintf(config.slots[j], sizeof config.slots[j], "%s", c.slots[j]);
    config.max_seeds = 0;
    config.mixed = {0.02, 0.3, 3}; /* every env has its own images, labels and learning rate */
    config.data_set = DATA_SYNTHETIC;
    config.data_size = c.size;
    config.data_batch = c.batch;
    config.data_batches = c.batches;
    config.data_val_images = 6;
    config.data_test_images = 5;
    config.policy.kind = POLICY_RANDOM;
    if (config_check(&config, &error) != ESPER_OK) {
        printf("FAIL %s: %s\n", c.name, error.text);
        exit(1);
    }
    return config;
}

static struct engine *engine_of(const struct config &config)
{
    struct engine *engine;
    struct esper_error error = {};
    if (engine_create(&engine, &config, &error) != ESPER_OK) {
        printf("FAIL engine: %s\n", error.text);
        exit(1);
    }
    engine_begin(engine);
    return engine;
}

/* All arrays of a world in their current state. */
struct snapshot {
    std::vector<std::vector<char>> arena;
};

static struct snapshot snapshot_of(const struct world *world)
{
    struct snapshot s;
    for (int c = 0; c < CLASS_COUNT; c++)
        s.arena.emplace_back((const char *)world->table.arena[c],
                             (const char *)world->table.arena[c] + world->table.arena_bytes[c]);
    return s;
}

static void snapshot_restore(struct world *world, const struct snapshot &s)
{
    for (int c = 0; c < CLASS_COUNT; c++)
        if (!s.arena[(size_t)c].empty())
            memcpy(world->table.arena[c], s.arena[(size_t)c].data(), s.arena[(size_t)c].size());
}

struct rig {
    struct runtime *runtime;
    struct mirror mirror;
    struct net_device *net;
};

static void rig_open(struct rig *rig, struct engine *engine)
{
    struct esper_error error = {};
    *rig = {};
    rig->runtime = runtime_create(&error);
    if (!rig->runtime) {
        printf("FAIL device: %s\n", error.text);
        exit(1);
    }
    struct device_setup given = {};
    given.data = engine->data;
    given.rates = &engine->rates;
    given.batches = engine->batches;
    mirror_create(&rig->mirror, rig->runtime, engine->world);
    const struct net_setup setup = mirror_net_setup(&rig->mirror, &given);
    rig->net = cnn_fp32.create(rig->runtime, &setup);
}

static void rig_write(struct rig *rig)
{
    mirror_write(&rig->mirror, rig->mirror.host->table.rows, rig->mirror.host->table.count);
}

static void rig_read(struct rig *rig)
{
    mirror_read(&rig->mirror, rig->mirror.host->table.rows, rig->mirror.host->table.count);
    if (rig->runtime->failed) {
        printf("FAIL device: %s\n", rig->runtime->error.text);
        exit(1);
    }
}

static void rig_close(struct rig *rig)
{
    cnn_fp32.free(rig->net);
    runtime_free(rig->runtime);
}

/* ---- slots in every way ------------------------------------------------------------------------------------------ */

struct way {
    const char *name;
    int stage, algorithm;
    float alpha;
    bool frozen;
};

static const struct way ways[] = {
    {"training", STAGE_TRAINING, ALGORITHM_ADD, 0, false},
    {"add 0.3", STAGE_BLENDING, ALGORITHM_ADD, 0.3f, false},
    {"multiply", STAGE_BLENDING, ALGORITHM_MULTIPLY, 0.6f, false},
    {"gate", STAGE_HOLDING, ALGORITHM_GATE, 0.7f, false},
    {"add 1, fossil", STAGE_FOSSILIZED, ALGORITHM_ADD, 1.0f, false},
    {"gate, frozen", STAGE_BLENDING, ALGORITHM_GATE, 0.9f, true},
    {"add at 0", STAGE_BLENDING, ALGORITHM_ADD, 0.0f, false},
    {"asleep", STAGE_DORMANT, ALGORITHM_NONE, 0, false},
};
enum { WAYS = sizeof ways / sizeof ways[0] };

static bool planted[BLUEPRINT_COUNT][WAYS]; /* compared with the CPU */

static float noise(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return (float)(*state >> 8) * 0x1p-24f - 0.5f;
}

/* Parameters as at birth, without the zeros. */
static void fill(const struct param_layout &layout, float *params, uint32_t *random)
{
    for (int t = 0; t < layout.count; t++) {
        const struct tensor_layout &tensor = layout.tensor[t];
        float bound = tensor.fan_in ? 2 / sqrtf((float)tensor.fan_in) : 0.2f;
        for (size_t i = 0; i < tensor.size; i++)
            params[tensor.offset + i] = tensor.value + bound * noise(random);
    }
}

/* A seed as the lifecycle would leave it. */
static void plant(struct world *world, int env, int slot, int blueprint, const struct way &way)
{
    struct slot_state state;
    slot_clear(&state);
    if (way.stage != STAGE_DORMANT) {
        state.stage = (uint8_t)way.stage;
        state.blueprint = (uint8_t)blueprint;
        state.algorithm = (uint8_t)way.algorithm;
        state.alpha = way.alpha;
        state.germinations = 1;
        slot_set(&state, SLOT_FROZEN, way.frozen);
    }
    world_set_slot(world, env, slot, &state);
    if (way.stage == STAGE_DORMANT)
        return;
    const struct slot_shape *shape = &world->shape.slot[slot];
    const int channels = world->host_shape.cnn.site[slot].channels;
    struct net_params params = world_params(world, env);
    struct param_layout layout;
    uint32_t random = (uint32_t)(env * 64 + slot + 1);
    blueprint_layout(blueprint, channels, &layout);
    fill(layout, params.seed + shape->seed, &random);
    gate_layout(channels, &layout);
    fill(layout, params.gate + shape->gate, &random);
}

/* Blueprints and ways are assigned cyclically from `start` on; after 64 slots all pairs have occurred. */
static void plant_all(struct world *world, int env, int start)
{
    for (int j = 0; j < world->shape.slots; j++) {
        int n = start + env * world->shape.slots + j;
        int blueprint = n % BLUEPRINT_COUNT, way = (n + n / BLUEPRINT_COUNT) % WAYS;
        plant(world, env, j, blueprint, ways[way]);
        planted[blueprint][way] = true;
    }
}

/* Hosts unlike newborn ones: running statistics and norms that are not 0 and 1. */
static void unsettle(struct world *world, int env)
{
    struct net_params params = world_params(world, env);
    uint32_t random = (uint32_t)env + 77;
    for (int i = 0; i < world->host_shape.cnn.blocks; i++) {
        const struct block_shape *b = &world->host_shape.cnn.block[i];
        for (int c = 0; c < b->cout; c++) {
            params.stats[b->mean + (size_t)c] += 0.3f * noise(&random);
            params.stats[b->var + (size_t)c] += 0.5f * noise(&random);
            params.host[world->shape.host.tensor[b->gamma].offset + (size_t)c] += 0.4f * noise(&random);
            params.host[world->shape.host.tensor[b->beta].offset + (size_t)c] += 0.4f * noise(&random);
        }
    }
}

/* ---- comparisons ------------------------------------------------------------------------------------------------- */

static double largest(const float *a, size_t count)
{
    double size = 0;
    for (size_t i = 0; i < count; i++)
        size = std::max(size, std::fabs((double)a[i]));
    return size;
}

/* Largest difference, in units of the largest value of the tensor, or of `least`. */
static double difference(const float *a, const float *b, size_t count, double least = 1e-7)
{
    double off = 0, size = least;
    for (size_t i = 0; i < count; i++) {
        off = std::max(off, std::isfinite(a[i]) ? std::fabs((double)a[i] - (double)b[i]) : 1e30);
        size = std::max(size, std::fabs((double)b[i]));
    }
    return off / size;
}

struct worst {
    double off = 0;
    std::string where = "nothing";
    void see(double value, const std::string &what)
    {
        if (!(value <= off)) {
            off = value;
            where = what;
        }
    }
};

static void compare_layout(struct worst &worst, const struct param_layout &layout, const float *a, const float *b,
                           const std::string &what)
{
    /* Some gradients cancel, like that of a scale before a norm: the remainder is rounding error of the others. */
    const double least = std::max(1e-7, 0.01 * largest(b, layout.storage));
    for (int t = 0; t < layout.count; t++)
        worst.see(difference(a + layout.tensor[t].offset, b + layout.tensor[t].offset, layout.tensor[t].size, least),
                  what + " " + layout.tensor[t].name);
}

static std::string slot_text(const struct world *world, int env, int slot)
{
    struct slot_state state = world_slot(world, env, slot);
    char text[128];
    snprintf(text, sizeof text, "env %d %s %s stage %d algorithm %d", env, world->shape.slot[slot].id,
             stage_is_live(state.stage) ? blueprint_name(state.blueprint) : "empty", state.stage, state.algorithm);
    return text;
}

/* Parameters, momentum and running statistics of `a`, the device's, compared with b. */
static struct worst compare_networks(const struct world *world, const struct snapshot &device,
                                     const struct snapshot &cpu, struct world *scratch_world)
{
    struct worst worst;
    std::vector<std::vector<float>> sides[2];
    for (int side = 0; side < 2; side++) {
        snapshot_restore(scratch_world, side ? cpu : device);
        size_t envs = (size_t)world->envs;
        auto keep = [&](const float *from, size_t floats) { sides[side].emplace_back(from, from + envs * floats); };
        keep(world->host, world->shape.host.storage);
        keep(world->host_momentum, world->shape.host.storage);
        keep(world->stats, world->shape.stats);
        keep(world->seed, world->shape.seed_storage);
        keep(world->seed_momentum, world->shape.seed_storage);
        keep(world->gate, world->shape.gate_storage);
        keep(world->gate_momentum, world->shape.gate_storage);
    }
    for (int env = 0; env < world->envs; env++) {
        size_t e = (size_t)env, host = world->shape.host.storage, stats = world->shape.stats;
        std::string at = "env " + std::to_string(env);
        for (int k = 0; k < 2; k++)
            compare_layout(worst, world->shape.host, sides[0][(size_t)k].data() + e * host,
                           sides[1][(size_t)k].data() + e * host, at + (k ? " momentum" : ""));
        worst.see(difference(sides[0][2].data() + e * stats, sides[1][2].data() + e * stats, stats), at + " stats");
        for (int j = 0; j < world->shape.slots; j++) {
            const struct slot_shape &slot = world->shape.slot[j];
            struct slot_state state = world_slot(world, env, j);
            struct param_layout layout, gate;
            if (!stage_is_live(state.stage))
                continue;
            blueprint_layout(state.blueprint, world->host_shape.cnn.site[j].channels, &layout);
            gate_layout(world->host_shape.cnn.site[j].channels, &gate);
            for (size_t k = 3; k < 7; k++) {
                size_t pool = k < 5 ? world->shape.seed_storage : world->shape.gate_storage;
                size_t place = e * pool + (k < 5 ? slot.seed : slot.gate);
                compare_layout(worst, k < 5 ? layout : gate, sides[0][k].data() + place, sides[1][k].data() + place,
                               slot_text(world, env, j) + (k % 2 ? "" : " momentum"));
            }
        }
    }
    return worst;
}

static double relative(double a, double b)
{
    return a == b ? 0 : std::fabs(a - b) / std::max(1e-6, std::fabs(b));
}

static struct worst compare_grads(const struct world *world, const struct slot_grads *device,
                                  const struct slot_grads *cpu)
{
    struct worst worst;
    for (int env = 0; env < world->envs; env++)
        for (int j = 0; j < world->shape.slots; j++) {
            const struct slot_grads &a = device[env * world->shape.slots + j], &b = cpu[env * world->shape.slots + j];
            bool same = a.measured == b.measured && a.vanishing == b.vanishing && a.exploding == b.exploding &&
                        a.finite == b.finite;
            std::string at = slot_text(world, env, j);
            worst.see(same ? 0 : 1e30, at + " flags");
            worst.see(relative(a.norm, b.norm), at + " norm");
            worst.see(relative(a.health, b.health), at + " health");
            worst.see(relative(a.ratio, b.ratio), at + " ratio");
        }
    return worst;
}

static void report_worst(const char *host, const char *what, const struct worst &worst, double limit)
{
    char text[300];
    snprintf(text, sizeof text, "%.2g at %s", worst.off, worst.where.c_str());
    check(worst.off <= limit, std::string(host) + ": " + what, text);
}

/* ---- comparison with the CPU ------------------------------------------------------------------------------------- */

static void check_train(const struct host_case &c, struct engine *engine, struct rig *rig)
{
    struct world *world = engine->world;
    const size_t envs = (size_t)world->envs, rows = envs * (size_t)world->shape.slots;
    struct snapshot before = snapshot_of(world);
    rig_write(rig);
    cnn_fp32.train(rig->net);
    rig_read(rig);
    struct snapshot device = snapshot_of(world);
    std::vector<double> loss(world->train_loss, world->train_loss + envs),
        accuracy(world->train_accuracy, world->train_accuracy + envs);
    std::vector<struct slot_grads> grads(rows);
    runtime_copy_from(rig->runtime, grads.data(), rig->net->setup.grads, sizeof(struct slot_grads) * rows);
    runtime_wait(rig->runtime);

    rig_write(rig); /* the device's world again, so that evaluation starts from the CPU's state */
    snapshot_restore(world, before);
    engine_train(engine);
    struct snapshot cpu = snapshot_of(world);
    struct worst figures;
    for (size_t e = 0; e < envs; e++) {
        figures.see(relative(loss[e], world->train_loss[e]), "loss of env " + std::to_string(e));
        figures.see(relative(accuracy[e], world->train_accuracy[e]), "accuracy of env " + std::to_string(e));
    }
    report_worst(c.name, "loss and accuracy", figures, 1e-5);
    report_worst(c.name, "networks after the step", compare_networks(world, device, cpu, world), 2e-4);
    snapshot_restore(world, cpu);
    report_worst(c.name, "gradient statistics", compare_grads(world, grads.data(), engine->grads), 1e-4);

    /* once more, as a graph: the same bits */
    struct graph graph = {};
    snapshot_restore(world, before);
    rig_write(rig);
    if (graph_begin(rig->runtime, &graph))
        cnn_fp32.train(rig->net);
    graph_run(rig->runtime, &graph);
    rig_read(rig);
    graph_free(&graph);
    check(snapshot_of(world).arena == device.arena, std::string(c.name) + ": a step repeated", "bit for bit");
    snapshot_restore(world, cpu);
}

static void check_evaluate(const struct host_case &c, struct engine *engine, struct rig *rig)
{
    struct world *world = engine->world;
    const size_t envs = (size_t)world->envs;
    rig_write(rig);
    cnn_fp32.evaluate(rig->net);
    rig_read(rig);
    std::vector<uint32_t> count(world->subset_count, world->subset_count + envs);
    std::vector<uint32_t> mask(world->subset_mask, world->subset_mask + envs * SUBSETS_MAX);
    std::vector<uint32_t> correct(world->subset_correct, world->subset_correct + envs * SUBSETS_MAX);
    std::vector<double> loss(world->val_loss, world->val_loss + envs),
        accuracy(world->val_accuracy, world->val_accuracy + envs), test(envs), reference(envs);
    engine_evaluate(engine);
    uint32_t total = 0;
    struct worst losses;
    for (size_t e = 0; e < envs; e++) {
        losses.see(relative(loss[e], world->val_loss[e]), "env " + std::to_string(e));
        losses.see(relative(accuracy[e], world->val_accuracy[e]), "accuracy of env " + std::to_string(e));
        total += count[e];
    }
    bool same = memcmp(count.data(), world->subset_count, sizeof(uint32_t) * envs) == 0 &&
                memcmp(mask.data(), world->subset_mask, sizeof(uint32_t) * mask.size()) == 0 &&
                memcmp(correct.data(), world->subset_correct, sizeof(uint32_t) * correct.size()) == 0;
    char text[100];
    snprintf(text, sizeof text, "%u subsets of %zu envs", total, envs);
    check(same, std::string(c.name) + ": subsets and their counts", text);
    report_worst(c.name, "validation loss and accuracy", losses, 1e-5);

    cnn_fp32.test(rig->net);
    runtime_copy_from(rig->runtime, test.data(), rig->net->setup.test_accuracy, sizeof(double) * envs);
    runtime_wait(rig->runtime);
    engine_test(engine, reference.data());
    snprintf(text, sizeof text, "%.1f %% of env 0", test[0]);
    check(test == reference, std::string(c.name) + ": test", text);
}

static void check_host(const struct host_case &c)
{
    struct config config = config_of(c, c.envs);
    struct engine *engine = engine_of(config);
    struct rig rig;
    rig_open(&rig, engine);
    static int dealt;
    engine_reset(engine, 3);
    for (int env = 0; env < c.envs; env++) {
        unsettle(engine->world, env);
        plant_all(engine->world, env, dealt);
    }
    dealt += c.envs * engine->world->shape.slots;
    check_train(c, engine, &rig);
    check_evaluate(c, engine, &rig);
    rig_close(&rig);
    engine_free(engine);
}

/* ---- bit-identical ----------------------------------------------------------------------------------------------- */

struct host_bits {
    std::vector<float> host, momentum, stats, seed;
    double loss;
};

/* Env 0 after a step of `envs` envs. */
static struct host_bits step_bits(const struct host_case &c, int envs, void (*prepare)(struct world *))
{
    struct config config = config_of(c, envs);
    struct engine *engine = engine_of(config);
    struct world *world = engine->world;
    struct rig rig;
    struct host_bits bits;
    rig_open(&rig, engine);
    engine_reset(engine, 1);
    prepare(world);
    rig_write(&rig);
    cnn_fp32.train(rig.net);
    cnn_fp32.evaluate(rig.net);
    rig_read(&rig);
    bits.host.assign(world->host, world->host + world->shape.host.storage);
    bits.momentum.assign(world->host_momentum, world->host_momentum + world->shape.host.storage);
    bits.stats.assign(world->stats, world->stats + world->shape.stats);
    bits.seed.assign(world->seed, world->seed + world->shape.seed_storage);
    bits.loss = world->train_loss[0] + world->val_loss[0];
    rig_close(&rig);
    engine_free(engine);
    return bits;
}

static bool same_host(const struct host_bits &a, const struct host_bits &b)
{
    return a.host == b.host && a.momentum == b.momentum && a.stats == b.stats && a.loss == b.loss;
}

static void prepare_grown(struct world *world)
{
    for (int env = 0; env < world->envs; env++)
        plant_all(world, env, 5);
}

static void prepare_bare(struct world *)
{
}

static void prepare_training(struct world *world)
{
    for (int env = 0; env < world->envs; env++)
        for (int j = 0; j < world->shape.slots; j++)
            plant(world, env, j, (j + 1) % BLUEPRINT_COUNT, ways[0]);
}

static void prepare_alpha_zero(struct world *world)
{
    for (int env = 0; env < world->envs; env++)
        for (int j = 0; j < world->shape.slots; j++) {
            plant(world, env, j, BLUEPRINT_CONV_LIGHT, ways[6]);
            world_params(world, env).seed[world->shape.slot[j].seed] = NAN;
        }
}

static void check_bits(void)
{
    const struct host_case c = {"bits", 4, 3, 3, 2, 16, {"r0c0", "r0c1", "r0c2", "r1c0", "r1c1"}, 6, 2, 1};
    struct host_case slotless = c;
    slotless.slots = {"r0c0"};
    struct host_bits one = step_bits(c, 1, prepare_grown), three = step_bits(c, 3, prepare_grown);
    check(same_host(one, three) && one.seed == three.seed, "env 0 among 1 and among 3", "bit for bit");
    fp32_budget = 1; /* every env in its own group */
    struct host_bits apart = step_bits(c, 3, prepare_grown);
    fp32_budget = 0;
    check(same_host(one, apart) && one.seed == apart.seed, "envs in groups", "bit for bit");
    struct host_bits bare = step_bits(c, 1, prepare_bare), without = step_bits(slotless, 1, prepare_bare);
    check(same_host(bare, without), "T10: empty slots and a host without slots", "bit for bit");
    struct host_bits training = step_bits(c, 1, prepare_training);
    check(same_host(bare, training) && training.seed != bare.seed, "T11: seeds in TRAINING leave the host alone",
          "bit for bit");
    check(same_host(bare, step_bits(c, 1, prepare_alpha_zero)), "I-20: seeds at alpha 0, whatever they hold",
          "bit for bit");
}

/* ---- gather ------------------------------------------------------------------------------------------------------ */

static void check_gather(enum data_set set, enum augment augment)
{
    enum { BATCH = 11, INDEX = 2 };
    struct host_case c = {"gather", 4, 2, 1, 2, 32, {"r0c0"}, BATCH, 3, 2};
    struct engine *engine = engine_of(config_of(c, c.envs));
    struct rig rig;
    engine_reset(engine, 2);
    *engine->world->step = 18;
    engine->world->config.data_set = set; /* for its augmentation and normalisation; the images stay the same */
    engine->normalise = gather_table_make(image_set_of(set));
    engine->world->config.data_augment = true;
    rig_open(&rig, engine);
    rig_write(&rig);
    const size_t area = 32 * 32, images = (size_t)c.envs * BATCH;
    std::vector<uint2> pixels(images * area);
    std::vector<uint8_t> labels(images), expected_labels(BATCH);
    std::vector<float> expected(BATCH * area * GATHER_CHANNELS);
    struct runtime *rt = rig.runtime;
    struct gather_bf16 target = {runtime_alloc<uint2>(rt, pixels.size()), runtime_alloc<uint8_t>(rt, images)};
    gather_train_bf16(rt, &rig.net->setup.source, c.envs, target, INDEX);
    runtime_copy_from(rt, pixels.data(), target.pixels, sizeof(uint2) * pixels.size());
    runtime_copy_from(rt, labels.data(), target.labels, images);
    runtime_wait(rt);
    auto bf16 = [](float x) {
        uint32_t u;
        memcpy(&u, &x, sizeof u);
        return (u + 0x7fffu + (u >> 16 & 1u)) >> 16;
    };
    size_t wrong = 0;
    for (uint32_t env = 0; env < (uint32_t)c.envs; env++) {
        struct gather_job job = {engine->world->config.seed,
                                 2,
                                 env,
                                 19,
                                 INDEX,
                                 3,
                                 BATCH,
                                 augment,
                                 conditions_load(&engine->world->conditions, env)};
        struct gather_target to = {expected.data(), area * GATHER_CHANNELS, 32 * GATHER_CHANNELS,
                                   expected_labels.data()};
        gather_batch(&engine->normalise, engine->data, &job, &to);
        for (size_t i = 0; i < BATCH * area; i++) {
            const float *e = &expected[i * GATHER_CHANNELS];
            uint2 p = pixels[env * BATCH * area + i];
            wrong += p.x != (bf16(e[0]) | bf16(e[1]) << 16) || p.y != bf16(e[2]);
        }
        wrong += memcmp(expected_labels.data(), &labels[env * BATCH], BATCH) != 0;
    }
    char text[64];
    snprintf(text, sizeof text, "%zu of %zu pixels differ", wrong, pixels.size());
    check(wrong == 0, std::string("gather: augmented batches of ") + image_set_of(set)->name + " in bf16", text);
    rig_close(&rig);
    engine_free(engine);
}

int main(int argc, char **argv)
{
    const std::vector<const char *> before = {"r0c0", "r0c1", "r0c2"};
    const std::vector<const char *> both = {"r0c0", "r0c1", "r0c2", "r1c0", "r1c1", "r1c2"};
    const struct host_case cases[] = {
        {"small", 4, 3, 3, 3, 16, both, 5, 1, 8},
        {"small two batches", 4, 3, 3, 2, 16, before, 6, 2, 4},
        {"baseline", 8, 3, 3, 3, 32, before, 4, 1, 3},
        {"one channel", 1, 3, 1, 3, 16, before, 24, 1, 5},
        {"no pools", 4, 3, 1, 0, 16, before, 4, 1, 4},
        {"odd channels", 3, 2, 3, 2, 16, {"r0c0", "r0c1", "r1c0", "r1c1"}, 5, 1, 4},
        {"wide", 16, 3, 3, 3, 16, both, 3, 1, 2},
        {"very wide", 80, 2, 3, 2, 16, {"r0c1", "r1c1"}, 2, 1, 3},
        {"six blocks", 2, 6, 1, 4, 16, {"r0c0", "r0c2", "r0c5", "r1c1", "r1c3"}, 6, 1, 4},
    };
    const char *only = argc > 1 ? argv[1] : "";
    for (const struct host_case &c : cases)
        if (strncmp(c.name, only, strlen(only)) == 0)
            check_host(c);
    if (!*only) {
        int missing = 0;
        for (const auto &row : planted)
            missing += (int)std::count(row, row + WAYS, false);
        check(missing == 0, "every blueprint in every way", missing ? "some were not tried" : "all were tried");
    }
    if (strncmp("bits", only, strlen(only)) == 0)
        check_bits();
    if (strncmp("gather", only, strlen(only)) == 0)
        check_gather(DATA_CIFAR10, AUGMENT_CROP_FLIP);
    check_gather(DATA_MNIST, AUGMENT_CROP);
    check_gather(DATA_SYNTHETIC, AUGMENT_NONE);
    printf("%d checks, %d failed\n", checks, failures);
    return failures ? 1 : 0;
}
