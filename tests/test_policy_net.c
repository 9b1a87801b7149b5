/* The policy network: layout and initial weights, acting compared with unrolling, independence of rows and threads,
 * episodes inside a rollout, and Adam. Its numbers are checked by `esper selftest`. */
#include "testing.h"

#include <math.h>
#include <stdio.h>

#include "base/memory.h"
#include "base/philox.h"
#include "variant/variant.h"

static const struct policy_kernels *kernels(void)
{
    return &variant_best()->policy;
}

static void *take(size_t count, size_t size)
{
    struct esper_error error;
    void *memory = memory_alloc(count, size, &error);
    assert_non_null(memory);
    return memory;
}

static struct pool *threads(int count)
{
    struct esper_error error;
    struct pool *pool;
    assert_int_equal(pool_create(count, &pool, &error), ESPER_OK);
    return pool;
}

static void fill(float *x, size_t count, uint32_t key, double bound)
{
    struct random_site site = random_at(key, STREAM_SYNTHETIC, 0, 0, 0);
    for (size_t i = 0; i < count; i++)
        x[i] = random_symmetric(random_word(site, (uint32_t)i), bound);
}

static void assert_same(const float *a, const float *b, size_t count)
{
    assert_memory_equal(a, b, sizeof(float) * count);
}

/* ---- a network with inputs and outputs -------------------------------------------------------------------------- */

struct rig {
    struct policy_shape shape;
    int envs, steps;
    struct pool *pool;
    void *memory;
    struct policy_net *net;
    float *w, *grad, *obs, *h, *c, *logits, *value, *dlogits, *dvalue;
    int8_t *bp;
    uint8_t *reset;
};

/* Every weight off its initial value; the same numbers for an env whatever the number of envs. */
static void rig_fill(struct rig *rig)
{
    const struct policy_shape *shape = &rig->shape;
    float *noise = take(shape->storage, sizeof(float));
    policy_init_weights(shape, 7, rig->pool, rig->w);
    fill(noise, shape->storage, 8, 0.05);
    for (int t = 0; t < shape->count; t++)
        for (int i = 0; i < shape->tensor[t].rows * shape->tensor[t].columns; i++)
            rig->w[shape->tensor[t].offset + (size_t)i] += noise[shape->tensor[t].offset + (size_t)i];
    memory_free(noise);
    for (int row = 0; row < rig->steps * rig->envs; row++) {
        uint32_t key = (uint32_t)(row / rig->envs * 1000 + row % rig->envs);
        fill(rig->obs + (size_t)(row * shape->obs), (size_t)shape->obs, 1000 + key, 1.5);
        fill(rig->dlogits + (size_t)(row * shape->logits), (size_t)shape->logits, 500000 + key, 1);
        fill(rig->dvalue + row, 1, 900000 + key, 1);
        for (int s = 0; s < shape->slots; s++)
            rig->bp[row * shape->slots + s] = (int8_t)((key * 7 + (uint32_t)s * 5) % 14) - 1;
    }
    kernels()->pack(rig->net, rig->w);
}

static struct rig rig_make(int obs, int slots, int feature, int hidden, int envs, int steps, int thread_count)
{
    struct rig rig = {.envs = envs, .steps = steps, .pool = threads(thread_count)};
    size_t rows = (size_t)(envs * steps);
    policy_shape_init(&rig.shape, obs, slots, feature, hidden);
    rig.memory = take(kernels()->net_bytes(&rig.shape, envs, steps), 1);
    rig.net = kernels()->net_init(&rig.shape, envs, steps, rig.pool, rig.memory);
    rig.w = take(rig.shape.storage, sizeof(float));
    rig.grad = take(rig.shape.storage, sizeof(float));
    rig.obs = take(rows * (size_t)obs, sizeof(float));
    rig.h = take((size_t)(envs * hidden), sizeof(float));
    rig.c = take((size_t)(envs * hidden), sizeof(float));
    rig.logits = take(rows * (size_t)rig.shape.logits, sizeof(float));
    rig.dlogits = take(rows * (size_t)rig.shape.logits, sizeof(float));
    rig.value = take(rows, sizeof(float));
    rig.dvalue = take(rows, sizeof(float));
    rig.bp = take(rows * (size_t)slots, 1);
    rig.reset = take(rows, 1);
    rig_fill(&rig);
    return rig;
}

static void rig_free(struct rig *rig)
{
    void *all[] = {rig->memory, rig->w,       rig->grad,  rig->obs,    rig->h,  rig->c,
                   rig->logits, rig->dlogits, rig->value, rig->dvalue, rig->bp, rig->reset};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        memory_free(all[i]);
    pool_free(rig->pool);
}

static struct policy_sequence rig_sequence(const struct rig *rig)
{
    return (struct policy_sequence){rig->steps, rig->envs, rig->obs, rig->bp, rig->reset, NULL, NULL};
}

static void rig_learn(struct rig *rig)
{
    struct policy_sequence sequence = rig_sequence(rig);
    kernels()->unroll(rig->net, &sequence, rig->logits, rig->value);
    kernels()->backward(rig->net, &sequence, rig->dlogits, rig->dvalue, rig->grad);
}

/* Act in envs 0 .. rows-1 at this step; logits and value go to the rows of the step. */
static void rig_act(struct rig *rig, int step, int rows, float *logits, float *value)
{
    const struct rig *r = rig;
    const struct policy_step act = {.rows = rows,
                                    .obs = r->obs + step * r->envs * r->shape.obs,
                                    .bp = r->bp + step * r->envs * r->shape.slots,
                                    .h = r->h,
                                    .c = r->c,
                                    .logits = logits,
                                    .value = value};
    kernels()->act(rig->net, &act);
}

/* Widths: without and with projection, on either side of "each thread its own envs". */
static const int widths[][2] = {{32, 32}, {40, 24}, {192, 192}, {100, 200}};
enum { WIDTHS = sizeof widths / sizeof widths[0] };

/* ---- layout and start ------------------------------------------------------------------------------------------- */

static size_t part_params(const struct policy_shape *shape, int part)
{
    size_t sum = 0;
    for (int t = 0; t < shape->count; t++)
        sum += shape->part[t] == part ? (size_t)(shape->tensor[t].rows * shape->tensor[t].columns) : 0;
    return sum;
}

/* Parameters, counted by hand (P-09). */
static void test_counts(void **state)
{
    (void)state;
    struct policy_shape shape;
    size_t heads = 0;
    policy_shape_init(&shape, 116, 3, 512, 512);
    assert_int_equal(shape.params, 4006502 - 174849 - 165123);
    assert_int_equal(shape.inputs, 128);
    assert_int_equal(shape.logits, 41);
    assert_int_equal(part_params(&shape, POLICY_PART_TRUNK), 56 + 67072 + 2101248 + 1024);
    assert_int_equal(part_params(&shape, POLICY_PART_VALUE), 173313);
    assert_int_equal(part_params(&shape, HEAD_BLUEPRINT), 397325);
    for (int head = 0; head < HEAD_COUNT; head++)
        heads += head != HEAD_BLUEPRINT ? part_params(&shape, head) : 0;
    assert_int_equal(heads, 926492);
    for (int t = 0; t < shape.count; t++) {
        assert_int_equal(shape.tensor[t].offset % 16, 0);
        assert_int_equal(policy_shape_find(&shape, shape.tensor[t].name), t); /* names are unique */
    }
    assert_int_equal(policy_shape_find(&shape, "proj.weight"), -1);
    policy_shape_init(&shape, 116, 3, 256, 512);
    assert_true(policy_shape_find(&shape, "proj.weight") > 0);
}

struct start {
    const char *name;
    double gain;
};

/* Dot products of all pairs of columns (rows, where there are fewer of them) of a matrix: gain^2 on the diagonal, else
 * 0. Every `stride`-th pair. */
static void check_orthogonal(const struct policy_tensor *tensor, const float *w, double gain, int stride)
{
    bool tall = tensor->rows >= tensor->columns;
    int count = tall ? tensor->columns : tensor->rows, length = tall ? tensor->rows : tensor->columns;
    int next = tall ? 1 : tensor->columns, along = tall ? tensor->columns : 1;
    for (int pair = 0; pair < count * count; pair += stride) {
        int a = pair / count, b = pair % count;
        double dot = 0;
        for (int i = 0; i < length; i++)
            dot += (double)w[a * next + i * along] * (double)w[b * next + i * along];
        if (fabs(dot / (gain * gain) - (a == b)) > 1e-5)
            fail_msg("%s: vectors %d and %d have the product %g", tensor->name, a, b, dot);
    }
}

static double gain_of(const char *name)
{
    static const struct start special[] = {{"lstm0.w_ih", 1},
                                           {"lstm0.w_hh", 1},
                                           {"head.blueprint.l2.weight", 0},
                                           {"l2.weight", 0.01},
                                           {"l3.weight", 0.01}};
    if (strncmp(name, "v.", 2) == 0)
        return strcmp(name, "v.l4.weight") == 0 ? 0.1 : sqrt(2);
    for (size_t i = 0; i < sizeof special / sizeof special[0]; i++)
        if (strstr(name, special[i].name))
            return special[i].gain > 0 ? special[i].gain : sqrt(2);
    return sqrt(2);
}

static void check_start(const struct policy_shape *shape, const float *w, int stride)
{
    for (int t = 0; t < shape->count; t++) {
        const struct policy_tensor *tensor = &shape->tensor[t];
        const float *at = w + tensor->offset;
        int size = tensor->rows * tensor->columns;
        if (strcmp(tensor->name, "emb") == 0) {
            double square = 0;
            for (int i = 0; i < size; i++)
                square += (double)at[i] * (double)at[i];
            assert_true(sqrt(square / size) > 0.014 && sqrt(square / size) < 0.027);
        } else if (strstr(tensor->name, "weight") || strstr(tensor->name, ".w_")) {
            check_orthogonal(tensor, at, gain_of(tensor->name), tensor->rows * tensor->columns > 100000 ? stride : 1);
        } else {
            bool gamma = strstr(tensor->name, "gamma"), gates = strstr(tensor->name, "lstm0.b_");
            for (int i = 0; i < size; i++)
                assert_true(at[i] == (gamma || (gates && i / shape->hidden == 1) ? 1.0f : 0.0f));
        }
    }
}

static void test_start(void **state)
{
    (void)state;
    static const int shapes[][4] = {{116, 3, 512, 512}, {54, 1, 96, 128}, {4, 2, 8, 8}};
    for (int i = 0; i < 3; i++) {
        struct policy_shape shape;
        float *w[3];
        policy_shape_init(&shape, shapes[i][0], shapes[i][1], shapes[i][2], shapes[i][3]);
        for (int k = 0; k < 3; k++) {
            struct pool *pool = threads(k == 0 ? 1 : 2);
            w[k] = take(shape.storage, sizeof(float));
            policy_init_weights(&shape, k < 2 ? 42 : 43, pool, w[k]);
            pool_free(pool);
        }
        assert_same(w[0], w[1], shape.storage); /* whatever the number of threads */
        assert_memory_not_equal(w[0], w[2], sizeof(float) * shape.storage);
        check_start(&shape, w[0], 997);
        for (int k = 0; k < 3; k++)
            memory_free(w[k]);
    }
}

/* ---- acting and unrolling --------------------------------------------------------------------------------------- */

/* T single acts are one unroll (P-13). Required is 1e-5; the same stages run, so every bit agrees. */
static void test_acts_are_unroll(void **state)
{
    (void)state;
    for (int k = 0; k < WIDTHS; k++) {
        struct rig rig = rig_make(9, 3, widths[k][0], widths[k][1], 6, 7, 2);
        struct policy_sequence sequence = rig_sequence(&rig);
        const float *h, *c;
        kernels()->unroll(rig.net, &sequence, rig.logits, rig.value);
        for (int step = 0; step < rig.steps; step++) {
            float logits[6 * HEAD_MAX_LOGITS], value[6];
            rig_act(&rig, step, rig.envs, logits, value);
            assert_same(logits, rig.logits + step * 6 * rig.shape.logits, (size_t)(6 * rig.shape.logits));
            assert_same(value, rig.value + step * 6, 6);
        }
        kernels()->state(rig.net, &h, &c);
        assert_same(h, rig.h, (size_t)(6 * rig.shape.hidden));
        assert_same(c, rig.c, (size_t)(6 * rig.shape.hidden));
        rig_free(&rig);
    }
}

/* A row's bits do not depend on the rows beside it: one env alone, and among eight. */
static void test_rows_are_independent(void **state)
{
    (void)state;
    for (int k = 0; k < WIDTHS; k++) {
        struct rig one = rig_make(9, 2, widths[k][0], widths[k][1], 1, 5, 2);
        struct rig eight = rig_make(9, 2, widths[k][0], widths[k][1], 8, 5, 2);
        struct policy_sequence of_one = rig_sequence(&one), of_eight = rig_sequence(&eight);
        float alone[HEAD_MAX_LOGITS], among[8 * HEAD_MAX_LOGITS], value[9];
        size_t columns = (size_t)one.shape.logits;
        for (int step = 0; step < 5; step++) {
            rig_act(&one, step, 1, alone, value);
            rig_act(&eight, step, 8, among, value + 1);
            assert_same(alone, among, columns);
            assert_same(value, value + 1, 1);
            assert_same(one.h, eight.h, (size_t)one.shape.hidden);
        }
        kernels()->unroll(one.net, &of_one, one.logits, one.value);
        kernels()->unroll(eight.net, &of_eight, eight.logits, eight.value);
        for (int step = 0; step < 5; step++) {
            assert_same(one.logits + step * one.shape.logits, eight.logits + step * 8 * one.shape.logits, columns);
            assert_same(one.value + step, eight.value + 8 * step, 1);
        }
        rig_free(&one);
        rig_free(&eight);
    }
}

static void test_threads_change_nothing(void **state)
{
    (void)state;
    for (int k = 0; k < WIDTHS; k++) {
        struct rig rig[3];
        float logits[3][8 * HEAD_MAX_LOGITS], value[3][8];
        for (int t = 0; t < 3; t++) {
            rig[t] = rig_make(9, 3, widths[k][0], widths[k][1], 8, 21, t + 1);
            rig[t].reset[8 * 4 + 3] = rig[t].reset[8 * 11 + 7] = 1;
            rig_act(&rig[t], 0, 8, logits[t], value[t]);
            rig_learn(&rig[t]);
        }
        for (int t = 1; t < 3; t++) {
            assert_same(logits[0], logits[t], (size_t)(8 * rig[0].shape.logits));
            assert_same(value[0], value[t], 8);
            assert_same(rig[0].h, rig[t].h, (size_t)(8 * rig[0].shape.hidden));
            assert_same(rig[0].logits, rig[t].logits, (size_t)(168 * rig[0].shape.logits));
            assert_same(rig[0].value, rig[t].value, 168);
            assert_same(rig[0].grad, rig[t].grad, rig[0].shape.storage);
        }
        for (int t = 0; t < 3; t++)
            rig_free(&rig[t]);
    }
}

/* A reset inside a sequence makes two sequences of it (P-14), in the forward and the backward pass. */
static void test_reset_splits(void **state)
{
    (void)state;
    for (int k = 0; k < WIDTHS; k++) {
        struct rig rig = rig_make(9, 3, widths[k][0], widths[k][1], 3, 7, 2);
        const struct policy_shape *shape = &rig.shape;
        struct policy_sequence whole = rig_sequence(&rig), part[2] = {whole, whole};
        enum { CUT = 3, ENVS = 3 };
        float *logits = take(7 * ENVS * (size_t)shape->logits, sizeof(float)), value[7 * ENVS];
        float *grad[2] = {take(shape->storage, sizeof(float)), take(shape->storage, sizeof(float))};
        part[0].steps = CUT;
        part[1].steps = 7 - CUT;
        part[1].obs += CUT * ENVS * shape->obs;
        part[1].bp += CUT * ENVS * shape->slots;
        for (int p = 0; p < 2; p++) {
            int row = p * CUT * ENVS;
            part[p].reset = NULL;
            kernels()->unroll(rig.net, &part[p], logits + row * shape->logits, value + row);
            kernels()->backward(rig.net, &part[p], rig.dlogits + row * shape->logits, rig.dvalue + row, grad[p]);
        }
        kernels()->unroll(rig.net, &whole, rig.logits, rig.value);
        assert_memory_not_equal(rig.logits, logits, sizeof(float) * 7 * ENVS * (size_t)shape->logits);
        for (int env = 0; env < ENVS; env++)
            rig.reset[CUT * ENVS + env] = 1;
        rig_learn(&rig);
        assert_same(rig.logits, logits, 7 * ENVS * (size_t)shape->logits);
        assert_same(rig.value, value, 7 * ENVS);
        double largest = 0;
        for (size_t i = 0; i < shape->storage; i++)
            largest = fmax(largest, fabs((double)rig.grad[i]));
        for (size_t i = 0; i < shape->storage; i++)
            assert_true(fabs((double)rig.grad[i] - (double)grad[0][i] - (double)grad[1][i]) <= 1e-6 * largest);
        memory_free(logits);
        memory_free(grad[0]);
        memory_free(grad[1]);
        rig_free(&rig);
    }
}

/* Rows without derivatives leave no trace in the gradient, whatever they hold: here the last steps of one env. */
static void test_dead_rows(void **state)
{
    (void)state;
    struct rig rig = rig_make(9, 3, 32, 32, 4, 6, 2);
    float *grad = take(rig.shape.storage, sizeof(float));
    for (int step = 4; step < 6; step++) {
        int row = step * 4 + 2;
        memset(rig.dlogits + row * rig.shape.logits, 0, sizeof(float) * (size_t)rig.shape.logits);
        rig.dvalue[row] = 0;
    }
    rig_learn(&rig);
    memcpy(grad, rig.grad, sizeof(float) * rig.shape.storage);
    for (int step = 4; step < 6; step++)
        fill(rig.obs + (step * 4 + 2) * rig.shape.obs, (size_t)rig.shape.obs, 77, 3);
    rig_learn(&rig);
    for (size_t i = 0; i < rig.shape.storage; i++)
        assert_true(grad[i] == rig.grad[i]); /* -0 is 0 */
    memory_free(grad);
    rig_free(&rig);
}

static void test_not_a_number(void **state)
{
    (void)state;
    struct rig rig = rig_make(9, 3, 32, 32, 4, 1, 1);
    float clean[4 * HEAD_MAX_LOGITS], logits[4 * HEAD_MAX_LOGITS], value[4];
    int columns = rig.shape.logits;
    rig_act(&rig, 0, 4, clean, value);
    memset(rig.h, 0, sizeof(float) * 4 * 32);
    memset(rig.c, 0, sizeof(float) * 4 * 32);
    rig.obs[2 * 9 + 5] = NAN;
    rig_act(&rig, 0, 4, logits, value);
    for (int i = 0; i < 4 * columns; i++)
        assert_true(i / columns == 2 ? isnan(logits[i]) : logits[i] == clean[i]);
    assert_true(isnan(value[2]) && isnan(rig.h[2 * 32]) && isnan(rig.c[2 * 32]));
    assert_false(isnan(value[1]));
    rig_free(&rig);
}

/* Nothing is clamped (P-15); and a network without steps can act. */
static void test_state_is_free(void **state)
{
    (void)state;
    struct rig rig = rig_make(9, 3, 32, 32, 2, 0, 1);
    float obs[18] = {0}, logits[2 * HEAD_MAX_LOGITS], value[2];
    int8_t bp[6] = {-1, -1, -1, -1, -1, -1};
    for (int u = 0; u < 64; u++)
        rig.c[u] = 1000;
    const struct policy_step step = {2, obs, bp, rig.h, rig.c, logits, value};
    kernels()->act(rig.net, &step);
    for (int u = 0; u < 64; u++)
        assert_true(rig.c[u] > 50);
    rig_free(&rig);
}

/* An empty slot is row 13 of the embedding, which learns like the others; rows not seen learn nothing. */
static void test_empty_slot_learns(void **state)
{
    (void)state;
    struct rig rig = rig_make(5, 2, 32, 32, 3, 4, 1);
    for (int i = 0; i < 3 * 4 * 2; i++)
        rig.bp[i] = i % 2 ? -1 : 4;
    rig_learn(&rig);
    const float *grad = rig.grad + rig.shape.tensor[policy_shape_find(&rig.shape, "emb")].offset;
    for (int row = 0; row < POLICY_EMBED_ROWS; row++)
        for (int k = 0; k < POLICY_EMBED; k++)
            assert_int_equal(grad[row * POLICY_EMBED + k] != 0, row == 4 || row == 13);
    rig_free(&rig);
}

/* ---- Adam ------------------------------------------------------------------------------------------------------- */

/* L-10: a thousand steps, clipped, against a scalar reference in double. */
static void test_adam(void **state)
{
    (void)state;
    enum { COUNT = 37 };
    struct adam adam = {3e-4, 0.9, 0.999, 1e-5, 0};
    float w[COUNT], m[COUNT] = {0}, v[COUNT] = {0}, g[COUNT];
    double rw[COUNT], rm[COUNT] = {0}, rv[COUNT] = {0};
    fill(w, COUNT, 1, 0.1);
    for (int i = 0; i < COUNT; i++)
        rw[i] = (double)w[i];
    for (int step = 1; step <= 1000; step++) {
        double square = 0;
        adam.step = (uint64_t)step;
        fill(g, COUNT, 100 + (uint32_t)step, step % 100 < 50 ? 0.5 : 0.01); /* large and small ones */
        for (int i = 0; i < COUNT; i++)
            square += (double)g[i] * (double)g[i];
        assert_true(fabs(kernels()->square_norm(COUNT, g) - square) <= 1e-5 * square);
        const double factor = fmin(1, 0.5 / (sqrt(square) + 1e-6));
        assert_true((factor < 1) == (step % 100 < 50));
        kernels()->adam_step(&adam, COUNT, (float)factor, g, w, m, v);
        for (int i = 0; i < COUNT; i++) {
            double d = (double)(float)factor * (double)g[i];
            rm[i] = 0.9 * rm[i] + 0.1 * d;
            rv[i] = 0.999 * rv[i] + 0.001 * d * d;
            rw[i] -= 3e-4 / (1 - pow(0.9, step)) * rm[i] / (sqrt(rv[i]) / sqrt(1 - pow(0.999, step)) + 1e-5);
        }
    }
    for (int i = 0; i < COUNT; i++) {
        assert_true(fabs((double)w[i] - rw[i]) < 2e-6);
        assert_true(fabs((double)v[i] - rv[i]) <= 1e-4 * rv[i]);
    }
}

/* L-21; what lies between tensors stays zero. */
static void test_adam_figures(void **state)
{
    (void)state;
    struct adam adam = {3e-4, 0.9, 0.999, 1e-5, 1};
    float w[16] = {1}, m[16] = {0}, v[16] = {0}, g[16] = {0.1f};
    kernels()->adam_step(&adam, 16, 1, g, w, m, v);
    assert_true(fabs((double)w[0] - 0.9997000300) < 1e-7);
    adam.step = 2;
    g[0] = -0.05f;
    kernels()->adam_step(&adam, 16, 1, g, w, m, v);
    assert_true(fabs((double)w[0] - 0.9996201390) < 1.2e-7);
    assert_true(w[1] == 0 && m[1] == 0 && v[1] == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counts),
        cmocka_unit_test(test_start),
        cmocka_unit_test(test_acts_are_unroll),
        cmocka_unit_test(test_rows_are_independent),
        cmocka_unit_test(test_threads_change_nothing),
        cmocka_unit_test(test_reset_splits),
        cmocka_unit_test(test_dead_rows),
        cmocka_unit_test(test_not_a_number),
        cmocka_unit_test(test_state_is_free),
        cmocka_unit_test(test_empty_slot_learns),
        cmocka_unit_test(test_adam),
        cmocka_unit_test(test_adam_figures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
