#include "exam/score.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "exam/bootstrap.h"

static const double near_points = 5; /* an episode this little above the bare host hardly grew anything of use */

/* ---- words ------------------------------------------------------------------------------------------------------- */

static const struct {
    const char *name, *title;
    enum exam_kind against;
} claims[CLAIM_COUNT] = {
#define EXAM_WORDS(NAME, name, title, against) {name, title, against},
    EXAM_CLAIMS(EXAM_WORDS)
#undef EXAM_WORDS
};

const char *exam_claim_name(enum exam_claim claim)
{
    return claims[claim].name;
}

const char *exam_claim_title(enum exam_claim claim)
{
    return claims[claim].title;
}

static const struct {
    const char *name, *title;
} findings[] = {{"earns", "earns its rent"}, {"fails", "does not"}, {"undecided", "undecided"}};

const char *exam_finding_name(enum exam_finding finding)
{
    return findings[finding].name;
}

const char *exam_finding_title(enum exam_finding finding)
{
    return findings[finding].title;
}

enum exam_finding exam_finding_of(const struct interval *difference)
{
    return difference->low > 0 ? FINDING_EARNS : difference->high < 0 ? FINDING_FAILS : FINDING_UNDECIDED;
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

/* The work of an entry's host in that of the task's. */
static double host_work(const struct exam *exam, const struct exam_entry *entry)
{
    return exam_host_work(&entry->part[0]->config, &exam->setup.config);
}

/* Net scores [run][episode]. */
static void net_scores(const struct exam *exam, const struct exam_entry *entry, double price, double *values)
{
    const long long bare = exam_host_params(&exam->setup.config);
    const double work = host_work(exam, entry);
    for (int k = 0; k < entry->runs; k++)
        for (int i = 0; i < entry->part[k]->count; i++)
            *values++ = exam_net_score(&exam->setup.config.reward, price, bare, work, &entry->part[k]->outcomes[i]);
}

static void test_scores(const struct exam_entry *entry, double *values)
{
    for (int k = 0; k < entry->runs; k++)
        for (int i = 0; i < entry->part[k]->count; i++)
            *values++ = entry->part[k]->outcomes[i].test_accuracy;
}

static bool learns(enum exam_kind kind)
{
    return kind == EXAM_PPO || kind == EXAM_GREEDY || kind == EXAM_REPLAY;
}

static bool is_wider(enum exam_kind kind)
{
    return kind == EXAM_WIDE_PARAMS || kind == EXAM_WIDE_WORK;
}

/* ---- entries ----------------------------------------------------------------------------------------------------- */

static void name_entry(const struct exam *exam, struct exam_entry *entry)
{
    char text[SCHEDULE_TEXT];
    if (entry->kind == EXAM_SCHEDULE) {
        schedule_format(&entry->part[0]->schedule, &exam->setup.config, text, sizeof text);
        snprintf(entry->name, sizeof entry->name, strlen(text) > 60 ? "%.60s..." : "%s", text);
    } else if (entry->price >= 0 && exam->setup.prices > 1) {
        snprintf(entry->name, sizeof entry->name, "%s, price %g", exam_kind_title(entry->kind),
                 exam->setup.price[entry->price]);
    } else {
        snprintf(entry->name, sizeof entry->name, "%s", exam_kind_title(entry->kind));
    }
}

/* Parts of one kind and price are one contestant, whatever their training. */
static struct exam_entry *entry_of(struct exam_result *result, const struct exam_part *part)
{
    for (int i = 0; i < result->entries; i++) {
        struct exam_entry *entry = &result->entry[i];
        if (entry->kind == part->kind && entry->price == part->price && entry->place == part->place)
            return entry;
    }
    struct exam_entry *entry = &result->entry[result->entries++];
    entry->kind = part->kind;
    entry->price = part->price;
    entry->place = part->place;
    return entry;
}

/* Wall time of what made the policy: its training, the search, the catalogue. */
static double seconds_of(const struct exam *exam, const struct exam_entry *entry)
{
    double sum = 0;
    if (entry->kind == EXAM_SCHEDULE)
        return exam_find(exam, EXAM_CATALOGUE, -1, -1, -1)->seconds;
    if (entry->kind == EXAM_SEARCHED)
        return exam_find(exam, EXAM_SEARCH, entry->price, -1, -1)->seconds;
    if (entry->kind != EXAM_PPO && entry->kind != EXAM_GREEDY)
        return NAN;
    for (int k = 0; k < entry->runs; k++)
        sum += exam_training_of(exam, entry->part[k])->seconds;
    return sum / entry->runs;
}

static void measure_means(const struct exam *exam, struct exam_entry *entry)
{
    const double price = entry->price < 0 ? 0 : exam->setup.price[entry->price], factor = host_work(exam, entry);
    const double count = (double)entry->runs * exam->setup.episodes;
    for (int k = 0; k < entry->runs; k++)
        for (int i = 0; i < entry->part[k]->count; i++) {
            const struct outcome_record *outcome = &entry->part[k]->outcomes[i];
            entry->gain += exam_objective(&exam->setup.config.reward, price, outcome);
            entry->params += (double)(outcome->host_params + outcome->added_params);
            entry->macs += outcome->forward_macs;
            entry->work += factor * outcome->train_work;
        }
    entry->gain /= count;
    entry->params /= count;
    entry->macs /= count;
    entry->work /= count;
    entry->added = entry->params - (double)exam_host_params(&exam->setup.config);
    entry->gain = is_wider(entry->kind) ? NAN : entry->gain;
    entry->seconds = seconds_of(exam, entry);
}

static enum esper_status measure(const struct exam *exam, struct exam_entry *entry, double *values,
                                 struct esper_error *error)
{
    const struct score_table table = {values, entry->runs, exam->setup.episodes, learns(entry->kind)};
    measure_means(exam, entry);
    for (int p = 0; p < exam->setup.prices; p++) {
        net_scores(exam, entry, exam->setup.price[p], values);
        entry->net[p] = table_mean(&table);
    }
    test_scores(entry, values);
    TRY(bootstrap(&table, NULL, exam->setup.config.seed, &entry->test, error));
    entry->iqm = interquartile_mean(values, entry->runs * exam->setup.episodes);
    return ESPER_OK;
}

/* Every reported run has the same episodes in the same order. */
static enum esper_status check_part(const struct exam *exam, const struct exam_part *part, struct esper_error *error)
{
    const struct outcome_record *first = exam_find(exam, EXAM_STATIC, -1, -1, -1)->outcomes;
    bool good = part->count == exam->setup.episodes;
    for (int i = 0; good && i < part->count; i++)
        good = part->outcomes[i].round == first[i].round && part->outcomes[i].env == first[i].env &&
               isfinite(part->outcomes[i].test_accuracy);
    if (!good)
        return error_set(error, ESPER_INVALID, "%s: its record lacks episodes; remove that run and repeat the command",
                         part->name);
    return ESPER_OK;
}

/* Best first; equal ones keep the order of the plan. */
static void sort_entries(struct exam_entry *entries, int count)
{
    for (int i = 1; i < count; i++) {
        const struct exam_entry moved = entries[i];
        int at = i;
        for (; at > 0 && entries[at - 1].test.mean < moved.test.mean; at--)
            entries[at] = entries[at - 1];
        entries[at] = moved;
    }
}

static enum esper_status make_entries(struct exam_result *result, double *values, struct esper_error *error)
{
    const struct exam *exam = result->exam;
    for (int i = 0; i < exam->count; i++) {
        const struct exam_part *part = &exam->parts[i];
        if (!exam_kind_reported(part->kind) || part->left_out)
            continue;
        TRY(check_part(exam, part, error));
        struct exam_entry *entry = entry_of(result, part);
        entry->part[entry->runs++] = part;
    }
    for (int i = 0; i < result->entries; i++) {
        name_entry(exam, &result->entry[i]);
        TRY(measure(exam, &result->entry[i], values, error));
    }
    sort_entries(result->entry, result->entries);
    return ESPER_OK;
}

static double mean_net(const struct exam_result *result, const struct exam_entry *entry)
{
    const int prices = result->exam->setup.prices;
    double sum = 0;
    for (int p = 0; p < prices; p++)
        sum += entry->net[p] / prices;
    return sum;
}

/* Nothing selects one searched schedule for all prices: so it is the best on the reported episodes themselves. */
static const struct exam_entry *best_searched(const struct exam_result *result)
{
    const struct exam_entry *best = NULL;
    for (int i = 0; i < result->entries; i++) {
        const struct exam_entry *entry = &result->entry[i];
        if (entry->kind == EXAM_SEARCHED && (!best || mean_net(result, entry) > mean_net(result, best)))
            best = entry;
    }
    return best;
}

/* A kind that knows no price is the same at all of them; -1 asks for the best schedule on their mean. */
static const struct exam_entry *find_entry(const struct exam_result *result, enum exam_kind kind, int price)
{
    const struct exam *exam = result->exam;
    const int schedule = price < 0 ? exam->best_of_all : exam->best[price];
    if (kind == EXAM_SEARCHED && price < 0)
        return best_searched(result);
    for (int i = 0; i < result->entries; i++) {
        const struct exam_entry *entry = &result->entry[i];
        if (entry->kind == kind && (entry->price == price || entry->price < 0) &&
            (kind != EXAM_SCHEDULE || entry->place == schedule))
            return entry;
    }
    return NULL;
}

/* ---- verdicts ---------------------------------------------------------------------------------------------------- */

/* A paired control is subtracted episode by episode before anything is resampled; a replay also training by training.
 */
static void subtract(const struct exam *exam, double *mine, const double *theirs, int runs)
{
    const int episodes = exam->setup.episodes;
    for (int k = 0; k < exam->setup.seeds; k++)
        for (int i = 0; i < episodes; i++)
            mine[k * episodes + i] -= theirs[(k % runs) * episodes + i];
}

/* Of PPO and the other at a price, divided and added to what is there. */
static void add_net_scores(const struct exam_result *result, const struct exam_verdict *verdict, int p, double divisor,
                           double *mine, double *theirs, double *room)
{
    const struct exam *exam = result->exam;
    const int episodes = exam->setup.episodes;
    net_scores(exam, result->ppo[p].sampled, exam->setup.price[p], room);
    for (int i = 0; i < exam->setup.seeds * episodes; i++)
        mine[i] += room[i] / divisor;
    net_scores(exam, verdict->against, exam->setup.price[p], room);
    for (int i = 0; i < verdict->against->runs * episodes; i++)
        theirs[i] += room[i] / divisor;
}

/* `values` has room for three times the episodes of all trainings. */
static enum esper_status decide(const struct exam_result *result, struct exam_verdict *verdict, double *values,
                                struct esper_error *error)
{
    const struct exam *exam = result->exam;
    const int episodes = exam->setup.episodes;
    const int first = verdict->price < 0 ? 0 : verdict->price, prices = verdict->price < 0 ? exam->setup.prices : 1;
    const size_t size = (size_t)exam->setup.seeds * (size_t)episodes;
    double *theirs = values + size, *room = theirs + size;
    const struct score_table a = {values, exam->setup.seeds, episodes, false};
    const struct score_table b = {theirs, verdict->against->runs, episodes, false};
    memset(values, 0, 2 * size * sizeof *values);
    for (int p = first; p < first + prices; p++)
        add_net_scores(result, verdict, p, prices, values, theirs, room);
    verdict->ppo = table_mean(&a);
    verdict->other = table_mean(&b);
    verdict->paired = !is_wider(verdict->against->kind);
    if (verdict->paired)
        subtract(exam, values, theirs, verdict->against->runs);
    TRY(bootstrap(&a, verdict->paired ? NULL : &b, exam->setup.config.seed, &verdict->difference, error));
    if (exam->setup.seeds < 2) /* one training says nothing about the next */
        verdict->difference.low = verdict->difference.high = NAN;
    verdict->finding = exam_finding_of(&verdict->difference);
    return ESPER_OK;
}

static enum esper_status make_verdict(struct exam_result *result, enum exam_claim claim, int price, double *values,
                                      struct esper_error *error)
{
    struct exam_verdict *verdict = &result->verdict[result->verdicts++];
    const enum exam_kind against = claims[claim].against;
    *verdict = (struct exam_verdict){.claim = claim, .price = price, .against = find_entry(result, against, price)};
    if (!verdict->against)
        return error_set(error, ESPER_INVALID, "the exam lacks %s", exam_kind_title(against));
    return decide(result, verdict, values, error);
}

static enum esper_status make_verdicts(struct exam_result *result, double *values, struct esper_error *error)
{
    const int prices = result->exam->setup.prices;
    for (int p = 0; p < prices; p++)
        for (int claim = 0; claim < CLAIMS_AT_A_PRICE; claim++)
            TRY(make_verdict(result, (enum exam_claim)claim, p, values, error));
    for (int claim = CLAIMS_AT_A_PRICE; claim < CLAIM_COUNT && prices > 1 && exam_one_policy(result->exam); claim++)
        TRY(make_verdict(result, (enum exam_claim)claim, -1, values, error));
    return ESPER_OK;
}

/* ---- about PPO --------------------------------------------------------------------------------------------------- */

static bool grows_by_rule(enum exam_kind kind)
{
    return kind == EXAM_SCHEDULE || kind == EXAM_SEARCHED || kind == EXAM_HEURISTIC || kind == EXAM_RANDOM ||
           kind == EXAM_RATED;
}

static enum esper_status describe_ppo(struct exam_result *result, int p, double *values, struct esper_error *error)
{
    const struct exam *exam = result->exam;
    struct exam_ppo *ppo = &result->ppo[p];
    const double bare = find_entry(result, EXAM_STATIC, p)->test.mean;
    const int episodes = exam->setup.episodes;
    int near = 0;
    ppo->sampled = find_entry(result, EXAM_PPO, p);
    ppo->greedy = find_entry(result, EXAM_GREEDY, p);
    test_scores(ppo->sampled, values);
    for (int k = 0; k < exam->setup.seeds; k++) {
        const struct score_table row = {values + (size_t)k * (size_t)episodes, 1, episodes, false};
        ppo->of_seed[k] = table_mean(&row);
    }
    for (int i = 0; i < exam->setup.seeds * episodes; i++)
        near += values[i] < bare + near_points;
    ppo->near_bare = (double)near / (exam->setup.seeds * episodes);
    net_scores(exam, ppo->sampled, exam->setup.price[p], values);
    const struct score_table table = {values, exam->setup.seeds, episodes, true};
    TRY(bootstrap(&table, NULL, exam->setup.config.seed, &ppo->net, error));
    for (int i = 0; i < result->entries; i++)
        if (grows_by_rule(result->entry[i].kind) && (!ppo->best || result->entry[i].net[p] > ppo->best->net[p]))
            ppo->best = &result->entry[i];
    ppo->regret = ppo->best->net[p] - ppo->net.mean;
    return ESPER_OK;
}

/* ---- the catalogue ----------------------------------------------------------------------------------------------- */

static enum esper_status describe_catalogue(struct exam_result *result, struct esper_error *error)
{
    const int count = result->exam->catalogue.count;
    double gain[CATALOGUE_MAX], test[CATALOGUE_MAX];
    exam_catalogue_points(result->exam, result->point);
    for (int i = 0; i < count; i++) {
        gain[i] = result->point[i].gain;
        test[i] = result->point[i].test;
    }
    return rank_correlation(gain, test, count, &result->rank_correlation, error);
}

/* ---- the result -------------------------------------------------------------------------------------------------- */

static enum esper_status judge(struct exam_result *result, struct esper_error *error)
{
    const struct exam *exam = result->exam;
    const size_t verdicts = (size_t)exam->setup.prices * CLAIMS_AT_A_PRICE + CLAIM_COUNT - CLAIMS_AT_A_PRICE;
    result->entry = memory_alloc((size_t)exam->count, sizeof *result->entry, error);
    result->verdict = result->entry ? memory_alloc(verdicts, sizeof *result->verdict, error) : NULL;
    double *values = result->verdict ? memory_alloc((size_t)exam->setup.seeds * (size_t)exam->setup.episodes,
                                                    3 * sizeof *values, error)
                                     : NULL;
    if (!values)
        return ESPER_FAILED;
    enum esper_status status = make_entries(result, values, error);
    for (int p = 0; p < exam->setup.prices && status == ESPER_OK; p++)
        status = describe_ppo(result, p, values, error);
    if (status == ESPER_OK)
        status = make_verdicts(result, values, error);
    memory_free(values);
    for (int i = 0; i < exam->count; i++)
        result->seconds += exam->parts[i].left_out ? 0 : exam->parts[i].seconds;
    return status == ESPER_OK ? describe_catalogue(result, error) : status;
}

enum esper_status exam_judge(const struct exam *exam, struct exam_result **out, struct esper_error *error)
{
    struct exam_result *result = memory_alloc(1, sizeof *result, error);
    if (!result)
        return ESPER_FAILED;
    result->exam = exam;
    enum esper_status status = judge(result, error);
    if (status != ESPER_OK) {
        exam_result_free(result);
        return status;
    }
    *out = result;
    return ESPER_OK;
}

void exam_result_free(struct exam_result *result)
{
    if (!result)
        return;
    memory_free(result->entry);
    memory_free(result->verdict);
    memory_free(result);
}
