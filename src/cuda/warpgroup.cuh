/*
 * Products by a warpgroup, four warps in a row, of operands in shared memory: what cards of compute capability 9.0 have
 * instead of faster warps. One small function per instruction, with its equivalent on the CPU beside it (EMULATE).
 *
 * An operand is a descriptor: where it begins and how far its parts are from each other. Its rows are 128 bytes, and
 * their chunks of 16 lie at chunk ^ (row % 8), seen from a multiple of 1024 bytes: eight rows are one swizzled pattern.
 * Contiguous in a row is either the depth, or 64 lines.
 *
 * Warp w has rows 16 w to 16 w + 15 of the sums, in the fragments of m16n8k16 (cuda/warp.cuh), side by side.
 */
#ifndef CUDA_WARPGROUP_CUH
#define CUDA_WARPGROUP_CUH

#include "cuda/warp.cuh"

/* Whether the code that is being compiled may use what is below. EMULATE_WARPS_ALONE: an emulated card that has none.
 */
#if (defined EMULATE && !defined EMULATE_WARPS_ALONE) || defined __CUDA_ARCH_FEAT_SM90_ALL
enum { WARPGROUPS = true };
#else
enum { WARPGROUPS = false };
#endif

enum { GROUP_ROWS = 64 };

/* `stride`: bytes to the next eight rows; `leading`: to the next 64 lines, where lines are contiguous. */
DEVICE uint64_t group_operand(uint32_t address, uint32_t leading, uint32_t stride)
{
    ESPER_ASSERT(address % 16 == 0 && leading % 16 == 0 && stride % 16 == 0);
    return (uint64_t)((address & 0x3ffffu) >> 4) | (uint64_t)(leading >> 4) << 16 | (uint64_t)(stride >> 4) << 32 |
           (uint64_t)1 << 62;
}

/* The same operand so many bytes further on. */
DEVICE uint64_t group_ahead(uint64_t operand, uint32_t bytes)
{
    return (operand & 0xffffffff00000000u) | (uint32_t)((uint32_t)operand + (bytes >> 4));
}

/* What is the same in all lanes anyway: now the compiler knows it, too, and takes no branch on it for a divergent one,
 * in which products of warpgroups would wait for each other. */
template <class V> DEVICE V alike(V value)
{
    return __shfl_sync(~0u, value, 0);
}

#ifndef EMULATE

/* What this thread has written to shared memory, or copied there, can be multiplied after the next barrier; nothing to
 * do where there are no warpgroups. */
DEVICE void group_publish()
{
    if constexpr (WARPGROUPS)
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/* Before the first product: sums in registers are as the thread left them. */
DEVICE void group_fence()
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

DEVICE void group_commit()
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

template <int LEFT> DEVICE void group_wait()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LEFT) : "memory");
}

#define GROUP_SUMS(d)   "+f"((d)[0]), "+f"((d)[1]), "+f"((d)[2]), "+f"((d)[3])
#define GROUP_SUMS_4(d) GROUP_SUMS((d)[0]), GROUP_SUMS((d)[1]), GROUP_SUMS((d)[2]), GROUP_SUMS((d)[3])

/* Sums are in their registers here, and nowhere else: before the fence, or they might be put there after it, and after
 * the wait, or they might be read before it. */
template <int TILES> DEVICE void group_settle(float (&d)[TILES][4])
{
#pragma unroll
    for (int j = 0; j < TILES; j++)
        asm volatile("" : GROUP_SUMS(d[j])::"memory");
}

/* The same of what is multiplied from registers: before the fence. */
template <int TILES> DEVICE void group_settle(uint32_t (&a)[TILES][4])
{
#pragma unroll
    for (int j = 0; j < TILES; j++)
        asm volatile("" : "+r"(a[j][0]), "+r"(a[j][1]), "+r"(a[j][2]), "+r"(a[j][3])::"memory");
}

/* d += A B, a depth of 16; BY_LINES: whether lines are contiguous in the rows of A and of B. Runs until it is waited
 * for. */
template <bool A_BY_LINES, bool B_BY_LINES> DEVICE void group_mma(float (&d)[16][4], uint64_t a, uint64_t b)
{
    asm volatile(
        "{\n.reg .pred add;\nsetp.eq.u32 add, 0, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
        "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,"
        "%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,"
        "%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}, %64, %65, add, 1, 1, %66, %67;\n}"
        : GROUP_SUMS_4(d), GROUP_SUMS_4(d + 4), GROUP_SUMS_4(d + 8), GROUP_SUMS_4(d + 12)
        : "l"(a), "l"(b), "n"((int)A_BY_LINES), "n"((int)B_BY_LINES)
        : "memory");
}

template <bool A_BY_LINES, bool B_BY_LINES> DEVICE void group_mma(float (&d)[8][4], uint64_t a, uint64_t b)
{
    asm volatile("{\n.reg .pred add;\nsetp.eq.u32 add, 0, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
                 "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,"
                 "%24,%25,%26,%27,%28,%29,%30,%31}, %32, %33, add, 1, 1, %34, %35;\n}"
                 : GROUP_SUMS_4(d), GROUP_SUMS_4(d + 4)
                 : "l"(a), "l"(b), "n"((int)A_BY_LINES), "n"((int)B_BY_LINES)
                 : "memory");
}

template <bool A_BY_LINES, bool B_BY_LINES> DEVICE void group_mma(float (&d)[4][4], uint64_t a, uint64_t b)
{
    asm volatile("{\n.reg .pred add;\nsetp.eq.u32 add, 0, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 "
                 "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15}, %16, %17, add, 1, 1, %18, %19;\n}"
                 : GROUP_SUMS_4(d)
                 : "l"(a), "l"(b), "n"((int)A_BY_LINES), "n"((int)B_BY_LINES)
                 : "memory");
}

template <bool A_BY_LINES, bool B_BY_LINES> DEVICE void group_mma(float (&d)[1][4], uint64_t a, uint64_t b)
{
    asm volatile("{\n.reg .pred add;\nsetp.eq.u32 add, 0, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 "
                 "{%0,%1,%2,%3}, %4, %5, add, 1, 1, %6, %7;\n}"
                 : GROUP_SUMS(d[0])
                 : "l"(a), "l"(b), "n"((int)A_BY_LINES), "n"((int)B_BY_LINES)
                 : "memory");
}

/* Of A, each warp has its own rows in registers, as for m16n8k16. */
template <bool B_BY_LINES> DEVICE void group_mma(float (&d)[8][4], const uint32_t (&a)[4], uint64_t b)
{
    asm volatile("{\n.reg .pred add;\nsetp.eq.u32 add, 0, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
                 "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,"
                 "%24,%25,%26,%27,%28,%29,%30,%31}, {%32,%33,%34,%35}, %36, add, 1, 1, %37;\n}"
                 : GROUP_SUMS_4(d), GROUP_SUMS_4(d + 4)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"((int)B_BY_LINES)
                 : "memory");
}

template <bool B_BY_LINES> DEVICE void group_mma(float (&d)[4][4], const uint32_t (&a)[4], uint64_t b)
{
    asm volatile("{\n.reg .pred add;\nsetp.eq.u32 add, 0, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 "
                 "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15}, {%16,%17,%18,%19}, %20, add, 1, 1, %21;\n}"
                 : GROUP_SUMS_4(d)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"((int)B_BY_LINES)
                 : "memory");
}

#else /* EMULATE */

static inline void group_publish()
{
}
static inline void group_fence()
{
}
static inline void group_commit()
{
}
template <int LEFT> static inline void group_wait()
{
}
template <class T, int TILES> static inline void group_settle(T (&)[TILES][4])
{
}

/* The sixteen numbers of an operand's line. */
template <bool BY_LINES> static inline void group_line(float to[16], uint64_t operand, int line)
{
    const uint32_t address = (uint32_t)(operand & 0x3fffu) << 4, leading = (uint32_t)(operand >> 16 & 0x3fffu) << 4,
                   stride = (uint32_t)(operand >> 32 & 0x3fffu) << 4;
    if (operand >> 62 != 1)
        emulate::die("an operand of a warpgroup that is not swizzled by 128 bytes");
    for (int k = 0; k < 16; k++) {
        const int row = BY_LINES ? k : line, across = BY_LINES ? line % 64 : k;
        uint32_t at = address + (uint32_t)(row / 8) * stride + (uint32_t)(row % 8 * 128 + 2 * across);
        if (BY_LINES)
            at += (uint32_t)(line / 64) * leading;
        uint16_t bits;
        memcpy(&bits, emulate::shared_at(at ^ (at >> 7 & 7) << 4, 2, 2), 2);
        to[k] = __uint_as_float((uint32_t)bits << 16);
    }
}

/* A number's bits, exact: it was bf16. */
static inline uint32_t group_pair(const float *x)
{
    return __float_as_uint(x[0]) >> 16 | (__float_as_uint(x[1]) & 0xffff0000u);
}

template <bool B_BY_LINES, int TILES>
static inline __noinline__ void group_mma(float (&d)[TILES][4], const uint32_t (&a)[4], uint64_t b)
{
    const int lane = emulate::current->lane, k = 2 * (lane % 4);
    float line[16];
    for (int j = 0; j < TILES; j++) {
        group_line<B_BY_LINES>(line, b, 8 * j + lane / 4);
        mma_bf16(d[j], a, group_pair(line + k), group_pair(line + 8 + k));
    }
}

/* Both operands can be seen by all: every thread computes its own sums. */
template <bool A_BY_LINES, bool B_BY_LINES, int TILES>
static inline __noinline__ void group_mma(float (&d)[TILES][4], uint64_t a, uint64_t b)
{
    const int lane = emulate::current->lane, row = (int)threadIdx.x / 32 % 4 * 16 + lane / 4;
    float x[2][16], y[16];
    for (int half = 0; half < 2; half++)
        group_line<A_BY_LINES>(x[half], a, row + 8 * half);
    for (int j = 0; j < TILES; j++)
        for (int e = 0; e < 2; e++) {
            group_line<B_BY_LINES>(y, b, 8 * j + 2 * (lane % 4) + e);
            for (int k = 0; k < 16; k++) {
                d[j][e] += x[0][k] * y[k];
                d[j][e + 2] += x[1][k] * y[k];
            }
        }
}

#endif

#endif
