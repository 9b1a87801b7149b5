/* Texts: JSON, configurations, scripts, schedules, requests. */
#include <string.h>

#include "base/config.h"
#include "base/json.h"
#include "base/memory.h"
#include "harness.h"
#include "policy/schedule.h"
#include "policy/script.h"
#include "view/serve_guard.h"

/* What is accepted prints and reads back as the same tree. */
bool harness_json(const uint8_t *data, size_t size)
{
    struct esper_error error = {0};
    cJSON *tree, *again;
    if (!harness_accepted(json_parse((const char *)data, size, &tree, &error), &error))
        return false;
    char *text = cJSON_PrintUnformatted(tree);
    PROMISE(text);
    PROMISE(json_parse(text, strlen(text), &again, &error) == ESPER_OK);
    PROMISE(cJSON_Compare(tree, again, true));
    cJSON_Delete(again);
    cJSON_free(text);
    cJSON_Delete(tree);
    return true;
}

static const struct config *defaults(void)
{
    static struct config config;
    static bool set;
    if (!set)
        config_defaults(&config);
    set = true;
    return &config;
}

/* What differs from the defaults can be printed and set again, key by key, to the same configuration. */
bool harness_config(const uint8_t *data, size_t size)
{
    struct config config = *defaults(), again = config;
    struct esper_error error = {0};
    if (!harness_accepted(config_load_file(&config, harness_file("config.json", data, size), &error), &error))
        return false;
    (void)harness_accepted(config_check(&config, &error), &error);
    for (int key = 1; key < config_key_count(); key++) { /* all but "task" */
        char text[CONFIG_TEXT], same[CONFIG_TEXT];
        config_format(&config, key, text);
        config_format(&again, key, same);
        if (strcmp(text, same) == 0)
            continue;
        PROMISE(config_set_value(&again, config_key_name(key), text, ORIGIN_FILE, &error) == ESPER_OK);
        config_format(&again, key, same);
        PROMISE(strcmp(text, same) == 0);
    }
    return true;
}

/* Every line is about an env and a step of the run, in order. */
bool harness_script(const uint8_t *data, size_t size)
{
    struct script script;
    struct esper_error error = {0};
    const struct config *config = defaults();
    if (!harness_accepted(script_load(&script, harness_file("script.json", data, size), config, &error), &error))
        return false;
    for (int i = 0; i < script.count; i++) {
        const struct script_line *line = &script.lines[i];
        PROMISE(line->step >= 1 && line->step <= config->steps && line->env >= -1 && line->env < config->envs);
        PROMISE(i == 0 || line->step >= line[-1].step);
        PROMISE(script_action(&script, line->step, line->env < 0 ? 0 : line->env).op < OP_COUNT);
    }
    script_free(&script);
    return true;
}

/* What is accepted has a text that is parsed to the same schedule. */
bool harness_schedule(const uint8_t *data, size_t size)
{
    struct schedule schedule = {0}, again = {0};
    struct esper_error error = {0};
    char text[SCHEDULE_TEXT];
    const struct config *config = defaults();
    if (!harness_accepted(schedule_parse(&schedule, harness_text(data, size), config, &error), &error))
        return false;
    schedule_format(&schedule, config, text, sizeof text);
    PROMISE(schedule_parse(&again, text, config, &error) == ESPER_OK);
    PROMISE(memcmp(&schedule, &again, sizeof schedule) == 0);
    return true;
}

/* A target that passes names nothing outside, and no header or form overruns what it is copied to. */
bool harness_request(const uint8_t *data, size_t size)
{
    static const char *const names[] = {"lab.example"};
    const char *text = harness_text(data, size);
    char value[GUARD_TOKEN];
    const bool passes = guard_target(text) == 0;
    if (passes) {
        const size_t path = strcspn(text, "?");
        const char *up = strstr(text, "..");
        PROMISE(text[0] == '/' && strlen(text) <= GUARD_TARGET && !strchr(text, '\\'));
        PROMISE(!up || (size_t)(up - text) >= path);
    }
    (void)guard_is_loopback(text);
    (void)guard_host(text, false, names, 1);
    if (guard_host(text, true, names, 1))
        (void)guard_origin(text, text);
    PROMISE(guard_equal(text, text));
    if (guard_cookie(text, "esper", value, sizeof value))
        PROMISE(strlen(value) < sizeof value);
    if (guard_form_field(text, "token", value, sizeof value))
        PROMISE(strlen(value) < sizeof value);
    return passes;
}
