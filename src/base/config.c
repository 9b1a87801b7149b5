#include "base/config.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/config_keys.h"
#include "base/json.h"
#include "base/tasks.h"
#include "base/text.h"
#include "base/words.h"

int config_key_find(const char *name)
{
    for (int i = 0; i < config_key_total; i++)
        if (strcmp(config_keys[i].name, name) == 0)
            return i;
    return -1;
}

static enum esper_status unknown_key(const char *name, struct esper_error *error)
{
    const char *names[CONFIG_MAX_KEYS];
    for (int i = 0; i < config_key_total; i++)
        names[i] = config_keys[i].name;
    return error_set(error, ESPER_INVALID, "unknown key \"%.100s\"%s", name,
                     word_hint(name, names, config_key_total, "esper config").text);
}

/* ---- one value --------------------------------------------------------------------------------------------------- */

static void describe(const struct config_key *key, char *text, size_t size)
{
    switch (key->type) {
    case KEY_TEXT:
        snprintf(text, size, "one line of at most %.0f bytes", key->max);
        break;
    case KEY_INT:
        if (!key->choices) {
            snprintf(text, size, "a whole number from %.0f to %.0f", key->min, key->max);
            break;
        } /* fall through */
    case KEY_CHOICE:
    case KEY_BOOL:
        snprintf(text, size, "one of %s", key->choices);
        break;
    case KEY_U64:
        snprintf(text, size, "a whole number from 0 to 18446744073709551615");
        break;
    case KEY_REAL:
        snprintf(text, size, "a number from %.6g to %.6g", key->min, key->max);
        break;
    case KEY_SLOTS:
        snprintf(text, size, "1 to %d different slots such as r0c0 or r1c2", CONFIG_MAX_SLOTS);
        break;
    }
}

static enum esper_status bad_value(const struct config_key *key, const char *text, struct esper_error *error)
{
    char allowed[128];
    describe(key, allowed, sizeof allowed);
    return error_set(error, ESPER_INVALID, "%s = %.80s: it must be %s", key->name, *text ? text : "(nothing)", allowed);
}

/* The position of `text` in "a|b|c", -1 when absent. */
static int find_choice(const char *choices, const char *text)
{
    size_t length = strlen(text);
    for (int i = 0;; i++) {
        size_t span = strcspn(choices, "|");
        if (span == length && memcmp(choices, text, length) == 0)
            return i;
        if (choices[span] == '\0')
            return -1;
        choices += span + 1;
    }
}

static bool parse_int(const struct config_key *key, const char *text, int *out)
{
    char *end;
    if (key->choices && find_choice(key->choices, text) < 0)
        return false;
    if (strspn(text, "-0123456789") != strlen(text) || *text == '\0')
        return false;
    errno = 0;
    long value = strtol(text, &end, 10);
    *out = (int)value;
    if (errno || *end)
        return false;
    return key->choices || ((double)value >= key->min && (double)value <= key->max);
}

static bool parse_u64(const char *text, uint64_t *out)
{
    char *end;
    if (strspn(text, "0123456789") != strlen(text) || *text == '\0') /* strtoull would accept a sign or spaces */
        return false;
    errno = 0;
    *out = strtoull(text, &end, 10);
    return !errno && !*end;
}

static bool parse_real(const struct config_key *key, const char *text, double *out)
{
    char *end;
    if (strspn(text, "+-.0123456789eE") != strlen(text) || *text == '\0') /* no nan, inf, hexadecimal or spaces */
        return false;
    *out = strtod(text, &end);
    return !*end && *out >= key->min && *out <= key->max;
}

long long config_env_steps(const struct config *config)
{
    return (long long)config->envs * config->steps * config->rounds;
}

bool config_mixes_prices(const struct config *config)
{
    return config->mixed.price_least < 1 || config->mixed.price_free > 0;
}

void config_price(struct config *config, double price)
{
    config->reward.price = price;
    config->mixed.price_least = 1;
    config->mixed.price_free = 0;
}

bool config_parse_slot(const char *id, int *row, int *column)
{
    /* Single digits suffice: two rows, at most six blocks. Exactly one spelling per slot. */
    if (strlen(id) != 4 || id[0] != 'r' || id[2] != 'c' || id[1] < '0' || id[1] > '9' || id[3] < '0' || id[3] > '9')
        return false;
    *row = id[1] - '0';
    *column = id[3] - '0';
    return true;
}

/* "r0c0,r0c1": kept sorted row by row, the order in which the policy numbers them (D-30); for ids of equal
 * length that is the order of the text. */
static bool parse_slots(const char *text, struct config *config)
{
    int count = 0, row, column;
    char slots[CONFIG_MAX_SLOTS][8] = {{0}};
    for (const char *at = text; *at; at += strspn(at, ", ")) {
        size_t span = strcspn(at, ", ");
        char id[8] = {0};
        if (count == CONFIG_MAX_SLOTS || span >= sizeof id)
            return false;
        memcpy(id, at, span);
        at += span;
        if (!config_parse_slot(id, &row, &column))
            return false;
        int place = count++;
        for (; place > 0 && strcmp(id, slots[place - 1]) < 0; place--)
            memcpy(slots[place], slots[place - 1], sizeof id);
        memcpy(slots[place], id, sizeof id);
        if (place > 0 && strcmp(slots[place - 1], id) == 0)
            return false;
    }
    if (count == 0)
        return false;
    memcpy(config->slots, slots, sizeof slots);
    config->slot_count = count;
    return true;
}

/* Write the value if it is valid; an invalid one changes nothing. */
static bool parse_value(struct config *config, const struct config_key *key, const char *text)
{
    void *field = (char *)config + key->offset;
    int integer = 0;
    uint64_t wide = 0;
    double real = 0;
    switch (key->type) {
    case KEY_TEXT:
        if (strlen(text) > (size_t)key->max || !text_is_plain(text))
            return false;
        memcpy(field, text, strlen(text) + 1);
        return true;
    case KEY_INT:
        if (!parse_int(key, text, &integer))
            return false;
        memcpy(field, &integer, sizeof integer);
        return true;
    case KEY_U64:
        if (!parse_u64(text, &wide))
            return false;
        memcpy(field, &wide, sizeof wide);
        return true;
    case KEY_REAL:
        if (!parse_real(key, text, &real))
            return false;
        memcpy(field, &real, sizeof real);
        return true;
    case KEY_BOOL:
    case KEY_CHOICE:
        integer = find_choice(key->choices, text);
        if (integer >= 0 && key->type == KEY_BOOL)
            *(bool *)field = integer == 0;
        else if (integer >= 0)
            memcpy(field, &integer, sizeof integer);
        return integer >= 0;
    case KEY_SLOTS:
        return parse_slots(text, config);
    }
    return false;
}

static enum esper_status set_value(struct config *config, int key, const char *text, enum config_origin origin,
                                   struct esper_error *error)
{
    if (!parse_value(config, &config_keys[key], text))
        return bad_value(&config_keys[key], text, error);
    config->origin[key] = (unsigned char)origin;
    return ESPER_OK;
}

void config_defaults(struct config *config)
{
    memset(config, 0, sizeof *config);
    for (int i = 0; i < config_key_total; i++)
        parse_value(config, &config_keys[i], config_keys[i].initial); /* a test ensures that every default is valid */
}

/* ---- values as JSON ---------------------------------------------------------------------------------------------- */

/* A list of strings as the text that --set would take. */
static bool list_text(const cJSON *list, char *text, size_t size)
{
    size_t used = 0;
    for (const cJSON *item = list->child; item; item = item->next) {
        if (!cJSON_IsString(item) || strpbrk(item->valuestring, ", ") || !*item->valuestring)
            return false;
        int put = snprintf(text + used, size - used, "%s%s", used ? "," : "", item->valuestring);
        used += (size_t)put;
        if (used >= size)
            return false;
    }
    return true;
}

/* A JSON value as the text that --set would take; refuses a value of another type than the key's. */
static enum esper_status value_text(const struct config_key *key, const cJSON *value, char *text, size_t size,
                                    struct esper_error *error)
{
    bool fits = false;
    text[0] = '\0';
    switch (key->type) {
    case KEY_TEXT:
    case KEY_CHOICE:
        fits = cJSON_IsString(value);
        break;
    case KEY_U64:
        /* A JSON number is a double and exact up to 2^53 only; larger seeds are written as text. */
        if (cJSON_IsNumber(value) && value->valuedouble > 0x1p53)
            return error_set(error, ESPER_INVALID, "%s: write numbers above 2^53 as text, in quotes", key->name);
        fits = cJSON_IsNumber(value) || cJSON_IsString(value);
        break;
    case KEY_INT:
    case KEY_REAL:
        fits = cJSON_IsNumber(value);
        break;
    case KEY_BOOL:
        fits = cJSON_IsBool(value);
        break;
    case KEY_SLOTS:
        fits = cJSON_IsArray(value) && list_text(value, text, size);
        break;
    }
    if (!fits) {
        char allowed[128];
        describe(key, allowed, sizeof allowed);
        return error_set(error, ESPER_INVALID, "%s must be %s, not %s", key->name,
                         key->type == KEY_SLOTS ? "a list of 1 to 16 slots such as [\"r0c0\", \"r1c2\"]" : allowed,
                         key->type == KEY_SLOTS && cJSON_IsArray(value) ? "this list" : json_type_name(value));
    }
    if (cJSON_IsString(value))
        snprintf(text, size, "%s", value->valuestring);
    else if (cJSON_IsNumber(value))
        snprintf(text, size, "%.17g", value->valuedouble);
    else if (cJSON_IsBool(value))
        snprintf(text, size, "%s", cJSON_IsTrue(value) ? "true" : "false");
    return ESPER_OK;
}

/* A list may also be written as files and run.json show it: ["r0c0", "r0c1"]. */
static enum esper_status set_json(struct config *config, int key, const char *text, enum config_origin origin,
                                  struct esper_error *error)
{
    char plain[2 * CONFIG_TEXT];
    cJSON *value;
    if (json_parse(text, strlen(text), &value, error) != ESPER_OK)
        return error_where(error, "%s", config_keys[key].name);
    enum esper_status status = value_text(&config_keys[key], value, plain, sizeof plain, error);
    cJSON_Delete(value);
    return status == ESPER_OK ? set_value(config, key, plain, origin, error) : status;
}

/* ---- one assignment ---------------------------------------------------------------------------------------------- */

/* "cuda:N" is the GPU N of this machine, from 0; the run's own key is the kind of device. */
static enum esper_status set_device(struct config *config, int key, const char *text, enum config_origin origin,
                                    struct esper_error *error)
{
    char *end = NULL;
    const long number = strncmp(text, "cuda:", 5) == 0 && text[5] >= '0' && text[5] <= '9' ? strtol(text + 5, &end, 10)
                                                                                           : -1;
    if (number < 0 || number > 1023 || *end) {
        config->device_number = 0;
        return set_value(config, key, text, origin, error);
    }
    TRY(set_value(config, key, "cuda", origin, error));
    config->device_number = (int)number + 1;
    return ESPER_OK;
}

enum esper_status config_set_value(struct config *config, const char *name, const char *text, enum config_origin origin,
                                   struct esper_error *error)
{
    int key = config_key_find(name);
    if (key < 0)
        return unknown_key(name, error);
    if (config_keys[key].type == KEY_SLOTS && text[0] == '[')
        return set_json(config, key, text, origin, error);
    if (config_key_is(key, KEY_TASK))
        return error_set(error, ESPER_INVALID, "task cannot be set like this; choose it with --task %.60s", text);
    if (strcmp(name, "device") == 0)
        return set_device(config, key, text, origin, error);
    return set_value(config, key, text, origin, error);
}

enum esper_status config_set(struct config *config, const char *assignment, struct esper_error *error)
{
    char name[64];
    size_t length = strcspn(assignment, "=");
    if (assignment[length] != '=' || length == 0 || length >= sizeof name)
        return error_set(error, ESPER_INVALID, "--set %.80s: write --set key=value, for example --set host.lr=0.02",
                         assignment);
    memcpy(name, assignment, length);
    name[length] = '\0';
    if (config_set_value(config, name, assignment + length + 1, ORIGIN_SET, error) != ESPER_OK)
        return error_where(error, "--set");
    return ESPER_OK;
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

static enum esper_status apply_object(struct config *config, const cJSON *object, enum config_origin origin,
                                      struct esper_error *error)
{
    if (!cJSON_IsObject(object))
        return error_set(error, ESPER_INVALID, "expected an object of keys, found %s", json_type_name(object));
    for (const cJSON *member = object->child; member; member = member->next) {
        char text[2 * CONFIG_TEXT]; /* longer than any text allowed, so that a cut one is still refused */
        int key = config_key_find(member->string);
        if (cJSON_IsObject(member))
            return error_set(error, ESPER_INVALID, "\"%.60s\" is an object; keys are flat: \"%.60s.%s\": ...",
                             member->string, member->string, member->child ? member->child->string : "name");
        if (key < 0)
            return unknown_key(member->string, error);
        if (config_key_is(key, KEY_TASK))
            continue; /* the caller has seen to it */
        TRY(value_text(&config_keys[key], member, text, sizeof text, error));
        TRY(set_value(config, key, text, origin, error));
    }
    return ESPER_OK;
}

enum esper_status config_load_task(struct config *config, const char *text, struct esper_error *error)
{
    struct task task;
    cJSON *object;
    TRY(task_find(text, &task, error));
    TRY(task_read(&task, &object, error));
    enum esper_status status = ESPER_OK;
    if (json_find(object, "task")) /* it could only contradict the file's name */
        status = error_set(error, ESPER_INVALID, "a task file is named by its file name; remove the key \"task\"");
    if (status == ESPER_OK)
        status = apply_object(config, object, ORIGIN_TASK, error);
    if (status == ESPER_OK)
        status = set_value(config, config_key_find("task"), task.name, ORIGIN_TASK, error);
    cJSON_Delete(object);
    return status == ESPER_OK ? status : error_where(error, "%s", task.path[0] ? task.path : task.name);
}

enum esper_status config_load_file(struct config *config, const char *path, struct esper_error *error)
{
    cJSON *object;
    TRY(json_read_file(path, &object, error));
    enum esper_status status = ESPER_OK;
    if (json_find(object, "task")) {
        const char *task;
        status = json_get_string(object, "task", &task, error);
        if (status == ESPER_OK && config->task[0] == '\0')
            status = config_load_task(config, task, error);
    }
    if (status == ESPER_OK)
        status = apply_object(config, object, ORIGIN_FILE, error);
    cJSON_Delete(object);
    return status == ESPER_OK ? status : error_where(error, "%s", path);
}

/* ---- rules across keys ------------------------------------------------------------------------------------------- */

static enum esper_status check_policy(const struct config *c, struct esper_error *error)
{
    if (c->policy.hidden % 8 != 0)
        return error_set(error, ESPER_INVALID, "policy.hidden = %d: it must be a multiple of 8", c->policy.hidden);
    if (c->policy.kind == POLICY_PPO && !c->evaluate && c->envs % c->ppo.minibatches != 0)
        return error_set(error, ESPER_INVALID,
                         "ppo.minibatches = %d: %d envs cannot be dealt out in as many equal parts", c->ppo.minibatches,
                         c->envs);
    if (c->policy.kind == POLICY_SCRIPT && !c->policy.script[0])
        return error_set(error, ESPER_INVALID, "policy.kind = script needs policy.script, the file of actions");
    if (c->policy.kind == POLICY_SCHEDULE && !c->policy.schedule[0])
        return error_set(error, ESPER_INVALID,
                         "policy.kind = schedule needs policy.schedule, such as conv_heavy@1,conv_light@12");
    if (c->policy.kind == POLICY_REPLAY && !c->policy.from[0])
        return error_set(error, ESPER_INVALID, "policy.kind = replay needs policy.from, the run to replay");
    return ESPER_OK;
}

static enum esper_status check_lessons(const struct config *c, struct esper_error *error)
{
    if (c->lesson.recitals + c->lesson.reciters > 0 && c->lesson.tries == 0)
        return error_set(error, ESPER_INVALID,
                         "%s = %d: nothing was tried that could be recited; set lesson.tries as well",
                         c->lesson.recitals ? "lesson.recitals" : "lesson.reciters",
                         c->lesson.recitals ? c->lesson.recitals : c->lesson.reciters);
    if (c->lesson.tries > 0 && c->envs < 2 && !c->evaluate)
        return error_set(error, ESPER_INVALID,
                         "lesson.tries = %d: schedules are compared within a round, and envs is 1; set it to 2 or more",
                         c->lesson.tries);
    if (c->lesson.reciters >= c->envs && c->lesson.reciters > 0 && !c->evaluate)
        return error_set(error, ESPER_INVALID,
                         "lesson.reciters = %d: of %d envs some must be left for the policy to act in",
                         c->lesson.reciters, c->envs);
    return ESPER_OK;
}

static enum esper_status check_device(const struct config *c, struct esper_error *error)
{
    if (c->device == WISH_CPU && c->precision == PRECISION_BF16)
        return error_set(error, ESPER_INVALID,
                         "precision = bf16: the CPU computes in fp32; use device=cuda, or precision=auto");
    return ESPER_OK;
}

static enum esper_status check_price(const struct config *c, struct esper_error *error)
{
    const bool least = c->mixed.price_least < 1;
    if (config_mixes_prices(c) && c->reward.price <= 0)
        return error_set(error, ESPER_INVALID,
                         "mixed.price_%s = %g: there is no price to draw a share of; set reward.price",
                         least ? "least" : "free", least ? c->mixed.price_least : c->mixed.price_free);
    return ESPER_OK;
}

enum esper_status config_check(const struct config *config, struct esper_error *error)
{
    TRY(check_device(config, error));
    TRY(check_policy(config, error));
    TRY(check_lessons(config, error));
    TRY(check_price(config, error));
    for (const config_rule *rule = config_rules; *rule; rule++)
        TRY((*rule)(config, error));
    return ESPER_OK;
}

/* ---- listings ---------------------------------------------------------------------------------------------------- */

int config_key_count(void)
{
    return config_key_total;
}

bool config_key_is(int key, enum config_flag flag)
{
    return config_keys[key].flags & flag;
}

const char *config_key_name(int key)
{
    return config_keys[key].name;
}

const char *config_key_help(int key)
{
    return config_keys[key].help;
}

void config_key_range(int key, char text[CONFIG_TEXT])
{
    describe(&config_keys[key], text, CONFIG_TEXT);
}

const char *config_origin_name(enum config_origin origin)
{
    static const char *const names[] = {"default", "task", "data", "file", "--set", "flag"};
    return names[origin];
}

void config_format(const struct config *config, int key, char text[CONFIG_TEXT])
{
    const void *field = (const char *)config + config_keys[key].offset;
    const char *choice = config_keys[key].choices;
    size_t used = 0;
    text[0] = '\0';
    switch (config_keys[key].type) {
    case KEY_TEXT:
        snprintf(text, CONFIG_TEXT, "%s", (const char *)field);
        break;
    case KEY_INT:
        snprintf(text, CONFIG_TEXT, "%d", *(const int *)field);
        break;
    case KEY_U64:
        snprintf(text, CONFIG_TEXT, "%llu", (unsigned long long)*(const uint64_t *)field);
        break;
    case KEY_REAL:
        snprintf(text, CONFIG_TEXT, "%.15g", *(const double *)field);
        break;
    case KEY_BOOL:
        snprintf(text, CONFIG_TEXT, "%s", *(const bool *)field ? "true" : "false");
        break;
    case KEY_CHOICE:
        for (int i = *(const int *)field; i > 0; i--)
            choice += strcspn(choice, "|") + 1;
        snprintf(text, CONFIG_TEXT, "%.*s", (int)strcspn(choice, "|"), choice);
        break;
    case KEY_SLOTS:
        for (int i = 0; i < config->slot_count; i++)
            used += (size_t)snprintf(text + used, CONFIG_TEXT - used, "%s%s", i ? "," : "", config->slots[i]);
        break;
    }
}

void config_format_exact(const struct config *config, int key, char text[CONFIG_TEXT])
{
    config_format(config, key, text);
    if (config_keys[key].type != KEY_REAL)
        return;
    double value;
    memcpy(&value, (const char *)config + config_keys[key].offset, sizeof value);
    for (int digits = 15; digits < 17 && strtod(text, NULL) != value; digits++)
        snprintf(text, CONFIG_TEXT, "%.*g", digits + 1, value);
}

const char *config_policy(const struct config *config, char text[CONFIG_TEXT])
{
    config_format(config, config_key_find("policy.kind"), text);
    return text;
}

bool config_differ_in(int key, const struct config *a, const struct config *b)
{
    char mine[CONFIG_TEXT], theirs[CONFIG_TEXT];
    config_format_exact(a, key, mine);
    config_format_exact(b, key, theirs);
    return strcmp(mine, theirs) != 0;
}

int config_difference(const struct config *a, const struct config *b, unsigned except)
{
    for (int key = 0; key < config_key_total; key++)
        if (!(config_keys[key].flags & except) && config_differ_in(key, a, b))
            return key;
    return -1;
}

enum esper_status config_take_policy(struct config *config, const struct config *from, const char *name,
                                     struct esper_error *error)
{
    static const char *const own[] = {"policy.feature_dim", "policy.hidden", "policy.temperature"};
    char value[CONFIG_TEXT];
    if (config->slot_count != from->slot_count)
        return error_set(
            error, ESPER_INVALID,
            "--task %s: it has %d slots, and the policy of %.100s was made for %d; take a task with as many",
            config->task, config->slot_count, name, from->slot_count);
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) {
        const int key = config_key_find(own[i]);
        if (config->origin[key] >= ORIGIN_FILE)
            continue;
        config_format(from, key, value);
        TRY(config_set_value(config, own[i], value, ORIGIN_FLAG, error));
    }
    return ESPER_OK;
}
