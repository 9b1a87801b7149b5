/*
 * The reward rules against golden vectors: a JSON list of cases of the documented format, whatever their
 * number and values. Every case adds one result to the report, named by its id; a number that is missing or of the
 * wrong type fails the case.
 */
#ifndef CHECK_REWARD_VECTORS_H
#define CHECK_REWARD_VECTORS_H

#include "base/json.h"
#include "check/report.h"

void check_reward_vectors(const cJSON *json, struct check_report *report);

#endif
