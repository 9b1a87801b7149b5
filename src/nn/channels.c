#include "nn/channels.h"

#include <string.h>

#define PANEL   4
#define VEC     vec4
#define MASK    mask4
#define VN      1
#define NAME(x) x##_4
#include "nn/channels.inc"

#define PANEL 8
#if VECTOR == 4
#define VEC  vec4
#define MASK mask4
#define VN   2
#else
#define VEC  vec8
#define MASK mask8
#define VN   1
#endif
#define NAME(x) x##_8
#include "nn/channels.inc"

#define PANEL 16
#if VECTOR == 4
#define VEC  vec4
#define MASK mask4
#define VN   4
#elif VECTOR == 8
#define VEC  vec8
#define MASK mask8
#define VN   2
#else
#define VEC  vec16
#define MASK mask16
#define VN   1
#endif
#define NAME(x) x##_16
#include "nn/channels.inc"

/* Run `function` over the channels in blocks of 16, 8 and 4; the arguments may use c, the block's first channel. */
#define BLOCKS(function, ...)                                                                                          \
    for (int c = 0; c < cp;) {                                                                                         \
        if (cp - c >= 16) {                                                                                            \
            function##_16(__VA_ARGS__);                                                                                \
            c += 16;                                                                                                   \
        } else if (cp - c >= 8) {                                                                                      \
            function##_8(__VA_ARGS__);                                                                                 \
            c += 8;                                                                                                    \
        } else {                                                                                                       \
            function##_4(__VA_ARGS__);                                                                                 \
            c += 4;                                                                                                    \
        }                                                                                                              \
    }

/* Partial sums are kept in `real` over at most this many pixels before they are added up in double. */
enum { SUM_PIXELS = 1024 };

static const real zeros[16];

void channel_sums(int pixels, int cp, const real *x, const real *centre, double *sum, double *square)
{
    for (int p = 0; p < pixels; p += SUM_PIXELS) {
        int n = pixels - p < SUM_PIXELS ? pixels - p : SUM_PIXELS;
        const real *from = x + (size_t)p * cp;
        BLOCKS(sums, n, cp, from + c, centre ? centre + c : zeros, sum ? sum + c : NULL, square + c)
    }
}

void channel_affine(int pixels, int cp, const real *x, const real *scale, const real *shift, bool relu,
                    const real *residual, real *out)
{
    BLOCKS(affine, pixels, cp, x + c, scale + c, shift + c, relu, residual ? residual + c : NULL, out + c)
}

void channel_grad_sums(int pixels, int cp, const real *x, const real *g, const real *scale, const real *shift,
                       bool relu, const real *centre, double *sum, double *moment)
{
    for (int p = 0; p < pixels; p += SUM_PIXELS) {
        int n = pixels - p < SUM_PIXELS ? pixels - p : SUM_PIXELS;
        size_t at = (size_t)p * cp;
        BLOCKS(grad_sums, n, cp, x + at + c, g + at + c, scale + c, shift + c, relu, centre + c, sum + c, moment + c)
    }
}

struct placing placed_dense(real *at, int height, int width, int cp)
{
    return (struct placing){at, (size_t)width * cp, (size_t)height * width * cp};
}

struct placing placed_framed(real *framed, int height, int width, int cp)
{
    size_t pitch = (size_t)(width + 2) * cp;
    return (struct placing){framed + pitch + cp, pitch, (size_t)(height + 2) * pitch};
}

void channel_grad(int images, int height, int width, int cp, const real *x, const real *g, const real *scale,
                  const real *shift, bool relu, const real *gain, const real *slope, const real *offset,
                  struct placing out)
{
    size_t map = (size_t)height * width * cp;
    for (int n = 0; n < images; n++)
        BLOCKS(grad, height, width, cp, x + n * map + c, g + n * map + c, scale + c, shift + c, relu, gain + c,
               slope + c, offset + c, out.at + n * out.image_pitch + c, out.row_pitch)
}

/* To a 2x2 pool, images of even height form one long image; others are processed one by one. */
#define EACH_POOL(call)                                                                                                \
    for (int n = 0; n < images; n++) {                                                                                 \
        const size_t full = (size_t)n * height * width * cp, pooled = (size_t)n * (height / 2) * (width / 2) * cp;     \
        call                                                                                                           \
    }

void pool_forward(int images, int height, int width, int cp, const real *x, real *out)
{
    EACH_POOL(BLOCKS(pool, height / 2, width, cp, x + full + c, out + pooled + c))
}

/* Pixels that no window covers (odd edges) get no gradient. */
static void clear_edges(int images, int height, int width, int cp, real *out)
{
    if (height % 2 || width % 2)
        memset(out, 0, sizeof(real) * (size_t)images * height * width * cp);
}

void pool_backward(int images, int height, int width, int cp, const real *x, const real *g, real *out)
{
    clear_edges(images, height, width, cp, out);
    EACH_POOL(BLOCKS(pool_back, height / 2, width, cp, x + full + c, g + pooled + c, out + full + c))
}

void pool_affine_forward(int images, int height, int width, int cp, const real *x, const real *scale, const real *shift,
                         real *winners, struct placing out)
{
    EACH_POOL(BLOCKS(pool_affine, height / 2, width, cp, x + full + c, scale + c, shift + c, winners + pooled + c,
                     out.at + n * out.image_pitch + c, out.row_pitch))
}

/* Pixels that no window covers (odd edges) get only the gradient that comes through the norm's statistics. */
static void grad_edges(int images, int height, int width, int cp, const real *x, const real *slope, const real *offset,
                       struct placing out)
{
    for (int n = 0; n < images; n++)
        for (int h = 0; h < height; h++)
            for (int w = h == height - 1 && height % 2 ? 0 : width / 2 * 2; w < width; w++)
                for (int c = 0; c < cp; c++)
                    out.at[n * out.image_pitch + h * out.row_pitch + (size_t)(w * cp + c)] =
                        x[((size_t)(n * height + h) * width + w) * cp + c] * slope[c] + offset[c];
}

void pool_affine_grad(int images, int height, int width, int cp, const real *x, const real *winners, const real *g,
                      const real *scale, const real *shift, const real *gain, const real *slope, const real *offset,
                      struct placing out)
{
    EACH_POOL(BLOCKS(pool_affine_grad, height / 2, width, cp, x + full + c, winners + pooled + c, g + pooled + c,
                     scale + c, shift + c, gain + c, slope + c, offset + c, out.at + n * out.image_pitch + c,
                     out.row_pitch))
    if (height % 2 || width % 2)
        grad_edges(images, height, width, cp, x, slope, offset, out);
}

void mean_forward(int images, int pixels, int cp, const real *x, real *out)
{
    for (int n = 0; n < images; n++)
        BLOCKS(mean, pixels, cp, x + (size_t)n * pixels * cp + c, out + (size_t)n * cp + c)
}

void mean_backward(int images, int pixels, int cp, const real *g, bool fresh, real *out)
{
    for (int n = 0; n < images; n++)
        BLOCKS(mean_back, pixels, cp, g + (size_t)n * cp + c, fresh, out + (size_t)n * pixels * cp + c)
}

void depthwise_forward(int images, int height, int width, int cp, const real *framed, const real *weight_p, real *out)
{
    size_t in_image = (size_t)(height + 2) * (width + 2) * cp, out_image = (size_t)height * width * cp;
    for (int n = 0; n < images; n++)
        BLOCKS(depthwise, height, width, cp, framed + n * in_image + c, weight_p + c, out + n * out_image + c)
}

void depthwise_weights(int images, int height, int width, int cp, const real *framed, const real *g, real *sums)
{
    size_t in_image = (size_t)(height + 2) * (width + 2) * cp, out_image = (size_t)height * width * cp;
    for (int n = 0; n < images; n++)
        BLOCKS(depthwise_back, height, width, cp, framed + n * in_image + c, g + n * out_image + c, sums + c)
}
