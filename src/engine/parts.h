/* The engine from the inside: what its phases share. */
#ifndef ENGINE_PARTS_H
#define ENGINE_PARTS_H

#include "base/group.h"
#include "base/pool.h"
#include "data/gather.h"
#include "engine/choose.h"
#include "engine/engine.h"
#include "engine/step.h"
#include "policy/script.h"
#include "search/belief.h"
#include "variant/variant.h"

/* A thread's workspace for the env that it processes. */
struct worker {
    struct net *net;
    void *memory;
};

struct engine;

/* Where the phases run. Each is a function over all envs; `world` is the host's. */
struct backend {
    void (*reset)(struct engine *engine); /* fresh episodes of *world->round, an empty rollout */
    void (*train)(struct engine *engine);
    void (*evaluate)(struct engine *engine);
    void (*twin)(struct engine *engine); /* keep what the bare step measured, and go on to the next one */
    void (*decide)(struct engine *engine);
    void (*ask)(struct engine *engine); /* what was observed, and what may be done, to the host */
    void (*act)(struct engine *engine, int env,
                const struct action *action);                    /* after that: instead of what was decided */
    const struct step_report *(*reports)(struct engine *engine); /* [env] of the last step */
    void (*apply)(struct engine *engine);
    void (*test)(struct engine *engine); /* fills test_accuracy and copies to the host what outcomes are made from */
    void (*update)(struct engine *engine, double progress, struct update_report *record,
                   struct head_report heads[HEAD_COUNT]);
    void (*fetch_env)(struct engine *engine, int env); /* an env's parameters to the host */
    void (*write)(struct engine *engine);              /* the host's world is now the valid one */
    void (*read)(struct engine *engine);               /* copy the world's saved rows to the host */
    void (*wait)(struct engine *engine);               /* until nothing is in progress */
};
extern const struct backend backend_cpu, backend_device;

struct engine {
    struct world *world;
    const struct backend *backend;
    const struct variant *kernels;
    const struct net_kernels *nets; /* the host family's */
    struct dataset *data;
    struct gather_table normalise;
    struct pool *pool;
    struct worker *workers; /* [threads] */
    struct net_rates rates;
    struct script script;          /* policy.kind = script */
    struct action *script_actions; /* [step][env of the run] its actions */
    struct schedule *schedules;    /* policy.kind = schedule */
    int schedule_count;
    char *schedule_text;        /* as the record has them, and */
    const char **schedule_name; /* [schedule_count] where each begins */
    struct belief belief;       /* lessons: of the schedules */
    uint32_t batches;

    struct device_use use;           /* where it computes, and in what */
    struct device *device;           /* NULL on the CPU */
    double device_zero;              /* clock_seconds when it was created */
    uint32_t steps_ahead;            /* steps enqueued whose reports have not been taken yet */
    const struct step_report *taken; /* the last that were */
    bool acted;                      /* some of step.actions are not what the device decided */

    /* many ranks (ranks.h) */
    struct group *group;  /* NULL: alone */
    struct world *whole;  /* of all envs, on rank 0: `world` itself if this process is alone; NULL on other ranks */
    struct ranks *ranks;  /* NULL: alone */
    double *all_accuracy; /* [env of the run] on the test images; NULL: alone */

    /* the record */
    struct recorder *recorder; /* NULL: none is kept, or another rank keeps it */
    bool keeps_seeds;          /* a row for every seed, in this or that record */
    bool spans;                /* every env's part of a phase is a separate span */
    double zero;               /* clock_seconds when the run was created */

    /* passed from one phase of a step to the next; none of it outlives the step */
    struct step step;
    struct slot_grads *grads;    /* [env][slot] of the step's last batch */
    struct shapley_sums *shares; /* [env] sampled at the last step; pairs = 0: not sampled */
    float *logits, *values;      /* [env][logits], [env] */
    double *test_accuracy;       /* [env] */
};

/* Run whole envs on the pool's threads, as a phase with this name. */
void engine_run(struct engine *engine, const char *name, void (*work)(void *engine, int env, int thread));

/* Rows of the table that outcomes, reports and progress are made from: small, and needed at the end of every round. */
bool engine_row_is_outcome(const struct table_row *row);
/* Copy rows between the host's world and the device's, where there is one. */
void engine_read_rows(struct engine *engine, bool (*wanted)(const struct table_row *row));
void engine_write_rows(struct engine *engine, bool (*wanted)(const struct table_row *row));

/* Must the step's evaluation also yield the seeds' shares, for the record of a finished episode? */
bool engine_wants_shares(const struct engine *engine);

/* Lessons: what envs may try, once; what each plays in the round that begins; what the round's episodes came to. */
enum esper_status lessons_load(struct engine *engine, struct esper_error *error);
void lessons_draw(struct engine *engine);
void lessons_keep(struct engine *engine, const struct outcome_record *outcomes);

/* The CPU's phases that have their own files. */
void decide_cpu(struct engine *engine);
void act_cpu(struct engine *engine, int env, const struct action *action);
void apply_cpu(struct engine *engine);

#endif
