/*
 * Images are independent here, so a thread block takes a network from its pixels to its logits without leaving the SM.
 * Two kernels share the envs: one for those without a blended seed, with pools fused into the convolutions; the other
 * for the grown ones, walking the configurations in the order of morph/plan.cuh: the output of each block is kept,
 * and a configuration starts at the first block in which it differs from the one before.
 *
 * Pixels, weights, and the outputs of ReLUs and blends are rounded to bf16; seeds as in seed_kinds.cuh.
 */
#include "cuda/runtime.cuh"

#include "cnn/bf16/eval_parts.cuh"

struct fast_eval {
    struct eval_plan *plans; /* [env] */
    struct eval_order order;
    float *losses; /* [env][validation images] */
};

/* ---- envs without a blended seed --------------------------------------------------------------------------------- */

/* conv -> norm -> ReLU */
template <class IN, class OUT> DEVICE void eval_conv(uint32_t in, uint32_t weights, const float *scale, uint32_t out)
{
    const int t = (int)threadIdx.x & 3;
    tile_conv_blocks<IN, OUT>(in, weights, [&](uint32_t first, uint32_t second, int n, const float *acc) INLINED {
        const float *s = scale + 8 * n + 2 * t, *b = s + OUT::C;
        const uint32_t to = out + (uint32_t)(n * OUT::PLANE_BYTES + 4 * t);
        store_shared_32(to + first, pack_bf16_relu(fmaf(acc[0], s[0], b[0]), fmaf(acc[1], s[1], b[1])));
        store_shared_32(to + second, pack_bf16_relu(fmaf(acc[2], s[0], b[0]), fmaf(acc[3], s[1], b[1])));
    });
}

/* conv -> norm -> ReLU -> pool, for 8 input channels: a lane holds two rows, and the neighbouring column is a lane
 * away. */
template <class IN, class OUT, class POOLED>
DEVICE void eval_conv_pool(uint32_t in, uint32_t weights, const float *scale, uint32_t out)
{
    const int t = (int)threadIdx.x & 3, g = (int)threadIdx.x % 32 / 4;
    float s[OUT::PLANES][2], b[OUT::PLANES][2];
#pragma unroll
    for (int n = 0; n < OUT::PLANES; n++)
#pragma unroll
        for (int e = 0; e < 2; e++) {
            s[n][e] = scale[8 * n + 2 * t + e];
            b[n][e] = scale[OUT::C + 8 * n + 2 * t + e];
        }
    tile_conv_rows<IN, OUT>(
        in, weights, [&](int image, int y, int x, int n, const float *upper, const float *lower) INLINED {
            float v[4];
#pragma unroll
            for (int e = 0; e < 4; e++) {
                v[e] = fmaxf(fmaf(upper[e], s[n][e % 2], b[n][e % 2]), fmaf(lower[e], s[n][e % 2], b[n][e % 2]));
                v[e] = fmaxf(v[e], exchange(v[e], 4));
            }
            const uint32_t cell = POOLED::at(image, y / 2, x / 2 + g / 2 + g % 2 * 4) +
                                  (uint32_t)(n * POOLED::PLANE_BYTES + 4 * t);
            store_shared_32(out + cell, g % 2 ? pack_bf16_relu(v[2], v[3]) : pack_bf16_relu(v[0], v[1]));
        });
}

template <class MAP, class POOLED> DEVICE void eval_pool(uint32_t from, uint32_t to)
{
    constexpr int HALF = MAP::SIZE / 2;
    tile_own<MAP> own;
    own.each_window([&](uint32_t cell, int w) INLINED {
        uint32_t v[4][4], m[4];
#pragma unroll
        for (int k = 0; k < 4; k++)
            load_shared_128(v[k], from + cell + (uint32_t)(k & 1) * 16 + (uint32_t)((k >> 1) * MAP::PITCH * 16));
#pragma unroll
        for (int i = 0; i < 4; i++)
            m[i] = pair_max(pair_max(v[0][i], v[1][i]), pair_max(v[2][i], v[3][i]));
        store_shared_128(to + (uint32_t)(own.plane * POOLED::PLANE_BYTES) + POOLED::at(own.image, w / HALF, w % HALF),
                         m[0], m[1], m[2], m[3]);
    });
}

struct eval_plain_memory {
    static constexpr int IMAGES = 2;
    using IN = full_map<0, IMAGES>;
    using A0 = half_map<0, IMAGES>;
    using A1 = half_map<1, IMAGES>;
    using A2 = half_map<2, IMAGES>;
    static constexpr int IN_AT = 0, A0_AT = IN::BYTES, A1_AT = A0_AT + A0::BYTES, A2_AT = A1_AT + A1::BYTES,
                         HOST_AT = A2_AT + A2::BYTES;
    static constexpr int FEATURES_AT = HOST_AT + eval_host::BYTES, BYTES = FEATURES_AT + IMAGES * EVAL_FEATURES * 4;
};

KERNEL __launch_bounds__(TILE_THREADS, 3) void eval_plain(const __grid_constant__ struct fast_host host,
                                                          const __grid_constant__ struct eval_job job)
{
    using M = eval_plain_memory;
    using H1 = full_map<1, M::IMAGES>;
    using H2 = full_map<2, M::IMAGES>;
    SHARED_BYTES(shared);
    struct eval_host net(shared + M::HOST_AT);
    const uint32_t in = smem(shared), a0 = in + M::A0_AT, a1 = in + M::A1_AT, a2 = in + M::A2_AT;
    const uint32_t h2 = in; /* it needs no frame there, but `in` needs its own: the next images clear it */
    float *features = (float *)(shared + M::FEATURES_AT);
    int loaded = -1;
    tile_clear(in, M::HOST_AT);
    struct eval_claims claims(job, EVAL_PLAIN);
    for (; claims.any(); claims.next()) {
        const int env = claims.env();
        __syncthreads();
        if (env != loaded)
            net.load(host, env);
        loaded = env;
        const uint32_t first = claims.first_image(job),
                       end = first + job.group < job.images ? first + job.group : job.images;
#pragma unroll 1
        for (uint32_t image = first; image < end; image += M::IMAGES) {
            eval_load<M::IN>(in, job, image);
            __syncthreads();
            eval_conv_pool<M::IN, full_map<0, M::IMAGES>, M::A0>(in, net.weights, net.scale(0), a0);
            __syncthreads();
            eval_conv_pool<M::A0, H1, M::A1>(a0, net.weights + eval_host::OFFSET_1, net.scale(1), a1);
            __syncthreads();
            eval_conv<M::A1, H2>(a1, net.weights + eval_host::OFFSET_2, net.scale(2), h2);
            __syncthreads();
            eval_pool<H2, M::A2>(h2, a2);
            __syncthreads();
            eval_features<M::A2>(a2, features);
            tile_clear(h2, H2::BYTES);
            __syncthreads();
            const uint32_t warp = threadIdx.x / 32;
            if (warp < M::IMAGES && image + warp < end)
                eval_classify(net, job, features + warp * EVAL_FEATURES, env, image + warp, job.plans[env].config[0]);
        }
    }
    device_wait(); /* for the grown envs: the next kernel waits for this one only */
}

/* ---- grown envs -------------------------------------------------------------------------------------------------- */

enum { GROWN_IMAGES = 2 };

/*
 * Two images at a time, in registers (nn/patch.cuh) from a block's convolution to its pool: block 0 one after the
 * other, the others together. Seeds after the last pool have maps so small that it takes eight images to fill the
 * warps; the unused images stay empty.
 */
template <int I> using grown_full = full_map<I, (I == 0 ? 1 : GROWN_IMAGES)>;
template <int I> using grown_half = half_map<I, GROWN_IMAGES>;
template <int I, int ROW>
using grown_tile = seed_tile<(8 << I), (32 >> I >> ROW),
                             (ROW == 0 ? grown_full<I>::IMAGES
                              : I == 2 ? (int)TILE_WARPS
                                       : (int)GROWN_IMAGES),
                             1, WAY_FORWARD>;

struct eval_grown_memory {
    /* For all forms of seeds: two maps, fragments, small arrays. */
    template <int I, int ROW> static constexpr int MAPS = 2 * grown_tile<I, ROW>::MAP::BYTES;
    template <int I, int ROW> static constexpr int FLOATS = 4 * grown_tile<I, ROW>::FLOATS;
    static constexpr int WORK =
        most(most(most(MAPS<0, 0>, MAPS<1, 0>), most(MAPS<2, 0>, MAPS<0, 1>)), most(MAPS<1, 1>, MAPS<2, 1>));
    static constexpr int SMALL = most(most(most(FLOATS<0, 0>, FLOATS<1, 0>), most(FLOATS<2, 0>, FLOATS<0, 1>)),
                                      most(FLOATS<1, 1>, FLOATS<2, 1>));
    static constexpr int A0 = WORK, A1 = A0 + grown_half<0>::BYTES, A2 = A1 + grown_half<1>::BYTES;
    static constexpr int FRAGMENTS = A2 + grown_half<2>::BYTES, FLOATS_AT = FRAGMENTS + grown_tile<2, 0>::WEIGHT_BYTES;
    static constexpr int HOST_AT = FLOATS_AT + SMALL, FEATURES_AT = HOST_AT + eval_host::BYTES;
    static constexpr int BYTES = FEATURES_AT + GROWN_IMAGES * EVAL_FEATURES * 4;
    template <int I> static constexpr int A = I == 0 ? A0 : I == 1 ? A1 : A2;
    static_assert(BYTES <= 113 * 1024, "two thread blocks per SM");
};

/* A grown env, processing two images. */
struct eval_grown_env {
    using M = eval_grown_memory;
    const struct fast_host &host;
    const struct seed_set &set;
    const struct eval_job &job;
    unsigned char *shared;
    struct eval_host net;
    int env, held; /* held: the slot whose parameters are in shared memory, or -1 */

    DEVICE_MEMBER eval_grown_env(const struct fast_host &host_, const struct seed_set &set_,
                                 const struct eval_job &job_, unsigned char *shared_)
        : host(host_), set(set_), job(job_), shared(shared_), net(shared_ + M::HOST_AT), env(-1), held(-1)
    {
    }
    DEVICE_MEMBER uint32_t map(int at) const
    {
        return smem(shared) + (uint32_t)at;
    }
    template <int I, int ROW> DEVICE_MEMBER bool has(uint32_t mask) const
    {
        const int slot = host.block[I].slot[ROW];
        return slot >= 0 && ((mask >> slot) & 1u);
    }
    /* From a slot's input to its output. */
    template <int I, int ROW> DEVICE_MEMBER void slot(typename grown_tile<I, ROW>::PATCH &x)
    {
        using T = grown_tile<I, ROW>;
        const int j = host.block[I].slot[ROW];
        const struct blend mix = blend_of(host.exec[(size_t)env * (size_t)host.slots + (size_t)j]);
        T tile(shared, shared + M::FRAGMENTS, shared + M::FLOATS_AT);
        seed_gate<T> gate(tile);
        tile.w = set.seed + (size_t)env * set.seed_size + job.seed[j];
        tile.packed = set.fragments + (size_t)env * set.fragment_size + job.fragments[j];
        gate.w = set.gate + (size_t)env * set.gate_size + job.gate[j];
        __syncthreads();
        tile_clear_frame<typename T::MAP>(tile.x);
        tile_clear_frame<typename T::MAP>(tile.y);
        seed_of(tile, mix.blueprint, [&](auto &seed) INLINED {
            if (held != j) {
                seed.prepare();
                copy_wait<0>();
            }
            __syncthreads();
            seed.forward(x);
            if (mix.gate)
                gate.forward(x);
            blend_mix<typename T::MAP>(x, x, seed.output(x), blend_amplitude(tile, gate, mix), mix.multiply);
        });
        held = j;
    }
    /* norm -> ReLU of a convolution's output. */
    template <int I> DEVICE_MEMBER patch<grown_full<I>> convolve(const patch_place<grown_full<I>> &at) const
    {
        using OUT = grown_full<I>;
        patch<OUT> h;
        const float *scale = net.scale(I);
        const auto done = [&](int m, int n, const float *d) INLINED {
            const float2 a = channel_pair(scale, n), b = channel_pair(scale + OUT::C, n);
            h.pair[m][n][0] = pack_bf16_relu(fmaf(d[0], a.x, b.x), fmaf(d[1], a.y, b.y));
            h.pair[m][n][1] = pack_bf16_relu(fmaf(d[2], a.x, b.x), fmaf(d[3], a.y, b.y));
        };
        if constexpr (I == 0) {
            patch_conv<OUT>(map(0), net.weights, at, done);
        } else {
            constexpr int BEFORE = I - 1;
            using IN = grown_half<BEFORE>;
            patch_place<IN> from;
            patch_conv<IN, OUT>(map(M::A<BEFORE>), net.weights + (I == 1 ? eval_host::OFFSET_1 : eval_host::OFFSET_2),
                                from, done);
        }
        return h;
    }
    /* The largest value of each window, to the map after the pool. */
    template <int I> DEVICE_MEMBER void pool(const patch<grown_full<I>> &y, int first) const
    {
        using AT = patch_place<grown_full<I>>;
        using OUT = grown_half<I>;
        const AT at;
        const uint32_t to = map(M::A<I>) + OUT::at(first + at.image, at.top / 2, at.g / 2) + (uint32_t)(4 * at.t);
#pragma unroll
        for (int n = 0; n < OUT::PLANES; n++)
#pragma unroll
            for (int w = 0; w < patch<grown_full<I>>::M; w++) {
                const uint32_t most = patch_window_max(y, w, n);
                const int row = AT::row(AT::window_m(w), 0) / 2,
                          column = AT::column(AT::window_m(w), AT::window_h(w)) / 2;
                if (!(at.g & 1))
                    store_shared_32(to + (uint32_t)(n * OUT::PLANE_BYTES + (row * OUT::PITCH + column) * 16), most);
            }
    }
    /* Slot r1, on the map after the pool. */
    template <int I> DEVICE_MEMBER void behind()
    {
        using T = grown_tile<I, 1>;
        using AMONG = grown_half<I>;
        const typename T::PLACE at;
        const bool there = at.image < GROWN_IMAGES;
        const uint32_t cell = map(M::A<I>) + (there ? at.template cell_base<AMONG>() : 0);
        typename T::PATCH x;
        patch_each<typename T::MAP>([&](int m, int n, int h) INLINED {
            x.pair[m][n][h] = there ? load_shared_32(cell + (uint32_t)at.template cell<AMONG>(m, n, h)) : 0;
        });
        slot<I, 1>(x);
        patch_each<typename T::MAP>([&](int m, int n, int h) INLINED {
            if (there)
                store_shared_32(cell + (uint32_t)at.template cell<AMONG>(m, n, h), x.pair[m][n][h]);
        });
        __syncthreads();
    }
    /* Block I of images image..; ends with a barrier. */
    template <int I> DEVICE_MEMBER void block(uint32_t mask, uint32_t image)
    {
        using MAP = grown_full<I>;
#pragma unroll 1
        for (int first = 0; first < GROWN_IMAGES; first += MAP::IMAGES) {
            patch_place<MAP> at;
            if constexpr (I == 0) { /* the pixels are where seeds work */
                __syncthreads();
                tile_clear_frame<MAP>(map(0));
                eval_load<MAP>(map(0), job, image + (uint32_t)first);
                __syncthreads();
            }
            patch<MAP> h = convolve<I>(at);
            if (has<I, 0>(mask))
                slot<I, 0>(h);
            pool<I>(h, first);
        }
        __syncthreads();
        if (has<I, 1>(mask))
            behind<I>();
    }
};

KERNEL __launch_bounds__(TILE_THREADS, 2) void eval_grown(const __grid_constant__ struct fast_host host,
                                                          const __grid_constant__ struct seed_set set,
                                                          const __grid_constant__ struct eval_job job)
{
    using M = eval_grown_memory;
    SHARED_BYTES(shared);
    eval_grown_env at(host, set, job, shared);
    float *features = (float *)(shared + M::FEATURES_AT);
    const struct net_shape *shape = job.shape;
    const uint32_t warp = threadIdx.x / 32;
    device_wait();
    device_release();
    tile_clear(at.map(M::A0), M::FRAGMENTS - M::A0);
    struct eval_claims claims(job, EVAL_GROWN);
    for (; claims.any(); claims.next()) {
        const int env = claims.env();
        const struct eval_plan *plan = &job.plans[env];
        __syncthreads();
        if (env != at.env) {
            at.net.load(host, env);
            at.env = env;
            at.held = -1;
        }
        const uint32_t first = claims.first_image(job),
                       end = first + job.group < job.images ? first + job.group : job.images;
#pragma unroll 1
        for (uint32_t image = first; image < end; image += GROWN_IMAGES)
#pragma unroll 1
            for (uint32_t k = 0; k < plan->count; k++) {
                /* Whatever a configuration shares with the one before is already there, up to the block where they
                 * diverge. */
                const uint32_t mask = plan->mask[k];
                const int start =
                    k > 0 ? shape->slot[shape->exec_order[eval_parting(shape, plan->mask[k - 1], mask)]].column : 0;
                if (start <= 0)
                    at.block<0>(mask, image);
                if (start <= 1)
                    at.block<1>(mask, image);
                at.block<2>(mask, image);
                eval_features<grown_half<2>>(at.map(M::A2), features);
                __syncthreads();
                if (warp < GROWN_IMAGES && image + warp < end)
                    eval_classify(at.net, job, features + warp * EVAL_FEATURES, env, image + warp, plan->config[k]);
            }
    }
}

/* ---- enqueue ----------------------------------------------------------------------------------------------------- */

struct fast_eval *eval_create(struct bf16_net *net)
{
    struct runtime *rt = net->runtime;
    const size_t envs = (size_t)net->host.envs;
    struct fast_eval *eval = new struct fast_eval();
    eval->plans = runtime_alloc<struct eval_plan>(rt, envs);
    eval->order.count = runtime_alloc<uint32_t>(rt, 2);
    eval->order.taken = runtime_alloc<uint32_t>(rt, 2);
    eval->order.env = runtime_alloc<uint32_t>(rt, envs);
    eval->order.weight = runtime_alloc<uint32_t>(rt, envs);
    eval->losses = runtime_alloc<float>(rt, envs * (size_t)net_most_images(&net->setup));
    fast_allow<eval_plain_memory::BYTES>(rt, eval_plain);
    fast_allow<eval_grown_memory::BYTES>(rt, eval_grown);
    if (rt->failed) {
        delete eval;
        return nullptr;
    }
    return eval;
}

void eval_free(struct fast_eval *eval)
{
    delete eval; /* device memory is released with the runtime */
}

static void eval_enqueue(struct bf16_net *net, enum split split, int images, float *losses)
{
    struct runtime *rt = net->runtime;
    struct eval_job job = {};
    job.shape = &net->placed->shape;
    job.data = net->setup.source.data;
    job.split = split;
    job.images = (uint32_t)images;
    job.plans = net->eval->plans;
    job.order = net->eval->order;
    job.correct = net->eval->plans->right;
    job.stride = PLAN_STRIDE;
    job.losses = losses;
    for (int j = 0; j < net->host.slots; j++) {
        job.seed[j] = net->seeds->slot[j].seed;
        job.gate[j] = net->seeds->slot[j].gate;
        job.fragments[j] = net->seeds->slot[j].fragments;
    }
    /* Jobs small enough to keep every SM busy to the end, large enough to amortise loading an env's weights. */
    const uint32_t processors = (uint32_t)runtime_processors(rt), all = job.images * (uint32_t)net->host.envs;
    job.group = all / (processors * 12) / 2 * 2;
    job.group = job.group < 4 ? 4 : job.group > 32 ? 32 : job.group;
    const uint32_t jobs = (job.images + job.group - 1) / job.group * (uint32_t)net->host.envs;
    const uint32_t plain = net->resident ? (uint32_t)net->resident : 3 * processors,
                   grown = net->resident ? (uint32_t)net->resident : 2 * processors;
    struct launch plain_shape = {dim3(jobs < plain ? jobs : plain), dim3(TILE_THREADS), eval_plain_memory::BYTES, true};
    struct launch grown_shape = {dim3(jobs < grown ? jobs : grown), dim3(TILE_THREADS), eval_grown_memory::BYTES, true};
    net_plan_order(net, job.plans, job.order);
    if (net->host.slots) {
        seed_pack(net); /* exec differs from training's, and a test may follow a rollback */
        runtime_launch(rt, eval_grown, grown_shape, net->host, net->seeds->set, job);
    }
    plain_shape.overlap = net->host.slots > 0; /* it begins where the grown ones leave SMs free */
    runtime_launch(rt, eval_plain, plain_shape, net->host, job);
}

void eval_validate(struct net_device *device, int images)
{
    struct bf16_net *net = bf16_net_of(device);
    net_plan_evaluate(net, net->eval->plans);
    eval_enqueue(net, SPLIT_VAL, images, net->eval->losses);
    net_plan_evaluated(net, net->eval->plans, net->eval->losses, images);
}

void eval_measure(struct net_device *device, struct net_sets sets, int images)
{
    struct bf16_net *net = bf16_net_of(device);
    net_plan_measure(net, net->eval->plans, sets);
    eval_enqueue(net, SPLIT_VAL, images, nullptr);
    net_plan_measured(net, net->eval->plans, sets, images);
}

void eval_test(struct net_device *device)
{
    struct bf16_net *net = bf16_net_of(device);
    net_plan_test(net, net->eval->plans);
    eval_enqueue(net, SPLIT_TEST, net->setup.test_images, nullptr);
    net_plan_tested(net, net->eval->plans);
}
