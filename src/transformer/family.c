/* Transformer hosts as a family (morph/family.h). */
#include <stdio.h>

#include "transformer/shape.h"

_Static_assert((int)TRANSFORMER_BLUEPRINTS <= (int)BLUEPRINT_MAX, "morph/stage.h has room for so many");

/* NULL where only another family has a blueprint of that number. */
static const char *const names[TRANSFORMER_BLUEPRINTS] = {
    [BLUEPRINT_NOOP] = "noop",   [TRANSFORMER_ATTENTION] = "attention",   [TRANSFORMER_NORM] = "norm",
    [TRANSFORMER_LORA] = "lora", [TRANSFORMER_LORA_LARGE] = "lora_large", [TRANSFORMER_MLP_SMALL] = "mlp_small",
    [TRANSFORMER_MLP] = "mlp",
};

static void shape_of(const struct config *config, struct net_shape *shape)
{
    transformer_shape_init((struct transformer_shape *)shape, config);
}

static void growth_of(const struct net_shape *shape, struct growth *growth)
{
    const struct transformer_shape *host = transformer_shape_of(shape);
    struct param_layout layout;
    growth->classes = host->vocabulary;
    growth->scored_by_loss = true;
    growth->offered = 0;
    for (int b = 0; b < TRANSFORMER_BLUEPRINTS; b++)
        growth->offered |= transformer_seed(b) ? 1u << b : 0;
    growth->rotation = (struct rotation){
        {TRANSFORMER_MLP_SMALL, TRANSFORMER_ATTENTION, TRANSFORMER_LORA, TRANSFORMER_NORM, TRANSFORMER_MLP},
        {3, 0, 1, 4, 2}};
    growth->host_macs = transformer_forward_macs(host);
    growth->host_train_macs = 3 * growth->host_macs;
    for (int j = 0; j < shape->slots; j++) {
        for (int b = 0; b < TRANSFORMER_BLUEPRINTS; b++) {
            transformer_seed_layout(b, host->width, &layout);
            growth->seed[j][b] = birth_of(&layout);
            growth->seed_macs[j][b] = transformer_seed_macs(b, host->width, host->context);
        }
        transformer_gate_layout(host->width, &layout);
        growth->gate[j] = birth_of(&layout);
    }
}

static void describe(const struct config *config, char *text, size_t size)
{
    snprintf(text, size, "%d layers of width %d, %d heads, %d tokens", config->host_layers, config->host_width,
             config->host_heads, config->host_context);
}

static void brief(const struct config *config, char *text, size_t size)
{
    snprintf(text, size, "t%d w%d h%d l%d s%d", config->host_context, config->host_width, config->host_heads,
             config->host_layers, config->host_segments);
}

/* Every head gets as much, the host's and those of an attention seed. */
static void widen(struct config *config)
{
    do
        config->host_width += config->host_heads;
    while (config->host_width % SEED_HEADS != 0);
}

const struct host_family transformer_family = {
    .id = FAMILY_TRANSFORMER,
    .name = "transformer",
    .words = {"score", "points", "pts", "pts", "windows", "win", true},
    .blueprints = TRANSFORMER_BLUEPRINTS,
    .blueprint_names = names,
    .optimiser = OPTIMISER_ADAMW,
    .check = transformer_check_keys,
    .shape = shape_of,
    .growth = growth_of,
    .describe = describe,
    .brief = brief,
    .widen = widen,
};
