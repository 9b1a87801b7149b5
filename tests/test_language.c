/* The synthetic language: the same bytes everywhere (E-10), and something to gain for who sees more than a byte. */
#include "testing.h"

#include <math.h>
#include <stdio.h>

#include "base/crc32.h"
#include "data/language.h"
#include "data/window.h"

enum { CONTEXT = 32 };

static struct dataset *opened(int context)
{
    struct dataset *dataset;
    struct esper_error error;
    assert_int_equal(dataset_open(NULL, DATA_LANGUAGE, context, &dataset, &error), ESPER_OK);
    return dataset;
}

static void every_machine_writes_the_same_bytes(void **state)
{
    (void)state;
    static const uint32_t crc[SPLIT_COUNT] = {0xba94cca3, 0xec4d6247, 0x53f4d09f};
    static const size_t bytes[SPLIT_COUNT] = {524288, 65537, 131073}, windows[SPLIT_COUNT] = {524256, 2048, 4096};
    struct dataset *dataset = opened(CONTEXT);
    assert_int_equal(dataset->kind, KIND_TEXT);
    assert_int_equal(dataset->set, DATA_LANGUAGE);
    for (int split = 0; split < SPLIT_COUNT; split++) {
        assert_int_equal(dataset->bytes[split], bytes[split]);
        assert_int_equal(dataset->count[split], windows[split]);
        assert_int_equal(crc32_update(0, dataset->stream[split], dataset->bytes[split]), crc[split]);
    }
    dataset_close(dataset);
}

/* ---- what the lines are, from their description alone --------------------------------------------------------------
 */

static bool is_copy(const char *line, size_t length)
{
    const char *equals = memchr(line, '=', length);
    const size_t word = equals ? (size_t)(equals - line) : 0;
    return word >= 3 && word <= 6 && length == 2 * word + 2 && memcmp(line, equals + 1, word) == 0;
}

static bool is_nested(const char *line, size_t length)
{
    static const char open[] = "([{", close[] = ")]}";
    char awaited[16];
    size_t depth = 0, deepest = 0;
    for (size_t i = 0; i + 1 < length; i++) {
        const char *kind = strchr(open, line[i]);
        if (kind && depth < 4)
            awaited[depth++] = close[kind - open];
        else if (kind || depth == 0 || awaited[--depth] != line[i])
            return false;
        deepest = depth > deepest ? depth : deepest;
    }
    return depth == 0 && deepest > 0 && length >= 7 && length <= 13;
}

/* "lV noun [noun [noun]] stemV" */
static bool agrees(const char *line, size_t length)
{
    int spaces = 0;
    for (size_t i = 0; i < length; i++)
        spaces += line[i] == ' ';
    return line[0] == 'l' && line[2] == ' ' && line[1] == line[length - 2] && length == 8 + 5 * (size_t)(spaces - 1) &&
           spaces >= 2 && spaces <= 4;
}

static void lines_are_of_three_kinds(void **state)
{
    (void)state;
    int copies = 0, nests = 0, agreements = 0;
    enum { LINES = 30000 };
    for (uint32_t i = 0; i < LINES; i++) {
        char line[LANGUAGE_LINE];
        const size_t length = language_line(SPLIT_TRAIN, i, line, NULL);
        assert_true(length <= LANGUAGE_LINE && line[length - 1] == '\n');
        if (is_copy(line, length))
            copies++;
        else if (is_nested(line, length))
            nests++;
        else if (agrees(line, length))
            agreements++;
        else
            fail_msg("line %u: %.*s", i, (int)length, line);
    }
    assert_true(abs(copies - LINES / 3) < 300 && abs(nests - LINES / 3) < 300 && abs(agreements - LINES / 3) < 300);
}

/* ---- what is to be gained ------------------------------------------------------------------------------------------
 */

static double bits_of(const struct language_tally *tally)
{
    double bits = 0;
    for (int n = 2; n <= LANGUAGE_CHOICES; n++)
        bits += (double)tally->choices[n] * log2(n);
    return bits;
}

/* Bits per byte of a model that knows how often each byte follows the `order` before it. */
static double order_entropy(const uint8_t *stream, size_t bytes, int order)
{
    const size_t contexts = (size_t)1 << (8 * order), mask = contexts - 1;
    uint32_t *of_context = calloc(contexts, sizeof *of_context), *pairs = calloc(contexts * 256, sizeof *pairs);
    assert_true(of_context && pairs);
    double bits = 0;
    for (int look = 0; look < 2; look++) {
        size_t context = 0;
        for (size_t i = 0; i < bytes; i++) {
            const size_t pair = context * 256 + stream[i];
            if (i >= (size_t)order && look == 0) {
                of_context[context]++;
                pairs[pair]++;
            } else if (i >= (size_t)order) {
                bits -= log2((double)pairs[pair] / of_context[context]);
            }
            context = (context << 8 | stream[i]) & mask;
        }
    }
    free(of_context);
    free(pairs);
    return bits / (double)(bytes - (size_t)order);
}

/*
 * A line's entropy is the sum of its choices. Within a window, lines that begin in it are that predictable to who sees
 * the structure; the rest of the line before the first of them is charged as to a bigram model.
 */
static void attention_has_something_to_gain(void **state)
{
    (void)state;
    struct dataset *dataset = opened(CONTEXT);
    const uint8_t *stream = dataset->stream[SPLIT_VAL];
    const size_t bytes = dataset->bytes[SPLIT_VAL];
    struct language_tally tally = {{0}};
    size_t written = 0;
    for (uint32_t i = 0; written < bytes; i++) {
        char line[LANGUAGE_LINE];
        written += language_line(SPLIT_VAL, i, line, &tally);
    }
    size_t in_sight = 0, targets = 0;
    for (uint32_t i = 0; i < dataset->count[SPLIT_VAL]; i++) {
        bool begun = false;
        for (size_t t = 0; t < CONTEXT; t++, targets++) {
            begun = begun || stream[window_place(i, CONTEXT) + t] == '\n';
            in_sight += begun;
        }
    }
    const double structure = bits_of(&tally) / (double)written, share = (double)in_sight / (double)targets;
    const double single = order_entropy(stream, bytes, 0), bigram = order_entropy(stream, bytes, 1),
                 trigram = order_entropy(stream, bytes, 2);
    const double window = share * structure + (1 - share) * bigram;
    printf("bits per byte: single bytes %.3f, bigrams %.3f, trigrams %.3f, within a context of %d %.3f, choices %.3f\n",
           single, bigram, trigram, CONTEXT, window, structure);
    assert_true(structure > 1 && structure < 1.5);
    assert_true(single > 4 && bigram > 2.2 && trigram > 1.8); /* counted on the text itself: no model does better */
    assert_true(window < bigram - 0.75 && window < trigram - 0.3);
    dataset_close(dataset);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_machine_writes_the_same_bytes),
        cmocka_unit_test(lines_are_of_three_kinds),
        cmocka_unit_test(attention_has_something_to_gain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
