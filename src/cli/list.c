/* esper list: the runs, the newest first, with what they take and what people said about them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "cli/shelf.h"

struct list_flags {
    struct shelf_flags shelf;
    bool by_size;
};

static int largest_first(const void *a, const void *b)
{
    const struct shelf_run *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    return strcmp(x->name, y->name);
}

static void print_table(const struct run_shelf *shelf, const char *runs, bool all)
{
    char size[24], age[24], rounds[32], tags[LABEL_TAGS * LABEL_TAG];
    cli_print("%-32s %-12s %11s %10s %7s  %-18s %s\n", "run", "state", "rounds", "size", "changed", "task", "tags");
    for (int i = 0; i < shelf->count; i++) {
        const struct shelf_run *run = &shelf->runs[i];
        snprintf(rounds, sizeof rounds, "%u/%d", run->round, run->rounds);
        cli_print("%-32s %-12s %11s %10s %7s  %-18s %s\n", run->name, run->state, run->rounds ? rounds : "",
                  shelf_size(run->bytes, size), shelf_age(run->changed, age), run->task, shelf_tags(&run->label, tags));
        if (*run->label.note)
            cli_print("%-32s %s\n", "", run->label.note);
    }
    cli_print("%d run%s, %s\n", shelf->count, shelf->count == 1 ? "" : "s", shelf_size(shelf->bytes, size));
    if (shelf->others && all)
        cli_print("not runs: %s%s; what is inside: esper list --runs %s/%s\n", shelf->first_other,
                  shelf->others > 1 ? " and others" : "", runs, shelf->first_other);
}

static enum esper_status print_json(const struct run_shelf *shelf, struct esper_error *error)
{
    cJSON *root = cJSON_CreateObject(), *list = json_add_list(root, "runs");
    for (int i = 0; i < shelf->count; i++)
        shelf_json(list, &shelf->runs[i]);
    json_add_number(root, "bytes", (double)shelf->bytes);
    return cli_print_json(root, error);
}

/* A run that cannot be read hides no other: it is reported, and sets the exit code. */
static void complain(const struct run_shelf *shelf, struct cli_call *call)
{
    for (int i = 0; i < shelf->count; i++)
        if (*shelf->runs[i].trouble) {
            struct esper_error error;
            error_set(&error, ESPER_INVALID, "%s", shelf->runs[i].trouble);
            call->code = cli_fail(&error);
        }
}

static enum esper_status list(struct cli_call *call, struct esper_error *error)
{
    const struct list_flags *flags = call->flags;
    struct run_shelf shelf;
    enum esper_status status = shelf_select(call, &flags->shelf, &shelf, error);
    if (status == ESPER_OK && flags->by_size && shelf.count > 1)
        qsort(shelf.runs, (size_t)shelf.count, sizeof *shelf.runs, largest_first);
    if (status == ESPER_OK && flags->shelf.json)
        status = print_json(&shelf, error);
    else if (status == ESPER_OK)
        print_table(&shelf, call->runs, !flags->shelf.older && !flags->shelf.tag && !flags->shelf.state);
    if (status == ESPER_OK)
        complain(&shelf, call);
    run_shelf_free(&shelf);
    return status;
}

#define AT(member) offsetof(struct list_flags, member)
const struct cli_page list_page = {
    .usage = "list [RUN...] [options]",
    .about =
        "The runs, or those named, the newest first: state, rounds done and planned, what they take on the disk, how\n"
        "long ago they changed, task, tags and note (see `esper tag`). A run that says it is running and whose\n"
        "process is gone has crashed; `esper train --resume` continues it.",
    .example = "esper list --older 30d --by-size",
    .options = (const struct cli_option[]){SHELF_OPTIONS(AT(shelf)),
                                           {"by-size", CLI_FLAG, NULL, AT(by_size), "the largest first", 0, 0},
                                           {0}},
    .max_words = CLI_MAX_LIST,
    .run = list,
    .flags_size = sizeof(struct list_flags),
};
