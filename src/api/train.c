/* A run that learns, as a handle: a session, advanced a round at a time. */
#include <limits.h>
#include <stdio.h>

#include "api/parts.h"
#include "base/memory.h"
#include "session/learned.h"
#include "session/session.h"
#include "telemetry/run.h"

struct esper_train {
    struct api_handle handle;
    struct session *session; /* NULL after a failure */
    atomic_bool stop, done;
    char path[PATH_MAX], note[512];
};

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static enum esper_status make(struct esper_train **out, struct esper_error *error)
{
    *out = memory_alloc(1, sizeof **out, error);
    if (!*out)
        return ESPER_FAILED;
    atomic_init(&(*out)->handle.busy, false);
    atomic_init(&(*out)->stop, false);
    atomic_init(&(*out)->done, false);
    return ESPER_OK;
}

/* A handle that has its session, or none. */
static enum esper_status settle(struct esper_train **out, struct esper_train *train, enum esper_status status)
{
    if (status != ESPER_OK) {
        memory_free(train);
        return status;
    }
    snprintf(train->note, sizeof train->note, "%s", session_note(train->session));
    snprintf(train->path, sizeof train->path, "%s", session_path(train->session));
    atomic_store(&train->done, session_done(train->session));
    *out = train;
    return ESPER_OK;
}

static enum esper_status configure(struct config *config, const char *task, const char *const *sets, size_t count,
                                   const char *runs, struct esper_error *error)
{
    char path[PATH_MAX];
    config_defaults(config);
    TRY(config_load_task(config, task, error));
    TRY(api_set(config, sets, count, error));
    if (config->policy.from[0]) {
        TRY(learned_name(runs, config->policy.from, path, error));
        TRY(config_set_value(config, "policy.from", path, ORIGIN_FLAG, error));
    }
    if (config->origin[config_key_find("device")] != ORIGIN_SET)
        config->device = WISH_CPU;
    TRY(config_settle(config, error));
    return config_check(config, error);
}

enum esper_status esper_train_open(struct esper_train **out, const char *task, const char *const *sets,
                                   size_t set_count, const char *runs, const char *name, struct esper_error *error)
{
    struct config config;
    struct esper_train *train;
    const struct session_options options = {.runs = runs ? runs : "runs", .name = name, .command = "esper_train_open"};
    if (!out)
        return error_set(error, ESPER_INVALID, "esper_train_open: there is nowhere to put the handle (out is NULL)");
    *out = NULL;
    if (!task || (set_count && !sets))
        return error_set(error, ESPER_INVALID, "esper_train_open: %s is NULL", task ? "sets" : "task");
    TRY(api_ready(error));
    TRY(configure(&config, task, sets, set_count, options.runs, error));
    TRY(make(&train, error));
    return settle(out, train, session_create(&train->session, &config, &options, error));
}

enum esper_status esper_train_resume(struct esper_train **out, const char *run, uint32_t rounds,
                                     struct esper_error *error)
{
    char path[PATH_MAX];
    struct esper_train *train;
    const struct session_changes changes = {.rounds = (int)rounds, .threads = -1};
    if (!out)
        return error_set(error, ESPER_INVALID, "esper_train_resume: there is nowhere to put the handle (out is NULL)");
    *out = NULL;
    if (!run || rounds > INT_MAX)
        return error_set(error, ESPER_INVALID, "esper_train_resume: %s", run ? "too many rounds" : "run is NULL");
    TRY(api_ready(error));
    TRY(run_find("runs", run, path, error));
    TRY(make(&train, error));
    return settle(out, train, session_resume(&train->session, path, &changes, error));
}

/* ---- learning ---------------------------------------------------------------------------------------------------- */

int esper_train_done(const struct esper_train *train)
{
    return !train || atomic_load(&train->done);
}

const char *esper_train_path(const struct esper_train *train)
{
    return train ? train->path : NULL;
}

const char *esper_train_note(const struct esper_train *train)
{
    return train && !api_busy(&train->handle) ? train->note : "";
}

void esper_train_stop(struct esper_train *train)
{
    if (train)
        atomic_store(&train->stop, true);
}

static void tell(const struct session_progress *progress, struct esper_round *out)
{
    const struct round_record *record = &progress->record;
    *out = (struct esper_round){.reward_mean = record->reward_mean,
                                .val_score_mean = record->val_accuracy_mean,
                                .val_score_best = record->val_accuracy_best,
                                .test_score_mean = record->test_accuracy_mean,
                                .seconds = record->seconds,
                                .env_steps = (uint64_t)record->env_steps,
                                .round = progress->round,
                                .germinations = (uint32_t)record->germinations,
                                .fossilizations = (uint32_t)record->fossilizations,
                                .prunes = (uint32_t)record->prunes,
                                .rollbacks = (uint32_t)record->rollbacks};
}

static enum esper_status play_round(struct esper_train *train, struct esper_round *out, size_t size,
                                    struct esper_error *error)
{
    struct session_progress progress = {0};
    if (out && size != sizeof *out)
        return error_set(error, ESPER_UNSUPPORTED,
                         "esper_train_round: struct esper_round has %zu bytes in the program and %zu in libesper", size,
                         sizeof *out);
    if (!train->session)
        return error_set(error, ESPER_INVALID, "esper_train_round: the training failed before; close the handle");
    if (session_done(train->session))
        return error_set(error, ESPER_INVALID, "esper_train_round: all rounds are done");
    train->note[0] = '\0';
    while (!progress.round_done) {
        if (atomic_exchange(&train->stop, false))
            return error_set(error, ESPER_INTERRUPTED, "stopped on request; the next call goes on with the round");
        enum esper_status status = session_advance(train->session, &progress, error);
        if (progress.notice[0])
            snprintf(train->note, sizeof train->note, "%s", progress.notice);
        if (status != ESPER_OK) { /* what it holds is no longer whole */
            session_abandon(train->session, error);
            train->session = NULL;
            atomic_store(&train->done, true);
            return status;
        }
    }
    atomic_store(&train->done, session_done(train->session));
    if (out)
        tell(&progress, out);
    return ESPER_OK;
}

enum esper_status esper_train_round(struct esper_train *train, struct esper_round *out, size_t out_size,
                                    struct esper_error *error)
{
    TRY(api_enter(train ? &train->handle : NULL, "esper_train_round", error));
    return api_leave(&train->handle, play_round(train, out, out_size, error));
}

enum esper_status esper_train_close(struct esper_train **train, struct esper_error *error)
{
    enum esper_status status = ESPER_OK;
    if (!train || !*train)
        return ESPER_OK;
    if (api_retire(&(*train)->handle) != ESPER_OK)
        return error_set(error, ESPER_INVALID, "esper_train_close: the handle is in use on another thread");
    if ((*train)->session)
        status = session_close((*train)->session, error);
    memory_free(*train);
    *train = NULL;
    return status;
}
