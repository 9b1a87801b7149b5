/* Checkpoints: round trips, files of other worlds, and which of a folder stay. */
#include "testing_checkpoint.h"

#include <time.h>

#include "base/config_json.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/safetensors.h"
#include "session/behind.h"

/* ---- round trips ------------------------------------------------------------------------------------------------- */

static void names_sort_and_grow(void **state)
{
    (void)state;
    char name[32];
    checkpoint_name(12, 0, name);
    assert_string_equal(name, "r000012-s000.ckpt");
    checkpoint_name(7, 1234, name);
    assert_string_equal(name, "r000007-s1234.ckpt");
    checkpoint_name(UINT32_MAX, UINT32_MAX, name);
    assert_string_equal(name, "r4294967295-s4294967295.ckpt");
}

static void every_type_comes_back_bit_for_bit(void **state)
{
    (void)state;
    struct rig saved, other;
    struct checkpoint_info info, again;
    struct esper_error error = {0};
    rig_make(&saved, 3, 1);
    rig_make(&other, 3, 2);
    uint64_t scratch = other.scratch[5];
    const char *path = in_folder("x.ckpt");
    info = put(path, &saved, 12, 34);
    assert_int_equal(info.hash, table_hash(&saved.table));
    assert_string_equal(info.path, path);
    assert_int_equal(checkpoint_read(path, &other.table, &other.config, &again, &error), ESPER_OK);
    for (int i = 0; i < saved.table.count; i++) {
        const struct table_row *a = &saved.table.rows[i], *b = &other.table.rows[i];
        if (a->bytes && a->saved)
            assert_memory_equal(a->data, b->data, a->bytes);
        else if (a->bytes)
            assert_memory_not_equal(a->data, b->data, a->bytes);
    }
    assert_int_equal(other.scratch[5], scratch);
    assert_int_equal(again.round, 12);
    assert_int_equal(again.step, 34);
    assert_int_equal(again.hash, info.hash);
    assert_string_equal(again.path, path);

    /* it is a plain safetensors file: the types are as named */
    struct st_file *file;
    assert_int_equal(st_open(path, &file, &error), ESPER_OK);
    assert_int_equal(st_count(file), saved.table.count - 1);
    assert_null(st_find(file, "scratch"));
    assert_int_equal(st_find(file, "host")->dtype, ST_F32);
    assert_int_equal(st_find(file, "i8")->dtype, ST_I8);
    assert_int_equal(st_find(file, "mask")->dtype, ST_U64);
    assert_string_equal(st_meta(file, "format"), CHECKPOINT_FORMAT);
    assert_string_equal(st_meta(file, "esper"), ESPER_VERSION);
    assert_string_equal(st_meta(file, "round"), "12");
    st_close(file);

    /* the same state gives the same bytes */
    char *first, *second;
    size_t first_size, second_size;
    assert_int_equal(file_read(path, 1 << 20, &first, &first_size, &error), ESPER_OK);
    put(path, &other, 12, 34);
    assert_int_equal(file_read(path, 1 << 20, &second, &second_size, &error), ESPER_OK);
    assert_int_equal(first_size, second_size);
    assert_memory_equal(first, second, first_size);
    memory_free(first);
    memory_free(second);
    unlink(path);
    table_free(&saved.table);
    table_free(&other.table);
}

/* A text of the key's type that is not its value; false: there is none among these. */
static bool change(struct config *config, int key)
{
    static const char *const texts[] = {"1",         "2",      "3",      "16",       "0.5",     "1e-07",      "true",
                                        "false",     "random", "sparse", "original", "minimum", "r0c1",       "words",
                                        "synthetic", "debug",  "cuda",   "bf16",     "sgd",     "transformer"};
    char before[CONFIG_TEXT], after[CONFIG_TEXT];
    struct esper_error error;
    config_format_exact(config, key, before);
    if (strcmp(config_key_name(key), "task") == 0) {
        strcpy(config->task, "another");
        return true;
    }
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        if (config_set_value(config, config_key_name(key), texts[i], ORIGIN_SET, &error) != ESPER_OK)
            continue;
        config_format_exact(config, key, after);
        if (strcmp(before, after) != 0)
            return true;
    }
    return false;
}

/* What is written in the background is the state at the start, whatever has happened to the world since. */
static void written_behind_is_what_was(void **state)
{
    (void)state;
    struct rig saved, other;
    struct behind *behind;
    struct checkpoint_info info;
    struct esper_error error = {0};
    enum esper_status status;
    rig_make(&saved, 3, 1);
    rig_make(&other, 3, 2);
    assert_int_equal(behind_create(&behind, &saved.table, &error), ESPER_OK);
    assert_false(behind_collect(behind, true, &status, &info, &error)); /* nothing was started */
    for (uint32_t round = 1; round <= 3; round++) {
        rig_fill(&saved, round);
        const uint64_t hash = table_hash(&saved.table);
        behind_start(behind, in_folder("behind.ckpt"), &saved.table, &saved.config, round, 7);
        rig_fill(&saved, 100 + round);
        assert_true(behind_collect(behind, true, &status, &info, &error));
        assert_false(behind_collect(behind, true, &status, &info, &error)); /* once */
        assert_int_equal(status, ESPER_OK);
        assert_int_equal(info.hash, hash);
        assert_int_equal(checkpoint_read(in_folder("behind.ckpt"), &other.table, &other.config, &info, &error),
                         ESPER_OK);
        assert_int_equal(info.round, round);
        assert_int_equal(info.step, 7);
        assert_int_equal(table_hash(&other.table), hash);
    }
    behind_start(behind, in_folder("no/such/folder.ckpt"), &saved.table, &saved.config, 4, 0);
    assert_true(behind_collect(behind, true, &status, &info, &error));
    assert_int_not_equal(status, ESPER_OK);
    assert_says(&error, "folder.ckpt");
    behind_start(behind, in_folder("behind.ckpt"), &saved.table, &saved.config, 5, 0);
    behind_free(behind); /* waits: a whole file or none */
    assert_int_equal(checkpoint_verify(in_folder("behind.ckpt"), &info, NULL, &error), ESPER_OK);
    assert_int_equal(info.round, 5);
    assert_int_equal(unlink(in_folder("behind.ckpt")), 0);
    table_free(&saved.table);
    table_free(&other.table);
}

static void configuration_comes_back_exactly(void **state)
{
    (void)state;
    struct rig rig;
    struct config back;
    struct checkpoint_info info;
    struct esper_error error = {0};
    rig_make(&rig, 3, 1);
    for (int key = 0; key < config_key_count(); key++)
        assert_true(change(&rig.config, key));
    rig.config.host_lr = 0.1 + 0.2;
    rig.config.gamma = 1.0 / 3;
    rig.config.seed = UINT64_MAX;
    strcpy(rig.config.about, "quotes \" and \\ and \xC3\xA4");
    const char *path = in_folder("x.ckpt");
    put(path, &rig, 1, 0);
    assert_int_equal(checkpoint_peek(path, &info, &back, &error), ESPER_OK);
    memcpy(back.origin, rig.config.origin, sizeof back.origin);
    assert_int_equal(back.seed, UINT64_MAX);
    for (int key = 0; key < config_key_count(); key++) {
        char a[CONFIG_TEXT], b[CONFIG_TEXT];
        config_format_exact(&rig.config, key, a);
        config_format_exact(&back, key, b);
        assert_string_equal(a, b);
    }
    assert_memory_equal(&back.host_lr, &rig.config.host_lr, sizeof back.host_lr);
    assert_memory_equal(&back.gamma, &rig.config.gamma, sizeof back.gamma);
    assert_memory_equal(&back.reward, &rig.config.reward, sizeof back.reward);
    assert_int_equal(checkpoint_read(path, &rig.table, &rig.config, &info, &error), ESPER_OK);
    rig.config.gamma = 0.333333333333333; /* equal in the 15 digits that are shown, not in the bits */
    assert_refused(path, &rig, "gamma");
    unlink(path);
    table_free(&rig.table);
}

/* ---- other worlds ------------------------------------------------------------------------------------------------ */

static void another_configuration_is_refused_by_key(void **state)
{
    (void)state;
    static const char *const free[] = {"about",
                                       "rounds",
                                       "threads",
                                       "device",
                                       "precision",
                                       "data.path",
                                       "policy.script",
                                       "policy.schedule",
                                       "checkpoint.rounds",
                                       "checkpoint.minutes",
                                       "checkpoint.keep",
                                       "telemetry.level",
                                       "telemetry.timers"};
    struct rig rig;
    struct checkpoint_info info;
    struct esper_error error = {0};
    int accepted = 0;
    rig_make(&rig, 3, 1);
    const char *path = in_folder("x.ckpt");
    put(path, &rig, 1, 0);
    const struct config original = rig.config;
    for (int key = 0; key < config_key_count(); key++) {
        char there[CONFIG_TEXT], words[2 * CONFIG_TEXT];
        bool may_differ = false;
        rig.config = original;
        config_format_exact(&original, key, there);
        assert_true(change(&rig.config, key));
        for (size_t i = 0; i < sizeof free / sizeof free[0]; i++)
            may_differ = may_differ || strcmp(free[i], config_key_name(key)) == 0;
        if (may_differ) {
            assert_int_equal(checkpoint_read(path, &rig.table, &rig.config, &info, &error), ESPER_OK);
            accepted++;
        } else {
            snprintf(words, sizeof words, "%s is \"%.60s\" there and \"", config_key_name(key), there);
            assert_refused(path, &rig, words);
        }
    }
    assert_int_equal(accepted, sizeof free / sizeof free[0]);
    unlink(path);
    table_free(&rig.table);
}

/* Worlds of equal configuration whose arrays differ: another version of the program. */
static void other_arrays_are_refused(void **state)
{
    (void)state;
    struct rig small, large, bare = {0};
    struct esper_error error = {0};
    rig_make(&small, 3, 1);
    rig_make(&large, 4, 1);
    const char *path = in_folder("x.ckpt");
    put(path, &small, 1, 0);
    assert_refused(path, &large, "envs is \"3\" there and \"4\" here");
    large.config = small.config;
    assert_refused(path, &large, "array slot.stage is U8 [3][3] there and U8 [4][3] here");

    config_defaults(&bare.config);
    bare.config.envs = 3;
    TABLE_ADD(&bare.table, &bare.f32, "host", TYPE_F32, CLASS_PARAM, true, SCOPE_ENV, 3, 37);
    TABLE_ADD(&bare.table, &bare.scratch, "scratch", TYPE_U32, CLASS_ACT, false, SCOPE_RUN, 100);
    assert_int_equal(table_allocate(&bare.table, &error), ESPER_OK);
    assert_refused(path, &bare, "has an array accuracy that this world does not know");
    put(path, &bare, 1, 0);
    assert_refused(path, &small, "has no array slot.stage");
    table_free(&bare.table);

    bare = (struct rig){.config = small.config};
    TABLE_ADD(&bare.table, &bare.i32, "host", TYPE_I32, CLASS_PARAM, true, SCOPE_ENV, 3, 37);
    TABLE_ADD(&bare.table, &bare.scratch, "scratch", TYPE_U32, CLASS_ACT, false, SCOPE_RUN, 100);
    assert_int_equal(table_allocate(&bare.table, &error), ESPER_OK);
    assert_refused(path, &bare, "array host is F32 [3][37] there and I32 [3][37] here");
    table_free(&bare.table);
    unlink(path);
    table_free(&small.table);
    table_free(&large.table);
}

static void single_rows_are_taken_all_or_none(void **state)
{
    (void)state;
    struct rig saved, other, large;
    struct esper_error error = {0};
    static const char *const good[] = {"accuracy", "i8"}, *const unknown[] = {"accuracy", "nothing"},
                             *const missing[] = {"i8", "scratch"}, *const wide[] = {"i8", "host"};
    rig_make(&saved, 3, 1);
    rig_make(&other, 3, 2);
    rig_make(&large, 4, 3);
    const char *path = in_folder("x.ckpt");
    put(path, &saved, 1, 0);
    uint64_t before = digest(&other);
    assert_int_equal(checkpoint_read_rows(path, &other.table, unknown, 2, &error), ESPER_INVALID);
    assert_says(&error, "no array nothing");
    assert_int_equal(checkpoint_read_rows(path, &other.table, missing, 2, &error), ESPER_INVALID);
    assert_says(&error, "x.ckpt: has no array scratch");
    assert_int_equal(digest(&other), before);
    before = digest(&large);
    assert_int_equal(checkpoint_read_rows(path, &large.table, wide, 2, &error), ESPER_INVALID);
    assert_says(&error, "array host is F32 [3][37] there and F32 [4][37] here");
    assert_int_equal(digest(&large), before);

    other.config.ppo.lr = 0.5; /* another configuration is no obstacle */
    uint32_t round = *other.u32;
    assert_int_equal(checkpoint_read_rows(path, &other.table, good, 2, &error), ESPER_OK);
    assert_memory_equal(other.f64, saved.f64, 3 * sizeof *saved.f64);
    assert_memory_equal(other.i8, saved.i8, 9);
    assert_int_equal(*other.u32, round);
    flip(path, size_of(path) - 1, 3);
    assert_int_equal(checkpoint_read_rows(path, &other.table, good, 2, &error), ESPER_INVALID);
    assert_says(&error, "does not match its checksum");
    unlink(path);
    table_free(&saved.table);
    table_free(&other.table);
    table_free(&large.table);
}

/* ---- folders ----------------------------------------------------------------------------------------------------- */

static bool exists(const char *path)
{
    return access(path, F_OK) == 0;
}

static void set_age(const char *path, int seconds)
{
    struct timespec now, times[2];
    clock_gettime(CLOCK_REALTIME, &now);
    now.tv_sec -= seconds;
    times[0] = times[1] = now;
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static void pruning_keeps_the_newest_and_the_best(void **state)
{
    (void)state;
    struct rig rig;
    struct esper_error error = {0};
    rig_make(&rig, 3, 1);
    for (uint32_t round = 1; round <= 6; round++)
        put_round(&rig, 10 * round, 0);
    put_round(&rig, 60, 5);
    put(in_folder("best.ckpt"), &rig, 20, 0);
    put_file(in_folder("notes.txt"), "mine", 4);
    put_file(in_folder("r000050-s000.ckpt.99-0.tmp"), "half", 4);
    put_file(in_folder("best.ckpt.99-0.tmp"), "half", 4);
    put_file(in_folder("r000070-s000.ckpt.77-0.tmp"), "half", 4);
    set_age(in_folder("r000050-s000.ckpt.99-0.tmp"), 3600);
    set_age(in_folder("best.ckpt.99-0.tmp"), 3600);
    set_age(in_folder("r000070-s000.ckpt.77-0.tmp"), -3600);
    assert_int_equal(checkpoint_prune(folder, 3, &error), ESPER_OK);
    assert_int_equal(entries_in(folder), 6);
    assert_true(exists(numbered(60, 5)) && exists(numbered(60, 0)) && exists(numbered(50, 0)));
    assert_true(exists(in_folder("best.ckpt")) && exists(in_folder("notes.txt")));
    assert_true(exists(in_folder("r000070-s000.ckpt.77-0.tmp"))); /* being written */

    /* a damaged one does not count: a readable one is never removed in favour of it */
    damage(60, 5);
    assert_int_equal(checkpoint_prune(folder, 1, &error), ESPER_OK);
    assert_true(exists(numbered(60, 5)) && exists(numbered(60, 0)) && !exists(numbered(50, 0)));
    damage(60, 0);
    assert_int_equal(checkpoint_prune(folder, 1, &error), ESPER_OK);
    assert_true(exists(numbered(60, 5)) && exists(numbered(60, 0)));
    put_round(&rig, 61, 0);
    assert_int_equal(checkpoint_prune(folder, 1, &error), ESPER_OK);
    assert_int_equal(entries_in(folder), 4);
    assert_newest(&rig, 61, 0, NULL);
    assert_int_equal(checkpoint_prune(in_folder("none"), 1, &error), ESPER_INVALID);
    clear_folder();
    table_free(&rig.table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_sort_and_grow),
        cmocka_unit_test(every_type_comes_back_bit_for_bit),
        cmocka_unit_test(written_behind_is_what_was),
        cmocka_unit_test(configuration_comes_back_exactly),
        cmocka_unit_test(another_configuration_is_refused_by_key),
        cmocka_unit_test(other_arrays_are_refused),
        cmocka_unit_test(single_rows_are_taken_all_or_none),
        cmocka_unit_test(pruning_keeps_the_newest_and_the_best),
    };
    return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
