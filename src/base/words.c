#include "base/words.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* Letters to insert, remove or replace, or neighbours to swap, until one word is the other. */
static int edit_distance(const char *a, const char *b)
{
    enum { LONGEST = 63 };
    int rows[3][LONGEST + 1]; /* of the table, row i in rows[i % 3] */
    int columns = (int)strnlen(b, LONGEST), last = 0;
    for (int j = 0; j <= columns; j++)
        rows[0][j] = j;
    for (int i = 0; i < LONGEST && a[i]; i++) {
        const int *above = rows[i % 3], *two_above = rows[(i + 2) % 3];
        int *row = rows[last = (i + 1) % 3];
        row[0] = i + 1;
        for (int j = 0; j < columns; j++) {
            int best = above[j] + (a[i] != b[j]);
            if (above[j + 1] + 1 < best)
                best = above[j + 1] + 1;
            if (row[j] + 1 < best)
                best = row[j] + 1;
            if (i > 0 && j > 0 && a[i] == b[j - 1] && a[i - 1] == b[j] && two_above[j - 1] + 1 < best)
                best = two_above[j - 1] + 1;
            row[j + 1] = best;
        }
    }
    return rows[last][columns];
}

/* A hint that is far off misleads: one letter may differ, plus one for every four typed, unless one word holds the
 * other. The distance is only taken where the lengths leave it a chance; -1 for what is far off. */
static int near_distance(const char *word, const char *name)
{
    int typed = (int)strlen(word), length = (int)strlen(name), most = 1 + typed / 4;
    if ((typed >= 3 && strstr(name, word)) || (length >= 3 && strstr(word, name)))
        return edit_distance(word, name);
    if (typed - length > most || length - typed > most)
        return -1;
    int distance = edit_distance(word, name);
    return distance <= most && distance < length ? distance : -1;
}

const char *nearest_word(const char *word, const char *const names[], int count)
{
    const char *best = NULL;
    int least = 0;
    for (int i = 0; i < count; i++) {
        int distance = near_distance(word, names[i]);
        if (distance >= 0 && (!best || distance < least)) {
            best = names[i];
            least = distance;
        }
    }
    return best;
}

struct word_hint word_hint(const char *word, const char *const names[], int count, const char *command)
{
    struct word_hint hint = {""};
    const char *nearest = nearest_word(word, names, count);
    if (nearest)
        snprintf(hint.text, sizeof hint.text, "; did you mean \"%.120s\"?", nearest);
    else if (command)
        snprintf(hint.text, sizeof hint.text, "; `%s` lists them", command);
    for (int i = 0; !nearest && !command && i < count; i++) {
        size_t used = strlen(hint.text);
        int more = snprintf(hint.text + used, sizeof hint.text - used, "%s%s", i ? ", " : "; choose from ", names[i]);
        if (used + (size_t)more >= sizeof hint.text)
            return (struct word_hint){""}; /* too many to name */
    }
    return hint;
}
