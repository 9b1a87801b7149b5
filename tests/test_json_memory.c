/* Out of memory while JSON is made: whichever allocation fails, there is a complete text or an error, and no leak. */
#include "testing_folder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "base/config_json.h"
#include "base/json.h"
#include "base/safetensors.h"
#include "base/stream.h"
#include "telemetry/run_json.h"
#include "telemetry/run_plan.h"

/* ---- allocations that fail --------------------------------------------------------------------------------------- */

static long allocations, failing; /* so far; the one that fails, and all after it, as memory that is full stays full */
static bool once;                 /* ... or that one alone */
static long held;

static void *count_alloc(size_t size)
{
    long number = ++allocations;
    if (failing && (number == failing || (!once && number > failing)))
        return NULL;
    held++;
    return malloc(size);
}

static void count_free(void *block)
{
    held -= block != NULL;
    free(block);
}

/* Runs the work with every allocation failing in turn; it must notice, and leave nothing behind. */
static void fail_each(bool (*work)(bool expected))
{
    cJSON_Hooks hooks = {count_alloc, count_free};
    cJSON_InitHooks(&hooks);
    failing = allocations = 0;
    assert_true(work(true));
    const long all = allocations;
    assert_true(all > 10);
    for (int turn = 0; turn < 2; turn++) {
        once = turn == 0;
        for (long k = 1; k <= all; k++) {
            failing = k;
            allocations = held = 0;
            bool done = work(false);
            if (done || held != 0)
                fail_msg("allocation %ld of %ld failed: %s, %ld blocks left", k, all, done ? "believed" : "told", held);
        }
    }
    failing = 0;
    cJSON_InitHooks(NULL);
}

/* ---- what makes JSON --------------------------------------------------------------------------------------------- */

static bool make_tree(bool expected)
{
    cJSON *root = cJSON_CreateObject(), *list = json_add_list(root, "list");
    json_add_text(root, "text", "a");
    json_add_bool(root, "yes", true);
    for (int i = 0; i < 3; i++) {
        cJSON *entry = json_add_object(list, NULL);
        json_add_number(entry, "number", i);
        json_add(entry, "inner", cJSON_CreateIntArray((const int[]){1, 2}, 2));
    }
    char *text = json_finish(root, JSON_ONE_LINE);
    if (text)
        assert_string_equal(text, "{\"list\":[{\"number\":0,\"inner\":[1,2]},{\"number\":1,\"inner\":[1,2]},"
                                  "{\"number\":2,\"inner\":[1,2]}],\"text\":\"a\",\"yes\":true}");
    assert_true(!expected || text);
    bool made = text != NULL;
    cJSON_free(text);
    return made;
}

static void test_tree(void **state)
{
    (void)state;
    fail_each(make_tree);
}

static struct run described;

static void describe_run(void)
{
    struct esper_error error = {0};
    memset(&described, 0, sizeof described);
    config_defaults(&described.config);
    assert_int_equal(config_load_task(&described.config, "quickstart", &error), ESPER_OK);
    snprintf(described.name, sizeof described.name, "run");
    snprintf(described.created, sizeof described.created, "2026-01-01T00:00:00Z");
    snprintf(described.version, sizeof described.version, "1");
    snprintf(described.kernels, sizeof described.kernels, "base");
    snprintf(described.data_checksum, sizeof described.data_checksum, "0123abcd");
    snprintf(described.path, sizeof described.path, "%s", folder);
}

/* A file is complete or was not written: an older one stays. */
static bool write_run(bool expected)
{
    struct esper_error error = {0};
    struct run back = {0};
    enum esper_status status = run_json_write(folder, &described, "esper train", &error);
    if (status != ESPER_OK) {
        assert_false(expected);
        assert_int_equal(entries_in(folder), 0);
        return false;
    }
    const long made = allocations, saved = failing; /* reading it back is not part of the work */
    failing = 0;
    assert_int_equal(run_json_read(folder, &back, &error), ESPER_OK);
    assert_string_equal(back.data_checksum, described.data_checksum);
    failing = saved;
    allocations = made;
    unlink(in_folder("run.json"));
    return true;
}

static void test_run(void **state)
{
    (void)state;
    describe_run();
    fail_each(write_run);
}

static bool write_plan(bool expected)
{
    struct esper_error error = {0};
    struct run run = described;
    enum esper_status status = run_plan_change(&run, 3, 77, "other", &error);
    if (status != ESPER_OK) {
        assert_false(expected);
        assert_int_equal(entries_in(folder), 0);
        return false;
    }
    unlink(in_folder("plan.json"));
    return true;
}

static void test_plan(void **state)
{
    (void)state;
    describe_run();
    fail_each(write_plan);
}

static bool write_tensors(bool expected)
{
    const float numbers[4] = {1, 2, 3, 4};
    const struct st_tensor tensors[2] = {{.name = "a", .dtype = ST_F32, .dims = 2, .shape = {2, 2}, .data = numbers},
                                         {.name = "b", .dtype = ST_F32, .dims = 1, .shape = {3}, .data = numbers}};
    const char *const meta[][2] = {{"format", "x"}, {"note", "y"}};
    struct esper_error error = {0};
    if (st_write(in_folder("tensors"), tensors, 2, meta, 2, &error) != ESPER_OK) {
        assert_false(expected);
        assert_int_equal(entries_in(folder), 0);
        return false;
    }
    unlink(in_folder("tensors"));
    return true;
}

static void test_tensors(void **state)
{
    (void)state;
    fail_each(write_tensors);
}

/* ---- a stream into memory ---------------------------------------------------------------------------------------- */

static void test_stream(void **state)
{
    (void)state;
    char *text, piece[100];
    size_t size;
    FILE *file = stream_open(&text, &size);
    assert_non_null(file);
    assert_int_equal(fclose(file), 0);
    assert_true(size == 0 && strcmp(text, "") == 0);
    free(text);
    file = stream_open(&text, &size);
    assert_non_null(file);
    for (int i = 0; i < 10000; i++)
        fprintf(file, "%07d\n", i);
    assert_int_equal(fclose(file), 0);
    assert_true(size == 80000 && strlen(text) == size);
    for (int i = 0; i < 10000; i++) {
        snprintf(piece, sizeof piece, "%07d\n", i);
        assert_memory_equal(text + (size_t)i * 8, piece, 8);
    }
    free(text);
}

/* Where memory ends, fclose says so. */
static void test_stream_full(void **state)
{
    (void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip(); /* their allocators do not return NULL */
#endif
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        static char block[1 << 16];
        char *text;
        size_t size;
        const struct rlimit limit = {(rlim_t)256 << 20, (rlim_t)256 << 20};
        setrlimit(RLIMIT_AS, &limit);
        FILE *file = stream_open(&text, &size);
        for (int i = 0; file && i < 8192; i++)
            fwrite(block, 1, sizeof block, file);
        _exit(file && ferror(file) && fclose(file) != 0 && !text && size == 0 ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_tree),   cmocka_unit_test(test_run),
                                       cmocka_unit_test(test_plan),   cmocka_unit_test(test_tensors),
                                       cmocka_unit_test(test_stream), cmocka_unit_test(test_stream_full)};
    return cmocka_run_group_tests_name("json_memory", tests, folder_make, folder_remove);
}
