#include "cli/series.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/group.h"
#include "base/memory.h"
#include "cli/drive.h"
#include "cli/ranks.h"
#include "telemetry/cohort.h"
#include "telemetry/run.h"

/* ---- the folder -------------------------------------------------------------------------------------------------- */

enum esper_status series_task(struct cli_config_flags *flags, const struct cli_list *words, struct config *config,
                              struct esper_error *error)
{
    if (words->count && flags->task)
        return error_set(error, ESPER_INVALID, "--task %.60s: the task is %.60s already; leave out one of the two",
                         flags->task, words->items[0]);
    if (words->count)
        flags->task = words->items[0];
    return cli_config(flags, "quickstart", config, error);
}

/* "search-quickstart-42": the same command finds what it began. */
static void make_name(const char *what, const struct config *config, char name[96])
{
    int start = snprintf(name, 96, "%.16s-", what), end;
    end = start + snprintf(name + start, 64, "%.48s", config->task[0] ? config->task : "custom");
    for (char *at = name + start; *at; at++)
        if (run_check_name((char[]){'x', *at, '\0'}, NULL) != ESPER_OK)
            *at = '_';
    snprintf(name + end, (size_t)(96 - end), "-%llu", (unsigned long long)config->seed);
}

enum esper_status series_begin(struct series *series, const char *what, const char *runs, const char *name,
                               const struct config *config, struct esper_error *error)
{
    char made[96], run[PATH_MAX];
    make_name(what, config, made);
    if (name)
        TRY(run_check_name(name, error));
    if (snprintf(series->folder, sizeof series->folder, "%s/%s", runs, name ? name : made) >=
        (int)sizeof series->folder)
        return error_set(error, ESPER_INVALID, "%.80s...: the path is too long", runs);
    snprintf(run, sizeof run, "%s/run.json", series->folder);
    if (access(run, F_OK) == 0)
        return error_set(error, ESPER_INVALID, "%s: is a run; choose another --name", series->folder);
    series->first = -1;
    series->progress.what = "env-steps";
    return ESPER_OK;
}

/* ---- progress ---------------------------------------------------------------------------------------------------- */

/* The time left follows from what this process has played. */
static void show_step(void *context, const struct session_progress *step)
{
    struct series *series = context;
    const struct config *config = series->plan;
    if ((!step && !series->complete) || (step && *step->notice)) { /* something else is printed next */
        cli_progress_end(&series->progress);
        series->first = -1;
    }
    if (!step)
        return;
    if (*step->notice)
        cli_warn("%s", step->notice);
    if (step->twin_step) /* of the round that is to be played */
        return;
    const long long part = (long long)config->envs * ((long long)step->round * config->steps + step->step);
    const long long at = series->done + part;
    series->complete = part == (long long)config->envs * config->steps * series->rounds;
    series->first = series->first < 0 ? at - config->envs : series->first;
    if (!series->quiet)
        cli_progress(&series->progress, at - series->first, series->total - series->first, series->note);
}

/* ---- one run ----------------------------------------------------------------------------------------------------- */

void series_file(const struct series_run *run, char path[PATH_MAX])
{
    snprintf(path, PATH_MAX, "%s/%s.txt", run->folder, run->name);
}

enum esper_status series_describe(const struct series *series, struct series_run *run, const char *folder,
                                  const char *name, const struct config *config, char *lines, struct esper_error *error)
{
    char file[PATH_MAX];
    snprintf(run->folder, sizeof run->folder, "%s%s%s", series->folder, *folder ? "/" : "", folder);
    snprintf(run->name, sizeof run->name, "%s", name);
    snprintf(run->path, sizeof run->path, "%s/%s", run->folder, run->name);
    run->config = *config;
    run->lines = lines;
    series_file(run, file);
    if (lines && snprintf(run->config.policy.schedule, CONFIG_TEXT, "@%s", file) >= CONFIG_TEXT)
        return error_set(error, ESPER_INVALID, "%.80s...: the path is too long", file);
    return ESPER_OK;
}

static bool is_there(const struct series_run *run)
{
    char file[PATH_MAX + 16];
    snprintf(file, sizeof file, "%s/run.json", run->path);
    return access(file, F_OK) == 0;
}

/* The run must be the one that this command would play, on any number of threads: a series with other settings has
 * another name. Schedules are compared by themselves. */
static enum esper_status check_settings(const struct series *series, const struct series_run *plan,
                                        const struct run *run, struct esper_error *error)
{
    char there[CONFIG_TEXT], here[CONFIG_TEXT];
    struct config config = plan->config;
    config.threads = run->config.threads;
    if (series->device)
        config.device = run->config.device;
    memcpy(config.policy.schedule, run->config.policy.schedule, sizeof config.policy.schedule);
    int key = config_difference(&run->config, &config, 0);
    if (key < 0)
        return ESPER_OK;
    config_format_exact(&run->config, key, there);
    config_format_exact(&config, key, here);
    return error_set(error, ESPER_INVALID,
                     "%s: was begun with other settings, %s = %.60s and not %.60s; choose another --name", plan->path,
                     config_key_name(key), there, here);
}

static enum esper_status check_lines(const struct series_run *plan, struct esper_error *error)
{
    char file[PATH_MAX + 16], *lines;
    size_t size;
    if (!plan->lines)
        return ESPER_OK;
    snprintf(file, sizeof file, "%s/schedules.txt", plan->path);
    TRY(file_read(file, (size_t)1 << 26, &lines, &size, error));
    bool same = strcmp(lines, plan->lines) == 0;
    memory_free(lines);
    if (!same)
        return error_set(error, ESPER_INVALID, "%s: was begun with other schedules; choose another --name", plan->path);
    return ESPER_OK;
}

/* Whether it was stopped and saved where it should. */
static bool is_there_already(const struct series_run *plan, const struct run_status *state)
{
    return plan->until && state->state == RUN_INTERRUPTED && state->round >= (unsigned)plan->until;
}

/* Sets *done if there is nothing left to play of it. */
static enum esper_status check_run(const struct series *series, const struct series_run *plan, bool *done,
                                   struct esper_error *error)
{
    struct run run;
    struct run_status state = {0};
    TRY(run_open(&run, ".", plan->path, error));
    enum esper_status status = check_settings(series, plan, &run, error);
    if (status == ESPER_OK)
        status = check_lines(plan, error);
    if (status == ESPER_OK)
        status = run_get_status(&run, &state, error);
    *done = status == ESPER_OK && (state.state == RUN_FINISHED || is_there_already(plan, &state));
    run_close(&run);
    return status;
}

static enum esper_status write_lines(const struct series_run *run, struct esper_error *error)
{
    char file[PATH_MAX];
    struct file_writer writer;
    if (!run->lines)
        return ESPER_OK;
    series_file(run, file);
    TRY(file_begin(&writer, file, error));
    TRY(file_write(&writer, run->lines, strlen(run->lines), error));
    return file_commit(&writer, error);
}

static enum esper_status prepare_run(const struct series_run *run, struct esper_error *error)
{
    TRY(file_make_directories(run->folder, error));
    return write_lines(run, error);
}

/* What rank 0 tells the others before each run, and at the end. */
struct order {
    bool over, resume, threads; /* no more runs; one that was begun; its threads are to be changed */
    int code;                   /* at the end: how it ended */
    int until;                  /* as in the run */
    struct config config;
    char folder[sizeof((struct series_run *)NULL)->folder], name[sizeof((struct series_run *)NULL)->name];
};

static enum esper_status open_run(const struct series *series, const struct order *order, struct session **session,
                                  struct esper_error *error)
{
    char path[PATH_MAX];
    const struct session_changes changes = {
        .group = series->group, .threads = order->threads ? order->config.threads : -1, .device = series->device};
    const struct session_options options = {
        .group = series->group, .runs = order->folder, .name = order->name, .command = series->command};
    snprintf(path, sizeof path, "%s/%s", order->folder, order->name);
    return order->resume ? session_resume(session, path, &changes, error)
                         : session_create(session, &order->config, &options, error);
}

static enum esper_status order_run(const struct series *series, const struct series_run *run, struct session **session,
                                   struct esper_error *error)
{
    struct order order = {
        .resume = is_there(run), .threads = series->threads, .until = run->until, .config = run->config};
    snprintf(order.folder, sizeof order.folder, "%s", run->folder);
    snprintf(order.name, sizeof order.name, "%s", run->name);
    if (!order.resume)
        TRY(prepare_run(run, error));
    group_tell(series->group, &order, sizeof order);
    return open_run(series, &order, session, error);
}

static int play(struct series *series, struct series_run *run)
{
    struct session *session;
    struct drive_end end;
    bool done = false;
    if (is_there(run) && check_run(series, run, &done, &run->error) != ESPER_OK)
        return cli_fail(&run->error);
    if (done)
        return CLI_OK;
    if (order_run(series, run, &session, &run->error) != ESPER_OK)
        return cli_fail(&run->error);
    drive_begin(session, &end);
    end.until = (uint32_t)run->until;
    series->plan = &run->config;
    series->rounds = run->until ? run->until : run->config.rounds;
    int code = drive_session(session, show_step, series, &end);
    group_words(series->group, "the same command goes on");
    run->error = end.error;
    if (code == CLI_INTERRUPTED)
        cli_print("%s: stopped in %s, saved; the same command goes on\n", series->folder,
                  run->path + strlen(series->folder) + 1);
    return code;
}

int series_play(struct series *series, struct series_run *run, struct cohort *cohort)
{
    int code = play(series, run);
    memory_free(run->lines);
    run->lines = NULL;
    if (code != CLI_OK)
        return code;
    series->done += config_env_steps(&run->config);
    return cohort_load(cohort, ".", run->path, &run->error) == ESPER_OK ? CLI_CONTINUE : cli_fail(&run->error);
}

/* ---- many ranks -------------------------------------------------------------------------------------------------- */

static void show_nothing(void *context, const struct session_progress *step)
{
    (void)context;
    (void)step;
}

/* Where this rank computes is its own affair. What goes wrong with a run goes wrong for all, and rank 0 says so. */
static int follow(struct series *series, const struct config *own)
{
    for (;;) {
        struct esper_error error = {0};
        struct order order = {0};
        struct session *session;
        struct drive_end end;
        group_tell(series->group, &order, sizeof order);
        if (order.over)
            return order.code;
        order.config.threads = own->threads;
        order.config.device = own->device;
        if (open_run(series, &order, &session, &error) != ESPER_OK)
            continue;
        drive_begin(session, &end);
        end.until = (uint32_t)order.until;
        drive_session(session, show_nothing, NULL, &end);
    }
}

static void dismiss(struct series *series, int code)
{
    struct order order = {.over = true, .code = code};
    group_tell(series->group, &order, sizeof order);
}

static enum esper_status join(struct series *series, struct cli_config_flags *flags, const struct cli_list *words,
                              struct config *config, struct esper_error *error)
{
    TRY(ranks_join(&series->group, series->quiet, error));
    group_words(series->group, "the same command goes on");
    return ranks_agree(series->group, series_task(flags, words, config, error), config, error);
}

enum esper_status series_conduct(struct series *series, struct cli_call *call, struct cli_config_flags *flags,
                                 series_lead *lead, struct esper_error *error)
{
    struct config config;
    char *command = drive_command(call);
    series->command = command;
    series->threads = flags->threads != NULL;
    drive_catch_signals();
    enum esper_status status = join(series, flags, &call->words, &config, error);
    if (status == ESPER_OK && !group_leads(series->group)) {
        call->code = follow(series, &config);
    } else if (status == ESPER_OK) {
        status = lead(call, &config, error);
        dismiss(series, call->code);
    }
    free(command);
    return ranks_part(series->group, call, status, error);
}

/* ---- a search ---------------------------------------------------------------------------------------------------- */

static int play_stage(struct series *series, struct search *search, const char *folder, int stage)
{
    struct esper_error error = {0};
    struct series_run run = {0};
    struct cohort cohort = {0};
    char name[24], *lines = NULL;
    const struct config config = search_stage(search, stage, 0);
    snprintf(name, sizeof name, "stage%d", stage);
    snprintf(series->note, sizeof series->note, "%s%sstage %d of %d, %d schedules", folder, *folder ? ": " : "", stage,
             search->stages, search_remaining(search, stage));
    if (search_lines(search, stage, &lines, &error) != ESPER_OK)
        return cli_fail(&error);
    if (series_describe(series, &run, folder, name, &config, lines, &error) != ESPER_OK) {
        memory_free(lines);
        return cli_fail(&error);
    }
    int code = series_play(series, &run, &cohort);
    if (cohort.runs) { /* it was played to its end */
        search_judge(search, stage, cohort.runs[0].outcomes, cohort.runs[0].count);
        cohort_free(&cohort);
    }
    return code;
}

int series_search(struct series *series, struct search *search, const char *folder)
{
    int code = CLI_CONTINUE;
    for (int stage = 1; stage <= search->stages && code == CLI_CONTINUE; stage++)
        code = play_stage(series, search, folder, stage);
    return code;
}
