/*
 * The part of the CUDA runtime that src/cuda/runtime.cu calls, on the CPU: a stream does its work at once, or, while it
 * is captured, keeps it in a list; a graph is that list.
 */
#ifndef EMULATE_CUDA_API_H
#define EMULATE_CUDA_API_H

#include <chrono>

typedef int cudaError_t;
enum { cudaSuccess = 0, cudaErrorMemoryAllocation = 2, cudaErrorNotReady = 600 };
enum cudaMemcpyKind { cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost = 2, cudaMemcpyDeviceToDevice = 3 };
enum { cudaStreamNonBlocking = 1, cudaEventDisableTiming = 2, cudaEventDefault = 0, cudaHostAllocDefault = 0 };
enum cudaStreamCaptureMode { cudaStreamCaptureModeThreadLocal };

struct emulate_stream;
struct emulate_graph {
    std::vector<std::function<void()>> work;
    std::vector<emulate_stream *> streams; /* while it is captured: those whose work goes here */
};
struct emulate_stream {
    emulate_graph *capture = nullptr;
};
struct emulate_event {
    emulate_graph *capture = nullptr;
    std::chrono::steady_clock::time_point at;
};
typedef emulate_stream *cudaStream_t;
typedef emulate_event *cudaEvent_t;
typedef emulate_graph *cudaGraph_t;
typedef emulate_graph *cudaGraphExec_t;

struct cudaDeviceProp {
    char name[256];
    int major, minor, multiProcessorCount;
    size_t totalGlobalMem;
};

static inline void emulate_submit(cudaStream_t stream, std::function<void()> work)
{
    if (stream && stream->capture)
        stream->capture->work.push_back(std::move(work));
    else
        work();
}

static inline cudaError_t cudaGetDeviceCount(int *count)
{
    *count = 1;
    return cudaSuccess;
}
static inline cudaError_t cudaSetDevice(int)
{
    return cudaSuccess;
}
static inline cudaError_t cudaDriverGetVersion(int *version)
{
    *version = 13000;
    return cudaSuccess;
}
static inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp *p, int)
{
    *p = {};
    snprintf(p->name, sizeof p->name, "emulated device");
    p->major = 9;
    p->multiProcessorCount = 132;
    p->totalGlobalMem = (size_t)8 << 30;
    return cudaSuccess;
}
static inline const char *cudaGetErrorString(cudaError_t error)
{
    return error == cudaErrorMemoryAllocation ? "out of memory" : "no error";
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
    *out = {};
    return cudaSuccess;
}
static inline cudaError_t cudaMalloc(void **out, size_t bytes)
{
    size_t room = (bytes + 255) / 256 * 256;
    *out = aligned_alloc(256, room ? room : 256);
    if (*out)
        memset(*out, 0xff, room);
    return *out ? cudaSuccess : cudaErrorMemoryAllocation;
}
static inline cudaError_t cudaFree(void *p)
{
    free(p);
    return cudaSuccess;
}
static inline cudaError_t cudaHostAlloc(void **out, size_t bytes, unsigned)
{
    return cudaMalloc(out, bytes);
}
static inline cudaError_t cudaFreeHost(void *p)
{
    free(p);
    return cudaSuccess;
}
static inline cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind, cudaStream_t stream)
{
    emulate_submit(stream, [=] { memmove(to, from, bytes); });
    return cudaSuccess;
}
static inline cudaError_t cudaMemsetAsync(void *to, int byte, size_t bytes, cudaStream_t stream)
{
    emulate_submit(stream, [=] { memset(to, byte, bytes); });
    return cudaSuccess;
}
static inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned)
{
    *out = new emulate_stream;
    return cudaSuccess;
}
static inline cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    delete stream;
    return cudaSuccess;
}
static inline cudaError_t cudaStreamSynchronize(cudaStream_t)
{
    return cudaSuccess;
}
static inline cudaError_t cudaDeviceSynchronize()
{
    return cudaSuccess;
}
static inline cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode)
{
    stream->capture = new emulate_graph;
    stream->capture->streams.push_back(stream);
    return cudaSuccess;
}
static inline cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *out)
{
    *out = stream->capture;
    for (emulate_stream *joined : (*out)->streams)
        joined->capture = nullptr;
    return cudaSuccess;
}
static inline cudaError_t cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t graph, unsigned long long)
{
    *out = new emulate_graph(*graph);
    return cudaSuccess;
}
static inline cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    delete graph;
    return cudaSuccess;
}
static inline cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph)
{
    delete graph;
    return cudaSuccess;
}
static inline cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream)
{
    for (auto &work : graph->work)
        emulate_submit(stream, work);
    return cudaSuccess;
}
static inline cudaError_t cudaGraphGetNodes(cudaGraph_t graph, void *, size_t *count)
{
    *count = graph->work.size();
    return cudaSuccess;
}
static inline cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned)
{
    *out = new emulate_event;
    return cudaSuccess;
}
static inline cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    delete event;
    return cudaSuccess;
}
static inline cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    event->capture = stream->capture;
    event->at = std::chrono::steady_clock::now();
    return cudaSuccess;
}
static inline cudaError_t cudaEventSynchronize(cudaEvent_t)
{
    return cudaSuccess;
}
static inline cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to)
{
    *ms = std::chrono::duration<float, std::milli>(to->at - from->at).count();
    return cudaSuccess;
}
static inline cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned = 0)
{
    if (event->capture && !stream->capture) { /* the stream joins the capture */
        stream->capture = event->capture;
        event->capture->streams.push_back(stream);
    }
    return cudaSuccess;
}

#endif
