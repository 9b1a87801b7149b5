/* Prints web/src/words.js: the words that the page shares with C. `make web` writes the file, tests/run_page.sh
 * compares it. */
#include <stdio.h>

#include "base/round.h"
#include "base/vocabulary.h"

static void print_list(const char *name, const char *const words[])
{
    printf("export const %s = [\n", name);
    for (; *words; words++)
        printf("    \"%s\",\n", *words);
    printf("];\n");
}

#define PRINT(LIST) print_list(#LIST, (const char *const[]){LIST(WORD_NAME, ) NULL})

int main(void)
{
    printf("// Printed by web/words.c from the lists in src/base: change those, then run `make web`.\n");
    PRINT(OPS);
    PRINT(HEADS);
    PRINT(EMPTY_STAGES);
    PRINT(LIVE_STAGES);
    PRINT(COOLDOWN_STAGES);
    PRINT(REWARD_COMPONENTS);
    printf("export const EVALUATION_ROUND = %u;\n", EVALUATION_ROUND);
    return 0;
}
