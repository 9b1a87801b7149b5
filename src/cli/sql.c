/* esper sql: a question in SQL to the record of a run, answered as a table, as CSV or as JSON. */
#include <ctype.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/grid.h"
#include "telemetry/dump.h"
#include "telemetry/query.h"
#include "telemetry/store.h"

struct flags {
    bool csv, json;
    int timeout, rows; /* rows 0: the default */
};

/* ---- stopping ---------------------------------------------------------------------------------------------------- */

static volatile sig_atomic_t stopping;

static void on_signal(int number)
{
    (void)number;
    if (stopping)
        _exit(CLI_INTERRUPTED); /* the output is not being read */
    stopping = 1;
}

static void catch_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

/* ---- answers ----------------------------------------------------------------------------------------------------- */

static enum esper_status written(struct esper_error *error)
{
    return ferror(stdout) ? dump_finish(stdout, error) : ESPER_OK;
}

static enum esper_status take_csv(void *context, const struct query_row *row, struct esper_error *error)
{
    (void)context;
    dump_csv_row(stdout, row);
    return written(error);
}

static enum esper_status take_json(void *context, const struct query_row *row, struct esper_error *error)
{
    bool *first = context;
    if (!row->values) {
        putchar('[');
        return ESPER_OK;
    }
    fputs(*first ? "\n" : ",\n", stdout);
    *first = false;
    dump_json_row(stdout, row, NULL);
    return written(error);
}

static enum esper_status take_table(void *context, const struct query_row *row, struct esper_error *error)
{
    TRY(grid_take(context, row, error));
    return written(error);
}

/* Width of the terminal that shows the answer; 0: the output is not a terminal. */
static int shown_columns(void)
{
    struct winsize size;
    if (!isatty(STDOUT_FILENO))
        return 0;
    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

static enum esper_status ask_for_table(struct query *query, const char *sql, struct query_options *options,
                                       struct esper_error *error)
{
    struct grid grid = {.width = shown_columns()};
    if (grid.width && !options->rows)
        options->rows = GRID_ROWS;
    enum esper_status status = query_run(query, sql, options, take_table, &grid, error);
    if (status == ESPER_OK)
        status = grid_show(&grid, error);
    grid_free(&grid);
    return status;
}

static enum esper_status ask(struct query *query, const char *sql, const struct flags *flags, struct esper_error *error)
{
    struct query_options options = {.timeout = flags->timeout, .rows = flags->rows, .stop = &stopping};
    bool first = true;
    catch_signals();
    if (flags->csv) {
        TRY(query_run(query, sql, &options, take_csv, NULL, error));
    } else if (flags->json) {
        TRY(query_run(query, sql, &options, take_json, &first, error));
        fputs(first ? "]\n" : "\n]\n", stdout);
    } else {
        TRY(ask_for_table(query, sql, &options, error));
    }
    TRY(dump_finish(stdout, error));
    if (query_was_cut(query))
        cli_warn("these are the first %lld rows; --rows N shows more", (long long)options.rows);
    return ESPER_OK;
}

/* ---- the schema -------------------------------------------------------------------------------------------------- */

/* What a column means, or, where the program does not know it (an added table), the comment after "-- " in the schema's
 * line; that of the table itself when column is NULL. */
static void print_comment(const char *table, const char *schema, const char *column)
{
    const char *help = column ? store_help(table, column) : NULL; /* this version's words, for older records as well */
    if (help) {
        cli_print("  %s\n", help);
        return;
    }
    size_t length = column ? strlen(column) : 0;
    for (const char *line = schema; line && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
        const char *word = line + strspn(line, " "), *end = line + strcspn(line, "\n"), *comment = strstr(line, "-- ");
        if (column && (strncmp(word, column, length) != 0 || word[length] != ' '))
            continue;
        if (comment && comment < end)
            cli_print("  %.*s", (int)(end - comment) - 3, comment + 3);
        break;
    }
    putchar('\n');
}

/* Rows: table, its schema, column, type. */
static enum esper_status take_column(void *context, const struct query_row *row, struct esper_error *error)
{
    char *table = context;
    const struct query_value *value = row->values;
    if (!value)
        return ESPER_OK;
    if (strncmp(table, value[0].text, 127) != 0) {
        cli_print("%s%s", *table ? "\n" : "", value[0].text);
        print_comment(value[0].text, value[1].text, NULL);
        snprintf(table, 128, "%s", value[0].text);
    }
    cli_print("    %-20s %-7s", value[2].text, value[3].text);
    print_comment(value[0].text, value[1].text, value[2].text);
    return written(error);
}

static enum esper_status list_tables(struct query *query, const char *run, struct esper_error *error)
{
    char table[128] = "";
    TRY(query_run(query,
                  "SELECT m.name, m.sql, c.name, c.type FROM sqlite_master m, pragma_table_info(m.name) c WHERE m.type "
                  "IN ('table', 'view') AND substr(m.name, 1, 7) <> 'sqlite_' ORDER BY m.rowid, c.cid",
                  NULL, take_column, table, error));
    cli_print(
        "\nBesides SQLite's functions: stddev(x), median(x), percentile(x, p), corr(x, y). For example:\n"
        "    esper sql %s 'select round, val_accuracy_mean, reward_mean from round order by round desc limit 10'\n"
        "    esper sql %s 'select env, count(*), avg(val_accuracy), stddev(reward) from outcome group by env'\n"
        "    esper sql %s 'select corr(added_params, val_accuracy), median(reward) from outcome' --json\n",
        run, run, run);
    return dump_finish(stdout, error);
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

static enum esper_status read_question(char sql[QUERY_SQL + 2], struct esper_error *error)
{
    size_t length = fread(sql, 1, QUERY_SQL + 1, stdin);
    sql[length] = '\0';
    if (ferror(stdin))
        return error_set(error, ESPER_FAILED, "cannot read the question from stdin: %s", strerror(errno));
    if (strlen(sql) != length)
        return error_set(error, ESPER_INVALID, "the question on stdin is not text: it contains a NUL byte");
    return ESPER_OK; /* one that is too long is refused like any other */
}

static enum esper_status open_and_ask(const struct cli_call *call, struct esper_error *error)
{
    static char typed[QUERY_SQL + 2];
    const struct flags *flags = call->flags;
    const char *name = call->words.items[0], *sql = call->words.items[1];
    struct run run;
    struct query *query;
    if (flags->csv && flags->json)
        return error_set(error, ESPER_INVALID, "--csv and --json: choose one");
    TRY(run_open(&run, call->runs, name, error));
    enum esper_status status = query_open(&query, &run, error);
    if (status == ESPER_OK) {
        if (sql && strcmp(sql, "-") == 0) {
            status = read_question(typed, error);
            sql = typed;
        }
        if (status == ESPER_OK)
            status = sql ? ask(query, sql, flags, error) : list_tables(query, name, error);
        query_close(query);
    }
    run_close(&run);
    return status;
}

static enum esper_status answer(struct cli_call *call, struct esper_error *error)
{
    return open_and_ask(call, error) == ESPER_OK ? ESPER_OK : error_where(error, "sql");
}

#define AT(member) offsetof(struct flags, member)
const struct cli_page sql_page = {
    .usage = "sql RUN ['SELECT ...' | -] [--csv | --json] [options]",
    .about = "Queries the record of a run, live, finished or crashed. The question may only read; it comes from stdin\n"
             "with -. Without a question: the tables, the meaning and unit of every column, and examples.\n"
             "Besides SQLite's own functions there are stddev(x), median(x), percentile(x, p) with p from 0 to 100\n"
             "and corr(x, y), also as window functions; they ignore NULLs.",
    .example = "esper sql latest 'select round, val_accuracy_mean from round order by round desc limit 5'",
    .options =
        (const struct cli_option[]){
            {"csv", CLI_FLAG, NULL, AT(csv), "comma-separated values (RFC 4180), all digits", 0, 0},
            {"json", CLI_FLAG, NULL, AT(json), "an array of objects, all digits", 0, 0},
            {"rows", CLI_INT, "N", AT(rows), "at most N rows (default: all; 1000 as a table on a terminal)", 1,
             INT_MAX},
            {"timeout", CLI_INT, "S", AT(timeout), "give up after S seconds (10)", 1, 1000000},
            CLI_RUNS_OPTION,
            {0}},
    .min_words = 1,
    .max_words = 2,
    .wanted = "a run, and a question: esper sql latest 'select * from round'",
    .run = answer,
    .flags_size = sizeof(struct flags),
    .defaults = &(const struct flags){.timeout = QUERY_SECONDS},
};
