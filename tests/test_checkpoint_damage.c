/* Damaged checkpoints: every kind of damage, what a folder with damaged ones still gives, and writers that
 * fail or are killed. */
#include "testing_checkpoint.h"

#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/safetensors.h"

static int failing_reads; /* the next ones: the disk does not answer */

ssize_t read(int fd, void *data, size_t bytes)
{
    if (failing_reads == 0)
        return (ssize_t)syscall(SYS_read, fd, data, bytes);
    failing_reads--;
    errno = EIO;
    return -1;
}

/* ---- damage ------------------------------------------------------------------------------------------------------ */

/* Every byte of the file, length, header, padding and data, with one bit flipped. */
static void every_flipped_byte_is_refused(void **state)
{
    (void)state;
    struct rig rig;
    struct checkpoint_info info;
    struct esper_error error = {0};
    rig_make(&rig, 3, 1);
    const char *path = in_folder("flip.ckpt");
    put(path, &rig, 12, 0);
    rig_fill(&rig, 77);
    off_t size = size_of(path);
    for (off_t position = 0; position < size; position++) {
        int bit = (int)(random_word() % 8);
        flip(path, position, bit);
        assert_refused(path, &rig, "flip.ckpt: ");
        flip(path, position, bit);
    }
    assert_int_equal(checkpoint_read(path, &rig.table, &rig.config, &info, &error), ESPER_OK);
    assert_int_equal(table_hash(&rig.table), info.hash);

    flip(path, size - 1, 0);
    assert_refused(path, &rig, "does not match its checksum; it is damaged or cut short: take an older one or a copy");
    unlink(path);
    table_free(&rig.table);
}

static void cut_and_grown_files_are_refused(void **state)
{
    (void)state;
    struct rig rig;
    struct esper_error error = {0};
    char *data;
    size_t size;
    rig_make(&rig, 3, 1);
    const char *path = in_folder("cut.ckpt");
    put(path, &rig, 12, 0);
    assert_int_equal(file_read(path, 1 << 20, &data, &size, &error), ESPER_OK);
    for (size_t length = 0; length < size; length += length < 20 ? 1 : 1 + random_word() % 23) {
        put_file(path, data, length);
        assert_refused(path, &rig, "it is damaged or cut short: take an older one or a copy");
    }
    put_file(path, data, size - 1);
    assert_refused(path, &rig, "cut short");
    char *longer = memory_alloc(size + 1, 1, &error);
    memcpy(longer, data, size);
    put_file(path, longer, size + 1);
    assert_refused(path, &rig, "1 unused bytes");
    memory_free(longer);
    memory_free(data);
    unlink(path);
    table_free(&rig.table);
}

/* The file again, with one entry of its metadata changed. */
static void rewrite(const char *path, const char *key, const char *value)
{
    static const char *const names[] = {"format", "esper", "round", "step", "hash", "config", "crc", "seal"};
    struct st_file *file;
    struct esper_error error = {0};
    const char *meta[8][2];
    assert_int_equal(st_open(path, &file, &error), ESPER_OK);
    struct st_tensor *tensors = memory_alloc((size_t)st_count(file), sizeof *tensors, &error);
    for (int i = 0; i < st_count(file); i++)
        tensors[i] = *st_at(file, i);
    int count = 0;
    for (int i = 0; i < 8; i++) {
        meta[count][0] = names[i];
        meta[count][1] = strcmp(names[i], key) == 0 ? value : st_meta(file, names[i]);
        count += meta[count][1] != NULL; /* NULL: leave it out */
    }
    assert_int_equal(st_write(path, tensors, st_count(file), (const char *const(*)[2])meta, count, &error), ESPER_OK);
    memory_free(tensors);
    st_close(file);
}

static void other_files_are_refused(void **state)
{
    (void)state;
    struct rig rig;
    struct checkpoint_info info;
    struct esper_error error = {0};
    const float one = 1;
    const struct st_tensor tensor = {.name = "host", .dtype = ST_F32, .dims = 1, .shape = {1}, .data = &one};
    rig_make(&rig, 3, 1);
    const char *path = in_folder("x.ckpt");
    assert_refused(path, &rig, "cannot open");
    assert_refused(folder, &rig, "is a directory, not a file");
    put_file(path, "", 0);
    assert_refused(path, &rig, "0 bytes are too few");
    put_file(path, "{\"round\": 3}\n{\"round\": 3}\n", 26);
    assert_refused(path, &rig, "not a safetensors file");
    assert_int_equal(st_write(path, &tensor, 1, NULL, 0, &error), ESPER_OK);
    assert_refused(path, &rig, "a safetensors file, but not a checkpoint; checkpoints are in RUN/checkpoints");
    const char *const meta[][2] = {{"format", "esper-images"}};
    assert_int_equal(st_write(path, &tensor, 1, meta, 1, &error), ESPER_OK);
    assert_refused(path, &rig, "not a checkpoint");

    put(path, &rig, 1, 0);
    rewrite(path, "format", "esper-checkpoint-1");
    assert_refused(path, &rig, "format esper-checkpoint-1, but esper " ESPER_VERSION " reads " CHECKPOINT_FORMAT);
    assert_int_equal(checkpoint_peek(path, &info, NULL, &error), ESPER_UNSUPPORTED);
    put(path, &rig, 1, 0);
    rewrite(path, "round", "2");
    assert_refused(path, &rig, "its metadata does not match its checksum");
    put(path, &rig, 1, 0);
    rewrite(path, "step", NULL);
    assert_refused(path, &rig, "its metadata has no \"step\"");
    unlink(path);
    table_free(&rig.table);
}

/* ---- folders ----------------------------------------------------------------------------------------------------- */

static void damaged_checkpoints_are_passed_over(void **state)
{
    (void)state;
    struct rig rig;
    struct checkpoint_info info;
    struct esper_error error = {0};
    char note[512];
    rig_make(&rig, 3, 1);
    assert_int_equal(checkpoint_read_newest(folder, &rig.table, &rig.config, &info, note, &error), ESPER_INVALID);
    assert_says(&error, "holds no checkpoint to resume from; start a new run");
    assert_int_equal(checkpoint_read_newest(in_folder("none"), &rig.table, &rig.config, &info, note, &error),
                     ESPER_INVALID);
    assert_says(&error, "cannot list the checkpoints");

    put_round(&rig, 9, 10);
    put_round(&rig, 10, 0);
    put_round(&rig, 10, 17);
    put(in_folder("best.ckpt"), &rig, 999, 0);
    put(in_folder("r000011-s000.ckpt.123-0.tmp"), &rig, 11, 0);
    put(in_folder("r11-s0.ckpt"), &rig, 11, 0);
    put(in_folder("r000011-s000.ckpt.bak"), &rig, 11, 0);
    assert_newest(&rig, 10, 17, NULL);
    put_round(&rig, 1000000, 3);
    assert_newest(&rig, 1000000, 3, NULL);
    unlink(numbered(1000000, 3));

    damage(10, 17);
    assert_newest(&rig, 10, 0, "checkpoint r000010-s017.ckpt cannot be used (tensor ");
    assert_newest(&rig, 10, 0, "does not match its checksum); resuming from r000010-s000.ckpt");
    put_file(numbered(10, 0), "", 0);
    assert_newest(&rig, 9, 10, "checkpoint r000010-s017.ckpt and the 1 before it cannot be used (");
    assert_int_equal(checkpoint_newest(folder, &info, NULL, &error), ESPER_INVALID); /* where nobody reads a note */
    assert_says(&error, "checkpoint r000010-s017.ckpt and the 1 before it cannot be used (tensor ");
    assert_says(&error, "does not match its checksum); to use r000009-s010.ckpt instead, move what is damaged away");
    damage(9, 10);
    uint64_t before = digest(&rig);
    assert_int_equal(checkpoint_read_newest(folder, &rig.table, &rig.config, &info, note, &error), ESPER_INVALID);
    assert_says(&error, "none of the 3 checkpoints is intact; the newest: ");
    assert_says(&error, "r000010-s017.ckpt: tensor ");
    assert_int_equal(digest(&rig), before);

    /* intact, but not ours: going back to an older one would silently lose work */
    damage(9, 10);
    put_round(&rig, 11, 0);
    rig.config.ppo.lr = 0.125;
    assert_int_equal(checkpoint_read_newest(folder, &rig.table, &rig.config, &info, note, &error), ESPER_INVALID);
    assert_says(&error, "r000011-s000.ckpt: a checkpoint of another world: ppo.lr");
    config_defaults(&rig.config);
    rig.config.envs = 3;
    rewrite(numbered(11, 0), "format", "esper-checkpoint-1");
    assert_int_equal(checkpoint_read_newest(folder, &rig.table, &rig.config, &info, note, &error), ESPER_UNSUPPORTED);
    assert_says(&error, "r000011-s000.ckpt: format esper-checkpoint-1");
    clear_folder();
    table_free(&rig.table);
}

/* One that could not be read may be intact: no older one is taken in its place. */
static void a_failing_disk_is_no_damage(void **state)
{
    (void)state;
    struct rig rig;
    struct checkpoint_info info;
    struct esper_error error = {0};
    char note[512];
    rig_make(&rig, 3, 1);
    put_round(&rig, 1, 0);
    put_round(&rig, 2, 0);
    for (int strict = 0; strict < 2; strict++) {
        failing_reads = 1;
        assert_int_equal(checkpoint_newest(folder, &info, strict ? NULL : note, &error), ESPER_FAILED);
        assert_int_equal(failing_reads, 0);
        assert_says(&error, "r000002-s000.ckpt: cannot read: Input/output error");
    }
    assert_newest(&rig, 2, 0, NULL);
    clear_folder();
    table_free(&rig.table);
}

/* ---- writers that fail ------------------------------------------------------------------------------------------- */

/* A file-size limit stands for a full disk. */
static void a_full_disk_leaves_the_old_file(void **state)
{
    (void)state;
    struct rig rig;
    struct checkpoint_info info;
    struct esper_error error = {0};
    rig_make(&rig, 3, 1);
    const char *path = in_folder("x.ckpt");
    put(path, &rig, 1, 0);
    pid_t child = fork();
    if (child == 0) {
        const struct rlimit limit = {1000, 1000};
        signal(SIGXFSZ, SIG_IGN);
        setrlimit(RLIMIT_FSIZE, &limit);
        _exit(checkpoint_write(path, &rig.table, &rig.config, 2, 0, &info, &error) == ESPER_FAILED ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(entries_in(folder), 1);
    assert_int_equal(checkpoint_read(path, &rig.table, &rig.config, &info, &error), ESPER_OK);
    assert_int_equal(info.round, 1);
    assert_int_equal(checkpoint_write(in_folder("none/x.ckpt"), &rig.table, &rig.config, 2, 0, &info, &error),
                     ESPER_INVALID);
    assert_says(&error, "none/x.ckpt: cannot create");
    unlink(path);
    table_free(&rig.table);
}

/* A child writes one checkpoint after the other and keeps three, as a trainer does; it dies at a random instant. */
static void write_for_ever(struct rig *rig, int report)
{
    struct checkpoint_info info;
    struct esper_error error;
    for (uint32_t round = 1;; round++) {
        char path[128], name[32];
        checkpoint_name(round, 0, name);
        snprintf(path, sizeof path, "%s/%s", folder, name);
        rig_fill(rig, round * 1000);
        if (checkpoint_write(path, &rig->table, &rig->config, round, 0, &info, &error) != ESPER_OK ||
            checkpoint_prune(folder, 3, &error) != ESPER_OK || write(report, &round, sizeof round) < 0)
            _exit(1);
    }
}

static void a_killed_writer_leaves_whole_checkpoints(void **state)
{
    (void)state;
    int kills = getenv("ESPER_SOAK") ? 200 : 20;
    struct rig rig;
    for (int kill_number = 0; kill_number < kills; kill_number++) {
        int pipe_ends[2];
        uint32_t round, done = 0;
        struct esper_error error = {0};
        rig_make(&rig, 500, 1); /* 100 kB: several writes each */
        random_state = (uint32_t)kill_number;
        uint32_t delay = random_word() % 12000;
        assert_int_equal(pipe(pipe_ends), 0);
        pid_t child = fork();
        if (child == 0)
            write_for_ever(&rig, pipe_ends[1]);
        close(pipe_ends[1]);
        assert_int_equal(read(pipe_ends[0], &done, sizeof done), sizeof done); /* the first exists */
        usleep(delay);
        kill(child, SIGKILL);
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status));
        while (read(pipe_ends[0], &round, sizeof round) == sizeof round)
            done = round;
        close(pipe_ends[0]);

        /* the last one reported, or the next if its end was not reported: whole, and without a note */
        char note[512];
        struct checkpoint_info info;
        assert_int_equal(checkpoint_read_newest(folder, &rig.table, &rig.config, &info, note, &error), ESPER_OK);
        assert_string_equal(note, "");
        assert_true(info.round == done || info.round == done + 1);
        assert_newest(&rig, info.round, 0, NULL);

        /* the next checkpoint removes what was left behind */
        put_round(&rig, info.round + 1, 0);
        assert_int_equal(checkpoint_prune(folder, 1, &error), ESPER_OK);
        assert_int_equal(entries_in(folder), 1);
        clear_folder();
        table_free(&rig.table);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_flipped_byte_is_refused),
        cmocka_unit_test(cut_and_grown_files_are_refused),
        cmocka_unit_test(other_files_are_refused),
        cmocka_unit_test(damaged_checkpoints_are_passed_over),
        cmocka_unit_test(a_failing_disk_is_no_damage),
        cmocka_unit_test(a_full_disk_leaves_the_old_file),
        cmocka_unit_test(a_killed_writer_leaves_whole_checkpoints),
    };
    return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
