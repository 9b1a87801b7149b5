#include "check/reward_case.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "morph/stage.h"

void case_complain(struct reward_case *c, const char *what, const char *key)
{
    if (!c->problem[0])
        snprintf(c->problem, sizeof c->problem, "%s: %.80s", what, key);
}

const cJSON *case_member(struct reward_case *c, const cJSON *object, const char *key)
{
    const cJSON *value = object ? json_find(object, key) : NULL;
    if (!value)
        case_complain(c, "missing", key);
    return value;
}

/* A number; null is NAN, a boolean 0 or 1. */
double case_value(struct reward_case *c, const cJSON *value, const char *key)
{
    if (value && cJSON_IsNumber(value))
        return value->valuedouble;
    if (cJSON_IsBool(value))
        return cJSON_IsTrue(value) ? 1 : 0;
    if (value && !cJSON_IsNull(value))
        case_complain(c, "not a number", key);
    return (double)NAN;
}

double case_number(struct reward_case *c, const cJSON *object, const char *key)
{
    return case_value(c, case_member(c, object, key), key);
}

/* A count, or a default where the file says null. */
int case_integer(struct reward_case *c, const cJSON *object, const char *key, int null_value)
{
    double value = case_number(c, object, key);
    if (isnan(value))
        return null_value;
    if (fabs(value) > 1e9 || value != floor(value)) {
        case_complain(c, "not a whole number", key);
        return null_value;
    }
    return (int)value;
}

const char *case_text(struct reward_case *c, const cJSON *object, const char *key)
{
    const cJSON *value = case_member(c, object, key);
    if (value && !cJSON_IsString(value))
        case_complain(c, "not a string", key);
    return cJSON_IsString(value) ? value->valuestring : "";
}

const cJSON *case_list(struct reward_case *c, const cJSON *object, const char *key, int least, int most)
{
    const cJSON *value = case_member(c, object, key);
    int count = cJSON_GetArraySize(value);
    if (value && (!cJSON_IsArray(value) || count < least || count > most))
        case_complain(c, "not a list of the right length", key);
    return value;
}

double case_item(struct reward_case *c, const cJSON *values, int index)
{
    const cJSON *value = cJSON_GetArrayItem(values, index);
    if (!value)
        case_complain(c, "missing", "an element of a list");
    return case_value(c, value, "an element of a list");
}

/* The numbers of a list; the caller frees them. */
double *case_numbers(struct reward_case *c, const cJSON *object, const char *key, int *count)
{
    const cJSON *values = case_list(c, object, key, 0, 1 << 24);
    *count = c->problem[0] ? 0 : cJSON_GetArraySize(values);
    double *out = calloc((size_t)*count + 1, sizeof *out);
    const cJSON *value = values ? values->child : NULL;
    if (!out)
        *count = 0;
    for (int i = 0; value && i < *count; i++, value = value->next)
        out[i] = case_value(c, value, key);
    return out;
}

void case_compare_within(struct reward_case *c, const char *name, double got, double want, double tolerance)
{
    double error = got == want || (isnan(got) && isnan(want)) ? 0 : fabs(got - want) / fmax(1, fabs(want)) / tolerance;
    if (isnan(error))
        error = INFINITY;
    if (error > c->worst) {
        c->worst = error;
        snprintf(c->worst_at, sizeof c->worst_at, "%s", name);
    }
}

void case_compare(struct reward_case *c, const cJSON *object, const char *key, double got)
{
    case_compare_within(c, key, got, case_number(c, object, key), CASE_TOLERANCE);
}

void case_compare_list(struct reward_case *c, const cJSON *object, const char *key, const double *got, int count)
{
    const cJSON *values = case_list(c, object, key, count, count);
    for (int i = 0; i < count && !c->problem[0]; i++)
        case_compare_within(c, key, got[i], case_item(c, values, i), CASE_TOLERANCE);
}

int case_op(struct reward_case *c, const cJSON *object, const char *key)
{
#define NAMED(with, NAME, name) #NAME,
    static const char *const names[OP_COUNT] = {OPS(NAMED, )};
#undef NAMED
    const char *name = case_text(c, object, key);
    for (int op = 0; op < OP_COUNT; op++)
        if (strcmp(name, names[op]) == 0)
            return op;
    case_complain(c, "unknown op", name);
    return OP_WAIT;
}

/* Mode and the fields that differ from their defaults, by the keys a user would set. */
void case_configure(struct reward_case *c)
{
    struct esper_error error;
    config_defaults(&c->config);
    c->config.reward.rules = REWARD_RULES_ORIGINAL;
    const cJSON *mode = case_member(c, c->json, "mode"), *fields = case_member(c, c->json, "config");
    if (cJSON_IsString(mode) &&
        config_set_value(&c->config, "reward.mode", mode->valuestring, ORIGIN_FILE, &error) != ESPER_OK)
        case_complain(c, "mode", error.text);
    for (const cJSON *field = fields ? fields->child : NULL; field; field = field->next) {
        char key[96], value[64];
        snprintf(key, sizeof key, "reward.%s", field->string);
        if (cJSON_IsNumber(field))
            snprintf(value, sizeof value, "%.17g", field->valuedouble);
        else
            snprintf(value, sizeof value, "%s",
                     cJSON_IsString(field) ? field->valuestring
                     : cJSON_IsTrue(field) ? "true"
                                           : "false");
        if (config_set_value(&c->config, key, value, ORIGIN_FILE, &error) != ESPER_OK)
            case_complain(c, "config", error.text);
    }
}
