/*
 * The record of a run: SQLite in WAL mode, RUN/telemetry.db, the tables of record.h and `run`, all STRICT, columns
 * documented in the schema, version in user_version. Only the recorder's connection writes. A record of an earlier
 * version can be read and continued: columns added since are missing (NULL) in its existing rows.
 */
#ifndef TELEMETRY_STORE_H
#define TELEMETRY_STORE_H

#include <signal.h>
#include <stdbool.h>

#include "telemetry/record.h"
#include "telemetry/run.h"

struct store;

/* Opens for the trainer; the first time it creates the tables and describes the run in the table `run`. */
enum esper_status store_open(struct store **out, const struct run *run, struct esper_error *error);
/* Opens read-only, live, finished or crashed; the caller may use store_sql for its queries. */
enum esper_status store_open_reader(struct store **out, const struct run *run, struct esper_error *error);
void store_close(struct store *store);

/* What is asked of the store from now on ends after so many seconds (0: never), or once *stop is not 0. Opening allows
 * STORE_OPEN_SECONDS; questions of a reader, and what a writer asks before it resumes a run, STORE_SECONDS. */
void store_allow(struct store *store, double seconds, const volatile sig_atomic_t *stop);
#define STORE_OPEN_SECONDS 10.0
#define STORE_SECONDS      60.0

/* Deletes everything after `step` steps of round `round` (the number as in the table `round`): a resumed run writes it
 * again, bit for bit. */
enum esper_status store_forget(struct store *store, uint32_t round, uint32_t step, struct esper_error *error);

/* Writes rows of any tables in one transaction: all or none. A row replaces an older one with the same key; counts in
 * `drops` add up. */
enum esper_status store_write(struct store *store, const struct record_row *rows, int count, struct esper_error *error);

/* Makes everything written so far durable. Without it, a power loss takes the rows since SQLite last folded its log. */
enum esper_status store_sync(struct store *store, struct esper_error *error);

/* Does the record list the checkpoint of that name? */
enum esper_status store_has_checkpoint(struct store *store, const char *file, bool *has, struct esper_error *error);
/* Does it hold the text of the network that was the best from that round on? */
enum esper_status store_has_sample(struct store *store, uint32_t round, bool *has, struct esper_error *error);
/* How far the record of a run reaches; one that the run had no time to create reaches nowhere. */
struct store_reach {
    int64_t rounds; /* finished rounds in it */
    uint32_t saved_round,
        saved_step;  /* rounds and steps done at the newest checkpoint that it lists, best.ckpt apart */
    int64_t missing; /* of the rounds asked about, those with rows missing */
    int64_t first_missing, last_missing; /* their numbers, as in the table `round` */
};
/* Asks about the run's first `rounds` rounds and the first `step` steps of the next. Changes nothing. */
enum esper_status store_reach(const struct run *run, uint32_t rounds, uint32_t step, struct store_reach *reach,
                              struct esper_error *error);
/* Every episode, by round and env. Release with memory_free. */
enum esper_status store_outcomes(struct store *store, struct outcome_record **out, int *count,
                                 struct esper_error *error);

/* What a column means, in this version's words; NULL: it is not in record.h. */
const char *store_help(const char *table, const char *column);

struct sqlite3;
struct sqlite3 *store_sql(struct store *store);

#endif
