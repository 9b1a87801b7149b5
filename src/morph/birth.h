/*
 * How parameters are initialised: from N(0, deviation), uniform in +-1/sqrt(fan_in) or a constant, tensor by tensor,
 * each number a function of its position alone. So any thread can fill any part of a tensor, and the gaps between
 * tensors are zero.
 */
#ifndef MORPH_BIRTH_H
#define MORPH_BIRTH_H

#include "base/normal.h"
#include "base/philox.h"
#include "morph/layout.h"

struct tensor_birth {
    uint32_t offset, size; /* floats, from the start of the layout */
    float deviation;       /* above 0: normal */
    int32_t fan_in;        /* above 0: uniform */
    float value;
};

/* The tensors of a seed or of a gate net. */
struct birth {
    int count;
    uint32_t params, storage; /* as in struct param_layout */
    struct tensor_birth tensor[LAYOUT_TENSORS];
};

ESPER_RULE struct tensor_birth tensor_birth_of(const struct tensor_layout *layout)
{
    struct tensor_birth tensor = {(uint32_t)layout->offset, (uint32_t)layout->size, layout->deviation, layout->fan_in,
                                  layout->value};
    return tensor;
}

ESPER_RULE struct birth birth_of(const struct param_layout *layout)
{
    struct birth birth;
    struct tensor_birth none = {0, 0, 0, 0, 0};
    birth.count = layout->count;
    birth.params = (uint32_t)layout->params;
    birth.storage = (uint32_t)layout->storage;
    for (int i = 0; i < LAYOUT_TENSORS; i++)
        birth.tensor[i] = i < layout->count ? tensor_birth_of(&layout->tensor[i]) : none;
    return birth;
}

/* Four numbers of a tensor; the constant needs no random words. */
ESPER_RULE void tensor_draw(const struct tensor_birth *tensor, double bound, struct random_site site, uint32_t b,
                            float out[4])
{
    struct philox_block block = {{0, 0, 0, 0}};
    if (tensor->deviation > 0 || tensor->fan_in)
        block = random_block(site, b);
    for (int k = 0; k < 4; k += 2) {
        const uint32_t *word = &block.word[k];
        if (tensor->deviation > 0) {
            const struct normals pair = normals_of(word[0], word[1]);
            out[k] = (float)(pair.first * (double)tensor->deviation);
            out[k + 1] = (float)(pair.second * (double)tensor->deviation);
        } else {
            out[k] = tensor->fan_in ? random_symmetric(word[0], bound) : tensor->value;
            out[k + 1] = tensor->fan_in ? random_symmetric(word[1], bound) : tensor->value;
        }
    }
}

/* Fill a tensor and the gap after it; this is thread `thread` of `threads`, which take blocks of four round-robin. */
ESPER_RULE void tensor_fill(const struct tensor_birth *tensor, struct random_site site, uint32_t thread,
                            uint32_t threads, float *params)
{
    const uint32_t blocks = (tensor->size + LAYOUT_ALIGN - 1) / LAYOUT_ALIGN * (LAYOUT_ALIGN / 4);
    const double bound = tensor->fan_in ? 1 / sqrt((double)tensor->fan_in) : 0;
    for (uint32_t b = thread; b < blocks; b += threads) {
        float *out = params + tensor->offset + 4 * (size_t)b, drawn[4];
        tensor_draw(tensor, bound, site, b, drawn);
        for (uint32_t k = 0; k < 4; k++)
            out[k] = 4 * b + k < tensor->size ? drawn[k] : 0;
    }
}

/* All tensors; tensor t draws from `site` advanced by t. */
ESPER_RULE void birth_fill(const struct birth *birth, struct random_site site, uint32_t thread, uint32_t threads,
                           float *params)
{
    for (int i = 0; i < birth->count; i++) {
        tensor_fill(&birth->tensor[i], site, thread, threads, params);
        site.a++;
    }
}

/* The same for a host, whose layout is longer. */
ESPER_RULE void layout_fill(const struct param_layout *layout, struct random_site site, uint32_t thread,
                            uint32_t threads, float *params)
{
    for (int i = 0; i < layout->count; i++) {
        struct tensor_birth tensor = tensor_birth_of(&layout->tensor[i]);
        tensor_fill(&tensor, site, thread, threads, params);
        site.a++;
    }
}

#endif
