/* The CNN's networks on the CPU, as struct net_kernels has them, and what only checks ask for. Compiled once per
 * variant. */
#ifndef CNN_NET_H
#define CNN_NET_H

#include "cnn/shape.h"
#include "morph/net.h"

size_t cnn_bytes(const struct net_shape *shape, int batch);
struct net *cnn_init(const struct net_shape *shape, int batch, void *memory);
/* First interior pixel, four reals per pixel, and the labels. */
struct net_input cnn_input(struct net *net);
void cnn_gradients(struct net *net, const struct net_params *params, const struct net_batch *batch,
                   struct net_result *result);
void cnn_measure(struct net *net, const struct net_batch *batch, struct net_result *result);
void cnn_update(struct net *net, const struct net_params *params, const struct net_memory *memory,
                const struct net_batch *batch, const struct net_rates *rates, struct net_result *result);
void cnn_evaluate(struct net *net, const struct net_params *params, struct net_eval *eval);

/* Gradients of the last cnn_gradients, in the parameters' layouts, and the logits [images][stride]. */
struct net_params cnn_grads(struct net *net);
const real *cnn_logits(const struct net *net, int *stride);

#endif
