/* Numbers over rounds, thinned so that no peak is lost: the last, smallest and largest value of each span. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/memory.h"
#include "telemetry/store_schema.h"
#include "view/serve_api.h"

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

/* The rounds that there are within from and to. */
static enum esper_status read_range(struct plot *plot, struct query *query, const struct query_options *options,
                                    struct esper_error *error)
{
    char sql[256];
    struct query_answer *answer;
    const struct query_row *row;
    snprintf(sql, sizeof sql, "SELECT min(round), max(round) FROM round WHERE round BETWEEN %lld AND %lld",
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
    size_t points = (size_t)plot->points, numbers = 3 * points * (size_t)plot->count;
    plot->rounds = memory_alloc(points, sizeof *plot->rounds, error);
    plot->values = memory_alloc(numbers, sizeof *plot->values, error);
    if (!plot->rounds || !plot->values)
        return ESPER_FAILED;
    for (size_t i = 0; i < points; i++)
        plot->rounds[i] = -1;
    for (size_t i = 0; i < numbers; i++)
        plot->values[i] = (double)NAN;
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
    used += (size_t)snprintf(sql + used, sizeof sql - used, " FROM %s WHERE round BETWEEN %lld AND %lld", layout->name,
                             (long long)plot->from, (long long)plot->to);
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

static enum esper_status read_plot(struct plot *plot, struct query *query, const struct query_options *options,
                                   struct esper_error *error)
{
    TRY(read_range(plot, query, options, error));
    TRY(make_room(plot, error));
    for (int i = 0; i < 3; i++)
        for (int head = sources[i].heads ? 0 : -1; head < (sources[i].heads ? HEAD_COUNT : 0); head++)
            TRY(read_source(plot, &sources[i], head, query, options, error));
    return ESPER_OK;
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

static void write_series(const struct plot *plot, struct json_out *out, const struct series *series)
{
    const struct store_layout *layout = &store_layouts[series->source->kind];
    char name[96];
    snprintf(name, sizeof name, "%s.%s%s%s", layout->name, layout->columns[series->column].name,
             series->head >= 0 ? "." : "", series->head >= 0 ? head_name(series->head) : "");
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

static void write_plot(const struct plot *plot, FILE *file)
{
    struct json_out out = {.file = file};
    json_open(&out, NULL, '{');
    json_integer(&out, "from", plot->from);
    json_integer(&out, "to", plot->to);
    json_integer(&out, "width", plot->width);
    json_open(&out, "x", '[');
    for (int i = 0; i < plot->points; i++)
        if (plot->rounds[i] >= 0)
            json_integer(&out, NULL, plot->rounds[i]);
    json_close(&out, ']');
    json_open(&out, "series", '[');
    for (int i = 0; i < plot->count; i++)
        write_series(plot, &out, &plot->series[i]);
    json_close(&out, ']');
    json_close(&out, '}');
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
    memory_free(plot.rounds);
    memory_free(plot.values);
    memory_free(run);
    return code;
}
