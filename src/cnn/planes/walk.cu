#include "cuda/runtime.cuh"

#include "cnn/fp32/walk.cuh"
#include "cnn/planes/net.cuh"
#include "cnn/planes/planes.cuh"

void planes_look(struct framed_net *device)
{
    enqueue_look<planes>(device);
}

void planes_walk(struct framed_net *device, int first, int envs, struct eval_pass pass)
{
    enqueue_walk<planes>(device, first, envs, pass);
}

void planes_allow_walk(struct framed_net *device, uint32_t most)
{
    allow_walk<planes>(device, most);
}
