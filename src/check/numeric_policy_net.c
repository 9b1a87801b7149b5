/*
 * Golden vectors of the policy network. Left out: q, contrib, prob, floored logp, ent, loss and grad - they encode the
 * Q head, the contribution predictor and the original's probability floor, which are not built (P-09, P-11).
 */
#include <math.h>
#include <string.h>

#include "base/json.h"
#include "check/numeric_policy.h"
#include "policy/distribution.h"

#define POLICY_VALUES ((struct tolerance){0, 2e-5})
#define POLICY_LOSS   ((struct tolerance){0, 1e-4})
#define POLICY_GRADS  ((struct tolerance){5e-5, 1e-5})

enum { MOST_ROWS = 4096, MOST_WIDTH = 2048 }; /* anything larger is a damaged file, not a test case */

struct net_case {
    const struct source *source;
    const char *name;
    struct policy_rig rig;
    struct scrap scrap;
    real *scratch; /* [rows][the largest width] */
    bool complete; /* nothing was missing so far */
};

static struct source_name field(const struct net_case *c, const char *what, int head)
{
    return head < 0 ? name_of("%s.%s", c->name, what) : name_of("%s.%s.%s", c->name, what, head_name(head));
}

/* A tensor [env][width] or [env][step][width]; width 0: none, steps 0: no step. */
static const struct st_tensor *case_tensor(struct net_case *c, const char *name, enum st_dtype dtype, int steps,
                                           int width)
{
    size_t shape[3] = {(size_t)c->rig.envs};
    int dims = 1;
    if (steps)
        shape[dims++] = (size_t)steps;
    if (width)
        shape[dims++] = (size_t)width;
    const struct st_tensor *tensor = source_tensor(c->source, name, dtype, dims, shape);
    c->complete &= tensor != NULL;
    return tensor;
}

static int file_row(const struct net_case *c, int row) /* ours are [step][env], the file's [env][step] */
{
    return row % c->rig.envs * c->rig.steps + row / c->rig.envs;
}

static void read_rows(struct net_case *c, const char *what, int width, real *out)
{
    const struct st_tensor *tensor = case_tensor(c, field(c, what, -1).text, ST_F32, c->rig.steps, width);
    for (int i = 0; tensor && i < c->rig.rows * width; i++)
        out[i] = (real)((const float *)tensor->data)[file_row(c, i / width) * width + i % width];
}

static void read_state(struct net_case *c, const char *what, real *out)
{
    const struct st_tensor *tensor = case_tensor(c, field(c, what, -1).text, ST_F32, 0, c->rig.shape.hidden);
    for (size_t i = 0; tensor && i < tensor->count; i++)
        out[i] = (real)((const float *)tensor->data)[i];
}

/* `got` [row][stride], from `column` on, compared with [env][step][width]. */
static void compare_rows(struct net_case *c, const char *name, int width, const real *got, int stride, int column)
{
    const struct st_tensor *want = case_tensor(c, name, ST_F32, c->rig.steps, width);
    int numbers = width ? width : 1;
    for (int i = 0; i < c->rig.rows * numbers; i++)
        c->scratch[file_row(c, i / numbers) * numbers + i % numbers] = got[i / numbers * stride + column + i % numbers];
    if (want)
        source_compare(c->source, name, c->scratch, want, POLICY_VALUES);
}

static void compare_state(struct net_case *c, const char *what, const real *got, int width)
{
    struct source_name name = field(c, what, -1);
    const struct st_tensor *want = case_tensor(c, name.text, ST_F32, 0, width);
    if (want)
        source_compare(c->source, name.text, got, want, POLICY_VALUES);
}

/* ---- weights ---------------------------------------------------------------------------------------------------- */

static bool tensor_shape(const struct policy_tensor *t, size_t shape[2])
{
    shape[0] = (size_t)t->rows;
    shape[1] = (size_t)t->columns;
    return t->columns > 1 || strstr(t->name, "weight");
}

static void load_weights(struct net_case *c)
{
    for (int t = 0; t < c->rig.shape.count; t++) {
        const struct policy_tensor *tensor = &c->rig.shape.tensor[t];
        size_t shape[2];
        int dims = tensor_shape(tensor, shape) ? 2 : 1;
        const float *values = source_floats(c->source, name_of("%s.param.%s", c->name, tensor->name).text, dims, shape);
        c->complete &= values != NULL;
        for (int i = 0; values && i < tensor->rows * tensor->columns; i++)
            c->rig.w[tensor->offset + (size_t)i] = (real)values[i];
    }
}

/* Element i of the file's formula for weights (README 7). */
static float formula_weight(uint64_t base, uint64_t id, uint64_t i, float scale, float offset)
{
    uint64_t z = (base + (id << 32) + i) * 0x9E3779B97F4A7C15u;
    z ^= z >> 30;
    z *= 0xBF58476D1CE4E5B9u;
    z ^= z >> 27;
    z *= 0x94D049BB133111EBu;
    z ^= z >> 31;
    /* In volatile steps: product and sum are rounded one by one, and must not become a fused multiply-add. */
    volatile float product = scale * (2 * ((float)(z >> 40) * 0x1p-24f) - 1);
    return offset + product;
}

/* Four elements of a generated tensor must equal row `row` of weight_check; its sum and sum of squares come close. */
static bool weights_agree(const struct net_case *c, const struct policy_tensor *tensor, const float want[6])
{
    const real *w = c->rig.w + tensor->offset;
    size_t n = (size_t)tensor->rows * (size_t)tensor->columns, at[] = {0, n / 3, n / 2, n - 1};
    double sum = 0, square = 0;
    bool equal = true;
    for (size_t i = 0; i < n; i++) {
        sum += (double)w[i];
        square += (double)w[i] * (double)w[i];
    }
    for (int k = 0; k < 4; k++)
        equal &= (float)w[at[k]] == want[k];
    return equal && fabs(sum - (double)want[4]) <= 1e-6 * sqrt((double)n * square) &&
           fabs(square - (double)want[5]) <= 1e-6 * square;
}

/* Generate the tensor described by an entry of full_tensors; true when it is one of ours and agrees with the table. */
static bool make_tensor(struct net_case *c, const cJSON *entry, int64_t base, const float want[6])
{
    struct esper_error error;
    const char *name;
    double scale, offset;
    int id;
    if (json_get_string(entry, "name", &name, &error) != ESPER_OK) {
        source_fail(c->source, "__metadata__.full_tensors", error.text);
        return false;
    }
    int index = policy_shape_find(&c->rig.shape, name);
    if (index < 0 || !source_integer(c->source, entry, name, "id", 0, INT32_MAX, &id) ||
        !source_number(c->source, entry, name, "scale", &scale) ||
        !source_number(c->source, entry, name, "offset", &offset))
        return false;
    const struct policy_tensor *tensor = &c->rig.shape.tensor[index];
    for (int i = 0; i < tensor->rows * tensor->columns; i++)
        c->rig.w[tensor->offset + (size_t)i] =
            (real)formula_weight((uint64_t)base, (uint64_t)id, (uint64_t)i, (float)scale, (float)offset);
    return weights_agree(c, tensor, want);
}

static void make_weights(struct net_case *c, const cJSON *variant)
{
    cJSON *list = source_meta(c->source, "full_tensors");
    struct source_name name = field(c, "weight_check", -1);
    const size_t shape[] = {(size_t)cJSON_GetArraySize(list), 6};
    const float *table = source_floats(c->source, name.text, 2, shape);
    struct esper_error error;
    int64_t base;
    int row = 0, made = 0;
    c->complete &= list && table;
    if (json_get_integer(variant, "hash_base", 0, INT64_MAX, &base, &error) != ESPER_OK) {
        source_fail(c->source, c->name, error.text);
        c->complete = false;
    }
    for (const cJSON *entry = c->complete ? list->child : NULL; entry; entry = entry->next, row++)
        made += make_tensor(c, entry, base, table + 6 * row);
    if (c->complete) {
        c->complete = made == c->rig.shape.count;
        source_flag(c->source, name.text, c->complete, "not all weights are there, as the formula makes them");
    }
    cJSON_Delete(list);
}

/* ---- distributions ---------------------------------------------------------------------------------------------- */

/* Set bits of a mask [..][size] at a row. */
static uint32_t mask_at(const struct st_tensor *mask, int row, int size)
{
    uint32_t set = 0;
    for (int i = 0; i < size; i++)
        set |= (uint32_t)(((const uint8_t *)mask->data)[row * size + i] != 0) << i;
    return set;
}

/* Log-probability and entropy of one head without floors, and their gradients in the logits. Returns its share of
 * the loss. */
static double check_head(struct net_case *c, int head)
{
    struct policy_rig *rig = &c->rig;
    int size = head_size(rig->shape.slots, head), column = head_offset(rig->shape.slots, head);
    const struct st_tensor *mask = case_tensor(c, field(c, "emask", head).text, ST_U8, rig->steps, size);
    const struct st_tensor *act = case_tensor(c, field(c, "act", head).text, ST_I32, rig->steps, 0);
    const struct st_tensor *dlog = case_tensor(c, field(c, "coef.logp", head).text, ST_F32, rig->steps, 0);
    const struct st_tensor *dentropy = case_tensor(c, field(c, "coef.ent", head).text, ST_F32, rig->steps, 0);
    real *logp = scrap_reals(&c->scrap, (size_t)rig->rows), *entropy = scrap_reals(&c->scrap, (size_t)rig->rows);
    double loss = 0;
    bool single = true;
    if (!mask || !act || !dlog || !dentropy || !scrap_ready(&c->scrap, c->source->report, c->name))
        return 0;
    for (int r = 0; r < rig->rows; r++) {
        int at = file_row(c, r), choice = ((const int32_t *)act->data)[at];
        real *z = rig->logits + (ptrdiff_t)r * rig->shape.logits + column;
        real by_log = (real)((const float *)dlog->data)[at], by_entropy = (real)((const float *)dentropy->data)[at];
        struct distribution d;
        distribution_init(&d, size, mask_at(mask, at, size), 0, z);
        logp[r] = distribution_log(&d, choice >= 0 && choice < size ? choice : 0);
        entropy[r] = distribution_entropy(&d);
        single &= d.valid != 1 || (logp[r] == 0 && entropy[r] == 0);
        loss += (double)by_log * (double)logp[r] + (double)by_entropy * (double)entropy[r];
        distribution_backward(&d, size, choice, by_log, by_entropy, rig->dlogits + (z - rig->logits));
    }
    compare_rows(c, field(c, "nofloor.logp", head).text, 0, logp, 1, 0);
    compare_rows(c, field(c, "nofloor.ent", head).text, 0, entropy, 1, 0);
    source_flag(c->source, field(c, "nofloor.single", head).text, single, "a single option must give exactly 0");
    return loss;
}

/* ---- checks ----------------------------------------------------------------------------------------------------- */

static void check_unroll(struct net_case *c)
{
    const struct policy_shape *shape = &c->rig.shape;
    const real *h, *cell;
    policy_rig_unroll(&c->rig);
    for (int head = 0; head < HEAD_COUNT; head++)
        compare_rows(c, field(c, "logits", head).text, head_size(shape->slots, head), c->rig.logits, shape->logits,
                     head_offset(shape->slots, head));
    compare_rows(c, field(c, "z", -1).text, shape->hidden, policy_net_trunk(c->rig.net), shape->hidden, 0);
    compare_rows(c, field(c, "v", -1).text, 0, c->rig.value, 1, 0);
    policy_net_state(c->rig.net, &h, &cell);
    compare_state(c, "hT", h, shape->hidden);
    compare_state(c, "cT", cell, shape->hidden);
}

static void check_gradients(struct net_case *c)
{
    struct policy_rig *rig = &c->rig;
    const struct st_tensor *dvalue = case_tensor(c, field(c, "coef.v", -1).text, ST_F32, rig->steps, 0);
    double loss = 0;
    for (int head = 0; head < HEAD_COUNT; head++)
        loss += check_head(c, head);
    if (!c->complete || !source_has(c->source, field(c, "nofloor.grad.", -1).text))
        return;
    for (int r = 0; r < rig->rows; r++) {
        rig->dvalue[r] = (real)((const float *)dvalue->data)[file_row(c, r)];
        loss += (double)rig->dvalue[r] * (double)rig->value[r];
    }
    const float *want = source_floats(c->source, field(c, "nofloor.loss", -1).text, 1, (const size_t[]){1});
    if (want)
        source_compare_value(c->source, field(c, "nofloor.loss", -1).text, loss, (double)want[0], POLICY_LOSS);
    policy_net_backward(rig->net, &rig->sequence, rig->dlogits, rig->dvalue, rig->grad);
    for (int t = 0; t < rig->shape.count; t++) {
        const struct policy_tensor *tensor = &rig->shape.tensor[t];
        size_t shape[2];
        int dims = tensor_shape(tensor, shape) ? 2 : 1;
        struct source_name name = name_of("%s.nofloor.grad.%s", c->name, tensor->name);
        const struct st_tensor *grad = source_tensor(c->source, name.text, ST_F32, dims, shape);
        if (grad)
            source_compare(c->source, name.text, rig->grad + tensor->offset, grad, POLICY_GRADS);
    }
}

/* The greedy choice of every head in one env, as acting makes it: the op first, then the rest given the op. */
static bool greedy_equals(struct net_case *c, const struct st_tensor *const mask[HEAD_COUNT],
                          const struct st_tensor *slot_by_op, const struct st_tensor *const act[HEAD_COUNT], int env,
                          const real *logits)
{
    int slots = c->rig.shape.slots, at = env * c->rig.steps, op = 0;
    uint64_t stored = 0, effective = 0;
    bool equal = true;
    for (int k = HEAD_COUNT; k > 0; k--) {
        int head = k - 1, size = head_size(slots, head);
        if (head == HEAD_OP) {
            op = distribution_greedy(size, mask_at(mask[head], at, size), logits + head_offset(slots, head));
            for (int other = 0; other < HEAD_COUNT; other++)
                stored |= mask_place(other == HEAD_SLOT ? mask_at(slot_by_op, at * OP_COUNT + op, slots)
                                                        : mask_at(mask[other], at, head_size(slots, other)),
                                     slots, other);
            effective = mask_effective(stored, slots, op);
        }
        int choice = distribution_greedy(size, head_bits(effective, slots, head), logits + head_offset(slots, head));
        equal &= choice == ((const int32_t *)act[head]->data)[env];
    }
    return equal;
}

static void check_choices(struct net_case *c, const real *logits)
{
    const struct st_tensor *mask[HEAD_COUNT], *act[HEAD_COUNT];
    const struct st_tensor *slot_by_op = source_tensor(
        c->source, field(c, "slot_by_op", -1).text, ST_U8, 4,
        (const size_t[]){(size_t)c->rig.envs, (size_t)c->rig.steps, OP_COUNT, (size_t)c->rig.shape.slots});
    for (int head = 0; head < HEAD_COUNT; head++) {
        mask[head] =
            case_tensor(c, field(c, "mask", head).text, ST_U8, c->rig.steps, head_size(c->rig.shape.slots, head));
        act[head] = case_tensor(c, field(c, "step.act", head).text, ST_I32, 0, 0);
    }
    bool equal = true;
    if (!c->complete || !slot_by_op)
        return;
    for (int env = 0; env < c->rig.envs; env++)
        equal &= greedy_equals(c, mask, slot_by_op, act, env, logits + (ptrdiff_t)env * c->rig.shape.logits);
    source_flag(c->source, field(c, "step.act", -1).text, equal, "the greedy action differs");
}

/* One act from the initial state: env n's first row is our row n. */
static void check_step(struct net_case *c)
{
    struct policy_rig *rig = &c->rig;
    int hidden = rig->shape.hidden;
    real *h = scrap_reals(&c->scrap, (size_t)rig->envs * hidden),
         *cell = scrap_reals(&c->scrap, (size_t)rig->envs * hidden);
    real *logits = scrap_reals(&c->scrap, (size_t)rig->envs * rig->shape.logits);
    real *value = scrap_reals(&c->scrap, (size_t)rig->envs);
    if (!scrap_ready(&c->scrap, c->source->report, c->name))
        return;
    memcpy(h, rig->h0, sizeof(real) * (size_t)rig->envs * hidden);
    memcpy(cell, rig->c0, sizeof(real) * (size_t)rig->envs * hidden);
    const struct policy_step step = {rig->envs, rig->obs, rig->bp, h, cell, logits, value};
    policy_net_act(rig->net, &step);
    compare_state(c, "step.v", value, 0);
    compare_state(c, "step.h", h, hidden);
    compare_state(c, "step.c", cell, hidden);
    check_choices(c, logits);
    if (c->source->device)
        return;
    bool same = same_bits(logits, rig->logits, (size_t)rig->envs * rig->shape.logits) &&
                same_bits(value, rig->value, (size_t)rig->envs);
    source_flag(c->source, field(c, "step", -1).text, same, "acting and unrolling differ in some bit");
}

static void read_inputs(struct net_case *c)
{
    const struct policy_shape *shape = &c->rig.shape;
    read_rows(c, "obs", shape->obs, c->rig.obs);
    read_state(c, "h0", c->rig.h0);
    read_state(c, "c0", c->rig.c0);
    const struct st_tensor *bp = case_tensor(c, field(c, "bp", -1).text, ST_I32, c->rig.steps, shape->slots);
    for (int i = 0; bp && i < c->rig.rows * shape->slots; i++)
        c->rig.bp[i] =
            (int8_t)((const int32_t *)bp->data)[file_row(c, i / shape->slots) * shape->slots + i % shape->slots];
}

static void check_variant(const struct source *source, const cJSON *variant)
{
    struct net_case c = {.source = source, .name = variant->string, .complete = true};
    struct policy_shape shape;
    int slots, obs, feature, hidden, envs, steps, layers;
    if (!source_integer(source, variant, c.name, "slots", 1, HEAD_MAX_SLOTS, &slots) ||
        !source_integer(source, variant, c.name, "obs_dim", 1, MOST_WIDTH, &obs) ||
        !source_integer(source, variant, c.name, "feature_dim", 1, MOST_WIDTH, &feature) ||
        !source_integer(source, variant, c.name, "hidden", 8, MOST_WIDTH, &hidden) ||
        !source_integer(source, variant, c.name, "layers", 1, 1, &layers) ||
        !source_integer(source, variant, c.name, "N", 1, MOST_ROWS, &envs) ||
        !source_integer(source, variant, c.name, "T", 1, MOST_ROWS / envs, &steps))
        return;
    if (hidden % 8) {
        source_fail(source, c.name, "hidden is not a multiple of 8");
        return;
    }
    policy_shape_init(&shape, obs, slots, feature, hidden);
    int widest = hidden > HEAD_MAX_LOGITS ? hidden : HEAD_MAX_LOGITS;
    c.scratch = scrap_reals(&c.scrap, (size_t)envs * (size_t)steps * (size_t)widest);
    if (policy_rig_init(&c.rig, &c.scrap, &shape, envs, steps, 1, source->report, c.name)) {
        read_inputs(&c);
        if (source_has(source, field(&c, "param.", -1).text))
            load_weights(&c);
        else
            make_weights(&c, variant);
        if (c.complete) {
            check_unroll(&c);
            check_gradients(&c);
            check_step(&c);
        }
        policy_rig_free(&c.rig);
    }
    scrap_free(&c.scrap);
}

void check_policy_net(const struct source *source)
{
    cJSON *variants = source_meta(source, "variants");
    for (const cJSON *variant = variants ? variants->child : NULL; variant; variant = variant->next)
        check_variant(source, variant);
    cJSON_Delete(variants);
}
