/*
 * CUDA on the CPU, for tests: with -DEMULATE the device code is compiled by the C++ compiler and runs here, one fibre
 * per thread, blocks one after the other. Barriers, shuffles and the tensor-core instructions of src/cuda/warp.cuh and
 * warpgroup.cuh behave as on the device; memory is ordinary memory, so that the sanitizers see every access.
 *
 * It is slow and proves nothing about a GPU: races between warps and the effects of nvcc show only on a real one. It is
 * here so that the device's logic is tested on machines without one.
 */
#ifndef EMULATE_CUDA_H
#define EMULATE_CUDA_H

/* All headers before the macros, whose names the library also uses. */
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __noinline__    __attribute__((noinline))
#define __launch_bounds__(...)
#define __grid_constant__
#define __shared__   static
#define __align__(n) alignas(n)

struct dim3 {
    unsigned x, y, z;
    dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_)
    {
    }
};
struct uint2 {
    unsigned x, y;
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};
struct float2 {
    float x, y;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
static inline uint2 make_uint2(unsigned x, unsigned y)
{
    return {x, y};
}
static inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w)
{
    return {x, y, z, w};
}
static inline float2 make_float2(float x, float y)
{
    return {x, y};
}
static inline float4 make_float4(float x, float y, float z, float w)
{
    return {x, y, z, w};
}

/* ---- fibres ------------------------------------------------------------------------------------------------------ */

/* Switch from one stack to another; registers that a call must preserve are saved on the stack that is left. */
extern "C" void emulate_switch(void **leave, void *enter);
#if defined __aarch64__
asm(".text\n.weak emulate_switch\n.type emulate_switch, %function\nemulate_switch:\n"
    "sub sp, sp, #160\n"
    "stp x19, x20, [sp, #0]\nstp x21, x22, [sp, #16]\nstp x23, x24, [sp, #32]\nstp x25, x26, [sp, #48]\n"
    "stp x27, x28, [sp, #64]\nstp x29, x30, [sp, #80]\nstp d8, d9, [sp, #96]\nstp d10, d11, [sp, #112]\n"
    "stp d12, d13, [sp, #128]\nstp d14, d15, [sp, #144]\n"
    "mov x9, sp\nstr x9, [x0]\nmov sp, x1\n"
    "ldp x19, x20, [sp, #0]\nldp x21, x22, [sp, #16]\nldp x23, x24, [sp, #32]\nldp x25, x26, [sp, #48]\n"
    "ldp x27, x28, [sp, #64]\nldp x29, x30, [sp, #80]\nldp d8, d9, [sp, #96]\nldp d10, d11, [sp, #112]\n"
    "ldp d12, d13, [sp, #128]\nldp d14, d15, [sp, #144]\n"
    "add sp, sp, #160\nret\n");
enum { EMULATE_FRAME = 160, EMULATE_RETURN = 88 };
#elif defined __x86_64__
asm(".text\n.weak emulate_switch\n.type emulate_switch, @function\nemulate_switch:\n"
    "pushq %rbp\npushq %rbx\npushq %r12\npushq %r13\npushq %r14\npushq %r15\n"
    "movq %rsp, (%rdi)\nmovq %rsi, %rsp\n"
    "popq %r15\npopq %r14\npopq %r13\npopq %r12\npopq %rbx\npopq %rbp\nret\n");
enum { EMULATE_FRAME = 64, EMULATE_RETURN = 48 };
#else
#error "the emulator knows aarch64 and x86-64"
#endif

namespace emulate
{
enum { WARP = 32, WORDS = 12, STACK = 256 * 1024 };

/* A barrier: a generation ends when all live threads have arrived. */
struct meeting {
    int waiting = 0, live = 0;
    uint64_t generation = 0;
};

struct warp {
    meeting meet;
    uint32_t alive = 0;            /* lanes that have not ended */
    uint32_t word[2][WARP][WORDS]; /* words that lanes exchange, one set while the other is still being read */
    uint32_t shown[2];             /* by whom */
    warp()                         /* the words stay as they are: clearing them takes longer than many a kernel */
    {
    }
};

struct block;

struct fibre {
    void *stack_pointer = nullptr;
    char *stack = nullptr;
    dim3 thread;
    int lane = 0;
    unsigned phase = 0;
    bool done = false;
    const meeting *awaited = nullptr; /* not to be resumed before its generation ends */
    uint64_t generation = 0;
    struct warp *warp = nullptr;
    struct block *block = nullptr;
};

struct block {
    dim3 index, size, grid;
    std::vector<unsigned char> shared;
    unsigned char *shared_base = nullptr;
    std::vector<struct warp> warps;
    std::vector<fibre> fibres;
    meeting meet, named[16];
};

inline fibre *current;
inline void *scheduler_stack;
inline const std::function<void()> *body;
inline uint64_t progress; /* grows whenever something happens: a pass without progress is a deadlock */
inline std::vector<char *> stacks;

[[noreturn]] inline void die(const char *what)
{
    fprintf(stderr, "emulated kernel, block (%u, %u, %u) thread (%u, %u): %s\n", current->block->index.x,
            current->block->index.y, current->block->index.z, current->thread.x, current->thread.y, what);
    abort();
}

inline void yield()
{
    fibre *me = current;
    emulate_switch(&me->stack_pointer, scheduler_stack);
}

inline void release(meeting &meet)
{
    meet.waiting = 0;
    meet.generation++;
    progress++;
}

[[gnu::noinline]] inline void join(meeting &meet, int count)
{
    current->generation = meet.generation;
    if (++meet.waiting == count) {
        release(meet);
        return;
    }
    current->awaited = &meet;
    yield();
    current->awaited = nullptr;
}

inline void leave(meeting &meet)
{
    meet.live--;
    if (meet.live > 0 && meet.waiting == meet.live)
        release(meet);
}

inline void fibre_main()
{
    (*body)();
    current->done = true;
    progress++;
    current->warp->alive &= ~(1u << current->lane);
    leave(current->warp->meet);
    leave(current->block->meet);
    for (;;)
        yield();
}

inline void fibre_start(fibre &f, size_t at)
{
    while (stacks.size() <= at)
        stacks.push_back((char *)aligned_alloc(64, STACK));
    f.stack = stacks[at];
    char *top = f.stack + STACK - 64 - at % 61 * 1088; /* not all of them in the same lines of the cache */
    char *frame = top - EMULATE_FRAME;
    memset(frame, 0, EMULATE_FRAME);
    void (*entry)() = fibre_main;
    memcpy(frame + EMULATE_RETURN, &entry, sizeof entry);
    f.stack_pointer = frame;
}

inline void block_start(struct block &b, dim3 index, dim3 size, dim3 grid, size_t shared, size_t first_stack)
{
    unsigned threads = size.x * size.y * size.z;
    b.index = index;
    b.size = size;
    b.grid = grid;
    b.shared.assign(shared + 128, 0xff); /* not zero: reads of memory that was never written must show */
    b.shared_base = b.shared.data() + (128 - (uintptr_t)b.shared.data() % 128) % 128;
    b.warps.clear();
    b.warps.resize((threads + WARP - 1) / WARP);
    b.fibres.clear();
    b.fibres.resize(threads);
    b.meet = {};
    b.meet.live = (int)threads;
    for (meeting &named : b.named)
        named = {};
    for (unsigned i = 0; i < threads; i++) {
        fibre &f = b.fibres[i];
        f.thread = dim3(i % size.x, i / size.x % size.y, i / size.x / size.y);
        f.lane = (int)(i % WARP);
        f.warp = &b.warps[i / WARP];
        f.warp->meet.live++;
        f.warp->alive |= 1u << f.lane;
        f.block = &b;
        fibre_start(f, first_stack + i);
    }
}

inline void blocks_run(std::vector<struct block> &blocks)
{
    for (bool any = true; any;) {
        uint64_t before = progress;
        any = false;
        for (auto &b : blocks)
            for (auto &f : b.fibres)
                if (!f.done) {
                    any = true;
                    current = &f;
                    if (!f.awaited || f.awaited->generation != f.generation)
                        emulate_switch(&scheduler_stack, f.stack_pointer);
                }
        if (any && progress == before)
            die("deadlock: not all threads come to the same barrier");
    }
}

/* together: the blocks wait for each other, so all of them run at once. */
inline void launch(dim3 grid, dim3 size, size_t shared, const std::function<void()> &work, bool together)
{
    body = &work;
    std::vector<struct block> all;
    unsigned count = grid.x * grid.y * grid.z;
    if (together) {
        all.resize(count);
        for (unsigned i = 0; i < count; i++)
            block_start(all[i], dim3(i % grid.x, i / grid.x % grid.y, i / grid.x / grid.y), size, grid, shared,
                        (size_t)i * size.x * size.y * size.z);
        blocks_run(all);
        return;
    }
    all.resize(1);
    for (unsigned i = 0; i < count; i++) {
        block_start(all[0], dim3(i % grid.x, i / grid.x % grid.y, i / grid.x / grid.y), size, grid, shared, 0);
        blocks_run(all);
    }
}

/* Every lane publishes `count` words and sees those of all: word of lane l at [l * WORDS + i]. */
[[gnu::noinline]] inline const uint32_t *show(const uint32_t *words, int count)
{
    struct warp *w = current->warp;
    unsigned phase = current->phase ^= 1;
    for (int i = 0; i < count; i++)
        w->word[phase][current->lane][i] = words[i];
    w->shown[phase] = w->alive;
    join(w->meet, w->meet.live);
    return &w->word[phase][0][0];
}

inline unsigned char *shared_at(uint32_t address, size_t bytes, size_t align)
{
    struct block *b = current->block;
    size_t room = b->shared.size() - 128;
    if (address + bytes > room)
        die("shared memory beyond what the launch asked for");
    if (address % align)
        die("misaligned shared address");
    return b->shared_base + address;
}
} // namespace emulate

#define threadIdx (emulate::current->thread)
#define blockIdx  (emulate::current->block->index)
#define blockDim  (emulate::current->block->size)
#define gridDim   (emulate::current->block->grid)
#define warpSize  32

static inline void __syncthreads()
{
    emulate::join(emulate::current->block->meet, emulate::current->block->meet.live);
}
static inline int __syncthreads_or(int value)
{
    static int any;
    __syncthreads();
    any = 0;
    __syncthreads();
    any |= value != 0;
    __syncthreads();
    int result = any;
    __syncthreads();
    return result;
}
static inline void __syncwarp(unsigned = ~0u)
{
    emulate::join(emulate::current->warp->meet, emulate::current->warp->meet.live);
}
template <class T> static inline T emulate_from_lane(T value, int lane)
{
    static_assert(sizeof(T) <= 8, "one or two words");
    uint32_t words[2] = {0, 0};
    memcpy(words, &value, sizeof value);
    const uint32_t *all = emulate::show(words, 2);
    T result;
    memcpy(&result, all + (size_t)(lane & 31) * emulate::WORDS, sizeof result);
    return result;
}
template <class T> static inline T __shfl_sync(unsigned, T value, int lane, int width = 32)
{
    int base = emulate::current->lane & ~(width - 1);
    return emulate_from_lane(value, base + (lane & (width - 1)));
}
template <class T> static inline T __shfl_xor_sync(unsigned, T value, int mask, int = 32)
{
    return emulate_from_lane(value, emulate::current->lane ^ mask);
}
template <class T> static inline T __shfl_down_sync(unsigned, T value, unsigned delta, int width = 32)
{
    int lane = emulate::current->lane, to = lane + (int)delta;
    return emulate_from_lane(value, (to & ~(width - 1)) == (lane & ~(width - 1)) ? to : lane);
}
template <class T> static inline T __shfl_up_sync(unsigned, T value, unsigned delta, int width = 32)
{
    int lane = emulate::current->lane, to = lane - (int)delta;
    return emulate_from_lane(value, to >= (lane & ~(width - 1)) ? to : lane);
}
static inline unsigned __ballot_sync(unsigned, int predicate)
{
    uint32_t word = predicate != 0;
    const uint32_t *all = emulate::show(&word, 1);
    unsigned mask = 0;
    for (int l = 0; l < emulate::WARP; l++)
        mask |= all[(size_t)l * emulate::WORDS] ? 1u << l : 0;
    return mask & emulate::current->warp->shown[emulate::current->phase];
}
static inline int __any_sync(unsigned mask, int predicate)
{
    return __ballot_sync(mask, predicate) != 0;
}
static inline int __all_sync(unsigned mask, int predicate)
{
    return __ballot_sync(mask, !predicate) == 0;
}

template <class T> static inline T atomicAdd(T *at, T value)
{
    T old = *at;
    *at += value;
    return old;
}
static inline unsigned atomicInc(unsigned *at, unsigned most)
{
    unsigned old = *at;
    *at = old >= most ? 0 : old + 1;
    return old;
}
template <class T> static inline T atomicMax(T *at, T value)
{
    T old = *at;
    *at = old > value ? old : value;
    return old;
}
template <class T> static inline T atomicOr(T *at, T value)
{
    T old = *at;
    *at |= value;
    return old;
}
template <class T> static inline T atomicExch(T *at, T value)
{
    T old = *at;
    *at = value;
    return old;
}
template <class T> static inline T __ldg(const T *at)
{
    return *at;
}
template <class T> static inline T __ldcg(const T *at)
{
    return *at;
}
template <class T> static inline void __stcg(T *at, T value)
{
    *at = value;
}
static inline void __threadfence()
{
}
static inline void __threadfence_block()
{
}
static inline int __popc(unsigned x)
{
    return __builtin_popcount(x);
}
static inline int __ffs(int x)
{
    return __builtin_ffs(x);
}
static inline int __clz(int x)
{
    return x ? __builtin_clz((unsigned)x) : 32;
}
static inline unsigned __umulhi(unsigned a, unsigned b)
{
    return (unsigned)((uint64_t)a * b >> 32);
}
static inline float __uint_as_float(unsigned u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}
static inline unsigned __float_as_uint(float f)
{
    unsigned u;
    memcpy(&u, &f, sizeof u);
    return u;
}
static inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector)
{
    uint64_t both = a | (uint64_t)b << 32;
    unsigned r = 0;
    for (int i = 0; i < 4; i++)
        r |= (unsigned)(both >> 8 * (selector >> 4 * i & 7) & 255) << 8 * i;
    return r;
}
static inline unsigned __funnelshift_r(unsigned lo, unsigned hi, unsigned shift)
{
    return (unsigned)(((uint64_t)hi << 32 | lo) >> (shift & 31));
}
static inline float rsqrtf(float x)
{
    return 1.0f / sqrtf(x);
}
static inline double rsqrt(double x)
{
    return 1.0 / sqrt(x);
}
#define __expf expf
#define __logf logf
static inline float __fdividef(float a, float b)
{
    return a / b;
}
static inline float __fmaf_rn(float a, float b, float c)
{
    return fmaf(a, b, c);
}
static inline float __frcp_rn(float x)
{
    return 1.0f / x;
}
template <class T> static inline T min(T a, T b)
{
    return b < a ? b : a;
}
template <class T> static inline T max(T a, T b)
{
    return a < b ? b : a;
}

#include "emulate/cuda_api.h"

#endif
