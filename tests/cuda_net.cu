/*
 * Whole steps of many networks at once, in fp32 and in bf16, compared with the CPU: several batches of training, a
 * validation of all subsets, sets of slots, a test. Then what must be bit-identical: repetition, other envs, groups of
 * envs and few thread blocks, any order of streams, empty slots and seeds in TRAINING. Single networks are the case
 * table's: cuda_cases.
 *
 *     cuda_net [fp32|bf16|planes]
 */
#include <algorithm>

#include "cnn/bf16/host.cuh"
#include "cuda/warp.cuh"
#include "device_rig.cuh"

/* How much results may differ: fp32 sums in another order, bf16 keeps eight bits. */
struct precision {
    const char *name;
    const struct net_device_kernels *kernels;
    double loss, validation, step, stats; /* relative */
    double wrong;                         /* images of a hundred that are judged differently */
    double floor; /* a seed that learns less than this share of what the most eager one does: rounding */
};

static const struct precision precisions[] = {{"fp32", &cnn_fp32, 1e-5, 1e-5, 2e-3, 1e-4, 0, 0},
                                              {"bf16", &cnn_bf16, 2e-3, 2e-3, 0.35, 0.35, 1, 0.1},
                                              {"planes", &cnn_planes, 2e-3, 2e-3, 0.35, 0.35, 1, 0.1}};

/* ---- comparison with the CPU ------------------------------------------------------------------------------------- */

/* Env 0 is bare, env 1 trains seeds, env 2 blends before the pools, env 3 everywhere: the seeds of envs 1 to 3 learn in
 * all ways while the host goes on. */
static void plant_all(struct world *world)
{
    for (int env = 1; env < world->envs; env++)
        for (int j = 0; j < world->shape.slots; j++) {
            const int turn = env + 3 * j;
            if (env == 1)
                plant(world, env, j, STAGE_TRAINING, (1 + j) % BLUEPRINT_COUNT, ALGORITHM_ADD, 0);
            else if (env == 2 && world->shape.slot[j].row == 0)
                plant(world, env, j, STAGE_BLENDING, (turn + 3) % BLUEPRINT_COUNT, 1 + j % 3, 0.6f);
            else if (env > 2 && j == world->shape.slots - 2)
                plant(world, env, j, STAGE_TRAINING, turn % BLUEPRINT_COUNT, ALGORITHM_ADD, 0);
            else if (env > 2)
                plant(world, env, j, j % 3 == 2 ? STAGE_FOSSILIZED : STAGE_HOLDING, turn % BLUEPRINT_COUNT, 1 + j % 3,
                      j % 3 == 2 ? 1.0f : 0.4f);
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
            params.stats[b->mean + (size_t)c] += 0.6f * noise(&random);
            params.stats[b->var + (size_t)c] += 0.5f * noise(&random);
            params.host[world->shape.host.tensor[b->gamma].offset + (size_t)c] += 0.4f * noise(&random);
            params.host[world->shape.host.tensor[b->beta].offset + (size_t)c] += 0.4f * noise(&random);
        }
    }
}

static std::string env_text(const std::string &name, int env, const char *what)
{
    return name + ", env " + std::to_string(env) + ", " + what;
}

struct networks {
    std::vector<float> host, seed, gate, stats;
    std::vector<double> loss, accuracy;
};

static struct networks networks_of(const struct world *world)
{
    const size_t envs = (size_t)world->envs;
    const auto all = [envs](const float *from, size_t each) { return std::vector<float>(from, from + envs * each); };
    return {all(world->host, world->shape.host.storage),   all(world->seed, world->shape.seed_storage),
            all(world->gate, world->shape.gate_storage),   all(world->stats, world->shape.stats),
            {world->train_loss, world->train_loss + envs}, {world->train_accuracy, world->train_accuracy + envs}};
}

static double norm_of(size_t count, const float *a, const float *from)
{
    double square = 0;
    for (size_t i = 0; i < count; i++)
        square += ((double)a[i] - (double)from[i]) * ((double)a[i] - (double)from[i]);
    return std::sqrt(square);
}

static void compare_networks(const std::string &name, const struct precision &precision, const struct world *world,
                             const struct networks &got, const struct networks &want, const struct networks &before)
{
    const struct net_shape &shape = world->shape;
    for (int env = 0; env < world->envs; env++) {
        const size_t e = (size_t)env, host = e * shape.host.storage, stats = e * shape.stats;
        check_within(env_text(name, env, "loss"), relative(got.loss[e], want.loss[e]), precision.loss);
        check_within(env_text(name, env, "accuracy"), std::fabs(got.accuracy[e] - want.accuracy[e]),
                     precision.wrong * 100.0 / world->config.data_batch);
        check_within(env_text(name, env, "host"),
                     distance(shape.host.storage, &got.host[host], &want.host[host], &before.host[host]),
                     precision.step);
        check_within(env_text(name, env, "statistics"), distance(shape.stats, &got.stats[stats], &want.stats[stats]),
                     precision.loss);
        double most = 0;
        for (int j = 0; j < shape.slots; j++) {
            const size_t seed = e * shape.seed_storage + shape.slot[j].seed;
            most = std::max(most, norm_of(shape.slot[j].seed_storage, &want.seed[seed], &before.seed[seed]));
        }
        for (int j = 0; j < shape.slots; j++) {
            const struct slot_state slot = world_slot(world, env, j);
            const size_t seed = e * shape.seed_storage + shape.slot[j].seed, count = shape.slot[j].seed_storage;
            const double apart = norm_of(count, &got.seed[seed], &want.seed[seed]),
                         size = norm_of(count, &want.seed[seed], &before.seed[seed]);
            const std::string what = std::string(shape.slot[j].id) + " " + blueprint_name(slot.blueprint);
            if (stage_is_live(slot.stage))
                check_within(env_text(name, env, what.c_str()), relative(size + apart, size, precision.floor * most),
                             precision.step);
        }
    }
}

static void compare_grads(const std::string &name, const struct precision &precision, const struct world *world,
                          const struct slot_grads *got, const struct slot_grads *want)
{
    double norm = 0, health = 0, most = 1e-6, most_ratio = 1e-6;
    bool flags = true;
    for (int k = 0; k < world->envs * world->shape.slots; k++) {
        most = std::max(most, precision.floor * want[k].norm);
        most_ratio = std::max(most_ratio, precision.floor * want[k].ratio);
    }
    for (int k = 0; k < world->envs * world->shape.slots; k++) {
        flags = flags && got[k].measured == want[k].measured && got[k].finite == want[k].finite &&
                got[k].vanishing == want[k].vanishing && got[k].exploding == want[k].exploding;
        norm = std::max(norm, std::max(relative(got[k].norm, want[k].norm, most),
                                       relative(got[k].ratio, want[k].ratio, most_ratio)));
        health = std::max(health, std::fabs(got[k].health - want[k].health));
    }
    check(flags, name + ", flags of gradients", "all");
    check_within(name + ", norms of gradients", norm, precision.stats);
    check_within(name + ", health of gradients", health, 1e-12);
}

/* What a step that was captured leaves. */
static arenas step_from(struct pair *pair, struct graph *graph, const arenas &state)
{
    arenas_restore(pair->world, state);
    pair_write(pair);
    if (graph_begin(pair->runtime, graph))
        pair->kernels->train(pair->net);
    graph_run(pair->runtime, graph);
    pair_read(pair);
    return arenas_of(pair->world);
}

/* A step of training on both sides; the device's twice, the second time as a graph. */
static void check_train(const std::string &name, const struct precision &precision, struct pair *pair)
{
    struct world *world = pair->world;
    const arenas start = arenas_of(world);
    const struct networks before = networks_of(world);
    pair_write(pair);
    pair->kernels->train(pair->net);
    pair_read(pair);
    const arenas device = arenas_of(world);
    const struct networks got = networks_of(world);
    const std::vector<struct slot_grads> grads =
        download(pair->runtime, pair->net->setup.grads, (size_t)(world->envs * world->shape.slots));

    if (pair->kernels != &cnn_bf16) { /* which check_orders does */
        struct graph graph = {};
        check(step_from(pair, &graph, start) == device, name + ", a step repeated");
        graph_free(&graph);
    }
    arenas_restore(world, start);
    engine_train(pair->engine);
    compare_networks(name, precision, world, got, networks_of(world), before);
    compare_grads(name, precision, world, grads.data(), pair->engine->grads);
}

/* Every set of an env's slots that are on, measured at once: those of the evaluation yield the same points. */
static void check_sets(const std::string &name, struct pair *pair, const std::vector<double> &score)
{
    const struct world *world = pair->world;
    std::vector<struct sets> sets((size_t)world->envs);
    for (int e = 2; e < world->envs; e++)
        for (uint32_t mask = 0; mask < 64; mask++)
            if (!(mask & ~world->subset_all[e]))
                sets[(size_t)e].mask[sets[(size_t)e].count++] = mask;
    const std::vector<struct sets> got = pair_measure(pair, sets);
    int same = 0, among = 0;
    for (int e = 0; e < world->envs; e++)
        for (int k = 0; k < got[(size_t)e].count; k++)
            for (uint32_t i = 0; i < world->subset_count[e]; i++)
                if (world->subset_mask[(uint32_t)e * SUBSETS_MAX + i] == got[(size_t)e].mask[k]) {
                    among++;
                    same += score[(size_t)e * SUBSETS_MAX + i] == got[(size_t)e].score[k];
                }
    check(among >= 8 && same == among, name + ", sets scored as in the evaluation",
          std::to_string(same) + " of " + std::to_string(among));
}

static void check_evaluate(const std::string &name, const struct precision &precision, struct pair *pair)
{
    struct world *world = pair->world;
    const size_t envs = (size_t)world->envs;
    const double wrong = precision.wrong * (1 + 0.01 * world->config.data_val_images);
    pair_write(pair);
    pair_evaluate(pair);
    pair_read(pair);
    const struct evaluation device = evaluation_of(world);
    check_sets(name, pair, device.score);
    engine_evaluate(pair->engine);
    const struct evaluation_gap gap = evaluation_compare(device, evaluation_of(world));
    check(gap.same, name + ", subsets", std::to_string(gap.subsets));
    check_within(name + ", points of subsets", gap.score, 100 * wrong / world->config.data_val_images);
    check_within(name + ", validation loss", gap.loss, precision.validation);
    check_within(name + ", validation accuracy", gap.points, 100 * wrong / world->config.data_val_images);
    pair->kernels->test(pair->net);
    const std::vector<double> test = download(pair->runtime, pair->net->setup.test_accuracy, envs);
    std::vector<double> reference(envs);
    engine_test(pair->engine, reference.data());
    double points = 0;
    for (size_t e = 0; e < envs; e++)
        points = std::max(points, std::fabs(test[e] - reference[e]));
    check_within(name + ", test accuracy", points, 100 * wrong / world->config.data_test_images);
}

static void check_world(const struct precision &precision, const struct world_case &c)
{
    struct pair pair;
    const std::string name = std::string(precision.name) + " " + c.name;
    pair_open(&pair, c, precision.kernels);
    engine_reset(pair.engine, 3);
    for (int env = 0; env < c.envs; env++)
        unsettle(pair.world, env);
    plant_all(pair.world);
    check_train(name, precision, &pair);
    check_evaluate(name, precision, &pair);
    pair_close(&pair);
}

/* ---- bit-identical ----------------------------------------------------------------------------------------------- */

struct host_bits {
    std::vector<float> host, seed;
};

/* Env 0 after a step and a validation. */
static struct host_bits step_bits(const struct precision &precision, struct world_case c, int envs,
                                  void (*prepare)(struct world *), int resident = 0)
{
    struct pair pair;
    c.envs = envs;
    pair_open(&pair, c, precision.kernels);
    if (resident)
        bf16_net_of(pair.net)->resident = resident;
    const struct world *world = pair.world;
    engine_reset(pair.engine, 1);
    prepare(pair.world);
    pair_write(&pair);
    pair.kernels->train(pair.net);
    pair_evaluate(&pair);
    pair_read(&pair);
    struct host_bits bits = {{world->host, world->host + world->shape.host.storage},
                             {world->seed, world->seed + world->shape.seed_storage}};
    bits.host.insert(bits.host.end(), world->host_momentum, world->host_momentum + world->shape.host.storage);
    bits.host.insert(bits.host.end(), world->stats, world->stats + world->shape.stats);
    bits.host.push_back((float)(world->train_loss[0] + world->val_loss[0]));
    pair_close(&pair);
    return bits;
}

static void prepare_grown(struct world *world)
{
    for (int env = 0; env < world->envs; env++)
        for (int j = 0; j < world->shape.slots; j++) /* what other envs hold must not matter */
            if (env == 0 || j != 1)
                plant(world, env, j, j % 2 ? STAGE_HOLDING : STAGE_TRAINING, (5 + j) % BLUEPRINT_COUNT, 1 + j % 3,
                      j % 2 ? 0.4f : 0.0f);
}

static void prepare_bare(struct world *)
{
}

static void prepare_training(struct world *world)
{
    for (int j = 0; j < world->shape.slots; j++)
        plant(world, 0, j, STAGE_TRAINING, (j + 1) % BLUEPRINT_COUNT, ALGORITHM_ADD, 0);
}

static void prepare_alpha_zero(struct world *world)
{
    for (int j = 0; j < world->shape.slots; j++) {
        plant(world, 0, j, STAGE_BLENDING, BLUEPRINT_CONV_LIGHT, ALGORITHM_ADD, 0);
        world_params(world, 0).seed[world->shape.slot[j].seed] = NAN;
    }
}

static bool same_bits(const struct host_bits &a, const struct host_bits &b)
{
    return memcmp(a.host.data(), b.host.data(), a.host.size() * sizeof(float)) == 0 &&
           memcmp(a.seed.data(), b.seed.data(), a.seed.size() * sizeof(float)) == 0;
}

static void check_bits(const struct precision &precision, const struct world_case &c)
{
    const std::string name = std::string(precision.name) + " bits, ";
    struct world_case slotless = c;
    slotless.slots = {"r0c0"};
    const struct host_bits one = step_bits(precision, c, 1, prepare_grown);
    check(same_bits(one, step_bits(precision, c, 3, prepare_grown)), name + "env 0 among 1 and among 3");
    if (precision.kernels != &cnn_bf16) {
        net_budget = 1; /* every env in its own group */
        check(same_bits(one, step_bits(precision, c, 3, prepare_grown)), name + "envs in groups");
        net_budget = 0;
    } else {
        check(same_bits(one, step_bits(precision, c, 3, prepare_grown, 2)), name + "room for two thread blocks");
    }
    const struct host_bits bare = step_bits(precision, c, 1, prepare_bare),
                           without = step_bits(precision, slotless, 1, prepare_bare),
                           training = step_bits(precision, c, 1, prepare_training);
    check(bare.host == without.host, name + "T10: empty slots and a host without slots");
    check(bare.host == training.host && bare.seed != training.seed,
          name + "T11: seeds in TRAINING leave the host alone");
    const struct host_bits zero = step_bits(precision, c, 1, prepare_alpha_zero);
    if (precision.kernels != &cnn_bf16)
        check(bare.host == zero.host, name + "I-20: seeds at alpha 0, whatever they hold");
    else /* a blended block keeps its maps rounded, whatever alpha is */
        check_within("bf16, I-20: seeds at alpha 0, whatever they hold",
                     distance(bare.host.size(), zero.host.data(), bare.host.data()), 0.01);
}

/* ---- streams ----------------------------------------------------------------------------------------------------- */

/* Bits do not depend on the order in which streams execute what events permit: in the emulator the extreme orders, on a
 * device those that occur. There are enough batches for buffers to be reused; in two blocks a seed trains, a batch
 * behind the host, beside a blended one: one reads the output of r0, one that of r1. */
static void check_orders(struct world_case c)
{
    struct pair pair;
    struct graph graph = {};
    c.batches = 4;
    pair_open(&pair, c, &cnn_bf16);
    for (int e = 0; e < c.envs; e++) {
        plant(pair.world, e, 0, STAGE_HOLDING, BLUEPRINT_CONV_LIGHT, ALGORITHM_ADD, 0.5f);
        plant(pair.world, e, 3, STAGE_TRAINING, BLUEPRINT_CONV_SMALL, ALGORITHM_ADD, 0);
        plant(pair.world, e, 1, STAGE_TRAINING, BLUEPRINT_NORM, ALGORITHM_ADD, 0);
        plant(pair.world, e, 4, STAGE_HOLDING, BLUEPRINT_CONV_LIGHT, ALGORITHM_MULTIPLY, 0.5f);
    }
    const arenas state = arenas_of(pair.world);
#ifdef EMULATE
    const emulate::order asked = emulate::order_taken;
    emulate::order_taken = emulate::order::capture;
    const arenas first = step_from(&pair, &graph, state);
    emulate::order_taken = emulate::order::late;
    check(step_from(&pair, &graph, state) == first, "bf16 bits, side streams late");
    emulate::order_taken = emulate::order::early;
    check(step_from(&pair, &graph, state) == first, "bf16 bits, side streams early");
    emulate::order_taken = asked;
#else
    const arenas first = step_from(&pair, &graph, state);
    int same = 0, steps = 40;
    for (int k = 0; k < steps; k++)
        same += step_from(&pair, &graph, state) == first;
    check(same == steps, "bf16 bits, every step from the same state", std::to_string(same));
#endif
    check(first != state, "a step changes something", "the world");
    graph_free(&graph);
    pair_close(&pair);
}

/* ---- which hosts have bf16 kernels ------------------------------------------------------------------------------- */

/* One answer for host, seeds and validation: a host that one of them does not support does not fit. */
static void check_fits(void)
{
    const struct net_device_kernels *made = &cnn_bf16, *any = &cnn_planes;
    const struct {
        const char *name;
        int base, blocks, kernel, pools, size, batch;
        const struct net_device_kernels *kernels;
    } cases[] = {{"base 8", 8, 3, 3, 3, 32, 1, made},         {"base 1", 1, 3, 1, 3, 32, 128, any},
                 {"base 16", 16, 3, 3, 3, 32, 128, any},      {"base 12", 12, 3, 3, 3, 32, 128, any},
                 {"two blocks", 8, 2, 3, 2, 32, 128, any},    {"five blocks", 8, 5, 3, 5, 32, 128, any},
                 {"1 x 1 kernels", 8, 3, 1, 3, 32, 128, any}, {"two pools", 8, 3, 3, 2, 32, 128, any},
                 {"images of 16", 8, 3, 3, 3, 16, 128, any},  {"images of 224", 8, 3, 3, 3, 224, 128, any},
                 {"512 channels", 128, 3, 3, 3, 32, 1, any},  {"too wide", 512, 1, 3, 1, 32, 128, nullptr},
                 {"no images", 8, 3, 3, 3, 32, 0, nullptr}};
    for (const auto &c : cases)
        for (int slots : {0, 1}) {
            struct config config;
            struct cnn_shape shape;
            config_defaults(&config);
            config.host_base = c.base;
            config.host_blocks = c.blocks;
            config.host_kernel = c.kernel;
            config.host_pools = c.pools;
            config.slot_count = slots; /* r0c0 */
            cnn_shape_init_sized(&shape, &config, c.size, c.size);
            check(cnn_bf16_for(&shape.net, c.batch) == c.kernels, std::string("bf16 fits, ") + c.name,
                  std::to_string(slots) + " slots");
        }
}

/* ---- gather ------------------------------------------------------------------------------------------------------ */

static void check_gather(enum data_set set, enum augment augment)
{
    enum { BATCH = 11, INDEX = 2 };
    const struct world_case c = {"gather", 4, 2, 1, 2, 32, {"r0c0"}, BATCH, 3, 2, 6};
    struct pair pair;
    pair_begin(&pair, c);
    struct engine *engine = pair.engine;
    engine_reset(engine, 2);
    *engine->world->step = 18;
    engine->world->config.data_set = set; /* for its augmentation and normalisation; the images stay the same */
    engine->world->config.data_augment = true;
    engine->normalise = gather_table_make(data_facts_of(set));
    pair_attach(&pair, &cnn_fp32);
    pair_write(&pair);
    const size_t area = 32 * 32, images = (size_t)c.envs * BATCH;
    std::vector<uint2> pixels(images * area);
    std::vector<uint8_t> labels(images);
    std::vector<uint16_t> expected_labels(BATCH);
    std::vector<float> expected(BATCH * area * GATHER_CHANNELS);
    struct runtime *rt = pair.runtime;
    struct gather_bf16 target = {runtime_alloc<uint2>(rt, pixels.size()), runtime_alloc<uint8_t>(rt, images)};
    gather_train_bf16(rt, &pair.net->setup.source, c.envs, target, INDEX);
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
        struct gather_target to = {};
        to.images = expected.data();
        to.image_stride = area * GATHER_CHANNELS;
        to.row_stride = 32 * GATHER_CHANNELS;
        to.labels = expected_labels.data();
        gather_batch(&engine->normalise, engine->data, &job, &to);
        for (size_t i = 0; i < BATCH * area; i++) {
            const float *e = &expected[i * GATHER_CHANNELS];
            uint2 p = pixels[env * BATCH * area + i];
            wrong += p.x != (bf16(e[0]) | bf16(e[1]) << 16) || p.y != bf16(e[2]);
        }
        wrong += !std::equal(expected_labels.begin(), expected_labels.end(), &labels[env * BATCH]);
    }
    char text[64];
    snprintf(text, sizeof text, "%zu of %zu pixels differ", wrong, pixels.size());
    check(wrong == 0, std::string("gather: augmented batches of ") + data_facts_of(set)->name + " in bf16", text);
    pair_close(&pair);
}

int main(int argc, char **argv)
{
    const std::vector<const char *> both = {"r0c0", "r0c1", "r0c2", "r1c0", "r1c1", "r1c2"};
#ifdef EMULATE
    const int batch = 5, images = 6, envs = 1;
#else
    const int batch = 128, images = 500, envs = 16;
#endif
    const struct world_case small = {"small", 4, 3, 3, 3, 16, both, 5, 2, 4, 7}, /* more images than fit exactly */
        cifar = {"cifar", 8, 3, 3, 3, 32, both, batch, 2, 4, images},
                            streams = {"cifar", 8, 3, 3, 3, 32, both, envs > 1 ? 128 : 2, 4, envs, 8};
    const char *only = argc > 1 ? argv[1] : "";
    const auto asked = [&](const char *name) { return !*only || strcmp(only, name) == 0; };
    if (asked("fp32")) {
        check_world(precisions[0], small);
        check_world(precisions[0], {"baseline", 8, 3, 3, 3, 32, {"r0c0", "r0c1", "r0c2"}, 4, 1, 3, 6});
        check_bits(precisions[0], {"bits", 4, 3, 3, 2, 16, {"r0c0", "r0c1", "r0c2", "r1c0", "r1c1"}, 6, 2, 1, 6});
    }
    if (asked("bf16")) {
        check_fits();
        check_world(precisions[1], cifar);
        check_bits(precisions[1], {"bits", 8, 3, 3, 3, 32, {"r0c0", "r0c1", "r0c2", "r1c1"}, 5, 1, 1, 4});
        check_orders(streams);
    }
    if (asked("planes")) {
        check_world(precisions[2], small);
        check_world(precisions[2], {"deep", 8, 5, 3, 5, 32, {"r0c1", "r0c3", "r0c4", "r1c2", "r1c4"}, 8, 1, 3, 4});
        check_world(precisions[2], {"base 12", 12, 3, 3, 3, 16, {"r0c0", "r0c1", "r0c2"}, 4, 1, 3, 4});
        check_world(precisions[2], {"1x1", 1, 3, 1, 3, 32, {"r0c0", "r0c1", "r0c2"}, 4, 1, 3, 4});
        check_bits(precisions[2], {"bits", 4, 3, 3, 2, 16, {"r0c0", "r0c1", "r0c2", "r1c0", "r1c1"}, 6, 2, 1, 6});
    }
    check_gather(DATA_CIFAR10, AUGMENT_CROP_FLIP);
    check_gather(DATA_MNIST, AUGMENT_CROP);
    check_gather(DATA_SYNTHETIC, AUGMENT_NONE);
    return conclude();
}
