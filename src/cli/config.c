/* esper config: every key, its value and where that came from. */
#include <stdio.h>
#include <string.h>

#include "base/config_json.h"
#include "base/words.h"
#include "cli/cli.h"

/* Which keys are shown: all, those of `word` (a key, or a section such as "ppo"), those that differ from the defaults.
 */
struct choice {
    struct cli_config_flags flags;
    const char *word; /* NULL: all */
    bool changed, json;
    struct config defaults;
};

static bool is_named(const struct choice *choice, int key)
{
    const char *name = config_key_name(key);
    size_t length = choice->word ? strlen(choice->word) : 0;
    return !choice->word || (strncmp(name, choice->word, length) == 0 && (!name[length] || name[length] == '.'));
}

static bool is_shown(const struct choice *choice, const struct config *config, int key)
{
    return is_named(choice, key) && (!choice->changed || config_differ_in(key, config, &choice->defaults));
}

static enum esper_status check_word(const struct choice *choice, struct esper_error *error)
{
    const char *names[CONFIG_MAX_KEYS];
    int count = config_key_count();
    for (int key = 0; key < count; key++) {
        names[key] = config_key_name(key);
        if (is_named(choice, key))
            return ESPER_OK;
    }
    return error_set(error, ESPER_INVALID, "unknown key \"%.100s\"%s", choice->word,
                     word_hint(choice->word, names, count, "esper config").text);
}

/* A single key: its value first, then everything about it. */
static void print_key(const struct choice *choice, const struct config *config, int key)
{
    char value[CONFIG_TEXT], initial[CONFIG_TEXT], range[CONFIG_TEXT];
    config_format_exact(config, key, value);
    config_format_exact(&choice->defaults, key, initial);
    config_key_range(key, range);
    cli_print("%s = %s\n  %s\n  %s\n  from: %s; default: %s\n", config_key_name(key), value, config_key_help(key),
              range, config_origin_name((enum config_origin)config->origin[key]), *initial ? initial : "none");
}

static void print_table(const struct choice *choice, const struct config *config)
{
    int width = 3, widest = 5, shown = 0;
    char value[CONFIG_TEXT];
    for (int key = 0; key < config_key_count(); key++) {
        if (!is_shown(choice, config, key))
            continue;
        config_format_exact(config, key, value);
        int name = (int)strlen(config_key_name(key)), text = (int)strlen(value);
        width = name > width && name <= 34 ? name : width; /* a few long ones do not widen the column */
        widest = text > widest && text <= 32 ? text : widest;
    }
    for (int key = 0; key < config_key_count(); key++) {
        if (!is_shown(choice, config, key))
            continue;
        if (shown++ == 0)
            cli_print("%-*s %-*s %-8s %s\n", width, "key", widest, "value", "from", "meaning");
        config_format_exact(config, key, value);
        cli_print("%-*s %-*s %-8s %s\n", width, config_key_name(key), widest, value,
                  config_origin_name((enum config_origin)config->origin[key]), config_key_help(key));
    }
    if (shown == 0)
        cli_print("nothing differs from the defaults\n");
}

/* A flat object that --config takes. `task` is as the user gave it: a path stays a path. */
static enum esper_status print_json(const struct choice *choice, const struct config *config, struct esper_error *error)
{
    const char *task = choice->flags.task;
    cJSON *object = cJSON_CreateObject();
    for (int key = 0; key < config_key_count(); key++) {
        bool is_task = config_key_is(key, KEY_TASK);
        if (!is_shown(choice, config, key) || (is_task && !*config->task))
            continue;
        json_add(object, config_key_name(key),
                 is_task && task ? cJSON_CreateString(task) : config_value_json(config, key));
    }
    return cli_print_json(object, error);
}

static enum esper_status show(struct cli_call *call, struct esper_error *error)
{
    struct choice *choice = call->flags;
    struct config config;
    choice->word = call->words.items[0];
    config_defaults(&choice->defaults);
    TRY(check_word(choice, error));
    TRY(cli_config(&choice->flags, "quickstart", &config, error));
    int key = choice->word ? config_key_find(choice->word) : -1;
    if (choice->json)
        return print_json(choice, &config, error);
    if (key >= 0)
        print_key(choice, &config, key);
    else
        print_table(choice, &config);
    return ESPER_OK;
}

#define AT(member) offsetof(struct choice, member)
const struct cli_page config_page = {
    .usage = "config [KEY|SECTION] [options]",
    .about = "Every key of the configuration that `esper train` would use with the same options, its value and\n"
             "where that came from. Later sources win: default, task, file (--config), --set, flag. With KEY, only\n"
             "that one; with a section such as ppo, its keys.",
    .example = "esper config ppo --task cifar_baseline --set ppo.lr=1e-4",
    .options =
        (const struct cli_option[]){
            CLI_CONFIG_OPTIONS(AT(flags)),
            CLI_POLICY_OPTIONS(AT(flags)),
            {"changed", CLI_FLAG, NULL, AT(changed), "only keys that differ from the built-in defaults", 0, 0},
            {"json", CLI_FLAG, NULL, AT(json), "a JSON object that --config takes", 0, 0},
            {0}},
    .max_words = 1,
    .run = show,
    .flags_size = sizeof(struct choice),
};
