/* esper rm: removes runs, and nothing but what Esper wrote. */
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "cli/shelf.h"

/* Under the lock, so that nobody begins to train it meanwhile. */
static enum esper_status remove_run(const struct shelf_run *run, bool quiet, struct esper_error *error)
{
    struct run_files files;
    int lock;
    TRY(run_hold(run->path, true, &lock, error));
    enum esper_status status = run_files_open(&files, run->path, error);
    if (status == ESPER_OK)
        status = shelf_remove(&files, quiet, error);
    run_files_close(&files);
    close(lock);
    return status;
}

/* Removes them one by one; *done counts those that are gone. */
static enum esper_status remove_all(const struct run_shelf *shelf, const struct shelf_flags *flags, int *done,
                                    struct esper_error *error)
{
    char size[24];
    for (*done = 0; *done < shelf->count; ++*done) {
        const struct shelf_run *run = &shelf->runs[*done];
        if (shelf_stopped())
            return error_set(error, ESPER_INTERRUPTED, "stopped; %d of %d runs are removed, the others whole", *done,
                             shelf->count);
        if (!flags->dry_run)
            TRY(remove_run(run, flags->json, error));
        else if (!flags->json)
            cli_print("would remove %s, %s\n", run->path, shelf_size(run->bytes, size));
    }
    return ESPER_OK;
}

static enum esper_status print_json(const struct run_shelf *shelf, const struct shelf_flags *flags, int done,
                                    struct esper_error *error)
{
    uint64_t bytes = 0;
    cJSON *root = cJSON_CreateObject();
    json_add_bool(root, "dry_run", flags->dry_run);
    cJSON *list = json_add_list(root, "removed");
    for (int i = 0; i < done; i++) {
        shelf_json(list, &shelf->runs[i]);
        bytes += shelf->runs[i].bytes;
    }
    json_add_number(root, "bytes", (double)bytes);
    return cli_print_json(root, error);
}

static enum esper_status rm(struct cli_call *call, struct esper_error *error)
{
    const struct shelf_flags *flags = call->flags;
    struct run_shelf shelf;
    struct esper_error lost;
    int done = 0;
    shelf_catch_signals();
    enum esper_status status = shelf_select_idle(call, flags, &shelf, error);
    if (status == ESPER_OK) {
        status = remove_all(&shelf, flags, &done, error);
        if (flags->json && print_json(&shelf, flags, done, &lost) != ESPER_OK && status == ESPER_OK)
            status = error_set(error, lost.status, "%s", lost.text);
        if (!flags->json && shelf.count == 0)
            cli_print("no run is meant; nothing was removed\n");
    }
    run_shelf_free(&shelf);
    return status;
}

const struct cli_page rm_page = {
    .usage = "rm RUN... | --older AGE | --tag TAG | --state STATE [options]",
    .about = "Removes runs: those named, or those of the directory that the options mean, all of which must hold. It\n"
             "removes what Esper wrote; a directory that holds something else stays, with that. A run in training is\n"
             "never touched, and a directory that is no run is refused. Ctrl-C stops between two runs.",
    .example = "esper rm --older 30d --tag draft --dry-run",
    .options = (const struct cli_option[]){SHELF_OPTIONS(0), SHELF_DRY_RUN(0), {0}},
    .max_words = CLI_MAX_LIST,
    .run = rm,
    .flags_size = sizeof(struct shelf_flags),
};
