#include "telemetry/paired.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>

static const double level_shown = 0.95;

static double log_gamma(double x)
{
    int sign; /* lgamma would write a global */
    return lgamma_r(x, &sign);
}

/* The continued fraction of the incomplete beta function, by Lentz' method. Converges fast for x < (a+1)/(a+b+2). */
static double beta_fraction(double a, double b, double x)
{
    double c = 1, d = 1 / (1 - (a + b) * x / (a + 1)), h = d;
    for (int m = 1; m <= 1000; m++) {
        double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
        double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
        d = 1 / (1 + even * d);
        c = 1 + even / c;
        h *= d * c;
        d = 1 / (1 + odd * d);
        c = 1 + odd / c;
        h *= d * c;
        if (fabs(d * c - 1) < 4 * DBL_EPSILON)
            break;
    }
    return h;
}

/* P(|T| > t): the regularised incomplete beta function I_x(v/2, 1/2) at x = v/(v + t^2). */
static double two_tails(double t, double v)
{
    double a = v / 2, b = 0.5, x = v / (v + t * t), y = t * t / (v + t * t);
    if (y == 0)
        return 1;
    double front = exp(log_gamma(a + b) - log_gamma(a) - log_gamma(b) + a * log1p(-y) + b * log(y));
    if (x < (a + 1) / (a + b + 2))
        return front * beta_fraction(a, b, x) / a;
    return 1 - front * beta_fraction(b, a, y) / b;
}

double student_quantile(double level, double degrees)
{
    double low = 0, high = 1;
    while (two_tails(high, degrees) > 1 - level && high < 1e300)
        high *= 2;
    for (int i = 0; i < 200 && high - low > DBL_EPSILON * high; i++) {
        double middle = low + (high - low) / 2;
        if (two_tails(middle, degrees) > 1 - level)
            low = middle;
        else
            high = middle;
    }
    return low + (high - low) / 2;
}

/* mean +- t s / sqrt(n), given the squares of the deviations. */
static struct interval spread(double mean, double squares, int count)
{
    struct interval result = {count, mean, NAN, NAN};
    if (count >= 2) {
        double half = student_quantile(level_shown, count - 1) * sqrt(squares / (count - 1) / count);
        result.low = mean - half;
        result.high = mean + half;
    }
    return result;
}

struct interval interval_of_mean(const double *values, int count)
{
    int used = 0;
    double sum = 0, squares = 0;
    for (int i = 0; i < count; i++)
        if (!isnan(values[i])) {
            used++;
            sum += values[i];
        }
    double mean = used ? sum / used : NAN;
    for (int i = 0; i < count; i++)
        if (!isnan(values[i]))
            squares += (values[i] - mean) * (values[i] - mean);
    return spread(mean, squares, used);
}

struct interval interval_of_ratio(const double *y, const double *x, int count)
{
    int used = 0;
    double sum_y = 0, sum_x = 0, squares = 0;
    for (int i = 0; i < count; i++)
        if (!isnan(y[i]) && !isnan(x[i])) {
            used++;
            sum_y += y[i];
            sum_x += x[i];
        }
    if (sum_x == 0)
        return (struct interval){used, NAN, NAN, NAN};
    double ratio = sum_y / sum_x;
    for (int i = 0; i < count; i++)
        if (!isnan(y[i]) && !isnan(x[i])) {
            double deviation = (y[i] - ratio * x[i]) * used / sum_x;
            squares += deviation * deviation;
        }
    return spread(ratio, squares, used);
}
