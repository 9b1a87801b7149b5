/* esper exam: PPO at several seeds and prices, every control, and verdicts with a page. Every part is a run. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "cli/cli.h"
#include "cli/exam_print.h"
#include "cli/series.h"
#include "exam/policies.h"
#include "exam/record.h"
#include "exam/score.h"
#include "telemetry/cohort.h"
#include "view/report_exam.h"

struct sitting {
    struct cli_config_flags flags;
    const char *runs, *name, *prices, *trained;
    int seeds, episodes, catalogue_episodes;
    bool list, json;
    struct exam_policies *policies; /* NULL: PPO is trained on this task */
    struct series series;
    struct exam *exam;
};

/* ---- the parts --------------------------------------------------------------------------------------------------- */

static enum esper_status path_of(const struct sitting *sitting, const struct exam_part *part, char *text, size_t size,
                                 struct esper_error *error)
{
    const char *folder = part->elsewhere ? sitting->policies->folder : sitting->series.folder;
    if (snprintf(text, size, "%s/%s", folder, part->name) >= (int)size)
        return error_set(error, ESPER_INVALID, "%.80s...: the path is too long", folder);
    return ESPER_OK;
}

/* What follows from the runs before it. `lines`: its schedules, NULL unless it plays some. */
static enum esper_status complete(const struct sitting *sitting, struct exam_part *part, char **lines,
                                  struct esper_error *error)
{
    const struct exam *exam = sitting->exam;
    char path[PATH_MAX];
    switch (part->kind) {
    case EXAM_CATALOGUE:
        return schedule_lines(exam->catalogue.schedule, sizeof(struct schedule), exam->catalogue.count,
                              &exam->setup.config, lines, error);
    case EXAM_SCHEDULE:
    case EXAM_SEARCHED:
        return schedule_lines(&part->schedule, sizeof part->schedule, 1, &exam->setup.config, lines, error);
    case EXAM_PPO:
    case EXAM_GREEDY:
        return path_of(sitting, exam_training_of(exam, part), part->config.policy.from, CONFIG_TEXT, error);
    case EXAM_RATED:
        TRY(path_of(sitting, exam_find(exam, EXAM_PPO, part->price, 0, -1), path, sizeof path, error));
        return exam_ask_rates(path, part->config.policy.rate, error);
    case EXAM_WIDE_PARAMS:
    case EXAM_WIDE_WORK:
        exam_widen_host(exam, part);
        return ESPER_OK;
    case EXAM_REPLAY:
        exam_replay_training(exam, part);
        return part->config.policy.kind != POLICY_REPLAY
                   ? ESPER_OK
                   : path_of(sitting, exam_training_of(exam, part), part->config.policy.from, CONFIG_TEXT, error);
    default:
        return ESPER_OK;
    }
}

static enum esper_status take(struct exam_part *part, const char *path, const struct cohort *cohort,
                              struct esper_error *error)
{
    double seconds = 0;
    TRY(exam_ask_seconds(path, &seconds, error));
    return exam_take(part, cohort->runs[0].outcomes, cohort->runs[0].count, seconds, error);
}

/* A training that was played elsewhere: what it came to there. */
static int look_up(struct sitting *sitting, struct exam_part *part)
{
    struct esper_error error = {0};
    struct cohort cohort = {0};
    char path[PATH_MAX];
    enum esper_status status = path_of(sitting, part, path, sizeof path, &error);
    if (status == ESPER_OK)
        status = cohort_load(&cohort, ".", path, &error);
    if (status == ESPER_OK)
        status = take(part, path, &cohort, &error);
    cohort_free(&cohort);
    return status == ESPER_OK ? CLI_CONTINUE : cli_fail(&error);
}

static int play_run(struct sitting *sitting, struct exam_part *part)
{
    struct esper_error error = {0};
    struct series_run run = {0};
    struct cohort cohort = {0};
    char *lines = NULL;
    snprintf(sitting->series.note, sizeof sitting->series.note, "%s", part->name);
    if (complete(sitting, part, &lines, &error) != ESPER_OK ||
        series_describe(&sitting->series, &run, "", part->name, &part->config, lines, &error) != ESPER_OK) {
        memory_free(lines);
        return cli_fail(&error);
    }
    int code = series_play(&sitting->series, &run, &cohort);
    if (code != CLI_CONTINUE)
        return code;
    enum esper_status status = take(part, run.path, &cohort, &error);
    cohort_free(&cohort);
    return status == ESPER_OK ? CLI_CONTINUE : cli_fail(&error);
}

static int play_search(struct sitting *sitting, struct exam_part *part)
{
    struct search *search = sitting->exam->search[part->price];
    struct esper_error error = {0};
    int code = series_search(&sitting->series, search, part->name);
    for (int stage = 1; stage <= search->stages && code == CLI_CONTINUE; stage++) {
        char path[PATH_MAX];
        double seconds = 0;
        snprintf(path, sizeof path, "%s/%s/stage%d", sitting->series.folder, part->name, stage);
        if (exam_ask_seconds(path, &seconds, &error) != ESPER_OK)
            code = cli_fail(&error);
        part->seconds += seconds;
    }
    return code;
}

static int play_part(struct sitting *sitting, struct exam_part *part)
{
    int code = part->elsewhere             ? look_up(sitting, part)
               : part->kind == EXAM_SEARCH ? play_search(sitting, part)
                                           : play_run(sitting, part);
    if (code == CLI_CONTINUE && part->kind == EXAM_CATALOGUE)
        exam_choose_schedules(sitting->exam);
    if (code == CLI_CONTINUE && part->kind == EXAM_SEARCH)
        exam_take_winner(sitting->exam, part->price);
    sitting->series.total = exam_env_steps(sitting->exam); /* fewer schedules than there are places */
    return code;
}

/* ---- the end ----------------------------------------------------------------------------------------------------- */

static enum esper_status write_pages(const struct sitting *sitting, const struct exam_result *result, char *path,
                                     size_t size, struct esper_error *error)
{
    struct html html = {0}, plot = {0};
    char front[PATH_MAX];
    snprintf(path, size, "%s/report.html", sitting->series.folder);
    snprintf(front, sizeof front, "%s/front.svg", sitting->series.folder);
    report_exam(&html, result, sitting->series.folder, sitting->series.command);
    report_exam_front(&plot, result);
    enum esper_status status = html_write(&html, path, error);
    if (status == ESPER_OK)
        status = html_write(&plot, front, error);
    html_free(&html);
    html_free(&plot);
    return status;
}

static int conclude(const struct sitting *sitting)
{
    struct esper_error error = {0};
    struct exam_result *result;
    char path[PATH_MAX];
    if (exam_judge(sitting->exam, &result, &error) != ESPER_OK)
        return cli_fail(&error);
    enum esper_status status = write_pages(sitting, result, path, sizeof path, &error);
    if (status == ESPER_OK && sitting->json)
        status = exam_print_json(result, path, &error);
    else if (status == ESPER_OK)
        exam_print(result, sitting->series.folder, path);
    exam_result_free(result);
    return status == ESPER_OK ? CLI_OK : cli_fail(&error);
}

static int sit(struct sitting *sitting)
{
    struct exam *exam = sitting->exam;
    int code = CLI_CONTINUE;
    sitting->series.total = exam_env_steps(exam);
    for (int i = 0; i < exam->count && code == CLI_CONTINUE; i++)
        if (!exam->parts[i].left_out)
            code = play_part(sitting, &exam->parts[i]);
    return code == CLI_CONTINUE ? conclude(sitting) : code;
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

/* "0,0.2,1": each once, from 0 on. */
static enum esper_status read_prices(const char *text, struct exam_setup *setup, struct esper_error *error)
{
    const char *at = text;
    for (;; at++) {
        char *end;
        errno = 0;
        const double price = strtod(at, &end);
        bool good = end != at && !errno && price >= 0 && price <= 1000 && (*end == ',' || !*end) && *at != ' ';
        for (int i = 0; i < setup->prices; i++)
            good = good && setup->price[i] != price;
        if (!good || setup->prices == EXAM_PRICES)
            return error_set(
                error, ESPER_INVALID,
                "--prices %.60s: up to %d different numbers from 0 to 1000, points per 1000 parameters, such "
                "as 0,0.2,1",
                *text ? text : "(nothing)", EXAM_PRICES);
        setup->price[setup->prices++] = price;
        at = end;
        if (!*at)
            return ESPER_OK;
    }
}

enum { TRAININGS = 5 }; /* unless said otherwise */

/* Whose policies are examined. */
static enum esper_status take_policies(struct sitting *sitting, struct exam_setup *setup, struct esper_error *error)
{
    struct exam_policies *policies;
    setup->seeds = sitting->seeds ? sitting->seeds : TRAININGS;
    if (!sitting->trained)
        return ESPER_OK;
    setup->policies = policies = sitting->policies = memory_alloc(1, sizeof *policies, error);
    if (!policies)
        return ESPER_FAILED;
    TRY(exam_find_policies(policies, sitting->runs, sitting->trained, sitting->seeds, error));
    setup->seeds = policies->count;
    return config_take_policy(&setup->config, &policies->config, sitting->trained, error);
}

static enum esper_status prepare(struct sitting *sitting, const struct config *config, struct esper_error *error)
{
    struct exam_setup setup = {
        .config = *config, .episodes = sitting->episodes, .catalogue_episodes = sitting->catalogue_episodes};
    TRY(read_prices(sitting->prices, &setup, error));
    TRY(take_policies(sitting, &setup, error));
    TRY(series_begin(&sitting->series, setup.policies ? "transfer" : "exam", sitting->runs, sitting->name,
                     &setup.config, error));
    return exam_create(&sitting->exam, &setup, error);
}

static enum esper_status lead(struct cli_call *call, const struct config *config, struct esper_error *error)
{
    struct sitting *sitting = call->flags;
    enum esper_status status = prepare(sitting, config, error);
    if (status == ESPER_OK && sitting->list)
        exam_print_plan(sitting->exam);
    else if (status == ESPER_OK)
        call->code = sit(sitting);
    exam_free(sitting->exam);
    memory_free(sitting->policies);
    return status;
}

static enum esper_status examine(struct cli_call *call, struct esper_error *error)
{
    struct sitting *sitting = call->flags;
    sitting->runs = call->runs;
    return series_conduct(&sitting->series, call, &sitting->flags, lead, error);
}

#define AT(member) offsetof(struct sitting, member)
const struct cli_page exam_page = {
    .usage = "exam [TASK] [--seeds K] [--prices LIST] [options]",
    .about = "Examines whether growth and learning pay on a task: trains PPO at several seeds and prices and plays\n"
             "the same episodes with it and with every control: the bare host, the heuristic, random play, the best\n"
             "schedules, a searched one, wider hosts, and its own last topology from scratch. It ends with a verdict\n"
             "per claim (earns its rent, does not, undecided) and a page. Ctrl-C stops and saves; the same command\n"
             "goes on. --policies examines what another exam trained instead, on this task, which it has not seen.",
    .example = "esper exam quickstart --seeds 5 --prices 0,0.5",
    .options =
        (const struct cli_option[]){
            {"seeds", CLI_INT, "K", AT(seeds), "trainings at each price, each with its own seed (5, or all policies)",
             1, EXAM_SEEDS},
            {"policies", CLI_TEXT, "EXAM", AT(trained), "folder of another exam whose policies are examined, zero-shot",
             0, 0},
            {"prices", CLI_TEXT, "LIST", AT(prices), "points per 1000 parameters, such as 0,0.2,1 (0)", 0, 0},
            {"episodes", CLI_INT, "N", AT(episodes), "episodes that each policy is judged by (64)", 1, 100000},
            {"catalogue-episodes", CLI_INT, "N", AT(catalogue_episodes),
             "other episodes by which schedules are selected, each (8)", 1, 100000},
            {"list", CLI_FLAG, NULL, AT(list), "print what would be played, and its share of the work", 0, 0},
            {"json", CLI_FLAG, NULL, AT(json), "print the result as JSON, with every digit", 0, 0},
            CLI_CONFIG_OPTIONS(AT(flags)),
            CLI_RUNS_OPTION,
            {"name", CLI_TEXT, "NAME", AT(name), "folder of the exam in it (exam-TASK-SEED)", 0, 0},
            {"quiet", CLI_FLAG, NULL, AT(series.quiet), "no progress, only errors and the result", 0, 0},
            {0}},
    .max_words = 1,
    .run = examine,
    .flags_size = sizeof(struct sitting),
    .defaults = &(const struct sitting){.prices = "0", .episodes = 64, .catalogue_episodes = 8},
};
