/* esper compare: the results of cohorts of runs, and how the first differs from every other, episode by episode. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/memory.h"
#include "base/words.h"
#include "cli/cli.h"
#include "morph/family.h"
#include "telemetry/cohort.h"

enum { COHORTS_MAX = 26 }; /* they are called A to Z */

#define GAIN_NAME "gain_per_1000_added"

/* The first cohort compared with another. */
struct contrast {
    struct cohort_pair *pairs;
    int count, seeds;
    const char *reward_key; /* the key that makes rewards incomparable, NULL: none */
    struct difference differences[METRIC_COUNT];
};

struct comparison {
    int count;
    const struct family_words *words; /* all runs are of one task */
    struct cohort cohorts[COHORTS_MAX];
    struct interval means[COHORTS_MAX][METRIC_COUNT];
    struct contrast contrasts[COHORTS_MAX]; /* [0] is empty */
    int control;                            /* the first cohort of the static policy, -1: none */
    struct interval gains[COHORTS_MAX];     /* over the control, per 1000 added parameters */
    bool shown[METRIC_COUNT], gain_shown;
};

static char letter(int cohort)
{
    return (char)('A' + cohort);
}

/* ---- work -------------------------------------------------------------------------------------------------------- */

static enum esper_status choose_metrics(struct comparison *c, const char *name, struct esper_error *error)
{
    const char *names[METRIC_COUNT + 1] = {GAIN_NAME};
    c->gain_shown = !name || strcmp(name, GAIN_NAME) == 0;
    bool known = c->gain_shown;
    for (int i = 0; i < METRIC_COUNT; i++) {
        names[i + 1] = metrics[i].name;
        c->shown[i] = !name || strcmp(name, metrics[i].name) == 0;
        known = known || c->shown[i];
    }
    if (known)
        return ESPER_OK;
    return error_set(error, ESPER_INVALID, "--metric %.60s is unknown%s", name,
                     word_hint(name, names, METRIC_COUNT + 1, NULL).text);
}

/* What the runs' family does not have is not shown, and refused where it was asked for by name. */
static enum esper_status drop_metrics(struct comparison *c, const char *name, struct esper_error *error)
{
    c->words = &host_family_of(&c->cohorts[0].runs[0].run.config)->words;
    for (int i = 0; i < METRIC_COUNT; i++) {
        if (name && c->shown[i] && !metric_fits((enum metric)i, c->words))
            return error_set(error, ESPER_INVALID, "--metric %s: %s is of images; only runs on text have it", name,
                             c->cohorts[0].runs[0].run.path);
        c->shown[i] = c->shown[i] && metric_fits((enum metric)i, c->words);
    }
    return ESPER_OK;
}

static enum esper_status contrast_with_first(struct comparison *c, int other, struct esper_error *error)
{
    struct contrast *contrast = &c->contrasts[other];
    TRY(cohort_check(&c->cohorts[0], &c->cohorts[other], &contrast->reward_key, error));
    TRY(cohort_match(&c->cohorts[0], &c->cohorts[other], &contrast->pairs, &contrast->count, error));
    for (int i = 0; i < METRIC_COUNT; i++)
        TRY(cohort_difference(contrast->pairs, contrast->count, (enum metric)i, &contrast->differences[i], error));
    for (int i = 0; i < contrast->count; i++)
        contrast->seeds += i == 0 || contrast->pairs[i].seed != contrast->pairs[i - 1].seed;
    return ESPER_OK;
}

static enum esper_status measure_gains(struct comparison *c, struct esper_error *error)
{
    for (int i = 0; i < c->count; i++) {
        struct cohort_pair *pairs;
        int count;
        const char *ignored = NULL;
        if (i == c->control)
            continue;
        TRY(cohort_check(&c->cohorts[i], &c->cohorts[c->control], &ignored, error));
        TRY(cohort_match(&c->cohorts[i], &c->cohorts[c->control], &pairs, &count, error));
        enum esper_status status = cohort_gain(pairs, count, &c->gains[i], error);
        memory_free(pairs);
        TRY(status);
    }
    return ESPER_OK;
}

static enum esper_status compare(struct comparison *c, const char *runs, const struct cli_list *words,
                                 const char *metric, struct esper_error *error)
{
    TRY(choose_metrics(c, metric, error));
    c->control = -1;
    for (; c->count < words->count; c->count++) {
        TRY(cohort_load(&c->cohorts[c->count], runs, words->items[c->count], error));
        if (c->control < 0 && strcmp(c->cohorts[c->count].policy, "static") == 0)
            c->control = c->count;
    }
    TRY(drop_metrics(c, metric, error));
    if (metric && c->gain_shown && c->control < 0)
        return error_set(error, ESPER_INVALID,
                         "--metric %s is the gain over a run of the static policy: name such a run as well", GAIN_NAME);
    for (int i = 0; i < c->count; i++)
        for (int j = 0; j < METRIC_COUNT; j++)
            TRY(cohort_mean(&c->cohorts[i], (enum metric)j, &c->means[i][j], error));
    const char *inner = NULL; /* the runs of a cohort must also be of one task */
    TRY(cohort_check(&c->cohorts[0], &c->cohorts[0], &inner, error));
    for (int i = 1; i < c->count; i++) {
        c->contrasts[i].reward_key = inner;
        TRY(contrast_with_first(c, i, error));
    }
    return c->control >= 0 ? measure_gains(c, error) : ESPER_OK;
}

static void comparison_free(struct comparison *c)
{
    for (int i = 0; i < c->count; i++) {
        cohort_free(&c->cohorts[i]);
        memory_free(c->contrasts[i].pairs);
    }
    memory_free(c);
}

/* ---- for people -------------------------------------------------------------------------------------------------- */

/* Runs mostly differ at the end of their paths: long ones keep that part. */
static void print_path(const struct run *run)
{
    size_t length = strlen(run->path);
    cli_print("%s%s", length > 46 ? "..." : "", length > 46 ? run->path + length - 43 : run->path);
}

static void print_cohorts(const struct comparison *c)
{
    cli_print("   policy    episodes  seed  run\n");
    for (int i = 0; i < c->count; i++)
        for (int j = 0; j < c->cohorts[i].run_count; j++) {
            const struct cohort_run *member = &c->cohorts[i].runs[j];
            cli_print("%c  %-10.10s %7d %5llu  ", j ? ' ' : letter(i), j ? "" : c->cohorts[i].policy, member->count,
                      (unsigned long long)member->run.config.seed);
            print_path(&member->run);
            cli_print(strcmp(member->state, "finished") == 0 ? "\n" : " (%s)\n", member->state);
        }
    if (!c->cohorts[0].runs[0].run.config.evaluate)
        for (int i = 0; i < c->count; i++)
            if (c->cohorts[i].runs[0].run.config.policy.kind == POLICY_PPO) {
                cli_print("Training episodes: the policy of %c was still learning. `esper eval` freezes it.\n",
                          letter(i));
                break;
            }
}

static void print_number(double value, int width, int decimals, bool sign)
{
    if (isnan(value))
        cli_print(" %*s", width - 1, "n/a");
    else
        cli_print(sign ? " %+*.*f" : " %*.*f", width - 1, decimals, value);
}

static void print_means(const struct comparison *c)
{
    char head[METRIC_TITLE];
    cli_print("\nmeans    ");
    for (int i = 0; i < METRIC_COUNT; i++)
        if (c->shown[i])
            cli_print(" %9s", metric_head((enum metric)i, c->words, head));
    cli_print("\n");
    for (int i = 0; i < c->count; i++) {
        cli_print("%c        ", letter(i));
        for (int j = 0; j < METRIC_COUNT; j++)
            if (c->shown[j])
                print_number(c->means[i][j].mean, 10, metrics[j].decimals, false);
        cli_print("\n");
    }
}

/* Padded if another column follows. */
static void print_interval(const struct interval *interval, int decimals, bool last)
{
    char text[64] = "n/a";
    if (!isnan(interval->low))
        snprintf(text, sizeof text, "[%+.*f, %+.*f]", decimals, interval->low, decimals, interval->high);
    cli_print("  %-*s", last ? 0 : 20, text);
}

static void print_contrast(const struct comparison *c, int other)
{
    const struct contrast *contrast = &c->contrasts[other];
    int left = c->cohorts[0].episodes + c->cohorts[other].episodes - 2 * contrast->count;
    cli_print("\n%c - %c: %s minus %s, %d paired episodes", letter(0), letter(other), c->cohorts[0].policy,
              c->cohorts[other].policy, contrast->count);
    if (contrast->seeds > 1)
        cli_print(" of %d seeds", contrast->seeds);
    if (left)
        cli_print(" (%d unpaired)", left);
    cli_print("\n%-28s%9s  %s\n", "", "mean",
              contrast->seeds > 1 ? "95 % over episodes    95 % over seeds" : "95 % interval");
    for (int i = 0; i < METRIC_COUNT; i++) {
        const struct difference *difference = &contrast->differences[i];
        if (!c->shown[i] || (i == METRIC_REWARD && contrast->reward_key))
            continue;
        char title[METRIC_TITLE];
        cli_print("%-28s", metric_title((enum metric)i, c->words, title));
        print_number(difference->episodes.mean, 9, metrics[i].decimals, true);
        print_interval(&difference->episodes, metrics[i].decimals, contrast->seeds < 2);
        if (contrast->seeds > 1)
            print_interval(&difference->seeds, metrics[i].decimals, true);
        cli_print("\n");
    }
    if (c->shown[METRIC_REWARD] && contrast->reward_key)
        cli_print("rewards are not compared: %s differs\n", contrast->reward_key);
}

static void print_gains(const struct comparison *c)
{
    cli_print("\ntest %s gained over %c (static), points per 1000 parameters added\n", c->words->score,
              letter(c->control));
    for (int i = 0; i < c->count; i++)
        if (i != c->control) {
            cli_print("%c  %-24.24s", letter(i), c->cohorts[i].policy);
            print_number(c->gains[i].mean, 9, 3, true);
            print_interval(&c->gains[i], 3, true);
            cli_print("%s\n", isnan(c->gains[i].mean) ? "  nothing was added" : "");
        }
}

/* The whole table in a line each, for somebody who reads no intervals. */
static void print_summary(const struct comparison *c)
{
    cli_print("\nin short, by test %s\n", c->words->score);
    for (int i = 1; i < c->count; i++) {
        const struct difference *difference = &c->contrasts[i].differences[METRIC_TEST_ACCURACY];
        const struct interval *interval = c->contrasts[i].seeds > 1 ? &difference->seeds : &difference->episodes;
        const char *word = interval->low > 0 ? "beats" : interval->high < 0 ? "loses to" : "cannot be told from";
        cli_print("  %s %s %s", c->cohorts[0].policy, word, c->cohorts[i].policy);
        if (!isnan(interval->mean))
            cli_print(": %+.1f points", interval->mean);
        cli_print("\n");
    }
}

static void print_tables(const struct comparison *c)
{
    print_cohorts(c);
    print_means(c);
    for (int i = 1; i < c->count; i++)
        print_contrast(c, i);
    if (c->gain_shown && c->control >= 0)
        print_gains(c);
    if (c->shown[METRIC_TEST_ACCURACY])
        print_summary(c);
}

/* ---- for machines ------------------------------------------------------------------------------------------------ */

/* cJSON writes NAN as null: a missing value is not 0. */
static cJSON *interval_json(const struct interval *interval)
{
    cJSON *object = cJSON_CreateObject();
    json_add_number(object, "count", interval->count);
    json_add_number(object, "mean", interval->mean);
    json_add_number(object, "low", interval->low);
    json_add_number(object, "high", interval->high);
    return object;
}

static cJSON *cohort_json(const struct comparison *c, int index)
{
    const struct cohort *cohort = &c->cohorts[index];
    cJSON *object = cJSON_CreateObject();
    json_add_text(object, "cohort", (char[]){letter(index), '\0'});
    json_add_text(object, "policy", cohort->policy);
    json_add_number(object, "episodes", cohort->episodes);
    cJSON *runs = json_add_list(object, "runs");
    for (int i = 0; i < cohort->run_count; i++) {
        char seed[24];
        cJSON *run = json_add_object(runs, NULL);
        snprintf(seed, sizeof seed, "%llu", (unsigned long long)cohort->runs[i].run.config.seed);
        json_add_text(run, "path", cohort->runs[i].run.path);
        json_add_text(run, "state", cohort->runs[i].state);
        json_add_text(run, "seed", seed); /* 64 bits: more than a JSON number holds */
        json_add_number(run, "episodes", cohort->runs[i].count);
    }
    cJSON *means = json_add_object(object, "means");
    for (int i = 0; i < METRIC_COUNT; i++)
        if (c->shown[i])
            json_add(means, metrics[i].name, interval_json(&c->means[index][i]));
    if (c->gain_shown && c->control >= 0 && index != c->control)
        json_add(object, GAIN_NAME, interval_json(&c->gains[index]));
    return object;
}

static cJSON *contrast_json(const struct comparison *c, int other)
{
    const struct contrast *contrast = &c->contrasts[other];
    cJSON *object = cJSON_CreateObject();
    json_add_text(object, "of", (char[]){letter(0), '\0'});
    json_add_text(object, "minus", (char[]){letter(other), '\0'});
    json_add_number(object, "pairs", contrast->count);
    json_add_number(object, "seeds", contrast->seeds);
    if (contrast->reward_key)
        json_add_text(object, "rewards_differ_in", contrast->reward_key);
    cJSON *differences = json_add_object(object, "differences");
    for (int i = 0; i < METRIC_COUNT; i++)
        if (c->shown[i] && !(i == METRIC_REWARD && contrast->reward_key)) {
            cJSON *both = json_add_object(differences, metrics[i].name);
            json_add(both, "episodes", interval_json(&contrast->differences[i].episodes));
            json_add(both, "seeds", interval_json(&contrast->differences[i].seeds));
        }
    return object;
}

static enum esper_status print_json(const struct comparison *c, struct esper_error *error)
{
    cJSON *root = cJSON_CreateObject();
    cJSON *cohorts = json_add_list(root, "cohorts");
    for (int i = 0; i < c->count; i++)
        json_add(cohorts, NULL, cohort_json(c, i));
    cJSON *contrasts = json_add_list(root, "comparisons");
    for (int i = 1; i < c->count; i++)
        json_add(contrasts, NULL, contrast_json(c, i));
    return cli_print_json(root, error);
}

struct compare_flags {
    const char *metric;
    bool json;
};

static enum esper_status compare_runs(struct cli_call *call, struct esper_error *error)
{
    const struct compare_flags *flags = call->flags;
    struct comparison *comparison = memory_alloc(1, sizeof *comparison, error);
    if (!comparison)
        return ESPER_FAILED;
    enum esper_status status = compare(comparison, call->runs, &call->words, flags->metric, error);
    if (status == ESPER_OK && flags->json)
        status = print_json(comparison, error);
    else if (status == ESPER_OK)
        print_tables(comparison);
    comparison_free(comparison);
    return status;
}

#define AT(member) offsetof(struct compare_flags, member)
const struct cli_page compare_page = {
    .usage = "compare RUN RUN... [options]",
    .about =
        "The results of each run, and how the first differs from every other: mean difference and 95 % confidence\n"
        "interval (paired t) over the episodes that both played, paired by seed, round and env. Runs must share a\n"
        "task; policies may differ. Commas join runs of one policy with different seeds: A1,A2,A3 B1,B2,B3. Their\n"
        "interval over seeds is the one that predicts another training. With a run of the static policy, also\n"
        "the test accuracy (of text, the score) gained over it per 1000 parameters added.",
    .example = "esper compare quick-ppo quick-static quick-random",
    .options = (const struct cli_option[]){CLI_RUNS_OPTION,
                                           {"metric", CLI_TEXT, "NAME", AT(metric),
                                            "show only this metric, for example test_accuracy or " GAIN_NAME, 0, 0},
                                           {"json", CLI_FLAG, NULL, AT(json),
                                            "print the result as JSON, with every digit", 0, 0},
                                           {0}},
    .min_words = 2,
    .max_words = COHORTS_MAX,
    .wanted = "two runs or more",
    .run = compare_runs,
    .flags_size = sizeof(struct compare_flags),
};
