#ifdef HAVE_CURSES
#define _XOPEN_SOURCE_EXTENDED 1
#include "view/tui_terminal.h"

#include <errno.h>
#include <langinfo.h>
#include <ncurses.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

/* The one terminal of the process: signal handlers need it, and curses supports no other. */
static struct {
    SCREEN *screen;
    struct termios before;
    bool coloured;
    char restore[256]; /* what to send so that the shell gets its screen back */
    size_t restore_length;
} terminal;

/* ---- when the process dies --------------------------------------------------------------------------------------- */

static const int deadly[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGQUIT};
enum { DEADLY = sizeof deadly / sizeof deadly[0] };

/* curses may be in any state here: only write and tcsetattr, then die of the signal as before. */
static void on_deadly(int number)
{
    size_t done = 0;
    while (done < terminal.restore_length) {
        ssize_t wrote = write(STDOUT_FILENO, terminal.restore + done, terminal.restore_length - done);
        if (wrote <= 0)
            break;
        done += (size_t)wrote;
    }
    tcsetattr(STDIN_FILENO, TCSANOW, &terminal.before);
    signal(number, SIG_DFL);
    raise(number);
}

/* Without the padding that old terminals need: "$<5>". */
static void add_restore(const char *capability)
{
    char name[16];
    strncpy(name, capability, sizeof name - 1);
    name[sizeof name - 1] = '\0';
    const char *text = tigetstr(name);
    if (!text || text == (const char *)-1)
        return;
    for (; *text && terminal.restore_length < sizeof terminal.restore; text++) {
        const char *end = text[0] == '$' && text[1] == '<' ? strchr(text, '>') : NULL;
        if (end)
            text = end;
        else
            terminal.restore[terminal.restore_length++] = *text;
    }
}

static void catch_deadly(bool caught)
{
    struct sigaction action = {.sa_handler = caught ? on_deadly : SIG_DFL};
    for (int i = 0; i < DEADLY; i++)
        sigaction(deadly[i], &action, NULL);
}

/* ---- colours ----------------------------------------------------------------------------------------------------- */

/* On 256 colours, on 8 (-1: the terminal's own), and what goes with it where there are few or none. */
static const struct {
    short many, few;
    attr_t with;
} looks[INK_COUNT] = {
    [INK_PLAIN] = {-1, -1, A_NORMAL},
    [INK_FAINT] = {245, -1, A_NORMAL},
    [INK_TITLE] = {-1, -1, A_BOLD},
    [INK_GOOD] = {71, COLOR_GREEN, A_NORMAL},
    [INK_WARN] = {214, COLOR_YELLOW, A_BOLD},
    [INK_BAD] = {203, COLOR_RED, A_BOLD},
    [INK_LINE] = {74, COLOR_CYAN, A_NORMAL},
    [INK_SELECTED] = {-1, -1, A_REVERSE},
    [INK_GERMINATED] = {186, COLOR_YELLOW, A_NORMAL},
    [INK_TRAINING] = {74, COLOR_CYAN, A_NORMAL},
    [INK_BLENDING] = {140, COLOR_MAGENTA, A_NORMAL},
    [INK_HOLDING] = {180, COLOR_YELLOW, A_NORMAL},
    [INK_FOSSILIZED] = {71, COLOR_GREEN, A_NORMAL},
    [INK_COOLING] = {245, COLOR_RED, A_NORMAL},
};

static void choose_colours(void)
{
    const char *refused = getenv("NO_COLOR");
    terminal.coloured = has_colors() && !(refused && *refused) && start_color() == OK;
    if (!terminal.coloured)
        return;
    bool own = use_default_colors() == OK;
    for (int ink = 0; ink < INK_COUNT; ink++) {
        short colour = COLORS >= 256 ? looks[ink].many : looks[ink].few;
        init_pair((short)(ink + 1), colour < 0 && !own ? COLOR_WHITE : colour, own ? -1 : COLOR_BLACK);
    }
}

/* ---- open and close ---------------------------------------------------------------------------------------------- */

static enum esper_status unknown_terminal(struct esper_error *error)
{
    const char *type = getenv("TERM");
    return error_set(error, ESPER_INVALID,
                     "TERM=%.40s: not a terminal that can be drawn on; try TERM=xterm or TERM=vt100",
                     type && *type ? type : "(empty)");
}

enum esper_status terminal_open(bool *unicode, struct esper_error *error)
{
    static const char *const leaving[] = {"sgr0", "cnorm", "rmkx", "rmcup"};
    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO) || tcgetattr(STDIN_FILENO, &terminal.before) != 0)
        return error_set(error, ESPER_INVALID,
                         "this is not a terminal; `esper inspect RUN` and `esper sql RUN` write plain text");
    terminal.screen = newterm(NULL, stdout, stdin);
    if (!terminal.screen)
        return unknown_terminal(error);
    const char *move = tigetstr("cup");
    if (!move || move == (const char *)-1) {
        terminal_close();
        return unknown_terminal(error);
    }
    terminal.restore_length = 0;
    for (int i = 0; i < 4; i++)
        add_restore(leaving[i]);
    catch_deadly(true);
    *unicode = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
    cbreak();
    noecho();
    nonl();
    curs_set(0);
    set_escdelay(25);
    keypad(stdscr, TRUE);
    nodelay(stdscr, TRUE);
    choose_colours();
    return ESPER_OK;
}

void terminal_close(void)
{
    if (!terminal.screen)
        return;
    endwin();
    delscreen(terminal.screen);
    terminal.screen = NULL;
    catch_deadly(false);
}

/* ---- in and out -------------------------------------------------------------------------------------------------- */

void terminal_size(int *rows, int *columns)
{
    getmaxyx(stdscr, *rows, *columns);
}

static attr_t attribute_of(int ink)
{
    if (!terminal.coloured)
        return looks[ink].with;
    /* where an ink has its own colour, bold is not needed */
    return (attr_t)COLOR_PAIR(ink + 1) | (COLORS >= 256 && looks[ink].many >= 0 ? A_NORMAL : looks[ink].with);
}

void terminal_show(const struct canvas *canvas)
{
    wchar_t text[CANVAS_COLUMNS];
    for (int row = 0; row < canvas->rows; row++) {
        const struct canvas_cell *cells = canvas->cells + (size_t)row * (size_t)canvas->columns;
        for (int from = 0, end; from < canvas->columns; from = end) {
            for (end = from; end < canvas->columns && cells[end].ink == cells[from].ink; end++)
                text[end - from] = (wchar_t)cells[end].glyph;
            attrset((int)attribute_of(cells[from].ink));
            mvaddnwstr(row, from, text, end - from);
        }
    }
    refresh();
}

void terminal_redraw(void)
{
    clearok(stdscr, TRUE);
}

static int translate(int key)
{
    static const struct {
        int curses, ours;
    } keys[] = {{KEY_UP, TERMINAL_UP},
                {KEY_DOWN, TERMINAL_DOWN},
                {KEY_PPAGE, TERMINAL_PAGE_UP},
                {KEY_NPAGE, TERMINAL_PAGE_DOWN},
                {KEY_HOME, TERMINAL_HOME},
                {KEY_END, TERMINAL_END},
                {KEY_BACKSPACE, TERMINAL_RUB_OUT},
                {KEY_RESIZE, TERMINAL_RESIZED},
                {KEY_ENTER, '\r'}};
    if (key == 127 || key == 8)
        return TERMINAL_RUB_OUT;
    if (key >= 0 && key < 256)
        return key;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (keys[i].curses == key)
            return keys[i].ours;
    return TERMINAL_OTHER;
}

int terminal_read_key(int milliseconds)
{
    int key = getch();
    if (key == ERR) {
        struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
        int ready = poll(&input, 1, milliseconds);
        if (ready < 0 && errno != EINTR)
            return TERMINAL_GONE;
        if (ready > 0 && input.revents & (POLLHUP | POLLERR | POLLNVAL))
            return TERMINAL_GONE;
        key = getch(); /* also after EINTR: a resize arrives as a key */
    }
    return key == ERR ? TERMINAL_NONE : translate(key);
}

#else
/* Without ncurses there is no viewer: tui.c says so. */
typedef int tui_terminal_needs_ncurses;
#endif
