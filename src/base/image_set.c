#include "base/image_set.h"

#include <string.h>

/*
 * A photograph or a piece of clothing may be mirrored; a digit may not: 2 and 5 would look alike. Shifts by a few
 * pixels change neither. The synthetic set is normalised like CIFAR-10 and never augmented: its classes are directions.
 */
static const struct image_set sets[DATA_SETS] = {
    [DATA_CIFAR10] = {.name = "cifar10",
                      .title = "CIFAR-10",
                      .packed = true,
                      .crop = true,
                      .mirror = true,
                      .train = 45000,
                      .val = 5000,
                      .test = 10000,
                      .mean = {0.4914, 0.4822, 0.4465},
                      .deviation = {0.2470, 0.2435, 0.2616}},
    [DATA_SYNTHETIC] = {.name = "synthetic",
                        .title = "the synthetic set",
                        .train = 10000,
                        .val = 2000,
                        .test = 2000,
                        .mean = {0.4914, 0.4822, 0.4465},
                        .deviation = {0.2470, 0.2435, 0.2616}},
    [DATA_FASHION] = {.name = "fashion",
                      .title = "Fashion-MNIST",
                      .packed = true,
                      .crop = true,
                      .mirror = true,
                      .train = 55000,
                      .val = 5000,
                      .test = 10000,
                      .mean = {0.2190, 0.2190, 0.2190},
                      .deviation = {0.3318, 0.3318, 0.3318}},
    [DATA_MNIST] = {.name = "mnist",
                    .title = "MNIST",
                    .packed = true,
                    .crop = true,
                    .train = 55000,
                    .val = 5000,
                    .test = 10000,
                    .mean = {0.1000, 0.1000, 0.1000},
                    .deviation = {0.2752, 0.2752, 0.2752}},
};

const struct image_set *image_set_of(enum data_set set)
{
    return &sets[set];
}

enum data_set image_set_named(const char *name)
{
    int set = 0;
    while (set < DATA_SETS && strcmp(sets[set].name, name) != 0)
        set++;
    return (enum data_set)set;
}
