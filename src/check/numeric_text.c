#include "check/numeric_text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

bool text_host_valid(const struct text_host *host)
{
    return host->vocabulary >= 1 && host->vocabulary <= TRANSFORMER_BYTES && host->width >= SEED_HEADS &&
           host->width <= 1024 && host->width % SEED_HEADS == 0 && host->heads >= 1 && host->width % host->heads == 0 &&
           host->layers >= 0 && host->layers <= TRANSFORMER_LAYERS && host->segments >= 1 &&
           host->layers % host->segments == 0 && host->context >= 1 && host->context <= 1024 && host->samples >= 1 &&
           host->samples <= 4096;
}

void text_init(struct text_rig *rig, struct scrap *scrap, const struct text_host *host)
{
    *rig = (struct text_rig){.samples = host->samples};
    config_defaults(&rig->config);
    rig->config.host_width = host->width;
    rig->config.host_heads = host->heads;
    rig->config.host_layers = host->layers;
    rig->config.host_context = host->context;
    rig->config.host_segments = host->segments;
    rig->config.slot_count = host->segments;
    for (int i = 0; i < host->segments; i++)
        snprintf(rig->config.slots[i], sizeof rig->config.slots[i], "r0c%d", i % TRANSFORMER_LAYERS);
    transformer_shape_init_sized(&rig->host, &rig->config, host->vocabulary);
    void *memory = scrap_take(scrap, transformer_bytes(&rig->shape, host->samples), 1);
    struct net_params *all[] = {&rig->params, &rig->memory.first, &rig->memory.second};
    for (int i = 0; i < 3; i++)
        *all[i] = (struct net_params){.host = scrap_reals(scrap, rig->shape.host.storage),
                                      .seed = scrap_reals(scrap, rig->shape.seed_storage),
                                      .gate = scrap_reals(scrap, rig->shape.gate_storage)};
    rig->memory.updates = scrap_take(scrap, (size_t)net_parts(rig->shape.slots), sizeof(uint32_t));
    rig->targets = scrap_take(scrap, (size_t)host->samples * (size_t)host->context, 1);
    if (scrap->failed)
        return;
    transformer_gate_layout(host->width, &rig->gate_layout);
    rig->net = transformer_init(&rig->shape, host->samples, memory);
    for (int i = 0; i < 3; i++) {
        for (size_t k = 0; k < rig->shape.seed_storage; k++)
            all[i]->seed[k] = (real)NAN;
        for (size_t k = 0; k < rig->shape.gate_storage; k++)
            all[i]->gate[k] = (real)NAN;
    }
}

void text_wake(struct text_rig *rig, int slot, int mode, int blueprint, int algorithm, float alpha)
{
    const struct slot_shape *place = &rig->shape.slot[slot];
    const bool gate = mode == SLOT_BLEND && algorithm == ALGORITHM_GATE;
    struct net_params *all[] = {&rig->params, &rig->memory.first, &rig->memory.second};
    rig->exec[slot] = (struct slot_exec){.mode = (uint8_t)mode,
                                         .algorithm = (uint8_t)algorithm,
                                         .blueprint = (uint8_t)blueprint,
                                         .isolate = mode == SLOT_STE,
                                         .train = true,
                                         .gate = gate,
                                         .alpha = alpha};
    transformer_seed_layout(blueprint, rig->host.width, &rig->seed_layout[slot]);
    for (int i = 0; i < 3; i++) {
        memset(all[i]->seed + place->seed, 0, sizeof(real) * rig->seed_layout[slot].storage);
        if (gate)
            memset(all[i]->gate + place->gate, 0, sizeof(real) * place->gate_storage);
    }
}

/* Weights of the usual size, gains and shifts off their initial values, nothing zero. */
static void fill_params(const struct param_layout *layout, uint32_t key, real *params)
{
    for (int i = 0; i < layout->count; i++) {
        const struct tensor_layout *t = &layout->tensor[i];
        double bound = t->dims == 2 ? 1 / sqrt((double)t->shape[1]) : 0.4;
        fill_random(params + t->offset, t->size, key + (uint32_t)i, bound);
        for (size_t k = 0; k < t->size; k++)
            params[t->offset + k] += (real)t->value;
    }
}

void text_randomise(struct text_rig *rig, uint32_t key)
{
    const struct net_input input = transformer_input(rig->net);
    for (size_t i = 0; i < (size_t)rig->samples * input.token_stride; i++)
        input.tokens[i] = (uint8_t)(random_word_of(key, (uint32_t)i) % (uint32_t)rig->host.vocabulary);
    fill_params(&rig->shape.host, key + 2, rig->params.host);
    for (int j = 0; j < rig->shape.slots; j++) {
        if (rig->exec[j].mode == SLOT_SKIP)
            continue;
        fill_params(&rig->seed_layout[j], key + 200 + 10 * (uint32_t)j, text_seed(rig, j));
        if (rig->exec[j].gate)
            fill_params(&rig->gate_layout, key + 300 + 10 * (uint32_t)j, rig->params.gate + rig->shape.slot[j].gate);
    }
}

struct net_batch text_batch(const struct text_rig *rig)
{
    return (struct net_batch){.samples = rig->samples, .exec = rig->exec};
}

size_t text_logit_count(const struct text_rig *rig)
{
    return (size_t)rig->samples * (size_t)rig->host.context * (size_t)rig->host.vocabulary;
}

struct net_score text_logits(struct text_rig *rig, int samples, real *logits)
{
    float alpha[1][SHAPE_SLOTS] = {{0}};
    struct net_score score = {0};
    for (int j = 0; j < rig->shape.slots; j++)
        alpha[0][j] = rig->exec[j].mode == SLOT_BLEND ? rig->exec[j].alpha : 0;
    struct net_eval eval = {.samples = samples,
                            .exec = rig->exec,
                            .configs = 1,
                            .alpha = (const float(*)[SHAPE_SLOTS])alpha,
                            .score = &score,
                            .logits = logits};
    transformer_evaluate(rig->net, &rig->params, &eval);
    return score;
}

real *text_seed(const struct text_rig *rig, int slot)
{
    return rig->params.seed + rig->shape.slot[slot].seed;
}
