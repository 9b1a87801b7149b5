/* What a mistyped word probably meant. */
#ifndef BASE_WORDS_H
#define BASE_WORDS_H

/* The name closest to `word` among those near enough to be meant: few letters differ, or one word contains the other.
 * NULL when none is. */
const char *nearest_word(const char *word, const char *const names[], int count);

/* The end of an error line: `; did you mean "x"?`. Where no name is near it says which command lists them or, when that
 * is NULL and they are few, lists them. */
struct word_hint {
    char text[160];
};
struct word_hint word_hint(const char *word, const char *const names[], int count, const char *command);

#endif
