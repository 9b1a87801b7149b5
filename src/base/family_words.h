/*
 * What people call the points of a family's networks and the samples they learn from. Each family fills one in
 * (morph/family.h); whatever shows the scores of a run asks it, and has no word of its own for them.
 */
#ifndef BASE_FAMILY_WORDS_H
#define BASE_FAMILY_WORDS_H

#include <math.h>
#include <stdbool.h>
#include <stdio.h>

struct family_words {
    const char *score, *unit, *score_short, *unit_short, *samples, *samples_short; /* in full and in few letters */
    bool bytes; /* targets are bytes, scored by their loss: points are the share of a byte's 8 bits that is saved */
};

#define BITS_PER_BYTE       "bits per byte"
#define BITS_PER_BYTE_SHORT "bpb"

/* For results of several families. */
static const struct family_words family_words_any = {"score", "points", "pts", "pts", "samples", "smp", false};

/* Bits per byte of a network with so many points, or of several with that mean. A network worse than guessing has 0
 * points, so that 8 stands for 8 or more. */
static inline double points_bits(double points)
{
    return 8 * (1 - points / 100);
}

/* NAN where the family has none. */
static inline double family_bits(const struct family_words *words, double points)
{
    return words->bytes ? points_bits(points) : (double)NAN;
}

/* "52.3 %", "35.2 points, 5.184 bits per byte"; not finite: "-". */
enum { FAMILY_SCORE = 64 };
static inline const char *family_score(const struct family_words *words, double points, char text[FAMILY_SCORE])
{
    if (!isfinite(points))
        snprintf(text, FAMILY_SCORE, "-");
    else if (words->bytes)
        snprintf(text, FAMILY_SCORE, "%.1f %s, %.3f " BITS_PER_BYTE, points, words->unit, family_bits(words, points));
    else
        snprintf(text, FAMILY_SCORE, "%.1f %s", points, words->unit);
    return text;
}

#endif
