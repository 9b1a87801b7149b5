#include "base/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/words.h"

/* ---- grammar ----------------------------------------------------------------------------------------------------- */

/* A walk over the text by the grammar of RFC 8259. It builds nothing; cJSON does, once the text is known to be good. */
struct scan {
    const char *text;
    size_t length, at;
    int depth;
    struct esper_error *error;
};

static enum esper_status scan_fail(const struct scan *scan, const char *what)
{
    int line = 1, column = 1;
    for (size_t i = 0; i < scan->at; i++) {
        column++;
        if (scan->text[i] == '\n') {
            line++;
            column = 1;
        }
    }
    return error_set(scan->error, ESPER_INVALID, "%d:%d: %s", line, column, what);
}

/* The character at the cursor, -1 at the end. */
static int scan_peek(const struct scan *scan)
{
    return scan->at < scan->length ? (unsigned char)scan->text[scan->at] : -1;
}

static bool scan_accept(struct scan *scan, char wanted)
{
    if (scan_peek(scan) != (unsigned char)wanted)
        return false;
    scan->at++;
    return true;
}

static void scan_blanks(struct scan *scan)
{
    while (scan_accept(scan, ' ') || scan_accept(scan, '\n') || scan_accept(scan, '\t') || scan_accept(scan, '\r'))
        ;
}

static int scan_digits(struct scan *scan)
{
    int count = 0;
    for (; scan_peek(scan) >= '0' && scan_peek(scan) <= '9'; scan->at++)
        count++;
    return count;
}

static enum esper_status scan_number(struct scan *scan)
{
    size_t start = scan->at;
    scan_accept(scan, '-');
    if (scan_accept(scan, '0')) {
        if (scan_digits(scan))
            return scan_fail(scan, "a number must not start with 0");
    } else if (!scan_digits(scan)) {
        return scan_fail(scan, "expected a digit");
    }
    if (scan_accept(scan, '.') && !scan_digits(scan))
        return scan_fail(scan, "expected a digit after the decimal point");
    if (scan_accept(scan, 'e') || scan_accept(scan, 'E')) {
        if (!scan_accept(scan, '+'))
            scan_accept(scan, '-');
        if (!scan_digits(scan))
            return scan_fail(scan, "expected a digit in the exponent");
    }

    char number[64]; /* as many characters as cJSON takes */
    size_t count = scan->at - start;
    if (count >= sizeof number)
        return scan_fail(scan, "the number has too many digits");
    memcpy(number, scan->text + start, count);
    number[count] = '\0';
    return isfinite(strtod(number, NULL)) ? ESPER_OK : scan_fail(scan, "the number is too large");
}

/* Four hexadecimal digits of a \u escape, -1 when they are not there. */
static int scan_hex(struct scan *scan)
{
    int code = 0;
    for (int i = 0; i < 4; i++, scan->at++) {
        int c = scan_peek(scan);
        int digit = c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
        if (c < 0 || digit < 0)
            return -1;
        code = 16 * code + digit;
    }
    return code;
}

static enum esper_status scan_escape(struct scan *scan)
{
    int c = scan_peek(scan);
    if (c < 0 || !strchr("\"\\/bfnrtu", c) || c == 0)
        return scan_fail(scan, "unknown escape in a string");
    scan->at++;
    if (c != 'u')
        return ESPER_OK;
    int code = scan_hex(scan);
    if (code < 0)
        return scan_fail(scan, "\\u needs four hexadecimal digits");
    if (code == 0)
        return scan_fail(scan, "a string must not contain NUL");
    bool low_follows = false;
    if (code >= 0xD800 && code < 0xDC00 && scan_accept(scan, '\\') && scan_accept(scan, 'u')) {
        int low = scan_hex(scan);
        low_follows = low >= 0xDC00 && low < 0xE000;
    }
    if (code >= 0xD800 && code < 0xE000 && !low_follows)
        return scan_fail(scan, "half a surrogate pair in a string");
    return ESPER_OK;
}

/* One character beyond ASCII, by the table of well-formed UTF-8: no overlong forms, no surrogates, at most U+10FFFF. */
static enum esper_status scan_utf8(struct scan *scan)
{
    int lead = scan_peek(scan);
    int tail = lead >= 0xC2 && lead <= 0xDF ? 1 : (lead & 0xF0) == 0xE0 ? 2 : lead >= 0xF0 && lead <= 0xF4 ? 3 : 0;
    int low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    int high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    if (!tail)
        return scan_fail(scan, "invalid UTF-8");
    scan->at++;
    for (; tail > 0; tail--, scan->at++, low = 0x80, high = 0xBF)
        if (scan_peek(scan) < low || scan_peek(scan) > high)
            return scan_fail(scan, "invalid UTF-8");
    return ESPER_OK;
}

static enum esper_status scan_string(struct scan *scan)
{
    if (!scan_accept(scan, '"'))
        return scan_fail(scan, "expected a string in double quotes");
    for (;;) {
        int c = scan_peek(scan);
        if (c < 0)
            return scan_fail(scan, "the text ends inside a string");
        if (c < 0x20)
            return scan_fail(scan, "control character in a string");
        if (c >= 0x80) {
            TRY(scan_utf8(scan));
            continue;
        }
        scan->at++;
        if (c == '"')
            return ESPER_OK;
        if (c == '\\')
            TRY(scan_escape(scan));
    }
}

static enum esper_status scan_value(struct scan *scan);

static enum esper_status scan_member(struct scan *scan)
{
    scan_blanks(scan);
    TRY(scan_string(scan));
    scan_blanks(scan);
    if (!scan_accept(scan, ':'))
        return scan_fail(scan, "expected ':' after the key");
    return scan_value(scan);
}

/* What is between the brackets of an array or the braces of an object. */
static enum esper_status scan_list(struct scan *scan, char close)
{
    if (++scan->depth > JSON_MAX_DEPTH)
        return scan_fail(scan, "nested too deeply");
    scan_blanks(scan);
    if (!scan_accept(scan, close)) {
        do {
            TRY(close == '}' ? scan_member(scan) : scan_value(scan));
            scan_blanks(scan);
        } while (scan_accept(scan, ','));
        if (!scan_accept(scan, close))
            return scan_fail(scan, close == '}' ? "expected ',' or '}'" : "expected ',' or ']'");
    }
    scan->depth--;
    return ESPER_OK;
}

static enum esper_status scan_value(struct scan *scan)
{
    scan_blanks(scan);
    int c = scan_peek(scan);
    if (c == '{' || c == '[') {
        scan->at++;
        return scan_list(scan, c == '{' ? '}' : ']');
    }
    if (c == '"')
        return scan_string(scan);
    if (c == '-' || (c >= '0' && c <= '9'))
        return scan_number(scan);
    static const char *const words[] = {"true", "false", "null"};
    for (int i = 0; i < 3; i++) {
        size_t length = strlen(words[i]);
        if (scan->length - scan->at >= length && memcmp(scan->text + scan->at, words[i], length) == 0) {
            scan->at += length;
            return ESPER_OK;
        }
    }
    return scan_fail(scan, c < 0 ? "the text ends where a value should be" : "expected a value");
}

/* ---- duplicate keys ---------------------------------------------------------------------------------------------- */

static int compare_keys(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* On the tree and not on the text, because "a" and "\u0061" are the same key. Sorted: headers have thousands of keys.
 */
static enum esper_status refuse_duplicates(const cJSON *value, struct esper_error *error)
{
    int count = cJSON_IsObject(value) ? cJSON_GetArraySize(value) : 0;
    if (count > 1) {
        const char **keys = memory_alloc((size_t)count, sizeof *keys, error);
        if (!keys)
            return ESPER_FAILED;
        int filled = 0;
        for (const cJSON *member = value->child; member; member = member->next)
            keys[filled++] = member->string;
        qsort(keys, (size_t)count, sizeof *keys, compare_keys);
        enum esper_status status = ESPER_OK;
        for (int i = 1; i < count && status == ESPER_OK; i++)
            if (strcmp(keys[i - 1], keys[i]) == 0)
                status = error_set(error, ESPER_INVALID, "key \"%.100s\" appears twice in one object", keys[i]);
        memory_free(keys);
        TRY(status);
    }
    for (const cJSON *child = value->child; child; child = child->next)
        TRY(refuse_duplicates(child, error));
    return ESPER_OK;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

enum esper_status json_parse(const char *text, size_t length, cJSON **out, struct esper_error *error)
{
    struct scan scan = {.text = text, .length = length, .error = error};
    TRY(scan_value(&scan));
    scan_blanks(&scan);
    if (scan.at < length)
        return scan_fail(&scan, "unexpected text after the value");

    cJSON *tree = cJSON_ParseWithLength(text, length);
    if (!tree) /* the grammar is fine, so memory ran out */
        return error_set(error, ESPER_FAILED, "out of memory while reading %zu bytes of JSON", length);
    enum esper_status status = refuse_duplicates(tree, error);
    if (status != ESPER_OK)
        cJSON_Delete(tree);
    else
        *out = tree;
    return status;
}

/* Takes the text. */
static enum esper_status parse_file(const char *path, char *text, size_t length, cJSON **out, struct esper_error *error)
{
    enum esper_status status = json_parse(text, length, out, error);
    memory_free(text);
    if (status != ESPER_OK)
        error_where(error, "%s", path);
    return status;
}

enum esper_status json_read_file(const char *path, cJSON **out, struct esper_error *error)
{
    char *text;
    size_t length;
    TRY(file_read(path, JSON_MAX_FILE, &text, &length, error));
    return parse_file(path, text, length, out, error);
}

enum esper_status json_read_own(const char *path, cJSON **out, struct esper_error *error)
{
    char *text;
    size_t length;
    TRY(file_read_own(path, JSON_MAX_OWN, &text, &length, error));
    return parse_file(path, text, length, out, error);
}

/* ---- typed members ----------------------------------------------------------------------------------------------- */

const char *json_type_name(const cJSON *value)
{
    return cJSON_IsObject(value)   ? "an object"
           : cJSON_IsArray(value)  ? "a list"
           : cJSON_IsString(value) ? "a string"
           : cJSON_IsNumber(value) ? "a number"
           : cJSON_IsBool(value)   ? "true or false"
                                   : "null";
}

const cJSON *json_find(const cJSON *object, const char *key)
{
    return cJSON_IsObject(object) ? cJSON_GetObjectItemCaseSensitive(object, key) : NULL;
}

/* The member with that key, if it is present and of the type that `is` recognises; else NULL, with the error set. */
static const cJSON *get_member(const cJSON *object, const char *key, cJSON_bool (*is)(const cJSON *),
                               const char *wanted, struct esper_error *error)
{
    const cJSON *value = json_find(object, key);
    if (value && is(value))
        return value;
    if (!cJSON_IsObject(object))
        error_set(error, ESPER_INVALID, "expected an object with \"%s\", found %s", key, json_type_name(object));
    else if (!value)
        error_set(error, ESPER_INVALID, "\"%s\" is missing", key);
    else
        error_set(error, ESPER_INVALID, "\"%s\" must be %s, not %s", key, wanted, json_type_name(value));
    return NULL;
}

enum esper_status json_get_number(const cJSON *object, const char *key, double min, double max, double *out,
                                  struct esper_error *error)
{
    const cJSON *value = get_member(object, key, cJSON_IsNumber, "a number", error);
    if (!value)
        return ESPER_INVALID;
    if (!(value->valuedouble >= min && value->valuedouble <= max))
        return error_set(error, ESPER_INVALID, "\"%s\" is %.15g; it must be from %.15g to %.15g", key,
                         value->valuedouble, min, max);
    *out = value->valuedouble;
    return ESPER_OK;
}

enum esper_status json_get_integer(const cJSON *object, const char *key, int64_t min, int64_t max, int64_t *out,
                                   struct esper_error *error)
{
    const cJSON *value = get_member(object, key, cJSON_IsNumber, "a whole number", error);
    if (!value)
        return ESPER_INVALID;
    double number = value->valuedouble;
    /* Beyond 2^53 a double no longer holds every integer: what was read may not be what was written. */
    bool exact = fabs(number) <= 0x1p53 && number == floor(number);
    if (!exact || (int64_t)number < min || (int64_t)number > max)
        return error_set(error, ESPER_INVALID, "\"%s\" is %.17g; it must be a whole number from %lld to %lld", key,
                         number, (long long)min, (long long)max);
    *out = (int64_t)number;
    return ESPER_OK;
}

enum esper_status json_get_bool(const cJSON *object, const char *key, bool *out, struct esper_error *error)
{
    const cJSON *value = get_member(object, key, cJSON_IsBool, "true or false", error);
    if (value)
        *out = cJSON_IsTrue(value);
    return value ? ESPER_OK : ESPER_INVALID;
}

enum esper_status json_get_string(const cJSON *object, const char *key, const char **out, struct esper_error *error)
{
    const cJSON *value = get_member(object, key, cJSON_IsString, "a string", error);
    if (value)
        *out = value->valuestring;
    return value ? ESPER_OK : ESPER_INVALID;
}

enum esper_status json_get_array(const cJSON *object, const char *key, const cJSON **out, struct esper_error *error)
{
    *out = get_member(object, key, cJSON_IsArray, "a list", error);
    return *out ? ESPER_OK : ESPER_INVALID;
}

enum esper_status json_get_object(const cJSON *object, const char *key, const cJSON **out, struct esper_error *error)
{
    *out = get_member(object, key, cJSON_IsObject, "an object", error);
    return *out ? ESPER_OK : ESPER_INVALID;
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

enum esper_status json_check_keys(const cJSON *object, const char *const keys[], int count, struct esper_error *error)
{
    for (const cJSON *member = object->child; member; member = member->next) {
        int i = 0;
        while (i < count && strcmp(keys[i], member->string) != 0)
            i++;
        if (i == count)
            return error_set(error, ESPER_INVALID, "unknown key \"%.100s\"%s", member->string,
                             word_hint(member->string, keys, count, NULL).text);
    }
    return ESPER_OK;
}

/* ---- building ---------------------------------------------------------------------------------------------------- */

#define INCOMPLETE (1 << 16) /* a bit of cJSON's type that cJSON does not use */

cJSON *json_add(cJSON *parent, const char *key, cJSON *value)
{
    if (parent && value && (key ? cJSON_AddItemToObject(parent, key, value) : cJSON_AddItemToArray(parent, value)))
        return value;
    cJSON_Delete(value);
    if (parent)
        parent->type |= INCOMPLETE;
    return NULL;
}

cJSON *json_add_object(cJSON *parent, const char *key)
{
    return json_add(parent, key, cJSON_CreateObject());
}

cJSON *json_add_list(cJSON *parent, const char *key)
{
    return json_add(parent, key, cJSON_CreateArray());
}

void json_add_text(cJSON *parent, const char *key, const char *text)
{
    json_add(parent, key, cJSON_CreateString(text));
}

void json_add_number(cJSON *parent, const char *key, double number)
{
    json_add(parent, key, cJSON_CreateNumber(number));
}

void json_add_bool(cJSON *parent, const char *key, bool value)
{
    json_add(parent, key, cJSON_CreateBool(value));
}

static bool is_complete(const cJSON *tree)
{
    bool complete = tree && !(tree->type & INCOMPLETE);
    for (const cJSON *part = complete ? tree->child : NULL; part && complete; part = part->next)
        complete = is_complete(part);
    return complete;
}

char *json_finish(cJSON *tree, enum json_style style)
{
    char *text = !is_complete(tree) ? NULL : style == JSON_LINES ? cJSON_Print(tree) : cJSON_PrintUnformatted(tree);
    cJSON_Delete(tree);
    return text;
}
