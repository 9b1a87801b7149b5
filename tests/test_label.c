/* Tags and notes of runs, which of a run's files are Esper's, and archives (T-01). */
#include "base/file.h"
#include "base/tar.h"
#include "telemetry/run_archive.h"
#include "telemetry/run_label.h"
#include "telemetry/run_shelf.h"
#include "testing_runs.h"

static struct esper_error error;

static void write_text(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static void test_tags(void **state)
{
    struct run_label label = {0};
    char many[16];
    (void)state;
    assert_int_equal(run_label_add(&label, "b", &error), ESPER_OK);
    assert_int_equal(run_label_add(&label, "a", &error), ESPER_OK);
    assert_int_equal(run_label_add(&label, "b", &error), ESPER_OK);
    assert_int_equal(label.count, 2);
    assert_string_equal(label.tags[0], "a");
    run_label_drop(&label, "a");
    run_label_drop(&label, "none");
    assert_true(run_label_has(&label, "b") && !run_label_has(&label, "a"));
    static const char *const wrong[] = {"", "-a", ".a", "a b", "a/b", "ä", "a\033"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_int_equal(run_label_add(&label, wrong[i], &error), ESPER_INVALID);
    for (int i = label.count; i < LABEL_TAGS; i++) {
        snprintf(many, sizeof many, "t%d", i);
        assert_int_equal(run_label_add(&label, many, &error), ESPER_OK);
    }
    assert_int_equal(run_label_add(&label, "one-more", &error), ESPER_INVALID);
    assert_int_equal(run_label_set_note(&label, "two\nlines", &error), ESPER_INVALID);
    assert_int_equal(run_label_set_note(&label, "not \xff UTF-8", &error), ESPER_INVALID);
}

/* What is written is read; a label that somebody else wrote is checked as a tag and a note are. */
static void test_file(void **state)
{
    struct run_label label = {0}, read;
    (void)state;
    assert_int_equal(run_label_read(folder, &read, &error), ESPER_OK);
    assert_int_equal(read.count, 0);
    assert_int_equal(run_label_add(&label, "good", &error), ESPER_OK);
    assert_int_equal(run_label_set_note(&label, "\"größer\"", &error), ESPER_OK);
    assert_int_equal(run_label_write(folder, &label, &error), ESPER_OK);
    assert_int_equal(run_label_read(folder, &read, &error), ESPER_OK);
    assert_memory_equal(&label, &read, sizeof label);
    static const char *const wrong[] = {"",
                                        "[]",
                                        "[1, 2]",
                                        "{}",
                                        "{\"tags\": {}, \"note\": \"\"}",
                                        "{\"tags\": [1], \"note\": \"\"}",
                                        "{\"tags\": [\"a b\"], \"note\": \"\"}",
                                        "{\"tags\": [], \"note\": \"\\u001b[2J\"}",
                                        "{\"tags\": [], \"note\": 7}"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        write_text(in_folder("label.json"), wrong[i]);
        assert_int_equal(run_label_read(folder, &read, &error), ESPER_INVALID);
        assert_int_equal(read.count, 0);
    }
    assert_int_equal(run_label_write(folder, &(struct run_label){0}, &error), ESPER_OK);
    assert_int_equal(entries_in(folder), 0);
}

/* Of everything in the directory, what Esper writes is listed and removed; the rest stays. */
static void test_own_files(void **state)
{
    static const char *const own[] = {"x/run.json",
                                      "x/lock",
                                      "x/telemetry.db-wal",
                                      "x/status.json.12-0.tmp",
                                      "x/checkpoints/r000001-s000.ckpt",
                                      "x/checkpoints/best.ckpt.9-1.tmp"};
    static const char *const strange[] = {
        "x/notes.txt",           "x/run.json.bak", "x/lock.tmp", "x/status.json.tmp", "x/checkpoints/r1-s2.ckpt~",
        "x/checkpoints/run.json"};
    struct run_files files, again;
    bool gone;
    (void)state;
    mkdir(in_folder("x"), 0777);
    mkdir(in_folder("x/checkpoints"), 0777);
    for (int i = 0; i < 6; i++) {
        write_text(in_folder(own[i]), "12345");
        write_text(in_folder(strange[i]), "1");
    }
    assert_int_equal(symlink("notes.txt", in_folder("x/plan.json")), 0);
    assert_int_equal(mkdir(in_folder("x/script.json"), 0777), 0);
    assert_int_equal(run_files_open(&files, in_folder("x"), &error), ESPER_OK);
    assert_int_equal(files.count, 6);
    assert_int_equal(files.bytes, 30);
    assert_int_equal(files.strange, 8);
    assert_string_equal(files.files[4].name, "run.json");
    assert_string_equal(files.files[5].name, "lock");
    assert_int_equal(run_files_open(&again, in_folder("x"), &error), ESPER_OK);
    assert_true(run_files_same(&files, &again));
    run_files_close(&again);
    write_text(in_folder("x/run.json"), "longer than before");
    assert_int_equal(run_files_open(&again, in_folder("x"), &error), ESPER_OK);
    assert_false(run_files_same(&files, &again));
    run_files_close(&again);
    assert_int_equal(run_files_remove(&files, &gone, &error), ESPER_OK);
    assert_false(gone);
    assert_int_equal(entries_in(in_folder("x")), 7); /* the directory of checkpoints is one of them */
    assert_int_equal(entries_in(in_folder("x/checkpoints")), 2);
    run_files_close(&files);
}

static void test_a_link_is_no_run(void **state)
{
    struct run_files files;
    (void)state;
    assert_int_equal(symlink("elsewhere", in_folder("y")), 0);
    assert_int_equal(run_files_open(&files, in_folder("y"), &error), ESPER_INVALID);
    assert_non_null(strstr(error.text, "is a symbolic link"));
    run_files_close(&files);
}

/* Sizes that twelve octal digits cannot hold, and long names; what tar(1) makes of them is in run_keep.sh. */
static void test_tar_headers(void **state)
{
    struct tar_writer tar;
    char *data, name[300];
    size_t size;
    (void)state;
    memset(name, 'n', sizeof name);
    name[120] = '/';
    name[180] = '\0';
    assert_int_equal(tar_begin(&tar, in_folder("a.tar"), &error), ESPER_OK);
    assert_int_equal(tar_file(&tar, name, 3, 1000000000, &error), ESPER_OK);
    assert_int_equal(tar_write(&tar, "abc", 3, &error), ESPER_OK);
    assert_int_equal(tar_file(&tar, "huge", (uint64_t)9 << 30, 0, &error), ESPER_OK);
    assert_int_equal(tar_commit(&tar, &error), ESPER_FAILED); /* its bytes did not come */
    assert_int_equal(access(in_folder("a.tar"), F_OK), -1);

    assert_int_equal(tar_begin(&tar, in_folder("a.tar"), &error), ESPER_OK);
    assert_int_equal(tar_file(&tar, name, 3, 1000000000, &error), ESPER_OK);
    assert_int_equal(tar_write(&tar, "abcd", 4, &error), ESPER_FAILED); /* too many */
    assert_int_equal(tar_begin(&tar, in_folder("a.tar"), &error), ESPER_OK);
    assert_int_equal(tar_file(&tar, name, 3, 1000000000, &error), ESPER_OK);
    assert_int_equal(tar_write(&tar, "abc", 3, &error), ESPER_OK);
    assert_int_equal(tar_commit(&tar, &error), ESPER_OK);
    assert_int_equal(file_read(in_folder("a.tar"), 1 << 20, &data, &size, &error), ESPER_OK);
    assert_int_equal(size, 4 * 512);
    assert_memory_equal(data + 345, name, 120);
    assert_memory_equal(data, name + 121, 59);
    assert_memory_equal(data + 124, "00000000003", 12);
    memory_free(data);
    memset(name, 'n', 180);
    assert_int_equal(tar_begin(&tar, in_folder("b.tar"), &error), ESPER_OK);
    assert_int_equal(tar_directory(&tar, name, 0, &error), ESPER_INVALID); /* no '/' to cut it at */
}

static void test_ages(void **state)
{
    int64_t seconds;
    (void)state;
    assert_int_equal(run_shelf_age("12h", &seconds, &error), ESPER_OK);
    assert_int_equal(seconds, 12 * 3600);
    assert_int_equal(run_shelf_age("30d", &seconds, &error), ESPER_OK);
    assert_int_equal(seconds, 30 * 86400);
    static const char *const wrong[] = {"", "d", "0d", "-1d", "+1d", "1", "1m", "1dd", "1 d", "99999999999999999999d"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_int_equal(run_shelf_age(wrong[i], &seconds, &error), ESPER_INVALID);
}

/* Who trains keeps out who would remove or pack, and the other way round; two may pack at once. */
static void test_holding(void **state)
{
    struct run run, again;
    struct config config = sample_config();
    int lock, other;
    (void)state;
    create_run(&run, "held", &config);
    assert_int_equal(run_hold(run.path, true, &lock, &error), ESPER_FAILED);
    assert_int_equal(run_hold(run.path, false, &lock, &error), ESPER_FAILED);
    assert_non_null(strstr(error.text, "is training this run"));
    run_close(&run);
    assert_int_equal(run_hold(run.path, false, &lock, &error), ESPER_OK);
    assert_int_equal(run_hold(run.path, false, &other, &error), ESPER_OK);
    close(other);
    assert_int_equal(run_open_to_train(&again, run.path, &error), ESPER_FAILED);
    close(lock);
    assert_int_equal(run_open_to_train(&again, run.path, &error), ESPER_OK);
    run_close(&again);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tags),        cmocka_unit_test(test_file),
        cmocka_unit_test(test_own_files),   cmocka_unit_test(test_a_link_is_no_run),
        cmocka_unit_test(test_tar_headers), cmocka_unit_test(test_ages),
        cmocka_unit_test(test_holding),
    };
    return cmocka_run_group_tests(tests, folder_make, folder_clear);
}
