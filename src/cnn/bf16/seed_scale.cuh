/* Seeds that rescale their input, and the gate net, on a tile: the device's counterpart of seed_scale.c. */
#ifndef CNN_BF16_SEED_SCALE_CUH
#define CNN_BF16_SEED_SCALE_CUH

#include "cnn/bf16/seed_tile.cuh"

DEVICE float seed_sigmoid(float x)
{
    return 1.0f / (1.0f + expf(-x));
}

/* ---- noop, or a seed of which nothing is in the output: d = 0 ------------------------------------------------------
 */

template <class T> struct seed_nothing {
    using MAP = typename T::MAP;
    using PATCH = typename T::PATCH;

    DEVICE_MEMBER seed_nothing(T &)
    {
    }
    DEVICE_MEMBER void prepare()
    {
    }
    DEVICE_MEMBER void clear()
    {
    }
    DEVICE_MEMBER void forward(const PATCH &)
    {
    }
    DEVICE_MEMBER PATCH output(const PATCH &) const
    {
        PATCH d;
        patch_each<MAP>([&](int m, int n, int h) INLINED { d.pair[m][n][h] = 0; });
        return d;
    }
    DEVICE_MEMBER void backward(const PATCH &, PATCH &u, float, bool)
    {
        u = output(u);
    }
    DEVICE_MEMBER PATCH input(const PATCH &x) const
    {
        return x;
    }
    DEVICE_MEMBER void leave()
    {
    }
    DEVICE_MEMBER void gather(float *) const
    {
    }
};

/* ---- norm: d = tanh(sigma) (GN(x) - x) --------------------------------------------------------------------------- */

template <class T> struct seed_rescale {
    static constexpr int C = T::C, BETA = T::AT::VECTOR, SIGMA = 2 * T::AT::VECTOR;
    using MAP = typename T::MAP;
    using PATCH = typename T::PATCH;
    T &t;
    patch_norm<MAP> norm;
    patch_channels<MAP> dgamma, dbeta;
    float dsigma;

    DEVICE_MEMBER seed_rescale(T &tile) : t(tile)
    {
    }
    DEVICE_MEMBER void prepare()
    {
        t.vector(0, 0);
        t.vector(1, BETA);
        if (threadIdx.x == TILE_THREADS - 1)
            t.vectors[2 * C] = tanhf(t.w[SIGMA]);
    }
    DEVICE_MEMBER float share() const /* of the normalised input */
    {
        return t.vectors[2 * C];
    }
    DEVICE_MEMBER void clear()
    {
        dgamma.clear();
        dbeta.clear();
        dsigma = 0;
    }
    DEVICE_MEMBER void forward(const PATCH &x)
    {
        patch_moments<MAP> moments;
        patch_each<MAP>([&](int m, int n, int h)
                            INLINED { moments.add(n, bf16_lo(x.pair[m][n][h]), bf16_hi(x.pair[m][n][h])); });
        norm.forward(t.team, moments.sums);
    }
    DEVICE_MEMBER PATCH output(const PATCH &x) const
    {
        PATCH d;
        const float mix = share();
        const patch_affine<MAP> c = t.affine(norm, 0);
        patch_each<MAP>([&](int m, int n, int h) INLINED {
            const float2 v = pair_floats(x.pair[m][n][h]), s = c.of(n, x.pair[m][n][h]);
            d.pair[m][n][h] = pack_bf16(mix * (s.x - v.x), mix * (s.y - v.y));
        });
        return d;
    }
    DEVICE_MEMBER void backward(const PATCH &x, PATCH &u, float factor, bool)
    {
        const patch_affine<MAP> c = t.affine(norm, 0);
        const float mix = share();
        float of_mix = 0;
        patch_each<MAP>([&](int m, int n, int h) INLINED {
            const float2 v = pair_floats(x.pair[m][n][h]), s = c.of(n, x.pair[m][n][h]),
                         g = pair_floats(u.pair[m][n][h]);
            of_mix = fmaf(g.x, s.x - v.x, fmaf(g.y, s.y - v.y, of_mix));
        });
        dsigma = fmaf(factor * (1.0f - mix * mix), of_mix, dsigma);
        norm.backward(
            t.team, x, u, factor, t.vectors,
            [&](float *of_gamma, float *of_beta) INLINED {
#pragma unroll
                for (int i = 0; i < 2 * PATCH::N; i++) {
                    of_gamma[i] *= mix;
                    of_beta[i] *= mix;
                }
                dgamma.add(of_gamma);
                dbeta.add(of_beta);
            },
            [&](float through, float g) INLINED { return mix * fmaf(-factor, g, through); });
    }
    DEVICE_MEMBER PATCH input(const PATCH &x) const
    {
        return x;
    }
    DEVICE_MEMBER void leave()
    {
        dgamma.leave(t.channel_scratch(0));
        dbeta.leave(t.channel_scratch(1));
        float sum = dsigma;
#pragma unroll
        for (int mask = 16; mask > 0; mask /= 2)
            sum += exchange(sum, mask);
        if (t.at.lane == 0)
            t.scratch[t.at.warp] = sum;
    }
    DEVICE_MEMBER void gather(float *out) const
    {
        patch_channels<MAP>::gather(t.channel_scratch(0), out, 0);
        patch_channels<MAP>::gather(t.channel_scratch(1), out + BETA, 1);
        if (threadIdx.x == TILE_THREADS - 1) {
            float sum = 0;
            for (int i = 0; i < TILE_WARPS; i++)
                sum += t.scratch[i];
            out[SIGMA] = sum;
        }
    }
};

/* ---- attention: d = x (sigmoid(W2 relu(W1 mean(x)) + b2) - 1) ---------------------------------------------------- */

template <class T> struct seed_attention {
    static constexpr int C = T::C, H = T::AT::SQUEEZE, W_2 = T::AT::SE_2, BIAS = T::AT::SE_BIAS, IMAGES = T::IMAGES;
    static constexpr int EACH = (H * C + TILE_THREADS - 1) / TILE_THREADS; /* weights of a thread */
    using MAP = typename T::MAP;
    using PATCH = typename T::PATCH;
    T &t;
    float d1[EACH], d2[EACH], dbias;

    DEVICE_MEMBER seed_attention(T &tile) : t(tile)
    {
    }
    /* [image][...]: mean of the input, hidden layer, gradients at the output and at the hidden layer, sigmoid, and the
     * gradient of every input pixel */
    DEVICE_MEMBER float *array(int number) const
    {
        return t.small + number * IMAGES * C;
    }
    DEVICE_MEMBER float *mean() const
    {
        return array(0);
    }
    DEVICE_MEMBER float *hidden() const
    {
        return array(1);
    }
    DEVICE_MEMBER float *dout() const
    {
        return array(2);
    }
    DEVICE_MEMBER float *dhidden() const
    {
        return array(3);
    }
    DEVICE_MEMBER float *excite() const
    {
        return array(4);
    }
    DEVICE_MEMBER float *input() const
    {
        return array(5);
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
    DEVICE_MEMBER void forward(const PATCH &x)
    {
        const int k = (int)threadIdx.x;
        t.means(x, mean());
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
            excite()[k] = seed_sigmoid(sum);
        }
        __syncthreads();
    }
    DEVICE_MEMBER PATCH output(const PATCH &x) const
    {
        PATCH d;
        patch_each<MAP>([&](int m, int n, int h) INLINED {
            const float2 v = pair_floats(x.pair[m][n][h]), e = t.own(excite(), n);
            d.pair[m][n][h] = pack_bf16(v.x * (e.x - 1.0f), v.y * (e.y - 1.0f));
        });
        return d;
    }
    DEVICE_MEMBER void backward(const PATCH &x, PATCH &u, float factor, bool)
    {
        const int k = (int)threadIdx.x;
        float sums[2 * PATCH::N];
#pragma unroll
        for (int i = 0; i < 2 * PATCH::N; i++)
            sums[i] = 0;
        patch_each<MAP>([&](int m, int n, int h) INLINED {
            const float2 v = pair_floats(x.pair[m][n][h]), g = pair_floats(u.pair[m][n][h]);
            sums[2 * n] = fmaf(v.x, g.x, sums[2 * n]);
            sums[2 * n + 1] = fmaf(v.y, g.y, sums[2 * n + 1]);
        });
#pragma unroll
        for (int i = 0; i < 2 * PATCH::N; i++)
            sums[i] *= factor; /* of the thread's own image */
        t.image_sums(sums, 1.0f, dout());
        if (k < IMAGES * C) {
            const float e = excite()[k];
            dout()[k] *= e * (1.0f - e);
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
            input()[k] = sum * (1.0f / (float)MAP::AREA);
        }
        __syncthreads();
        if constexpr (T::DEEPER)
            patch_each<MAP>([&](int m, int n, int h) INLINED {
                const float2 g = pair_floats(u.pair[m][n][h]), e = t.own(excite(), n), more = t.own(input(), n);
                u.pair[m][n][h] =
                    pack_bf16(fmaf(g.x, factor * (e.x - 1.0f), more.x), fmaf(g.y, factor * (e.y - 1.0f), more.y));
            });
    }
    DEVICE_MEMBER PATCH input(const PATCH &x) const
    {
        return x;
    }
    DEVICE_MEMBER void leave()
    {
        if ((int)threadIdx.x < IMAGES * C)
            t.scratch[threadIdx.x] = dbias;
    }
    DEVICE_MEMBER void gather(float *out) const
    {
        const int k = (int)threadIdx.x;
#pragma unroll
        for (int j = 0; j < EACH; j++) {
            const int e = j * TILE_THREADS + k;
            if (e < H * C) {
                out[e] = d1[j];
                out[W_2 + e] = d2[j];
            }
        }
        if (k < C) {
            float sum = 0;
            for (int image = 0; image < IMAGES; image++)
                sum += t.scratch[image * C + k];
            out[BIAS + k] = sum;
        }
    }
};

/* ---- the gate net: q = sigmoid(w2 relu(W1 mean(x) + b1) + b2), one number per image ------------------------------ */

template <class T> struct seed_gate {
    static constexpr int C = T::C, H = T::AT::NECK, IMAGES = T::IMAGES, PARAMETERS = H * C + 2 * H + 1;
    static_assert(H <= C && 2 <= C, "the arrays fit");
    static_assert(H * C <= TILE_THREADS && PARAMETERS <= T::GATE_PARAMETERS, "a thread has one weight of W1");
    T &t;
    const float *w;

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
    DEVICE_MEMBER float *input() const /* the gradient of every input pixel */
    {
        return t.gate + 4 * IMAGES * C;
    }
    /*
     * The job's gradients of W1, b1, w2, b2, each summed by one thread. Not in registers: they would be lost to every
     * job, and few have a gate net.
     */
    DEVICE_MEMBER float *sums() const
    {
        return t.gate + 5 * IMAGES * C;
    }

    DEVICE_MEMBER void clear()
    {
        for (int k = (int)threadIdx.x; k < PARAMETERS; k += TILE_THREADS)
            sums()[k] = 0;
    }
    DEVICE_MEMBER void forward(const typename T::PATCH &x)
    {
        const int k = (int)threadIdx.x;
        t.means(x, mean());
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
    /* From the gradient of q, for the thread's image, to the parameters and input(). */
    DEVICE_MEMBER void backward(float dq)
    {
        const int k = (int)threadIdx.x;
        if (k % (TILE_THREADS / IMAGES) == 0) {
            const float v = q()[t.at.image];
            dout()[t.at.image] = dq * v * (1.0f - v);
        }
        __syncthreads();
        if (k < IMAGES * H)
            dhidden()[k] = hidden()[k] > 0 ? w[T::AT::GATE_W2 + k % H] * dout()[k / H] : 0;
        __syncthreads();
        if (k < H * C) {
            float sum = sums()[k];
            for (int n = 0; n < IMAGES; n++)
                sum = fmaf(dhidden()[n * H + k / C], mean()[n * C + k % C], sum);
            sums()[k] = sum;
        }
        if (k < 2 * H + 1) { /* b1, w2, b2 */
            float sum = sums()[H * C + k];
            for (int n = 0; n < IMAGES; n++)
                sum = k < H       ? sum + dhidden()[n * H + k]
                      : k < 2 * H ? fmaf(dout()[n], hidden()[n * H + k - H], sum)
                                  : sum + dout()[n];
            sums()[H * C + k] = sum;
        }
        if (k < IMAGES * C) {
            float sum = 0;
            for (int o = 0; o < H; o++)
                sum = fmaf(w[o * C + k % C], dhidden()[k / C * H + o], sum);
            input()[k] = sum * (1.0f / (float)T::MAP::AREA);
        }
        __syncthreads();
    }
    /* Each by the thread that summed it. */
    DEVICE_MEMBER void gather(float *out) const
    {
        const int k = (int)threadIdx.x;
        if (k < H * C)
            out[k] = sums()[k];
        if (k < 2 * H + 1)
            out[k < H ? T::AT::GATE_B1 + k : k < 2 * H ? T::AT::GATE_W2 + k - H : T::AT::GATE_B2] = sums()[H * C + k];
    }
};

#endif
