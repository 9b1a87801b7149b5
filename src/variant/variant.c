#include "variant/variant.h"

#define DECLARE(name, runs_here) extern const struct variant variant_##name;
VARIANTS(DECLARE)

const struct variant *variant_at(int index)
{
#define COUNT_IF_USABLE(name, runs_here)                                                                               \
    if ((runs_here) && index-- == 0)                                                                                   \
        return &variant_##name;
    VARIANTS(COUNT_IF_USABLE)
    return NULL;
}

const struct variant *variant_best(void)
{
    return variant_at(0);
}
