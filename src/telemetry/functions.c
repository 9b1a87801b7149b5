#include "telemetry/functions.h"

#include <math.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/*
 * All four keep their values and compute at the end, in two passes: exact where running sums would cancel, and a moving
 * window only has to drop its oldest value. The memory is SQLite's, so its limits apply.
 */
struct samples {
    double *x, *y; /* y: of corr only */
    sqlite3_uint64 first, count, capacity;
    double p; /* of percentile */
    bool has_p;
};

/* ---- what they compute ------------------------------------------------------------------------------------------- */

static double mean(const double *values, sqlite3_uint64 count)
{
    double sum = 0;
    for (sqlite3_uint64 i = 0; i < count; i++)
        sum += values[i];
    return sum / (double)count;
}

static void give_stddev(sqlite3_context *context, const struct samples *samples)
{
    if (samples->count < 2)
        return;
    const double *x = samples->x + samples->first;
    double centre = mean(x, samples->count), squares = 0;
    for (sqlite3_uint64 i = 0; i < samples->count; i++)
        squares += (x[i] - centre) * (x[i] - centre);
    sqlite3_result_double(context, sqrt(squares / (double)(samples->count - 1)));
}

static void give_corr(sqlite3_context *context, const struct samples *samples)
{
    if (samples->count < 2)
        return;
    const double *x = samples->x + samples->first, *y = samples->y + samples->first;
    double centre_x = mean(x, samples->count), centre_y = mean(y, samples->count), xx = 0, yy = 0, xy = 0;
    for (sqlite3_uint64 i = 0; i < samples->count; i++) {
        double dx = x[i] - centre_x, dy = y[i] - centre_y;
        xx += dx * dx;
        yy += dy * dy;
        xy += dx * dy;
    }
    double r = xy / (sqrt(xx) * sqrt(yy)); /* no spread: 0 / 0, which SQLite keeps as NULL */
    sqlite3_result_double(context, r > 1 ? 1 : r < -1 ? -1 : r);
}

static int by_value(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static void give_place(sqlite3_context *context, const struct samples *samples, double p)
{
    if (samples->count == 0)
        return;
    double *sorted = sqlite3_malloc64(samples->count * sizeof *sorted); /* a window keeps its order of arrival */
    if (!sorted) {
        sqlite3_result_error_nomem(context);
        return;
    }
    memcpy(sorted, samples->x + samples->first, samples->count * sizeof *sorted);
    qsort(sorted, samples->count, sizeof *sorted, by_value);
    double place = p / 100 * (double)(samples->count - 1), below = floor(place), part = place - below;
    double low = sorted[(size_t)below], high = sorted[(size_t)ceil(place)];
    sqlite3_result_double(context, low == high || part == 0 ? low : (1 - part) * low + part * high);
    sqlite3_free(sorted);
}

static void give_median(sqlite3_context *context, const struct samples *samples)
{
    give_place(context, samples, 50);
}

static void give_percentile(sqlite3_context *context, const struct samples *samples)
{
    give_place(context, samples, samples->p);
}

typedef void (*give)(sqlite3_context *context, const struct samples *samples);

static const struct function {
    const char *name;
    int arguments;
    give give;
    bool pairs, has_p; /* what the second argument is */
} functions[] = {
    {"stddev", 1, give_stddev, false, false},
    {"median", 1, give_median, false, false},
    {"percentile", 2, give_percentile, false, true},
    {"corr", 2, give_corr, true, false},
};

/* ---- how SQLite calls them --------------------------------------------------------------------------------------- */

static const struct function *function_of(sqlite3_context *context)
{
    return sqlite3_user_data(context);
}

static bool is_number(sqlite3_value *value)
{
    int type = sqlite3_value_numeric_type(value);
    return type == SQLITE_INTEGER || type == SQLITE_FLOAT;
}

/* Whether the row counts. A value that is neither a number nor NULL is a mistake worth reporting: avg would take it as
 * 0. */
static bool counts(sqlite3_context *context, sqlite3_value **values)
{
    const struct function *function = function_of(context);
    for (int i = 0; i < (function->pairs ? 2 : 1); i++) {
        if (sqlite3_value_type(values[i]) == SQLITE_NULL)
            return false;
        if (!is_number(values[i])) {
            char *text = sqlite3_mprintf("%s: a value is not a number", function->name);
            sqlite3_result_error(context, text ? text : "not a number", -1);
            sqlite3_free(text);
            return false;
        }
    }
    return true;
}

static bool take_p(sqlite3_context *context, struct samples *samples, sqlite3_value *value)
{
    double p = is_number(value) ? sqlite3_value_double(value) : (double)NAN;
    if (!(p >= 0 && p <= 100))
        sqlite3_result_error(context, "percentile(x, p): p must be a number from 0 to 100", -1);
    else if (samples->has_p && samples->p != p)
        sqlite3_result_error(context, "percentile(x, p): p must be the same for all rows", -1);
    else
        return samples->p = p, samples->has_p = true;
    return false;
}

/* Makes room for one more, first by removing the values that a window has dropped. */
static bool make_room(struct samples *samples, bool pairs)
{
    if (samples->first + samples->count < samples->capacity)
        return true;
    if (samples->first > samples->count) {
        memmove(samples->x, samples->x + samples->first, samples->count * sizeof *samples->x);
        if (pairs)
            memmove(samples->y, samples->y + samples->first, samples->count * sizeof *samples->y);
        samples->first = 0;
        return true;
    }
    sqlite3_uint64 capacity = samples->capacity ? 2 * samples->capacity : 64;
    double *x = sqlite3_realloc64(samples->x, capacity * sizeof *x);
    samples->x = x ? x : samples->x;
    double *y = pairs && x ? sqlite3_realloc64(samples->y, capacity * sizeof *y) : samples->y;
    samples->y = y ? y : samples->y;
    if (!x || (pairs && !y))
        return false;
    samples->capacity = capacity;
    return true;
}

static void step(sqlite3_context *context, int count, sqlite3_value **values)
{
    (void)count;
    const struct function *function = function_of(context);
    struct samples *samples = sqlite3_aggregate_context(context, sizeof *samples);
    if (!samples) {
        sqlite3_result_error_nomem(context);
        return;
    }
    if (function->has_p && !take_p(context, samples, values[1]))
        return;
    if (!counts(context, values))
        return;
    if (!make_room(samples, function->pairs)) {
        sqlite3_result_error_nomem(context);
        return;
    }
    sqlite3_uint64 at = samples->first + samples->count++;
    samples->x[at] = sqlite3_value_double(values[0]);
    if (function->pairs)
        samples->y[at] = sqlite3_value_double(values[1]);
}

/* A window moves on and drops its oldest row. */
static void drop(sqlite3_context *context, int count, sqlite3_value **values)
{
    (void)count;
    struct samples *samples = sqlite3_aggregate_context(context, sizeof *samples);
    if (!samples || !samples->count || !counts(context, values))
        return;
    samples->first++;
    samples->count--;
}

static void value(sqlite3_context *context)
{
    const struct samples *samples = sqlite3_aggregate_context(context, 0);
    if (samples)
        function_of(context)->give(context, samples);
}

static void finish(sqlite3_context *context)
{
    struct samples *samples = sqlite3_aggregate_context(context, 0);
    if (!samples)
        return;
    function_of(context)->give(context, samples);
    sqlite3_free(samples->x);
    sqlite3_free(samples->y);
    samples->x = samples->y = NULL;
}

/* ---- count ------------------------------------------------------------------------------------------------------- */

static void move_count(sqlite3_context *context, int arguments, sqlite3_value **values, int64_t by)
{
    int64_t *count = sqlite3_aggregate_context(context, sizeof *count);
    if (!count)
        sqlite3_result_error_nomem(context);
    else if (arguments == 0 || sqlite3_value_type(values[0]) != SQLITE_NULL)
        *count += by;
}

static void count_step(sqlite3_context *context, int arguments, sqlite3_value **values)
{
    move_count(context, arguments, values, 1);
}

static void count_drop(sqlite3_context *context, int arguments, sqlite3_value **values)
{
    move_count(context, arguments, values, -1);
}

static void count_value(sqlite3_context *context)
{
    const int64_t *count = sqlite3_aggregate_context(context, 0);
    sqlite3_result_int64(context, count ? *count : 0);
}

/* ---- registering ------------------------------------------------------------------------------------------------- */

int functions_register(struct sqlite3 *db)
{
    const int flags = SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS;
    int code = SQLITE_OK;
    for (size_t i = 0; i < sizeof functions / sizeof functions[0] && code == SQLITE_OK; i++)
        code = sqlite3_create_window_function(db, functions[i].name, functions[i].arguments, flags,
                                              (void *)&functions[i], step, finish, value, drop, NULL);
    for (int arguments = 0; arguments < 2 && code == SQLITE_OK; arguments++)
        code = sqlite3_create_window_function(db, "count", arguments, flags, NULL, count_step, count_value, count_value,
                                              count_drop, NULL);
    return code;
}
