/* What an operator should be told of a round, in a few words each. */
#ifndef ENGINE_ALERTS_H
#define ENGINE_ALERTS_H

#include "telemetry/record.h"

enum { ALERTS_MAX = 4, ALERT_TEXT = 96 };

/* Fills at most ALERTS_MAX lines, the worst first; returns how many. ppo NULL: nothing was learned. */
int alerts_of_round(const struct round_record *round, const struct ppo_record *ppo,
                    char alerts[ALERTS_MAX][ALERT_TEXT]);

#endif
