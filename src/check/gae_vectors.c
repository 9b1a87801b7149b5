#include "check/gae_vectors.h"

#include <math.h>

#include "base/memory.h"
#include "check/learn_vectors.h"
#include "learn/normalise.h"

enum { MAX_SIDE = 4096, MAX_CELLS = 1 << 20 };

bool gae_case_make(struct learn_source *source, struct gae_case *it, size_t envs, size_t steps)
{
    const size_t cells = envs * steps;
    *it = (struct gae_case){.envs = envs, .steps = steps};
    it->flags = learn_memory(source, cells, 1);
    it->advantage = learn_memory(source, cells, sizeof(float));
    it->returns = learn_memory(source, cells, sizeof(float));
    it->td_error = learn_memory(source, cells, sizeof(float));
    it->normalised = learn_memory(source, cells, sizeof(float));
    return it->flags && it->advantage && it->returns && it->td_error && it->normalised;
}

void gae_case_free(struct gae_case *it)
{
    memory_free(it->flags);
    memory_free(it->advantage);
    memory_free(it->returns);
    memory_free(it->td_error);
    memory_free(it->normalised);
}

bool gae_case_flags(struct learn_source *source, struct gae_case *it, const char *prefix)
{
    const size_t cells = it->envs * it->steps;
    const int32_t *count = learn_integers(source, learn_name("%ssteps", prefix).text, it->envs);
    const uint8_t *done = learn_bytes(source, learn_name("%sdone", prefix).text, cells);
    const uint8_t *truncated = learn_bytes(source, learn_name("%struncated", prefix).text, cells);
    for (size_t env = 0; count && done && truncated && env < it->envs; env++) {
        for (size_t t = 0; t < it->steps && (int32_t)t < count[env]; t++) {
            const size_t i = env * it->steps + t;
            const bool last = (int32_t)t == count[env] - 1;
            it->flags[i] = ROW_VALID;
            if (truncated[i])
                it->flags[i] |= last ? ROW_TRUNCATED | ROW_DONE : 0;
            else if (done[i])
                it->flags[i] |= ROW_DONE;
            it->valid++;
        }
    }
    return count && done && truncated && it->valid > 0;
}

/* Between [env][step] and [step][env]. */
static void turn(float *to, const float *from, size_t rows, size_t columns)
{
    for (size_t i = 0; i < rows * columns; i++)
        to[i % columns * rows + i / columns] = from[i];
}

static void gae_case_estimate(struct learn_source *source, struct gae_case *it, const struct gae_rates *rates,
                              const float *const in[3])
{
    enum { ARRAYS = 6 };
    const size_t cells = it->envs * it->steps;
    float *const out[] = {it->advantage, it->returns, it->td_error};
    uint8_t *flags = learn_memory(source, cells, 1);
    float *turned = learn_memory(source, ARRAYS * cells, sizeof *turned), *at[ARRAYS];
    for (size_t k = 0; turned && k < ARRAYS; k++) {
        at[k] = turned + k * cells;
        if (k < 3)
            turn(at[k], in[k], it->envs, it->steps);
    }
    for (size_t i = 0; flags && i < cells; i++)
        flags[i % it->steps * it->envs + i / it->steps] = it->flags[i];
    if (flags && turned) {
        struct update_trial trial = {.part = UPDATE_ADVANTAGES,
                                     .envs = (int)it->envs,
                                     .steps = (int)it->steps,
                                     .rates = *rates,
                                     .rows = {flags, at[0], at[1], at[2], at[3], at[4], at[5]}};
        source->kernels->run(&trial);
        for (size_t k = 0; k < 3; k++)
            turn(out[k], at[3 + k], it->steps, it->envs);
    }
    memory_free(flags);
    memory_free(turned);
}

void gae_case_run(struct learn_source *source, struct gae_case *it, const struct gae_rates *rates, const float *reward,
                  const float *value, const float *bootstrap)
{
    struct moments moments = {0, 0, 0};
    const float *const in[] = {reward, value, bootstrap};
    gae_case_estimate(source, it, rates, in);
    for (size_t i = 0; i < it->envs * it->steps; i++)
        if (it->flags[i])
            moments_add(&moments, (double)it->advantage[i]);
    it->mean = moments.mean;
    it->std = sqrt(moments_variance(moments));
    for (size_t i = 0; i < it->envs * it->steps; i++)
        it->normalised[i] = it->flags[i] ? (float)advantage_normalise((double)it->advantage[i], it->mean, it->std) : 0;
}

void gae_case_compare(struct learn_source *source, const struct gae_case *it, const char *prefix)
{
    const struct {
        const char *name;
        const float *got;
    } parts[] = {{"advantage", it->advantage},
                 {"return", it->returns},
                 {"td_error", it->td_error},
                 {"advantage_norm", it->normalised}};
    for (size_t k = 0; k < sizeof parts / sizeof parts[0]; k++) {
        const struct learn_name name = learn_name("%s%s", prefix, parts[k].name);
        const float *want = learn_floats(source, name.text, it->envs * it->steps);
        if (want)
            learn_compare_floats(source, name.text, parts[k].got, want, it->envs * it->steps, 0, 1e-5);
    }
}

bool gae_case_size(struct learn_source *source, const char *name, size_t *envs, size_t *steps)
{
    const struct st_tensor *tensor = st_find(source->file, name);
    if (!tensor || tensor->dims != 2 || tensor->count == 0 || tensor->shape[0] > MAX_SIDE ||
        tensor->shape[1] > MAX_SIDE || tensor->count > MAX_CELLS) {
        learn_fail(source, name, tensor ? "should be a table [env][step]" : "missing");
        return false;
    }
    *envs = tensor->shape[0];
    *steps = tensor->shape[1];
    return true;
}

void check_gae(struct learn_source *source, int number)
{
    const struct learn_name prefix = learn_name("gae%d.", number), moments = learn_name("gae%d.mean_std", number);
    size_t envs, steps;
    if (!gae_case_size(source, learn_name("%sreward", prefix.text).text, &envs, &steps))
        return;
    struct gae_case it;
    const float *reward = learn_floats(source, learn_name("%sreward", prefix.text).text, envs * steps);
    const float *value = learn_floats(source, learn_name("%svalue", prefix.text).text, envs * steps);
    const float *bootstrap = learn_floats(source, learn_name("%sbootstrap", prefix.text).text, envs * steps);
    const float *rates = learn_floats(source, learn_name("%sgamma_lambda_scale", prefix.text).text, 3);
    const float *want = learn_floats(source, moments.text, 2);
    if (gae_case_make(source, &it, envs, steps) && gae_case_flags(source, &it, prefix.text) && reward && value &&
        bootstrap && rates && want) {
        const struct gae_rates used = {(double)rates[0], (double)rates[1], 0, (double)rates[2]};
        gae_case_run(source, &it, &used, reward, value, bootstrap);
        gae_case_compare(source, &it, prefix.text);
        const double got[] = {it.mean, it.std};
        learn_compare(source, moments.text, got, want, 2, 0, 1e-5);
    }
    gae_case_free(&it);
}
