#include "data/conditions.h"

#include <math.h>

static struct philox_block draw_words(const struct config *config, uint32_t round, uint32_t env)
{
    return random_block(random_at(config->seed, STREAM_CONDITIONS, round, env, 0), 0);
}

double conditions_price_factor(const struct config *config, uint32_t round, uint32_t env)
{
    const struct mixed_config *mixed = &config->mixed;
    const double drawn = (double)random_unit(draw_words(config, round, env).word[3]) - mixed->price_free;
    return drawn < 0 ? 0 : pow(mixed->price_least, drawn / (1 - mixed->price_free));
}

struct conditions conditions_draw(const struct config *config, uint32_t round, uint32_t env, uint32_t images)
{
    const struct mixed_config *mixed = &config->mixed;
    const struct philox_block words = draw_words(config, round, env);
    const double few = (double)random_unit(words.word[0]), noise = (double)random_unit(words.word[1]),
                 fast = (double)random_unit(words.word[2]);
    /* Exactly the plain conditions where nothing is mixed: pow(1, x) is 1. */
    struct conditions conditions = {
        .images = (uint32_t)nearbyint(images * pow(mixed->images_least, few)),
        .label_noise = (float)(mixed->label_noise * noise),
        .lr_factor = (float)pow(mixed->lr_factor, 2 * fast - 1),
    };
    if (conditions.images < 1)
        conditions.images = 1;
    return conditions;
}
