/*
 * What an exam came to: a row per contestant, and a typed verdict per claim and price. Everything is about the net
 * score: the test score of the committed network minus what it costs, price x parameters beyond the bare host (and
 * reward.flop_price x training work). At price 0 it is the test score. Twins cancel between contestants that play the
 * same births, so the difference of two net scores is that of their objectives, with the test score in place of the
 * validation score that was optimised.
 */
#ifndef EXAM_SCORE_H
#define EXAM_SCORE_H

#include "exam/exam.h"
#include "telemetry/paired.h"

/* A contestant: the runs of one kind at one price (and, of schedules, one place), a run per training where it has any.
 */
struct exam_entry {
    enum exam_kind kind;
    int price, place; /* index of its price, place among the schedules; -1: none */
    char name[64];    /* "PPO at price 0.2", "conv_heavy@1 in all slots" */
    int runs;
    const struct exam_part *part[EXAM_SEEDS]; /* [runs] */
    struct interval test; /* of the test score: over trainings where it has some, otherwise over episodes */
    double iqm;           /* of the episodes' test scores */
    double gain;          /* mean of J at its price, or at price 0; NAN of a wider host, whose twin is another */
    double params, added; /* of the committed network, and beyond the bare host; means */
    double macs, work;    /* likewise: of a forward pass; training FLOPs in the bare host's */
    double seconds;       /* wall time of finding it, per training or search; NAN: there was nothing to find */
    double net[EXAM_PRICES];
};

/* The claims. CLAIM(NAME, name in JSON, the claim, the contestant it is made against). The last two are made on the
 * mean of all prices, of trainings that serve them all; the others at every price. */
#define EXAM_CLAIMS(CLAIM)                                                                                             \
    CLAIM(GROWTH, "growth", "growing beats not growing", EXAM_STATIC)                                                  \
    CLAIM(HEURISTIC, "heuristic", "learning beats the heuristic", EXAM_HEURISTIC)                                      \
    CLAIM(RATES, "op_rates", "learning beats random play at its op rates", EXAM_RATED)                                 \
    CLAIM(SCHEDULE, "schedule", "learning beats the best schedule of the catalogue", EXAM_SCHEDULE)                    \
    CLAIM(SEARCH, "search", "learning beats the searched schedule", EXAM_SEARCHED)                                     \
    CLAIM(WIDE_PARAMS, "wide_params", "growing beats a wider host of as many parameters", EXAM_WIDE_PARAMS)            \
    CLAIM(WIDE_WORK, "wide_work", "growing beats a wider host of as much training", EXAM_WIDE_WORK)                    \
    CLAIM(REPLAY, "replay", "growing beats its last topology from scratch", EXAM_REPLAY)                               \
    CLAIM(ONE_SCHEDULE, "one_schedule", "one policy beats the best single schedule", EXAM_SCHEDULE)                    \
    CLAIM(ONE_SEARCHED, "one_searched", "one policy beats the best searched schedule", EXAM_SEARCHED)

enum exam_claim {
#define EXAM_CLAIM(NAME, name, title, against) CLAIM_##NAME,
    EXAM_CLAIMS(EXAM_CLAIM)
#undef EXAM_CLAIM
        CLAIM_COUNT
};
enum { CLAIMS_AT_A_PRICE = CLAIM_ONE_SCHEDULE };
const char *exam_claim_name(enum exam_claim claim);
const char *exam_claim_title(enum exam_claim claim);

enum exam_finding { FINDING_EARNS, FINDING_FAILS, FINDING_UNDECIDED };
/* The whole interval above 0, the whole interval below 0, and everything else. */
enum exam_finding exam_finding_of(const struct interval *difference);
const char *exam_finding_title(enum exam_finding finding); /* "earns its rent", "does not", "undecided" */
const char *exam_finding_name(enum exam_finding finding);  /* for JSON and style sheets */

struct exam_verdict {
    enum exam_claim claim;
    int price; /* index; -1: on the mean of all prices */
    const struct exam_entry *against;
    bool paired;                /* the same births and images */
    double ppo, other;          /* net scores */
    struct interval difference; /* of them */
    enum exam_finding finding;
};

/* What there is to say about PPO at a price, besides verdicts. */
struct exam_ppo {
    const struct exam_entry *sampled, *greedy;
    struct interval net;           /* over training seeds */
    double of_seed[EXAM_SEEDS];    /* mean test score of each training's episodes */
    double near_bare;              /* share of its episodes that score less than 5 points above the bare host's mean */
    const struct exam_entry *best; /* the best known that grows the same host: schedules, searched, heuristic, random */
    double regret;                 /* its net score minus PPO's; below 0: PPO leads */
};

struct exam_result {
    const struct exam *exam;
    int entries, verdicts;
    struct exam_entry *entry;     /* best test score first */
    struct exam_verdict *verdict; /* by price, then by claim; last what is said of all prices */
    struct exam_ppo ppo[EXAM_PRICES];
    struct exam_point point[CATALOGUE_MAX]; /* [catalogue.count] */
    double rank_correlation;                /* of J (at price 0) and test score over these points */
    double seconds;                         /* of all runs */
};

/* All parts that are not left out must have their outcomes. The result points into the exam. */
enum esper_status exam_judge(const struct exam *exam, struct exam_result **out, struct esper_error *error);
void exam_result_free(struct exam_result *result);

#endif
