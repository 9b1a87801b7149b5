#include "check/numeric_rig.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

void fill_layout(const struct param_layout *layout, uint32_t key, real *params)
{
    for (int i = 0; i < layout->count; i++) {
        const struct tensor_layout *t = &layout->tensor[i];
        fill_random(params + t->offset, t->size, key + (uint32_t)i, t->fan_in ? 1 / sqrt((double)t->fan_in) : 0.4);
        for (size_t k = 0; !t->fan_in && k < t->size; k++)
            params[t->offset + k] += (real)t->value;
    }
}

/* ---- a network -------------------------------------------------------------------------------------------------- */

bool rig_host_valid(const struct rig_host *host)
{
    return host->base >= 1 && host->blocks >= 1 && host->blocks <= SHAPE_BLOCKS &&
           host->base <= NORM_MAX_CHANNELS >> (host->blocks - 1) && (host->kernel == 1 || host->kernel == 3) &&
           host->pools >= 0 && host->pools <= host->blocks && host->height >> host->pools >= 1 &&
           host->width >> host->pools >= 1 && host->height <= 512 && host->width <= 512 && host->images >= 1 &&
           host->images <= 4096;
}

bool rig_slot_valid(const struct rig_host *host, const char *id)
{
    int row, column;
    return config_parse_slot(id, &row, &column) && row < SLOT_ROWS && column < host->blocks &&
           (row == 0 || column < host->pools);
}

void rig_init(struct rig *rig, struct scrap *scrap, const struct rig_host *host, const char *const slots[], int count)
{
    *rig = (struct rig){.images = host->images};
    config_defaults(&rig->config);
    rig->config.host_base = host->base;
    rig->config.host_blocks = host->blocks;
    rig->config.host_kernel = host->kernel;
    rig->config.host_pools = host->pools;
    rig->config.data_classes = host->classes ? host->classes : SHAPE_CLASSES;
    rig->config.slot_count = count;
    for (int i = 0; i < count; i++)
        snprintf(rig->config.slots[i], sizeof rig->config.slots[i], "%s", slots[i]);
    cnn_shape_init_sized(&rig->cnn, &rig->config, host->height, host->width);
    void *memory = scrap_take(scrap, cnn_bytes(&rig->shape, host->images), 1);
    struct net_params *both[] = {&rig->params, &rig->memory.first};
    for (int i = 0; i < 2; i++)
        *both[i] = (struct net_params){.host = scrap_reals(scrap, rig->shape.host.storage),
                                       .stats = scrap_reals(scrap, rig->shape.stats),
                                       .seed = scrap_reals(scrap, rig->shape.seed_storage),
                                       .gate = scrap_reals(scrap, rig->shape.gate_storage)};
    if (scrap->failed)
        return;
    rig->net = cnn_init(&rig->shape, host->images, memory);
    rig->labels = cnn_input(rig->net).labels;
    for (size_t i = 0; i < rig->shape.seed_storage; i++)
        rig->params.seed[i] = rig->memory.first.seed[i] = (real)NAN;
    for (size_t i = 0; i < rig->shape.gate_storage; i++)
        rig->params.gate[i] = rig->memory.first.gate[i] = (real)NAN;
}

const struct param_layout *rig_seed_layout(const struct rig *rig, int slot)
{
    return &rig->seed_layout[slot];
}

const struct param_layout *rig_gate_layout(const struct rig *rig, int slot)
{
    return &rig->gate_layout[slot];
}

void rig_wake(struct rig *rig, int slot, int mode, int blueprint, int algorithm, float alpha)
{
    const struct slot_shape *shape = &rig->shape.slot[slot];
    bool gate = mode == SLOT_BLEND && algorithm == ALGORITHM_GATE;
    rig->exec[slot] = (struct slot_exec){.mode = (uint8_t)mode,
                                         .algorithm = (uint8_t)algorithm,
                                         .blueprint = (uint8_t)blueprint,
                                         .isolate = mode == SLOT_STE,
                                         .train = true,
                                         .gate = gate,
                                         .alpha = alpha};
    blueprint_layout(blueprint, rig->cnn.site[slot].channels, &rig->seed_layout[slot]);
    gate_layout(rig->cnn.site[slot].channels, &rig->gate_layout[slot]);
    size_t seed = sizeof(real) * rig->seed_layout[slot].storage, pool = sizeof(real) * shape->gate_storage;
    memset(rig->params.seed + shape->seed, 0, seed);
    memset(rig->memory.first.seed + shape->seed, 0, seed);
    if (gate) {
        memset(rig->params.gate + shape->gate, 0, pool);
        memset(rig->memory.first.gate + shape->gate, 0, pool);
    }
}

void rig_randomise(struct rig *rig, uint32_t key, struct scrap *scrap)
{
    const struct block_shape *first = &rig->cnn.block[0];
    size_t count = (size_t)rig->images * first->height * first->width * SHAPE_COLOURS;
    float *pixels = scrap_take(scrap, count, sizeof(float));
    if (scrap->failed)
        return;
    for (size_t i = 0; i < count; i++)
        pixels[i] = (float)(random_word_of(key, (uint32_t)i) >> 8) * 0x1p-22f - 2;
    rig_load(rig, rig->images, pixels);
    for (int n = 0; n < rig->images; n++)
        rig->labels[n] = (uint16_t)(random_word_of(key + 1, (uint32_t)n) % (uint32_t)rig->cnn.classes);
    fill_layout(&rig->shape.host, key + 2, rig->params.host);
    for (int i = 0; i < rig->cnn.blocks; i++)
        for (int c = 0; c < rig->cnn.block[i].cout; c++) {
            rig->params.stats[rig->cnn.block[i].mean + (size_t)c] = 0;
            rig->params.stats[rig->cnn.block[i].var + (size_t)c] = 1;
        }
    for (int j = 0; j < rig->shape.slots; j++) {
        if (rig->exec[j].mode == SLOT_SKIP)
            continue;
        fill_layout(rig_seed_layout(rig, j), key + 50 + 10 * (uint32_t)j, rig->params.seed + rig->shape.slot[j].seed);
        if (rig->exec[j].gate)
            fill_layout(rig_gate_layout(rig, j), key + 300 + 10 * (uint32_t)j,
                        rig->params.gate + rig->shape.slot[j].gate);
    }
}

bool rig_build(struct rig *rig, const struct network_case *network, struct scrap *scrap)
{
    const char *slots[SHAPE_SLOTS];
    for (int i = 0; i < network->seats; i++)
        slots[i] = network->seat[i].id;
    rig_init(rig, scrap, &network->host, slots, network->seats);
    for (int i = 0; !scrap->failed && i < network->seats; i++) {
        const struct network_seat *seat = &network->seat[i];
        if (seat->mode == SLOT_SKIP)
            continue;
        rig_wake(rig, i, seat->mode, seat->blueprint, seat->algorithm, seat->alpha);
        rig->exec[i] = network_exec(seat);
    }
    if (!scrap->failed)
        rig_randomise(rig, network->key, scrap);
    return !scrap->failed;
}

void rig_load(struct rig *rig, int images, const float *pixels)
{
    struct net_input input = cnn_input(rig->net);
    int height = rig->cnn.block[0].height, width = rig->cnn.block[0].width;
    for (int n = 0; n < images; n++)
        for (int y = 0; y < height; y++)
            pad_floats((size_t)width, SHAPE_COLOURS, pixels + ((size_t)n * height + y) * width * SHAPE_COLOURS,
                       input.pixels + n * input.image_stride + y * input.row_stride);
}

struct net_batch rig_batch(const struct rig *rig)
{
    return (struct net_batch){.samples = rig->images, .exec = rig->exec};
}
