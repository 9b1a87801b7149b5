/* esper sweep: many configurations and seeds of a task, in a folder that any number of processes work on. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/memory.h"
#include "cli/cli.h"
#include "cli/drive.h"
#include "cli/series.h"
#include "cli/sweep_plan.h"
#include "cli/sweep_print.h"
#include "engine/choose.h"
#include "sweep/folder.h"
#include "telemetry/cohort.h"
#include "telemetry/run.h"

enum { UNLUCKY = 3 }; /* runs that cannot be played one after another: then it is this process or its machine */

struct sweeping {
    struct plan_flags plan;
    bool dry_run, table, no_wait, json;
    struct config own; /* where this process computes */
    struct series series;
    struct sweep *sweep;
    struct sweep_state *states;   /* [runs] */
    struct sweep_result *results; /* [runs] */
    long long *per_round;         /* [runs]: env-steps */
    long long expected;           /* env-steps of all */
    int over, busy;               /* runs with nothing left to play; runs that others are at */
    int unlucky;                  /* runs in a row that failed for another reason than their learning */
    bool told;                    /* that it waits */
};

/* ---- what is known ----------------------------------------------------------------------------------------------- */

static bool is_over(const struct sweeping *s, int run)
{
    return s->states[run].done == s->sweep->rung_count || s->states[run].failures >= SWEEP_TRIES;
}

static void take_result(struct sweeping *s, int run)
{
    const struct sweep_result *result = &s->results[run];
    struct sweep_state *state = &s->states[run];
    state->done = result->done < s->sweep->rung_count ? result->done : s->sweep->rung_count;
    state->failures = result->failures;
    for (int k = 0; k < state->done; k++)
        state->score[k] = result->rungs[k].score;
}

static enum esper_status read_result(struct sweeping *s, int run, struct esper_error *error)
{
    char name[SWEEP_NAME];
    sweep_name(s->sweep, run, name);
    TRY(sweep_read_result(s->series.folder, name, &s->results[run], error));
    take_result(s, run);
    return ESPER_OK;
}

/* What the others have done meanwhile. */
static enum esper_status look_around(struct sweeping *s, struct esper_error *error)
{
    s->over = s->busy = 0;
    s->series.done = 0;
    for (int run = 0; run < s->sweep->runs; run++) {
        const struct sweep_result *result = &s->results[run];
        if (!is_over(s, run))
            TRY(read_result(s, run, error));
        s->states[run].busy = false;
        s->over += is_over(s, run);
        s->series.done += result->done ? s->per_round[run] * result->rungs[result->done - 1].rounds : 0;
    }
    return ESPER_OK;
}

static enum esper_status prepare_table(struct sweeping *s, struct esper_error *error)
{
    const size_t runs = (size_t)s->sweep->runs;
    s->states = memory_alloc(runs, sizeof *s->states, error);
    s->results = memory_alloc(runs, sizeof *s->results, error);
    s->per_round = memory_alloc(runs, sizeof *s->per_round, error);
    if (!s->states || !s->results || !s->per_round)
        return ESPER_FAILED;
    for (int run = 0; run < s->sweep->runs; run++) {
        struct config config;
        TRY(sweep_config(s->sweep, run, &config, error));
        s->per_round[run] = (long long)config.envs * config.steps;
    }
    s->expected = sweep_env_steps(s->sweep);
    return look_around(s, error);
}

/* ---- one run ----------------------------------------------------------------------------------------------------- */

/* Takes the next run that nobody else is at; *lock -1: there is none. */
static enum esper_status claim_next(struct sweeping *s, struct sweep_choice *choice, int *lock,
                                    struct esper_error *error)
{
    bool found;
    *lock = -1;
    while (*lock < 0) {
        char name[SWEEP_NAME];
        TRY(sweep_next(s->sweep, s->states, &found, choice, error));
        if (!found)
            return ESPER_OK;
        sweep_name(s->sweep, choice->run, name);
        TRY(sweep_claim(s->series.folder, name, lock, error));
        if (*lock < 0) {
            s->states[choice->run].busy = true;
            s->busy++;
            continue;
        }
        /* Its last holder may have finished it since this process looked. */
        const struct sweep_state before = s->states[choice->run];
        const enum esper_status status = read_result(s, choice->run, error);
        const struct sweep_state *now = &s->states[choice->run];
        if (status != ESPER_OK || now->done != before.done || now->failures != before.failures) {
            close(*lock);
            *lock = -1;
        }
        TRY(status);
    }
    return ESPER_OK;
}

/* A run that failed, and whose holder was killed before it could put it aside. */
static enum esper_status clear_place(const struct sweeping *s, const struct series_run *plan, struct esper_error *error)
{
    struct run run;
    struct run_status state = {0};
    if (run_open(&run, ".", plan->path, NULL) != ESPER_OK)
        return ESPER_OK;
    const enum esper_status status = run_get_status(&run, &state, NULL);
    run_close(&run);
    if (status != ESPER_OK || state.state != RUN_FAILED)
        return ESPER_OK;
    return sweep_set_aside(s->series.folder, plan->name, error);
}

static enum esper_status describe(struct sweeping *s, const struct sweep_choice *choice, struct series_run *run,
                                  struct esper_error *error)
{
    const struct sweep *sweep = s->sweep;
    struct config config;
    char name[SWEEP_NAME];
    TRY(sweep_config(sweep, choice->run, &config, error));
    config.threads = s->own.threads;
    config.device = s->own.device;
    config.device_number = s->own.device_number;
    sweep_name(sweep, choice->run, name);
    TRY(series_describe(&s->series, run, "runs", name, &config, NULL, error));
    run->until = choice->rung + 1 < sweep->rung_count ? sweep->rungs[choice->rung] : 0;
    const int rounds = run->until ? run->until : config.rounds;
    const long long own = s->per_round[choice->run] * rounds;
    const struct sweep_result *result = &s->results[choice->run];
    if (result->done) /* the progress counts the run from its beginning */
        s->series.done -= s->per_round[choice->run] * result->rungs[result->done - 1].rounds;
    s->series.total = s->expected > s->series.done + own ? s->expected : s->series.done + own;
    snprintf(s->series.note, sizeof s->series.note, "%d of %d runs done; %s", s->over, sweep->runs, name);
    return result->failures ? clear_place(s, run, error) : ESPER_OK;
}

/* What it came to, in its result. */
static enum esper_status finish(struct sweeping *s, const struct sweep_choice *choice, const struct series_run *run,
                                const struct cohort *cohort, struct esper_error *error)
{
    struct sweep_result *result = &s->results[choice->run];
    const int rounds = run->until ? run->until : run->config.rounds;
    struct sweep_rung_result rung;
    sweep_judge(s->sweep, cohort->runs[0].outcomes, cohort->runs[0].count, rounds, &rung);
    if (!isfinite(rung.score))
        return error_set(error, ESPER_DIVERGED, "%s: its score after %d rounds is not a number", run->path, rounds);
    result->rungs[choice->rung] = rung;
    result->done = choice->rung + 1;
    take_result(s, choice->run);
    return ESPER_OK;
}

/* The reason was told. CLI_CONTINUE unless it is one of many. */
static int note_failure(struct sweeping *s, const struct sweep_choice *choice, const struct series_run *run, int code)
{
    struct sweep_result *result = &s->results[choice->run];
    struct esper_error error = {0};
    snprintf(result->reasons[result->failures++], sizeof result->reasons[0], "%.250s", run->error.text);
    take_result(s, choice->run);
    enum esper_status status = sweep_write_result(s->series.folder, run->name, result, &error);
    if (status == ESPER_OK && result->failures < SWEEP_TRIES)
        status = sweep_set_aside(s->series.folder, run->name, &error);
    if (status != ESPER_OK)
        return cli_fail(&error);
    cli_warn("%s failed %s", run->path, result->failures < SWEEP_TRIES ? "and is tried once more" : "again, given up");
    s->unlucky = code == CLI_DIVERGED ? 0 : s->unlucky + 1;
    if (s->unlucky < UNLUCKY)
        return CLI_CONTINUE;
    cli_warn("%d runs failed one after another: the reason may be this machine; other processes go on, and so does the "
             "same command",
             UNLUCKY);
    return code;
}

/* Plays a claimed run to its rung. */
static int play(struct sweeping *s, const struct sweep_choice *choice)
{
    struct series_run run = {0};
    struct cohort cohort = {0};
    if (describe(s, choice, &run, &run.error) != ESPER_OK)
        return cli_fail(&run.error);
    int code = series_play(&s->series, &run, &cohort);
    if (code == CLI_INTERRUPTED)
        return code;
    if (code == CLI_CONTINUE && finish(s, choice, &run, &cohort, &run.error) != ESPER_OK)
        code = cli_fail(&run.error);
    cohort_free(&cohort);
    if (code != CLI_CONTINUE)
        return note_failure(s, choice, &run, code);
    s->unlucky = 0;
    if (sweep_write_result(s->series.folder, run.name, &s->results[choice->run], &run.error) != ESPER_OK)
        return cli_fail(&run.error);
    if (!s->series.quiet && !isatty(STDERR_FILENO)) /* a terminal has its live line */
        cli_note("%s: score %.2f after round %d\n", run.name, s->results[choice->run].rungs[choice->rung].score,
                 s->results[choice->run].rungs[choice->rung].rounds);
    return CLI_CONTINUE;
}

/* ---- all of them ------------------------------------------------------------------------------------------------- */

static int show_table(struct sweeping *s)
{
    struct sweep_table table = {
        .sweep = s->sweep, .folder = s->series.folder, .states = s->states, .results = s->results};
    struct esper_error error = {0};
    struct sweep_choice choice;
    bool left;
    enum esper_status status = sweep_next(s->sweep, s->states, &left, &choice, &error);
    table.complete = !left && !s->busy;
    for (int run = 0; run < s->sweep->runs; run++)
        table.over += is_over(s, run);
    if (status == ESPER_OK)
        status = s->json ? sweep_print_json(&table, &error) : sweep_print(&table, &error);
    return status == ESPER_OK ? CLI_OK : cli_fail(&error);
}

/* There is nothing left to play, or others play it. */
static int conclude(struct sweeping *s)
{
    struct esper_error error = {0};
    int *order = memory_alloc((size_t)s->sweep->configs, sizeof *order, &error);
    if (!order || sweep_rank(s->sweep, s->states, order, &error) != ESPER_OK) {
        memory_free(order);
        return cli_fail(&error);
    }
    const bool any = sweep_finished(s->sweep, s->states, order[0]) > 0;
    enum esper_status status = ESPER_OK;
    if (!s->busy && any)
        status = sweep_write_best(s->sweep, order[0], s->series.folder, &error);
    memory_free(order);
    if (status != ESPER_OK)
        return cli_fail(&error);
    if (s->busy)
        cli_note("%d run%s left to the process%s at work on %s\n", s->busy, s->busy == 1 ? " is" : "s are",
                 s->busy == 1 ? "" : "es", s->busy == 1 ? "it" : "them");
    const int code = show_table(s);
    return code == CLI_OK && !s->busy && !any ? CLI_FAILED : code;
}

static int stop(const struct sweeping *s)
{
    cli_print("%s: stopped; the same command goes on\n", s->series.folder);
    return CLI_INTERRUPTED;
}

/* Others may leave runs behind, or finish those that decide what comes next. */
static int wait_for_others(struct sweeping *s)
{
    if (!s->told && !s->series.quiet)
        cli_note("waiting for %d run%s that others are at; what they leave behind is taken over\n", s->busy,
                 s->busy == 1 ? "" : "s");
    s->told = true;
    for (int i = 0; i < 10 && !drive_stopping(); i++)
        nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    return drive_stopping() ? stop(s) : CLI_CONTINUE;
}

static int work(struct sweeping *s)
{
    int code = CLI_CONTINUE;
    while (code == CLI_CONTINUE) {
        struct esper_error error = {0};
        struct sweep_choice choice;
        int lock = -1;
        if (drive_stopping()) /* between two runs */
            return stop(s);
        if (look_around(s, &error) != ESPER_OK || claim_next(s, &choice, &lock, &error) != ESPER_OK)
            return cli_fail(&error);
        if (lock >= 0) {
            code = play(s, &choice);
            close(lock);
        } else if (s->busy && !s->no_wait)
            code = wait_for_others(s);
        else
            return conclude(s);
    }
    return code;
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

/* From here on the plan is what the folder says, for this process as for all others. */
static enum esper_status adopt_plan(struct sweeping *s, struct esper_error *error)
{
    sweep_free(s->sweep);
    s->sweep = memory_alloc(1, sizeof *s->sweep, error);
    return s->sweep ? sweep_load(s->sweep, s->series.folder, error) : ESPER_FAILED;
}

/* Where this process computes: it is asked for before any run can fail because of it. */
static enum esper_status choose_place(struct sweeping *s, struct esper_error *error)
{
    const struct cli_config_flags place = {.threads = s->plan.config.threads, .device = s->plan.config.device};
    struct device_use use;
    s->own = s->sweep->base;
    TRY(cli_config_override(&place, &s->own, error));
    s->series.threads = s->plan.config.threads != NULL;
    s->series.device = s->plan.config.device ? s->plan.config.device : "auto";
    return device_choose(&s->own, &use, error);
}

/* The folder's plan, or a new one and its folder; in both cases the same is loaded by whoever comes. */
static enum esper_status make_plan(struct cli_call *call, struct sweeping *s, struct esper_error *error)
{
    const char *word = call->words.count ? call->words.items[0] : NULL;
    if (word && plan_find_folder(call->runs, word, s->series.folder)) {
        TRY(plan_refuse(&s->plan, s->series.folder, error));
        s->series.first = -1;
        s->series.progress.what = "env-steps";
        return sweep_load(s->sweep, s->series.folder, error);
    }
    TRY(plan_make(s->sweep, &s->plan, call->runs, &call->words, error));
    TRY(series_begin(&s->series, "sweep", call->runs, s->plan.name, &s->sweep->base, error));
    if (s->dry_run)
        return ESPER_OK;
    TRY(sweep_save(s->sweep, s->series.folder, error));
    return adopt_plan(s, error);
}

static enum esper_status sweep_all(struct cli_call *call, struct sweeping *s, struct esper_error *error)
{
    s->sweep = memory_alloc(1, sizeof *s->sweep, error);
    if (!s->sweep)
        return ESPER_FAILED;
    TRY(make_plan(call, s, error));
    if (s->dry_run) {
        sweep_print_plan(s->sweep, s->series.folder);
        return ESPER_OK;
    }
    TRY(prepare_table(s, error));
    if (s->table) {
        call->code = show_table(s);
        return ESPER_OK;
    }
    TRY(choose_place(s, error));
    call->code = work(s);
    return ESPER_OK;
}

static enum esper_status sweep(struct cli_call *call, struct esper_error *error)
{
    struct sweeping *s = call->flags;
    char *command = drive_command(call);
    s->series.command = command;
    drive_catch_signals();
    enum esper_status status = sweep_all(call, s, error);
    sweep_free(s->sweep);
    memory_free(s->states);
    memory_free(s->results);
    memory_free(s->per_round);
    free(command);
    return status;
}

#define AT(member) offsetof(struct sweeping, member)
const struct cli_page sweep_page = {
    .usage = "sweep [FOLDER|FILE|TASK] [--grid KEY=A,B ...] [--seeds 1..5] [options]",
    .about = "Trains a task with every combination of some values, or with values drawn at random, at several seeds,\n"
             "and ranks the configurations. Runs and plan are a folder; any number of processes, on any machines that\n"
             "see it, work through it at once: start the same command, or `esper sweep FOLDER`, as often as you like.\n"
             "A run is taken by a lock that ends with its process, and goes on from its checkpoint. A run that fails\n"
             "is kept and tried once more. With --halving all configurations play a few rounds and only the best go\n"
             "on. FILE is a plan in JSON, with the words of the options. Ctrl-C stops and saves.",
    .example = "esper sweep quickstart --grid ppo.lr=1e-4,3e-4,1e-3 --seeds 1..3 --rounds 20",
    .options =
        (const struct cli_option[]){
            {"grid", CLI_LIST, "KEY=A,B", AT(plan.grid),
             "values of a key; all combinations are played; may be repeated", 0, 0},
            {"range", CLI_LIST, "KEY=A..B", AT(plan.ranges), "a range to draw from; log:A..B draws in proportion", 0,
             0},
            {"random", CLI_INT, "N", AT(plan.random), "draw N configurations from ranges and values", 1, SWEEP_RUNS},
            {"seeds", CLI_TEXT, "A..B", AT(plan.seeds),
             "seeds of each configuration: 1..5, or 1,2,7 (that of the task)", 0, 0},
            {"halving", CLI_INT, "N", AT(plan.halving), "only the best 1/N of the configurations go on at each rung", 2,
             100},
            {"first-rung", CLI_INT, "ROUNDS", AT(plan.first_rung), "rounds that all play (as few as make sense)", 1,
             1000000},
            {"objective", CLI_TEXT, "WORD", AT(plan.objective),
             "score: what `esper search` goes by; val_accuracy: without prices (score)", 0, 0},
            {"dry-run", CLI_FLAG, NULL, AT(dry_run), "print what would be played, and write nothing", 0, 0},
            {"table", CLI_FLAG, NULL, AT(table), "print the table as it is now, and play nothing", 0, 0},
            {"no-wait", CLI_FLAG, NULL, AT(no_wait), "end when all that is left is in the hands of others", 0, 0},
            {"json", CLI_FLAG, NULL, AT(json), "print the table as JSON, with every digit", 0, 0},
            CLI_CONFIG_OPTIONS(AT(plan.config)),
            CLI_POLICY_OPTIONS(AT(plan.config)),
            CLI_RUNS_OPTION,
            {"name", CLI_TEXT, "NAME", AT(plan.name), "folder of the sweep in it (sweep-TASK-SEED)", 0, 0},
            {"quiet", CLI_FLAG, NULL, AT(series.quiet), "no progress, only errors and the table", 0, 0},
            {0}},
    .max_words = 1,
    .run = sweep,
    .flags_size = sizeof(struct sweeping),
};
