/* esper eval: evaluation episodes of a trained policy or of a control, as a separate run. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/drive.h"
#include "cli/ranks.h"
#include "morph/family.h"
#include "session/learned.h"
#include "telemetry/cohort.h"
#include "telemetry/run.h"

/* ---- the configuration ------------------------------------------------------------------------------------------- */

/* The run whose policy or topology is played: an evaluation's and a replay's are those of the run they come from. */
static const char *source_of(const struct run *run)
{
    const struct policy_config *policy = &run->config.policy;
    return policy->from[0] && (run->config.evaluate || policy->kind == POLICY_REPLAY) ? policy->from : run->path;
}

/* A run's own configuration, so that its episodes pair with those of any other policy on the same run. */
static enum esper_status config_of_run(const struct run *run, const struct cli_config_flags *flags,
                                       struct config *config, struct esper_error *error)
{
    if (flags->file)
        return error_set(error, ESPER_INVALID, "--config: a run has its own configuration; --set changes a key of it");
    *config = run->config;
    config->group = 1; /* episodes as different as can be, unless asked otherwise */
    TRY(config_set_value(config, "policy.from", source_of(run), ORIGIN_FLAG, error));
    TRY(cli_config_override(flags, config, error));
    if (config->policy.kind != POLICY_PPO && config->policy.kind != POLICY_REPLAY)
        config->policy.from[0] = '\0'; /* nothing reads it */
    return ESPER_OK;
}

/* Another task, which the run's policy has not seen: that task's configuration, with the run's policy in it. */
static enum esper_status config_of_other_task(const struct run *run, const struct cli_config_flags *flags,
                                              struct config *config, struct esper_error *error)
{
    struct cli_config_flags all = *flags;
    if (!all.from && !all.script && !all.schedule &&
        (!all.policy || strcmp(all.policy, "ppo") == 0 || strcmp(all.policy, "replay") == 0))
        all.from = source_of(run);
    TRY(cli_config(&all, NULL, config, error));
    config->group = 1;
    if (config->policy.kind != POLICY_PPO)
        return ESPER_OK;
    if (run->config.policy.kind != POLICY_PPO)
        return error_set(error, ESPER_INVALID, "%.100s: has learned no policy that could play %s", run->name,
                         config->task);
    return config_take_policy(config, &run->config, run->name, error);
}

static enum esper_status config_of_task(const struct cli_config_flags *flags, struct config *config,
                                        struct esper_error *error)
{
    if (!flags->policy && !flags->script && !flags->schedule)
        return error_set(error, ESPER_INVALID,
                         "eval needs a run, or --policy with a task: esper eval RUN, esper eval --policy heuristic");
    TRY(cli_config(flags, "quickstart", config, error));
    if (config->policy.kind == POLICY_PPO && !config->policy.from[0])
        return error_set(error, ESPER_INVALID,
                         "--policy ppo: name the run that trained it: esper eval RUN, or --from RUN (or a file of it)");
    return ESPER_OK;
}

static enum esper_status set_episodes(struct config *config, int episodes, bool greedy, struct esper_error *error)
{
    char rounds[16];
    if (greedy && config->policy.kind != POLICY_PPO)
        return error_set(error, ESPER_INVALID, "--greedy: only --policy ppo has a most likely action");
    snprintf(rounds, sizeof rounds, "%d", (episodes + config->envs - 1) / config->envs);
    TRY(config_set_value(config, "rounds", rounds, ORIGIN_FLAG, error));
    TRY(config_set_value(config, "evaluate", "true", ORIGIN_FLAG, error));
    return greedy ? config_set_value(config, "policy.greedy", "true", ORIGIN_FLAG, error) : ESPER_OK;
}

/* "<run>-eval-ppo", or "<run>-on-<task>-ppo", with a number from the second one on. */
static void make_name(const char *runs, const struct run *run, const struct config *config, bool elsewhere, char *name,
                      size_t size)
{
    char policy[CONFIG_TEXT], path[PATH_MAX + 256], task[RUN_TASK_WORD], where[RUN_TASK_WORD + 4] = "eval";
    run_task_word(config, task);
    if (elsewhere)
        snprintf(where, sizeof where, "on-%.24s", task); /* a name has 100 bytes at most */
    for (int i = 1; i < 10000; i++) {
        int used = snprintf(name, size, "%.50s-%s-%.10s%s", run->name, where, config_policy(config, policy),
                            config->policy.greedy ? "-greedy" : "");
        if (i > 1 && (size_t)used < size)
            snprintf(name + used, size - (size_t)used, "-%d", i);
        snprintf(path, sizeof path, "%s/%s", runs, name);
        if (access(path, F_OK) != 0)
            return;
    }
}

/* ---- results ----------------------------------------------------------------------------------------------------- */

/* Read back from the record, as `esper compare` will. */
enum esper_status drive_print_outcomes(const char *path, const struct config *config, struct esper_error *error)
{
    struct cohort cohort;
    enum esper_status status = ESPER_OK;
    TRY(cohort_load(&cohort, ".", path, error));
    const struct family_words *words = &host_family_of(config)->words;
    cli_print("\n%s, policy %s%s: mean of %d episodes and its 95 %% interval\n", config->task, cohort.policy,
              config->policy.greedy ? " (greedy)" : "", cohort.episodes);
    for (int i = 0; i < METRIC_COUNT && status == ESPER_OK; i++) {
        struct interval mean;
        char title[METRIC_TITLE];
        int decimals = metrics[i].decimals;
        if (!metric_fits((enum metric)i, words))
            continue;
        status = cohort_mean(&cohort, (enum metric)i, &mean, error);
        if (status == ESPER_OK && isfinite(mean.mean))
            cli_print("  %-28s %10.*f", metric_title((enum metric)i, words, title), decimals, mean.mean);
        if (status == ESPER_OK && isfinite(mean.low))
            cli_print("   [%.*f, %.*f]", decimals, mean.low, decimals, mean.high);
        if (status == ESPER_OK && isfinite(mean.mean))
            cli_print("\n");
    }
    cohort_free(&cohort);
    return status;
}

/* What is evaluated: a run, or a file of a policy. */
struct origin {
    char path[PATH_MAX], name[128];
};

/* A mean alone says little: suggest playing the same episodes with another policy, static compared with the rest. */
static void print_next(const struct drive_end *end, const struct origin *origin, const char *runs)
{
    char flag[PATH_MAX];
    const char *esper = program_invocation_name;
    bool is_static = end->config.policy.kind == POLICY_STATIC;
    int episodes = end->config.rounds * end->config.envs;
    const char *other = is_static ? "ppo" : "static";
    drive_runs_flag(runs, flag, sizeof flag);
    cli_print("\ntry next\n");
    if (origin) {
        char name[PATH_MAX];
        snprintf(name, sizeof name, "%s/%.200s-eval-%s", runs, origin->name, other);
        cli_print("  %s eval %s --policy %s --episodes %d%s\n", esper, origin->path, other, episodes, flag);
        cli_print("  %s compare %s %s\n", esper, is_static ? name : end->path, is_static ? end->path : name);
    } else {
        cli_print("  %s eval --task %s --policy %s --episodes %d --seed %llu%s\n", esper, end->config.task,
                  is_static ? "heuristic" : "static", episodes, (unsigned long long)end->config.seed, flag);
        cli_print("  %s compare %s latest%s\n", esper, end->path, flag);
    }
}

static void print_end(const struct drive_end *end, const struct origin *origin, const struct cli_run_flags *flags)
{
    char time[32];
    struct esper_error error = {0};
    cli_format_time(end->seconds, time, sizeof time);
    cli_print("%s: %d episodes done; %s, %.0f env-steps/s on %s\n", end->path, end->config.rounds * end->config.envs,
              time, end->seconds > 0 ? (double)end->env_steps / end->seconds : 0, end->machine);
    if (flags->quiet)
        return;
    if (drive_print_outcomes(end->path, &end->config, &error) != ESPER_OK)
        cli_fail(&error);
    print_next(end, origin, flags->runs);
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

struct evaluation {
    struct cli_config_flags flags;
    struct cli_run_flags run;
    const char *word; /* what is evaluated: a run or a file; NULL: a task is */
    int episodes;
    bool greedy;
    struct origin origin;
    char name[128];      /* of the evaluation, where it was not given one */
    struct group *group; /* the ranks that play; NULL: this process alone */
};

/* What is played, and under which name. */
static enum esper_status read_config(struct evaluation *evaluation, struct config *config, struct esper_error *error)
{
    struct run run;
    const char *runs = evaluation->run.runs;
    if (evaluation->word) {
        TRY(learned_is_file(runs, evaluation->word) ? learned_open_file(&run, evaluation->word, error)
                                                    : run_open(&run, runs, evaluation->word, error));
        memcpy(evaluation->origin.path, run.path, sizeof run.path);
        memcpy(evaluation->origin.name, run.name, sizeof run.name);
        const bool elsewhere = evaluation->flags.task != NULL;
        enum esper_status status =
            (elsewhere ? config_of_other_task : config_of_run)(&run, &evaluation->flags, config, error);
        if (status == ESPER_OK)
            status = set_episodes(config, evaluation->episodes, evaluation->greedy, error);
        if (status == ESPER_OK && !evaluation->run.name) {
            make_name(runs, &run, config, elsewhere, evaluation->name, sizeof evaluation->name);
            evaluation->run.name = evaluation->name;
        }
        run_close(&run);
        TRY(status);
    } else {
        TRY(config_of_task(&evaluation->flags, config, error));
        TRY(set_episodes(config, evaluation->episodes, evaluation->greedy, error));
    }
    return drive_find_from(runs, config, error);
}

static enum esper_status begin(struct evaluation *evaluation, const char *command, struct session **session,
                               struct esper_error *error)
{
    struct config config;
    TRY(ranks_agree(evaluation->group, read_config(evaluation, &config, error), &config, error));
    const struct session_options options = {
        .group = evaluation->group, .runs = evaluation->run.runs, .name = evaluation->run.name, .command = command};
    return session_create(session, &config, &options, error);
}

static enum esper_status evaluate(struct cli_call *call, struct esper_error *error)
{
    struct evaluation *evaluation = call->flags;
    struct session *session = NULL;
    struct drive_end end;
    char *command = drive_command(call);
    drive_catch_signals();
    evaluation->word = call->words.items[0];
    evaluation->run.runs = call->runs;
    enum esper_status status = ranks_join(&evaluation->group, evaluation->run.quiet, error);
    if (status == ESPER_OK)
        status = begin(evaluation, command ? command : "", &session, error);
    free(command);
    if (session) {
        const bool leads = group_leads(evaluation->group);
        evaluation->run.quiet = evaluation->run.quiet || !leads;
        call->code = drive(session, "evaluating", &evaluation->run, &end);
        if (call->code == CLI_OK && leads)
            print_end(&end, evaluation->word && !evaluation->flags.task ? &evaluation->origin : NULL, &evaluation->run);
    }
    return ranks_part(evaluation->group, call, status, error);
}

#define AT(member) offsetof(struct evaluation, member)
const struct cli_page eval_page = {
    .usage = "eval (RUN|FILE [--task OTHER] | --task NAME --policy KIND) [--episodes N] [--greedy] [options]",
    .about = "Plays evaluation episodes: nothing is learned, and the episodes differ from those of training.\n"
             "RUN supplies task, seed and policy; --policy plays another policy on the same episodes, so that\n"
             "`esper compare` can pair them. With --task as well, RUN's policy plays a task that it has not seen; it\n"
             "must have as many slots. FILE, instead of RUN: a policy that `esper export --policy` wrote, or a\n"
             "checkpoint. The result is a run like any other, <RUN>-eval-<policy> or <RUN>-on-<task>-<policy>\n"
             "unless named.",
    .example = "esper eval first --episodes 64",
    .options =
        (const struct cli_option[]){
            {"episodes", CLI_INT, "N", AT(episodes), "episodes to play, rounded up to whole rounds (32)", 1, 1000000},
            {"greedy", CLI_FLAG, NULL, AT(greedy), "take the most likely action instead of sampling one", 0, 0},
            CLI_WORLD_OPTIONS(AT(flags)),
            CLI_POLICY_OPTIONS(AT(flags)),
            CLI_RUN_OPTIONS(AT(run)),
            {0}},
    .max_words = 1,
    .run = evaluate,
    .flags_size = sizeof(struct evaluation),
    .defaults = &(const struct evaluation){.episodes = 32},
};
