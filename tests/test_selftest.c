/* The selftest itself: the shipped vectors and the case table pass, other files of the format do, damaged ones do not.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/philox.h"
#include "base/safetensors.h"
#include "check/numeric.h"
#include "selftest/selftest.h"

#define VECTORS "tests/vectors"

static char folder[64]; /* for this program's own files */

struct outcome {
    struct selftest test;
    char failed[160], note[512]; /* the first failure */
    int widest;                  /* results with a measured error */
};

static void record(void *context, enum check_result result, const char *name, double error, double limit,
                   const char *note)
{
    struct outcome *outcome = context;
    outcome->widest += !isnan(error);
    if (result == CHECK_FAILED && !outcome->failed[0]) {
        snprintf(outcome->failed, sizeof outcome->failed, "%s", name);
        snprintf(outcome->note, sizeof outcome->note, "%s (%g of %g)", note ? note : "", error, limit);
    }
}

static struct outcome *check_path(const char *path)
{
    static struct outcome outcome;
    struct esper_error error;
    outcome = (struct outcome){0};
    outcome.test.report = (struct check_report){.show = record, .context = &outcome};
    assert_int_equal(selftest_vectors(&outcome.test, path, &error), ESPER_OK);
    return &outcome;
}

/* Kernel sets that this machine runs: one with a sanitizer on some, two or more otherwise. */
static int variants(void)
{
    int count = 0;
    while (numeric_checks_at(count))
        count++;
    assert_true(count > 0);
    return count;
}

static void assert_passes(const char *path, int at_least)
{
    const struct outcome *outcome = check_path(path);
    if (outcome->test.report.count[CHECK_FAILED])
        fail_msg("%s: %s: %s", path, outcome->failed, outcome->note);
    assert_true(outcome->test.report.count[CHECK_PASSED] >= at_least);
}

/* The file fails, and what failed has `what` in its name or note. */
static void assert_fails(const char *path, const char *what)
{
    const struct outcome *outcome = check_path(path);
    assert_true(outcome->test.report.count[CHECK_FAILED] > 0);
    if (!strstr(outcome->failed, what) && !strstr(outcome->note, what))
        fail_msg("%s: failed for another reason: %s: %s", path, outcome->failed, outcome->note);
}

static const char *path_of(const char *name)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

/* ---- what is shipped -------------------------------------------------------------------------------------------- */

static void the_case_table_passes(void **state)
{
    (void)state;
    struct outcome outcome = {0};
    outcome.test.report = (struct check_report){.show = record, .context = &outcome};
    selftest_cases(&outcome.test);
    if (outcome.test.report.count[CHECK_FAILED])
        fail_msg("%s: %s", outcome.failed, outcome.note);
    assert_true(outcome.test.report.count[CHECK_PASSED] > 500 * variants());
}

static void the_shipped_vectors_pass(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int kernels, rules; /* results in each variant, and of the rules */
    } files[] = {{"blueprints_cnn", 400, 0}, {"blend_ops", 200, 0},   {"host_cnn", 600, 0},   {"host_slots", 500, 0},
                 {"alpha_schedules", 0, 9},  {"lifecycle", 0, 35},    {"policy_net", 240, 0}, {"action_masks", 0, 29},
                 {"observations", 0, 6},     {"gae_and_ppo", 0, 240}, {"normalizers", 0, 110}};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        char path[128];
        snprintf(path, sizeof path, VECTORS "/%s.safetensors", files[i].name);
        assert_passes(path, variants() * files[i].kernels + files[i].rules);
    }
    assert_passes(VECTORS "/reward_vectors.json", 514);
    assert_passes(VECTORS, variants() * 2100 + 900);
}

static void a_filter_picks_cases_by_name(void **state)
{
    (void)state;
    struct outcome outcome = {0};
    struct esper_error error;
    outcome.test.report =
        (struct check_report){.show = record, .context = &outcome, .filter = "conv_light.c8_16x16_b3.y"};
    assert_int_equal(selftest_vectors(&outcome.test, VECTORS "/blueprints_cnn.safetensors", &error), ESPER_OK);
    assert_true(outcome.test.report.count[CHECK_PASSED] >= variants());
    assert_int_equal(outcome.test.report.count[CHECK_PASSED], outcome.widest);
    assert_int_equal(outcome.test.report.count[CHECK_FAILED], 0);
}

static void a_path_with_nothing_to_check_is_an_error(void **state)
{
    (void)state;
    struct outcome outcome = {0};
    struct esper_error error;
    outcome.test.report = (struct check_report){.show = record, .context = &outcome};
    assert_int_equal(selftest_vectors(&outcome.test, path_of("nowhere"), &error), ESPER_INVALID);
    assert_non_null(strstr(error.text, "nowhere"));
    assert_int_equal(selftest_vectors(&outcome.test, "src", &error), ESPER_INVALID);
}

/* ---- files of our own ------------------------------------------------------------------------------------------- */

static float random_value(uint32_t key, size_t i, double bound)
{
    return random_symmetric(random_word(random_at(key, STREAM_SYNTHETIC, 0, 0, 0), (uint32_t)i), bound);
}

/* attention, s = x * sigmoid(W2 relu(W1 mean(x)) + b2), with L = sum of y * dy: forward and backward from the formula.
 */
enum { B = 3, H = 3, W = 5, C = 9, R = 2, VALUES = B * H * W * C };

struct attention {
    float x[VALUES], dy[VALUES], y[VALUES], dx[VALUES];
    float w1[R * C], w2[C * R], b2[C], dw1[R * C], dw2[C * R], db2[C];
};

static void attention_image(struct attention *a, int n, double dw1[R * C], double dw2[C * R], double db2[C])
{
    double mean[C] = {0}, hidden[R], gate[C], dz[C] = {0}, dhidden[R] = {0}, dmean[C] = {0};
    float *x = a->x + n * H * W * C, *dy = a->dy + n * H * W * C;
    for (int i = 0; i < H * W * C; i++)
        mean[i % C] += (double)x[i] / (H * W);
    for (int r = 0; r < R; r++) {
        hidden[r] = 0;
        for (int c = 0; c < C; c++)
            hidden[r] += (double)a->w1[r * C + c] * mean[c];
        hidden[r] = fmax(hidden[r], 0);
    }
    for (int c = 0; c < C; c++) {
        double z = (double)a->b2[c];
        for (int r = 0; r < R; r++)
            z += (double)a->w2[c * R + r] * hidden[r];
        gate[c] = 1 / (1 + exp(-z));
    }
    for (int i = 0; i < H * W * C; i++)
        dz[i % C] += (double)dy[i] * (double)x[i] * gate[i % C] * (1 - gate[i % C]);
    for (int c = 0; c < C; c++) {
        db2[c] += dz[c];
        for (int r = 0; r < R; r++) {
            dw2[c * R + r] += dz[c] * hidden[r];
            dhidden[r] += hidden[r] > 0 ? dz[c] * (double)a->w2[c * R + r] : 0;
        }
    }
    for (int r = 0; r < R; r++)
        for (int c = 0; c < C; c++) {
            dw1[r * C + c] += dhidden[r] * mean[c];
            dmean[c] += dhidden[r] * (double)a->w1[r * C + c];
        }
    for (int i = 0; i < H * W * C; i++) {
        a->y[n * H * W * C + i] = (float)((double)x[i] * gate[i % C]);
        a->dx[n * H * W * C + i] = (float)((double)dy[i] * gate[i % C] + dmean[i % C] / (H * W));
    }
}

static void attention_fill(struct attention *a, uint32_t seed)
{
    double dw1[R * C] = {0}, dw2[C * R] = {0}, db2[C] = {0};
    for (size_t i = 0; i < VALUES; i++) {
        a->x[i] = random_value(seed, i, 2);
        a->dy[i] = random_value(seed + 1, i, 1);
    }
    for (size_t i = 0; i < R * C; i++) {
        a->w1[i] = random_value(seed + 2, i, 1);
        a->w2[i] = random_value(seed + 3, i, 1);
    }
    for (size_t i = 0; i < C; i++)
        a->b2[i] = random_value(seed + 4, i, 1);
    for (int n = 0; n < B; n++)
        attention_image(a, n, dw1, dw2, db2);
    for (int i = 0; i < R * C; i++) {
        a->dw1[i] = (float)dw1[i];
        a->dw2[i] = (float)dw2[i];
    }
    for (int i = 0; i < C; i++)
        a->db2[i] = (float)db2[i];
}

enum { ATTENTION_TENSORS = 10 };

static void attention_tensors(const struct attention *a, struct st_tensor tensors[ATTENTION_TENSORS])
{
    const struct st_tensor all[ATTENTION_TENSORS] = {
        {.name = "mine.x", .dtype = ST_F32, .dims = 4, .shape = {B, H, W, C}, .data = a->x},
        {.name = "mine.y", .dtype = ST_F32, .dims = 4, .shape = {B, H, W, C}, .data = a->y},
        {.name = "mine.dy", .dtype = ST_F32, .dims = 4, .shape = {B, H, W, C}, .data = a->dy},
        {.name = "mine.dx", .dtype = ST_F32, .dims = 4, .shape = {B, H, W, C}, .data = a->dx},
        {.name = "mine.param.w1", .dtype = ST_F32, .dims = 2, .shape = {R, C}, .data = a->w1},
        {.name = "mine.param.w2", .dtype = ST_F32, .dims = 2, .shape = {C, R}, .data = a->w2},
        {.name = "mine.param.b2", .dtype = ST_F32, .dims = 1, .shape = {C}, .data = a->b2},
        {.name = "mine.grad.w1", .dtype = ST_F32, .dims = 2, .shape = {R, C}, .data = a->dw1},
        {.name = "mine.grad.w2", .dtype = ST_F32, .dims = 2, .shape = {C, R}, .data = a->dw2},
        {.name = "mine.grad.b2", .dtype = ST_F32, .dims = 1, .shape = {C}, .data = a->db2},
    };
    memcpy(tensors, all, sizeof all);
}

static const char *write_file(const char *name, const char *kind, const char *key, const char *cases,
                              const struct st_tensor *tensors, int count)
{
    const char *const meta[][2] = {{"format", "parity-vectors-1"}, {"file", kind}, {key, cases}};
    struct esper_error error;
    const char *path = path_of(name);
    if (st_write(path, tensors, count, meta, 3, &error) != ESPER_OK)
        fail_msg("%s", error.text);
    return path;
}

static const char *write_attention(const char *name, const struct st_tensor *tensors, int count)
{
    return write_file(name, "blueprints_cnn", "cases", "[{\"case\": \"mine\", \"blueprint\": \"attention\"}]", tensors,
                      count);
}

/* Another seed, an odd shape, another case name; the expected numbers are the formula's. */
static void a_file_of_other_seeds_and_shapes_passes(void **state)
{
    (void)state;
    static struct attention a;
    struct st_tensor tensors[ATTENTION_TENSORS];
    for (uint32_t seed = 100; seed < 400; seed += 100) {
        attention_fill(&a, seed);
        attention_tensors(&a, tensors);
        assert_passes(write_attention("attention.safetensors", tensors, ATTENTION_TENSORS), variants() * 5);
    }
}

static void a_wrong_number_anywhere_fails(void **state)
{
    (void)state;
    static struct attention a;
    struct st_tensor tensors[ATTENTION_TENSORS];
    attention_fill(&a, 500);
    attention_tensors(&a, tensors);
    static const int outputs[] = {1, 3, 7, 8, 9}; /* y, dx and the gradients */
    for (int k = 0; k < 5; k++) {
        float *values = (float *)(uintptr_t)tensors[outputs[k]].data, kept = values[4];
        values[4] += 0.01f;
        assert_fails(write_attention("wrong.safetensors", tensors, ATTENTION_TENSORS), tensors[outputs[k]].name);
        values[4] = kept;
    }
}

static void a_missing_tensor_fails(void **state)
{
    (void)state;
    static struct attention a;
    struct st_tensor tensors[ATTENTION_TENSORS];
    attention_fill(&a, 600);
    for (int k = 0; k < ATTENTION_TENSORS; k++) {
        attention_tensors(&a, tensors);
        tensors[k] = tensors[ATTENTION_TENSORS - 1];
        assert_fails(write_attention("missing.safetensors", tensors, ATTENTION_TENSORS - 1), "missing");
    }
}

static void a_tensor_of_another_shape_fails(void **state)
{
    (void)state;
    static struct attention a;
    struct st_tensor tensors[ATTENTION_TENSORS];
    attention_fill(&a, 650);
    for (int k = 0; k < ATTENTION_TENSORS; k++) { /* the same values with one dimension more */
        attention_tensors(&a, tensors);
        memmove(tensors[k].shape + 1, tensors[k].shape, sizeof(size_t) * (size_t)tensors[k].dims++);
        tensors[k].shape[0] = 1;
        assert_fails(write_attention("shape.safetensors", tensors, ATTENTION_TENSORS), "should be");
    }
}

static void a_nan_fails(void **state)
{
    (void)state;
    static struct attention a;
    struct st_tensor tensors[ATTENTION_TENSORS];
    attention_fill(&a, 700);
    attention_tensors(&a, tensors);
    a.dx[VALUES - 1] = NAN;
    assert_fails(write_attention("nan.safetensors", tensors, ATTENTION_TENSORS), "mine.dx");
}

static void metadata_that_makes_no_sense_fails(void **state)
{
    (void)state;
    static struct attention a;
    struct st_tensor tensors[ATTENTION_TENSORS];
    attention_fill(&a, 800);
    attention_tensors(&a, tensors);
    static const char *const cases[][2] = {
        {"[{\"case\": \"mine\", \"blueprint\": \"nonsense\"}]", "blueprint"},
        {"[{\"case\": \"other\", \"blueprint\": \"attention\"}]", "other.x"},
        {"[{\"blueprint\": \"attention\"}]", "case"},
        {"[{\"case\": \"mine\", \"blueprint\": \"attention\", \"groups\": 7}]", "groups"},
        {"[{\"case\": \"mine\"", "cases"},
        {"[]", "no case"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_fails(write_file("meta.safetensors", "blueprints_cnn", "cases", cases[i][0], tensors, ATTENTION_TENSORS),
                     cases[i][1]);
    assert_fails(write_file("meta.safetensors", "blueprints_cnn", "other", "", tensors, ATTENTION_TENSORS), "missing");
}

static void unknown_kinds_are_skipped(void **state)
{
    (void)state;
    static struct attention a;
    struct st_tensor tensors[ATTENTION_TENSORS];
    attention_fill(&a, 900);
    attention_tensors(&a, tensors);
    const struct outcome *outcome =
        check_path(write_file("skip.safetensors", "something_new", "cases", "[]", tensors, ATTENTION_TENSORS));
    assert_int_equal(outcome->test.report.count[CHECK_SKIPPED], 1);
    assert_int_equal(outcome->test.report.count[CHECK_PASSED] + outcome->test.report.count[CHECK_FAILED], 0);
    FILE *json = fopen(path_of("reward_vectors.json"), "w");
    assert_non_null(json);
    fputs("{\"cases\": []}", json);
    fclose(json);
    assert_fails(path_of("reward_vectors.json"), "a list of cases");
    json = fopen(path_of("reward_vectors.json"), "w");
    assert_non_null(json);
    fputs("{\"cases\": [", json);
    fclose(json);
    assert_fails(path_of("reward_vectors.json"), "reward_vectors.json");
    unlink(path_of("reward_vectors.json"));
}

/* ---- damaged copies of the shipped files ------------------------------------------------------------------------ */

static size_t read_bytes(const char *path, char **bytes)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    fseek(file, 0, SEEK_END);
    size_t size = (size_t)ftell(file);
    rewind(file);
    *bytes = malloc(size);
    assert_non_null(*bytes);
    assert_int_equal(fread(*bytes, 1, size, file), size);
    fclose(file);
    return size;
}

static const char *write_bytes(const char *name, const char *bytes, size_t size)
{
    const char *path = path_of(name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    fclose(file);
    return path;
}

static const char *const shipped[] = {
    "blueprints_cnn",   "blend_ops",       "host_cnn",   "host_slots", "blueprints_transformer",
    "host_transformer", "alpha_schedules", "lifecycle",  "policy_net", "action_masks",
    "observations",     "gae_and_ppo",     "normalizers"};
enum { SHIPPED = sizeof shipped / sizeof shipped[0] };

static void cut_off_files_fail(void **state)
{
    (void)state;
    for (int i = 0; i < SHIPPED; i++) {
        char from[128], *bytes;
        snprintf(from, sizeof from, VECTORS "/%s.safetensors", shipped[i]);
        size_t size = read_bytes(from, &bytes);
        const size_t sizes[] = {0, 5, 100, size / 2, size - 1};
        for (int k = 0; k < 5; k++)
            assert_fails(write_bytes("cut.safetensors", bytes, sizes[k]), "cut.safetensors");
        free(bytes);
    }
}

static void renamed_tensors_fail(void **state)
{
    (void)state;
    static const char *const names[] = {"\"conv_heavy.c16_8x8_b3.grad.gamma1\"",
                                        "\"GATE.1.7.dq\"",
                                        "\"cifar_scale.step2.mom.fc.weight\"",
                                        "\"multi6.gate.r1c2.grad.gw1\"",
                                        "\"mlp.c8_t5_b3.grad.w2\"",
                                        "\"slots.holding_add.seed.r0c0.grad.sigma\"",
                                        "\"ramp.done\"",
                                        "\"out.stage\"",
                                        "\"small.hT\"",
                                        "\"s3.out.op\"",
                                        "\"s3_e25.obs\"",
                                        "\"gae1.return\"",
                                        "\"reward0.norm\""};
    for (int i = 0; i < SHIPPED; i++) {
        char from[128], *bytes;
        snprintf(from, sizeof from, VECTORS "/%s.safetensors", shipped[i]);
        size_t size = read_bytes(from, &bytes), at = 8, length = strlen(names[i]);
        while (at + length < size && memcmp(bytes + at, names[i], length) != 0)
            at++;
        assert_true(at + length < size);
        bytes[at + length - 2] = '_'; /* the tensor goes by another name now */
        assert_fails(write_bytes("renamed.safetensors", bytes, size), "missing");
        free(bytes);
    }
}

/* The first large output of a file, off by a little everywhere. */
static bool is_output(const struct st_tensor *tensor)
{
    const char *tail = strrchr(tensor->name, '.');
    return tail && (strcmp(tail, ".logits") == 0 || strcmp(tail, ".y") == 0 || strcmp(tail, ".alpha") == 0) &&
           tensor->dtype == ST_F32 && tensor->count > 8;
}

static void shifted_values_fail(void **state)
{
    (void)state;
    static const char *const keys[] = {"cases", "cases", "hosts", "scenarios", "cases", "cases", "note", "note"};
    for (int i = 0; i < 8; i++) {
        char from[128];
        struct st_file *file;
        struct esper_error error;
        snprintf(from, sizeof from, VECTORS "/%s.safetensors", shipped[i]);
        assert_int_equal(st_open(from, &file, &error), ESPER_OK);
        int count = st_count(file);
        struct st_tensor *tensors = calloc((size_t)count, sizeof *tensors);
        float *wrong = NULL;
        assert_non_null(tensors);
        for (int t = 0; t < count; t++) {
            tensors[t] = *st_at(file, t);
            if (wrong || !is_output(&tensors[t]))
                continue;
            wrong = malloc(tensors[t].bytes);
            assert_non_null(wrong);
            for (size_t k = 0; k < tensors[t].count; k++)
                wrong[k] = ((const float *)tensors[t].data)[k] + 0.05f;
            tensors[t].data = wrong;
        }
        assert_non_null(wrong);
        const char *meta = st_meta(file, keys[i]);
        assert_fails(write_file("shifted.safetensors", shipped[i], keys[i], meta ? meta : "", tensors, count), "of");
        free(wrong);
        free(tensors);
        st_close(file);
    }
}

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/esper_selftest_XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    static const char *const names[] = {"attention", "wrong", "missing", "shape",   "nan",
                                        "meta",      "skip",  "cut",     "renamed", "shifted"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s.safetensors", names[i]);
        unlink(path_of(name));
    }
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_case_table_passes),
        cmocka_unit_test(the_shipped_vectors_pass),
        cmocka_unit_test(a_filter_picks_cases_by_name),
        cmocka_unit_test(a_path_with_nothing_to_check_is_an_error),
        cmocka_unit_test(a_file_of_other_seeds_and_shapes_passes),
        cmocka_unit_test(a_wrong_number_anywhere_fails),
        cmocka_unit_test(a_missing_tensor_fails),
        cmocka_unit_test(a_tensor_of_another_shape_fails),
        cmocka_unit_test(a_nan_fails),
        cmocka_unit_test(metadata_that_makes_no_sense_fails),
        cmocka_unit_test(unknown_kinds_are_skipped),
        cmocka_unit_test(cut_off_files_fail),
        cmocka_unit_test(renamed_tensors_fail),
        cmocka_unit_test(shifted_values_fail),
    };
    return cmocka_run_group_tests_name("selftest", tests, make_folder, remove_folder);
}
