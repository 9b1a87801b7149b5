/* The harnesses of tests/fuzz on their corpora, as they are and damaged at random. ESPER_FUZZ sets how many mutants of
 * each. */
#include <dirent.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/philox.h"
#include "fuzz/harness.h"
#include "testing.h"

enum { SEEDS = 64, GROWTH = 64 };

struct input {
    char *bytes;
    size_t length;
};

struct corpus {
    struct input seed[SEEDS];
    int count;
};

static long fuzz_count(void)
{
    const char *text = getenv("ESPER_FUZZ");
    return text ? atol(text) : 2000;
}

static int is_visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

/* In the order of their names, so that a mutant's number always stands for the same bytes. */
static void corpus_load(struct corpus *corpus, const char *name)
{
    char directory[128], path[512];
    struct dirent **entries;
    struct esper_error error;
    snprintf(directory, sizeof directory, "tests/fuzz/corpus/%s", name);
    corpus->count = scandir(directory, &entries, is_visible, alphasort);
    assert_true(corpus->count > 0 && corpus->count <= SEEDS);
    for (int i = 0; i < corpus->count; i++) {
        struct input *seed = &corpus->seed[i];
        snprintf(path, sizeof path, "%s/%s", directory, entries[i]->d_name);
        assert_int_equal(file_read(path, 1 << 20, &seed->bytes, &seed->length, &error), ESPER_OK);
        free(entries[i]);
    }
    free(entries);
}

static void corpus_free(struct corpus *corpus)
{
    for (int i = 0; i < corpus->count; i++)
        memory_free(corpus->seed[i].bytes);
}

/* One of a few kinds of damage, at random: flip, overwrite, cut, repeat a piece, insert something meaningful. `m` has
 * room for GROWTH bytes more than it begins with. */
static void damage(struct input *m, size_t room, struct random_site at, uint32_t *draw)
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
    } else if (kind == 3 && where + span <= m->length && m->length + span <= room) {
        memmove(m->bytes + where + span, m->bytes + where, m->length - where);
        m->length += span;
    } else if (kind == 4) {
        const char *piece = pieces[value % (sizeof pieces / sizeof pieces[0])];
        size_t length = strlen(piece);
        if (m->length + length > room)
            return;
        memmove(m->bytes + where + length, m->bytes + where, m->length - where);
        memcpy(m->bytes + where, piece, length);
        m->length += length;
    } else if (kind == 5 && value % 4 == 0)
        m->length = where;
}

/* Some mutants are refused, and some are not: otherwise they would show little. */
static void play(harness one, const char *name, uint32_t stream, long count)
{
    struct corpus corpus;
    long good = 0, bad = 0;
    corpus_load(&corpus, name);
    for (int i = 0; i < corpus.count; i++)
        one((const uint8_t *)corpus.seed[i].bytes, corpus.seed[i].length);
    for (long i = 0; i < count; i++) {
        struct random_site at = {.seed = 20260, .a = (uint32_t)i, .env = stream};
        uint32_t draw = 0, times = random_word(at, draw++) % 4; /* now and then undamaged */
        const struct input *seed = &corpus.seed[random_word(at, draw++) % (uint32_t)corpus.count];
        struct input m = {memory_alloc(seed->length + GROWTH, 1, NULL), seed->length};
        assert_non_null(m.bytes);
        memcpy(m.bytes, seed->bytes, seed->length);
        for (uint32_t k = 0; k < times; k++)
            damage(&m, seed->length + GROWTH, at, &draw);
        if (one((const uint8_t *)m.bytes, m.length))
            good++;
        else
            bad++;
        memory_free(m.bytes);
    }
    corpus_free(&corpus);
    assert_true(count < 100 || (good > 0 && bad > 0));
}

#define PLAY(name, cost)                                                                                               \
    static void fuzz_##name(void **state)                                                                              \
    {                                                                                                                  \
        (void)state;                                                                                                   \
        play(harness_##name, #name, HARNESS_##name, fuzz_count() / (cost));                                            \
    }
#define NUMBER(name, cost) HARNESS_##name,
#define LIST(name, cost)   cmocka_unit_test(fuzz_##name),

enum { HARNESSES(NUMBER) };
HARNESSES(PLAY)

int main(void)
{
    const struct CMUnitTest tests[] = {HARNESSES(LIST)};
    return cmocka_run_group_tests_name("mutants", tests, NULL, NULL);
}
