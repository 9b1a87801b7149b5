#include "sweep/halving.h"

#include <stdlib.h>

#include "base/memory.h"

static bool given_up(const struct sweep_state *state)
{
    return state->failures >= SWEEP_TRIES;
}

int sweep_finished(const struct sweep *sweep, const struct sweep_state *states, int config)
{
    int least = sweep->rung_count;
    for (int s = 0; s < sweep->seed_count; s++) {
        const struct sweep_state *state = &states[config * sweep->seed_count + s];
        if (given_up(state))
            return -1;
        least = state->done < least ? state->done : least;
    }
    return least;
}

double sweep_score(const struct sweep *sweep, const struct sweep_state *states, int config, int rung)
{
    double sum = 0;
    for (int s = 0; s < sweep->seed_count; s++)
        sum += states[config * sweep->seed_count + s].score[rung];
    return sum / sweep->seed_count;
}

/* ---- order ------------------------------------------------------------------------------------------------------- */

struct place {
    int config, finished;
    double score;
};

static int compare_places(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    if (x->finished != y->finished)
        return x->finished > y->finished ? -1 : 1;
    if (x->score != y->score)
        return x->score > y->score ? -1 : 1;
    return x->config - y->config; /* equal ones keep their order, whoever asks */
}

enum esper_status sweep_rank(const struct sweep *sweep, const struct sweep_state *states, int *order,
                             struct esper_error *error)
{
    struct place *places = memory_alloc((size_t)sweep->configs, sizeof *places, error);
    if (!places)
        return ESPER_FAILED;
    for (int i = 0; i < sweep->configs; i++) {
        const int finished = sweep_finished(sweep, states, i);
        places[i] = (struct place){i, finished, finished > 0 ? sweep_score(sweep, states, i, finished - 1) : 0};
    }
    qsort(places, (size_t)sweep->configs, sizeof *places, compare_places);
    for (int i = 0; i < sweep->configs; i++)
        order[i] = places[i].config;
    memory_free(places);
    return ESPER_OK;
}

/* ---- what is next ------------------------------------------------------------------------------------------------ */

/* A run of the configuration that nobody is at and that has so many rungs behind it; those that failed come last. */
static bool find_run(const struct sweep *sweep, const struct sweep_state *states, int config, int done,
                     struct sweep_choice *choice)
{
    int best = -1;
    for (int run = config * sweep->seed_count; run < (config + 1) * sweep->seed_count; run++)
        if (states[run].done == done && !states[run].busy && !given_up(&states[run]) &&
            (best < 0 || states[run].failures < states[best].failures))
            best = run;
    if (best >= 0)
        *choice = (struct sweep_choice){best, done};
    return best >= 0;
}

/* Whether one of its seeds has gone beyond a rung: then the others follow, whatever the ranking has become. */
static bool has_passed(const struct sweep *sweep, const struct sweep_state *states, int config, int rung)
{
    for (int s = 0; s < sweep->seed_count; s++)
        if (states[config * sweep->seed_count + s].done > rung + 1)
            return true;
    return false;
}

/* One rung, as it is now. */
struct rung {
    struct place *places; /* those that have finished it, best first */
    int count;
    int over; /* they and those given up */
};

static void look_at(const struct sweep *sweep, const struct sweep_state *states, int k, struct rung *rung)
{
    rung->count = rung->over = 0;
    for (int i = 0; i < sweep->configs; i++) {
        const int finished = sweep_finished(sweep, states, i);
        rung->over += finished > k || finished < 0;
        if (finished > k)
            rung->places[rung->count++] = (struct place){i, 0, sweep_score(sweep, states, i, k)};
    }
    qsort(rung->places, (size_t)rung->count, sizeof *rung->places, compare_places);
}

/* How many of the best so many have not finished the next rung yet. */
static int count_behind(const struct sweep *sweep, const struct sweep_state *states, const struct rung *rung, int best,
                        int next)
{
    int behind = 0;
    for (int i = 0; i < best; i++)
        behind += sweep_finished(sweep, states, rung->places[i].config) <= next;
    return behind;
}

/* From the lowest rung up: how many configurations each lets pass. A rung that no more can come to lets pass one. */
static void count_passing(const struct sweep *sweep, const struct sweep_state *states, struct rung *rung, int *passing)
{
    bool closed = true;
    for (int k = 0; k < sweep->rung_count - 1; k++) {
        look_at(sweep, states, k, rung);
        closed = closed && (k > 0 || rung->over == sweep->configs);
        passing[k] = (k > 0 ? rung->count : rung->over) / sweep->halving;
        if (closed && passing[k] == 0)
            passing[k] = 1;
        passing[k] = passing[k] < rung->count ? passing[k] : rung->count;
        closed = closed && count_behind(sweep, states, rung, passing[k], k + 1) == 0;
    }
}

static bool find_promotion(const struct sweep *sweep, const struct sweep_state *states, struct rung *rung,
                           struct sweep_choice *choice)
{
    int passing[SWEEP_RUNGS];
    count_passing(sweep, states, rung, passing);
    for (int k = sweep->rung_count - 2; k >= 0; k--) {
        look_at(sweep, states, k, rung);
        for (int i = 0; i < rung->count; i++)
            if ((i < passing[k] || has_passed(sweep, states, rung->places[i].config, k)) &&
                find_run(sweep, states, rung->places[i].config, k + 1, choice))
                return true;
    }
    return false;
}

static bool find_beginning(const struct sweep *sweep, const struct sweep_state *states, struct sweep_choice *choice)
{
    for (int failures = 0; failures < SWEEP_TRIES; failures++) /* another machine may be the better one for the rest */
        for (int run = 0; run < sweep->runs; run++)
            if (states[run].done == 0 && states[run].failures == failures && !states[run].busy) {
                *choice = (struct sweep_choice){run, 0};
                return true;
            }
    return false;
}

enum esper_status sweep_next(const struct sweep *sweep, const struct sweep_state *states, bool *found,
                             struct sweep_choice *choice, struct esper_error *error)
{
    *found = false;
    if (sweep->rung_count > 1) {
        struct rung rung = {.places = memory_alloc((size_t)sweep->configs, sizeof *rung.places, error)};
        if (!rung.places)
            return ESPER_FAILED;
        *found = find_promotion(sweep, states, &rung, choice);
        memory_free(rung.places);
    }
    *found = *found || find_beginning(sweep, states, choice);
    return ESPER_OK;
}
