/*
 * `esper train --tui`: one process trains, another shows it. The process forks before it has any threads; the child
 * trains exactly as it would alone, its output held back, and the parent has the terminal. Ctrl-C stops the training at
 * its next step and saves it; when training finishes the viewer stays until the user leaves it; `q` before that leaves
 * only the viewer, and the training shows its progress as usual.
 */
#ifndef CLI_TUI_H
#define CLI_TUI_H

#include <stdbool.h>

struct tui_split {
    int tell; /* where the child names its run; -1: nowhere */
};

/* CLI_CONTINUE in the process that trains. In the other one: the exit code, once both have ended. */
int tui_split(struct tui_split *split);
/* In the process that trains: whether a viewer has the terminal. */
bool tui_has_terminal(void);
/* Call it once the run's directory exists. */
void tui_split_tell(struct tui_split *split, const char *path);

#endif
