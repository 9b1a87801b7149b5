#include "check/numeric.h"
#include "nn/real.h"

#define TEXT_OF(x) #x
#define NAME_OF(x) TEXT_OF(x)

/* The only symbol of a set of checks that the rest of the program sees; the Makefile names it. */
extern const struct numeric_checks CHECK_TABLE;

const struct numeric_checks CHECK_TABLE = {
    .backend = {.name = NAME_OF(VARIANT), .limit = BACKEND_FP32},
    .wide = sizeof(real) == sizeof(double),
    .cases = numeric_case_table,
    .vectors = check_numeric_vectors,
};
