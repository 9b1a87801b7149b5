/* The operators of a graph: what shape comes out, and what it holds. */
#ifndef MODEL_GRAPH_OPS_H
#define MODEL_GRAPH_OPS_H

#include "model/graph.h"

/* A value while the graph runs. */
struct graph_tensor {
    int dims;
    int64_t shape[GRAPH_DIMS];
    float *data;
    const int64_t *integers; /* a list of extents instead, */
    bool tokens;             /* or the input's bytes, 0 to 255, which are `integers` once it runs */
};

static inline size_t graph_tensor_size(const struct graph_tensor *tensor)
{
    size_t size = 1;
    for (int d = 0; d < tensor->dims; d++)
        size *= (size_t)tensor->shape[d];
    return size;
}

/* The output's shape, and the work added to *work; or what is wrong with the inputs. No tensor may be larger than
 * GRAPH_TENSOR_MAX floats. After this, and with memory for the output, the node can be run. */
#define GRAPH_TENSOR_MAX ((int64_t)1 << 28)
const char *graph_op_plan(const struct graph_node *node, const struct graph_tensor *const *in, struct graph_tensor *out,
                          double *work);
void graph_op_run(const struct graph_node *node, const struct graph_tensor *const *in, struct graph_tensor *out);

#endif
