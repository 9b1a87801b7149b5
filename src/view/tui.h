/* The terminal viewer of a run, live, finished or crashed: `esper tui`. Reads the run directory, four times a second,
 * and nothing else. */
#ifndef VIEW_TUI_H
#define VIEW_TUI_H

#include <signal.h>
#include <stdbool.h>

#include "telemetry/run.h"

struct tui_options {
    const volatile sig_atomic_t *stop; /* leave once it is not 0 */
    bool (*stay)(void *context);       /* asked for every frame: false leaves; may be NULL */
    void *context;
};

/* Whether this build has a viewer; else the line that says how to add it. */
enum esper_status tui_available(struct esper_error *error);
/* Shows the run until the person, `stop` or `stay` ends it. The terminal is then as it was before. The locale is the
 * caller's business: setlocale(LC_CTYPE, "") first. */
enum esper_status tui_watch(const struct run *run, const struct tui_options *options, struct esper_error *error);

#endif
