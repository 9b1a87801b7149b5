/*
 * The record leaves as text: answers and whole tables as CSV and JSON, for tools that read neither SQL nor our minds.
 * Which tables there are is asked of the record. Tables that are exported number rounds as people do, from 1
 * (base/round.h); answers to SQL keep the record's numbers.
 *
 * CSV is RFC 4180: lines end in CR LF, text is quoted where it must be, missing is an empty field (an empty text is
 * ""). JSON is strict: missing and infinite numbers are null, bytes that are no UTF-8 become U+FFFD. Numbers keep all
 * their digits in both; blobs are hexadecimal.
 */
#ifndef TELEMETRY_DUMP_H
#define TELEMETRY_DUMP_H

#include <stdio.h>

#include "telemetry/query.h"

/* Every row of every table, an object a line: {"table":"round","round":1,...}. Tables without rounds first, then by
 * round and step; what belongs to a whole round follows its steps. One moment of a live run. */
enum esper_status dump_jsonl(const struct run *run, FILE *file, struct esper_error *error);

/* A table or view, its columns in the first line, in the same order. An unknown one is an error that names the nearest.
 */
enum esper_status dump_csv(const struct run *run, const char *table, FILE *file, struct esper_error *error);

/* One row as a line; the columns' names when there are no values. */
void dump_csv_row(FILE *file, const struct query_row *row);
/* One row as an object, without the line's end. table may be NULL: no member "table". */
void dump_json_row(FILE *file, const struct query_row *row, const char *table);
/* A text as JSON has it, quotes included. */
void dump_json_text(FILE *file, const char *text, size_t bytes);
/* Length of the well-formed UTF-8 character that a text of some bytes (not 0) starts with; 0 when it does not. */
size_t dump_character(const char *text, size_t bytes);
/* The fewest digits, from 15 on, that read back as the same number; always with a point, an exponent or "inf". */
void dump_real(double value, char text[32]);

/* Flush, and tell what kept the file from taking everything. */
enum esper_status dump_finish(FILE *file, struct esper_error *error);

#endif
