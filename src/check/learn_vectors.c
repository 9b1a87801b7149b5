/* The normalisers. Each test composes merge and average as the original did; their weights are arguments. */
#include "check/learn_vectors.h"

#include <stdbool.h>

#include "base/memory.h"
#include "check/learn_source.h"
#include "learn/normalise.h"

#define RTOL            1e-5
#define ATOL            1e-5
#define ORIGINAL_WEIGHT 0.01 /* of a batch in the original's averages */
#define ORIGINAL_WARMUP 32.0 /* samples before its value scale counts */

enum { MAX_COLUMNS = 4096 };

/* ---- observations ----------------------------------------------------------------------------------------------- */

struct obs_state {
    struct moments moments[MAX_COLUMNS]; /* m2 is the variance times the count */
};

static struct moments column_moments(const float *x, size_t rows, size_t columns, size_t column)
{
    struct moments moments = {0, 0, 0};
    for (size_t i = 0; i < rows; i++)
        moments_add(&moments, (double)x[i * columns + column]);
    return moments;
}

/* One batch: an exponential average in `obs_ema`, a merge of everything seen so far in `obs_full`. */
static void obs_update(struct obs_state *state, const float *x, size_t rows, size_t columns, bool average)
{
    for (size_t j = 0; j < columns; j++) {
        struct moments *all = &state->moments[j], batch = column_moments(x, rows, columns, j);
        if (!average) {
            *all = moments_merge(*all, batch);
            continue;
        }
        double variance = moments_variance(*all);
        normalise_merge(ORIGINAL_WEIGHT, batch.mean, moments_variance(batch), &all->mean, &variance);
        all->count += batch.count;
        all->m2 = variance * all->count;
    }
}

static void obs_compare(struct learn_source *source, const struct obs_state *state, const char *stem, size_t columns)
{
    static const char *const part[] = {"mean", "var", "count"};
    double *got = learn_memory(source, columns, sizeof *got);
    for (int k = 0; got && k < 3; k++) {
        const struct learn_name name = learn_name("%s.%s", stem, part[k]);
        const size_t count = k == 2 ? 1 : columns;
        const float *want = learn_floats(source, name.text, count);
        for (size_t j = 0; j < count; j++)
            got[j] = k == 0   ? state->moments[j].mean
                     : k == 1 ? moments_variance(state->moments[j])
                              : state->moments[j].count;
        if (want)
            learn_compare(source, name.text, got, want, count, RTOL, ATOL);
    }
    memory_free(got);
    const struct learn_name probe = learn_name("%s.probe", stem), norm = learn_name("%s.probe_norm", stem);
    const size_t count = learn_count(source, probe.text);
    const float *in = learn_floats(source, probe.text, 0), *out = learn_floats(source, norm.text, count);
    float *seen = learn_memory(source, count, sizeof *seen);
    for (size_t i = 0; in && seen && i < count; i++)
        seen[i] = normalise_observation(in[i], state->moments[i % columns].mean,
                                        moments_variance(state->moments[i % columns]));
    if (in && out && seen)
        learn_compare_floats(source, norm.text, seen, out, count, RTOL, ATOL);
    memory_free(seen);
}

static void check_observations(struct learn_source *source, const char *sequence, bool average)
{
    struct obs_state *state = learn_memory(source, 1, sizeof *state);
    for (int u = 0; state; u++) {
        const struct learn_name stem = learn_name("%s.u%d", sequence, u), x = learn_name("%s.u%d.x", sequence, u);
        const size_t columns = learn_count(source, learn_name("%s.mean", stem.text).text);
        const size_t count = learn_count(source, x.text);
        if (count == 0)
            break;
        if (columns == 0 || columns > MAX_COLUMNS || count % columns != 0) {
            learn_fail(source, x.text, "does not fit the mean beside it");
            break;
        }
        for (size_t j = 0; u == 0 && j < columns;
             j++) /* the original starts with mean 0, variance 1, almost no weight */
            state->moments[j] = (struct moments){1e-4, 0, 1e-4};
        const float *batch = learn_floats(source, x.text, count);
        if (!batch)
            break;
        obs_update(state, batch, count / columns, columns, average);
        obs_compare(source, state, stem.text, columns);
    }
    memory_free(state);
}

/* ---- rewards ---------------------------------------------------------------------------------------------------- */

/* The original clips rewards as it does observations; ours are not. */
static double original_reward(struct moments moments, double raw)
{
    return normalise_clip(raw / reward_deviation(moments));
}

/* One reward at a time: a step of one env. Training merges the rewards of a step first; the formula is the same. */
static void check_rewards(struct learn_source *source, int sequence)
{
    const struct learn_name raw = learn_name("reward%d.raw", sequence), norm = learn_name("reward%d.norm", sequence);
    const struct learn_name state = learn_name("reward%d.mean_m2", sequence);
    const struct learn_name eval = learn_name("reward%d.eval_norm", sequence);
    const size_t count = learn_count(source, raw.text), probes = learn_count(source, eval.text);
    const float *in = learn_floats(source, raw.text, 0), *want = learn_floats(source, norm.text, count);
    const float *want_state = learn_floats(source, state.text, 2 * count),
                *want_eval = learn_floats(source, eval.text, 0);
    double *got = learn_memory(source, 3 * count + probes, sizeof *got);
    if (in && want && want_state && want_eval && got && probes <= count) {
        struct moments moments = {0, 0, 0};
        double *got_state = got + count, *got_eval = got + 3 * count;
        for (size_t i = 0; i < count; i++) {
            const struct moments one = {1, (double)in[i], 0};
            moments = moments_merge(moments, one);
            got[i] = original_reward(moments, (double)in[i]);
            got_state[2 * i] = moments.mean;
            got_state[2 * i + 1] = moments.m2;
        }
        for (size_t i = 0; i < probes; i++)
            got_eval[i] = original_reward(moments, (double)in[i]);
        learn_compare(source, norm.text, got, want, count, RTOL, ATOL);
        learn_compare(source, state.text, got_state, want_state, 2 * count, 1e-6, 0);
        learn_compare(source, eval.text, got_eval, want_eval, probes, RTOL, ATOL);
    }
    memory_free(got);
}

/* ---- values ----------------------------------------------------------------------------------------------------- */

static double original_scale(struct moments moments)
{
    return moments.count >= ORIGINAL_WARMUP ? value_scale_of(moments_variance(moments)) : 1.0;
}

static void check_value_probe(struct learn_source *source, const char *stem, double scale)
{
    const struct learn_name probe = learn_name("%s.probe", stem);
    const struct learn_name down = learn_name("%s.normalize", stem), up = learn_name("%s.denormalize", stem);
    const size_t count = learn_count(source, probe.text);
    const float *in = learn_floats(source, probe.text, 0), *want_down = learn_floats(source, down.text, count);
    const float *want_up = learn_floats(source, up.text, count);
    double *got = learn_memory(source, 2 * count, sizeof *got);
    for (size_t i = 0; in && got && i < count; i++) {
        got[i] = (double)in[i] / scale;
        got[count + i] = (double)in[i] * scale;
    }
    if (in && got && want_down && want_up) {
        learn_compare(source, down.text, got, want_down, count, RTOL, ATOL);
        learn_compare(source, up.text, got + count, want_up, count, RTOL, ATOL);
    }
    memory_free(got);
}

static void check_values(struct learn_source *source, int sequence)
{
    struct moments moments = {0, 0, 0};
    for (int u = 0;; u++) {
        const struct learn_name stem = learn_name("value%d.u%d", sequence, u), x = learn_name("%s.x", stem.text);
        const size_t count = learn_count(source, x.text);
        if (count == 0)
            return;
        const struct learn_name names[] = {learn_name("%s.scale_before", stem.text),
                                           learn_name("%s.mean_var_count", stem.text),
                                           learn_name("%s.scale", stem.text)};
        const float *in = learn_floats(source, x.text, count), *before = learn_floats(source, names[0].text, 1);
        const float *state = learn_floats(source, names[1].text, 3), *after = learn_floats(source, names[2].text, 1);
        if (!in || !before || !state || !after)
            return;
        const double scale = original_scale(moments);
        learn_compare(source, names[0].text, &scale, before, 1, RTOL, ATOL);
        struct moments batch = column_moments(in, count, 1, 0);
        if (moments.count >= ORIGINAL_WARMUP) {
            double variance = moments_variance(moments);
            normalise_merge(ORIGINAL_WEIGHT, batch.mean, moments_variance(batch), &moments.mean, &variance);
            moments.count += batch.count;
            moments.m2 = variance * moments.count;
        } else {
            moments = moments_merge(moments, batch);
        }
        const double got[] = {moments.mean, moments_variance(moments), moments.count, original_scale(moments)};
        learn_compare(source, names[1].text, got, state, 3, RTOL, ATOL);
        learn_compare(source, names[2].text, &got[3], after, 1, RTOL, ATOL);
        check_value_probe(source, stem.text, got[3]);
    }
}

void check_normalizer_vectors(const struct st_file *file, struct check_report *report)
{
    struct learn_source source = {.file = file, .report = report, .kind = "normalizers", .complete = true};
    check_observations(&source, "obs_ema", true);
    check_observations(&source, "obs_full", false);
    for (int k = 0; learn_count(&source, learn_name("reward%d.raw", k).text); k++)
        check_rewards(&source, k);
    for (int k = 0; learn_count(&source, learn_name("value%d.u0.x", k).text); k++)
        check_values(&source, k);
}
