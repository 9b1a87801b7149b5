/*
 * Strict JSON through cJSON. cJSON alone accepts what a user would want to know about: duplicate keys, text after
 * the value, leading zeros, control characters, numbers beyond double. Here all of that is refused with line:column.
 */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

#define JSON_MAX_DEPTH 64
#define JSON_MAX_FILE  (64u << 20)
#define JSON_MAX_OWN   (4u << 20) /* twice the longest command line */

/* Release the result with cJSON_Delete. Error lines start with line:column where there is one. */
enum esper_status json_parse(const char *text, size_t length, cJSON **out, struct esper_error *error);
/* As json_parse; error lines start with the path. */
enum esper_status json_read_file(const char *path, cJSON **out, struct esper_error *error);
/* The same of a run's own file (file_open_own), which is never longer than JSON_MAX_OWN. */
enum esper_status json_read_own(const char *path, cJSON **out, struct esper_error *error);

/* The member of that name, NULL when absent: use this first for an optional key. */
const cJSON *json_find(const cJSON *object, const char *key);

/* Required members: a missing key, a wrong type or a value out of range is one line that names the key. */
enum esper_status json_get_integer(const cJSON *object, const char *key, int64_t min, int64_t max, int64_t *out,
                                   struct esper_error *error);
enum esper_status json_get_number(const cJSON *object, const char *key, double min, double max, double *out,
                                  struct esper_error *error);
enum esper_status json_get_bool(const cJSON *object, const char *key, bool *out, struct esper_error *error);
/* The text belongs to the object. */
enum esper_status json_get_string(const cJSON *object, const char *key, const char **out, struct esper_error *error);
enum esper_status json_get_array(const cJSON *object, const char *key, const cJSON **out, struct esper_error *error);
enum esper_status json_get_object(const cJSON *object, const char *key, const cJSON **out, struct esper_error *error);

/* Refuse members that are not in `keys`, with a hint of what was meant. */
enum esper_status json_check_keys(const cJSON *object, const char *const keys[], int count, struct esper_error *error);

/*
 * Building. A value that memory did not suffice for marks the tree that it was to be part of, and json_finish makes no
 * text of such a tree: nothing needs to be checked on the way, and there is no text with a part missing. A parent may
 * be NULL (it could not be made, then its own parent knows); key NULL: an element of a list. Returned are what was
 * added, or NULL.
 */
cJSON *json_add(cJSON *parent, const char *key, cJSON *value); /* takes the value; NULL: it could not be made */
cJSON *json_add_object(cJSON *parent, const char *key);
cJSON *json_add_list(cJSON *parent, const char *key);
void json_add_text(cJSON *parent, const char *key, const char *text);
void json_add_number(cJSON *parent, const char *key, double number); /* NAN: null, a missing value is not 0 */
void json_add_bool(cJSON *parent, const char *key, bool value);
/* The tree as text, on one line or on many; release it with cJSON_free. Takes the tree. NULL: out of memory, now or
 * while it was built. */
enum json_style { JSON_ONE_LINE, JSON_LINES };
char *json_finish(cJSON *tree, enum json_style style);

/* What to call a value's type in an error line: "a string", "a number", ... */
const char *json_type_name(const cJSON *value);

#endif
