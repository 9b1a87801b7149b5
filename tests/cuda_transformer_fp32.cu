/*
 * Transformers in fp32 on the device compared with the CPU: whole steps of many networks at once, a validation of all
 * subsets, sets of slots, a test. Then what must be bit-identical: repetition, other envs, groups of envs, the number
 * of sequences, causality, empty slots and seeds in TRAINING. Single networks are the case table's: cuda_cases.
 */
#include "device_rig.cuh"
#include "morph/net_trial.h"
#include "nn/attend.cuh"
#include "transformer/device.cuh"

extern size_t transformer_budget; /* of transformer/fp32: bytes of frames at once; 0: what fits */

static const int blueprints[] = {BLUEPRINT_NOOP,         TRANSFORMER_ATTENTION, TRANSFORMER_NORM, TRANSFORMER_LORA,
                                 TRANSFORMER_LORA_LARGE, TRANSFORMER_MLP_SMALL, TRANSFORMER_MLP};
enum { KINDS = sizeof blueprints / sizeof blueprints[0] };

static const char *named(int blueprint)
{
    return family_blueprint(&transformer_family, blueprint);
}

/* Weights of the usual size, gains and shifts off their initial values, nothing zero. */
static void fill(const struct param_layout &layout, uint32_t key, float *params)
{
    uint32_t random = key;
    for (int t = 0; t < layout.count; t++) {
        const struct tensor_layout &tensor = layout.tensor[t];
        const float bound = tensor.dims == 2 ? 2 / sqrtf((float)tensor.shape[1]) : 0.4f;
        for (size_t i = 0; i < tensor.size; i++)
            params[tensor.offset + i] = tensor.value + bound * noise(&random);
    }
}

/* ---- one network ------------------------------------------------------------------------------------------------- */

struct text_case {
    int vocabulary, width, heads, layers, context, segments, samples;
};

struct network {
    struct config config;
    struct transformer_shape shape;
    std::vector<float> params[3]; /* host, seeds, gates */
    std::vector<struct slot_exec> exec;
    std::vector<uint8_t> tokens;
    int samples;
};

static void network_make(struct network *n, const struct text_case &c, uint32_t key)
{
    uint32_t random = key;
    config_defaults(&n->config);
    n->config.host_width = c.width;
    n->config.host_heads = c.heads;
    n->config.host_layers = c.layers;
    n->config.host_context = c.context;
    n->config.host_segments = n->config.slot_count = c.segments;
    for (int j = 0; j < c.segments; j++)
        snprintf(n->config.slots[j], sizeof n->config.slots[j], "r0c%d", j % TRANSFORMER_LAYERS);
    transformer_shape_init_sized(&n->shape, &n->config, c.vocabulary);
    const size_t sizes[3] = {n->shape.net.host.storage, n->shape.net.seed_storage, n->shape.net.gate_storage};
    for (int k = 0; k < 3; k++)
        n->params[k].assign(sizes[k], 0);
    n->exec.assign((size_t)c.segments, slot_exec{});
    n->samples = c.samples;
    n->tokens.resize((size_t)(c.samples * (c.context + 1)));
    for (uint8_t &token : n->tokens)
        token = (uint8_t)((noise(&random) + 0.5f) * (float)c.vocabulary);
    fill(n->shape.net.host, key + 1, n->params[0].data());
}

static void network_plant(struct network *n, int slot, int blueprint, int algorithm, float alpha)
{
    struct param_layout layout;
    n->exec[(size_t)slot] = {
        SLOT_BLEND, (uint8_t)algorithm, (uint8_t)blueprint, false, true, algorithm == ALGORITHM_GATE, alpha};
    transformer_seed_layout(blueprint, n->shape.width, &layout);
    fill(layout, 100 + (uint32_t)(slot * 16 + blueprint), &n->params[1][n->shape.net.slot[slot].seed]);
    transformer_gate_layout(n->shape.width, &layout);
    fill(layout, 7 + (uint32_t)slot, &n->params[2][n->shape.net.slot[slot].gate]);
}

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

static double relative(double a, double b)
{
    return a == b ? 0 : std::fabs(a - b) / std::max(1e-6, std::fabs(b));
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

static void check_causality(void)
{
    enum { CHANGED = 37 };
    const struct text_case c = {50, 24, 2, 2, 41, 2, 3};
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
        check(!differ(0, changed) && differ(changed, changed + row) && differ(2 * sequence - row, 2 * sequence) &&
                  !differ(2 * sequence, 3 * sequence),
              std::string("causality with ") + named(blueprint), "before the changed token, bit for bit");
        check(memcmp(&before[sequence], one.data(), sequence * sizeof(float)) == 0,
              std::string("a sequence by itself with ") + named(blueprint));
        turn++;
    }
}

/* ---- wide heads -------------------------------------------------------------------------------------------------- */

KERNEL void attend_alone(struct attended a, int backward)
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
    struct attended a = {};
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

static struct config text_config(int envs)
{
    struct config config;
    struct esper_error error = {};
    config_defaults(&config);
    config.envs = envs;
    config.threads = 1;
    config.device = WISH_CPU;
    config.reward.mode = REWARD_SHAPED; /* whose first step is not a twin's */
    config.host_family = FAMILY_TRANSFORMER;
    config.host_width = 16;
    config.host_heads = 2;
    config.host_layers = 3;
    config.host_context = 12;
    config.host_segments = 3;
    config.slot_count = 3;
    for (int j = 0; j < config.slot_count; j++)
        snprintf(config.slots[j], sizeof config.slots[j], "r0c%d", j % TRANSFORMER_LAYERS);
    config.max_seeds = 0;
    config.host_lr = config.seed_lr = 1e-3;
    config.mixed = {0.02, 0, 3}; /* every env has its own windows and learning rate */
    config.data_set = DATA_LANGUAGE;
    config.data_batch = 9; /* in two chunks, emulated */
    config.data_batches = 2;
    config.data_val_images = 7; /* in parts of two windows */
    config.data_test_images = 5;
    config.policy.kind = POLICY_RANDOM;
    if (config_check(&config, &error) != ESPER_OK)
        stop("configuration", error.text);
    return config;
}

/* A seed as the lifecycle would leave it, without parameters that are zero. */
static void plant_seed(struct world *world, int env, int slot, int stage, int blueprint, int algorithm, float alpha)
{
    struct slot_state state;
    struct param_layout layout;
    struct net_params params = world_params(world, env);
    slot_clear(&state);
    state.stage = (uint8_t)stage;
    state.blueprint = (uint8_t)blueprint;
    state.algorithm = (uint8_t)algorithm;
    state.alpha = alpha;
    state.germinations = 1;
    world_set_slot(world, env, slot, &state);
    const int width = world->host_shape.transformer.width;
    transformer_seed_layout(blueprint, width, &layout);
    fill(layout, (uint32_t)(env * 64 + slot + 1), params.seed + world->shape.slot[slot].seed);
    transformer_gate_layout(width, &layout);
    fill(layout, (uint32_t)(env * 64 + slot + 33), params.gate + world->shape.slot[slot].gate);
}

/* Env 0 is bare, env 1 trains seeds, env 2 blends, env 3 does both and has fossils. */
static void plant_all(struct world *world)
{
    for (int j = 0; j < world->shape.slots; j++) {
        plant_seed(world, 1, j, STAGE_TRAINING, blueprints[(j + 1) % KINDS], ALGORITHM_ADD, 0);
        plant_seed(world, 2, j, STAGE_BLENDING, blueprints[(2 * j + 2) % KINDS], 1 + j % 3, 0.6f);
        plant_seed(world, 3, j,
                   j == 1   ? STAGE_TRAINING
                   : j == 2 ? STAGE_FOSSILIZED
                            : STAGE_HOLDING,
                   blueprints[(2 * j + 1) % KINDS], 1 + (j + 1) % 3,
                   j == 1   ? 0.0f
                   : j == 2 ? 1.0f
                            : 0.4f);
    }
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

static void check_world(void)
{
    struct pair pair;
    pair_begin(&pair, text_config(4), "world");
    pair_attach(&pair, &transformer_fp32);
    engine_reset(pair.engine, 3);
    plant_all(pair.world);
    check_train(&pair);
    check_evaluate(&pair);
    pair_close(&pair);
}

/* ---- bit-identical ----------------------------------------------------------------------------------------------- */

struct bits {
    std::vector<float> host, seed;
    std::vector<double> score;
};

/* Env 0 after a step and a validation. */
static struct bits step_bits(int envs, void (*prepare)(struct world *), int slots = 3)
{
    struct pair pair;
    struct config config = text_config(envs);
    config.data_val_images = 3;
    config.data_batches = 1;
    config.slot_count = slots;
    pair_begin(&pair, config, "bits");
    pair_attach(&pair, &transformer_fp32);
    const struct world *world = pair.world;
    engine_reset(pair.engine, 1);
    prepare(pair.world);
    pair_write(&pair);
    pair.kernels->train(pair.net);
    pair.kernels->evaluate(pair.net);
    pair_read(&pair);
    struct bits bits = {{world->host, world->host + world->shape.host.storage},
                        {world->seed, world->seed + world->shape.seed_storage},
                        {world->train_loss[0], world->val_loss[0], world->val_accuracy[0]}};
    bits.host.insert(bits.host.end(), world->host_momentum, world->host_momentum + world->shape.host.storage);
    bits.host.insert(bits.host.end(), world->host_second, world->host_second + world->shape.host.storage);
    pair_close(&pair);
    return bits;
}

static bool same_host(const struct bits &a, const struct bits &b)
{
    return a.host == b.host && a.score == b.score; /* no NAN among them */
}

static void prepare_bare(struct world *)
{
}

static void prepare_grown(struct world *world)
{
    for (int env = 0; env < world->envs; env++)
        for (int j = 0; j < world->shape.slots; j++) /* what other envs hold must not matter */
            if (env == 0 || j != 1)
                plant_seed(world, env, j, j % 2 ? STAGE_TRAINING : STAGE_HOLDING, blueprints[(1 + env + 2 * j) % KINDS],
                           1 + j % 3, j % 2 ? 0.0f : 0.4f);
}

static void prepare_training(struct world *world)
{
    for (int j = 0; j < world->shape.slots; j++)
        plant_seed(world, 0, j, STAGE_TRAINING, blueprints[(j + 1) % KINDS], ALGORITHM_ADD, 0);
}

static void prepare_alpha_zero(struct world *world)
{
    for (int j = 0; j < world->shape.slots; j++) {
        plant_seed(world, 0, j, STAGE_BLENDING, TRANSFORMER_MLP, ALGORITHM_ADD, 0);
        world_params(world, 0).seed[world->shape.slot[j].seed] = NAN;
    }
}

static void check_bits(void)
{
    const struct bits one = step_bits(1, prepare_grown), three = step_bits(3, prepare_grown);
    check(same_host(one, three) && one.seed == three.seed, "env 0 among 1 and among 3");
    transformer_budget = 1; /* every env in its own group */
    const struct bits grouped = step_bits(3, prepare_grown);
    check(same_host(one, grouped) && one.seed == grouped.seed, "envs in groups");
    transformer_budget = 0;
    const struct bits bare = step_bits(1, prepare_bare), training = step_bits(1, prepare_training);
    check(same_host(bare, step_bits(1, prepare_bare, 1)), "T10: empty slots and a host with fewer");
    check(same_host(bare, training) && bare.seed != training.seed, "T11: seeds in TRAINING leave the host alone");
    check(same_host(bare, step_bits(1, prepare_alpha_zero)), "I-20: seeds at alpha 0, whatever they hold");
}

int main(void)
{
    check_causality();
    check_wide(48, 70); /* in tiles of 32, 16 and 4 */
    check_wide(400, 40);
    check_wide(1024, 19);
    check_world();
    check_bits();
    return conclude();
}
