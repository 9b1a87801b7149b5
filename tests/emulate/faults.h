/*
 * Faults of the emulated device, as tests/faults/faults.c has them for the C library:
 *
 *     ESPER_EMULATE_FAIL=KIND:K[:on]   the K-th call, alloc or launch fails, with `on` all that follow as well
 *     ESPER_EMULATE_COUNT=FILE         writes at exit how many there were of each
 *
 * What releases something never fails.
 */
#ifndef EMULATE_FAULTS_H
#define EMULATE_FAULTS_H

#include <atomic>

typedef int cudaError_t;
enum { cudaSuccess = 0, cudaErrorMemoryAllocation = 2, cudaErrorUnknown = 999 };

namespace emulate
{
/* Bytes of shared memory that a thread block may have: as compute capability 9.0 has them, unless asked otherwise. */
inline int shared_asked()
{
    const char *text = getenv("ESPER_EMULATE_SHARED");
    return text ? atoi(text) : 232448;
}
inline int shared_most = shared_asked();

enum fault_kind { FAULT_CALL, FAULT_ALLOC, FAULT_LAUNCH, FAULT_KINDS };

struct fault_plan {
    const char *const names[FAULT_KINDS] = {"call", "alloc", "launch"};
    std::atomic<unsigned long> counts[FAULT_KINDS] = {};
    int kind = -1;
    unsigned long at = 0;
    bool on = false;

    fault_plan()
    {
        const char *text = getenv("ESPER_EMULATE_FAIL");
        char name[8] = "", rest[8] = "";
        if (!text)
            return;
        int got = sscanf(text, "%7[a-z]:%lu:%7s", name, &at, rest);
        for (int i = 0; i < FAULT_KINDS; i++)
            if (strcmp(name, names[i]) == 0)
                kind = i;
        on = strcmp(rest, "on") == 0;
        if (got < 2 || kind < 0 || (got == 3 && !on)) {
            fprintf(stderr, "ESPER_EMULATE_FAIL is '%s'; it may be call:K, alloc:K or launch:K, and :on\n", text);
            exit(2);
        }
    }
    ~fault_plan()
    {
        const char *path = getenv("ESPER_EMULATE_COUNT");
        FILE *file = path ? fopen(path, "w") : nullptr;
        for (int i = 0; file && i < FAULT_KINDS; i++)
            fprintf(file, "%s %lu\n", names[i], counts[i].load());
        if (file)
            fclose(file);
    }
    /* Counts it; whether it fails, and with which error. */
    cudaError_t due(fault_kind which)
    {
        const unsigned long number = ++counts[which];
        if (which != kind || (on ? number < at : number != at))
            return cudaSuccess;
        return which == FAULT_ALLOC ? cudaErrorMemoryAllocation : cudaErrorUnknown;
    }
};
inline fault_plan faults;
} // namespace emulate

#define EMULATE_MAY_FAIL(kind)                                                                                         \
    if (const cudaError_t code = emulate::faults.due(emulate::FAULT_##kind))                                           \
    return code

#endif
