#include "session/session.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "policy/schedule.h"
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
    engine_reported(session->engine);
    if (session->leads) {
        recorder_count(session->recorder, *world->round, *world->step);
        recorder_flush(session->recorder, FLUSH_SECONDS);
    }
    engine_read(session->engine);
    return engine_check(session->engine, error);
}

/* All ranks bring what they have; the leading one writes it. */
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
    if (session->leads) {
        const struct table *table = &engine_whole(session->engine)->table;
        TRY(checkpoint_write(path, table, &session->config, round, step, &info, error));
        TRY(session_record_checkpoint(session, name, kind, &info, error));
        engine_span(session->engine, "checkpoint", start);
    }
    session_words(session, name);
    session->saved_round = *world->round;
    session->saved_step = *world->step;
    return session->leads ? checkpoint_prune(session->folder, session->config.checkpoint.keep, error) : ESPER_OK;
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
    if (!session->leads || !behind_collect(session->behind, wait, &status, &info, &error))
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
    if (!session->leads)
        return ESPER_OK;
    behind_start(session->behind, path, &engine_whole(session->engine)->table, &session->config,
                 *world->round - session->first_round, *world->step);
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

static void tell_lessons(struct session *session, struct session_progress *progress)
{
    struct lesson_result result;
    char text[SCHEDULE_TEXT];
    if (!engine_lessons_end(session->engine, &result))
        return;
    schedule_format(result.best, &session->config, text, sizeof text);
    snprintf(progress->lessons, sizeof progress->lessons,
             "the best of %d schedules is %.500s: it earned %.2f +- %.2f over %u episode%s at any tempo",
             result.schedules, text, result.earned, result.error, (unsigned)result.plays, result.plays == 1 ? "" : "s");
}

/* What the round came to, in the record and in `progress`; true if it is the best so far. */
static bool tell_round(struct session *session, struct round_report *report, struct session_progress *progress)
{
    struct world *world = engine_world(session->engine);
    fill_speed(session, &report->round);
    recorder_count(session->recorder, *world->round, *world->step);
    report_emit(report, session->config.envs, session->recorder);

    tell_lessons(session, progress);
    progress->round_done = true;
    progress->has_ppo = report->has_ppo;
    progress->record = report->round;
    progress->ppo = report->ppo;

    const bool best = report->round.val_accuracy_mean > *world->best_round_accuracy;
    if (best)
        *world->best_round_accuracy = report->round.val_accuracy_mean;
    return best;
}

static enum esper_status finish_round(struct session *session, struct session_progress *progress,
                                      struct esper_error *error)
{
    struct world *world = engine_world(session->engine);
    struct round_report report = {.outcomes = session->outcomes};
    double rounds = session->config.rounds, done = *world->round - session->first_round;
    rank_times_tell(&session->times, session->group, session->engine, session->recorder, session->round_start);
    engine_finish(session->engine, session->outcomes);
    if (session->leads && *world->best.accuracy >= 0 && *world->best.round == *world->round)
        sample_best(session, progress);
    if (session->leads)
        report_round(session->engine, session->outcomes, &report.round);
    report.has_ppo = engine_update(session->engine, rounds > 1 ? done / (rounds - 1) : 1, &report.ppo, report.heads);
    bool best = session->leads && tell_round(session, &report, progress);
    group_tell(session->group, &best, sizeof best);
    engine_reset(session->engine, *world->round + 1);
    session->round_start = clock_seconds();
    session->round_start_step = 0;
    if (best)
        TRY(start_best(session, error));
    else
        retry_best(session);
    if (session->leads && report.has_ppo && *world->learner.failures >= FAILURE_LIMIT)
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

bool session_reached(const struct session *session, uint32_t rounds)
{
    return *engine_world(session->engine)->round - session->first_round >= rounds;
}

bool session_stop(struct session *session)
{
    if (session->group && !session->stopping)
        group_call(session->group, true);
    session->stopping = true;
    return !session->group;
}

bool session_stopped(const struct session *session)
{
    return session->stopped;
}

static void fill_progress(struct session *session, struct session_progress *progress)
{
    const struct world *world = engine_world(session->engine), *whole = engine_whole(session->engine);
    double seconds = clock_seconds() - session->round_start;
    *progress = (struct session_progress){.round = *world->round - session->first_round, .step = *world->step};
    progress->val_accuracy_best = -1;
    if (!whole)
        return;
    for (int env = 0; env < whole->envs; env++) {
        progress->val_accuracy_mean += whole->val_accuracy[env] / whole->envs;
        progress->val_accuracy_best = fmax(progress->val_accuracy_best, whole->val_accuracy[env]);
    }
    report_stages(whole, progress->stages);
    progress->env_steps_per_s = (*world->step - session->round_start_step) * (double)whole->envs / seconds;
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
    group_step(session->group);
    return engine_check(session->engine, error);
}

static enum esper_status advance_envs(struct session *session, struct session_progress *progress,
                                      struct esper_error *error)
{
    const struct world *world = engine_world(session->engine);
    engine_train(session->engine);
    engine_evaluate(session->engine);
    engine_decide(session->engine);
    engine_apply(session->engine);
    TRY(engine_check(session->engine, error));
    fill_progress(session, progress);
    group_step(session->group);
    if (*world->step < (uint32_t)session->config.steps)
        return ESPER_OK;
    rank_times_meet(&session->times, session->group);
    TRY(finish_round(session, progress, error));
    progress->round = *world->round - session->first_round;
    progress->step = 0;
    if (session->leads) /* one line for viewers; the last one counts */
        run_set_status(&session->run, RUN_RUNNING, progress->round, 0, NULL);
    return ESPER_OK;
}

/* What the ranks do where they meet, as the leading one says. */
struct orders {
    bool save, stop;
};

static struct orders give_orders(struct session *session)
{
    group_served(session->group); /* first: what is called for from here on gets a meeting of its own */
    struct orders orders = {.save = session->leads && save_is_due(session), .stop = group_stops(session->group)};
    group_tell(session->group, &orders, sizeof orders);
    session->stopped = orders.stop;
    session->asked = false;
    return orders;
}

static void save_if_due(struct session *session, struct session_progress *progress)
{
    const bool due = give_orders(session).save;
    collect_best(session, due); /* its row must not lag behind either */
    if (!due)
        return;
    session->unsaved = save(session, "periodic", &session->trouble) != ESPER_OK;
    session->saved_at = clock_seconds(); /* or attempted: retrying at every step would be too often */
    progress->checkpoint_written = !session->unsaved;
}

enum esper_status session_advance(struct session *session, struct session_progress *progress, struct esper_error *error)
{
    const bool twins = engine_plays_twins(session->engine);
    TRY((twins ? advance_twins : advance_envs)(session, progress, error));
    if (group_due(session->group))
        rank_times_meet(&session->times, session->group);
    if (twins && group_here(session->group))
        give_orders(session); /* nothing of a twin is saved, and the time for that comes */
    if (twins)
        return ESPER_OK;
    if (group_here(session->group))
        save_if_due(session, progress);
    else if (session->leads && !session->asked && (session->asked = save_is_due(session)))
        group_call(session->group, false);
    if (!session->leads)
        return ESPER_OK;
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
static enum esper_status close_run(struct session *session, struct esper_error *error)
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
    bool unsaved = session->leads && !is_saved(session);
    group_tell(session->group, &unsaved, sizeof unsaved);
    part = unsaved ? save(session, done ? "final" : "stop", &trouble) : ESPER_OK;
    status = join_trouble(status, error, part, &trouble);
    if (!session->leads)
        return status;
    part = sampler_wait(session->sampler, &trouble);
    status = join_trouble(status, error, part, &trouble);
    part = recorder_stop(session->recorder, CLOSE_SECONDS, &trouble);
    session->recorder = NULL;
    status = join_trouble(status, error, part, &trouble);
    part = run_set_status(&session->run, done ? RUN_FINISHED : RUN_INTERRUPTED, *world->round - session->first_round,
                          *world->step, &trouble);
    if (status == ESPER_OK) /* otherwise the reason is known */
        status = join_trouble(status, error, part, &trouble);
    return status;
}

enum esper_status session_close(struct session *session, struct esper_error *error)
{
    const enum esper_status status = close_run(session, error);
    struct group *group = session->group;
    session_release(session);
    return group_check(group, status, error);
}

void session_abandon(struct session *session, const struct esper_error *error)
{
    const struct world *world = engine_world(session->engine);
    group_fail(session->group, error);
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

int session_ranks(const struct session *session)
{
    return group_ranks(session->group);
}

uint64_t session_hash(const struct session *session)
{
    engine_read(session->engine);
    return table_hash(&engine_whole(session->engine)->table);
}
