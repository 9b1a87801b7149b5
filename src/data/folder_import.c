/*
 * Pictures in a folder for each class: DIR/CLASS/picture, or DIR/train/CLASS/picture with val/ and test/ beside it.
 * A folder may come from a stranger, as an archive: nothing in it is followed to another place, and its names are
 * shown only if they can be.
 */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/memory.h"
#include "base/text.h"
#include "data/collection.h"
#include "data/own.h"
#include "data/picture.h"

/* ---- folders ----------------------------------------------------------------------------------------------------- */

/* Names in the order of their bytes, so that classes have the same numbers everywhere. */
struct listing {
    struct dirent **entry;
    int count;
};

static int is_shown(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static int by_bytes(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static enum esper_status list_folder(const char *path, struct listing *list, struct esper_error *error)
{
    list->count = scandir(path, &list->entry, is_shown, by_bytes);
    if (list->count >= 0)
        return ESPER_OK;
    *list = (struct listing){0};
    return error_set(error, errno == ENOMEM ? ESPER_FAILED : ESPER_INVALID, "%s: %s", path, strerror(errno));
}

static void list_free(struct listing *list)
{
    for (int i = 0; i < list->count; i++)
        free(list->entry[i]);
    free(list->entry);
    *list = (struct listing){0};
}

enum kind { KIND_FOLDER, KIND_FILE, KIND_LINK };

/* `path` becomes that of the entry. */
static enum esper_status entry_kind(const char *folder, const char *name, char path[PATH_MAX], enum kind *kind,
                                    struct esper_error *error)
{
    struct stat info;
    if (snprintf(path, PATH_MAX, "%s/%s", folder, name) >= PATH_MAX)
        return error_set(error, ESPER_INVALID, "%.80s...: the path is too long", path);
    if (lstat(path, &info) != 0)
        return error_set(error, ESPER_INVALID, "%s: %s", path, strerror(errno));
    *kind = S_ISDIR(info.st_mode) ? KIND_FOLDER : S_ISLNK(info.st_mode) ? KIND_LINK : KIND_FILE;
    return ESPER_OK;
}

/* ---- the walk ---------------------------------------------------------------------------------------------------- */

/* The folders are walked twice: to see which classes there are and to count the pictures, and to read them. */
struct walk {
    struct collection *images;
    bool reading;
    size_t count;
    char (*names)[OWN_CLASS_NAME + 1]; /* [classes] */
    int classes;
};

static enum esper_status read_picture(struct walk *walk, const char *path, int class, enum split split,
                                      struct esper_error *error)
{
    struct collection *images = walk->images;
    struct picture picture;
    const size_t i = walk->count;
    TRY(picture_read(path, &picture, error));
    if (i == 0 &&
        collection_alloc(images, images->count, (size_t)picture.width, (size_t)picture.height, error) != ESPER_OK)
        return error_where(error, "%s", path);
    if (picture.width != images->size || picture.height != images->size)
        return error_set(error, ESPER_INVALID,
                         "%s: %dx%d pixels, and others have %dx%d; scale all pictures to one size first", path,
                         picture.width, picture.height, images->size, images->size);
    if (i >= images->count)
        return error_set(error, ESPER_FAILED, "%s: files were added while they were read; try again", path);
    collection_put(images, i, picture.pixels, DATASET_COLOURS);
    images->labels[i] = (uint16_t) class;
    images->split[i] = (uint8_t)split;
    return ESPER_OK;
}

static enum esper_status walk_pictures(struct walk *walk, const char *folder, const struct listing *list, int class,
                                       enum split split, struct esper_error *error)
{
    for (int i = 0; i < list->count; i++) {
        char path[PATH_MAX];
        enum kind kind;
        TRY(entry_kind(folder, list->entry[i]->d_name, path, &kind, error));
        if (kind == KIND_FOLDER)
            return error_set(error, ESPER_INVALID,
                             "%s: a folder among the pictures of a class; give DIR/CLASS/picture, or "
                             "DIR/train/CLASS/picture with test/ and val/ beside train/",
                             path);
        if (kind == KIND_LINK)
            return error_set(error, ESPER_INVALID, "%s: a link; put the picture itself there", path);
        if (!picture_named(path)) {
            walk->images->ignored += !walk->reading;
            continue;
        }
        if (walk->reading)
            TRY(read_picture(walk, path, class, split, error));
        walk->count++;
    }
    return ESPER_OK;
}

static int find_class(const struct walk *walk, const char *name)
{
    int k = 0;
    while (k < walk->classes && strcmp(walk->names[k], name) != 0)
        k++;
    return k;
}

/* It goes into the packed file, which is UTF-8, and onto terminals. */
static bool name_serves(const char *name)
{
    size_t length = strlen(name);
    bool good = length <= OWN_CLASS_NAME && text_is_plain(name);
    for (size_t step = 0; good && length > 0; name += step, length -= step) {
        step = text_character(name, length);
        good = step > 0;
    }
    return good;
}

/* The number of a class; one that is new gets the next, unless the training images do not have it. */
static enum esper_status class_of(struct walk *walk, const char *folder, const char *name, bool may_add, int *class,
                                  struct esper_error *error)
{
    *class = find_class(walk, name);
    if (*class < walk->classes)
        return ESPER_OK;
    if (!name_serves(name))
        return error_set(
            error, ESPER_INVALID,
            "%s/%.80s: the name of a class is text of at most %d bytes, all of which can be shown; rename it", folder,
            name, OWN_CLASS_NAME);
    if (!may_add)
        return error_set(error, ESPER_INVALID, "%s/%s: the training images have no such class", folder, name);
    if (walk->classes == DATASET_CLASSES_MAX)
        return error_set(error, ESPER_INVALID, "%s: more than %d classes", folder, DATASET_CLASSES_MAX);
    memcpy(walk->names[walk->classes++], name, strlen(name) + 1);
    return ESPER_OK;
}

static enum esper_status walk_class(struct walk *walk, const char *path, int class, enum split split,
                                    struct esper_error *error)
{
    struct listing list;
    const size_t before = walk->count;
    TRY(list_folder(path, &list, error));
    enum esper_status status = walk_pictures(walk, path, &list, class, split, error);
    list_free(&list);
    if (status == ESPER_OK && walk->count == before)
        return error_set(error, ESPER_INVALID, "%s: no .png, .jpg or .jpeg in this folder", path);
    return status;
}

static enum esper_status walk_classes(struct walk *walk, const char *folder, const struct listing *list,
                                      enum split split, struct esper_error *error)
{
    const bool may_add = split == SPLIT_TRAIN && !walk->reading;
    for (int i = 0; i < list->count; i++) {
        char path[PATH_MAX];
        enum kind kind;
        int class;
        TRY(entry_kind(folder, list->entry[i]->d_name, path, &kind, error));
        if (kind == KIND_LINK)
            return error_set(error, ESPER_INVALID, "%s: a link; put the folder itself there", path);
        if (kind == KIND_FILE) {
            walk->images->ignored += !walk->reading;
            continue;
        }
        TRY(class_of(walk, folder, list->entry[i]->d_name, may_add, &class, error));
        TRY(walk_class(walk, path, class, split, error));
    }
    return ESPER_OK;
}

static enum esper_status walk_split(struct walk *walk, const char *folder, enum split split, struct esper_error *error)
{
    struct listing list;
    TRY(list_folder(folder, &list, error));
    enum esper_status status = walk_classes(walk, folder, &list, split, error);
    list_free(&list);
    return status;
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

static bool holds_folders(const char *path)
{
    struct listing list;
    bool found = false;
    if (list_folder(path, &list, NULL) != ESPER_OK)
        return false;
    for (int i = 0; i < list.count && !found; i++) {
        char inner[PATH_MAX];
        enum kind kind;
        found = entry_kind(path, list.entry[i]->d_name, inner, &kind, NULL) == ESPER_OK && kind == KIND_FOLDER;
    }
    list_free(&list);
    return found;
}

/* train/, val/ and test/ are splits if folders are in train/; otherwise they are classes (pictures of trains). */
static enum esper_status find_splits(const char *directory, bool given[SPLIT_COUNT], struct esper_error *error)
{
    char path[PATH_MAX];
    enum kind kind;
    for (int split = 0; split < SPLIT_COUNT; split++) {
        const char *name = split_name((enum split)split);
        given[split] = entry_kind(directory, name, path, &kind, NULL) == ESPER_OK && kind == KIND_FOLDER &&
                       (split ? given[SPLIT_TRAIN] : holds_folders(path));
    }
    if (!given[SPLIT_TRAIN])
        return ESPER_OK;
    struct listing list;
    enum esper_status status = list_folder(directory, &list, error);
    for (int i = 0; i < list.count && status == ESPER_OK; i++) {
        const char *name = list.entry[i]->d_name;
        status = entry_kind(directory, name, path, &kind, error);
        if (status == ESPER_OK && kind != KIND_FILE && strcmp(name, "train") != 0 && strcmp(name, "val") != 0 &&
            strcmp(name, "test") != 0)
            status = error_set(error, ESPER_INVALID, "%s: beside train/ only val/ and test/ are understood", path);
    }
    list_free(&list);
    return status;
}

static enum esper_status walk_all(struct walk *walk, const char *directory, struct esper_error *error)
{
    const struct collection *images = walk->images;
    walk->count = 0;
    if (!images->given[SPLIT_TRAIN])
        return walk_split(walk, directory, SPLIT_TRAIN, error);
    for (int split = 0; split < SPLIT_COUNT; split++) {
        char path[PATH_MAX];
        snprintf(path, sizeof path, "%s/%s", directory, split_name((enum split)split));
        if (images->given[split])
            TRY(walk_split(walk, path, (enum split)split, error));
    }
    return ESPER_OK;
}

static enum esper_status take_names(const struct walk *walk, struct esper_error *error)
{
    size_t used = 0;
    char *names = memory_alloc((size_t)walk->classes, sizeof walk->names[0], error);
    if (!names)
        return ESPER_FAILED;
    walk->images->names = names;
    for (int k = 0; k < walk->classes; k++)
        used += (size_t)sprintf(names + used, "%s%s", k ? "\n" : "", walk->names[k]);
    return ESPER_OK;
}

static enum esper_status walk_twice(struct walk *walk, const char *directory, struct esper_error *error)
{
    struct collection *images = walk->images;
    TRY(find_splits(directory, images->given, error));
    TRY(walk_all(walk, directory, error));
    if (walk->classes < 2)
        return error_set(error, ESPER_INVALID,
                         "%s: holds %d folder%s of pictures; give one for each class, and at least two", directory,
                         walk->classes, walk->classes == 1 ? "" : "s");
    images->classes = walk->classes;
    images->count = walk->count;
    TRY(take_names(walk, error));
    walk->reading = true;
    TRY(walk_all(walk, directory, error));
    if (walk->count != images->count)
        return error_set(error, ESPER_FAILED, "%s: files went while they were read; try again", directory);
    return ESPER_OK;
}

enum esper_status folder_collect(struct collection *images, const char *directory, struct esper_error *error)
{
    struct walk walk = {.images = images};
    walk.names = memory_alloc(DATASET_CLASSES_MAX, sizeof walk.names[0], error);
    if (!walk.names)
        return ESPER_FAILED;
    enum esper_status status = walk_twice(&walk, directory, error);
    memory_free(walk.names);
    return status;
}
