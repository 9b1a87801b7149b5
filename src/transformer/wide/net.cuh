/*
 * The transformer's bf16 networks of wide hosts: the passes of fp32 (transformer/fp32), with products and attention on
 * the tensor cores, for which operands are kept rounded beside or in place of what they are. The stream, its gradient,
 * sums, statistics and parameters are fp32.
 */
#ifndef TRANSFORMER_WIDE_NET_CUH
#define TRANSFORMER_WIDE_NET_CUH

#include "transformer/fp32/net.cuh"

/* Heads of 32, 64, 96 or 128 numbers, the host's and those of attention seeds, for which the card has the shared
 * memory; all bytes. */
bool wide_fits(const struct net_shape *shape, int batch);
struct net_device *wide_create(struct runtime *rt, const struct net_setup *setup);

void wide_learn(struct transformer_net *device, int first, int envs);
void wide_walk(struct transformer_net *device, struct exact_pass pass);
void wide_round(struct transformer_net *device, int first, int envs); /* parameters, to operands */
std::vector<exact_work> wide_work(const struct exact_view *net);

/* The most that a thread block needs, with heads of so many numbers. */
size_t wide_shared(int head);
/* Once, in create. */
void wide_allow_train(struct transformer_net *device);
void wide_allow_walk(struct transformer_net *device);

#endif
