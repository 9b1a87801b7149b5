/*
 * The server's answers, without HTTP: each is read from the run's directory on request, written as JSON, and bounded.
 * Nothing here changes a run. docs/serve.md describes the answers.
 */
#ifndef VIEW_SERVE_API_H
#define VIEW_SERVE_API_H

#include <signal.h>
#include <stdio.h>

#include "base/family_words.h"
#include "telemetry/query.h"
#include "view/json_out.h"

enum {
    API_VERSION = 1,
    API_RUNS = 500,       /* runs listed at most, the newest */
    API_ROWS = 50000,     /* rows of an answer at most */
    API_BYTES = 16 << 20, /* bytes of an answer, about */
    API_SERIES = 96,      /* series of one answer */
    API_POINTS = 2000,    /* points of a series */
    API_OVERLAY = 128,    /* runs overlaid in one answer */
    API_COHORTS = 8,      /* cohorts compared at once */
    API_ARGUMENTS = 16    /* arguments of a request */
};
#define API_SECONDS 5.0 /* the questions of a request are abandoned after that */

struct api_memory; /* what was read of runs that have not changed since (serve_memory.h) */

struct api {
    const char *runs;                  /* the directory of runs */
    const volatile sig_atomic_t *stop; /* ends questions once it is not 0 */
    struct api_memory *memory;
};

enum esper_status api_memory_create(struct api_memory **out, struct esper_error *error);
void api_memory_free(struct api_memory *memory);

/* ?key=value&..., decoded. */
struct api_arguments {
    int count;
    struct api_argument {
        const char *key, *value;
    } items[API_ARGUMENTS];
};

/* Each writes a whole JSON text and returns 200; or sets the error and returns its HTTP status: 400 the request is
 * wrong, 404 there is no such thing, 503 it cannot be read now. The output is then to be discarded.
 */
int api_runs(const struct api *api, FILE *file, struct esper_error *error);
int api_settings(const struct api *api, FILE *file, struct esper_error *error);
int api_run(const struct api *api, const char *name, FILE *file, struct esper_error *error);
int api_questions(FILE *file, struct esper_error *error);
int api_ask(const struct api *api, const char *name, const char *question, const struct api_arguments *arguments,
            FILE *file, struct esper_error *error);
int api_sql(const struct api *api, const char *name, const char *body, FILE *file, struct esper_error *error);
int api_series(const struct api *api, const char *name, const struct api_arguments *arguments, FILE *file,
               struct esper_error *error);
/* One series of many runs, with the env-steps and seconds that each had taken by then; and the names there are. */
int api_overlay(const struct api *api, const struct api_arguments *arguments, FILE *file, struct esper_error *error);
int api_metrics(FILE *file, struct esper_error *error);
int api_compare(const struct api *api, const struct api_arguments *arguments, FILE *file, struct esper_error *error);

/* ---- what these share -------------------------------------------------------------------------------------------- */

/* The run of that name in the directory ("latest" as well), or 404: names are looked up and never become paths
 * directly. */
int api_find_run(const struct api *api, const char *name, struct run *run, struct esper_error *error);
/* Its record, for questions that take API_SECONDS together. */
enum esper_status api_open_record(const struct api *api, const struct run *run, struct query **query,
                                  struct esper_error *error);
int api_count_runs(const struct api *api);
struct stat;
bool api_is_run(const char *runs, const char *name, struct stat *info); /* info: of its run.json */

/* 400 for wrong input, 503 for failures of the machine or the moment. */
int api_code(enum esper_status status);
/* Refuses arguments that are not among `keys`, and those that come twice. */
int api_check_arguments(const struct api_arguments *arguments, const char *const keys[], int count,
                        struct esper_error *error);
const char *api_argument(const struct api_arguments *arguments, const char *key); /* NULL: absent */
/* The integer argument of that name; *value is unchanged when it is absent. */
int api_integer(const struct api_arguments *arguments, const char *key, int64_t min, int64_t max, int64_t *value,
                struct esper_error *error);
/* Members of an object: the status, which changes without a trace in the record; and what never changes. */
void api_write_status(struct json_out *out, const struct run_status *status);
void api_write_identity(struct json_out *out, const struct run *run);
/* Its tags and its note; `path` is the run's directory. */
enum esper_status api_write_label(struct json_out *out, const char *path, struct esper_error *error);
/* What its scores are called. */
void api_write_words(struct json_out *out, const struct family_words *words);
/* The only row of an answer, member by member; without a row every member is null. */
enum esper_status api_write_members(struct json_out *out, struct query *query, const char *sql,
                                    const struct query_options *options, struct esper_error *error);
/* {"columns":[...],"rows":[[...]],"truncated":false} */
enum esper_status api_write_rows(const struct api *api, struct query *query, const char *sql, int64_t limit, FILE *file,
                                 struct esper_error *error);

#endif
