/*
 * A bounded queue between many producers and one consumer, without locks: an array of cells, each with a counter that
 * says whose turn it is. All memory is allocated, and touched, at the start; pushing is a copy and two atomic
 * operations. When the queue is full, pushing fails at once: producers never wait.
 */
#ifndef TELEMETRY_RING_H
#define TELEMETRY_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "telemetry/record.h"

struct ring;

/* `cells` is a power of two, at least 2. NULL with the error set: out of memory. */
struct ring *ring_create(size_t cells, struct esper_error *error);
void ring_free(struct ring *ring);

/* Any thread. false: full. */
bool ring_push(struct ring *ring, enum record_kind kind, const void *record);
/* The consumer's thread only. false: empty, or the next producer is not done yet. */
bool ring_pop(struct ring *ring, struct record_row *row);

/* Places taken since the start, and places given back: everything pushed before a call to ring_pushed has been popped
 * once ring_popped reaches its result. Any thread. */
uint64_t ring_pushed(const struct ring *ring);
uint64_t ring_popped(const struct ring *ring);

#endif
