#include "data/own.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/safetensors.h"
#include "base/text.h"

const char *own_class_name(const char *names, int k, int *length)
{
    for (; k > 0 && *names; k--)
        names += strcspn(names, "\n") + (strchr(names, '\n') != NULL);
    *length = (int)strcspn(names, "\n");
    return names;
}

static enum esper_status read_whole(const struct st_file *file, const char *key, int least, int most, int *out,
                                    struct esper_error *error)
{
    const char *text = st_meta(file, key);
    char *end = NULL;
    const long value = text ? strtol(text, &end, 10) : 0;
    if (!text || end == text || *end || value < least || value > most)
        return error_set(error, ESPER_INVALID, "its metadata says %s = %.20s, not a number from %d to %d", key,
                         text && text_is_plain(text) ? text : "nothing", least, most);
    *out = (int)value;
    return ESPER_OK;
}

static enum esper_status read_colours(const struct st_file *file, const char *key, double least,
                                      double out[DATASET_COLOURS], struct esper_error *error)
{
    const char *text = st_meta(file, key);
    for (int c = 0; c < DATASET_COLOURS; c++) {
        char *end = NULL;
        out[c] = text ? strtod(text, &end) : 0;
        if (!text || end == text || !(out[c] >= least && out[c] <= 1))
            return error_set(error, ESPER_INVALID, "its metadata has no three numbers from %g to 1 as %s", least, key);
        text = end;
    }
    return *text ? error_set(error, ESPER_INVALID, "its metadata has more than three numbers as %s", key) : ESPER_OK;
}

/* As many names as classes; what reaches a terminal must be text. */
static enum esper_status check_names(const char *names, int classes, struct esper_error *error)
{
    for (int k = 0; k < classes; k++) {
        int length;
        char name[OWN_CLASS_NAME + 1];
        const char *at = own_class_name(names, k, &length);
        if (length < 1 || length > OWN_CLASS_NAME)
            return error_set(error, ESPER_INVALID, "class %d has a name of %d bytes, not from 1 to %d", k, length,
                             OWN_CLASS_NAME);
        snprintf(name, sizeof name, "%.*s", length, at);
        if (!text_is_plain(name))
            return error_set(error, ESPER_INVALID, "the name of class %d cannot be shown", k);
        if (k == classes - 1 && at[length])
            return error_set(error, ESPER_INVALID, "it names more than its %d classes", classes);
    }
    return ESPER_OK;
}

static enum esper_status read_own(struct dataset *dataset, struct esper_error *error)
{
    const struct st_file *file = dataset->file;
    const char *title = st_meta(file, DATASET_TITLE), *names = st_meta(file, DATASET_CLASS_NAMES);
    int size;
    if (!title || !*title || strlen(title) >= CONFIG_DATA_NAME || !text_is_plain(title))
        return error_set(error, ESPER_INVALID, "its metadata has no name of at most %d bytes as " DATASET_TITLE,
                         CONFIG_DATA_NAME - 1);
    TRY(read_whole(file, DATASET_PIXELS, DATASET_SIZE_MIN, DATASET_SIZE_MAX, &size, error));
    TRY(read_whole(file, DATASET_CLASS_COUNT, 2, DATASET_CLASSES_MAX, &dataset->classes, error));
    TRY(read_colours(file, DATASET_MEAN, 0, dataset->mean, error));
    TRY(read_colours(file, DATASET_DEVIATION, DATASET_DEVIATION_LEAST, dataset->deviation, error));
    if (names)
        TRY(check_names(names, dataset->classes, error));
    if (dataset->size && dataset->size != size)
        return error_set(error, ESPER_INVALID, "its images are %dx%d, not %dx%d", size, size, dataset->size,
                         dataset->size);
    dataset->size = size;
    dataset->name = title;
    dataset->class_names = names;
    return ESPER_OK;
}

enum esper_status own_facts(struct dataset *dataset, struct esper_error *error)
{
    const struct data_facts *set = data_facts_of(dataset->set);
    if (set->own)
        return read_own(dataset, error);
    if (dataset->size && dataset->size != DATASET_SIZE)
        return error_set(error, ESPER_INVALID, "packed images are 32 pixels wide, not %d; set data.size=32",
                         dataset->size);
    dataset->size = DATASET_SIZE;
    dataset->classes = DATASET_CLASSES;
    memcpy(dataset->mean, set->mean, sizeof dataset->mean);
    memcpy(dataset->deviation, set->deviation, sizeof dataset->deviation);
    return ESPER_OK;
}
