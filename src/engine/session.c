#include "engine/session.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "engine/checkpoint.h"
#include "engine/engine.h"
#include "engine/report.h"
#include "telemetry/recorder.h"

enum { FAILURE_LIMIT = 3 }; /* rounds in a row without a finite update that end a run */

#define FLUSH_SECONDS 2.0  /* how long a checkpoint may wait for the record */
#define CLOSE_SECONDS 10.0 /* and the end of the run */

struct session {
    struct config config;
    struct engine *engine;
    struct run run;
    struct recorder *recorder;
    bool run_open;
    char folder[PATH_MAX]; /* of checkpoints */
    char note[512];
    uint32_t first_round, last_round; /* numbers of the run's first round and of the one after its last */
    double round_start, saved_at;     /* clock */
    uint32_t round_start_step;        /* steps of the round that were done when this process took it up */
    uint32_t saved_round, saved_step; /* state of the newest checkpoint */
    bool unsaved;                     /* the last checkpoint could not be written, and the operator knows */
    struct outcome_record *outcomes;  /* [env] */
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
    engine_read(session->engine); /* the rest of the world stays as it is, wherever that is */
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
    recorder_stop(session->recorder, 0, NULL); /* unless it was stopped in good order */
    engine_free(session->engine);
    if (session->run_open)
        run_close(&session->run);
    memory_free(session->outcomes);
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
    return session->outcomes ? ESPER_OK : ESPER_FAILED;
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

/* clock_seconds at the moment the run was created, to the second; every process that trains the run finds the same one,
 * so that their spans never overlap. */
static double moment_of_creation(const struct run *run)
{
    struct tm parts = {0};
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (!strptime(run->created, "%Y-%m-%dT%H:%M:%S", &parts))
        return clock_seconds();
    return clock_seconds() - (difftime(now.tv_sec, timegm(&parts)) + 1e-9 * (double)now.tv_nsec);
}

static void record_checkpoint(struct session *session, const char *file, const char *kind,
                              const struct checkpoint_info *info)
{
    const struct world *world = engine_world(session->engine);
    struct checkpoint_record row = {.kind = kind, .round = *world->round, .step = *world->step};
    struct stat file_info;
    struct tm parts;
    snprintf(row.file, sizeof row.file, "%s", file);
    if (stat(info->path, &file_info) == 0) {
        row.bytes = file_info.st_size;
        gmtime_r(&file_info.st_mtime, &parts);
        strftime(row.written, sizeof row.written, "%Y-%m-%dT%H:%M:%SZ", &parts);
    }
    snprintf(row.hash, sizeof row.hash, "%016llx", (unsigned long long)info->hash);
    recorder_emit(session->recorder, RECORD_CHECKPOINT, &row);
}

/* What the store holds of steps that are to be made again goes first; the row of the checkpoint that the run goes on
 * `from` comes back, if the process was killed before it could write that. NULL: it begins. */
static enum esper_status open_record(struct session *session, bool spans, const struct checkpoint_info *from,
                                     struct esper_error *error)
{
    const struct world *world = engine_world(session->engine);
    const char *file = from ? strrchr(from->path, '/') + 1 : NULL;
    struct store *store;
    TRY(store_open(&store, &session->run, error));
    enum esper_status status = store_forget(store, *world->round, *world->step, error);
    if (status != ESPER_OK) {
        store_close(store);
        return status;
    }
    bool known = !from || store_has_checkpoint(store, file);
    TRY(recorder_start(&session->recorder, store, session->config.telemetry, error));
    engine_record(session->engine, session->recorder, moment_of_creation(&session->run),
                  spans || session->config.telemetry == TELEMETRY_DEBUG);
    if (!known)
        record_checkpoint(session, file, "periodic", from);
    return ESPER_OK;
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
    TRY(open_record(session, options->spans, NULL, error));
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
    if (changes->device)
        TRY(config_set_value(&session->config, "device", changes->device, ORIGIN_FLAG, error));
    if (changes->precision)
        TRY(config_set_value(&session->config, "precision", changes->precision, ORIGIN_FLAG, error));
    return config_check(&session->config, error);
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

static enum esper_status restore(struct session *session, bool begun, struct checkpoint_info *info,
                                 struct esper_error *error)
{
    char runs[PATH_MAX];
    if (begun) {
        TRY(checkpoint_read_newest(session->folder, &engine_world(session->engine)->table, &session->config, info,
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
    struct checkpoint_info from;
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
    TRY(restore(session, begun, &from, error));
    const struct world *world = engine_world(session->engine);
    TRY(open_record(session, changes->spans, begun ? &from : NULL, error));
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

/* The record never lags behind a checkpoint: whoever resumes from it finds every row of the steps before. */
static enum esper_status save_as(struct session *session, const char *name, const char *kind, struct esper_error *error)
{
    const struct world *world = engine_world(session->engine);
    uint32_t round = *world->round - session->first_round, step = *world->step;
    double start = clock_seconds();
    char path[PATH_MAX];
    struct checkpoint_info info;
    snprintf(path, sizeof path, "%.*s/%s", PATH_MAX - 32, session->folder, name);
    recorder_count(session->recorder, *world->round, step);
    recorder_flush(session->recorder, FLUSH_SECONDS);
    engine_read(session->engine);
    TRY(engine_check(session->engine, error));
    TRY(checkpoint_write(path, &world->table, &session->config, round, step, &info, error));
    record_checkpoint(session, name, kind, &info);
    engine_span(session->engine, "checkpoint", start);
    return ESPER_OK;
}

static enum esper_status save(struct session *session, const char *kind, struct esper_error *error)
{
    const struct world *world = engine_world(session->engine);
    char name[32];
    checkpoint_name(*world->round - session->first_round, *world->step, name);
    TRY(save_as(session, name, kind, error));
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

/* A disk that is full or gone does not stop training: the operator is told once, and the next one is tried again. */
static void tell_checkpoint(struct session *session, enum esper_status status, const struct esper_error *error,
                            struct session_progress *progress)
{
    if (status != ESPER_OK && !session->unsaved)
        snprintf(progress->notice, sizeof progress->notice, "%.400s; training goes on and tries again", error->text);
    if (status == ESPER_OK && session->unsaved)
        snprintf(progress->notice, sizeof progress->notice, "%.400s: checkpoints are written again", session->run.path);
    session->unsaved = status != ESPER_OK;
}

static enum esper_status finish_round(struct session *session, struct session_progress *progress,
                                      struct esper_error *error)
{
    struct world *world = engine_world(session->engine);
    struct round_report report = {.outcomes = session->outcomes};
    double rounds = session->config.rounds, done = *world->round - session->first_round;
    engine_finish(session->engine, session->outcomes);
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
    if (best) {
        struct esper_error trouble;
        tell_checkpoint(session, save_as(session, "best.ckpt", "best", &trouble), &trouble, progress);
    }
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

/* The recorder finds them after the round, while training goes on; there is no later for those of the last one. */
static void take_alerts(struct session *session, struct session_progress *progress)
{
    enum { ROOM = sizeof progress->alerts / sizeof progress->alerts[0] };
    if (session_done(session))
        recorder_flush(session->recorder, FLUSH_SECONDS);
    progress->alerts_standing = recorder_alerts_standing(session->recorder);
    while (progress->alert_count < ROOM &&
           recorder_alert(session->recorder, &progress->alerts[progress->alert_count])) {
        progress->alerts[progress->alert_count++].round -= session->first_round;
    }
}

enum esper_status session_advance(struct session *session, struct session_progress *progress, struct esper_error *error)
{
    struct world *world = engine_world(session->engine);
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
                       NULL); /* a line for viewers; the last one counts */
    }
    if (save_is_due(session)) {
        struct esper_error trouble;
        enum esper_status status = save(session, "periodic", &trouble);
        session->saved_at = clock_seconds(); /* or tried to: every step would be too often */
        tell_checkpoint(session, status, &trouble, progress);
        progress->checkpoint_written = status == ESPER_OK;
    }
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

/* All that can still be written is, whatever fails. */
enum esper_status session_close(struct session *session, struct esper_error *error)
{
    const struct world *world = engine_world(session->engine);
    bool done = session_done(session);
    struct esper_error trouble;
    enum esper_status status = ESPER_OK;
    if (!is_saved(session))
        status = save(session, done ? "final" : "stop", error);
    enum esper_status part = recorder_stop(session->recorder, CLOSE_SECONDS, &trouble);
    session->recorder = NULL;
    status = join_trouble(status, error, part, &trouble);
    part = run_set_status(&session->run, done ? RUN_FINISHED : RUN_INTERRUPTED, *world->round - session->first_round,
                          *world->step, &trouble);
    if (status == ESPER_OK) /* else the reason is known */
        status = join_trouble(status, error, part, &trouble);
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
    engine_read(session->engine);
    return table_hash(&engine_world(session->engine)->table);
}
