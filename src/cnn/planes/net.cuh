/* bf16 networks of any shape: the passes of cnn/fp32 with maps and convolutions of planes.cuh. */
#ifndef CNN_PLANES_NET_CUH
#define CNN_PLANES_NET_CUH

#include "cnn/fp32/net.cuh"

/* Weights as operands of the tensor cores, from the parameters. */
void planes_pack(struct framed_net *device, int first, int envs);
/* Evaluation, in a separate source. */
void planes_look(struct framed_net *device);
void planes_walk(struct framed_net *device, int first, int envs, struct eval_pass pass);
void planes_allow_walk(struct framed_net *device, uint32_t most);

#endif
