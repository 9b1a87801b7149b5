/*
 * Where the time goes, as a trace that Perfetto (ui.perfetto.dev) and chrome://tracing open: an array of Chrome trace
 * events, a complete span ("X") per phase with round and step in its arguments (both from 1), a track per thread.
 */
#ifndef TELEMETRY_TRACE_H
#define TELEMETRY_TRACE_H

#include <stdio.h>

#include "telemetry/run.h"

struct trace_event {
    const char *name;              /* of the phase */
    int64_t thread;                /* that did it */
    int64_t start_us, duration_us; /* since a fixed moment of the run, and the duration */
    int64_t round, step;           /* as recorded; -1: none */
};

enum esper_status trace_write(FILE *file, const struct trace_event *events, size_t count, struct esper_error *error);

/* The trace of the table `phase` (round, step, name, thread, start_us, duration_us). A run without the table, or
 * without rows in it, is an error that says so. */
enum esper_status dump_trace(const struct run *run, FILE *file, struct esper_error *error);

#endif
