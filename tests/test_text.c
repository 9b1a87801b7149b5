/* Text: splits, windows and batches (E-09, E-23), packed files and the keys of a run on one. */
#include "testing.h"

#include <stdio.h>

#include "base/config.h"
#include "base/safetensors.h"
#include "data/gather.h"
#include "data/order.h"
#include "data/text_import.h"
#include "data/window.h"
#include "testing_import.h"

/* ---- splits --------------------------------------------------------------------------------------------------------
 */

static void assert_split(size_t size, const size_t *ends, size_t documents, size_t train, size_t val)
{
    size_t own[8], bytes[SPLIT_COUNT];
    memcpy(own, ends, documents * sizeof *ends);
    text_split(&(struct text){.size = size, .ends = own, .documents = documents}, bytes);
    assert_int_equal(bytes[SPLIT_TRAIN], train);
    assert_int_equal(bytes[SPLIT_VAL], val);
    assert_int_equal(bytes[SPLIT_TEST], size - train - val);
}

/* E-23: 90, 5 and 5 %, cut at the end of a document that is near. */
static void cuts_move_to_the_ends_of_documents(void **state)
{
    (void)state;
    const size_t one[] = {10000};
    assert_split(10000, one, 1, 9000, 500);
    const size_t odd[] = {1999};
    assert_split(1999, odd, 1, 1799, 100);
    const size_t far[] = {5000, 8799, 10000};
    assert_split(10000, far, 3, 9000, 500);
    const size_t near[] = {8800, 9700, 10000};
    assert_split(10000, near, 3, 8800, 900);
    const size_t equal[] = {8900, 9100, 9450, 9549, 10000};
    assert_split(10000, equal, 5, 8900, 649);
    const size_t same[] = {9200, 9300, 10000}; /* the least that validation can have: a hundredth */
    assert_split(10000, same, 3, 9200, 100);
}

/* ---- windows -------------------------------------------------------------------------------------------------------
 */

enum { BYTES = 700, CONTEXT = 13, STRIDE = CONTEXT + 4, STARTS = BYTES - CONTEXT };

/* Every byte of a stream with the one after it is found nowhere else, so two bytes tell a window's start. */
static struct dataset *numbered(void)
{
    static uint8_t stream[SPLIT_COUNT][BYTES];
    static struct dataset dataset = {.kind = KIND_TEXT, .set = DATA_TEXT, .context = CONTEXT};
    for (int split = 0; split < SPLIT_COUNT; split++) {
        for (size_t i = 0; i < BYTES; i++)
            stream[split][i] = (uint8_t)(i % 2 ? i / 2 % 256 : i / 512 + 8 * (size_t)split);
        dataset.stream[split] = stream[split];
        dataset.bytes[split] = BYTES;
        dataset.count[split] = split == SPLIT_TRAIN ? window_starts(BYTES, CONTEXT) : window_count(BYTES, CONTEXT);
    }
    return &dataset;
}

static void windows_stay_in_their_split(void **state)
{
    (void)state;
    for (uint32_t bytes = 0; bytes < 60; bytes++)
        for (uint32_t context = 1; context < 20; context++) {
            const uint32_t starts = window_starts(bytes, context), count = window_count(bytes, context);
            assert_int_equal(starts > 0, bytes > context);
            assert_int_equal(count > 0, bytes > context);
            if (starts == 0)
                continue;
            assert_int_equal(starts - 1 + context + 1, bytes); /* the last window ends with the split */
            assert_true(window_place(count - 1, context) + context + 1 <= bytes);
            assert_true(window_place(count, context) + context + 1 > bytes);
        }
    assert_int_equal(window_starts(0xFFFFFFFFu, 1), 0xFFFFFFFEu);
    assert_true(window_place(0xFFFFFFFu, 1024) == 0xFFFFFFFull * 1024);
}

static void gather_tokens(const struct gather_job *job, uint8_t *tokens)
{
    const struct gather_target target = {.tokens = tokens, .token_stride = STRIDE};
    const struct gather_table table = gather_table_make(data_facts_of(DATA_TEXT));
    gather_batch(&table, numbered(), job, &target);
}

/* E-12, E-09: a batch is what the definitions give, and nothing is written between its rows. */
static void batches_equal_a_direct_read(void **state)
{
    (void)state;
    enum { BATCH = 24 };
    const struct dataset *text = numbered();
    for (uint32_t k = 0; k < 60; k++) {
        const struct gather_job job = {.seed = 42 + k % 3,
                                       .round = k % 2,
                                       .env = k % 5,
                                       .step = 1 + k,
                                       .index = k % 3,
                                       .batches = 3,
                                       .batch = BATCH,
                                       .conditions = conditions_plain(k % 4 ? STARTS : 100)};
        uint8_t tokens[BATCH * STRIDE];
        memset(tokens, 0xEE, sizeof tokens);
        gather_tokens(&job, tokens);
        for (uint32_t j = 0; j < BATCH; j++) {
            const uint32_t count = job.conditions.images, n = ((job.step - 1) * 3 + job.index) * BATCH + j;
            struct order order = order_of_pass(job.seed, job.round, job.env, n / count, count);
            uint32_t start = order_at(&order, n % count);
            if (count < STARTS) {
                order = order_of_pass(job.seed, job.round, job.env, ORDER_OWN, STARTS);
                start = order_at(&order, start);
            }
            assert_int_equal(start, order_sample(job.seed, job.round, job.env, n, count, STARTS));
            assert_memory_equal(tokens + j * STRIDE, text->stream[SPLIT_TRAIN] + start, CONTEXT + 1);
            for (size_t i = CONTEXT + 1; i < STRIDE; i++)
                assert_int_equal(tokens[j * STRIDE + i], 0xEE);
        }
    }
}

static uint32_t start_of(const uint8_t *window)
{
    const uint8_t *stream = numbered()->stream[SPLIT_TRAIN];
    for (uint32_t start = 0; start < STARTS; start++)
        if (memcmp(stream + start, window, CONTEXT + 1) == 0)
            return start;
    fail_msg("a window of another split");
    return 0;
}

/* E-09, E-22: a pass shows every start that the env has once; one that has fewer keeps to its own in every pass. */
static void a_pass_covers_every_start_once(void **state)
{
    (void)state;
    static const uint32_t have[] = {STARTS, 200};
    for (int k = 0; k < 2; k++) {
        const uint32_t batch = have[k];
        static int seen[STARTS];
        static uint8_t tokens[STARTS * STRIDE];
        memset(seen, 0, sizeof seen);
        for (uint32_t pass = 0; pass < 2; pass++) {
            const struct gather_job job = {.seed = 7,
                                           .round = 3,
                                           .env = 5,
                                           .step = 1 + pass,
                                           .batches = 1,
                                           .batch = batch,
                                           .conditions = conditions_plain(batch)};
            gather_tokens(&job, tokens);
            for (uint32_t j = 0; j < batch; j++) {
                const uint32_t start = start_of(tokens + (size_t)j * STRIDE);
                assert_int_equal(seen[start], pass);
                seen[start]++;
            }
        }
    }
}

static void ranges_are_side_by_side(void **state)
{
    (void)state;
    const struct dataset *text = numbered();
    const struct gather_table table = gather_table_make(data_facts_of(DATA_TEXT));
    for (int split = SPLIT_VAL; split < SPLIT_COUNT; split++) {
        static uint8_t tokens[BYTES / CONTEXT * STRIDE];
        const size_t count = text->count[split], first = 3;
        assert_int_equal(count, (BYTES - 1) / CONTEXT);
        const struct gather_target target = {.tokens = tokens, .token_stride = STRIDE};
        gather_range(&table, text, (enum split)split, first, count - first, &target);
        for (size_t i = 0; i < count - first; i++)
            assert_memory_equal(tokens + i * STRIDE, text->stream[split] + (first + i) * CONTEXT, CONTEXT + 1);
    }
}

/* ---- packed files --------------------------------------------------------------------------------------------------
 */

static void file_write(const struct fixture *f, const char *name, const uint8_t *bytes, size_t size)
{
    FILE *file = fopen(path_of(f, name), "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

/* Two documents of every byte there is, written as "packed". */
static void import_two(struct fixture *f, uint8_t bytes[3000])
{
    for (size_t i = 0; i < 3000; i++)
        bytes[i] = (uint8_t)(i * 37 + i / 256);
    file_write(f, "one", bytes, 2720);
    file_write(f, "two", bytes + 2720, 280);
    struct text text = {0};
    assert_int_equal(text_add_file(&text, path_of(f, "one"), &f->error), ESPER_OK);
    assert_int_equal(text_add_file(&text, path_of(f, "two"), &f->error), ESPER_OK);
    assert_int_equal(text_write(&text, "a test", path_of(f, "packed"), &f->error), ESPER_OK);
    text_free(&text);
}

static void what_is_imported_is_read_back(void **state)
{
    struct fixture *f = *state;
    uint8_t bytes[3000];
    import_two(f, bytes);
    struct dataset *dataset;
    assert_int_equal(dataset_open(path_of(f, "packed"), DATA_TEXT, 20, &dataset, &f->error), ESPER_OK);
    assert_int_equal(dataset->kind, KIND_TEXT);
    assert_int_equal(dataset->documents, 2);
    assert_int_equal(dataset->bytes[SPLIT_TRAIN], 2720);
    assert_int_equal(dataset->bytes[SPLIT_VAL], 130);
    assert_int_equal(dataset->bytes[SPLIT_TEST], 150);
    assert_int_equal(dataset->count[SPLIT_TRAIN], 2700);
    assert_int_equal(dataset->count[SPLIT_VAL], 6);
    assert_int_equal(dataset->count[SPLIT_TEST], 7);
    assert_memory_equal(dataset->stream[SPLIT_TRAIN], bytes, 2720);
    assert_memory_equal(dataset->stream[SPLIT_VAL], bytes + 2720, 130);
    assert_memory_equal(dataset->stream[SPLIT_TEST], bytes + 2850, 150);
    struct text_summary summary = {.distinct = 0};
    text_summarise(&summary, dataset->stream[SPLIT_TRAIN], 2560);
    assert_int_equal(summary.distinct, 256);
    assert_true(summary.entropy > 7.9 && summary.entropy <= 8);
    dataset_close(dataset);
    /* By its name, as `data info` opens it: windows are for who trains. */
    assert_int_equal(dataset_open_named(path_of(f, "packed"), 32, 0, &dataset, &f->error), ESPER_OK);
    assert_int_equal(dataset->set, DATA_TEXT);
    assert_int_equal(dataset->count[SPLIT_TRAIN], 0);
    dataset_close(dataset);
}

static void a_context_must_fit_every_split(void **state)
{
    struct fixture *f = *state;
    uint8_t bytes[3000];
    struct dataset *dataset;
    import_two(f, bytes);
    assert_int_equal(dataset_open(path_of(f, "packed"), DATA_TEXT, 129, &dataset, &f->error), ESPER_OK);
    dataset_close(dataset);
    assert_int_equal(dataset_open(path_of(f, "packed"), DATA_TEXT, 130, &dataset, &f->error), ESPER_INVALID);
    assert_null(dataset);
    assert_says(&f->error, "packed: host.context = 130: a window has 131 bytes, the val split 130");
}

static void damage_is_found(void **state)
{
    struct fixture *f = *state;
    uint8_t bytes[3000];
    struct dataset *dataset;
    import_two(f, bytes);
    FILE *file = fopen(path_of(f, "packed"), "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, -1000, SEEK_END), 0);
    const int byte = fgetc(file);
    assert_int_equal(fseek(file, -1000, SEEK_END), 0);
    assert_true(fputc(byte ^ 1, file) != EOF && fclose(file) == 0);
    assert_int_equal(dataset_open(path_of(f, "packed"), DATA_TEXT, 20, &dataset, &f->error), ESPER_INVALID);
    assert_says(&f->error, "damaged: its checksum is ");
    assert_says(&f->error, "`esper data get text` or `esper data import FILE...` writes a good one");
}

static void try_packed(struct fixture *f, size_t val, const char *stated, const char *tensor, const char *word)
{
    static const uint8_t bytes[64];
    const struct st_tensor tensors[] = {
        {.name = "train.bytes", .dtype = ST_U8, .dims = 1, .shape = {60}, .data = bytes},
        {.name = tensor, .dtype = ST_U8, .dims = 1, .shape = {val}, .data = bytes},
        {.name = "test.bytes", .dtype = ST_U8, .dims = 1, .shape = {9}, .data = bytes},
    };
    const char *const meta[][2] = {{"format", DATASET_TEXT}, {"version", DATASET_VERSION},
                                   {"name", "text"},         {"train", "60"},
                                   {"val", stated},          {"test", "9"}};
    struct dataset *dataset;
    assert_int_equal(st_write(path_of(f, "packed"), tensors, 3, meta, 6, &f->error), ESPER_OK);
    assert_int_equal(dataset_open(path_of(f, "packed"), DATA_TEXT, 8, &dataset, &f->error),
                     word ? ESPER_INVALID : ESPER_OK);
    if (word)
        assert_says(&f->error, word);
    else
        dataset_close(dataset);
}

static void inconsistent_files_are_refused(void **state)
{
    struct fixture *f = *state;
    try_packed(f, 9, "9", "val.bytes", NULL);
    try_packed(f, 9, "10", "val.bytes", "val holds 9 bytes, its metadata says 10");
    try_packed(f, 1, "1", "val.bytes", "val.bytes has 1 bytes");
    try_packed(f, 9, "9", "val.text", "tensor val.bytes is missing");
}

static void empty_and_tiny_files_are_refused(void **state)
{
    struct fixture *f = *state;
    uint8_t bytes[TEXT_LEAST] = {0};
    struct text text = {0};
    file_write(f, "none", bytes, 0);
    assert_int_equal(text_add_file(&text, path_of(f, "none"), &f->error), ESPER_INVALID);
    assert_says(&f->error, "none: is empty");
    assert_int_equal(text_add_file(&text, path_of(f, "missing"), &f->error), ESPER_INVALID);
    file_write(f, "few", bytes, TEXT_LEAST - 1);
    assert_int_equal(text_add_file(&text, path_of(f, "few"), &f->error), ESPER_OK);
    assert_int_equal(text_write(&text, "a test", path_of(f, "packed"), &f->error), ESPER_INVALID);
    assert_says(&f->error, "999 bytes of text are too few");
    assert_int_not_equal(access(path_of(f, "packed"), F_OK), 0);
    text_free(&text);
}

/* ---- keys ----------------------------------------------------------------------------------------------------------
 */

static struct config text_config(void)
{
    struct config config;
    config_defaults(&config);
    config.host_family = (enum host_family_id)(FAMILY_CNN + 1);
    config.data_set = DATA_LANGUAGE;
    config.host_context = 32;
    config.data_size = 16; /* not asked for */
    config.data_val_images = 2048;
    config.data_test_images = 4096;
    return config;
}

#define ASSERT_KEYS_FAIL(word, ...)                                                                                    \
    do {                                                                                                               \
        struct config config = text_config();                                                                          \
        struct esper_error line;                                                                                       \
        __VA_ARGS__;                                                                                                   \
        assert_int_equal(dataset_check(&config, &line), ESPER_INVALID);                                                \
        assert_says(&line, word);                                                                                      \
    } while (0)

static void keys_must_suit_text(void **state)
{
    (void)state;
    struct config good = text_config();
    struct esper_error error;
    assert_int_equal(dataset_check(&good, &error), ESPER_OK);
    assert_int_equal(dataset_size(&good), 32);
    good.data_set = DATA_TEXT; /* how long it is, its file says */
    good.data_val_images = 5000;
    assert_int_equal(dataset_check(&good, &error), ESPER_OK);
    ASSERT_KEYS_FAIL("data.val_images = 2049: language has 2048 windows of host.context = 32",
                     config.data_val_images = 2049);
    ASSERT_KEYS_FAIL("data.test_images = 4096: language has 2048 windows of host.context = 64",
                     (config.host_context = 64, config.data_val_images = 1));
    ASSERT_KEYS_FAIL("mixed.label_noise = 0.3: text has no labels", config.mixed.label_noise = 0.3);
    ASSERT_KEYS_FAIL("data.batches = 0", config.data_batches = 0);
    ASSERT_KEYS_FAIL("windows in a round", (config.data_batch = 4096, config.data_batches = 65535, config.steps = 100));
    ASSERT_KEYS_FAIL("data.set = language: host.family = cnn reads images", config.host_family = FAMILY_CNN);
    ASSERT_KEYS_FAIL("data.set = cifar10: this host.family reads text", config.data_set = DATA_CIFAR10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cuts_move_to_the_ends_of_documents),
        cmocka_unit_test(windows_stay_in_their_split),
        cmocka_unit_test(batches_equal_a_direct_read),
        cmocka_unit_test(a_pass_covers_every_start_once),
        cmocka_unit_test(ranges_are_side_by_side),
        WITH_FILES(what_is_imported_is_read_back),
        WITH_FILES(a_context_must_fit_every_split),
        WITH_FILES(damage_is_found),
        WITH_FILES(inconsistent_files_are_refused),
        WITH_FILES(empty_and_tiny_files_are_refused),
        cmocka_unit_test(keys_must_suit_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
