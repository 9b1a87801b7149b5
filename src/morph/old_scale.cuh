/* Seeds that rescale what they see, and the gate net, on a tile: the device's seed_scale.c. */
#ifndef MORPH_OLD_SEED_SCALE_CUH
#define MORPH_OLD_SEED_SCALE_CUH

#include "morph/old_tile.cuh"

DEVICE float seed_sigmoid(float x)
{
    return 1.0f / (1.0f + expf(-x));
}

/* ---- norm: s = x + tanh(sigma) (GN(x) - x) ----------------------------------------------------------------------- */

template <class T> struct seed_rescale {
    static constexpr bool RESIDUAL = false, RELU = false;
    static constexpr int C = T::C, BETA = T::AT::VECTOR, SIGMA = 2 * T::AT::VECTOR;
    using MAP = typename T::MAP;
    T &t;
    float mix, dgamma, dbeta, dsigma;

    DEVICE_MEMBER seed_rescale(T &tile) : t(tile)
    {
    }
    DEVICE_MEMBER uint32_t z() const
    {
        return t.x;
    }
    DEVICE_MEMBER uint32_t u() const
    {
        return t.b1;
    }
    DEVICE_MEMBER uint32_t dx() const
    {
        return t.b2;
    }
    /* The output's coefficients, apart from the norm's own. */
    DEVICE_MEMBER typename T::NORM norm() const
    {
        return typename T::NORM(t.norms[1]);
    }
    DEVICE_MEMBER typename T::NORM inner() const
    {
        return typename T::NORM(t.norms[0]);
    }

    DEVICE_MEMBER void prepare()
    {
        t.vector(0, 0);
        t.vector(1, BETA);
    }
    DEVICE_MEMBER void clear()
    {
        dgamma = dbeta = dsigma = 0;
    }
    DEVICE_MEMBER void forward()
    {
        const int k = (int)threadIdx.x;
        mix = tanhf(t.w[SIGMA]);
        inner().forward(t.x, t.vectors, t.vectors + C, t.part);
        if (k < T::NORM::COUNT) {
            norm().scale[k] = fmaf(mix, inner().scale[k] - 1.0f, 1.0f);
            norm().shift[k] = mix * inner().shift[k];
        }
        __syncthreads();
    }
    DEVICE_MEMBER void backward(bool)
    {
        const float2 sums = inner().backward(t.x, t.b1, false, t.vectors, t.part);
        const int k = (int)threadIdx.x;
        if (k < T::NORM::COUNT) {
            const float r = inner().rstd[k], plain = sums.x / r + inner().mean[k] * sums.y; /* sum of u x */
            const float normed = fmaf(t.vectors[k % C], sums.x, t.vectors[C + k % C] * sums.y);
            dgamma = fmaf(mix, sums.x, dgamma);
            dbeta = fmaf(mix, sums.y, dbeta);
            dsigma = fmaf(1.0f - mix * mix, normed - plain, dsigma);
        }
        if constexpr (T::DEEPER) {
            tile_own<MAP> own;
            float a[8], b[8], c[8];
            tile_coefficients(a, inner().gain + own.channel());
            tile_coefficients(b, inner().slope + own.channel());
            tile_coefficients(c, inner().offset + own.channel());
            own.each([&](uint32_t cell, int) INLINED {
                float x[8], v[8];
                tile_load(x, t.x + cell);
                tile_load(v, t.b1 + cell);
#pragma unroll
                for (int i = 0; i < 8; i++)
                    v[i] = fmaf(mix, fmaf(x[i], b[i], c[i]), fmaf(mix, a[i] - 1.0f, 1.0f) * v[i]);
                tile_store(t.b2 + cell, v);
            });
        }
        __syncthreads();
    }
    DEVICE_MEMBER void finish(float *out)
    {
        tile_over_images<MAP>(dgamma, t.part, out);
        tile_over_images<MAP>(dbeta, t.part, out + BETA);
        tile_over_images<MAP>(dsigma, t.part, t.small);
        __syncthreads();
        if (threadIdx.x == 0) {
            float sum = 0;
            for (int k = 0; k < C; k++)
                sum += t.small[k];
            out[SIGMA] = sum;
        }
    }
};

/* ---- attention: s = x sigmoid(W2 relu(W1 mean(x)) + b2) ---------------------------------------------------------- */

template <class T> struct seed_attention {
    static constexpr bool RESIDUAL = false, RELU = false;
    static constexpr int C = T::C, H = T::AT::SQUEEZE, W_2 = T::AT::SE_2, BIAS = T::AT::SE_BIAS, IMAGES = T::IMAGES;
    static constexpr int EACH = (H * C + TILE_THREADS - 1) / TILE_THREADS; /* weights of a thread */
    using MAP = typename T::MAP;
    T &t;
    float d1[EACH], d2[EACH], dbias;

    DEVICE_MEMBER seed_attention(T &tile) : t(tile)
    {
    }
    DEVICE_MEMBER uint32_t z() const
    {
        return t.x;
    }
    DEVICE_MEMBER uint32_t u() const
    {
        return t.b1;
    }
    DEVICE_MEMBER uint32_t dx() const
    {
        return t.b2;
    }
    DEVICE_MEMBER typename T::NORM norm() const
    {
        return typename T::NORM(t.norms[0]);
    }
    /* [image][...]: mean of the input, hidden layer, gradients at the output and at the hidden layer */
    DEVICE_MEMBER float *mean() const
    {
        return t.small;
    }
    DEVICE_MEMBER float *hidden() const
    {
        return t.small + IMAGES * C;
    }
    DEVICE_MEMBER float *dout() const
    {
        return t.small + 2 * IMAGES * C;
    }
    DEVICE_MEMBER float *dhidden() const
    {
        return t.small + 3 * IMAGES * C;
    }

    DEVICE_MEMBER void prepare()
    {
    }
    DEVICE_MEMBER void clear()
    {
#pragma unroll
        for (int k = 0; k < EACH; k++)
            d1[k] = d2[k] = 0;
        dbias = 0;
    }
    DEVICE_MEMBER void forward()
    {
        const int k = (int)threadIdx.x;
        t.means(t.x, mean());
        if (k < IMAGES * H) {
            float sum = 0;
            for (int i = 0; i < C; i++)
                sum = fmaf(t.w[k % H * C + i], mean()[k / H * C + i], sum);
            hidden()[k] = sum > 0 ? sum : 0;
        }
        __syncthreads();
        if (k < IMAGES * C) {
            float sum = t.w[BIAS + k % C];
            for (int i = 0; i < H; i++)
                sum = fmaf(t.w[W_2 + k % C * H + i], hidden()[k / C * H + i], sum);
            norm().scale[k] = seed_sigmoid(sum);
            norm().shift[k] = 0;
        }
        __syncthreads();
    }
    DEVICE_MEMBER void backward(bool)
    {
        const int k = (int)threadIdx.x;
        tile_sums<MAP>(t.part, [&](uint32_t cell, float *v) INLINED {
            float x[8], g[8];
            tile_load(x, t.x + cell);
            tile_load(g, t.b1 + cell);
#pragma unroll
            for (int i = 0; i < 8; i++)
                v[i] = fmaf(x[i], g[i], v[i]);
        });
        __syncthreads();
        if (k < IMAGES * C) {
            const float e = norm().scale[k];
            dout()[k] = tile_total<MAP>(t.part, k / C, k % C, 0) * e * (1.0f - e);
        }
        __syncthreads();
        if (k < IMAGES * H) {
            float sum = 0;
            for (int o = 0; o < C; o++)
                sum = fmaf(t.w[W_2 + o * H + k % H], dout()[k / H * C + o], sum);
            dhidden()[k] = hidden()[k] > 0 ? sum : 0;
        }
        __syncthreads();
#pragma unroll
        for (int j = 0; j < EACH; j++) {
            const int e = j * TILE_THREADS + k;
            if (e < H * C)
                for (int n = 0; n < IMAGES; n++) {
                    d1[j] = fmaf(dhidden()[n * H + e / C], mean()[n * C + e % C], d1[j]);
                    d2[j] = fmaf(dout()[n * C + e / H], hidden()[n * H + e % H], d2[j]);
                }
        }
        if (k < IMAGES * C) {
            dbias += dout()[k];
            float sum = 0;
            for (int o = 0; o < H; o++)
                sum = fmaf(t.w[o * C + k % C], dhidden()[k / C * H + o], sum);
            norm().offset[k] = sum * (1.0f / (float)MAP::AREA);
        }
        __syncthreads();
        if constexpr (T::DEEPER) {
            tile_own<MAP> own;
            float a[8], c[8];
            tile_coefficients(a, norm().scale + own.channel());
            tile_coefficients(c, norm().offset + own.channel());
            own.each([&](uint32_t cell, int) INLINED {
                float v[8];
                tile_load(v, t.b1 + cell);
#pragma unroll
                for (int i = 0; i < 8; i++)
                    v[i] = fmaf(v[i], a[i], c[i]);
                tile_store(t.b2 + cell, v);
            });
        }
        __syncthreads();
    }
    DEVICE_MEMBER void finish(float *out)
    {
#pragma unroll
        for (int j = 0; j < EACH; j++) {
            const int e = j * TILE_THREADS + (int)threadIdx.x;
            if (e < H * C) {
                out[e] = d1[j];
                out[W_2 + e] = d2[j];
            }
        }
        tile_over_images<MAP>(dbias, t.part, out + BIAS);
    }
};

/* ---- the gate net: q = sigmoid(w2 relu(W1 mean(x) + b1) + b2), one number per image ------------------------------ */

template <class T> struct seed_gate {
    static constexpr int C = T::C, H = T::AT::NECK, IMAGES = T::IMAGES;
    static constexpr int EACH = (H * C + TILE_THREADS - 1) / TILE_THREADS;
    T &t;
    const float *w;
    float d1[EACH], dvector, dbias; /* dvector: of b1, of w2, by the threads 0.. and H.. */

    DEVICE_MEMBER seed_gate(T &tile) : t(tile), w(nullptr)
    {
    }
    DEVICE_MEMBER float *mean() const
    {
        return t.gate;
    }
    DEVICE_MEMBER float *hidden() const
    {
        return t.gate + IMAGES * C;
    }
    DEVICE_MEMBER float *dhidden() const
    {
        return t.gate + 2 * IMAGES * C;
    }
    DEVICE_MEMBER float *q() const
    {
        return t.gate + 3 * IMAGES * C;
    }
    DEVICE_MEMBER float *dout() const
    {
        return q() + IMAGES;
    }
    DEVICE_MEMBER float *dq() const
    {
        return q() + 2 * IMAGES;
    } /* the gradient of q */
    DEVICE_MEMBER float *input() const
    {
        return t.gate + 4 * IMAGES * C;
    } /* what every pixel of the input gets */
    static_assert(H <= C && 3 <= C, "the arrays fit");

    DEVICE_MEMBER void clear()
    {
#pragma unroll
        for (int j = 0; j < EACH; j++)
            d1[j] = 0;
        dvector = dbias = 0;
    }
    DEVICE_MEMBER void forward()
    {
        const int k = (int)threadIdx.x;
        t.means(t.x, mean());
        if (k < IMAGES * H) {
            float sum = w[T::AT::GATE_B1 + k % H];
            for (int i = 0; i < C; i++)
                sum = fmaf(w[k % H * C + i], mean()[k / H * C + i], sum);
            hidden()[k] = sum > 0 ? sum : 0;
        }
        __syncthreads();
        if (k < IMAGES) {
            float sum = w[T::AT::GATE_B2];
            for (int i = 0; i < H; i++)
                sum = fmaf(w[T::AT::GATE_W2 + i], hidden()[k * H + i], sum);
            q()[k] = seed_sigmoid(sum);
        }
        __syncthreads();
    }
    /* From dq() to the parameters and input(). */
    DEVICE_MEMBER void backward()
    {
        const int k = (int)threadIdx.x;
        if (k < IMAGES) {
            const float v = q()[k];
            dout()[k] = dq()[k] * v * (1.0f - v);
        }
        __syncthreads();
        if (k < IMAGES * H)
            dhidden()[k] = hidden()[k] > 0 ? w[T::AT::GATE_W2 + k % H] * dout()[k / H] : 0;
        __syncthreads();
#pragma unroll
        for (int j = 0; j < EACH; j++) {
            const int e = j * TILE_THREADS + k;
            if (e < H * C)
                for (int n = 0; n < IMAGES; n++)
                    d1[j] = fmaf(dhidden()[n * H + e / C], mean()[n * C + e % C], d1[j]);
        }
        for (int n = 0; n < IMAGES; n++) {
            if (k < H)
                dvector += dhidden()[n * H + k];
            else if (k < 2 * H)
                dvector = fmaf(dout()[n], hidden()[n * H + k - H], dvector);
            else if (k == 2 * H)
                dbias += dout()[n];
        }
        if (k < IMAGES * C) {
            float sum = 0;
            for (int o = 0; o < H; o++)
                sum = fmaf(w[o * C + k % C], dhidden()[k / C * H + o], sum);
            input()[k] = sum * (1.0f / (float)T::MAP::AREA);
        }
        __syncthreads();
    }
    DEVICE_MEMBER void finish(float *out)
    {
        const int k = (int)threadIdx.x;
#pragma unroll
        for (int j = 0; j < EACH; j++)
            if (j * TILE_THREADS + k < H * C)
                out[j * TILE_THREADS + k] = d1[j];
        if (k < H)
            out[T::AT::GATE_B1 + k] = dvector;
        else if (k < 2 * H)
            out[T::AT::GATE_W2 + k - H] = dvector;
        else if (k == 2 * H)
            out[T::AT::GATE_B2] = dbias;
    }
};

#endif
