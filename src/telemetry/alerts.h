/*
 * What an operator should be told (T-04): one table of rules for the trainer and all who watch it, and
 * the state machine that turns a run's rows into alerts.
 *
 * A rule watches one number of a round. Once it has been bad for some rounds the alert is raised, as a warning or, when
 * it is worse, as critical; a warning that becomes worse is raised again. It is cleared after ALERTS_GOOD good rounds
 * in a row. A round in which the number is missing changes nothing; what is not finite is not a number, and there is a
 * rule for that. The rows and the planned number of rounds are all that counts: the same rows give the same alerts,
 * whoever looks at them.
 *
 * A policy settles: it stops exploring because it knows what pays. That looks like one that gave up before it learned
 * anything, but for the objective, which is the reward of an episode, in the mean of ten rounds. Rules that `settle`
 * hold their tongue while it has not fallen, that is lost a third of what was gained, and either has risen or has had
 * half of the planned rounds to do so.
 */
#ifndef TELEMETRY_ALERTS_H
#define TELEMETRY_ALERTS_H

#include <stdbool.h>

#include "telemetry/store.h"

enum { ALERTS_GOOD = 3, ALERTS_MAX = 48 };

struct alert_rule {
    const char *name;
    const char *text;      /* printf format of the number, for people */
    bool below;            /* it is bad down there, else up there */
    double warn, critical; /* bad from here on; NAN: there is no such severity */
    int warn_rounds;       /* bad rounds until a warning */
    int critical_rounds;   /* and until it is critical; rounds that are only a warning do not count, nor reset */
    int warm_up;           /* first rounds of a run in which the number means nothing yet */
    size_t figure;         /* where alerts.c has the number */
    bool settles;          /* not bad once the policy has settled */
};

extern const struct alert_rule alert_rules[];
extern const int alert_rule_count; /* at most ALERTS_MAX */
/* The rule of that name; it must be there. */
const struct alert_rule *alert_rule_named(const char *name);

struct alerts;

/* For a run of so many rounds. */
struct alerts *alerts_create(int64_t planned, struct esper_error *error);
void alerts_free(struct alerts *alerts);

/* A row of the round in progress, in any order; rows of `step` may be of later ones, and rows that no rule asks for are
 * welcome. */
void alerts_look(struct alerts *alerts, const struct record_row *row);
/* The round is over and all its rows were seen: what is raised or cleared by it. Returns how many. */
int alerts_judge(struct alerts *alerts, const struct round_record *round, struct alert_record out[ALERTS_MAX]);
/* Alerts that were raised and not cleared. */
int alerts_standing(const struct alerts *alerts);
int alerts_critical(const struct alerts *alerts); /* critical ones of them */

/* A run goes on: become what they were when its record ended, with the rows of a round that was under way. */
enum esper_status alerts_restore(struct alerts *alerts, struct store *store, struct esper_error *error);
/* For it, whatever was seen: the alert stands as its row says; NULL: none does. */
void alerts_recall(struct alerts *alerts, const struct alert_record *row);

#endif
