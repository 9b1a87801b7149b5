#include "check/columns.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>

struct vectors_label vectors_label_of(const struct vectors *vectors, const char *name)
{
    struct vectors_label label;
    snprintf(label.text, sizeof label.text, "%s.%s%s", vectors->prefix, vectors->group, name);
    return label;
}

static const struct st_tensor *find(const struct vectors *vectors, const char *name)
{
    char full[96];
    snprintf(full, sizeof full, "%s%s", vectors->group, name);
    return st_find(vectors->file, full);
}

const struct st_tensor *vectors_tensor(struct vectors *vectors, const char *name, enum st_dtype dtype, size_t rows,
                                       size_t columns)
{
    const struct st_tensor *tensor = find(vectors, name);
    if (tensor && tensor->dtype == dtype && (columns ? tensor->dims >= 2 : tensor->dims == 1) &&
        tensor->shape[0] == rows && tensor->count == rows * (columns ? columns : 1))
        return tensor;
    char form[64], note[96];
    snprintf(form, sizeof form, columns ? "[%zu][%zu]" : "[%zu]", rows, columns);
    snprintf(note, sizeof note, "%s %s %s", tensor ? "should be" : "missing:", st_dtype_name(dtype), form);
    report_flag(vectors->report, vectors_label_of(vectors, name).text, false, note);
    vectors->complete = false;
    return NULL;
}

const void *vectors_data(struct vectors *vectors, const char *name, enum st_dtype dtype, size_t rows, size_t columns)
{
    const struct st_tensor *tensor = vectors_tensor(vectors, name, dtype, rows, columns);
    return tensor ? tensor->data : NULL;
}

bool vectors_size(struct vectors *vectors, const char *name, size_t *rows, size_t *columns)
{
    const struct st_tensor *tensor = find(vectors, name);
    if (tensor && tensor->dims == 2 && tensor->count > 0) {
        *rows = tensor->shape[0];
        *columns = tensor->shape[1];
        return true;
    }
    report_flag(vectors->report, vectors_label_of(vectors, name).text, false,
                tensor ? "should be a table of two dimensions, not empty" : "missing");
    return false;
}

void columns_bind(struct vectors *vectors, struct column *columns, size_t count, size_t rows, size_t width)
{
    for (size_t i = 0; i < count; i++)
        columns[i].want = vectors_tensor(vectors, columns[i].name, columns[i].dtype, rows, width);
}

double column_want(const struct column *column, size_t index)
{
    switch (column->dtype) {
    case ST_F32:
        return (double)((const float *)column->want->data)[index];
    case ST_I32:
        return ((const int32_t *)column->want->data)[index];
    default:
        return ((const uint8_t *)column->want->data)[index];
    }
}

void column_compare(struct column *column, size_t index, double got)
{
    double error = fabs(got - column_want(column, index));
    if (error > column->worst || error != error) { /* a NAN, once seen, stays: no later error is greater */
        column->worst = error;
        column->worst_at = index;
    }
}

void column_compare_exactly(struct column *column, size_t index, double got)
{
    if (got != column_want(column, index)) {
        column->worst = INFINITY;
        column->worst_at = index;
    }
}

void columns_report(struct vectors *vectors, const struct column *columns, size_t count, size_t width)
{
    for (size_t i = 0; i < count; i++) {
        const struct column *column = &columns[i];
        struct vectors_label label = vectors_label_of(vectors, column->name);
        char note[96];
        if (!report_wants(vectors->report, label.text))
            continue;
        if (column->dtype == ST_F32) {
            report_error(vectors->report, label.text, column->worst, vectors->tolerance);
            continue;
        }
        snprintf(note, sizeof note, "row %zu, column %zu is off by %g", column->worst_at / width,
                 column->worst_at % width, column->worst);
        report_flag(vectors->report, label.text, column->worst == 0, column->worst == 0 ? NULL : note);
    }
}
