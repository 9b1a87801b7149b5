/* Means and their 95 % confidence intervals, for differences of paired episodes. */
#ifndef TELEMETRY_PAIRED_H
#define TELEMETRY_PAIRED_H

/* low and high are NAN when fewer than two values leave nothing to estimate a spread from; the mean is also NAN without
 * any. */
struct interval {
    int count; /* values used; NANs are left out */
    double mean, low, high;
};

/* t with P(|T| <= t) = level for Student's T with that many degrees of freedom; 0 < level < 1, degrees > 0. */
double student_quantile(double level, double degrees);

struct interval interval_of_mean(const double *values, int count);
/* sum(y) / sum(x), for ratios whose single terms may divide by 0; the interval by linearisation. All NAN when
 * sum(x) is 0. */
struct interval interval_of_ratio(const double *y, const double *x, int count);

#endif
