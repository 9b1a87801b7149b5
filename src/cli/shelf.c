#include "cli/shelf.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/json.h"
#include "telemetry/run_json.h"

/* ---- which runs -------------------------------------------------------------------------------------------------- */

enum esper_status shelf_select(const struct cli_call *call, const struct shelf_flags *flags, struct run_shelf *shelf,
                               struct esper_error *error)
{
    struct shelf_wish wish = {
        .words = call->words.items, .count = call->words.count, .tag = flags->tag, .state = flags->state};
    memset(shelf, 0, sizeof *shelf);
    if (flags->older)
        TRY(run_shelf_age(flags->older, &wish.older, error));
    if (flags->state)
        TRY(run_shelf_check_state(flags->state, error));
    if (flags->tag && run_label_check_tag(flags->tag, error) != ESPER_OK)
        return error_where(error, "--tag");
    return run_shelf_open(shelf, call->runs, &wish, error);
}

/* Whether it may be packed or removed: nobody trains it, Esper wrote its run.json, and it is no link. */
static enum esper_status check(const struct shelf_run *run, struct esper_error *error)
{
    struct run_files files;
    if (run->alive)
        return error_set(error, ESPER_FAILED, "%s: a process is training this run; stop it first, or wait for it",
                         run->path);
    TRY(run_json_check(run->path, error));
    enum esper_status status = run_files_open(&files, run->path, error);
    run_files_close(&files);
    return status;
}

enum esper_status shelf_select_idle(const struct cli_call *call, const struct shelf_flags *flags,
                                    struct run_shelf *shelf, struct esper_error *error)
{
    int kept = 0;
    memset(shelf, 0, sizeof *shelf);
    if (call->words.count == 0 && !flags->older && !flags->tag && !flags->state)
        return error_set(error, ESPER_INVALID, "%s: name runs, or say which with --older, --tag or --state; see --help",
                         call->argv[0]);
    TRY(shelf_select(call, flags, shelf, error));
    /* All of them, before anything is touched in any. */
    for (int i = 0; i < shelf->count; i++) {
        if (check(&shelf->runs[i], error) == ESPER_OK) {
            if (kept++ != i)
                shelf->runs[kept - 1] = shelf->runs[i];
            continue;
        }
        if (call->words.count)
            return error->status;
        cli_warn("passed over: %s", error->text);
        shelf->bytes -= shelf->runs[i].bytes;
    }
    shelf->count = kept;
    return ESPER_OK;
}

/* ---- in words ---------------------------------------------------------------------------------------------------- */

const char *shelf_size(uint64_t bytes, char text[24])
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    double size = (double)bytes;
    int unit = 0;
    while (size >= 1000 && unit < 4) {
        size /= 1024;
        unit++;
    }
    snprintf(text, 24, "%.*f %s", unit && size < 100 ? 1 : 0, size, units[unit]);
    return text;
}

const char *shelf_age(int64_t changed, char text[24])
{
    long long seconds = (long long)(time(NULL) - changed);
    if (seconds < 0)
        seconds = 0;
    if (seconds < 3600)
        snprintf(text, 24, "%lldm", seconds / 60);
    else if (seconds < 2 * 86400)
        snprintf(text, 24, "%lldh", seconds / 3600);
    else
        snprintf(text, 24, "%lldd", seconds / 86400);
    return text;
}

const char *shelf_tags(const struct run_label *label, char text[LABEL_TAGS * LABEL_TAG])
{
    size_t used = 0;
    text[0] = '\0';
    for (int i = 0; i < label->count; i++)
        used += (size_t)snprintf(text + used, LABEL_TAGS * LABEL_TAG - used, "%s%s", i ? " " : "", label->tags[i]);
    return text;
}

cJSON *shelf_json(cJSON *list, const struct shelf_run *run)
{
    cJSON *object = json_add_object(list, NULL);
    json_add_text(object, "name", run->name);
    json_add_text(object, "path", run->path);
    json_add_text(object, "state", run->state);
    json_add_bool(object, "alive", run->alive);
    json_add_text(object, "task", run->task);
    json_add_text(object, "policy", run->policy);
    json_add_text(object, "created", run->created);
    json_add_text(object, "updated", run->updated);
    json_add_number(object, "round", run->round);
    json_add_number(object, "rounds", run->rounds);
    json_add_number(object, "bytes", (double)run->bytes);
    cJSON *tags = json_add_list(object, "tags");
    for (int i = 0; i < run->label.count; i++)
        json_add_text(tags, NULL, run->label.tags[i]);
    json_add_text(object, "note", run->label.note);
    if (*run->trouble)
        json_add_text(object, "error", run->trouble);
    return object;
}

/* ---- signals ----------------------------------------------------------------------------------------------------- */

static volatile sig_atomic_t stopping;

static void on_signal(int number)
{
    (void)number;
    stopping = 1;
}

void shelf_catch_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
    signal(SIGXFSZ, SIG_IGN); /* a file size limit is like a full disk: an error with its own message */
}

bool shelf_stopped(void)
{
    return stopping;
}

/* ---- removing ---------------------------------------------------------------------------------------------------- */

enum esper_status shelf_remove(struct run_files *files, bool quiet, struct esper_error *error)
{
    char size[24], more[48] = "";
    bool gone;
    TRY(run_files_remove(files, &gone, error));
    run_forget_latest(files->path);
    if (files->strange > 1)
        snprintf(more, sizeof more, " and %d more", files->strange - 1);
    if (!gone)
        cli_warn("%s: the directory stays, with %s%s, which Esper did not write", files->path, files->first_strange,
                 more);
    if (!quiet)
        cli_print("removed %s, %s\n", files->path, shelf_size(files->bytes, size));
    return ESPER_OK;
}
