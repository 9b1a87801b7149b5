/*
 * The plan of a sweep: one task, some keys that vary (the axes), some seeds. A configuration takes one value of every
 * axis, from the grid or drawn at random; each of its seeds is a run. With halving, runs stop at rungs, and only the
 * best configurations go on. Everything about a run follows from the plan and the run's number, so that any number of
 * processes that hold the same plan agree without talking to each other.
 */
#ifndef SWEEP_PLAN_H
#define SWEEP_PLAN_H

#include "base/config.h"

enum {
    SWEEP_AXES = 16,
    SWEEP_VALUES = 64,
    SWEEP_VALUE = 128, /* longest value, NUL included */
    SWEEP_SEEDS = 1024,
    SWEEP_RUNS = 10000,
    SWEEP_RUNGS = 16,
    SWEEP_NAME = 94 /* longest name of a run, NUL included: there is room for ".failed" (run_check_name) */
};

/* What configurations are ranked by. Both are of validation: what is selected by test scores cannot be judged by them.
 */
#define SWEEP_OBJECTIVES(WORD, with)                                                                                   \
    WORD(with, SCORE, score)                                                                                           \
    WORD(with, VAL_ACCURACY, val_accuracy)
enum sweep_objective { SWEEP_OBJECTIVES(WORD_ENUM, OBJECTIVE) };

/* A key and what it may be: some values, or a range, evenly or in proportion. */
struct sweep_axis {
    int key;
    int count; /* of values; 0: a range */
    char values[SWEEP_VALUES][SWEEP_VALUE];
    bool log;
    double low, high;
    char range[SWEEP_VALUE]; /* as it was written */
};

struct sweep {
    struct config base; /* settled and checked; threads and device are those of whoever plays */
    int axis_count;
    struct sweep_axis axes[SWEEP_AXES];
    int random;  /* configurations drawn; 0: the whole grid */
    int halving; /* the share of configurations that goes on at each rung is 1 / this; 0: all are played to their end */
    int first_rung; /* rounds of the first one; 0: as few as make sense */
    int seed_count; /* 0: the base's */
    uint64_t seeds[SWEEP_SEEDS];
    enum sweep_objective objective;
    /* what follows from it (sweep_complete) */
    int configs, runs; /* runs: config x seed_count + seed */
    int rung_count;
    int rungs[SWEEP_RUNGS]; /* rounds done at each; the last is the end */
    bool numbered;          /* settings are too long, or too alike, to name the runs */
    uint32_t *draws;        /* [configs]: the number of the draw, which is the first that gave something new */
};

/* Parts of a plan, on top of a base that is there already. A list of values is begun once, and then added to. */
enum esper_status sweep_add_list(struct sweep *sweep, const char *key, struct esper_error *error);
enum esper_status sweep_add_value(struct sweep *sweep, const char *key, const char *text, struct esper_error *error);
/* "1..5", "log:1e-4..1e-2" */
enum esper_status sweep_add_range(struct sweep *sweep, const char *key, const char *text, struct esper_error *error);
/* "1..5" or "1,2,7" */
enum esper_status sweep_set_seeds(struct sweep *sweep, const char *text, struct esper_error *error);
bool sweep_add_seed(struct sweep *sweep, uint64_t seed); /* false: it is there, or there is no room */
enum esper_status sweep_set_objective(struct sweep *sweep, const char *word, struct esper_error *error);
const char *sweep_objective_word(enum sweep_objective objective);
/* Counts, rungs, draws; and whether every run's configuration is a valid one. */
enum esper_status sweep_complete(struct sweep *sweep, struct esper_error *error);
void sweep_free(struct sweep *sweep); /* of memory_alloc */

/* What a configuration has of an axis. */
void sweep_value(const struct sweep *sweep, int config, int axis, char text[SWEEP_VALUE]);
/* "ppo.lr=0.001 ppo.clip=0.1", "" where nothing but seeds varies. */
void sweep_settings(const struct sweep *sweep, int config, char *text, size_t size);
/* "lr-0.001_clip-0.1_s1" */
void sweep_name(const struct sweep *sweep, int run, char name[SWEEP_NAME]);
enum esper_status sweep_config(const struct sweep *sweep, int run, struct config *config, struct esper_error *error);

/* Env-steps that the whole is expected to take: with halving, as if every rung let pass just its share. */
long long sweep_env_steps(const struct sweep *sweep);

#endif
