#include "morph/layout.h"

#include <string.h>

#include "morph/birth.h"

void layout_add(struct param_layout *layout, const char *name, int fan_in, float value, int dims, const int shape[])
{
    struct tensor_layout *t = &layout->tensor[layout->count++];
    *t = (struct tensor_layout){
        .name = name, .dims = dims, .offset = layout->storage, .size = 1, .fan_in = fan_in, .value = value};
    for (int i = 0; i < 4; i++) {
        t->shape[i] = i < dims ? shape[i] : 1;
        t->size *= (size_t)t->shape[i];
    }
    layout->params += t->size;
    layout->storage += (t->size + LAYOUT_ALIGN - 1) / LAYOUT_ALIGN * LAYOUT_ALIGN;
}

void layout_add_normal(struct param_layout *layout, const char *name, double deviation, int dims, const int shape[])
{
    layout_add(layout, name, 0, 0, dims, shape);
    layout->tensor[layout->count - 1].deviation = (float)deviation;
}

int layout_find(const struct param_layout *layout, const char *name)
{
    for (int i = 0; i < layout->count; i++)
        if (strcmp(layout->tensor[i].name, name) == 0)
            return i;
    return -1;
}

void layout_init(const struct param_layout *layout, uint64_t seed, int stream, uint32_t round, uint32_t env,
                 uint32_t a0, float *params)
{
    layout_fill(layout, random_at(seed, (enum random_stream)stream, round, env, a0), 0, 1, params);
}
