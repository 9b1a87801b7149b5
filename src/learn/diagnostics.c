#include "learn/diagnostics.h"

#include <math.h>
#include <string.h>

#define CLEAR_INTEGER           0
#define CLEAR_NUMBER            (double)NAN
#define CLEAR_NAME              NULL
#define CLEAR(type, name, help) record->name = CLEAR_##type;

void update_report_clear(struct update_report *record)
{
    UPDATE_FIELDS(CLEAR)
    record->early_stop = -1;
}

void head_report_clear(struct head_report *record, const char *head)
{
    HEAD_FIELDS(CLEAR)
    record->head = head;
}

struct moments diagnostics_moments(const double *x, int count)
{
    struct moments moments = {count, 0, 0};
    for (int i = 0; i < count; i++)
        moments.mean += x[i];
    moments.mean /= count > 0 ? count : 1;
    for (int i = 0; i < count; i++)
        moments.m2 += (x[i] - moments.mean) * (x[i] - moments.mean);
    return moments;
}

double diagnostics_skewness(const double *x, int count)
{
    struct moments moments = diagnostics_moments(x, count);
    double deviation = sqrt(moments_variance(moments)), sum = 0;
    if (deviation <= DIAGNOSTICS_CONSTANT)
        return 0;
    for (int i = 0; i < count; i++)
        sum += pow((x[i] - moments.mean) / deviation, 3);
    return sum / count;
}

double diagnostics_correlation(const double *x, const double *y, int count)
{
    struct moments of_x = diagnostics_moments(x, count), of_y = diagnostics_moments(y, count);
    double x_deviation = sqrt(moments_variance(of_x)), y_deviation = sqrt(moments_variance(of_y)), sum = 0;
    if (x_deviation <= DIAGNOSTICS_CONSTANT || y_deviation <= DIAGNOSTICS_CONSTANT)
        return 0;
    for (int i = 0; i < count; i++)
        sum += (x[i] - of_x.mean) * (y[i] - of_y.mean);
    return fmin(fmax(sum / count / (x_deviation * y_deviation), -1), 1);
}

double diagnostics_percentile(const double *sorted, int count, double share)
{
    double at = share * (count - 1);
    int below = (int)at, above = below + 1 < count ? below + 1 : below;
    return sorted[below] + (at - below) * (sorted[above] - sorted[below]);
}

static void heap_sink(double *x, int top, int count)
{
    for (int child; (child = 2 * top + 1) < count; top = child) {
        if (child + 1 < count && x[child + 1] > x[child])
            child++;
        if (x[top] >= x[child])
            return;
        double swap = x[top];
        x[top] = x[child];
        x[child] = swap;
    }
}

void diagnostics_sort(double *x, int count)
{
    for (int top = count / 2 - 1; top >= 0; top--)
        heap_sink(x, top, count);
    for (int last = count - 1; last > 0; last--) {
        double swap = x[0];
        x[0] = x[last];
        x[last] = swap;
        heap_sink(x, 0, last);
    }
}

struct critic_fit diagnostics_critic(const double *returns, const double *values, int count)
{
    struct moments residual = {0, 0, 0};
    for (int i = 0; i < count; i++)
        moments_add(&residual, returns[i] - values[i]);
    return diagnostics_fit(diagnostics_moments(returns, count), residual);
}

void diagnostics_returns(struct update_report *record, const double *returns, const double *values, const double *td,
                         int count, double *scratch)
{
    struct critic_fit fit = diagnostics_critic(returns, values, count);
    record->explained_variance = fit.explained_variance;
    record->value_nrmse = fit.nrmse;
    record->value_correlation = diagnostics_correlation(values, returns, count);

    struct moments errors = diagnostics_moments(td, count);
    double magnitude = 0;
    for (int i = 0; i < count; i++)
        magnitude += fabs(td[i]);
    record->td_error_mean = errors.mean;
    record->td_error_std = sqrt(moments_variance(errors));
    record->bellman_error = magnitude / count;

    struct moments gains = diagnostics_moments(returns, count);
    record->return_mean = gains.mean;
    record->return_std = sqrt(moments_sample_variance(gains));
    record->return_skewness = diagnostics_skewness(returns, count);
    memcpy(scratch, returns, (size_t)count * sizeof *scratch);
    diagnostics_sort(scratch, count);
    record->return_p10 = diagnostics_percentile(scratch, count, 0.1);
    record->return_p50 = diagnostics_percentile(scratch, count, 0.5);
    record->return_p90 = diagnostics_percentile(scratch, count, 0.9);
}
