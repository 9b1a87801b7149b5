/* Memory handed out piece by piece, each aligned to 64 bytes. With base NULL it only counts. */
#ifndef NN_BUMP_H
#define NN_BUMP_H

#include <stddef.h>

struct bump {
    char *base;
    size_t used;
};

static inline void *bump_take(struct bump *bump, size_t count, size_t size)
{
    size_t at = (bump->used + 63) / 64 * 64;
    bump->used = at + count * size;
    return bump->base ? bump->base + at : NULL;
}

#endif
