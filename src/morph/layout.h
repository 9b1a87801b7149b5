/*
 * The tensors of a network or of a part of it: names, sizes, places and initial values. A family lists them; everything
 * else fills, copies and counts them.
 */
#ifndef MORPH_LAYOUT_H
#define MORPH_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

enum {
    LAYOUT_TENSORS = 8, /* a seed has fewer tensors than that, and a gate net, too */
    LAYOUT_HOST_TENSORS = 104,
    LAYOUT_ALIGN = 16
};

/* How a tensor is initialised: from N(0, deviation), uniform in +-1/sqrt(fan_in), or a constant. */
struct tensor_layout {
    const char *name;
    int dims, shape[4]; /* conv [cout][kh][kw][cin], depthwise [kh][kw][c], linear [out][in], vectors [c] */
    size_t offset, size;
    float deviation; /* above 0: normal */
    int fan_in;      /* above 0: uniform */
    float value;
};

/* The tensors of a seed, a gate net or a host in the order of their random streams, each aligned to 16 floats. */
struct param_layout {
    int count;
    size_t params;  /* real parameters */
    size_t storage; /* including the gaps between tensors, which stay zero */
    struct tensor_layout tensor[LAYOUT_HOST_TENSORS];
};

/* Append a tensor; dims beyond the given ones are 1. */
void layout_add(struct param_layout *layout, const char *name, int fan_in, float value, int dims, const int shape[]);
/* The same for a tensor that starts from N(0, deviation). */
void layout_add_normal(struct param_layout *layout, const char *name, double deviation, int dims, const int shape[]);
/* -1 if there is no such tensor. */
int layout_find(const struct param_layout *layout, const char *name);

/* Initial values: tensor t draws from `stream` at a = a0 + t. */
void layout_init(const struct param_layout *layout, uint64_t seed, int stream, uint32_t round, uint32_t env,
                 uint32_t a0, float *params);

#endif
