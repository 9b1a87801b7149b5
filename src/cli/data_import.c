/* esper data import: images or a text of one's own. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/memory.h"
#include "cli/data.h"
#include "data/collection.h"

struct import_options {
    const char *as, *name, *out;
};

/* What was given, where nobody says: a folder and arrays are images, any other file is text. */
static enum esper_status guess_kind(const char *path, enum data_kind *kind, struct esper_error *error)
{
    struct stat info;
    void *data;
    size_t bytes;
    *kind = KIND_IMAGES;
    if (stat(path, &info) == 0 && S_ISDIR(info.st_mode))
        return ESPER_OK;
    TRY(file_load(path, &data, &bytes, error));
    const char *found = file_kind(data, bytes);
    if (!found || strcmp(found, FILE_SAFETENSORS) != 0)
        *kind = KIND_TEXT;
    memory_free(data);
    return ESPER_OK;
}

static enum esper_status choose_kind(const struct cli_call *call, enum data_kind *kind, struct esper_error *error)
{
    const struct import_options *options = call->flags;
    if (!options->as)
        return guess_kind(call->words.items[0], kind, error);
    if (strcmp(options->as, "images") != 0 && strcmp(options->as, "text") != 0)
        return error_set(error, ESPER_INVALID, "--as %.60s: it must be images or text", options->as);
    *kind = options->as[0] == 't' ? KIND_TEXT : KIND_IMAGES;
    return ESPER_OK;
}

/* A name stands for one file: nobody's data is replaced by that of the next import. */
static enum esper_status check_name(const struct import_options *options, struct esper_error *error)
{
    char found[CONFIG_PATH];
    if (!options->name)
        return ESPER_OK;
    if (dataset_check_name(options->name, error) != ESPER_OK)
        return error_where(error, "--name %.80s", options->name);
    if (!options->out && dataset_find(options->name, found))
        return error_set(error, ESPER_INVALID,
                         "--name %s: %s is there already; choose another name, or remove that file first",
                         options->name, found);
    return ESPER_OK;
}

static enum esper_status import_images(const struct cli_call *call, const char *title, const char *path,
                                       struct esper_error *error)
{
    const char *source = call->words.items[0];
    struct collection images;
    size_t count[SPLIT_COUNT];
    data_announce("reading images");
    enum esper_status status = collection_read(&images, source, error);
    if (status == ESPER_OK && (status = collection_write(&images, title, path, count, error)) == ESPER_INVALID)
        error_where(error, "%s", source);
    if (status == ESPER_OK) {
        cli_print("wrote %s: %d classes, %dx%d pixels, %zu train, %zu val, %zu test images\n", path, images.classes,
                  images.size, images.size, count[SPLIT_TRAIN], count[SPLIT_VAL], count[SPLIT_TEST]);
        if (images.ignored)
            cli_print("ignored %zu files that are no .png, .jpg or .jpeg in the folder of a class\n", images.ignored);
    }
    collection_free(&images);
    return status;
}

static enum esper_status import_text(const struct cli_call *call, const char *path, struct esper_error *error)
{
    struct text text = {0};
    enum esper_status status = ESPER_OK;
    for (int i = 0; i < call->words.count && status == ESPER_OK; i++)
        status = text_add_file(&text, call->words.items[i], error);
    if (status == ESPER_OK)
        status = data_write_text(&text, "files on disk", path, error);
    text_free(&text);
    return status;
}

static enum esper_status import_files(struct cli_call *call, struct esper_error *error)
{
    const struct import_options *options = call->flags;
    const char *out = options->out, *name = options->name;
    char target[PATH_MAX];
    enum data_kind kind = KIND_TEXT;
    cli_output(out);
    TRY(choose_kind(call, &kind, error));
    TRY(check_name(options, error));
    if (kind == KIND_IMAGES && call->words.count != 1)
        return error_set(error, ESPER_INVALID, "images are imported from one folder or one file; %d were given",
                         call->words.count);
    if (kind == KIND_IMAGES && !name && !out)
        return error_set(error, ESPER_INVALID, "name the images, as tasks shall call them, with --name NAME");
    TRY(data_target(name ? name : data_facts_of(DATA_TEXT)->name, &out, target, error));
    if (kind == KIND_TEXT)
        return import_text(call, out, error);
    TRY(import_images(call, name ? name : "images", out, error));
    if (name && !options->out)
        cli_print("train on it with: esper train --task images --set data.name=%s\n", name);
    return ESPER_OK;
}

#define AT(member) offsetof(struct import_options, member)
const struct cli_page data_import_page = {
    .usage = "data import DIR|FILE... [--name NAME] [--as images|text] [--out FILE]",
    .about =
        "Writes the packed file of images or of a text of your own (docs/data.md).\n"
        "Images: a folder with a folder of PNG or JPEG pictures for each class, or with train/, val/ and test/ that\n"
        "hold those; a folder of IDX files (train-images-idx3-ubyte ...); or a safetensors file with the tensors\n"
        "images and labels. 2 to 1000 classes, 16x16 to 64x64 pixels, grey or colour. A split that is not given is\n"
        "a tenth of each class; normalisation is measured. Tasks use it with data.set=images and data.name=NAME.\n"
        "Text: the files are documents, one after the other as they are given, byte for byte. The first 90 % train,\n"
        "5 % validate, 5 % test; a cut moves to the end of a file that is near. Tasks use it with data.set=text, and\n"
        "data.name=NAME if it has a name.\n"
        "Without --out the file is NAME.safetensors where `esper data get` would put it, and of a text without a\n"
        "name text.safetensors; any other file is used with --set data.path=FILE.",
    .example = "esper data import flowers/ --name flowers",
    .options =
        (const struct cli_option[]){{"name", CLI_TEXT, "NAME", AT(name), "what tasks call it", 0, 0},
                                    {"as", CLI_TEXT, "KIND", AT(as),
                                     "what it is, images or text; without it folders and safetensors are images", 0, 0},
                                    {"out", CLI_TEXT, "FILE", AT(out), "the packed file to write; - is stdout", 0, 0},
                                    {0}},
    .min_words = 1,
    .max_words = CLI_MAX_LIST,
    .wanted = "a folder of images, or a file",
    .run = import_files,
    .flags_size = sizeof(struct import_options),
};
#undef AT
