/*
 * The part of the CUDA runtime that the device's sources call, on the CPU. A captured graph is the queues of the
 * streams that took part (streams.h), a launch of it one task.
 */
#ifndef EMULATE_CUDA_API_H
#define EMULATE_CUDA_API_H

#include "emulate/faults.h"
#include "emulate/streams.h"

enum { cudaErrorNotReady = 600, cudaErrorStreamCaptureUnjoined = 904, cudaErrorStreamCaptureIsolation = 905 };
enum cudaMemcpyKind { cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost = 2, cudaMemcpyDeviceToDevice = 3 };
enum { cudaStreamNonBlocking = 1, cudaEventDisableTiming = 2, cudaEventDefault = 0, cudaHostAllocDefault = 0 };
enum cudaStreamCaptureMode { cudaStreamCaptureModeThreadLocal };

typedef emulate_stream *cudaStream_t;
typedef emulate_event *cudaEvent_t;
typedef emulate::queues *cudaGraph_t;
typedef emulate::queues *cudaGraphExec_t;
typedef const emulate::task *cudaGraphNode_t;
enum cudaGraphNodeType {
    cudaGraphNodeTypeKernel,
    cudaGraphNodeTypeMemcpy,
    cudaGraphNodeTypeMemset,
    cudaGraphNodeTypeHost
};

struct cudaDeviceProp {
    char name[256];
    int major, minor, multiProcessorCount;
    size_t totalGlobalMem;
};

static inline cudaError_t cudaGetDeviceCount(int *count)
{
    EMULATE_MAY_FAIL(CALL);
    *count = 1;
    return cudaSuccess;
}
static inline cudaError_t cudaSetDevice(int)
{
    EMULATE_MAY_FAIL(CALL);
    return cudaSuccess;
}
static inline cudaError_t cudaDriverGetVersion(int *version)
{
    EMULATE_MAY_FAIL(CALL);
    *version = 13000;
    return cudaSuccess;
}
static inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp *p, int)
{
    EMULATE_MAY_FAIL(CALL);
    *p = {};
    snprintf(p->name, sizeof p->name, "emulated device");
    p->major = 9;
    p->multiProcessorCount = 132;
    p->totalGlobalMem = (size_t)8 << 30;
    return cudaSuccess;
}
static inline const char *cudaGetErrorString(cudaError_t error)
{
    switch (error) {
    case cudaErrorMemoryAllocation:
        return "out of memory";
    case cudaErrorUnknown:
        return "unknown error";
    case cudaErrorNotReady:
        return "not ready";
    case cudaErrorStreamCaptureUnjoined:
        return "a stream's captured work did not join";
    case cudaErrorStreamCaptureIsolation:
        return "a dependency across captures";
    default:
        return "no error";
    }
}
static inline cudaError_t cudaGetLastError()
{
    return cudaSuccess;
}
struct cudaFuncAttributes {
    int numRegs;
};
static inline cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *out, void (*)())
{
    EMULATE_MAY_FAIL(CALL);
    *out = {};
    return cudaSuccess;
}
static inline cudaError_t cudaMalloc(void **out, size_t bytes)
{
    EMULATE_MAY_FAIL(ALLOC);
    size_t room = (bytes + 255) / 256 * 256;
    *out = aligned_alloc(256, room ? room : 256);
    if (*out)
        memset(*out, 0xff, room);
    return *out ? cudaSuccess : cudaErrorMemoryAllocation;
}
static inline cudaError_t cudaFree(void *p)
{
    emulate::live_run_all(); /* it waits for the device */
    free(p);
    return cudaSuccess;
}
static inline cudaError_t cudaHostAlloc(void **out, size_t bytes, unsigned)
{
    return cudaMalloc(out, bytes);
}
static inline cudaError_t cudaFreeHost(void *p)
{
    return cudaFree(p);
}
static inline cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind, cudaStream_t stream)
{
    EMULATE_MAY_FAIL(CALL);
    emulate_submit(stream, emulate::kind::copy, [=] { memmove(to, from, bytes); });
    return cudaSuccess;
}
static inline cudaError_t cudaMemsetAsync(void *to, int byte, size_t bytes, cudaStream_t stream)
{
    EMULATE_MAY_FAIL(CALL);
    emulate_submit(stream, emulate::kind::fill, [=] { memset(to, byte, bytes); });
    return cudaSuccess;
}
static inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned)
{
    EMULATE_MAY_FAIL(CALL);
    *out = new emulate_stream;
    (*out)->queue = emulate::live.all.size();
    emulate::live.all.emplace_back();
    return cudaSuccess;
}
static inline cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    EMULATE_MAY_FAIL(CALL);
    emulate::live_run(stream->queue, emulate::live.all[stream->queue].end());
    return cudaSuccess;
}
static inline cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    emulate::live_run(stream->queue, emulate::live.all[stream->queue].end());
    delete stream;
    return cudaSuccess;
}
static inline cudaError_t cudaDeviceSynchronize()
{
    EMULATE_MAY_FAIL(CALL);
    emulate::live_run_all();
    return cudaSuccess;
}

/* ---- capture ----------------------------------------------------------------------------------------------------- */

/* From now on the stream's tasks go to its own queue in the graph. */
static inline void emulate_capture(cudaStream_t stream, const std::shared_ptr<emulate::queues> &graph)
{
    stream->capture = graph;
    stream->captured = graph->all.size();
    graph->all.emplace_back();
    graph->streams.push_back(stream);
}
static inline cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode)
{
    EMULATE_MAY_FAIL(CALL);
    emulate_capture(stream, std::make_shared<emulate::queues>());
    return cudaSuccess;
}
static inline cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *out)
{
    const std::shared_ptr<emulate::queues> graph = stream->capture;
    for (emulate_stream *taking_part : graph->streams)
        taking_part->capture = nullptr;
    graph->streams.clear();
    EMULATE_MAY_FAIL(CALL); /* the capture has ended in any case */
    if (!graph->joined())
        return cudaErrorStreamCaptureUnjoined;
    *out = new emulate::queues(*graph);
    return cudaSuccess;
}
static inline cudaError_t cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t graph, unsigned long long)
{
    EMULATE_MAY_FAIL(CALL);
    *out = new emulate::queues(*graph);
    return cudaSuccess;
}
static inline cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    delete graph;
    return cudaSuccess;
}
static inline cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph)
{
    emulate::live_run_all(); /* a launch of it may be pending */
    delete graph;
    return cudaSuccess;
}
static inline cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream)
{
    EMULATE_MAY_FAIL(CALL);
    emulate_submit(stream, emulate::kind::other, [graph] {
        emulate::queues once = *graph;
        once.run();
    });
    return cudaSuccess;
}
static inline cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count)
{
    EMULATE_MAY_FAIL(CALL);
    const std::vector<const emulate::task *> works = graph->works();
    for (size_t i = 0; nodes && i < works.size() && i < *count; i++)
        nodes[i] = works[i];
    *count = works.size();
    return cudaSuccess;
}
static inline cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType *type)
{
    EMULATE_MAY_FAIL(CALL);
    switch (node->kind) {
    case emulate::kind::kernel:
        *type = cudaGraphNodeTypeKernel;
        return cudaSuccess;
    case emulate::kind::copy:
        *type = cudaGraphNodeTypeMemcpy;
        return cudaSuccess;
    case emulate::kind::fill:
        *type = cudaGraphNodeTypeMemset;
        return cudaSuccess;
    default:
        *type = cudaGraphNodeTypeHost;
        return cudaSuccess;
    }
}

/* ---- events ------------------------------------------------------------------------------------------------------ */

static inline cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned)
{
    EMULATE_MAY_FAIL(CALL);
    *out = new emulate_event;
    return cudaSuccess;
}
static inline cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    EMULATE_MAY_FAIL(CALL);
    event->capture = stream->capture;
    event->queue = stream->capture ? stream->captured : stream->queue;
    if (!stream->capture)
        emulate_submit(stream, emulate::kind::other, [event] { event->at = std::chrono::steady_clock::now(); });
    event->place = (stream->capture ? *stream->capture : emulate::live).all[event->queue].end();
    return cudaSuccess;
}
static inline cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    EMULATE_MAY_FAIL(CALL);
    if (!event->capture && event->place)
        emulate::live_run(event->queue, event->place);
    return cudaSuccess;
}
static inline cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    if (!event->capture && event->place)
        emulate::live_run(event->queue, event->place);
    delete event;
    return cudaSuccess;
}
static inline cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to)
{
    EMULATE_MAY_FAIL(CALL);
    for (cudaEvent_t event : {from, to})
        if (event->place > emulate::live.all[event->queue].done)
            return cudaErrorNotReady;
    *ms = std::chrono::duration<float, std::milli>(to->at - from->at).count();
    return cudaSuccess;
}
static inline cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned = 0)
{
    EMULATE_MAY_FAIL(CALL);
    if (event->place == 0 && !event->capture) /* never recorded */
        return cudaSuccess;
    if (event->capture && event->capture->streams.empty()) /* recorded in a capture that has ended */
        return cudaErrorStreamCaptureIsolation;
    if (event->capture && !stream->capture) /* the stream takes part from now on */
        emulate_capture(stream, event->capture);
    if (event->capture != stream->capture)
        return cudaErrorStreamCaptureIsolation;
    if (stream->capture)
        stream->capture->add_wait(stream->captured, event->queue, event->place);
    else
        emulate::live.add_wait(stream->queue, event->queue, event->place);
    return cudaSuccess;
}

#endif
