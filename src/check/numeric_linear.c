/* Matrix products against plain loops, and the rows of a recurrent network against libm. */
#include <math.h>
#include <string.h>

#include "check/numeric_cases.h"
#include "nn/linear.h"
#include "nn/rows.h"

/* ---- products --------------------------------------------------------------------------------------------------- */

struct product_case {
    struct product product;
    real *a, *turned_a, *b, *packed, *bias, *c;
};

static void product_take(struct product_case *p, struct scrap *scrap, int rows, int k, int columns)
{
    p->a = scrap_reals(scrap, (size_t)rows * k);
    p->turned_a = scrap_reals(scrap, (size_t)rows * k);
    p->b = scrap_reals(scrap, (size_t)k * columns);
    p->packed = scrap_reals(scrap, packed_size(k, columns));
    p->bias = scrap_reals(scrap, (size_t)columns);
    p->c = scrap_reals(scrap, (size_t)rows * columns);
    p->product = (struct product){rows, k, columns, p->a, k, p->packed, p->bias, 0, p->c, columns, false};
}

static double product_error(const struct product_case *p, int transposed)
{
    const struct product *x = &p->product;
    struct worst worst = {0};
    for (int r = 0; r < x->rows; r++)
        for (int j = 0; j < x->columns; j++) {
            double want = (double)p->bias[j];
            for (int k = 0; k < x->k; k++)
                want += (double)p->a[r * x->k + k] * (double)p->b[transposed ? j * x->k + k : k * x->columns + j];
            worst_add(&worst, (double)p->c[r * x->columns + j], want);
        }
    return worst.error;
}

/* All at once, packed from either order of storage; then the panels one by one, k in two calls and the rows alone: not
 * a bit may change. */
static void product_check(struct check_report *report, const char *name, int rows, int k, int columns)
{
    struct scrap scrap = {0};
    struct product_case p;
    product_take(&p, &scrap, rows, k, columns);
    real *whole = scrap_reals(&scrap, (size_t)rows * columns), *turned = scrap_reals(&scrap, (size_t)rows * columns);
    if (!scrap_ready(&scrap, report, name))
        goto cleanup;
    fill_random(p.a, (size_t)rows * k, 400, 1);
    fill_random(p.b, (size_t)k * columns, 401, 1);
    fill_random(p.bias, (size_t)columns, 402, 1);
    linear_pack(k, columns, p.b, 1, k, 0, panel_count(columns), p.packed);
    linear_product(&p.product, 0, panel_count(columns));
    double error = product_error(&p, 1);
    linear_pack(k, columns, p.b, columns, 1, 0, panel_count(columns), p.packed);
    linear_product(&p.product, 0, panel_count(columns));
    error = fmax(error, product_error(&p, 0));
    case_error(report, error, 2 * ROUNDING * k, "%s %d x %d x %d", name, rows, k, columns);

    memcpy(whole, p.c, sizeof(real) * (size_t)rows * columns);
    for (int r = 0; r < rows; r++)
        for (int panel = 0; panel < panel_count(columns); panel++) {
            struct product one = p.product;
            one.rows = 1;
            one.a += r * k;
            one.c = turned + r * columns;
            linear_product(&one, panel, panel + 1);
        }
    case_flag(report, same_bits(whole, turned, (size_t)rows * columns), "a row alone has other bits", "%s %d x %d x %d",
              name, rows, k, columns);
    struct product across = p.product;
    linear_transpose(rows, k, p.a, k, p.turned_a, rows);
    across.a = p.turned_a;
    across.a_stride = rows;
    across.across = true;
    across.c = turned;
    linear_product(&across, 0, panel_count(columns));
    case_flag(report, same_bits(whole, turned, (size_t)rows * columns), "has other bits", "%s %d x %d x %d across",
              name, rows, k, columns);
    linear_transpose(rows, columns, whole, columns, turned, rows);
    bool equal = true;
    for (int i = 0; i < rows * columns; i++)
        equal &= turned[i % columns * rows + i / columns] == whole[i];
    case_flag(report, equal, "transposed wrongly", "%s %d x %d transposed", name, rows, columns);
cleanup:
    scrap_free(&scrap);
}

void case_linear(struct check_report *report, const char *name)
{
    static const int sizes[][3] = {{1, 1, 1}, {3, 5, 7}, {7, 16, 33}, {13, 41, 64}, {25, 1300, 40}, {4, 600, 100}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        product_check(report, name, sizes[i][0], sizes[i][1], sizes[i][2]);
}

/* ---- rows ------------------------------------------------------------------------------------------------------- */

enum { UNITS = 200 };

/* Sums of all sizes and both signs, far beyond where the curves are flat. */
static void spread(real *x, int count)
{
    for (int i = 0; i < count; i++)
        x[i] = (real)((i % 2 ? -1 : 1) * pow(10, -6 + 8.3 * i / count));
}

static double relative(double got, double want)
{
    return fabs(got - want) / fmax(fabs(want), 1e-30);
}

void case_lstm_cell(struct check_report *report, const char *name)
{
    real gate[4 * UNITS], c_in[UNITS], c[UNITS], tanh_c[UNITS], h[UNITS];
    double error = 0;
    for (int g = 0; g < 4; g++)
        spread(gate + g * UNITS, UNITS);
    fill_random(c_in, UNITS, 410, 60);
    real sums[4 * UNITS];
    memcpy(sums, gate, sizeof gate);
    lstm_cell(UNITS, UNITS, gate, c_in, c, tanh_c, h);
    for (int u = 0; u < UNITS; u++) {
        for (int g = 0; g < 4; g++) {
            double x = (double)sums[g * UNITS + u], want = g == 2 ? tanh(x) : 1 / (1 + exp(-x));
            if (fabs(x) < 80)
                error = fmax(error, relative((double)gate[g * UNITS + u], want));
        }
        error = fmax(error, relative((double)tanh_c[u], tanh((double)c[u])));
        error = fmax(error, relative((double)h[u], (double)gate[3 * UNITS + u] * (double)tanh_c[u]));
    }
    case_error(report, error, 4 * ROUNDING, "%s activations", name);
    real wild[4] = {(real)NAN, (real)INFINITY, -(real)INFINITY, 0}, zero = 0, out[3];
    for (int i = 0; i < 3; i++) {
        real gates[4] = {wild[i], wild[i], wild[i], wild[i]};
        lstm_cell(1, 1, gates, &zero, &out[0], &out[1], &out[2]);
        bool good = i == 0 ? isnan(out[0]) && isnan(out[2]) : i == 1 ? out[0] == 1 : fabs((double)out[0]) < 1e-30;
        case_flag(report, good, "NAN and infinity must come through", "%s of %g", name, (double)wild[i]);
    }
}

void case_layer_norm(struct check_report *report, const char *name)
{
    static const int widths[] = {1, 7, 16, 100, 512};
    real x[512], hat[512];
    for (size_t k = 0; k < sizeof widths / sizeof widths[0]; k++) {
        int width = widths[k];
        double mean = 0, variance = 0;
        struct worst worst = {0};
        fill_random(x, (size_t)width, 420, 1);
        for (int i = 0; i < width; i++)
            mean += ((double)(x[i] += 3)) / width;
        for (int i = 0; i < width; i++)
            variance += ((double)x[i] - mean) * ((double)x[i] - mean) / width;
        double rstd = 1 / sqrt(variance + LAYER_NORM_EPS);
        double got = (double)layer_norm_row(width, x, hat);
        for (int i = 0; i < width; i++)
            worst_add(&worst, (double)hat[i], ((double)x[i] - mean) * rstd);
        worst_add(&worst, got / rstd, 1);
        case_error(report, worst.error, 40 * ROUNDING, "%s %d wide", name, width);
    }
}
