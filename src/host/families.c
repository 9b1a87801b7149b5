#include "host/families.h"

const struct host_family *host_family_of(const struct config *config)
{
    (void)config; /* so far all are CNNs */
    return &cnn_family;
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
