#include "view/report.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/memory.h"
#include "view/report_parts.h"
#include "view/svg.h"

/* ---- a run and its record ---------------------------------------------------------------------------------------- */

static bool has_record(const struct run *run)
{
    char path[PATH_MAX + 16];
    struct stat info;
    snprintf(path, sizeof path, "%s/telemetry.db", run->path);
    return stat(path, &info) == 0 ? info.st_size > 0 : errno != ENOENT;
}

static void note(struct report_run *report, const char *text)
{
    if (!report->trouble[0])
        snprintf(report->trouble, sizeof report->trouble, "%s", text);
}

void report_ask(struct report_run *report, struct sheet *sheet, const char *question,
                const struct question_values *values)
{
    struct esper_error error = {0};
    *sheet = (struct sheet){0};
    if (report->query && sheet_ask(sheet, report->query, question, values, &error) != ESPER_OK)
        note(report, error.text);
}

enum esper_status report_open(struct report_run *report, const char *runs, const char *word, struct esper_error *error)
{
    struct esper_error problem = {0};
    const struct question_values all = question_all();
    *report = (struct report_run){.newest = NAN};
    TRY(run_open(&report->run, runs, word, error));
    report->words = &host_family_of(&report->run.config)->words;
    if (run_get_status(&report->run, &report->status, &problem) != ESPER_OK)
        note(report, problem.text);
    report->unrecorded = !report->trouble[0] && !has_record(&report->run);
    /* One snapshot of the record for the whole page, whatever a trainer adds meanwhile. */
    if (query_open(&report->query, &report->run, &problem) != ESPER_OK ||
        query_hold(report->query, &problem) != ESPER_OK ||
        verdict_of(report->query, &report->run, &report->status, &report->verdict, &problem) != ESPER_OK) {
        note(report, problem.text);
        query_close(report->query);
        report->query = NULL;
    }
    report_ask(report, &report->summary, "summary", &all);
    report_ask(report, &report->rounds, "rounds", &all);
    report->newest = sheet_number(&report->summary, 0, "last_round");
    return ESPER_OK;
}

void report_close(struct report_run *report)
{
    sheet_free(&report->summary);
    sheet_free(&report->rounds);
    query_close(report->query);
    run_close(&report->run);
}

double shown_round(double round)
{
    return isfinite(round) ? (double)round_shown((int64_t)round) : round;
}

struct shown shown_number(double value, int decimals)
{
    struct shown shown = {"-"};
    if (isfinite(value))
        snprintf(shown.text, sizeof shown.text, fabs(value) < 1e15 ? "%.*f" : "%.*g", decimals, value);
    return shown;
}

struct worded worded(const struct family_words *words, const char *before, const char *after)
{
    struct worded worded;
    snprintf(worded.text, sizeof worded.text, "%s%s, %s%s", before, words->score, words->unit, after);
    return worded;
}

double *shown_rounds(struct html *html, const struct sheet *sheet)
{
    const double *rounds = sheet_series(sheet, "round");
    double *shown = rounds ? html_alloc(html, (size_t)sheet->rows, sizeof *shown) : NULL;
    for (int i = 0; shown && i < sheet->rows; i++)
        shown[i] = shown_round(rounds[i]);
    return shown;
}

/* ---- tables ------------------------------------------------------------------------------------------------------ */

static void table_cell(struct html *html, const struct sheet *sheet, int row, const struct report_column *column)
{
    double number = sheet_number(sheet, row, column->name);
    bool text = column->decimals == SHOWN_TEXT || column->decimals == SHOWN_LONG;
    html_raw(html, column->decimals == SHOWN_LONG ? "<td class=\"long\">" : text ? "<td>" : "<td class=\"n\">");
    if (text)
        html_text(html, sheet_text(sheet, row, column->name));
    else if (column->decimals == SHOWN_YES_NO)
        html_raw(html, isnan(number) ? "-" : number != 0 ? "yes" : "no");
    else if (column->decimals == SHOWN_ROUND)
        html_number(html, shown_round(number), 0);
    else if (column->decimals == SHOWN_ROUNDS_DONE)
        html_number(html, isfinite(number) ? (double)rounds_before((int64_t)number) : number, 0);
    else
        html_number(html, number, column->decimals);
    html_raw(html, "</td>");
}

void report_table(struct html *html, const struct sheet *sheet, const struct report_column *columns, int count,
                  const char *none)
{
    if (sheet->rows == 0) {
        html_add(html, "<p class=\"soft\">%s</p>\n", none);
        return;
    }
    html_raw(html, "<div class=\"wide\"><table><thead><tr>");
    for (int i = 0; i < count; i++)
        html_add(html, "<th%s>%s</th>",
                 columns[i].decimals == SHOWN_TEXT || columns[i].decimals == SHOWN_LONG ? "" : " class=\"n\"",
                 columns[i].title);
    html_raw(html, "</tr></thead><tbody>\n");
    for (int row = 0; row < sheet->rows; row++) {
        html_raw(html, "<tr>");
        for (int i = 0; i < count; i++)
            table_cell(html, sheet, row, &columns[i]);
        html_raw(html, "</tr>\n");
    }
    html_raw(html, "</tbody></table></div>\n");
}

/* ---- the page ---------------------------------------------------------------------------------------------------- */

static const char page_style[] =
    "*{box-sizing:border-box}body{margin:0;background:var(--paper);color:var(--ink);font:14px/1.5 system-ui,"
    "-apple-system,\"Segoe UI\",sans-serif}main{max-width:1180px;margin:0 auto;padding:24px 20px 60px}\n"
    "h1{font-size:26px;margin:0 0 2px;overflow-wrap:anywhere}h2{font-size:19px;margin:34px 0 8px;padding-top:10px;"
    "border-top:2px solid var(--grid)}h3{font-size:15px;margin:20px 0 6px}p{margin:4px 0 8px}.soft{color:var(--soft)}\n"
    ".tiles{display:grid;grid-template-columns:repeat(auto-fill,minmax(150px,1fr));gap:10px;margin:16px 0}"
    ".tile{background:var(--panel);border:1px solid var(--grid);border-radius:8px;padding:8px 12px}"
    ".tile b{display:block;font-size:20px;font-weight:650;font-variant-numeric:tabular-nums}"
    ".tile span{color:var(--soft);font-size:12px}\n"
    ".plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(440px,100%),1fr));gap:22px 28px}"
    ".side{display:flex;flex-wrap:wrap;gap:0 40px}.side p{max-width:560px}.side>div{max-width:100%}"
    ".wide{overflow-x:auto}table{border-collapse:collapse;margin:4px 0 12px;font-size:13px}"
    "th{text-align:left;font-weight:600;color:var(--soft);border-bottom:1px solid var(--soft);padding:3px 8px;"
    "vertical-align:bottom}td{border-bottom:1px solid var(--grid);padding:3px 8px;"
    "white-space:nowrap}td.long{white-space:normal;overflow-wrap:anywhere;min-width:120px}"
    ".n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}tr{break-inside:avoid}\n"
    ".verdict{border-left:6px solid var(--soft);background:var(--panel);padding:10px 16px;margin:16px 0;"
    "border-radius:0 8px 8px 0}.verdict b{font-size:17px}.verdict.interpretable{border-color:var(--good)}"
    ".verdict.watch{border-color:var(--warn)}.verdict.blocked{border-color:var(--bad)}"
    ".verdict table{margin:8px 0 0}.verdict td+td{white-space:normal}"
    ".verdict .claims td{white-space:nowrap}.verdict .claims td.long{white-space:normal}"
    ".pass{color:var(--good)}.w{color:var(--warn)}.fail{color:var(--bad)}"
    ".unknown{color:var(--soft)}\n"
    "pre{background:var(--panel);border:1px solid var(--grid);border-radius:6px;padding:10px 12px;white-space:pre-wrap;"
    "overflow-wrap:anywhere;font-size:13px}nav{font-size:13px;margin:10px 0}"
    "nav a{margin-right:14px;display:inline-block}a{color:var(--s0)}"
    "summary{cursor:pointer;color:var(--s0)}\n"
    "@media print{body{font-size:11px}main{max-width:none;padding:0}nav{display:none}h2{break-after:avoid}"
    "h3{break-after:avoid}.plots{grid-template-columns:1fr 1fr;gap:12px}.tile,.verdict{break-inside:avoid}"
    ".wide{overflow:visible}table{font-size:10px}"
    "*{-webkit-print-color-adjust:exact;print-color-adjust:exact}}\n";

void report_tile(struct html *html, const char *name, double value, int decimals, const char *unit)
{
    html_raw(html, "<div class=\"tile\"><b>");
    html_number(html, value, decimals);
    if (isfinite(value))
        html_raw(html, unit);
    html_add(html, "</b><span>%s</span></div>\n", name);
}

static double episodes_of(struct report_run *report)
{
    const struct question_values all = question_all();
    struct sheet health;
    report_ask(report, &health, "health", &all);
    double episodes = sheet_number(&health, 0, "episodes");
    sheet_free(&health);
    return episodes;
}

static void write_scores(struct html *html, struct report_run *report)
{
    const struct {
        const char *before, *after, *column;
    } scores[] = {{"validation ", ", newest round", "val_accuracy_mean_last"},
                  {NULL, "best mean of a round", "val_accuracy_mean_best"},
                  {NULL, "best env", "val_accuracy_best"},
                  {"test ", ", newest round", "test_accuracy_mean_last"}};
    for (size_t i = 0; i < sizeof scores / sizeof scores[0]; i++) {
        char name[96], unit[96];
        double points = sheet_number(&report->summary, 0, scores[i].column);
        snprintf(name, sizeof name, "%s%s%s", scores[i].before ? scores[i].before : "",
                 scores[i].before ? report->words->score : "", scores[i].after);
        snprintf(unit, sizeof unit, " %s", report->words->unit);
        if (report->words->bytes)
            snprintf(unit, sizeof unit, " %s<br/>%.3f " BITS_PER_BYTE, report->words->unit, points_bits(points));
        report_tile(html, name, points, 1, unit);
    }
}

static void write_tiles(struct html *html, struct report_run *report)
{
    const struct sheet *summary = &report->summary;
    double lost = sheet_number(summary, 0, "rows_lost");
    html_raw(html, "<div class=\"tiles\">\n");
    report_tile(html, "rounds finished", sheet_number(summary, 0, "rounds_done"), 0, "");
    report_tile(html, "episodes", episodes_of(report), 0, "");
    write_scores(html, report);
    report_tile(html, "reward of an episode, newest round", sheet_number(summary, 0, "reward_mean_last"), 1, "");
    report_tile(html, "seeds germinated", sheet_number(summary, 0, "germinations"), 0, "");
    report_tile(html, "seeds fossilised", sheet_number(summary, 0, "fossilizations"), 0, "");
    report_tile(html, "rollbacks", sheet_number(summary, 0, "rollbacks"), 0, "");
    report_tile(html, "alerts raised", sheet_number(summary, 0, "alerts"), 0, "");
    report_tile(html, "record rows lost", summary->rows && isnan(lost) ? 0 : lost, 0, "");
    report_tile(html, "env-steps", sheet_number(summary, 0, "env_steps"), 0, "");
    report_tile(html, "total time of the rounds", sheet_number(summary, 0, "seconds") / 60, 1, " min");
    html_raw(html, "</div>\n");
}

static void write_verdict(struct html *html, const struct report_run *report)
{
    static const char *const signs[] = {"\xE2\x9C\x93", "!", "\xE2\x9C\x97", "\xC2\xB7"};
    const struct verdict *verdict = &report->verdict;
    html_add(html, "<div class=\"verdict %s\"><b>%s</b> \xE2\x80\x94 ", verdict_state_name(verdict->state),
             verdict_state_name(verdict->state));
    html_text(html, verdict->text);
    html_raw(html, "<br/>Learning: ");
    html_text(html, verdict->trend);
    html_raw(html, "<table>\n");
    for (int i = 0; i < VERDICT_GATES; i++) {
        const struct verdict_gate *gate = &verdict->gates[i];
        const char *class = gate->state == GATE_WATCH ? "w" : gate_state_name(gate->state);
        html_add(html, "<tr><td class=\"%s\">%s %s</td><td>%s</td><td>", class, signs[gate->state],
                 gate_state_name(gate->state), gate->title);
        html_text(html, gate->text);
        html_raw(html, "</td></tr>\n");
    }
    html_raw(html, "</table></div>\n");
}

void report_head(struct html *html, const char *title)
{
    html_raw(html, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>"
                   "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\"/>"
                   "<meta name=\"color-scheme\" content=\"light dark\"/><title>");
    html_text(html, title);
    html_raw(html, " \xC2\xB7 Esper</title><style>\n");
    html_raw(html, svg_style);
    html_raw(html, page_style);
    html_raw(html, "</style></head><body><main>\n");
}

static void write_title(struct html *html, const struct report_run *report)
{
    const struct config *config = &report->run.config;
    char policy[CONFIG_TEXT];
    html_raw(html, "<h1>");
    html_text(html, report->run.name);
    html_raw(html, "</h1><p class=\"soft\">task ");
    html_text(html, config->task[0] ? config->task : "-");
    html_raw(html, ", policy ");
    html_text(html, config_policy(config, policy));
    html_add(html, ", seed %llu, %s; %s", (unsigned long long)config->seed,
             config->evaluate ? "evaluation, no learning" : "training", run_state_name(&report->status));
    html_add(html, ", %d envs \xC3\x97 %d steps, %d rounds planned; started ", config->envs, config->steps,
             config->rounds);
    html_text(html, report->run.created);
    html_raw(html, ", last update ");
    html_text(html, report->status.updated[0] ? report->status.updated : NULL);
    html_raw(html, "</p>\n");
}

static void write_links(struct html *html, bool several, bool text)
{
    if (several)
        html_raw(html, "<nav><a href=\"#compare\">Comparison</a>");
    else
        html_raw(html, "<nav>");
    html_raw(html,
             "<a href=\"#learning\">Learning</a><a href=\"#growth\">Growth</a><a href=\"#outcomes\">Outcomes</a>");
    if (text)
        html_raw(html, "<a href=\"#text\">Text</a>");
    html_raw(html, "<a href=\"#trouble\">Trouble</a><a href=\"#time\">Time</a>"
                   "<a href=\"#identity\">Configuration</a></nav>\n");
}

static void write_record(struct html *html, struct report_run *report, bool several)
{
    write_links(html, several, report->words->bytes);
    write_verdict(html, report);
    write_tiles(html, report);
}

static void write_parts(struct html *html, struct report_run *report)
{
    report_learning(html, report);
    report_growth(html, report);
    report_outcomes(html, report);
    if (report->words->bytes)
        report_text(html, report);
    report_trouble(html, report);
    report_time(html, report);
}

static void write_trouble(struct html *html, const struct report_run *report)
{
    if (!report->trouble[0])
        return;
    html_add(html, "<p class=\"fail\">\xE2\x9C\x97 %s: ",
             report->query ? "Not all of the record could be read" : "There is no record to show");
    html_text(html, report->trouble);
    html_raw(html, "</p>\n");
    if (!report->unrecorded)
        html_lack(html, report->trouble);
}

/* The next run of a word, "A1,A2,A3"; false after the last. */
static bool next_run(const char **word, char name[PATH_MAX])
{
    size_t length = strcspn(*word, ",");
    if (**word == '\0')
        return false;
    snprintf(name, PATH_MAX, "%.*s", (int)(length < PATH_MAX ? length : 0), *word);
    *word += length + ((*word)[length] == ',');
    return true;
}

/* A name that is not a run is an error before anything is written. */
static enum esper_status check_words(const char *runs, const char *const *words, int count, struct esper_error *error)
{
    char name[PATH_MAX], path[PATH_MAX];
    for (int i = 0; i < count; i++)
        for (const char *word = words[i]; next_run(&word, name);)
            TRY(run_find(runs, name, path, error));
    return ESPER_OK;
}

static enum esper_status open_first(struct report_run *report, const char *runs, const char *word,
                                    struct esper_error *error)
{
    char name[PATH_MAX] = "";
    next_run(&word, name);
    return report_open(report, runs, name, error);
}

enum esper_status report_make(struct html *html, const char *runs, const char *const *words, int count, char *path,
                              size_t path_size, struct esper_error *error)
{
    struct report_run *report = memory_alloc(1, sizeof *report, error);
    bool several = count > 1 || strchr(words[0], ',');
    if (!report)
        return ESPER_FAILED;
    enum esper_status status = check_words(runs, words, count, error);
    if (status == ESPER_OK)
        status = open_first(report, runs, words[0], error);
    if (status == ESPER_OK) {
        snprintf(path, path_size, "%s/report.html", report->run.path);
        report_head(html, report->run.name);
        write_title(html, report);
        if (report->query)
            write_record(html, report, several);
        if (several)
            report_compare(html, runs, words, count);
        if (report->query)
            write_parts(html, report);
        report_identity(html, report);
        write_trouble(html, report);
        html_raw(html, "</main></body></html>\n");
        report_close(report);
    }
    memory_free(report);
    return status;
}
