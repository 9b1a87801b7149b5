/* What the tests of checkpoints share: a small world with an array of every type, checkpoints of it in a folder, and
 * damage to them. */
#ifndef TESTS_TESTING_CHECKPOINT_H
#define TESTS_TESTING_CHECKPOINT_H

#include "testing_folder.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "session/checkpoint.h"

/* ---- a small world ----------------------------------------------------------------------------------------------- */

struct rig {
    struct table table;
    struct config config;
    float *f32;
    double *f64;
    int32_t *i32;
    uint32_t *u32, *scratch, *empty;
    uint64_t *u64;
    uint16_t *u16;
    uint8_t *u8;
    int8_t *i8;
};

static uint32_t random_state = 1;

static inline uint32_t random_word(void)
{
    random_state = random_state * 1664525u + 1013904223u;
    return random_state >> 8 ^ random_state << 16;
}

static inline void rig_fill(struct rig *rig, uint32_t seed)
{
    random_state = seed;
    for (int i = 0; i < rig->table.count; i++)
        for (size_t at = 0; at < rig->table.rows[i].bytes; at++)
            ((uint8_t *)rig->table.rows[i].data)[at] = (uint8_t)random_word(); /* NaNs and all */
}

static inline void rig_allocate(struct rig *rig, size_t envs)
{
    struct esper_error error;
    TABLE_ADD(&rig->table, &rig->u8, "slot.stage", TYPE_U8, CLASS_STATE, true, SCOPE_ENV, envs, 3);
    TABLE_ADD(&rig->table, &rig->f32, "host", TYPE_F32, CLASS_PARAM, true, SCOPE_ENV, envs, 37);
    TABLE_ADD(&rig->table, &rig->scratch, "scratch", TYPE_U32, CLASS_ACT, false, SCOPE_RUN, 100);
    TABLE_ADD(&rig->table, &rig->f64, "accuracy", TYPE_F64, CLASS_STATE, true, SCOPE_ENV, envs);
    TABLE_ADD(&rig->table, &rig->i32, "i32", TYPE_I32, CLASS_STATE, true, SCOPE_RUN, 5);
    TABLE_ADD(&rig->table, &rig->u32, "round", TYPE_U32, CLASS_STATE, true, SCOPE_RUN, 1);
    TABLE_ADD(&rig->table, &rig->u64, "mask", TYPE_U64, CLASS_STATE, true, SCOPE_ENV, envs, 2, 2, 1);
    TABLE_ADD(&rig->table, &rig->empty, "empty", TYPE_U32, CLASS_STATE, true, SCOPE_ENV, envs, 0);
    TABLE_ADD(&rig->table, &rig->u16, "u16", TYPE_U16, CLASS_STATE, true, SCOPE_RUN, 7);
    TABLE_ADD(&rig->table, &rig->i8, "i8", TYPE_I8, CLASS_STATE, true, SCOPE_RUN, 9);
    assert_int_equal(table_allocate(&rig->table, &error), ESPER_OK);
}

static inline void rig_make(struct rig *rig, size_t envs, uint32_t seed)
{
    struct esper_error error;
    char text[32];
    memset(rig, 0, sizeof *rig);
    config_defaults(&rig->config);
    snprintf(text, sizeof text, "envs=%zu", envs);
    assert_int_equal(config_set(&rig->config, text, &error), ESPER_OK);
    rig_allocate(rig, envs);
    rig_fill(rig, seed);
}

static inline struct checkpoint_info put(const char *path, const struct rig *rig, uint32_t round, uint32_t step)
{
    struct checkpoint_info info;
    struct esper_error error = {0};
    if (checkpoint_write(path, &rig->table, &rig->config, round, step, &info, &error) != ESPER_OK)
        fail_msg("%s", error.text);
    return info;
}

static inline const char *numbered(uint32_t round, uint32_t step)
{
    char name[32];
    checkpoint_name(round, step, name);
    return in_folder(name);
}

static inline void clear_folder(void)
{
    DIR *listing = opendir(folder);
    const struct dirent *entry;
    while ((entry = readdir(listing)))
        if (entry->d_name[0] != '.')
            unlinkat(dirfd(listing), entry->d_name, 0);
    closedir(listing);
}

static inline uint64_t digest(const struct rig *rig) /* of all rows, saved or not */
{
    uint64_t sum = table_hash(&rig->table);
    for (int i = 0; i < 100; i++)
        sum = sum * 31 + rig->scratch[i];
    return sum;
}

/* Refused with one line that says `word`; the table is unchanged. */
static inline void assert_refused(const char *path, const struct rig *rig, const char *word)
{
    struct esper_error error = {0};
    struct checkpoint_info info;
    uint64_t before = digest(rig);
    assert_int_not_equal(checkpoint_read(path, &rig->table, &rig->config, &info, &error), ESPER_OK);
    assert_says(&error, word);
    assert_int_equal(digest(rig), before);
}

static inline void flip(const char *path, off_t position, int bit)
{
    uint8_t byte;
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &byte, 1, position), 1);
    byte ^= (uint8_t)(1 << bit);
    assert_int_equal(pwrite(fd, &byte, 1, position), 1);
    close(fd);
}

static inline off_t size_of(const char *path)
{
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    return info.st_size;
}

/* ---- folders ----------------------------------------------------------------------------------------------------- */

static inline void put_round(struct rig *rig, uint32_t round, uint32_t step)
{
    rig_fill(rig, round * 1000 + step);
    put(numbered(round, step), rig, round, step);
}

static inline void damage(uint32_t round, uint32_t step)
{
    const char *path = numbered(round, step);
    flip(path, size_of(path) - 1, 0);
}

static inline void assert_newest(struct rig *rig, uint32_t round, uint32_t step, const char *words)
{
    struct checkpoint_info info;
    struct esper_error error = {0};
    char note[512];
    if (checkpoint_read_newest(folder, &rig->table, &rig->config, &info, note, &error) != ESPER_OK)
        fail_msg("%s", error.text);
    assert_int_equal(info.round, round);
    assert_int_equal(info.step, step);
    assert_string_equal(info.path, numbered(round, step));
    assert_null(strchr(note, '\n'));
    if (words ? !strstr(note, words) : *note)
        fail_msg("the note is \"%s\", not \"%s\"", note, words ? words : "");
    uint64_t hash = table_hash(&rig->table);
    assert_int_equal(info.hash, hash);
    rig_fill(rig, round * 1000 + step);
    assert_int_equal(table_hash(&rig->table), hash);
}

#endif
