#include "view/serve_api.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/config_json.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/words.h"
#include "morph/family.h"
#include "telemetry/store_schema.h"
#include "view/questions.h"
#include "view/verdict.h"

int api_code(enum esper_status status)
{
    return status == ESPER_OK ? 200 : status == ESPER_INVALID ? 400 : 503;
}

/* ---- arguments --------------------------------------------------------------------------------------------------- */

const char *api_argument(const struct api_arguments *arguments, const char *key)
{
    for (int i = 0; i < arguments->count; i++)
        if (strcmp(arguments->items[i].key, key) == 0)
            return arguments->items[i].value;
    return NULL;
}

int api_check_arguments(const struct api_arguments *arguments, const char *const keys[], int count,
                        struct esper_error *error)
{
    for (int i = 0; i < arguments->count; i++) {
        const struct api_argument *item = &arguments->items[i];
        bool known = false;
        for (int j = 0; j < count; j++)
            known = known || strcmp(item->key, keys[j]) == 0;
        if (!known)
            error_set(error, ESPER_INVALID, "\"%.40s\" is not an argument here%s", item->key,
                      word_hint(item->key, keys, count, NULL).text);
        else if (api_argument(arguments, item->key) != item->value)
            error_set(error, ESPER_INVALID, "\"%.40s\" is given twice", item->key);
        else
            continue;
        return 400;
    }
    return 200;
}

int api_integer(const struct api_arguments *arguments, const char *key, int64_t min, int64_t max, int64_t *value,
                struct esper_error *error)
{
    const char *text = api_argument(arguments, key);
    if (!text)
        return 200;
    char *end;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    if (errno || end == text || *end || number < min || number > max || strchr(" \t\n\v\f\r+", *text)) {
        error_set(error, ESPER_INVALID, "%s=%.40s: expected an integer from %lld to %lld", key, text, (long long)min,
                  (long long)max);
        return 400;
    }
    *value = number;
    return 200;
}

/* ---- runs by name ------------------------------------------------------------------------------------------------ */

bool api_is_run(const char *runs, const char *name, struct stat *info)
{
    char path[PATH_MAX];
    return *name != '.' && run_check_name(name, NULL) == ESPER_OK &&
           snprintf(path, sizeof path, "%s/%s", runs, name) < (int)sizeof path && lstat(path, info) == 0 &&
           S_ISDIR(info->st_mode) /* no link may lead out of the directory */ &&
           snprintf(path, sizeof path, "%s/%s/run.json", runs, name) < (int)sizeof path && lstat(path, info) == 0 &&
           S_ISREG(info->st_mode);
}

int api_find_run(const struct api *api, const char *name, struct run *run, struct esper_error *error)
{
    char path[PATH_MAX], newest[128];
    struct stat info;
    if (strcmp(name, "latest") == 0) {
        snprintf(path, sizeof path, "%s/latest", api->runs);
        ssize_t length = readlink(path, newest, sizeof newest - 1);
        newest[length > 0 ? length : 0] = '\0';
        name = newest;
    }
    if (!api_is_run(api->runs, name, &info)) {
        error_set(error, ESPER_INVALID, "there is no run \"%.100s\"", name);
        return 404;
    }
    snprintf(path, sizeof path, "%s/%s", api->runs, name);
    return run_open(run, api->runs, path, error) == ESPER_OK ? 200 : 503;
}

enum esper_status api_open_record(const struct api *api, const struct run *run, struct query **query,
                                  struct esper_error *error)
{
    TRY(query_open(query, run, error));
    query_bound(*query, API_SECONDS, api->stop);
    return ESPER_OK;
}

/* ---- one run ---------------------------------------------------------------------------------------------------- */

void api_write_status(struct json_out *out, const struct run_status *status)
{
    json_text(out, "state", run_state_name(status));
    json_bool(out, "alive", status->alive);
    json_integer(out, "round", status->round);
    json_integer(out, "step", status->step);
    json_text(out, "updated", status->updated);
}

void api_write_words(struct json_out *out, const struct family_words *words)
{
    json_open(out, "words", '{');
    json_text(out, "score", words->score);
    json_text(out, "unit", words->unit);
    json_text(out, "samples", words->samples);
    json_bool(out, "bytes", words->bytes);
    json_close(out, '}');
}

void api_write_identity(struct json_out *out, const struct run *run)
{
    const struct config *config = &run->config;
    char text[CONFIG_TEXT];
    json_text(out, "created", run->created);
    json_text(out, "task", config->task);
    json_text(out, "policy", config_policy(config, text));
    snprintf(text, sizeof text, "%llu", (unsigned long long)config->seed);
    json_text(out, "seed", text); /* 64 bits: more than a JSON number holds */
    json_bool(out, "evaluate", config->evaluate);
    api_write_words(out, &host_family_of(config)->words);
    json_integer(out, "envs", config->envs);
    json_integer(out, "steps", config->steps);
    json_integer(out, "rounds", config->rounds);
    json_open(out, "slots", '[');
    for (int i = 0; i < config->slot_count; i++)
        json_text(out, NULL, config->slots[i]);
    json_close(out, ']');
}

enum esper_status api_write_members(struct json_out *out, struct query *query, const char *sql,
                                    const struct query_options *options, struct esper_error *error)
{
    static const struct query_value nothing = {.kind = QUERY_NULL};
    struct query_answer *answer;
    const struct query_row *row;
    TRY(query_ask(query, sql, options, &answer, error));
    enum esper_status status = query_next(answer, &row, error);
    const struct query_row *columns = query_columns(answer);
    for (int i = 0; status == ESPER_OK && i < columns->count; i++)
        if (strcmp(columns->names[i], "configuration") != 0) /* given elsewhere, as JSON */
            json_value(out, columns->keys[i], row ? &row->values[i] : &nothing);
    query_end(answer);
    return status;
}

/* What run.json has beyond struct run: how it was started, and every key with the origin of its value. */
static enum esper_status write_description(const struct run *run, struct json_out *out, struct esper_error *error)
{
    static const char *const texts[] = {"command", "architecture"}, *const objects[] = {"configuration", "origins"};
    char path[PATH_MAX + 16];
    cJSON *description;
    snprintf(path, sizeof path, "%s/run.json", run->path);
    TRY(json_read_own(path, &description, error));
    for (int i = 0; i < 2; i++) {
        const cJSON *member = json_find(description, texts[i]);
        json_text(out, texts[i], cJSON_GetStringValue(member));
    }
    enum esper_status status = ESPER_OK;
    for (int i = 0; i < 2 && status == ESPER_OK; i++) {
        char *text = cJSON_PrintUnformatted(json_find(description, objects[i])); /* run_open found them */
        if (text)
            fprintf(out->file, ",\"%s\":%s", objects[i], text);
        else
            status = error_set(error, ESPER_FAILED, "%s: out of memory", path);
        cJSON_free(text);
    }
    cJSON_Delete(description);
    return status;
}

static void write_verdict(struct json_out *out, const struct verdict *verdict)
{
    json_open(out, "verdict", '{');
    json_text(out, "state", verdict_state_name(verdict->state));
    json_text(out, "text", verdict->text);
    json_text(out, "trend", verdict->trend);
    json_open(out, "gates", '[');
    for (int i = 0; i < VERDICT_GATES; i++) {
        const struct verdict_gate *gate = &verdict->gates[i];
        json_open(out, NULL, '{');
        json_text(out, "name", gate->name);
        json_text(out, "title", gate->title);
        json_text(out, "state", gate_state_name(gate->state));
        json_text(out, "text", gate->text);
        json_close(out, '}');
    }
    json_close(out, ']');
    json_close(out, '}');
}

static enum esper_status write_run(const struct api *api, const struct run *run, struct json_out *out,
                                   struct esper_error *error)
{
    const struct query_options options = {.timeout = API_SECONDS, .stop = api->stop};
    const struct question_values all = question_all();
    struct run_status state;
    struct query *query;
    struct verdict verdict;
    char sql[QUESTION_BYTES];
    TRY(run_get_status(run, &state, error));
    json_text(out, "name", run->name);
    api_write_status(out, &state);
    api_write_identity(out, run);
    TRY(api_write_label(out, run->path, error));
    json_text(out, "version", run->version);
    json_text(out, "kernels", run->kernels);
    json_integer(out, "schema", STORE_VERSION);
    TRY(write_description(run, out, error));
    TRY(api_open_record(api, run, &query, error));
    json_open(out, "summary", '{');
    enum esper_status status = question_fill("summary", &all, sql, sizeof sql, error);
    if (status == ESPER_OK)
        status = api_write_members(out, query, sql, &options, error);
    json_close(out, '}');
    if (status == ESPER_OK)
        status = verdict_of(query, run, &state, &verdict, error);
    query_close(query);
    if (status == ESPER_OK)
        write_verdict(out, &verdict);
    return status;
}

int api_run(const struct api *api, const char *name, FILE *file, struct esper_error *error)
{
    struct json_out out = {.file = file};
    struct run *run = memory_alloc(1, sizeof *run, error);
    int code = run ? api_find_run(api, name, run, error) : 503;
    json_open(&out, NULL, '{');
    if (code == 200 && write_run(api, run, &out, error) != ESPER_OK)
        code = 503;
    json_close(&out, '}');
    memory_free(run);
    return code;
}

/* ---- questions --------------------------------------------------------------------------------------------------- */

int api_questions(FILE *file, struct esper_error *error)
{
    struct json_out out = {.file = file};
    (void)error;
    json_open(&out, NULL, '{');
    json_open(&out, "questions", '[');
    for (int i = 0; i < question_count; i++) {
        json_open(&out, NULL, '{');
        json_text(&out, "name", questions[i].name);
        json_text(&out, "about", questions[i].about);
        json_text(&out, "parameters", questions[i].parameters);
        json_close(&out, '}');
    }
    json_close(&out, ']');
    json_close(&out, '}');
    return 200;
}

enum esper_status api_write_rows(const struct api *api, struct query *query, const char *sql, int64_t limit, FILE *file,
                                 struct esper_error *error)
{
    const struct query_options options = {.timeout = API_SECONDS, .stop = api->stop};
    struct json_out out = {.file = file};
    struct query_answer *answer;
    const struct query_row *row = NULL;
    TRY(query_ask(query, sql, &options, &answer, error));
    const struct query_row *columns = query_columns(answer);
    json_open(&out, NULL, '{');
    json_open(&out, "columns", '[');
    for (int i = 0; i < columns->count; i++)
        json_text(&out, NULL, columns->keys[i]);
    json_close(&out, ']');
    json_open(&out, "rows", '[');
    enum esper_status status;
    int64_t count = 0;
    while ((status = query_next(answer, &row, error)) == ESPER_OK && row && count++ < limit &&
           ftell(file) < API_BYTES) {
        json_open(&out, NULL, '[');
        for (int i = 0; i < row->count; i++)
            json_value(&out, NULL, &row->values[i]);
        json_close(&out, ']');
    }
    json_close(&out, ']');
    json_bool(&out, "truncated", row != NULL);
    json_close(&out, '}');
    query_end(answer);
    return status;
}

/* The round defaults to the newest, the step to the newest of that round. */
static enum esper_status newest_round(const struct api *api, struct query *query, int64_t *round,
                                      struct esper_error *error)
{
    const struct query_options options = {.timeout = API_SECONDS, .stop = api->stop};
    struct query_answer *answer;
    const struct query_row *row;
    TRY(query_ask(query, "SELECT coalesce((SELECT max(round) FROM step), (SELECT max(round) FROM outcome), 0)",
                  &options, &answer, error));
    enum esper_status status = query_next(answer, &row, error);
    if (status == ESPER_OK && row)
        *round = row->values[0].integer;
    query_end(answer);
    return status;
}

static int read_values(const struct api_arguments *arguments, struct question_values *values, struct esper_error *error)
{
    static const char *const keys[] = {"round", "step", "env", "slot", "from", "to", "limit"};
    const struct {
        int64_t min, max, *value;
    } fields[] = {{0, INT32_MAX, &values->round}, {0, INT32_MAX, &values->step}, {0, INT32_MAX, &values->env},
                  {0, INT32_MAX, &values->slot},  {0, INT32_MAX, &values->from}, {0, INT32_MAX, &values->to},
                  {1, API_ROWS, &values->limit}};
    int code = api_check_arguments(arguments, keys, 7, error);
    for (int i = 0; i < 7 && code == 200; i++)
        code = api_integer(arguments, keys[i], fields[i].min, fields[i].max, fields[i].value, error);
    return code;
}

int api_ask(const struct api *api, const char *name, const char *question, const struct api_arguments *arguments,
            FILE *file, struct esper_error *error)
{
    struct question_values values = question_all();
    struct query *query = NULL;
    char sql[QUESTION_BYTES];
    values.step = INT32_MAX;
    int code = read_values(arguments, &values, error);
    const struct question *found = question_find(question);
    if (!found) {
        error_set(error, ESPER_INVALID, "there is no question \"%.40s\"; /api/questions lists them", question);
        return 404;
    }
    struct run *run = memory_alloc(1, sizeof *run, error);
    if (code == 200)
        code = run ? api_find_run(api, name, run, error) : 503;
    if (code == 200 && api_open_record(api, run, &query, error) != ESPER_OK)
        code = 503;
    memory_free(run);
    if (code != 200)
        return code;
    enum esper_status status = ESPER_OK;
    if (!api_argument(arguments, "round") && strstr(found->parameters, ":round"))
        status = newest_round(api, query, &values.round, error);
    if (status == ESPER_OK)
        status = question_fill(question, &values, sql, sizeof sql, error);
    if (status == ESPER_OK)
        status = api_write_rows(api, query, sql, API_ROWS, file, error);
    query_close(query);
    return status == ESPER_OK ? 200 : 503;
}

int api_sql(const struct api *api, const char *name, const char *body, FILE *file, struct esper_error *error)
{
    static const char *const keys[] = {"sql", "limit"};
    cJSON *request = NULL;
    const char *sql = NULL;
    int64_t limit = 1000;
    struct query *query = NULL;
    struct run *run = memory_alloc(1, sizeof *run, error);
    int code = run ? api_find_run(api, name, run, error) : 503;
    if (code == 200)
        code = api_code(json_parse(body, strlen(body), &request, error));
    if (code == 200)
        code = api_code(json_check_keys(request, keys, 2, error));
    if (code == 200)
        code = api_code(json_get_string(request, "sql", &sql, error));
    if (code == 200 && json_find(request, "limit"))
        code = api_code(json_get_integer(request, "limit", 1, 10000, &limit, error));
    if (code == 200 && api_open_record(api, run, &query, error) != ESPER_OK)
        code = 503;
    if (code == 200)
        code = api_code(api_write_rows(api, query, sql, limit, file, error));
    query_close(query);
    cJSON_Delete(request);
    memory_free(run);
    return code;
}
