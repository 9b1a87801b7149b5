#include "sweep/plan.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/config_keys.h"
#include "base/memory.h"
#include "base/philox.h"
#include "base/words.h"

static const char *const objective_words[] = {
#define OBJECTIVE_WORD(with, NAME, name) #name,
    SWEEP_OBJECTIVES(OBJECTIVE_WORD, )
#undef OBJECTIVE_WORD
};
enum { OBJECTIVES = sizeof objective_words / sizeof objective_words[0] };

const char *sweep_objective_word(enum sweep_objective objective)
{
    return objective_words[objective];
}

enum esper_status sweep_set_objective(struct sweep *sweep, const char *word, struct esper_error *error)
{
    for (int i = 0; i < OBJECTIVES; i++)
        if (strcmp(word, objective_words[i]) == 0) {
            sweep->objective = (enum sweep_objective)i;
            return ESPER_OK;
        }
    return error_set(error, ESPER_INVALID, "objective %.40s: one of score and val_accuracy", word);
}

/* ---- axes -------------------------------------------------------------------------------------------------------- */

static struct sweep_axis *find_axis(struct sweep *sweep, const char *name)
{
    for (int i = 0; i < sweep->axis_count; i++)
        if (strcmp(config_key_name(sweep->axes[i].key), name) == 0)
            return &sweep->axes[i];
    return NULL;
}

static enum esper_status add_axis(struct sweep *sweep, const char *name, struct sweep_axis **out,
                                  struct esper_error *error)
{
    const int key = config_key_find(name);
    struct config scratch = sweep->base;
    if (key < 0)
        return config_set_value(&scratch, name, "", ORIGIN_SET, error); /* it says which one was meant */
    if (strcmp(name, "seed") == 0)
        return error_set(error, ESPER_INVALID, "seed: give seeds with --seeds, for example --seeds 1..5");
    if (config_key_is(key, KEY_TASK) || strcmp(name, "threads") == 0 || strcmp(name, "device") == 0)
        return error_set(error, ESPER_INVALID, "%s: is the same for all runs of a sweep; use --%s", name, name);
    if (find_axis(sweep, name))
        return error_set(error, ESPER_INVALID, "%s: is given twice", name);
    if (sweep->axis_count == SWEEP_AXES)
        return error_set(error, ESPER_INVALID, "%s: more than %d keys cannot vary at once", name, SWEEP_AXES);
    *out = &sweep->axes[sweep->axis_count++];
    (*out)->key = key;
    return ESPER_OK;
}

enum esper_status sweep_add_list(struct sweep *sweep, const char *key, struct esper_error *error)
{
    struct sweep_axis *axis;
    return add_axis(sweep, key, &axis, error);
}

/* As the configuration itself would write it: 1e-3 and 0.001 are one value. */
static enum esper_status take_value(const struct sweep *sweep, int key, const char *text, char out[SWEEP_VALUE],
                                    struct esper_error *error)
{
    struct config scratch = sweep->base;
    char exact[CONFIG_TEXT];
    TRY(config_set_value(&scratch, config_key_name(key), text, ORIGIN_SET, error));
    config_format_exact(&scratch, key, exact);
    if (strlen(exact) >= SWEEP_VALUE)
        return error_set(error, ESPER_INVALID, "%s: a value that varies has at most %d bytes", config_key_name(key),
                         SWEEP_VALUE - 1);
    memcpy(out, exact, strlen(exact) + 1);
    return ESPER_OK;
}

enum esper_status sweep_add_value(struct sweep *sweep, const char *key, const char *text, struct esper_error *error)
{
    struct sweep_axis *axis = find_axis(sweep, key);
    char value[SWEEP_VALUE];
    TRY(take_value(sweep, axis->key, text, value, error));
    for (int i = 0; i < axis->count; i++)
        if (strcmp(axis->values[i], value) == 0)
            return error_set(error, ESPER_INVALID, "%s: has the value %s twice", key, value);
    if (axis->count == SWEEP_VALUES)
        return error_set(error, ESPER_INVALID, "%s: more than %d values; use a range", key, SWEEP_VALUES);
    memcpy(axis->values[axis->count++], value, sizeof value);
    return ESPER_OK;
}

static bool is_whole(int key)
{
    return config_keys[key].type == KEY_INT && !config_keys[key].choices;
}

enum esper_status sweep_add_range(struct sweep *sweep, const char *key, const char *text, struct esper_error *error)
{
    struct sweep_axis *axis;
    char low[SWEEP_VALUE], high[SWEEP_VALUE];
    const bool log = strncmp(text, "log:", 4) == 0;
    const char *from = log ? text + 4 : text, *dots = strstr(from, "..");
    TRY(add_axis(sweep, key, &axis, error));
    if (!is_whole(axis->key) && config_keys[axis->key].type != KEY_REAL)
        return error_set(error, ESPER_INVALID, "%s: only numbers have ranges; list its values: --grid %s=A,B", key,
                         key);
    if (!dots || dots == from || !dots[2] || strlen(text) >= SWEEP_VALUE)
        return error_set(error, ESPER_INVALID, "%s = %.60s: a range is written 0.1..0.5 or log:1e-4..1e-2", key, text);
    snprintf(low, sizeof low, "%.*s", (int)(dots - from), from);
    TRY(take_value(sweep, axis->key, low, low, error));
    TRY(take_value(sweep, axis->key, dots + 2, high, error));
    axis->low = strtod(low, NULL);
    axis->high = strtod(high, NULL);
    axis->log = log;
    snprintf(axis->range, sizeof axis->range, "%s%.50s..%.50s", log ? "log:" : "", low, high);
    if (axis->low >= axis->high)
        return error_set(error, ESPER_INVALID, "%s = %.60s: a range goes from a smaller to a larger number", key, text);
    if (log && axis->low <= 0)
        return error_set(error, ESPER_INVALID, "%s = %.60s: a range in proportion starts above 0", key, text);
    return ESPER_OK;
}

/* ---- seeds ------------------------------------------------------------------------------------------------------- */

static bool read_seed(const char **at, uint64_t *seed)
{
    char *end;
    if (**at < '0' || **at > '9')
        return false;
    errno = 0;
    *seed = strtoull(*at, &end, 10);
    *at = end;
    return !errno;
}

bool sweep_add_seed(struct sweep *sweep, uint64_t seed)
{
    for (int i = 0; i < sweep->seed_count; i++)
        if (sweep->seeds[i] == seed)
            return false;
    if (sweep->seed_count == SWEEP_SEEDS)
        return false;
    sweep->seeds[sweep->seed_count++] = seed;
    return true;
}

static bool read_seeds(struct sweep *sweep, const char *at)
{
    uint64_t seed, last;
    sweep->seed_count = 0;
    if (!read_seed(&at, &seed))
        return false;
    if (strncmp(at, "..", 2) == 0) {
        at += 2;
        if (!read_seed(&at, &last) || *at || last < seed || last - seed >= SWEEP_SEEDS)
            return false;
        for (uint64_t i = 0; i <= last - seed; i++)
            sweep_add_seed(sweep, seed + i);
        return true;
    }
    if (*at != ',') /* "5" alone may mean five seeds or that one */
        return false;
    for (; sweep_add_seed(sweep, seed); at++) {
        const char *next = at + 1;
        if (!*at)
            return true;
        if (*at != ',' || !read_seed(&next, &seed))
            return false;
        at = next - 1;
    }
    return false;
}

enum esper_status sweep_set_seeds(struct sweep *sweep, const char *text, struct esper_error *error)
{
    if (read_seeds(sweep, text))
        return ESPER_OK;
    return error_set(error, ESPER_INVALID,
                     "--seeds %.60s: a range such as 1..5, or a list such as 1,2,7; each once, at most %d",
                     *text ? text : "(nothing)", SWEEP_SEEDS);
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

/* A draw is a function of the sweep's seed, its number and the axis. */
static void draw_value(const struct sweep *sweep, uint32_t draw, int i, char text[SWEEP_VALUE])
{
    const struct sweep_axis *axis = &sweep->axes[i];
    const struct random_site site = random_at(sweep->base.seed, STREAM_SWEEP, 0, (uint32_t)i, draw);
    const double part = (random_word(site, 0) + 0.5) * 0x1p-32;
    const bool whole = is_whole(axis->key);
    const double low = axis->low - (whole ? 0.5 : 0), high = axis->high + (whole ? 0.5 : 0);
    if (axis->count) {
        memcpy(text, axis->values[(int)(part * axis->count)], SWEEP_VALUE);
        return;
    }
    double value = axis->log ? exp(log(low) + part * (log(high) - log(low))) : low + part * (high - low);
    value = fmin(fmax(whole ? floor(value + 0.5) : value, axis->low), axis->high);
    snprintf(text, SWEEP_VALUE, whole ? "%.0f" : "%.4g", value); /* what is read is what is meant */
    if (!whole && (strtod(text, NULL) < axis->low || strtod(text, NULL) > axis->high))
        snprintf(text, SWEEP_VALUE, "%.17g", value);
}

void sweep_value(const struct sweep *sweep, int config, int axis, char text[SWEEP_VALUE])
{
    if (sweep->random) {
        draw_value(sweep, sweep->draws[config], axis, text);
        return;
    }
    for (int i = sweep->axis_count - 1; i > axis; i--) /* the last axis varies fastest */
        config /= sweep->axes[i].count;
    memcpy(text, sweep->axes[axis].values[config % sweep->axes[axis].count], SWEEP_VALUE);
}

void sweep_settings(const struct sweep *sweep, int config, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (int i = 0; i < sweep->axis_count && used < size; i++) {
        char value[SWEEP_VALUE];
        sweep_value(sweep, config, i, value);
        used += (size_t)snprintf(text + used, size - used, "%s%s=%s", i ? " " : "", config_key_name(sweep->axes[i].key),
                                 value);
    }
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

/* "lr" of "ppo.lr", unless another axis ends like that. */
static const char *short_key(const struct sweep *sweep, int axis)
{
    const char *name = config_key_name(sweep->axes[axis].key), *dot = strrchr(name, '.');
    for (int i = 0; dot && i < sweep->axis_count; i++) {
        const char *other = config_key_name(sweep->axes[i].key), *last = strrchr(other, '.');
        if (i != axis && strcmp(last ? last + 1 : other, dot + 1) == 0)
            return name;
    }
    return dot ? dot + 1 : name;
}

/* The beginning of its runs' names; false if that is too long. */
static bool name_config(const struct sweep *sweep, int config, char name[SWEEP_NAME])
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    enum { ROOM = SWEEP_NAME - 24 }; /* the seed's */
    size_t used = 0;
    name[0] = '\0';
    for (int i = 0; i < sweep->axis_count; i++) {
        char value[SWEEP_VALUE];
        sweep_value(sweep, config, i, value);
        used += (size_t)snprintf(name + used, ROOM - used, "%s-%s_", short_key(sweep, i), *value ? value : "none");
        if (used >= ROOM)
            return false;
    }
    for (char *at = name; *at; at++)
        if (!strchr(allowed, *at))
            *at = '.';
    return true;
}

void sweep_name(const struct sweep *sweep, int run, char name[SWEEP_NAME])
{
    const int config = run / sweep->seed_count;
    const unsigned long long seed = sweep->seeds[run % sweep->seed_count];
    if (sweep->numbered)
        snprintf(name, SWEEP_NAME, "c%04d_", config + 1);
    else
        name_config(sweep, config, name);
    const size_t used = strlen(name);
    snprintf(name + used, SWEEP_NAME - used, "s%llu", seed);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* Settings name the runs where all of them are short and no two alike. */
static enum esper_status choose_names(struct sweep *sweep, struct esper_error *error)
{
    char(*names)[SWEEP_NAME] = memory_alloc((size_t)sweep->configs, sizeof *names, error);
    if (!names)
        return ESPER_FAILED;
    sweep->numbered = false;
    for (int i = 0; i < sweep->configs; i++)
        sweep->numbered = !name_config(sweep, i, names[i]) || sweep->numbered;
    qsort(names, (size_t)sweep->configs, sizeof *names, compare_names);
    for (int i = 1; i < sweep->configs; i++)
        sweep->numbered = sweep->numbered || strcmp(names[i - 1], names[i]) == 0;
    memory_free(names);
    return ESPER_OK;
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

/* Two draws of one mark have the same values; that others would is one chance in 2^64, and costs no more than a draw.
 */
static uint64_t mark_of(const struct sweep *sweep, uint32_t draw)
{
    uint64_t mark = UINT64_C(0xCBF29CE484222325);
    for (int axis = 0; axis < sweep->axis_count; axis++) {
        char value[SWEEP_VALUE];
        draw_value(sweep, draw, axis, value);
        for (const char *at = value;; at++) {
            mark = (mark ^ (unsigned char)*at) * UINT64_C(0x100000001B3);
            if (!*at)
                break;
        }
    }
    return mark;
}

static bool is_new(const uint64_t *marks, int count, uint64_t mark)
{
    for (int i = 0; i < count; i++)
        if (marks[i] == mark)
            return false;
    return true;
}

static enum esper_status draw_all(struct sweep *sweep, struct esper_error *error)
{
    const uint32_t limit = 64 + 16 * (uint32_t)sweep->random;
    uint64_t *marks = memory_alloc((size_t)sweep->random, sizeof *marks, error);
    sweep->draws = memory_alloc((size_t)sweep->random, sizeof *sweep->draws, error);
    int count = 0;
    for (uint32_t draw = 0; marks && sweep->draws && draw < limit && count < sweep->random; draw++) {
        marks[count] = mark_of(sweep, draw);
        if (is_new(marks, count, marks[count]))
            sweep->draws[count++] = draw;
    }
    const bool failed = !marks || !sweep->draws;
    memory_free(marks);
    if (failed)
        return ESPER_FAILED;
    if (count == sweep->random)
        return ESPER_OK;
    return error_set(error, ESPER_INVALID, "--random %d: there are hardly more than %d different configurations",
                     sweep->random, count);
}

static enum esper_status count_configs(struct sweep *sweep, struct esper_error *error)
{
    long long grid = 1;
    for (int i = 0; i < sweep->axis_count; i++) {
        const struct sweep_axis *axis = &sweep->axes[i];
        if (!axis->count && !sweep->random)
            return error_set(error, ESPER_INVALID, "%s = %s: a range is drawn from; say how often with --random N",
                             config_key_name(axis->key), axis->range);
        grid = axis->count ? grid * axis->count : grid;
        if (!sweep->random && grid > SWEEP_RUNS)
            break;
    }
    const long long configs = sweep->random ? sweep->random : grid;
    if (sweep->axis_count == 0 && sweep->random)
        return error_set(error, ESPER_INVALID, "--random %d: nothing varies; give --range KEY=A..B or --grid KEY=A,B",
                         sweep->random);
    if (configs * sweep->seed_count > SWEEP_RUNS)
        return error_set(error, ESPER_INVALID, "more than %d runs; use --random N, or fewer values or seeds",
                         SWEEP_RUNS);
    if (configs * sweep->seed_count < 2)
        return error_set(error, ESPER_INVALID,
                         "nothing varies; give --grid KEY=A,B, --range KEY=A..B with --random N, or --seeds 1..5");
    sweep->configs = (int)configs;
    sweep->runs = sweep->configs * sweep->seed_count;
    return sweep->random ? draw_all(sweep, error) : ESPER_OK;
}

/* Each rung has `halving` times the rounds of the one before. There are only as many as let pass one configuration or
 * more, and none is shorter than a round. */
static enum esper_status place_rungs(struct sweep *sweep, struct esper_error *error)
{
    const int rounds = sweep->base.rounds, share = sweep->halving;
    int first = rounds, configs = sweep->configs;
    sweep->rung_count = 0;
    if (!share) {
        if (sweep->first_rung)
            return error_set(error, ESPER_INVALID, "--first-rung %d: needs --halving N", sweep->first_rung);
        sweep->rungs[sweep->rung_count++] = rounds;
        return ESPER_OK;
    }
    for (; configs >= share && first / share >= 1; configs /= share)
        first /= share;
    if (sweep->first_rung)
        first = sweep->first_rung;
    if (first >= rounds)
        return error_set(error, ESPER_INVALID,
                         "--halving %d: %d configurations of %d rounds leave no rung before the end; give more of "
                         "either, or a --first-rung below %d",
                         share, sweep->configs, rounds, rounds);
    for (long long at = first; at < rounds && sweep->rung_count < SWEEP_RUNGS - 1; at *= share)
        sweep->rungs[sweep->rung_count++] = (int)at;
    const int count = sweep->rung_count, last = sweep->rungs[count - 1];
    if (count > 1 && 2 * (rounds - last) < last - sweep->rungs[count - 2])
        sweep->rung_count--; /* what is left over is no rung of its own */
    sweep->rungs[sweep->rung_count++] = rounds;
    return ESPER_OK;
}

/* Keys that would give every run an objective of its own. */
static enum esper_status check_objective(const struct sweep *sweep, struct esper_error *error)
{
    static const char *const keys[] = {"reward.mode", "reward.price", "reward.flop_price"};
    for (int i = 0; i < sweep->axis_count; i++) {
        const char *name = config_key_name(sweep->axes[i].key);
        for (size_t k = 0; sweep->objective == OBJECTIVE_SCORE && k < sizeof keys / sizeof keys[0]; k++)
            if (strcmp(name, keys[k]) == 0)
                return error_set(error, ESPER_INVALID,
                                 "%s: scores that it is part of cannot be compared; use --objective val_accuracy",
                                 name);
        if (strcmp(name, "rounds") == 0 && sweep->halving)
            return error_set(error, ESPER_INVALID, "rounds: cannot vary with --halving, which divides them into rungs");
    }
    return ESPER_OK;
}

enum esper_status sweep_config(const struct sweep *sweep, int run, struct config *config, struct esper_error *error)
{
    const int number = run / sweep->seed_count;
    char seed[24];
    bool data = false;
    *config = sweep->base;
    for (int i = 0; i < sweep->axis_count; i++) {
        const char *name = config_key_name(sweep->axes[i].key);
        char value[SWEEP_VALUE];
        sweep_value(sweep, number, i, value);
        TRY(config_set_value(config, name, value, ORIGIN_SET, error));
        data = data || strncmp(name, "data.", 5) == 0;
    }
    snprintf(seed, sizeof seed, "%llu", (unsigned long long)sweep->seeds[run % sweep->seed_count]);
    TRY(config_set_value(config, "seed", seed, ORIGIN_SET, error));
    if (data)
        TRY(config_settle(config, error));
    return config_check(config, error);
}

/* A configuration that cannot be is found before anything starts. */
static enum esper_status check_configs(const struct sweep *sweep, struct esper_error *error)
{
    for (int i = 0; i < sweep->configs; i++) {
        struct config config;
        char settings[256];
        if (sweep_config(sweep, i * sweep->seed_count, &config, error) == ESPER_OK)
            continue;
        sweep_settings(sweep, i, settings, sizeof settings);
        return error_where(error, "%s", *settings ? settings : "the sweep");
    }
    return ESPER_OK;
}

/* Values first, then ranges: the order in which a plan's file has them, and on which draws and names depend. */
static void order_axes(struct sweep *sweep)
{
    for (int i = 1; i < sweep->axis_count; i++)
        for (int at = i; at > 0 && sweep->axes[at].count && !sweep->axes[at - 1].count; at--) {
            const struct sweep_axis moved = sweep->axes[at];
            sweep->axes[at] = sweep->axes[at - 1];
            sweep->axes[at - 1] = moved;
        }
}

enum esper_status sweep_complete(struct sweep *sweep, struct esper_error *error)
{
    order_axes(sweep);
    if (!sweep->seed_count)
        sweep->seeds[sweep->seed_count++] = sweep->base.seed;
    TRY(check_objective(sweep, error));
    TRY(count_configs(sweep, error));
    TRY(place_rungs(sweep, error));
    TRY(choose_names(sweep, error));
    return check_configs(sweep, error);
}

void sweep_free(struct sweep *sweep)
{
    if (sweep)
        memory_free(sweep->draws);
    memory_free(sweep);
}

long long sweep_env_steps(const struct sweep *sweep)
{
    long long sum = 0, configs = sweep->configs;
    if (!sweep->halving) { /* any key may vary, also one that says how long a run is */
        for (int run = 0; run < sweep->runs; run++) {
            struct config config;
            sum += sweep_config(sweep, run, &config, NULL) == ESPER_OK ? config_env_steps(&config) : 0;
        }
        return sum;
    }
    for (int k = 0; k < sweep->rung_count; k++) {
        const long long rounds = sweep->rungs[k] - (k ? sweep->rungs[k - 1] : 0);
        sum += configs * sweep->seed_count * rounds * sweep->base.envs * sweep->base.steps;
        configs = configs / sweep->halving > 1 ? configs / sweep->halving : 1;
    }
    return sum;
}
