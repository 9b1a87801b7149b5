/*
 * Aggregates that SQLite lacks, also as window functions. NULLs do not count; values that are not numbers are an error.
 *
 *     stddev(x)         sample standard deviation; NULL for fewer than two values
 *     median(x)         NULL without values
 *     percentile(x, p)  p from 0 to 100, the same for all rows; linearly interpolated; NULL without values
 *     corr(x, y)        Pearson's correlation of the rows that have both; NULL for fewer than two or without spread
 */
#ifndef TELEMETRY_FUNCTIONS_H
#define TELEMETRY_FUNCTIONS_H

struct sqlite3;

/* An SQLite result code. */
int functions_register(struct sqlite3 *db);

#endif
