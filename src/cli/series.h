/*
 * A series: runs that a command plays one after another in a folder of its own, as one piece of work with one line of
 * progress. What a run plays follows from the command and from the outcomes of the runs before it, so that the runs are
 * all the state there is: the same command goes on where it was stopped, and one with other settings is refused.
 */
#ifndef CLI_SERIES_H
#define CLI_SERIES_H

#include <limits.h>

#include "cli/cli.h"
#include "search/search.h"

struct session_progress;
struct cohort;
struct group;

struct series {
    char folder[PATH_MAX - 128]; /* of the command: RUNS/<name> */
    const char *command;         /* its command line, for run.json */
    bool quiet;
    bool threads;              /* --threads was given: runs that go on take it as well */
    const char *device;        /* where this process computes, whatever a run was begun on; NULL: as it was */
    long long total;           /* env-steps of all runs; may change while they are played */
    long long done;            /* of those that are over */
    char note[160];            /* about the run in progress */
    long long first;           /* where the progress shown began; -1: not yet */
    bool complete;             /* the run in progress is */
    const struct config *plan; /* its configuration */
    int rounds;                /* to be played of it */
    struct cli_progress progress;
    struct group *group; /* the ranks that play; NULL: this process alone */
};

/* The task of a command that takes its name as a word; `words` may be empty. */
enum esper_status series_task(struct cli_config_flags *flags, const struct cli_list *words, struct config *config,
                              struct esper_error *error);

/* The whole command: its task, its signals and, on many ranks, its company. Rank 0, or whoever is alone, leads: it
 * plans, plays and judges, and sets call->code. The other ranks play with it whatever it plays. */
typedef enum esper_status series_lead(struct cli_call *call, const struct config *config, struct esper_error *error);
enum esper_status series_conduct(struct series *series, struct cli_call *call, struct cli_config_flags *flags,
                                 series_lead *lead, struct esper_error *error);

/* Names the folder `RUNS/name`, where `name` NULL is "what-task-seed"; refuses one that is a run. */
enum esper_status series_begin(struct series *series, const char *what, const char *runs, const char *name,
                               const struct config *config, struct esper_error *error);

/* A run of a series, as it is to be played. */
struct series_run {
    char folder[PATH_MAX - 112], name[104], path[PATH_MAX]; /* path = folder/name */
    struct config config;
    int until;                /* stop after so many rounds, saved; 0: its end */
    struct esper_error error; /* why it could not be played */
    char *lines; /* its schedules, kept in the file folder/name.txt; NULL: it has none. The series' to release */
};
/* `folder` below the series' own, "": that itself. Takes `lines`, which may be NULL. */
enum esper_status series_describe(const struct series *series, struct series_run *run, const char *folder,
                                  const char *name, const struct config *config, char *lines,
                                  struct esper_error *error);
/* The file that holds a run's schedules. */
void series_file(const struct series_run *run, char path[PATH_MAX]);
/* Plays what is left of it, and loads its outcomes, which the caller releases. CLI_CONTINUE, or an exit code after
 * telling the user. Releases the run's lines in any case. */
int series_play(struct series *series, struct series_run *run, struct cohort *cohort);

/* All stages of a search, in that folder. */
int series_search(struct series *series, struct search *search, const char *folder);

#endif
