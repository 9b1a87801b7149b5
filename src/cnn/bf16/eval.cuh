/* Evaluation by cnn_bf16: whole networks in shared memory, image by image, with running statistics. */
#ifndef CNN_BF16_EVAL_CUH
#define CNN_BF16_EVAL_CUH

#include "cnn/bf16/host.cuh"

struct fast_eval;

/* After seed_create; NULL after an error. */
struct fast_eval *eval_create(struct bf16_net *net);
void eval_free(struct fast_eval *eval);

/* net_device.cuh: evaluate, measure and test. */
void eval_validate(struct net_device *device, int images);
void eval_measure(struct net_device *device, struct net_sets sets, int images);
void eval_test(struct net_device *device);

#endif
