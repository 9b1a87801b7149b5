#include "engine/session.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "engine/alerts.h"
#include "engine/checkpoint.h"
#include "engine/engine.h"
#include "engine/report.h"
#include "telemetry/store.h"

enum { FAILURE_LIMIT = 3 }; /* rounds in a row without a finite update that end a run */

struct session {
    struct config config;
    struct engine *engine;
    struct run run;
    struct store *store;
    bool run_open;
    char folder[PATH_MAX]; /* of checkpoints */
    char note[512];
    uint32_t first_round, last_round;  /* numbers of the run's first round and of the one after its last */
    double round_start, saved_at;      /* clock */
    uint32_t round_start_step;         /* steps of the round that were done when this process took it up */
    uint32_t saved_round, saved_step;  /* state of the newest checkpoint */
    struct outcome_record *outcomes;   /* [env] */
    struct rollback_record *rollbacks; /* [step * env] */
};

/* ---- what a run may take from another one ------------------------------------------------------------------------ */

/* The newest good checkpoint of the run that policy.from names. */
static enum esper_status find_source(const struct session *session, const char *runs, char path[PATH_MAX],
                                     struct esper_error *error)
{
    char folder[PATH_MAX], found[PATH_MAX], note[512];
    struct checkpoint_info info;
    TRY(run_find(runs, session->config.policy.from, found, error));
    if (snprintf(folder, sizeof folder, "%s/checkpoints", found) >= (int)sizeof folder)
        return error_set(error, ESPER_INVALID, "%s: the path is too long", found);
    TRY(checkpoint_newest(folder, &info, note, error));
    snprintf(path, PATH_MAX, "%s", info.path);
    return ESPER_OK;
}

static enum esper_status take_policy(struct session *session, const char *path, struct esper_error *error)
{
    static const char *const names[] = {
        "policy.w",
        "learner.obs_mean",
        "learner.obs_var",
        "learner.obs_updates",
        "learner.reward_count",
        "learner.reward_mean",
        "learner.reward_m2",
        "learner.value_shift",
        "learner.value_scale",
        "learner.value_updates"}; /* all but Adam's moments, which belong to the other run's path */
    struct world *world = engine_world(session->engine);
    TRY(checkpoint_read_rows(path, &world->table, names, sizeof names / sizeof names[0], error));
    engine_restored(session->engine);
    return ESPER_OK;
}

static enum esper_status take_topology(struct session *session, const char *path, struct esper_error *error)
{
    struct world *world = engine_world(session->engine);
    static const char *const names[] = {"best.accuracy", "best.slot.stage", "best.slot.blueprint",
                                        "best.slot.algorithm"};
    enum { COUNT = sizeof names / sizeof names[0] };
    size_t slots = (size_t)world->shape.slots;
    struct table rows = {0};
    double *accuracy = NULL;
    uint8_t *stage = NULL, *blueprint = NULL, *algorithm = NULL;
    int seeds = 0;
    TABLE_ADD(&rows, &accuracy, names[0], TYPE_F64, CLASS_STATE, true, 1);
    TABLE_ADD(&rows, &stage, names[1], TYPE_U8, CLASS_STATE, true, slots);
    TABLE_ADD(&rows, &blueprint, names[2], TYPE_U8, CLASS_STATE, true, slots);
    TABLE_ADD(&rows, &algorithm, names[3], TYPE_U8, CLASS_STATE, true, slots);
    enum esper_status status = table_allocate(&rows, error);
    if (status == ESPER_OK)
        status = checkpoint_read_rows(path, &rows, names, COUNT, error);
    for (size_t j = 0; status == ESPER_OK && j < slots; j++) {
        world->replay.present[j] = stage_is_blended(stage[j]);
        world->replay.blueprint[j] = blueprint[j];
        world->replay.algorithm[j] = algorithm[j];
        seeds += world->replay.present[j];
    }
    if (status == ESPER_OK && (*accuracy < 0 || seeds == 0))
        status =
            error_set(error, ESPER_INVALID, "%s: its best network has no seeds to replay; use --policy static", path);
    table_free(&rows);
    return status;
}

/* A fresh world for the run's first round. */
static enum esper_status begin(struct session *session, const char *runs, struct esper_error *error)
{
    struct world *world = engine_world(session->engine);
    char path[PATH_MAX] = "";
    if (session->config.policy.from[0])
        TRY(find_source(session, runs, path, error));
    if (session->config.policy.kind == POLICY_REPLAY)
        TRY(take_topology(session, path, error));
    engine_begin(session->engine);
    if (path[0] && world->learns)
        TRY(take_policy(session, path, error));
    return ESPER_OK;
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

static void release(struct session *session)
{
    store_close(session->store);
    engine_free(session->engine);
    if (session->run_open)
        run_close(&session->run);
    memory_free(session->outcomes);
    memory_free(session->rollbacks);
    memory_free(session);
}

/* The engine comes first: a configuration that cannot run leaves no directory behind. */
static enum esper_status open_engine(struct session *session, struct esper_error *error)
{
    const struct config *config = &session->config;
    TRY(engine_create(&session->engine, config, error));
    session->first_round = config->evaluate ? EVALUATION_ROUND : 0;
    session->last_round = session->first_round + (uint32_t)config->rounds;
    session->outcomes = memory_alloc((size_t)config->envs, sizeof *session->outcomes, error);
    session->rollbacks = memory_alloc((size_t)config->envs * (size_t)config->steps, sizeof *session->rollbacks, error);
    return session->outcomes && session->rollbacks ? ESPER_OK : ESPER_FAILED;
}

static void start_clock(struct session *session)
{
    const struct world *world = engine_world(session->engine);
    session->round_start = session->saved_at = clock_seconds();
    session->round_start_step = *world->step;
    session->saved_round = *world->round;
    session->saved_step = *world->step;
}

static enum esper_status name_folder(struct session *session, struct esper_error *error)
{
    int length = snprintf(session->folder, sizeof session->folder, "%s/checkpoints", session->run.path);
    if (length >= (int)sizeof session->folder - 32) /* room for a file's name */
        return error_set(error, ESPER_INVALID, "%s: the path is too long", session->run.path);
    return ESPER_OK;
}

/* A script may change or go away; the run keeps its own copy. */
static enum esper_status keep_script(const struct session *session, struct esper_error *error)
{
    char path[PATH_MAX], *text;
    size_t size;
    struct file_writer writer;
    if (session->config.policy.kind != POLICY_SCRIPT)
        return ESPER_OK;
    if (snprintf(path, sizeof path, "%s/script.json", session->run.path) >= (int)sizeof path)
        return error_set(error, ESPER_INVALID, "%s: the path is too long", session->run.path);
    TRY(file_read(session->config.policy.script, (size_t)1 << 26, &text, &size, error));
    enum esper_status status = file_begin(&writer, path, error);
    if (status == ESPER_OK)
        status = file_write(&writer, text, size, error);
    if (status == ESPER_OK)
        status = file_commit(&writer, error);
    memory_free(text);
    return status;
}

static enum esper_status create_parts(struct session *session, const struct session_options *options,
                                      struct esper_error *error)
{
    TRY(open_engine(session, error));
    TRY(begin(session, options->runs, error));
    TRY(run_create(&session->run, options->runs, options->name, &session->config, engine_kernels(session->engine),
                   options->command, error));
    session->run_open = true;
    TRY(name_folder(session, error));
    TRY(keep_script(session, error));
    TRY(store_open(&session->store, &session->run, error));
    start_clock(session);
    return run_set_status(&session->run, RUN_RUNNING, 0, 0, error);
}

enum esper_status session_create(struct session **out, const struct config *config,
                                 const struct session_options *options, struct esper_error *error)
{
    struct session *session = memory_alloc(1, sizeof *session, error);
    if (!session)
        return ESPER_FAILED;
    session->config = *config;
    enum esper_status status = create_parts(session, options, error);
    if (status != ESPER_OK) {
        release(session);
        return status;
    }
    *out = session;
    return ESPER_OK;
}

static enum esper_status apply_changes(struct session *session, const struct session_changes *changes,
                                       struct esper_error *error)
{
    char text[32];
    if (changes->rounds > 0) {
        snprintf(text, sizeof text, "%d", changes->rounds);
        TRY(config_set_value(&session->config, "rounds", text, ORIGIN_FLAG, error));
    }
    if (changes->threads >= 0) {
        snprintf(text, sizeof text, "%d", changes->threads);
        TRY(config_set_value(&session->config, "threads", text, ORIGIN_FLAG, error));
    }
    return ESPER_OK;
}

/* The directory that holds the run: names in policy.from were given relative to it. */
static void runs_of(const struct session *session, char runs[PATH_MAX])
{
    snprintf(runs, PATH_MAX, "%s", session->run.path);
    char *slash = strrchr(runs, '/');
    if (slash)
        *slash = '\0';
    else
        snprintf(runs, PATH_MAX, ".");
}

/* Where the run stopped, if it got as far as a checkpoint. A run that was given more rounds keeps them. */
static enum esper_status find_stop(struct session *session, const struct session_changes *changes, bool *begun,
                                   struct esper_error *error)
{
    struct checkpoint_info *list, newest;
    struct config saved;
    int count;
    TRY(checkpoint_list(session->folder, &list, &count, error));
    memory_free(list);
    *begun = count > 0;
    if (!*begun)
        return ESPER_OK;
    TRY(checkpoint_newest(session->folder, &newest, session->note, error));
    TRY(checkpoint_peek(newest.path, &newest, &saved, error));
    if (changes->rounds == 0 && saved.rounds > session->config.rounds)
        session->config.rounds = saved.rounds;
    return ESPER_OK;
}

static enum esper_status restore(struct session *session, bool begun, struct esper_error *error)
{
    struct checkpoint_info info;
    char runs[PATH_MAX];
    if (begun) {
        TRY(checkpoint_read_newest(session->folder, &engine_world(session->engine)->table, &session->config, &info,
                                   session->note, error));
        engine_restored(session->engine);
        return ESPER_OK;
    }
    runs_of(session, runs); /* it ended before its first checkpoint: the same beginning again */
    return begin(session, runs, error);
}

static enum esper_status resume_parts(struct session *session, const char *path, const struct session_changes *changes,
                                      struct esper_error *error)
{
    bool begun;
    TRY(run_open_to_train(&session->run, path, error));
    session->run_open = true;
    session->config = session->run.config;
    TRY(name_folder(session, error));
    TRY(find_stop(session, changes, &begun, error));
    TRY(apply_changes(session, changes, error));
    if (session->config.policy.kind == POLICY_SCRIPT &&
        snprintf(session->config.policy.script, CONFIG_TEXT, "%s/script.json", session->run.path) >= CONFIG_TEXT)
        return error_set(error, ESPER_INVALID, "%s: the path is too long", session->run.path);
    TRY(open_engine(session, error));
    TRY(restore(session, begun, error));
    const struct world *world = engine_world(session->engine);
    TRY(store_open(&session->store, &session->run, error));
    TRY(store_forget(session->store, *world->round, error));
    start_clock(session);
    if (session_done(session))
        return ESPER_OK;
    return run_set_status(&session->run, RUN_RUNNING, *world->round - session->first_round, *world->step, error);
}

enum esper_status session_resume(struct session **out, const char *path, const struct session_changes *changes,
                                 struct esper_error *error)
{
    struct session *session = memory_alloc(1, sizeof *session, error);
    if (!session)
        return ESPER_FAILED;
    enum esper_status status = resume_parts(session, path, changes, error);
    if (status != ESPER_OK) {
        release(session);
        return status;
    }
    *out = session;
    return ESPER_OK;
}

/* ---- checkpoints ------------------------------------------------------------------------------------------------- */

static enum esper_status save_as(struct session *session, const char *name, const char *kind, struct esper_error *error)
{
    const struct world *world = engine_world(session->engine);
    uint32_t round = *world->round - session->first_round, step = *world->step;
    char path[PATH_MAX];
    struct checkpoint_info info;
    snprintf(path, sizeof path, "%.*s/%s", PATH_MAX - 32, session->folder, name);
    TRY(checkpoint_write(path, &world->table, &session->config, round, step, &info, error));
    return store_checkpoint(session->store, name, kind, *world->round, step, info.hash, error);
}

static enum esper_status save(struct session *session, const char *kind, struct esper_error *error)
{
    const struct world *world = engine_world(session->engine);
    char name[32];
    checkpoint_name(*world->round - session->first_round, *world->step, name);
    TRY(save_as(session, name, kind, error));
    session->saved_at = clock_seconds();
    session->saved_round = *world->round;
    session->saved_step = *world->step;
    return checkpoint_prune(session->folder, session->config.checkpoint.keep, error);
}

static bool is_saved(const struct session *session)
{
    const struct world *world = engine_world(session->engine);
    bool began = *world->round != session->first_round || *world->step != 0;
    return !began || (session->saved_round == *world->round && session->saved_step == *world->step);
}

static bool save_is_due(const struct session *session)
{
    const struct checkpoint_config *rule = &session->config.checkpoint;
    const struct world *world = engine_world(session->engine);
    if (is_saved(session))
        return false;
    if (rule->minutes > 0 && clock_seconds() - session->saved_at >= 60.0 * rule->minutes)
        return true;
    return *world->step == 0 && (*world->round - session->first_round) % (uint32_t)rule->rounds == 0;
}

/* ---- rounds ------------------------------------------------------------------------------------------------------ */

/* Speed is that of the steps this process made: a resumed round counts its own part only. */
static void fill_speed(const struct session *session, struct round_record *record)
{
    const struct config *config = &session->config;
    double steps = config->steps - (double)session->round_start_step;
    record->seconds = clock_seconds() - session->round_start;
    record->env_steps_per_s = steps * config->envs / record->seconds;
    record->images_per_s = record->env_steps_per_s * config->data_batch * engine_batches(session->engine);
}

static enum esper_status finish_round(struct session *session, struct session_progress *progress,
                                      struct esper_error *error)
{
    struct world *world = engine_world(session->engine);
    struct round_report report = {
        .outcomes = session->outcomes, .outcome_count = world->envs, .rollbacks = session->rollbacks};
    double rounds = session->config.rounds, done = *world->round - session->first_round;
    engine_finish(session->engine, session->outcomes);
    report.rollback_count = report_rollbacks(world, session->rollbacks);
    report_round(session->engine, session->outcomes, &report.round);
    report.has_ppo = engine_update(session->engine, rounds > 1 ? done / (rounds - 1) : 1, &report.ppo);
    fill_speed(session, &report.round);
    TRY(store_round(session->store, &report, error));

    progress->round_done = true;
    progress->has_ppo = report.has_ppo;
    progress->record = report.round;
    progress->ppo = report.ppo;
    progress->alert_count = alerts_of_round(&report.round, report.has_ppo ? &report.ppo : NULL, progress->alerts);

    bool best = report.round.val_accuracy_mean > *world->best_round_accuracy;
    if (best)
        *world->best_round_accuracy = report.round.val_accuracy_mean;
    engine_reset(session->engine, *world->round + 1);
    session->round_start = clock_seconds();
    session->round_start_step = 0;
    if (best)
        TRY(save_as(session, "best.ckpt", "best", error));
    if (report.has_ppo && *world->learner.failures >= FAILURE_LIMIT)
        return error_set(error, ESPER_DIVERGED,
                         "%s: no finite update of the policy in %d rounds; lower ppo.lr, or go back to an earlier "
                         "checkpoint",
                         session->run.name, FAILURE_LIMIT);
    return ESPER_OK;
}

bool session_done(const struct session *session)
{
    return *engine_world(session->engine)->round >= session->last_round;
}

static void fill_progress(const struct session *session, struct session_progress *progress)
{
    const struct world *world = engine_world(session->engine);
    double seconds = clock_seconds() - session->round_start;
    *progress = (struct session_progress){.round = *world->round - session->first_round, .step = *world->step};
    progress->val_accuracy_best = -1;
    for (int env = 0; env < world->envs; env++) {
        progress->val_accuracy_mean += world->val_accuracy[env] / world->envs;
        progress->val_accuracy_best = fmax(progress->val_accuracy_best, world->val_accuracy[env]);
    }
    report_stages(world, progress->stages);
    progress->env_steps_per_s = (*world->step - session->round_start_step) * (double)world->envs / seconds;
}

enum esper_status session_advance(struct session *session, struct session_progress *progress, struct esper_error *error)
{
    struct world *world = engine_world(session->engine);
    engine_train(session->engine);
    engine_evaluate(session->engine);
    engine_decide(session->engine);
    engine_apply(session->engine);
    fill_progress(session, progress);
    if (*world->step == (uint32_t)session->config.steps) {
        TRY(finish_round(session, progress, error));
        progress->round = *world->round - session->first_round;
        progress->step = 0;
        TRY(run_set_status(&session->run, RUN_RUNNING, progress->round, 0, error));
    }
    if (save_is_due(session)) {
        TRY(save(session, "periodic", error));
        progress->checkpoint_written = true;
    }
    return ESPER_OK;
}

enum esper_status session_close(struct session *session, struct esper_error *error)
{
    const struct world *world = engine_world(session->engine);
    bool done = session_done(session);
    enum esper_status status = ESPER_OK;
    if (!is_saved(session))
        status = save(session, done ? "final" : "stop", error);
    if (status == ESPER_OK)
        status = run_set_status(&session->run, done ? RUN_FINISHED : RUN_INTERRUPTED,
                                *world->round - session->first_round, *world->step, error);
    release(session);
    return status;
}

void session_abandon(struct session *session)
{
    const struct world *world = engine_world(session->engine);
    run_set_status(&session->run, RUN_FAILED, *world->round - session->first_round, *world->step, NULL);
    release(session);
}

const char *session_note(const struct session *session)
{
    return session->note;
}

const char *session_path(const struct session *session)
{
    return session->run.path;
}

const struct config *session_config(const struct session *session)
{
    return &session->config;
}

const char *session_kernels(const struct session *session)
{
    return engine_kernels(session->engine);
}

int session_threads(const struct session *session)
{
    return engine_threads(session->engine);
}

uint64_t session_hash(const struct session *session)
{
    return table_hash(&engine_world(session->engine)->table);
}
