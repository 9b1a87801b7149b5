#include "policy/script.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/memory.h"
#include "base/words.h"
#include "morph/family.h"

/* The index of a word among `count` of them; the error message suggests the nearest. */
static enum esper_status pick_word(const cJSON *line, const char *key, const char *const *words, int count,
                                   uint8_t *out, struct esper_error *error)
{
    const char *text;
    TRY(json_get_string(line, key, &text, error));
    for (int i = 0; i < count; i++)
        if (strcmp(words[i], text) == 0) {
            *out = (uint8_t)i;
            return ESPER_OK;
        }
    return error_set(error, ESPER_INVALID, "%s \"%.60s\" is unknown%s", key, text,
                     word_hint(text, words, count, NULL).text);
}

/* The same for the words that `name_of` gives. */
enum { NAMES_MAX = 16 };
static enum esper_status pick_name(const cJSON *line, const char *key, const char *(*name_of)(int), int count,
                                   uint8_t *out, struct esper_error *error)
{
    const char *names[NAMES_MAX];
    for (int i = 0; i < count; i++)
        names[i] = name_of(i);
    return pick_word(line, key, names, count, out, error);
}

static enum esper_status pick_blueprint(const cJSON *line, const struct config *config, uint8_t *out,
                                        struct esper_error *error)
{
    const struct blueprint_list list = family_list(host_family_of(config));
    uint8_t place;
    TRY(pick_word(line, "blueprint", list.name, list.count, &place, error));
    *out = list.number[place];
    return ESPER_OK;
}

/* The index of a number among the values that a head allows. */
static enum esper_status pick_value(const cJSON *line, const char *key, double (*value_of)(int), int count,
                                    uint8_t *out, struct esper_error *error)
{
    double value;
    char offered[80] = "";
    TRY(json_get_number(line, key, -1e9, 1e9, &value, error));
    for (int i = 0; i < count; i++) {
        if (fabs(value_of(i) - value) < 1e-6) {
            *out = (uint8_t)i;
            return ESPER_OK;
        }
        size_t used = strlen(offered);
        snprintf(offered + used, sizeof offered - used, "%s%g", i ? ", " : "", value_of(i));
    }
    return error_set(error, ESPER_INVALID, "%s %g is not offered; choose one of %s", key, value, offered);
}

static double tempo_value(int head)
{
    return tempo_steps(head);
}

static double target_value(int head)
{
    return (double)alpha_target_value(head);
}

static double speed_value(int head)
{
    return alpha_speed_steps(head);
}

static int find_slot(const struct config *config, const char *id)
{
    for (int i = 0; i < config->slot_count; i++)
        if (strcmp(id, config->slots[i]) == 0)
            return i;
    return -1;
}

/* One error for all slots that the script uses and the task lacks, with the option that adds them. */
static enum esper_status check_slots(const cJSON *list, const struct config *config, struct esper_error *error)
{
    struct config wider = *config;
    char missing[CONFIG_TEXT] = "", slots[CONFIG_TEXT] = "";
    int row, column, count = 0;
    const cJSON *line;
    cJSON_ArrayForEach(line, list)
    {
        const cJSON *slot = cJSON_IsObject(line) ? json_find(line, "slot") : NULL;
        if (!slot || !cJSON_IsString(slot) || !config_parse_slot(slot->valuestring, &row, &column) ||
            find_slot(&wider, slot->valuestring) >= 0 || wider.slot_count == CONFIG_MAX_SLOTS)
            continue;
        size_t used = strlen(missing);
        snprintf(missing + used, sizeof missing - used, "%s%s", used ? ", " : "", slot->valuestring);
        snprintf(wider.slots[wider.slot_count++], sizeof wider.slots[0], "%s", slot->valuestring);
        count++;
    }
    if (count == 0)
        return ESPER_OK;
    for (int i = 0; i < wider.slot_count; i++) {
        size_t used = strlen(slots);
        snprintf(slots + used, sizeof slots - used, "%s%s", used ? "," : "", wider.slots[i]);
    }
    struct esper_error refused;
    if (config_check(&wider, &refused) != ESPER_OK)
        return error_set(error, ESPER_INVALID, "uses the slot%s %s; %.300s", count == 1 ? "" : "s", missing,
                         refused.text);
    return error_set(error, ESPER_INVALID, "uses the slot%s %s, which the task lacks; add %s with --set slots=%s",
                     count == 1 ? "" : "s", missing, count == 1 ? "it" : "them", slots);
}

static enum esper_status read_slot(const cJSON *line, const struct config *config, uint8_t *out,
                                   struct esper_error *error)
{
    const char *text;
    TRY(json_get_string(line, "slot", &text, error));
    int slot = find_slot(config, text);
    if (slot < 0)
        return error_set(error, ESPER_INVALID, "slot \"%.60s\" is not a slot; slots are named like r0c0 or r1c2", text);
    *out = (uint8_t)slot;
    return ESPER_OK;
}

static enum esper_status read_line(const cJSON *line, const struct config *config, struct script_line *out,
                                   struct esper_error *error)
{
    static const char *const keys[] = {"step",  "env",   "op",     "slot",  "blueprint",
                                       "style", "tempo", "target", "speed", "curve"};
    struct action *action = &out->action;
    int64_t number;
    if (!cJSON_IsObject(line))
        return error_set(error, ESPER_INVALID, "is %s; every entry is an object such as {\"step\": 1, \"op\": ...}",
                         json_type_name(line));
    TRY(json_check_keys(line, keys, (int)(sizeof keys / sizeof keys[0]), error));
    TRY(json_get_integer(line, "step", 1, config->steps, &number, error));
    out->step = (int)number;
    out->env = -1;
    if (json_find(line, "env")) {
        TRY(json_get_integer(line, "env", 0, config->envs - 1, &number, error));
        out->env = (int)number;
    }
    /* tempo 5, target 1.0, speed 3 and a linear curve unless the line says otherwise */
    *action = (struct action){.style = STYLE_LINEAR_ADD, .tempo = 1, .alpha_target = 2, .alpha_speed = 1};
    TRY(pick_name(line, "op", op_name, OP_COUNT, &action->op, error));
    if (action->op != OP_WAIT)
        TRY(read_slot(line, config, &action->slot, error));
    if (action->op == OP_GERMINATE || json_find(line, "blueprint"))
        TRY(pick_blueprint(line, config, &action->blueprint, error));
    if (json_find(line, "style"))
        TRY(pick_name(line, "style", style_name, STYLE_COUNT, &action->style, error));
    if (json_find(line, "tempo"))
        TRY(pick_value(line, "tempo", tempo_value, TEMPO_COUNT, &action->tempo, error));
    if (json_find(line, "target"))
        TRY(pick_value(line, "target", target_value, ALPHA_TARGET_COUNT, &action->alpha_target, error));
    if (json_find(line, "speed"))
        TRY(pick_value(line, "speed", speed_value, ALPHA_SPEED_COUNT, &action->alpha_speed, error));
    if (json_find(line, "curve"))
        TRY(pick_name(line, "curve", alpha_curve_name, ALPHA_CURVE_COUNT, &action->alpha_curve, error));
    return ESPER_OK;
}

static int by_step(const void *a, const void *b)
{
    const struct script_line *x = a, *y = b;
    return x->step != y->step ? (x->step > y->step) - (x->step < y->step) : (x->env > y->env) - (x->env < y->env);
}

/* Lines are sorted by step, those for all envs first: a clash is between neighbours or with such a line. */
static enum esper_status check_clashes(const struct script *script, struct esper_error *error)
{
    for (int i = 1, all = 0; i < script->count; i++) {
        const struct script_line *line = &script->lines[i], *before = &script->lines[i - 1];
        all = line->step == before->step ? all || before->env < 0 : 0;
        if (line->step == before->step && (all || line->env == before->env))
            return error_set(error, ESPER_INVALID,
                             "two actions for one env at step %d; an env takes one action per step", line->step);
    }
    return ESPER_OK;
}

static enum esper_status read_lines(struct script *script, const cJSON *list, const struct config *config,
                                    struct esper_error *error)
{
    if (!cJSON_IsArray(list))
        return error_set(error, ESPER_INVALID, "is %s; a script is a list of actions", json_type_name(list));
    TRY(check_slots(list, config, error));
    int count = cJSON_GetArraySize(list);
    script->lines = memory_alloc((size_t)count + 1, sizeof *script->lines, error);
    if (!script->lines)
        return ESPER_FAILED;
    const cJSON *line;
    cJSON_ArrayForEach(line, list)
    {
        if (read_line(line, config, &script->lines[script->count], error) != ESPER_OK)
            return error_where(error, "action %d", script->count + 1);
        script->count++;
    }
    qsort(script->lines, (size_t)count, sizeof *script->lines, by_step);
    return check_clashes(script, error);
}

enum esper_status script_load(struct script *script, const char *path, const struct config *config,
                              struct esper_error *error)
{
    cJSON *list = NULL;
    *script = (struct script){0};
    TRY(json_read_file(path, &list, error));
    enum esper_status status = read_lines(script, list, config, error);
    cJSON_Delete(list);
    if (status != ESPER_OK) {
        error_where(error, "%s", path);
        script_free(script);
    }
    return status;
}

void script_free(struct script *script)
{
    memory_free(script->lines);
    *script = (struct script){0};
}

struct action script_action(const struct script *script, int step, int env)
{
    struct action wait = {.op = OP_WAIT};
    for (int i = 0; i < script->count && script->lines[i].step <= step; i++)
        if (script->lines[i].step == step && (script->lines[i].env < 0 || script->lines[i].env == env))
            return script->lines[i].action;
    return wait;
}
