#include "search/lessons.h"

#include <math.h>

#include "base/normal.h"

#define FRESH_SHARE 0.25 /* of the deviation among schedules: that within one, while none was played twice */

/* The deviation of an episode from its schedule's mean, the same for all schedules. */
static double deviation_within(const struct lessons *lessons)
{
    double squares = 0, freedom = 0, count = 0, mean = 0, among = 0;
    for (int i = 0; i < lessons->count; i++) {
        if (lessons->plays[i] == 0)
            continue;
        const double off = lessons->mean[i] - mean;
        squares += lessons->square[i];
        freedom += (double)lessons->plays[i] - 1;
        count++;
        mean += off / count;
        among += off * (lessons->mean[i] - mean);
    }
    if (freedom > 0)
        return sqrt(squares / freedom);
    return count > 1 ? FRESH_SHARE * sqrt(among / (count - 1)) : 0;
}

double lessons_mean(const struct lessons *lessons, int schedule, double share)
{
    return lessons->mean[schedule] - share * lessons->cost[schedule];
}

double lessons_error(const struct lessons *lessons, int schedule)
{
    return deviation_within(lessons) / sqrt((double)lessons->plays[schedule]);
}

static double drawn(struct random_site site, int schedule)
{
    const uint32_t element = 2 * (uint32_t)schedule;
    return normals_of(random_word(site, element), random_word(site, element + 1)).first;
}

/* The schedule with the largest draw from what is believed of its mean; without a site, with the largest lower end.
 * Those never played are left out. */
static int best_by(const struct lessons *lessons, double share, const struct random_site *site)
{
    const double within = deviation_within(lessons);
    double most = -INFINITY;
    int best = 0;
    for (int i = 0; i < lessons->count; i++) {
        if (lessons->plays[i] == 0)
            continue;
        const double error = within / sqrt((double)lessons->plays[i]),
                     at = lessons_mean(lessons, i, share) + (site ? drawn(*site, i) : -1) * error;
        if (at > most) {
            most = at;
            best = i;
        }
    }
    return best;
}

int lessons_try(const struct lessons *lessons, uint64_t number, double share, struct random_site site)
{
    return number < (uint64_t)lessons->count ? (int)number : best_by(lessons, share, &site);
}

int lessons_best(const struct lessons *lessons, double share)
{
    return best_by(lessons, share, NULL);
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
