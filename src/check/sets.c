#include "check/numeric.h"
#include "variant/variant.h"

#define DECLARE(name, runs_here) extern const struct numeric_checks checks_##name;
VARIANTS(DECLARE)
DECLARE(double, true)

const struct numeric_checks *numeric_checks_at(int index)
{
#define COUNT_IF_USABLE(name, runs_here)                                                                               \
    if ((runs_here) && index-- == 0)                                                                                   \
        return &checks_##name;
    VARIANTS(COUNT_IF_USABLE)
    COUNT_IF_USABLE(double, true)
    return NULL;
}
