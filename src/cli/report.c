/* esper report: a run, or several and their comparison, as one page that opens from disk. */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "view/report.h"

/* Tools that write a file usually take -o; the parser only knows long names. */
static void expand_output(int argc, char **argv)
{
    static char name[] = "--output";
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "-o") == 0)
            argv[i] = name;
}

int command_report(int argc, char **argv)
{
    const char *runs = CLI_RUNS, *output = NULL;
    struct cli_list words = {0};
    const struct cli_option options[] = {
        {"output", CLI_TEXT, "FILE", &output,
         "where to write the page (report.html in the first run's directory); - is stdout", 0, 0},
        {"runs", CLI_TEXT, "DIR", &runs, "the directory of runs (" CLI_RUNS ")", 0, 0},
    };
    const struct cli_page page = {
        .usage = "report RUN... [-o FILE] [options]",
        .about =
            "One HTML page without scripts that describes the first run in full: verdict, plots, seeds, outcomes,\n"
            "trouble, configuration. With more runs also how they compare, as `esper compare` does; commas join\n"
            "runs of one policy. Works on live, finished and crashed runs.",
        .example = "esper report quick quick-ppo quick-static -o quick.html",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .max_words = REPORT_WORDS,
    };
    expand_output(argc, argv);
    int code = cli_parse(argc, argv, &page, &words);
    if (code != CLI_CONTINUE)
        return code;
    cli_output(output);
    struct esper_error error = {0};
    struct html html = {0};
    char path[PATH_MAX + 16];
    if (words.count == 0) {
        error_set(&error, ESPER_INVALID, "name a run: esper report RUN, for example esper report latest; see --help");
        return cli_fail(&error);
    }
    enum esper_status status = report_make(&html, runs, words.items, words.count, path, sizeof path, &error);
    if (status == ESPER_OK)
        status = html_write(&html, output ? output : path, &error);
    if (status == ESPER_OK && (!output || strcmp(output, "-") != 0))
        cli_print("%s\n", output ? output : path);
    if (status == ESPER_OK && html.lack[0]) /* what could be read is on the page */
        status = error_set(&error, ESPER_FAILED, "the page is not complete: %s", html.lack);
    html_free(&html);
    return status == ESPER_OK ? CLI_OK : cli_fail(&error);
}
