/* How an environment begins: from a task, from a run's task, from a checkpoint of its own. */
#include <limits.h>
#include <stdio.h>

#include "api/parts.h"
#include "base/memory.h"
#include "session/checkpoint.h"
#include "telemetry/run.h"

#define RUNS "runs" /* where a run that is given by its name is looked for */

/* A name that no other environment of the process has; nothing else hangs on it. */
static _Atomic uint64_t opened;

enum esper_status env_wrap(struct esper_env **out, struct engine *engine, struct esper_error *error)
{
    struct esper_env *env = memory_alloc(1, sizeof *env, error);
    struct outcome_record *outcomes = memory_alloc((size_t)engine_world(engine)->envs, sizeof *outcomes, error);
    if (!env || !outcomes) {
        memory_free(env);
        memory_free(outcomes);
        engine_free(engine);
        return ESPER_FAILED;
    }
    *env = (struct esper_env){
        .handle = {false}, .engine = engine, .number = atomic_fetch_add(&opened, 1) + 1, .outcomes = outcomes};
    *out = env;
    return ESPER_OK;
}

enum esper_status esper_env_close(struct esper_env **env)
{
    if (!env || !*env)
        return ESPER_OK;
    TRY(api_retire(&(*env)->handle));
    engine_free((*env)->engine);
    memory_free((*env)->outcomes);
    memory_free(*env);
    *env = NULL;
    return ESPER_OK;
}

/* ---- the configuration ------------------------------------------------------------------------------------------- */

/* The caller decides, so the world has no policy of its own. It is played on the CPU unless a device is named. */
static enum esper_status settle(struct config *config, struct esper_error *error)
{
    if (config->origin[config_key_find("policy.kind")] == ORIGIN_SET)
        return error_set(error, ESPER_INVALID, "policy.kind: whoever opens an environment decides; leave it out");
    if (config->origin[config_key_find("device")] != ORIGIN_SET)
        config->device = WISH_CPU;
    config->policy.kind = POLICY_STATIC;
    config->policy.from[0] = '\0';
    TRY(config_settle(config, error));
    return config_check(config, error);
}

static enum esper_status begin(struct esper_env **out, const struct config *config, struct esper_error *error)
{
    struct engine *engine;
    TRY(engine_create(&engine, config, error));
    engine_begin(engine);
    return env_wrap(out, engine, error);
}

/* What all ways to open have in common: a place for the handle, a text, and assignments where a count says so. */
static enum esper_status check_call(const char *name, struct esper_env **out, const char *text, const char *const *sets,
                                    size_t count, struct esper_error *error)
{
    if (!out)
        return error_set(error, ESPER_INVALID, "%s: there is nowhere to put the handle (out is NULL)", name);
    *out = NULL;
    if (!text || (count && !sets))
        return error_set(error, ESPER_INVALID, "%s: %s is NULL", name, text ? "sets" : "what to open");
    return api_ready(error);
}

enum esper_status esper_env_open(struct esper_env **out, const char *task, const char *const *sets, size_t set_count,
                                 struct esper_error *error)
{
    struct config config;
    TRY(check_call("esper_env_open", out, task, sets, set_count, error));
    config_defaults(&config);
    TRY(config_load_task(&config, task, error));
    TRY(api_set(&config, sets, set_count, error));
    TRY(settle(&config, error));
    return begin(out, &config, error);
}

enum esper_status esper_env_open_run(struct esper_env **out, const char *name, const char *const *sets,
                                     size_t set_count, struct esper_error *error)
{
    struct run run;
    TRY(check_call("esper_env_open_run", out, name, sets, set_count, error));
    TRY(run_open(&run, RUNS, name, error));
    struct config config = run.config;
    run_close(&run);
    config.origin[config_key_find("policy.kind")] = ORIGIN_DEFAULT; /* the run's, not the caller's */
    config.origin[config_key_find("device")] = ORIGIN_DEFAULT;
    config.group = 1; /* as `esper eval` plays it */
    config.evaluate = true;
    config.precision = PRECISION_AUTO;
    TRY(api_set(&config, sets, set_count, error));
    TRY(settle(&config, error));
    return begin(out, &config, error);
}

/* ---- a checkpoint ------------------------------------------------------------------------------------------------ */

static enum esper_status restore(struct engine *engine, const char *path, struct esper_error *error)
{
    const struct world *world = engine_world(engine);
    struct checkpoint_info info;
    TRY(checkpoint_read(path, &world->table, &world->config, &info, error));
    if (engine_restored(engine, error) != ESPER_OK)
        return error_where(error, "%s", path);
    if (*world->round != round_first(world->config.evaluate) + info.round || *world->step != info.step)
        return error_set(error, ESPER_INVALID, "%s: its header and its arrays are of different steps", path);
    return ESPER_OK;
}

enum esper_status esper_env_resume(struct esper_env **out, const char *path, struct esper_error *error)
{
    struct config config;
    struct checkpoint_info info;
    struct engine *engine;
    TRY(check_call("esper_env_resume", out, path, NULL, 0, error));
    TRY(checkpoint_peek(path, &info, &config, error));
    if (config.policy.kind != POLICY_STATIC)
        return error_set(error, ESPER_INVALID,
                         "%s: was not written by esper_env_save; a run goes on with: esper train --resume", path);
    TRY(config_check(&config, error));
    TRY(engine_create(&engine, &config, error));
    enum esper_status status = restore(engine, path, error);
    if (status != ESPER_OK) {
        engine_free(engine);
        return status;
    }
    TRY(env_wrap(out, engine, error));
    (*out)->place = ENV_BETWEEN;
    (*out)->next = info.round + 1;
    return ESPER_OK;
}
