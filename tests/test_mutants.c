/* Mutated input: JSON, configuration and safetensors files damaged at random. ESPER_FUZZ sets how many of each. */
#include "testing_folder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/config.h"
#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/philox.h"
#include "base/safetensors.h"

enum { LONGEST = 4096 };

struct mutant {
    char bytes[LONGEST];
    size_t length;
};

static long fuzz_count(void)
{
    const char *text = getenv("ESPER_FUZZ");
    return text ? atol(text) : 10000;
}

/* One of a few kinds of damage, at random: flip, overwrite, cut, repeat a piece, insert something meaningful. */
static void damage(struct mutant *m, struct random_site at, uint32_t *draw)
{
    static const char *const pieces[] = {"\"",  "{",    "}",      "[",    "]",     ",",
                                         ":",   "null", "-1",     "1e9",  "1e999", "\\u0",
                                         "0.5", "true", "\"a\":", "\xC3", "\xFF",  "9007199254740993"};
    uint32_t kind = random_word(at, (*draw)++) % 6, value = random_word(at, (*draw)++);
    size_t where = m->length ? random_word(at, (*draw)++) % m->length : 0;
    size_t span = 1 + value % 16;
    if (m->length && kind == 0)
        m->bytes[where] = (char)(m->bytes[where] ^ (1 << value % 8));
    else if (m->length && kind == 1)
        m->bytes[where] = (char)value;
    else if (kind == 2 && where + span <= m->length) {
        memmove(m->bytes + where, m->bytes + where + span, m->length - where - span);
        m->length -= span;
    } else if (kind == 3 && where + span <= m->length && m->length + span <= LONGEST) {
        memmove(m->bytes + where + span, m->bytes + where, m->length - where);
        m->length += span;
    } else if (kind == 4) {
        const char *piece = pieces[value % (sizeof pieces / sizeof pieces[0])];
        size_t length = strlen(piece);
        if (m->length + length > LONGEST)
            return;
        memmove(m->bytes + where + length, m->bytes + where, m->length - where);
        memcpy(m->bytes + where, piece, length);
        m->length += length;
    } else if (kind == 5 && value % 4 == 0)
        m->length = where;
}

static void mutate(struct mutant *m, const void *original, size_t length, uint32_t stream, uint32_t number)
{
    struct random_site at = {.seed = 20260, .a = number, .env = stream};
    uint32_t draw = 0, times = random_word(at, draw++) % 4; /* now and then undamaged */
    memcpy(m->bytes, original, length);
    m->length = length;
    for (uint32_t i = 0; i < times; i++)
        damage(m, at, &draw);
}

/* Whatever the input, an answer: a tree that prints and reads back, or one line. */
static void fuzz_json(void **state)
{
    (void)state;
    static const char seed_text[] =
        "{\"a\": [1, -2.5e3, true, null], \"b\\n\": {\"\\u00e4\": \"\xC3\xA4\", \"c\": []}}";
    static struct mutant m;
    long good = 0;
    for (long i = 0; i < fuzz_count(); i++) {
        cJSON *tree, *again;
        struct esper_error error = {0};
        mutate(&m, seed_text, sizeof seed_text - 1, 1, (uint32_t)i);
        enum esper_status status = json_parse(m.bytes, m.length, &tree, &error);
        if (status != ESPER_OK) {
            assert_int_equal(status, ESPER_INVALID);
            assert_true(error.text[0] != '\0');
            continue;
        }
        good++;
        char *text = cJSON_PrintUnformatted(tree);
        assert_non_null(text);
        assert_int_equal(json_parse(text, strlen(text), &again, &error), ESPER_OK);
        assert_true(cJSON_Compare(tree, again, true));
        cJSON_Delete(again);
        cJSON_free(text);
        cJSON_Delete(tree);
    }
    assert_true(good > fuzz_count() / 10 && good < fuzz_count() * 9 / 10);
}

/* A file in memory, under a path that can be opened. */
static int memory_file(char path[64])
{
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    assert_true(fd >= 0);
    snprintf(path, 64, "/proc/self/fd/%d", fd);
    return fd;
}

static void memory_file_fill(int fd, const struct mutant *m)
{
    assert_int_equal(ftruncate(fd, 0), 0);
    assert_int_equal(pwrite(fd, m->bytes, m->length, 0), (ssize_t)m->length);
}

/* What is accepted can be printed and set again, key by key, to the same configuration. */
static void fuzz_config(void **state)
{
    (void)state;
    static const char seed_text[] =
        "{\"about\": \"x\", \"envs\": 8, \"seed\": \"77\", \"host.lr\": 0.02, \"host.blocks\": 4, \"host.pools\": 2,\n"
        " \"slots\": [\"r0c0\", \"r1c1\"], \"data.set\": \"synthetic\", \"gates.auto_g1\": false}";
    static struct mutant m;
    char path[64];
    int fd = memory_file(path);
    long good = 0;
    for (long i = 0; i < fuzz_count(); i++) {
        struct config config, again;
        struct esper_error error = {0};
        mutate(&m, seed_text, sizeof seed_text - 1, 2, (uint32_t)i);
        memory_file_fill(fd, &m);
        config_defaults(&config);
        enum esper_status status = config_load_file(&config, path, &error);
        if (status != ESPER_OK) {
            assert_int_equal(status, ESPER_INVALID);
            assert_true(error.text[0] != '\0');
            continue;
        }
        good++;
        config_check(&config, &error); /* either answer is fine */
        again = config;
        for (int key = 1; key < config_key_count(); key++) { /* all but "task" */
            char text[CONFIG_TEXT];
            config_format(&config, key, text);
            if (config_set_value(&again, config_key_name(key), text, ORIGIN_FILE, &error) != ESPER_OK)
                fail_msg("%s", error.text);
            config_format(&again, key, m.bytes);
            assert_string_equal(m.bytes, text);
        }
    }
    close(fd);
    assert_true(good > fuzz_count() / 10 && good < fuzz_count() * 9 / 10);
}

/* What is accepted is inside the file and as long as its shape says: read every byte. */
static void fuzz_safetensors(void **state)
{
    (void)state;
    static struct mutant m;
    struct esper_error error = {0};
    const float floats[6] = {1, 2, 3, 4, 5, 6};
    const uint8_t bytes[5] = {1, 2, 3, 4, 5};
    const struct st_tensor tensors[] = {
        {.name = "f", .dtype = ST_F32, .dims = 2, .shape = {2, 3}, .data = floats},
        {.name = "u", .dtype = ST_U8, .dims = 1, .shape = {5}, .data = bytes},
    };
    const char *const meta[][2] = {{"k", "v"}};
    char *image, path[64];
    size_t size;
    assert_int_equal(st_write(in_folder("seed"), tensors, 2, meta, 1, &error), ESPER_OK);
    assert_int_equal(file_read(in_folder("seed"), LONGEST, &image, &size, &error), ESPER_OK);
    unlink(in_folder("seed"));
    int fd = memory_file(path);
    unsigned sum = 0;
    long good = 0;
    for (long i = 0; i < fuzz_count(); i++) {
        struct st_file *file;
        mutate(&m, image, size, 3, (uint32_t)i);
        memory_file_fill(fd, &m);
        enum esper_status status = st_open(path, &file, &error);
        if (status != ESPER_OK) {
            assert_int_equal(status, ESPER_INVALID);
            continue;
        }
        good++;
        size_t total = 0;
        for (int k = 0; k < st_count(file); k++) {
            const struct st_tensor *tensor = st_at(file, k);
            assert_int_equal(tensor->bytes, tensor->count * st_dtype_bytes(tensor->dtype));
            assert_ptr_equal(st_find(file, tensor->name), tensor);
            for (size_t b = 0; b < tensor->bytes; b++)
                sum += ((const uint8_t *)tensor->data)[b];
            total += tensor->bytes;
        }
        assert_true(total < m.length);
        st_close(file);
    }
    close(fd);
    memory_free(image);
    assert_true(good > fuzz_count() / 10 && good < fuzz_count() * 9 / 10 && sum > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fuzz_json),
        cmocka_unit_test(fuzz_config),
        cmocka_unit_test(fuzz_safetensors),
    };
    return cmocka_run_group_tests_name("mutants", tests, folder_make, folder_remove);
}
