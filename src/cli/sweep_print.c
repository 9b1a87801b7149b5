#include "cli/sweep_print.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>

#include "base/json.h"
#include "base/memory.h"
#include "cli/cli.h"
#include "telemetry/paired.h"

enum { SETTINGS = 2048 };

/* ---- the plan ---------------------------------------------------------------------------------------------------- */

static const char *plural(int count)
{
    return count == 1 ? "" : "s";
}

static void print_rungs(const struct sweep *sweep)
{
    cli_print("rungs: ");
    for (int k = 0; k < sweep->rung_count; k++)
        cli_print("%s%d", k ? ", " : "", sweep->rungs[k]);
    cli_print(" rounds; the best 1/%d of the configurations go on from each\n", sweep->halving);
}

static void print_counts(const struct sweep *sweep, const char *folder)
{
    cli_print("%s: %d configuration%s x %d seed%s of %s", folder, sweep->configs, plural(sweep->configs),
              sweep->seed_count, plural(sweep->seed_count), *sweep->base.task ? sweep->base.task : "(no task)");
}

void sweep_print_plan(const struct sweep *sweep, const char *folder)
{
    print_counts(sweep, folder);
    cli_print(", %d runs, %s%lld env-steps\n", sweep->runs, sweep->halving ? "about " : "", sweep_env_steps(sweep));
    if (sweep->halving)
        print_rungs(sweep);
    cli_print("score: %s\n\n%-40s  settings\n", sweep_score_title(sweep), "run");
    for (int run = 0; run < sweep->runs; run++) {
        char name[SWEEP_NAME], settings[SETTINGS];
        sweep_name(sweep, run, name);
        sweep_settings(sweep, run / sweep->seed_count, settings, sizeof settings);
        cli_print("%-40s  %s%sseed=%llu\n", name, settings, *settings ? " " : "",
                  (unsigned long long)sweep->seeds[run % sweep->seed_count]);
    }
}

/* ---- one configuration ------------------------------------------------------------------------------------------- */

/* At the last rung that all of its seeds have finished. */
struct row {
    int finished; /* -1: given up */
    int rounds;
    struct interval score;
    double test;
};

static struct row row_of(const struct sweep_table *table, int config)
{
    const struct sweep *sweep = table->sweep;
    double scores[SWEEP_SEEDS];
    struct row row = {.finished = sweep_finished(sweep, table->states, config)};
    if (row.finished < 1)
        return row;
    for (int s = 0; s < sweep->seed_count; s++) {
        const struct sweep_rung_result *rung = &table->results[config * sweep->seed_count + s].rungs[row.finished - 1];
        scores[s] = rung->score;
        row.test += rung->test / sweep->seed_count;
        row.rounds = rung->rounds;
    }
    row.score = interval_of_mean(scores, sweep->seed_count);
    return row;
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

static void print_row(const struct sweep_table *table, int rank, int config)
{
    char settings[SETTINGS], margin[16] = "-";
    const struct row row = row_of(table, config);
    sweep_settings(table->sweep, config, settings, sizeof settings);
    if (isfinite(row.score.low))
        snprintf(margin, sizeof margin, "%.2f", (row.score.high - row.score.low) / 2);
    if (row.finished > 0)
        cli_print("%4d  %8.2f  %8s  %7.2f  %6d  %s\n", rank, row.score.mean, margin, row.test, row.rounds, settings);
    else
        cli_print("%4s  %8s  %8s  %7s  %6s  %s\n", "-", row.finished < 0 ? "failed" : "-", "-", "-", "-", settings);
}

static void print_failures(const struct sweep_table *table)
{
    bool any = false;
    for (int run = 0; run < table->sweep->runs; run++) {
        const struct sweep_result *result = &table->results[run];
        char name[SWEEP_NAME];
        sweep_name(table->sweep, run, name);
        if (result->failures && !any)
            cli_print("\nfailed\n");
        any = any || result->failures;
        if (result->failures)
            cli_print("  %s, %s: %s\n", name, result->failures == 1 ? "once" : "given up",
                      result->reasons[result->failures - 1]);
    }
}

static void print_best(const struct sweep_table *table)
{
    cli_print("\nthe best\n  --config %s/best.json\n\ntry next\n  %s train --config %s/best.json --seed %llu\n"
              "  %s list --runs %s/runs\n",
              table->folder, program_invocation_name, table->folder,
              (unsigned long long)table->sweep->seeds[table->sweep->seed_count - 1] + 1, program_invocation_name,
              table->folder);
}

enum esper_status sweep_print(const struct sweep_table *table, struct esper_error *error)
{
    const struct sweep *sweep = table->sweep;
    int *order = memory_alloc((size_t)sweep->configs, sizeof *order, error);
    enum esper_status status = order ? sweep_rank(sweep, table->states, order, error) : ESPER_FAILED;
    if (status == ESPER_OK) {
        print_counts(sweep, table->folder);
        if (table->complete && sweep->halving)
            cli_print(", done\n");
        else
            cli_print(", %d of %d runs done\n", table->over, sweep->runs);
        cli_print("score: %s; mean of the last rounds\n\n", sweep_score_title(sweep));
        cli_print("%4s  %8s  %8s  %7s  %6s  %s\n", "rank", "score", "95 % +-", "test", "rounds", "settings");
        for (int i = 0; i < sweep->configs; i++)
            print_row(table, i + 1, order[i]);
        print_failures(table);
        if (table->complete && sweep_finished(sweep, table->states, order[0]) > 0)
            print_best(table);
    }
    memory_free(order);
    return status;
}

/* ---- as JSON ----------------------------------------------------------------------------------------------------- */

static void add_settings(cJSON *object, const struct sweep *sweep, int config)
{
    cJSON *settings = json_add_object(object, "settings");
    for (int axis = 0; axis < sweep->axis_count; axis++) {
        char value[SWEEP_VALUE];
        sweep_value(sweep, config, axis, value);
        json_add_text(settings, config_key_name(sweep->axes[axis].key), value);
    }
}

static void add_runs(cJSON *object, const struct sweep_table *table, int config)
{
    const struct sweep *sweep = table->sweep;
    cJSON *runs = json_add_list(object, "runs");
    for (int s = 0; s < sweep->seed_count; s++) {
        const struct sweep_result *result = &table->results[config * sweep->seed_count + s];
        cJSON *run = json_add_object(runs, NULL);
        char name[SWEEP_NAME];
        sweep_name(sweep, config * sweep->seed_count + s, name);
        json_add_text(run, "name", name);
        json_add_number(run, "rounds", result->done ? result->rungs[result->done - 1].rounds : 0);
        json_add_number(run, "score", result->done ? result->rungs[result->done - 1].score : (double)NAN);
        json_add_number(run, "test", result->done ? result->rungs[result->done - 1].test : (double)NAN);
        json_add_number(run, "failures", result->failures);
        if (result->failures)
            json_add_text(run, "reason", result->reasons[result->failures - 1]);
    }
}

static cJSON *table_json(const struct sweep_table *table, const int *order)
{
    const struct sweep *sweep = table->sweep;
    cJSON *root = cJSON_CreateObject();
    json_add_text(root, "folder", table->folder);
    json_add_text(root, "objective", sweep_objective_word(sweep->objective));
    json_add_bool(root, "complete", table->complete);
    json_add_number(root, "runs", sweep->runs);
    json_add_number(root, "runs_done", table->over);
    cJSON *list = json_add_list(root, "configurations");
    for (int i = 0; i < sweep->configs; i++) {
        const struct row row = row_of(table, order[i]);
        cJSON *item = json_add_object(list, NULL);
        add_settings(item, sweep, order[i]);
        json_add_bool(item, "failed", row.finished < 0);
        json_add_number(item, "rounds", row.rounds);
        json_add_number(item, "score", row.finished > 0 ? row.score.mean : (double)NAN);
        json_add_number(item, "low", row.finished > 0 ? row.score.low : (double)NAN);
        json_add_number(item, "high", row.finished > 0 ? row.score.high : (double)NAN);
        json_add_number(item, "test", row.finished > 0 ? row.test : (double)NAN);
        add_runs(item, table, order[i]);
    }
    return root;
}

enum esper_status sweep_print_json(const struct sweep_table *table, struct esper_error *error)
{
    int *order = memory_alloc((size_t)table->sweep->configs, sizeof *order, error);
    enum esper_status status = order ? sweep_rank(table->sweep, table->states, order, error) : ESPER_FAILED;
    if (status == ESPER_OK)
        status = cli_print_json(table_json(table, order), error);
    memory_free(order);
    return status;
}
