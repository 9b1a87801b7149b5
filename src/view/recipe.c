#include "view/recipe.h"

#include <stdlib.h>
#include <string.h>

#include "base/config.h"
#include "base/memory.h"
#include "telemetry/run_json.h"
#include "telemetry/run_plan.h"

/* Quoted so that a shell reads it back. */
static void put_word(FILE *file, const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-+,:=/@%";
    if (*word && !word[strspn(word, plain)]) {
        fputs(word, file);
        return;
    }
    putc('\'', file);
    for (; *word; word++)
        if (*word == '\'')
            fputs("'\\''", file);
        else
            putc(*word, file);
    putc('\'', file);
}

/* Files named relative to some directory become absolute; the run keeps a copy of its script or
 * schedules. */
static void find_file(const struct run *run, const char *key, char value[PATH_MAX])
{
    char path[PATH_MAX + 16], found[PATH_MAX];
    const bool schedules = strcmp(key, "policy.schedule") == 0;
    if (schedules && *value != '@')
        return; /* the schedule itself */
    snprintf(path, sizeof path, "%s", value);
    if (strcmp(key, "policy.script") == 0)
        snprintf(path, sizeof path, "%s/script.json", run->path);
    else if (schedules)
        snprintf(path, sizeof path, "%s/schedules.txt", run->path);
    if (realpath(path, found))
        snprintf(value, PATH_MAX, "%s%.*s", schedules ? "@" : "", PATH_MAX - 2, found);
}

static void put_settings(FILE *file, const struct run *run)
{
    struct config base;
    config_defaults(&base);
    if (config_load_task(&base, run->config.task, NULL) == ESPER_OK) {
        fputs(" --task ", file);
        put_word(file, run->config.task);
    } else { /* a user's own task file: all keys, relative to the defaults of `esper train` */
        config_defaults(&base);
        config_load_task(&base, "quickstart", NULL);
    }
    for (int key = 0; key < config_key_count(); key++) {
        char value[PATH_MAX], word[PATH_MAX + 128];
        const char *name = config_key_name(key);
        const bool settled = run->config.origin[key] == ORIGIN_DATA; /* as it will be again */
        if (config_key_is(key, KEY_UNTOLD) || settled || !config_differ_in(key, &run->config, &base))
            continue;
        config_format_exact(&run->config, key, value);
        if (config_key_is(key, KEY_FILE))
            find_file(run, name, value);
        snprintf(word, sizeof word, "%s=%s", name, value);
        fputs(" --set ", file);
        put_word(file, word);
    }
}

/* An evaluation uses what another run learned: its own command line says best which. */
static enum esper_status put_evaluation(FILE *file, const struct run *run, struct esper_error *error)
{
    char *command;
    TRY(run_json_command(run, &command, error));
    fputs(command, file);
    free(command);
    return ESPER_OK;
}

/* The update of a round reads the number of rounds: it may be changed at any moment within the round. */
static void put_stages(FILE *file, const struct run *run, const struct run_stage *stages, int count)
{
    for (int i = 1; i <= count; i++) {
        if (i < count && stages[i].from != (unsigned)stages[i - 1].rounds)
            fprintf(file, "   # stop it with Ctrl-C while it plays round %u", stages[i].from + 1);
        putc('\n', file);
        if (i == count)
            return;
        fputs("esper train --resume ", file);
        put_word(file, run->name);
        fprintf(file, " --rounds %d", stages[i].rounds);
    }
}

enum esper_status recipe_write(FILE *file, const struct run *run, bool *machines, struct esper_error *error)
{
    struct run_stage *stages;
    int count;
    TRY(run_plan_read(run, &stages, &count, error));
    enum esper_status status = ESPER_OK;
    *machines = false;
    for (int i = 0; i < count; i++)
        *machines = *machines || strcmp(stages[i].kernels, run->kernels) != 0 ||
                    strcmp(stages[i].version, run->version) != 0;
    if (run->config.evaluate) {
        status = put_evaluation(file, run, error);
    } else {
        fputs("esper train", file);
        put_settings(file, run);
        fprintf(file, " --rounds %d --name ", stages[0].rounds);
        put_word(file, run->name);
    }
    if (status == ESPER_OK)
        put_stages(file, run, stages, count);
    memory_free(stages);
    return status;
}
