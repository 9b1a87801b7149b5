/*
 * The web page's server: the directory of runs, read-only, over HTTP (T-05). It listens on this
 * machine alone unless told otherwise, and then only with a token. Threads of its own; nothing that it is asked changes
 * a run.
 */
#ifndef VIEW_SERVE_H
#define VIEW_SERVE_H

#include <stdbool.h>

#include "base/status.h"

enum { SERVE_PORT = 8377, SERVE_HOSTS = 16 };

struct serve_options {
    const char *runs;       /* the directory of runs */
    const char *bind;       /* an address in digits; NULL: 127.0.0.1 */
    int port;               /* 0: any that is free */
    int tries;              /* ports to try, upwards from `port`; 0 and 1: this one */
    const char *token_file; /* NULL: none, which only an address of this machine allows */
    bool sql;               /* whether any SQL may be asked */
    const char *const *hosts;
    int host_count; /* names under which others reach the server, at most SERVE_HOSTS */
};

struct server;

/* ESPER_UNSUPPORTED when this build has no libmicrohttpd. The texts of the options must live as long as the server. */
enum esper_status serve_start(struct server **out, const struct serve_options *options, struct esper_error *error);
const char *serve_url(const struct server *server); /* "http://127.0.0.1:8377/" */
/* Ends streams and answers under way; quick, whatever the clients do. */
void serve_stop(struct server *server);

#endif
