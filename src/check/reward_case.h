/*
 * A case of the reward vectors while it is checked: reading its numbers, comparing with them. The first thing that
 * makes a case unreadable is kept and fails it; so is the largest error.
 */
#ifndef CHECK_REWARD_CASE_H
#define CHECK_REWARD_CASE_H

#include "base/config.h"
#include "base/json.h"

#define CASE_TOLERANCE 1e-12 /* relative to max(1, |x|) */
#define CASE_GAMMA     0.995 /* of every case that does not say otherwise */

struct reward_case {
    const cJSON *json;
    struct config config; /* original rules, and what the case sets */
    double worst;         /* largest error in units of its tolerance */
    char worst_at[64];
    char problem[128]; /* what makes the case unreadable; "" while there is nothing */
};

void case_configure(struct reward_case *c);
void case_complain(struct reward_case *c, const char *what, const char *key);

/* Required members. A number may be null, which is NAN, or a boolean, which is 0 or 1. */
const cJSON *case_member(struct reward_case *c, const cJSON *object, const char *key);
double case_value(struct reward_case *c, const cJSON *value, const char *key);
double case_number(struct reward_case *c, const cJSON *object, const char *key);
int case_integer(struct reward_case *c, const cJSON *object, const char *key, int null_value);
const char *case_text(struct reward_case *c, const cJSON *object, const char *key);
int case_op(struct reward_case *c, const cJSON *object, const char *key);
const cJSON *case_list(struct reward_case *c, const cJSON *object, const char *key, int least, int most);
double case_item(struct reward_case *c, const cJSON *values, int index);
/* The numbers of a list; the caller frees them. */
double *case_numbers(struct reward_case *c, const cJSON *object, const char *key, int *count);

/* `object` holds the expected value under that key. */
void case_compare(struct reward_case *c, const cJSON *object, const char *key, double got);
void case_compare_list(struct reward_case *c, const cJSON *object, const char *key, const double *got, int count);
void case_compare_within(struct reward_case *c, const char *name, double got, double want, double tolerance);

/* The kinds of case that test one part alone (reward_parts.c). */
void check_attribution(struct reward_case *c, const cJSON *in);
void check_antithetic(struct reward_case *c, const cJSON *in);
void check_configurations(struct reward_case *c, const cJSON *in);
void check_drip(struct reward_case *c, const cJSON *in);
void check_hindsight(struct reward_case *c, const cJSON *in);
void check_normaliser(struct reward_case *c, const cJSON *in);
void check_pbrs(struct reward_case *c, const cJSON *in);
void check_outcome(struct reward_case *c, const cJSON *in);
void check_value_metrics(struct reward_case *c, const cJSON *in);

#endif
