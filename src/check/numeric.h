/*
 * Checks of the numeric code. They look inside it, so each set of checks is linked with its own copy of the kernels it
 * checks, object for object what training uses, and never with those of training.
 */
#ifndef CHECK_NUMERIC_H
#define CHECK_NUMERIC_H

#include <stdbool.h>

#include "check/answers.h"

struct st_file;

/* The case table: operations against plain reference loops, gradients against finite differences (double precision),
 * networks and policies against the answers in double precision. Ends with a row without a name. */
extern const struct numeric_case numeric_case_table[];

/* A file of golden vectors of the given kind; false when this part does not know the kind. */
bool check_numeric_vectors(const struct st_file *file, const char *kind, struct check_report *report);

/* What the rest of the program sees of them: one set for each variant, and one with `real = double`. */
struct numeric_checks {
    struct check_backend backend;
    bool wide; /* computes in double: the reference of the others */
    const struct numeric_case *cases;
    bool (*vectors)(const struct st_file *file, const char *kind, struct check_report *report);
};

/* The sets that this machine can run; NULL past the end. */
const struct numeric_checks *numeric_checks_at(int index);

#endif
