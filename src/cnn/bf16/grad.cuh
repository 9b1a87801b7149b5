/* Shared by the backward kernels: from the gradient after a pool to that of the raw output, and where results go. */
#ifndef CNN_BF16_GRAD_CUH
#define CNN_BF16_GRAD_CUH

#include "cnn/bf16/conv.cuh"

/* The gradient of raw for a channel: gain * g + slope * raw + offset. */
struct slopes {
    float gain, slope, offset;
};

DEVICE struct slopes load_slopes(uint32_t at, int channels, int channel)
{
    struct slopes s = {load_shared_float(at + channel * 4), load_shared_float(at + (channels + channel) * 4),
                       load_shared_float(at + (2 * channels + channel) * 4)};
    return s;
}

/* Of a pool window: two pixels of the upper row, two of the lower, as bf16 pairs. */
struct window_grad {
    uint32_t top, bottom;
};

/* The window's gradient g goes to its first largest value. */
DEVICE struct window_grad route(float z0, float z1, float z2, float z3, float g, const struct slopes &s)
{
    const float high = fmaf(g, s.gain, s.offset);
    const bool top = fmaxf(z0, z1) >= fmaxf(z2, z3), left = z0 >= z1, lower_left = z2 >= z3;
    struct window_grad w;
    w.top =
        pack_bf16(fmaf(s.slope, z0, top && left ? high : s.offset), fmaf(s.slope, z1, top && !left ? high : s.offset));
    w.bottom = pack_bf16(fmaf(s.slope, z2, !top && lower_left ? high : s.offset),
                         fmaf(s.slope, z3, !top && !lower_left ? high : s.offset));
    return w;
}

/* Two pixels with a gradient each. */
DEVICE uint32_t spread(float z0, float z1, uint32_t g, const struct slopes &s)
{
    return pack_bf16(fmaf(s.gain, bf16_lo(g), fmaf(s.slope, z0, s.offset)),
                     fmaf(s.gain, bf16_hi(g), fmaf(s.slope, z1, s.offset)));
}

DEVICE uint32_t load_pixels(const uint32_t *at)
{
    return transpose_matrix(__ldcg(at));
}

/*
 * Sums of g and g * raw of eight channels, by the tensor cores: rows 0 to 7 of the product are raw, rows 8 to 15 ones,
 * columns are g. Only the diagonal and any one of the lower rows are needed.
 */
DEVICE void share_back_sums(uint32_t at, int channels, int first, const float d[4], int lane)
{
    const int g = lane >> 2, t = lane & 3;
    if (g == 2 * t)
        store_shared_float(at + (channels + first + g) * 4, d[0]);
    if (g == 2 * t + 1)
        store_shared_float(at + (channels + first + g) * 4, d[1]);
    if (g == 0) {
        store_shared_float(at + (first + 2 * t) * 4, d[2]);
        store_shared_float(at + (first + 2 * t + 1) * 4, d[3]);
    }
}

DEVICE float *part_of(const struct fast_host &host, int i, int env, int chunk)
{
    return host.block[i].part + ((size_t)env * host.chunks + chunk) * host.block[i].part_size;
}

#endif
