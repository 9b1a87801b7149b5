#include "cnn/shape.h"

#include <string.h>

#include "nn/flat.h"

_Static_assert((int)SHAPE_CLASSES_MAX <= (int)LOSS_CLASSES, "the loss has room for so many");

static const char *const weight_names[SHAPE_BLOCKS] = {"conv0.weight", "conv1.weight", "conv2.weight",
                                                       "conv3.weight", "conv4.weight", "conv5.weight"};
static const char *const gamma_names[SHAPE_BLOCKS] = {"bn0.gamma", "bn1.gamma", "bn2.gamma",
                                                      "bn3.gamma", "bn4.gamma", "bn5.gamma"};
static const char *const beta_names[SHAPE_BLOCKS] = {"bn0.beta", "bn1.beta", "bn2.beta",
                                                     "bn3.beta", "bn4.beta", "bn5.beta"};

static int add_tensor(struct param_layout *layout, const char *name, int fan_in, float value, int dims,
                      const int shape[])
{
    layout_add(layout, name, fan_in, value, dims, shape);
    return layout->count - 1;
}

static void add_stats(struct net_shape *shape, size_t first, size_t count, float value)
{
    shape->stats_part[shape->stats_parts++] = (struct stats_part){first, count, value};
}

static void add_blocks(struct cnn_shape *shape, const struct config *config, int height, int width)
{
    int k = config->host_kernel, cin = SHAPE_COLOURS;
    for (int i = 0; i < config->host_blocks; i++) {
        struct block_shape *b = &shape->block[i];
        int cout = config->host_base << i;
        *b = (struct block_shape){.cin = cin,
                                  .cout = cout,
                                  .height = height,
                                  .width = width,
                                  .pool = i < config->host_pools,
                                  .slot = {-1, -1}};
        b->weight = add_tensor(&shape->net.host, weight_names[i], cin * k * k, 0, 4, (const int[]){cout, k, k, cin});
        b->gamma = add_tensor(&shape->net.host, gamma_names[i], 0, 1, 1, (const int[]){cout});
        b->beta = add_tensor(&shape->net.host, beta_names[i], 0, 0, 1, (const int[]){cout});
        b->mean = shape->net.stats;
        b->var = shape->net.stats + (size_t)cout;
        shape->net.stats += 2 * (size_t)cout;
        add_stats(&shape->net, b->mean, (size_t)cout, 0);
        add_stats(&shape->net, b->var, (size_t)cout, 1);
        cin = cout;
        height = b->pool ? height / 2 : height;
        width = b->pool ? width / 2 : width;
    }
    shape->features = cin;
    shape->fc_weight = add_tensor(&shape->net.host, "fc.weight", cin, 0, 2, (const int[]){shape->classes, cin});
    shape->fc_bias = add_tensor(&shape->net.host, "fc.bias", cin, 0, 1, (const int[]){shape->classes});
}

/* The most parameter storage that a seed of any blueprint needs at this width: blueprints overlay one another
 * (D-36). */
static size_t largest_seed(int channels)
{
    size_t largest = 0;
    for (int i = 0; i < BLUEPRINT_COUNT; i++) {
        struct param_layout layout;
        blueprint_layout(i, channels, &layout);
        if (layout.storage > largest)
            largest = layout.storage;
    }
    return largest;
}

static void add_slots(struct cnn_shape *shape, const struct config *config)
{
    for (int i = 0; i < config->slot_count; i++) {
        struct slot_shape *s = &shape->net.slot[i];
        struct site_shape *site = &shape->site[i];
        struct param_layout gate;
        *s = (struct slot_shape){.id = config->slots[i]};
        config_parse_slot(config->slots[i], &s->row, &s->column);
        struct block_shape *b = &shape->block[s->column];
        site->channels = b->cout;
        site->height = s->row ? b->height / 2 : b->height;
        site->width = s->row ? b->width / 2 : b->width;
        s->seed = shape->net.seed_storage;
        s->seed_storage = largest_seed(site->channels);
        s->gate = shape->net.gate_storage;
        gate_layout(site->channels, &gate);
        s->gate_storage = gate.storage;
        shape->net.seed_storage += s->seed_storage;
        shape->net.gate_storage += s->gate_storage;
        b->slot[s->row] = i;
    }
    int next = 0;
    for (int i = 0; i < shape->blocks; i++)
        for (int row = 0; row < SLOT_ROWS; row++)
            if (shape->block[i].slot[row] >= 0)
                shape->net.exec_order[next++] = shape->block[i].slot[row];
}

void cnn_shape_init_sized(struct cnn_shape *shape, const struct config *config, int height, int width)
{
    memset(shape, 0, sizeof *shape);
    shape->net.family = FAMILY_CNN;
    shape->kernel = config->host_kernel;
    shape->blocks = config->host_blocks;
    shape->classes = config->data_classes;
    shape->net.slots = config->slot_count;
    add_blocks(shape, config, height, width);
    add_slots(shape, config);
}

void cnn_shape_init(struct cnn_shape *shape, const struct config *config)
{
    cnn_shape_init_sized(shape, config, config->data_size, config->data_size);
}

static uint64_t block_macs(const struct cnn_shape *shape, int i)
{
    const struct block_shape *b = &shape->block[i];
    return (uint64_t)(shape->kernel * shape->kernel) * (uint64_t)(b->cin * b->cout) * (uint64_t)(b->height * b->width);
}

uint64_t cnn_forward_macs(const struct cnn_shape *shape)
{
    uint64_t macs = (uint64_t)shape->features * (uint64_t)shape->classes;
    for (int i = 0; i < shape->blocks; i++)
        macs += block_macs(shape, i);
    return macs;
}

/* Forward, weight gradient and input gradient each cost a forward pass; the first block needs no input gradient. */
uint64_t cnn_train_macs(const struct cnn_shape *shape)
{
    return 3 * cnn_forward_macs(shape) - block_macs(shape, 0);
}

/* ---- the rules of its keys --------------------------------------------------------------------------------------- */

static enum esper_status check_host(const struct config *c, struct esper_error *error)
{
    if (c->host_pools > c->host_blocks)
        return error_set(error, ESPER_INVALID, "host.pools = %d: the host has only %d blocks (host.blocks)",
                         c->host_pools, c->host_blocks);
    if (c->data_size % (1 << c->host_pools) != 0) {
        int halves = 0;
        while (c->data_size % (2 << halves) == 0)
            halves++;
        return error_set(error, ESPER_INVALID,
                         "host.pools = %d: %dx%d images (data.size) cannot be halved that often; use at most %d",
                         c->host_pools, c->data_size, c->data_size, halves);
    }
    if ((c->host_base << (c->host_blocks - 1)) > 512)
        return error_set(error, ESPER_INVALID,
                         "host.base = %d: with %d blocks the last has %d channels; at most 512 are allowed",
                         c->host_base, c->host_blocks, c->host_base << (c->host_blocks - 1));
    return ESPER_OK;
}

/* D-30: row 0 after every block, row 1 only where a pool follows. */
static enum esper_status check_slots(const struct config *c, struct esper_error *error)
{
    for (int i = 0; i < c->slot_count; i++) {
        int row = 0, column = 0;
        config_parse_slot(c->slots[i], &row, &column);
        if (row >= SLOT_ROWS || column >= c->host_blocks || (row == 1 && column >= c->host_pools))
            return error_set(error, ESPER_INVALID,
                             "slots: %s is not on this host, which has r0c0 to r0c%d%s (%d blocks, %d pools)",
                             c->slots[i], c->host_blocks - 1, c->host_pools ? " and r1 after each pool" : "",
                             c->host_blocks, c->host_pools);
    }
    return ESPER_OK;
}

/* Its kernels know SGD alone. */
static enum esper_status check_optimiser(const char *key, int choice, struct esper_error *error)
{
    if (choice == 1 + OPTIMISER_ADAMW)
        return error_set(error, ESPER_INVALID, "%s.optimizer = adamw: a cnn and its seeds learn by sgd; use auto", key);
    return ESPER_OK;
}

enum esper_status cnn_check_keys(const struct config *config, struct esper_error *error)
{
    TRY(check_optimiser("host", config->host_optimizer, error));
    TRY(check_optimiser("seed", config->seed_optimizer, error));
    TRY(check_host(config, error));
    return check_slots(config, error);
}
