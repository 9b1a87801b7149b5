/*
 * One case, many backends: a case gives its answer as named arrays of doubles on whatever computes it, and the answers
 * of a backend are compared with those that the CPU's kernels give in double precision.
 */
#ifndef CHECK_ANSWERS_H
#define CHECK_ANSWERS_H

#include <stdbool.h>
#include <stddef.h>

#include "check/report.h"

/* What an array holds decides how far it may be off. */
enum answer_kind {
    ANSWER_INPUT,     /* what the case was computed from; not compared */
    ANSWER_VALUES,    /* losses, logits, states */
    ANSWER_GRADIENTS, /* and momenta */
    ANSWER_STEPS,     /* how far parameters moved: most of their digits are those of where they were */
    ANSWER_STATS,     /* running statistics */
    ANSWER_COUNTS,    /* of correct answers; flags */
    ANSWER_KINDS
};

struct answer {
    char name[64];
    enum answer_kind kind;
    size_t count;
    double *value;
    double floor; /* a norm below which all is rounding: differences are relative to this at least */
};

enum { ANSWERS_MAX = 96 };

struct answers {
    char name[64], group[64]; /* of the case, and of several cases of which a backend lacks all or none */
    int count;
    bool sensitive; /* few channels or many blocks, whose gradients bf16 disturbs more: a rough backend may err more */
    bool failed;    /* not enough memory */
    struct answer item[ANSWERS_MAX];
};

struct net_shape;

/* Who computes: a row of the summary. */
struct check_backend {
    const char *name;
    bool (*takes)(const struct net_shape *shape, int images); /* the hosts it has kernels for; NULL: every host */
    bool rough;                 /* keeps no logits, does not evaluate a given batch, nor cut off a blended seed */
    bool slow;                  /* an emulated device: takes none of the large cases */
    double limit[ANSWER_KINDS]; /* of differences in the Euclidean norm, relative except for counts */
};

/* The limits of fp32: sums in another order. */
#define BACKEND_FP32                                                                                                   \
    {                                                                                                                  \
        0, 1e-5, 5e-5, 2e-3, 1e-5, 0                                                                                   \
    }
/* bf16 keeps eight bits, and a seed's gradient over few images is a sum in which much cancels. */
#define BACKEND_BF16                                                                                                   \
    {                                                                                                                  \
        0, 1e-2, 0.35, 0.35, 1e-2, 1                                                                                   \
    }
#define ROUGH_SENSITIVE 1.7 /* times as much where the network is sensitive */

/* Zeroed values to fill in; NULL, with `failed` set, where there is no memory. */
double *answers_add(struct answers *answers, enum answer_kind kind, double floor, size_t count, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
const struct answer *answers_find(const struct answers *answers, const char *name);
void answers_free(struct answers *answers);

/* How far an array is off: the norm of the difference, relative to that of what was wanted. */
double answer_distance(const struct answer *got, const struct answer *want);

/* Every array of `want`. One that is missing fails, but for the logits and evaluations of a rough backend. */
void answers_compare(struct check_report *report, const char *table, const struct check_backend *backend,
                     const struct answers *got, const struct answers *want);

enum answer_status { ANSWER_GIVEN, ANSWER_LACKED, ANSWER_END };

/* A row of the case table. */
struct numeric_case {
    const char *name;
    void (*run)(struct check_report *report, const char *name); /* checks itself, or: */
    /* ... many cases, which give their answers. Without a backend: their names alone. */
    enum answer_status (*answer)(const struct check_backend *backend, int index, struct answers *answers);
    bool wide_only; /* meaningful in double only */
};

#endif
