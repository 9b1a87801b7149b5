/* esper data info, list and check: what there is, and whether it is whole. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/data.h"
#include "data/own.h"

/* ---- info ------------------------------------------------------------------------------------------------------- */

static void images_print(const struct dataset *dataset)
{
    cli_print("%s: %dx%d pixels, %d classes", dataset->name, dataset->size, dataset->size, dataset->classes);
    if (dataset->file)
        cli_print(", checksum %s", dataset->checksum);
    cli_print("\n");
    for (int split = 0; split < SPLIT_COUNT; split++) {
        struct split_summary s =
            split_summarise(dataset->images[split], dataset->labels[split], dataset->count[split], dataset->size);
        cli_print("%-6s %6zu  mean %.4f %.4f %.4f  std %.4f %.4f %.4f  per class", split_name((enum split)split),
                  dataset->count[split], s.mean[0], s.mean[1], s.mean[2], s.deviation[0], s.deviation[1],
                  s.deviation[2]);
        for (int label = 0; label < dataset->classes; label++)
            cli_print(" %zu", s.histogram[label]);
        cli_print("\n");
    }
    for (int label = 0; dataset->class_names && label < dataset->classes; label++) {
        int length;
        const char *name = own_class_name(dataset->class_names, label, &length);
        cli_print("class %d %.*s\n", label, length, name);
    }
}

/* Any file may be text: how many of the 256 bytes it uses, and how evenly, tells a book from rubbish. */
static void text_print(const struct dataset *dataset)
{
    struct text_summary all = {0}, of_split[SPLIT_COUNT] = {0};
    size_t bytes = 0;
    for (int split = 0; split < SPLIT_COUNT; split++) {
        text_summarise(&all, dataset->stream[split], dataset->bytes[split]);
        text_summarise(&of_split[split], dataset->stream[split], dataset->bytes[split]);
        bytes += dataset->bytes[split];
    }
    cli_print("%s: %zu bytes", dataset->name, bytes);
    if (dataset->file)
        cli_print(", documents %zu", dataset->documents);
    cli_print(", distinct bytes %d, entropy of single bytes %.3f bits", all.distinct, all.entropy);
    if (dataset->file)
        cli_print(", checksum %s", dataset->checksum);
    cli_print("\n");
    for (int split = 0; split < SPLIT_COUNT; split++)
        cli_print("%-6s %9zu bytes  distinct %3d  entropy %.3f\n", split_name((enum split)split), dataset->bytes[split],
                  of_split[split].distinct, of_split[split].entropy);
}

static enum esper_status show_set(struct cli_call *call, struct esper_error *error)
{
    const char *text = call->words.count ? call->words.items[0] : data_facts_of(DATA_CIFAR10)->name;
    const enum data_set set = data_set_named(text);
    const int size = set == DATA_SYNTHETIC ? *(const int *)call->flags : set == DATA_SETS ? 0 : DATASET_SIZE;
    struct dataset *dataset;
    TRY(dataset_open_named(text, size, 0, &dataset, error));
    if (dataset->kind == KIND_TEXT)
        text_print(dataset);
    else
        images_print(dataset);
    dataset_close(dataset);
    return ESPER_OK;
}

const struct cli_page data_info_page = {
    .usage = "data info [cifar10|fashion|mnist|synthetic|text|language | NAME | FILE] [--size N]",
    .about = "Shows what a data set, one of your own by its name, or a packed file contains: images per split, mean\n"
             "and deviation per colour, images per class and what the classes are called; or bytes per split, how\n"
             "many of the 256 occur, and their entropy. Without a name: cifar10.",
    .example = "esper data info fashion",
    .options =
        (const struct cli_option[]){{"size", CLI_INT, "N", 0, "width of synthetic images, 16 or 32 (16)", 16, 32}, {0}},
    .max_words = 1,
    .run = show_set,
    .flags_size = sizeof(int),
    .defaults = &(const int){16},
};

/* ---- list and check ---------------------------------------------------------------------------------------------- */

static int is_packed_file(const struct dirent *entry)
{
    const size_t length = strlen(entry->d_name), end = strlen(DATASET_EXTENSION);
    return length > end && strcmp(entry->d_name + length - end, DATASET_EXTENSION) == 0;
}

static int by_bytes(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static void print_line(const char *name, const char *path, const struct dataset *data)
{
    const size_t *size = data->kind == KIND_TEXT ? data->bytes : data->count;
    cli_print("%-20s %-9s ", name, data_facts_of(data->set)->name);
    if (data->kind == KIND_IMAGES)
        cli_print("%dx%d, %d classes, ", data->size, data->size, data->classes);
    cli_print("%zu train, %zu val, %zu test %s  %s\n", size[SPLIT_TRAIN], size[SPLIT_VAL], size[SPLIT_TEST],
              data->kind == KIND_TEXT ? "bytes" : "images", path);
}

/* One packed file; a damaged one is reported, and does not hide the others. */
static bool list_file(const char *name, const char *path)
{
    struct esper_error error = {0};
    struct dataset *data;
    if (dataset_open_named(path, 0, 0, &data, &error) != ESPER_OK) {
        cli_fail(&error);
        return false;
    }
    print_line(name, path, data);
    dataset_close(data);
    return true;
}

static bool list_place(const struct place *place, int *found)
{
    struct dirent **entries;
    bool good = true;
    const int count = place->path[0] ? scandir(place->path, &entries, is_packed_file, by_bytes) : -1;
    for (int i = 0; i < count; i++) {
        char path[CONFIG_PATH + 256], name[256];
        snprintf(path, sizeof path, "%s/%s", place->path, entries[i]->d_name);
        snprintf(name, sizeof name, "%.*s", (int)(strlen(entries[i]->d_name) - strlen(DATASET_EXTENSION)),
                 entries[i]->d_name);
        good = list_file(name, path) && good;
        (*found)++;
        free(entries[i]);
    }
    if (count >= 0)
        free(entries);
    return good;
}

static enum esper_status list_sets(struct cli_call *call, struct esper_error *error)
{
    struct place place;
    int found = 0;
    bool good = true;
    (void)error;
    for (int i = 0; dataset_place(i, &place); i++)
        good = list_place(&place, &found) && good;
    for (int set = 0; set < DATA_SETS; set++)
        if (!data_facts_of(set)->packed)
            cli_print("%-20s %-9s built in\n", data_facts_of(set)->name, data_facts_of(set)->name);
    if (!found)
        cli_print("no packed file yet: `esper data get SET` or `esper data import DIR --name NAME` writes one\n");
    call->code = good ? CLI_OK : CLI_WRONG;
    return ESPER_OK;
}

const struct cli_page data_list_page = {
    .usage = "data list",
    .about = "Every packed file in the places where tasks look ($ESPER_DATA, data/, the user's data directory): what\n"
             "it is called, its set, what it holds and where it is. A damaged file is reported, and sets the exit\n"
             "code.",
    .example = "esper data list",
    .run = list_sets,
};

static enum esper_status check_sets(struct cli_call *call, struct esper_error *error)
{
    for (int i = 0; i < call->words.count; i++) {
        const char *text = call->words.items[i];
        const enum data_set set = data_set_named(text);
        struct dataset *data;
        TRY(dataset_open_named(text, set == DATA_SETS ? 0 : DATASET_SIZE, 0, &data, error));
        cli_print("%s: good%s%s\n", text, data->file ? ", checksum " : "", data->checksum);
        dataset_close(data);
    }
    return ESPER_OK;
}

const struct cli_page data_check_page = {
    .usage = "data check NAME|FILE...",
    .about = "Reads a packed file as a run would, all of it, and says whether it is whole: its format, its shapes,\n"
             "that every label is a class, and its checksum. The first that is not ends it, with exit code 2.",
    .example = "esper data check flowers",
    .min_words = 1,
    .max_words = CLI_MAX_LIST,
    .wanted = "the name of a data set, or a packed file",
    .run = check_sets,
};
