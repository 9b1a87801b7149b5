/* What `esper sweep` prints: its plan, and the table of what came of it. */
#ifndef CLI_SWEEP_PRINT_H
#define CLI_SWEEP_PRINT_H

#include "sweep/folder.h"

/* What is known of all runs, by number. */
struct sweep_table {
    const struct sweep *sweep;
    const char *folder;
    const struct sweep_state *states;   /* [runs] */
    const struct sweep_result *results; /* [runs] */
    int over;                           /* runs of which nothing is left to be played */
    bool complete;                      /* there is nothing left to do at all */
};

void sweep_print_plan(const struct sweep *sweep, const char *folder);
enum esper_status sweep_print(const struct sweep_table *table, struct esper_error *error);
enum esper_status sweep_print_json(const struct sweep_table *table, struct esper_error *error);

#endif
