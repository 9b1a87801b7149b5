#include "policy/schedule.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/words.h"
#include "morph/family.h"

#define NONE "none" /* the schedule that plants nothing */

enum { STYLE_DEFAULT = STYLE_LINEAR_ADD, TEMPO_DEFAULT = 1, WORD = 40, FILE_LIMIT = 1 << 22 };

struct planting *schedule_add(struct schedule *schedule, int slot, int blueprint, int step)
{
    struct planting *planting = &schedule->planting[schedule->count];
    *planting =
        (struct planting){(uint16_t)step, (uint8_t)slot, 1, (uint8_t)blueprint, STYLE_DEFAULT, (uint8_t)TEMPO_DEFAULT};
    for (int i = 0; i < schedule->count; i++)
        planting->birth = (uint8_t)(planting->birth + (schedule->planting[i].slot == slot));
    schedule->count++;
    return planting;
}

/* ---- words ------------------------------------------------------------------------------------------------------- */

/* Cuts the word that ends before one of `ends` off the front of the text. Returns the character that ended it. */
static char cut_word(const char **text, const char *ends, char word[WORD])
{
    size_t length = strcspn(*text, ends);
    snprintf(word, WORD, "%.*s", (int)(length < WORD ? length : WORD), *text);
    char end = (*text)[length];
    *text += length + (end != '\0');
    return end;
}

static enum esper_status find_name(const char *what, const char *word, const char *const *names, int count, int *out,
                                   struct esper_error *error)
{
    for (int i = 0; i < count; i++)
        if (strcmp(word, names[i]) == 0) {
            *out = i;
            return ESPER_OK;
        }
    return error_set(error, ESPER_INVALID, "%s \"%s\" is unknown%s", what, word,
                     word_hint(word, names, count, NULL).text);
}

static enum esper_status find_style(const char *word, int *out, struct esper_error *error)
{
    const char *names[STYLE_COUNT];
    for (int i = 0; i < STYLE_COUNT; i++)
        names[i] = style_name(i);
    return find_name("style", word, names, STYLE_COUNT, out, error);
}

static enum esper_status find_slot(const char *word, const struct config *config, int *out, struct esper_error *error)
{
    const char *names[CONFIG_MAX_SLOTS];
    for (int i = 0; i < config->slot_count; i++) {
        names[i] = config->slots[i];
        if (strcmp(word, names[i]) == 0) {
            *out = i;
            return ESPER_OK;
        }
    }
    return error_set(error, ESPER_INVALID, "slot \"%s\" is none of the task's%s", word,
                     word_hint(word, names, config->slot_count, NULL).text);
}

static enum esper_status find_blueprint(const char *word, const struct config *config, int *out,
                                        struct esper_error *error)
{
    const struct blueprint_list list = family_list(host_family_of(config));
    int place = 0;
    if (strcmp(word, list.name[BLUEPRINT_NOOP]) == 0)
        return error_set(error, ESPER_INVALID, "blueprint \"%s\" has nothing to train; leave the slot out instead",
                         word);
    TRY(find_name("blueprint", word, list.name + 1, list.count - 1, &place, error));
    *out = list.number[1 + place]; /* NOOP comes first */
    return ESPER_OK;
}

static bool is_number(const char *word)
{
    return *word && strspn(word, "0123456789") == strlen(word);
}

static enum esper_status find_tempo(const char *word, int *out, struct esper_error *error)
{
    for (int i = 0; i < TEMPO_COUNT; i++)
        if (atoi(word) == tempo_steps(i) && strlen(word) == 1) {
            *out = i;
            return ESPER_OK;
        }
    return error_set(error, ESPER_INVALID, "tempo %s is not offered; choose one of %d, %d, %d", word, tempo_steps(0),
                     tempo_steps(1), tempo_steps(2));
}

static enum esper_status find_step(const char *word, const struct config *config, int *out, struct esper_error *error)
{
    *out = is_number(word) && strlen(word) <= 5 ? atoi(word) : 0;
    if (*out < 1 || *out > config->steps)
        return error_set(error, ESPER_INVALID, "step \"%s\" must be a whole number from 1 to %d", word, config->steps);
    return ESPER_OK;
}

/* ---- one schedule ------------------------------------------------------------------------------------------------ */

/* The words between BLUEPRINT and @STEP: a style, a tempo or both. */
static enum esper_status parse_manner(const char **text, int *style, int *tempo, struct esper_error *error)
{
    char word[WORD], end = '/';
    *style = *tempo = -1;
    while (end == '/') {
        end = cut_word(text, "/@", word);
        int *kind = is_number(word) ? tempo : style;
        if (*kind >= 0)
            return error_set(error, ESPER_INVALID, "\"%s\" is a second %s", word, kind == tempo ? "tempo" : "style");
        if (kind == tempo)
            TRY(find_tempo(word, tempo, error));
        else
            TRY(find_style(word, style, error));
    }
    return ESPER_OK;
}

static enum esper_status parse_entry(struct schedule *schedule, const char *text, const struct config *config,
                                     struct esper_error *error)
{
    char word[WORD];
    int slot = schedule->count, blueprint = 0, style = -1, tempo = -1, step = 0;
    if (!strchr(text, '@'))
        return error_set(error, ESPER_INVALID, "an entry is [SLOT=]BLUEPRINT[/STYLE][/TEMPO]@STEP");
    if (strchr(text, '=')) {
        cut_word(&text, "=", word);
        TRY(find_slot(word, config, &slot, error));
    }
    if (slot >= config->slot_count)
        return error_set(error, ESPER_INVALID, "the task has %d slots; name the one that it goes to, as in %s=%s",
                         config->slot_count, config->slots[0], text);
    char end = cut_word(&text, "/@", word);
    TRY(find_blueprint(word, config, &blueprint, error));
    if (end == '/')
        TRY(parse_manner(&text, &style, &tempo, error));
    TRY(find_step(text, config, &step, error));
    if (schedule->count == SCHEDULE_PLANTINGS)
        return error_set(error, ESPER_INVALID, "there are more than %d entries", SCHEDULE_PLANTINGS);
    struct planting *planting = schedule_add(schedule, slot, blueprint, step);
    if (style >= 0)
        planting->style = (uint8_t)style;
    if (tempo >= 0)
        planting->tempo = (uint8_t)tempo;
    return ESPER_OK;
}

/* A copy of the next entry without the blanks around it. */
static void next_entry(const char **text, char *entry, size_t size)
{
    size_t length = strcspn(*text, ","), end = length, start = 0;
    while (start < end && isspace((unsigned char)(*text)[start]))
        start++;
    while (end > start && isspace((unsigned char)(*text)[end - 1]))
        end--;
    snprintf(entry, size, "%.*s", (int)(end - start), *text + start);
    *text += length;
}

enum esper_status schedule_parse(struct schedule *schedule, const char *text, const struct config *config,
                                 struct esper_error *error)
{
    char entry[160];
    *schedule = (struct schedule){0};
    for (int number = 1;; number++) {
        next_entry(&text, entry, sizeof entry);
        if (number == 1 && !*text && strcmp(entry, NONE) == 0)
            return ESPER_OK;
        if (!*entry)
            return number == 1 && !*text
                       ? error_set(error, ESPER_INVALID, "the schedule is empty; \"" NONE "\" plants nothing")
                       : error_set(error, ESPER_INVALID, "entry %d is empty", number);
        if (parse_entry(schedule, entry, config, error) != ESPER_OK)
            return error_where(error, "entry %d, \"%.60s\"", number, entry);
        if (!*text)
            return ESPER_OK;
        text++;
    }
}

void schedule_format(const struct schedule *schedule, const struct config *config, char *text, size_t size)
{
    size_t used = 0;
    if (schedule->count == 0)
        snprintf(text, size, NONE);
    for (int i = 0; i < schedule->count && used < size; i++) {
        const struct planting *p = &schedule->planting[i];
        char slot[16] = "", style[24] = "", tempo[8] = "";
        if (p->slot != i)
            snprintf(slot, sizeof slot, "%s=", config->slots[p->slot]);
        if (p->style != STYLE_DEFAULT)
            snprintf(style, sizeof style, "/%s", style_name(p->style));
        if (p->tempo != TEMPO_DEFAULT)
            snprintf(tempo, sizeof tempo, "/%d", tempo_steps(p->tempo));
        used += (size_t)snprintf(text + used, size - used, "%s%s%s%s%s@%d", i ? "," : "", slot,
                                 family_blueprint(host_family_of(config), p->blueprint), style, tempo, p->step);
    }
}

enum esper_status schedule_lines(const struct schedule *first, size_t stride, int count, const struct config *config,
                                 char **lines, struct esper_error *error)
{
    const size_t room = (size_t)count * (SCHEDULE_TEXT + 1) + 1;
    size_t used = 0;
    *lines = memory_alloc(room, 1, error);
    if (!*lines)
        return ESPER_FAILED;
    for (int i = 0; i < count; i++) {
        const struct schedule *schedule = (const void *)((const char *)first + (size_t)i * stride);
        schedule_format(schedule, config, *lines + used, room - used);
        used += strlen(*lines + used);
        (*lines)[used++] = '\n';
    }
    return ESPER_OK;
}

/* ---- a file of them ---------------------------------------------------------------------------------------------- */

static enum esper_status parse_lines(struct schedule *schedules, int count, char *text, const struct config *config,
                                     struct esper_error *error)
{
    for (int i = 0; i < count; i++) {
        char *end = text + strcspn(text, "\n");
        *end = '\0';
        if (schedule_parse(&schedules[i], text, config, error) != ESPER_OK)
            return error_where(error, "line %d", i + 1);
        text = end + 1;
    }
    return ESPER_OK;
}

static enum esper_status load_file(struct schedule **out, int *count, const char *path, const struct config *config,
                                   struct esper_error *error)
{
    char *text;
    size_t size;
    TRY(file_read(path, FILE_LIMIT, &text, &size, error));
    *count = size > 0 && text[size - 1] != '\n';
    for (size_t i = 0; i < size; i++)
        *count += text[i] == '\n';
    enum esper_status status = ESPER_OK;
    if (*count == 0)
        status = error_set(error, ESPER_INVALID, "is empty; it needs a schedule per line");
    else if (strlen(text) < size)
        status = error_set(error, ESPER_INVALID, "is not a text file");
    else if (*count > config->envs)
        status = error_set(error, ESPER_INVALID,
                           "%d lines, but only %d envs to play them; ask for more with --envs, or remove lines", *count,
                           config->envs);
    *out = status == ESPER_OK ? memory_alloc((size_t)*count, sizeof **out, error) : NULL;
    if (status == ESPER_OK)
        status = *out ? parse_lines(*out, *count, text, config, error) : ESPER_FAILED;
    memory_free(text);
    if (status == ESPER_OK)
        return ESPER_OK;
    memory_free(*out);
    *out = NULL;
    return error_where(error, "%s", path);
}

enum esper_status schedule_load(struct schedule **out, int *count, const struct config *config,
                                struct esper_error *error)
{
    const char *text = config->policy.schedule;
    if (text[0] == '@')
        return load_file(out, count, text + 1, config, error);
    *count = 1;
    *out = memory_alloc(1, sizeof **out, error);
    if (!*out)
        return ESPER_FAILED;
    if (schedule_parse(*out, text, config, error) == ESPER_OK)
        return ESPER_OK;
    memory_free(*out);
    *out = NULL;
    return error_where(error, "policy.schedule");
}
