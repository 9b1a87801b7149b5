#include "data/language.h"

#include <string.h>

#include "data/draws.h"

enum {
    WORD_LEAST = 3, /* letters of a copied word: one of four lengths */
    PAIRS_LEAST = 3 /* brackets of a line: one of four counts */,
    BRACKET_DEPTH = 4,
};

static const char consonants[8] = {'b', 'd', 'g', 'k', 'l', 'm', 'n', 'p'}, vowels[4] = {'a', 'e', 'i', 'o'};
static const char open_bracket[3] = {'(', '[', '{'}, close_bracket[3] = {')', ']', '}'};
static const char nouns[8][5] = {"mira", "tuno", "seka", "dopi", "lage", "rino", "bado", "keli"};
static const char stems[8][4] = {"pat", "som", "ken", "dil", "gar", "bin", "tem", "lor"};

/* A line as it is written. */
struct line {
    struct draws draws;
    char *text;
    size_t length;
    struct language_tally *tally;
};

/* 0 .. alternatives - 1 */
static int choose(struct line *line, int alternatives)
{
    if (line->tally)
        line->tally->choices[alternatives]++;
    return draws_uniform(&line->draws, 0, alternatives - 1);
}

static void put(struct line *line, char byte)
{
    line->text[line->length++] = byte;
}

static void put_text(struct line *line, const char *text)
{
    while (*text)
        put(line, *text++);
}

static void write_copy(struct line *line)
{
    const int letters = WORD_LEAST + choose(line, 4);
    for (int i = 0; i < letters; i++)
        put(line, i % 2 ? vowels[choose(line, 4)] : consonants[choose(line, 8)]);
    put(line, '=');
    for (int i = 0; i < letters; i++)
        put(line, line->text[i]);
}

static void write_brackets(struct line *line)
{
    char awaited[BRACKET_DEPTH];
    int left = PAIRS_LEAST + choose(line, 4), depth = 0;
    while (left > 0 || depth > 0) {
        /* Opening where nothing is open and closing where all is written or deep enough are no choices. */
        if (left > 0 && (depth == 0 || (depth < BRACKET_DEPTH && choose(line, 2) == 0))) {
            const int kind = choose(line, 3);
            put(line, open_bracket[kind]);
            awaited[depth++] = close_bracket[kind];
            left--;
        } else {
            put(line, awaited[--depth]);
        }
    }
}

static void write_agreement(struct line *line)
{
    const char vowel = vowels[choose(line, 4)];
    put(line, 'l');
    put(line, vowel);
    for (int words = 1 + choose(line, 3); words > 0; words--) {
        put(line, ' ');
        put_text(line, nouns[choose(line, 8)]);
    }
    put(line, ' ');
    put_text(line, stems[choose(line, 8)]);
    put(line, vowel);
}

size_t language_line(enum split split, uint32_t index, char text[LANGUAGE_LINE], struct language_tally *tally)
{
    /* Key 0 and round 0: the data do not depend on the run's seed. The line's number is in the env word. */
    struct line line = {
        .draws = {.site = random_at(0, STREAM_LANGUAGE, 0, index, (uint32_t)split)}, .text = text, .tally = tally};
    switch (choose(&line, 3)) {
    case 0:
        write_copy(&line);
        break;
    case 1:
        write_brackets(&line);
        break;
    default:
        write_agreement(&line);
        break;
    }
    put(&line, '\n');
    return line.length;
}

void language_write(enum split split, uint8_t *stream, size_t bytes)
{
    char line[LANGUAGE_LINE];
    for (uint32_t index = 0; bytes > 0; index++) {
        size_t length = language_line(split, index, line, NULL);
        length = length < bytes ? length : bytes;
        memcpy(stream, line, length);
        stream += length;
        bytes -= length;
    }
}
