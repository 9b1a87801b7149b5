#include "nn/flat.h"

#include <math.h>
#include <string.h>

#include "nn/adam.h"

void relu_forward(size_t count, const real *restrict x, real *restrict out)
{
    for (size_t i = 0; i < count; i++)
        out[i] = x[i] <= 0 ? 0 : x[i]; /* NAN propagates */
}

void relu_backward(size_t count, const real *restrict x, const real *restrict g, real *restrict out)
{
    for (size_t i = 0; i < count; i++) {
        real v = g[i]; /* read unconditionally, so that the loop vectorises */
        out[i] = x[i] > 0 ? v : 0;
    }
}

void add_into(size_t count, const real *restrict x, real *restrict out)
{
    for (size_t i = 0; i < count; i++)
        out[i] += x[i];
}

void subtract_from(size_t count, const real *restrict x, real *restrict out)
{
    for (size_t i = 0; i < count; i++)
        out[i] -= x[i];
}

/* ---- blend ------------------------------------------------------------------------------------------------------ */

void blend_add_forward(size_t count, const real *restrict h, const real *restrict s, real a, real *restrict y)
{
    if (a == 0) {
        memcpy(y, h, sizeof(real) * count);
    } else if (a < (real)0.5) {
        for (size_t i = 0; i < count; i++)
            y[i] = h[i] + a * (s[i] - h[i]);
    } else {
        for (size_t i = 0; i < count; i++)
            y[i] = s[i] - (s[i] - h[i]) * (1 - a);
    }
}

void blend_add_backward(size_t count, const real *restrict g, real a, real *restrict dh, real *restrict ds)
{
    for (size_t i = 0; i < count; i++) {
        dh[i] = (1 - a) * g[i];
        ds[i] = a * g[i];
    }
}

/*
 * exp(x) for x <= 0 by range reduction and a Taylor polynomial, as a loop body the compiler can vectorise; libm's tanh
 * costs as much as a convolution. Accurate to a few units in the last place.
 */
static inline real exp_negative(real x)
{
    const bool wide = sizeof(real) == 8;
    const real lowest = wide ? -700 : -87, log2e = (real)1.44269504088896340736;
    const real ln2_high = wide ? (real)6.93147180369123816490e-01 : (real)0.693145751953125;
    const real ln2_low = wide ? (real)1.90821492927058770002e-10 : (real)1.42860682030941723212e-6;
    x = x > lowest ? x : lowest;
    real n = wide ? (real)__builtin_rint((double)(x * log2e)) : (real)__builtin_rintf((float)(x * log2e));
    real r = (x - n * ln2_high) - n * ln2_low;
    real p = 1;
    UNROLL for (int k = wide ? 13 : 7; k >= 1; k--) p = 1 + p * r * ((real)1 / (real)k);
    union {
        real_bits i;
        real f;
    } scale = {.i = ((real_bits)n + (wide ? 1023 : 127)) << (wide ? 52 : 23)};
    return p * scale.f;
}

static inline real tanh_fast(real x)
{
    real magnitude = x < 0 ? -x : x, e = exp_negative(-2 * magnitude), t = (1 - e) / (1 + e);
    return x < 0 ? -t : x != x ? x : t;
}

void blend_multiply_forward(size_t count, const real *restrict h, const real *restrict s, real a, real *restrict y)
{
    if (a == 0) {
        memcpy(y, h, sizeof(real) * count);
        return;
    }
    for (size_t i = 0; i < count; i++)
        y[i] = h[i] * (1 + a * tanh_fast(s[i] - h[i]));
}

void blend_multiply_backward(size_t count, const real *restrict h, const real *restrict s, const real *restrict g,
                             real a, real *restrict dh, real *restrict ds)
{
    if (a == 0) {
        memcpy(dh, g, sizeof(real) * count);
        memset(ds, 0, sizeof(real) * count);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        real t = tanh_fast(s[i] - h[i]);
        dh[i] = g[i] * (1 + a * t);
        ds[i] = g[i] * h[i] * (a * (1 - t * t));
    }
}

real blend_amplitude_grad(size_t count, const real *restrict h, const real *restrict s, const real *restrict g)
{
    enum { STREAMS = 16 }; /* fixed partial sums: the order of addition is part of the result */
    real part[STREAMS] = {0};
    double total = 0;
    size_t i = 0;
    for (; i + STREAMS <= count; i += STREAMS)
        for (size_t k = 0; k < STREAMS; k++)
            part[k] += g[i + k] * (s[i + k] - h[i + k]);
    for (; i < count; i++)
        total += (double)(g[i] * (s[i] - h[i]));
    for (size_t k = 0; k < STREAMS; k++)
        total += (double)part[k];
    return (real)total;
}

/* ---- loss ------------------------------------------------------------------------------------------------------- */

void cross_entropy(int rows, int classes, int stride, const real *logits, const uint16_t *labels, real *dlogits,
                   struct loss_sums *sums)
{
    for (int r = 0; r < rows; r++, logits += stride) {
        int best = 0;
        for (int k = 1; k < classes; k++)
            if (logits[k] > logits[best])
                best = k;
        sums->correct += best == labels[r];

        double total = 0, weight[LOSS_CLASSES];
        for (int k = 0; k < classes; k++)
            total += weight[k] = exp((double)logits[k] - (double)logits[best]);
        /* cppcheck-suppress invalidFunctionArg ; the largest logit alone adds 1 to the total */
        sums->loss += log(total) + (double)logits[best] - (double)logits[labels[r]];
        if (dlogits) {
            for (int k = 0; k < stride; k++)
                dlogits[k] = k < classes ? (real)((weight[k] / total - (k == labels[r])) / rows) : 0;
            dlogits += stride;
        }
    }
}

/* ---- optimiser -------------------------------------------------------------------------------------------------- */

double square_norm(size_t count, const real *g)
{
    enum { STREAMS = 8 };
    double part[STREAMS] = {0}, total = 0;
    size_t i = 0;
    for (; i + STREAMS <= count; i += STREAMS)
        for (size_t k = 0; k < STREAMS; k++)
            part[k] += (double)g[i + k] * (double)g[i + k];
    for (; i < count; i++)
        total += (double)g[i] * (double)g[i];
    for (size_t k = 0; k < STREAMS; k++)
        total += part[k];
    return total;
}

static void sgd_step(const struct optimiser *sgd, size_t count, real factor, const real *restrict g, real *restrict w,
                     real *restrict m)
{
    for (size_t i = 0; i < count; i++) {
        m[i] = sgd->momentum * m[i] + (factor * g[i] + sgd->weight_decay * w[i]);
        w[i] -= sgd->lr * m[i];
    }
}

/* The decay is decoupled from the gradient: the parameters shrink by lr * decay before the step of Adam. */
static void adamw_step(const struct optimiser *o, size_t count, uint32_t update, real factor, const real *g, real *w,
                       real *m, real *v)
{
    const struct adam adam = {(double)o->lr, (double)o->momentum, (double)o->second, (double)o->epsilon, update};
    if (o->weight_decay > 0) {
        const real keep = 1 - o->lr * o->weight_decay;
        for (size_t i = 0; i < count; i++)
            w[i] *= keep;
    }
    adam_step(&adam, count, factor, g, w, m, v);
}

void optimiser_step(const struct optimiser *optimiser, size_t count, uint32_t update, real factor, const real *g,
                    struct optimiser_piece piece)
{
    if (optimiser->kind == OPTIMISER_ADAMW)
        adamw_step(optimiser, count, update, factor, g, piece.w, piece.first, piece.second);
    else
        sgd_step(optimiser, count, factor, g, piece.w, piece.first);
}
