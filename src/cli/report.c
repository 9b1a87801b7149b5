/* esper report: a run, or several and their comparison, as one page that opens from disk. */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "view/report.h"

static enum esper_status report(struct cli_call *call, struct esper_error *error)
{
    const char *output = *(const char **)call->flags;
    struct html html = {0};
    char usual[PATH_MAX + 16];
    cli_output(output);
    enum esper_status status =
        report_make(&html, call->runs, call->words.items, call->words.count, usual, sizeof usual, error);
    const char *path = output ? output : usual;
    if (status == ESPER_OK)
        status = html_write(&html, path, error);
    if (status == ESPER_OK && strcmp(path, "-") != 0)
        cli_print("%s\n", path);
    if (status == ESPER_OK && html.lack[0]) /* what could be read is on the page */
        status = error_set(error, ESPER_FAILED, "the page is not complete: %s", html.lack);
    html_free(&html);
    return status;
}

const struct cli_page report_page = {
    .usage = "report RUN... [-o FILE] [options]",
    .about = "One HTML page without scripts that describes the first run in full: verdict, plots, seeds, outcomes,\n"
             "trouble, configuration. With more runs also how they compare, as `esper compare` does; commas join\n"
             "runs of one policy. Works on live, finished and crashed runs.",
    .example = "esper report quick quick-ppo quick-static -o quick.html",
    .options =
        (const struct cli_option[]){{"output", CLI_TEXT, "FILE", 0,
                                     "where to write the page (report.html in the first run's directory); - is stdout",
                                     0, 0},
                                    CLI_RUNS_OPTION,
                                    {0}},
    .min_words = 1,
    .max_words = REPORT_WORDS,
    .wanted = "a run",
    .run = report,
    .flags_size = sizeof(const char *),
};
