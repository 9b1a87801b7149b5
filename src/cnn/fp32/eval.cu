/*
 * Evaluation under many settings of the slots. Running statistics leave images independent: a thread block takes an
 * image through all configurations, in the order of its env's plan, and starts each one at the first slot where it
 * differs from the one before, from that slot's input, which is still in the frame (see struct eval_plan).
 */
#include "cuda/runtime.cuh"

#include "cnn/fp32/tail.cuh"

/* BatchNorm's coefficients from the running statistics. */
IMAGE_KERNEL norm_evaluate(const struct net_view *net, int first)
{
    const struct net_setup *setup = net->setup;
    const size_t env = (size_t)first + blockIdx.y;
    const float *host = setup->host + env * net->host_storage, *stats = setup->stats + env * setup->shape.stats;
    for (int i = 0; i < net->blocks; i++) {
        const struct block_view &block = net->block[i];
        const struct norm norm = norm_at(net->norms + (size_t)blockIdx.y * net->norm + block.norm, block.conv.cout);
        for (int c = (int)threadIdx.x; c < block.conv.cout; c += BLOCK_THREADS)
            norm_set(norm, c, (double)stats[block.mean + c], 1 / sqrt((double)stats[block.var + c] + NORM_EPS),
                     host[block.gamma + c], host[block.beta + c]);
    }
}

/* From slot r{row}c{i}, whose input is in the frame, to the features. */
DEVICE void walk_from_slot(const struct image &image, int i, int row, uint32_t on)
{
    const struct net_view &net = *image.net;
    if (row == 0)
        tail_from_first_slot(image, net.block[i], on);
    else
        tail_from_second_slot(image, net.block[i], on >> net.block[i].slot[1] & 1u);
}

DEVICE void walk_from_block(const struct image &image, int i, uint32_t on)
{
    for (; i < image.net->blocks; i++) {
        block_convolve(image, image.net->block[i]);
        tail_forward(image, image.net->block[i], on);
    }
}

/* All configurations of one image. `right` [config] counts, `loss` is that of configuration 0. */
DEVICE void walk_image(const struct image &image, const struct gather_view &view, uint32_t *right, float *loss)
{
    __shared__ float logits[SHAPE_CLASSES_MAX];
    const struct net_view &net = *image.net;
    const struct net_shape &shape = net.setup->shape;
    const struct eval_plan &plan = net.plans[image.env];
    image_write(image, view);
    for (uint32_t k = 0; k < plan.count; k++) {
        const uint32_t on = plan.mask[k];
        const int parting = k == 0 ? net.slots : eval_parting(&shape, on, plan.mask[k - 1]);
        int next = 0;
        if (parting < net.slots) {
            const int slot = shape.exec_order[parting], row = shape.slot[slot].row;
            next = shape.slot[slot].column;
            walk_from_slot(image, next, row, on);
            next++;
        }
        walk_from_block(image, next, on);
        image_classify(image, logits);
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

/* What is evaluated, and where the results go. */
struct eval_pass {
    enum split split;
    int images;
    struct eval_plan *plans; /* which configurations; they count what was right */
    float *losses;           /* [env][images] of configuration 0, or NULL */
};

/* The images of the group's envs are distributed to the blocks round-robin; each block has its own frame. */
IMAGE_KERNEL evaluate(const struct net_view *net, int first, int envs, struct eval_pass job)
{
    const int images = job.images;
    for (long item = (long)blockIdx.x; item < (long)envs * images; item += (long)gridDim.x) {
        const int place = (int)(item / images), n = (int)(item % images), env = first + place;
        if (!net->plans[env].count)
            continue;
        const struct image image = image_of(net, env, place, blockIdx.x);
        const struct gather_view view = gather_range_view(net->setup->source.data, job.split, (uint32_t)n);
        walk_image(image, view, job.plans[env].right,
                   job.losses ? job.losses + (size_t)env * (size_t)images + (size_t)n : nullptr);
    }
}

/* An image that is in its frame, with its label. */
IMAGE_KERNEL look(const struct net_view *net)
{
    __shared__ float logits[SHAPE_CLASSES_MAX];
    const struct image image = image_of(net, 0, 0, blockIdx.x);
    walk_from_block(image, 0, ~0u);
    image_classify(image, logits);
    for (int k = (int)threadIdx.x; k < net->classes; k += BLOCK_THREADS)
        image.frame[net->logit + (uint32_t)k] = logits[k];
    if (threadIdx.x == 0) {
        const int label = (int)image.figures[net->label];
        const struct verdict verdict = image_judge(logits, net->classes, label);
        image.figures[net->loss] = verdict.loss;
        image.figures[net->right] = verdict.best == label;
    }
}

void fp32_look(struct fp32_net *device)
{
    struct runtime *rt = device->runtime;
    fp32_pack(device, 0, 1);
    runtime_launch(rt, norm_evaluate, net_blocks(1, 1, BLOCK_THREADS), device->net, 0);
    runtime_launch(rt, look, net_blocks((unsigned)device->view.batch, 1, BLOCK_THREADS), device->net);
}

static void enqueue(struct fp32_net *device, struct eval_pass job)
{
    const int all = device->setup.envs;
    for (int first = 0; first < all; first += device->view.group) {
        const int envs = all - first < device->view.group ? all - first : device->view.group;
        fp32_pack(device, first, envs);
        runtime_launch(device->runtime, norm_evaluate, net_blocks(1, envs, BLOCK_THREADS), device->net, first);
        runtime_launch(device->runtime, evaluate, net_blocks(device->eval_blocks, 1, BLOCK_THREADS), device->net, first,
                       envs, job);
    }
}

void fp32_evaluate(struct net_device *given)
{
    struct fp32_net *device = fp32_net_of(given);
    net_plan_evaluate(device, device->view.plans);
    enqueue(device, {SPLIT_VAL, device->setup.val_images, device->view.plans, device->view.losses});
    net_plan_evaluated(device, device->view.plans, device->view.losses);
}

void fp32_measure(struct net_device *given, struct net_sets sets)
{
    struct fp32_net *device = fp32_net_of(given);
    net_plan_measure(device, device->view.plans, sets);
    enqueue(device, {SPLIT_VAL, device->setup.val_images, device->view.plans, nullptr});
    net_plan_measured(device, device->view.plans, sets);
}

void fp32_test(struct net_device *given)
{
    struct fp32_net *device = fp32_net_of(given);
    net_plan_test(device, device->view.plans);
    enqueue(device, {SPLIT_TEST, device->setup.test_images, device->view.plans, nullptr});
    net_plan_tested(device, device->view.plans);
}
