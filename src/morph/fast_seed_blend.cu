/*
 * Blended seeds: they lie on the host's path, so gradients go on through them. Nothing but the output is kept of the
 * forward pass; the way back repeats it in shared memory.
 */
#include "cuda/runtime.cuh"

#include "morph/fast_seed_load.cuh"
#include "morph/fast_seed_mix.cuh"

/* Images a block of threads takes at a time: five maps of them must leave room for two blocks where that is possible.
 */
constexpr int blend_images(int channels, int size)
{
    return channels == 16 && size == 16 ? 1 : seed_images(channels, size);
}

template <int C, int SIZE> using forward_tile = seed_tile<C, SIZE, blend_images(C, SIZE), 4, 2, false>;
template <int C, int SIZE> using backward_tile = seed_tile<C, SIZE, blend_images(C, SIZE), 5, (C < 32 ? 4 : 2), true>;

/* ---- forward ----------------------------------------------------------------------------------------------------- */

/* The map y, pooled for r0, to where the slot's output goes. For r0 a barrier must lie between writing y and this. */
template <class T, int ROW>
DEVICE void blend_write(uint32_t y, const struct fast_host &host, uint4 *to, int env, int first, int end)
{
    using MAP = typename T::MAP;
    tile_own<MAP> own;
    if (first + own.image >= end)
        return;
    uint4 *out = plane_at(to, MAP::C, ROW == 0 ? MAP::AREA / 4 : MAP::AREA, image_at(host, env, first + own.image),
                          own.plane, 0);
    if constexpr (ROW == 0) {
        own.each_window([&](uint32_t cell, int w) INLINED {
            uint32_t v[4][4], m[4];
#pragma unroll
            for (int k = 0; k < 4; k++)
                load_shared_128(v[k], y + cell + (uint32_t)(k & 1) * 16 + (uint32_t)((k >> 1) * MAP::PITCH * 16));
#pragma unroll
            for (int i = 0; i < 4; i++)
                m[i] = pair_max(pair_max(v[0][i], v[1][i]), pair_max(v[2][i], v[3][i]));
            out[w] = make_uint4(m[0], m[1], m[2], m[3]);
        });
    } else {
        own.each([&](uint32_t cell, int p) INLINED {
            uint32_t v[4];
            load_shared_128(v, y + cell);
            out[p] = make_uint4(v[0], v[1], v[2], v[3]);
        });
    }
}

template <int C, int SIZE, int ROW>
KERNEL __launch_bounds__(TILE_THREADS, (forward_tile<C, SIZE>::PER_PROCESSOR)) void blend_forward_jobs(
    const __grid_constant__ struct fast_host host, const __grid_constant__ struct seed_set set,
    const __grid_constant__ struct seed_slot slot)
{
    using T = forward_tile<C, SIZE>;
    SHARED_BYTES(shared);
    T tile(shared);
    device_wait();
    const struct fast_block &block = host.block[slot.block];
    const uint32_t jobs = __ldcg(slot.blend) * (uint32_t)host.jobs;
    for (uint32_t number = blockIdx.x; number < jobs; number += gridDim.x) {
        const struct seed_job job = seed_job_of(host, slot.blend, number);
        const struct blend blend = blend_of(host.exec[(size_t)job.env * (size_t)host.slots + (size_t)block.slot[ROW]]);
        const struct seed_input input = seed_input_of<ROW>(host, set, slot.block, job.env);
        const bool more = ROW == 0 && fast_mode(host, job.env, block.slot[1]) != SLOT_SKIP;
        uint4 *to = more ? set.between[slot.block] : block.act;
        uint4 *also = more && fast_mode(host, job.env, block.slot[1]) != SLOT_BLEND ? block.act : nullptr;
        seed_gate<T> gate(tile);
        tile.w = set.seed + (size_t)job.env * set.seed_size + slot.seed;
        gate.w = set.gate + (size_t)job.env * set.gate_size + slot.gate;
        __syncthreads();
        tile_clear(tile.x, 4 * T::MAP::BYTES);
        seed_batch_norm(tile, host, slot.block, job.env);
        const auto write = [&](uint32_t y, int first) INLINED {
            blend_write<T, ROW>(y, host, to, job.env, first, job.end);
            if (also)
                blend_write<T, ROW>(y, host, also, job.env, first, job.end);
        };
        seed_fetch(tile, host, input, job.env, job.first, job.end);
        if (blend.blueprint == BLUEPRINT_NOOP) {
            for (int first = job.first; first < job.end; first += T::IMAGES) {
                __syncthreads();
                seed_load(tile, host, input, job.env, first, job.end);
                seed_fetch(tile, host, input, job.env, first + T::IMAGES, job.end);
                __syncthreads();
                write(tile.x, first);
            }
            continue;
        }
        seed_of(tile, blend.blueprint, true, [&](auto &seed) INLINED {
            using SEED = typename std::remove_reference<decltype(seed)>::type;
            seed.prepare();
            __syncthreads();
#pragma unroll 1
            for (int first = job.first; first < job.end; first += T::IMAGES) {
                seed_load(tile, host, input, job.env, first, job.end);
                seed_fetch(tile, host, input, job.env, first + T::IMAGES, job.end);
                __syncthreads();
                seed.forward();
                if (blend.gate)
                    gate.forward();
                blend_own<T, SEED> mine(seed, gate, blend);
                mine.own.each([&](uint32_t cell, int) INLINED {
                    float x[8], s[8], y[8];
                    mine.load(x, s, tile, seed, cell);
                    mine.mix(y, x, s, blend.multiply);
                    tile_store(tile.b1 + cell, y);
                });
                __syncthreads();
                write(tile.b1, first);
            }
        });
    }
}

/* ---- backward ---------------------------------------------------------------------------------------------------- */

/* Where gradients go, and the sums that BatchNorm needs of them. */
struct blend_target {
    uint4 *masked, *plain; /* before the ReLU and after it; NULL where not wanted */
    const uint4 *raw;
    float sum, moment; /* of this thread's image and channel */
};

template <int ROW>
DEVICE struct blend_target blend_target_of(const struct fast_host &host, const struct seed_set &set, int block, int env)
{
    const struct fast_block &b = host.block[block];
    struct blend_target target = {b.grad_full, nullptr, b.raw, 0, 0};
    if (ROW == 1) {
        const int before = fast_mode(host, env, b.slot[0]);
        target.masked = before == SLOT_BLEND ? nullptr : b.grad;
        target.plain = before == SLOT_SKIP ? nullptr : set.between_grad[block];
        target.raw = b.pooled;
    }
    return target;
}

/* The gradient of the slot's input, dh = direct (+ deeper) (+ gate's), own cells. Ends with a barrier. */
template <class T, class GET>
DEVICE void blend_write_grad(T &tile, const struct fast_host &host, struct blend_target &target, int env, int first,
                             int end, GET get)
{
    using MAP = typename T::MAP;
    tile_own<MAP> own;
    const bool there = first + own.image < end;
    const size_t image = image_at(host, env, there ? first + own.image : first);
    const size_t plane = (image * MAP::PLANES + (size_t)own.plane) * MAP::AREA;
    tile_sums<MAP>(tile.part, [&](uint32_t cell, float *v) INLINED {
        /* the pixel's number from its cell: cells are visited by number */
        const int at = (int)(cell - own.base) / 16 - own.image * MAP::CELLS,
                  p = (at / MAP::PITCH - 1) * MAP::SIZE + at % MAP::PITCH - 1;
        float dh[8], x[8], raw[8];
        get(dh, cell);
        uint32_t r[4];
        if (there && target.plain)
            target.plain[plane + (size_t)p] = make_uint4(pack_bf16(dh[0], dh[1]), pack_bf16(dh[2], dh[3]),
                                                         pack_bf16(dh[4], dh[5]), pack_bf16(dh[6], dh[7]));
        if (!there || !target.masked)
            return;
        tile_load(x, tile.x + cell);
        const uint4 got = __ldcg(target.raw + plane + (size_t)p);
        const uint32_t pairs[4] = {got.x, got.y, got.z, got.w};
        tile_unpack(raw, pairs);
#pragma unroll
        for (int i = 0; i < 4; i++)
            r[i] = pack_bf16(x[2 * i] > 0 ? dh[2 * i] : 0, x[2 * i + 1] > 0 ? dh[2 * i + 1] : 0);
        target.masked[plane + (size_t)p] = make_uint4(r[0], r[1], r[2], r[3]);
        tile_unpack(dh, r);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            v[i] += dh[i];
            v[8 + i] = fmaf(dh[i], raw[i], v[8 + i]);
        }
    });
    __syncthreads();
    const int t = (int)threadIdx.x;
    if (t < T::IMAGES * T::C) {
        target.sum += tile_total<MAP>(tile.part, t / T::C, t % T::C, 0);
        target.moment += tile_total<MAP>(tile.part, t / T::C, t % T::C, 1);
    }
    __syncthreads();
}

template <class T>
DEVICE void blend_write_sums(T &tile, const struct fast_host &host, const struct blend_target &target, int block,
                             const struct seed_job &job)
{
    float *back = back_row(host, block, job.env, job.piece);
    if (!target.masked)
        return;
    tile_over_images<typename T::MAP>(target.sum, tile.part, back);
    tile_over_images<typename T::MAP>(target.moment, tile.part, back + T::C);
}

/*
 * Through the blend: the gradient g of its output (in the map `extra`) becomes what goes to the input directly, the
 * seed's gradient ds goes to the map u. A chain's own shortcut, s = x + ..., is part of the direct way.
 */
template <class T, class SEED>
DEVICE void blend_backward(T &tile, SEED &seed, seed_gate<T> &gate, const struct blend &blend)
{
    using MAP = typename T::MAP;
    blend_own<T, SEED> mine(seed, gate, blend);
    const float a = mine.amplitude;
    tile_sums<MAP>(tile.part, [&](uint32_t cell, float *v) INLINED {
        float x[8], s[8], g[8], ds[8];
        mine.load(x, s, tile, seed, cell);
        tile_load(g, tile.extra + cell);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            if (blend.multiply) {
                const float t = blend_tanh(s[i] - x[i]);
                ds[i] = g[i] * x[i] * (a * fmaf(-t, t, 1.0f));
                g[i] = fmaf(a * t, g[i], g[i]) - (SEED::RESIDUAL ? 0 : ds[i]);
            } else {
                v[i] = fmaf(g[i], s[i] - x[i], v[i]);
                ds[i] = a * g[i];
                g[i] = SEED::RESIDUAL ? g[i] : g[i] - ds[i];
            }
        }
        tile_store(tile.extra + cell, g);
        tile_store(seed.u() + cell, ds);
    });
    __syncthreads();
    if (!blend.gate)
        return;
    const int t = (int)threadIdx.x;
    if (t < T::IMAGES) {
        float sum = 0;
        for (int c = 0; c < T::C; c++)
            sum += tile_total<MAP>(tile.part, t, c, 0);
        gate.dq()[t] = blend.alpha * sum;
    }
    __syncthreads();
    gate.backward();
}

/* The gradient after the blend into `extra`: through the pool to the largest y for r0. Ends with a barrier. */
template <class T, int ROW, class Y>
DEVICE void blend_load_grad(T &tile, const struct fast_host &host, const uint4 *grad, int env, int first, int end,
                            Y write_y)
{
    if constexpr (ROW == 0) {
        write_y();
        __syncthreads();
        seed_route_grad<T>(tile.extra, tile.extra, host, grad, env, first, end);
    } else {
        seed_load_grad<T>(tile.extra, host, grad, env, first, end);
    }
    __syncthreads();
}

template <int C, int SIZE, int ROW>
KERNEL __launch_bounds__(TILE_THREADS, (backward_tile<C, SIZE>::PER_PROCESSOR)) void blend_backward_jobs(
    const __grid_constant__ struct fast_host host, const __grid_constant__ struct seed_set set,
    const __grid_constant__ struct seed_slot slot)
{
    using T = backward_tile<C, SIZE>;
    using MAP = typename T::MAP;
    SHARED_BYTES(shared);
    T tile(shared);
    device_wait();
    const struct fast_block &block = host.block[slot.block];
    const uint32_t jobs = __ldcg(slot.blend) * (uint32_t)host.jobs;
    for (uint32_t number = blockIdx.x; number < jobs; number += gridDim.x) {
        const struct seed_job job = seed_job_of(host, slot.blend, number);
        const struct blend blend = blend_of(host.exec[(size_t)job.env * (size_t)host.slots + (size_t)block.slot[ROW]]);
        const struct seed_input input = seed_input_of<ROW>(host, set, slot.block, job.env);
        const uint4 *grad = seed_grad_of<ROW>(host, set, slot.block, job.env);
        float *record = seed_record(host, slot, job);
        struct blend_target target = blend_target_of<ROW>(host, set, slot.block, job.env);
        seed_gate<T> gate(tile);
        tile.w = set.seed + (size_t)job.env * set.seed_size + slot.seed;
        gate.w = set.gate + (size_t)job.env * set.gate_size + slot.gate;
        if (blend.blueprint == BLUEPRINT_NOOP) { /* the identity: nothing goes to the seed */
            __syncthreads();
            tile_clear(tile.x, 5 * MAP::BYTES);
            seed_batch_norm(tile, host, slot.block, job.env);
            for (uint32_t k = threadIdx.x; blend.train && k < slot.record; k += TILE_THREADS)
                record[k] = 0;
            seed_fetch(tile, host, input, job.env, job.first, job.end);
            for (int first = job.first; first < job.end; first += T::IMAGES) {
                __syncthreads();
                seed_load(tile, host, input, job.env, first, job.end);
                seed_fetch(tile, host, input, job.env, first + T::IMAGES, job.end);
                blend_load_grad<T, ROW>(tile, host, grad, job.env, first, job.end, [&]() INLINED {
                    tile_own<MAP> own;
                    own.each([&](uint32_t cell, int) INLINED {
                        uint32_t v[4];
                        load_shared_128(v, tile.x + cell);
                        store_shared_128(tile.extra + cell, v[0], v[1], v[2], v[3]);
                    });
                });
                blend_write_grad(tile, host, target, job.env, first, job.end,
                                 [&](float *dh, uint32_t cell) INLINED { tile_load(dh, tile.extra + cell); });
            }
            blend_write_sums(tile, host, target, slot.block, job);
            continue;
        }
        const int passes = blend.train && blend.blueprint == BLUEPRINT_CONV_HEAVY ? 2 : 1;
        for (int pass = 0; pass < passes; pass++)
            seed_of(tile, blend.blueprint, pass == 1, [&](auto &seed) INLINED {
                using SEED = typename std::remove_reference<decltype(seed)>::type;
                __syncthreads();
                tile_clear(tile.x, 5 * MAP::BYTES);
                seed_batch_norm(tile, host, slot.block, job.env);
                seed.prepare();
                seed.clear();
                gate.clear();
                seed_fetch(tile, host, input, job.env, job.first, job.end);
                __syncthreads();
#pragma unroll 1
                for (int first = job.first; first < job.end; first += T::IMAGES) {
                    seed_load(tile, host, input, job.env, first, job.end);
                    seed_fetch(tile, host, input, job.env, first + T::IMAGES, job.end);
                    __syncthreads();
                    seed.forward();
                    if (blend.gate)
                        gate.forward();
                    blend_load_grad<T, ROW>(tile, host, grad, job.env, first, job.end, [&]() INLINED {
                        blend_own<T, SEED> mine(seed, gate, blend);
                        mine.own.each([&](uint32_t cell, int) INLINED {
                            float x[8], s[8], y[8];
                            mine.load(x, s, tile, seed, cell);
                            mine.mix(y, x, s, blend.multiply);
                            tile_store(tile.extra + cell, y);
                        });
                    });
                    blend_backward(tile, seed, gate, blend);
                    seed.backward(blend.train);
                    if (pass == 1)
                        continue;
                    tile_own<MAP> own;
                    float more[8] = {0, 0, 0, 0, 0, 0, 0, 0};
                    if (blend.gate)
                        tile_coefficients(more, gate.input() + own.channel());
                    blend_write_grad(tile, host, target, job.env, first, job.end,
                                     [&](float *dh, uint32_t cell) INLINED {
                                         float through[8];
                                         tile_load(dh, tile.extra + cell);
                                         tile_load(through, seed.dx() + cell);
#pragma unroll
                                         for (int i = 0; i < 8; i++)
                                             dh[i] += through[i] + more[i];
                                     });
                }
                if (blend.train) {
                    seed.finish(record);
                    if (blend.gate && pass == 0)
                        gate.finish(record + slot.seed_storage);
                }
                if (pass == 0) {
                    __syncthreads();
                    blend_write_sums(tile, host, target, slot.block, job);
                }
            });
    }
}

/* ---- enqueue ----------------------------------------------------------------------------------------------------- */

template <int C, int SIZE, int ROW> static void forward_enqueue(struct net_device *net, const struct seed_slot &slot)
{
    struct runtime *rt = net->context->runtime;
    using T = forward_tile<C, SIZE>;
    struct launch shape = {dim3(seed_grid(net, T::PER_PROCESSOR)), dim3(TILE_THREADS), T::BYTES, true};
    runtime_allow_shared(rt, blend_forward_jobs<C, SIZE, ROW>, T::BYTES);
    runtime_launch(rt, blend_forward_jobs<C, SIZE, ROW>, shape, net->host, net->seeds->set, slot);
}

template <int C, int SIZE, int ROW> static void backward_enqueue(struct net_device *net, const struct seed_slot &slot)
{
    struct runtime *rt = net->context->runtime;
    using T = backward_tile<C, SIZE>;
    struct launch shape = {dim3(seed_grid(net, T::PER_PROCESSOR)), dim3(TILE_THREADS), T::BYTES, true};
    runtime_allow_shared(rt, blend_backward_jobs<C, SIZE, ROW>, T::BYTES);
    runtime_launch(rt, blend_backward_jobs<C, SIZE, ROW>, shape, net->host, net->seeds->set, slot);
}

void seed_blend_forward(struct net_device *net, int block)
{
    for (int row = 0; row < SLOT_ROWS; row++) {
        if (net->host.block[block].slot[row] < 0)
            continue;
        const struct seed_slot &slot = net->seeds->slot[net->host.block[block].slot[row]];
#define FORWARD_FORM(C, SIZE, ROW)                                                                                     \
    if (slot.channels == C && slot.size == SIZE && row == ROW)                                                         \
        forward_enqueue<C, SIZE, ROW>(net, slot);
        SEED_FORMS(FORWARD_FORM)
#undef FORWARD_FORM
    }
}

void seed_blend_backward(struct net_device *net, int block)
{
    for (int row = SLOT_ROWS - 1; row >= 0; row--) {
        if (net->host.block[block].slot[row] < 0)
            continue;
        const struct seed_slot &slot = net->seeds->slot[net->host.block[block].slot[row]];
#define BACKWARD_FORM(C, SIZE, ROW)                                                                                    \
    if (slot.channels == C && slot.size == SIZE && row == ROW)                                                         \
        backward_enqueue<C, SIZE, ROW>(net, slot);
        SEED_FORMS(BACKWARD_FORM)
#undef BACKWARD_FORM
    }
}
