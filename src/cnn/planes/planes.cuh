/*
 * What the passes are made of in bf16 (see cnn/fp32/floats.cuh): hosts of any shape, whose maps are octets.
 *
 * Numbers. Maps are bf16, everything else is as in fp32: sums and products in fp32, statistics in double, parameters
 * fp32. Rounded are the pixels; the weights of convolutions; the raw output of every convolution, of which BatchNorm
 * and GroupNorm take their statistics; what enters the next convolution; a seed's output, its blend; and every gradient
 * of a map. Channels are stored by the eight: those beyond the last have weights, scales and gradients of zero, and
 * change nothing.
 */
#ifndef CNN_PLANES_PLANES_CUH
#define CNN_PLANES_PLANES_CUH

#include "cnn/fp32/seed.cuh"
#include "nn/octet_weights.cuh"

struct planes {
    typedef struct octet map;
    enum { BLOCKS = 4, FUSED = true };

    static __device__ __forceinline__ uint32_t memory()
    {
        SHARED_BYTES(shared);
        return smem(shared);
    }
    static __device__ __forceinline__ void pixel(float *to, int p, const float4 &v)
    {
        reinterpret_cast<uint4 *>(to)[p] = make_uint4(pack_bf16(v.x, v.y), pack_bf16(v.z, 0), 0, 0);
    }
    static __device__ __forceinline__ void convolve(int height, int width, int kernel, int cin, int cout,
                                                    const struct octet *in, const float *weight,
                                                    const struct octet *add, struct octet *out)
    {
        const struct octet_convolution job = {height,
                                              width,
                                              kernel,
                                              map_planes<struct octet>(cin),
                                              map_planes<struct octet>(cout),
                                              in,
                                              reinterpret_cast<const uint4 *>(weight),
                                              add,
                                              out,
                                              nullptr,
                                              0,
                                              0};
        octet_convolve<false>(job, memory());
    }
    /* The same with moments about the means, which put(channel, moments) receives. */
    template <class Put>
    static __device__ __forceinline__ void
    block_forward_moments(const struct image &image, const struct block_view &block, const float *means, Put put)
    {
        const struct layer_view &conv = block.conv;
        const int in = map_planes<struct octet>(conv.cin);
        const struct octet_convolution job = {conv.height,
                                              conv.width,
                                              conv.kernel,
                                              in,
                                              map_planes<struct octet>(conv.cout),
                                              map_at<planes>(image.frame, block.in),
                                              reinterpret_cast<const uint4 *>(image.packed + block.forward),
                                              nullptr,
                                              map_at<planes>(image.frame, block.raw),
                                              means,
                                              conv.cout,
                                              memory() + octet_bytes(conv.height, conv.width, conv.kernel, in)};
        octet_convolve<true>(job, memory());
        octet_moments(job, put);
    }
    static __device__ __forceinline__ void block_forward(const struct image &image, const struct block_view &block)
    {
        const struct layer_view &conv = block.conv;
        convolve(conv.height, conv.width, conv.kernel, conv.cin, conv.cout, map_at<planes>(image.frame, block.in),
                 image.packed + block.forward, nullptr, map_at<planes>(image.frame, block.raw));
    }
    static __device__ __forceinline__ void block_backward(const struct image &image, const struct block_view &block,
                                                          const struct octet *g, struct octet *to)
    {
        const struct layer_view &conv = block.conv;
        convolve(conv.height, conv.width, conv.kernel, conv.cout, conv.cin, g, image.packed + block.back, nullptr, to);
    }
    static __device__ __forceinline__ void step_forward(const struct seed_job &job, const struct step_view &step,
                                                        const struct octet *in, struct octet *out)
    {
        const struct slot_view &slot = *job.slot;
        if (step.kind == STEP_DEPTHWISE)
            octet_depthwise(slot.height, slot.width, step.cout, in, job.packed + step.forward, false, nullptr, out);
        else
            convolve(slot.height, slot.width, step.kernel, step.cin, step.cout, in, job.packed + step.forward, nullptr,
                     out);
    }
    static __device__ __forceinline__ void step_backward(const struct seed_job &job, const struct step_view &step,
                                                         const struct octet *add, struct octet *dx)
    {
        const struct slot_view &slot = *job.slot;
        const struct octet *g = map_at<planes>(job.frame, step.grad);
        if (step.kind == STEP_DEPTHWISE)
            octet_depthwise(slot.height, slot.width, step.cout, g, job.packed + step.forward, true, add, dx);
        else
            convolve(slot.height, slot.width, step.kernel, step.cout, step.cin, g, job.packed + step.back, add, dx);
    }
    static __device__ __forceinline__ void weights(const struct layer_view &layer, bool depthwise,
                                                   const struct octet *in, const struct octet *grad, size_t step,
                                                   int images, int part, float *out)
    {
        const struct octet_weight_sums job = {layer.height, layer.width, layer.kernel, layer.cin, layer.cout, depthwise,
                                              in,           grad,        step,         images,    out};
        octet_sum_weights(job, part, memory());
    }
};

#endif
