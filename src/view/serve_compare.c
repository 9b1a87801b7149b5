/* Cohorts compared with the first of them: the numbers of `esper compare`, for the page. */
#include <string.h>

#include "base/memory.h"
#include "morph/family.h"
#include "telemetry/cohort.h"
#include "view/serve_api.h"

static void write_interval(struct json_out *out, const char *key, const struct interval *interval)
{
    json_open(out, key, '{');
    json_integer(out, "count", interval->count);
    json_real(out, "mean", interval->mean);
    json_real(out, "low", interval->low);
    json_real(out, "high", interval->high);
    json_close(out, '}');
}

static void write_letter(struct json_out *out, const char *key, int cohort)
{
    json_text(out, key, (char[]){(char)('A' + cohort), '\0'});
}

static enum esper_status write_cohort(struct json_out *out, const struct cohort *cohort, int index,
                                      const struct family_words *words, struct esper_error *error)
{
    json_open(out, NULL, '{');
    write_letter(out, "cohort", index);
    json_text(out, "policy", cohort->policy);
    json_integer(out, "episodes", cohort->episodes);
    json_open(out, "runs", '[');
    for (int i = 0; i < cohort->run_count; i++) {
        const struct cohort_run *member = &cohort->runs[i];
        char seed[24];
        snprintf(seed, sizeof seed, "%llu", (unsigned long long)member->run.config.seed);
        json_open(out, NULL, '{');
        json_text(out, "name", member->run.name);
        json_text(out, "state", member->state);
        json_text(out, "seed", seed);
        json_integer(out, "episodes", member->count);
        json_close(out, '}');
    }
    json_close(out, ']');
    json_open(out, "means", '{');
    for (int i = 0; i < METRIC_COUNT; i++) {
        struct interval mean;
        if (!metric_fits((enum metric)i, words))
            continue;
        TRY(cohort_mean(cohort, (enum metric)i, &mean, error));
        write_interval(out, metrics[i].name, &mean);
    }
    json_close(out, '}');
    json_close(out, '}');
    return ESPER_OK;
}

static enum esper_status write_differences(struct json_out *out, const struct cohort_pair *pairs, int count,
                                           const struct family_words *words, const char *reward_key,
                                           struct esper_error *error)
{
    int seeds = 0;
    for (int i = 0; i < count; i++)
        seeds += i == 0 || pairs[i].seed != pairs[i - 1].seed;
    json_integer(out, "pairs", count);
    json_integer(out, "seeds", seeds);
    if (reward_key)
        json_text(out, "rewards_differ_in", reward_key);
    json_open(out, "differences", '{');
    for (int i = 0; i < METRIC_COUNT; i++) {
        struct difference difference;
        if (!metric_fits((enum metric)i, words) || (i == METRIC_REWARD && reward_key))
            continue;
        TRY(cohort_difference(pairs, count, (enum metric)i, &difference, error));
        json_open(out, metrics[i].name, '{');
        write_interval(out, "episodes", &difference.episodes);
        write_interval(out, "seeds", &difference.seeds);
        json_close(out, '}');
    }
    json_close(out, '}');
    return ESPER_OK;
}

/* Cohorts that do not pair say why; their means are given all the same. */
static enum esper_status write_contrast(struct json_out *out, const struct cohort *first, const struct cohort *other,
                                        int index, const struct family_words *words, struct esper_error *error)
{
    struct cohort_pair *pairs = NULL;
    int count = 0;
    const char *reward_key = NULL;
    enum esper_status status = cohort_check(first, first, &reward_key, error);
    if (status == ESPER_OK)
        status = cohort_check(first, other, &reward_key, error);
    if (status == ESPER_OK)
        status = cohort_match(first, other, &pairs, &count, error);
    json_open(out, NULL, '{');
    write_letter(out, "of", 0);
    write_letter(out, "minus", index);
    if (status == ESPER_OK)
        status = write_differences(out, pairs, count, words, reward_key, error);
    else if (status == ESPER_INVALID) {
        json_text(out, "error", error->text);
        status = ESPER_OK;
    }
    json_close(out, '}');
    memory_free(pairs);
    return status;
}

/* Of one family, its own words; otherwise those for any. */
static const struct family_words *words_of(const struct cohort *cohorts, int count)
{
    const struct host_family *first = host_family_of(&cohorts[0].runs[0].run.config);
    for (int i = 0; i < count; i++)
        for (int j = 0; j < cohorts[i].run_count; j++)
            if (host_family_of(&cohorts[i].runs[j].run.config) != first)
                return &family_words_any;
    return &first->words;
}

static void write_metrics(struct json_out *out, const struct family_words *words)
{
    char title[METRIC_TITLE];
    api_write_words(out, words);
    json_open(out, "metrics", '[');
    for (int i = 0; i < METRIC_COUNT; i++) {
        if (!metric_fits((enum metric)i, words))
            continue;
        json_open(out, NULL, '{');
        json_text(out, "name", metrics[i].name);
        json_text(out, "title", metric_title((enum metric)i, words, title));
        json_integer(out, "decimals", metrics[i].decimals);
        json_close(out, '}');
    }
    json_close(out, ']');
}

static enum esper_status write_comparison(struct json_out *out, const struct cohort *cohorts, int count,
                                          struct esper_error *error)
{
    const struct family_words *words = words_of(cohorts, count);
    json_open(out, NULL, '{');
    write_metrics(out, words);
    json_open(out, "cohorts", '[');
    for (int i = 0; i < count; i++)
        TRY(write_cohort(out, &cohorts[i], i, words, error));
    json_close(out, ']');
    json_open(out, "comparisons", '[');
    for (int i = 1; i < count; i++)
        TRY(write_contrast(out, &cohorts[0], &cohorts[i], i, words, error));
    json_close(out, ']');
    json_close(out, '}');
    return ESPER_OK;
}

/* ---- from A1:A2,B1 to cohorts ------------------------------------------------------------------------------------ */

struct work {
    struct cohort cohorts[API_COHORTS];
    char texts[API_COHORTS][1024]; /* what cohort_load takes: paths of runs that were found, joined by commas */
    struct run run;
    int count;
};

/* Every name is looked up first, so that nothing else is ever opened. */
static int resolve(const struct api *api, struct work *work, const char *names, size_t length,
                   struct esper_error *error)
{
    char *text = work->texts[work->count];
    size_t used = 0;
    text[0] = '\0';
    for (const char *at = names, *end = names + length; at < end;) {
        char name[128];
        size_t span = strcspn(at, ":,");
        snprintf(name, sizeof name, "%.*s", span < sizeof name ? (int)span : (int)sizeof name - 1, at);
        int code = api_find_run(api, name, &work->run, error);
        if (code != 200)
            return code;
        int more = snprintf(text + used, sizeof work->texts[0] - used, "%s%s", used ? "," : "", work->run.path);
        if (strchr(work->run.path, ',') || more >= (int)(sizeof work->texts[0] - used)) {
            error_set(error, ESPER_INVALID, "runs: too many names in one cohort, or too long ones");
            return 400;
        }
        used += (size_t)more;
        at += span + (at + span < end);
    }
    return 200;
}

static int load(const struct api *api, struct work *work, const char *text, struct esper_error *error)
{
    const struct query_options options = {.timeout = API_SECONDS, .stop = api->stop};
    for (const char *at = text; *at;) {
        size_t length = strcspn(at, ",");
        if (work->count == API_COHORTS) {
            error_set(error, ESPER_INVALID, "runs: at most %d cohorts at once", API_COHORTS);
            return 400;
        }
        int code = resolve(api, work, at, length, error);
        if (code == 200)
            code = api_code(
                cohort_load_within(&work->cohorts[work->count], api->runs, work->texts[work->count], &options, error));
        if (code != 200)
            return code;
        work->count++;
        at += length + (at[length] == ',');
    }
    if (work->count >= 2)
        return 200;
    error_set(error, ESPER_INVALID, "runs=A,B: name two runs or more; ':' joins runs with different seeds");
    return 400;
}

int api_compare(const struct api *api, const struct api_arguments *arguments, FILE *file, struct esper_error *error)
{
    static const char *const keys[] = {"runs"};
    struct json_out out = {.file = file};
    const char *text = api_argument(arguments, "runs");
    int code = api_check_arguments(arguments, keys, 1, error);
    if (code != 200)
        return code;
    struct work *work = memory_alloc(1, sizeof *work, error);
    if (!work)
        return 503;
    code = load(api, work, text ? text : "", error);
    if (code == 200)
        code = api_code(write_comparison(&out, work->cohorts, work->count, error));
    for (int i = 0; i < work->count; i++)
        cohort_free(&work->cohorts[i]);
    memory_free(work);
    return code;
}
