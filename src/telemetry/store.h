/*
 * The record of a run: SQLite in WAL mode, RUN/telemetry.db, tables run, round, ppo, outcome, rollback, checkpoint, all
 * STRICT, columns documented in the schema, version in user_version. The trainer writes once per round.
 */
#ifndef TELEMETRY_STORE_H
#define TELEMETRY_STORE_H

#include <stdbool.h>

#include "telemetry/record.h"
#include "telemetry/run.h"

struct store;

/* Open for the trainer; creates and describes the run in the table `run` the first time. */
enum esper_status store_open(struct store **out, const struct run *run, struct esper_error *error);
/* Open read-only, live, finished or crashed; the caller may use store_sql for its queries. */
enum esper_status store_open_reader(struct store **out, const struct run *run, struct esper_error *error);
void store_close(struct store *store);

/* Forget rounds from `round` on (the number as the table `round` has it): a resumed run writes them again, bit for
 * bit. Checkpoint rows of later rounds go too. */
enum esper_status store_forget(struct store *store, uint32_t round, struct esper_error *error);

/* A finished round, in one transaction. ppo may be NULL: nothing was learned. */
struct round_report {
    struct round_record round;
    struct ppo_record ppo;
    bool has_ppo;
    const struct outcome_record *outcomes;
    int outcome_count;
    const struct rollback_record *rollbacks;
    int rollback_count;
};
enum esper_status store_round(struct store *store, const struct round_report *report, struct esper_error *error);
/* `file` is the name within checkpoints/, kind "periodic", "stop", "final" or "best". */
enum esper_status store_checkpoint(struct store *store, const char *file, const char *kind, uint32_t round,
                                   uint32_t step, uint64_t hash, struct esper_error *error);

/* Every episode, by round and env. Release with memory_free. */
enum esper_status store_outcomes(struct store *store, struct outcome_record **out, int *count,
                                 struct esper_error *error);

struct sqlite3;
struct sqlite3 *store_sql(struct store *store);

#endif
