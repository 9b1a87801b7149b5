/*
 * A bounded queue between many producers and one consumer, without locks: an array of cells, each with a counter that
 * says whose turn it is. Everything is allocated - and touched - at the start; pushing is a copy and two atomic
 * operations. When it is full, pushing fails at once: whoever produces never waits.
 */
#ifndef TELEMETRY_RING_H
#define TELEMETRY_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "telemetry/record.h"

struct ring;

/* `cells` is a power of two from 2 on. NULL with the error set: out of memory. */
struct ring *ring_create(size_t cells, struct esper_error *error);
void ring_free(struct ring *ring);

/* Any thread. false: full. */
bool ring_push(struct ring *ring, enum record_kind kind, const void *record);
/* The consumer's thread only. false: empty, or the next producer is not done yet. */
bool ring_pop(struct ring *ring, struct record_row *row);

/* Places taken since the start, and places given back: all that was pushed before a call of ring_pushed is out when
 * ring_popped has reached it. Any thread. */
uint64_t ring_pushed(const struct ring *ring);
uint64_t ring_popped(const struct ring *ring);

#endif
