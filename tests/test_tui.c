/* The terminal viewer without a terminal: the sheet, numbers, and whole frames of records that are empty, hostile,
 * missing or large. What a person sees in a real terminal: run_tui.sh. */
#include <locale.h>
#include <math.h>
#include <unistd.h>

#include "testing.h"
#include "testing_canvas.h"

#include "base/clock.h"
#include "testing_record.h"
#include "view/tui_draw.h"

/* ---- helpers ----------------------------------------------------------------------------------------------------- */

/* Every screen and the help page, at a size; fails when a character could harm the terminal. */
static void draw_all(struct tui_data *data, int rows, int columns, bool unicode)
{
    struct canvas canvas = make_canvas(rows, columns, unicode);
    for (int screen = SCREEN_OVERVIEW; screen <= SCREEN_LAST + 1; screen++)
        for (int list = 0; list < 2; list++) {
            struct tui_choice choice = {.screen = screen > SCREEN_LAST ? SCREEN_SEEDS : (enum tui_screen)screen,
                                        .help = screen > SCREEN_LAST,
                                        .list = list,
                                        .env = 1};
            tui_load(data, &choice);
            tui_draw(&canvas, data, &choice);
            for (int i = 0; i < rows * columns; i++) {
                uint32_t glyph = canvas.cells[i].glyph;
                assert_true(glyph >= 0x20 && glyph != 0x7F && (glyph < 0x80 || (unicode && glyph >= 0xA0)));
                assert_true(canvas.cells[i].ink < INK_COUNT);
            }
        }
    canvas_free(&canvas);
}

static void draw_screen(struct tui_data *data, enum tui_screen screen, struct canvas *canvas)
{
    struct tui_choice choice = {.screen = screen, .list = true};
    tui_load(data, &choice);
    tui_draw(canvas, data, &choice);
}

/* ---- the sheet --------------------------------------------------------------------------------------------------- */

static void test_texts_are_cleaned(void **state)
{
    (void)state;
    struct canvas canvas = make_canvas(1, 40, true);
    struct box box = box_whole(&canvas);
    /* an escape sequence, a tab, DEL, a C1 control, broken and overlong UTF-8, a surrogate, a wide and a plain letter
     */
    int used =
        box_text(&box, 0, 0, 40, INK_PLAIN, "a\x1b[2J\t\x7f\xc2\x9b\xff\xc0\xaf\xed\xa0\x80\xe4\xb8\xad\xc3\xa9z");
    assert_string_equal(row_text(&canvas, 0), "a?[2J??????????#z");
    assert_int_equal(used, 17);
    assert_int_equal(canvas.cells[15].glyph, 0xE9);
    canvas.unicode = false;
    canvas_clear(&canvas);
    box_text(&box, 0, 0, 40, INK_PLAIN, "\xc3\xa9z\xe2\x82");
    assert_string_equal(row_text(&canvas, 0), "?z??");
    canvas_free(&canvas);
}

static void test_nothing_is_drawn_outside_its_box(void **state)
{
    (void)state;
    struct canvas canvas = make_canvas(5, 20, false);
    struct box rest = box_whole(&canvas), top = box_cut_top(&rest, 1), bottom = box_cut_bottom(&rest, 1),
               left = box_cut_left(&rest, 5);
    double values[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25};
    for (int row = -2; row < 8; row++)
        for (int column = -30; column < 30; column += 3) {
            box_print(&rest, row, column, INK_PLAIN, "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx");
            box_print_right(&rest, row, column, INK_PLAIN, "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx");
            box_bar(&rest, row, column, 30, 0.5, INK_LINE);
            box_curve(&rest, row, column, 4, 30, values, 25, INK_LINE);
            box_ink(&rest, row, column, 30, INK_BAD);
        }
    assert_string_equal(row_text(&canvas, 0), "");
    assert_string_equal(row_text(&canvas, 4), "");
    for (int i = 0; i < 5 * 20; i++)
        if (i % 20 < 5 || i / 20 == 0 || i / 20 == 4)
            assert_int_equal(canvas.cells[i].ink, INK_PLAIN);
    assert_int_equal(top.rows + bottom.rows + left.rows, 5);
    struct box none = box_cut_top(&bottom, 9), all = box_cut_top(&bottom, 9);
    assert_int_equal(none.rows, 1);
    assert_int_equal(all.rows + bottom.rows, 0);
    canvas_free(&canvas);
}

static void test_bars_and_curves(void **state)
{
    (void)state;
    struct canvas canvas = make_canvas(2, 24, false);
    struct box box = box_whole(&canvas);
    const double shares[] = {0, 0.5, 1, 1e-9, -3, 7, (double)NAN};
    const char *const bars[] = {"....", "##..", "####", ":...", "....", "####", "...."};
    for (int i = 0; i < 7; i++) {
        box_bar(&box, 0, 0, 4, shares[i], INK_LINE);
        assert_string_equal(row_text(&canvas, 0), bars[i]);
    }
    const double values[] = {0, 7, (double)NAN, 3.5, INFINITY, 0};
    canvas_clear(&canvas);
    box_curve(&box, 1, 0, 1, 6, values, 6, INK_LINE);
    assert_string_equal(row_text(&canvas, 1), "_# + _");
    canvas_clear(&canvas);
    box_curve(&box, 0, 0, 2, 12, values, 2, INK_LINE); /* few values are wide, two rows have twice the steps */
    assert_string_equal(row_text(&canvas, 0), "      ######");
    assert_string_equal(row_text(&canvas, 1), "______######");
    const double many[] = {1, 1, 5, 5, 3, 3, 1, 1};
    canvas_clear(&canvas);
    box_curve(&box, 0, 0, 1, 4, many, 8, INK_LINE); /* means of neighbours */
    assert_string_equal(row_text(&canvas, 0), "_#+_");
    canvas_clear(&canvas);
    box_curve(&box, 0, 0, 1, 4, many, 0, INK_LINE);
    assert_string_equal(row_text(&canvas, 0), "");
    canvas_free(&canvas);
}

static void test_numbers(void **state)
{
    (void)state;
    char text[TUI_NUMBER];
    assert_string_equal(tui_real((double)NAN, 2, text), "-");
    assert_string_equal(tui_real(-INFINITY, 2, text), "-inf");
    assert_string_equal(tui_real(1e300, 2, text), "1e+300");
    assert_string_equal(tui_real(12.345, 1, text), "12.3");
    const double shorts[] = {0, 0.0001234, 0.012345, 1.23456, 12.3456, 123.456, 12345.6, 1e6, -3e-9};
    const char *const short_texts[] = {"0.0000", "0.0001", "0.0123",   "1.235",    "12.35",
                                       "123.5",  "12346",  "1.00e+06", "-3.00e-09"};
    for (int i = 0; i < 9; i++)
        assert_string_equal(tui_short(shorts[i], text), short_texts[i]);
    const double counts[] = {0, 398, 9999, 12345, 999999, 45600000, -12345, 1e20};
    const char *const count_texts[] = {"0", "398", "9999", "12.3k", "1.00M", "45.6M", "-12.3k", "100000000T"};
    for (int i = 0; i < 8; i++)
        assert_string_equal(tui_count(counts[i], text), count_texts[i]);
    const double times[] = {0, 8.4, 59.6, 200, 3725, 360000, (double)NAN, 1e300};
    const char *const time_texts[] = {"0s", "8s", "1m00s", "3m20s", "1h02m", "4d04h", "-", "11574074d01h"};
    for (int i = 0; i < 8; i++)
        assert_string_equal(tui_time(times[i], text), time_texts[i]);
    assert_string_equal(tui_bytes(512, text), "512 B");
    assert_string_equal(tui_bytes(12345, text), "12.3 kB");
    assert_string_equal(tui_bytes(999999999, text), "1.0 GB");
}

/* ---- frames ------------------------------------------------------------------------------------------------------ */

static const int sizes[][2] = {{1, 1}, {2, 200}, {5, 10}, {24, 80}, {40, 120}, {70, 250}, {200, 30}, {120, 400}};

static void test_every_size_of_an_empty_run(void **state)
{
    (void)state;
    struct config config = sample_config();
    struct run run;
    struct tui_data data;
    create_run(&run, "empty", &config);
    tui_data_open(&data, &run);
    struct canvas canvas = make_canvas(24, 80, false);
    draw_screen(&data, SCREEN_OVERVIEW, &canvas); /* no record yet: reported, and survived */
    must_hold(&canvas, "x cannot read: ");
    store_close(must_open(&run));
    for (int i = 0; i < 8; i++)
        draw_all(&data, sizes[i][0], sizes[i][1], i % 2);
    draw_screen(&data, SCREEN_OVERVIEW, &canvas);
    assert_false(holds(&canvas, "cannot read"));
    must_hold(&canvas, "no round has finished yet");
    must_hold(&canvas, "accuracy - %, best env - %, test - %");
    must_hold(&canvas, "round ........ 0/");
    must_hold(&canvas, "ETA -  - env-steps/s");
    canvas_free(&canvas);
    tui_data_close(&data);
    run_close(&run);
}

/* A hostile record: every text an escape sequence, every number missing or out of range. */
static void test_a_hostile_record_does_no_harm(void **state)
{
    (void)state;
    struct config config = sample_config();
    struct run run;
    struct tui_data data;
    create_run(&run, "hostile", &config);
    struct store *store = must_open(&run);
    for (int kind = 0; kind < RECORD_KIND_COUNT; kind++)
        for (int base = 0; base < 3; base++) {
            struct record_row row;
            fill_row(&row, (enum record_kind)kind, base, base == 1, base == 1 ? (double)NAN : -1e308);
            must_write(store, &row, 1);
        }
    char *error = NULL;
    const char *changes =
        "UPDATE step SET op = char(27) || ']0;x' || char(7), result = char(155), slot = -5, env = 1 - env;"
        "UPDATE seed SET slot = 99999999999, blueprint = char(27) || '[2J', stage = char(9);"
        "UPDATE life SET event = 'stage', to_stage = char(10), step = step - 9, failed = char(0x202e);"
        "UPDATE alert SET state = 'raised', text = char(27, 27, 27), rule = char(13) || rule;"
        "UPDATE outcome SET added_params = -9223372036854775807, test_accuracy = 9e999;"
        "UPDATE phase SET name = name || char(27), duration_us = -1;"
        "UPDATE run SET policy = char(27) || 'c'";
    if (sqlite3_exec(store_sql(store), changes, NULL, NULL, &error) != SQLITE_OK)
        fail_msg("%s", error);
    store_close(store);
    tui_data_open(&data, &run);
    for (int i = 0; i < 8; i++)
        draw_all(&data, sizes[i][0], sizes[i][1], i % 2);
    assert_string_equal(data.trouble, "");
    tui_data_close(&data);
    run_close(&run);
}

static void test_missing_is_never_nought(void **state)
{
    (void)state;
    struct config config = sample_config();
    struct run run;
    struct tui_data data;
    struct record_row row;
    create_run(&run, "missing", &config);
    struct store *store = must_open(&run);
    const enum record_kind kinds[] = {RECORD_ROUND, RECORD_PPO, RECORD_PPO_HEAD, RECORD_STEP, RECORD_OUTCOME};
    for (int i = 0; i < 5; i++) {
        fill_row(&row, kinds[i], 0, true, (double)NAN);
        if (kinds[i] == RECORD_STEP)
            row.record.step.env = 0;
        must_write(store, &row, 1);
    }
    store_close(store);
    tui_data_open(&data, &run);
    struct canvas canvas = make_canvas(40, 120, false);
    draw_screen(&data, SCREEN_OVERVIEW, &canvas);
    must_hold(&canvas, "accuracy - %, best env - %, test - %");
    must_hold(&canvas, "reward  -");
    must_hold(&canvas, "KL               -");
    draw_screen(&data, SCREEN_POLICY, &canvas);
    must_hold(&canvas, "KL                       -");
    must_hold(&canvas, "clipped                - %");
    draw_screen(&data, SCREEN_REWARDS, &canvas);
    must_hold(&canvas, "sum of 1 steps           -");
    canvas_free(&canvas);
    tui_data_close(&data);
    run_close(&run);
}

/* The same name, another run: what was known of the old one is dropped. */
static void test_a_run_that_is_replaced(void **state)
{
    (void)state;
    struct config config = sample_config();
    struct run run, again;
    struct tui_data data;
    struct record_row rows[ROUND_ROWS];
    create_run(&run, "twice", &config);
    struct store *store = must_open(&run);
    for (int round = 0; round < 3; round++)
        must_write(store, rows, fill_round(rows, round));
    store_close(store);
    tui_data_open(&data, &run);
    struct canvas canvas = make_canvas(40, 120, false);
    draw_screen(&data, SCREEN_OVERVIEW, &canvas);
    must_hold(&canvas, "rounds 1 to 3");
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s", run.path);
    run_close(&run);
    remove_tree(path);
    draw_screen(&data, SCREEN_OVERVIEW, &canvas);
    must_hold(&canvas, "x cannot read: ");
    create_run(&again, "twice", &config);
    store = must_open(&again);
    must_write(store, rows, fill_round(rows, 0));
    store_close(store);
    draw_screen(&data, SCREEN_OVERVIEW, &canvas);
    must_hold(&canvas, "rounds 1 to 1");
    canvas_free(&canvas);
    tui_data_close(&data);
    run_close(&again);
}

/* ---- a large record ---------------------------------------------------------------------------------------------- */

enum { ENVS = 64, STEPS = 150 };

/* What is in a column of the generated rows: by its name where that matters, else by its type. */
static void add_expression(char *sql, size_t size, const char *column, enum column_type type)
{
    static const struct {
        const char *column, *expression;
    } known[] = {
        {"round", "r"},
        {"step", "s"},
        {"env", "e"},
        {"slot", "k"},
        {"head", "substr('slotblueprintstyletempo', 1 + 3 * k, 3)"},
        {"rule", "'rule' || r"},
        {"start_us", "1000000 * r + 1000 * s + k"},
        {"thread", "k % 2"},
        {"file", "'r' || r || '.ckpt'"},
        {"mask", "k"},
        {"ordinal", "0"},
        {"germination", "1"},
        {"op", "CASE (r + s + e) % 9 WHEN 0 THEN 'germinate' WHEN 1 THEN 'prune' ELSE 'wait' END"},
        {"result", "CASE e % 7 WHEN 0 THEN 'refused' ELSE 'done' END"},
        {"stage", "CASE s / 30 WHEN 0 THEN 'training' WHEN 1 THEN 'blending' ELSE 'fossilized' END"},
        {"event", "CASE s % 3 WHEN 0 THEN 'gate' WHEN 1 THEN 'stage' ELSE 'germinated' END"},
        {"to_stage", "'training'"},
        {"blueprint", "CASE e % 3 WHEN 0 THEN 'norm' WHEN 1 THEN 'attention' ELSE 'conv_light' END"},
        {"test_accuracy", "20 + (r * 7 + e * 13) % 61"},
        {"added_params", "(r * 31 + e * 17) % 5000"},
        {"state", "CASE r % 2 WHEN 0 THEN 'raised' ELSE 'cleared' END"},
    };
    static const char *const by_type[] = {[COLUMN_INTEGER] = "(r + s + e + k) % 7",
                                          [COLUMN_OPTIONAL] = "(r + s + e + k) % 5",
                                          [COLUMN_NUMBER] = "0.001 * (r * 31 + s * 7 + e * 3 + k)",
                                          [COLUMN_NAME] = "'name'",
                                          [COLUMN_TEXT] = "'a text of some length'",
                                          [COLUMN_PASSAGE] = "'a passage'"};
    const char *expression = by_type[type];
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strcmp(known[i].column, column) == 0)
            expression = known[i].expression;
    size_t used = strlen(sql);
    snprintf(sql + used, size - used, "%s%s", used && sql[used - 1] != ' ' ? ", " : "", expression);
}

/* rounds x steps (every `every`th) x envs x k rows of a table. */
static void generate(struct store *store, enum record_kind kind, int rounds, int steps, int every, int envs, int k)
{
    char sql[8192] = "", *error = NULL;
    const struct store_layout *layout = &store_layouts[kind];
    snprintf(sql, sizeof sql,
             "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < %d) INSERT INTO %s SELECT ",
             rounds > 200 ? rounds : 200, layout->name);
    for (int i = 0; i < layout->count; i++)
        add_expression(sql, sizeof sql, layout->columns[i].name, layout->columns[i].type);
    size_t used = strlen(sql);
    snprintf(
        sql + used, sizeof sql - used,
        " FROM (SELECT i AS r FROM n WHERE i < %d) CROSS JOIN (SELECT i + 1 AS s FROM n WHERE i < %d AND i %% %d = 0)"
        " CROSS JOIN (SELECT i AS e FROM n WHERE i < %d) CROSS JOIN (SELECT i AS k FROM n WHERE i < %d)",
        rounds, steps, every, envs, k);
    if (sqlite3_exec(store_sql(store), sql, NULL, NULL, &error) != SQLITE_OK)
        fail_msg("%s: %s", layout->name, error);
}

static void generate_all(struct store *store, int rounds)
{
    sqlite3_exec(store_sql(store), "BEGIN", NULL, NULL, NULL);
    generate(store, RECORD_ROUND, rounds, 1, 1, 1, 1);
    generate(store, RECORD_PPO, rounds, 1, 1, 1, 1);
    generate(store, RECORD_PPO_HEAD, rounds, 1, 1, 1, 8);
    generate(store, RECORD_STEP, rounds, STEPS, 1, ENVS, 1);
    generate(store, RECORD_SEED, rounds, STEPS, 1, ENVS, 2);
    generate(store, RECORD_LIFE, rounds, STEPS, 10, ENVS, 1);
    generate(store, RECORD_OUTCOME, rounds, 1, 1, ENVS, 1);
    generate(store, RECORD_ALERT, rounds, 1, 1, 1, 1);
    generate(store, RECORD_CHECKPOINT, rounds, 1, 1, 1, 1);
    generate(store, RECORD_PHASE, rounds, STEPS, 1, 1, 6);
    sqlite3_exec(store_sql(store), "COMMIT", NULL, NULL, NULL);
}

static double cpu_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return 1e3 * (double)now.tv_sec + 1e-6 * (double)now.tv_nsec;
}

/* The slowest but one of some frames, each after something was written, in processor time: the machine may be busy, the
 * viewer must not be; but a virtual one may stand still in the middle of a frame. The first frame of a screen reads its
 * past and is not counted. */
static double frame_ms(struct tui_data *data, struct store *store, enum tui_screen screen, struct canvas *canvas)
{
    const char *change = "UPDATE round SET seconds = seconds + 1 WHERE round = (SELECT max(round) FROM round)";
    double worst = 0, next = 0;
    for (int i = 0; i < 9; i++) {
        assert_int_equal(sqlite3_exec(store_sql(store), change, NULL, NULL, NULL), SQLITE_OK);
        for (int question = 0; question < ASK_COUNT; question++)
            data->answers[question].when = 0; /* long ago */
        double start = cpu_ms();
        draw_screen(data, screen, canvas);
        const double took = i > 0 ? cpu_ms() - start : 0;
        next = fmax(next, fmin(took, worst));
        worst = fmax(worst, took);
    }
    return next;
}

/* The first look at a screen is taken in pieces that are also quick, and shows the same in the end. */
static double first_look_ms(const struct run *run, enum tui_screen screen, struct canvas *canvas, struct canvas *whole)
{
    struct tui_data data;
    struct tui_choice choice = {.screen = screen, .list = true};
    double worst = 0;
    int pieces = 0;
    tui_data_open(&data, run);
    draw_screen(&data, screen, whole);
    tui_data_close(&data);
    tui_data_open(&data, run);
    data.in_turns = true;
    do {
        double start = cpu_ms();
        tui_load(&data, &choice);
        worst = fmax(worst, cpu_ms() - start);
        assert_true(++pieces <= ASK_COUNT);
    } while (data.unfinished);
    assert_string_equal(data.trouble, "");
    tui_draw(canvas, &data, &choice);
    tui_data_close(&data);
    int other = 0;
    for (int row = 0; row < canvas->rows; row++) {
        char text[4096];
        snprintf(text, sizeof text, "%s", row_text(whole, row));
        other += strcmp(text, row_text(canvas, row)) != 0;
    }
    assert_true(other <= 2); /* rows that show the time */
    return worst;
}

static void test_a_frame_of_a_large_record_is_quick(void **state)
{
    (void)state;
    struct config config = sample_config();
    struct run run;
    struct tui_data data;
    int rounds = getenv("ESPER_SOAK") ? 60 : 20;
    config.envs = ENVS;
    config.steps = STEPS;
    create_run(&run, "large", &config);
    struct store *store = must_open(&run);
    generate_all(store, rounds);
    tui_data_open(&data, &run);
    struct canvas canvas = make_canvas(70, 250, true), whole = make_canvas(70, 250, true);
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    const double most = 200;
#else
    const double most = 40; /* about 20 on a slow core; a screen reads four rounds of the 20 at most */
#endif
    for (int screen = SCREEN_OVERVIEW; screen <= SCREEN_LAST; screen++) {
        double ms = frame_ms(&data, store, (enum tui_screen)screen, &canvas);
        double first = first_look_ms(&run, (enum tui_screen)screen, &canvas, &whole);
        if (first >= most)
            first = first_look_ms(&run, (enum tui_screen)screen, &canvas, &whole);
        print_message("screen %d: %.1f ms, the first look in pieces of %.1f ms\n", screen, ms, first);
        assert_string_equal(data.trouble, "");
        assert_true(ms < most && first < most);
    }
    canvas_free(&canvas);
    canvas_free(&whole);
    tui_data_close(&data);
    store_close(store);
    run_close(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_texts_are_cleaned),
        cmocka_unit_test(test_nothing_is_drawn_outside_its_box),
        cmocka_unit_test(test_bars_and_curves),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_every_size_of_an_empty_run),
        cmocka_unit_test(test_a_hostile_record_does_no_harm),
        cmocka_unit_test(test_missing_is_never_nought),
        cmocka_unit_test(test_a_run_that_is_replaced),
        cmocka_unit_test(test_a_frame_of_a_large_record_is_quick),
    };
    setlocale(LC_CTYPE, "C.UTF-8");
    return cmocka_run_group_tests(tests, folder_make, folder_clear);
}
