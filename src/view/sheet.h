/* The complete answer to a question, in memory: columns by name, numbers as arrays for plots. */
#ifndef VIEW_SHEET_H
#define VIEW_SHEET_H

#include "view/questions.h"

enum { SHEET_COLUMNS = 80, SHEET_NAME = 40 };

struct sheet {
    int rows, columns;
    char names[SHEET_COLUMNS][SHEET_NAME];
    double *numbers;    /* [column * rows + row]; NAN: missing, or not a number */
    const char **texts; /* the same; NULL: missing, or not a text */
    void *pages;        /* where the texts are */
};

/* Asks one of view/questions.h. The old contents of *sheet are lost: free it first. After a failure it is empty. */
enum esper_status sheet_ask(struct sheet *sheet, struct query *query, const char *name,
                            const struct question_values *values, struct esper_error *error);
void sheet_free(struct sheet *sheet); /* also of {0} */

/* A column's numbers, one per row. NULL: no such column, or no rows. */
const double *sheet_series(const struct sheet *sheet, const char *column);
double sheet_number(const struct sheet *sheet, int row, const char *column);    /* NAN: missing */
const char *sheet_text(const struct sheet *sheet, int row, const char *column); /* NULL: missing */

#endif
