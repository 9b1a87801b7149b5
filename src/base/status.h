/* Errors as values: every fallible call returns esper_status and writes one line into the esper_error it was given. */
#ifndef BASE_STATUS_H
#define BASE_STATUS_H

#include "esper.h"

/* Fill `error` (which may be NULL) and return `status`, so that callers can write `return error_set(...)`. */
enum esper_status error_set(struct esper_error *error, enum esper_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
#ifdef __clang_analyzer__ /* which sees one file at a time, and must not suppose that it returns ESPER_OK */
#define error_set(error, status, ...) (error_set(error, status, __VA_ARGS__), (status))
#endif

/* Prefix an error that is already set with where it happened: "tasks/x.json: ..." */
enum esper_status error_where(struct esper_error *error, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Leave the calling function with the status of `call` unless it succeeded. */
#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        enum esper_status try_status = call;                                                                           \
        if (try_status != ESPER_OK)                                                                                    \
            return try_status;                                                                                         \
    } while (0)

#endif
