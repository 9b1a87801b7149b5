/* How a session begins: a new run, perhaps with a policy that another run learned, or one resumed from its
 * checkpoint. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/pool.h"
#include "data/dataset.h"
#include "session/learned.h"
#include "session/parts.h"
#include "telemetry/run_plan.h"

/* ---- what a run may take from another ---------------------------------------------------------------------------- */

static enum esper_status take_policy(struct session *session, const char *path, struct esper_error *error)
{
    struct world *world = engine_world(session->engine);
    engine_fetch(session->engine); /* keeps the rest of the world, even if it is on a device */
    TRY(learned_take(world, path, error));
    return engine_took(session->engine, error);
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
    TABLE_ADD(&rows, &accuracy, names[0], TYPE_F64, CLASS_STATE, true, SCOPE_RUN, 1);
    TABLE_ADD(&rows, &stage, names[1], TYPE_U8, CLASS_STATE, true, SCOPE_RUN, slots);
    TABLE_ADD(&rows, &blueprint, names[2], TYPE_U8, CLASS_STATE, true, SCOPE_RUN, slots);
    TABLE_ADD(&rows, &algorithm, names[3], TYPE_U8, CLASS_STATE, true, SCOPE_RUN, slots);
    enum esper_status status = table_allocate(&rows, error);
    for (int i = 0; i < COUNT && status == ESPER_OK; i++)
        rows.rows[i].range = table_find(&world->table, names[i])->range;
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
    if (status == ESPER_OK && world_check_replay(world, error) != ESPER_OK)
        status = error_where(error, "%s", path);
    table_free(&rows);
    return status;
}

/* A fresh world for the run's first round. */
static enum esper_status begin(struct session *session, const char *runs, struct esper_error *error)
{
    struct world *world = engine_world(session->engine);
    char path[PATH_MAX] = "";
    if (session->config.policy.from[0])
        TRY(learned_find(runs, session->config.policy.from, path, NULL, error));
    if (session->config.policy.kind == POLICY_REPLAY)
        TRY(take_topology(session, path, error));
    engine_begin(session->engine);
    if (path[0] && world->learns)
        TRY(take_policy(session, path, error));
    return ESPER_OK;
}

/* ---- lifetime ---------------------------------------------------------------------------------------------------- */

void session_release(struct session *session)
{
    behind_free(session->behind);
    sampler_free(session->sampler);            /* before the recorder, which it writes to */
    recorder_stop(session->recorder, 0, NULL); /* unless it was stopped in good order */
    engine_free(session->engine);
    if (session->run_open)
        run_close(&session->run);
    memory_free(session->outcomes);
    memory_free(session);
}

/* Ranks on one machine divide its cores, unless somebody gave each its own. */
static int threads_of(const struct session *session)
{
    const int cores = pool_cores(), ranks = group_local_ranks(session->group);
    const bool bound = cores < (int)sysconf(_SC_NPROCESSORS_ONLN);
    if (session->config.threads != 0 || ranks < 2 || bound)
        return session->config.threads;
    return cores / ranks > 1 ? cores / ranks : 1;
}

/* Whatever would make the bits of a run depend on which rank computes. */
static enum esper_status agree(const struct session *session, struct esper_error *error)
{
    const struct dataset *data = engine_data(session->engine);
    TRY(group_same(session->group, "it computes with", engine_kernels(session->engine), error));
    return group_same(session->group, "its data has checksum", *data->checksum ? data->checksum : "none", error);
}

static enum esper_status open_parts(struct session *session, struct esper_error *error)
{
    const int envs = session->config.envs, ranks = group_ranks(session->group);
    struct config config = session->config;
    config.threads = threads_of(session);
    if (ranks > envs)
        return error_set(error, ESPER_INVALID, "%d ranks for %d env%s: each rank plays one or more; start fewer", ranks,
                         envs, envs == 1 ? "" : "s");
    TRY(engine_create_part(&session->engine, &config, group_part(session->group, envs), session->group, error));
    session->outcomes = memory_alloc((size_t)envs, sizeof *session->outcomes, error);
    if (!session->outcomes)
        return ESPER_FAILED;
    if (!session->leads)
        return ESPER_OK;
    TRY(sampler_create(&session->sampler, error));
    return behind_create(&session->behind, &engine_whole(session->engine)->table, error);
}

/* The engine comes first: a configuration that cannot run leaves no directory behind. */
static enum esper_status open_engine(struct session *session, struct esper_error *error)
{
    const enum esper_status status = open_parts(session, error);
    session->first_round = round_first(session->config.evaluate);
    session->last_round = session->first_round + (uint32_t)session->config.rounds;
    TRY(group_check(session->group, status, error));
    return agree(session, error);
}

void session_words(struct session *session, const char *checkpoint)
{
    char words[PATH_MAX + 128];
    snprintf(words, sizeof words, "the run goes on from %s%s: esper train --resume %s",
             checkpoint ? "its checkpoint " : "its beginning", checkpoint ? checkpoint : "", session->run.path);
    group_words(session->group, words);
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

/* The file that the policy plays from, as the configuration names it, and the run's own copy of it: a file of the
 * user's may change or disappear. `copy` is empty where there is none. */
struct played_file {
    const char *path;
    char copy[PATH_MAX];
};

static enum esper_status find_played(const struct session *session, struct played_file *file, struct esper_error *error)
{
    const struct policy_config *policy = &session->config.policy;
    const char *name = policy->kind == POLICY_SCRIPT                                   ? "script.json"
                       : policy->kind == POLICY_SCHEDULE && policy->schedule[0] == '@' ? "schedules.txt"
                                                                                       : NULL;
    file->path = policy->kind == POLICY_SCRIPT ? policy->script : policy->schedule + 1;
    file->copy[0] = '\0';
    if (name && snprintf(file->copy, sizeof file->copy, "%s/%s", session->run.path, name) >= (int)sizeof file->copy)
        return error_set(error, ESPER_INVALID, "%s: the path is too long", session->run.path);
    return ESPER_OK;
}

static enum esper_status keep_played(const struct session *session, struct esper_error *error)
{
    struct played_file file;
    char *text;
    size_t size;
    struct file_writer writer;
    TRY(find_played(session, &file, error));
    if (!*file.copy)
        return ESPER_OK;
    TRY(file_read(file.path, (size_t)1 << 26, &text, &size, error));
    enum esper_status status = file_begin(&writer, file.copy, error);
    if (status == ESPER_OK)
        status = file_write(&writer, text, size, error);
    if (status == ESPER_OK)
        status = file_commit(&writer, error);
    memory_free(text);
    return status;
}

/* A run that goes on plays from its copy. */
static enum esper_status take_played(struct session *session, struct esper_error *error)
{
    struct played_file file;
    struct policy_config *policy = &session->config.policy;
    bool script = policy->kind == POLICY_SCRIPT;
    TRY(find_played(session, &file, error));
    if (*file.copy)
        TRY(file_check_own(file.copy, error));
    if (*file.copy && snprintf(script ? policy->script : policy->schedule, CONFIG_TEXT, "%s%s", script ? "" : "@",
                               file.copy) >= CONFIG_TEXT)
        return error_set(error, ESPER_INVALID, "%s: the path is too long", session->run.path);
    return ESPER_OK;
}

/* clock_seconds at the moment the run was created, to the second; every process that trains the run computes the same
 * value, so that their spans never overlap. */
static double moment_of_creation(const struct run *run)
{
    struct tm parts = {0};
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (!strptime(run->created, "%Y-%m-%dT%H:%M:%S", &parts))
        return clock_seconds();
    return clock_seconds() - (difftime(now.tv_sec, timegm(&parts)) + 1e-9 * (double)now.tv_nsec);
}

enum esper_status session_record_checkpoint(struct session *session, const char *file, const char *kind,
                                            const struct checkpoint_info *info, struct esper_error *error)
{
    struct checkpoint_record row = {.kind = kind, .round = session->first_round + info->round, .step = info->step};
    struct stat file_info;
    struct tm parts;
    snprintf(row.file, sizeof row.file, "%s", file);
    if (stat(info->path, &file_info) != 0)
        return error_set(error, ESPER_FAILED, "%s: cannot see what was written: %s", info->path, strerror(errno));
    row.bytes = file_info.st_size;
    gmtime_r(&file_info.st_mtime, &parts);
    strftime(row.written, sizeof row.written, "%Y-%m-%dT%H:%M:%SZ", &parts);
    snprintf(row.hash, sizeof row.hash, "%016llx", (unsigned long long)info->hash);
    recorder_emit(session->recorder, RECORD_CHECKPOINT, &row);
    return ESPER_OK;
}

enum esper_status session_sample(struct session *session, struct esper_error *error)
{
    const struct world *world = engine_world(session->engine);
    if (!sampler_wanted(world, session->recorder))
        return ESPER_OK;
    const enum esper_status before = sampler_wait(session->sampler, error);
    TRY(sampler_start(session->sampler, world, session->run.name, session->recorder, error));
    return before;
}

/* First removes the stored rows of steps that will be repeated; restores the row of the checkpoint that the run resumes
 * `from` and that of its best network's text, if the process was killed before it could write them. NULL: the run
 * begins. */
static enum esper_status open_record(struct session *session, bool spans, const struct checkpoint_info *from,
                                     struct esper_error *error)
{
    const struct world *world = engine_world(session->engine);
    const char *file = from ? strrchr(from->path, '/') + 1 : NULL;
    struct store *store;
    TRY(store_open(&store, &session->run, error));
    bool known = !from, sampled = *world->best.accuracy < 0;
    enum esper_status status = store_forget(store, *world->round, *world->step, error);
    if (status == ESPER_OK && !known)
        status = store_has_checkpoint(store, file, &known, error);
    if (status == ESPER_OK && !sampled)
        status = store_has_sample(store, *world->best.round, &sampled, error);
    if (status != ESPER_OK) {
        store_close(store);
        return status;
    }
    TRY(recorder_start(&session->recorder, store, session->config.telemetry, session->config.rounds, error));
    engine_record(session->engine, session->recorder, moment_of_creation(&session->run),
                  spans || session->config.telemetry == TELEMETRY_DEBUG);
    if (!sampled)
        TRY(session_sample(session, error));
    return known ? ESPER_OK : session_record_checkpoint(session, file, "periodic", from, error);
}

static enum esper_status create_run(struct session *session, const struct session_options *options,
                                    struct esper_error *error)
{
    TRY(run_create(&session->run, options->runs, options->name, &session->config, engine_kernels(session->engine),
                   engine_data(session->engine)->checksum, options->command, error));
    session->run_open = true;
    TRY(name_folder(session, error));
    TRY(keep_played(session, error));
    return open_record(session, options->spans, NULL, error);
}

/* All ranks know where the run is, and what its record keeps. */
static void join_run(struct session *session, const char *checkpoint)
{
    group_tell(session->group, session->run.path, sizeof session->run.path);
    engine_join_record(session->engine);
    session_words(session, checkpoint);
    start_clock(session);
}

static enum esper_status create_parts(struct session *session, const struct session_options *options,
                                      struct esper_error *error)
{
    TRY(open_engine(session, error));
    TRY(group_check(session->group, begin(session, options->runs, error), error));
    TRY(group_check(session->group, session->leads ? create_run(session, options, error) : ESPER_OK, error));
    join_run(session, NULL);
    const enum esper_status status = session->leads ? run_set_status(&session->run, RUN_RUNNING, 0, 0, error)
                                                    : ESPER_OK;
    return group_check(session->group, status, error);
}

static struct session *make_session(struct group *group, struct esper_error *error)
{
    struct session *session = memory_alloc(1, sizeof *session, error);
    if (!session)
        return NULL;
    session->group = group;
    session->leads = group_leads(group);
    session->run.lock = -1;
    return session;
}

/* The objective is a sum, and a discount leaves little of what is paid after many steps. */
static void note_discount(struct session *session)
{
    const struct config *c = &session->config;
    const bool learns = c->policy.kind == POLICY_PPO && !c->evaluate && c->reward.mode == REWARD_GAIN,
               pays = c->reward.price > 0 || c->reward.flop_price > 0;
    const double left = pow(c->gamma, c->steps);
    if (learns && pays && left < 0.9)
        snprintf(session->note, sizeof session->note,
                 "gamma = %g leaves %.0f %% of a price that is paid after %d steps; gamma=1 leaves all of it", c->gamma,
                 100 * left, c->steps);
}

enum esper_status session_create(struct session **out, const struct config *config,
                                 const struct session_options *options, struct esper_error *error)
{
    struct session *session = make_session(options->group, error);
    if (!session)
        return ESPER_FAILED;
    session->config = *config;
    note_discount(session);
    enum esper_status status = create_parts(session, options, error);
    if (status != ESPER_OK) {
        session_release(session);
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

/* How many rounds the run will have from here on: the number requested, if the run has not passed it, or the number
 * planned. */
static enum esper_status settle_rounds(struct session *session, const struct session_changes *changes,
                                       struct esper_error *error)
{
    const struct world *world = engine_world(session->engine);
    unsigned done = *world->round - session->first_round, begun = done + (*world->step > 0);
    if (changes->rounds > 0 && (unsigned)changes->rounds < begun)
        return error_set(error, ESPER_INVALID,
                         "--rounds %d: %s has %u rounds done%s; ask for more than %u, or leave --rounds out",
                         changes->rounds, session->run.path, done, begun > done ? " and another begun" : "", done);
    if ((unsigned)session->config.rounds < begun) /* extended by a version that kept no plan */
        session->config.rounds = (int)begun;
    session->last_round = session->first_round + (uint32_t)session->config.rounds;
    return run_plan_change(&session->run, done, session->config.rounds, engine_kernels(session->engine), error);
}

/* The checkpoint's world, if it is one that can be played, at the place that its name says. */
static enum esper_status adopt(struct session *session, const struct checkpoint_info *info, struct esper_error *error)
{
    const struct world *world = engine_world(session->engine);
    enum esper_status status = engine_restored(session->engine, error);
    if (status == ESPER_OK && session->leads &&
        (*world->round - session->first_round != info->round || *world->step != info->step))
        status = error_set(error, ESPER_INVALID, "its header is of round %u, step %u, its arrays of round %u, step %u",
                           (unsigned)info->round, (unsigned)info->step,
                           (unsigned)(*world->round - session->first_round), (unsigned)*world->step);
    return status == ESPER_OK || !session->leads ? status : error_where(error, "%s", info->path);
}

static enum esper_status restore(struct session *session, const struct resume_point *point, struct esper_error *error)
{
    struct checkpoint_info info = {0};
    enum esper_status status = ESPER_OK;
    char runs[PATH_MAX];
    if (point->begins) {
        runs_of(session, runs);
        return group_check(session->group, begin(session, runs, error), error);
    }
    if (session->leads)
        status =
            checkpoint_read(point->from.path, &engine_whole(session->engine)->table, &session->config, &info, error);
    TRY(group_check(session->group, status, error));
    status = adopt(session, &info, error);
    return group_check(session->group, status, error);
}

/* On other images it would be another run (E-02). One of an earlier version does not say what it was trained on. */
static enum esper_status check_data(const struct session *session, struct esper_error *error)
{
    const struct dataset *data = engine_data(session->engine);
    const char *before = session->run.data_checksum;
    if (!*before || !*data->checksum || strcmp(before, data->checksum) == 0)
        return ESPER_OK;
    return error_set(error, ESPER_INVALID,
                     "%.180s: trained on data of checksum %s, but %.180s has checksum %s; put the former file back, or "
                     "train a new run on this one",
                     session->run.path, before, data->path, data->checksum);
}

/* What the run is, and where it can go on. */
static enum esper_status find_run(struct session *session, const char *path, const struct session_changes *changes,
                                  struct resume_point *point, struct esper_error *error)
{
    TRY(run_open_to_train(&session->run, path, error));
    session->run_open = true;
    session->config = session->run.config;
    TRY(name_folder(session, error));
    TRY(resume_find(&session->run, session->folder, changes->from_scratch, point, error));
    memcpy(session->note, point->note, sizeof session->note);
    TRY(apply_changes(session, changes, error));
    return take_played(session, error);
}

static enum esper_status reopen_record(struct session *session, const struct session_changes *changes,
                                       const struct resume_point *point, struct esper_error *error)
{
    if (point->begins)
        TRY(file_make_directories(session->folder, error)); /* it may be gone with the checkpoints */
    TRY(settle_rounds(session, changes, error));
    TRY(open_record(session, changes->spans, point->begins ? NULL : &point->from, error));
    if (changes->from_scratch)
        TRY(checkpoint_clear(session->folder, error)); /* damaged ones would be the newest for ever */
    return ESPER_OK;
}

static enum esper_status resume_parts(struct session *session, const char *path, const struct session_changes *changes,
                                      struct esper_error *error)
{
    struct resume_point point = {0};
    struct group *group = session->group;
    const bool leads = session->leads;
    TRY(group_check(group, leads ? find_run(session, path, changes, &point, error) : ESPER_OK, error));
    group_tell(group, &session->config, sizeof session->config);
    group_tell(group, session->run.path, sizeof session->run.path);
    group_tell(group, &point.begins, sizeof point.begins);
    /* where another rank computes is said on its own command line */
    TRY(group_check(group, leads ? ESPER_OK : apply_changes(session, changes, error), error));
    TRY(open_engine(session, error));
    TRY(group_check(group, leads ? check_data(session, error) : ESPER_OK, error));
    TRY(restore(session, &point, error));
    TRY(group_check(group, leads ? reopen_record(session, changes, &point, error) : ESPER_OK, error));
    group_tell(group, &session->config, sizeof session->config);
    group_tell(group, &session->last_round, sizeof session->last_round);
    group_tell(group, point.from.path, sizeof point.from.path);
    join_run(session, point.begins ? NULL : strrchr(point.from.path, '/') + 1);
    const struct world *world = engine_world(session->engine);
    enum esper_status status = ESPER_OK;
    if (leads && !session_done(session))
        status = run_set_status(&session->run, RUN_RUNNING, *world->round - session->first_round, *world->step, error);
    return group_check(group, status, error);
}

enum esper_status session_resume(struct session **out, const char *path, const struct session_changes *changes,
                                 struct esper_error *error)
{
    struct session *session = make_session(changes->group, error);
    if (!session)
        return ESPER_FAILED;
    enum esper_status status = resume_parts(session, path, changes, error);
    if (status != ESPER_OK) {
        session_release(session);
        return status;
    }
    *out = session;
    return ESPER_OK;
}
