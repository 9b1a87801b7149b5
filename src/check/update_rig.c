#include "check/update_rig.h"

#include <string.h>

#include "base/memory.h"
#include "check/learn_vectors.h"

void update_rig_free(struct update_rig *rig)
{
    void *const all[] = {rig->memory,  rig->w,      rig->grad, rig->m,   rig->v,  rig->obs, rig->logits, rig->value,
                         rig->dlogits, rig->dvalue, rig->logp, rig->ref, rig->bp, rig->row, rig->at};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        memory_free(all[i]);
    pool_free(rig->pool);
}

bool update_rig_make(struct learn_source *source, struct update_rig *rig)
{
    const size_t rows = rig->envs * rig->steps, storage = rig->shape.storage;
    struct esper_error error;
    rig->policy = source->kernels->policy;
    if (pool_create(1, &rig->pool, &error) != ESPER_OK) {
        learn_fail(source, "pool", error.text);
        return false;
    }
#define RIG_TAKE(name, count)                                                                                          \
    if (!(rig->name = learn_memory(source, count, sizeof *rig->name)))                                                 \
        return false;
    RIG_TAKE(w, storage)
    RIG_TAKE(grad, storage)
    RIG_TAKE(m, storage)
    RIG_TAKE(v, storage)
    RIG_TAKE(obs, rows * (size_t)rig->shape.obs)
    RIG_TAKE(bp, rows * (size_t)rig->shape.slots)
    RIG_TAKE(logits, rows * (size_t)rig->shape.logits)
    RIG_TAKE(dlogits, rows * (size_t)rig->shape.logits)
    RIG_TAKE(value, rows)
    RIG_TAKE(dvalue, rows)
    RIG_TAKE(ref, rows * HEAD_COUNT)
    RIG_TAKE(row, rows)
    RIG_TAKE(logp, rows * HEAD_COUNT)
    RIG_TAKE(at, rows)
#undef RIG_TAKE
    rig->memory = learn_memory(source, rig->policy->net_bytes(&rig->shape, (int)rig->envs, (int)rig->steps), 1);
    if (!rig->memory)
        return false;
    rig->net = rig->policy->net_init(&rig->shape, (int)rig->envs, (int)rig->steps, rig->pool, rig->memory);
    return true;
}

bool update_rig_weights(struct learn_source *source, struct update_rig *rig)
{
    bool complete = true;
    for (int k = 0; k < rig->shape.count; k++) {
        const struct policy_tensor *tensor = &rig->shape.tensor[k];
        const size_t count = (size_t)tensor->rows * (size_t)tensor->columns;
        const float *from = learn_floats(source, learn_name("param.%s", tensor->name).text, count);
        if (from)
            memcpy(rig->w + tensor->offset, from, count * sizeof *from);
        complete = complete && from;
    }
    memset(rig->m, 0, rig->shape.storage * sizeof *rig->m);
    memset(rig->v, 0, rig->shape.storage * sizeof *rig->v);
    rig->policy->pack(rig->net, rig->w);
    return complete;
}

/* A number of the file at the row's place, refused when it is not below `limit`. */
static bool row_index(struct learn_source *source, const char *name, const int32_t *from, size_t i, int limit,
                      uint8_t *out)
{
    if (from[i] < 0 || from[i] >= limit) {
        learn_fail(source, name, "holds a number out of range");
        return false;
    }
    *out = (uint8_t)from[i];
    return true;
}

static bool rig_masks(struct learn_source *source, const struct update_rig *rig, uint64_t *mask)
{
    const size_t rows = rig->envs * rig->steps;
    for (int head = 0; head < HEAD_COUNT; head++) {
        const size_t size = (size_t)head_size(rig->shape.slots, head);
        const uint8_t *from = learn_bytes(source, learn_name("mask.%s", head_name(head)).text, rows * size);
        for (size_t i = 0; from && i < rows * size; i++)
            if (from[i])
                mask[i / size] |= (uint64_t)1 << (head_offset(rig->shape.slots, head) + (int)(i % size));
    }
    return source->complete;
}

static bool rig_choices(struct learn_source *source, struct update_rig *rig, const uint8_t *flags)
{
    for (int head = 0; head < HEAD_COUNT; head++) {
        const struct learn_name name = learn_name("act.%s", head_name(head));
        const int32_t *from = learn_integers(source, name.text, rig->envs * rig->steps);
        for (size_t i = 0; from && i < rig->envs * rig->steps; i++) {
            struct loss_row *row = &rig->row[i % rig->steps * rig->envs + i / rig->steps];
            if (flags[i] &&
                !row_index(source, name.text, from, i, head_size(rig->shape.slots, head), &row->choice[head]))
                return false;
        }
    }
    return source->complete;
}

bool update_rig_rollout(struct learn_source *source, struct update_rig *rig, const uint8_t *flags, uint64_t *mask)
{
    const size_t rows = rig->envs * rig->steps, obs = (size_t)rig->shape.obs, slots = (size_t)rig->shape.slots;
    const float *from_obs = learn_floats(source, "obs", rows * obs);
    const int32_t *from_bp = learn_integers(source, "bp", rows * slots), *op = learn_integers(source, "eff_op", rows);
    const uint8_t *forced = learn_bytes(source, "forced", rows);
    if (!rig_masks(source, rig, mask) || !rig_choices(source, rig, flags) || !from_obs || !from_bp || !op || !forced)
        return false;
    rig->valid = 0;
    for (size_t i = 0; i < rows; i++) {
        const size_t to = i % rig->steps * rig->envs + i / rig->steps;
        struct loss_row *row = &rig->row[to];
        uint8_t credited;
        memset(rig->bp + to * slots, -1, slots);
        if (!flags[i])
            continue;
        if (!row_index(source, "eff_op", op, i, OP_COUNT, &credited))
            return false;
        for (size_t s = 0; s < slots; s++) {
            if (from_bp[i * slots + s] < -1 || from_bp[i * slots + s] >= POLICY_EMBED_ROWS - 1) {
                learn_fail(source, "bp", "holds a number out of range");
                return false;
            }
            rig->bp[to * slots + s] = (int8_t)from_bp[i * slots + s];
        }
        memcpy(rig->obs + to * obs, from_obs + i * obs, obs * sizeof *from_obs);
        row->mask = mask_effective(mask[i], rig->shape.slots, row->choice[HEAD_OP]);
        row->relevant = head_relevance(credited);
        row->valid = true;
        row->forced = forced[i];
        rig->at[rig->valid++] = to;
    }
    return true;
}
