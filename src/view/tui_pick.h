/*
 * The runs beside the one that is shown, to choose another: name, state, rounds, task, tags. What is typed narrows the
 * list. It is read when it is opened, and again from time to time while it is shown.
 */
#ifndef VIEW_TUI_PICK_H
#define VIEW_TUI_PICK_H

#include "telemetry/run_shelf.h"
#include "view/tui_canvas.h"

struct tui_picker {
    bool open;
    char runs[PATH_MAX]; /* the directory */
    struct run_shelf shelf;
    int *found; /* numbers of the runs that fit what was typed; [shelf.count] */
    int count;
    int chosen;     /* one of `found` */
    int order;      /* which column they are sorted by; 0: the newest first */
    char typed[64]; /* words that a run must have in its line */
    char trouble[256];
    double read, cost; /* when the directory was read, and how long that took: seconds */
};

/* Opens the list of the directory that the run is in, with that run chosen. */
void picker_open(struct tui_picker *picker, const char *run_path);
void picker_close(struct tui_picker *picker);
void picker_refresh(struct tui_picker *picker); /* reads the directory again if it is time */
/* True: a run was taken; its path is that of the chosen one. Keys as terminal_read_key gives them. */
bool picker_take_key(struct tui_picker *picker, int key);
const char *picker_path(const struct tui_picker *picker); /* NULL: there is none */
/* What is wrong with the run that was taken, for the next frame. */
void picker_complain(struct tui_picker *picker, const char *text);
void picker_draw(struct box box, const struct tui_picker *picker);

#endif
