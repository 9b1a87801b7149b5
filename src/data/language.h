/*
 * The synthetic language: short lines of three kinds, in which most bytes follow from ones that are out of a bigram
 * model's sight and within a context of 32.
 *
 *   kodame=kodame            a word and its copy
 *   ([]{})[]                 brackets of three kinds, nested up to four deep
 *   la tuno seka mira pata   agreement: the article's vowel is the last one, too, one to three words later
 *
 * Integers only, so every machine makes the same bytes (E-10).
 */
#ifndef DATA_LANGUAGE_H
#define DATA_LANGUAGE_H

#include <stddef.h>
#include <stdint.h>

#include "data/dataset.h"

enum {
    LANGUAGE_LINE = 24,  /* bytes of a line at most, its newline included */
    LANGUAGE_CHOICES = 8 /* alternatives of a choice at most */
};

/* How often one of so many was chosen, [alternatives]. All choices are uniform and can be read off a line, so the
 * language's entropy is the sum of their logarithms. */
struct language_tally {
    uint64_t choices[LANGUAGE_CHOICES + 1];
};

/* Line `index` of a split; returns its length. `tally` may be NULL. */
size_t language_line(enum split split, uint32_t index, char line[LANGUAGE_LINE], struct language_tally *tally);

/* The first `bytes` bytes of a split's lines. */
void language_write(enum split split, uint8_t *stream, size_t bytes);

#endif
