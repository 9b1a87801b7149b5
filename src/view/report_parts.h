/* What the parts of the report share: a run with its record open, and tables. */
#ifndef VIEW_REPORT_PARTS_H
#define VIEW_REPORT_PARTS_H

#include "morph/family.h"
#include "telemetry/query.h"
#include "view/html.h"
#include "view/sheet.h"
#include "view/verdict.h"

struct report_run {
    struct run run;
    const struct family_words *words; /* what its scores are called */
    struct run_status status;
    struct query *query; /* NULL: there is no record, or it cannot be read */
    struct verdict verdict;
    struct sheet summary, rounds;
    double newest;     /* the last finished round, NAN: none */
    char trouble[512]; /* the first thing that could not be read, "" */
    bool unrecorded;   /* there is no record yet: no fault */
};

/* Opens for reading; only a word that does not name a run is an error. */
enum esper_status report_open(struct report_run *report, const char *runs, const char *word, struct esper_error *error);
void report_close(struct report_run *report);

/* The page up to the beginning of <main>; a number in a box, for <div class="tiles">. */
void report_head(struct html *html, const char *title);
void report_tile(struct html *html, const char *name, double value, int decimals, const char *unit);
/* A heading or another text with the score's name and unit in it: "Test accuracy, %". */
struct worded {
    char text[128];
};
struct worded worded(const struct family_words *words, const char *before, const char *after);

/* Asks; a failure is noted as trouble and gives an empty sheet. */
void report_ask(struct report_run *report, struct sheet *sheet, const char *question,
                const struct question_values *values);

/* round_shown for a number that may be missing. */
double shown_round(double round);
/* A number in plain text; missing: "-". */
struct shown {
    char text[32];
};
struct shown shown_number(double value, int decimals);
/* The column `round` of a sheet, numbered that way; release with memory_free. NULL: no rows. */
double *shown_rounds(struct html *html, const struct sheet *sheet);

/* A table of a sheet's columns. decimals: of a number, or one of these; LONG is a text that may wrap. */
enum { SHOWN_TEXT = -1, SHOWN_ROUND = -2, SHOWN_YES_NO = -3, SHOWN_LONG = -4, SHOWN_ROUNDS_DONE = -5 };
struct report_column {
    const char *title, *name;
    int decimals;
};
/* Without rows: a paragraph that says `none`. */
void report_table(struct html *html, const struct sheet *sheet, const struct report_column *columns, int count,
                  const char *none);
#define REPORT_TABLE(html, sheet, columns, none)                                                                       \
    report_table(html, sheet, columns, (int)(sizeof columns / sizeof columns[0]), none)

/* The parts, in the order of the page. */
void report_learning(struct html *html, struct report_run *report); /* report_plots.c */
void report_growth(struct html *html, struct report_run *report);   /* report_growth.c */
void report_outcomes(struct html *html, struct report_run *report); /* report_growth.c */
void report_text(struct html *html, struct report_run *report);     /* report_tables.c; only where hosts read text */
void report_trouble(struct html *html, struct report_run *report);  /* report_tables.c */
void report_time(struct html *html, struct report_run *report);     /* report_tables.c */
void report_identity(struct html *html, struct report_run *report); /* report_tables.c */
/* Every word as a cohort; the validation scores of all their runs in one plot. */
void report_compare(struct html *html, const char *runs, const char *const *words, int count); /* report_compare.c */

#endif
