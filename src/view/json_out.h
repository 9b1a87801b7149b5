/*
 * Strict JSON written piece by piece, with the commas where they belong. Missing and infinite numbers are null, never
 * 0; texts become well-formed UTF-8 whatever they were.
 */
#ifndef VIEW_JSON_OUT_H
#define VIEW_JSON_OUT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "telemetry/query.h"

/* Start from {.file = f}. */
struct json_out {
    FILE *file;
    bool more; /* something precedes the next item: a comma is due */
};

/* key NULL: an element of an array, or the whole document. */
void json_open(struct json_out *out, const char *key, char bracket);     /* '{' or '[' */
void json_close(struct json_out *out, char bracket);                     /* '}' or ']' */
void json_text(struct json_out *out, const char *key, const char *text); /* NULL: null */
void json_integer(struct json_out *out, const char *key, int64_t value);
void json_real(struct json_out *out, const char *key, double value);  /* NAN: null */
void json_brief(struct json_out *out, const char *key, double value); /* seven digits: for pictures */
void json_bool(struct json_out *out, const char *key, bool value);
void json_value(struct json_out *out, const char *key, const struct query_value *value);

#endif
