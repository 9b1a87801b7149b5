/*
 * `esper train --tui`: one process trains, another shows. The process splits before it has any threads; the child
 * trains exactly as it would alone, its output kept back, and the parent has the terminal. Ctrl-C stops the training at
 * its next step, saved; when it is over by itself the viewer stays until it is left; `q` before that leaves the viewer
 * only, and the training shows its progress as it would alone.
 */
#ifndef CLI_TUI_H
#define CLI_TUI_H

#include <stdbool.h>

struct tui_split {
    int tell; /* where the child says which run it is; -1: nowhere */
};

/* CLI_CONTINUE in the process that trains. In the other one: the exit code, when all is over. */
int tui_split(struct tui_split *split);
/* In the process that trains: whether a viewer has the terminal. */
bool tui_has_terminal(void);
/* Once the run's directory is there. */
void tui_split_tell(struct tui_split *split, const char *path);

#endif
