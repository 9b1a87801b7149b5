/* Worlds of transformers on the device compared with the CPU's, in whatever precision, and what must be bit-identical:
 * repetition, other envs, groups, seeds that do not count. */
#ifndef TESTS_TEXT_WORLDS_CUH
#define TESTS_TEXT_WORLDS_CUH

#include "morph/net_device.cuh"
#include "text_rig.cuh"

/* Kernels, and how far they may be from the CPU's. */
struct text_kernels {
    const struct net_device_kernels *kernels;
    double loss, points, moved; /* relative, points, share of what a step changes */
    double test;                /* relative, of the points */
    double gradients;           /* relative, of their norms */
    double cancelling; /* likewise of norm seeds without layers: nearly all is one number, sigma's, in which most
                          cancels */
    bool health;       /* what is said of a gradient's health is the same as well */
};

static inline void compare_gradients(const struct text_kernels &of, struct pair *pair,
                                     const std::vector<struct slot_grads> &grads)
{
    struct world *world = pair->world;
    for (size_t j = 0; j < grads.size(); j++) {
        const struct slot_grads &own = grads[j], &wanted = pair->engine->grads[j];
        const int env = (int)j / world->shape.slots, slot = (int)j % world->shape.slots;
        const bool cancels = world->config.host_layers == 0 &&
                             world_slot(world, env, slot).blueprint == TRANSFORMER_NORM;
        const double most = cancels ? of.cancelling : of.gradients;
        const bool health = own.vanishing == wanted.vanishing && own.exploding == wanted.exploding &&
                            own.health == wanted.health;
        check(own.measured == wanted.measured && own.finite == wanted.finite && (health || !of.health) &&
                  relative(own.norm, wanted.norm) < most && relative(own.ratio, wanted.ratio) < most,
              "env " + std::to_string(env) + ", measured gradients of slot " + std::to_string(slot), "near");
    }
}

static inline void check_train(const struct text_kernels &of, struct pair *pair)
{
    struct world *world = pair->world;
    const size_t envs = (size_t)world->envs, hosts = envs * world->shape.host.storage,
                 seeds = envs * world->shape.seed_storage;
    const arenas start = arenas_of(world);
    const std::vector<float> host(world->host, world->host + hosts), seed(world->seed, world->seed + seeds);
    pair_write(pair);
    pair->kernels->train(pair->net);
    pair_read(pair);
    const arenas device = arenas_of(world);
    const std::vector<float> got(world->host, world->host + hosts), got_seed(world->seed, world->seed + seeds);
    const std::vector<double> loss(world->train_loss, world->train_loss + envs),
        points(world->train_accuracy, world->train_accuracy + envs);
    const std::vector<uint32_t> updates(world->updates, world->updates + envs * (size_t)net_parts(world->shape.slots));
    const std::vector<struct slot_grads> grads =
        download(pair->runtime, pair->net->setup.grads, envs * (size_t)world->shape.slots);
    struct graph graph = {};
    step_from(pair, &graph, start);
    check(step_from(pair, &graph, start) == device, "a step repeated");
    graph_free(&graph);
    arenas_restore(world, start);
    engine_train(pair->engine);
    for (size_t e = 0; e < envs; e++) {
        const std::string name = "env " + std::to_string(e);
        const size_t h = e * world->shape.host.storage, s = e * world->shape.seed_storage;
        check_within(name + ", loss", relative(loss[e], world->train_loss[e]), of.loss);
        check_within(name + ", points", std::fabs(points[e] - world->train_accuracy[e]), of.points);
        check_within(name + ", host", distance(world->shape.host.storage, &got[h], world->host + h, &host[h]),
                     of.moved);
        check_within(name + ", seeds", distance(world->shape.seed_storage, &got_seed[s], world->seed + s, &seed[s]),
                     of.moved);
    }
    check(memcmp(updates.data(), world->updates, sizeof(uint32_t) * updates.size()) == 0, "updates counted", "all");
    compare_gradients(of, pair, grads);
}

static inline void check_evaluate(const struct text_kernels &of, struct pair *pair)
{
    struct world *world = pair->world;
    const size_t envs = (size_t)world->envs;
    pair_write(pair);
    pair_evaluate(pair);
    pair_read(pair);
    const struct evaluation device = evaluation_of(world);
    std::vector<struct sets> sets(envs);
    for (size_t e = 2; e < envs; e++)
        for (uint32_t k = 0; k < device.count[e]; k++) /* in another order */
            sets[e].mask[sets[e].count++] = device.mask[e * SUBSETS_MAX + device.count[e] - 1 - k];
    const std::vector<struct sets> measured = pair_measure(pair, sets);
    bool same = true;
    for (size_t e = 2; e < envs; e++)
        for (uint32_t k = 0; k < device.count[e]; k++)
            same = same && measured[e].score[k] == device.score[e * SUBSETS_MAX + device.count[e] - 1 - k];
    check(same && device.count[2] == 8 && device.count[3] == 4, "sets scored as in the evaluation", "8 and 4");
    engine_evaluate(pair->engine);
    const struct evaluation_gap gap = evaluation_compare(device, evaluation_of(world));
    check(gap.same, "subsets", std::to_string(gap.subsets));
    check_within("points of subsets", gap.score, of.points);
    check_within("validation points", gap.points, of.points);
    check_within("validation loss", gap.loss, of.loss);
    pair->kernels->test(pair->net);
    const std::vector<double> test = download(pair->runtime, pair->net->setup.test_accuracy, envs);
    std::vector<double> wanted(envs);
    engine_test(pair->engine, wanted.data());
    check_within("test points", distance(envs, test.data(), wanted.data()), of.test);
}

static inline void check_world(const struct text_kernels &of, struct config (*worlds)(int))
{
    struct pair pair;
    pair_begin(&pair, worlds(4), "world");
    pair_attach(&pair, of.kernels);
    engine_reset(pair.engine, 3);
    plant_all(pair.world);
    check_train(of, &pair);
    check_evaluate(of, &pair);
    pair_close(&pair);
}

/* ---- bit-identical ----------------------------------------------------------------------------------------------- */

static inline void check_bits(const struct text_kernels &of, struct config (*worlds)(int))
{
    const auto bits_of = [&](int envs, void (*prepare)(struct world *), int slots = 3) {
        return step_bits(of.kernels, worlds(envs), prepare, slots);
    };
    const struct bits one = bits_of(1, prepare_grown), three = bits_of(3, prepare_grown);
    check(same_host(one, three) && one.seed == three.seed, "env 0 among 1 and among 3");
    net_budget = 1; /* every env in its own group */
    const struct bits grouped = bits_of(3, prepare_grown);
    check(same_host(one, grouped) && one.seed == grouped.seed, "envs in groups");
    net_budget = 0;
    const struct bits bare = bits_of(1, prepare_bare), training = bits_of(1, prepare_training);
    check(same_host(bare, bits_of(1, prepare_bare, 1)), "T10: empty slots and a host with fewer");
    check(same_host(bare, training) && bare.seed != training.seed, "T11: seeds in TRAINING leave the host alone");
    check(same_host(bare, bits_of(1, prepare_alpha_zero)), "I-20: seeds at alpha 0, whatever they hold");
}

#endif
