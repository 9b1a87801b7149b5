#include "telemetry/ring.h"

#include <stdatomic.h>
#include <string.h>

#include "base/memory.h"

enum { LINE = 64 };

/* turn = place: free for the producer of that place. turn = place + 1: filled, for the consumer. The consumer sets it
 * to place + cells: free for the next lap. */
struct cell {
    atomic_uint_fast64_t turn;
    struct record_row row;
};

struct ring {
    uint64_t mask;
    struct cell *cells;
    _Alignas(LINE) atomic_uint_fast64_t head; /* next place for producers */
    _Alignas(LINE) atomic_uint_fast64_t tail; /* next place for the consumer, which alone changes it */
};

static const size_t record_bytes[RECORD_KIND_COUNT] = {
#define RECORD_BYTES(NAME, name, lane, level, key, help) sizeof(struct name##_record),
    RECORD_KINDS(RECORD_BYTES)
#undef RECORD_BYTES
};

struct ring *ring_create(size_t cells, struct esper_error *error)
{
    struct ring *ring = memory_alloc(1, sizeof *ring, error);
    if (!ring)
        return NULL;
    ring->mask = cells - 1;
    ring->cells = memory_alloc(cells, sizeof *ring->cells, error);
    if (!ring->cells) {
        memory_free(ring);
        return NULL;
    }
    for (size_t i = 0; i < cells; i++)
        atomic_init(&ring->cells[i].turn, i);
    atomic_init(&ring->head, 0);
    atomic_init(&ring->tail, 0);
    return ring;
}

void ring_free(struct ring *ring)
{
    if (!ring)
        return;
    memory_free(ring->cells);
    memory_free(ring);
}

/* A producer retries only because another one took the place: some producer always makes progress, and a row is refused
 * only when the ring is full. */
bool ring_push(struct ring *ring, enum record_kind kind, const void *record)
{
    uint64_t place = atomic_load_explicit(&ring->head, memory_order_relaxed);
    for (;;) {
        struct cell *cell = &ring->cells[place & ring->mask];
        uint64_t turn = atomic_load_explicit(&cell->turn, memory_order_acquire);
        if ((int64_t)(turn - place) < 0)
            return false; /* still holds what was pushed a lap ago */
        if (turn != place) {
            place = atomic_load_explicit(&ring->head, memory_order_relaxed);
        } else if (atomic_compare_exchange_weak_explicit(&ring->head, &place, place + 1, memory_order_relaxed,
                                                         memory_order_relaxed)) {
            cell->row.kind = kind;
            memcpy(&cell->row.record, record, record_bytes[kind]);
            atomic_store_explicit(&cell->turn, place + 1, memory_order_release);
            return true;
        }
    }
}

bool ring_pop(struct ring *ring, struct record_row *out)
{
    uint64_t place = atomic_load_explicit(&ring->tail, memory_order_relaxed);
    struct cell *cell = &ring->cells[place & ring->mask];
    if (atomic_load_explicit(&cell->turn, memory_order_acquire) != place + 1)
        return false;
    out->kind = cell->row.kind;
    memcpy(&out->record, &cell->row.record, record_bytes[out->kind]);
    atomic_store_explicit(&cell->turn, place + ring->mask + 1, memory_order_release);
    atomic_store_explicit(&ring->tail, place + 1, memory_order_release);
    return true;
}

uint64_t ring_pushed(const struct ring *ring)
{
    return atomic_load_explicit(&ring->head, memory_order_acquire);
}

uint64_t ring_popped(const struct ring *ring)
{
    return atomic_load_explicit(&ring->tail, memory_order_acquire);
}
