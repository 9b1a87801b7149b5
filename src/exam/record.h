/* What an exam asks the records of its runs besides their outcomes. */
#ifndef EXAM_RECORD_H
#define EXAM_RECORD_H

#include "base/config.h"

/* Wall time of a run's rounds. */
enum esper_status exam_ask_seconds(const char *path, double *seconds, struct esper_error *error);
/* How often a policy chose each op where it was allowed to: the rates for random play that does as much as it does,
 * without its reasons. Of a sampled evaluation, which has no floors: an op of probability 0 was not allowed. */
enum esper_status exam_ask_rates(const char *path, double rate[OP_COUNT], struct esper_error *error);

#endif
