#include "search/lessons.h"

#include <math.h>

#include "base/normal.h"
#include "search/catalogue.h"

int lessons_try(const struct belief *belief, uint64_t number, double share, struct random_site site)
{
    if (number < (uint64_t)belief->count)
        return (int)number;
    double normal[CATALOGUE_MAX], most = -INFINITY;
    int best = 0;
    for (int i = 0; i < belief->count; i++) {
        const uint32_t element = 2 * (uint32_t)i;
        normal[i] = normals_of(random_word(site, element), random_word(site, element + 1)).first;
    }
    for (int i = 0; i < belief->count; i++) {
        const double at = belief_drawn(belief, i, normal) - share * belief->cost[i];
        if (at > most) {
            most = at;
            best = i;
        }
    }
    return best;
}

int lessons_best(const struct belief *belief, double share)
{
    double most = -INFINITY;
    int best = 0;
    for (int i = 0; i < belief->count; i++) {
        const double at = belief->mean[i] - belief_deviation(belief, i) - share * belief->cost[i];
        if (at > most) {
            most = at;
            best = i;
        }
    }
    return best;
}
