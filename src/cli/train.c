/* esper train: a run from its first step to its last, or resumed from where it stopped. */
#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/cli.h"
#include "cli/drive.h"
#include "cli/ranks.h"
#include "cli/tui.h"
#include "data/dataset.h"
#include "engine/choose.h"
#include "engine/engine.h"
#include "morph/family.h"
#include "telemetry/dump.h"
#include "telemetry/run.h"
#include "telemetry/store.h"
#include "telemetry/trace.h"

/* ---- what was learned -------------------------------------------------------------------------------------------- */

enum { MEASURES = 7 };

static const struct {
    const char *title, *expression; /* averaged over rounds; ?2 is the number of envs */
    int digits;
    bool score, bits; /* points, named by the family; the same as bits per byte, where it has any */
} measures[MEASURES] = {
    {"validation", "avg(val_accuracy_mean)", 1, true, false},
    {"test", "avg(test_accuracy_mean)", 1, true, false},
    {"test, " BITS_PER_BYTE, "avg(test_accuracy_mean)", 3, false, true},
    {"reward of an episode", "avg(reward_mean)", 2, false, false},
    {"seeds germinated", "avg(germinations) / ?2", 2, false, false},
    {"seeds fossilised", "avg(fossilizations) / ?2", 2, false, false},
    {"seeds pruned", "avg(prunes) / ?2", 2, false, false},
};

/* The title of a measure; NULL where the family's hosts have none. */
static const char *measure_title(int i, const struct family_words *words, char text[64])
{
    if (measures[i].bits && !words->bytes)
        return NULL;
    if (!measures[i].score)
        return measures[i].title;
    snprintf(text, 64, "%s %s, %s", measures[i].title, words->score, words->unit);
    return text;
}

static double measured(int i, const struct family_words *words, double mean)
{
    return measures[i].bits ? family_bits(words, mean) : mean;
}

/* Means of the first (ASC) or last (DESC) `rounds` rounds of the record; false when it cannot be read. */
static bool read_means(struct sqlite3 *sql, const char *order, int rounds, int envs, double means[MEASURES])
{
    char text[512] = "SELECT ";
    for (int i = 0; i < MEASURES; i++) {
        size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, "%s%s", i ? ", " : "", measures[i].expression);
    }
    size_t used = strlen(text);
    snprintf(text + used, sizeof text - used, " FROM (SELECT * FROM round ORDER BY round %s LIMIT ?1)", order);
    sqlite3_stmt *statement;
    if (sqlite3_prepare_v2(sql, text, -1, &statement, NULL) != SQLITE_OK)
        return false;
    sqlite3_bind_int(statement, 1, rounds);
    sqlite3_bind_double(statement, 2, envs);
    bool found = sqlite3_step(statement) == SQLITE_ROW;
    for (int i = 0; found && i < MEASURES; i++)
        means[i] = sqlite3_column_double(statement, i);
    sqlite3_finalize(statement);
    return found;
}

/* First rounds compared with last rounds where a policy learned; otherwise the mean of all rounds. */
static void print_learned(const struct drive_end *end)
{
    struct store *store;
    double first[MEASURES], last[MEASURES];
    int rounds = (int)end->round;
    bool learned = end->config.policy.kind == POLICY_PPO && !end->config.evaluate && rounds > 1;
    int span = learned ? rounds_judged(rounds) : rounds;
    if (rounds == 0 || drive_open_record(end->path, &store, NULL) != ESPER_OK)
        return;
    struct sqlite3 *sql = store_sql(store);
    if (read_means(sql, "ASC", span, end->config.envs, first) &&
        read_means(sql, "DESC", span, end->config.envs, last)) {
        char head[2][32] = {"", ""};
        snprintf(head[0], sizeof head[0], "first %d", span);
        snprintf(head[1], sizeof head[1], learned ? "last %d" : "all %d", span);
        cli_print("\n%-26s", "mean of rounds");
        if (learned)
            cli_print(" %10s", head[0]);
        cli_print(" %10s\n", head[1]);
        const struct family_words *words = &host_family_of(&end->config)->words;
        for (int i = 0; i < MEASURES; i++) {
            char text[64];
            const char *title = measure_title(i, words, text);
            if (!title)
                continue;
            cli_print("  %-24s", title);
            if (learned)
                cli_print(" %10.*f", measures[i].digits, measured(i, words, first[i]));
            cli_print(" %10.*f\n", measures[i].digits, measured(i, words, last[i]));
        }
    }
    store_close(store);
}

static void print_end(const struct drive_end *end, const struct cli_run_flags *flags)
{
    char time[32], runs[PATH_MAX];
    const char *esper = program_invocation_name;
    cli_format_time(end->seconds, time, sizeof time);
    drive_runs_flag(flags->runs, runs, sizeof runs);
    cli_print("%s: %d round%s done; %s, %.0f env-steps/s on %s\n", end->path, end->config.rounds,
              end->config.rounds == 1 ? "" : "s", time, end->seconds > 0 ? (double)end->env_steps / end->seconds : 0,
              end->machine);
    if (flags->quiet)
        return;
    print_learned(end);
    cli_print("\ntry next\n");
    if (end->config.policy.kind == POLICY_PPO && !end->config.evaluate) {
        cli_print("  %s eval %s%s\n  %s eval %s --policy static%s\n", esper, end->path, runs, esper, end->path, runs);
        cli_print("  %s train --resume %s --rounds %d\n", esper, end->path, 2 * end->config.rounds);
    } else
        cli_print("  %s eval %s%s\n", esper, end->path, runs);
}

/* ---- resuming ---------------------------------------------------------------------------------------------------- */

struct train_flags {
    struct cli_config_flags config;
    struct cli_run_flags run;
    const char *resume; /* the run to resume; NULL: a new one */
    bool from_scratch, trace, serve, tui, dry_run;
    struct group *group; /* the ranks that train together; NULL: this process alone */
};

/* A run is resumed as it was started: any other change would silently make it another experiment. */
static enum esper_status refuse_changes(const struct cli_config_flags *flags, const struct cli_run_flags *run,
                                        struct esper_error *error)
{
    const struct {
        const char *flag, *given;
    } fixed[] = {
        {"task", flags->task},         {"config", flags->file},   {"envs", flags->envs},     {"steps", flags->steps},
        {"seed", flags->seed},         {"policy", flags->policy}, {"script", flags->script}, {"from", flags->from},
        {"schedule", flags->schedule}, {"name", run->name},
    };
    for (size_t i = 0; i < sizeof fixed / sizeof fixed[0]; i++)
        if (fixed[i].given)
            return error_set(error, ESPER_INVALID,
                             "--%s %.200s: a run is resumed as it was started; only --rounds, --threads, --device, "
                             "--precision and display options may change",
                             fixed[i].flag, fixed[i].given);
    if (flags->sets.count)
        return error_set(error, ESPER_INVALID,
                         "--set %.*s: a run is resumed as it was started; only --rounds, --threads, --device, "
                         "--precision and display options may change",
                         (int)strcspn(flags->sets.items[0], "="), flags->sets.items[0]);
    return ESPER_OK;
}

/* What the flags ask to change. */
static enum esper_status read_changes(const struct train_flags *flags, struct session_changes *changes,
                                      char path[PATH_MAX], struct esper_error *error)
{
    struct config scratch; /* parses and checks what may change */
    const struct cli_config_flags *given = &flags->config;
    const struct cli_config_flags free = {
        .rounds = given->rounds, .threads = given->threads, .device = given->device, .precision = given->precision};
    config_defaults(&scratch);
    TRY(refuse_changes(given, &flags->run, error));
    if (group_leads(flags->group)) /* the run is rank 0's */
        TRY(run_find(flags->run.runs, flags->resume, path, error));
    TRY(cli_config_override(&free, &scratch, error));
    *changes = (struct session_changes){.group = flags->group,
                                        .rounds = given->rounds ? scratch.rounds : 0,
                                        .threads = given->threads ? scratch.threads : -1,
                                        .device = given->device,
                                        .precision = given->precision,
                                        .spans = flags->trace,
                                        .from_scratch = flags->from_scratch};
    return ESPER_OK;
}

/* Without a session, the error has been printed and the exit code says it. */
static enum esper_status resume(struct session **session, struct cli_call *call, struct esper_error *error)
{
    const struct train_flags *flags = call->flags;
    char path[PATH_MAX];
    struct session_changes changes;
    TRY(group_check(flags->group, read_changes(flags, &changes, path, error), error));
    if (session_resume(session, path, &changes, error) != ESPER_OK) {
        call->code = cli_fail(error);
        if (call->code == CLI_WRONG)
            call->code = CLI_MISFIT; /* the command was right; the run's files are not */
    }
    return ESPER_OK;
}

/* ---- the trace --------------------------------------------------------------------------------------------------- */

static enum esper_status phases(const struct run *run, const char *table, FILE *file, struct esper_error *error)
{
    (void)table;
    return dump_trace(run, file, error);
}

/* The spans of the whole record, including earlier processes. */
static enum esper_status write_trace(const struct drive_end *end, struct esper_error *error)
{
    struct run run;
    char path[PATH_MAX + 16];
    snprintf(path, sizeof path, "%s/trace.json", end->path);
    TRY(run_open(&run, ".", end->path, error));
    enum esper_status status = dump_file(&run, phases, NULL, path, error);
    run_close(&run);
    if (status == ESPER_OK)
        cli_print("%s: open it in ui.perfetto.dev or chrome://tracing\n", path);
    return status;
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

static enum esper_status check_trace(const struct config *config, bool trace, struct esper_error *error)
{
    if (trace && config->telemetry == TELEMETRY_OFF)
        return error_set(error, ESPER_INVALID, "--trace: telemetry.level=off records no times; use normal or debug");
    return ESPER_OK;
}

/* What a new run plays. */
static enum esper_status configure(const struct train_flags *flags, struct config *config, struct esper_error *error)
{
    TRY(cli_config(&flags->config, "quickstart", config, error));
    TRY(drive_find_from(flags->run.runs, config, error));
    return check_trace(config, flags->trace, error);
}

static enum esper_status begin(struct session **session, const struct train_flags *flags, const char *command,
                               struct esper_error *error)
{
    struct config config;
    const struct session_options options = {.group = flags->group,
                                            .runs = flags->run.runs,
                                            .name = flags->run.name,
                                            .command = command,
                                            .spans = flags->trace};
    TRY(ranks_agree(flags->group, configure(flags, &config, error), &config, error));
    return session_create(session, &config, &options, error);
}

/* --dry-run: everything that comes before the run's directory. */
static enum esper_status rehearse(const struct train_flags *flags, struct esper_error *error)
{
    struct config config;
    struct engine *engine;
    char policy[CONFIG_TEXT], path[PATH_MAX];
    struct stat info;
    if (flags->resume)
        return error_set(error, ESPER_INVALID,
                         "--dry-run: for a new run; `esper inspect %.200s` says what would be "
                         "resumed",
                         flags->resume);
    TRY(configure(flags, &config, error));
    if (flags->run.name)
        TRY(run_check_name(flags->run.name, error));
    snprintf(path, sizeof path, "%.3900s/%.100s", flags->run.runs, flags->run.name ? flags->run.name : "");
    if (flags->run.name && lstat(path, &info) == 0)
        return error_set(error, ESPER_INVALID,
                         "%s: already exists; continue it with --resume, or choose another --name", path);
    TRY(engine_create(&engine, &config, error));
    const struct dataset *data = engine_data(engine);
    size_t bytes = 0;
    for (int arena = 0; arena < CLASS_COUNT; arena++)
        bytes += table_bytes(&engine_world(engine)->table, (enum table_class)arena);
    cli_print("would train %s, policy %s: %d envs x %d steps x %d rounds on %s, %s kernels\n",
              *config.task ? config.task : "(no task)", config_policy(&config, policy), config.envs, config.steps,
              config.rounds, engine_device(engine)->cuda ? engine_device(engine)->info.name : "cpu",
              engine_kernels(engine));
    cli_print("  data    %s\n  memory  %.1f MiB for the world\n  run     %s%s\n",
              *data->path ? data->path : "made in memory", (double)bytes / (1 << 20), path,
              flags->run.name ? "" : "(a name from time, task and seed)");
    engine_free(engine);
    return ESPER_OK;
}

static enum esper_status check_flags(const struct train_flags *flags, struct esper_error *error)
{
    if (flags->from_scratch && !flags->resume)
        return error_set(error, ESPER_INVALID,
                         "--from-scratch: only --resume reads it; a new run needs no word for that");
    if (flags->dry_run && group_started() > 1)
        return error_set(error, ESPER_INVALID, "--dry-run: without mpirun or srun; one process says it all");
    if ((flags->tui || flags->serve) && group_started() > 1)
        return error_set(error, ESPER_INVALID, "--%s: not with many ranks; watch the run from outside: esper %s",
                         flags->tui ? "tui" : "serve", flags->tui ? "tui" : "serve");
    return ESPER_OK;
}

/* The session to its end, and what is said of it. */
static enum esper_status play(struct cli_call *call, struct session *session, struct tui_split *split,
                              struct esper_error *error)
{
    struct train_flags *flags = call->flags;
    const bool leads = group_leads(flags->group);
    struct drive_end end;
    if (flags->resume && session_done(session)) {
        call->code = CLI_OK;
        drive_tell_note(session);
        cli_print("%s: finished, all of its %d rounds are done; continue with a larger --rounds N\n",
                  session_path(session), session_config(session)->rounds);
        return session_close(session, error);
    }
    flags->run.hidden = tui_has_terminal;
    flags->run.quiet = flags->run.quiet || !leads;
    tui_split_tell(split, session_path(session));
    call->code = drive(session, flags->resume ? "resuming" : "training", &flags->run, &end);
    if (call->code == CLI_OK && leads)
        print_end(&end, &flags->run);
    if (flags->trace && leads && (call->code == CLI_OK || call->code == CLI_INTERRUPTED))
        return write_trace(&end, error);
    return ESPER_OK;
}

static enum esper_status train(struct cli_call *call, struct esper_error *error)
{
    struct train_flags *flags = call->flags;
    struct tui_split split = {.tell = -1};
    struct session *session = NULL;
    flags->run.runs = call->runs;
    TRY(check_flags(flags, error));
    if (flags->dry_run)
        return rehearse(flags, error);
    if (flags->tui && (call->code = tui_split(&split)) != CLI_CONTINUE)
        return ESPER_OK;
    if (flags->serve)
        TRY(cli_serve_beside(flags->run.runs, error));
    char *command = drive_command(call);
    drive_catch_signals();
    enum esper_status status = ranks_join(&flags->group, flags->run.quiet, error);
    if (status == ESPER_OK)
        status = flags->resume ? resume(&session, call, error) : begin(&session, flags, command ? command : "", error);
    free(command);
    if (session)
        status = play(call, session, &split, error);
    return ranks_part(flags->group, call, status, error);
}

#define AT(member) offsetof(struct train_flags, member)
const struct cli_page train_page = {
    .usage = "train [--task NAME] [--policy KIND] [options]",
    .about = "Trains hosts side by side, round after round, while a policy germinates, blends, fossilises and\n"
             "prunes seeds in them and learns from the results. Without --task it trains quickstart.\n"
             "Ctrl-C, SIGTERM, SIGHUP and a closed pipe stop at the next step and save; --resume continues from\n"
             "there, bit for bit. A second Ctrl-C, a second or more later, ends it at once.\n"
             "The table shows, per round: validation accuracy (mean and best env, %; of text the score in points and\n"
             "bits per byte, bpb), reward of an episode, entropy of the op head, KL divergence and explained variance\n"
             "of the update, and the seeds in training, blending, holding and fossilized; ! counts the active alerts.",
    .example = "esper train --task quickstart --rounds 60 --name first",
    .options =
        (const struct cli_option[]){
            CLI_CONFIG_OPTIONS(AT(config)),
            CLI_POLICY_OPTIONS(AT(config)),
            CLI_RUN_OPTIONS(AT(run)),
            {"resume", CLI_TEXT, "RUN", AT(resume), "resume a run, by name or by path", 0, 0},
            {"from-scratch", CLI_FLAG, NULL, AT(from_scratch),
             "with --resume: its checkpoints are lost; begin it again and forget its record", 0, 0},
            {"dry-run", CLI_FLAG, NULL, AT(dry_run),
             "check configuration, data, device and memory, say what would be trained, and write nothing", 0, 0},
            {"trace", CLI_FLAG, NULL, AT(trace),
             "time every thread's work; writes RUN/trace.json for Perfetto at the end", 0, 0},
            {"tui", CLI_FLAG, NULL, AT(tui), "watch it in the terminal while it trains, as `esper tui` does", 0, 0},
            {"serve", CLI_FLAG, NULL, AT(serve), "show the runs as a web page while this one trains", 0, 0},
            {0}},
    .run = train,
    .flags_size = sizeof(struct train_flags),
};
