/*
 * 95 % intervals by resampling with replacement, for scores in a table: a row per training seed, a column per episode.
 * Rows and columns are resampled together (crossed): the same resampled episodes for every resampled training, since
 * all trainings play the same births. The random numbers hang on the exam's seed alone, so the same table has the same
 * interval wherever it occurs.
 */
#ifndef EXAM_BOOTSTRAP_H
#define EXAM_BOOTSTRAP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "telemetry/paired.h"

enum { BOOTSTRAP_RESAMPLES = 10000 };

struct score_table {
    const double *values; /* [row][column], all finite */
    int rows, columns;
    bool fixed_columns; /* resample rows only */
};

double table_mean(const struct score_table *table);
/* The interval of the mean of `a`, or of that minus the mean of `b` (may be NULL), which is resampled on its own. The
 * interval's count is a's number of rows. Where neither has more than one row or column to resample, low and high are
 * NAN. */
enum esper_status bootstrap(const struct score_table *a, const struct score_table *b, uint64_t seed,
                            struct interval *out, struct esper_error *error);

/* The mean of the middle half of the values; a value on the border counts with its part. Sorts them. */
double interquartile_mean(double *values, int count);
/* Spearman's: the correlation of the ranks, equal values sharing theirs. NAN where one side is all equal. */
enum esper_status rank_correlation(const double *x, const double *y, int count, double *out, struct esper_error *error);
/* Whether point i is on the front: no other has as small an x and as large a y, and is better in one of them. */
bool on_front(const double *x, const double *y, int count, int i);

#endif
