#include "cli/sweep_plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/json.h"
#include "cli/drive.h"
#include "cli/series.h"

/* ---- options ----------------------------------------------------------------------------------------------------- */

/* KEY=... */
static enum esper_status split(const char *option, const char *text, char key[64], const char **rest,
                               struct esper_error *error)
{
    const size_t length = strcspn(text, "=");
    if (text[length] != '=' || length == 0 || length >= 64 || !text[length + 1])
        return error_set(error, ESPER_INVALID, "--%s %.80s: write --%s %s", option, text, option,
                         strcmp(option, "grid") == 0 ? "KEY=A,B,C, for example --grid ppo.lr=1e-4,1e-3"
                                                     : "KEY=A..B, for example --range ppo.lr=log:1e-4..1e-2");
    memcpy(key, text, length);
    key[length] = '\0';
    *rest = text + length + 1;
    return ESPER_OK;
}

static enum esper_status add_values(struct sweep *sweep, const char *text, struct esper_error *error)
{
    char key[64], value[CONFIG_TEXT];
    const char *at;
    TRY(split("grid", text, key, &at, error));
    TRY(sweep_add_list(sweep, key, error));
    for (;; at++) {
        const size_t span = strcspn(at, ",");
        snprintf(value, sizeof value, "%.*s", (int)span, at);
        TRY(sweep_add_value(sweep, key, value, error));
        at += span;
        if (!*at)
            return ESPER_OK;
    }
}

static enum esper_status add_axes(struct sweep *sweep, const struct plan_flags *flags, struct esper_error *error)
{
    char key[64];
    const char *rest;
    for (int i = 0; i < flags->grid.count; i++)
        if (add_values(sweep, flags->grid.items[i], error) != ESPER_OK)
            return strncmp(error->text, "--", 2) == 0 ? error->status : error_where(error, "--grid");
    for (int i = 0; i < flags->ranges.count; i++) {
        TRY(split("range", flags->ranges.items[i], key, &rest, error));
        if (sweep_add_range(sweep, key, rest, error) != ESPER_OK)
            return error_where(error, "--range");
    }
    return ESPER_OK;
}

/* ---- a file ------------------------------------------------------------------------------------------------------ */

/* "KEY=VALUE" as --set has it. Release with free. */
static char *set_text(const cJSON *item)
{
    char *value = cJSON_IsString(item) ? NULL : cJSON_PrintUnformatted(item), *text = NULL;
    const char *shown = value ? value : item->valuestring;
    if (shown && asprintf(&text, "%s=%s", item->string, shown) < 0)
        text = NULL;
    cJSON_free(value);
    return text;
}

/* The file's keys come before the command line's --set. `made` holds what is to be released. */
static enum esper_status take_sets(struct cli_list *sets, const cJSON *file, struct cli_list *made,
                                   struct esper_error *error)
{
    const struct cli_list given = *sets;
    const cJSON *list = NULL;
    if (json_find(file, "set"))
        TRY(json_get_object(file, "set", &list, error));
    sets->count = 0;
    for (const cJSON *item = list ? list->child : NULL; item; item = item->next) {
        if (sets->count + given.count >= CLI_MAX_LIST)
            return error_set(error, ESPER_INVALID, "\"set\": at most %d keys are allowed", CLI_MAX_LIST);
        char *text = set_text(item);
        if (!text)
            return error_set(error, ESPER_FAILED, "out of memory while reading the plan");
        made->items[made->count++] = text;
        sets->items[sets->count++] = text;
    }
    for (int i = 0; i < given.count; i++)
        sets->items[sets->count++] = given.items[i];
    return ESPER_OK;
}

/* ---- the plan ---------------------------------------------------------------------------------------------------- */

/* What the command line says counts more than a file. */
static enum esper_status override(struct sweep *sweep, const struct plan_flags *flags, const char *seeds,
                                  struct esper_error *error)
{
    sweep->random = flags->random ? flags->random : sweep->random;
    sweep->halving = flags->halving ? flags->halving : sweep->halving;
    sweep->first_rung = flags->first_rung ? flags->first_rung : sweep->first_rung;
    seeds = flags->seeds ? flags->seeds : seeds;
    if (seeds)
        TRY(sweep_set_seeds(sweep, seeds, error));
    if (flags->objective && sweep_set_objective(sweep, flags->objective, error) != ESPER_OK)
        return error_where(error, "--objective");
    return add_axes(sweep, flags, error);
}

/* Whoever works on the folder may have been started elsewhere: files and runs are named by their whole path. */
static enum esper_status name_files(struct config *config, struct esper_error *error)
{
    for (int key = 0; key < config_key_count(); key++) {
        char text[CONFIG_TEXT], whole[PATH_MAX + 1] = "@";
        if (!config_key_is(key, KEY_FILE))
            continue;
        config_format_exact(config, key, text);
        const bool at = text[0] == '@'; /* a file of schedules */
        if (text[at] && text[at] != '/' && realpath(text + at, whole + 1) && strlen(whole) < CONFIG_TEXT)
            TRY(config_set_value(config, config_key_name(key), whole + !at, ORIGIN_FLAG, error));
    }
    return ESPER_OK;
}

/* `file` may be NULL. */
static enum esper_status build(struct sweep *sweep, struct plan_flags *flags, const char *runs,
                               const struct cli_list *words, const cJSON *file, struct esper_error *error)
{
    struct cli_list made = {0};
    const char *task = NULL, *seeds = NULL;
    if (file) {
        TRY(json_check_keys(file, sweep_words, sweep_word_count, error));
        if (json_find(file, "task"))
            TRY(json_get_string(file, "task", &task, error));
        if (json_find(file, "seeds"))
            TRY(json_get_string(file, "seeds", &seeds, error));
    }
    flags->config.task = flags->config.task ? flags->config.task : task;
    enum esper_status status = file ? take_sets(&flags->config.sets, file, &made, error) : ESPER_OK;
    if (status == ESPER_OK)
        status = series_task(&flags->config, words, &sweep->base, error);
    for (int i = 0; i < made.count; i++)
        free((void *)made.items[i]);
    TRY(status);
    TRY(drive_find_from(runs, &sweep->base, error));
    TRY(name_files(&sweep->base, error));
    if (file)
        TRY(sweep_read_words(sweep, file, error));
    TRY(override(sweep, flags, seeds, error));
    return sweep_complete(sweep, error);
}

static bool is_file(const char *path)
{
    struct stat info;
    const size_t length = strlen(path);
    return (length > 5 && strcmp(path + length - 5, ".json") == 0) || (stat(path, &info) == 0 && S_ISREG(info.st_mode));
}

enum esper_status plan_make(struct sweep *sweep, struct plan_flags *flags, const char *runs,
                            const struct cli_list *words, struct esper_error *error)
{
    const char *word = words->count ? words->items[0] : NULL;
    const struct cli_list none = {0};
    struct stat info;
    cJSON *file;
    if (word && stat(word, &info) == 0 && S_ISDIR(info.st_mode))
        return error_set(error, ESPER_INVALID, "%s: no folder of a sweep, it holds no sweep.json", word);
    if (!word || !is_file(word))
        return build(sweep, flags, runs, words, NULL, error);
    TRY(json_read_file(word, &file, error));
    enum esper_status status = build(sweep, flags, runs, &none, file, error);
    cJSON_Delete(file);
    return status == ESPER_OK ? status : error_where(error, "%s", word);
}

/* ---- a folder ---------------------------------------------------------------------------------------------------- */

enum esper_status plan_refuse(const struct plan_flags *flags, const char *folder, struct esper_error *error)
{
    const struct cli_config_flags *f = &flags->config;
    const struct {
        const char *option;
        bool given;
    } fixed[] = {{"task", f->task},
                 {"config", f->file},
                 {"set", f->sets.count},
                 {"envs", f->envs},
                 {"steps", f->steps},
                 {"rounds", f->rounds},
                 {"seed", f->seed},
                 {"precision", f->precision},
                 {"policy", f->policy},
                 {"script", f->script},
                 {"schedule", f->schedule},
                 {"from", f->from},
                 {"grid", flags->grid.count},
                 {"range", flags->ranges.count},
                 {"random", flags->random},
                 {"halving", flags->halving},
                 {"seeds", flags->seeds},
                 {"first-rung", flags->first_rung},
                 {"objective", flags->objective},
                 {"name", flags->name}};
    for (size_t i = 0; i < sizeof fixed / sizeof fixed[0]; i++)
        if (fixed[i].given)
            return error_set(error, ESPER_INVALID,
                             "--%s: %.200s has its plan; only --threads, --device and what is shown may be chosen",
                             fixed[i].option, folder);
    return ESPER_OK;
}

bool plan_find_folder(const char *runs, const char *word, char folder[SWEEP_FOLDER])
{
    snprintf(folder, SWEEP_FOLDER, "%s", word);
    for (size_t end = strlen(folder); end > 1 && folder[end - 1] == '/';)
        folder[--end] = '\0';
    if (sweep_is_folder(folder))
        return true;
    return snprintf(folder, SWEEP_FOLDER, "%s/%s", runs, word) < SWEEP_FOLDER && sweep_is_folder(folder);
}
