#include "check/report.h"

#include <math.h>
#include <string.h>

static void report_add(struct check_report *report, enum check_result result, const char *name, double error,
                       double limit, const char *note)
{
    report->count[result]++;
    if (report->show && !(report->failures_only && result != CHECK_FAILED))
        report->show(report->context, result, name, error, limit, note);
}

bool report_wants(const struct check_report *report, const char *name)
{
    return !report->filter || strstr(name, report->filter);
}

void report_error(struct check_report *report, const char *name, double error, double limit)
{
    report_add(report, error <= limit ? CHECK_PASSED : CHECK_FAILED, name, error, limit, NULL);
}

void report_flag(struct check_report *report, const char *name, bool passed, const char *note)
{
    report_add(report, passed ? CHECK_PASSED : CHECK_FAILED, name, NAN, NAN, note);
}

void report_skip(struct check_report *report, const char *name, const char *why)
{
    report_add(report, CHECK_SKIPPED, name, NAN, NAN, why);
}

void report_lack(struct check_report *report, const char *name)
{
    report_add(report, CHECK_LACKED, name, NAN, NAN, NULL);
}
