/* Room for the shape of any family. A new family has a line in FAMILIES (morph/shape.h) and its shape here. */
#ifndef HOST_FAMILIES_H
#define HOST_FAMILIES_H

#include "cnn/shape.h"
#include "morph/family.h"
#include "morph/net.h"
#include "transformer/shape.h"

union host_shape {
    struct net_shape net; /* what they all begin with */
    struct cnn_shape cnn;
    struct transformer_shape transformer;
};

/* How its hosts and its seeds learn, and how fast. */
struct net_rates host_rates(const struct config *config);

/* The host's shape and what may grow in it, by its family. */
void host_shape_init(union host_shape *shape, const struct config *config);
void host_growth_init(struct growth *growth, const struct config *config);

#endif
