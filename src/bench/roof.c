#include "bench/roof.h"

#include <stdint.h>
#include <string.h>

#include "base/memory.h"
#include "variant/variant.h"

/* Each thread walks its own part of two arrays, in all cases far more than the caches hold. */
enum { ROOF_ROUNDS = 100000, LINE_WORDS = 8 };
static const size_t array_bytes_least = (size_t)128 << 20, array_bytes_per_thread = (size_t)64 << 20;

struct roof_arrays {
    int threads;
    size_t bytes; /* of each array */
    char *from, *to;
};

typedef uint64_t cache_line __attribute__((vector_size(LINE_WORDS * sizeof(uint64_t))));

static double multiply_add(void *subject, int item)
{
    (void)subject;
    (void)item;
    return variant_best()->roof_multiply_add(ROOF_ROUNDS);
}

static double read_part(const struct roof_arrays *arrays, int part, int parts)
{
    size_t lines = arrays->bytes / sizeof(cache_line) / (size_t)parts;
    const cache_line *line = (const cache_line *)(const void *)arrays->from + lines * (size_t)part;
    cache_line sum[2] = {{0}, {0}};
    for (size_t i = 0; i + 2 <= lines; i += 2) {
        sum[0] += line[i];
        sum[1] += line[i + 1];
    }
    volatile uint64_t sink = (sum[0] + sum[1])[0]; /* or the loop would be optimised away */
    (void)sink;
    return (double)(lines * sizeof(cache_line));
}

static double copy_part(const struct roof_arrays *arrays, int part, int parts)
{
    size_t bytes = arrays->bytes / (size_t)parts;
    memcpy(arrays->to + bytes * (size_t)part, arrays->from + bytes * (size_t)part, bytes);
    return 2.0 * (double)bytes;
}

static double read_all(void *subject, int item)
{
    const struct roof_arrays *arrays = subject;
    return read_part(arrays, item, arrays->threads);
}

static double copy_all(void *subject, int item)
{
    const struct roof_arrays *arrays = subject;
    return copy_part(arrays, item, arrays->threads);
}

static double read_one(void *subject, int item)
{
    return read_part(subject, item, 1);
}

static double copy_one(void *subject, int item)
{
    return copy_part(subject, item, 1);
}

enum esper_status roof_init(struct roof *roof, int threads, struct esper_error *error)
{
    static double (*const work_one[ROOF_KINDS])(void *, int) = {multiply_add, read_one, copy_one};
    static double (*const work_all[ROOF_KINDS])(void *, int) = {multiply_add, read_all, copy_all};
    size_t bytes = array_bytes_per_thread * (size_t)threads;
    bytes = bytes > array_bytes_least ? bytes : array_bytes_least;
    /* The arrays' description is stored in front of them. */
    struct roof_arrays *arrays = memory_alloc(2 * bytes + MEMORY_ALIGN, 1, error);
    if (!arrays)
        return ESPER_FAILED;
    arrays->threads = threads;
    arrays->bytes = bytes;
    arrays->from = (char *)arrays + MEMORY_ALIGN;
    arrays->to = arrays->from + bytes;
    roof->arrays = arrays;
    for (int kind = 0; kind < ROOF_KINDS; kind++) {
        roof->one[kind] = (struct measure){.work = work_one[kind], .subject = arrays, .items = 1, .seconds = 0.05};
        roof->all[kind] =
            (struct measure){.work = work_all[kind], .subject = arrays, .items = threads, .seconds = 0.05};
    }
    return ESPER_OK;
}

void roof_free(struct roof *roof)
{
    memory_free(roof->arrays);
    roof->arrays = NULL;
}

const char *roof_name(enum roof_kind kind)
{
    static const char *const names[ROOF_KINDS] = {"multiply-add", "memory read", "memory copy"};
    return names[kind];
}

const char *roof_unit(enum roof_kind kind)
{
    return kind == ROOF_MULTIPLY_ADD ? "GFLOP/s" : "GB/s";
}
