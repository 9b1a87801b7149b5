/*
 * What an update reports before its epochs (L-13): statistics of returns, values and advantages. Plain functions over
 * plain arrays. Undefined numbers are NAN, and no others are.
 */
#ifndef LEARN_DIAGNOSTICS_H
#define LEARN_DIAGNOSTICS_H

#include <stdint.h>

#include "base/update_fields.h"
#include "learn/normalise.h"

#define REPORT_INTEGER                  int64_t
#define REPORT_NUMBER                   double
#define REPORT_NAME                     const char *
#define REPORT_MEMBER(kind, name, help) REPORT_##kind name;
struct update_report {
    UPDATE_FIELDS(REPORT_MEMBER)
};
struct head_report {
    HEAD_FIELDS(REPORT_MEMBER)
};
#undef REPORT_MEMBER
#undef REPORT_INTEGER
#undef REPORT_NUMBER
#undef REPORT_NAME

/* Every number missing, every count zero. */
void update_report_clear(struct update_report *record);
void head_report_clear(struct head_report *record, const char *head);

struct moments diagnostics_moments(const double *x, int count);
/* Third moment over the cubed deviation, both of the population; 0 for a constant. */
double diagnostics_skewness(const double *x, int count);
/* 0 when either is constant. */
double diagnostics_correlation(const double *x, const double *y, int count);
/* Linear interpolation at share * (count - 1) of sorted numbers. */
double diagnostics_percentile(const double *sorted, int count, double share);
/* In place: the update allocates nothing. */
void diagnostics_sort(double *x, int count);

#define DIAGNOSTICS_CONSTANT 1e-8 /* a deviation up to this counts as 0 */
#define DIAGNOSTICS_LEAST    1.0  /* a variance of returns below this counts as this: noise cannot look like failure */

struct critic_fit {
    double explained_variance, nrmse; /* NAN below two samples */
};
/* From the moments of returns and of returns - values. */
ESPER_RULE struct critic_fit diagnostics_fit(struct moments returns, struct moments residual)
{
    double spread = moments_sample_variance(returns), error = moments_sample_variance(residual);
    struct critic_fit fit = {returns.count < 2 ? (double)NAN : 1 - error / fmax(spread, DIAGNOSTICS_LEAST),
                             sqrt(error) / (sqrt(spread) + sqrt(DIAGNOSTICS_LEAST))};
    return fit;
}
/* The fit of the values to the returns, in the same units. */
struct critic_fit diagnostics_critic(const double *returns, const double *values, int count);

/* Returns, values (raw units) and td errors of `count` rows into the record; scratch [count]. */
void diagnostics_returns(struct update_report *record, const double *returns, const double *values, const double *td,
                         int count, double *scratch);

#endif
