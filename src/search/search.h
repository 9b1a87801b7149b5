/*
 * A search for the best constant schedule by successive halving. It starts from the catalogue and, where there is room,
 * random schedules; in every stage each remaining schedule plays as many episodes, on the same births as the others,
 * the better half goes on, and the next stage gives each twice as many. A stage is an evaluation run of as many envs as
 * there were schedules at the start, so that all stages cost the same. In the last stage the two that remain are played
 * at every tempo, if there are envs enough, and the winner takes the tempo that suited both of them best. What is
 * played follows from the task, the seed and the outcomes before, so a search keeps no state besides its runs.
 */
#ifndef SEARCH_SEARCH_H
#define SEARCH_SEARCH_H

#include "search/catalogue.h"
#include "telemetry/record.h"

enum { SEARCH_STAGES = 12, SEARCH_SCHEDULES = 1 << SEARCH_STAGES }; /* as many as there may be envs */

/* A schedule and what its episodes came to. */
struct contender {
    struct schedule schedule;
    int stage; /* the last one it played, from 1; 0: none yet */
    int episodes;
    double score, squares; /* sums over its episodes */
    double added_params;   /* likewise */
};

struct search {
    struct config config; /* the task's */
    int schedules, stages;
    int rounds[SEARCH_STAGES];    /* of each stage */
    struct contender *contenders; /* [schedules]: those that remain come first, best first */
    double tempo[TEMPO_COUNT];    /* mean score of the last stage's episodes at each; 0: all play as they are */
};

/* `budget` in env-steps; `schedules` to start from, 0: as many as catalogue and budget suggest. */
enum esper_status search_create(struct search **out, const struct config *config, long long budget, int schedules,
                                struct esper_error *error);
void search_free(struct search *search);

/* How many a stage plays, from 1; the stage after the last one has the winner. */
int search_remaining(const struct search *search, int stage);
/* Whether that is both schedules that remain, at every tempo. */
bool search_tries_tempos(const struct search *search, int stage);
/* The configuration of a stage's run, without its schedules; of the stage after the last: `episodes` of the winner, on
 * the episodes of the task's own seed, which no stage has seen. */
struct config search_stage(const struct search *search, int stage, int episodes);
/* Of all stages, without the winner's. */
long long search_env_steps(const struct search *search);
/* The stage's schedules, one per line, as `--schedule @FILE` reads them. Release with memory_free. */
enum esper_status search_lines(const struct search *search, int stage, char **lines, struct esper_error *error);
/* Add a stage's outcomes, and put the contenders in order. */
void search_judge(struct search *search, int stage, const struct outcome_record *outcomes, int count);

/* What an episode is worth: the one place that says so, and in words. */
double search_score(const struct config *config, const struct outcome_record *outcome);
const char *search_score_title(const struct config *config);
/* A contender's mean score, and half of the width of its 95 % interval (NAN for a single episode). */
double contender_mean(const struct contender *contender);
double contender_margin(const struct contender *contender);

#endif
