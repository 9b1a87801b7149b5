/*
 * What the programs that try the device's transformers share: networks of one batch, and worlds whose envs have seeds
 * in every stage.
 */
#ifndef TESTS_TEXT_RIG_CUH
#define TESTS_TEXT_RIG_CUH

#include "device_rig.cuh"
#include "morph/net_trial.h"
#include "transformer/device.cuh"

static const int blueprints[] = {BLUEPRINT_NOOP,         TRANSFORMER_ATTENTION, TRANSFORMER_NORM, TRANSFORMER_LORA,
                                 TRANSFORMER_LORA_LARGE, TRANSFORMER_MLP_SMALL, TRANSFORMER_MLP};
enum { KINDS = sizeof blueprints / sizeof blueprints[0] };

static const char *named(int blueprint)
{
    return family_blueprint(&transformer_family, blueprint);
}

/* Weights of the usual size, gains and shifts off their initial values, nothing zero. */
static inline void fill(const struct param_layout &layout, uint32_t key, float *params)
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

static inline void network_make(struct network *n, const struct text_case &c, uint32_t key)
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

static inline void network_plant(struct network *n, int slot, int blueprint, int algorithm, float alpha)
{
    struct param_layout layout;
    n->exec[(size_t)slot] = {
        SLOT_BLEND, (uint8_t)algorithm, (uint8_t)blueprint, false, true, algorithm == ALGORITHM_GATE, alpha};
    transformer_seed_layout(blueprint, n->shape.width, &layout);
    fill(layout, 100 + (uint32_t)(slot * 16 + blueprint), &n->params[1][n->shape.net.slot[slot].seed]);
    transformer_gate_layout(n->shape.width, &layout);
    fill(layout, 7 + (uint32_t)slot, &n->params[2][n->shape.net.slot[slot].gate]);
}

/* A token can see others: without layers, only through an attention seed. */
static inline bool network_attends(const struct network &n)
{
    bool attends = n.shape.layers > 0;
    for (const struct slot_exec &exec : n.exec)
        attends = attends || (exec.mode != SLOT_SKIP && exec.blueprint == TRANSFORMER_ATTENTION);
    return attends;
}

/* ---- worlds ------------------------------------------------------------------------------------------------------ */

/* A host of this width and as many heads, with three slots. */
static inline struct config text_config(int envs, int width, int heads, int layers, int context)
{
    struct config config;
    struct esper_error error = {};
    config_defaults(&config);
    config.envs = envs;
    config.threads = 1;
    config.device = WISH_CPU;
    config.reward.mode = REWARD_SHAPED; /* whose first step is not a twin's */
    config.host_family = FAMILY_TRANSFORMER;
    config.host_width = width;
    config.host_heads = heads;
    config.host_layers = layers;
    config.host_context = context;
    config.host_segments = 3;
    config.slot_count = 3;
    for (int j = 0; j < config.slot_count; j++)
        snprintf(config.slots[j], sizeof config.slots[j], "r0c%d", j % TRANSFORMER_LAYERS);
    config.max_seeds = 0;
    config.host_lr = config.seed_lr = 1e-3;
    config.mixed = {0.02, 0, 3, 1, 0}; /* every env has its own windows and learning rate */
    config.data_set = DATA_LANGUAGE;
    config.data_batch = 9; /* in several parts, emulated */
    config.data_batches = 2;
    config.data_val_images = 7; /* in parts of two windows */
    config.data_test_images = 5;
    config.policy.kind = POLICY_RANDOM;
    if (config_check(&config, &error) != ESPER_OK)
        stop("configuration", error.text);
    return config;
}

/* A seed as the lifecycle would leave it, without parameters that are zero. */
static inline void plant_seed(struct world *world, int env, int slot, int stage, int blueprint, int algorithm,
                              float alpha)
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
static inline void plant_all(struct world *world)
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
static inline arenas step_from(struct pair *pair, struct graph *graph, const arenas &state)
{
    arenas_restore(pair->world, state);
    pair_write(pair);
    if (graph_begin(pair->runtime, graph))
        pair->kernels->train(pair->net);
    graph_run(pair->runtime, graph);
    pair_read(pair);
    return arenas_of(pair->world);
}

/* ---- bit-identical ----------------------------------------------------------------------------------------------- */

struct bits {
    std::vector<float> host, seed;
    std::vector<double> score;
};

/* Env 0 after a step and a validation. */
static inline struct bits step_bits(const struct net_device_kernels *kernels, struct config config,
                                    void (*prepare)(struct world *), int slots = 3)
{
    struct pair pair;
    config.data_val_images = 3;
    config.data_batches = 1;
    config.slot_count = slots;
    pair_begin(&pair, config, "bits");
    pair_attach(&pair, kernels);
    const struct world *world = pair.world;
    engine_reset(pair.engine, 1);
    prepare(pair.world);
    pair_write(&pair);
    pair.kernels->train(pair.net);
    pair_evaluate(&pair);
    pair_read(&pair);
    struct bits bits = {{world->host, world->host + world->shape.host.storage},
                        {world->seed, world->seed + world->shape.seed_storage},
                        {world->train_loss[0], world->val_loss[0], world->val_accuracy[0]}};
    bits.host.insert(bits.host.end(), world->host_momentum, world->host_momentum + world->shape.host.storage);
    bits.host.insert(bits.host.end(), world->host_second, world->host_second + world->shape.host.storage);
    pair_close(&pair);
    return bits;
}

static inline bool same_host(const struct bits &a, const struct bits &b)
{
    return a.host == b.host && a.score == b.score; /* no NAN among them */
}

static inline void prepare_bare(struct world *)
{
}

static inline void prepare_grown(struct world *world)
{
    for (int env = 0; env < world->envs; env++)
        for (int j = 0; j < world->shape.slots; j++) /* what other envs hold must not matter */
            if (env == 0 || j != 1)
                plant_seed(world, env, j, j % 2 ? STAGE_TRAINING : STAGE_HOLDING, blueprints[(1 + env + 2 * j) % KINDS],
                           1 + j % 3, j % 2 ? 0.0f : 0.4f);
}

static inline void prepare_training(struct world *world)
{
    for (int j = 0; j < world->shape.slots; j++)
        plant_seed(world, 0, j, STAGE_TRAINING, blueprints[(j + 1) % KINDS], ALGORITHM_ADD, 0);
}

static inline void prepare_alpha_zero(struct world *world)
{
    for (int j = 0; j < world->shape.slots; j++) {
        plant_seed(world, 0, j, STAGE_BLENDING, TRANSFORMER_MLP, ALGORITHM_ADD, 0);
        world_params(world, 0).seed[world->shape.slot[j].seed] = NAN;
    }
}

#endif
