/* Files: whole or not at all, whatever the disk says. */
#include "testing_folder.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/safetensors.h"

static void file_round_trip_and_replace(void **state)
{
    (void)state;
    struct file_writer writer;
    struct esper_error error;
    char *data;
    size_t size;
    const char *path = in_folder("round");
    for (int i = 0; i < 2; i++) { /* the second time it replaces */
        assert_int_equal(file_begin(&writer, path, &error), ESPER_OK);
        assert_int_equal(file_write(&writer, i ? "new" : "old", 3, &error), ESPER_OK);
        assert_int_equal(file_write(&writer, "!", 1, &error), ESPER_OK);
        assert_int_equal(file_commit(&writer, &error), ESPER_OK);
        file_abort(&writer); /* harmless after the end */
    }
    assert_int_equal(file_read(path, 4, &data, &size, &error), ESPER_OK);
    assert_int_equal(size, 4);
    assert_string_equal(data, "new!");
    memory_free(data);
    assert_int_equal(file_read(path, 3, &data, &size, &error), ESPER_INVALID);
    assert_says(&error, "larger than");

    void *whole;
    assert_int_equal(file_load(path, &whole, &size, &error), ESPER_OK);
    assert_memory_equal(whole, "new!", 4);
    memory_free(whole);
    assert_int_equal(entries_in(folder), 1);
    unlink(path);
}

static void file_abort_leaves_the_old_content(void **state)
{
    (void)state;
    struct file_writer writer;
    struct esper_error error;
    char *data;
    size_t size;
    const char *path = in_folder("kept");
    put_file(path, "kept", 4);
    assert_int_equal(file_begin(&writer, path, &error), ESPER_OK);
    assert_int_equal(file_write(&writer, "lost", 4, &error), ESPER_OK);
    file_abort(&writer);
    assert_int_equal(file_read(path, 100, &data, &size, &error), ESPER_OK);
    assert_string_equal(data, "kept");
    memory_free(data);
    assert_int_equal(entries_in(folder), 1);
    unlink(path);
}

static void file_wrong_paths_are_named(void **state)
{
    (void)state;
    struct file_writer writer;
    struct esper_error error;
    char *data;
    size_t size;
    void *whole;
    assert_int_equal(file_read("/nowhere/at/all", 10, &data, &size, &error), ESPER_INVALID);
    assert_says(&error, "/nowhere/at/all: cannot open");
    assert_int_equal(file_read(folder, 10, &data, &size, &error), ESPER_INVALID);
    assert_says(&error, "is a directory");
    assert_int_equal(file_load(folder, &whole, &size, &error), ESPER_INVALID);
    assert_int_equal(file_load("/dev/null", &whole, &size, &error), ESPER_INVALID);
    assert_int_equal(file_begin(&writer, "/nowhere/at/all", &error), ESPER_INVALID);
    assert_says(&error, "/nowhere/at/all");
    file_abort(&writer);
    /* rename would replace the device with a file */
    assert_int_equal(file_begin(&writer, "/dev/null", &error), ESPER_INVALID);
    assert_says(&error, "not a regular file");
    assert_int_equal(file_begin(&writer, folder, &error), ESPER_INVALID);
    put_file(in_folder("empty"), "", 0);
    assert_int_equal(file_load(in_folder("empty"), &whole, &size, &error), ESPER_OK);
    assert_null(whole);
    unlink(in_folder("empty"));
}

/* Run `check` in a child process, which may change its limits, identity or mounts. Exit 77 means "not possible here".
 */
static void in_child(int (*check)(void))
{
    int status;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(check());
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77)
        skip();
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* Write 1 MB over an old file where it cannot fit: one line, the old content, nothing left behind. Returns 0 when all
 * is well, else the number of the step that failed. */
static int overflow_in(const char *directory)
{
    static char block[1 << 16];
    char path[128];
    char *data;
    size_t size;
    struct file_writer writer;
    struct esper_error error = {0};
    snprintf(path, sizeof path, "%s/full", directory);
    FILE *old = fopen(path, "w");
    if (!old || fputs("old", old) < 0 || fclose(old) != 0)
        return 1;
    enum esper_status status = file_begin(&writer, path, &error);
    for (int i = 0; i < 16 && status == ESPER_OK; i++)
        status = file_write(&writer, block, sizeof block, &error);
    if (status != ESPER_FAILED || !strstr(error.text, path) || strchr(error.text, '\n'))
        return 2;
    if (entries_in(directory) != 1)
        return 3;
    if (file_read(path, 10, &data, &size, &error) != ESPER_OK || strcmp(data, "old") != 0)
        return 4;
    memory_free(data);

    /* the safetensors writer behaves the same way */
    struct st_tensor tensor = {.name = "t", .dtype = ST_U8, .dims = 1, .shape = {1 << 20}};
    tensor.data = memory_alloc(1 << 20, 1, &error);
    status = st_write(path, &tensor, 1, NULL, 0, &error);
    memory_free((void *)(uintptr_t)tensor.data);
    return status == ESPER_FAILED && entries_in(directory) == 1 ? unlink(path) : 5;
}

static int overflow_by_limit(void)
{
    struct rlimit limit = {300000, 300000};
    signal(SIGXFSZ, SIG_IGN);
    return setrlimit(RLIMIT_FSIZE, &limit) == 0 ? overflow_in(folder) : 77;
}

static int overflow_by_full_disk(void)
{
    char mount_point[96];
    snprintf(mount_point, sizeof mount_point, "%s/disk", folder);
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
        return 77;
    if (mkdir(mount_point, 0777) != 0)
        return 6;
    if (mount("none", mount_point, "tmpfs", 0, "size=300k") != 0) {
        rmdir(mount_point);
        return 77;
    }
    int result = overflow_in(mount_point);
    umount(mount_point);
    return rmdir(mount_point) == 0 ? result : 7;
}

static void a_file_size_limit_leaves_nothing_behind(void **state)
{
    (void)state;
    in_child(overflow_by_limit);
    assert_int_equal(entries_in(folder), 0);
}

static void a_full_disk_leaves_nothing_behind(void **state)
{
    (void)state;
    in_child(overflow_by_full_disk);
    assert_int_equal(entries_in(folder), 0);
}

static int write_into_locked_directory(void)
{
    struct file_writer writer;
    struct esper_error error = {0};
    if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0)) /* root may write anywhere */
        return 77;
    if (file_begin(&writer, in_folder("locked/x"), &error) != ESPER_FAILED)
        return 1;
    return strstr(error.text, "locked/x") && strstr(error.text, "ermission") ? 0 : 2;
}

static void a_read_only_directory_is_one_line(void **state)
{
    (void)state;
    assert_int_equal(chmod(folder, 0755), 0);
    assert_int_equal(mkdir(in_folder("locked"), 0555), 0);
    in_child(write_into_locked_directory);
    assert_int_equal(rmdir(in_folder("locked")), 0);
}

static void a_kind_is_told_by_the_first_bytes(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t size;
        const char *kind;
    } cases[] = {
        {"\x08\x08\x12\x05"
         "esper\x1a\x05"
         "0.2.0",
         16, FILE_ONNX},
        {"\x10\0\0\0\0\0\0\0{\"a\": 1}", 16, FILE_SAFETENSORS},
        {"\x10\0\0\0\0\0\0\0{", 9, FILE_SAFETENSORS}, /* cut short */
        {"\x89PNG\r\n\x1a\n", 8, "a PNG picture"},
        {"SQLite format 3\0....", 20, "an SQLite database"},
        {"SQLite format 3", 15, NULL},
        {" \n[1, 2]", 8, "a JSON file"},
        {"{}", 2, "a JSON file"},
        {"{\n  \"a\": 1}", 11, "a JSON file"},
        {"[[true]]", 8, "a JSON file"},
        {"{\x9a\x01", 3, NULL}, /* noise */
        {"[\0x", 3, NULL},
        {"\x7f"
         "ELF",
         4, "a program or library"},
        {"\x1f\x8b\x08", 3, "a gzip archive"},
        {"some text", 9, NULL},
        {"\x08", 1, NULL},
        {" ", 1, NULL},
        {"", 0, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *kind = file_kind(cases[i].bytes, cases[i].size);
        if (cases[i].kind ? !kind || strcmp(kind, cases[i].kind) != 0 : kind != NULL)
            fail_msg("case %zu: %s", i, kind ? kind : "unknown");
    }
}

static void directories_are_made_to_the_last(void **state)
{
    (void)state;
    struct esper_error error = {0};
    struct stat info;
    assert_int_equal(file_make_directories(in_folder("a/b"), &error), ESPER_OK);
    assert_int_equal(file_make_directories(in_folder("a/b/"), &error), ESPER_OK);
    assert_true(stat(in_folder("a/b"), &info) == 0 && S_ISDIR(info.st_mode));
    put_file(in_folder("a/plain"), "x", 1);
    assert_int_equal(file_make_directories(in_folder("a/plain/c"), &error), ESPER_INVALID);
    assert_says(&error, "a/plain: is not a directory");
    assert_int_equal(unlink(in_folder("a/plain")), 0);
    assert_int_equal(rmdir(in_folder("a/b")), 0);
    assert_int_equal(rmdir(in_folder("a")), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(file_round_trip_and_replace),       cmocka_unit_test(file_abort_leaves_the_old_content),
        cmocka_unit_test(file_wrong_paths_are_named),        cmocka_unit_test(a_file_size_limit_leaves_nothing_behind),
        cmocka_unit_test(a_full_disk_leaves_nothing_behind), cmocka_unit_test(a_read_only_directory_is_one_line),
        cmocka_unit_test(a_kind_is_told_by_the_first_bytes), cmocka_unit_test(directories_are_made_to_the_last),
    };
    return cmocka_run_group_tests_name("file", tests, folder_make, folder_remove);
}
