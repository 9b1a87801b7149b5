/* A plan as JSON: what FOLDER/sweep.json holds, and the words of a plan that somebody writes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/config_json.h"
#include "base/file.h"
#include "sweep/folder.h"
#include "telemetry/run.h"
#include "telemetry/run_json.h"

enum { PLAN_FORMAT = 1 };

const char *const sweep_words[] = {"task",    "set",        "grid",      "range", "random",
                                   "halving", "first-rung", "objective", "seeds"};
const int sweep_word_count = sizeof sweep_words / sizeof sweep_words[0];

/* ---- reading words ----------------------------------------------------------------------------------------------- */

/* A value of a list as --grid would take it. */
static enum esper_status add_value(struct sweep *sweep, const char *key, const cJSON *value, struct esper_error *error)
{
    if (cJSON_IsString(value))
        return sweep_add_value(sweep, key, value->valuestring, error);
    char *text = cJSON_PrintUnformatted(value);
    if (!text)
        return error_set(error, ESPER_FAILED, "out of memory while reading the plan");
    enum esper_status status = sweep_add_value(sweep, key, text, error);
    cJSON_free(text);
    return status;
}

static enum esper_status read_grid(struct sweep *sweep, const cJSON *object, struct esper_error *error)
{
    const cJSON *grid;
    if (!json_find(object, "grid"))
        return ESPER_OK;
    TRY(json_get_object(object, "grid", &grid, error));
    for (const cJSON *axis = grid->child; axis; axis = axis->next) {
        if (!cJSON_IsArray(axis) || !axis->child)
            return error_set(error, ESPER_INVALID, "\"grid\": %.60s must be a list of values, such as [0.1, 0.2]",
                             axis->string);
        TRY(sweep_add_list(sweep, axis->string, error));
        for (const cJSON *value = axis->child; value; value = value->next)
            TRY(add_value(sweep, axis->string, value, error));
    }
    return ESPER_OK;
}

static enum esper_status read_ranges(struct sweep *sweep, const cJSON *object, struct esper_error *error)
{
    const cJSON *ranges;
    const char *text;
    if (!json_find(object, "range"))
        return ESPER_OK;
    TRY(json_get_object(object, "range", &ranges, error));
    for (const cJSON *axis = ranges->child; axis; axis = axis->next) {
        TRY(json_get_string(ranges, axis->string, &text, error));
        TRY(sweep_add_range(sweep, axis->string, text, error));
    }
    return ESPER_OK;
}

static enum esper_status read_number(const cJSON *object, const char *word, int least, int *out,
                                     struct esper_error *error)
{
    int64_t value;
    if (!json_find(object, word))
        return ESPER_OK;
    TRY(json_get_integer(object, word, least, SWEEP_RUNS, &value, error));
    *out = (int)value;
    return ESPER_OK;
}

enum esper_status sweep_read_words(struct sweep *sweep, const cJSON *object, struct esper_error *error)
{
    const char *text;
    TRY(read_grid(sweep, object, error));
    TRY(read_ranges(sweep, object, error));
    TRY(read_number(object, "random", 1, &sweep->random, error));
    TRY(read_number(object, "halving", 2, &sweep->halving, error));
    TRY(read_number(object, "first-rung", 1, &sweep->first_rung, error));
    if (!json_find(object, "objective"))
        return ESPER_OK;
    TRY(json_get_string(object, "objective", &text, error));
    return sweep_set_objective(sweep, text, error);
}

/* ---- the plan's file --------------------------------------------------------------------------------------------- */

/* What is the machine's or each process's is no part of a plan. */
static struct config plan_base(const struct sweep *sweep)
{
    struct config base = sweep->base;
    base.threads = 0;
    base.device = WISH_AUTO;
    base.device_number = 0;
    return base;
}

static void add_seeds(cJSON *object, const struct sweep *sweep)
{
    char text[64];
    cJSON *list = json_add_list(object, "seeds");
    for (int i = 0; i < sweep->seed_count; i++) { /* as text: a JSON number is exact up to 2^53 only */
        snprintf(text, sizeof text, "%llu", (unsigned long long)sweep->seeds[i]);
        json_add_text(list, NULL, text);
    }
}

static cJSON *plan_json(const struct sweep *sweep)
{
    const struct config base = plan_base(sweep);
    cJSON *object = cJSON_CreateObject();
    json_add_number(object, "format", PLAN_FORMAT);
    add_seeds(object, sweep);
    cJSON *grid = json_add_object(object, "grid"), *ranges = json_add_object(object, "range");
    for (int i = 0; i < sweep->axis_count; i++) {
        const struct sweep_axis *axis = &sweep->axes[i];
        cJSON *list = axis->count ? json_add_list(grid, config_key_name(axis->key)) : NULL;
        for (int v = 0; v < axis->count; v++)
            json_add_text(list, NULL, axis->values[v]);
        if (!axis->count)
            json_add_text(ranges, config_key_name(axis->key), axis->range);
    }
    if (sweep->random)
        json_add_number(object, "random", sweep->random);
    if (sweep->halving)
        json_add_number(object, "halving", sweep->halving);
    if (sweep->halving)
        json_add_number(object, "first-rung", sweep->rungs[0]);
    json_add_text(object, "objective", sweep_objective_word(sweep->objective));
    json_add(object, "configuration", config_to_json(&base));
    return object;
}

static enum esper_status read_seeds(struct sweep *sweep, const cJSON *object, struct esper_error *error)
{
    const cJSON *list;
    TRY(json_get_array(object, "seeds", &list, error));
    for (const cJSON *item = list->child; item; item = item->next) {
        char *end = NULL;
        const char *text = cJSON_IsString(item) ? item->valuestring : "";
        const uint64_t seed = strtoull(text, &end, 10);
        if (!*text || *end || !sweep_add_seed(sweep, seed))
            return error_set(error, ESPER_INVALID, "\"seeds\" must be a list of at most %d numbers, as text, each once",
                             SWEEP_SEEDS);
    }
    return ESPER_OK;
}

static enum esper_status read_plan(struct sweep *sweep, const cJSON *object, struct esper_error *error)
{
    int64_t format;
    const cJSON *base;
    TRY(json_get_integer(object, "format", 0, INT32_MAX, &format, error));
    if (format != PLAN_FORMAT)
        return error_set(error, ESPER_INVALID, "a plan of format %lld; this Esper (" ESPER_VERSION ") reads format %d",
                         (long long)format, PLAN_FORMAT);
    TRY(json_get_object(object, "configuration", &base, error));
    TRY(config_from_json(&sweep->base, base, error));
    for (int key = 0; key < config_key_count(); key++) /* if a run has other data, they follow it */
        if (strncmp(config_key_name(key), "data.", 5) == 0)
            sweep->base.origin[key] = ORIGIN_DATA;
    TRY(read_seeds(sweep, object, error));
    TRY(sweep_read_words(sweep, object, error));
    return sweep_complete(sweep, error);
}

static enum esper_status name_plan(const char *folder, char path[PATH_MAX], struct esper_error *error)
{
    if (strlen(folder) >= SWEEP_FOLDER)
        return error_set(error, ESPER_INVALID, "%.80s...: the path is too long", folder);
    snprintf(path, PATH_MAX, "%s/sweep.json", folder);
    return ESPER_OK;
}

bool sweep_is_folder(const char *folder)
{
    char path[PATH_MAX];
    return name_plan(folder, path, NULL) == ESPER_OK && access(path, F_OK) == 0;
}

enum esper_status sweep_load(struct sweep *sweep, const char *folder, struct esper_error *error)
{
    char path[PATH_MAX];
    cJSON *object;
    TRY(name_plan(folder, path, error));
    TRY(json_read_own(path, &object, error));
    enum esper_status status = read_plan(sweep, object, error);
    cJSON_Delete(object);
    return status == ESPER_OK ? status : error_where(error, "%s", path);
}

/* ---- one plan per folder ----------------------------------------------------------------------------------------- */

static void show_value(const cJSON *value, char text[64])
{
    char *all = value ? cJSON_PrintUnformatted(value) : NULL;
    snprintf(text, 64, "%.60s", all ? all : "nothing");
    cJSON_free(all);
}

/* The first word, or key, in which a plan is another. */
static enum esper_status compare(const cJSON *there, const cJSON *here, const char *folder, struct esper_error *error)
{
    for (const cJSON *word = here->child; word; word = word->next) {
        const cJSON *other = json_find(there, word->string);
        char mine[64], theirs[64];
        if (other && strcmp(word->string, "configuration") == 0)
            TRY(compare(other, word, folder, error));
        else {
            show_value(word, mine);
            show_value(other, theirs);
            if (!other || !cJSON_Compare(word, other, true))
                return error_set(error, ESPER_INVALID,
                                 "%s: was begun as another sweep, %s: %s and not %s; choose another --name", folder,
                                 word->string, theirs, mine);
        }
    }
    return ESPER_OK;
}

/* What was added there, too, is a difference. */
static enum esper_status check_same(const char *path, const char *folder, const cJSON *plan, struct esper_error *error)
{
    cJSON *there;
    TRY(json_read_own(path, &there, error));
    enum esper_status status = compare(there, plan, folder, error);
    for (const cJSON *word = there->child; status == ESPER_OK && word; word = word->next)
        if (!json_find(plan, word->string))
            status = error_set(error, ESPER_INVALID,
                               "%s: was begun as another sweep, with %.40s; choose another --name", folder,
                               word->string);
    cJSON_Delete(there);
    return status;
}

static enum esper_status write_or_compare(const char *path, const char *folder, const char *text,
                                          struct esper_error *error)
{
    cJSON *plan;
    if (access(path, F_OK) != 0)
        return run_json_replace(path, text, error);
    TRY(json_parse(text, strlen(text), &plan, error)); /* numbers as the file has them */
    enum esper_status status = check_same(path, folder, plan, error);
    cJSON_Delete(plan);
    return status;
}

enum esper_status sweep_save(const struct sweep *sweep, const char *folder, struct esper_error *error)
{
    char path[PATH_MAX];
    int lock;
    TRY(name_plan(folder, path, error));
    char *text = json_finish(plan_json(sweep), JSON_LINES);
    if (!text)
        return error_set(error, ESPER_FAILED, "out of memory while writing the plan");
    enum esper_status status = file_make_directories(folder, error);
    if (status == ESPER_OK) /* two that begin at once: one writes, the other compares */
        status = run_hold(folder, true, &lock, error);
    if (status == ESPER_OK) {
        status = write_or_compare(path, folder, text, error);
        close(lock);
    }
    cJSON_free(text);
    return status;
}
