/*
 * The answer to a question as a table for people: names on top, numbers right-aligned with six digits, missing values
 * as "-". On a terminal long texts are cut with "…" until a line fits; elsewhere nothing is cut. Rows (at most
 * GRID_ROWS) are kept until the column widths are known.
 */
#ifndef CLI_GRID_H
#define CLI_GRID_H

#include "telemetry/query.h"

#define GRID_ROWS 1000

/* Start from {.width = ...}; the rest is private. */
struct grid {
    int width;          /* of the terminal, in characters; 0: there is none */
    int columns, count; /* cells kept */
    char **cells;       /* [row][column] of the first rows; row 0 has the names */
    int *widths;
    bool *right; /* numbers only */
    bool shown;
};

/* The columns alone first, then every row: as query_run hands them over. Prints to stdout. */
enum esper_status grid_take(struct grid *grid, const struct query_row *row, struct esper_error *error);
/* Prints the rows kept. */
enum esper_status grid_show(struct grid *grid, struct esper_error *error);
void grid_free(struct grid *grid);

#endif
