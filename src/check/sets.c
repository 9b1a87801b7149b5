#include "check/numeric.h"
#include "variant/variant.h"

#ifdef FEW_VARIANTS
#define CHECKED(SET) VARIANTS(SET)
#else
#define CHECKED(SET) VARIANTS(SET) SET(double, true) /* for the gradient checks only */
#endif

#define DECLARE(name, runs_here) extern const struct numeric_checks checks_##name;
CHECKED(DECLARE)

const struct numeric_checks *numeric_checks_at(int index)
{
#define COUNT_IF_USABLE(name, runs_here)                                                                               \
    if ((runs_here) && index-- == 0)                                                                                   \
        return &checks_##name;
    CHECKED(COUNT_IF_USABLE)
    return NULL;
}
