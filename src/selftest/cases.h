/* The case table on one backend after the other. */
#ifndef SELFTEST_CASES_H
#define SELFTEST_CASES_H

#include "check/answers.h"

typedef enum answer_status (*answer_function)(const struct check_backend *backend, const char *table, int index,
                                              struct answers *answers);

/* Every row of the table on a backend that only answers: what it lacks is said by name. */
void cases_on_backend(struct check_report *report, const struct check_backend *backend, answer_function answer);

#endif
