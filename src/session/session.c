#include "session/session.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "session/parts.h"
#include "session/report.h"

enum { FAILURE_LIMIT = 3 }; /* rounds in a row without a finite update that end a run */

#define BEST_FILE     "best.ckpt"
#define CLOSE_SECONDS 10.0 /* how long the end of a run may wait for the record */

/* ---- checkpoints ------------------------------------------------------------------------------------------------- */

/* The record never lags behind a checkpoint, not even after a power loss: a run resumed from it finds every row of the
 * steps before (T-12). A record in trouble does not keep a checkpoint from being written; the operator is told of it.
 */
static enum esper_status prepare(struct session *session, const char *name, char path[PATH_MAX],
                                 struct esper_error *error)
{
    const struct world *world = engine_world(session->engine);
    snprintf(path, PATH_MAX, "%.*s/%s", PATH_MAX - 32, session->folder, name);
    recorder_count(session->recorder, *world->round, *world->step);
    recorder_flush(session->recorder, FLUSH_SECONDS);
    engine_read(session->engine);
    return engine_check(session->engine, error);
}

static enum esper_status save(struct session *session, const char *kind, struct esper_error *error)
{
    const struct world *world = engine_world(session->engine);
    /* Twins begin anew: a round has no other state before its first step. */
    if (engine_plays_twins(session->engine) && *world->step > 0)
        engine_reset(session->engine, *world->round);
    uint32_t round = *world->round - session->first_round, step = *world->step;
    double start = clock_seconds();
    char name[32], path[PATH_MAX];
    struct checkpoint_info info;
    checkpoint_name(round, step, name);
    TRY(prepare(session, name, path, error));
    TRY(checkpoint_write(path, &world->table, &session->config, round, step, &info, error));
    TRY(session_record_checkpoint(session, name, kind, &info, error));
    engine_span(session->engine, "checkpoint", start);
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

/* The speed counts the steps of this process only: of a resumed round, the resumed part. */
static void fill_speed(const struct session *session, struct round_record *record)
{
    const struct config *config = &session->config;
    double steps = config->steps - (double)session->round_start_step;
    record->seconds = clock_seconds() - session->round_start;
    record->env_steps_per_s = steps * config->envs / record->seconds;
    record->images_per_s = record->env_steps_per_s * config->data_batch * engine_batches(session->engine);
}

/* A disk that is full or gone does not stop training: it is reported to the operator once, each checkpoint is tried
 * again, and when none is left that could not be written, that is reported as well. */
static void tell_checkpoints(struct session *session, struct session_progress *progress)
{
    bool unsaved = session->unsaved || session->best_unsaved;
    if (unsaved && !session->told_unsaved)
        snprintf(progress->notice, sizeof progress->notice, "%.400s; training goes on and tries again",
                 session->trouble.text);
    if (!unsaved && session->told_unsaved)
        snprintf(progress->notice, sizeof progress->notice, "%.400s: checkpoints are written again", session->run.path);
    session->told_unsaved = unsaved;
}

/* The best round's checkpoint is written in the background: if it is done (or to be waited for), take the result. */
static void collect_best(struct session *session, bool wait)
{
    enum esper_status status;
    struct checkpoint_info info;
    struct esper_error error;
    if (!behind_collect(session->behind, wait, &status, &info, &error))
        return;
    if (status == ESPER_OK)
        status = session_record_checkpoint(session, BEST_FILE, "best", &info, &error);
    session->best_unsaved = status != ESPER_OK;
    if (session->best_unsaved)
        session->trouble = error;
}

/* It takes the place of one that could not be written. */
static enum esper_status start_best(struct session *session, struct esper_error *error)
{
    const struct world *world = engine_world(session->engine);
    double start = clock_seconds();
    char path[PATH_MAX];
    collect_best(session, true);
    TRY(prepare(session, BEST_FILE, path, error));
    behind_start(session->behind, path, &world->table, &session->config, *world->round - session->first_round,
                 *world->step);
    engine_span(session->engine, "checkpoint", start);
    return ESPER_OK;
}

/* The copy of its rows is still there. */
static void retry_best(struct session *session)
{
    if (!session->best_unsaved)
        return;
    collect_best(session, true); /* of the attempt before this one */
    if (session->best_unsaved)
        behind_retry(session->behind);
}

/* A text less is no reason to stop. */
static void sample_best(struct session *session, struct session_progress *progress)
{
    struct esper_error error;
    if (session_sample(session, &error) != ESPER_OK)
        snprintf(progress->notice, sizeof progress->notice, "no text was sampled: %.400s; training goes on",
                 error.text);
}

static enum esper_status finish_round(struct session *session, struct session_progress *progress,
                                      struct esper_error *error)
{
    struct world *world = engine_world(session->engine);
    struct round_report report = {.outcomes = session->outcomes};
    double rounds = session->config.rounds, done = *world->round - session->first_round;
    engine_finish(session->engine, session->outcomes);
    if (*world->best.accuracy >= 0 && *world->best.round == *world->round)
        sample_best(session, progress);
    report_round(session->engine, session->outcomes, &report.round);
    report.has_ppo = engine_update(session->engine, rounds > 1 ? done / (rounds - 1) : 1, &report.ppo, report.heads);
    fill_speed(session, &report.round);
    recorder_count(session->recorder, *world->round, *world->step);
    report_emit(&report, world->envs, session->recorder);

    progress->round_done = true;
    progress->has_ppo = report.has_ppo;
    progress->record = report.round;
    progress->ppo = report.ppo;

    bool best = report.round.val_accuracy_mean > *world->best_round_accuracy;
    if (best)
        *world->best_round_accuracy = report.round.val_accuracy_mean;
    engine_reset(session->engine, *world->round + 1);
    session->round_start = clock_seconds();
    session->round_start_step = 0;
    if (best)
        TRY(start_best(session, error));
    else
        retry_best(session);
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

/* The recorder finds them after the round, while training goes on; those of the last round must be waited for. */
static void take_alerts(struct session *session, struct session_progress *progress)
{
    enum { ROOM = sizeof progress->alerts / sizeof progress->alerts[0] };
    if (session_done(session))
        recorder_flush(session->recorder, FLUSH_SECONDS);
    progress->alerts_standing = recorder_alerts_standing(session->recorder);
    while (progress->alert_count < ROOM && recorder_alert(session->recorder, &progress->alerts[progress->alert_count]))
        progress->alert_count++;
}

static enum esper_status advance_twins(struct session *session, struct session_progress *progress,
                                       struct esper_error *error)
{
    const struct world *world = engine_world(session->engine);
    uint32_t step = *world->step + 1;
    engine_twin_step(session->engine);
    fill_progress(session, progress);
    progress->step = 0;
    progress->twin_step = step;
    return engine_check(session->engine, error);
}

enum esper_status session_advance(struct session *session, struct session_progress *progress, struct esper_error *error)
{
    struct world *world = engine_world(session->engine);
    if (engine_plays_twins(session->engine))
        return advance_twins(session, progress, error);
    engine_train(session->engine);
    engine_evaluate(session->engine);
    engine_decide(session->engine);
    engine_apply(session->engine);
    TRY(engine_check(session->engine, error));
    fill_progress(session, progress);
    if (*world->step == (uint32_t)session->config.steps) {
        TRY(finish_round(session, progress, error));
        progress->round = *world->round - session->first_round;
        progress->step = 0;
        run_set_status(&session->run, RUN_RUNNING, progress->round, 0,
                       NULL); /* one line for viewers; the last one counts */
    }
    bool due = save_is_due(session);
    collect_best(session, due); /* its row must not lag behind either */
    if (due) {
        session->unsaved = save(session, "periodic", &session->trouble) != ESPER_OK;
        session->saved_at = clock_seconds(); /* or attempted: retrying at every step would be too often */
        progress->checkpoint_written = !session->unsaved;
    }
    tell_checkpoints(session, progress);
    if (!progress->notice[0])
        recorder_notice(session->recorder, progress->notice);
    take_alerts(session, progress);
    return ESPER_OK;
}

/* One line for what failed before and what failed now. */
static enum esper_status join_trouble(enum esper_status status, struct esper_error *error, enum esper_status part,
                                      const struct esper_error *trouble)
{
    if (part == ESPER_OK)
        return status;
    if (status == ESPER_OK)
        return error_set(error, part, "%s", trouble->text);
    if (error)
        snprintf(error->text + strlen(error->text), sizeof error->text - strlen(error->text), "; %s", trouble->text);
    return status;
}

/* Writes all that can still be written, whatever fails. */
enum esper_status session_close(struct session *session, struct esper_error *error)
{
    const struct world *world = engine_world(session->engine);
    bool done = session_done(session);
    struct esper_error trouble;
    enum esper_status status = ESPER_OK, part;
    collect_best(session, true);
    retry_best(session);
    collect_best(session, true);
    if (session->best_unsaved)
        status = join_trouble(status, error, session->trouble.status, &session->trouble);
    part = is_saved(session) ? ESPER_OK : save(session, done ? "final" : "stop", &trouble);
    status = join_trouble(status, error, part, &trouble);
    part = sampler_wait(session->sampler, &trouble);
    status = join_trouble(status, error, part, &trouble);
    part = recorder_stop(session->recorder, CLOSE_SECONDS, &trouble);
    session->recorder = NULL;
    status = join_trouble(status, error, part, &trouble);
    part = run_set_status(&session->run, done ? RUN_FINISHED : RUN_INTERRUPTED, *world->round - session->first_round,
                          *world->step, &trouble);
    if (status == ESPER_OK) /* otherwise the reason is known */
        status = join_trouble(status, error, part, &trouble);
    session_release(session);
    return status;
}

void session_abandon(struct session *session)
{
    const struct world *world = engine_world(session->engine);
    run_set_status(&session->run, RUN_FAILED, *world->round - session->first_round, *world->step, NULL);
    session_release(session);
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

const struct device_use *session_device(const struct session *session)
{
    return engine_device(session->engine);
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
    engine_read(session->engine);
    return table_hash(&engine_world(session->engine)->table);
}
