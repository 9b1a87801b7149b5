/*
 * The recorder stands between training and the store: whoever knows a number emits it as a row, and one thread of its
 * own writes the rows. Emitting takes no lock, allocates nothing and never waits, whatever has become of the disk: what
 * finds no room is counted. Two lanes keep a flood of rows per env-step from crowding out what must not be lost.
 *
 * It writes a round's row last, after all that belongs to the round, and with it the alerts that the round raises or
 * clears (alerts.h).
 *
 * A store that cannot be written (full disk, locked file) is tried again until it can; training neither stops nor
 * changes, and the operator is told once.
 */
#ifndef TELEMETRY_RECORDER_H
#define TELEMETRY_RECORDER_H

#include "base/config.h"
#include "telemetry/store.h"

struct recorder;

/* The store belongs to the recorder from here on, also when this fails. `rounds` is what the run is planned to have. */
enum esper_status recorder_start(struct recorder **out, struct store *store, enum telemetry_level level, int64_t rounds,
                                 struct esper_error *error);

/* Does the level keep such rows? NULL, here and below, is a recorder that keeps nothing. */
bool recorder_wants(const struct recorder *recorder, enum record_kind kind);
bool recorder_is_debug(const struct recorder *recorder);
/* A row of the kind's struct; it is copied. Any thread. */
void recorder_emit(struct recorder *recorder, enum record_kind kind, const void *record);
/* Count rows that were left out on purpose. */
void recorder_thin(struct recorder *recorder, enum record_kind kind, int count);

/* One thread, between steps: what was left out or lost since the last call becomes rows of `drops`. What is lost after
 * the last of all is added to it by recorder_stop. */
void recorder_count(struct recorder *recorder, uint32_t round, uint32_t step);
/* Wait until all that was emitted is in the store, at most so long. false: it is not. */
bool recorder_flush(struct recorder *recorder, double seconds);

enum { RECORDER_NOTICE = 512 };
/* Something happened that the operator should know, told once: true and a line. */
bool recorder_notice(struct recorder *recorder, char text[RECORDER_NOTICE]);

/* The next alert that was raised, if there is one; and how many stand. An alert comes a moment after its round. */
bool recorder_alert(struct recorder *recorder, struct alert_record *alert);
int recorder_alerts_standing(struct recorder *recorder);

struct recorder_totals {
    uint64_t emitted[RECORD_KIND_COUNT]; /* rows offered and kept by the level, its own alerts too */
    uint64_t lost[RECORD_KIND_COUNT];    /* of them found no room */
    uint64_t written;                    /* rows in the store */
    uint64_t waiting;                    /* rows that are not */
};
void recorder_totals(struct recorder *recorder, struct recorder_totals *totals);

/* Write what is left, for at most so long, and close the store. Rows emitted later are not kept. The error tells what
 * could not be written; everything is released in any case. */
enum esper_status recorder_stop(struct recorder *recorder, double seconds, struct esper_error *error);

#endif
