/*
 * An exam: everything that a claim about learning needs, as a list of runs. PPO is trained at several seeds and prices,
 * or, where episodes draw their prices (mixed.price_least), at several seeds for all prices at once, or its policies
 * come from another exam (exam/policies.h). It and every control play the same reported episodes, those of the exam's
 * seed S. Training seeds are S+1, S+2, ...; whatever is selected (the best schedules, the searched one) is selected on
 * other episodes, those of seed S+1000. The runs are listed in an order in which each finds what it builds on; parts
 * whose configuration follows from outcomes are completed when their turn comes.
 */
#ifndef EXAM_EXAM_H
#define EXAM_EXAM_H

#include "search/search.h"
#include "telemetry/record.h"

enum {
    EXAM_SEEDS = 32,
    EXAM_PRICES = 8,
    EXAM_SCHEDULES = 12,  /* of the catalogue that play the reported episodes, at most */
    EXAM_ENVS = 32,       /* side by side in an evaluation */
    EXAM_SELECTION = 1000 /* what is added to the seed of the episodes on which selections are made */
};

/* The kinds of runs. KIND(NAME, name in JSON, what people read) */
#define EXAM_KINDS(KIND)                                                                                               \
    KIND(CATALOGUE, "catalogue", "the catalogue on the selection episodes")                                            \
    KIND(SEARCH, "search", "a search on selection episodes")                                                           \
    KIND(SCHEDULE, "schedule", "a schedule of the catalogue")                                                          \
    KIND(SEARCHED, "searched", "the searched schedule")                                                                \
    KIND(TRAINING, "training", "PPO learns")                                                                           \
    KIND(PPO, "ppo", "PPO")                                                                                            \
    KIND(GREEDY, "ppo_greedy", "PPO, greedy")                                                                          \
    KIND(STATIC, "static", "the bare host")                                                                            \
    KIND(HEURISTIC, "heuristic", "the heuristic")                                                                      \
    KIND(RANDOM, "random", "random play")                                                                              \
    KIND(RATED, "random_rates", "random play at PPO's op rates")                                                       \
    KIND(WIDE_PARAMS, "wide_params", "a wider host, as many parameters")                                               \
    KIND(WIDE_WORK, "wide_work", "a wider host, as much training")                                                     \
    KIND(REPLAY, "replay", "PPO's topology from scratch")

enum exam_kind {
#define EXAM_KIND(NAME, name, title) EXAM_##NAME,
    EXAM_KINDS(EXAM_KIND)
#undef EXAM_KIND
        EXAM_KIND_COUNT
};
const char *exam_kind_name(enum exam_kind kind);  /* for JSON */
const char *exam_kind_title(enum exam_kind kind); /* for people */
/* Whether it plays the reported episodes. */
bool exam_kind_reported(enum exam_kind kind);

struct exam_policies;

struct exam_setup {
    struct config config;                 /* the task's */
    const struct exam_policies *policies; /* one a seed, from elsewhere; NULL: PPO is trained on this task */
    int seeds, prices;
    double price[EXAM_PRICES]; /* points per 1000 parameters */
    int episodes;              /* reported ones of each policy, rounded up to whole rounds */
    int catalogue_episodes;    /* selection episodes of each schedule */
};

struct exam_part {
    enum exam_kind kind;
    int price, training, place; /* index of its price, training seed, and place among the schedules; -1: none */
    char name[48];              /* of the run, or of a search's folder */
    struct config config;
    struct schedule schedule; /* of SCHEDULE and SEARCHED */
    long long env_steps;
    bool left_out;  /* a place that no schedule took */
    bool elsewhere; /* a training in the folder of the policies, which is not played here */
    bool widest;    /* a wider host that should have been wider still */
    double seconds; /* wall time */
    int count;
    struct outcome_record *outcomes; /* [count], by round and env; of a search: none */
};

struct exam {
    struct exam_setup setup; /* rounded, under the objective `gain` */
    struct catalogue catalogue;
    struct search *search[EXAM_PRICES];
    int best[EXAM_PRICES]; /* place of the schedule that was best on the selection episodes */
    int best_of_all;       /* likewise on the mean of all prices */
    struct exam_part *parts;
    int count;
    bool other_mode; /* the task has another objective */
};

enum esper_status exam_create(struct exam **out, const struct exam_setup *setup, struct esper_error *error);
void exam_free(struct exam *exam);

/* NULL: there is none. */
struct exam_part *exam_find(const struct exam *exam, enum exam_kind kind, int price, int training, int place);
/* The seed of a training. */
uint64_t exam_seed(const struct exam_setup *setup, int training);
/* Whether a training serves all prices: its episodes draw them, or it knows nothing of this exam's. */
bool exam_one_policy(const struct exam *exam);
/* The training behind a part of PPO's. */
const struct exam_part *exam_training_of(const struct exam *exam, const struct exam_part *part);
/* "5 times at each of 2 prices", "5 times on quickstart, not on this task": how PPO was. */
void exam_trained(const struct exam *exam, char *text, size_t size);
/* Of all parts that are not left out. */
long long exam_env_steps(const struct exam *exam);
/* Takes a copy of a run's outcomes. */
enum esper_status exam_take(struct exam_part *part, const struct outcome_record *outcomes, int count, double seconds,
                            struct esper_error *error);

/* An outcome's worth at a price: J, and the net score, which has the committed network's test score in place of
 * its lead over the twin. `bare` are the parameters of the task's host and `work` is the training work of the outcome's
 * own host in those of that one. */
double exam_objective(const struct reward_config *reward, double price, const struct outcome_record *outcome);
double exam_net_score(const struct reward_config *reward, double price, long long bare, double work,
                      const struct outcome_record *outcome);

/* The catalogue's schedules on the selection episodes [catalogue.count]: means; `gain` is J at price 0. */
struct exam_point {
    double test, gain, params, macs, work;
};
void exam_catalogue_points(const struct exam *exam, struct exam_point *points);

/* Completed by what was played before them. */
void exam_choose_schedules(struct exam *exam);                         /* after the catalogue */
void exam_take_winner(struct exam *exam, int price);                   /* after the search: SEARCHED */
void exam_widen_host(const struct exam *exam, struct exam_part *part); /* after PPO at the first price: WIDE_* */
/* After its training: REPLAY. A training whose best network has no fossils leaves nothing to replay but the bare host.
 */
void exam_replay_training(const struct exam *exam, struct exam_part *part);

/* The training work of a configuration's host in that of another's. */
double exam_host_work(const struct config *config, const struct config *bare);
long long exam_host_params(const struct config *config);

#endif
