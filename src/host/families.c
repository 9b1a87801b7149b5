#include "host/families.h"

const struct host_family *host_family_of(const struct config *config)
{
#define FAMILY_LISTED(with, NAME, name) &name##_family,
    static const struct host_family *const families[FAMILY_COUNT] = {FAMILIES(FAMILY_LISTED, )};
    (void)config; /* no key chooses yet: all hosts are CNNs */
    return families[FAMILY_CNN];
}

void host_shape_init(union host_shape *shape, const struct config *config)
{
    host_family_of(config)->shape(config, &shape->net);
}

void host_growth_init(struct growth *growth, const struct config *config)
{
    union host_shape shape;
    host_shape_init(&shape, config);
    host_family_of(config)->growth(&shape.net, growth);
}
