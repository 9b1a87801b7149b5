/*
 * The governor watches the validation loss of an env and says when its host is lost: the caller then restores the env's
 * snapshot (E-05 to E-07). There is one per env, cleared with the episode, not by a rollback.
 */
#ifndef MORPH_GOVERNOR_H
#define MORPH_GOVERNOR_H

#include <math.h>

#include "base/config.h"
#include "morph/stage.h"

#define GOVERNOR_WINDOW  20u /* healthy losses kept */
#define GOVERNOR_SAMPLES 10u /* of them needed before their mean is meaningful */

#define GOVERNOR_FIELDS(FIELD, ARRAY)                                                                                  \
    ARRAY(double, history, GOVERNOR_WINDOW) /* ring: healthy loss n (from 0) at n mod the window */                    \
    FIELD(uint32_t, count)                  /* of healthy losses so far */                                             \
    FIELD(uint32_t, streak)                 /* consecutive diverging losses */

#define GOVERNOR_MEMBER(type, name)        type name;
#define GOVERNOR_ARRAY(type, name, length) type name[length];
struct governor {
    GOVERNOR_FIELDS(GOVERNOR_MEMBER, GOVERNOR_ARRAY)
};
#undef GOVERNOR_MEMBER
#undef GOVERNOR_ARRAY

ESPER_RULE void governor_clear(struct governor *governor)
{
#define GOVERNOR_ZERO(type, name) governor->name = 0;
#define GOVERNOR_ZEROS(type, name, length)                                                                             \
    for (uint32_t i = 0; i < (length); i++)                                                                            \
        governor->name[i] = 0;
    GOVERNOR_FIELDS(GOVERNOR_ZERO, GOVERNOR_ZEROS)
#undef GOVERNOR_ZERO
#undef GOVERNOR_ZEROS
}

struct governor_moments {
    uint32_t count;
    double mean, deviation; /* population */
};

ESPER_RULE struct governor_moments governor_moments_of(const struct governor *governor)
{
    struct governor_moments moments = {governor->count, 0.0, 0.0};
    double sum = 0.0, square = 0.0;
    if (moments.count > GOVERNOR_WINDOW)
        moments.count = GOVERNOR_WINDOW;
    if (moments.count == 0)
        return moments;
    for (uint32_t i = 0; i < moments.count; i++)
        sum += governor->history[i];
    moments.mean = sum / moments.count;
    for (uint32_t i = 0; i < moments.count; i++)
        square += (governor->history[i] - moments.mean) * (governor->history[i] - moments.mean);
    moments.deviation = sqrt(square / moments.count);
    return moments;
}

/* A network that had learned and is now guessing: its loss is back at ln(classes). */
ESPER_RULE bool governor_is_lobotomy(const struct governor_moments *moments, const struct governor_config *config,
                                     int classes, double loss)
{
    double guess = log((double)classes);
    return moments->mean < config->lobotomy_mean * guess && fabs(loss - guess) < config->lobotomy_width * guess;
}

ESPER_RULE bool governor_is_divergence(const struct governor_moments *moments, const struct governor_config *config,
                                       double loss)
{
    return loss > config->loss_limit && loss > moments->mean + config->sigmas * moments->deviation &&
           loss > config->factor * moments->mean;
}

/* Once per step, on its validation loss: PRUNE_NONE, or the reason why the env must be rolled back. */
ESPER_RULE int governor_verdict(struct governor *governor, const struct governor_config *config, int classes,
                                double val_loss)
{
    struct governor_moments moments = governor_moments_of(governor);
    bool experienced = moments.count >= GOVERNOR_SAMPLES;
    int verdict = PRUNE_NONE;
    if (!isfinite(val_loss)) {
        verdict = PRUNE_GOVERNOR_NAN;
    } else if (experienced && governor_is_lobotomy(&moments, config, classes, val_loss)) {
        verdict = PRUNE_GOVERNOR_LOBOTOMY;
    } else if (experienced && governor_is_divergence(&moments, config, val_loss)) {
        governor->streak++;
        if (governor->streak < (uint32_t)config->streak)
            return PRUNE_NONE; /* neither healthy nor, yet, a panic */
        verdict = PRUNE_GOVERNOR_DIVERGENCE;
    } else {
        governor->history[governor->count % GOVERNOR_WINDOW] = val_loss;
        governor->count++;
    }
    governor->streak = 0;
    return verdict;
}

/* A network that may be diverging must not be saved (E-06). */
ESPER_RULE bool governor_may_snapshot(const struct governor *governor)
{
    return governor->streak == 0;
}

#endif
