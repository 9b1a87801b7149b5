#include "sweep/folder.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/config_json.h"
#include "base/file.h"
#include "base/tasks.h"
#include "search/search.h"
#include "telemetry/run.h"
#include "telemetry/run_json.h"

/* ---- claims ------------------------------------------------------------------------------------------------------ */

static void job_path(const char *folder, const char *name, const char *file, char path[PATH_MAX])
{
    snprintf(path, PATH_MAX, "%.*s/jobs/%s%s", SWEEP_FOLDER, folder, name, file);
}

/* The same lock that a run in training has, in the job's own folder: the run may not exist yet. */
enum esper_status sweep_claim(const char *folder, const char *name, int *lock, struct esper_error *error)
{
    char path[PATH_MAX];
    *lock = -1;
    snprintf(path, sizeof path, "%.*s/runs/%s", SWEEP_FOLDER, folder, name);
    if (run_is_alive(path)) /* somebody trains it by hand */
        return ESPER_OK;
    job_path(folder, name, "", path);
    if (run_is_alive(path))
        return ESPER_OK;
    TRY(file_make_directories(path, error));
    const enum esper_status status = run_hold(path, true, lock, error);
    return status != ESPER_OK && run_is_alive(path) ? ESPER_OK : status; /* another was faster */
}

enum esper_status sweep_set_aside(const char *folder, const char *name, struct esper_error *error)
{
    char from[PATH_MAX], to[PATH_MAX];
    struct stat info;
    int lock = -1;
    snprintf(from, sizeof from, "%.*s/runs/%s", SWEEP_FOLDER, folder, name);
    snprintf(to, sizeof to, "%.*s/runs/%s.failed", SWEEP_FOLDER, folder, name);
    if (lstat(to, &info) == 0 || lstat(from, &info) != 0)
        return ESPER_OK;
    if (S_ISDIR(info.st_mode)) /* somebody may have resumed it by hand */
        TRY(run_hold(from, true, &lock, error));
    const bool renamed = rename(from, to) == 0;
    const int reason = errno;
    if (lock >= 0)
        close(lock);
    if (renamed)
        return ESPER_OK;
    return error_set(error, ESPER_FAILED, "%s: cannot rename: %s", from, strerror(reason));
}

/* ---- results ----------------------------------------------------------------------------------------------------- */

static enum esper_status read_rung(const cJSON *item, struct sweep_rung_result *rung, struct esper_error *error)
{
    int64_t rounds, episodes;
    TRY(json_get_integer(item, "rounds", 1, EVALUATION_ROUND, &rounds, error));
    TRY(json_get_integer(item, "episodes", 1, INT32_MAX, &episodes, error));
    TRY(json_get_number(item, "score", -1e300, 1e300, &rung->score, error));
    rung->test = (double)NAN; /* null: not measured */
    if (!cJSON_IsNull(json_find(item, "test")))
        TRY(json_get_number(item, "test", -1e300, 1e300, &rung->test, error));
    rung->rounds = (int)rounds;
    rung->episodes = (int)episodes;
    return ESPER_OK;
}

static enum esper_status parse_result(const cJSON *object, struct sweep_result *result, struct esper_error *error)
{
    const cJSON *rungs, *failures;
    TRY(json_get_array(object, "rungs", &rungs, error));
    TRY(json_get_array(object, "failures", &failures, error));
    for (const cJSON *item = rungs->child; item && result->done < SWEEP_RUNGS; item = item->next)
        TRY(read_rung(item, &result->rungs[result->done++], error));
    for (const cJSON *item = failures->child; item && result->failures < SWEEP_TRIES; item = item->next)
        snprintf(result->reasons[result->failures++], sizeof result->reasons[0], "%.250s",
                 cJSON_IsString(item) ? item->valuestring : "");
    return ESPER_OK;
}

enum esper_status sweep_read_result(const char *folder, const char *name, struct sweep_result *result,
                                    struct esper_error *error)
{
    char path[PATH_MAX];
    cJSON *object;
    *result = (struct sweep_result){0};
    job_path(folder, name, "/result.json", path);
    if (access(path, F_OK) != 0 && (errno == ENOENT || errno == ENOTDIR))
        return ESPER_OK;
    TRY(json_read_own(path, &object, error));
    enum esper_status status = parse_result(object, result, error);
    cJSON_Delete(object);
    return status == ESPER_OK ? status : error_where(error, "%s", path);
}

enum esper_status sweep_write_result(const char *folder, const char *name, const struct sweep_result *result,
                                     struct esper_error *error)
{
    char path[PATH_MAX];
    cJSON *object = cJSON_CreateObject(), *rungs = json_add_list(object, "rungs");
    for (int i = 0; i < result->done; i++) {
        cJSON *rung = json_add_object(rungs, NULL);
        json_add_number(rung, "rounds", result->rungs[i].rounds);
        json_add_number(rung, "score", result->rungs[i].score);
        json_add_number(rung, "test", result->rungs[i].test);
        json_add_number(rung, "episodes", result->rungs[i].episodes);
    }
    cJSON *failures = json_add_list(object, "failures");
    for (int i = 0; i < result->failures; i++)
        json_add_text(failures, NULL, result->reasons[i]);
    char *text = json_finish(object, JSON_LINES);
    if (!text)
        return error_set(error, ESPER_FAILED, "out of memory while writing a result");
    job_path(folder, name, "/result.json", path);
    enum esper_status status = run_json_replace(path, text, error);
    cJSON_free(text);
    return status;
}

/* ---- scores ------------------------------------------------------------------------------------------------------ */

void sweep_judge(const struct sweep *sweep, const struct outcome_record *outcomes, int count, int rounds,
                 struct sweep_rung_result *result)
{
    const int first = rounds - rounds_judged(rounds);
    *result = (struct sweep_rung_result){.rounds = rounds};
    for (int i = 0; i < count; i++) {
        const struct outcome_record *outcome = &outcomes[i];
        const int round = (int)(outcome->round - round_first(sweep->base.evaluate));
        if (round < first || round >= rounds)
            continue;
        result->score += sweep->objective == OBJECTIVE_SCORE ? search_score(&sweep->base, outcome)
                                                             : outcome->val_accuracy;
        result->test += outcome->test_accuracy;
        result->episodes++;
    }
    result->score = result->episodes ? result->score / result->episodes : (double)NAN;
    result->test = result->episodes ? result->test / result->episodes : (double)NAN;
}

const char *sweep_score_title(const struct sweep *sweep)
{
    return sweep->objective == OBJECTIVE_SCORE ? search_score_title(&sweep->base) : "validation score, points";
}

enum esper_status sweep_write_best(const struct sweep *sweep, int config, const char *folder, struct esper_error *error)
{
    static const char *const left_out[] = {"seed", "threads", "device"};
    struct config best;
    struct task task;
    char path[PATH_MAX];
    TRY(sweep_config(sweep, config * sweep->seed_count, &best, error));
    cJSON *object = config_to_json(&best);
    for (size_t i = 0; object && i < sizeof left_out / sizeof left_out[0]; i++)
        cJSON_DeleteItemFromObjectCaseSensitive(object, left_out[i]);
    if (object && best.task[0] && task_find(best.task, &task, NULL) != ESPER_OK)
        cJSON_DeleteItemFromObjectCaseSensitive(object, "task"); /* a file of its own; all of its keys are here */
    char *text = json_finish(object, JSON_LINES);
    if (!text)
        return error_set(error, ESPER_FAILED, "out of memory while writing the best configuration");
    snprintf(path, sizeof path, "%.*s/best.json", SWEEP_FOLDER, folder);
    enum esper_status status = run_json_replace(path, text, error);
    cJSON_free(text);
    return status;
}
