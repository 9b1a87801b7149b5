/* esper archive: runs in one file, and their directories removed if that was asked for. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/json.h"
#include "base/memory.h"
#include "cli/shelf.h"
#include "telemetry/run_archive.h"

struct archive_flags {
    struct shelf_flags shelf;
    const char *output;
    bool remove;
};

/* The runs, held from before the first is packed until the last is removed. */
struct archive {
    const struct archive_flags *flags;
    struct run_shelf shelf;
    struct run_files *files; /* [run] */
    int *locks;              /* [run] */
    int held;
    uint64_t done, total;
    struct cli_progress progress;
};

/* ---- the runs ---------------------------------------------------------------------------------------------------- */

/* Unpacked, each is a directory of its own that names a run. */
static enum esper_status check_names(const struct run_shelf *shelf, struct esper_error *error)
{
    for (int i = 0; i < shelf->count; i++) {
        if (run_check_name(shelf->runs[i].name, error) != ESPER_OK)
            return error_where(error, "%s", shelf->runs[i].path);
        for (int k = 0; k < i; k++)
            if (strcmp(shelf->runs[i].name, shelf->runs[k].name) == 0)
                return error_set(error, ESPER_INVALID, "%.200s and %.200s have the same name; pack them into two files",
                                 shelf->runs[k].path, shelf->runs[i].path);
    }
    return ESPER_OK;
}

/* Each takes three descriptors. */
static void ask_for_descriptors(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static enum esper_status hold_all(struct archive *archive, struct esper_error *error)
{
    const struct run_shelf *shelf = &archive->shelf;
    archive->files = memory_alloc((size_t)shelf->count, sizeof *archive->files, error);
    archive->locks = memory_alloc((size_t)shelf->count, sizeof *archive->locks, error);
    if (!archive->files || !archive->locks)
        return ESPER_FAILED;
    ask_for_descriptors();
    for (int i = 0; i < shelf->count; i++) {
        archive->locks[i] = -1;
        if (!archive->flags->shelf.dry_run)
            TRY(run_hold(shelf->runs[i].path, archive->flags->remove, &archive->locks[i], error));
        archive->held = i + 1;
        TRY(run_files_open(&archive->files[i], shelf->runs[i].path, error));
        archive->total += archive->files[i].bytes;
    }
    return ESPER_OK;
}

static void release(struct archive *archive)
{
    for (int i = 0; i < archive->held; i++) {
        run_files_close(&archive->files[i]);
        if (archive->locks[i] >= 0)
            close(archive->locks[i]);
    }
    memory_free(archive->files);
    memory_free(archive->locks);
    run_shelf_free(&archive->shelf);
}

/* ---- packing ----------------------------------------------------------------------------------------------------- */

static bool go_on(void *context, uint64_t bytes)
{
    struct archive *archive = context;
    archive->done += bytes;
    if (!archive->flags->shelf.json && isatty(STDERR_FILENO))
        cli_progress(&archive->progress, (long long)(archive->done >> 20), (long long)(archive->total >> 20) + 1, NULL);
    return !shelf_stopped();
}

static enum esper_status pack(struct archive *archive, struct esper_error *error)
{
    struct tar_writer tar;
    TRY(tar_begin(&tar, archive->flags->output, error));
    for (int i = 0; i < archive->shelf.count; i++)
        TRY(run_archive_add(&tar, &archive->files[i], archive->shelf.runs[i].name, go_on, archive, error));
    return tar_commit(&tar, error);
}

/* The archive is complete and on the disk. A run that somebody tagged or reported on meanwhile stays. */
static enum esper_status remove_all(struct archive *archive, int *removed, struct esper_error *error)
{
    for (*removed = 0; *removed < archive->shelf.count; ++*removed) {
        struct run_files *packed = &archive->files[*removed], now;
        if (shelf_stopped())
            return error_set(error, ESPER_INTERRUPTED, "stopped; the archive is complete, %d of %d runs are removed",
                             *removed, archive->shelf.count);
        enum esper_status status = run_files_open(&now, packed->path, error);
        if (status == ESPER_OK && !run_files_same(packed, &now))
            status = error_set(error, ESPER_FAILED, "%s: changed after it was packed, and stays", packed->path);
        if (status == ESPER_OK)
            status = shelf_remove(&now, true, error);
        run_files_close(&now);
        TRY(status);
    }
    return ESPER_OK;
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

static enum esper_status check_output(const struct archive_flags *flags, struct esper_error *error)
{
    struct stat info;
    if (!flags->output)
        return error_set(error, ESPER_INVALID, "archive: say where to: --output FILE.tar; see --help");
    if (strcmp(flags->output, "-") == 0)
        return flags->remove ? error_set(error, ESPER_INVALID,
                                         "--remove: what goes to standard output may never reach "
                                         "a disk; name a file with --output")
                             : ESPER_OK;
    if (lstat(flags->output, &info) == 0) /* it may be all that is left of other runs */
        return error_set(error, ESPER_INVALID, "%s: already exists; choose another name", flags->output);
    return ESPER_OK;
}

static enum esper_status tell(const struct archive *archive, int removed, struct esper_error *error)
{
    const struct archive_flags *flags = archive->flags;
    char size[24];
    if (!flags->shelf.json) {
        cli_print("%s%s: %d run%s, %s%s\n", flags->shelf.dry_run ? "would write " : "", flags->output,
                  archive->shelf.count, archive->shelf.count == 1 ? "" : "s", shelf_size(archive->total, size),
                  removed                                 ? "; their directories are removed"
                  : flags->remove && flags->shelf.dry_run ? ", and remove their directories"
                                                          : "");
        return ESPER_OK;
    }
    cJSON *root = cJSON_CreateObject();
    json_add_bool(root, "dry_run", flags->shelf.dry_run);
    json_add_text(root, "archive", flags->output);
    cJSON *list = json_add_list(root, "runs");
    for (int i = 0; i < archive->shelf.count; i++)
        shelf_json(list, &archive->shelf.runs[i]);
    json_add_number(root, "bytes", (double)archive->total);
    json_add_number(root, "removed", removed);
    return cli_print_json(root, error);
}

static enum esper_status write_archive(struct archive *archive, struct esper_error *error)
{
    int removed = 0;
    TRY(check_names(&archive->shelf, error));
    TRY(hold_all(archive, error));
    if (archive->shelf.count == 0) {
        cli_note("no run is meant; nothing was packed\n");
        return ESPER_OK;
    }
    if (archive->flags->shelf.dry_run)
        return tell(archive, 0, error);
    enum esper_status status = pack(archive, error);
    cli_progress_end(&archive->progress);
    TRY(status);
    if (archive->flags->remove)
        TRY(remove_all(archive, &removed, error));
    return tell(archive, removed, error);
}

static enum esper_status archive_runs(struct cli_call *call, struct esper_error *error)
{
    struct archive archive = {.flags = call->flags, .progress = {.what = "packing, MiB"}};
    cli_output(archive.flags->output);
    TRY(check_output(archive.flags, error));
    shelf_catch_signals();
    enum esper_status status = shelf_select_idle(call, &archive.flags->shelf, &archive.shelf, error);
    if (status == ESPER_OK)
        status = write_archive(&archive, error);
    release(&archive);
    return status;
}

#define AT(member) offsetof(struct archive_flags, member)
const struct cli_page archive_page = {
    .usage = "archive RUN... | --older AGE | --tag TAG | --state STATE -o FILE.tar [--remove] [options]",
    .about =
        "Packs runs into one tar file, a directory each: those named, or those that the options mean, as `esper rm`\n"
        "chooses. `tar -xf FILE.tar -C runs` unpacks them, here or elsewhere, and every command reads them again.\n"
        "With --remove the directories go, once the file is complete and on the disk. A run in training is never\n"
        "touched. Ctrl-C leaves no half of a file.",
    .example = "esper archive --older 30d -o before-may.tar --remove",
    .options =
        (const struct cli_option[]){
            {"output", CLI_TEXT, "FILE", AT(output), "the file to write; - is stdout", 0, 0},
            {"remove", CLI_FLAG, NULL, AT(remove), "then remove the runs, as `esper rm` does", 0, 0},
            SHELF_OPTIONS(AT(shelf)),
            SHELF_DRY_RUN(AT(shelf)),
            {0}},
    .max_words = CLI_MAX_LIST,
    .run = archive_runs,
    .flags_size = sizeof(struct archive_flags),
};
