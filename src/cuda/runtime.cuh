/*
 * What every device source builds on: memory, launches, copies and captured graphs on one stream, with the counters
 * that `esper bench` shows. The first error sticks; after it nothing is launched, and the code that drives the device
 * checks for it once per step (runtime_failed).
 *
 * The same sources compile with EMULATE for the CPU (tests/emulate/cuda.h), where their logic is tested without a GPU.
 */
#ifndef CUDA_RUNTIME_CUH
#define CUDA_RUNTIME_CUH

#ifdef EMULATE
#include "emulate/cuda.h"
#else
#include <cuda_runtime.h>
#endif

#include <cstdint>
#include <vector>

extern "C" {
#include "base/status.h"
#include "cuda/counters.h"
}

#define KERNEL static __global__
#define DEVICE static __device__ __forceinline__

/* The block's dynamic shared memory. */
#ifdef EMULATE
#define SHARED_BYTES(name) unsigned char *name = emulate::current->block->shared_base
#else
#define SHARED_BYTES(name) extern __shared__ __align__(128) unsigned char name[]
#endif

enum { RUNTIME_SIDES = 8 };

struct runtime {
    cudaStream_t stream; /* where work is enqueued */
    cudaStream_t main, side[RUNTIME_SIDES];
    cudaEvent_t parted, met[RUNTIME_SIDES];
    bool away[RUNTIME_SIDES]; /* parted, and not yet met */
    int beside;               /* the side stream that launches go to, between part and rejoin */
    bool capturing;
    std::vector<const char *> captured; /* the kernels launched since the capture began */
    bool failed;
    struct esper_error error; /* the first one */
    struct device_counters counters;
    std::vector<void *> memory, pinned;
    int number; /* of its device */
    int processors, major, minor;
};

/* Whether this library holds code that the device can run. */
bool runtime_code_fits(void);

struct runtime *runtime_create(struct esper_error *error);
/* Which of the machine's devices runtimes are created on from here on; the first, unless somebody says so. */
void runtime_choose(int number);
/* Bytes of shared memory that a launch may ask for on it, beside the KB that a kernel may declare itself. */
size_t runtime_shared_most(void);
void runtime_free(struct runtime *rt);

/* Remember the first error; false if `code` is one. */
bool runtime_check(struct runtime *rt, cudaError_t code, const char *what);
#define RUNTIME_CALL(rt, call) runtime_check(rt, call, #call)

void *runtime_alloc_bytes(struct runtime *rt, size_t bytes);
void *runtime_pin_bytes(struct runtime *rt, size_t bytes);

/* In stream order; the host's memory must not change until the copy has been waited for. */
void runtime_copy_to(struct runtime *rt, void *device, const void *host, size_t bytes);
void runtime_copy_from(struct runtime *rt, void *host, const void *device, size_t bytes);

/* Zeroed device memory that lives as long as the runtime; NULL after an error. */
template <class T> T *runtime_alloc(struct runtime *rt, size_t count)
{
    return static_cast<T *>(runtime_alloc_bytes(rt, count * sizeof(T)));
}

/* A copy of the host's array, or zeros, padded by some bytes because kernels read whole vectors. For trials, which
 * leave it to the runtime to free it. */
template <class T> T *runtime_place(struct runtime *rt, const T *from, size_t count)
{
    T *to = runtime_alloc<T>(rt, count + 64);
    if (from)
        runtime_copy_to(rt, to, from, count * sizeof *to);
    return to;
}

/* Host memory that copies can overlap with. */
template <class T> T *runtime_pin(struct runtime *rt, size_t count)
{
    return static_cast<T *>(runtime_pin_bytes(rt, count * sizeof(T)));
}

void runtime_fill(struct runtime *rt, void *device, int byte, size_t bytes);
void runtime_wait(struct runtime *rt); /* until the stream is empty: a host wait */

/*
 * Work on side streams: between part and rejoin launches go to a side stream, ordered after everything enqueued so far.
 * After meet the main stream waits for that side's work; after follow another side stream does.
 */
void runtime_part(struct runtime *rt, int side);
void runtime_rejoin(struct runtime *rt);
void runtime_meet(struct runtime *rt, int side);
void runtime_follow(struct runtime *rt, int side);

static inline int runtime_processors(const struct runtime *rt)
{
    return rt->processors;
}

struct launch {
    dim3 grid, block;
    size_t shared;
    bool overlap; /* may start while its predecessor ends: the kernel calls device_wait() before it reads its results */
};

static inline void runtime_count_launch(struct runtime *rt, const char *name)
{
    if (rt->capturing)
        rt->captured.push_back(name);
    else
        rt->counters.launches++;
}

#ifndef EMULATE
template <class... P, class... A>
void runtime_launch_as(struct runtime *rt, bool together, const char *name, void (*kernel)(P...),
                       const struct launch &shape, A... args)
{
    if (rt->failed)
        return;
    cudaLaunchConfig_t config = {};
    cudaLaunchAttribute attribute[2] = {};
    config.gridDim = shape.grid;
    config.blockDim = shape.block;
    config.dynamicSmemBytes = shape.shared;
    config.stream = rt->stream;
    config.attrs = attribute;
    if (shape.overlap) {
        attribute[config.numAttrs].id = cudaLaunchAttributeProgrammaticStreamSerialization;
        attribute[config.numAttrs++].val.programmaticStreamSerializationAllowed = 1;
    }
    if (together) {
        attribute[config.numAttrs].id = cudaLaunchAttributeCooperative;
        attribute[config.numAttrs++].val.cooperative = 1;
    }
    runtime_count_launch(rt, name);
    runtime_check(rt, cudaLaunchKernelEx(&config, kernel, static_cast<P>(args)...), "kernel launch");
}

/* Raise a kernel's limit of dynamic shared memory: once, before its first launch. */
template <class... P> void runtime_allow_shared(struct runtime *rt, void (*kernel)(P...), size_t bytes)
{
    RUNTIME_CALL(rt, cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes));
}
#else
template <class... P, class... A>
void runtime_launch_as(struct runtime *rt, bool together, const char *name, void (*kernel)(P...),
                       const struct launch &shape, A... args)
{
    if (rt->failed)
        return;
    runtime_count_launch(rt, name);
    if (!runtime_check(rt, emulate::faults.due(emulate::FAULT_LAUNCH), "kernel launch"))
        return;
    struct launch s = shape;
    emulate_submit(rt->stream, emulate::kind::kernel, [=] {
        emulate::launch(
            s.grid, s.block, s.shared, [=] { kernel(static_cast<P>(args)...); }, together);
    });
}

template <class... P> void runtime_allow_shared(struct runtime *rt, void (*)(P...), size_t bytes)
{
    runtime_check(rt, bytes <= runtime_shared_most() ? cudaSuccess : cudaErrorUnknown, "shared memory of a kernel");
}
#endif

/* runtime_launch(rt, kernel, shape, arguments...). A captured phase knows its kernels by what is written here. */
#define runtime_launch(rt, ...) runtime_launch_as(rt, false, #__VA_ARGS__, __VA_ARGS__)
/* For kernels whose blocks wait for each other: all of them must fit on the device at once, or the launch fails. */
#define runtime_launch_together(rt, ...) runtime_launch_as(rt, true, #__VA_ARGS__, __VA_ARGS__)

/*
 * A phase as one graph: enqueued and captured the first time, replayed from then on.
 *
 *     if (graph_begin(rt, &graph)) { ...launches...; }
 *     graph_run(rt, &graph);
 */
struct graph {
    cudaGraphExec_t exec;
    struct device_graph nodes; /* without its name */
    std::vector<const char *> kernels;
};
bool graph_begin(struct runtime *rt, struct graph *graph); /* true: capture what follows */
void graph_run(struct runtime *rt, struct graph *graph);
void graph_free(struct graph *graph);

#endif
