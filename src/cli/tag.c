/* esper tag: tags and a note for runs. */
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "cli/shelf.h"

struct tag_flags {
    struct shelf_flags shelf; /* json alone */
    const char *note;
};

/* Words with a sign are tags, the others runs. */
static bool is_tag(const char *word)
{
    return *word == '+' || *word == '-';
}

static enum esper_status change(struct run_label *label, const struct cli_list *words, const char *note,
                                struct esper_error *error)
{
    for (int i = 0; i < words->count; i++) {
        const char *word = words->items[i];
        if (!is_tag(word))
            continue;
        TRY(run_label_check_tag(word + 1, error));
        if (*word == '+')
            TRY(run_label_add(label, word + 1, error));
        else
            run_label_drop(label, word + 1);
    }
    return note ? run_label_set_note(label, note, error) : ESPER_OK;
}

static void print_labels(const struct run_shelf *shelf)
{
    char tags[LABEL_TAGS * LABEL_TAG];
    for (int i = 0; i < shelf->count; i++) {
        const struct run_label *label = &shelf->runs[i].label;
        cli_print("%s: %s%s%s\n", shelf->runs[i].path, label->count ? shelf_tags(label, tags) : "no tags",
                  *label->note ? "; " : "", label->note);
    }
}

static enum esper_status print_json(const struct run_shelf *shelf, struct esper_error *error)
{
    cJSON *root = cJSON_CreateObject(), *list = json_add_list(root, "runs");
    for (int i = 0; i < shelf->count; i++)
        shelf_json(list, &shelf->runs[i]);
    return cli_print_json(root, error);
}

/* All labels are read and changed before the first is written. */
static enum esper_status apply(const struct cli_call *call, struct run_shelf *shelf, struct esper_error *error)
{
    const struct tag_flags *flags = call->flags;
    bool changes = flags->note != NULL;
    for (int i = 0; i < call->words.count; i++)
        changes = changes || is_tag(call->words.items[i]);
    for (int i = 0; i < shelf->count; i++) {
        struct shelf_run *run = &shelf->runs[i];
        TRY(run_label_read(run->path, &run->label, error));
        if (change(&run->label, &call->words, flags->note, error) != ESPER_OK)
            return error_where(error, "%s", run->path);
    }
    for (int i = 0; changes && i < shelf->count; i++)
        TRY(run_label_write(shelf->runs[i].path, &shelf->runs[i].label, error));
    return ESPER_OK;
}

static enum esper_status tag(struct cli_call *call, struct esper_error *error)
{
    const struct tag_flags *flags = call->flags;
    struct cli_call named = {.argc = call->argc, .argv = call->argv, .runs = call->runs};
    struct run_shelf shelf;
    for (int i = 0; i < call->words.count; i++)
        if (!is_tag(call->words.items[i]))
            named.words.items[named.words.count++] = call->words.items[i];
    if (named.words.count == 0)
        return error_set(error, ESPER_INVALID, "tag: give a run; see --help");
    enum esper_status status = shelf_select(&named, &flags->shelf, &shelf, error);
    if (status == ESPER_OK)
        status = apply(call, &shelf, error);
    if (status == ESPER_OK && flags->shelf.json)
        status = print_json(&shelf, error);
    else if (status == ESPER_OK)
        print_labels(&shelf);
    run_shelf_free(&shelf);
    return status;
}

#define AT(member) offsetof(struct tag_flags, member)
const struct cli_page tag_page = {
    .usage = "tag RUN... [+TAG...] [-TAG...] [--note TEXT] [options]",
    .about = "Adds tags (+TAG) to runs, takes them away (-TAG), and sets a note of one line; --note '' removes it.\n"
             "Without any of these it shows what there is. They are kept in RUN/label.json, travel with the run, and\n"
             "`esper list`, `rm` and `archive` choose by them: --tag TAG. A run in training can be tagged as well.",
    .example = "esper tag first second +baseline -draft --note 'before the larger batch'",
    .options = (const struct cli_option[]){{"note", CLI_TEXT, "TEXT", AT(note), "the note", 0, 0},
                                           CLI_RUNS_OPTION,
                                           {"json", CLI_FLAG, NULL, AT(shelf.json), "print the result as JSON", 0, 0},
                                           {0}},
    .min_words = 1,
    .max_words = CLI_MAX_LIST,
    .wanted = "a run",
    .minus_words = true,
    .run = tag,
    .flags_size = sizeof(struct tag_flags),
};
