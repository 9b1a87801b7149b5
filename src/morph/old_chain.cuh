/* Residual chains, s = x + chain(x), on a tile: the device's seed_chain.c. Members as old_kinds.cuh says. */
#ifndef MORPH_OLD_SEED_CHAIN_CUH
#define MORPH_OLD_SEED_CHAIN_CUH

#include "morph/old_tile.cuh"

/* ---- one convolution: conv_light (3x3) and conv_small (1x1) ------------------------------------------------------ */

template <class T, int TAPS> struct seed_single {
    static constexpr bool RESIDUAL = true, RELU = true;
    static constexpr int C = T::C, GAMMA = TAPS == 9 ? T::AT::CONV3 : T::AT::CONV1, NEEDED = 1 + T::DEEPER;
    using MAP = typename T::MAP;
    T &t;
    tile_grad<TAPS, C, C> dw;
    float dgamma, dbeta;

    DEVICE_MEMBER seed_single(T &tile) : t(tile)
    {
    }
    DEVICE_MEMBER uint32_t z() const
    {
        return t.b0;
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

/* ---- two 3x3 convolutions: conv_heavy ---------------------------------------------------------------------------- */

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

    DEVICE_MEMBER seed_heavy(T &tile) : t(tile)
    {
    }
    DEVICE_MEMBER uint32_t z() const
    {
        return t.b2;
    }
    DEVICE_MEMBER uint32_t u() const
    {
        return SECOND ? t.b0 : t.b1;
    }
    DEVICE_MEMBER uint32_t dx() const
    {
        return t.b1;
    }
    DEVICE_MEMBER typename T::NORM norm() const
    {
        return typename T::NORM(t.norms[1]);
    }
    DEVICE_MEMBER typename T::NORM first() const
    {
        return typename T::NORM(t.norms[0]);
    }

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
        own.each([&](uint32_t cell, int) INLINED {
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

/* ---- depthwise 3x3 and 1x1 --------------------------------------------------------------------------------------- */

template <class T> struct seed_depthwise {
    static constexpr bool RESIDUAL = true, RELU = true;
    static constexpr int C = T::C, PW = T::AT::PW, GAMMA = T::AT::PW_GAMMA;
    static constexpr int BACK = tile_weight_bytes<1, C, C>(); /* where the second fragments lie */
    using MAP = typename T::MAP;
    T &t;
    tile_depthwise_grad<MAP> dw;
    tile_grad<1, C, C> dp;
    float dgamma, dbeta;

    DEVICE_MEMBER seed_depthwise(T &tile) : t(tile)
    {
    }
    DEVICE_MEMBER uint32_t z() const
    {
        return t.b2;
    }
    DEVICE_MEMBER uint32_t u() const
    {
        return t.b1;
    }
    DEVICE_MEMBER uint32_t dx() const
    {
        return t.b0;
    }
    DEVICE_MEMBER typename T::NORM norm() const
    {
        return typename T::NORM(t.norms[0]);
    }

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
        tile_depthwise<MAP, false>(t.x, t.depthwise,
                                   [&](uint32_t cell, int, const float *v) INLINED { tile_store(t.b0 + cell, v); });
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
            tile_depthwise<MAP, true>(t.b2, t.depthwise,
                                      [&](uint32_t cell, int, const float *v) INLINED { tile_store(t.b0 + cell, v); });
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

/* ---- down, 3x3, up: bottleneck ----------------------------------------------------------------------------------- */

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

    DEVICE_MEMBER seed_bottleneck(T &tile) : t(tile)
    {
    }
    DEVICE_MEMBER uint32_t z() const
    {
        return t.b2;
    }
    DEVICE_MEMBER uint32_t u() const
    {
        return t.b0;
    }
    DEVICE_MEMBER uint32_t dx() const
    {
        return t.b2;
    }
    DEVICE_MEMBER typename T::NORM norm() const
    {
        return typename T::NORM(t.norms[0]);
    }

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

#endif
