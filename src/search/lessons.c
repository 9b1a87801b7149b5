#include "search/lessons.h"

#include <math.h>

#include "base/normal.h"

void lessons_fill(struct schedule *out, const struct catalogue *catalogue)
{
    for (int tempo = 0; tempo < TEMPO_COUNT; tempo++)
        for (int i = 0; i < catalogue->count; i++) {
            struct schedule *schedule = &out[tempo * catalogue->count + i];
            *schedule = catalogue->schedule[i];
            for (int k = 0; k < schedule->count; k++)
                schedule->planting[k].tempo = (uint8_t)((schedule->planting[k].tempo + tempo) % TEMPO_COUNT);
        }
}

/* The one with the highest worth, from one to before another; but for `other`, if there is another one. */
static int highest(const double *worth, int from, int to, int other)
{
    double most = -INFINITY;
    int best = other < 0 ? from : other;
    for (int i = from; i < to; i++)
        if (i != other && worth[i] > most) {
            most = worth[i];
            best = i;
        }
    return best;
}

/* The best schedule, or the second, at the best tempo. */
static int choose(const struct belief *belief, const double *worth, bool second)
{
    const int best = highest(worth, 0, belief->count, -1),
              schedule = second ? highest(worth, 0, belief->count, best) : best,
              tempo = highest(worth, belief->count, belief->all, -1) - belief->count;
    return schedule + tempo * belief->count;
}

int lessons_try(const struct belief *belief, uint64_t number, double share, struct random_site site)
{
    const uint64_t count = (uint64_t)belief->count;
    if (number < count)
        return (int)(number + number % (uint64_t)belief->tempos * count);
    double normal[LESSONS_ALL], worth[LESSONS_ALL];
    for (int i = 0; i < belief->all; i++) {
        const uint32_t element = 2 * (uint32_t)i;
        normal[i] = normals_of(random_word(site, element), random_word(site, element + 1)).first;
    }
    for (int i = 0; i < belief->all; i++)
        worth[i] = belief_drawn(belief, i, normal) - share * belief->cost[i];
    return choose(belief, worth, number % 2 == 1);
}

int lessons_best(const struct belief *belief, double share)
{
    double worth[LESSONS_ALL];
    for (int i = 0; i < belief->all; i++)
        worth[i] = belief->mean[i] - belief_deviation(belief, i) - share * belief->cost[i];
    return choose(belief, worth, false);
}
