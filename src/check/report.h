/*
 * What a check found. One report collects the results of a run of `esper selftest`: every compared tensor or case adds
 * a line; the caller decides how to print them.
 */
#ifndef CHECK_REPORT_H
#define CHECK_REPORT_H

#include <stdbool.h>

/* Skipped: there is nothing yet that it would check. Lacked: a case of the table that this backend has no code for. */
enum check_result { CHECK_PASSED, CHECK_FAILED, CHECK_SKIPPED, CHECK_LACKED, CHECK_RESULTS };

struct check_report {
    int count[CHECK_RESULTS];
    bool failures_only; /* show only what failed */
    const char *filter; /* when set, cases whose name does not contain it are not run */
    /* Called once per result. `error` and `limit` are the worst error and what it may be; NAN where they have no
     * meaning. */
    void (*show)(void *context, enum check_result result, const char *name, double error, double limit,
                 const char *note);
    void *context;
};

/* Whether the filter lets this case run. */
bool report_wants(const struct check_report *report, const char *name);

/* error <= limit passes; anything else, NAN included, fails. */
void report_error(struct check_report *report, const char *name, double error, double limit);
void report_flag(struct check_report *report, const char *name, bool passed, const char *note);
void report_skip(struct check_report *report, const char *name, const char *why);
void report_lack(struct check_report *report, const char *name);

#endif
