#include "view/json_out.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "telemetry/dump.h"

static void begin(struct json_out *out, const char *key)
{
    if (out->more)
        putc(',', out->file);
    out->more = true;
    if (!key)
        return;
    dump_json_text(out->file, key, strlen(key));
    putc(':', out->file);
}

void json_open(struct json_out *out, const char *key, char bracket)
{
    begin(out, key);
    putc(bracket, out->file);
    out->more = false;
}

void json_close(struct json_out *out, char bracket)
{
    putc(bracket, out->file);
    out->more = true;
}

void json_text(struct json_out *out, const char *key, const char *text)
{
    begin(out, key);
    if (text)
        dump_json_text(out->file, text, strlen(text));
    else
        fputs("null", out->file);
}

void json_integer(struct json_out *out, const char *key, int64_t value)
{
    begin(out, key);
    fprintf(out->file, "%" PRId64, value);
}

/* Reads back as the same number. Pages ask for tens of thousands of them, so 16 digits are not tried. */
static void put_real(FILE *file, double value)
{
    char text[32] = "null";
    if (isfinite(value)) {
        snprintf(text, sizeof text, "%.15g", value);
        if (strtod(text, NULL) != value)
            snprintf(text, sizeof text, "%.17g", value);
    }
    fputs(text, file);
}

void json_real(struct json_out *out, const char *key, double value)
{
    begin(out, key);
    put_real(out->file, value);
}

void json_brief(struct json_out *out, const char *key, double value)
{
    begin(out, key);
    if (isfinite(value))
        fprintf(out->file, "%.7g", value);
    else
        fputs("null", out->file);
}

void json_bool(struct json_out *out, const char *key, bool value)
{
    begin(out, key);
    fputs(value ? "true" : "false", out->file);
}

void json_value(struct json_out *out, const char *key, const struct query_value *value)
{
    begin(out, key);
    switch (value->kind) {
    case QUERY_NULL:
        fputs("null", out->file);
        break;
    case QUERY_INTEGER:
        fprintf(out->file, "%" PRId64, value->integer);
        break;
    case QUERY_REAL:
        put_real(out->file, value->real);
        break;
    case QUERY_TEXT:
        dump_json_text(out->file, value->text, value->bytes);
        break;
    case QUERY_BLOB:
        putc('"', out->file);
        for (size_t i = 0; i < value->bytes; i++)
            fprintf(out->file, "%02x", (unsigned)(unsigned char)value->text[i]);
        putc('"', out->file);
        break;
    }
}
