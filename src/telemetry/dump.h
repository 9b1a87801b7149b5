/*
 * Exports the record as text: answers and whole tables as CSV and JSON, for tools that do not speak SQL. The list of
 * tables comes from the record itself. Exported tables number rounds as people do, from 1 (base/round.h); answers to
 * SQL keep the record's numbers.
 *
 * CSV is RFC 4180: lines end in CR LF, text is quoted where it must be, a missing value is an empty field (an empty
 * text is ""); on a terminal, control characters become '?'. JSON is strict: missing and infinite numbers are null,
 * bytes that are not UTF-8 become U+FFFD. Numbers keep all their digits in both; blobs are hexadecimal.
 */
#ifndef TELEMETRY_DUMP_H
#define TELEMETRY_DUMP_H

#include <stdio.h>

#include "telemetry/query.h"

/* Every row of every table, one object per line: {"table":"round","round":1,...}. Tables without rounds come first,
 * then rows by round and step; rows of a whole round follow those of its steps. Of a live run, a snapshot. */
enum esper_status dump_jsonl(const struct run *run, FILE *file, struct esper_error *error);

/* A table in the same order, with a header line. An unknown name is an error that suggests another. */
enum esper_status dump_csv(const struct run *run, const char *table, FILE *file, struct esper_error *error);

/* What `write` writes, as a file that appears once it is complete; "-" is standard output. */
typedef enum esper_status dump_writer(const struct run *run, const char *table, FILE *file, struct esper_error *error);
enum esper_status dump_file(const struct run *run, dump_writer *write, const char *table, const char *path,
                            struct esper_error *error);

/* One row as a line; the column names when there are no values. */
void dump_csv_row(FILE *file, const struct query_row *row);
/* One row as an object, without the line end. table may be NULL: no member "table". */
void dump_json_row(FILE *file, const struct query_row *row, const char *table);
/* A text as a JSON string, quotes included. */
void dump_json_text(FILE *file, const char *text, size_t bytes);
/* The fewest digits (at least 15) that read back as the same number; always with a point, an exponent or "inf". */
void dump_real(double value, char text[32]);

/* Flushes, and reports why the file could not take everything. */
enum esper_status dump_finish(FILE *file, struct esper_error *error);

#endif
