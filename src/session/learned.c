#include "session/learned.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "session/checkpoint.h"

/* All but Adam's moments, which belong to the run's own path. */
static const char *const policy_rows[] = {
    "policy.w",
    "learner.obs_mean",
    "learner.obs_var",
    "learner.obs_updates",
    "learner.reward_count",
    "learner.reward_mean",
    "learner.reward_m2",
    "learner.value_shift",
    "learner.value_scale",
    "learner.value_updates",
};
enum { POLICY_ROWS = sizeof policy_rows / sizeof policy_rows[0] };

bool learned_is_file(const char *runs, const char *text)
{
    struct stat info;
    char path[PATH_MAX];
    struct esper_error ignored;
    return stat(text, &info) == 0 && !S_ISDIR(info.st_mode) && run_find(runs, text, path, &ignored) != ESPER_OK;
}

static enum esper_status absolute(const char *file, char path[PATH_MAX], struct esper_error *error)
{
    char *full = realpath(file, NULL);
    if (!full)
        return error_set(error, ESPER_FAILED, "%s: %s", file, strerror(errno));
    const int length = snprintf(path, PATH_MAX, "%s", full);
    free(full);
    return length < PATH_MAX ? ESPER_OK : error_set(error, ESPER_INVALID, "%.80s...: the path is too long", file);
}

enum esper_status learned_name(const char *runs, const char *text, char path[PATH_MAX], struct esper_error *error)
{
    return learned_is_file(runs, text) ? absolute(text, path, error) : run_find(runs, text, path, error);
}

enum esper_status learned_open_file(struct run *run, const char *path, struct esper_error *error)
{
    struct checkpoint_info info;
    *run = (struct run){.lock = -1};
    TRY(absolute(path, run->path, error));
    TRY(checkpoint_peek(run->path, &info, &run->config, error));
    run->config.evaluate = false; /* an evaluation would be of the policy of another run */
    const char *base = strrchr(run->path, '/') + 1;
    snprintf(run->name, sizeof run->name, "%.*s", (int)strcspn(base, "."), base);
    return ESPER_OK;
}

enum esper_status learned_find(const char *runs, const char *text, char path[PATH_MAX], struct config *config,
                               struct esper_error *error)
{
    char folder[PATH_MAX], found[PATH_MAX];
    struct checkpoint_info info;
    if (learned_is_file(runs, text)) {
        TRY(checkpoint_verify(text, &info, config, error));
    } else {
        TRY(run_find(runs, text, found, error));
        if (snprintf(folder, sizeof folder, "%s/checkpoints", found) >= (int)sizeof folder)
            return error_set(error, ESPER_INVALID, "%s: the path is too long", found);
        TRY(checkpoint_newest(folder, &info, NULL, error));
        if (config)
            TRY(checkpoint_peek(info.path, &info, config, error));
    }
    memcpy(path, info.path, PATH_MAX);
    return ESPER_OK;
}

enum esper_status learned_take(struct world *world, const char *path, struct esper_error *error)
{
    return checkpoint_read_rows(path, &world->table, policy_rows, POLICY_ROWS, error);
}

enum esper_status learned_export(const struct run *run, const char *path, struct esper_error *error)
{
    char source[PATH_MAX];
    struct checkpoint_info info;
    if (run->config.policy.kind != POLICY_PPO)
        return error_set(error, ESPER_INVALID, "%s: has learned no policy (policy.kind = ppo)", run->path);
    TRY(learned_find(".", run->path, source, NULL, error));
    return checkpoint_extract(source, path, policy_rows, POLICY_ROWS, &info, error);
}
