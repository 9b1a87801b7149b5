/*
 * Checked allocation. Everything is allocated at start-up; the training threads never call these.
 */
#ifndef BASE_MEMORY_H
#define BASE_MEMORY_H

#include <stddef.h>

#include "base/status.h"

/* Alignment of every block and of every array of the world table: one cache line, one AVX-512 vector. */
#define MEMORY_ALIGN 64

/* count * size zeroed bytes on a MEMORY_ALIGN boundary, or NULL with the error set. Zero bytes give a valid block. */
void *memory_alloc(size_t count, size_t size, struct esper_error *error);
void memory_free(void *block);

#endif
