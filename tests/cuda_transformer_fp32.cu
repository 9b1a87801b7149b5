/*
 * Transformers in fp32 on the device compared with the CPU: whole steps of many networks at once, a validation of all
 * subsets, sets of slots, a test. Then what must be bit-identical: repetition, other envs, groups of envs, the number
 * of sequences, causality, empty slots and seeds in TRAINING. Single networks are the case table's: cuda_cases.
 */
#include "nn/attend.cuh"
#include "text_rig.cuh"

/* ---- one network ------------------------------------------------------------------------------------------------- */

/* Logits of its batch. */
static std::vector<float> logits_of(struct network &n)
{
    struct esper_error error = {};
    std::vector<float> logits((size_t)(n.samples * n.shape.context * n.shape.vocabulary));
    struct net_trial trial = {};
    trial.shape = &n.shape.net;
    trial.samples = n.samples;
    trial.tokens = n.tokens.data();
    trial.exec = n.exec.data();
    trial.params.host = n.params[0].data();
    trial.params.seed = n.params[1].data();
    trial.params.gate = n.params[2].data();
    trial.memory.first = trial.params; /* of a step that is not taken */
    trial.logits = logits.data();
    if (transformer_device.try_net(&trial, &error) != ESPER_OK)
        stop("trial", error.text);
    return logits;
}

static void compare_grads(const std::string &name, int slots, const struct slot_grads *got,
                          const struct slot_grads *want)
{
    double norm = 0;
    bool flags = true;
    for (int j = 0; j < slots; j++) {
        flags = flags && got[j].measured == want[j].measured && got[j].finite == want[j].finite &&
                got[j].vanishing == want[j].vanishing && got[j].exploding == want[j].exploding &&
                got[j].health == want[j].health;
        norm = std::max({norm, relative(got[j].norm, want[j].norm), relative(got[j].ratio, want[j].ratio)});
    }
    check(flags, name + ", flags of gradients", "all");
    check_within(name + ", norms of gradients", norm, 1e-4);
}

/* ---- causality, and sequences by themselves ---------------------------------------------------------------------- */

static void check_causality(int layers)
{
    enum { CHANGED = 37 };
    const struct text_case c = {50, 24, 2, layers, 41, 2, 3};
    int turn = 0;
    for (int blueprint : blueprints) {
        struct network n;
        network_make(&n, c, 5);
        network_plant(&n, 0, blueprint, 1 + turn % 3, 0.7f);
        network_plant(&n, 1, blueprints[(turn + 2) % KINDS], 1 + (turn + 1) % 3, 0.5f);
        struct network changed_one = n, alone = n;
        uint8_t &token = changed_one.tokens[(size_t)(1 * (c.context + 1) + CHANGED)];
        token = (uint8_t)((token + 1) % c.vocabulary);
        alone.samples = 1;
        std::copy_n(n.tokens.begin() + c.context + 1, c.context + 1, alone.tokens.begin());
        const std::vector<float> before = logits_of(n), after = logits_of(changed_one), one = logits_of(alone);
        const size_t row = (size_t)c.vocabulary, sequence = row * (size_t)c.context, changed = sequence + CHANGED * row;
        const auto differ = [&](size_t from, size_t to) {
            return memcmp(&before[from], &after[from], (to - from) * sizeof(float)) != 0;
        };
        const bool attends = network_attends(n); /* then the last token changes, otherwise none after it */
        check(!differ(0, changed) && differ(changed, changed + row) &&
                  differ(attends ? 2 * sequence - row : changed + row, 2 * sequence) == attends &&
                  !differ(2 * sequence, 3 * sequence),
              std::string("causality with ") + named(blueprint), "elsewhere bit for bit");
        check(memcmp(&before[sequence], one.data(), sequence * sizeof(float)) == 0,
              std::string("a sequence by itself with ") + named(blueprint));
        turn++;
    }
}

/* ---- wide heads -------------------------------------------------------------------------------------------------- */

KERNEL void attend_alone(struct attended<float> a, int backward)
{
    SHARED_BYTES(shared);
    if (!backward)
        attend_forward(a, 0, (int)blockIdx.x, shared);
    else if (blockIdx.y == 0)
        attend_backward_queries(a, 0, (int)blockIdx.x, shared);
    else
        attend_backward_keys(a, 0, (int)blockIdx.x, shared);
}

/* Heads so wide that tiles must be smaller: compared with sums in double. */
static void check_wide(int head, int length)
{
    struct runtime *rt = open_runtime();
    const size_t t = (size_t)length, d = (size_t)head;
    std::vector<float> qkv(t * 3 * d), dout(t * d);
    uint32_t random = 1;
    for (float &v : qkv)
        v = noise(&random);
    for (float &v : dout)
        v = noise(&random);
    struct attended<float> a = {
    };
    a.length = length;
    a.heads = 1;
    a.head = head;
    a.qkv = upload(rt, qkv);
    a.dout = upload(rt, dout);
    a.out = runtime_alloc<float>(rt, t * d);
    a.logs = runtime_alloc<float>(rt, t);
    a.dqkv = runtime_alloc<float>(rt, t * 3 * d);
    const unsigned tiles = (unsigned)attend_tiles(length, head);
    runtime_allow_shared(rt, attend_alone, attend_shared(head));
    runtime_launch(rt, attend_alone, {dim3(tiles), dim3(ATTEND_THREADS), attend_shared(head), false}, a, 0);
    runtime_launch(rt, attend_alone, {dim3(tiles, 2), dim3(ATTEND_THREADS), attend_shared(head), false}, a, 1);
    const std::vector<float> out = download(rt, a.out, t * d), dqkv = download(rt, a.dqkv, t * 3 * d);
    std::vector<double> want(t * d), dwant(t * 3 * d);
    const auto dot = [&](const float *x, const float *y) {
        double sum = 0;
        for (size_t k = 0; k < d; k++)
            sum += (double)x[k] * (double)y[k];
        return sum;
    };
    for (size_t i = 0; i < t; i++) {
        std::vector<double> p(i + 1), dp(i + 1);
        double total = 0, mean = 0;
        for (size_t j = 0; j <= i; j++)
            total += p[j] = std::exp(dot(&qkv[i * 3 * d], &qkv[j * 3 * d + d]) / std::sqrt((double)head));
        for (size_t j = 0; j <= i; j++) {
            p[j] /= total;
            dp[j] = dot(&dout[i * d], &qkv[j * 3 * d + 2 * d]);
            mean += p[j] * dp[j];
        }
        for (size_t j = 0; j <= i; j++) {
            const double ds = p[j] * (dp[j] - mean) / std::sqrt((double)head);
            for (size_t k = 0; k < d; k++) {
                want[i * d + k] += p[j] * (double)qkv[j * 3 * d + 2 * d + k];
                dwant[i * 3 * d + k] += ds * (double)qkv[j * 3 * d + d + k];
                dwant[j * 3 * d + d + k] += ds * (double)qkv[i * 3 * d + k];
                dwant[j * 3 * d + 2 * d + k] += p[j] * (double)dout[i * d + k];
            }
        }
    }
    const std::string name = "attention, heads of " + std::to_string(head) + ", tiles of " +
                             std::to_string(attend_tile(head));
    check_within(name, distance(out.size(), out.data(), want.data()), 1e-5);
    check_within(name + ", gradients", distance(dqkv.size(), dqkv.data(), dwant.data()), 1e-5);
    runtime_free(rt);
}

/* ---- worlds ------------------------------------------------------------------------------------------------------ */

static void check_train(struct pair *pair)
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
        check_within(name + ", loss", relative(loss[e], world->train_loss[e]), 1e-5);
        check_within(name + ", points", std::fabs(points[e] - world->train_accuracy[e]), 1e-3);
        check_within(name + ", host", distance(world->shape.host.storage, &got[h], world->host + h, &host[h]), 5e-3);
        check_within(name + ", seeds", distance(world->shape.seed_storage, &got_seed[s], world->seed + s, &seed[s]),
                     5e-3);
    }
    check(memcmp(updates.data(), world->updates, sizeof(uint32_t) * updates.size()) == 0, "updates counted", "all");
    compare_grads("world", (int)(envs * (size_t)world->shape.slots), grads.data(), pair->engine->grads);
}

static void check_evaluate(struct pair *pair)
{
    struct sets {
        int count;
        uint32_t mask[NET_SETS_MAX];
        double score[NET_SETS_MAX];
    };
    struct world *world = pair->world;
    const size_t envs = (size_t)world->envs;
    pair_write(pair);
    pair->kernels->evaluate(pair->net);
    pair_read(pair);
    const std::vector<uint32_t> count(world->subset_count, world->subset_count + envs),
        mask(world->subset_mask, world->subset_mask + envs * SUBSETS_MAX);
    const std::vector<double> score(world->subset_score, world->subset_score + envs * SUBSETS_MAX),
        loss(world->val_loss, world->val_loss + envs), points(world->val_accuracy, world->val_accuracy + envs);
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
        apart = std::max(apart, std::fabs(points[e] - world->val_accuracy[e]));
        for (uint32_t k = 0; k < count[e]; k++)
            apart = std::max(apart, std::fabs(score[e * SUBSETS_MAX + k] - world->subset_score[e * SUBSETS_MAX + k]));
    }
    check(memcmp(count.data(), world->subset_count, sizeof(uint32_t) * envs) == 0 &&
              memcmp(mask.data(), world->subset_mask, sizeof(uint32_t) * mask.size()) == 0,
          "subsets", "all");
    check_within("points of subsets", apart, 1e-3);
    check_within("validation loss", losses, 1e-5);
    pair->kernels->test(pair->net);
    const std::vector<double> test = download(pair->runtime, pair->net->setup.test_accuracy, envs);
    std::vector<double> reference(envs);
    engine_test(pair->engine, reference.data());
    check_within("test points", distance(envs, test.data(), reference.data()), 1e-4);
}

static void check_world(int layers)
{
    struct pair pair;
    pair_begin(&pair, text_config(4, 16, 2, layers, 12), "world");
    pair_attach(&pair, &transformer_fp32);
    engine_reset(pair.engine, 3);
    plant_all(pair.world);
    check_train(&pair);
    check_evaluate(&pair);
    pair_close(&pair);
}

/* ---- bit-identical ----------------------------------------------------------------------------------------------- */

static void check_bits(int layers)
{
    const auto bits_of = [&](int envs, void (*prepare)(struct world *), int slots = 3) {
        return step_bits(&transformer_fp32, text_config(envs, 16, 2, layers, 12), prepare, slots);
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

int main(void)
{
    for (const int layers : {2, 0})
        check_causality(layers);
    check_wide(48, 70); /* in tiles of 32, 16 and 4 */
    check_wide(400, 40);
    check_wide(1024, 19);
    for (const int layers : {3, 0}) {
        check_world(layers);
        check_bits(layers);
    }
    return conclude();
}
