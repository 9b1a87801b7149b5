#include "nn/plane.h"

/* a where the mask is set, else 0; and a where it is set, else b. */
#define PICK(m, a)      ((vec4)((m) & (mask4)(a)))
#define CHOOSE(m, a, b) ((vec4)((mask4)(b) ^ (((mask4)(a) ^ (mask4)(b)) & (m))))
#define EVEN(a, b)      __builtin_shufflevector(a, b, 0, 2, 4, 6)
#define ODD(a, b)       __builtin_shufflevector(a, b, 1, 3, 5, 7)

bool plane_fits(int height, int width, int cin, int cout, int kernel)
{
    return kernel == 1 && cin == 3 && cout == 1 && height % 2 == 0 && width % 8 == 0;
}

static inline vec4 load(const real *p)
{
    return *(const vec4 *)p;
}

static inline void store(real *p, vec4 v)
{
    *(vec4 *)p = v;
}

/* The first lane of each of four pixels. */
static inline vec4 first_lanes(const real *p)
{
    return EVEN(EVEN(load(p), load(p + 4)), EVEN(load(p + 8), load(p + 12)));
}

static double total(vec4 v)
{
    return ((double)v[0] + (double)v[1]) + ((double)v[2] + (double)v[3]);
}

void plane_convolve(int pixels, const real *in, const real weight[3], real centre, real *x, double *sum, double *square)
{
    vec4 s = {0}, q = {0};
    for (int p = 0; p < pixels; p += 4, in += 16, x += 4) {
        vec4 a = load(in), b = load(in + 4), c = load(in + 8), d = load(in + 12);
        /* red and blue are the even lanes of two pixels side by side, green is odd */
        vec4 ab = EVEN(a, b), cd = EVEN(c, d);
        vec4 red = EVEN(ab, cd), blue = ODD(ab, cd), green = EVEN(ODD(a, b), ODD(c, d));
        vec4 y = red * weight[0] + green * weight[1] + blue * weight[2], off = y - centre;
        store(x, y);
        s += off;
        q += off * off;
    }
    *sum += total(s);
    *square += total(q);
}

/* The pixels of four pool windows, one vector for each position in the window. */
#define LOAD_WINDOWS(y, x, width)                                                                                      \
    const vec4 y##0 = EVEN(load(x), load((x) + 4)), y##1 = ODD(load(x), load((x) + 4));                                \
    const vec4 y##2 = EVEN(load((x) + (width)), load((x) + (width) + 4));                                              \
    const vec4 y##3 = ODD(load((x) + (width)), load((x) + (width) + 4))

void plane_pool(int height, int width, const real *x, const struct norm *norm, real *winners, struct placing out)
{
    const real a = norm->scale[0], b = norm->shift[0];
    const vec4 zero = {0};
    for (int h = 0; h < height; h += 2, x += width, out.at += out.row_pitch) {
        real *o = out.at;
        for (int w = 0; w < width; w += 8, x += 8, o += 16, winners += 4) {
            LOAD_WINDOWS(y, x, width);
            vec4 z0 = y0 * a + b, z1 = y1 * a + b, z2 = y2 * a + b, z3 = y3 * a + b;
            mask4 right0 = z1 > z0, right1 = z3 > z2;
            vec4 top = CHOOSE(right0, z1, z0), bottom = CHOOSE(right1, z3, z2);
            mask4 low = bottom > top;
            vec4 z = CHOOSE(low, bottom, top), r = z - PICK(z <= zero, z); /* NAN propagates */
            store(winners, CHOOSE(low, CHOOSE(right1, y3, y2), CHOOSE(right0, y1, y0)));
            store(o, __builtin_shufflevector(r, zero, 0, 4, 4, 4));
            store(o + 4, __builtin_shufflevector(r, zero, 1, 4, 4, 4));
            store(o + 8, __builtin_shufflevector(r, zero, 2, 4, 4, 4));
            store(o + 12, __builtin_shufflevector(r, zero, 3, 4, 4, 4));
        }
    }
}

void plane_grad_sums(int windows, const real *winners, const real *g, const struct norm *norm, double *sum,
                     double *moment)
{
    const real a = norm->scale[0], b = norm->shift[0], centre = norm->centre[0];
    vec4 s = {0}, q = {0};
    for (int w = 0; w < windows; w += 4, winners += 4, g += 16) {
        vec4 y = load(winners), v = PICK(y * a + b > (vec4){0}, first_lanes(g));
        s += v;
        q += v * (y - centre);
    }
    *sum += total(s);
    *moment += total(q);
}

void plane_weights(int height, int width, const real *x, const real *winners, const real *g, const struct norm *norm,
                   const real *in, double sums[3])
{
    const real a = norm->scale[0], b = norm->shift[0], gain = norm->gain[0], slope = norm->slope[0];
    const vec4 offset = (vec4){0} + norm->offset[0];
    vec4 s0 = {0}, s1 = {0}, s2 = {0}, s3 = {0}; /* colours, for each position in a window */
    for (int h = 0; h < height; h += 2, x += width, in += 4 * width) {
        const real *below = in + 4 * width;
        for (int w = 0; w < width; w += 8, x += 8, in += 32, below += 32, winners += 4, g += 16) {
            LOAD_WINDOWS(y, x, width);
            vec4 winner = load(winners), v = PICK(winner * a + b > (vec4){0}, first_lanes(g) * gain);
            mask4 at0 = y0 == winner, at1 = y1 == winner, at2 = y2 == winner;
            vec4 d0 = y0 * slope + offset + PICK(at0, v), d1 = y1 * slope + offset + PICK(at1 & ~at0, v);
            vec4 d2 = y2 * slope + offset + PICK(at2 & ~(at0 | at1), v);
            vec4 d3 = y3 * slope + offset + PICK(~(at0 | at1 | at2), v);
            UNROLL for (int i = 0; i < 4; i++)
            {
                s0 += load(in + 8 * i) * d0[i];
                s1 += load(in + 8 * i + 4) * d1[i];
                s2 += load(below + 8 * i) * d2[i];
                s3 += load(below + 8 * i + 4) * d3[i];
            }
        }
    }
    vec4 s = (s0 + s1) + (s2 + s3);
    for (int c = 0; c < 3; c++)
        sums[c] += (double)s[c];
}
