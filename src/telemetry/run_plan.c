#include "telemetry/run_plan.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/build.h"
#include "base/json.h"
#include "base/memory.h"
#include "telemetry/run_json.h"

static enum esper_status name_file(const struct run *run, char path[PATH_MAX], struct esper_error *error)
{
    if (snprintf(path, PATH_MAX, "%s/plan.json", run->path) < PATH_MAX)
        return ESPER_OK;
    return error_set(error, ESPER_INVALID, "%.80s...: the path is too long", run->path);
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static enum esper_status read_stage(const cJSON *object, struct run_stage *stage, struct esper_error *error)
{
    int64_t from, rounds;
    const char *kernels, *version;
    TRY(json_get_integer(object, "from", 0, EVALUATION_ROUND, &from, error));
    TRY(json_get_integer(object, "rounds", 1, EVALUATION_ROUND - 1, &rounds, error));
    TRY(json_get_string(object, "kernels", &kernels, error));
    TRY(json_get_string(object, "version", &version, error));
    stage->from = (unsigned)from;
    stage->rounds = (int)rounds;
    snprintf(stage->kernels, sizeof stage->kernels, "%s", kernels);
    snprintf(stage->version, sizeof stage->version, "%s", version);
    return ESPER_OK;
}

static enum esper_status read_stages(const cJSON *list, struct run_stage *stages, struct esper_error *error)
{
    unsigned least = 0;
    for (const cJSON *item = list->child; item; item = item->next, stages++) {
        if (!cJSON_IsObject(item))
            return error_set(error, ESPER_INVALID, "a stage must be an object");
        TRY(read_stage(item, stages, error));
        if (item == list->child ? stages->from != 0 : stages->from < least)
            return error_set(error, ESPER_INVALID, "stages must start at 0 and be in order; one starts at %u",
                             stages->from);
        least = stages->from + 1;
    }
    return ESPER_OK;
}

/* The run as it started, if nothing was changed. */
static enum esper_status first_stage(const struct run *run, struct run_stage **stages, int *count,
                                     struct esper_error *error)
{
    struct run_stage *stage = *stages = memory_alloc(1, sizeof *stage, error);
    if (!stage)
        return ESPER_FAILED;
    *count = 1;
    stage->rounds = run->config.rounds;
    snprintf(stage->kernels, sizeof stage->kernels, "%s", run->kernels);
    snprintf(stage->version, sizeof stage->version, "%s", run->version);
    return ESPER_OK;
}

enum esper_status run_plan_read(const struct run *run, struct run_stage **stages, int *count, struct esper_error *error)
{
    char path[PATH_MAX];
    cJSON *object;
    TRY(name_file(run, path, error));
    if (access(path, F_OK) != 0 && errno == ENOENT)
        return first_stage(run, stages, count, error);
    TRY(json_read_own(path, &object, error));
    const cJSON *list = json_find(object, "stages");
    enum esper_status status = ESPER_OK;
    *stages = NULL;
    *count = cJSON_IsArray(list) ? cJSON_GetArraySize(list) : 0;
    if (*count == 0)
        status = error_set(error, ESPER_INVALID, "\"stages\" must be a list of at least one");
    else if (!(*stages = memory_alloc((size_t)*count, sizeof **stages, error)))
        status = ESPER_FAILED;
    else
        status = read_stages(list, *stages, error);
    cJSON_Delete(object);
    if (status == ESPER_OK)
        return status;
    memory_free(*stages);
    return error_where(error, "%s", path);
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static enum esper_status write_stages(const struct run *run, const struct run_stage *stages, int count,
                                      struct esper_error *error)
{
    char path[PATH_MAX];
    TRY(name_file(run, path, error));
    cJSON *object = cJSON_CreateObject(), *list = json_add_list(object, "stages");
    for (int i = 0; i < count; i++) {
        cJSON *stage = json_add_object(list, NULL);
        json_add_number(stage, "from", stages[i].from);
        json_add_number(stage, "rounds", stages[i].rounds);
        json_add_text(stage, "kernels", stages[i].kernels);
        json_add_text(stage, "version", stages[i].version);
    }
    char *text = json_finish(object, JSON_LINES);
    if (!text)
        return error_set(error, ESPER_FAILED, "out of memory while describing the run");
    enum esper_status status = run_json_replace(path, text, error);
    cJSON_free(text);
    return status;
}

static bool is_same(const struct run_stage *a, const struct run_stage *b)
{
    return a->rounds == b->rounds && strcmp(a->kernels, b->kernels) == 0 && strcmp(a->version, b->version) == 0;
}

enum esper_status run_plan_change(struct run *run, unsigned done, int rounds, const char *kernels,
                                  struct esper_error *error)
{
    struct run_stage *old, next = {.from = done, .rounds = rounds};
    int had, count;
    snprintf(next.kernels, sizeof next.kernels, "%s", kernels);
    snprintf(next.version, sizeof next.version, "%s", esper_build);
    TRY(run_plan_read(run, &old, &had, error));
    for (count = had; count > 0 && old[count - 1].from >= done;)
        count--;
    /* A dropped stage may equal the new one, or the new one may equal the stage before: then nothing changed. */
    bool known = count > 0 && is_same(&old[count - 1], &next);
    bool again = !known && count + 1 == had && old[count].from == done && is_same(&old[count], &next);
    enum esper_status status = ESPER_OK;
    if (!again && !(known && count == had)) {
        struct run_stage *all = memory_alloc((size_t)count + 1, sizeof *all, error);
        status = all ? ESPER_OK : ESPER_FAILED;
        if (all) {
            if (count > 0)
                memcpy(all, old, (size_t)count * sizeof *all);
            all[count] = next;
            status = write_stages(run, all, count + !known, error);
        }
        memory_free(all);
    }
    if (status == ESPER_OK)
        run->config.rounds = rounds;
    memory_free(old);
    return status;
}
