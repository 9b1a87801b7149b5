/* A network to test, through the kernels of variant_best(): shape, arrays, any seeds, one step, one evaluation. */
#ifndef TESTS_NETWORK_RIG_H
#define TESTS_NETWORK_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/philox.h"
#include "cnn/shape.h"
#include "variant/variant.h"

enum { MOST_IMAGES = 32 };

struct rig {
    struct config config;
    union {
        struct net_shape shape;
        struct cnn_shape cnn;
    };
    const struct variant *variant;
    struct net *net;
    void *workspace;
    struct net_params params;
    struct net_memory memory;
    struct slot_exec exec[SHAPE_SLOTS];
    int images, height, width;
};

static inline void *take(size_t count, size_t size)
{
    struct esper_error error;
    void *memory = memory_alloc(count, size, &error);
    assert_non_null(memory);
    return memory;
}

static inline void rig_load(struct rig *rig, uint32_t key)
{
    struct net_input input = rig->variant->net[FAMILY_CNN]->input(rig->net);
    struct random_site site = random_at(key, STREAM_SYNTHETIC, 0, 0, 0);
    uint32_t element = 0;
    for (int n = 0; n < rig->images; n++) {
        input.labels[n] = (uint16_t)(n % SHAPE_CLASSES);
        for (int y = 0; y < rig->height; y++)
            for (int x = 0; x < rig->width; x++)
                for (int c = 0; c < SHAPE_COLOURS; c++)
                    input.pixels[n * input.image_stride + y * input.row_stride + (size_t)(4 * x + c)] =
                        random_symmetric(random_word(site, element++), 2);
    }
}

/* Parameters as an env starts with them, then perturbed so that nothing is special. */
static inline void shake(float *params, const struct param_layout *layout, uint32_t key)
{
    struct random_site site = random_at(key, STREAM_SYNTHETIC, 0, 1, 0);
    layout_init(layout, key, STREAM_HOST_INIT, 0, 0, 0, params);
    for (int t = 0; t < layout->count; t++)
        for (size_t i = 0; i < layout->tensor[t].size; i++)
            params[layout->tensor[t].offset + i] += random_symmetric(random_word(site, (uint32_t)i), 0.2);
}

static inline void rig_start(struct rig *rig)
{
    shake(rig->params.host, &rig->shape.host, 5);
    memset(rig->memory.first.host, 0, sizeof(float) * rig->shape.host.storage);
    for (int i = 0; i < rig->cnn.blocks; i++)
        for (int c = 0; c < rig->cnn.block[i].cout; c++) {
            rig->params.stats[rig->cnn.block[i].mean + (size_t)c] = 0.1f * (float)c;
            rig->params.stats[rig->cnn.block[i].var + (size_t)c] = 1 + 0.1f * (float)c;
        }
    memset(rig->exec, 0, sizeof rig->exec);
    memset(rig->params.seed, 0, sizeof(float) * rig->shape.seed_storage);
    memset(rig->params.gate, 0, sizeof(float) * rig->shape.gate_storage);
    memset(rig->memory.first.seed, 0, sizeof(float) * rig->shape.seed_storage);
    memset(rig->memory.first.gate, 0, sizeof(float) * rig->shape.gate_storage);
    rig_load(rig, 9);
}

static inline void rig_open(struct rig *rig, const struct config *config, int height, int width, int images)
{
    *rig =
        (struct rig){.config = *config, .variant = variant_best(), .images = images, .height = height, .width = width};
    cnn_shape_init_sized(&rig->cnn, &rig->config, height, width);
    rig->workspace = take(1, rig->variant->net[FAMILY_CNN]->bytes(&rig->shape, images));
    rig->net = rig->variant->net[FAMILY_CNN]->init(&rig->shape, images, rig->workspace);
    struct net_params *both[] = {&rig->params, &rig->memory.first};
    for (int i = 0; i < 2; i++)
        *both[i] = (struct net_params){
            take(rig->shape.host.storage, sizeof(float)), take(rig->shape.stats, sizeof(float)),
            take(rig->shape.seed_storage, sizeof(float)), take(rig->shape.gate_storage, sizeof(float))};
    rig_start(rig);
}

static inline void rig_close(struct rig *rig)
{
    struct net_params *both[] = {&rig->params, &rig->memory.first};
    for (int i = 0; i < 2; i++) {
        memory_free(both[i]->host);
        memory_free(both[i]->stats);
        memory_free(both[i]->seed);
        memory_free(both[i]->gate);
    }
    memory_free(rig->workspace);
}

/* A small host with both rows of slots, wide enough for several windows of a pool. */
static inline void rig_open_small(struct rig *rig, int images)
{
    static const char *const slots[] = {"r0c0", "r0c1", "r0c2", "r1c0", "r1c1"};
    struct config config;
    config_defaults(&config);
    config.host_base = 6;
    config.host_blocks = 3;
    config.host_kernel = 3;
    config.host_pools = 2;
    config.slot_count = 5;
    for (int i = 0; i < 5; i++)
        snprintf(config.slots[i], sizeof config.slots[i], "%s", slots[i]);
    rig_open(rig, &config, 14, 12, images);
}

static inline void rig_wake(struct rig *rig, int slot, int mode, int blueprint, int algorithm, float alpha)
{
    const struct slot_shape *shape = &rig->shape.slot[slot];
    const int channels = rig->cnn.site[slot].channels;
    struct param_layout layout;
    blueprint_layout(blueprint, channels, &layout);
    shake(rig->params.seed + shape->seed, &layout, 20 + (uint32_t)slot);
    memset(rig->memory.first.seed + shape->seed, 0, sizeof(float) * layout.storage);
    gate_layout(channels, &layout);
    shake(rig->params.gate + shape->gate, &layout, 40 + (uint32_t)slot);
    memset(rig->memory.first.gate + shape->gate, 0, sizeof(float) * layout.storage);
    rig->exec[slot] = (struct slot_exec){.mode = (uint8_t)mode,
                                         .algorithm = (uint8_t)algorithm,
                                         .blueprint = (uint8_t)blueprint,
                                         .isolate = mode == SLOT_STE,
                                         .train = true,
                                         .gate = mode == SLOT_BLEND && algorithm == ALGORITHM_GATE,
                                         .alpha = alpha};
}

/* The seeds of a grown network: all operators, both rows. */
static inline void rig_grow(struct rig *rig)
{
    rig_wake(rig, 0, SLOT_BLEND, BLUEPRINT_CONV_LIGHT, ALGORITHM_ADD, 0.4f);
    rig_wake(rig, 1, SLOT_BLEND, BLUEPRINT_BOTTLENECK, ALGORITHM_GATE, 0.7f);
    rig_wake(rig, 2, SLOT_STE, BLUEPRINT_CONV_HEAVY, ALGORITHM_ADD, 0);
    rig_wake(rig, 3, SLOT_BLEND, BLUEPRINT_ATTENTION, ALGORITHM_MULTIPLY, 0.6f);
    rig_wake(rig, 4, SLOT_BLEND, BLUEPRINT_NORM, ALGORITHM_ADD, 1);
}

/* One step without clipping or decay: from zero momentum, momentum is then the gradient itself. */
static inline struct net_result rig_step(struct rig *rig)
{
    const struct net_rates rates = {optimiser_sgd(0.1f, 0.9f, 0), optimiser_sgd(0.1f, 0.9f, 0), 1e30};
    struct net_batch batch = {rig->images, rig->exec};
    struct net_result result;
    rig->variant->net[FAMILY_CNN]->gradients(rig->net, &rig->params, &batch, &result);
    rig->variant->net[FAMILY_CNN]->measure(rig->net, &batch, &result);
    rig->variant->net[FAMILY_CNN]->update(rig->net, &rig->params, &rig->memory, &batch, &rates, &result);
    return result;
}

static inline void rig_evaluate(struct rig *rig, int configs, const float (*alpha)[SHAPE_SLOTS],
                                struct net_score *score, float *logits)
{
    struct net_eval eval = {.samples = rig->images,
                            .exec = rig->exec,
                            .configs = configs,
                            .alpha = alpha,
                            .score = score,
                            .logits = logits};
    rig->variant->net[FAMILY_CNN]->evaluate(rig->net, &rig->params, &eval);
}

/* Logits with every slot at its own alpha. */
static inline void rig_logits(struct rig *rig, float *logits)
{
    float alpha[1][SHAPE_SLOTS] = {{0}};
    struct net_score score = {0};
    for (int j = 0; j < rig->shape.slots; j++)
        alpha[0][j] = rig->exec[j].mode == SLOT_BLEND ? rig->exec[j].alpha : 0;
    rig_evaluate(rig, 1, (const float(*)[SHAPE_SLOTS])alpha, &score, logits);
}

enum { LOGITS = MOST_IMAGES * SHAPE_CLASSES };

/* Everything a step leaves behind. */
struct state {
    float *host, *momentum, *stats, *seed, *seed_momentum, *gate, *gate_momentum;
};

static inline float *copy(const float *from, size_t count)
{
    float *to = take(count, sizeof(float));
    memcpy(to, from, sizeof(float) * count);
    return to;
}

static inline struct state state_of(const struct rig *rig)
{
    const struct net_shape *s = &rig->shape;
    return (struct state){copy(rig->params.host, s->host.storage),
                          copy(rig->memory.first.host, s->host.storage),
                          copy(rig->params.stats, s->stats),
                          copy(rig->params.seed, s->seed_storage),
                          copy(rig->memory.first.seed, s->seed_storage),
                          copy(rig->params.gate, s->gate_storage),
                          copy(rig->memory.first.gate, s->gate_storage)};
}

static inline void state_free(struct state *state)
{
    float *const arrays[] = {state->host, state->momentum,      state->stats,        state->seed,
                             state->gate, state->seed_momentum, state->gate_momentum};
    for (int i = 0; i < 7; i++)
        memory_free(arrays[i]);
}

static inline void assert_host_same(const struct rig *rig, const struct state *state)
{
    assert_memory_equal(rig->params.host, state->host, sizeof(float) * rig->shape.host.storage);
    assert_memory_equal(rig->memory.first.host, state->momentum, sizeof(float) * rig->shape.host.storage);
    assert_memory_equal(rig->params.stats, state->stats, sizeof(float) * rig->shape.stats);
}

static inline void assert_all_same(const struct rig *rig, const struct state *state)
{
    assert_host_same(rig, state);
    assert_memory_equal(rig->params.seed, state->seed, sizeof(float) * rig->shape.seed_storage);
    assert_memory_equal(rig->memory.first.seed, state->seed_momentum, sizeof(float) * rig->shape.seed_storage);
    assert_memory_equal(rig->params.gate, state->gate, sizeof(float) * rig->shape.gate_storage);
    assert_memory_equal(rig->memory.first.gate, state->gate_momentum, sizeof(float) * rig->shape.gate_storage);
}

static inline bool any_nonzero(const float *x, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (x[i] != 0)
            return true;
    return false;
}

static inline bool all_finite(const float *x, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!isfinite(x[i]))
            return false;
    return true;
}

#endif
