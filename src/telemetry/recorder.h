/*
 * The recorder stands between training and the store: any module emits its numbers as rows, and a dedicated thread
 * writes them. Emitting takes no lock, allocates nothing and never waits, whatever the state of the disk: rows that
 * find no room are counted. Two lanes keep a flood of rows per env-step from crowding out rows that must not be lost.
 *
 * It writes a round's row last, after all rows that belong to the round, and with it the alerts that the round raises
 * or clears (alerts.h).
 *
 * A store that cannot be written (full disk, locked file) is retried until it can; training neither stops nor changes,
 * and the operator is notified once.
 */
#ifndef TELEMETRY_RECORDER_H
#define TELEMETRY_RECORDER_H

#include "base/config.h"
#include "telemetry/store.h"

struct recorder;

/* Takes ownership of the store, even when this fails. `rounds` is the planned number of rounds. */
enum esper_status recorder_start(struct recorder **out, struct store *store, enum telemetry_level level, int64_t rounds,
                                 struct esper_error *error);

/* Does the level keep such rows? NULL, here and below, means a recorder that keeps nothing. */
bool recorder_wants(const struct recorder *recorder, enum record_kind kind);
bool recorder_is_debug(const struct recorder *recorder);
/* Emits a row, of the kind's struct; it is copied. From any thread. */
void recorder_emit(struct recorder *recorder, enum record_kind kind, const void *record);
/* Counts rows that were left out on purpose. */
void recorder_thin(struct recorder *recorder, enum record_kind kind, int count);

/* From one thread, between steps: turns the counts of rows left out or lost since the last call into rows of `drops`.
 * Losses after the last call are added to its rows by recorder_stop. */
void recorder_count(struct recorder *recorder, uint32_t round, uint32_t step);
/* Waits until everything emitted so far is in the store and on the disk, where a power loss cannot take it, up to a
 * time limit. false: it is not. */
bool recorder_flush(struct recorder *recorder, double seconds);

enum { RECORDER_NOTICE = 512 };
/* Whether something happened that the operator should know: true and one line, once per event. */
bool recorder_notice(struct recorder *recorder, char text[RECORDER_NOTICE]);

/* The next alert that was raised, if there is one; and how many are active. An alert comes a moment after its round. */
bool recorder_alert(struct recorder *recorder, struct alert_record *alert);
int recorder_alerts_standing(struct recorder *recorder);

struct recorder_totals {
    uint64_t emitted[RECORD_KIND_COUNT]; /* rows offered that the level keeps, including its own alerts */
    uint64_t lost[RECORD_KIND_COUNT];    /* of those, rows that found no room */
    uint64_t written;                    /* rows in the store */
    uint64_t waiting;                    /* rows that are not yet */
};
void recorder_totals(struct recorder *recorder, struct recorder_totals *totals);

/* Writes what is left, up to a time limit, and closes the store. Rows emitted later are not kept. The error says what
 * could not be written; everything is released in any case. */
enum esper_status recorder_stop(struct recorder *recorder, double seconds, struct esper_error *error);

#endif
