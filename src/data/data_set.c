#include "data/data_set.h"

#include <string.h>

const char config_data_sets[] = DATA_SET_WORDS(WORD_CHOICE, );

/*
 * A photograph or a piece of clothing may be mirrored; a digit may not: 2 and 5 would look alike. Shifts by a few
 * pixels change neither. The synthetic set is normalised like CIFAR-10 and never augmented: its classes are directions.
 * Of somebody's own images nobody knows whether left and right mean something, so they are not mirrored.
 * The language's splits hold whole windows of any power of two, and the byte that follows the last.
 */
// clang-format off
static const struct data_facts sets[DATA_SETS] = {
    [DATA_CIFAR10] = {.title = "CIFAR-10", .packed = true, .crop = true, .mirror = true,
                      .train = 45000, .val = 5000, .test = 10000,
                      .mean = {0.4914, 0.4822, 0.4465}, .deviation = {0.2470, 0.2435, 0.2616}},
    [DATA_SYNTHETIC] = {.title = "the synthetic set",
                        .train = 10000, .val = 2000, .test = 2000,
                        .mean = {0.4914, 0.4822, 0.4465}, .deviation = {0.2470, 0.2435, 0.2616}},
    [DATA_FASHION] = {.title = "Fashion-MNIST", .packed = true, .crop = true, .mirror = true,
                      .train = 55000, .val = 5000, .test = 10000,
                      .mean = {0.2190, 0.2190, 0.2190}, .deviation = {0.3318, 0.3318, 0.3318}},
    [DATA_MNIST] = {.title = "MNIST", .packed = true, .crop = true,
                    .train = 55000, .val = 5000, .test = 10000,
                    .mean = {0.1000, 0.1000, 0.1000}, .deviation = {0.2752, 0.2752, 0.2752}},
    [DATA_IMAGES] = {.title = "images of your own", .packed = true, .own = true, .crop = true},
    [DATA_TEXT] = {.title = "text", .kind = KIND_TEXT, .packed = true},
    [DATA_LANGUAGE] = {.title = "the synthetic language", .kind = KIND_TEXT,
                       .train = 1 << 19, .val = (1 << 16) + 1, .test = (1 << 17) + 1},
#define NAMED(with, NAME, word) [DATA_##NAME].name = #word,
    DATA_SET_WORDS(NAMED, )
#undef NAMED
};
// clang-format on

const struct data_facts *data_facts_of(int set)
{
    return &sets[set];
}

struct data_facts data_facts_for(const struct config *config)
{
    struct data_facts facts = sets[config->data_set];
    if (facts.own) {
        memcpy(facts.mean, config->data_mean, sizeof facts.mean);
        memcpy(facts.deviation, config->data_deviation, sizeof facts.deviation);
    }
    return facts;
}

enum data_set data_set_named(const char *name)
{
    int set = 0;
    while (set < DATA_SETS && strcmp(sets[set].name, name) != 0)
        set++;
    return (enum data_set)set;
}
