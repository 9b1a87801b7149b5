#include "telemetry/run_json.h"

#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "base/config_json.h"
#include "base/file.h"
#include "base/text.h"

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static cJSON *origins_json(const struct config *config)
{
    cJSON *object = cJSON_CreateObject();
    for (int key = 0; key < config_key_count(); key++)
        json_add_text(object, config_key_name(key), config_origin_name((enum config_origin)config->origin[key]));
    return object;
}

static char *run_text(const struct run *run, const char *command)
{
    struct utsname host = {0};
    uname(&host);
    cJSON *object = cJSON_CreateObject();
    json_add_number(object, "format", RUN_FORMAT);
    json_add_text(object, "name", run->name);
    json_add_text(object, "created", run->created);
    json_add_text(object, "version", run->version);
    json_add_text(object, "kernels", run->kernels);
    if (*run->data_checksum)
        json_add_text(object, "data_checksum", run->data_checksum);
    json_add_text(object, "architecture", host.machine);
    json_add_text(object, "command", command);
    json_add(object, "configuration", config_to_json(&run->config));
    json_add(object, "origins", origins_json(&run->config));
    return json_finish(object, JSON_LINES);
}

/* What is written must read back: a command line or a path may contain bytes that are not UTF-8, which JSON cannot
 * carry. */
static enum esper_status readable_text(const struct run *run, const char *command, char **text,
                                       struct esper_error *error)
{
    char plain[4096];
    for (int attempt = 0; attempt < 2; attempt++) {
        cJSON *check = NULL;
        *text = run_text(run, attempt ? plain : command);
        if (!*text)
            return error_set(error, ESPER_FAILED, "out of memory while describing the run");
        enum esper_status status = json_parse(*text, strlen(*text), &check, error);
        cJSON_Delete(check);
        if (status == ESPER_OK)
            return ESPER_OK;
        cJSON_free(*text);
        if (status != ESPER_INVALID)
            return status;
        snprintf(plain, sizeof plain, "%s", command);
        for (char *at = plain; *at; at++) /* second attempt: the command line is for people, '?' will do */
            if ((unsigned char)*at >= 0x80)
                *at = '?';
    }
    return error_set(error, ESPER_INVALID, "a text in the configuration is not UTF-8 (a path?); rename the file");
}

enum esper_status run_json_replace(const char *path, const char *text, struct esper_error *error)
{
    struct file_writer writer;
    TRY(file_begin(&writer, path, error));
    TRY(file_write(&writer, text, strlen(text), error));
    TRY(file_write(&writer, "\n", 1, error));
    return file_commit(&writer, error);
}

enum esper_status run_json_write(const char *directory, const struct run *run, const char *command,
                                 struct esper_error *error)
{
    char path[PATH_MAX], *text;
    if (snprintf(path, sizeof path, "%s/run.json", directory) >= (int)sizeof path)
        return error_set(error, ESPER_INVALID, "%.80s...: the path is too long", directory);
    TRY(readable_text(run, command ? command : "", &text, error));
    enum esper_status status = run_json_replace(path, text, error);
    cJSON_free(text);
    return status;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

/* A key that is unknown here comes from a later Esper: suggesting similar names would mislead. */
static enum esper_status check_keys(const cJSON *values, const char *version, struct esper_error *error)
{
    for (const cJSON *member = values->child; member; member = member->next)
        if (config_key_find(member->string) < 0)
            return error_set(error, ESPER_INVALID,
                             "the key \"%.60s\" is unknown here: Esper %.31s created this run, this is " ESPER_VERSION,
                             member->string, version);
    return ESPER_OK;
}

/* A key without an origin did not exist when the run was created: it has its default. */
static enum esper_status read_origins(struct config *config, const cJSON *origins, struct esper_error *error)
{
    for (int key = 0; key < config_key_count(); key++) {
        const char *name = config_origin_name(ORIGIN_DEFAULT);
        if (json_find(origins, config_key_name(key)))
            TRY(json_get_string(origins, config_key_name(key), &name, error));
        int origin = ORIGIN_DEFAULT;
        while (origin <= ORIGIN_FLAG && strcmp(name, config_origin_name((enum config_origin)origin)) != 0)
            origin++;
        if (origin > ORIGIN_FLAG)
            return error_set(error, ESPER_INVALID, "\"origins\": %s comes from \"%.40s\", which is unknown",
                             config_key_name(key), name);
        config->origin[key] = (unsigned char)origin;
    }
    return ESPER_OK;
}

static enum esper_status read_text(const cJSON *object, const char *key, char *text, size_t size,
                                   struct esper_error *error)
{
    const char *value;
    TRY(json_get_string(object, key, &value, error));
    if (strlen(value) >= size)
        return error_set(error, ESPER_INVALID, "\"%s\" is longer than %zu bytes", key, size - 1);
    if (!text_is_plain(value))
        return error_set(error, ESPER_INVALID, "\"%s\" holds a control character", key);
    snprintf(text, size, "%s", value);
    return ESPER_OK;
}

static enum esper_status read_run(const cJSON *object, struct run *run, struct esper_error *error)
{
    int64_t format;
    const cJSON *values, *origins;
    TRY(json_get_integer(object, "format", 0, INT32_MAX, &format, error));
    if (format != RUN_FORMAT)
        return error_set(error, ESPER_INVALID, "a run of format %lld; this Esper (" ESPER_VERSION ") reads format %d",
                         (long long)format, RUN_FORMAT);
    TRY(read_text(object, "name", run->name, sizeof run->name, error));
    TRY(read_text(object, "created", run->created, sizeof run->created, error));
    TRY(read_text(object, "version", run->version, sizeof run->version, error));
    TRY(read_text(object, "kernels", run->kernels, sizeof run->kernels, error));
    if (json_find(object, "data_checksum"))
        TRY(read_text(object, "data_checksum", run->data_checksum, sizeof run->data_checksum, error));
    TRY(json_get_object(object, "configuration", &values, error));
    TRY(json_get_object(object, "origins", &origins, error));
    TRY(check_keys(values, run->version, error));
    TRY(config_from_json(&run->config, values, error));
    TRY(read_origins(&run->config, origins, error));
    return config_check(&run->config, error);
}

enum esper_status run_json_read(const char *directory, struct run *run, struct esper_error *error)
{
    char path[PATH_MAX];
    cJSON *object;
    if (snprintf(path, sizeof path, "%s/run.json", directory) >= (int)sizeof path)
        return error_set(error, ESPER_INVALID, "%.80s...: the path is too long", directory);
    TRY(json_read_own(path, &object, error));
    enum esper_status status = read_run(object, run, error);
    cJSON_Delete(object);
    return status == ESPER_OK ? status : error_where(error, "%s", path);
}

enum esper_status run_json_command(const struct run *run, char **command, struct esper_error *error)
{
    char path[PATH_MAX + 16];
    const char *text;
    cJSON *object;
    snprintf(path, sizeof path, "%s/run.json", run->path);
    TRY(json_read_own(path, &object, error));
    enum esper_status status = json_get_string(object, "command", &text, error);
    if (status == ESPER_OK && !(*command = strdup(text)))
        status = error_set(error, ESPER_FAILED, "out of memory while reading the command");
    cJSON_Delete(object);
    return status == ESPER_OK ? status : error_where(error, "%s", path);
}

enum esper_status run_json_check(const char *directory, struct esper_error *error)
{
    char path[PATH_MAX];
    cJSON *object;
    const cJSON *part;
    const char *name;
    int64_t format;
    if (snprintf(path, sizeof path, "%s/run.json", directory) >= (int)sizeof path)
        return error_set(error, ESPER_INVALID, "%.80s...: the path is too long", directory);
    TRY(json_read_own(path, &object, error));
    enum esper_status status = json_get_integer(object, "format", 0, INT32_MAX, &format, error);
    if (status == ESPER_OK)
        status = json_get_string(object, "name", &name, error);
    if (status == ESPER_OK)
        status = json_get_object(object, "configuration", &part, error);
    cJSON_Delete(object);
    return status == ESPER_OK ? status : error_where(error, "%s: not a run's", path);
}
