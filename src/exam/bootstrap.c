#include "exam/bootstrap.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/philox.h"

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* ---- resampling -------------------------------------------------------------------------------------------------- */

/* The words of a site one after another. */
struct draws {
    struct random_site site;
    struct philox_block block;
    uint32_t used;
};

static int draw(struct draws *draws, int below)
{
    if (draws->used % 4 == 0)
        draws->block = random_block(draws->site, draws->used / 4);
    return (int)((uint64_t)draws->block.word[draws->used++ % 4] * (uint64_t)below >> 32);
}

double table_mean(const struct score_table *table)
{
    const int count = table->rows * table->columns;
    double sum = 0;
    for (int i = 0; i < count; i++)
        sum += table->values[i];
    return sum / count;
}

/* `sums` has room for a number per column. */
static double resampled_mean(const struct score_table *table, struct draws *draws, double *sums)
{
    double sum = 0;
    memset(sums, 0, (size_t)table->columns * sizeof *sums);
    for (int i = 0; i < table->rows; i++) {
        const double *row = table->values + (size_t)draw(draws, table->rows) * (size_t)table->columns;
        for (int j = 0; j < table->columns; j++)
            sums[j] += row[j];
    }
    for (int j = 0; j < table->columns; j++)
        sum += sums[table->fixed_columns ? j : draw(draws, table->columns)];
    return sum / ((double)table->rows * table->columns);
}

static bool varies(const struct score_table *table)
{
    return table->rows > 1 || (table->columns > 1 && !table->fixed_columns);
}

enum esper_status bootstrap(const struct score_table *a, const struct score_table *b, uint64_t seed,
                            struct interval *out, struct esper_error *error)
{
    const int columns = b && b->columns > a->columns ? b->columns : a->columns;
    *out = (struct interval){a->rows, table_mean(a) - (b ? table_mean(b) : 0), NAN, NAN};
    if (!varies(a) && !(b && varies(b)))
        return ESPER_OK;
    double *means = memory_alloc(BOOTSTRAP_RESAMPLES + (size_t)columns, sizeof *means, error);
    if (!means)
        return ESPER_FAILED;
    for (int i = 0; i < BOOTSTRAP_RESAMPLES; i++) {
        struct draws draws = {.site = random_at(seed, STREAM_EXAM, 0, 0, (uint32_t)i)};
        means[i] = resampled_mean(a, &draws, means + BOOTSTRAP_RESAMPLES);
        if (b)
            means[i] -= resampled_mean(b, &draws, means + BOOTSTRAP_RESAMPLES);
    }
    qsort(means, BOOTSTRAP_RESAMPLES, sizeof *means, by_value);
    out->low = means[BOOTSTRAP_RESAMPLES / 40]; /* 2.5 % */
    out->high = means[BOOTSTRAP_RESAMPLES - 1 - BOOTSTRAP_RESAMPLES / 40];
    memory_free(means);
    return ESPER_OK;
}

/* ---- other figures ----------------------------------------------------------------------------------------------- */

double interquartile_mean(double *values, int count)
{
    const double cut = count / 4.0; /* values that go at either end */
    double sum = 0;
    if (count == 0)
        return NAN;
    qsort(values, (size_t)count, sizeof *values, by_value);
    for (int i = 0; i < count; i++)
        sum += values[i] * fmax(0, fmin(i + 1, count - cut) - fmax(i, cut));
    return sum / (count - 2 * cut);
}

/* From 1; equal values get the mean of the places that they take together. */
static void rank(const double *values, int count, double *ranks)
{
    for (int i = 0; i < count; i++) {
        int below = 0, equal = 0;
        for (int j = 0; j < count; j++) {
            below += values[j] < values[i];
            equal += values[j] == values[i];
        }
        ranks[i] = below + (equal + 1) / 2.0;
    }
}

enum esper_status rank_correlation(const double *x, const double *y, int count, double *out, struct esper_error *error)
{
    double *ranks = memory_alloc((size_t)count + 1, 2 * sizeof *ranks, error);
    if (!ranks)
        return ESPER_FAILED;
    double *other = ranks + count, xx = 0, yy = 0, xy = 0;
    const double middle = (count + 1) / 2.0;
    rank(x, count, ranks);
    rank(y, count, other);
    for (int i = 0; i < count; i++) {
        xx += (ranks[i] - middle) * (ranks[i] - middle);
        yy += (other[i] - middle) * (other[i] - middle);
        xy += (ranks[i] - middle) * (other[i] - middle);
    }
    *out = xx > 0 && yy > 0 ? xy / sqrt(xx * yy) : NAN;
    memory_free(ranks);
    return ESPER_OK;
}

bool on_front(const double *x, const double *y, int count, int i)
{
    for (int j = 0; j < count; j++)
        if (x[j] <= x[i] && y[j] >= y[i] && (x[j] < x[i] || y[j] > y[i]))
            return false;
    return true;
}
