#include "base/config_json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/config_keys.h"

static cJSON *slots_json(const struct config *config)
{
    cJSON *list = cJSON_CreateArray();
    for (int i = 0; i < config->slot_count; i++)
        json_add_text(list, NULL, config->slots[i]);
    return list;
}

cJSON *config_value_json(const struct config *config, int key)
{
    char text[CONFIG_TEXT];
    config_format_exact(config, key, text);
    switch (config_keys[key].type) {
    case KEY_TEXT:
    case KEY_CHOICE:
        return cJSON_CreateString(text);
    case KEY_U64: /* a JSON number is exact up to 2^53 only */
        return strtoull(text, NULL, 10) > UINT64_C(1) << 53 ? cJSON_CreateString(text) : cJSON_CreateRaw(text);
    case KEY_INT:
    case KEY_REAL:
    case KEY_BOOL:
        return cJSON_CreateRaw(text);
    case KEY_SLOTS:
        return slots_json(config);
    }
    return NULL;
}

cJSON *config_to_json(const struct config *config)
{
    cJSON *object = cJSON_CreateObject();
    for (int key = 0; key < config_key_total; key++) {
        if (config_key_is(key, KEY_TASK) && !config->task[0])
            continue; /* a file with an empty task would name a task that does not exist */
        json_add(object, config_keys[key].name, config_value_json(config, key));
    }
    return object;
}

/* The text that --set would take, "" for a type that no key has. */
static void value_text(const cJSON *value, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    if (cJSON_IsString(value))
        snprintf(text, size, "%s", value->valuestring);
    else if (cJSON_IsNumber(value))
        snprintf(text, size, "%.17g", value->valuedouble);
    else if (cJSON_IsBool(value))
        snprintf(text, size, "%s", cJSON_IsTrue(value) ? "true" : "false");
    else if (cJSON_IsArray(value))
        for (const cJSON *item = value->child; item && cJSON_IsString(item) && used < size; item = item->next)
            used += (size_t)snprintf(text + used, size - used, "%s%s", used ? "," : "", item->valuestring);
}

enum esper_status config_from_json(struct config *config, const cJSON *object, struct esper_error *error)
{
    if (!cJSON_IsObject(object))
        return error_set(error, ESPER_INVALID, "a configuration must be an object, not %s", json_type_name(object));
    config_defaults(config);
    for (const cJSON *member = object->child; member; member = member->next) {
        char text[2 * CONFIG_TEXT]; /* longer than any text allowed, so that a cut one is still refused */
        value_text(member, text, sizeof text);
        if (strcmp(member->string, "task") == 0) { /* the name alone: every key of the task is here already */
            if (strlen(text) >= sizeof config->task)
                return error_set(error, ESPER_INVALID, "task: a name of at most %zu bytes", sizeof config->task - 1);
            memcpy(config->task, text, strlen(text) + 1);
        } else {
            TRY(config_set_value(config, member->string, text, ORIGIN_FILE, error));
        }
    }
    return ESPER_OK;
}
