/*
 * A page being written: text that grows, and the one place where text from a file becomes HTML. Errors are remembered
 * and reported by html_write, so that the code that writes stays a plain list.
 */
#ifndef VIEW_HTML_H
#define VIEW_HTML_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

struct html {
    char *text;
    size_t used, room;
    bool failed;    /* out of memory: nothing more is added */
    char lack[512]; /* the first thing that could not be read and that the page does without; "": it has all */
};

/* Notes that; the page is still written, but whoever asked for it must be told. */
void html_lack(struct html *html, const char *text);
/* memory_alloc for what the page shows: failing fails the page. */
void *html_alloc(struct html *html, size_t count, size_t size);

void html_raw(struct html *html, const char *text);
/* Markup with numbers; texts go through html_text. */
void html_add(struct html *html, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Any bytes: markup is escaped; bytes that are not UTF-8 and characters that XML forbids become U+FFFD. NULL: "-". */
void html_text(struct html *html, const char *text);
/* A number for people, with that many decimals; not finite: "-". Thousands are separated by a narrow space. */
void html_number(struct html *html, double value, int decimals);

/* Writes the page to a file: all of it or nothing. */
enum esper_status html_write(const struct html *html, const char *path, struct esper_error *error);
void html_free(struct html *html);

#endif
