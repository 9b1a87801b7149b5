/*
 * The machine's own peaks, with which every other figure is compared: multiply-adds from registers, and memory read and
 * copied, by one thread and by all of them together.
 */
#ifndef BENCH_ROOF_H
#define BENCH_ROOF_H

#include "base/status.h"
#include "bench/measure.h"

enum roof_kind { ROOF_MULTIPLY_ADD, ROOF_READ, ROOF_COPY, ROOF_KINDS };

struct roof {
    struct measure one[ROOF_KINDS], all[ROOF_KINDS]; /* operations/s, bytes/s; a copied byte counts twice */
    void *arrays;
};

enum esper_status roof_init(struct roof *roof, int threads, struct esper_error *error);
void roof_free(struct roof *roof);

const char *roof_name(enum roof_kind kind);
const char *roof_unit(enum roof_kind kind);

#endif
