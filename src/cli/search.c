/* esper search: the best constant schedule of a task, by successive halving. Every stage is an evaluation run. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "cli/cli.h"
#include "cli/drive.h"
#include "cli/series.h"
#include "morph/stage.h"
#include "search/search.h"
#include "telemetry/cohort.h"

enum { BEST = 10 };

struct quest {
    struct cli_config_flags flags;
    const char *runs, *name, *budget_text;
    int schedules, episodes;
    bool list;
    struct series series;
    struct search *search;
    long long budget; /* env-steps */
};

/* ---- results ----------------------------------------------------------------------------------------------------- */

static void print_best(const struct quest *quest)
{
    const struct search *search = quest->search;
    cli_print("%s: the best of %d schedules; score: %s\n\n", quest->series.folder, search->schedules,
              search_score_title(&search->config));
    cli_print("%4s  %7s  %8s  %8s  %9s  %s\n", "rank", "score", "95 % +-", "episodes", "added", "schedule");
    for (int i = 0; i < BEST && i < search->schedules; i++) {
        const struct contender *contender = &search->contenders[i];
        char text[SCHEDULE_TEXT], margin[16] = "-";
        schedule_format(&contender->schedule, &search->config, text, sizeof text);
        if (isfinite(contender_margin(contender)))
            snprintf(margin, sizeof margin, "%.2f", contender_margin(contender));
        cli_print("%4d  %7.2f  %8s  %8d  %9.0f  %s\n", i + 1, contender_mean(contender), margin, contender->episodes,
                  contender->added_params / contender->episodes, text);
    }
    if (!search_tries_tempos(search, search->stages))
        return;
    cli_print("\nthe best two at every tempo, mean score:");
    for (int tempo = 0; tempo < TEMPO_COUNT; tempo++)
        cli_print("%s tempo %u %.2f", tempo ? "," : "", tempo_steps(tempo), search->tempo[tempo]);
    cli_print("\n");
}

/* The winner, to be played again: on the same task, with what the command line changed of it. */
static void print_winner(const struct quest *quest, const struct series_run *run)
{
    const struct cli_config_flags *flags = &quest->flags;
    const struct search *search = quest->search;
    char text[SCHEDULE_TEXT], folder[PATH_MAX], file[PATH_MAX];
    series_file(run, file);
    schedule_format(&search->contenders[0].schedule, &search->config, text, sizeof text);
    cli_print("\nthe winner\n  --schedule %s\n", text);
    cli_print("\ntry next\n  %s eval --task %s", program_invocation_name, search->config.task);
    if (flags->file)
        cli_print(" --config %s", flags->file);
    for (int i = 0; i < flags->sets.count; i++)
        cli_print(" --set '%s'", flags->sets.items[i]);
    if (flags->steps)
        cli_print(" --steps %s", flags->steps);
    if (flags->envs)
        cli_print(" --envs %s", flags->envs);
    if (strlen(text) < CONFIG_TEXT)
        cli_print(" --schedule %s", text);
    else
        cli_print(" --schedule @%s", file);
    cli_print(" --seed %llu --episodes %d%s\n", (unsigned long long)search->config.seed, quest->episodes,
              drive_runs_flag(quest->runs, folder, sizeof folder));
}

static int print_end(const struct quest *quest, const struct series_run *run)
{
    struct esper_error error = {0};
    print_best(quest);
    if (drive_print_outcomes(run->path, &run->config, &error) != ESPER_OK)
        return cli_fail(&error);
    print_winner(quest, run);
    return CLI_OK;
}

static enum esper_status print_catalogue(const struct config *config, struct esper_error *error)
{
    struct catalogue *catalogue = memory_alloc(1, sizeof *catalogue, error);
    if (!catalogue)
        return ESPER_FAILED;
    catalogue_make(catalogue, config);
    cli_print("%9s  schedule\n", "params");
    for (int i = 0; i < catalogue->count; i++) {
        char text[SCHEDULE_TEXT];
        schedule_format(&catalogue->schedule[i], config, text, sizeof text);
        cli_print("%9lld  %s\n", schedule_params(&catalogue->schedule[i], config), text);
    }
    memory_free(catalogue);
    return ESPER_OK;
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

/* On the episodes of --seed, which no stage has seen. */
static int play_winner(struct quest *quest)
{
    struct search *search = quest->search;
    struct esper_error error = {0};
    struct series_run run = {0};
    struct cohort cohort = {0};
    char *lines = NULL;
    const struct config config = search_stage(search, search->stages + 1, quest->episodes);
    snprintf(quest->series.note, sizeof quest->series.note, "the winner on fresh episodes");
    if (search_lines(search, search->stages + 1, &lines, &error) != ESPER_OK ||
        series_describe(&quest->series, &run, "", "winner", &config, lines, &error) != ESPER_OK) {
        memory_free(lines);
        return cli_fail(&error);
    }
    int code = series_play(&quest->series, &run, &cohort);
    if (code != CLI_CONTINUE)
        return code;
    cohort_free(&cohort);
    return print_end(quest, &run);
}

static int play_all(struct quest *quest)
{
    const struct config winner = search_stage(quest->search, quest->search->stages + 1, quest->episodes);
    quest->series.total = search_env_steps(quest->search) + config_env_steps(&winner);
    int code = series_search(&quest->series, quest->search, "");
    return code == CLI_CONTINUE ? play_winner(quest) : code;
}

static enum esper_status read_budget(struct quest *quest, const struct config *config, struct esper_error *error)
{
    char *end;
    quest->budget = config_env_steps(config);
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
    TRY(series_begin(&quest->series, "search", quest->runs, quest->name, config, error));
    TRY(read_budget(quest, config, error));
    if (search_create(&quest->search, config, quest->budget, quest->schedules, error) != ESPER_OK)
        return error_where(error, "%s", quest->budget_text ? "--budget" : "search");
    return ESPER_OK;
}

static enum esper_status lead(struct cli_call *call, const struct config *config, struct esper_error *error)
{
    struct quest *quest = call->flags;
    enum esper_status status = quest->list ? print_catalogue(config, error) : prepare(quest, config, error);
    if (status == ESPER_OK && !quest->list)
        call->code = play_all(quest);
    search_free(quest->search);
    return status;
}

static enum esper_status look(struct cli_call *call, struct esper_error *error)
{
    struct quest *quest = call->flags;
    quest->runs = call->runs;
    return series_conduct(&quest->series, call, &quest->flags, lead, error);
}

#define AT(member) offsetof(struct quest, member)
const struct cli_page search_page = {
    .usage = "search [TASK] [--budget ENV_STEPS] [options]",
    .about = "Looks for the best constant schedule by successive halving: a catalogue of schedules and random\n"
             "ones play evaluation episodes, the better half goes on and plays twice as many, until one is left;\n"
             "the last two play at every tempo, and the winner at the best. It is then played on fresh episodes,\n"
             "those of --seed, which `esper eval` plays as well. All schedules keep to the policy's masks, so\n"
             "that the winner is a fair control for a trained policy. A stage plays as many envs as there are\n"
             "schedules at the start. Ctrl-C stops and saves; the same command goes on.",
    .example = "esper search quickstart --seed 7",
    .options =
        (const struct cli_option[]){
            {"list", CLI_FLAG, NULL, AT(list), "print the task's catalogue of schedules and what they add", 0, 0},
            {"budget", CLI_TEXT, "N", AT(budget_text), "env-steps to search with (those of a training of the task)", 0,
             0},
            {"schedules", CLI_INT, "N", AT(schedules), "schedules to start from, a power of 2 (as the budget allows)",
             2, SEARCH_SCHEDULES},
            {"episodes", CLI_INT, "N", AT(episodes), "fresh episodes for the winner, rounded up to whole rounds (64)",
             1, 1000000},
            CLI_CONFIG_OPTIONS(AT(flags)),
            CLI_RUNS_OPTION,
            {"name", CLI_TEXT, "NAME", AT(name), "folder of the search in it (search-TASK-SEED)", 0, 0},
            {"quiet", CLI_FLAG, NULL, AT(series.quiet), "no progress, only errors and the result", 0, 0},
            {0}},
    .max_words = 1,
    .run = look,
    .flags_size = sizeof(struct quest),
    .defaults = &(const struct quest){.episodes = 64},
};
