/*
 * What an operator should know (T-04): one table of rules, shared by the trainer and all viewers, and the state machine
 * that turns a run's rows into alerts.
 *
 * A rule watches one number of a round. Once it has been bad for some rounds the alert is raised, as a warning or, when
 * it is worse, as critical; a warning that becomes worse is raised again. It is cleared after ALERTS_GOOD good rounds
 * in a row. A round in which the number is missing changes nothing; a number that is not finite counts as missing, and
 * has a rule for itself. Alerts depend only on the rows and the planned number of rounds: the same rows give the same
 * alerts in every program.
 *
 * A policy settles: it stops exploring because it knows what pays. Only the objective, the reward of an episode
 * averaged over ten rounds, tells that apart from a policy that gave up before it learned anything. Rules that `settle`
 * stay silent as long as the objective has not fallen, that is lost a third of its gain, and either has risen or has
 * had half of the planned rounds to do so.
 */
#ifndef TELEMETRY_ALERTS_H
#define TELEMETRY_ALERTS_H

#include <stdbool.h>

#include "telemetry/store.h"

enum { ALERTS_GOOD = 3, ALERTS_MAX = 48 };

struct alert_rule {
    const char *name;
    const char *text;      /* printf format of the number, for people */
    bool below;            /* low values are bad; otherwise high values are */
    double warn, critical; /* bad from here on; NAN: this severity is not used */
    int warn_rounds;       /* bad rounds until a warning */
    int critical_rounds;   /* and until it is critical; rounds that only deserve a warning neither count nor reset */
    int warm_up;           /* first rounds of a run in which the number means nothing yet */
    size_t figure;         /* offset of the number in the figures of alerts.c */
    bool settles;          /* not bad once the policy has settled */
};

extern const struct alert_rule alert_rules[];
extern const int alert_rule_count; /* at most ALERTS_MAX */
/* The rule of that name, which must exist. */
const struct alert_rule *alert_rule_named(const char *name);

struct alerts;

/* For a run of this many rounds. */
struct alerts *alerts_create(int64_t planned, struct esper_error *error);
void alerts_free(struct alerts *alerts);

/* Takes a row of the round in progress, in any order; rows of `step` may belong to later rounds, and rows that no rule
 * uses are ignored. */
void alerts_look(struct alerts *alerts, const struct record_row *row);
/* The round is over and all its rows have been seen: the alerts that it raises or clears. Returns how many. */
int alerts_judge(struct alerts *alerts, const struct round_record *round, struct alert_record out[ALERTS_MAX]);
/* Alerts that were raised and not cleared. */
int alerts_standing(const struct alerts *alerts);
int alerts_critical(const struct alerts *alerts); /* how many of them are critical */

/* For a resumed run: restores the state at the end of its record, with the rows of a round that was under way. */
enum esper_status alerts_restore(struct alerts *alerts, struct store *store, struct esper_error *error);
/* For alerts_restore, whatever was seen: sets the alert to what its row says; NULL: not raised. */
void alerts_recall(struct alerts *alerts, const struct alert_record *row);

#endif
