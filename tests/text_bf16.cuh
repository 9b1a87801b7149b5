/* What is checked of transformers in bf16, small and wide: tensors compared, causality, worlds and what must be
 * bit-identical. */
#ifndef TESTS_TEXT_BF16_CUH
#define TESTS_TEXT_BF16_CUH

#include "morph/net_trial.cuh"
#include "text_rig.cuh"
#include "transformer/fp32/net.cuh"

/* The direction and the size of a tensor's gradient. Where it is next to nothing of its part's, what remains is
 * rounding: then its size is judged by the part's. */
static inline void compare_tensor(const std::string &name, const double *got, const double *want, size_t count,
                                  double part, double cosine_least, double ratio_most)
{
    double dot = 0, got_square = 0, want_square = 0, apart = 0;
    for (size_t i = 0; i < count; i++) {
        dot += got[i] * want[i];
        got_square += got[i] * got[i];
        want_square += want[i] * want[i];
        apart += (got[i] - want[i]) * (got[i] - want[i]);
    }
    const double off = apart > 0 ? std::sqrt(apart / part) : 0;
    if (count == 1) { /* of one number the direction says nothing, and all of it may cancel */
        check_within(name + ", of its part", off, 0.05);
        return;
    }
    if (want_square <= 1e-4 * part) {
        check_within(name + ", next to nothing", off, 5e-3);
        return;
    }
    const double cosine = dot / std::sqrt(got_square * want_square), ratio = std::sqrt(got_square / want_square);
    char text[96];
    snprintf(text, sizeof text, "cosine %.6f, ratio %.4f", cosine, ratio);
    check(cosine >= cosine_least && std::fabs(ratio - 1) <= ratio_most, name, text);
}

/* ---- causality --------------------------------------------------------------------------------------------------- */

/* Losses of every token of a batch. */
static inline std::vector<double> losses_of(struct network &n)
{
    struct runtime *rt = open_runtime();
    struct net_trial trial = {};
    std::vector<uint32_t> updates((size_t)net_parts(n.shape.net.slots));
    trial.shape = &n.shape.net;
    trial.samples = n.samples;
    trial.exec = n.exec.data();
    trial.params = trial.memory.first =
        trial.memory.second = {n.params[0].data(), nullptr, n.params[1].data(), n.params[2].data()};
    trial.memory.updates = updates.data();
    trial.rates.host.kind = trial.rates.seed.kind = OPTIMISER_ADAMW;
    const struct net_setup setup = trial_setup(rt, &trial);
    struct net_device *created = transformer_bf16.create(rt, &setup);
    if (!created)
        stop("create", rt->error.text);
    struct transformer_net *net = transformer_net_of(created);
    runtime_copy_to(rt, net->view.windows, n.tokens.data(), (size_t)n.samples * (size_t)(n.shape.context + 1));
    net->learn(net, 0, 1);
    const std::vector<double> losses = download(rt, net->view.losses, (size_t)net->view.rows);
    transformer_bf16.free(created);
    runtime_free(rt);
    return losses;
}

/* A token changes its own prediction and, where there is attention, those after it; the loss before it is that of
 * predicting it. */
static inline void check_causality(const struct text_case &c, size_t changed)
{
    int turn = 0;
    for (int blueprint : blueprints) {
        struct network n;
        network_make(&n, c, 5);
        network_plant(&n, 0, blueprint, 1 + turn % 3, 0.7f);
        network_plant(&n, 1, blueprints[(turn + 2) % KINDS], 1 + (turn + 1) % 3, 0.5f);
        struct network changed_one = n;
        changed_one.tokens[(size_t)(c.context + 1) + changed] ^= 1;
        const std::vector<double> before = losses_of(n), after = losses_of(changed_one);
        const bool attends = network_attends(n);
        bool same = true, seen = true, later = !attends; /* a seed's attention alone may pass over some tokens */
        for (size_t i = 0; i < before.size(); i++) {
            const size_t sequence = i / (size_t)c.context, t = i % (size_t)c.context;
            const bool differs = before[i] != after[i];
            if (sequence != 1 || t + 1 < changed || (t > changed && !attends))
                same = same && !differs;
            else if (t <= changed || c.layers > 0)
                seen = seen && differs;
            later = later || (sequence == 1 && t > changed && differs);
        }
        check(same && seen && later, std::string("causality with ") + named(blueprint), "elsewhere bit for bit");
        turn++;
    }
}

/* ---- worlds ------------------------------------------------------------------------------------------------------ */

static inline void check_train(struct pair *pair)
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
        check_within(name + ", loss", relative(loss[e], world->train_loss[e]), 2e-3);
        check_within(name + ", points", std::fabs(points[e] - world->train_accuracy[e]), 0.1);
        /* Adam's step of a gradient near zero has the sign of its rounding. */
        check_within(name + ", host", distance(world->shape.host.storage, &got[h], world->host + h, &host[h]), 0.35);
        check_within(name + ", seeds", distance(world->shape.seed_storage, &got_seed[s], world->seed + s, &seed[s]),
                     0.35);
        for (int slot = 0; slot < world->shape.slots; slot++) {
            const size_t j = e * (size_t)world->shape.slots + (size_t)slot;
            const struct slot_grads &own = grads[j], &wanted = pair->engine->grads[j];
            /* Nearly all of a norm seed's gradient is one number, sigma's, in which most cancels without layers. */
            const bool cancels = world->config.host_layers == 0 &&
                                 world_slot(world, (int)e, slot).blueprint == TRANSFORMER_NORM;
            const double most = cancels ? 0.4 : 0.05;
            check(own.measured == wanted.measured && own.finite == wanted.finite &&
                      relative(own.norm, wanted.norm) < most && relative(own.ratio, wanted.ratio) < most,
                  name + ", measured gradients of slot " + std::to_string(slot), "near");
        }
    }
    check(memcmp(updates.data(), world->updates, sizeof(uint32_t) * updates.size()) == 0, "updates counted", "all");
}

struct sets {
    int count;
    uint32_t mask[NET_SETS_MAX];
    double score[NET_SETS_MAX];
};

static inline void check_evaluate(struct pair *pair)
{
    struct world *world = pair->world;
    const size_t envs = (size_t)world->envs;
    pair_write(pair);
    pair->kernels->evaluate(pair->net);
    pair_read(pair);
    const std::vector<uint32_t> count(world->subset_count, world->subset_count + envs),
        mask(world->subset_mask, world->subset_mask + envs * SUBSETS_MAX);
    const std::vector<double> score(world->subset_score, world->subset_score + envs * SUBSETS_MAX),
        loss(world->val_loss, world->val_loss + envs);
    std::vector<sets> sets(envs);
    for (size_t e = 2; e < envs; e++)
        for (uint32_t k = 0; k < count[e]; k++) /* in another order */
            sets[e].mask[sets[e].count++] = mask[e * SUBSETS_MAX + count[e] - 1 - k];
    struct sets *device = upload(pair->runtime, sets);
    pair->kernels->measure(pair->net, {&device->count, device->mask, device->score, sizeof *device});
    const std::vector<struct sets> measured = download(pair->runtime, device, envs);
    bool same = true;
    for (size_t e = 2; e < envs; e++)
        for (uint32_t k = 0; k < count[e]; k++)
            same = same && measured[e].score[k] == score[e * SUBSETS_MAX + count[e] - 1 - k];
    check(same && count[2] == 8 && count[3] == 4, "sets scored as in the evaluation", "8 and 4");
    engine_evaluate(pair->engine);
    double apart = 0, losses = 0;
    for (size_t e = 0; e < envs; e++) {
        losses = std::max(losses, relative(loss[e], world->val_loss[e]));
        for (uint32_t k = 0; k < count[e]; k++)
            apart = std::max(apart, std::fabs(score[e * SUBSETS_MAX + k] - world->subset_score[e * SUBSETS_MAX + k]));
    }
    check(memcmp(count.data(), world->subset_count, sizeof(uint32_t) * envs) == 0 &&
              memcmp(mask.data(), world->subset_mask, sizeof(uint32_t) * mask.size()) == 0,
          "subsets", "all");
    check_within("points of subsets", apart, 0.1);
    check_within("validation loss", losses, 2e-3);
    pair->kernels->test(pair->net);
    const std::vector<double> test = download(pair->runtime, pair->net->setup.test_accuracy, envs);
    std::vector<double> wanted(envs);
    engine_test(pair->engine, wanted.data());
    check_within("test points", distance(envs, test.data(), wanted.data()), 0.05);
}

static inline void check_world(struct config (*worlds)(int))
{
    struct pair pair;
    pair_begin(&pair, worlds(4), "world");
    pair_attach(&pair, &transformer_bf16);
    engine_reset(pair.engine, 3);
    plant_all(pair.world);
    check_train(&pair);
    check_evaluate(&pair);
    pair_close(&pair);
}

/* ---- bit-identical ----------------------------------------------------------------------------------------------- */

static inline void check_bits(struct config (*worlds)(int))
{
    const auto bits_of = [&](int envs, void (*prepare)(struct world *), int slots = 3) {
        return step_bits(&transformer_bf16, worlds(envs), prepare, slots);
    };
    const struct bits one = bits_of(1, prepare_grown), three = bits_of(3, prepare_grown);
    check(same_host(one, three) && one.seed == three.seed, "env 0 among 1 and among 3");
    transformer_budget = 1; /* every env in its own group */
    const struct bits grouped = bits_of(3, prepare_grown);
    check(same_host(one, grouped) && one.seed == grouped.seed, "envs in groups");
    transformer_budget = 0;
    const struct bits bare = bits_of(1, prepare_bare), training = bits_of(1, prepare_training);
    check(same_host(bare, bits_of(1, prepare_bare, 1)), "T10: empty slots and a host with fewer");
    check(same_host(bare, training) && bare.seed != training.seed, "T11: seeds in TRAINING leave the host alone");
    check(same_host(bare, bits_of(1, prepare_alpha_zero)), "I-20: seeds at alpha 0, whatever they hold");
}

#endif
