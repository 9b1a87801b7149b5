/* As in conv.c: the kernel is written in the order in which it should execute, and scheduling would undo that. */
#pragma GCC optimize("no-schedule-insns")

#include "nn/linear.h"

#include <string.h>

/* A tile is ROWS x PANEL sums; these, a row's numbers and a weight must fit in the registers. */
#if VECTOR == 16
typedef vec16 vec;
enum { ROWS = 12 };
#elif VECTOR == 8
typedef vec8 vec;
enum { ROWS = 6 };
#elif defined(__aarch64__)
typedef vec4 vec;
enum { ROWS = 5 };
#else
typedef vec4 vec;
enum { ROWS = 3 };
#endif

enum { VECTORS = PANEL / (int)(sizeof(vec) / sizeof(real)), HALF = PANEL / 2 };

/* Where multiplying by a lane is free, four numbers are loaded as a vector; other machines broadcast from memory. */
#if defined(__aarch64__)
#define FOUR       vec4
#define LOAD(from) (*(const vec4 *)(from))
#else
#define FOUR       const real *
#define LOAD(from) (from)
#endif

struct tile {
    int k;
    const real *a;
    ptrdiff_t a_stride;
    const real *b;
    const real *start;
    ptrdiff_t start_stride;
    real *c;
    ptrdiff_t c_stride;
};

/*
 * sum[i] += x[i] * b: one k of every row. A wide panel loads one weight at a time, which saves registers for more rows;
 * a narrow one loads all of them, and then needs only one number of a row at a time.
 */
#define MULTIPLY(number)                                                                                               \
    do {                                                                                                               \
        vec w[VECTORS];                                                                                                \
        if (vectors > 2) {                                                                                             \
            UNROLL for (int j = 0; j < vectors; j++)                                                                   \
            {                                                                                                          \
                w[j] = ((const vec *)b)[j];                                                                            \
                UNROLL for (int i = 0; i < rows; i++) sum[i][j] += w[j] * number;                                      \
            }                                                                                                          \
        } else {                                                                                                       \
            UNROLL for (int j = 0; j < vectors; j++) w[j] = ((const vec *)b)[j];                                       \
            UNROLL for (int i = 0; i < rows; i++) UNROLL for (int j = 0; j < vectors; j++) sum[i][j] += w[j] * number; \
        }                                                                                                              \
        b += PANEL;                                                                                                    \
    } while (0)

/* Of the panel, the first `vectors`. */
static inline __attribute__((always_inline)) void tile_run(const struct tile *t, const int rows, const int vectors,
                                                           const bool across)
{
    const real *a[ROWS], *b = t->b;
    vec sum[ROWS][VECTORS];
    UNROLL for (int i = 0; i < rows; i++)
    {
        a[i] = t->a + (across ? i : i * t->a_stride);
        UNROLL for (int j = 0; j < vectors; j++)
            sum[i][j] = t->start ? ((const vec *)(t->start + i * t->start_stride))[j] : (vec){0};
    }
    if (across) {
        const real *x = t->a;
        for (int k = 0; k < t->k; k++, x += t->a_stride)
            MULTIPLY(x[i]);
    } else {
        int k = 0;
        for (; k + LANES <= t->k; k += LANES) {
            FOUR x[ROWS];
            UNROLL for (int i = 0; i < rows; i++) x[i] = LOAD(a[i] + k);
            UNROLL for (int lane = 0; lane < LANES; lane++) MULTIPLY(x[i][lane]);
        }
        for (; k < t->k; k++)
            MULTIPLY(a[i][k]);
    }
    UNROLL for (int i = 0; i < rows; i++)
        UNROLL for (int j = 0; j < vectors; j++)((vec *)(t->c + i * t->c_stride))[j] = sum[i][j];
}

#define TILE(rows)                                                                                                     \
    static void along_##rows(const struct tile *t)                                                                     \
    {                                                                                                                  \
        tile_run(t, rows, VECTORS, false);                                                                             \
    }                                                                                                                  \
    static void across_##rows(const struct tile *t)                                                                    \
    {                                                                                                                  \
        tile_run(t, rows, VECTORS, true);                                                                              \
    }                                                                                                                  \
    static void half_along_##rows(const struct tile *t)                                                                \
    {                                                                                                                  \
        tile_run(t, rows, VECTORS / 2, false);                                                                         \
    }                                                                                                                  \
    static void half_across_##rows(const struct tile *t)                                                               \
    {                                                                                                                  \
        tile_run(t, rows, VECTORS / 2, true);                                                                          \
    }
TILE(1)
TILE(2)
TILE(3)
#if VECTOR == 8 || VECTOR == 16 || defined(__aarch64__)
TILE(4)
TILE(5)
#endif
#if VECTOR == 8 || VECTOR == 16
TILE(6)
#endif
#if VECTOR == 16
TILE(8)
TILE(12)
#endif

typedef void tile_runner(const struct tile *t);

/* Tallest first. run: for whole panels and for those of up to HALF columns, along k and across it. */
#define TILES(rows)                                                                                                    \
    {                                                                                                                  \
        rows,                                                                                                          \
        {                                                                                                              \
            {along_##rows, across_##rows},                                                                             \
            {                                                                                                          \
                half_along_##rows, half_across_##rows                                                                  \
            }                                                                                                          \
        }                                                                                                              \
    }
static const struct {
    int rows;
    tile_runner *run[2][2];
} tiles[] = {
#if VECTOR == 16
    TILES(12), TILES(8),
#endif
#if VECTOR == 8 || VECTOR == 16
    TILES(6),
#endif
#if VECTOR == 8 || VECTOR == 16 || defined(__aarch64__)
    TILES(5),  TILES(4),
#endif
    TILES(3),  TILES(2), TILES(1)};

/* A panel that is neither whole nor a half is computed in a spare one. */
static void tile_narrow(int rows, int columns, tile_runner *run, const struct tile *t)
{
    real spare[ROWS * PANEL] = {0};
    struct tile own = *t;
    for (int i = 0; t->start && i < rows; i++)
        memcpy(spare + i * PANEL, t->start + i * t->start_stride, sizeof(real) * (size_t)columns);
    own.start = own.c = spare;
    own.start_stride = own.c_stride = PANEL;
    run(&own);
    for (int i = 0; i < rows; i++)
        memcpy(t->c + i * t->c_stride, spare + i * PANEL, sizeof(real) * (size_t)columns);
}

/* All rows of one panel over a range of k short enough for the panel to stay in the L1 cache. */
static void panel_run(int rows, int columns, bool across, struct tile t)
{
    const bool half = columns <= HALF, fits = columns == PANEL || columns == HALF;
    for (int row = 0, shape = 0; row < rows;) {
        while (tiles[shape].rows > rows - row)
            shape++;
        tile_runner *run = tiles[shape].run[half][across];
        if (fits)
            run(&t);
        else
            tile_narrow(tiles[shape].rows, columns, run, &t);
        row += tiles[shape].rows;
        t.a += across ? tiles[shape].rows : tiles[shape].rows * t.a_stride;
        if (t.start)
            t.start += tiles[shape].rows * t.start_stride;
        t.c += tiles[shape].rows * t.c_stride;
    }
}

void linear_product(const struct product *p, int first, int last)
{
    for (int panel = first; panel < last; panel++) {
        int column = panel * PANEL, columns = p->columns - column < PANEL ? p->columns - column : PANEL, k = 0;
        const real *start = p->start ? p->start + column : NULL;
        ptrdiff_t start_stride = p->start_stride;
        do {
            struct tile t = {.k = p->k - k < PANEL_DEPTH ? p->k - k : PANEL_DEPTH,
                             .a = p->a + (p->across ? k * p->a_stride : k),
                             .a_stride = p->a_stride,
                             .b = p->b + ((size_t)panel * (size_t)p->k + (size_t)k) * PANEL,
                             .start = start,
                             .start_stride = start_stride,
                             .c = p->c + column,
                             .c_stride = p->c_stride};
            panel_run(p->rows, columns, p->across, t);
            start = p->c + column; /* resume the sum where it stopped */
            start_stride = p->c_stride;
            k += PANEL_DEPTH;
        } while (k < p->k);
    }
}

/* ---- moving ----------------------------------------------------------------------------------------------------- */

/* `width` columns of a panel whose rows are contiguous where they come from; the sizes that matter are constants. */
static void pack_straight(int k, int width, const real *from, ptrdiff_t k_stride, real *packed)
{
    if (width == PANEL)
        for (int d = 0; d < k; d++)
            memcpy(packed + d * PANEL, from + d * k_stride, sizeof(real) * PANEL);
    else if (width == HALF)
        for (int d = 0; d < k; d++) {
            memcpy(packed + d * PANEL, from + d * k_stride, sizeof(real) * HALF);
            memset(packed + d * PANEL + HALF, 0, sizeof(real) * (PANEL - HALF));
        }
    else
        for (int d = 0; d < k; d++) {
            memcpy(packed + d * PANEL, from + d * k_stride, sizeof(real) * (size_t)width);
            memset(packed + d * PANEL + width, 0, sizeof(real) * (size_t)(PANEL - width));
        }
}

/* The same where its columns are contiguous: four by four as far as that goes. */
static void pack_turned(int k, int width, const real *from, ptrdiff_t column_stride, real *packed)
{
    int j = 0;
    for (; j + LANES <= width; j += LANES) {
        const real *column[LANES];
        int d = 0;
        for (int i = 0; i < LANES; i++)
            column[i] = from + (j + i) * column_stride;
        for (; d + LANES <= k; d += LANES) {
            const vec4 a = *(const vec4 *)(column[0] + d), b = *(const vec4 *)(column[1] + d),
                       c = *(const vec4 *)(column[2] + d), e = *(const vec4 *)(column[3] + d);
            const vec4 ab = __builtin_shufflevector(a, b, 0, 4, 1, 5), ce = __builtin_shufflevector(c, e, 0, 4, 1, 5),
                       AB = __builtin_shufflevector(a, b, 2, 6, 3, 7), CE = __builtin_shufflevector(c, e, 2, 6, 3, 7);
            real *to = packed + d * PANEL + j;
            *(vec4 *)to = __builtin_shufflevector(ab, ce, 0, 1, 4, 5);
            *(vec4 *)(to + PANEL) = __builtin_shufflevector(ab, ce, 2, 3, 6, 7);
            *(vec4 *)(to + 2 * PANEL) = __builtin_shufflevector(AB, CE, 0, 1, 4, 5);
            *(vec4 *)(to + 3 * PANEL) = __builtin_shufflevector(AB, CE, 2, 3, 6, 7);
        }
        for (; d < k; d++)
            for (int i = 0; i < LANES; i++)
                packed[d * PANEL + j + i] = column[i][d];
    }
    for (; j < width; j++)
        for (int d = 0; d < k; d++)
            packed[d * PANEL + j] = from[d + j * column_stride];
}

void linear_pack(int k, int columns, const real *from, ptrdiff_t k_stride, ptrdiff_t column_stride, int first, int last,
                 real *packed)
{
    packed += (size_t)first * (size_t)k * PANEL;
    for (int panel = first; panel < last; panel++, packed += (size_t)k * PANEL) {
        int column = panel * PANEL, width = columns - column < PANEL ? columns - column : PANEL;
        const real *at = from + column * column_stride;
        if (column_stride == 1) {
            pack_straight(k, width, at, k_stride, packed);
            continue;
        }
        if (width < PANEL)
            memset(packed, 0, sizeof(real) * (size_t)k * PANEL);
        if (k_stride == 1)
            pack_turned(k, width, at, column_stride, packed);
        else
            for (int d = 0; d < k; d++)
                for (int j = 0; j < width; j++)
                    packed[d * PANEL + j] = at[d * k_stride + j * column_stride];
    }
}

void linear_transpose(int rows, int columns, const real *from, ptrdiff_t from_stride, real *to, ptrdiff_t to_stride)
{
    for (int column = 0; column < columns; column += LANES) {
        int width = columns - column < LANES ? columns - column : LANES;
        for (int row = 0; row < rows; row++)
            for (int j = 0; j < width; j++)
                to[(column + j) * to_stride + row] = from[row * from_stride + column + j];
    }
}
