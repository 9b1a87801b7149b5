#include "host/families.h"

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
