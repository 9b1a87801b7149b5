/* The transformer's networks on the CPU, as struct net_kernels has them, and what only checks ask for. Compiled once
 * per variant. */
#ifndef TRANSFORMER_NET_H
#define TRANSFORMER_NET_H

#include "morph/net.h"
#include "transformer/shape.h"

size_t transformer_bytes(const struct net_shape *shape, int batch);
struct net *transformer_init(const struct net_shape *shape, int batch, void *memory);
struct net_input transformer_input(struct net *net);
void transformer_gradients(struct net *net, const struct net_params *params, const struct net_batch *batch,
                           struct net_result *result);
void transformer_measure(struct net *net, const struct net_batch *batch, struct net_result *result);
void transformer_update(struct net *net, const struct net_params *params, const struct net_memory *memory,
                        const struct net_batch *batch, const struct net_rates *rates, struct net_result *result);
void transformer_evaluate(struct net *net, const struct net_params *params, struct net_eval *eval);

/* Gradients of the last transformer_gradients, in the parameters' layouts. */
struct net_params transformer_grads(struct net *net);
/* The targets [samples][context], if they are not the inputs one byte later. */
void transformer_targets(struct net *net, const uint8_t *targets);

#endif
