#include "exam/policies.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "telemetry/run.h"

static int is_training(const struct dirent *entry)
{
    static const char word[] = "training";
    return strncmp(entry->d_name, word, sizeof word - 1) == 0 &&
           strlen(entry->d_name) < sizeof((struct exam_policy *)0)->run;
}

/* They make one team: what is said of them is said of policies that were trained alike. */
static enum esper_status add_run(struct exam_policies *out, const struct run *run, struct esper_error *error)
{
    const struct config *config = &run->config;
    if (config->policy.kind != POLICY_PPO || config->evaluate)
        return error_set(error, ESPER_INVALID, "%s: has learned no policy", run->path);
    if (out->count == 0)
        out->config = *config;
    for (int i = 0; i < out->count; i++)
        if (out->policy[i].seed == config->seed)
            return error_set(error, ESPER_INVALID,
                             "%s: its trainings are for a price each; take an exam of one price, or one whose episodes "
                             "draw theirs (mixed.price_least)",
                             out->folder);
    struct exam_policy *policy = &out->policy[out->count++];
    snprintf(policy->run, sizeof policy->run, "%.47s", run->name); /* is_training saw to the length */
    policy->seed = config->seed;
    return ESPER_OK;
}

static enum esper_status add_entries(struct exam_policies *out, struct dirent **entries, int count,
                                     struct esper_error *error)
{
    for (int i = 0; i < count && out->count < EXAM_SEEDS; i++) {
        char path[PATH_MAX];
        struct run run;
        snprintf(path, sizeof path, "%s/%.47s", out->folder, entries[i]->d_name);
        TRY(run_open(&run, ".", path, error));
        const enum esper_status status = add_run(out, &run, error);
        run_close(&run);
        TRY(status);
    }
    return ESPER_OK;
}

/* How many trainings there were; 0: it is no such folder. */
static int look_into(struct exam_policies *out, const char *folder, enum esper_status *status,
                     struct esper_error *error)
{
    struct dirent **entries = NULL;
    const int used = snprintf(out->folder, sizeof out->folder, "%s", folder),
              count = used < (int)sizeof out->folder ? scandir(folder, &entries, is_training, NULL) : 0;
    if (count > 0)
        *status = add_entries(out, entries, count, error);
    for (int i = 0; i < count; i++)
        free(entries[i]);
    free(entries);
    return count > 0 ? count : 0;
}

static int by_seed(const void *a, const void *b)
{
    const struct exam_policy *x = a, *y = b;
    return (x->seed > y->seed) - (x->seed < y->seed);
}

enum esper_status exam_find_policies(struct exam_policies *out, const char *runs, const char *text, int most,
                                     struct esper_error *error)
{
    char below[PATH_MAX];
    enum esper_status status = ESPER_OK;
    *out = (struct exam_policies){0};
    snprintf(below, sizeof below, "%s/%s", runs, text);
    if (look_into(out, text, &status, error) == 0 && look_into(out, below, &status, error) == 0)
        return error_set(error, ESPER_INVALID,
                         "--policies %.100s: no folder of an exam with trainings, neither here nor in %.100s", text,
                         runs);
    TRY(status);
    if (out->count < most)
        return error_set(error, ESPER_INVALID, "--seeds %d: %s has %d training%s", most, out->folder, out->count,
                         out->count == 1 ? "" : "s");
    qsort(out->policy, (size_t)out->count, sizeof out->policy[0], by_seed);
    out->count = most ? most : out->count;
    return ESPER_OK;
}
