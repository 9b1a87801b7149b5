#include "search/search.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/philox.h"
#include "morph/family.h"
#include "telemetry/paired.h"

enum {
    RANDOM_LEAST = 8,             /* random schedules that a search has at least, budget permitting */
    TEMPO_TRIES = 2 * TEMPO_COUNT /* of the last stage: by schedule, then by tempo */
};

/* ---- schedules to start from ------------------------------------------------------------------------------------- */

static int draw_below(struct random_site site, uint32_t element, int limit)
{
    return (int)((uint64_t)random_word(site, element) * (uint64_t)limit >> 32);
}

/* In each slot one of the blueprints or none, all equally likely, at step 1 or in the first half of the episode, in any
 * style and at any tempo. */
static struct schedule draw_schedule(const struct config *config, uint32_t number)
{
    enum { DRAWS = 5 };
    const struct random_site site = random_at(config->seed, STREAM_SEARCH, 0, 0, number);
    const struct blueprint_list list = family_list(host_family_of(config));
    struct schedule schedule = {0};
    for (int j = 0; j < config->slot_count; j++) {
        const uint32_t at = (uint32_t)(j * DRAWS);
        const int blueprint = list.number[draw_below(site, at, list.count)], half = (config->steps + 1) / 2;
        const int step = draw_below(site, at + 1, 2) ? 1 + draw_below(site, at + 2, half) : 1;
        if (blueprint == BLUEPRINT_NOOP)
            continue;
        struct planting *planting = schedule_add(&schedule, j, blueprint, step);
        planting->style = (uint8_t)draw_below(site, at + 3, STYLE_COUNT);
        planting->tempo = (uint8_t)draw_below(site, at + 4, TEMPO_COUNT);
    }
    return schedule;
}

static bool is_new(const struct search *search, int count, const struct schedule *schedule)
{
    for (int i = 0; i < count; i++)
        if (schedule_equal(&search->contenders[i].schedule, schedule))
            return false;
    return true;
}

static void fill_contenders(struct search *search, const struct catalogue *catalogue)
{
    int count = 0;
    while (count < search->schedules && count < catalogue->count) {
        search->contenders[count].schedule = catalogue->schedule[count];
        count++;
    }
    for (uint32_t number = 0; count < search->schedules; number++) {
        struct schedule drawn = draw_schedule(&search->config, number);
        /* A task with few steps may have fewer schedules than there is room for: then some are played twice. */
        if (number > 64u * (uint32_t)search->schedules || is_new(search, count, &drawn))
            search->contenders[count++].schedule = drawn;
    }
}

/* ---- the plan ---------------------------------------------------------------------------------------------------- */

static int stages_of(int schedules)
{
    int stages = 0;
    while (schedules >> (stages + 1))
        stages++;
    return stages;
}

static long long least_budget(const struct config *config, int schedules)
{
    return (long long)stages_of(schedules) * schedules * config->steps;
}

static enum esper_status plan(struct search *search, const struct catalogue *catalogue, long long budget, int schedules,
                              struct esper_error *error)
{
    const struct config *config = &search->config;
    search->schedules = schedules;
    if (schedules == 0) {
        search->schedules = 2;
        while (search->schedules < catalogue->count + RANDOM_LEAST && search->schedules < SEARCH_SCHEDULES)
            search->schedules *= 2;
        while (search->schedules > 2 && least_budget(config, search->schedules) > budget)
            search->schedules /= 2;
    }
    if (search->schedules < 2 || search->schedules > SEARCH_SCHEDULES || search->schedules & (search->schedules - 1))
        return error_set(error, ESPER_INVALID, "%d schedules cannot be halved to one; start from a power of 2 up to %d",
                         schedules, SEARCH_SCHEDULES);
    if (least_budget(config, search->schedules) > budget)
        return error_set(error, ESPER_INVALID,
                         "%lld env-steps do not suffice for %d schedules of %d steps; it takes %lld", budget,
                         search->schedules, config->steps, least_budget(config, search->schedules));
    search->stages = stages_of(search->schedules);
    const long long rounds = budget / ((long long)search->schedules * config->steps);
    for (int i = 0; i < search->stages; i++) { /* what cannot be shared equally goes to the last stages */
        long long own = rounds / search->stages + (search->stages - i <= rounds % search->stages);
        search->rounds[i] = (int)(own < EVALUATION_ROUND ? own : EVALUATION_ROUND - 1);
    }
    return ESPER_OK;
}

static enum esper_status begin(struct search *search, long long budget, int schedules, struct esper_error *error)
{
    struct catalogue *catalogue = memory_alloc(1, sizeof *catalogue, error);
    if (!catalogue)
        return ESPER_FAILED;
    catalogue_make(catalogue, &search->config);
    enum esper_status status = plan(search, catalogue, budget, schedules, error);
    if (status == ESPER_OK) {
        search->contenders = memory_alloc((size_t)search->schedules, sizeof *search->contenders, error);
        status = search->contenders ? ESPER_OK : ESPER_FAILED;
    }
    if (status == ESPER_OK)
        fill_contenders(search, catalogue);
    memory_free(catalogue);
    return status;
}

enum esper_status search_create(struct search **out, const struct config *config, long long budget, int schedules,
                                struct esper_error *error)
{
    struct search *search = memory_alloc(1, sizeof *search, error);
    if (!search)
        return ESPER_FAILED;
    search->config = *config;
    search->config.policy.kind = POLICY_SCHEDULE;
    search->config.policy.from[0] = search->config.policy.script[0] = '\0';
    enum esper_status status = begin(search, budget, schedules, error);
    if (status != ESPER_OK) {
        search_free(search);
        return status;
    }
    *out = search;
    return ESPER_OK;
}

void search_free(struct search *search)
{
    if (!search)
        return;
    memory_free(search->contenders);
    memory_free(search);
}

/* ---- stages ------------------------------------------------------------------------------------------------------ */

bool search_tries_tempos(const struct search *search, int stage)
{
    return stage == search->stages && search->schedules >= TEMPO_TRIES;
}

/* Without tempos: 1 after the last stage. */
static int contenders_left(const struct search *search, int stage)
{
    return search->schedules >> (stage - 1);
}

int search_remaining(const struct search *search, int stage)
{
    return search_tries_tempos(search, stage) ? TEMPO_TRIES : contenders_left(search, stage);
}

/* Every stage has a seed of its own, so that no schedule meets an episode twice. */
static uint64_t stage_seed(const struct search *search, int stage)
{
    return random_word(random_at(search->config.seed, STREAM_SEARCH, 0, 1, (uint32_t)stage), 0);
}

struct config search_stage(const struct search *search, int stage, int episodes)
{
    struct config config = search->config;
    config.evaluate = true;
    config.group = 1;
    if (stage > search->stages) {
        config.rounds = (episodes + config.envs - 1) / config.envs;
        return config;
    }
    config.seed = stage_seed(search, stage);
    config.group = search_remaining(search, stage); /* all schedules meet the same births: luck favours none */
    config.envs = search->schedules - search->schedules % config.group;
    config.rounds = search->rounds[stage - 1];
    return config;
}

long long search_env_steps(const struct search *search)
{
    long long sum = 0;
    for (int stage = 1; stage <= search->stages; stage++) {
        const struct config config = search_stage(search, stage, 0);
        sum += config_env_steps(&config);
    }
    return sum;
}

static void set_tempo(struct schedule *schedule, int tempo)
{
    for (int i = 0; i < schedule->count; i++)
        schedule->planting[i].tempo = (uint8_t)tempo;
}

enum esper_status search_lines(const struct search *search, int stage, char **lines, struct esper_error *error)
{
    if (!search_tries_tempos(search, stage))
        return schedule_lines(&search->contenders->schedule, sizeof *search->contenders, contenders_left(search, stage),
                              &search->config, lines, error);
    struct schedule tries[TEMPO_TRIES];
    for (int i = 0; i < TEMPO_TRIES; i++) {
        tries[i] = search->contenders[i / TEMPO_COUNT].schedule;
        set_tempo(&tries[i], i % TEMPO_COUNT);
    }
    return schedule_lines(tries, sizeof *tries, TEMPO_TRIES, &search->config, lines, error);
}

/* ---- what came of it --------------------------------------------------------------------------------------------- */

const char *search_score_title(const struct config *config)
{
    return config->reward.mode == REWARD_GAIN ? "validation score - the twin's - price, points"
                                              : "validation score - price, points";
}

/* The objective where it is recorded; without twins, what a schedule has influence on. */
double search_score(const struct config *config, const struct outcome_record *outcome)
{
    if (isfinite(outcome->gain))
        return outcome->gain;
    return outcome->val_accuracy - config->reward.price * (double)outcome->added_params / 1000 -
           config->reward.flop_price * (outcome->train_work - 1);
}

double contender_mean(const struct contender *contender)
{
    return contender->episodes ? contender->score / contender->episodes : -INFINITY;
}

double contender_margin(const struct contender *contender)
{
    const double count = contender->episodes, mean = contender_mean(contender);
    if (count < 2)
        return NAN;
    const double variance = fmax(0, contender->squares - count * mean * mean) / (count - 1);
    return student_quantile(0.95, count - 1) * sqrt(variance / count);
}

/* Best first; a tie keeps its order. The others were put in order when they dropped out. */
static void sort_remaining(struct contender *contenders, int count)
{
    for (int i = 1; i < count; i++) {
        const struct contender moved = contenders[i];
        int at = i;
        for (; at > 0 && contender_mean(&contenders[at - 1]) < contender_mean(&moved); at--)
            contenders[at] = contenders[at - 1];
        contenders[at] = moved;
    }
}

static int best_tempo(const struct search *search)
{
    int best = 0;
    for (int tempo = 1; tempo < TEMPO_COUNT; tempo++)
        if (search->tempo[tempo] > search->tempo[best])
            best = tempo;
    return best;
}

/* Both schedules play every tempo equally often, so each question has all episodes of the last stage to answer it. */
void search_judge(struct search *search, int stage, const struct outcome_record *outcomes, int count)
{
    const int left = contenders_left(search, stage), tempos = search_tries_tempos(search, stage) ? TEMPO_COUNT : 1;
    for (int i = 0; i < count; i++) {
        const int played = (int)outcomes[i].env % (left * tempos);
        struct contender *contender = &search->contenders[played / tempos];
        const double score = search_score(&search->config, &outcomes[i]);
        contender->episodes++;
        contender->score += score;
        contender->squares += score * score;
        contender->added_params += (double)outcomes[i].added_params;
        if (tempos > 1)
            search->tempo[played % tempos] += score * tempos / count;
    }
    for (int i = 0; i < left; i++)
        search->contenders[i].stage = stage;
    sort_remaining(search->contenders, left);
    if (tempos > 1)
        set_tempo(&search->contenders[0].schedule, best_tempo(search));
}
