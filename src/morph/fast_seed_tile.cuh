/*
 * A seed at work on a tile of images in shared memory: one struct per form of blueprint, all with the same members:
 *
 *   prepare()    parameters and weight fragments of a job into shared memory
 *   forward()    from the map x to what the seed's output needs: z and coefficients
 *   u()          the map that must hold the gradient of the output before backward()
 *   backward()   parameter gradients (train) into registers, and the input gradient into the map dx() (DEEPER)
 *   finish()     the job's parameter gradients, in the layout of the parameters
 *
 * The output is s = x + act(a z + b) with z in the map z() for chains, s = a x + b for the others; a and b are coefficients
 * of each image and channel. Inputs and outputs of forward and backward are complete: they begin after a barrier of the
 * caller and end with one of their own.
 *
 * Values are rounded to bf16 where they enter a map: input, output of every linear step, what enters the next step,
 * gradients in front of and behind every linear step.
 */
#ifndef MORPH_FAST_SEED_TILE_CUH
#define MORPH_FAST_SEED_TILE_CUH

#include "nn/tile.cuh"

extern "C" {
#include "morph/blueprint.h"
}

constexpr int layout_aligned(int count)
{
    return (count + LAYOUT_ALIGN - 1) / LAYOUT_ALIGN * LAYOUT_ALIGN;
}

/* Where tensors begin in a slot's parameters: blueprint_layout as constants (checked when the network is created). */
template <int C> struct seed_offsets {
    static constexpr int NECK = C / 4 > 8 ? C / 4 : 8, SQUEEZE = C / 4 > 1 ? C / 4 : 1, VECTOR = layout_aligned(C);
    static constexpr int CONV3 = layout_aligned(9 * C * C), CONV1 = layout_aligned(C * C);
    static constexpr int HEAVY_2 = CONV3 + 2 * VECTOR;                                /* second weight */
    static constexpr int PW = layout_aligned(9 * C), PW_GAMMA = PW + CONV1;           /* depthwise */
    static constexpr int NECK_3 = layout_aligned(NECK * C), UP = NECK_3 + layout_aligned(9 * NECK * NECK); /* bottleneck */
    static constexpr int UP_GAMMA = UP + layout_aligned(C * NECK);
    static constexpr int SE_2 = layout_aligned(SQUEEZE * C), SE_BIAS = SE_2 + layout_aligned(C * SQUEEZE);
    static constexpr int GATE_B1 = layout_aligned(NECK * C), GATE_W2 = GATE_B1 + layout_aligned(NECK);
    static constexpr int GATE_B2 = GATE_W2 + layout_aligned(NECK), GATE_STORAGE = GATE_B2 + LAYOUT_ALIGN;
};

/*
 * The shared memory of a block of threads at work: MAPS maps, room for the fragments of CONVS 3x3 convolutions, small
 * arrays. DEEPER: gradients go on to the seed's input.
 */
template <int CHANNELS, int SIDE, int COUNT, int MAPS, int CONVS_, bool DEEPER_> struct seed_tile {
    using MAP = tile_map<CHANNELS, SIDE, COUNT>;
    using AT = seed_offsets<CHANNELS>;
    static constexpr int C = CHANNELS, IMAGES = COUNT, NECK = AT::NECK, CONVS = CONVS_;
    static constexpr bool DEEPER = DEEPER_;
    using NECK_MAP = tile_map<NECK, SIDE, COUNT>;
    using NORM = tile_norm<MAP>;

    static constexpr int CONV_BYTES = tile_weight_bytes<9, C, C>();
    static constexpr int SMALL = 4 * IMAGES * C, GATE = 5 * IMAGES * C; /* floats of the small nets */
    static constexpr int FLOATS = 2 * NORM::FLOATS + MAP::PART + 15 * C + SMALL + GATE;
    static constexpr int HELD = MAPS * MAP::BYTES + CONVS * CONV_BYTES + FLOATS * 4, ROOM = 112 * 1024;
    /* The next images are fetched in the meantime, where that leaves room for two blocks on a processor. */
    static constexpr bool STAGED = HELD + MAP::PIXELS * C * 2 <= ROOM;
    static constexpr int BYTES = HELD + (STAGED ? MAP::PIXELS * C * 2 : 0), PER_PROCESSOR = BYTES <= ROOM ? 2 : 1;

    uint32_t x, b0, b1, b2, extra; /* maps; `extra` is the fifth */
    uint32_t weights;
    float *norms[2], *part;
    float *vectors;          /* gamma, beta of both norms; then BatchNorm's scale and shift; then depthwise weights [9][C] */
    float *bn_scale, *bn_shift;
    float *depthwise;
    float *small, *gate;     /* arrays of the squeeze-and-excite net, of the gate net */
    float *scratch;          /* the maps' memory from b0 on, when a job ends */
    uint32_t stage;          /* images to come, as they lie in memory; each thread reads what it fetched */
    const float *w;          /* the seed's parameters */

    /* Everything in a row. */
    DEVICE_MEMBER seed_tile(unsigned char *shared)
        : seed_tile(shared, shared + MAP::BYTES, shared + MAPS * MAP::BYTES, shared + MAPS * MAP::BYTES + CONVS * CONV_BYTES)
    {
    }
    /* Input, other maps, fragments and small arrays each in its own place. */
    DEVICE_MEMBER seed_tile(unsigned char *input, unsigned char *maps, unsigned char *fragments_, unsigned char *floats)
    {
        x = smem(input);
        b0 = smem(maps);
        b1 = b0 + MAP::BYTES;
        b2 = b1 + MAP::BYTES;
        extra = b2 + MAP::BYTES;
        weights = smem(fragments_);
        scratch = (float *)maps;
        norms[0] = (float *)floats;
        norms[1] = norms[0] + NORM::FLOATS;
        part = norms[1] + NORM::FLOATS;
        vectors = part + MAP::PART;
        bn_scale = vectors + 4 * C;
        bn_shift = vectors + 5 * C;
        depthwise = vectors + 6 * C;
        small = vectors + 15 * C;
        gate = small + SMALL;
        stage = smem(gate + GATE);
        w = nullptr;
    }

    DEVICE_MEMBER void vector(int to, int offset) const
    {
        if ((int)threadIdx.x < C)
            vectors[to * C + (int)threadIdx.x] = w[offset + (int)threadIdx.x];
    }

    /*
     * Fragments of a seed that needs NEEDED of them: number `place`, loaded once a job where there is room for all, else
     * where they are used.
     */
    template <int NEEDED, int TAPS, int IN, int OUT, bool BACK> DEVICE_MEMBER void load(int place, int offset) const
    {
        if constexpr (NEEDED <= CONVS)
            tile_weights<TAPS, IN, OUT, BACK>(weights + (uint32_t)(place * CONV_BYTES), w + offset);
    }
    template <int NEEDED, int TAPS, int IN, int OUT, bool BACK> DEVICE_MEMBER uint32_t fragments(int place, int offset) const
    {
        if constexpr (NEEDED <= CONVS) {
            return weights + (uint32_t)(place * CONV_BYTES);
        } else {
            __syncthreads();
            tile_weights<TAPS, IN, OUT, BACK>(weights, w + offset);
            __syncthreads();
            return weights;
        }
    }

    /* g becomes 0 where the map `by` is not positive. Own cells. */
    template <class M> DEVICE_MEMBER void mask(uint32_t g, uint32_t by) const
    {
        tile_own<M> own;
        own.each([&](uint32_t cell, int) {
            float u[8], v[8];
            tile_load(u, g + cell);
            tile_load(v, by + cell);
#pragma unroll
            for (int i = 0; i < 8; i++)
                u[i] = v[i] > 0 ? u[i] : 0;
            tile_store(g + cell, u);
        });
    }

    /* Mean over the pixels of each image's channels, to out [image][channel]. Ends with a barrier. */
    DEVICE_MEMBER void means(uint32_t map, float *out) const
    {
        tile_sums<MAP>(part, [&](uint32_t cell, float *v) {
            float u[8];
            tile_load(u, map + cell);
#pragma unroll
            for (int i = 0; i < 8; i++)
                v[i] += u[i];
        });
        __syncthreads();
        const int t = (int)threadIdx.x;
        if (t < IMAGES * C)
            out[t] = tile_total<MAP>(part, t / C, t % C, 0) * (1.0f / (float)MAP::AREA);
        __syncthreads();
    }
};

DEVICE float seed_sigmoid(float x)
{
    return 1.0f / (1.0f + expf(-x));
}

/* ---- one convolution: conv_light (3x3) and conv_small (1x1) ------------------------------------------------------------- */

template <class T, int TAPS> struct seed_single {
    static constexpr bool RESIDUAL = true, RELU = true;
    static constexpr int C = T::C, GAMMA = TAPS == 9 ? T::AT::CONV3 : T::AT::CONV1, NEEDED = 1 + T::DEEPER;
    using MAP = typename T::MAP;
    T &t;
    tile_grad<TAPS, C, C> dw;
    float dgamma, dbeta;

    DEVICE_MEMBER seed_single(T &tile) : t(tile) {}
    DEVICE_MEMBER uint32_t z() const { return t.b0; }
    DEVICE_MEMBER uint32_t u() const { return t.b1; }
    DEVICE_MEMBER uint32_t dx() const { return t.b2; }
    DEVICE_MEMBER typename T::NORM norm() const { return typename T::NORM(t.norms[0]); }

    DEVICE_MEMBER void prepare()
    {
        t.vector(0, GAMMA);
        t.vector(1, GAMMA + T::AT::VECTOR);
        t.template load<NEEDED, TAPS, C, C, false>(0, 0);
        if (T::DEEPER)
            t.template load<NEEDED, TAPS, C, C, true>(1, 0);
    }
    DEVICE_MEMBER void clear()
    {
        dw.clear();
        dgamma = dbeta = 0;
    }
    DEVICE_MEMBER void forward()
    {
        tile_conv<TAPS, MAP, MAP>(t.x, t.template fragments<NEEDED, TAPS, C, C, false>(0, 0), t.b0);
        __syncthreads();
        norm().forward(t.b0, t.vectors, t.vectors + C, t.part);
    }
    DEVICE_MEMBER void backward(bool train)
    {
        const float2 sums = norm().backward(t.b0, t.b1, true, t.vectors, t.part);
        dgamma += sums.x;
        dbeta += sums.y;
        norm().apply_backward(t.b0, t.b1);
        __syncthreads();
        if (train)
            dw.template add<MAP, MAP>(t.x, t.b1);
        if constexpr (T::DEEPER)
            tile_conv<TAPS, MAP, MAP>(t.b1, t.template fragments<NEEDED, TAPS, C, C, true>(1, 0), t.b2);
        __syncthreads();
    }
    DEVICE_MEMBER void finish(float *out)
    {
        dw.finish(t.scratch, out);
        tile_over_images<MAP>(dgamma, t.part, out + GAMMA);
        tile_over_images<MAP>(dbeta, t.part, out + GAMMA + T::AT::VECTOR);
    }
};

/* ---- two 3x3 convolutions: conv_heavy ------------------------------------------------------------------------------------ */

/*
 * Registers hold the gradient of one weight, so a job is gone through twice: SECOND for the second convolution, which
 * ends there, and once more for the first, all the way down.
 */
template <class T, bool SECOND> struct seed_heavy {
    static constexpr bool RESIDUAL = true, RELU = true;
    static constexpr int C = T::C, GAMMA_1 = T::AT::CONV3, W_2 = T::AT::HEAVY_2, GAMMA_2 = W_2 + T::AT::CONV3;
    static constexpr int NEEDED = SECOND ? 2 : 3 + T::DEEPER;
    using MAP = typename T::MAP;
    T &t;
    tile_grad<9, C, C> dw;
    float dgamma, dbeta;

    DEVICE_MEMBER seed_heavy(T &tile) : t(tile) {}
    DEVICE_MEMBER uint32_t z() const { return t.b2; }
    DEVICE_MEMBER uint32_t u() const { return SECOND ? t.b0 : t.b1; }
    DEVICE_MEMBER uint32_t dx() const { return t.b1; }
    DEVICE_MEMBER typename T::NORM norm() const { return typename T::NORM(t.norms[1]); }
    DEVICE_MEMBER typename T::NORM first() const { return typename T::NORM(t.norms[0]); }

    DEVICE_MEMBER void prepare()
    {
        t.vector(0, GAMMA_1);
        t.vector(1, GAMMA_1 + T::AT::VECTOR);
        t.vector(2, GAMMA_2);
        t.vector(3, GAMMA_2 + T::AT::VECTOR);
        t.template load<NEEDED, 9, C, C, false>(0, 0);
        t.template load<NEEDED, 9, C, C, false>(1, W_2);
        if (!SECOND)
            t.template load<NEEDED, 9, C, C, true>(2, W_2);
        if (!SECOND && T::DEEPER)
            t.template load<NEEDED, 9, C, C, true>(3, 0);
    }
    DEVICE_MEMBER void clear()
    {
        dw.clear();
        dgamma = dbeta = 0;
    }
    DEVICE_MEMBER void forward()
    {
        tile_conv<9, MAP, MAP>(t.x, t.template fragments<NEEDED, 9, C, C, false>(0, 0), t.b0);
        __syncthreads();
        first().forward(t.b0, t.vectors, t.vectors + C, t.part);
        tile_own<MAP> own;
        float a[8], b[8];
        tile_coefficients(a, first().scale + own.channel());
        tile_coefficients(b, first().shift + own.channel());
        own.each([&](uint32_t cell, int) {
            float v[8];
            tile_load(v, t.b0 + cell);
#pragma unroll
            for (int i = 0; i < 8; i++)
                v[i] = fmaf(v[i], a[i], b[i]);
            tile_store_relu(t.b1 + cell, v);
        });
        __syncthreads();
        tile_conv<9, MAP, MAP>(t.b1, t.template fragments<NEEDED, 9, C, C, false>(1, W_2), t.b2);
        __syncthreads();
        norm().forward(t.b2, t.vectors + 2 * C, t.vectors + 3 * C, t.part);
    }
    DEVICE_MEMBER void backward(bool train)
    {
        float2 sums = norm().backward(t.b2, u(), true, t.vectors + 2 * C, t.part);
        norm().apply_backward(t.b2, u());
        __syncthreads();
        if constexpr (SECOND) {
            dw.template add<MAP, MAP>(t.b1, t.b0);
        } else {
            tile_conv<9, MAP, MAP>(t.b1, t.template fragments<NEEDED, 9, C, C, true>(2, W_2), t.b2);
            __syncthreads();
            sums = first().backward(t.b0, t.b2, true, t.vectors, t.part);
            first().apply_backward(t.b0, t.b2);
            __syncthreads();
            if (train)
                dw.template add<MAP, MAP>(t.x, t.b2);
            if constexpr (T::DEEPER)
                tile_conv<9, MAP, MAP>(t.b2, t.template fragments<NEEDED, 9, C, C, true>(3, 0), t.b1);
        }
        dgamma += sums.x;
        dbeta += sums.y;
        __syncthreads();
    }
    DEVICE_MEMBER void finish(float *out)
    {
        dw.finish(t.scratch, out + (SECOND ? W_2 : 0));
        tile_over_images<MAP>(dgamma, t.part, out + (SECOND ? GAMMA_2 : GAMMA_1));
        tile_over_images<MAP>(dbeta, t.part, out + (SECOND ? GAMMA_2 : GAMMA_1) + T::AT::VECTOR);
    }
};

/* ---- depthwise 3x3 and 1x1 ------------------------------------------------------------------------------------------------ */

template <class T> struct seed_depthwise {
    static constexpr bool RESIDUAL = true, RELU = true;
    static constexpr int C = T::C, PW = T::AT::PW, GAMMA = T::AT::PW_GAMMA;
    static constexpr int BACK = tile_weight_bytes<1, C, C>(); /* where the second fragments lie */
    using MAP = typename T::MAP;
    T &t;
    tile_depthwise_grad<MAP> dw;
    tile_grad<1, C, C> dp;
    float dgamma, dbeta;

    DEVICE_MEMBER seed_depthwise(T &tile) : t(tile) {}
    DEVICE_MEMBER uint32_t z() const { return t.b2; }
    DEVICE_MEMBER uint32_t u() const { return t.b1; }
    DEVICE_MEMBER uint32_t dx() const { return t.b0; }
    DEVICE_MEMBER typename T::NORM norm() const { return typename T::NORM(t.norms[0]); }

    DEVICE_MEMBER void prepare()
    {
        t.vector(0, GAMMA);
        t.vector(1, GAMMA + T::AT::VECTOR);
        for (int i = (int)threadIdx.x; i < 9 * C; i += TILE_THREADS)
            t.depthwise[i] = t.w[i];
        tile_weights<1, C, C, false>(t.weights, t.w + PW);
        tile_weights<1, C, C, true>(t.weights + BACK, t.w + PW);
    }
    DEVICE_MEMBER void clear()
    {
        dw.clear();
        dp.clear();
        dgamma = dbeta = 0;
    }
    DEVICE_MEMBER void forward()
    {
        tile_depthwise<MAP, false>(t.x, t.depthwise, [&](uint32_t cell, int, const float *v) { tile_store(t.b0 + cell, v); });
        __syncthreads();
        tile_conv<1, MAP, MAP>(t.b0, t.weights, t.b2);
        __syncthreads();
        norm().forward(t.b2, t.vectors, t.vectors + C, t.part);
    }
    DEVICE_MEMBER void backward(bool train)
    {
        const float2 sums = norm().backward(t.b2, t.b1, true, t.vectors, t.part);
        dgamma += sums.x;
        dbeta += sums.y;
        norm().apply_backward(t.b2, t.b1);
        __syncthreads();
        if (train)
            dp.template add<MAP, MAP>(t.b0, t.b1);
        tile_conv<1, MAP, MAP>(t.b1, t.weights + BACK, t.b2);
        __syncthreads();
        if (train)
            dw.add(t.x, t.b2);
        if constexpr (T::DEEPER)
            tile_depthwise<MAP, true>(t.b2, t.depthwise, [&](uint32_t cell, int, const float *v) { tile_store(t.b0 + cell, v); });
        __syncthreads();
    }
    DEVICE_MEMBER void finish(float *out)
    {
        dp.finish(t.scratch, out + PW);
        __syncthreads();
        dw.finish(t.scratch, out);
        tile_over_images<MAP>(dgamma, t.part, out + GAMMA);
        tile_over_images<MAP>(dbeta, t.part, out + GAMMA + T::AT::VECTOR);
    }
};

/* ---- down, 3x3, up: bottleneck -------------------------------------------------------------------------------------------- */

template <class T> struct seed_bottleneck {
    static constexpr bool RESIDUAL = true, RELU = false;
    static constexpr int C = T::C, K = T::NECK, W_3 = T::AT::NECK_3, UP = T::AT::UP, GAMMA = T::AT::UP_GAMMA;
    using MAP = typename T::MAP;
    using NECK = typename T::NECK_MAP;
    T &t;
    tile_grad<1, C, K> down;
    tile_grad<9, K, K> middle;
    tile_grad<1, K, C> up;
    float dgamma, dbeta;
    static_assert(tile_weight_bytes<9, K, K>() <= T::CONV_BYTES, "a neck is no wider than its slot");

    DEVICE_MEMBER seed_bottleneck(T &tile) : t(tile) {}
    DEVICE_MEMBER uint32_t z() const { return t.b2; }
    DEVICE_MEMBER uint32_t u() const { return t.b0; }
    DEVICE_MEMBER uint32_t dx() const { return t.b2; }
    DEVICE_MEMBER typename T::NORM norm() const { return typename T::NORM(t.norms[0]); }

    DEVICE_MEMBER void prepare()
    {
        t.vector(0, GAMMA);
        t.vector(1, GAMMA + T::AT::VECTOR);
    }
    DEVICE_MEMBER void clear()
    {
        down.clear();
        middle.clear();
        up.clear();
        dgamma = dbeta = 0;
    }
    /* The weights are few: they become fragments where they are used, all in one place. */
    template <int TAPS, int IN, int OUT, bool BACK> DEVICE_MEMBER uint32_t fragments(int offset)
    {
        __syncthreads();
        tile_weights<TAPS, IN, OUT, BACK>(t.weights, t.w + offset);
        __syncthreads();
        return t.weights;
    }
    DEVICE_MEMBER void forward()
    {
        tile_conv<1, MAP, NECK, true>(t.x, fragments<1, C, K, false>(0), t.b0);
        tile_conv<9, NECK, NECK, true>(t.b0, fragments<9, K, K, false>(W_3), t.b1);
        tile_conv<1, NECK, MAP>(t.b1, fragments<1, K, C, false>(UP), t.b2);
        __syncthreads();
        norm().forward(t.b2, t.vectors, t.vectors + C, t.part);
    }
    DEVICE_MEMBER void backward(bool train)
    {
        const float2 sums = norm().backward(t.b2, t.b0, false, t.vectors, t.part);
        dgamma += sums.x;
        dbeta += sums.y;
        norm().apply_backward(t.b2, t.b0);
        __syncthreads();
        if (train)
            up.template add<NECK, MAP>(t.b1, t.b0);
        tile_conv<1, MAP, NECK>(t.b0, fragments<1, C, K, true>(UP), t.b2);
        __syncthreads();
        t.template mask<NECK>(t.b2, t.b1);
        tile_conv<1, MAP, NECK, true>(t.x, fragments<1, C, K, false>(0), t.b0); /* once more */
        __syncthreads();
        if (train)
            middle.template add<NECK, NECK>(t.b0, t.b2);
        tile_conv<9, NECK, NECK>(t.b2, fragments<9, K, K, true>(W_3), t.b1);
        __syncthreads();
        t.template mask<NECK>(t.b1, t.b0);
        __syncthreads();
        if (train)
            down.template add<MAP, NECK>(t.x, t.b1);
        if constexpr (T::DEEPER)
            tile_conv<1, NECK, MAP>(t.b1, fragments<1, K, C, true>(0), t.b2);
        __syncthreads();
    }
    DEVICE_MEMBER void finish(float *out)
    {
        down.finish(t.scratch, out);
        __syncthreads();
        middle.finish(t.scratch, out + W_3);
        __syncthreads();
        up.finish(t.scratch, out + UP);
        tile_over_images<MAP>(dgamma, t.part, out + GAMMA);
        tile_over_images<MAP>(dbeta, t.part, out + GAMMA + T::AT::VECTOR);
    }
};

/* ---- norm: s = x + tanh(sigma) (GN(x) - x) -------------------------------------------------------------------------------- */

template <class T> struct seed_rescale {
    static constexpr bool RESIDUAL = false, RELU = false;
    static constexpr int C = T::C, BETA = T::AT::VECTOR, SIGMA = 2 * T::AT::VECTOR;
    using MAP = typename T::MAP;
    T &t;
    float mix, dgamma, dbeta, dsigma;

    DEVICE_MEMBER seed_rescale(T &tile) : t(tile) {}
    DEVICE_MEMBER uint32_t z() const { return t.x; }
    DEVICE_MEMBER uint32_t u() const { return t.b1; }
    DEVICE_MEMBER uint32_t dx() const { return t.b2; }
    /* The output's coefficients, apart from the norm's own. */
    DEVICE_MEMBER typename T::NORM norm() const { return typename T::NORM(t.norms[1]); }
    DEVICE_MEMBER typename T::NORM inner() const { return typename T::NORM(t.norms[0]); }

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
            own.each([&](uint32_t cell, int) {
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

/* ---- attention: s = x sigmoid(W2 relu(W1 mean(x)) + b2) -------------------------------------------------------------------- */

template <class T> struct seed_attention {
    static constexpr bool RESIDUAL = false, RELU = false;
    static constexpr int C = T::C, H = T::AT::SQUEEZE, W_2 = T::AT::SE_2, BIAS = T::AT::SE_BIAS, IMAGES = T::IMAGES;
    static constexpr int EACH = (H * C + TILE_THREADS - 1) / TILE_THREADS; /* weights of a thread */
    using MAP = typename T::MAP;
    T &t;
    float d1[EACH], d2[EACH], dbias;

    DEVICE_MEMBER seed_attention(T &tile) : t(tile) {}
    DEVICE_MEMBER uint32_t z() const { return t.x; }
    DEVICE_MEMBER uint32_t u() const { return t.b1; }
    DEVICE_MEMBER uint32_t dx() const { return t.b2; }
    DEVICE_MEMBER typename T::NORM norm() const { return typename T::NORM(t.norms[0]); }
    /* [image][...]: mean of the input, hidden layer, gradients at the output and at the hidden layer */
    DEVICE_MEMBER float *mean() const { return t.small; }
    DEVICE_MEMBER float *hidden() const { return t.small + IMAGES * C; }
    DEVICE_MEMBER float *dout() const { return t.small + 2 * IMAGES * C; }
    DEVICE_MEMBER float *dhidden() const { return t.small + 3 * IMAGES * C; }

    DEVICE_MEMBER void prepare() {}
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
        tile_sums<MAP>(t.part, [&](uint32_t cell, float *v) {
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
            own.each([&](uint32_t cell, int) {
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

/* ---- the gate net: q = sigmoid(w2 relu(W1 mean(x) + b1) + b2), one number per image --------------------------------------- */

template <class T> struct seed_gate {
    static constexpr int C = T::C, H = T::AT::NECK, IMAGES = T::IMAGES;
    static constexpr int EACH = (H * C + TILE_THREADS - 1) / TILE_THREADS;
    T &t;
    const float *w;
    float d1[EACH], dvector, dbias; /* dvector: of b1, of w2, by the threads 0.. and H.. */

    DEVICE_MEMBER seed_gate(T &tile) : t(tile), w(nullptr) {}
    DEVICE_MEMBER float *mean() const { return t.gate; }
    DEVICE_MEMBER float *hidden() const { return t.gate + IMAGES * C; }
    DEVICE_MEMBER float *dhidden() const { return t.gate + 2 * IMAGES * C; }
    DEVICE_MEMBER float *q() const { return t.gate + 3 * IMAGES * C; }
    DEVICE_MEMBER float *dout() const { return q() + IMAGES; }
    DEVICE_MEMBER float *dq() const { return q() + 2 * IMAGES; }          /* the gradient of q */
    DEVICE_MEMBER float *input() const { return t.gate + 4 * IMAGES * C; } /* what every pixel of the input gets */
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

/* ---- which ------------------------------------------------------------------------------------------------------------------ */

/* Do f with the seed of this blueprint; nothing for noop. `second` picks the pass of conv_heavy. */
template <class T, class F> DEVICE void seed_of(T &tile, int blueprint, bool second, F f)
{
    switch (blueprint) {
    case BLUEPRINT_CONV_LIGHT: {
        seed_single<T, 9> seed(tile);
        f(seed);
        break;
    }
    case BLUEPRINT_CONV_SMALL: {
        seed_single<T, 1> seed(tile);
        f(seed);
        break;
    }
    case BLUEPRINT_CONV_HEAVY: {
        if (second) {
            seed_heavy<T, true> seed(tile);
            f(seed);
        } else {
            seed_heavy<T, false> seed(tile);
            f(seed);
        }
        break;
    }
    case BLUEPRINT_DEPTHWISE: {
        seed_depthwise<T> seed(tile);
        f(seed);
        break;
    }
    case BLUEPRINT_BOTTLENECK: {
        seed_bottleneck<T> seed(tile);
        f(seed);
        break;
    }
    case BLUEPRINT_NORM: {
        seed_rescale<T> seed(tile);
        f(seed);
        break;
    }
    case BLUEPRINT_ATTENTION: {
        seed_attention<T> seed(tile);
        f(seed);
        break;
    }
    default:
        break;
    }
}

/* The output of eight channels: x and, for chains, z as loaded. */
template <class SEED> DEVICE float seed_output(float x, float z, float a, float b)
{
    if (!SEED::RESIDUAL)
        return fmaf(x, a, b);
    const float v = fmaf(z, a, b);
    return x + (SEED::RELU ? fmaxf(v, 0.0f) : v);
}

#endif
