/*
 * The folder of a sweep, which any number of processes work on at once, on one machine or on many that share a file
 * system:
 *
 *     FOLDER/sweep.json              the plan, written once
 *            jobs/<name>/lock        held by who is at that run: a lock of the file system, which ends with its process
 *            jobs/<name>/result.json rungs finished, with their scores; failures. Written by the holder alone
 *            runs/<name>/            an ordinary run; <name>.failed is one that failed and was tried again
 *            best.json               the best configuration, for --config
 *
 * A result is a summary of the run's record, kept because a record can be read safely only on the machine that writes
 * it.
 */
#ifndef SWEEP_FOLDER_H
#define SWEEP_FOLDER_H

#include <limits.h>

#include "sweep/halving.h"
#include "telemetry/record.h"

enum { SWEEP_FOLDER = PATH_MAX - 256 }; /* room for what is in it */

/* ---- the plan ---------------------------------------------------------------------------------------------------- */

/* Whether that is the folder of a sweep. */
bool sweep_is_folder(const char *folder);
enum esper_status sweep_load(struct sweep *sweep, const char *folder, struct esper_error *error);
/* Creates the folder with its plan, or finds that it has the same plan; another one is refused. */
enum esper_status sweep_save(const struct sweep *sweep, const char *folder, struct esper_error *error);

/* What a plan's file says besides configuration and seeds: axes and the rest, on top of the sweep's base. */
struct cJSON;
enum esper_status sweep_read_words(struct sweep *sweep, const struct cJSON *object, struct esper_error *error);
extern const char *const sweep_words[]; /* all of them */
extern const int sweep_word_count;

/* ---- jobs -------------------------------------------------------------------------------------------------------- */

struct sweep_rung_result {
    int rounds;         /* done */
    double score, test; /* means of the episodes of the last rounds */
    int episodes;       /* as many */
};

struct sweep_result {
    int done, failures;
    struct sweep_rung_result rungs[SWEEP_RUNGS];
    char reasons[SWEEP_TRIES][256]; /* why it failed */
};

/* Sets *lock, to be released with close; -1: somebody else is at it. */
enum esper_status sweep_claim(const char *folder, const char *name, int *lock, struct esper_error *error);
/* One that is not there is one of a run that nobody has finished anything of. */
enum esper_status sweep_read_result(const char *folder, const char *name, struct sweep_result *result,
                                    struct esper_error *error);
enum esper_status sweep_write_result(const char *folder, const char *name, const struct sweep_result *result,
                                     struct esper_error *error);
/* A run that failed makes room for another try, once. */
enum esper_status sweep_set_aside(const char *folder, const char *name, struct esper_error *error);

/* ---- scores ------------------------------------------------------------------------------------------------------ */

/* What a run came to after so many rounds: means over the episodes of the last of them (rounds_judged), which `esper
 * train` shows as well. */
void sweep_judge(const struct sweep *sweep, const struct outcome_record *outcomes, int count, int rounds,
                 struct sweep_rung_result *result);
const char *sweep_score_title(const struct sweep *sweep);

/* A configuration as a file for --config: all that is not the machine's or the seed. */
enum esper_status sweep_write_best(const struct sweep *sweep, int config, const char *folder,
                                   struct esper_error *error);

#endif
