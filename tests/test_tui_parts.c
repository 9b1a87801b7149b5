/* Parts of the terminal viewer, without a terminal: plots with axes, and the list to pick another run from. */
#include <math.h>

#include "testing.h"
#include "testing_canvas.h"
#include "testing_runs.h"
#include "view/tui_pick.h"
#include "view/tui_plot.h"
#include "view/tui_terminal.h"

/* A line of dots from corner to corner, between axes that say from what to what; stars where there are no dots. */
static void test_plots_have_axes(void **state)
{
    (void)state;
    double values[300];
    for (int unicode = 0; unicode < 2; unicode++) {
        struct canvas canvas = make_canvas(14, 60, unicode);
        struct box box = {.canvas = &canvas, .top = 1, .left = 2, .rows = 12, .columns = 50};
        for (int i = 0; i < 300; i++)
            values[i] = i == 77 ? (double)NAN : 0.5 * i;
        const struct tui_plot plot = {.values = values, .count = 300, .from = 1, .to = 300, .ink = INK_LINE};
        box_plot(&box, &plot);
        must_hold(&canvas, "100 ");
        must_hold(&canvas, "50 ");
        must_hold(&canvas, "300");
        int dots = 0;
        for (int i = 0; i < canvas.rows * canvas.columns; i++) {
            int row = i / canvas.columns, column = i % canvas.columns;
            uint32_t glyph = canvas.cells[i].glyph;
            bool dot = unicode ? glyph > 0x2800 && glyph <= 0x28FF : glyph == '*';
            bool inside = row >= 1 && row < 13 && column >= 2 && column < 52;
            assert_true(inside || glyph == ' ');
            assert_true(!dot || (row >= 1 && row < 11 && column >= 11));
            dots += dot;
        }
        assert_true(dots >= 41); /* a dot in every column, and no hole where a value is missing */
        uint32_t lowest = canvas.cells[10 * canvas.columns + 11].glyph,
                 highest = canvas.cells[1 * canvas.columns + 51].glyph;
        assert_true(unicode ? (lowest & 0x40) && (highest & 0x08) : lowest == '*' && highest == '*');
        for (int rows = 0; rows < 6; rows++) /* no window is too small */
            for (int columns = 0; columns < 14; columns++) {
                box.rows = rows;
                box.columns = columns;
                box_plot(&box, &plot);
            }
        canvas_free(&canvas);
    }
}

/* The runs beside a run, narrowed by what is typed; one that cannot be read is listed with the reason, and harmless. */
static void test_another_run_is_picked(void **state)
{
    (void)state;
    struct tui_picker picker = {0};
    struct canvas canvas = make_canvas(24, 160, true);
    char path[PATH_MAX];
    struct config config = sample_config();
    struct run one, two;
    create_run(&one, "picked-one", &config);
    create_run(&two, "picked-two", &config);
    run_close(&one);
    run_close(&two);
    snprintf(path, sizeof path, "%s/picked-bad", folder);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof path, "%s/picked-bad/run.json", folder);
    FILE *file = fopen(path, "w");
    fputs("{\"name\": \"\033[2J\"}", file);
    fclose(file);
    snprintf(path, sizeof path, "%s/picked-two", folder);
    picker_open(&picker, path);
    assert_string_equal(picker_path(&picker), path); /* the run that is shown is chosen */
    for (const char *at = "PICKED o"; *at; at++)
        assert_false(picker_take_key(&picker, *at));
    assert_int_equal(picker.count, 2); /* one, and two; not bad, whose state is unreadable */
    picker_draw(box_whole(&canvas), &picker);
    must_hold(&canvas, "search: PICKED o");
    must_hold(&canvas, "picked-one");
    assert_false(holds(&canvas, "picked-bad"));
    for (int i = 0; i < 3; i++)
        picker_take_key(&picker, TERMINAL_RUB_OUT);
    canvas_clear(&canvas);
    picker_draw(box_whole(&canvas), &picker);
    must_hold(&canvas, "unreadable");
    for (int i = 0; i < canvas.rows * canvas.columns; i++)
        assert_true(canvas.cells[i].glyph >= 0x20 && canvas.cells[i].glyph != 0x7F);
    for (int rows = 1; rows < 8; rows++)
        for (int columns = 1; columns < 60; columns += 7) {
            struct canvas small = make_canvas(rows, columns, false);
            picker_draw(box_whole(&small), &picker);
            canvas_free(&small);
        }
    for (int i = 0; i < 5; i++) { /* every order, and back to the first */
        assert_false(picker_take_key(&picker, '\t'));
        assert_true(picker.count >= 3);
        if (picker.order == 1)
            assert_true(strcmp(picker.shelf.runs[picker.found[0]].name, picker.shelf.runs[picker.found[1]].name) < 0);
    }
    assert_int_equal(picker.order, 0);
    assert_false(picker_take_key(&picker, TERMINAL_END));
    assert_true(picker_take_key(&picker, '\r'));
    assert_false(picker_take_key(&picker, 27));
    assert_false(picker.open);
    picker_close(&picker);
    canvas_free(&canvas);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plots_have_axes),
        cmocka_unit_test(test_another_run_is_picked),
    };
    return cmocka_run_group_tests(tests, folder_make, folder_clear);
}
