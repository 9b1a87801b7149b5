#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "exam/bootstrap.h"
#include "exam/policies.h"
#include "host/families.h"

/* ---- words ------------------------------------------------------------------------------------------------------- */

static const struct {
    const char *name, *title;
} kinds[EXAM_KIND_COUNT] = {
#define EXAM_WORDS(NAME, name, title) {name, title},
    EXAM_KINDS(EXAM_WORDS)
#undef EXAM_WORDS
};

const char *exam_kind_name(enum exam_kind kind)
{
    return kinds[kind].name;
}

const char *exam_kind_title(enum exam_kind kind)
{
    return kinds[kind].title;
}

bool exam_kind_reported(enum exam_kind kind)
{
    return kind != EXAM_CATALOGUE && kind != EXAM_SEARCH && kind != EXAM_TRAINING;
}

/* ---- what an episode is worth ------------------------------------------------------------------------------------ */

static double cost(const struct reward_config *reward, double price, double added, double work)
{
    return price * added / 1000 + reward->flop_price * (work - 1);
}

double exam_objective(const struct reward_config *reward, double price, const struct outcome_record *outcome)
{
    return outcome->val_accuracy - outcome->twin_accuracy -
           cost(reward, price, (double)outcome->added_params, outcome->train_work);
}

double exam_net_score(const struct reward_config *reward, double price, long long bare, double work,
                      const struct outcome_record *outcome)
{
    return outcome->test_accuracy - cost(reward, price, (double)(outcome->host_params + outcome->added_params - bare),
                                         work * outcome->train_work);
}

long long exam_host_params(const struct config *config)
{
    union host_shape shape;
    host_shape_init(&shape, config);
    return (long long)shape.net.host.params;
}

double exam_host_work(const struct config *config, const struct config *bare)
{
    struct growth growth, other;
    host_growth_init(&growth, config);
    host_growth_init(&other, bare);
    return growth.host_train_macs / other.host_train_macs;
}

/* ---- configurations ---------------------------------------------------------------------------------------------- */

/* Every reported evaluation has the same envs and rounds: episodes pair by seed, round and env. */
static struct config reported(const struct exam *exam)
{
    struct config config = exam->setup.config;
    config.evaluate = true;
    config.group = 1;
    config.envs = exam->setup.episodes < EXAM_ENVS ? exam->setup.episodes : EXAM_ENVS;
    config.rounds = exam->setup.episodes / config.envs;
    return config;
}

uint64_t exam_seed(const struct exam_setup *setup, int training)
{
    return setup->policies ? setup->policies->policy[training].seed : setup->config.seed + 1 + (uint64_t)training;
}

bool exam_one_policy(const struct exam *exam)
{
    return exam->setup.policies || config_mixes_prices(&exam->setup.config);
}

static struct config configuration(const struct exam *exam, const struct exam_part *part)
{
    static const enum policy_kind policies[EXAM_KIND_COUNT] = {
        [EXAM_CATALOGUE] = POLICY_SCHEDULE,  [EXAM_SCHEDULE] = POLICY_SCHEDULE,  [EXAM_SEARCHED] = POLICY_SCHEDULE,
        [EXAM_STATIC] = POLICY_STATIC,       [EXAM_WIDE_PARAMS] = POLICY_STATIC, [EXAM_WIDE_WORK] = POLICY_STATIC,
        [EXAM_HEURISTIC] = POLICY_HEURISTIC, [EXAM_RANDOM] = POLICY_RANDOM,      [EXAM_RATED] = POLICY_RANDOM,
        [EXAM_REPLAY] = POLICY_REPLAY}; /* 0: PPO */
    const struct exam_setup *setup = &exam->setup;
    struct config config = reported(exam);
    if (part->kind == EXAM_TRAINING || part->kind == EXAM_SEARCH)
        config = setup->config;
    if (part->kind == EXAM_TRAINING)
        config.seed = exam_seed(setup, part->training);
    if (part->kind == EXAM_CATALOGUE || part->kind == EXAM_SEARCH)
        config.seed += EXAM_SELECTION;
    if (part->kind == EXAM_CATALOGUE) { /* each env plays one schedule, all on the same births */
        config.envs = config.group = exam->catalogue.count;
        config.rounds = setup->catalogue_episodes;
    }
    if (part->kind == EXAM_PPO && config.telemetry == TELEMETRY_OFF)
        config.telemetry = TELEMETRY_NORMAL; /* its op rates are asked for */
    config.policy.kind = policies[part->kind];
    config.policy.greedy = part->kind == EXAM_GREEDY;
    if (part->kind != EXAM_TRAINING || !exam_one_policy(exam))
        config_price(&config, part->price < 0 ? 0 : setup->price[part->price]); /* PPO sees it */
    return config;
}

/* ---- the plan ---------------------------------------------------------------------------------------------------- */

/* "ppo-p0.2-s43", "schedule3": names that say what was played. */
static void name_part(const struct exam *exam, struct exam_part *part)
{
    static const char *const words[EXAM_KIND_COUNT] = {
        [EXAM_CATALOGUE] = "catalogue", [EXAM_SEARCH] = "search",      [EXAM_SCHEDULE] = "schedule",
        [EXAM_SEARCHED] = "searched",   [EXAM_TRAINING] = "training",  [EXAM_PPO] = "ppo",
        [EXAM_GREEDY] = "greedy",       [EXAM_STATIC] = "static",      [EXAM_HEURISTIC] = "heuristic",
        [EXAM_RANDOM] = "random",       [EXAM_RATED] = "random-rates", [EXAM_WIDE_PARAMS] = "wide-params",
        [EXAM_WIDE_WORK] = "wide-work", [EXAM_REPLAY] = "replay"};
    char *at = part->name, *end = part->name + sizeof part->name;
    at += snprintf(at, (size_t)(end - at), "%s", words[part->kind]);
    if (part->place >= 0)
        at += snprintf(at, (size_t)(end - at), "%d", part->place + 1);
    if (part->price >= 0)
        at += snprintf(at, (size_t)(end - at), "-p%g", exam->setup.price[part->price]);
    if (part->training >= 0)
        snprintf(at, (size_t)(end - at), "-s%llu", (unsigned long long)exam_seed(&exam->setup, part->training));
}

static struct exam_part *add(struct exam *exam, enum exam_kind kind, int price, int training, int place)
{
    struct exam_part *part = &exam->parts[exam->count++];
    *part = (struct exam_part){.kind = kind, .price = price, .training = training, .place = place};
    name_part(exam, part);
    part->config = configuration(exam, part);
    part->elsewhere = kind == EXAM_TRAINING && exam->setup.policies;
    if (part->elsewhere)
        snprintf(part->name, sizeof part->name, "%s", exam->setup.policies->policy[training].run);
    part->env_steps = part->elsewhere       ? 0
                      : kind == EXAM_SEARCH ? search_env_steps(exam->search[price])
                                            : config_env_steps(&part->config);
    return part;
}

/* PPO at a price, or at all of them, and all that is asked of it at once: whoever stops here has whole answers. */
static void plan_training(struct exam *exam, int price, int training)
{
    const int first = price < 0 ? 0 : price, end = price < 0 ? exam->setup.prices : price + 1;
    add(exam, EXAM_TRAINING, price, training, -1);
    for (int p = first; p < end; p++) {
        add(exam, EXAM_PPO, p, training, -1);
        add(exam, EXAM_GREEDY, p, training, -1);
    }
    add(exam, EXAM_REPLAY, price, training, -1);
}

static void plan(struct exam *exam)
{
    const struct exam_setup *setup = &exam->setup;
    add(exam, EXAM_CATALOGUE, -1, -1, -1);
    for (int p = 0; p < setup->prices; p++)
        add(exam, EXAM_SEARCH, p, -1, -1);
    for (int i = 0; i < EXAM_SCHEDULES && i < exam->catalogue.count; i++)
        add(exam, EXAM_SCHEDULE, -1, -1, i);
    for (int p = 0; p < setup->prices; p++)
        add(exam, EXAM_SEARCHED, p, -1, -1);
    for (int p = 0; p < (exam_one_policy(exam) ? 1 : setup->prices); p++)
        for (int k = 0; k < setup->seeds; k++)
            plan_training(exam, exam_one_policy(exam) ? -1 : p, k);
    add(exam, EXAM_STATIC, -1, -1, -1);
    add(exam, EXAM_HEURISTIC, -1, -1, -1);
    add(exam, EXAM_RANDOM, -1, -1, -1);
    for (int p = 0; p < setup->prices; p++)
        add(exam, EXAM_RATED, p, -1, -1);
    add(exam, EXAM_WIDE_PARAMS, -1, -1, -1);
    add(exam, EXAM_WIDE_WORK, -1, -1, -1);
}

static enum esper_status fill(struct exam *exam, struct esper_error *error)
{
    const int prices = exam->setup.prices;
    const int most = 6 + EXAM_SCHEDULES + 3 * prices + 4 * prices * exam->setup.seeds;
    catalogue_make(&exam->catalogue, &exam->setup.config);
    for (int p = 0; p < prices; p++) { /* the env-steps of one training, at this price */
        struct config config = exam->setup.config;
        config.seed += EXAM_SELECTION;
        config_price(&config, exam->setup.price[p]);
        const long long budget = config_env_steps(&config);
        if (search_create(&exam->search[p], &config, budget, 0, error) != ESPER_OK)
            return error_where(error, "the search, which has the env-steps of a training");
    }
    exam->parts = memory_alloc((size_t)most, sizeof *exam->parts, error);
    if (!exam->parts)
        return ESPER_FAILED;
    plan(exam);
    return ESPER_OK;
}

static void round_setup(struct exam *exam)
{
    struct config *config = &exam->setup.config;
    const int envs = exam->setup.episodes < EXAM_ENVS ? exam->setup.episodes : EXAM_ENVS;
    exam->setup.episodes = (exam->setup.episodes + envs - 1) / envs * envs;
    exam->other_mode = config->reward.mode != REWARD_GAIN;
    config->reward.mode = REWARD_GAIN;
    config->evaluate = false;
    config->policy.greedy = false;
    config->policy.kind = POLICY_PPO;
    config->policy.from[0] = config->policy.script[0] = config->policy.schedule[0] = '\0';
}

enum esper_status exam_create(struct exam **out, const struct exam_setup *setup, struct esper_error *error)
{
    struct exam *exam = memory_alloc(1, sizeof *exam, error);
    if (!exam)
        return ESPER_FAILED;
    exam->setup = *setup;
    round_setup(exam);
    enum esper_status status = fill(exam, error);
    if (status != ESPER_OK) {
        exam_free(exam);
        return status;
    }
    *out = exam;
    return ESPER_OK;
}

void exam_free(struct exam *exam)
{
    if (!exam)
        return;
    for (int i = 0; i < exam->count; i++)
        memory_free(exam->parts[i].outcomes);
    for (int p = 0; p < exam->setup.prices; p++)
        search_free(exam->search[p]);
    memory_free(exam->parts);
    memory_free(exam);
}

struct exam_part *exam_find(const struct exam *exam, enum exam_kind kind, int price, int training, int place)
{
    for (int i = 0; i < exam->count; i++) {
        struct exam_part *part = &exam->parts[i];
        if (part->kind == kind && part->price == price && part->training == training && part->place == place)
            return part;
    }
    return NULL;
}

const struct exam_part *exam_training_of(const struct exam *exam, const struct exam_part *part)
{
    return exam_find(exam, EXAM_TRAINING, exam_one_policy(exam) ? -1 : part->price, part->training, -1);
}

void exam_trained(const struct exam *exam, char *text, size_t size)
{
    const struct exam_setup *setup = &exam->setup;
    const struct config *config = &setup->config;
    const int end = snprintf(text, size, "%d time%s", setup->seeds, setup->seeds == 1 ? "" : "s");
    if (setup->policies)
        snprintf(text + end, size - (size_t)end, " on %.40s, not on this task",
                 setup->policies->config.task[0] ? setup->policies->config.task : "a task of its own");
    else if (exam_one_policy(exam))
        snprintf(text + end, size - (size_t)end, ", for all prices at once (episodes draw %g to %g%s)",
                 config->mixed.price_least * config->reward.price, config->reward.price,
                 config->mixed.price_free > 0 ? ", or nothing" : "");
    else
        snprintf(text + end, size - (size_t)end, " at %s%d price%s", setup->prices == 1 ? "" : "each of ",
                 setup->prices, setup->prices == 1 ? "" : "s");
}

long long exam_env_steps(const struct exam *exam)
{
    long long sum = 0;
    for (int i = 0; i < exam->count; i++)
        sum += exam->parts[i].left_out ? 0 : exam->parts[i].env_steps;
    return sum;
}

enum esper_status exam_take(struct exam_part *part, const struct outcome_record *outcomes, int count, double seconds,
                            struct esper_error *error)
{
    part->outcomes = memory_alloc((size_t)count, sizeof *outcomes, error);
    if (!part->outcomes)
        return ESPER_FAILED;
    memcpy(part->outcomes, outcomes, (size_t)count * sizeof *outcomes);
    part->count = count;
    part->seconds = seconds;
    return ESPER_OK;
}

/* ---- what follows from outcomes ---------------------------------------------------------------------------------- */

/* Its envs take turns at the schedules. */
void exam_catalogue_points(const struct exam *exam, struct exam_point *points)
{
    const struct exam_part *part = exam_find(exam, EXAM_CATALOGUE, -1, -1, -1);
    const double episodes = exam->setup.catalogue_episodes;
    memset(points, 0, (size_t)exam->catalogue.count * sizeof *points);
    for (int i = 0; i < part->count; i++) {
        const struct outcome_record *outcome = &part->outcomes[i];
        struct exam_point *point = &points[outcome->env % exam->catalogue.count];
        point->test += outcome->test_accuracy;
        point->gain += exam_objective(&exam->setup.config.reward, 0, outcome);
        point->params += (double)(outcome->host_params + outcome->added_params);
        point->macs += outcome->forward_macs;
        point->work += outcome->train_work;
    }
    for (int i = 0; i < exam->catalogue.count; i++) {
        points[i].test /= episodes;
        points[i].gain /= episodes;
        points[i].params /= episodes;
        points[i].macs /= episodes;
        points[i].work /= episodes;
    }
}

/* What differs in parameters is what was added to the same host. */
static int best_at(const struct exam_point *points, int count, double price)
{
    int best = 0;
    for (int i = 1; i < count; i++)
        if (points[i].gain - price * points[i].params / 1000 > points[best].gain - price * points[best].params / 1000)
            best = i;
    return best;
}

/* The place of a schedule among those chosen, which it joins if there is room. */
static int place_of(int *chosen, int *count, int schedule)
{
    for (int i = 0; i < *count; i++)
        if (chosen[i] == schedule)
            return i;
    if (*count == EXAM_SCHEDULES)
        return -1;
    chosen[*count] = schedule;
    return (*count)++;
}

/* The places of the values, largest first; equal ones keep their order. */
static void order_by(const double *values, int count, int *order)
{
    for (int i = 0; i < count; i++) {
        int at = i;
        for (; at > 0 && values[order[at - 1]] < values[i]; at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
}

static double mean_price(const struct exam_setup *setup)
{
    double sum = 0;
    for (int p = 0; p < setup->prices; p++)
        sum += setup->price[p];
    return sum / setup->prices;
}

/* The best at every price, the best on the mean of all prices (J is linear in the price), then the front, its best
 * first. The empty schedule is the bare host, which plays anyway: it is chosen only where nothing is better. */
void exam_choose_schedules(struct exam *exam)
{
    struct exam_point points[CATALOGUE_MAX];
    double params[CATALOGUE_MAX], gain[CATALOGUE_MAX];
    int order[CATALOGUE_MAX], chosen[EXAM_SCHEDULES], count = 0;
    const int schedules = exam->catalogue.count;
    exam_catalogue_points(exam, points);
    for (int i = 0; i < schedules; i++) {
        params[i] = points[i].params;
        gain[i] = points[i].gain;
    }
    order_by(gain, schedules, order);
    for (int p = 0; p < exam->setup.prices; p++)
        exam->best[p] = place_of(chosen, &count, best_at(points, schedules, exam->setup.price[p]));
    exam->best_of_all = place_of(chosen, &count, best_at(points, schedules, mean_price(&exam->setup)));
    for (int i = 0; i < schedules; i++)
        if (exam->catalogue.schedule[order[i]].count && on_front(params, gain, schedules, order[i]))
            place_of(chosen, &count, order[i]);
    for (int i = 0; i < exam->count; i++) {
        struct exam_part *part = &exam->parts[i];
        if (part->kind != EXAM_SCHEDULE)
            continue;
        part->left_out = part->place >= count;
        if (!part->left_out)
            part->schedule = exam->catalogue.schedule[chosen[part->place]];
    }
}

void exam_take_winner(struct exam *exam, int price)
{
    exam_find(exam, EXAM_SEARCHED, price, -1, -1)->schedule = exam->search[price]->contenders[0].schedule;
}

/* The smallest host that reaches what PPO's networks came to at the first price, on average. */
void exam_widen_host(const struct exam *exam, struct exam_part *part)
{
    const struct config *bare = &exam->setup.config;
    double params = 0, work = 0;
    int count = 0;
    for (int k = 0; k < exam->setup.seeds; k++) {
        const struct exam_part *ppo = exam_find(exam, EXAM_PPO, 0, k, -1);
        for (int i = 0; i < ppo->count; i++, count++) {
            params += (double)(ppo->outcomes[i].host_params + ppo->outcomes[i].added_params);
            work += ppo->outcomes[i].train_work;
        }
    }
    if (part->config.precision == PRECISION_BF16) /* not every width has kernels for it */
        part->config.precision = PRECISION_AUTO;
    for (;;) {
        struct config wider = part->config;
        const bool reached = part->kind == EXAM_WIDE_PARAMS ? (double)exam_host_params(&wider) * count >= params
                                                            : exam_host_work(&wider, bare) * count >= work;
        host_family_of(&wider)->widen(&wider);
        part->widest = !reached && config_check(&wider, NULL) != ESPER_OK;
        if (reached || part->widest)
            return;
        part->config = wider;
    }
}

/* The best network is the first one of the highest validation score, as the run keeps it. */
void exam_replay_training(const struct exam *exam, struct exam_part *part)
{
    const struct exam_part *training = exam_training_of(exam, part);
    const struct outcome_record *best = NULL;
    for (int i = 0; i < training->count; i++) {
        const struct outcome_record *outcome = &training->outcomes[i];
        if (isfinite(outcome->val_loss) && (!best || outcome->val_accuracy > best->val_accuracy))
            best = outcome;
    }
    part->config.policy.kind = best && best->fossilized ? POLICY_REPLAY : POLICY_STATIC;
}
