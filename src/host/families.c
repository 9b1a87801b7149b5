#include "host/families.h"

const struct host_family *host_family_of(const struct config *config)
{
#define FAMILY_LISTED(with, NAME, name) &name##_family,
    static const struct host_family *const families[FAMILY_COUNT] = {FAMILIES(FAMILY_LISTED, )};
    return families[config->host_family];
}

/* What AdamW has no key for: the decay of the second moment, and epsilon. */
#define ADAMW_SECOND  0.95
#define ADAMW_EPSILON 1e-8

static struct optimiser optimiser_of(const struct config *config, int choice, double lr, double weight_decay)
{
    return (struct optimiser){.kind = choice ? (enum optimiser_kind)(choice - 1) : host_family_of(config)->optimiser,
                              .lr = (real)lr,
                              .momentum = (real)config->momentum,
                              .second = (real)ADAMW_SECOND,
                              .epsilon = (real)ADAMW_EPSILON,
                              .weight_decay = (real)weight_decay};
}

struct net_rates host_rates(const struct config *config)
{
    struct net_rates rates = {
        .host = optimiser_of(config, config->host_optimizer, config->host_lr, config->weight_decay),
        .seed = optimiser_of(config, config->seed_optimizer, config->seed_lr, 0),
        .max_grad_norm = config->max_grad_norm};
    if (rates.seed.kind == OPTIMISER_ADAMW) /* with SGD, a seed's parameters do not decay */
        rates.seed.weight_decay = rates.host.weight_decay;
    return rates;
}

void host_shape_init(union host_shape *shape, const struct config *config)
{
    host_family_of(config)->shape(config, &shape->net);
}

void host_growth_init(struct growth *growth, const struct config *config)
{
    union host_shape shape;
    *growth = (struct growth){0};
    host_shape_init(&shape, config);
    host_family_of(config)->growth(&shape.net, growth);
}
