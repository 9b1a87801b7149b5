/* The results of a bench run for programs: as JSON (read by bench/torch_peer.py) and as CSV (bench/results/). */
#ifndef BENCH_RESULTS_H
#define BENCH_RESULTS_H

#include <cjson/cJSON.h>

#include "bench/loops.h"
#include "bench/suite.h"

/* Release with cJSON_Delete; NULL when memory runs out. */
cJSON *results_json(const struct suite *suite);

cJSON *results_loops_json(const struct loops *loops);

/* One row per figure: kind,name,what,threads,value,unit,of_roof. The file is replaced as a whole. */
enum esper_status results_write_csv(const struct suite *suite, const char *path, struct esper_error *error);
enum esper_status results_write_loops_csv(const struct loops *loops, const char *path, struct esper_error *error);

#endif
