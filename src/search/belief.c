#include "search/belief.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"

#define SEEDS_SHARE 0.75        /* of the variance among schedules: what their seeds bring one by one */
#define TEMPO_SHARE (1.0 / 256) /* compared with it: the variance among tempos */

/* Variance among schedules compared with that of episodes: the most likely of these powers of two. */
enum { RATIO_LEAST = -6, RATIO_MOST = 10 };

enum esper_status belief_create(struct belief *belief, int count, int tempos, struct esper_error *error)
{
    const int all = count + tempos;
    const size_t n = (size_t)all;
    uint32_t *plays = memory_alloc(n, sizeof *plays, error);
    double *numbers = plays ? memory_alloc(5 * n + 5 * n * n, sizeof *numbers, error) : NULL;
    if (!numbers) {
        memory_free(plays);
        return ESPER_FAILED;
    }
    *belief = (struct belief){.count = count,
                              .tempos = tempos,
                              .all = all,
                              .plays = plays,
                              .mean = numbers,
                              .cost = numbers + n,
                              .root = numbers + 2 * n,
                              .room = numbers + 2 * n + n * n};
    return ESPER_OK;
}

void belief_free(struct belief *belief)
{
    memory_free(belief->plays);
    memory_free(belief->mean);
    *belief = (struct belief){0};
}

/* ---- what was played --------------------------------------------------------------------------------------------- */

/* Deviations from the mean of their brood: which of them schedules and tempos have in common, their sums by schedule
 * and by tempo, and all of them squared. */
struct deviations {
    double *weight; /* [all][all] */
    double *sum;    /* [all] */
    double *here;   /* likewise: how often the brood has it */
    double squares;
    int freedom; /* episodes less the broods that have some */
};

static void take_play(struct belief *belief, struct deviations *all, int which, double off)
{
    all->sum[which] += off;
    all->here[which]++;
    belief->plays[which]++;
}

static void take_brood(struct belief *belief, struct deviations *all, const uint16_t *tried, const double *earned,
                       const double *cost, int envs)
{
    const int n = belief->all, kinds = belief->count * belief->tempos;
    double mean = 0;
    int valid = 0;
    for (int env = 0; env < envs; env++)
        if (tried[env] < kinds)
            mean += (earned[env] - mean) / ++valid;
    memset(all->here, 0, sizeof *all->here * (size_t)n);
    for (int env = 0; env < envs; env++) {
        if (tried[env] >= kinds)
            continue;
        const int schedule = tried[env] % belief->count, tempo = belief->count + tried[env] / belief->count;
        const double off = earned[env] - mean;
        all->squares += off * off;
        take_play(belief, all, schedule, off);
        take_play(belief, all, tempo, off);
        belief->cost[schedule] += (cost[env] - belief->cost[schedule]) / belief->plays[schedule];
        all->weight[schedule * n + tempo] += 1;
        all->weight[tempo * n + schedule] += 1;
    }
    for (int i = 0; i < n; i++) {
        if (all->here[i] == 0)
            continue;
        all->weight[i * n + i] += all->here[i];
        for (int j = 0; j < n; j++)
            all->weight[i * n + j] -= all->here[i] * all->here[j] / valid;
    }
    all->freedom += valid > 0 ? valid - 1 : 0;
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

/* ---- matrices: square, row by row -------------------------------------------------------------------------------- */

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

/* The root's inverse times a vector, in place. */
static void solve(const double *root, int n, double *vector)
{
    for (int i = 0; i < n; i++) {
        double rest = vector[i];
        for (int k = 0; k < i; k++)
            rest -= root[i * n + k] * vector[k];
        vector[i] = rest / root[i * n + i];
    }
}

/* ---- the belief -------------------------------------------------------------------------------------------------- */

/* Means are L z times a deviation, z independent normals, before anything was played; `seen` is what was played about
 * z.
 */
struct prior {
    int n;
    double *root; /* L, lower triangle */
    double *seen; /* [n][n] */
    double *pull; /* [n] */
};

/* Before anything was played schedules vary together as far as they plant the same, and tempos by themselves. */
static double covariance(const struct played *played, int i, int j)
{
    if (i >= played->count || j >= played->count)
        return i == j ? TEMPO_SHARE : 0;
    return SEEDS_SHARE * shared(&played->schedule[i], &played->schedule[j], played->slots) +
           (i == j ? 1 - SEEDS_SHARE : 0);
}

static void take_prior(struct prior *prior, const struct belief *belief, const struct played *played)
{
    const int n = prior->n;
    for (int i = 0; i < n; i++)
        for (int j = 0; j <= i; j++)
            prior->root[i * n + j] = belief->plays[i] == 0 || belief->plays[j] == 0 ? 0 : covariance(played, i, j);
    take_root(prior->root, n, 1e-9);
}

/* L' W L and L' times the sums; `half` is working memory. */
static void look(struct prior *prior, const struct deviations *all, double *half)
{
    const int n = prior->n;
    memset(half, 0, sizeof *half * (size_t)n * (size_t)n);
    memset(prior->seen, 0, sizeof *half * (size_t)n * (size_t)n);
    memset(prior->pull, 0, sizeof *half * (size_t)n);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            for (int k = 0; k <= j; k++)
                half[i * n + k] += all->weight[i * n + j] * prior->root[j * n + k];
    for (int i = 0; i < n; i++)
        for (int a = 0; a <= i; a++) {
            prior->pull[a] += prior->root[i * n + a] * all->sum[i];
            for (int k = 0; k < n; k++)
                prior->seen[a * n + k] += prior->root[i * n + a] * half[i * n + k];
        }
}

/* With a variance among schedules of `ratio` times that of episodes: the root of 1 + ratio times what was seen, what
 * follows for z, and what is left of the squares. */
static double fit(const struct prior *prior, double squares, double ratio, double *matrix, double *z)
{
    const int n = prior->n;
    double explained = 0;
    for (int i = 0; i < n * n; i++)
        matrix[i] = ratio * prior->seen[i] + (i % (n + 1) == 0 ? 1 : 0);
    take_root(matrix, n, 0);
    memcpy(z, prior->pull, sizeof *z * (size_t)n);
    solve(matrix, n, z);
    for (int i = 0; i < n; i++)
        explained += ratio * z[i] * z[i];
    return fmax(squares - explained, 1e-12 * squares);
}

static double likely_ratio(const struct prior *prior, const struct deviations *all, double *matrix, double *z)
{
    double best = 1, most = -INFINITY;
    for (int power = RATIO_LEAST; power <= RATIO_MOST; power++) {
        const double ratio = ldexp(1, power);
        double likely = -all->freedom * log(fit(prior, all->squares, ratio, matrix, z));
        for (int i = 0; i < prior->n; i++)
            likely -= 2 * log(matrix[i * prior->n + i]);
        if (likely > most) {
            most = likely;
            best = ratio;
        }
    }
    return best;
}

/* Compared with the average of what was played, from one to before another: no level is known. */
static void compare(struct belief *belief, int from, int to)
{
    double plays = 0;
    for (int i = from; i < to; i++)
        plays += belief->plays[i];
    for (int k = -1; k < belief->all; k++) { /* the means, then the root's columns */
        double *first = k < 0 ? belief->mean : belief->root + k, average = 0;
        const int step = k < 0 ? 1 : belief->all;
        for (int i = from; i < to; i++)
            average += belief->plays[i] > 0 ? belief->plays[i] / plays * first[i * step] : 0;
        for (int i = from; i < to; i++)
            if (belief->plays[i] > 0)
                first[i * step] -= average;
    }
}

/* Normal beforehand, and normal what was seen of it: then the means are normal given that, by the usual formulas. */
void belief_form(struct belief *belief, const struct played *played)
{
    const int n = belief->all;
    const size_t square = (size_t)n * (size_t)n;
    double *matrix = belief->room, *z = belief->room + 4 * square;
    struct deviations all = {.weight = matrix + square, .sum = z + n, .here = z}; /* z comes after them */
    struct prior prior = {n, matrix + 2 * square, matrix + 3 * square, all.sum + n};
    memset(belief->plays, 0, sizeof *belief->plays * (size_t)n);
    memset(belief->cost, 0, sizeof *belief->cost * (size_t)n);
    memset(belief->root, 0, sizeof *belief->root * square);
    memset(all.weight, 0, sizeof *all.weight * square);
    memset(all.sum, 0, sizeof *all.sum * (size_t)n);
    for (int round = 0; round < played->rounds; round++)
        for (int first = 0; first < played->envs; first += played->brood) {
            const size_t at = (size_t)round * (size_t)played->envs + (size_t)first;
            const int rest = played->envs - first, envs = rest < played->brood ? rest : played->brood;
            take_brood(belief, &all, played->tried + at, played->earned + at, played->cost + at, envs);
        }
    for (int i = 0; i < n; i++)
        belief->mean[i] = belief->plays[i] > 0 ? 0 : -INFINITY;
    if (all.squares == 0)
        return; /* none was better than another */

    take_prior(&prior, belief, played);
    look(&prior, &all, matrix);
    const double ratio = likely_ratio(&prior, &all, matrix, z),
                 left = fit(&prior, all.squares, ratio, matrix, z) / all.freedom;
    for (int i = 0; i < n; i++) {
        double *row = belief->root + (size_t)i * (size_t)n;
        for (int k = 0; k <= i; k++)
            row[k] = prior.root[i * n + k];
        solve(matrix, n, row);
        for (int k = 0; k < n && belief->plays[i] > 0; k++)
            belief->mean[i] += ratio * row[k] * z[k];
        for (int k = 0; k < n; k++)
            row[k] *= sqrt(ratio * left);
    }
    compare(belief, 0, belief->count);
    compare(belief, belief->count, belief->all);
}

double belief_deviation(const struct belief *belief, int which)
{
    const double *row = belief->root + which * belief->all;
    double square = 0;
    for (int k = 0; k < belief->all; k++)
        square += row[k] * row[k];
    return sqrt(square);
}

double belief_drawn(const struct belief *belief, int which, const double *normal)
{
    const double *row = belief->root + which * belief->all;
    double at = belief->mean[which];
    for (int k = 0; k < belief->all; k++)
        at += row[k] * normal[k];
    return at;
}
