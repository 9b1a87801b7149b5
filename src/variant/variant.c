#include "variant/variant.h"

#include <stdlib.h>
#include <string.h>

#include "base/words.h"

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

static const struct variant *variant_named(const char *name)
{
    int i = 0;
    while (variant_at(i) && strcmp(variant_at(i)->name, name) != 0)
        i++;
    return variant_at(i);
}

const struct variant *variant_best(void)
{
    const char *name = getenv("ESPER_KERNELS");
    const struct variant *named = name ? variant_named(name) : NULL;
    return named ? named : variant_at(0);
}

enum esper_status variant_check(struct esper_error *error)
{
    const char *name = getenv("ESPER_KERNELS"), *names[8];
    int count = 0;
    if (!name || variant_named(name))
        return ESPER_OK;
    for (const struct variant *variant; count < 8 && (variant = variant_at(count)); count++)
        names[count] = variant->name;
    return error_set(error, ESPER_INVALID, "ESPER_KERNELS = %.40s: no kernels that this machine runs%s", name,
                     word_hint(name, names, count, NULL).text);
}
