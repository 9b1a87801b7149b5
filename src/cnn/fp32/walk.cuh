/*
 * Evaluation under many settings of the slots, for a precision P (floats.cuh). Running statistics leave images
 * independent: a thread block takes an image through all configurations, in the order of its env's plan, and starts
 * each one at the first slot where it differs from the one before, from that slot's input, which is still in the frame
 * (see struct eval_plan).
 */
#ifndef CNN_FP32_WALK_CUH
#define CNN_FP32_WALK_CUH

#include "cnn/fp32/tail.cuh"

/* From slot r{row}c{i}, whose input is in the frame, to the features. */
template <class P> DEVICE void walk_from_slot(const struct image &image, int i, int row, uint32_t on)
{
    const struct net_view &net = *image.net;
    if (row == 0)
        tail_from_first_slot<P>(image, net.block[i], on);
    else
        tail_from_second_slot<P>(image, net.block[i], on >> net.block[i].slot[1] & 1u);
}

template <class P> DEVICE void walk_from_block(const struct image &image, int i, uint32_t on)
{
    for (; i < image.net->blocks; i++) {
        P::block_forward(image, image.net->block[i]);
        tail_forward<P>(image, image.net->block[i], on);
    }
}

/* All configurations of one image. `right` [config] counts, `loss` is that of configuration 0. */
template <class P>
DEVICE void walk_image(const struct image &image, const struct gather_view &view, uint32_t *right, float *loss)
{
    __shared__ float logits[SHAPE_CLASSES_MAX];
    const struct net_view &net = *image.net;
    const struct net_shape &shape = net.setup->shape;
    const struct eval_plan &plan = net.plans[image.env];
    image_write<P>(image, view);
    for (uint32_t k = 0; k < plan.count; k++) {
        const uint32_t on = plan.mask[k];
        const int parting = k == 0 ? net.slots : eval_parting(&shape, on, plan.mask[k - 1]);
        int next = 0;
        if (parting < net.slots) {
            const int slot = shape.exec_order[parting], row = shape.slot[slot].row;
            next = shape.slot[slot].column;
            walk_from_slot<P>(image, next, row, on);
            next++;
        }
        walk_from_block<P>(image, next, on);
        image_classify<P>(image, logits);
        if (threadIdx.x == 0) {
            const struct verdict verdict = image_judge(logits, net.classes, view.label);
            if (verdict.best == view.label)
                atomicAdd(&right[plan.config[k]], 1u);
            if (loss && plan.config[k] == 0)
                *loss = (float)verdict.loss;
        }
        __syncthreads();
    }
}

/* The images of the group's envs are distributed to the blocks round-robin; each block has its own frame. */
template <class P> PASS_KERNEL evaluate(const struct net_view *net, int first, int envs, struct eval_pass job)
{
    const int images = job.images;
    for (long item = (long)blockIdx.x; item < (long)envs * images; item += (long)gridDim.x) {
        const int place = (int)(item / images), n = (int)(item % images), env = first + place;
        if (!net->plans[env].count)
            continue;
        const struct image image = image_of(net, env, place, blockIdx.x);
        const struct gather_view view = gather_range_view(net->setup->source.data, job.split, (uint32_t)n);
        walk_image<P>(image, view, job.plans[env].right,
                      job.losses ? job.losses + (size_t)env * (size_t)images + (size_t)n : nullptr);
    }
}

/* An image that is in its frame, with its label. */
template <class P> PASS_KERNEL look(const struct net_view *net)
{
    __shared__ float logits[SHAPE_CLASSES_MAX];
    const struct image image = image_of(net, 0, 0, blockIdx.x);
    walk_from_block<P>(image, 0, ~0u);
    image_classify<P>(image, logits);
    for (int k = (int)threadIdx.x; k < net->classes; k += BLOCK_THREADS)
        image.frame[net->logit + (uint32_t)k] = logits[k];
    if (threadIdx.x == 0) {
        const int label = (int)image.figures[net->label];
        const struct verdict verdict = image_judge(logits, net->classes, label);
        image.figures[net->loss] = verdict.loss;
        image.figures[net->right] = verdict.best == label;
    }
}

/* ---- enqueued ---------------------------------------------------------------------------------------------------- */

template <class P> void enqueue_look(struct framed_net *device)
{
    device->passes->pack(device, 0, 1);
    framed_norm_evaluate(device, 0, 1);
    runtime_launch(device->runtime, look<P>, image_blocks(device, 1, device->shared_all), device->net);
}

template <class P> void enqueue_walk(struct framed_net *device, int first, int envs, struct eval_pass pass)
{
    device->passes->pack(device, first, envs);
    framed_norm_evaluate(device, first, envs);
    runtime_launch(device->runtime, evaluate<P>, net_blocks(device->eval_blocks, 1, BLOCK_THREADS, device->shared_all),
                   device->net, first, envs, pass);
}

/* Once, in create, as allow_passes. */
template <class P> void allow_walk(struct framed_net *device, uint32_t most)
{
    runtime_allow_shared(device->runtime, evaluate<P>, most);
    runtime_allow_shared(device->runtime, look<P>, most);
}

#endif
