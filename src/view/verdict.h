/*
 * Is this run healthy, and can conclusions be drawn from it? Computed here once for page, report and terminal (T-07).
 * Five gates look at the record's last ten rounds; the state follows from them:
 *   blocked        something broke: critical rows lost, numbers not finite, or the trainer died
 *   watch          a gate needs a look
 *   collecting     fewer than 10 episodes
 *   interpretable  none of these
 */
#ifndef VIEW_VERDICT_H
#define VIEW_VERDICT_H

#include "telemetry/query.h"

enum verdict_state { VERDICT_INTERPRETABLE, VERDICT_COLLECTING, VERDICT_WATCH, VERDICT_BLOCKED };
enum gate_state { GATE_PASS, GATE_WATCH, GATE_FAIL, GATE_UNKNOWN };
enum { VERDICT_GATES = 5, VERDICT_TEXT = 224 };

struct verdict_gate {
    const char *name;  /* data, numerics, policy, critic or lifecycle */
    const char *title; /* the question it answers */
    enum gate_state state;
    char text[VERDICT_TEXT]; /* one line, numbers with their units */
};

struct verdict {
    enum verdict_state state;
    char text[VERDICT_TEXT];  /* why, one line */
    char trend[VERDICT_TEXT]; /* whether it learns: first rounds compared with last ones, one line */
    struct verdict_gate gates[VERDICT_GATES];
};

enum esper_status verdict_of(struct query *query, const struct run *run, const struct run_status *status,
                             struct verdict *verdict, struct esper_error *error);

const char *verdict_state_name(enum verdict_state state); /* "interpretable", "collecting", "watch", "blocked" */
const char *gate_state_name(enum gate_state state);       /* "pass", "watch", "fail", "unknown" */

#endif
