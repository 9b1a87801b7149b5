/*
 * Cohorts: runs of one policy, one per seed, and how the episodes of two cohorts pair (E-14). An episode is identified
 * by seed, round and env; in runs of the same task both episodes of a pair see the same images in the same order from
 * the same start, so that any difference is due to the policy.
 */
#ifndef TELEMETRY_COHORT_H
#define TELEMETRY_COHORT_H

#include "base/family_words.h"
#include "telemetry/paired.h"
#include "telemetry/query.h"
#include "telemetry/record.h"
#include "telemetry/run.h"

struct cohort_run {
    struct run run;
    const char *state; /* "finished", "crashed" ... */
    struct outcome_record *outcomes;
    int count;
};

struct cohort {
    const char *text; /* as the user wrote it */
    struct cohort_run *runs;
    int run_count, episodes; /* over all runs */
    char policy[32];         /* the policy that decided */
};

/* `text` is one run or several, "A1,A2,A3", each as run_find takes it. Refuses two runs of one seed, runs of different
 * policies and runs without episodes. */
enum esper_status cohort_load(struct cohort *cohort, const char *runs, const char *text, struct esper_error *error);
/* The same; options->timeout and stop limit the reading of each record. */
enum esper_status cohort_load_within(struct cohort *cohort, const char *runs, const char *text,
                                     const struct query_options *options, struct esper_error *error);
void cohort_free(struct cohort *cohort);

/* Whether all runs of both are of the same task: every key that shapes an episode must be equal. Reward keys may
 * differ; then rewards cannot be compared, and *reward_key names the key (otherwise it is left alone). */
enum esper_status cohort_check(const struct cohort *a, const struct cohort *b, const char **reward_key,
                               struct esper_error *error);

struct cohort_pair {
    uint64_t seed; /* pairs of one seed are adjacent */
    const struct outcome_record *a, *b;
};
/* Every episode that both have. Having none is an error that says which episodes there are. Release with memory_free.
 */
enum esper_status cohort_match(const struct cohort *a, const struct cohort *b, struct cohort_pair **out, int *count,
                               struct esper_error *error);

/* The quantities compared. */
enum metric {
    METRIC_TEST_ACCURACY, /* points; the family says what they are called */
    METRIC_TEST_BITS,     /* the same in bits per byte, where there are any */
    METRIC_VAL_ACCURACY,
    METRIC_REWARD,
    METRIC_ADDED_PARAMS,
    METRIC_ACCURACY_PER_1000,
    METRIC_FOSSILIZED,
    METRIC_PRUNED,
    METRIC_COUNT
};
struct metric_info {
    const char *name;  /* for --metric and JSON */
    const char *title; /* of a row, with the unit; NULL: in the family's words, as the next one */
    const char *head;  /* of a column, at most 8 bytes */
    int decimals;
};
extern const struct metric_info metrics[METRIC_COUNT];
double metric_value(enum metric metric, const struct outcome_record *outcome); /* NAN: not measured */

/* Whether results of such a family have it, and what it is called there. */
enum { METRIC_TITLE = 64 };
bool metric_fits(enum metric metric, const struct family_words *words);
const char *metric_title(enum metric metric, const struct family_words *words, char text[METRIC_TITLE]);
const char *metric_head(enum metric metric, const struct family_words *words, char text[METRIC_TITLE]);

enum esper_status cohort_mean(const struct cohort *cohort, enum metric metric, struct interval *out,
                              struct esper_error *error);

/* a - b: over all pairs; and over the means of the seeds, since the episodes of one seed share a trained policy. */
struct difference {
    struct interval episodes, seeds;
};
enum esper_status cohort_difference(const struct cohort_pair *pairs, int count, enum metric metric,
                                    struct difference *out, struct esper_error *error);
/* Gain in test points over b, which grew nothing, per 1000 parameters that a added. */
enum esper_status cohort_gain(const struct cohort_pair *pairs, int count, struct interval *out,
                              struct esper_error *error);

#endif
