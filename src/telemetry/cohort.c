#include "telemetry/cohort.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "telemetry/store.h"

/* ---- loading ----------------------------------------------------------------------------------------------------- */

static enum esper_status load_run(struct cohort_run *member, const char *runs, const char *text,
                                  const struct query_options *options, struct esper_error *error)
{
    struct store *store;
    struct run_status status;
    TRY(run_open(&member->run, runs, text, error));
    TRY(run_get_status(&member->run, &status, error));
    member->state = run_state_name(&status);
    TRY(store_open_reader(&store, &member->run, error));
    if (options)
        store_allow(store, options->timeout, options->stop);
    enum esper_status result = store_outcomes(store, &member->outcomes, &member->count, error);
    store_close(store);
    if (result == ESPER_OK && member->count == 0)
        result = error_set(error, ESPER_INVALID, "%s: the run has no finished episode yet (it is %s)", member->run.path,
                           member->state);
    return result;
}

static void policy_name(const struct config *config, char name[32])
{
    char text[CONFIG_TEXT];
    snprintf(name, 32, "%.31s", config_policy(config, text));
}

static enum esper_status check_members(const struct cohort *cohort, struct esper_error *error)
{
    for (int i = 1; i < cohort->run_count; i++) {
        const struct run *run = &cohort->runs[i].run, *first = &cohort->runs[0].run;
        char policy[32] = "";
        policy_name(&run->config, policy);
        if (strcmp(policy, cohort->policy) != 0)
            return error_set(error, ESPER_INVALID, "%s is %s but %s is %s; commas join runs of the same policy",
                             run->path, policy, first->path, cohort->policy);
        for (int j = 0; j < i; j++)
            if (cohort->runs[j].run.config.seed == run->config.seed)
                return error_set(error, ESPER_INVALID,
                                 "%s and %s both have seed %llu; commas join runs with different seeds",
                                 cohort->runs[j].run.path, run->path, (unsigned long long)run->config.seed);
    }
    return ESPER_OK;
}

static enum esper_status load_members(struct cohort *cohort, const char *runs, const struct query_options *options,
                                      struct esper_error *error)
{
    for (const char *at = cohort->text; cohort->run_count == 0 || at[-1] == ',';) {
        char name[PATH_MAX];
        size_t span = strcspn(at, ",");
        if (span >= sizeof name)
            return error_set(error, ESPER_INVALID, "%.80s...: the path is too long", at);
        memcpy(name, at, span);
        name[span] = '\0';
        struct cohort_run *member = &cohort->runs[cohort->run_count++];
        TRY(load_run(member, runs, name, options, error));
        cohort->episodes += member->count;
        at += span + 1;
    }
    policy_name(&cohort->runs[0].run.config, cohort->policy);
    return check_members(cohort, error);
}

enum esper_status cohort_load_within(struct cohort *cohort, const char *runs, const char *text,
                                     const struct query_options *options, struct esper_error *error)
{
    size_t names = 1;
    for (const char *at = text; *at; at++)
        names += *at == ',';
    memset(cohort, 0, sizeof *cohort);
    cohort->text = text;
    cohort->runs = memory_alloc(names, sizeof *cohort->runs, error);
    if (!cohort->runs)
        return ESPER_FAILED;
    enum esper_status status = load_members(cohort, runs, options, error);
    if (status != ESPER_OK)
        cohort_free(cohort);
    return status;
}

enum esper_status cohort_load(struct cohort *cohort, const char *runs, const char *text, struct esper_error *error)
{
    return cohort_load_within(cohort, runs, text, NULL, error);
}

void cohort_free(struct cohort *cohort)
{
    for (int i = 0; i < cohort->run_count; i++)
        memory_free(cohort->runs[i].outcomes);
    memory_free(cohort->runs);
    memset(cohort, 0, sizeof *cohort);
}

/* ---- do they pair? ----------------------------------------------------------------------------------------------- */

static enum esper_status check_runs(const struct run *a, const struct run *b, const char **reward_key,
                                    struct esper_error *error)
{
    char mine[CONFIG_TEXT], theirs[CONFIG_TEXT];
    int key = config_difference(&a->config, &b->config, KEY_PAIRS | KEY_REWARD);
    int reward = config_difference(&a->config, &b->config, KEY_PAIRS);
    if (key < 0) {
        if (reward >= 0 && !*reward_key)
            *reward_key = config_key_name(reward);
        return ESPER_OK;
    }
    config_format_exact(&a->config, key, mine);
    config_format_exact(&b->config, key, theirs);
    return error_set(error, ESPER_INVALID, "%.100s and %.100s do not pair: %s is %.60s and %.60s%s", a->path, b->path,
                     config_key_name(key), mine, theirs,
                     config_key_is(key, KEY_EVALUATES) ? "; compare the `esper eval` runs of each" : "");
}

enum esper_status cohort_check(const struct cohort *a, const struct cohort *b, const char **reward_key,
                               struct esper_error *error)
{
    for (int i = 0; i < a->run_count; i++)
        for (int j = 0; j < b->run_count; j++)
            TRY(check_runs(&a->runs[i].run, &b->runs[j].run, reward_key, error));
    return ESPER_OK;
}

static int compare_episodes(const struct outcome_record *a, const struct outcome_record *b)
{
    if (a->round != b->round)
        return a->round < b->round ? -1 : 1;
    return a->env < b->env ? -1 : a->env > b->env;
}

/* Both lists are sorted by round and env. */
static int match_runs(const struct cohort_run *a, const struct cohort_run *b, struct cohort_pair *pairs)
{
    int count = 0;
    for (int i = 0, j = 0; i < a->count && j < b->count;) {
        int order = compare_episodes(&a->outcomes[i], &b->outcomes[j]);
        if (order == 0)
            pairs[count++] = (struct cohort_pair){a->run.config.seed, &a->outcomes[i], &b->outcomes[j]};
        i += order <= 0;
        j += order >= 0;
    }
    return count;
}

static enum esper_status nothing_shared(const struct cohort *a, const struct cohort *b, struct esper_error *error)
{
    const struct cohort_run *x = &a->runs[0], *y = &b->runs[0];
    return error_set(
        error, ESPER_INVALID,
        "%.100s and %.100s share no episodes: seed %llu, rounds %lld to %lld, and seed %llu, rounds %lld to "
        "%lld; use the same --seed",
        x->run.path, y->run.path, (unsigned long long)x->run.config.seed, (long long)round_shown(x->outcomes[0].round),
        (long long)round_shown(x->outcomes[x->count - 1].round), (unsigned long long)y->run.config.seed,
        (long long)round_shown(y->outcomes[0].round), (long long)round_shown(y->outcomes[y->count - 1].round));
}

enum esper_status cohort_match(const struct cohort *a, const struct cohort *b, struct cohort_pair **out, int *count,
                               struct esper_error *error)
{
    struct cohort_pair *pairs = memory_alloc((size_t)a->episodes, sizeof *pairs, error);
    if (!pairs)
        return ESPER_FAILED;
    *count = 0;
    for (int i = 0; i < a->run_count; i++)
        for (int j = 0; j < b->run_count; j++)
            if (a->runs[i].run.config.seed == b->runs[j].run.config.seed)
                *count += match_runs(&a->runs[i], &b->runs[j], pairs + *count);
    if (*count == 0) {
        memory_free(pairs);
        return nothing_shared(a, b, error);
    }
    *out = pairs;
    return ESPER_OK;
}

/* ---- metrics ----------------------------------------------------------------------------------------------------- */

const struct metric_info metrics[METRIC_COUNT] = {
    [METRIC_TEST_ACCURACY] = {"test_accuracy", NULL, NULL, 2},
    [METRIC_TEST_BITS] = {"test_bits_per_byte", "test, " BITS_PER_BYTE, "test " BITS_PER_BYTE_SHORT, 3},
    [METRIC_VAL_ACCURACY] = {"val_accuracy", NULL, NULL, 2},
    [METRIC_REWARD] = {"reward", "reward of an episode", "reward", 2},
    [METRIC_ADDED_PARAMS] = {"added_params", "added parameters", "added", 1},
    [METRIC_ACCURACY_PER_1000] = {"accuracy_per_1000", NULL, NULL, 3},
    [METRIC_FOSSILIZED] = {"fossilized", "seeds fossilised", "fossils", 2},
    [METRIC_PRUNED] = {"pruned", "seeds pruned", "pruned", 2},
};

bool metric_fits(enum metric metric, const struct family_words *words)
{
    return metric != METRIC_TEST_BITS || words->bytes;
}

const char *metric_title(enum metric metric, const struct family_words *words, char text[METRIC_TITLE])
{
    if (metric == METRIC_ACCURACY_PER_1000)
        snprintf(text, METRIC_TITLE, "test %s per 1000 parameters", words->unit_short);
    else if (!metrics[metric].title)
        snprintf(text, METRIC_TITLE, "%s %s, %s", metric == METRIC_TEST_ACCURACY ? "test" : "validation", words->score,
                 words->unit);
    else
        snprintf(text, METRIC_TITLE, "%s", metrics[metric].title);
    return text;
}

const char *metric_head(enum metric metric, const struct family_words *words, char text[METRIC_TITLE])
{
    if (metric == METRIC_ACCURACY_PER_1000)
        snprintf(text, METRIC_TITLE, "%s/1k", words->unit_short);
    else if (!metrics[metric].head)
        snprintf(text, METRIC_TITLE, "%s %s", metric == METRIC_TEST_ACCURACY ? "test" : "val.", words->unit_short);
    else
        snprintf(text, METRIC_TITLE, "%s", metrics[metric].head);
    return text;
}

double metric_value(enum metric metric, const struct outcome_record *outcome)
{
    switch (metric) {
    case METRIC_TEST_ACCURACY:
        return outcome->test_accuracy;
    case METRIC_TEST_BITS:
        return points_bits(outcome->test_accuracy);
    case METRIC_VAL_ACCURACY:
        return outcome->val_accuracy;
    case METRIC_REWARD:
        return outcome->reward;
    case METRIC_ADDED_PARAMS:
        return (double)outcome->added_params;
    case METRIC_ACCURACY_PER_1000:
        return 1000 * outcome->test_accuracy / ((double)outcome->host_params + (double)outcome->added_params);
    case METRIC_FOSSILIZED:
        return (double)outcome->fossilized;
    case METRIC_PRUNED:
        return (double)outcome->pruned;
    case METRIC_COUNT:
        break;
    }
    return NAN;
}

enum esper_status cohort_mean(const struct cohort *cohort, enum metric metric, struct interval *out,
                              struct esper_error *error)
{
    double *values = memory_alloc((size_t)cohort->episodes, sizeof *values, error);
    if (!values)
        return ESPER_FAILED;
    int count = 0;
    for (int i = 0; i < cohort->run_count; i++)
        for (int j = 0; j < cohort->runs[i].count; j++)
            values[count++] = metric_value(metric, &cohort->runs[i].outcomes[j]);
    *out = interval_of_mean(values, count);
    memory_free(values);
    return ESPER_OK;
}

enum esper_status cohort_difference(const struct cohort_pair *pairs, int count, enum metric metric,
                                    struct difference *out, struct esper_error *error)
{
    double *values = memory_alloc((size_t)count, 2 * sizeof *values, error);
    if (!values)
        return ESPER_FAILED;
    double *means = values + count; /* of the seeds */
    int seeds = 0;
    for (int i = 0; i < count; i++)
        values[i] = metric_value(metric, pairs[i].a) - metric_value(metric, pairs[i].b);
    for (int start = 0, end; start < count; start = end) {
        for (end = start; end < count && pairs[end].seed == pairs[start].seed;)
            end++;
        means[seeds++] = interval_of_mean(values + start, end - start).mean;
    }
    out->episodes = interval_of_mean(values, count);
    out->seeds = interval_of_mean(means, seeds);
    memory_free(values);
    return ESPER_OK;
}

enum esper_status cohort_gain(const struct cohort_pair *pairs, int count, struct interval *out,
                              struct esper_error *error)
{
    double *gain = memory_alloc((size_t)count, 2 * sizeof *gain, error);
    if (!gain)
        return ESPER_FAILED;
    double *added = gain + count; /* thousands */
    for (int i = 0; i < count; i++) {
        gain[i] = pairs[i].a->test_accuracy - pairs[i].b->test_accuracy;
        added[i] = (double)pairs[i].a->added_params / 1000;
    }
    *out = interval_of_ratio(gain, added, count);
    memory_free(gain);
    return ESPER_OK;
}
