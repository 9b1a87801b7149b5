/*
 * The report: one HTML page that describes a run from beginning to end, or several runs and how they compare. No
 * scripts, nothing from the network; the same record gives the same bytes. Live, crashed and empty runs have one as
 * well.
 */
#ifndef VIEW_REPORT_H
#define VIEW_REPORT_H

#include "view/html.h"

enum { REPORT_WORDS = 26 };

/*
 * Each word is a run, or runs of one policy joined by commas (telemetry/cohort.h), as run_find takes them. The first
 * run is described in full, the others in a line each; words of one kind, training or evaluation, are compared. The
 * page says what could not be compared or read. `path` receives the default place of the page: report.html in the first
 * run's directory.
 */
enum esper_status report_make(struct html *html, const char *runs, const char *const *words, int count, char *path,
                              size_t path_size, struct esper_error *error);

#endif
