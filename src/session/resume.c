#include "session/resume.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/memory.h"
#include "engine/emit.h"
#include "telemetry/store.h"

/* Rounds done, and steps done of the next. */
struct position {
    uint32_t round, step;
};

static bool is_before(struct position a, struct position b)
{
    return a.round != b.round ? a.round < b.round : a.step < b.step;
}

static bool is_start(struct position at)
{
    return at.round == 0 && at.step == 0;
}

/* What the run's files say of its progress. */
struct evidence {
    bool has_checkpoint;      /* an intact one */
    bool passed_over;         /* it is not the newest, and this was noted */
    struct run_status status; /* all zero if status.json is lost */
    struct store_reach reach;
    struct position saved; /* where the run was saved last, as far as status and record know */
};

__attribute__((format(printf, 2, 3))) static void add_note(struct resume_point *point, const char *format, ...)
{
    size_t used = strlen(point->note);
    if (used) {
        snprintf(point->note + used, RESUME_NOTE - used, "; ");
        used = strlen(point->note);
    }
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(point->note + used, RESUME_NOTE - used, format, arguments);
    va_end(arguments);
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

/* A status that is lost is no reason to stop: the checkpoints and the record say the same. */
static enum esper_status read_status(const struct run *run, struct evidence *evidence, struct resume_point *point,
                                     struct esper_error *error)
{
    struct esper_error problem = {0};
    enum esper_status status = run_get_status(run, &evidence->status, &problem);
    if (status == ESPER_OK)
        return ESPER_OK;
    if (status != ESPER_INVALID)
        return error_set(error, status, "%s", problem.text);
    evidence->status = (struct run_status){0};
    add_note(point, "%.300s; it is written anew", problem.text);
    return ESPER_OK;
}

/* Damaged ones, where the user wants none of them, are as good as gone. */
static enum esper_status read_checkpoints(const char *folder, bool from_scratch, struct evidence *evidence,
                                          struct resume_point *point, struct esper_error *error)
{
    struct checkpoint_info *list;
    struct stat info;
    char note[512];
    int count;
    if (lstat(folder, &info) != 0 && errno == ENOENT)
        return ESPER_OK;
    TRY(checkpoint_list(folder, &list, &count, error));
    memory_free(list);
    if (count == 0)
        return ESPER_OK;
    enum esper_status status = checkpoint_newest(folder, &point->from, note, error);
    if (status == ESPER_INVALID && from_scratch)
        return ESPER_OK;
    TRY(status);
    evidence->has_checkpoint = true;
    evidence->passed_over = *note;
    if (*note)
        add_note(point, "%s", note);
    return ESPER_OK;
}

static enum esper_status read_record(const struct run *run, struct evidence *evidence, const struct resume_point *point,
                                     struct esper_error *error)
{
    struct position from = {0};
    if (evidence->has_checkpoint)
        from = (struct position){point->from.round, point->from.step};
    bool keeps_steps = run->config.telemetry != TELEMETRY_OFF;
    return store_reach(run, from.round, keeps_steps ? emit_last_kept(from.round, from.step) : 0, &evidence->reach,
                       error);
}

/* A run that was stopped or came to its end was saved there. */
static void find_saved(struct evidence *evidence)
{
    const struct run_status *status = &evidence->status;
    struct position ended = {status->round, status->step};
    evidence->saved = (struct position){evidence->reach.saved_round, evidence->reach.saved_step};
    if ((status->state == RUN_FINISHED || status->state == RUN_INTERRUPTED) && is_before(evidence->saved, ended))
        evidence->saved = ended;
}

/* ---- comparing --------------------------------------------------------------------------------------------------- */

/* No checkpoint is right for a run that was killed before its first one was due, and for no other. */
static enum esper_status compare_without(const struct run *run, const char *folder, const struct evidence *evidence,
                                         bool from_scratch, struct resume_point *point, struct esper_error *error)
{
    long long recorded = evidence->reach.rounds, done = evidence->status.round;
    if (done < recorded)
        done = recorded;
    bool had_one = !is_start(evidence->saved) || done > run->config.checkpoint.rounds;
    if (had_one && !from_scratch)
        return error_set(
            error, ESPER_INVALID,
            "%.120s: %lld rounds were done, but %.120s holds no checkpoint; put them back, or forget those "
            "rounds and begin again with: esper train --resume %.120s --from-scratch",
            run->path, done > evidence->saved.round ? done : evidence->saved.round, folder, run->path);
    point->begins = true;
    if (done > 0 && !from_scratch)
        add_note(point, "%.200s ended before its first checkpoint: its %lld rounds are played again", run->path, done);
    return ESPER_OK;
}

/* Rows that are gone for good: their rounds are not played again. */
static void note_gap(const struct store_reach *reach, struct resume_point *point)
{
    long long first = round_shown(reach->first_missing), last = round_shown(reach->last_missing);
    if (reach->missing == 0)
        return;
    if (first == last)
        add_note(point, "the record lacks rows of round %lld, which is not played again", first);
    else if (reach->missing == last - first + 1)
        add_note(point, "the record lacks rows of rounds %lld to %lld, which are not played again", first, last);
    else
        add_note(point, "the record lacks rows of %lld rounds from %lld to %lld, which are not played again",
                 (long long)reach->missing, first, last);
}

static enum esper_status compare_with(const struct run *run, const struct evidence *evidence, bool from_scratch,
                                      struct resume_point *point, struct esper_error *error)
{
    struct position from = {point->from.round, point->from.step};
    const char *file = strrchr(point->from.path, '/') + 1;
    if (from_scratch)
        return error_set(error, ESPER_INVALID,
                         "--from-scratch: %.200s can go on from %s; leave --from-scratch out, or train a new run",
                         run->path, file);
    if (is_before(from, evidence->saved) && !evidence->passed_over) {
        char name[32];
        checkpoint_name(evidence->saved.round, evidence->saved.step, name);
        add_note(point, "there is no checkpoint %s, where the run was saved last; resuming from %s", name, file);
    }
    note_gap(&evidence->reach, point);
    return ESPER_OK;
}

enum esper_status resume_find(const struct run *run, const char *folder, bool from_scratch, struct resume_point *point,
                              struct esper_error *error)
{
    struct evidence evidence = {0};
    *point = (struct resume_point){0};
    TRY(read_checkpoints(folder, from_scratch, &evidence, point, error));
    TRY(read_status(run, &evidence, point, error));
    TRY(read_record(run, &evidence, point, error));
    find_saved(&evidence);
    return evidence.has_checkpoint ? compare_with(run, &evidence, from_scratch, point, error)
                                   : compare_without(run, folder, &evidence, from_scratch, point, error);
}
