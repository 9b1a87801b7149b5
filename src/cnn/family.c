/* Convolutional hosts as a family (morph/family.h). */
#include <stdio.h>
#include <string.h>

#include "cnn/shape.h"

_Static_assert((int)BLUEPRINT_COUNT <= (int)BLUEPRINT_MAX, "morph/stage.h has room for so many");

static const char *const names[] = {"noop", BLUEPRINTS(WORD_NAME, )};

static void shape_of(const struct config *config, struct net_shape *shape)
{
    cnn_shape_init((struct cnn_shape *)shape, config);
}

static void growth_of(const struct net_shape *shape, struct growth *growth)
{
    const struct cnn_shape *cnn = cnn_shape_of(shape);
    struct param_layout layout;
    growth->classes = cnn->classes;
    growth->scored_by_loss = false;
    growth->offered = CNN_OFFERED;
    growth->rotation = cnn_rotation();
    growth->host_macs = (double)cnn_forward_macs(cnn);
    growth->host_train_macs = (double)cnn_train_macs(cnn);
    for (int j = 0; j < shape->slots; j++) {
        const struct site_shape *site = &cnn->site[j];
        for (int b = 0; b < BLUEPRINT_COUNT; b++) {
            blueprint_layout(b, site->channels, &layout);
            growth->seed[j][b] = birth_of(&layout);
            growth->seed_macs[j][b] = (double)blueprint_macs(b, site->channels, site->height * site->width);
        }
        gate_layout(site->channels, &layout);
        growth->gate[j] = birth_of(&layout);
    }
}

static void describe(const struct config *config, char *text, size_t size)
{
    snprintf(text, size, "%d blocks from %d channels, %dx%d kernels, %dx%d images of %d classes", config->host_blocks,
             config->host_base, config->host_kernel, config->host_kernel, config->data_size, config->data_size,
             config->data_classes);
}

static void brief(const struct config *config, char *text, size_t size)
{
    snprintf(text, size, "%dx%d %d..%d k%d p%d", config->data_size, config->data_size, config->host_base,
             config->host_base << (config->host_blocks - 1), config->host_kernel, config->host_pools);
}

static void widen(struct config *config)
{
    config->host_base++;
}

const struct host_family cnn_family = {
    .id = FAMILY_CNN,
    .name = "cnn",
    .words = {"accuracy", "%", "acc", "%", "images", "img", false},
    .blueprints = BLUEPRINT_COUNT,
    .blueprint_names = names,
    .optimiser = OPTIMISER_SGD,
    .check = cnn_check_keys,
    .shape = shape_of,
    .growth = growth_of,
    .describe = describe,
    .brief = brief,
    .widen = widen,
};

const char *blueprint_name(int blueprint)
{
    return family_blueprint(&cnn_family, blueprint);
}

int blueprint_find(const char *name)
{
    for (int i = 0; i < BLUEPRINT_COUNT; i++)
        if (strcmp(blueprint_name(i), name) == 0)
            return i;
    return -1;
}
