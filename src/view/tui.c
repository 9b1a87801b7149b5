#include "view/tui.h"

#ifdef HAVE_CURSES

#include <limits.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "view/tui_draw.h"
#include "view/tui_pick.h"
#include "view/tui_terminal.h"

enum { FRAME_MS = 250 };

enum esper_status tui_available(struct esper_error *error)
{
    (void)error;
    return ESPER_OK;
}

/* ---- keys -------------------------------------------------------------------------------------------------------- */

/* While a filter is being typed. */
static void type_filter(struct tui_choice *choice, int key)
{
    size_t length = strlen(choice->filter);
    if (key == '\r' || key == '\n') {
        choice->typing = false;
    } else if (key == 27) {
        choice->typing = false;
        choice->filter[0] = '\0';
    } else if (key == TERMINAL_RUB_OUT) {
        if (length)
            choice->filter[length - 1] = '\0';
    } else if (key >= 0x20 && key < 0x7F && length + 1 < sizeof choice->filter) {
        choice->filter[length] = (char)key;
        choice->filter[length + 1] = '\0';
    }
    choice->scroll = 0;
}

/* Events scroll; on the other screens j and k choose an env. */
static void move(struct tui_choice *choice, int by)
{
    int *what = choice->screen == SCREEN_EVENTS ? &choice->scroll : &choice->env;
    long to = (long)*what + by;
    *what = to < 0 ? 0 : to > INT_MAX / 2 ? INT_MAX / 2 : (int)to;
}

static void show_screen(struct tui_choice *choice, int screen)
{
    choice->screen = (enum tui_screen)screen;
    choice->help = false;
}

static void go_round(struct tui_choice *choice, int by)
{
    choice->back = choice->back + by < 0 ? 0 : choice->back + by;
}

/* Returns whether to continue. */
static bool take_key(struct tui_choice *choice, int key)
{
    if (choice->typing) {
        type_filter(choice, key);
        return true;
    }
    if (key >= '1' && key < '1' + SCREEN_LAST) {
        show_screen(choice, key - '0');
        return true;
    }
    switch (key) {
    case 'q':
        return false;
    case '\t':
        show_screen(choice, choice->screen % SCREEN_LAST + 1);
        break;
    case '?':
    case 'h':
        choice->help = !choice->help;
        break;
    case 27:
        choice->help = false;
        choice->filter[0] = '\0';
        break;
    case 'j':
    case TERMINAL_DOWN:
        move(choice, 1);
        break;
    case 'k':
    case TERMINAL_UP:
        move(choice, -1);
        break;
    case TERMINAL_PAGE_DOWN:
        move(choice, 10);
        break;
    case TERMINAL_PAGE_UP:
        move(choice, -10);
        break;
    case 'g':
    case TERMINAL_HOME:
        move(choice, INT_MIN / 2);
        break;
    case 'G':
    case TERMINAL_END:
        move(choice, INT_MAX / 2);
        break;
    case '[':
        go_round(choice, 1);
        break;
    case ']':
        go_round(choice, -1);
        break;
    case 'v':
        choice->list = !choice->list;
        break;
    case '/':
        show_screen(choice, SCREEN_EVENTS);
        choice->typing = true;
        break;
    case 'L' - '@':
        terminal_redraw();
        break;
    default:
        break;
    }
    return true;
}

/* ---- another run ------------------------------------------------------------------------------------------------- */

static struct tui_choice first_choice(const struct run *run)
{
    return (struct tui_choice){.screen = SCREEN_OVERVIEW, .list = run->config.envs <= 8};
}

/* Shows the run that was taken, on the same screen; one that cannot be opened leaves everything as it was. */
static void change_run(struct tui_picker *picker, struct tui_data *data, struct tui_choice *choice)
{
    struct esper_error error = {0};
    const volatile sig_atomic_t *stop = data->stop;
    struct run run;
    if (run_open(&run, picker->runs, picker_path(picker), &error) != ESPER_OK) {
        picker_complain(picker, error.text);
        return;
    }
    enum tui_screen screen = choice->screen;
    tui_data_close(data);
    tui_data_open(data, &run);
    run_close(&run);
    data->stop = stop;
    data->in_turns = true;
    *choice = first_choice(&data->run);
    choice->screen = screen;
    picker_close(picker);
}

/* Returns whether to continue. */
static bool take_any_key(struct tui_picker *picker, struct tui_data *data, struct tui_choice *choice, int key)
{
    if (picker->open) {
        if (picker_take_key(picker, key))
            change_run(picker, data, choice);
        return true;
    }
    if (key == 'r' && !choice->typing) {
        picker_open(picker, data->run.path);
        return true;
    }
    return take_key(choice, key);
}

/* ---- frames ------------------------------------------------------------------------------------------------------ */

static enum esper_status show_picker(struct canvas *canvas, struct tui_picker *picker, struct esper_error *error)
{
    int rows, columns;
    picker_refresh(picker);
    terminal_size(&rows, &columns);
    TRY(canvas_resize(canvas, rows, columns, error));
    canvas_clear(canvas);
    picker_draw(box_whole(canvas), picker);
    terminal_show(canvas);
    return ESPER_OK;
}

static enum esper_status show_frame(struct canvas *canvas, struct tui_data *data, struct tui_choice *choice,
                                    struct esper_error *error)
{
    int rows, columns;
    double start = clock_seconds();
    tui_load(data, choice);
    double loaded = clock_seconds();
    if (data->unfinished) /* keys are read in between */
        return ESPER_OK;
    terminal_size(&rows, &columns);
    TRY(canvas_resize(canvas, rows, columns, error));
    tui_draw(canvas, data, choice);
    terminal_show(canvas);
    data->load_ms = 1e3 * (loaded - start);
    data->draw_ms = 1e3 * (clock_seconds() - loaded);
    return ESPER_OK;
}

static enum esper_status watch(struct canvas *canvas, struct tui_data *data, struct tui_picker *picker,
                               const struct tui_options *options, struct esper_error *error)
{
    struct tui_choice choice = first_choice(&data->run);
    while (!(options->stop && *options->stop) && (!options->stay || options->stay(options->context))) {
        TRY(picker->open ? show_picker(canvas, picker, error) : show_frame(canvas, data, &choice, error));
        for (int key = terminal_read_key(data->unfinished && !picker->open ? 0 : FRAME_MS); key != TERMINAL_NONE;
             key = terminal_read_key(0))
            if (key == TERMINAL_GONE || !take_any_key(picker, data, &choice, key))
                return ESPER_OK;
    }
    return ESPER_OK;
}

enum esper_status tui_watch(const struct run *run, const struct tui_options *options, struct esper_error *error)
{
    struct canvas canvas = {0};
    struct tui_picker picker = {0};
    struct tui_data *data = memory_alloc(1, sizeof *data, error);
    if (!data)
        return ESPER_FAILED;
    tui_data_open(data, run);
    data->stop = options->stop;
    data->in_turns = true;
    enum esper_status status = terminal_open(&canvas.unicode, error);
    if (status == ESPER_OK) {
        status = watch(&canvas, data, &picker, options, error);
        terminal_close();
    }
    picker_close(&picker);
    tui_data_close(data);
    memory_free(data);
    canvas_free(&canvas);
    return status;
}

#else

enum esper_status tui_available(struct esper_error *error)
{
    return error_set(error, ESPER_FAILED,
                     "this build has no terminal viewer: ncurses was missing; add it with: apt-get install "
                     "libncurses-dev, then make");
}

enum esper_status tui_watch(const struct run *run, const struct tui_options *options, struct esper_error *error)
{
    (void)run, (void)options;
    return tui_available(error);
}

#endif
