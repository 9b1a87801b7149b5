/* The library's runs (esper.h): training round by round, to the bits of a session, and the record as columns. */
#include "data/pack.h"
#include "testing_api.h"

static struct esper_error wrong;

#define REFUSED(with, word, call)                                                                                      \
    do {                                                                                                               \
        assert_int_equal(call, with);                                                                                  \
        assert_int_equal(wrong.status, with);                                                                          \
        assert_says(&wrong, word);                                                                                     \
    } while (0)

static const char *few[] = {"envs=2",           "rounds=3",           "data.batch=16",
                            "data.batches=1",   "data.val_images=32", "data.test_images=32",
                            "steps=12",         "reward.mode=shaped", "policy.feature_dim=16",
                            "policy.hidden=16", "threads=1",          "precision=fp32",
                            "device=cpu"};
enum { FEW = sizeof few / sizeof few[0] };

static uint64_t hash_in(const char *checkpoints)
{
    struct checkpoint_info info;
    struct esper_error error = {0};
    if (checkpoint_newest(in_folder(checkpoints), &info, NULL, &error) != ESPER_OK)
        fail_msg("%s", error.text);
    return info.hash;
}

/* ---- training ---------------------------------------------------------------------------------------------------- */

static void test_training(void **state)
{
    (void)state;
    struct esper_train *train = NULL;
    struct esper_round round;
    struct config config;
    config_defaults(&config);
    assert_int_equal(config_load_task(&config, "quickstart", &wrong), ESPER_OK);
    for (int i = 0; i < FEW; i++)
        assert_int_equal(config_set(&config, few[i], &wrong), ESPER_OK);
    run_whole(&config, "whole");

    WORKS(esper_train_open(&train, "quickstart", few, FEW, folder, "parts", &failed));
    assert_false(esper_train_done(train));
    assert_string_equal(esper_train_note(train), "");
    for (uint32_t i = 1; i <= 2; i++) {
        WORKS(esper_train_round(train, &round, sizeof round, &failed));
        assert_true(round.round == i && round.env_steps == 24 && round.seconds > 0);
        assert_true(round.val_score_best >= round.val_score_mean && round.val_score_mean > 0);
    }
    esper_train_stop(train);
    REFUSED(ESPER_INTERRUPTED, "on request", esper_train_round(train, NULL, 0, &wrong));
    WORKS(esper_train_close(&train, &failed));
    assert_null(train);
    WORKS(esper_train_close(&train, &failed));

    put_file(in_folder("parts/checkpoints/r000003-s000.ckpt"), "junk", 4); /* the one before it will do */
    WORKS(esper_train_resume(&train, in_folder("parts"), 0, &failed));
    assert_non_null(strstr(esper_train_note(train), "ckpt"));
    REFUSED(ESPER_UNSUPPORTED, "struct esper_round has 8", esper_train_round(train, &round, 8, &wrong));
    WORKS(esper_train_round(train, NULL, 0, &failed));
    assert_true(esper_train_done(train));
    REFUSED(ESPER_INVALID, "all rounds are done", esper_train_round(train, &round, sizeof round, &wrong));
    assert_string_equal(esper_train_path(train), in_folder("parts"));
    WORKS(esper_train_close(&train, &failed));
    assert_true(hash_in("parts/checkpoints") == hash_in("whole/checkpoints"));

    REFUSED(ESPER_INVALID, "task is NULL", esper_train_open(&train, NULL, few, FEW, folder, "x", &wrong));
    REFUSED(ESPER_INVALID, "sets is NULL", esper_train_open(&train, "quickstart", NULL, 1, folder, "x", &wrong));
    REFUSED(ESPER_INVALID, "parts", esper_train_open(&train, "quickstart", few, FEW, folder, "parts", &wrong));
    REFUSED(ESPER_INVALID, "out is NULL", esper_train_open(NULL, "quickstart", few, FEW, folder, "x", &wrong));
    const char *cuda = "device=cuda:7";
    REFUSED(ESPER_UNSUPPORTED, "cuda", esper_train_open(&train, "quickstart", &cuda, 1, folder, "x", &wrong));
    REFUSED(ESPER_INVALID, "handle is NULL", esper_train_round(NULL, NULL, 0, &wrong));
    REFUSED(ESPER_INVALID, "/nowhere", esper_train_resume(&train, "/nowhere/run", 0, &wrong));
    assert_null(train);
    assert_true(esper_train_done(NULL) && !esper_train_path(NULL));
    esper_train_stop(NULL);
}

/* Classes and size are the data's, as they are in the program. */
static void test_own_images(void **state)
{
    (void)state;
    enum { EACH = 40, SIZE = 16 };
    static uint8_t images[EACH * SIZE * SIZE * 3];
    static uint16_t labels[EACH];
    static const char *const meta[][2] = {
        {"name", "images"},        {"title", "mine"},       {"size", "16"},
        {"classes", "3"},          {"mean", "0.5 0.5 0.5"}, {"deviation", "0.25 0.25 0.25"},
        {"class_names", "a\nb\nc"}};
    for (int i = 0; i < EACH; i++)
        labels[i] = (uint16_t)(i % 3);
    const struct packed packed = {.size = SIZE,
                                  .classes = 3,
                                  .count = {EACH, EACH, EACH},
                                  .images = {images, images, images},
                                  .labels = {labels, labels, labels}};
    char path[512];
    const char *sets[FEW + 1];
    struct esper_train *train = NULL;
    WORKS(packed_write(&packed, meta, 7, in_folder("own.safetensors"), &failed));
    snprintf(path, sizeof path, "data.path=%s", in_folder("own.safetensors"));
    memcpy(sets, few, sizeof few);
    sets[FEW] = path;
    WORKS(esper_train_open(&train, "images", sets, FEW + 1, folder, "own", &failed));
    WORKS(esper_train_round(train, NULL, 0, &failed));
    WORKS(esper_train_close(&train, &failed));
}

/* ---- the record -------------------------------------------------------------------------------------------------- */

static void test_record(void **state)
{
    (void)state;
    struct esper_run *run = NULL;
    size_t rows = 0;
    uint32_t columns = 0;
    int64_t integers[8];
    double reals[8];
    const char *texts[8];
    WORKS(esper_run_open(&run, in_folder("whole"), &failed));
    assert_string_equal(esper_run_path(run), in_folder("whole"));
    assert_non_null(strstr(esper_run_help("round", "reward_mean"), "reward"));
    assert_null(esper_run_help("round", "nothing"));

    WORKS(esper_run_ask(run, "select round, reward_mean from round order by round", &rows, &columns, &failed));
    assert_true(rows == 3 && columns == 2);
    assert_string_equal(esper_run_column_name(run, 1), "reward_mean");
    assert_null(esper_run_column_name(run, 2));
    assert_int_equal(esper_run_column_kind(run, 0), ESPER_COLUMN_INTEGERS);
    assert_int_equal(esper_run_column_kind(run, 1), ESPER_COLUMN_REALS);
    assert_int_equal(esper_run_column_kind(run, 2), ESPER_COLUMN_NONE);
    WORKS(esper_run_integers(run, 0, integers, 3, &failed));
    assert_true(integers[0] == 0 && integers[2] == 2);
    WORKS(esper_run_reals(run, 0, reals, 3, &failed));
    assert_true(reals[2] == 2);
    WORKS(esper_run_reals(run, 1, reals, 3, &failed));
    struct store *store = record_of("whole");
    assert_true(reals[1] == real_of(store, "SELECT reward_mean FROM round WHERE round = 1"));
    store_close(store);
    REFUSED(ESPER_INVALID, "holds reals, not integers", esper_run_integers(run, 1, integers, 3, &wrong));
    REFUSED(ESPER_INVALID, "not texts", esper_run_texts(run, 0, texts, 3, &wrong));
    REFUSED(ESPER_INVALID, "has 2 elements; 3", esper_run_reals(run, 1, reals, 2, &wrong));
    REFUSED(ESPER_INVALID, "column 2", esper_run_reals(run, 2, reals, 3, &wrong));

    WORKS(esper_run_ask(run, "select 1 as a, null as b, 'x' as c, x'0aff' as d union all select 2, 3, null, null",
                        &rows, &columns, &failed));
    assert_true(rows == 2 && columns == 4);
    assert_int_equal(esper_run_column_kind(run, 1), ESPER_COLUMN_REALS); /* one is missing */
    WORKS(esper_run_reals(run, 1, reals, 2, &failed));
    assert_true(isnan(reals[0]) && reals[1] == 3);
    WORKS(esper_run_texts(run, 2, texts, 2, &failed));
    assert_string_equal(texts[0], "x");
    assert_null(texts[1]);
    WORKS(esper_run_texts(run, 3, texts, 2, &failed));
    assert_string_equal(texts[0], "0aff");
    WORKS(esper_run_ask(run, "select 1 as a union all select 'x'", &rows, &columns, &failed));
    REFUSED(ESPER_INVALID, "mixes", esper_run_texts(run, 0, texts, 2, &wrong));
    WORKS(esper_run_ask(run, "select round from round where round > 99", &rows, &columns, &failed));
    assert_true(rows == 0 && columns == 1);
    WORKS(esper_run_integers(run, 0, NULL, 0, &failed));

    REFUSED(ESPER_INVALID, "", esper_run_ask(run, "delete from round", &rows, &columns, &wrong));
    REFUSED(ESPER_INVALID, "", esper_run_ask(run, "select nothing from round", &rows, &columns, &wrong));
    REFUSED(ESPER_INVALID, "sql is NULL", esper_run_ask(run, NULL, &rows, &columns, &wrong));
    REFUSED(ESPER_INVALID, "rows is NULL", esper_run_ask(run, "select 1", NULL, &columns, &wrong));
    assert_int_equal(esper_run_column_kind(run, 0), ESPER_COLUMN_NONE); /* a question that failed leaves no answer */
    assert_int_equal(esper_run_close(&run), ESPER_OK);
    assert_null(run);
    assert_int_equal(esper_run_close(&run), ESPER_OK);
    REFUSED(ESPER_INVALID, "handle is NULL", esper_run_ask(run, "select 1", &rows, &columns, &wrong));
    REFUSED(ESPER_INVALID, "what to open is NULL", esper_run_open(&run, NULL, &wrong));
    REFUSED(ESPER_INVALID, "/nowhere", esper_run_open(&run, "/nowhere/run", &wrong));
    assert_null(run);
}

/* More rows than fit at first, of texts as well. */
static void test_many_rows(void **state)
{
    (void)state;
    enum { MANY = 5000 };
    struct esper_run *run = NULL;
    size_t rows = 0;
    uint32_t columns = 0;
    char text[16];
    const char **texts = memory_alloc(MANY, sizeof *texts, NULL);
    assert_non_null(texts);
    WORKS(esper_run_open(&run, in_folder("whole"), &failed));
    WORKS(esper_run_ask(run,
                        "with recursive n(i) as (select 1 union all select i + 1 from n where i < 5000) select "
                        "'row ' || i as name, i from n",
                        &rows, &columns, &failed));
    assert_true(rows == MANY && columns == 2);
    WORKS(esper_run_texts(run, 0, texts, MANY, &failed));
    for (int i = 0; i < MANY; i++) {
        snprintf(text, sizeof text, "row %d", i + 1);
        assert_string_equal(texts[i], text);
    }
    memory_free(texts);
    assert_int_equal(esper_run_close(&run), ESPER_OK);
}

/* ESPER_TEST_DEVICE=cuda: what trains, on the device (testing.h). */
int main(void)
{
    const struct CMUnitTest training[] = {cmocka_unit_test(test_training)};
    if (on_device()) {
        few[FEW - 1] = "device=cuda";
        return cmocka_run_group_tests(training, folder_make, folder_clear);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_training),
        cmocka_unit_test(test_own_images),
        cmocka_unit_test(test_record),
        cmocka_unit_test(test_many_rows),
    };
    return cmocka_run_group_tests(tests, folder_make, folder_clear);
}
