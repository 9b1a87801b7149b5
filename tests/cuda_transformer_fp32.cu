/*
 * Transformers on the device compared with the CPU: single networks with a seed of every blueprint in every state, then
 * whole steps of many networks at once, a validation of all subsets, sets of slots, a test. Then what must be
 * bit-identical: repetition, other envs, groups of envs, the number of sequences, causality, empty slots and seeds in
 * TRAINING.
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

/* Odd sizes: heads of five, a context that fills no tile, two chunks of the batch. */
static const struct text_case small = {29, 20, 4, 2, 11, 2, 7}, long_ones = {50, 24, 2, 1, 71, 1, 9};

/* All that a network is on the CPU's side; the device's trial works on copies. */
struct network {
    struct config config;
    struct transformer_shape shape;
    std::vector<float> params[3], first[3], second[3]; /* host, seeds, gates */
    std::vector<uint32_t> updates;
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
    for (int k = 0; k < 3; k++) {
        n->params[k].assign(sizes[k], k ? NAN : 0); /* empty slots are never read (I-30) */
        n->first[k].assign(sizes[k], 0);
        n->second[k].assign(sizes[k], 0);
    }
    n->updates.assign((size_t)net_parts(c.segments), 0);
    n->exec.assign((size_t)c.segments, slot_exec{});
    n->samples = c.samples;
    n->tokens.resize((size_t)(c.samples * (c.context + 1)));
    for (uint8_t &token : n->tokens)
        token = (uint8_t)((noise(&random) + 0.5f) * (float)c.vocabulary);
    fill(n->shape.net.host, key + 1, n->params[0].data());
}

static void network_plant(struct network *n, int slot, int mode, int blueprint, int algorithm, float alpha)
{
    struct param_layout layout;
    n->exec[(size_t)slot] = {(uint8_t)mode,
                             (uint8_t)algorithm,
                             (uint8_t)blueprint,
                             mode == SLOT_STE,
                             true,
                             mode == SLOT_BLEND && algorithm == ALGORITHM_GATE,
                             alpha};
    transformer_seed_layout(blueprint, n->shape.width, &layout);
    std::fill_n(n->params[1].begin() + (long)n->shape.net.slot[slot].seed, layout.storage, 0.0f);
    fill(layout, 100 + (uint32_t)(slot * 16 + blueprint), &n->params[1][n->shape.net.slot[slot].seed]);
    transformer_gate_layout(n->shape.width, &layout);
    fill(layout, 7 + (uint32_t)slot, &n->params[2][n->shape.net.slot[slot].gate]);
}

static struct net_params arrays_of(std::vector<float> (&arrays)[3])
{
    struct net_params params = {};
    params.host = arrays[0].data();
    params.seed = arrays[1].data();
    params.gate = arrays[2].data();
    return params;
}

/* What a step leaves. */
struct outcome {
    struct network net;
    struct net_result result;
    std::vector<float> logits, grads[3];
};

static void step_on_device(struct outcome *o, const struct net_rates &rates, bool learn)
{
    struct esper_error error = {};
    struct network &n = o->net;
    for (int k = 0; k < 3; k++)
        o->grads[k].assign(n.params[k].size(), 0);
    o->logits.assign((size_t)(n.samples * n.shape.context * n.shape.vocabulary), 0);
    struct net_trial trial = {};
    trial.shape = &n.shape.net;
    trial.samples = n.samples;
    trial.tokens = n.tokens.data();
    trial.exec = n.exec.data();
    trial.learn = learn;
    trial.rates = rates;
    trial.params = arrays_of(n.params);
    trial.memory = {arrays_of(n.first), arrays_of(n.second), n.updates.data()};
    trial.grads = arrays_of(o->grads);
    trial.logits = o->logits.data();
    if (transformer_device.try_net(&trial, &error) != ESPER_OK)
        stop("trial", error.text);
    o->result = trial.result;
}

static void step_on_cpu(struct outcome *o, const struct net_rates &rates)
{
    struct network &n = o->net;
    const struct net_kernels *kernels = variant_best()->net[FAMILY_TRANSFORMER];
    std::vector<char> room(kernels->bytes(&n.shape.net, n.samples) + 64);
    char *memory = room.data() + (64 - (uintptr_t)room.data() % 64) % 64;
    struct net *net = kernels->init(&n.shape.net, n.samples, memory);
    const struct net_params params = arrays_of(n.params);
    const struct net_memory moments = {arrays_of(n.first), arrays_of(n.second), n.updates.data()};
    const struct net_batch batch = {n.samples, n.exec.data()};
    memcpy(kernels->input(net).tokens, n.tokens.data(), n.tokens.size());
    float alpha[1][SHAPE_SLOTS] = {};
    for (size_t j = 0; j < n.exec.size(); j++)
        alpha[0][j] = n.exec[j].mode == SLOT_BLEND ? n.exec[j].alpha : 0;
    struct net_score score = {};
    o->logits.assign((size_t)(n.samples * n.shape.context * n.shape.vocabulary), 0);
    struct net_eval eval = {n.samples, n.exec.data(), 1, alpha, &score, o->logits.data()};
    kernels->evaluate(net, &params, &eval);
    kernels->gradients(net, &params, &batch, &o->result);
    kernels->measure(net, &batch, &o->result);
    kernels->update(net, &params, &moments, &batch, &rates, &o->result);
}

/* The largest distance of a tensor's numbers from the CPU's, in units of the largest tensor of the part. */
static double apart(const struct param_layout &layout, const float *got, const float *want, const float *from = nullptr)
{
    double most = 1e-30, error = 0;
    for (int t = 0; t < layout.count; t++)
        for (size_t i = 0; i < layout.tensor[t].size; i++) {
            const size_t k = layout.tensor[t].offset + i;
            most = std::max(most, std::fabs((double)want[k] - (from ? (double)from[k] : 0)));
            error = std::max(error, std::fabs((double)got[k] - (double)want[k]));
            error = std::isnan(got[k]) ? INFINITY : error;
        }
    return layout.count ? error / most : 0;
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

/* One step of SGD without momentum or decay, of a rate that leaves the gradients in the momentum; then steps of AdamW. */
static void check_network(const std::string &name, const struct network &start, int steps)
{
    struct outcome got = {start, {}, {}, {}}, want = {start, {}, {}, {}};
    struct net_rates rates = {optimiser_sgd(0, 0, 0), optimiser_sgd(0, 0, 0), 1e9};
    const struct net_shape &shape = start.shape.net;
    step_on_device(&got, rates, true);
    step_on_cpu(&want, rates);
    check_within(name + ", loss", relative(got.result.score.loss, want.result.score.loss), 1e-5);
    check(got.result.score.hits == want.result.score.hits && got.result.score.count == want.result.score.count,
          name + ", hits", std::to_string((int)got.result.score.hits));
    check_within(name + ", logits", distance(got.logits.size(), got.logits.data(), want.logits.data()), 1e-5);
    check_within(name + ", host", apart(shape.host, got.net.first[0].data(), want.net.first[0].data()), 2e-5);
    check(got.net.first[0] == got.grads[0], name + ", gradients as given", "all");
    compare_grads(name, shape.slots, got.result.grads, want.result.grads);
    for (int j = 0; j < shape.slots; j++) {
        const struct slot_exec &exec = start.exec[(size_t)j];
        struct param_layout layout;
        if (exec.mode == SLOT_SKIP)
            continue;
        const std::string seed = name + ", " + shape.slot[j].id + " " + named(exec.blueprint);
        transformer_seed_layout(exec.blueprint, start.shape.width, &layout);
        check_within(seed, apart(layout, &got.net.first[1][shape.slot[j].seed], &want.net.first[1][shape.slot[j].seed]),
                     5e-5);
        transformer_gate_layout(start.shape.width, &layout);
        if (exec.gate)
            check_within(seed + "'s gate",
                         apart(layout, &got.net.first[2][shape.slot[j].gate], &want.net.first[2][shape.slot[j].gate]),
                         5e-5);
        check_within(seed + ", norm", relative(got.result.slot_norm[j], want.result.slot_norm[j]), 1e-4);
    }
    got.net = want.net = start;
    rates = {{OPTIMISER_ADAMW, 1e-3f, 0.9f, 0.95f, 1e-8f, 0.1f}, {OPTIMISER_ADAMW, 3e-3f, 0.9f, 0.95f, 1e-8f, 0}, 0.5};
    for (int k = 0; k < steps; k++) {
        step_on_device(&got, rates, true);
        step_on_cpu(&want, rates);
    }
    if (!steps)
        return;
    /* Adam divides by the gradient's size: where that is rounding, so is the step. */
    check_within(name + ", AdamW", distance(shape.host.storage, got.net.params[0].data(), want.net.params[0].data(),
                                            start.params[0].data()),
                 2e-3);
    check(got.net.updates == want.net.updates, name + ", updates counted", std::to_string(got.net.updates[0]));
}

/* Every blueprint in every state, with another seed in the other slot. */
static void check_networks(void)
{
    static const struct {
        const char *name;
        int mode, algorithm;
        float alpha;
        bool frozen, isolated;
    } ways[] = {{"TRAINING", SLOT_STE, ALGORITHM_ADD, 0, false, false},
                {"ADD", SLOT_BLEND, ALGORITHM_ADD, 0.3f, false, false},
                {"MULTIPLY", SLOT_BLEND, ALGORITHM_MULTIPLY, 0.6f, false, false},
                {"GATE", SLOT_BLEND, ALGORITHM_GATE, 0.7f, false, false},
                {"whole", SLOT_BLEND, ALGORITHM_ADD, 1, false, false},
                {"frozen", SLOT_BLEND, ALGORITHM_GATE, 0.9f, true, false},
                {"isolated", SLOT_BLEND, ALGORITHM_GATE, 0.4f, false, true},
                {"at 0", SLOT_BLEND, ALGORITHM_GATE, 0, false, false}};
    struct network bare;
    network_make(&bare, small, 3);
    check_network("bare host", bare, 3);
    int turn = 0;
    for (int blueprint : blueprints)
        for (const auto &way : ways) {
            struct network n = bare;
            const int other = blueprints[(turn + turn / KINDS + 1) % KINDS], slot = turn % 2;
            network_plant(&n, slot, way.mode, blueprint, way.algorithm, way.alpha);
            n.exec[(size_t)slot].train = !way.frozen;
            n.exec[(size_t)slot].isolate |= way.isolated;
            if (turn % 3)
                network_plant(&n, 1 - slot, turn % 3 == 1 ? SLOT_BLEND : SLOT_STE, other, ALGORITHM_GATE, 0.5f);
            check_network(std::string(named(blueprint)) + " " + way.name, n, turn % 5 == 0 ? 2 : 0);
            turn++;
        }
    struct network n;
    network_make(&n, long_ones, 9);
    network_plant(&n, 0, SLOT_BLEND, TRANSFORMER_ATTENTION, ALGORITHM_ADD, 0.6f);
    check_network("71 tokens", n, 1);
}

/* ---- causality, and sequences by themselves ---------------------------------------------------------------------- */

static void check_causality(void)
{
    enum { CHANGED = 37 };
    const struct text_case c = {50, 24, 2, 2, 71, 2, 3};
    const struct net_rates rates = {};
    int turn = 0;
    for (int blueprint : blueprints) {
        struct network n;
        network_make(&n, c, 5);
        network_plant(&n, 0, SLOT_BLEND, blueprint, 1 + turn % 3, 0.7f);
        network_plant(&n, 1, SLOT_BLEND, blueprints[(turn + 2) % KINDS], 1 + (turn + 1) % 3, 0.5f);
        struct outcome before = {n, {}, {}, {}}, after = {n, {}, {}, {}}, one = {n, {}, {}, {}};
        uint8_t &token = after.net.tokens[(size_t)(1 * (c.context + 1) + CHANGED)];
        token = (uint8_t)((token + 1) % c.vocabulary);
        one.net.samples = 1;
        std::copy_n(n.tokens.begin() + c.context + 1, c.context + 1, one.net.tokens.begin());
        step_on_device(&before, rates, false);
        step_on_device(&after, rates, false);
        step_on_device(&one, rates, false);
        const size_t row = (size_t)c.vocabulary, sequence = row * (size_t)c.context, changed = sequence + CHANGED * row;
        const auto differ = [&](size_t from, size_t to) {
            return memcmp(&before.logits[from], &after.logits[from], (to - from) * sizeof(float)) != 0;
        };
        check(!differ(0, changed) && differ(changed, changed + row) && differ(2 * sequence - row, 2 * sequence) &&
                  !differ(2 * sequence, 3 * sequence),
              std::string("causality with ") + named(blueprint), "before the changed token, bit for bit");
        check(memcmp(&before.logits[sequence], one.logits.data(), sequence * sizeof(float)) == 0,
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
    config.data_batch = 45; /* in two chunks */
    config.data_batches = 2;
    config.data_val_images = 131; /* in parts of two windows */
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
        plant_seed(world, 3, j, j == 1 ? STAGE_TRAINING : j == 2 ? STAGE_FOSSILIZED : STAGE_HOLDING,
                   blueprints[(2 * j + 1) % KINDS], 1 + (j + 1) % 3, j == 1 ? 0.0f : j == 2 ? 1.0f : 0.4f);
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
    check_networks();
    check_causality();
    check_wide(48, 70);
    check_wide(400, 40);
    check_wide(1024, 19);
    check_world();
    check_bits();
    return conclude();
}
