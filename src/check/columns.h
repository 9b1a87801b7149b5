/*
 * A file of golden vectors as the rules read it: tables [row][column], each output a column of results that are
 * compared value by value. A missing or misshapen table fails in the report.
 */
#ifndef CHECK_COLUMNS_H
#define CHECK_COLUMNS_H

#include "base/safetensors.h"
#include "check/report.h"

struct vectors {
    const struct st_file *file;
    struct check_report *report;
    const char *prefix; /* of names in the report: "lifecycle" */
    const char *group;  /* of names in the file, with its dot: "s3.", or "" */
    double tolerance;   /* absolute, of F32 results; integers are exact */
    bool complete;      /* every table asked for so far was there and of the right form */
};

/* What the report calls a table of the group. */
struct vectors_label {
    char text[96];
};
struct vectors_label vectors_label_of(const struct vectors *vectors, const char *name);

/* The table [rows][columns] of this type (columns 0: [rows]; of more dimensions, columns is the product of all but the
 * first), or NULL with a failure in the report. */
const struct st_tensor *vectors_tensor(struct vectors *vectors, const char *name, enum st_dtype dtype, size_t rows,
                                       size_t columns);
const void *vectors_data(struct vectors *vectors, const char *name, enum st_dtype dtype, size_t rows, size_t columns);

/* The size of the table [rows][columns] that sets those of the others; false, with a failure, when there is none. */
bool vectors_size(struct vectors *vectors, const char *name, size_t *rows, size_t *columns);

struct column {
    const char *name;
    enum st_dtype dtype; /* F32, I32 or U8 */
    const struct st_tensor *want;
    double worst; /* largest difference, and where */
    size_t worst_at;
};

void columns_bind(struct vectors *vectors, struct column *columns, size_t count, size_t rows, size_t width);
double column_want(const struct column *column, size_t index);
void column_compare(struct column *column, size_t index, double got);
/* No tolerance, whatever the type. */
void column_compare_exactly(struct column *column, size_t index, double got);
void columns_report(struct vectors *vectors, const struct column *columns, size_t count, size_t width);

#endif
