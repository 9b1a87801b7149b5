/*
 * Who may ask the server, and what a request may look like (T-06). Pure checks of text: no socket, and no file other
 * than the token's.
 */
#ifndef VIEW_SERVE_GUARD_H
#define VIEW_SERVE_GUARD_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

enum {
    GUARD_TARGET = 4096, /* longest path and query, bytes */
    GUARD_TOKEN = 256,   /* longest token, its NUL included */
    GUARD_TOKEN_MIN = 22 /* shortest: 128 random bits in base 64 */
};

/* 0, or the HTTP status that refuses the path and query as they were sent. Nothing that passes can name a file outside:
 * no ".." in any encoding, no encoded slash, no backslash, no control byte. */
int guard_target(const char *target);

/* "127.0.0.1", "::1": connections come from this machine only. */
bool guard_is_loopback(const char *address);

/*
 * The Host header: this machine's loopback names with any port (a tunnel has its own). When the server listens beyond
 * this machine, also every numeric address (no name can be rebound to one) and the names that the operator gave.
 */
bool guard_host(const char *host, bool beyond, const char *const names[], int count);
/* The Origin header: must be the page served under this same Host. */
bool guard_origin(const char *origin, const char *host);

/* Compares in constant time. */
bool guard_equal(const char *mine, const char *theirs);

/* Reads the first line of a file that no other user can read. */
enum esper_status guard_read_token(const char *path, char token[GUARD_TOKEN], struct esper_error *error);

/* The value of a cookie in a Cookie header: at most size - 1 bytes; false when there is none. */
bool guard_cookie(const char *header, const char *name, char *value, size_t size);
/* The value of a field of a form (application/x-www-form-urlencoded). */
bool guard_form_field(const char *body, const char *name, char *value, size_t size);

#endif
