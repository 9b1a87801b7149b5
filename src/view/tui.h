/* The terminal viewer of a run, live, finished or crashed: `esper tui`. Reads only the run directory, four times a
 * second. */
#ifndef VIEW_TUI_H
#define VIEW_TUI_H

#include <signal.h>
#include <stdbool.h>

#include "telemetry/run.h"

struct tui_options {
    const volatile sig_atomic_t *stop; /* leaves once it is not 0 */
    bool (*stay)(void *context);       /* called for every frame: false leaves; may be NULL */
    void *context;
};

/* Whether this build has a viewer; if not, the error says how to add it. */
enum esper_status tui_available(struct esper_error *error);
/* Shows the run until the user, `stop` or `stay` ends it, and then restores the terminal. The caller sets the locale
 * first: setlocale(LC_CTYPE, ""). */
enum esper_status tui_watch(const struct run *run, const struct tui_options *options, struct esper_error *error);

#endif
