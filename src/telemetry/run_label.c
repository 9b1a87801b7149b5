#include "telemetry/run_label.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "telemetry/run_json.h"

/* ---- tags and note ----------------------------------------------------------------------------------------------- */

enum esper_status run_label_check_tag(const char *tag, struct esper_error *error)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    if (*tag && !strchr("._-", *tag) && strlen(tag) < LABEL_TAG && !tag[strspn(tag, allowed)])
        return ESPER_OK;
    return error_set(
        error, ESPER_INVALID,
        "\"%.60s\" cannot be a tag: use up to %d letters, digits, '.', '_' or '-', a letter or digit first", tag,
        LABEL_TAG - 1);
}

/* Where the tag is or would be. */
static int position(const struct run_label *label, const char *tag)
{
    int at = 0;
    while (at < label->count && strcmp(label->tags[at], tag) < 0)
        at++;
    return at;
}

bool run_label_has(const struct run_label *label, const char *tag)
{
    int at = position(label, tag);
    return at < label->count && strcmp(label->tags[at], tag) == 0;
}

enum esper_status run_label_add(struct run_label *label, const char *tag, struct esper_error *error)
{
    TRY(run_label_check_tag(tag, error));
    if (run_label_has(label, tag))
        return ESPER_OK;
    if (label->count == LABEL_TAGS)
        return error_set(error, ESPER_INVALID, "\"%s\": a run has at most %d tags", tag, LABEL_TAGS);
    int at = position(label, tag);
    memmove(label->tags[at + 1], label->tags[at], (size_t)(label->count - at) * LABEL_TAG);
    snprintf(label->tags[at], LABEL_TAG, "%s", tag);
    label->count++;
    return ESPER_OK;
}

void run_label_drop(struct run_label *label, const char *tag)
{
    int at = position(label, tag);
    if (!run_label_has(label, tag))
        return;
    label->count--;
    memmove(label->tags[at], label->tags[at + 1], (size_t)(label->count - at) * LABEL_TAG);
}

/* Every character is well formed: JSON carries no other. */
static bool is_utf8(const char *text)
{
    for (size_t left = strlen(text), length; left; text += length, left -= length)
        if (!(length = text_character(text, left)))
            return false;
    return true;
}

enum esper_status run_label_set_note(struct run_label *label, const char *note, struct esper_error *error)
{
    if (strlen(note) >= LABEL_NOTE)
        return error_set(error, ESPER_INVALID, "the note has %zu bytes; at most %d are allowed", strlen(note),
                         LABEL_NOTE - 1);
    if (!text_is_plain(note) || !is_utf8(note))
        return error_set(error, ESPER_INVALID, "the note is not one line of text (UTF-8, no control characters)");
    snprintf(label->note, sizeof label->note, "%s", note);
    return ESPER_OK;
}

/* ---- the file ---------------------------------------------------------------------------------------------------- */

static enum esper_status name_file(const char *directory, char path[PATH_MAX], struct esper_error *error)
{
    if (snprintf(path, PATH_MAX, "%s/label.json", directory) < PATH_MAX)
        return ESPER_OK;
    return error_set(error, ESPER_INVALID, "%.80s...: the path is too long", directory);
}

static enum esper_status parse(const cJSON *object, struct run_label *label, struct esper_error *error)
{
    const cJSON *tags, *tag;
    const char *note;
    TRY(json_get_array(object, "tags", &tags, error));
    cJSON_ArrayForEach(tag, tags)
    {
        if (!cJSON_IsString(tag))
            return error_set(error, ESPER_INVALID, "\"tags\" holds %s; it is a list of strings", json_type_name(tag));
        TRY(run_label_add(label, tag->valuestring, error));
    }
    TRY(json_get_string(object, "note", &note, error));
    return run_label_set_note(label, note, error);
}

enum esper_status run_label_read(const char *directory, struct run_label *label, struct esper_error *error)
{
    char path[PATH_MAX];
    struct stat info;
    cJSON *object;
    memset(label, 0, sizeof *label);
    TRY(name_file(directory, path, error));
    if (lstat(path, &info) != 0 && errno == ENOENT)
        return ESPER_OK;
    TRY(json_read_own(path, &object, error));
    enum esper_status status = parse(object, label, error);
    cJSON_Delete(object);
    if (status == ESPER_OK)
        return status;
    memset(label, 0, sizeof *label);
    return error_where(error, "%s", path);
}

enum esper_status run_label_write(const char *directory, const struct run_label *label, struct esper_error *error)
{
    char path[PATH_MAX];
    TRY(name_file(directory, path, error));
    TRY(file_check_own(path, error));
    if (label->count == 0 && !*label->note) {
        if (unlink(path) == 0 || errno == ENOENT)
            return ESPER_OK;
        return error_set(error, ESPER_FAILED, "%s: cannot remove: %s", path, strerror(errno));
    }
    cJSON *object = cJSON_CreateObject(), *tags = json_add_list(object, "tags");
    for (int i = 0; i < label->count; i++)
        json_add_text(tags, NULL, label->tags[i]);
    json_add_text(object, "note", label->note);
    char *text = json_finish(object, JSON_ONE_LINE);
    if (!text)
        return error_set(error, ESPER_FAILED, "out of memory while labelling the run");
    enum esper_status status = run_json_replace(path, text, error);
    cJSON_free(text);
    return status;
}
