/*
 * Aggregates that SQLite lacks, also as window functions. NULLs do not count; values that are not numbers are an error.
 *
 *     stddev(x)         sample standard deviation; NULL for fewer than two values
 *     median(x)         NULL without values
 *     percentile(x, p)  p from 0 to 100, the same for all rows; linearly interpolated; NULL without values
 *     corr(x, y)        Pearson's correlation of the rows that have both; NULL for fewer than two or without spread
 *
 * And SQLite's own count(*) and count(x): it counts a whole table in one step, which no deadline can end, and a forged
 * record can have a table of 10^40 rows in a few pages that refer to each other. Here every row is a step.
 */
#ifndef TELEMETRY_FUNCTIONS_H
#define TELEMETRY_FUNCTIONS_H

struct sqlite3;

/* An SQLite result code. */
int functions_register(struct sqlite3 *db);

#endif
