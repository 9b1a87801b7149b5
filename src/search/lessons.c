#include "search/lessons.h"

#include <math.h>

#include "base/normal.h"
#include "search/catalogue.h"

static struct played played_of(const struct lessons *lessons)
{
    return (struct played){.count = lessons->count,
                           .slots = lessons->slots,
                           .schedule = lessons->schedule,
                           .plays = lessons->plays,
                           .mean = lessons->mean,
                           .square = lessons->square};
}

void lessons_believe(const struct lessons *lessons, struct belief *belief)
{
    const struct played played = played_of(lessons);
    belief_form(belief, &played);
}

double lessons_mean(const struct lessons *lessons, int schedule, double share)
{
    return lessons->mean[schedule] - share * lessons->cost[schedule];
}

double lessons_error(const struct lessons *lessons, int schedule)
{
    const struct played played = played_of(lessons);
    return played_deviation(&played) / sqrt((double)lessons->plays[schedule]);
}

int lessons_try(const struct lessons *lessons, const struct belief *belief, uint64_t number, double share,
                struct random_site site)
{
    if (number < (uint64_t)lessons->count)
        return (int)number;
    double normal[CATALOGUE_MAX], most = -INFINITY;
    int best = 0;
    for (int i = 0; i < lessons->count; i++) {
        const uint32_t element = 2 * (uint32_t)i;
        normal[i] = normals_of(random_word(site, element), random_word(site, element + 1)).first;
        const double at = belief_drawn(belief, i, normal) - share * lessons->cost[i];
        if (at > most) {
            most = at;
            best = i;
        }
    }
    return best;
}

int lessons_best(const struct lessons *lessons, const struct belief *belief, double share)
{
    double most = -INFINITY;
    int best = 0;
    for (int i = 0; i < lessons->count; i++) {
        const double at = belief->mean[i] - belief_deviation(belief, i) - share * lessons->cost[i];
        if (at > most) {
            most = at;
            best = i;
        }
    }
    return best;
}

void lessons_judge(const struct lessons *lessons, int schedule, double earned, double share, double cost)
{
    const double worth = earned + share * cost;
    if (!isfinite(worth)) /* one env's failure must not reach the others (E-03) */
        return;
    const double off = worth - lessons->mean[schedule], count = ++lessons->plays[schedule];
    lessons->mean[schedule] += off / count;
    lessons->square[schedule] += off * (worth - lessons->mean[schedule]);
    lessons->cost[schedule] += (cost - lessons->cost[schedule]) / count;
}
