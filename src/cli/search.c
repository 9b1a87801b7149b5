/* esper search: the best constant schedule of a task, by successive halving. Every stage is an evaluation run. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/config_json.h"
#include "base/file.h"
#include "base/memory.h"
#include "cli/cli.h"
#include "cli/drive.h"
#include "search/search.h"
#include "telemetry/cohort.h"
#include "telemetry/run.h"

enum { BEST = 10 };

struct quest {
    struct cli_config_flags flags;
    const char *runs, *name, *budget_text;
    int schedules, episodes;
    bool list, quiet;

    char folder[PATH_MAX - 64]; /* of the search: RUNS/<name>, with its runs and the schedules they play */
    char *command;
    struct search *search;
    long long budget; /* env-steps */
    int stage;        /* in progress */
    bool complete;    /* the stage is */
    long long first;  /* where the progress shown began, in env-steps of the whole; -1: not yet */
    struct cli_progress progress;
};

/* ---- progress ---------------------------------------------------------------------------------------------------- */

static void describe_stage(const struct quest *quest, char *text, size_t size)
{
    const struct search *search = quest->search;
    if (quest->stage > search->stages)
        snprintf(text, size, "the winner on fresh episodes");
    else
        snprintf(text, size, "stage %d of %d, %d schedules", quest->stage, search->stages,
                 search_remaining(search, quest->stage));
}

/* Env-steps of the stages before this one. */
static long long env_steps_before(const struct quest *quest, int stage)
{
    long long sum = 0;
    for (int i = 1; i < stage; i++) {
        const struct config config = search_stage(quest->search, i, quest->episodes);
        sum += (long long)config.envs * config.steps * config.rounds;
    }
    return sum;
}

/* The time left follows from what this process has played. */
static void show_step(void *context, const struct session_progress *step)
{
    struct quest *quest = context;
    const struct config config = search_stage(quest->search, quest->stage, quest->episodes);
    const long long total = env_steps_before(quest, quest->search->stages + 2);
    char note[64];
    if ((!step && !quest->complete) || (step && *step->notice)) { /* something else is printed next */
        cli_progress_end(&quest->progress);
        quest->first = -1;
    }
    if (!step)
        return;
    if (*step->notice)
        fprintf(stderr, "esper: %s\n", step->notice);
    if (step->twin_step) /* of the round that is to be played */
        return;
    const long long at = env_steps_before(quest, quest->stage) +
                         (long long)config.envs * ((long long)step->round * config.steps + step->step);
    quest->complete = at == env_steps_before(quest, quest->stage + 1);
    quest->first = quest->first < 0 ? at - config.envs : quest->first;
    describe_stage(quest, note, sizeof note);
    if (!quest->quiet)
        cli_progress(&quest->progress, at - quest->first, total - quest->first, note);
}

/* ---- one run ----------------------------------------------------------------------------------------------------- */

/* A run of the search, as it is to be played. */
struct part {
    char name[24], path[PATH_MAX], file[PATH_MAX]; /* its directory; the file of its schedules */
    char *lines;                                   /* what that file holds */
    struct config config;
};

static enum esper_status describe_part(const struct quest *quest, struct part *part, struct esper_error *error)
{
    const struct search *search = quest->search;
    if (quest->stage > search->stages)
        snprintf(part->name, sizeof part->name, "winner");
    else
        snprintf(part->name, sizeof part->name, "stage%d", quest->stage);
    snprintf(part->path, sizeof part->path, "%s/%s", quest->folder, part->name);
    snprintf(part->file, sizeof part->file, "%s/%s.txt", quest->folder, part->name);
    part->config = search_stage(search, quest->stage, quest->episodes);
    if (snprintf(part->config.policy.schedule, CONFIG_TEXT, "@%s", part->file) >= CONFIG_TEXT)
        return error_set(error, ESPER_INVALID, "%.80s...: the path is too long", part->file);
    return search_lines(search, quest->stage, &part->lines, error);
}

static bool is_there(const struct part *part)
{
    char file[PATH_MAX + 16];
    snprintf(file, sizeof file, "%s/run.json", part->path);
    return access(file, F_OK) == 0;
}

/* The run must be the one that this command would play: a search with other settings has another name. */
static enum esper_status check_run(const struct part *part, const struct run *run, struct esper_error *error)
{
    char file[PATH_MAX + 16], *lines;
    size_t size;
    for (int key = 0; key < config_key_count(); key++) {
        char there[CONFIG_TEXT], here[CONFIG_TEXT];
        const char *name = config_key_name(key);
        config_format_exact(&run->config, key, there);
        config_format_exact(&part->config, key, here);
        if (strcmp(there, here) != 0 && strcmp(name, "threads") != 0 && strcmp(name, "policy.schedule") != 0)
            return error_set(error, ESPER_INVALID,
                             "%s: was begun with other settings, %s = %.60s and not %.60s; choose another --name",
                             part->path, name, there, here);
    }
    snprintf(file, sizeof file, "%s/schedules.txt", part->path);
    TRY(file_read(file, (size_t)1 << 26, &lines, &size, error));
    bool same = strcmp(lines, part->lines) == 0;
    memory_free(lines);
    if (!same)
        return error_set(error, ESPER_INVALID, "%s: was begun with other schedules; choose another --name", part->path);
    return ESPER_OK;
}

/* Sets *done if there is nothing left to play of it. */
static enum esper_status check_part(const struct part *part, bool *done, struct esper_error *error)
{
    struct run run;
    struct run_status state;
    TRY(run_open(&run, ".", part->path, error));
    enum esper_status status = check_run(part, &run, error);
    if (status == ESPER_OK)
        status = run_get_status(&run, &state, error);
    *done = status == ESPER_OK && state.state == RUN_FINISHED;
    run_close(&run);
    return status;
}

static enum esper_status write_lines(const struct part *part, struct esper_error *error)
{
    struct file_writer writer;
    TRY(file_begin(&writer, part->file, error));
    TRY(file_write(&writer, part->lines, strlen(part->lines), error));
    return file_commit(&writer, error);
}

static enum esper_status open_part(const struct quest *quest, const struct part *part, struct session **session,
                                   struct esper_error *error)
{
    const struct session_changes changes = {.threads = quest->flags.threads ? part->config.threads : -1};
    const struct session_options options = {.runs = quest->folder, .name = part->name, .command = quest->command};
    if (is_there(part))
        return session_resume(session, part->path, &changes, error);
    TRY(file_make_directories(quest->folder, error));
    TRY(write_lines(part, error));
    return session_create(session, &part->config, &options, error);
}

static enum esper_status judge_part(struct quest *quest, const struct part *part, struct esper_error *error)
{
    struct cohort cohort;
    TRY(cohort_load(&cohort, ".", part->path, error));
    if (quest->stage <= quest->search->stages)
        search_judge(quest->search, quest->stage, cohort.runs[0].outcomes, cohort.runs[0].count);
    cohort_free(&cohort);
    return ESPER_OK;
}

static int play_part(struct quest *quest, const struct part *part)
{
    struct esper_error error = {0};
    struct session *session;
    struct drive_end end;
    bool done = false;
    if (is_there(part) && check_part(part, &done, &error) != ESPER_OK)
        return cli_fail(&error);
    if (!done) {
        if (open_part(quest, part, &session, &error) != ESPER_OK)
            return cli_fail(&error);
        drive_begin(session, &end);
        int code = drive_session(session, show_step, quest, &end);
        if (code != CLI_OK)
            return code;
    }
    return judge_part(quest, part, &error) == ESPER_OK ? CLI_CONTINUE : cli_fail(&error);
}

/* ---- results ----------------------------------------------------------------------------------------------------- */

static void print_best(const struct quest *quest)
{
    const struct search *search = quest->search;
    printf("%s: the best of %d schedules; score: %s\n\n", quest->folder, search->schedules,
           search_score_title(&search->config));
    printf("%4s  %7s  %8s  %8s  %9s  %s\n", "rank", "score", "95 % +-", "episodes", "added", "schedule");
    for (int i = 0; i < BEST && i < search->schedules; i++) {
        const struct contender *contender = &search->contenders[i];
        char text[SCHEDULE_TEXT], margin[16] = "-";
        schedule_format(&contender->schedule, &search->config, text, sizeof text);
        if (isfinite(contender_margin(contender)))
            snprintf(margin, sizeof margin, "%.2f", contender_margin(contender));
        printf("%4d  %7.2f  %8s  %8d  %9.0f  %s\n", i + 1, contender_mean(contender), margin, contender->episodes,
               contender->added_params / contender->episodes, text);
    }
}

/* The winner, to be played again: on the same task, with what the command line changed of it. */
static void print_winner(const struct quest *quest, const struct part *part)
{
    const struct cli_config_flags *flags = &quest->flags;
    const struct search *search = quest->search;
    char text[SCHEDULE_TEXT], folder[PATH_MAX];
    schedule_format(&search->contenders[0].schedule, &search->config, text, sizeof text);
    printf("\nthe winner\n  --schedule %s\n", text);
    printf("\ntry next\n  %s eval --task %s", program_invocation_name, search->config.task);
    if (flags->file)
        printf(" --config %s", flags->file);
    for (int i = 0; i < flags->sets.count; i++)
        printf(" --set '%s'", flags->sets.items[i]);
    if (flags->steps)
        printf(" --steps %s", flags->steps);
    if (flags->envs)
        printf(" --envs %s", flags->envs);
    if (strlen(text) < CONFIG_TEXT)
        printf(" --schedule %s", text);
    else
        printf(" --schedule @%s", part->file);
    printf(" --seed %llu --episodes %d%s\n", (unsigned long long)search->config.seed, quest->episodes,
           drive_runs_flag(quest->runs, folder, sizeof folder));
}

static int print_end(const struct quest *quest, const struct part *part)
{
    struct esper_error error = {0};
    print_best(quest);
    if (drive_print_outcomes(part->path, &part->config, &error) != ESPER_OK)
        return cli_fail(&error);
    print_winner(quest, part);
    return CLI_OK;
}

static int print_catalogue(const struct config *config)
{
    struct esper_error error = {0};
    struct catalogue *catalogue = memory_alloc(1, sizeof *catalogue, &error);
    if (!catalogue)
        return cli_fail(&error);
    catalogue_make(catalogue, config);
    printf("%9s  schedule\n", "params");
    for (int i = 0; i < catalogue->count; i++) {
        char text[SCHEDULE_TEXT];
        schedule_format(&catalogue->schedule[i], config, text, sizeof text);
        printf("%9lld  %s\n", schedule_params(&catalogue->schedule[i], config), text);
    }
    memory_free(catalogue);
    return CLI_OK;
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

static int play_all(struct quest *quest)
{
    struct search *search = quest->search;
    int code = CLI_CONTINUE;
    for (quest->stage = 1; quest->stage <= search->stages + 1 && code == CLI_CONTINUE; quest->stage++) {
        struct part part = {0};
        struct esper_error error = {0};
        code = describe_part(quest, &part, &error) == ESPER_OK ? play_part(quest, &part) : cli_fail(&error);
        if (code == CLI_CONTINUE && quest->stage > search->stages)
            code = print_end(quest, &part);
        memory_free(part.lines);
        if (code == CLI_INTERRUPTED)
            printf("%s: stopped in %s, saved; the same command goes on\n", quest->folder, part.name);
    }
    return code;
}

/* "search-quickstart-42": the same command finds what it began. */
static void make_name(const struct config *config, char name[96])
{
    int start = snprintf(name, 96, "search-"), end;
    end = start + snprintf(name + start, 64, "%.48s", config->task[0] ? config->task : "custom");
    for (char *at = name + start; *at; at++)
        if (run_check_name((char[]){'x', *at, '\0'}, NULL) != ESPER_OK)
            *at = '_';
    snprintf(name + end, (size_t)(96 - end), "-%llu", (unsigned long long)config->seed);
}

static enum esper_status read_budget(struct quest *quest, const struct config *config, struct esper_error *error)
{
    char *end;
    quest->budget = (long long)config->rounds * config->envs * config->steps;
    if (!quest->budget_text)
        return ESPER_OK;
    errno = 0;
    quest->budget = strtoll(quest->budget_text, &end, 10);
    if (errno || *end || quest->budget < 1)
        return error_set(error, ESPER_INVALID, "--budget %.40s: a number of env-steps from 1 on", quest->budget_text);
    return ESPER_OK;
}

static enum esper_status prepare(struct quest *quest, const struct config *config, struct esper_error *error)
{
    char name[96], run[PATH_MAX];
    make_name(config, name);
    if (quest->name)
        TRY(run_check_name(quest->name, error));
    if (snprintf(quest->folder, sizeof quest->folder, "%s/%s", quest->runs, quest->name ? quest->name : name) >=
        (int)sizeof quest->folder)
        return error_set(error, ESPER_INVALID, "%.80s...: the path is too long", quest->runs);
    snprintf(run, sizeof run, "%s/run.json", quest->folder);
    if (access(run, F_OK) == 0)
        return error_set(error, ESPER_INVALID, "%s: is a run; choose another --name", quest->folder);
    TRY(read_budget(quest, config, error));
    if (search_create(&quest->search, config, quest->budget, quest->schedules, error) != ESPER_OK)
        return error_where(error, "%s", quest->budget_text ? "--budget" : "search");
    return ESPER_OK;
}

static enum esper_status read_task(struct quest *quest, const struct cli_list *words, struct config *config,
                                   struct esper_error *error)
{
    if (words->count && quest->flags.task)
        return error_set(error, ESPER_INVALID, "--task %.60s: the task is %.60s already; leave out one of the two",
                         quest->flags.task, words->items[0]);
    if (words->count)
        quest->flags.task = words->items[0];
    return cli_config(&quest->flags, "quickstart", config, error);
}

int command_search(int argc, char **argv)
{
    struct quest quest = {.runs = CLI_RUNS, .episodes = 64, .first = -1, .progress = {.what = "env-steps"}};
    struct cli_list words = {0};
    const struct cli_option options[] = {
        {"list", CLI_FLAG, NULL, &quest.list, "print the task's catalogue of schedules and what they add", 0, 0},
        {"budget", CLI_TEXT, "N", &quest.budget_text, "env-steps to search with (those of a training of the task)", 0,
         0},
        {"schedules", CLI_INT, "N", &quest.schedules, "schedules to start from, a power of 2 (as the budget allows)", 2,
         SEARCH_SCHEDULES},
        {"episodes", CLI_INT, "N", &quest.episodes, "fresh episodes for the winner, rounded up to whole rounds (64)", 1,
         1000000},
        CLI_CONFIG_OPTIONS(quest.flags),
        {"runs", CLI_TEXT, "DIR", &quest.runs, "the directory of runs (" CLI_RUNS ")", 0, 0},
        {"name", CLI_TEXT, "NAME", &quest.name, "folder of the search in it (search-TASK-SEED)", 0, 0},
        {"quiet", CLI_FLAG, NULL, &quest.quiet, "no progress, only errors and the result", 0, 0},
    };
    const struct cli_page page = {
        .usage = "search [TASK] [--budget ENV_STEPS] [options]",
        .about = "Looks for the best constant schedule by successive halving: a catalogue of schedules and random\n"
                 "ones play evaluation episodes, the better half goes on and plays twice as many, until one is left.\n"
                 "It is then played on fresh episodes, those of --seed, which `esper eval` plays as well. All\n"
                 "schedules keep to the policy's masks, so that the winner is a fair control for a trained policy.\n"
                 "A stage plays as many envs as there are schedules at the start. Ctrl-C stops and saves; the same\n"
                 "command goes on.",
        .example = "esper search quickstart --seed 7",
        .options = options,
        .option_count = (int)(sizeof options / sizeof options[0]),
        .max_words = 1,
    };
    int code = cli_parse(argc, argv, &page, &words);
    if (code != CLI_CONTINUE)
        return code;

    struct esper_error error = {0};
    struct config config;
    if (read_task(&quest, &words, &config, &error) != ESPER_OK)
        return cli_fail(&error);
    if (quest.list)
        return print_catalogue(&config);
    quest.command = drive_command(argc, argv);
    drive_catch_signals();
    code = prepare(&quest, &config, &error) == ESPER_OK ? play_all(&quest) : cli_fail(&error);
    search_free(quest.search);
    free(quest.command);
    return code;
}
