#include "base/memory.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define LARGE_PAGE ((size_t)2 << 20)

void *memory_alloc(size_t count, size_t size, struct esper_error *error)
{
    if (size && count > (SIZE_MAX - MEMORY_ALIGN) / size) {
        error_set(error, ESPER_INVALID, "cannot allocate %zu x %zu bytes: the product overflows", count, size);
        return NULL;
    }
    /* aligned_alloc wants a multiple of the alignment; at least one line, so that NULL always means failure. */
    size_t bytes = (count * size + MEMORY_ALIGN - 1) / MEMORY_ALIGN * MEMORY_ALIGN;
    if (bytes == 0)
        bytes = MEMORY_ALIGN;
    /* Training walks through megabytes batch after batch: huge pages avoid most TLB misses. */
    bool large = bytes >= 2 * LARGE_PAGE;
    if (large)
        bytes = (bytes + LARGE_PAGE - 1) / LARGE_PAGE * LARGE_PAGE;
    void *block = aligned_alloc(large ? LARGE_PAGE : MEMORY_ALIGN, bytes);
    if (!block) {
        error_set(error, ESPER_FAILED, "out of memory: cannot allocate %zu bytes", bytes);
        return NULL;
    }
    if (large)
        (void)madvise(block, bytes, MADV_HUGEPAGE); /* a request: without it everything works, only slower */
    memset(block, 0, bytes);
    return block;
}

void memory_free(void *block)
{
    free(block);
}
