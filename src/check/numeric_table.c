#include "check/numeric.h"

#define TEXT_OF(x) #x
#define NAME_OF(x) TEXT_OF(x)

/* The only symbol of a set of checks that the rest of the program sees; the Makefile names it. */
extern const struct numeric_checks CHECK_TABLE;

const struct numeric_checks CHECK_TABLE = {
    .name = NAME_OF(VARIANT),
    .cases = check_cases,
    .vectors = check_numeric_vectors,
};
