#include "nn/winograd.h"

#include "nn/conv.h"

#if VECTOR == 4
typedef vec4 lanes;
#elif VECTOR == 8
typedef vec8 lanes;
#else
typedef vec16 lanes;
#endif

enum { TILES = 20 }; /* processed at a time: few enough to stay in the L2 cache */

/* With fewer channels the transforms cost as much as the products save. */
bool winograd_fits(int height, int width, int cin, int cout)
{
    return height % 2 == 0 && width % 2 == 0 && cin % 16 == 0 && cout % 16 == 0 && cin >= 32 && cout >= 32 &&
           cin <= WINOGRAD_MAX_CHANNELS && cout <= WINOGRAD_MAX_CHANNELS;
}

/* The matrix product of one point: a 1x1 convolution over tiles. */
static void product_init(struct conv *product, int from, int to, int32_t table[3 * CONV_BLOCK])
{
    conv_init(product, 1, 1, from, to, 1, table);
}

/* g -> G g for the three values of a row or column, with G = (1 0 0, 1/2 1/2 1/2, 1/2 -1/2 1/2, 0 0 1). */
static inline void combine_weight(real u[4], real a, real b, real c)
{
    real outer = (a + c) / 2, inner = b / 2;
    u[0] = a;
    u[1] = outer + inner;
    u[2] = outer - inner;
    u[3] = c;
}

/* G g G^T of one pair of channels; point i goes to out[i * stride]. */
static void transform_weight(const real *g, ptrdiff_t tap_step, real *out, size_t stride)
{
    real half[3][4]; /* [column][row] */
    for (int x = 0; x < 3; x++)
        combine_weight(half[x], g[x * tap_step], g[(3 + x) * tap_step], g[(6 + x) * tap_step]);
    for (int y = 0; y < 4; y++) {
        real u[4];
        combine_weight(u, half[0][y], half[1][y], half[2][y]);
        for (int x = 0; x < 4; x++)
            out[(size_t)(4 * y + x) * stride] = u[x];
    }
}

void winograd_pack(int from, int to, struct winograd_weights weights, real *packed)
{
    int32_t table[3 * CONV_BLOCK];
    struct conv product;
    real matrices[WINOGRAD_POINTS * WINOGRAD_MAX_CHANNELS * WINOGRAD_MAX_CHANNELS]; /* [point][to][from] */
    size_t size = (size_t)from * to;
    product_init(&product, from, to, table);
    for (int n = 0; n < to; n++)
        for (int c = 0; c < from; c++)
            transform_weight(weights.first + n * weights.to_step + c * weights.from_step, weights.tap_step,
                             matrices + (size_t)n * from + c, size);
    for (int point = 0; point < WINOGRAD_POINTS; point++)
        conv_pack_forward(&product, matrices + point * size, packed + point * size);
}

#define COMBINE_INPUT(t, d)                                                                                            \
    do {                                                                                                               \
        (t)[0] = (d)[0] - (d)[2];                                                                                      \
        (t)[1] = (d)[1] + (d)[2];                                                                                      \
        (t)[2] = (d)[2] - (d)[1];                                                                                      \
        (t)[3] = (d)[1] - (d)[3];                                                                                      \
    } while (0)

/* B^T d B of the 4x4 window at `window`, into the sixteen points' rows. */
static void transform_input(const real *window, size_t pitch, int from, real *points, size_t point_stride)
{
    for (int c = 0; c < from; c += VECTOR) {
        lanes t[4][4]; /* [column][row] after the first half */
        UNROLL for (int x = 0; x < 4; x++)
        {
            lanes d[4];
            UNROLL for (int y = 0; y < 4; y++) d[y] = *(const lanes *)(window + y * pitch + (size_t)x * from + c);
            COMBINE_INPUT(t[x], d);
        }
        UNROLL for (int y = 0; y < 4; y++)
        {
            lanes d[4] = {t[0][y], t[1][y], t[2][y], t[3][y]}, v[4];
            COMBINE_INPUT(v, d);
            UNROLL for (int x = 0; x < 4; x++) * (lanes *)(points + (size_t)(4 * y + x) * point_stride + c) = v[x];
        }
    }
}

/* A^T m A of a tile's sixteen points, into its 2x2 pixels. */
static void transform_output(const real *points, size_t point_stride, int to, real *out, size_t pitch)
{
    for (int c = 0; c < to; c += VECTOR) {
        lanes t[4][2]; /* [row][column] after the first half */
        UNROLL for (int y = 0; y < 4; y++)
        {
            lanes m[4];
            UNROLL for (int x = 0; x < 4; x++) m[x] = *(const lanes *)(points + (size_t)(4 * y + x) * point_stride + c);
            t[y][0] = m[0] + m[1] + m[2];
            t[y][1] = m[1] - m[2] - m[3];
        }
        UNROLL for (int x = 0; x < 2; x++)
        {
            *(lanes *)(out + (size_t)x * to + c) = t[0][x] + t[1][x] + t[2][x];
            *(lanes *)(out + pitch + (size_t)x * to + c) = t[1][x] - t[2][x] - t[3][x];
        }
    }
}

void winograd_run(int images, int height, int width, int from, int to, const real *in, const real *packed, real *out)
{
    real inputs[WINOGRAD_POINTS * TILES * WINOGRAD_MAX_CHANNELS],
        outputs[WINOGRAD_POINTS * TILES * WINOGRAD_MAX_CHANNELS];
    int32_t table[3 * CONV_BLOCK];
    struct conv product;
    product_init(&product, from, to, table);
    size_t in_pitch = (size_t)(width + 2) * from, out_pitch = (size_t)width * to;
    size_t in_image = (size_t)(height + 2) * in_pitch, out_image = (size_t)height * out_pitch;
    int across = width / 2, per_image = across * (height / 2), total = images * per_image;
    for (int first = 0; first < total; first += TILES) {
        int count = total - first < TILES ? total - first : TILES;
        for (int t = 0; t < count; t++) {
            int image = (first + t) / per_image, y = (first + t) % per_image / across, x = (first + t) % across;
            transform_input(in + image * in_image + (size_t)(2 * y) * in_pitch + (size_t)(2 * x) * from, in_pitch, from,
                            inputs + (size_t)t * from, (size_t)TILES * from);
        }
        for (int point = 0; point < WINOGRAD_POINTS; point++)
            conv_forward(&product, count, inputs + (size_t)point * TILES * from, packed + (size_t)point * from * to,
                         outputs + (size_t)point * TILES * to);
        for (int t = 0; t < count; t++) {
            int image = (first + t) / per_image, y = (first + t) % per_image / across, x = (first + t) % across;
            transform_output(outputs + (size_t)t * to, (size_t)TILES * to, to,
                             out + image * out_image + (size_t)(2 * y) * out_pitch + (size_t)(2 * x) * to, out_pitch);
        }
    }
}
