#include "view/tui.h"

#ifdef HAVE_CURSES

#include <limits.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "view/tui_draw.h"
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

/* ---- frames ------------------------------------------------------------------------------------------------------ */

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

static enum esper_status watch(struct canvas *canvas, struct tui_data *data, const struct tui_options *options,
                               struct esper_error *error)
{
    struct tui_choice choice = {.screen = SCREEN_OVERVIEW, .list = data->run.config.envs <= 8};
    while (!(options->stop && *options->stop) && (!options->stay || options->stay(options->context))) {
        TRY(show_frame(canvas, data, &choice, error));
        for (int key = terminal_read_key(data->unfinished ? 0 : FRAME_MS); key != TERMINAL_NONE;
             key = terminal_read_key(0))
            if (key == TERMINAL_GONE || !take_key(&choice, key))
                return ESPER_OK;
    }
    return ESPER_OK;
}

enum esper_status tui_watch(const struct run *run, const struct tui_options *options, struct esper_error *error)
{
    struct canvas canvas = {0};
    struct tui_data *data = memory_alloc(1, sizeof *data, error);
    if (!data)
        return ESPER_FAILED;
    tui_data_open(data, run);
    data->stop = options->stop;
    data->in_turns = true;
    enum esper_status status = terminal_open(&canvas.unicode, error);
    if (status == ESPER_OK) {
        status = watch(&canvas, data, options, error);
        terminal_close();
    }
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
