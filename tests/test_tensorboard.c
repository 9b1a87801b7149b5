/* Event files for TensorBoard, read back by a reader that shares nothing with the writer. */
#include <errno.h>

#include "base/file.h"
#include "telemetry/tensorboard.h"
#include "testing_record.h"

/* ---- an independent reader --------------------------------------------------------------------------------------- */

static uint32_t castagnoli[256];

static void make_table(void)
{
    for (uint32_t i = 0; i < 256; i++) { /* bit by bit from the polynomial 0x1EDC6F41, bytes reflected */
        uint64_t rest = 0;
        for (int bit = 0; bit < 8; bit++)
            rest |= (uint64_t)(i >> bit & 1) << (39 - bit);
        for (int bit = 39; bit >= 32; bit--)
            if (rest >> bit & 1)
                rest ^= 0x11EDC6F41ull << (bit - 32);
        castagnoli[i] = 0;
        for (int bit = 0; bit < 32; bit++)
            castagnoli[i] |= (uint32_t)(rest >> bit & 1) << (31 - bit);
    }
}

static uint32_t crc_of(const void *data, size_t bytes)
{
    const unsigned char *at = data;
    uint32_t crc = 0xFFFFFFFFu;
    for (size_t i = 0; i < bytes; i++)
        crc = castagnoli[(crc ^ at[i]) & 255] ^ crc >> 8;
    return crc ^ 0xFFFFFFFFu;
}

static bool is_masked(uint32_t stored, const void *data, size_t bytes)
{
    uint32_t turned = stored - 0xA282EAD8u; /* undo it */
    return (turned << 15 | turned >> 17) == crc_of(data, bytes);
}

struct value {
    int64_t step;
    double time;
    char tag[128];
    float number;
};

static struct {
    struct value values[20000];
    int count, events, most_tags;
    int64_t steps[256];
    double times[256];
} file;

/* A message being read. */
struct cursor {
    const unsigned char *at, *end;
};

static uint64_t read_varint(struct cursor *cursor)
{
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
        assert_true(cursor->at < cursor->end && shift < 64);
        unsigned char byte = *cursor->at++;
        value |= (uint64_t)(byte & 127) << shift;
        if (byte < 128)
            return value;
    }
}

static void read_bytes(struct cursor *cursor, void *out, size_t bytes)
{
    assert_true((size_t)(cursor->end - cursor->at) >= bytes);
    memcpy(out, cursor->at, bytes);
    cursor->at += bytes;
}

static struct cursor read_nested(struct cursor *cursor)
{
    uint64_t length = read_varint(cursor);
    assert_true(length <= (uint64_t)(cursor->end - cursor->at));
    struct cursor inner = {cursor->at, cursor->at + length};
    cursor->at += length;
    return inner;
}

/* Value: 1 tag, 2 simple_value. */
static void read_value(struct cursor message, struct value *value)
{
    bool tagged = false, numbered = false;
    while (message.at < message.end) {
        uint64_t key = read_varint(&message);
        if (key == (1 << 3 | 2)) {
            struct cursor text = read_nested(&message);
            size_t length = (size_t)(text.end - text.at);
            assert_true(length > 0 && length < sizeof value->tag);
            read_bytes(&text, value->tag, length);
            value->tag[length] = '\0';
            tagged = true;
        } else {
            assert_int_equal(key, 2 << 3 | 5);
            read_bytes(&message, &value->number, 4);
            numbered = true;
        }
    }
    assert_true(tagged && numbered && isfinite(value->number));
}

/* Event: 1 wall_time, 2 step, 3 file_version, 5 summary. */
static void read_event(struct cursor message)
{
    struct cursor summary = {NULL, NULL};
    double time = -1;
    int64_t step = -1;
    int tags = 0;
    bool version = false;
    while (message.at < message.end) {
        uint64_t key = read_varint(&message);
        if (key == (1 << 3 | 1))
            read_bytes(&message, &time, 8);
        else if (key == (2 << 3 | 0))
            step = (int64_t)read_varint(&message);
        else if (key == (5 << 3 | 2))
            summary = read_nested(&message);
        else {
            assert_int_equal(key, 3 << 3 | 2);
            struct cursor text = read_nested(&message);
            assert_int_equal(text.end - text.at, 13);
            assert_memory_equal(text.at, "brain.Event:2", 13);
            version = true;
        }
    }
    assert_int_equal(version, file.events == 0); /* the first and no other */
    file.steps[file.events] = step;
    file.times[file.events++] = time;
    for (; summary.at < summary.end; tags++) {
        assert_int_equal(read_varint(&summary), 1 << 3 | 2);
        struct value *value = &file.values[file.count++];
        assert_true(file.count <= (int)(sizeof file.values / sizeof file.values[0]));
        value->step = step;
        value->time = time;
        read_value(read_nested(&summary), value);
    }
    file.most_tags = tags > file.most_tags ? tags : file.most_tags;
}

static void read_events(const char *path)
{
    char *data;
    size_t size;
    struct esper_error error = {0};
    memset(&file, 0, sizeof file);
    if (file_read(path, 1 << 28, &data, &size, &error) != ESPER_OK)
        fail_msg("%s", error.text);
    struct cursor cursor = {(unsigned char *)data, (unsigned char *)data + size};
    while (cursor.at < cursor.end) {
        uint64_t length;
        uint32_t crc;
        const unsigned char *start = cursor.at;
        read_bytes(&cursor, &length, 8);
        read_bytes(&cursor, &crc, 4);
        assert_true(is_masked(crc, start, 8));
        assert_true(length <= (uint64_t)(cursor.end - cursor.at));
        struct cursor message = {cursor.at, cursor.at + length};
        cursor.at += length;
        read_bytes(&cursor, &crc, 4);
        assert_true(is_masked(crc, message.at, (size_t)length));
        read_event(message);
    }
    memory_free(data);
}

static const struct value *find_value(int64_t step, const char *tag)
{
    const struct value *found = NULL;
    for (int i = 0; i < file.count; i++)
        if (file.values[i].step == step && strcmp(file.values[i].tag, tag) == 0) {
            assert_null(found); /* once */
            found = &file.values[i];
        }
    return found;
}

static void checksums_are_known_ones(void **state)
{
    (void)state;
    unsigned char bytes[32];
    assert_int_equal(tensorboard_crc("", 0), 0);
    assert_int_equal(tensorboard_crc("123456789", 9), 0xE3069283u);
    memset(bytes, 0, 32); /* RFC 3720 B.4 */
    assert_int_equal(tensorboard_crc(bytes, 32), 0x8A9136AAu);
    memset(bytes, 0xFF, 32);
    assert_int_equal(tensorboard_crc(bytes, 32), 0x62A8AB43u);
    for (int i = 0; i < 32; i++)
        bytes[i] = (unsigned char)i;
    assert_int_equal(tensorboard_crc(bytes, 32), 0x46DD794Eu);
    assert_int_equal(crc_of(bytes, 32), 0x46DD794Eu); /* the reader itself is right */
    for (int i = 0; i < 32; i++)
        bytes[i] = (unsigned char)(31 - i);
    assert_int_equal(tensorboard_crc(bytes, 32), 0x113FDB5Cu);
}

/* ---- runs -------------------------------------------------------------------------------------------------------- */

static const char *const heads[] = {"slot", "blueprint", "style", "tempo", "alpha_target", "alpha_speed", "op"};
enum { HEADS = sizeof heads / sizeof heads[0] };

/* Every number differs from every other one; some are missing, some do not fit into a float. */
static void write_rounds(const struct run *run, int64_t first, int rounds)
{
    struct store *store = must_open(run);
    for (int i = 0; i < rounds; i++) {
        struct record_row rows[2 + HEADS];
        int count = 0;
        fill_row(&rows[count], RECORD_ROUND, 1000 * i, false, 0);
        rows[count].record.round.round = first + i;
        rows[count].record.round.seconds = i == 3 ? (double)NAN : 2.5;
        rows[count++].record.round.reward_mean = i == 2 ? 1e300 : -0.125 * i;
        fill_row(&rows[count], RECORD_PPO, 1000 * i + 100, i == 4, (double)INFINITY);
        rows[count++].record.ppo.round = first + i;
        for (int head = 0; head < HEADS; head++) {
            fill_row(&rows[count], RECORD_PPO_HEAD, 1000 * i + 200 + 20 * head, false, 0);
            rows[count].record.ppo_head.round = first + i;
            rows[count].record.ppo_head.head = heads[head];
            rows[count++].record.ppo_head.entropy = (head + i) % 3 ? 0.1 * head : (double)NAN;
        }
        must_write(store, rows, i == 1 ? 1 : count); /* nothing was learned in round 1 */
    }
    store_close(store);
}

static void must_export(const struct run *run, const char *where, char path[PATH_MAX], int rounds)
{
    struct esper_error error = {0};
    int count = -1;
    if (tensorboard_write(run, where, path, &count, &error) != ESPER_OK)
        fail_msg("%s", error.text);
    assert_int_equal(count, rounds);
    read_events(path);
    assert_int_equal(file.events, 1 + rounds);
}

/* Every number of the table is in the file under its tag, and what is missing is not. Returns how many there are. */
static int check_table(struct store *store, enum record_kind kind, const char *group)
{
    static const char *const of_seeds[] = {"germinated", "training",     "blending",       "holding", "fossilized",
                                           "cooling",    "germinations", "fossilizations", "prunes"};
    sqlite3_stmt *row = NULL;
    char sql[64], tag[300];
    int found = 0;
    snprintf(sql, sizeof sql, "SELECT * FROM %s", store_layouts[kind].name);
    assert_int_equal(sqlite3_prepare_v2(store_sql(store), sql, -1, &row, NULL), SQLITE_OK);
    while (sqlite3_step(row) == SQLITE_ROW)
        for (int i = 1; i < sqlite3_column_count(row); i++) {
            const char *column = sqlite3_column_name(row, i), *place = group;
            for (size_t j = 0; j < sizeof of_seeds / sizeof of_seeds[0] && kind == RECORD_ROUND; j++)
                place = strcmp(column, of_seeds[j]) == 0 ? "seeds" : place;
            if (kind == RECORD_PPO_HEAD)
                snprintf(tag, sizeof tag, "head/%s/%s", (const char *)sqlite3_column_text(row, 1), column);
            else
                snprintf(tag, sizeof tag, "%s/%s", place, column);
            int type = sqlite3_column_type(row, i);
            float number = (float)sqlite3_column_double(row, i);
            const struct value *value = find_value(round_shown(sqlite3_column_int64(row, 0)), tag);
            bool wanted = (type == SQLITE_INTEGER || type == SQLITE_FLOAT) && isfinite(number);
            if (wanted != (value != NULL) || (wanted && value->number != number))
                fail_msg("%s of round %d is %s", tag, sqlite3_column_int(row, 0), value ? "wrong" : "missing");
            found += wanted;
        }
    sqlite3_finalize(row);
    return found;
}

static void values_are_those_of_the_record(void **state)
{
    (void)state;
    const int64_t firsts[] = {0, 8388608}; /* training, evaluation */
    for (int i = 0; i < 2; i++) {
        struct run run;
        struct config config = sample_config();
        char path[PATH_MAX];
        enum { ROUNDS = 6 };
        create_run(&run, i ? "evaluated" : "trained", &config);
        write_rounds(&run, firsts[i], ROUNDS);
        must_export(&run, in_folder("board"), path, ROUNDS);
        assert_non_null(strstr(path, i ? "/evaluated/events.out.tfevents." : "/trained/events.out.tfevents."));
        struct store *store = must_read(&run);
        int found = check_table(store, RECORD_ROUND, "round") + check_table(store, RECORD_PPO, "ppo") +
                    check_table(store, RECORD_PPO_HEAD, "head");
        assert_int_equal(found, file.count); /* and nothing else is there */
        assert_true(found > 400 && file.most_tags <= 200);
        assert_null(find_value(2, "ppo/kl"));
        assert_null(find_value(3, "round/reward_mean"));
        assert_non_null(find_value(1, "seeds/blending"));
        for (int event = 1; event <= ROUNDS; event++) {
            assert_int_equal(file.steps[event], event);                     /* from 1 in either case */
            double expected = file.times[0] + 2.5 * (event - (event >= 4)); /* how long round 3 took is unknown */
            assert_true(file.times[event] == expected);
        }
        assert_true(file.times[0] > 1.5e9);
        store_close(store);
        run_close(&run);
    }
}

static void exports_replace_themselves_only(void **state)
{
    (void)state;
    struct run run;
    struct config config = sample_config();
    char path[PATH_MAX], again[PATH_MAX], other[PATH_MAX];
    create_run(&run, "twice", &config);
    struct store *store = must_open(&run);
    store_close(store);
    must_export(&run, in_folder("shared"), path, 0); /* no round is over: a file that says so */
    snprintf(other, sizeof other, "%.4000s/twice/events.out.tfevents.1.else", in_folder("shared"));
    put_file(other, "theirs", 6);
    write_rounds(&run, 0, 3);
    must_export(&run, in_folder("shared"), again, 3);
    assert_string_equal(path, again);
    snprintf(path, sizeof path, "%s/twice", in_folder("shared"));
    assert_int_equal(entries_in(path), 2);
    assert_int_equal(access(other, F_OK), 0);
    run_close(&run);
}

/* A record may come from anywhere. */
static void odd_names_and_many_rows(void **state)
{
    (void)state;
    struct run run;
    struct config config = sample_config();
    char path[PATH_MAX];
    create_run(&run, "odd", &config);
    write_rounds(&run, 0, 4);
    struct store *store = must_open(&run);
    const char *const sql = "DELETE FROM round WHERE round = 2;" /* and its update belongs to no round */
                            "INSERT INTO ppo_head (round, head, kl) VALUES (0, 'a b\x1b[31m<script>', 0.5);"
                            "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 500)"
                            "INSERT INTO ppo_head (round, head, kl) SELECT 3, printf('%0*d', 50 + n, n), n FROM t";
    assert_int_equal(sqlite3_exec(store_sql(store), sql, NULL, NULL, NULL), SQLITE_OK);
    store_close(store);
    must_export(&run, in_folder("odd names"), path, 3);
    assert_non_null(find_value(4, "ppo/kl"));
    assert_non_null(find_value(1, "head/a_b__31m_script_/kl"));
    assert_int_equal(file.most_tags, 200);
    for (int i = 0; i < file.count; i++)
        assert_int_equal(strspn(file.values[i].tag, "abcdefghijklmnopqrstuvwxyz0123456789_/"),
                         strlen(file.values[i].tag));
    run_close(&run);
}

/* ---- what cannot be written -------------------------------------------------------------------------------------- */

static void refused(const struct run *run, const char *where, const char *reason)
{
    struct esper_error error = {0};
    char path[PATH_MAX];
    int rounds;
    assert_int_not_equal(tensorboard_write(run, where, path, &rounds, &error), ESPER_OK);
    if (!strstr(error.text, reason) || strchr(error.text, '\n'))
        fail_msg("%s: \"%s\" does not say \"%s\"", where, error.text, reason);
}

static int export_as_nobody(const void *context)
{
    struct esper_error error = {0};
    char path[PATH_MAX];
    int rounds;
    drop_privileges();
    enum esper_status status = tensorboard_write(context, "/usr", path, &rounds, &error);
    return status == ESPER_FAILED && strstr(error.text, "cannot") ? 0 : 1;
}

static void bad_folders_get_a_line(void **state)
{
    (void)state;
    struct run run, empty;
    struct config config = sample_config();
    char text[PATH_MAX + 256];
    create_run(&run, "refused", &config);
    write_rounds(&run, 0, 2);
    assert_int_equal(chmod(folder, 0755), 0);
    put_file(in_folder("a_file"), "", 0);
    refused(&run, in_folder("a_file"), "a_file");
    refused(&run, in_folder("a_file"), strerror(ENOTDIR));
    refused(&run, in_folder("missing/board"), strerror(ENOENT));
    refused(&run, "", "give a folder");
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    refused(&run, text, "too long");
    assert_int_equal(exit_code(start_child(export_as_nobody, &run)), 0);
    create_run(&empty, "no_record", &config);
    refused(&empty, in_folder("nothing"), "no record yet");
    assert_int_not_equal(access(in_folder("nothing"), F_OK), 0); /* and leaves nothing behind */
    run_close(&empty);
    run_close(&run);
}

static int set_up(void **state)
{
    make_table();
    return folder_make(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(checksums_are_known_ones),        cmocka_unit_test(values_are_those_of_the_record),
        cmocka_unit_test(exports_replace_themselves_only), cmocka_unit_test(odd_names_and_many_rows),
        cmocka_unit_test(bad_folders_get_a_line),
    };
    return cmocka_run_group_tests(tests, set_up, folder_clear);
}
