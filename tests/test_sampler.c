/* What the best network of a run on text writes: a row for every network that was better than all before it, the text
 * that `esper sample` prints, none lost and none twice when a run is resumed, and bits that know nothing of it. */
#include <sqlite3.h>

#include "base/text.h"
#include "model/sample.h"
#include "session/export.h"
#include "session/sampler.h"
#include "testing_sessions.h"

static struct config small_text(int rounds)
{
    struct config config;
    struct esper_error error = {0};
    config_defaults(&config);
    assert_int_equal(config_load_task(&config, "text_quick", &error), ESPER_OK);
    config.reward.mode = REWARD_SHAPED;
    config.seed = 7; /* rounds 1, 2, 5 and 6 have better networks than those before */
    config.envs = 2;
    config.steps = 12;
    config.rounds = rounds;
    config.data_batches = 2;
    config.data_batch = 8;
    config.data_val_images = config.data_test_images = 16;
    config.host_width = config.host_context = 16;
    config.host_layers = 2;
    config.host_lr = config.seed_lr = 0.003;
    config.policy.feature_dim = config.policy.hidden = 16;
    return config;
}

/* All rows, as one text. */
static void rows_of(const char *name, char rows[8192])
{
    struct store *store = record_of(name);
    snprintf(rows, 8192, "%s",
             query_text(store, "SELECT group_concat(round || ' ' || env || ' ' || score || ' ' || text, char(10)) FROM"
                               " (SELECT * FROM sample ORDER BY round)"));
    store_close(store);
}

static void alter(const char *name, const char *sql)
{
    char path[PATH_MAX];
    sqlite3 *db;
    snprintf(path, sizeof path, "%s/%s/telemetry.db", folder, name);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

static void rows_follow_the_best_network(void **state)
{
    (void)state;
    const struct config config = small_text(6);
    run_whole(&config, "rows");
    struct store *store = record_of("rows");
    assert_true(number(store, "SELECT count(*) FROM sample") >= 3);
    /* the rounds whose best episode is better than every one before, and no other */
    assert_none(store, "WITH best AS (SELECT round, max(val_accuracy) AS score FROM outcome GROUP BY round),"
                       " better AS (SELECT * FROM best AS now WHERE NOT EXISTS (SELECT 1 FROM best"
                       "  WHERE best.round < now.round AND best.score >= now.score))"
                       " SELECT (SELECT count(*) FROM better) + (SELECT count(*) FROM sample)"
                       " - 2 * (SELECT count(*) FROM better JOIN sample USING (round, score))");
    assert_none(store, "SELECT count(*) FROM sample WHERE abs(bits_per_byte - 8 * (1 - score / 100)) > 1e-9");
    assert_none(store, "SELECT count(*) FROM sample WHERE NOT EXISTS (SELECT 1 FROM outcome o"
                       " WHERE o.round = sample.round AND o.env = sample.env AND o.val_accuracy = sample.score)");
    assert_none(store, "SELECT count(*) FROM sample WHERE length(CAST(text AS BLOB)) NOT BETWEEN 50 AND %d",
                RECORD_PASSAGE - 1);
    store_close(store);
}

struct written {
    char bytes[SAMPLER_BYTES];
    size_t count;
};

static bool take(void *context, uint8_t byte)
{
    struct written *written = context;
    written->bytes[written->count++] = (char)byte;
    return true;
}

/* The newest row is what `esper sample` of the run prints, as a terminal shows it, as far as the row goes. */
static void the_text_is_what_sample_prints(void **state)
{
    (void)state;
    const struct config config = small_text(3);
    const struct sample_plan plan = {.prompt = "", .bytes = SAMPLER_BYTES, .temperature = 1};
    struct esper_error error = {0};
    struct network network = {0};
    struct written written = {.count = 0};
    char text[4 * SAMPLER_BYTES + 1] = "", shown[TEXT_SHOWN];
    run_whole(&config, "printed");
    assert_int_equal(export_open(folder, "printed", 1, &network, &error), ESPER_OK);
    assert_int_equal(sample_text(&network, &plan, take, &written, &error), ESPER_OK);
    network_close(&network);
    for (size_t at = 0; at < written.count;) {
        at += text_shown(written.bytes + at, written.count - at, shown);
        memcpy(text + strlen(text), shown, strlen(shown) + 1);
    }
    struct store *store = record_of("printed");
    const char *row = query_text(store, "SELECT text FROM sample ORDER BY round DESC LIMIT 1");
    assert_int_equal(strncmp(text, row, strlen(row)), 0);
    assert_true(strlen(row) == strlen(text) || strlen(row) + TEXT_SHOWN > RECORD_PASSAGE);
    store_close(store);
}

static void bytes_that_cannot_be_shown_are_numbers(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t count, taken;
        const char *shown;
    } cases[] = {{"a", 1, 1, "a"},
                 {"\n", 1, 1, "\n"},
                 {"\t", 1, 1, "\t"},
                 {"", 1, 1, "\\x00"}, /* a zero byte */
                 {"\x1b[2J", 4, 1, "\\x1b"},
                 {"\r", 1, 1, "\\x0d"},
                 {"\x7f", 1, 1, "\\x7f"},
                 {"<", 1, 1, "<"}, /* a page shows it as text */
                 {"\xC3\xA9x", 3, 2, "\xC3\xA9"},
                 {"\xC3", 1, 1, "\\xc3"},
                 {"\xC3(", 2, 1, "\\xc3"},
                 {"\xE2\x80\xAE", 3, 1, "\\xe2"}, /* turns the direction of writing */
                 {"\xC2\x9B", 2, 1, "\\xc2"},     /* a control character of the second set */
                 {"\xF0\x9F\x8C\xB1", 4, 4, "\xF0\x9F\x8C\xB1"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char shown[TEXT_SHOWN];
        assert_int_equal(text_shown(cases[i].bytes, cases[i].count, shown), cases[i].taken);
        assert_string_equal(shown, cases[i].shown);
    }
}

/* ---- the run ----------------------------------------------------------------------------------------------------- */

static void a_resumed_run_has_the_same_rows(void **state)
{
    (void)state;
    char whole[8192], parts[8192];
    struct session_progress progress;
    const struct session_changes none = {.threads = -1};
    const struct config config = small_text(6);
    const uint64_t hash = run_whole(&config, "whole");
    struct session *session = create(&config, "parts");
    run_rounds(session, 2, &progress);
    for (int i = 0; i < 5; i++)
        advance(session, &progress); /* into the third round */
    finish(session);
    /* killed before the row of its best network was written, after rows of a future that is played again */
    alter("parts", "DELETE FROM sample WHERE round = (SELECT max(round) FROM sample);"
                   "INSERT INTO sample VALUES (4, 0, 99, 0.08, 'never')");
    session = resume("parts", &none);
    while (!session_done(session))
        advance(session, &progress);
    assert_true(session_hash(session) == hash);
    finish(session);
    rows_of("whole", whole);
    rows_of("parts", parts);
    assert_string_equal(whole, parts);
    alter("parts", "DELETE FROM sample WHERE round = (SELECT max(round) FROM sample)");
    finish(resume("parts", &none)); /* there is nothing left to play, and the row is back */
    rows_of("parts", parts);
    assert_string_equal(whole, parts);
}

static void the_bits_know_nothing_of_it(void **state)
{
    (void)state;
    struct config config = small_text(3);
    const uint64_t hash = run_whole(&config, "normal");
    config.telemetry = TELEMETRY_OFF;
    assert_true(run_whole(&config, "off") == hash);
    assert_true(ask("off", "SELECT count(*) FROM sample") == 0);
    assert_true(ask("normal", "SELECT count(*) FROM sample") > 0);
    struct config images = small_session(POLICY_RANDOM);
    run_whole(&images, "images");
    assert_true(ask("images", "SELECT count(*) FROM sample") == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_follow_the_best_network),
        cmocka_unit_test(the_text_is_what_sample_prints),
        cmocka_unit_test(bytes_that_cannot_be_shown_are_numbers),
        cmocka_unit_test(a_resumed_run_has_the_same_rows),
        cmocka_unit_test(the_bits_know_nothing_of_it),
    };
    return cmocka_run_group_tests(tests, folder_make, folder_clear);
}
