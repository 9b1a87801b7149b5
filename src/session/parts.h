/* A session from the inside: what opening one (open.c) and running it (session.c) share. */
#ifndef SESSION_PARTS_H
#define SESSION_PARTS_H

#include "base/group.h"
#include "engine/engine.h"
#include "session/behind.h"
#include "session/checkpoint.h"
#include "session/rank_times.h"
#include "session/resume.h"
#include "session/sampler.h"
#include "session/session.h"
#include "telemetry/recorder.h"

/* How long a checkpoint may wait for the record: a disk this slow delays the checkpoint's own sync, too. */
#define FLUSH_SECONDS 30.0

struct session {
    struct config config;
    struct group *group;    /* NULL: alone */
    bool leads;             /* it owns the run: directory, record and checkpoints; other ranks have none of those */
    bool stopping, stopped; /* somebody wants it to stop; all ranks have */
    bool asked;             /* for a meeting, to save */
    struct rank_times times;
    struct engine *engine;
    struct run run;
    struct recorder *recorder;
    bool run_open;
    char folder[PATH_MAX]; /* of checkpoints */
    char note[RESUME_NOTE];
    uint32_t first_round, last_round; /* numbers of the run's first round and of the one after its last */
    double round_start, saved_at;     /* clock */
    uint32_t round_start_step;        /* steps of the round that were done when this process resumed it */
    uint32_t saved_round, saved_step; /* the position of the newest checkpoint */
    bool unsaved, best_unsaved;       /* the last checkpoint, the best round's: could not be written */
    bool told_unsaved;                /* and this was reported */
    struct esper_error trouble;       /* why, the last time */
    struct behind *behind;            /* writes best.ckpt */
    struct sampler *sampler;          /* lets the best network write */
    struct outcome_record *outcomes;  /* [env] */
};

/* Tells the ranks from where the run goes on, should one of them be lost. `checkpoint` NULL: there is none yet. */
void session_words(struct session *session, const char *checkpoint);
/* Releases everything a session holds and the session itself; what was not written is lost. */
void session_release(struct session *session);
/* Lets the best network write, where that is wanted; what fails is a row that is missing. */
enum esper_status session_sample(struct session *session, struct esper_error *error);
/* The checkpoint's row in the record; an error if the file that was written is not to be seen. */
enum esper_status session_record_checkpoint(struct session *session, const char *file, const char *kind,
                                            const struct checkpoint_info *info, struct esper_error *error);

#endif
