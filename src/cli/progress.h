/*
 * What the user sees of a run in progress: on a terminal one live line that follows the steps and a table with a row
 * per round, elsewhere plain lines. It fits the terminal: less important columns are dropped when it is narrow and
 * shown when it is wide. Everything goes to stderr.
 */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/config.h"
#include "session/session.h"

enum progress_style { PROGRESS_QUIET, PROGRESS_PLAIN, PROGRESS_LIVE };

struct progress {
    enum progress_style style;
    const struct config *config;
    double start, shown; /* times of the first call and of the last line */
    long long first;     /* steps done before this process started, -1: not known yet */
    double left;         /* seconds to the end, at the pace of this process; -1: not known yet */
    unsigned columns;    /* the columns of the header that was printed last, one bit each */
    int rows;            /* rows below it */
    bool open;           /* a live line is on the terminal */
};

/* The configuration must outlive the progress. */
void progress_begin(struct progress *progress, const struct config *config, enum progress_style style);
/* After every step of the session. */
void progress_step(struct progress *progress, const struct session_progress *step);
/* Removes the live line, so that further output starts on its own line. */
void progress_end(struct progress *progress);

/* The parts, each one line without its end, at most `width` characters (of one column each). */
unsigned progress_columns(const struct progress *progress, int width);
void progress_header(const struct progress *progress, unsigned columns, char *text, size_t size);
void progress_row(const struct progress *progress, unsigned columns, const struct session_progress *step, char *text,
                  size_t size);
void progress_live(const struct progress *progress, const struct session_progress *step, int width, char *text,
                   size_t size);
void progress_alert(const struct alert_record *alert, char *text, size_t size);
void progress_plain(const struct progress *progress, const struct session_progress *step, char *text, size_t size);

#endif
