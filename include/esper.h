/*
 * Esper trains networks that grow.
 *
 * This header is the public C API: what a program that embeds Esper may call. The command line is its first user.
 */
#ifndef ESPER_H
#define ESPER_H

#ifdef __cplusplus
extern "C" {
#endif

#define ESPER_VERSION "0.2.0"

/* The version and the commit this was built from (scripts/commit): "0.2.0 (1a2b3c4d)", "0.2.0 (1a2b3c4d-dirty)" from a
 * tree with changes, "0.2.0 (unknown)" outside a repository. */
extern const char esper_build[];

/* How a call ended. Library code never exits and never prints; it returns one of these and fills an esper_error. */
enum esper_status {
    ESPER_OK = 0,
    ESPER_FAILED,      /* the machine failed: I/O, memory, threads */
    ESPER_INVALID,     /* the caller's input is wrong: option, key, value, file content */
    ESPER_UNSUPPORTED, /* this build or this machine lacks what is needed */
    ESPER_INTERRUPTED, /* stopped on request, everything saved */
    ESPER_DIVERGED,    /* the policy's updates stopped being finite numbers */
};

/* One line for a person: what was wrong, where, and what to do. */
struct esper_error {
    enum esper_status status;
    char text[512];
};

#ifdef __cplusplus
}
#endif

#endif
