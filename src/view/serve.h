/*
 * The web page's server: the directory of runs, read-only, over HTTP (T-05). It listens on this machine only unless
 * configured otherwise, and then only with a token. It runs its own threads; no request changes a run.
 */
#ifndef VIEW_SERVE_H
#define VIEW_SERVE_H

#include <stdbool.h>

#include "base/status.h"

enum { SERVE_PORT = 8377, SERVE_HOSTS = 16 };

struct serve_options {
    const char *runs;       /* the directory of runs */
    const char *bind;       /* an address in digits; NULL: 127.0.0.1 */
    int port;               /* 0: any free one */
    int tries;              /* ports to try, upwards from `port`; 0 and 1: this one */
    const char *token_file; /* NULL: none, which is allowed on a loopback address only */
    bool sql;               /* whether arbitrary SQL is allowed */
    const char *const *hosts;
    int host_count; /* names under which others reach the server, at most SERVE_HOSTS */
};

struct server;

/* ESPER_UNSUPPORTED when this build has no libmicrohttpd. The strings in the options must live as long as the server.
 */
enum esper_status serve_start(struct server **out, const struct serve_options *options, struct esper_error *error);
const char *serve_url(const struct server *server); /* "http://127.0.0.1:8377/" */
/* Ends streams and answers in progress; quick, whatever the clients do. */
void serve_stop(struct server *server);

#endif
