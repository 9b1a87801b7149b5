/*
 * A session: a run from its first step to its last. It joins an engine with a run directory, a record and checkpoints,
 * and advances them one step at a time, so that its caller can show progress and stop at any step without losing one.
 *
 *     session_create(...) or session_resume(...);
 *     while (!session_done(session)) session_advance(session, &progress, &error);
 *     session_close(session, ...);
 */
#ifndef SESSION_SESSION_H
#define SESSION_SESSION_H

#include "base/config.h"
#include "learn/diagnostics.h"
#include "telemetry/record.h"

struct session;
struct group; /* the run's processes; NULL: this one alone (base/group.h) */

struct session_options {
    struct group *group; /* if not NULL, creating, advancing and closing is done by all ranks together */
    const char *runs;    /* the directory that contains the runs */
    const char *name;    /* NULL: made from time, task and seed */
    const char *command; /* the command line, for run.json */
    bool spans;          /* record the time of every env's part of a phase */
};

/* A new run. The configuration must have passed config_check. */
enum esper_status session_create(struct session **out, const struct config *config,
                                 const struct session_options *options, struct esper_error *error);

/* Continue a run from its newest intact checkpoint, or from its beginning if it ended before its first one. Only these
 * may differ from the run's configuration; 0 (threads: -1, texts: NULL) keeps the run's own value. */
struct session_changes {
    struct group *group;
    int rounds, threads;
    const char *device, *precision;
    bool spans;
    bool from_scratch; /* no checkpoint is left: begin again, and forget what the record holds */
};
enum esper_status session_resume(struct session **out, const char *path, const struct session_changes *changes,
                                 struct esper_error *error);

/* One line for the user (a damaged checkpoint that was skipped, rows that the record lacks), or "". */
const char *session_note(const struct session *session);
const char *session_path(const struct session *session); /* of the run directory */
const struct config *session_config(const struct session *session);
struct device_use;
const struct device_use *session_device(const struct session *session); /* where it computes (engine/choose.h) */
const char *session_kernels(const struct session *session);
int session_threads(const struct session *session);
int session_ranks(const struct session *session);

struct session_progress {
    uint32_t round, step; /* rounds done; steps done of the one in progress (0 after a round's last) */
    uint32_t twin_step;   /* steps done of its twins, which are played first; 0: they are not being played */
    double val_accuracy_mean, val_accuracy_best; /* of the step, percent */
    int stages[11];                              /* slots by stage, all envs */
    double env_steps_per_s;                      /* of the round so far */
    bool round_done;                             /* the step ended a round: the records below are filled */
    bool has_ppo;
    struct round_record record;
    struct update_report ppo;
    int alerts_standing;            /* raised and not cleared, in the rounds judged so far */
    int alert_count;                /* reported in this step */
    struct alert_record alerts[16]; /* newly raised ones */
    bool checkpoint_written;        /* in this step */
    char lessons[768];              /* with the round that ends them: what was found out, for the user; otherwise "" */
    char notice[512];               /* trouble with the run's files, or the reason for its end; "": none in this step */
};

bool session_done(const struct session *session);
/* Whether that many rounds are done. */
bool session_reached(const struct session *session, uint32_t rounds);
/* Somebody wants it to stop: true if it can at once. With many ranks it advances until all are at the same step, and
 * is stopped then. */
bool session_stop(struct session *session);
bool session_stopped(const struct session *session);
/* One step of all envs; at the end of a round also the update, the record and, when due, a checkpoint. */
enum esper_status session_advance(struct session *session, struct session_progress *progress,
                                  struct esper_error *error);
/* Save what is not saved, write the last status (finished or interrupted), release everything. */
enum esper_status session_close(struct session *session, struct esper_error *error);
/* Release without saving: after a failure. With many ranks, all end, and the leading one alone returns. */
void session_abandon(struct session *session, const struct esper_error *error);

/* Hash of the current training state: equal hashes, equal runs. */
uint64_t session_hash(const struct session *session);

#endif
