/* Chains, d = act(norm(... x)), on a tile: the device's counterpart of seed_chain.c. Members as in
 * seed_kinds.cuh. */
#ifndef CNN_BF16_SEED_CHAIN_CUH
#define CNN_BF16_SEED_CHAIN_CUH

#include "cnn/bf16/seed_tile.cuh"

/*
 * The common end of all chains: a linear step's result z, its norm and, if RELU, the ReLU. GAMMA: the index of its
 * gamma among the tile's vectors; beta follows.
 */
template <class T, int GAMMA, bool RELU> struct chain_end {
    using MAP = typename T::MAP;
    using PATCH = typename T::PATCH;
    PATCH z;
    patch_norm<MAP> norm;
    patch_channels<MAP> dgamma, dbeta;

    DEVICE_MEMBER void clear()
    {
        dgamma.clear();
        dbeta.clear();
    }
    /* each(done): runs the linear step, calling done for its tiles. */
    template <class F> DEVICE_MEMBER void forward(T &t, F each)
    {
        patch_moments<MAP> moments;
        each([&](int m, int n, const float *d) INLINED {
            moments.add(n, d[0], d[1]);
            moments.add(n, d[2], d[3]);
            z.pair[m][n][0] = pack_bf16(d[0], d[1]);
            z.pair[m][n][1] = pack_bf16(d[2], d[3]);
        });
        norm.forward(t.team, moments.sums);
    }
    DEVICE_MEMBER PATCH output(const T &t) const
    {
        PATCH d;
        const patch_affine<MAP> c = t.affine(norm, GAMMA);
        patch_each<MAP>([&](int m, int n, int h) INLINED {
            const float2 v = c.of(n, z.pair[m][n][h]);
            d.pair[m][n][h] = RELU ? pack_bf16_relu(v.x, v.y) : pack_bf16(v.x, v.y);
        });
        return d;
    }
    /* u: from the gradient of the output, divided by `factor`, to that of z. */
    DEVICE_MEMBER void backward(T &t, PATCH &u, float factor)
    {
        if constexpr (RELU) {
            const patch_affine<MAP> c = t.affine(norm, GAMMA);
#pragma unroll
            for (int n = 0; n < PATCH::N; n++) {
                const pair_limit open(c.a[n], c.b[n]);
#pragma unroll
                for (int m = 0; m < PATCH::M; m++)
#pragma unroll
                    for (int h = 0; h < 2; h++)
                        u.pair[m][n][h] &= open.mask(z.pair[m][n][h]);
            }
        }
        norm.backward(
            t.team, z, u, factor, t.vectors + GAMMA * T::C,
            [&](float *of_gamma, float *of_beta) INLINED {
                dgamma.add(of_gamma);
                dbeta.add(of_beta);
            },
            [](float dz, float) INLINED { return dz; });
    }
    DEVICE_MEMBER void leave(T &t)
    {
        dgamma.leave(t.channel_scratch(0));
        dbeta.leave(t.channel_scratch(1));
    }
    DEVICE_MEMBER static void gather(const T &t, float *out)
    {
        patch_channels<MAP>::gather(t.channel_scratch(0), out, 0);
        patch_channels<MAP>::gather(t.channel_scratch(1), out + T::AT::VECTOR, 1);
    }
};

/* ---- one convolution: conv_light (3x3) and conv_small (1x1) ------------------------------------------------------ */

template <class T> struct seed_light {
    static constexpr int C = T::C, GAMMA = T::AT::CONV3, NEEDED = 1 + T::DEEPER;
    using MAP = typename T::MAP;
    using PATCH = typename T::PATCH;
    T &t;
    chain_end<T, 0, true> end;
    tile_grad<C> dw;

    DEVICE_MEMBER seed_light(T &tile) : t(tile)
    {
    }
    DEVICE_MEMBER void prepare()
    {
        t.vector(0, GAMMA);
        t.vector(1, GAMMA + T::AT::VECTOR);
        t.template load<NEEDED>();
    }
    DEVICE_MEMBER void clear()
    {
        dw.clear();
        end.clear();
    }
    DEVICE_MEMBER void forward(const PATCH &x)
    {
        __syncthreads();
        patch_store<MAP>(t.x, t.at, x);
        t.team.meet();
        end.forward(t, [&](auto done) INLINED { patch_conv<MAP>(t.x, t.template fragments<NEEDED>(0), t.at, done); });
    }
    DEVICE_MEMBER PATCH output(const PATCH &) const
    {
        return end.output(t);
    }
    DEVICE_MEMBER void backward(const PATCH &, PATCH &u, float factor, bool train)
    {
        end.backward(t, u, factor);
        patch_store<MAP>(t.y, t.at, u);
        __syncthreads();
        if (train)
            dw.template add<MAP>(t.x, t.y);
        if constexpr (T::DEEPER)
            patch_conv<MAP>(t.y, t.template fragments<NEEDED>(1), t.at, patch_put<MAP>(u));
    }
    DEVICE_MEMBER PATCH input(const PATCH &) const
    {
        return patch_load<MAP>(t.x, t.at);
    }
    DEVICE_MEMBER void leave()
    {
        dw.leave(t.scratch);
        end.leave(t);
    }
    DEVICE_MEMBER void gather(float *out) const
    {
        dw.gather(t.scratch, out);
        end.gather(t, out + GAMMA);
    }
};

template <class T> struct seed_small {
    static constexpr int C = T::C, GAMMA = T::AT::CONV1, BACK = tile_weight_bytes<1, C, C>();
    using MAP = typename T::MAP;
    using PATCH = typename T::PATCH;
    T &t;
    chain_end<T, 0, true> end;
    patch_grad<MAP, MAP> dw;

    DEVICE_MEMBER seed_small(T &tile) : t(tile)
    {
    }
    DEVICE_MEMBER void prepare()
    {
        t.vector(0, GAMMA);
        t.vector(1, GAMMA + T::AT::VECTOR);
        t.copy(t.weights, 0, 2 * BACK);
    }
    DEVICE_MEMBER void clear()
    {
        dw.clear();
        end.clear();
    }
    DEVICE_MEMBER void forward(const PATCH &x)
    {
        if constexpr (T::RETURNS)
            patch_store<MAP>(t.x, t.at, x); /* read back by the same thread: registers are scarce */
        end.forward(t, [&](auto done) INLINED { patch_point<MAP, MAP>(x, t.weights, done); });
    }
    DEVICE_MEMBER PATCH output(const PATCH &) const
    {
        return end.output(t);
    }
    DEVICE_MEMBER void backward(const PATCH &, PATCH &u, float factor, bool train)
    {
        end.backward(t, u, factor);
        if (train)
            dw.add(patch_load<MAP>(t.x, t.at), u);
        if constexpr (T::DEEPER) {
            const PATCH dz = u;
            patch_point<MAP, MAP>(dz, t.weights + BACK, patch_put<MAP>(u));
        }
    }
    DEVICE_MEMBER PATCH input(const PATCH &) const
    {
        return patch_load<MAP>(t.x, t.at);
    }
    DEVICE_MEMBER void leave()
    {
        dw.leave(t.scratch);
        end.leave(t);
    }
    DEVICE_MEMBER void gather(float *out) const
    {
        dw.gather(t.scratch, out);
        end.gather(t, out + GAMMA);
    }
};

/* ---- two 3x3 convolutions: conv_heavy ---------------------------------------------------------------------------- */

template <class T> struct seed_heavy {
    static constexpr int C = T::C, GAMMA_1 = T::AT::CONV3, W_2 = T::AT::HEAVY_2, GAMMA_2 = W_2 + T::AT::CONV3;
    static constexpr int NEEDED = T::RETURNS ? 4 : 2;
    using MAP = typename T::MAP;
    using PATCH = typename T::PATCH;
    T &t;
    chain_end<T, 0, true> middle;
    chain_end<T, 2, true> end;
    tile_grad<C> first, second;

    DEVICE_MEMBER seed_heavy(T &tile) : t(tile)
    {
    }
    DEVICE_MEMBER void prepare()
    {
        t.vector(0, GAMMA_1);
        t.vector(1, GAMMA_1 + T::AT::VECTOR);
        t.vector(2, GAMMA_2);
        t.vector(3, GAMMA_2 + T::AT::VECTOR);
        t.template load<NEEDED>();
    }
    DEVICE_MEMBER void clear()
    {
        first.clear();
        second.clear();
        middle.clear();
        end.clear();
    }
    DEVICE_MEMBER void forward(const PATCH &x)
    {
        __syncthreads();
        patch_store<MAP>(t.x, t.at, x);
        t.team.meet();
        middle.forward(t,
                       [&](auto done) INLINED { patch_conv<MAP>(t.x, t.template fragments<NEEDED>(0), t.at, done); });
        patch_store<MAP>(t.y, t.at, middle.output(t));
        t.team.meet();
        end.forward(t, [&](auto done) INLINED { patch_conv<MAP>(t.y, t.template fragments<NEEDED>(1), t.at, done); });
    }
    DEVICE_MEMBER PATCH output(const PATCH &) const
    {
        return end.output(t);
    }
    /* The second convolution's input is in y, and its gradient replaces x until it has been used. */
    DEVICE_MEMBER void backward(const PATCH &, PATCH &u, float factor, bool train)
    {
        seed_kept<T, 1> x;
        end.backward(t, u, factor);
        x.keep(t, patch_load<MAP>(t.x, t.at));
        patch_store<MAP>(t.x, t.at, u);
        __syncthreads();
        if (train)
            second.template add<MAP>(t.y, t.x);
        patch_conv<MAP>(t.x, t.template fragments<NEEDED>(3), t.at, patch_put<MAP>(u));
        middle.backward(t, u, 1.0f);
        __syncthreads();
        patch_store<MAP>(t.x, t.at, x.get(t));
        patch_store<MAP>(t.y, t.at, u);
        __syncthreads();
        if (train)
            first.template add<MAP>(t.x, t.y);
        if constexpr (T::DEEPER)
            patch_conv<MAP>(t.y, t.template fragments<NEEDED>(2), t.at, patch_put<MAP>(u));
    }
    DEVICE_MEMBER PATCH input(const PATCH &) const
    {
        return patch_load<MAP>(t.x, t.at);
    }
    /* One convolution after the other: there is room for the sums of one. */
    DEVICE_MEMBER void leave()
    {
        first.leave(t.scratch);
        middle.leave(t);
    }
    DEVICE_MEMBER void gather(float *out)
    {
        first.gather(t.scratch, out);
        middle.gather(t, out + GAMMA_1);
        __syncthreads();
        second.leave(t.scratch);
        end.leave(t);
        __syncthreads();
        second.gather(t.scratch, out + W_2);
        end.gather(t, out + GAMMA_2);
    }
};

/* ---- depthwise 3x3 and 1x1 --------------------------------------------------------------------------------------- */

template <class T> struct seed_depthwise {
    static constexpr int C = T::C, PW = T::AT::PW, GAMMA = T::AT::PW_GAMMA;
    using MAP = typename T::MAP;
    using PATCH = typename T::PATCH;
    using DIAGONAL = tile_diagonal<C>;
    using GROUP = tile_map<DIAGONAL::GROUP, MAP::SIZE, MAP::IMAGES>;
    /* fragments: of the depthwise step for the backward pass, of the other in both directions */
    static constexpr int BACK = DIAGONAL::BYTES, POINT_BYTES = tile_weight_bytes<1, C, C>(),
                         POINT = T::DEPTHWISE_BYTES - 2 * POINT_BYTES;
    T &t;
    chain_end<T, 0, true> end;
    tile_grad<DIAGONAL::GROUP, DIAGONAL::GROUPS> dw;
    patch_grad<MAP, MAP> dp;

    DEVICE_MEMBER seed_depthwise(T &tile) : t(tile)
    {
    }
    DEVICE_MEMBER void prepare()
    {
        t.vector(0, GAMMA);
        t.vector(1, GAMMA + T::AT::VECTOR);
        DIAGONAL::template weights<false>(t.weights, t.w);
        if constexpr (T::DEEPER)
            DIAGONAL::template weights<true>(t.weights + BACK, t.w);
        t.copy(t.weights + POINT, 0, 2 * POINT_BYTES);
    }
    DEVICE_MEMBER void clear()
    {
        dw.clear();
        dp.clear();
        end.clear();
    }
    DEVICE_MEMBER void forward(const PATCH &x)
    {
        PATCH v; /* output of the depthwise step: y keeps it for the backward pass */
        __syncthreads();
        patch_store<MAP>(t.x, t.at, x);
        t.team.meet();
        patch_depthwise<MAP>(t.x, t.weights, patch_put<MAP>(v));
        if constexpr (T::RETURNS)
            patch_store<MAP>(t.y, t.at, v);
        end.forward(t, [&](auto done) INLINED { patch_point<MAP, MAP>(v, t.weights + POINT, done); });
    }
    DEVICE_MEMBER PATCH output(const PATCH &) const
    {
        return end.output(t);
    }
    DEVICE_MEMBER void backward(const PATCH &, PATCH &u, float factor, bool train)
    {
        end.backward(t, u, factor);
        if (train)
            dp.add(patch_load<MAP>(t.y, t.at), u);
        PATCH dv;
        patch_point<MAP, MAP>(u, t.weights + POINT + POINT_BYTES, patch_put<MAP>(dv));
        patch_store<MAP>(t.y, t.at, dv);
        __syncthreads();
        if (train)
            dw.template add<GROUP>(t.x, t.y);
        if constexpr (T::DEEPER)
            patch_depthwise<MAP>(t.y, t.weights + BACK, patch_put<MAP>(u));
    }
    DEVICE_MEMBER PATCH input(const PATCH &) const
    {
        return patch_load<MAP>(t.x, t.at);
    }
    DEVICE_MEMBER void leave()
    {
        dp.leave(t.scratch);
        dw.leave(t.scratch + dp.SCRATCH / 4);
        end.leave(t);
    }
    DEVICE_MEMBER void gather(float *out) const
    {
        static_assert(decltype(dp)::SCRATCH + decltype(dw)::SCRATCH <= T::SCRATCH, "room for both");
        dp.gather(t.scratch, out + PW);
        dw.gather_diagonal(t.scratch + dp.SCRATCH / 4, out);
        end.gather(t, out + GAMMA);
    }
};

/* ---- down, 3x3, up: bottleneck ----------------------------------------------------------------------------------- */

template <class T> struct seed_bottleneck {
    static constexpr int C = T::C, K = T::NECK, W_3 = T::AT::NECK_3, UP = T::AT::UP, GAMMA = T::AT::UP_GAMMA;
    using MAP = typename T::MAP;
    using NECK = typename T::NECK_MAP;
    using PATCH = typename T::PATCH;
    T &t;
    seed_kept<T, 1> entered; /* its input, for which no map has room */
    chain_end<T, 0, false> end;
    patch_grad<MAP, NECK> down;
    tile_grad<K> middle;
    patch_grad<NECK, MAP> up;
    patch_place<NECK> at;

    DEVICE_MEMBER seed_bottleneck(T &tile) : t(tile)
    {
    }
    DEVICE_MEMBER uint32_t down_weights(bool back) const
    {
        return t.weights + (back ? T::BOTTLENECK_BYTES / 2 : 0);
    }
    DEVICE_MEMBER uint32_t middle_weights(bool back) const
    {
        return down_weights(back) + T::POINT_BYTES;
    }
    DEVICE_MEMBER uint32_t up_weights(bool back) const
    {
        return middle_weights(back) + T::NECK_BYTES;
    }
    DEVICE_MEMBER void prepare()
    {
        t.vector(0, GAMMA);
        t.vector(1, GAMMA + T::AT::VECTOR);
        t.copy(t.weights, 0, T::BOTTLENECK_BYTES);
    }
    DEVICE_MEMBER void clear()
    {
        down.clear();
        middle.clear();
        up.clear();
        end.clear();
    }
    DEVICE_MEMBER void forward(const PATCH &x)
    {
        patch<NECK> narrow, wide; /* before and after the 3x3 step: x and y keep them for the backward pass */
        patch_point<MAP, NECK>(x, down_weights(false), [&](int m, int n, const float *d) INLINED {
            narrow.pair[m][n][0] = pack_bf16_relu(d[0], d[1]);
            narrow.pair[m][n][1] = pack_bf16_relu(d[2], d[3]);
        });
        entered.keep(t, x);
        __syncthreads();
        patch_store<NECK>(t.x, at, narrow);
        t.team.meet();
        patch_conv<NECK>(t.x, middle_weights(false), at, [&](int m, int n, const float *d) INLINED {
            wide.pair[m][n][0] = pack_bf16_relu(d[0], d[1]);
            wide.pair[m][n][1] = pack_bf16_relu(d[2], d[3]);
        });
        if constexpr (T::RETURNS)
            patch_store<NECK>(t.y, at, wide);
        end.forward(t, [&](auto done) INLINED { patch_point<NECK, MAP>(wide, up_weights(false), done); });
    }
    DEVICE_MEMBER PATCH output(const PATCH &) const
    {
        return end.output(t);
    }
    DEVICE_MEMBER void backward(const PATCH &, PATCH &u, float factor, bool train)
    {
        patch<NECK> g;
        end.backward(t, u, factor);
        const patch<NECK> wide = patch_load<NECK>(t.y, at);
        if (train)
            up.add(wide, u);
        patch_point<MAP, NECK>(u, up_weights(true), [&](int m, int n, const float *d) INLINED {
            g.pair[m][n][0] = pack_bf16(d[0], d[1]) & positive_mask(wide.pair[m][n][0]);
            g.pair[m][n][1] = pack_bf16(d[2], d[3]) & positive_mask(wide.pair[m][n][1]);
        });
        patch_store<NECK>(t.y, at, g);
        __syncthreads();
        if (train)
            middle.template add<NECK>(t.x, t.y);
        const patch<NECK> narrow = patch_load<NECK>(t.x, at);
        patch_conv<NECK>(t.y, middle_weights(true), at, [&](int m, int n, const float *d) INLINED {
            g.pair[m][n][0] = pack_bf16(d[0], d[1]) & positive_mask(narrow.pair[m][n][0]);
            g.pair[m][n][1] = pack_bf16(d[2], d[3]) & positive_mask(narrow.pair[m][n][1]);
        });
        if (train)
            down.add(entered.get(t), g);
        if constexpr (T::DEEPER)
            patch_point<NECK, MAP>(g, down_weights(true), patch_put<MAP>(u));
    }
    DEVICE_MEMBER PATCH input(const PATCH &) const
    {
        return entered.get(t);
    }
    DEVICE_MEMBER void leave()
    {
        down.leave(t.scratch);
        middle.leave(t.scratch + down.SCRATCH / 4);
        up.leave(t.scratch + (down.SCRATCH + middle.SCRATCH) / 4);
        end.leave(t);
    }
    DEVICE_MEMBER void gather(float *out) const
    {
        static_assert(decltype(down)::SCRATCH + decltype(middle)::SCRATCH + decltype(up)::SCRATCH <= T::SCRATCH,
                      "room for all");
        down.gather(t.scratch, out);
        middle.gather(t.scratch + down.SCRATCH / 4, out + W_3);
        up.gather(t.scratch + (down.SCRATCH + middle.SCRATCH) / 4, out + UP);
        end.gather(t, out + GAMMA);
    }
};

#endif
