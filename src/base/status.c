#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/text.h"

enum esper_status(error_set)(struct esper_error *error, enum esper_status status, const char *format, ...)
{
    if (error) {
        va_list args;
        va_start(args, format);
        error->status = status;
        vsnprintf(error->text, sizeof error->text, format, args);
        va_end(args);
        text_scrub(error->text, ""); /* the line may quote a file */
    }
    return status;
}

enum esper_status error_where(struct esper_error *error, const char *format, ...)
{
    if (!error)
        return ESPER_FAILED;

    char where[sizeof error->text], joined[2 * sizeof error->text + 2];
    va_list args;
    va_start(args, format);
    vsnprintf(where, sizeof where, format, args);
    va_end(args);
    snprintf(joined, sizeof joined, "%s: %s", where, error->text);
    snprintf(error->text, sizeof error->text, "%.*s", (int)sizeof error->text - 1, joined);
    text_scrub(error->text, "");
    return error->status;
}
