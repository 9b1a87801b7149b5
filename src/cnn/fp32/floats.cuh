/*
 * What the passes are made of, in fp32. A precision P says what maps are made of, computes convolutions and the
 * gradients of their weights; cnn/planes/planes.cuh is the other one. The passes themselves (seed.cuh, tail.cuh,
 * passes.cuh, walk.cuh) are the same for both.
 */
#ifndef CNN_FP32_FLOATS_CUH
#define CNN_FP32_FLOATS_CUH

#include "cnn/fp32/seed.cuh"
#include "nn/convolve.cuh"

struct floats {
    typedef float map;
    enum {
        BLOCKS = BLOCKS_PER_PROCESSOR, /* on an SM at a time */
        FUSED = false                  /* the gradient of a pool right after a norm is never written out */
    };

    /* Pixel p of an image whose map begins at `to`. */
    static __device__ __forceinline__ void pixel(float *to, int p, const float4 &v)
    {
        reinterpret_cast<float4 *>(to)[p] = v;
    }
    static __device__ __forceinline__ void block_forward(const struct image &image, const struct block_view &block)
    {
        struct convolution job = convolution_forward(block.conv.height, block.conv.width, block.conv.kernel,
                                                     block.conv.cin, block.conv.cout, image.frame + block.in,
                                                     image.packed + block.weight, image.frame + block.raw);
        job.in_stride = block.conv.in_stride;
        convolve(job);
    }
    /* The same with moments about the means, which put(channel, moments) receives. */
    template <class Put>
    static __device__ __forceinline__ void
    block_forward_moments(const struct image &image, const struct block_view &block, const float *means, Put put)
    {
        block_forward(image, block);
        moments(block.pixels, block.conv.cout, image.frame + block.raw, means, put);
    }
    /* From the gradient of the block's raw output to that of its input. */
    static __device__ __forceinline__ void block_backward(const struct image &image, const struct block_view &block,
                                                          const float *g, float *to)
    {
        convolve(convolution_backward(block.conv.height, block.conv.width, block.conv.kernel, block.conv.cin,
                                      block.conv.cout, g, image.host + block.weight, nullptr, to));
    }
    static __device__ __forceinline__ void step_forward(const struct seed_job &job, const struct step_view &step,
                                                        const float *in, float *out)
    {
        const struct slot_view &slot = *job.slot;
        if (step.kind == STEP_DEPTHWISE)
            convolve_depthwise(slot.height, slot.width, step.cout, in, job.w + step.weight, false, nullptr, out);
        else
            convolve(convolution_forward(slot.height, slot.width, step.kernel, step.cin, step.cout, in,
                                         job.packed + job.net->host_storage + slot.seed + step.weight, out));
    }
    /* From the step's gradient to that of its input, plus `add` where that is given. */
    static __device__ __forceinline__ void step_backward(const struct seed_job &job, const struct step_view &step,
                                                         const float *add, float *dx)
    {
        const struct slot_view &slot = *job.slot;
        const float *g = job.frame + step.grad;
        if (step.kind == STEP_DEPTHWISE)
            convolve_depthwise(slot.height, slot.width, step.cout, g, job.w + step.weight, true, add, dx);
        else
            convolve(convolution_backward(slot.height, slot.width, step.kernel, step.cin, step.cout, g,
                                          job.w + step.weight, add, dx));
    }
    /* Part of the gradient of a layer's weights, over `images` whose frames are `step` apart. */
    static __device__ __forceinline__ void weights(const struct layer_view &layer, bool depthwise, const float *in,
                                                   const float *grad, size_t step, int images, int part, float *out)
    {
        const struct weight_sums job = {layer.height, layer.width, layer.kernel,    layer.cin, layer.cout, depthwise,
                                        in,           grad,        layer.in_stride, step,      images,     out};
        sum_weights(job, part);
    }
};

#endif
