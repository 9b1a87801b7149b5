/* What the device takes for something, for the programs that measure it. */
#ifndef TESTS_DEVICE_TIMER_CUH
#define TESTS_DEVICE_TIMER_CUH

#include <chrono>

#include "device_rig.cuh"

static int turns = 1; /* of a graph, in one measurement */

static double seconds(void)
{
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/* The median of nine measurements, of a graph of `again` times the work. */
template <class F> static double microseconds(struct pair *pair, int again, F enqueue)
{
    struct runtime *rt = pair->runtime;
    struct graph graph = {};
    std::vector<double> times;
    if (graph_begin(rt, &graph))
        for (int i = 0; i < again; i++)
            enqueue();
    graph_run(rt, &graph);
    runtime_wait(rt);
    for (int round = 0; round < (turns > 1 ? 9 : 1); round++) {
        const double start = seconds();
        for (int i = 0; i < turns; i++)
            graph_run(rt, &graph);
        runtime_wait(rt);
        times.push_back(1e6 * (seconds() - start) / (turns * again));
    }
    graph_free(&graph);
    if (rt->failed)
        stop("device", rt->error.text);
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
}

#endif
