#include "cuda/runtime.cuh"

#include <cstdio>

bool runtime_check(struct runtime *rt, cudaError_t code, const char *what)
{
    if (code == cudaSuccess)
        return true;
    cudaGetLastError(); /* or the next call would report it again */
    if (!rt->failed) {
        rt->failed = true;
        error_set(&rt->error, ESPER_FAILED, "the CUDA device failed: %s (%s); see esper doctor",
                  cudaGetErrorString(code), what);
    }
    return false;
}

KERNEL void nothing()
{
}

bool runtime_code_fits(void)
{
    cudaFuncAttributes attributes;
    bool fits = cudaFuncGetAttributes(&attributes, nothing) == cudaSuccess;
    cudaGetLastError();
    return fits;
}

static bool create_sides(struct runtime *rt)
{
    bool made = true;
    for (int i = 0; i < RUNTIME_SIDES && made; i++)
        made = RUNTIME_CALL(rt, cudaStreamCreateWithFlags(&rt->side[i], cudaStreamNonBlocking)) &&
               RUNTIME_CALL(rt, cudaEventCreateWithFlags(&rt->met[i], cudaEventDisableTiming));
    return made;
}

static int chosen; /* a process computes on one device */

void runtime_choose(int number)
{
    chosen = number;
}

size_t runtime_shared_most(void)
{
    enum { DECLARED = 1024 };
    int bytes = 0;
#ifdef EMULATE
    bytes = emulate::shared_most;
#else
    if (cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, chosen) != cudaSuccess)
        cudaGetLastError();
#endif
    return bytes > DECLARED ? (size_t)(bytes - DECLARED) : 0;
}

struct runtime *runtime_create(struct esper_error *error)
{
    struct runtime *rt = new runtime();
    cudaDeviceProp properties;
    rt->number = chosen;
    if (RUNTIME_CALL(rt, cudaSetDevice(chosen)) && RUNTIME_CALL(rt, cudaGetDeviceProperties(&properties, chosen)) &&
        RUNTIME_CALL(rt, cudaStreamCreateWithFlags(&rt->main, cudaStreamNonBlocking)) &&
        RUNTIME_CALL(rt, cudaEventCreateWithFlags(&rt->parted, cudaEventDisableTiming)) && create_sides(rt)) {
        rt->stream = rt->main;
        rt->processors = properties.multiProcessorCount;
        rt->major = properties.major;
        rt->minor = properties.minor;
        return rt;
    }
    *error = rt->error;
    delete rt;
    return nullptr;
}

void runtime_free(struct runtime *rt)
{
    if (!rt)
        return;
    cudaStreamSynchronize(rt->main);
    for (int i = 0; i < RUNTIME_SIDES; i++)
        cudaStreamSynchronize(rt->side[i]);
    for (void *p : rt->memory)
        cudaFree(p);
    for (void *p : rt->pinned)
        cudaFreeHost(p);
    cudaEventDestroy(rt->parted);
    for (int i = 0; i < RUNTIME_SIDES; i++) {
        cudaEventDestroy(rt->met[i]);
        cudaStreamDestroy(rt->side[i]);
    }
    cudaStreamDestroy(rt->main);
    delete rt;
}

void *runtime_alloc_bytes(struct runtime *rt, size_t bytes)
{
    void *memory = nullptr;
    if (rt->failed || !RUNTIME_CALL(rt, cudaMalloc(&memory, bytes ? bytes : 1)))
        return nullptr;
    rt->memory.push_back(memory);
    rt->counters.allocations++;
    runtime_fill(rt, memory, 0, bytes);
    return memory;
}

void *runtime_pin_bytes(struct runtime *rt, size_t bytes)
{
    void *memory = nullptr;
    if (rt->failed || !RUNTIME_CALL(rt, cudaHostAlloc(&memory, bytes ? bytes : 1, cudaHostAllocDefault)))
        return nullptr;
    rt->pinned.push_back(memory);
    rt->counters.allocations++;
    return memory;
}

void runtime_copy_to(struct runtime *rt, void *device, const void *host, size_t bytes)
{
    if (rt->failed || bytes == 0)
        return;
    rt->counters.copies++;
    rt->counters.bytes_to += bytes;
    RUNTIME_CALL(rt, cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, rt->stream));
}

void runtime_copy_from(struct runtime *rt, void *host, const void *device, size_t bytes)
{
    if (rt->failed || bytes == 0)
        return;
    rt->counters.copies++;
    rt->counters.bytes_from += bytes;
    RUNTIME_CALL(rt, cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, rt->stream));
}

void runtime_fill(struct runtime *rt, void *device, int byte, size_t bytes)
{
    if (!rt->failed && bytes > 0)
        RUNTIME_CALL(rt, cudaMemsetAsync(device, byte, bytes, rt->stream));
}

void runtime_wait(struct runtime *rt)
{
    if (rt->failed)
        return;
    rt->counters.syncs++;
    RUNTIME_CALL(rt, cudaStreamSynchronize(rt->stream));
}

/* ---- side streams ------------------------------------------------------------------------------------------------ */

void runtime_part(struct runtime *rt, int side)
{
    if (rt->failed)
        return;
    RUNTIME_CALL(rt, cudaEventRecord(rt->parted, rt->main));
    RUNTIME_CALL(rt, cudaStreamWaitEvent(rt->side[side], rt->parted, 0));
    rt->stream = rt->side[side];
    rt->beside = side;
    rt->away[side] = true;
}

void runtime_rejoin(struct runtime *rt)
{
    rt->stream = rt->main;
    if (!rt->failed)
        RUNTIME_CALL(rt, cudaEventRecord(rt->met[rt->beside], rt->side[rt->beside]));
}

void runtime_follow(struct runtime *rt, int side)
{
    if (!rt->failed && rt->away[side])
        RUNTIME_CALL(rt, cudaStreamWaitEvent(rt->stream, rt->met[side], 0));
}

void runtime_meet(struct runtime *rt, int side)
{
    runtime_follow(rt, side);
    rt->away[side] = false;
}

/* ---- graphs ------------------------------------------------------------------------------------------------------ */

bool graph_begin(struct runtime *rt, struct graph *graph)
{
    if (rt->failed || graph->exec)
        return false;
    RUNTIME_CALL(rt, cudaSetDevice(rt->number)); /* launches are the calling thread's, which may be a new one */
    rt->captured.clear();
    rt->capturing = RUNTIME_CALL(rt, cudaStreamBeginCapture(rt->stream, cudaStreamCaptureModeThreadLocal));
    return rt->capturing;
}

/* Counts the nodes by kind. What was launched must be what was captured. */
static bool graph_look(struct runtime *rt, cudaGraph_t captured, struct graph *graph)
{
    size_t count = 0;
    if (!RUNTIME_CALL(rt, cudaGraphGetNodes(captured, nullptr, &count)))
        return false;
    std::vector<cudaGraphNode_t> nodes(count);
    if (count && !RUNTIME_CALL(rt, cudaGraphGetNodes(captured, nodes.data(), &count)))
        return false;
    graph->nodes = {};
    for (cudaGraphNode_t node : nodes) {
        cudaGraphNodeType type = cudaGraphNodeTypeHost;
        if (!RUNTIME_CALL(rt, cudaGraphNodeGetType(node, &type)))
            return false;
        graph->nodes.kernels += type == cudaGraphNodeTypeKernel;
        graph->nodes.copies += type == cudaGraphNodeTypeMemcpy;
        graph->nodes.fills += type == cudaGraphNodeTypeMemset;
    }
    graph->nodes.others = (uint32_t)count - graph->nodes.kernels - graph->nodes.copies - graph->nodes.fills;
    graph->kernels = rt->captured;
    graph->nodes.kernel = graph->kernels.data();
    return true;
}

static void graph_end(struct runtime *rt, struct graph *graph)
{
    cudaGraph_t captured = nullptr;
    rt->capturing = false;
    rt->counters.captures++;
    if (!RUNTIME_CALL(rt, cudaStreamEndCapture(rt->stream, &captured)))
        return;
    if (graph_look(rt, captured, graph))
        RUNTIME_CALL(rt, cudaGraphInstantiate(&graph->exec, captured, 0));
    cudaGraphDestroy(captured);
}

void graph_run(struct runtime *rt, struct graph *graph)
{
    if (rt->capturing)
        graph_end(rt, graph);
    if (rt->failed || !graph->exec)
        return;
    rt->counters.graph_launches++;
    rt->counters.graph_nodes += graph->nodes.kernels + graph->nodes.copies + graph->nodes.fills + graph->nodes.others;
    RUNTIME_CALL(rt, cudaGraphLaunch(graph->exec, rt->stream));
}

void graph_free(struct graph *graph)
{
    if (graph->exec)
        cudaGraphExecDestroy(graph->exec);
    graph->exec = nullptr;
}
