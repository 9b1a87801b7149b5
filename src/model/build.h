/* What the graphs of all families are built with: names, constants, nodes, and how a slot blends its seed. */
#ifndef MODEL_BUILD_H
#define MODEL_BUILD_H

#include "model/graph.h"

struct builder {
    struct graph *graph;
    const struct model *model;
    struct model_tensor tensors[MODEL_TENSORS];
    int count;
};

struct build_text {
    char text[GRAPH_NAME];
};

/* "prefix.part" and "prefix.part3"; the text lives until the end of the statement. */
struct build_text build_name(const char *prefix, const char *part);
struct build_text build_numbered(const char *prefix, const char *part, int number);

/* The model's tensor of that name; NULL when there is none. */
const struct model_tensor *build_tensor(const struct builder *b, const char *name);
/* "prefix.part", which the model has. */
const struct model_tensor *build_part(const struct builder *b, const char *prefix, const char *part);

/* The graph's input and output; the first extent, any number of samples, is added. */
int build_input(struct builder *b, const char *name, int dims, const int64_t *extents);
void build_output(struct builder *b, int value, int dims, const int64_t *extents);

/* Constants: a number, and a tensor of the model as it is, [n] or [out][in]. */
int build_scalar(struct builder *b, const char *name, double value);
int build_plain(struct builder *b, const char *name);

/* Nodes. A value of -1 is an input that the node does not have. */
struct graph_node *build_node(struct builder *b, enum graph_op op, const char *name, int x, int y, int z);
int build_made(const struct graph_node *node); /* its output; -1 of NULL */
int build_unary(struct builder *b, enum graph_op op, const char *name, int x);
int build_binary(struct builder *b, enum graph_op op, const char *name, int x, int y);
int build_reshape(struct builder *b, const char *name, int x, int count, const int64_t *extents);

/*
 * h and the seed's output s as the slot's algorithm mixes them. ADD h + a (s - h); MULTIPLY h (1 + a tanh(s - h)); GATE
 * is ADD at a q, and q alone is below 1: no clamp is needed.
 */
int build_blend(struct builder *b, const char *prefix, const struct slot_exec *exec, int h, int s, int gate);

#endif
