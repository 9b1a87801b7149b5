/* Numbers over rounds, thinned so that no peak is lost: the last, smallest and largest value of each span. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/stream.h"
#include "telemetry/store_schema.h"
#include "view/serve_api.h"
#include "view/serve_memory.h"

#define HELP_FIELD(type, name, help) help,
static const char *const round_help[] = {ROUND_FIELDS(HELP_FIELD)}, *const ppo_help[] = {PPO_FIELDS(HELP_FIELD)},
                         *const head_help[] = {PPO_HEAD_FIELDS(HELP_FIELD)};

static const struct source {
    enum record_kind kind;
    const char *const *help;
    bool heads; /* a row per head: the series names one */
} sources[] = {{RECORD_ROUND, round_help, false}, {RECORD_PPO, ppo_help, false}, {RECORD_PPO_HEAD, head_help, true}};

struct series {
    const struct source *source;
    int column; /* of the source's table */
    int head;   /* -1: none */
    double *last, *min, *max;
};

struct plot {
    int64_t from, to, width; /* rounds; rounds of a point */
    int points, count;
    struct series series[API_SERIES];
    int64_t *rounds; /* last round of each point that has one, else -1 */
    double *values;  /* of all series */
    bool timed;      /* also what each point had taken: */
    double *steps, *seconds;
};

/* ---- names ------------------------------------------------------------------------------------------------------- */

static int find_head(const char *text)
{
    for (int i = 0; i < HEAD_COUNT; i++)
        if (strcmp(text, head_name(i)) == 0)
            return i;
    return -1;
}

/* "ppo.kl", "ppo_head.entropy.op": only names from the record's own lists ever reach the SQL. */
static bool parse_series(struct series *series, char *name)
{
    char *column = strchr(name, '.');
    if (!column)
        return false;
    *column++ = '\0';
    char *head = strchr(column, '.');
    if (head)
        *head++ = '\0';
    for (int i = 0; i < 3; i++) {
        const struct store_layout *layout = &store_layouts[sources[i].kind];
        if (strcmp(layout->name, name) != 0 || sources[i].heads != (head != NULL))
            continue;
        series->source = &sources[i];
        series->head = head ? find_head(head) : -1;
        for (int c = 0; c < layout->count; c++)
            if (strcmp(layout->columns[c].name, column) == 0 && layout->columns[c].type <= COLUMN_NUMBER) {
                series->column = c;
                return !head || series->head >= 0;
            }
    }
    return false;
}

static int parse_names(struct plot *plot, const char *names, struct esper_error *error)
{
    for (const char *at = names; *at;) {
        char name[96];
        size_t length = strcspn(at, ",");
        snprintf(name, sizeof name, "%.*s", length < sizeof name ? (int)length : (int)sizeof name - 1, at);
        if (plot->count == API_SERIES) {
            error_set(error, ESPER_INVALID, "names: at most %d series at once", API_SERIES);
            return 400;
        }
        if (length >= sizeof name || !parse_series(&plot->series[plot->count], name)) {
            error_set(error, ESPER_INVALID,
                      "names: \"%.*s\" is not a series; give round.COLUMN, ppo.COLUMN or ppo_head.COLUMN.HEAD",
                      length < 60 ? (int)length : 60, at);
            return 400;
        }
        plot->count++;
        at += length + (at[length] == ',');
    }
    if (plot->count)
        return 200;
    error_set(error, ESPER_INVALID, "names=ppo.kl,round.reward_mean: name at least one series");
    return 400;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

/* A stranger's record may have anything for a round: what is no whole number has no place in a plot. */
#define WHOLE " AND typeof(round) = 'integer'"

/* The rounds that there are within from and to. */
static enum esper_status read_range(struct plot *plot, struct query *query, const struct query_options *options,
                                    struct esper_error *error)
{
    char sql[256];
    struct query_answer *answer;
    const struct query_row *row;
    snprintf(sql, sizeof sql, "SELECT min(round), max(round) FROM round WHERE round BETWEEN %lld AND %lld" WHOLE,
             (long long)plot->from, (long long)plot->to);
    TRY(query_ask(query, sql, options, &answer, error));
    enum esper_status status = query_next(answer, &row, error);
    bool any = status == ESPER_OK && row && row->values[0].kind == QUERY_INTEGER;
    plot->from = any ? row->values[0].integer : 0;
    plot->to = any ? row->values[1].integer : -1;
    query_end(answer);
    return status;
}

static enum esper_status make_room(struct plot *plot, struct esper_error *error)
{
    int64_t rounds = plot->to - plot->from + 1;
    plot->width = rounds > plot->points ? (rounds + plot->points - 1) / plot->points : 1;
    plot->points = (int)((rounds + plot->width - 1) / plot->width);
    size_t points = (size_t)plot->points, own = 3 * points * (size_t)plot->count, numbers = own + 2 * points;
    plot->rounds = memory_alloc(points, sizeof *plot->rounds, error);
    plot->values = memory_alloc(numbers, sizeof *plot->values, error);
    if (!plot->rounds || !plot->values)
        return ESPER_FAILED;
    for (size_t i = 0; i < points; i++)
        plot->rounds[i] = -1;
    for (size_t i = 0; i < numbers; i++)
        plot->values[i] = (double)NAN;
    plot->steps = plot->values + own;
    plot->seconds = plot->steps + points;
    for (int i = 0; i < plot->count; i++) {
        plot->series[i].last = plot->values + 3 * points * (size_t)i;
        plot->series[i].min = plot->series[i].last + points;
        plot->series[i].max = plot->series[i].min + points;
    }
    return ESPER_OK;
}

static void take_value(struct series *series, int64_t point, const struct query_value *value)
{
    double number = value->kind == QUERY_INTEGER ? (double)value->integer : value->real;
    if (value->kind != QUERY_INTEGER && value->kind != QUERY_REAL)
        return; /* missing: the span keeps its previous value */
    series->last[point] = number;
    series->min[point] = fmin(series->min[point], number);
    series->max[point] = fmax(series->max[point], number);
}

/* All series of one table (and head) in one pass along its key. */
static enum esper_status read_source(struct plot *plot, const struct source *source, int head, struct query *query,
                                     const struct query_options *options, struct esper_error *error)
{
    const struct store_layout *layout = &store_layouts[source->kind];
    char sql[API_SERIES * 48 + 256] = "SELECT round";
    int wanted[API_SERIES], count = 0;
    for (int i = 0; i < plot->count; i++)
        if (plot->series[i].source == source && plot->series[i].head == head) {
            size_t used = strlen(sql);
            snprintf(sql + used, sizeof sql - used, ", \"%s\"", layout->columns[plot->series[i].column].name);
            wanted[count++] = i;
        }
    if (count == 0)
        return ESPER_OK;
    size_t used = strlen(sql);
    used += (size_t)snprintf(sql + used, sizeof sql - used, " FROM %s WHERE round BETWEEN %lld AND %lld" WHOLE,
                             layout->name, (long long)plot->from, (long long)plot->to);
    if (head >= 0)
        used += (size_t)snprintf(sql + used, sizeof sql - used, " AND head = '%s'", head_name(head));
    snprintf(sql + used, sizeof sql - used, " ORDER BY round");
    struct query_answer *answer;
    const struct query_row *row;
    enum esper_status status;
    TRY(query_ask(query, sql, options, &answer, error));
    while ((status = query_next(answer, &row, error)) == ESPER_OK && row) {
        int64_t round = row->values[0].integer, point = (round - plot->from) / plot->width;
        if (round > plot->rounds[point])
            plot->rounds[point] = round;
        for (int i = 0; i < count; i++)
            take_value(&plot->series[wanted[i]], point, &row->values[1 + i]);
    }
    query_end(answer);
    return status;
}

/* What the run had taken at the end of each point: sums from its first round on, wherever the plot begins. */
static enum esper_status read_clock(struct plot *plot, struct query *query, const struct query_options *options,
                                    struct esper_error *error)
{
    char sql[192];
    double sums[2] = {0};
    struct query_answer *answer;
    const struct query_row *row;
    enum esper_status status;
    snprintf(sql, sizeof sql, "SELECT round, env_steps, seconds FROM round WHERE round <= %lld" WHOLE " ORDER BY round",
             (long long)plot->to);
    TRY(query_ask(query, sql, options, &answer, error));
    while ((status = query_next(answer, &row, error)) == ESPER_OK && row) {
        int64_t round = row->values[0].integer;
        for (int i = 0; i < 2; i++) {
            const struct query_value *value = &row->values[1 + i];
            sums[i] += value->kind == QUERY_INTEGER ? (double)value->integer
                       : value->kind == QUERY_REAL  ? value->real
                                                    : 0; /* missing: as if it had taken none */
        }
        if (round < plot->from)
            continue;
        plot->steps[(round - plot->from) / plot->width] = sums[0];
        plot->seconds[(round - plot->from) / plot->width] = sums[1];
    }
    query_end(answer);
    return status;
}

static enum esper_status read_plot(struct plot *plot, struct query *query, const struct query_options *options,
                                   struct esper_error *error)
{
    TRY(read_range(plot, query, options, error));
    TRY(make_room(plot, error));
    for (int i = 0; i < 3; i++)
        for (int head = sources[i].heads ? 0 : -1; head < (sources[i].heads ? HEAD_COUNT : 0); head++)
            TRY(read_source(plot, &sources[i], head, query, options, error));
    return plot->timed ? read_clock(plot, query, options, error) : ESPER_OK;
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static void write_numbers(const struct plot *plot, struct json_out *out, const char *key, const double *values)
{
    json_open(out, key, '[');
    for (int i = 0; i < plot->points; i++)
        if (plot->rounds[i] >= 0)
            json_real(out, NULL, values[i]);
    json_close(out, ']');
}

static void name_series(const struct series *series, char name[96])
{
    const struct store_layout *layout = &store_layouts[series->source->kind];
    snprintf(name, 96, "%s.%s%s%s", layout->name, layout->columns[series->column].name, series->head >= 0 ? "." : "",
             series->head >= 0 ? head_name(series->head) : "");
}

static void write_series(const struct plot *plot, struct json_out *out, const struct series *series)
{
    char name[96];
    name_series(series, name);
    json_open(out, NULL, '{');
    json_text(out, "name", name);
    json_text(out, "help", series->source->help[series->column]);
    write_numbers(plot, out, "last", series->last);
    if (plot->width > 1) {
        write_numbers(plot, out, "min", series->min);
        write_numbers(plot, out, "max", series->max);
    }
    json_close(out, '}');
}

static void write_rounds(const struct plot *plot, struct json_out *out)
{
    json_open(out, "x", '[');
    for (int i = 0; i < plot->points; i++)
        if (plot->rounds[i] >= 0)
            json_integer(out, NULL, plot->rounds[i]);
    json_close(out, ']');
}

static void write_plot(const struct plot *plot, FILE *file)
{
    struct json_out out = {.file = file};
    json_open(&out, NULL, '{');
    json_integer(&out, "from", plot->from);
    json_integer(&out, "to", plot->to);
    json_integer(&out, "width", plot->width);
    write_rounds(plot, &out);
    json_open(&out, "series", '[');
    for (int i = 0; i < plot->count; i++)
        write_series(plot, &out, &plot->series[i]);
    json_close(&out, ']');
    json_close(&out, '}');
}

static void plot_free(struct plot *plot)
{
    memory_free(plot->rounds);
    memory_free(plot->values);
    plot->rounds = NULL;
    plot->values = NULL;
}

int api_series(const struct api *api, const char *name, const struct api_arguments *arguments, FILE *file,
               struct esper_error *error)
{
    static const char *const keys[] = {"names", "points", "from", "to"};
    const struct query_options options = {.timeout = API_SECONDS, .stop = api->stop};
    const char *names = api_argument(arguments, "names");
    struct plot plot = {.to = INT32_MAX};
    int64_t points = 600;
    struct query *query = NULL;
    int code = api_check_arguments(arguments, keys, 4, error);
    if (code == 200)
        code = api_integer(arguments, "points", 2, API_POINTS, &points, error);
    if (code == 200)
        code = api_integer(arguments, "from", 0, INT32_MAX, &plot.from, error);
    if (code == 200)
        code = api_integer(arguments, "to", 0, INT32_MAX, &plot.to, error);
    if (code == 200)
        code = parse_names(&plot, names ? names : "", error);
    plot.points = (int)points;
    struct run *run = memory_alloc(1, sizeof *run, error);
    if (code == 200)
        code = run ? api_find_run(api, name, run, error) : 503;
    if (code == 200 &&
        (api_open_record(api, run, &query, error) != ESPER_OK || read_plot(&plot, query, &options, error) != ESPER_OK))
        code = 503;
    if (code == 200)
        write_plot(&plot, file);
    query_close(query);
    plot_free(&plot);
    memory_free(run);
    return code;
}

/* ---- many runs --------------------------------------------------------------------------------------------------- */

static void write_brief(const struct plot *plot, struct json_out *out, const char *key, const double *values)
{
    json_open(out, key, '[');
    for (int i = 0; i < plot->points; i++)
        if (plot->rounds[i] >= 0)
            json_brief(out, NULL, values[i]);
    json_close(out, ']');
}

static void write_overlaid(const struct plot *plot, struct json_out *out)
{
    const struct series *series = &plot->series[0];
    write_rounds(plot, out);
    write_brief(plot, out, "steps", plot->steps);
    write_brief(plot, out, "seconds", plot->seconds);
    write_brief(plot, out, "last", series->last);
    if (plot->width > 1) {
        write_brief(plot, out, "min", series->min);
        write_brief(plot, out, "max", series->max);
    }
}

struct overlay {
    struct series series;
    char name[96]; /* of the series */
    int points;
    double end; /* clock_seconds: all runs together have API_SECONDS */
};

static enum esper_status read_overlaid(const struct api *api, const struct overlay *overlay, const struct run *run,
                                       struct json_out *out, struct esper_error *error)
{
    struct plot plot = {
        .to = INT32_MAX, .points = overlay->points, .count = 1, .series = {overlay->series}, .timed = true};
    const struct query_options options = {.timeout = overlay->end - clock_seconds(), .stop = api->stop};
    struct query *query;
    if (options.timeout <= 0)
        return error_set(error, ESPER_FAILED, "there was no time left for it; ask for fewer runs at once");
    TRY(query_open(&query, run, error));
    query_bound(query, options.timeout, api->stop);
    enum esper_status status = read_plot(&plot, query, &options, error);
    if (status == ESPER_OK)
        write_overlaid(&plot, out);
    query_close(query);
    plot_free(&plot);
    return status;
}

/* ,"x":[...]... or ,"error":"...": a run that is gone or cannot be read is told in its place, and the others are no
 * worse for it. */
static int overlay_run(const struct api *api, const struct overlay *overlay, const char *name,
                       struct portrait *portrait, bool *well, struct esper_error *error)
{
    size_t bytes;
    struct run *run = memory_alloc(1, sizeof *run, error);
    int code = run ? api_find_run(api, name, run, error) : 503;
    FILE *file = run ? stream_open(&portrait->text, &bytes) : NULL;
    struct json_out out = {.file = file, .more = true};
    *well = file && code == 200 && read_overlaid(api, overlay, run, &out, error) == ESPER_OK;
    if (file && !*well)
        json_text(&out, "error", error->text);
    memory_free(run);
    return file && fclose(file) == 0 ? 200 : 503;
}

static int write_overlay(const struct api *api, const struct overlay *overlay, const char *name, struct json_out *out,
                         struct esper_error *error)
{
    char key[sizeof overlay->name + 160];
    struct run_mark mark;
    struct stat info;
    struct portrait portrait = {0};
    bool own = api_is_run(api->runs, name, &info), well; /* "latest" is somebody else's name */
    bool settled = own && run_mark_take(api->runs, name, &mark);
    int code = 200;
    snprintf(key, sizeof key, "%s/%s/%d", name, overlay->name, overlay->points);
    if (!own || !memory_recall(api->memory, key, &mark, &portrait)) {
        code = overlay_run(api, overlay, name, &portrait, &well, error);
        if (code == 200 && settled && well)
            memory_keep(api->memory, key, &mark, &portrait, 0);
    }
    if (code == 200) {
        json_open(out, NULL, '{');
        json_text(out, "name", name);
        fputs(portrait.text, out->file);
        json_close(out, '}');
    }
    portrait_free(&portrait);
    return code;
}

static int overlay_all(const struct api *api, const struct overlay *overlay, const char *names, struct json_out *out,
                       struct esper_error *error)
{
    int code = 200, count = 0;
    for (const char *at = names; *at && code == 200 && !*api->stop;) {
        char name[128];
        size_t length = strcspn(at, ",");
        snprintf(name, sizeof name, "%.*s", length < sizeof name ? (int)length : (int)sizeof name - 1, at);
        if (++count > API_OVERLAY) {
            error_set(error, ESPER_INVALID, "runs: at most %d at once", API_OVERLAY);
            code = 400;
        } else
            code = write_overlay(api, overlay, name, out, error);
        at += length + (at[length] == ',');
    }
    if (code == 200 && count == 0) {
        error_set(error, ESPER_INVALID, "runs=A,B: name at least one run");
        code = 400;
    }
    return code;
}

int api_overlay(const struct api *api, const struct api_arguments *arguments, FILE *file, struct esper_error *error)
{
    static const char *const keys[] = {"runs", "name", "points"};
    const char *names = api_argument(arguments, "runs"), *metric = api_argument(arguments, "name");
    struct overlay overlay = {.end = clock_seconds() + API_SECONDS};
    struct plot wanted = {0};
    struct json_out out = {.file = file};
    int64_t points = 200;
    int code = api_check_arguments(arguments, keys, 3, error);
    if (code == 200)
        code = api_integer(arguments, "points", 2, API_POINTS / 4, &points, error);
    if (code == 200)
        code = parse_names(&wanted, metric ? metric : "", error);
    if (code == 200 && wanted.count != 1) {
        error_set(error, ESPER_INVALID, "name: one series of all runs");
        code = 400;
    }
    if (code != 200)
        return code;
    overlay.series = wanted.series[0];
    overlay.points = (int)points;
    json_open(&out, NULL, '{');
    name_series(&overlay.series, overlay.name);
    json_text(&out, "name", overlay.name);
    json_text(&out, "help", overlay.series.source->help[overlay.series.column]);
    json_open(&out, "runs", '[');
    code = overlay_all(api, &overlay, names ? names : "", &out, error);
    json_close(&out, ']');
    json_close(&out, '}');
    return code;
}

static void write_metric(struct json_out *out, const struct source *source, int column, int head)
{
    struct series series = {.source = source, .column = column, .head = head};
    char name[96];
    name_series(&series, name);
    json_open(out, NULL, '{');
    json_text(out, "name", name);
    json_text(out, "help", source->help[column]);
    json_close(out, '}');
}

int api_metrics(FILE *file, struct esper_error *error)
{
    struct json_out out = {.file = file};
    (void)error;
    json_open(&out, NULL, '{');
    json_open(&out, "metrics", '[');
    for (int i = 0; i < 3; i++)
        for (int head = sources[i].heads ? 0 : -1; head < (sources[i].heads ? HEAD_COUNT : 0); head++)
            for (int c = 0; c < store_layouts[sources[i].kind].count; c++) {
                const struct store_column *column = &store_layouts[sources[i].kind].columns[c];
                if (column->type <= COLUMN_NUMBER && strcmp(column->name, "round") != 0)
                    write_metric(&out, &sources[i], c, head);
            }
    json_close(&out, ']');
    json_close(&out, '}');
    return 200;
}
