/* Text that comes from elsewhere: names of files, strings of JSON, values of a record. What reaches a terminal must be
 * text and nothing else. */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* Length of the well-formed UTF-8 character at the start of a non-empty text; 0 when there is none. */
size_t text_character(const char *text, size_t bytes);

/* Whether the character at the start of a non-empty text, of that length, may be shown: no control character of either
 * set (0 to 1F and 7F, 80 to 9F), nor one that turns the direction of writing. */
bool text_shows(const char *text, size_t length);

/* What stands for the first bytes of a non-empty text that may hold anything: a character that may be shown, a line
 * break or a tab as it is, otherwise \\xNN for one byte. Returns how many bytes that was. */
enum { TEXT_SHOWN = 5 };
size_t text_shown(const char *text, size_t bytes, char shown[TEXT_SHOWN]);

/* Whether all of a text may be shown, on one line. Bytes that are not UTF-8 are no reason to refuse it: paths may have
 * them. */
bool text_is_plain(const char *text);

/* Writes '?' over the bytes of all that may not be shown, except the control characters in `kept` ("": none). */
void text_scrub(char *text, const char *kept);

#endif
