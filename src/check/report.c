#include "check/report.h"

#include <math.h>
#include <stdio.h>
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

void report_floats(struct check_report *report, const char *name, const float *got, const float *want, size_t count,
                   double rtol, double atol)
{
    double worst = 0, largest = 0;
    for (size_t i = 0; i < count; i++) {
        double error = fabs((double)got[i] - (double)want[i]);
        if (error > worst || error != error) /* a NAN, once seen, stays: no later error is greater */
            worst = error;
        if (fabs((double)want[i]) > largest)
            largest = fabs((double)want[i]);
    }
    report_error(report, name, worst, rtol * largest + atol);
}

void report_integers(struct check_report *report, const char *name, const int *got, const int *want, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (got[i] != want[i]) {
            char note[80];
            snprintf(note, sizeof note, "element %zu is %d, should be %d", i, got[i], want[i]);
            report_flag(report, name, false, note);
            return;
        }
    }
    report_flag(report, name, true, NULL);
}
