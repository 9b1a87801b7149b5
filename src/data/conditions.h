/*
 * The conditions of an episode. A task can be a distribution: every env then draws how many training images it has, how
 * many of their labels are wrong, how fast it learns and what growing costs it, so that the growth that suits one does
 * not suit another. The draws depend on round and birth alone (E-08, E-22). The policy is told the price alone.
 */
#ifndef DATA_CONDITIONS_H
#define DATA_CONDITIONS_H

#include <stdint.h>

#include "base/config.h"
#include "base/philox.h"
#include "base/rule.h"
#include "base/state.h"

#define CONDITIONS_FIELDS(FIELD)                                                                                       \
    FIELD(uint32_t, images)   /* training images that the env has */                                                   \
    FIELD(float, label_noise) /* share of them that are shown with a wrong label */                                    \
    FIELD(float, lr_factor)   /* of the learning rates of host and seeds */

#define CONDITIONS_MEMBER(type, name) type name;
struct conditions {
    CONDITIONS_FIELDS(CONDITIONS_MEMBER)
};
#undef CONDITIONS_MEMBER
STATE_OF_FIELDS(conditions, CONDITIONS_FIELDS)

/* Who shares birth, images and conditions: the envs of a group (E-21) and, while schedules are tried, more (L-24). */
struct births {
    int group, brood; /* envs side by side; a brood is one or more groups */
    uint32_t tries;   /* the first rounds, in which it is broods that share */
};

/* Few enough that a training of many envs tries schedules under many conditions, and enough to compare them in each. */
enum { BROOD = 16 };

static inline struct births births_of(const struct config *config)
{
    const int group = config->group;
    return (struct births){.group = group,
                           .brood = group < BROOD ? BROOD / group * group : group,
                           .tries = (uint32_t)config_tries(config)};
}

/* The first env of one's group. */
ESPER_RULE uint32_t births_group(struct births births, uint32_t number)
{
    return number - number % (uint32_t)births.group;
}

/* The number of the env whose birth, images and conditions one has in a round. */
ESPER_RULE uint32_t births_first(struct births births, uint32_t round, uint32_t number)
{
    return round < births.tries ? number - number % (uint32_t)births.brood : births_group(births, number);
}

/* As the task's mixed.* say, for a training split of that many images. On the host only: pow has other last bits on a
 * device. Stream 13, a = 0: words images, label_noise, lr_factor, price. */
struct conditions conditions_draw(const struct config *config, uint32_t round, uint32_t env, uint32_t images);
/* Of reward.price. Apart from the others, because only worlds that mix prices keep it. */
double conditions_price_factor(const struct config *config, uint32_t round, uint32_t env);

/* What a task that is no distribution gives every env. */
ESPER_RULE struct conditions conditions_plain(uint32_t images)
{
    struct conditions conditions = {images, 0.0f, 1.0f};
    return conditions;
}

/* The label under which an env sees a training image in every pass: its own, or one of the others. Stream 13, a = 1,
 * block = image: words whether, which. */
ESPER_RULE uint16_t conditions_label(const struct conditions *conditions, uint64_t seed, uint32_t round, uint32_t env,
                                     uint32_t image, uint16_t label, uint32_t classes)
{
    if (conditions->label_noise <= 0.0f)
        return label;
    const struct philox_block words = random_block(random_at(seed, STREAM_CONDITIONS, round, env, 1), image);
    if (random_unit(words.word[0]) >= conditions->label_noise)
        return label;
    const uint32_t other = (uint32_t)((uint64_t)words.word[1] * (classes - 1) >> 32); /* 0 .. classes - 2 */
    return (uint16_t)((label + 1 + other) % classes);
}

#endif
