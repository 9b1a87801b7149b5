#include "search/belief.h"

#include <math.h>

#include "base/memory.h"

#define FRESH_SHARE 0.25 /* of the deviation among schedules: that within one, while none was played twice */
#define SEEDS_SHARE 0.75 /* of the variance among schedules: what their seeds bring one by one */
#define LEAST_SHARE 0.1  /* of the variance among what schedules earned so far: that of their true means */

enum esper_status belief_create(struct belief *belief, int count, struct esper_error *error)
{
    const size_t square = (size_t)count * (size_t)count;
    double *numbers = memory_alloc(2 * (size_t)count + 3 * square, sizeof *numbers, error);
    if (!numbers)
        return ESPER_FAILED;
    *belief = (struct belief){
        .count = count, .mean = numbers, .root = numbers + count, .room = numbers + (size_t)count + square};
    return ESPER_OK;
}

void belief_free(struct belief *belief)
{
    memory_free(belief->mean);
    *belief = (struct belief){0};
}

/* ---- how much means differ, and episodes --------------------------------------------------------------------------
 */

struct spread {
    double mean;          /* of the schedules' means */
    double among, within; /* variances: of the true means, of an episode about its schedule's */
};

static struct spread spread_of(const struct played *played)
{
    double squares = 0, freedom = 0, count = 0, off_squares = 0, inverse_plays = 0;
    struct spread spread = {0};
    for (int i = 0; i < played->count; i++) {
        if (played->plays[i] == 0)
            continue;
        const double off = played->mean[i] - spread.mean;
        squares += played->square[i];
        freedom += (double)played->plays[i] - 1;
        inverse_plays += 1.0 / (double)played->plays[i];
        spread.mean += off / ++count;
        off_squares += off * (played->mean[i] - spread.mean);
    }
    const double seen = count > 1 ? off_squares / (count - 1) : 0;
    spread.within = freedom > 0 ? squares / freedom : FRESH_SHARE * FRESH_SHARE * seen;
    spread.among = fmax(seen - spread.within * inverse_plays / fmax(count, 1), LEAST_SHARE * seen);
    return spread;
}

double played_deviation(const struct played *played)
{
    return sqrt(spread_of(played).within);
}

static const struct planting *planted(const struct schedule *schedule, int slot)
{
    for (int i = 0; i < schedule->count; i++)
        if (schedule->planting[i].slot == slot)
            return &schedule->planting[i];
    return NULL;
}

/* The share of the slots in which both plant the same, or nothing. */
static double shared(const struct schedule *a, const struct schedule *b, int slots)
{
    int same = 0;
    for (int slot = 0; slot < slots; slot++) {
        const struct planting *x = planted(a, slot), *y = planted(b, slot);
        same += x && y
                    ? x->step == y->step && x->blueprint == y->blueprint && x->style == y->style && x->tempo == y->tempo
                    : x == y;
    }
    return (double)same / slots;
}

/* ---- matrices: square, row by row ---------------------------------------------------------------------------------
 */

/* The lower triangle becomes the matrix' root; a direction in which it is as good as flat gets none. */
static void take_root(double *matrix, int n, double flat)
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j <= i; j++) {
            double rest = matrix[i * n + j];
            for (int k = 0; k < j; k++)
                rest -= matrix[i * n + k] * matrix[j * n + k];
            if (i == j)
                matrix[i * n + j] = rest > flat ? sqrt(rest) : 0;
            else
                matrix[i * n + j] = matrix[j * n + j] > 0 ? rest / matrix[j * n + j] : 0;
        }
}

/* The root's inverse times a column of a matrix, in place; stride apart. */
static void solve(const double *root, int n, double *column, int stride)
{
    for (int i = 0; i < n; i++) {
        double rest = column[i * stride];
        for (int k = 0; k < i; k++)
            rest -= root[i * n + k] * column[k * stride];
        column[i * stride] = root[i * n + i] > 0 ? rest / root[i * n + i] : 0;
    }
}

/* Sum of the products of two columns. */
static double product(const double *matrix, int n, int i, int j)
{
    double sum = 0;
    for (int k = 0; k < n; k++)
        sum += matrix[k * n + i] * matrix[k * n + j];
    return sum;
}

/* ---- the belief ---------------------------------------------------------------------------------------------------
 */

/* Before anything was played: schedules vary as `among` says, together as far as they plant the same. */
static double before(const struct played *played, double among, int i, int j)
{
    if (played->plays[i] == 0 || played->plays[j] == 0)
        return 0;
    const double together = shared(&played->schedule[i], &played->schedule[j], played->slots);
    return among * (SEEDS_SHARE * together + (i == j ? 1 - SEEDS_SHARE : 0));
}

/* Normal beforehand, and normal what was seen of it: then the means are normal given that, by the usual formulas. */
void belief_form(struct belief *belief, const struct played *played)
{
    const struct spread spread = spread_of(played);
    const int n = belief->count;
    const double flat = 1e-9 * (spread.among + spread.within);
    double *root = belief->root, *seen = belief->room, *half = seen + n * n, *off = half + n * n;
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < n; j++)
            root[i * n + j] = half[i * n + j] = seen[i * n + j] = before(played, spread.among, i, j);
        seen[i * n + i] += played->plays[i] > 0 ? spread.within / (double)played->plays[i] : 0;
        off[i] = played->plays[i] > 0 ? played->mean[i] - spread.mean : 0;
    }
    take_root(seen, n, flat);
    solve(seen, n, off, 1);
    for (int i = 0; i < n; i++)
        solve(seen, n, half + i, n);
    for (int i = 0; i < n; i++) {
        belief->mean[i] = played->plays[i] > 0 ? spread.mean : -INFINITY;
        for (int k = 0; k < n; k++)
            belief->mean[i] += half[k * n + i] * off[k];
        for (int j = 0; j <= i; j++)
            root[i * n + j] -= product(half, n, i, j);
    }
    take_root(root, n, flat);
}

double belief_deviation(const struct belief *belief, int schedule)
{
    const double *row = belief->root + schedule * belief->count;
    double square = 0;
    for (int k = 0; k <= schedule; k++)
        square += row[k] * row[k];
    return sqrt(square);
}

double belief_drawn(const struct belief *belief, int schedule, const double *normal)
{
    const double *row = belief->root + schedule * belief->count;
    double at = belief->mean[schedule];
    for (int k = 0; k <= schedule; k++)
        at += row[k] * normal[k];
    return at;
}
