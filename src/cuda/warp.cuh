/*
 * Tensor cores, matrix loads and asynchronous copies: one small function per instruction, with its equivalent on the
 * CPU beside it (EMULATE). A pair, of bf16 or fp16, is a uint32_t, the lower half first.
 *
 * Fragments of a warp (lane = 4 g + t): A of m16n8k16 holds a[0] = (g, 2t..), a[1] = (g + 8, 2t..), a[2] = (g, 2t
 * + 8..), a[3] = (g + 8, 2t + 8..); B holds b0 = (2t.., g), b1 = (2t + 8.., g); D holds (g, 2t), (g, 2t + 1), (g + 8,
 * 2t), (g + 8, 2t + 1).
 */
#ifndef CUDA_WARP_CUH
#define CUDA_WARP_CUH

#include <float.h>

#include "cuda/runtime.cuh"

extern "C" {
#include "base/assert.h"
}

enum { TWO_ONES = 0x3f803f80 }; /* a pair */

DEVICE float bf16_lo(uint32_t pair)
{
    return __uint_as_float(pair << 16);
}

DEVICE float bf16_hi(uint32_t pair)
{
    return __uint_as_float(pair & 0xffff0000u);
}

DEVICE float exchange(float value, int mask)
{
    return __shfl_xor_sync(~0u, value, mask);
}

#ifndef EMULATE

DEVICE uint32_t smem(const void *p)
{
    return (uint32_t)__cvta_generic_to_shared(p);
}

DEVICE uint32_t pack_bf16(float lo, float hi)
{
    uint32_t r;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo));
    return r;
}

/* The larger and the smaller of each of two pairs; NAN if either is. */
DEVICE uint32_t max_bf16(uint32_t a, uint32_t b)
{
    uint32_t r;
    asm("max.NaN.bf16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
    return r;
}

DEVICE uint32_t min_bf16(uint32_t a, uint32_t b)
{
    uint32_t r;
    asm("min.NaN.bf16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
    return r;
}

DEVICE uint32_t pack_bf16_relu(float lo, float hi)
{
    uint32_t r;
    asm("cvt.rn.relu.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo));
    return r;
}

DEVICE uint32_t multiply_bf16(uint32_t a, uint32_t b)
{
    uint32_t r;
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(0x80008000u)); /* -0 changes no sign */
    return r;
}

/* Beyond the largest number of fp16, that. */
DEVICE uint32_t pack_f16(float lo, float hi)
{
    uint32_t r;
    asm("cvt.rn.satfinite.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo));
    return r;
}

DEVICE float f16_lo(uint32_t pair)
{
    float r;
    asm("{ .reg .b16 lo, hi; mov.b32 {lo, hi}, %1; cvt.f32.f16 %0, lo; }" : "=f"(r) : "r"(pair));
    return r;
}

DEVICE float f16_hi(uint32_t pair)
{
    float r;
    asm("{ .reg .b16 lo, hi; mov.b32 {lo, hi}, %1; cvt.f32.f16 %0, hi; }" : "=f"(r) : "r"(pair));
    return r;
}

DEVICE uint32_t multiply_f16(uint32_t a, uint32_t b)
{
    uint32_t r;
    asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
    return r;
}

/* a b + c, and c - a b. */
DEVICE uint32_t fma_f16(uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t r;
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c));
    return r;
}

DEVICE uint32_t fnma_f16(uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t r;
    asm("{ .reg .b32 less; neg.f16x2 less, %1; fma.rn.f16x2 %0, less, %2, %3; }" : "=r"(r) : "r"(a), "r"(b), "r"(c));
    return r;
}

DEVICE uint32_t min_f16(uint32_t a, uint32_t b)
{
    uint32_t r;
    asm("min.f16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
    return r;
}

/* To 2^-11. */
DEVICE uint32_t quick_tanh_f16(uint32_t x)
{
    uint32_t r;
    asm("tanh.approx.f16x2 %0, %1;" : "=r"(r) : "r"(x));
    return r;
}

/* To some 2e-7 of the result; numbers below the normal ones are zero. */
DEVICE float quick_exp2(float x)
{
    float r;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
    return r;
}

DEVICE void mma_bf16(float d[4], const uint32_t a[4], uint32_t b0, uint32_t b1)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

DEVICE void mma_bf16_k8(float d[4], uint32_t a0, uint32_t a1, uint32_t b0)
{
    asm("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a0), "r"(a1), "r"(b0));
}

/* A of m16n8k8 in tf32: a[0] = (g, t), a[1] = (g + 8, t), a[2] = (g, t + 4), a[3] = (g + 8, t + 4); b0 = (t, g), b1 =
 * (t + 4, g). */
DEVICE void mma_tf32(float d[4], const uint32_t a[4], uint32_t b0, uint32_t b1)
{
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

DEVICE uint32_t to_tf32(float x)
{
    uint32_t r;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(x));
    return r;
}

DEVICE void load_matrix(uint32_t r[4], uint32_t address)
{
    ESPER_ASSERT(address % 16 == 0);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address)
                 : "memory");
}

DEVICE void load_matrix_transposed(uint32_t r[4], uint32_t address)
{
    ESPER_ASSERT(address % 16 == 0);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address)
                 : "memory");
}

#if __CUDA_ARCH__ >= 900
DEVICE void store_matrix(uint32_t address, uint32_t r0, uint32_t r1, uint32_t r2, uint32_t r3)
{
    ESPER_ASSERT(address % 16 == 0);
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(address), "r"(r0), "r"(r1),
                 "r"(r2), "r"(r3)
                 : "memory");
}

DEVICE void store_matrix_transposed(uint32_t address, uint32_t r0, uint32_t r1, uint32_t r2, uint32_t r3)
{
    ESPER_ASSERT(address % 16 == 0);
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(address), "r"(r0), "r"(r1),
                 "r"(r2), "r"(r3)
                 : "memory");
}

DEVICE void device_wait()
{
    asm volatile("griddepcontrol.wait;" ::: "memory");
}

DEVICE void device_release()
{
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}
#else
/* Lane 8 m + i holds the address of row i of matrix m: here every lane writes its own elements there. */
DEVICE void store_matrix(uint32_t address, uint32_t r0, uint32_t r1, uint32_t r2, uint32_t r3)
{
    ESPER_ASSERT(address % 16 == 0);
    const uint32_t r[4] = {r0, r1, r2, r3};
    int lane = threadIdx.x & 31;
#pragma unroll
    for (int m = 0; m < 4; m++) {
        uint32_t row = __shfl_sync(~0u, address, 8 * m + (lane >> 2));
        asm volatile("st.shared.b32 [%0], %1;" ::"r"(row + 4 * (lane & 3)), "r"(r[m]) : "memory");
    }
}

DEVICE void store_matrix_transposed(uint32_t address, uint32_t r0, uint32_t r1, uint32_t r2, uint32_t r3)
{
    ESPER_ASSERT(address % 16 == 0);
    const uint32_t r[4] = {r0, r1, r2, r3};
    int lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
#pragma unroll
    for (int m = 0; m < 4; m++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            uint32_t row = __shfl_sync(~0u, address, 8 * m + 2 * t + half);
            asm volatile("st.shared.b16 [%0], %1;" ::"r"(row + 2 * g), "h"((uint16_t)(r[m] >> 16 * half)) : "memory");
        }
}

DEVICE void device_wait()
{
}
DEVICE void device_release()
{
}
#endif

/* Words of global memory that nobody else needs soon: they leave the cache before others. */
template <class T> DEVICE T read_once(const T *from)
{
    return __ldcs(from);
}

template <class T> DEVICE void write_once(T *to, T value)
{
    __stcs(to, value);
}

DEVICE void copy_async(uint32_t address, const void *global)
{
    ESPER_ASSERT(address % 16 == 0 && (uintptr_t)global % 16 == 0);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address), "l"(global) : "memory");
}

/* Zeros where `there` is false: nothing is read then, and the address may be behind what there is. */
DEVICE void copy_async_or_zero(uint32_t address, const void *global, bool there)
{
    ESPER_ASSERT(address % 16 == 0 && (uintptr_t)global % 16 == 0);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(global), "r"(there ? 16 : 0)
                 : "memory");
}

DEVICE void copy_async_8(uint32_t address, const void *global)
{
    ESPER_ASSERT(address % 8 == 0 && (uintptr_t)global % 8 == 0);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(address), "l"(global) : "memory");
}

DEVICE void copy_async_4(uint32_t address, const void *global)
{
    ESPER_ASSERT(address % 4 == 0 && (uintptr_t)global % 4 == 0);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(address), "l"(global) : "memory");
}

/* An 8 x 8 matrix of bf16, held as (g, 2t..), transposed. */
DEVICE uint32_t transpose_matrix(uint32_t pair)
{
    uint32_t r;
    asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(r) : "r"(pair));
    return r;
}

/* All ones in the halves that are greater than zero. */
DEVICE uint32_t positive_mask(uint32_t pair)
{
#if __CUDA_ARCH__ >= 900
    uint32_t r;
    asm("set.gt.u32.bf16x2 %0, %1, %2;" : "=r"(r) : "r"(pair), "r"(0));
    return r;
#else
    return (bf16_lo(pair) > 0 ? 0xffffu : 0) | (bf16_hi(pair) > 0 ? 0xffff0000u : 0);
#endif
}

/* `threads` threads of a block, whole warps, meet at barrier `name`, 1 to 15. */
DEVICE void team_sync(int name, int threads)
{
    asm volatile("bar.sync %0, %1;" ::"r"(name), "r"(threads) : "memory");
}

DEVICE void copy_commit()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

template <int LEFT> DEVICE void copy_wait()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
}

/* Of memory that no kernel in flight writes: may be read at any time. */
DEVICE uint4 load_global_128(const uint4 *from)
{
    uint4 r;
    asm("ld.global.v4.u32 {%0,%1,%2,%3}, [%4];"
        : "=r"(r.x), "=r"(r.y), "=r"(r.z), "=r"(r.w)
        : "l"(__cvta_generic_to_global(from)));
    return r;
}

DEVICE void load_shared_128(uint32_t r[4], uint32_t address)
{
    asm volatile("ld.shared.v4.b32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address)
                 : "memory");
}

DEVICE void load_shared_64(uint32_t r[2], uint32_t address)
{
    asm volatile("ld.shared.v2.b32 {%0,%1}, [%2];" : "=r"(r[0]), "=r"(r[1]) : "r"(address) : "memory");
}

DEVICE uint32_t load_shared_32(uint32_t address)
{
    uint32_t r;
    asm volatile("ld.shared.b32 %0, [%1];" : "=r"(r) : "r"(address) : "memory");
    return r;
}

DEVICE void store_shared_128(uint32_t address, uint32_t a, uint32_t b, uint32_t c, uint32_t d)
{
    asm volatile("st.shared.v4.b32 [%0], {%1,%2,%3,%4};" ::"r"(address), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
}

DEVICE void store_shared_64(uint32_t address, uint32_t a, uint32_t b)
{
    asm volatile("st.shared.v2.b32 [%0], {%1,%2};" ::"r"(address), "r"(a), "r"(b) : "memory");
}

DEVICE void store_shared_32(uint32_t address, uint32_t a)
{
    asm volatile("st.shared.b32 [%0], %1;" ::"r"(address), "r"(a) : "memory");
}

DEVICE uint32_t load_acquire(const uint32_t *at)
{
    uint32_t value;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(at) : "memory");
    return value;
}

#else /* EMULATE */

static inline uint32_t smem(const void *p)
{
    return (uint32_t)((const unsigned char *)p - emulate::current->block->shared_base);
}

static inline float quick_exp2(float x)
{
    const float r = exp2f(x);
    return r < FLT_MIN ? 0 : r; /* NaN stays */
}

static inline uint32_t bf16_bits(float x)
{
    uint32_t u = __float_as_uint(x);
    if ((u & 0x7fffffffu) > 0x7f800000u)
        return u >> 16 | 0x40u;
    return (u + 0x7fffu + (u >> 16 & 1u)) >> 16;
}

static inline uint32_t pack_bf16(float lo, float hi)
{
    return bf16_bits(lo) | bf16_bits(hi) << 16;
}

/* f of each of two pairs' numbers; NAN if either is. */
template <class F> static inline uint32_t bf16_pairs(uint32_t a, uint32_t b, F f)
{
    const auto one = [&](float x, float y) { return x != x ? x : y != y ? y : f(x, y) ? x : y; };
    return pack_bf16(one(bf16_lo(a), bf16_lo(b)), one(bf16_hi(a), bf16_hi(b)));
}

static inline uint32_t max_bf16(uint32_t a, uint32_t b)
{
    return bf16_pairs(a, b, [](float x, float y) { return x > y; });
}

static inline uint32_t min_bf16(uint32_t a, uint32_t b)
{
    return bf16_pairs(a, b, [](float x, float y) { return x < y; });
}

static inline uint32_t pack_bf16_relu(float lo, float hi)
{
    return pack_bf16(lo > 0 ? lo : 0, hi > 0 ? hi : 0);
}

static inline uint32_t multiply_bf16(uint32_t a, uint32_t b)
{
    return pack_bf16(bf16_lo(a) * bf16_lo(b), bf16_hi(a) * bf16_hi(b));
}

#define F16_MOST 65504.0f

/* The nearest number of fp16. */
static inline uint32_t f16_bits(float x)
{
    const uint32_t sign = __float_as_uint(x) >> 16 & 0x8000u;
    const float size = fabsf(x);
    int above = 0; /* its exponent */
    if (x != x)
        return 0x7fffu;
    if (size >= F16_MOST + 16)
        return sign | 0x7c00u;
    frexpf(size, &above);
    const int own = size < 0x1p-14f ? 1 : above + 14;
    return sign | (uint32_t)((own - 1) * 1024 + (int)rintf(ldexpf(size, 25 - own)));
}

static inline float f16_value(uint32_t bits)
{
    const int exponent = (int)(bits >> 10 & 31u), rest = (int)(bits & 1023u);
    float size = exponent ? ldexpf((float)(rest + 1024), exponent - 25) : ldexpf((float)rest, -24);
    if (exponent == 31)
        size = rest ? NAN : INFINITY;
    return bits & 0x8000u ? -size : size;
}

static inline float f16_lo(uint32_t pair)
{
    return f16_value(pair & 0xffffu);
}

static inline float f16_hi(uint32_t pair)
{
    return f16_value(pair >> 16);
}

/* f for each half, given what picks it, rounded. */
template <class F> static inline uint32_t f16_pair(F f)
{
    return f16_bits(f(f16_lo)) | f16_bits(f(f16_hi)) << 16;
}

static inline uint32_t pack_f16(float lo, float hi)
{
    const auto within = [](float x) { return fabsf(x) > F16_MOST ? copysignf(F16_MOST, x) : x; };
    return f16_bits(within(lo)) | f16_bits(within(hi)) << 16;
}

static inline uint32_t multiply_f16(uint32_t a, uint32_t b)
{
    return f16_pair([&](auto of) { return of(a) * of(b); });
}

static inline uint32_t fma_f16(uint32_t a, uint32_t b, uint32_t c)
{
    return f16_pair([&](auto of) { return fmaf(of(a), of(b), of(c)); });
}

static inline uint32_t fnma_f16(uint32_t a, uint32_t b, uint32_t c)
{
    return f16_pair([&](auto of) { return fmaf(-of(a), of(b), of(c)); });
}

static inline uint32_t min_f16(uint32_t a, uint32_t b)
{
    return f16_pair([&](auto of) { return fminf(of(a), of(b)); });
}

static inline uint32_t quick_tanh_f16(uint32_t x)
{
    return f16_pair([&](auto of) { return tanhf(of(x)); });
}

/* d += A B, 16 x 8 elements, each a sum of K products in their order. A register holds STEP neighbours in k; `mine` is
 * what the lane's registers hold, A's and then B's, K / 2 and K / 4 numbers. */
template <int K, int STEP> static inline void mma(float d[4], const float *mine)
{
    typedef float quad __attribute__((vector_size(16)));
    uint32_t words[3 * K / 4];
    memcpy(words, mine, sizeof words);
    const uint32_t *all = emulate::show(words, 3 * K / 4);
    const int g = emulate::current->lane >> 2, t = emulate::current->lane & 3;
    quad sum = {d[0], d[1], d[2], d[3]};
    for (int k = 0; k < K; k++) {
        const int lane = k % (4 * STEP) / STEP, half = k / (4 * STEP), part = k % STEP;
        const uint32_t *x = all + (g * 4 + lane) * emulate::WORDS + 2 * STEP * half + part;
        const uint32_t *y = all + (2 * t * 4 + lane) * emulate::WORDS + K / 2 + STEP * half + part;
        const float x0 = __uint_as_float(x[0]), x1 = __uint_as_float(x[STEP]);
        const float y0 = __uint_as_float(y[0]), y1 = __uint_as_float(y[4 * emulate::WORDS]);
        sum += quad{x0, x0, x1, x1} * quad{y0, y1, y0, y1};
    }
    for (int e = 0; e < 4; e++)
        d[e] = sum[e];
}

static inline __noinline__ void mma_bf16(float d[4], const uint32_t a[4], uint32_t b0, uint32_t b1)
{
    const float mine[12] = {bf16_lo(a[0]), bf16_hi(a[0]), bf16_lo(a[1]), bf16_hi(a[1]), bf16_lo(a[2]), bf16_hi(a[2]),
                            bf16_lo(a[3]), bf16_hi(a[3]), bf16_lo(b0),   bf16_hi(b0),   bf16_lo(b1),   bf16_hi(b1)};
    mma<16, 2>(d, mine);
}

static inline __noinline__ void mma_bf16_k8(float d[4], uint32_t a0, uint32_t a1, uint32_t b0)
{
    const float mine[6] = {bf16_lo(a0), bf16_hi(a0), bf16_lo(a1), bf16_hi(a1), bf16_lo(b0), bf16_hi(b0)};
    mma<8, 2>(d, mine);
}

static inline __noinline__ void mma_tf32(float d[4], const uint32_t a[4], uint32_t b0, uint32_t b1)
{
    const float mine[6] = {__uint_as_float(a[0]), __uint_as_float(a[1]), __uint_as_float(a[2]),
                           __uint_as_float(a[3]), __uint_as_float(b0),   __uint_as_float(b1)};
    mma<8, 1>(d, mine);
}

static inline uint32_t to_tf32(float x)
{
    return (__float_as_uint(x) + 0x1000u) & 0xffffe000u;
}

static inline void load_matrix_as(uint32_t r[4], uint32_t address, bool transposed)
{
    const uint32_t *all = emulate::show(&address, 1);
    int g = emulate::current->lane >> 2, t = emulate::current->lane & 3;
    for (int m = 0; m < 4; m++) {
        if (!transposed) {
            memcpy(&r[m], emulate::shared_at(all[(8 * m + g) * emulate::WORDS], 16, 16) + 4 * t, 4);
            continue;
        }
        uint16_t half[2];
        for (int i = 0; i < 2; i++)
            memcpy(&half[i], emulate::shared_at(all[(8 * m + 2 * t + i) * emulate::WORDS], 16, 16) + 2 * g, 2);
        r[m] = half[0] | (uint32_t)half[1] << 16;
    }
    __syncwarp(); /* no lane may overwrite what another lane has yet to read */
}

static inline void load_matrix(uint32_t r[4], uint32_t address)
{
    load_matrix_as(r, address, false);
}

static inline void load_matrix_transposed(uint32_t r[4], uint32_t address)
{
    load_matrix_as(r, address, true);
}

static inline void store_matrix_as(uint32_t address, const uint32_t r[4], bool transposed)
{
    const uint32_t *all = emulate::show(&address, 1);
    int g = emulate::current->lane >> 2, t = emulate::current->lane & 3;
    for (int m = 0; m < 4; m++) {
        if (!transposed) {
            memcpy(emulate::shared_at(all[(8 * m + g) * emulate::WORDS], 16, 16) + 4 * t, &r[m], 4);
            continue;
        }
        for (int i = 0; i < 2; i++) {
            uint16_t half = (uint16_t)(r[m] >> 16 * i);
            memcpy(emulate::shared_at(all[(8 * m + 2 * t + i) * emulate::WORDS], 16, 16) + 2 * g, &half, 2);
        }
    }
    __syncwarp();
}

static inline void store_matrix(uint32_t address, uint32_t r0, uint32_t r1, uint32_t r2, uint32_t r3)
{
    const uint32_t r[4] = {r0, r1, r2, r3};
    store_matrix_as(address, r, false);
}

static inline void store_matrix_transposed(uint32_t address, uint32_t r0, uint32_t r1, uint32_t r2, uint32_t r3)
{
    const uint32_t r[4] = {r0, r1, r2, r3};
    store_matrix_as(address, r, true);
}

static inline void device_wait()
{
}
static inline void device_release()
{
}

template <class T> static inline T read_once(const T *from)
{
    return *from;
}
template <class T> static inline void write_once(T *to, T value)
{
    *to = value;
}
static inline void copy_async(uint32_t address, const void *global)
{
    ESPER_ASSERT((uintptr_t)global % 16 == 0);
    memcpy(emulate::shared_at(address, 16, 16), global, 16);
}
static inline void copy_async_or_zero(uint32_t address, const void *global, bool there)
{
    ESPER_ASSERT((uintptr_t)global % 16 == 0);
    if (there)
        memcpy(emulate::shared_at(address, 16, 16), global, 16);
    else
        memset(emulate::shared_at(address, 16, 16), 0, 16);
}
static inline void copy_async_8(uint32_t address, const void *global)
{
    ESPER_ASSERT((uintptr_t)global % 8 == 0);
    memcpy(emulate::shared_at(address, 8, 8), global, 8);
}
static inline void copy_async_4(uint32_t address, const void *global)
{
    ESPER_ASSERT((uintptr_t)global % 4 == 0);
    memcpy(emulate::shared_at(address, 4, 4), global, 4);
}
static inline uint32_t transpose_matrix(uint32_t pair)
{
    const uint32_t *all = emulate::show(&pair, 1);
    int g = emulate::current->lane >> 2, t = emulate::current->lane & 3;
    uint32_t half[2];
    for (int i = 0; i < 2; i++)
        half[i] = all[((2 * t + i) * 4 + g / 2) * emulate::WORDS] >> 16 * (g & 1) & 0xffffu;
    return half[0] | half[1] << 16;
}
static inline uint32_t positive_mask(uint32_t pair)
{
    return (bf16_lo(pair) > 0 ? 0xffffu : 0) | (bf16_hi(pair) > 0 ? 0xffff0000u : 0);
}
static inline void team_sync(int name, int threads)
{
    emulate::join(emulate::current->block->named[name], threads);
}
static inline void copy_commit()
{
}
template <int LEFT> static inline void copy_wait()
{
}

static inline uint4 load_global_128(const uint4 *from)
{
    return *from;
}
static inline void load_shared_128(uint32_t r[4], uint32_t address)
{
    memcpy(r, emulate::shared_at(address, 16, 16), 16);
}
static inline void load_shared_64(uint32_t r[2], uint32_t address)
{
    memcpy(r, emulate::shared_at(address, 8, 8), 8);
}
static inline uint32_t load_shared_32(uint32_t address)
{
    uint32_t r;
    memcpy(&r, emulate::shared_at(address, 4, 4), 4);
    return r;
}
static inline void store_shared_128(uint32_t address, uint32_t a, uint32_t b, uint32_t c, uint32_t d)
{
    const uint32_t r[4] = {a, b, c, d};
    memcpy(emulate::shared_at(address, 16, 16), r, 16);
}
static inline void store_shared_64(uint32_t address, uint32_t a, uint32_t b)
{
    const uint32_t r[2] = {a, b};
    memcpy(emulate::shared_at(address, 8, 8), r, 8);
}
static inline void store_shared_32(uint32_t address, uint32_t a)
{
    memcpy(emulate::shared_at(address, 4, 4), &a, 4);
}

/* For loops that wait for another block: lets the other blocks run. */
static inline uint32_t load_acquire(const uint32_t *at)
{
    emulate::progress++;
    emulate::yield();
    return *at;
}

#endif

DEVICE float load_shared_float(uint32_t address)
{
    return __uint_as_float(load_shared_32(address));
}

DEVICE void store_shared_float(uint32_t address, float value)
{
    store_shared_32(address, __float_as_uint(value));
}

#endif
