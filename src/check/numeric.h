/* Checks of the numeric code, compiled into every variant. */
#ifndef CHECK_NUMERIC_H
#define CHECK_NUMERIC_H

#include <stdbool.h>

#include "check/report.h"

struct st_file;

/* The case table: operations against plain reference loops, gradients against finite differences (double variant). */
void check_cases(struct check_report *report);

/* A file of golden vectors of the given kind; false when this part does not know the kind. */
bool check_numeric_vectors(const struct st_file *file, const char *kind, struct check_report *report);

#endif
