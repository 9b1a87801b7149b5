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

enum { VECTORS = PANEL / (int)(sizeof(vec) / sizeof(real)) };

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
        if (VECTORS > 2) {                                                                                             \
            UNROLL for (int j = 0; j < VECTORS; j++)                                                                   \
            {                                                                                                          \
                w[j] = ((const vec *)b)[j];                                                                            \
                UNROLL for (int i = 0; i < rows; i++) sum[i][j] += w[j] * number;                                      \
            }                                                                                                          \
        } else {                                                                                                       \
            UNROLL for (int j = 0; j < VECTORS; j++) w[j] = ((const vec *)b)[j];                                       \
            UNROLL for (int i = 0; i < rows; i++) UNROLL for (int j = 0; j < VECTORS; j++) sum[i][j] += w[j] * number; \
        }                                                                                                              \
        b += PANEL;                                                                                                    \
    } while (0)

static inline __attribute__((always_inline)) void tile_run(const struct tile *t, const int rows)
{
    const real *a[ROWS], *b = t->b;
    vec sum[ROWS][VECTORS];
    UNROLL for (int i = 0; i < rows; i++)
    {
        a[i] = t->a + i * t->a_stride;
        UNROLL for (int j = 0; j < VECTORS; j++)
            sum[i][j] = t->start ? ((const vec *)(t->start + i * t->start_stride))[j] : (vec){0};
    }
    int k = 0;
    for (; k + LANES <= t->k; k += LANES) {
        FOUR x[ROWS];
        UNROLL for (int i = 0; i < rows; i++) x[i] = LOAD(a[i] + k);
        UNROLL for (int lane = 0; lane < LANES; lane++) MULTIPLY(x[i][lane]);
    }
    for (; k < t->k; k++)
        MULTIPLY(a[i][k]);
    UNROLL for (int i = 0; i < rows; i++)
        UNROLL for (int j = 0; j < VECTORS; j++)((vec *)(t->c + i * t->c_stride))[j] = sum[i][j];
}

#define TILE(rows)                                                                                                     \
    static void tile_##rows(const struct tile *t)                                                                      \
    {                                                                                                                  \
        tile_run(t, rows);                                                                                             \
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

/* Tallest first. */
static const struct {
    int rows;
    void (*run)(const struct tile *t);
} tiles[] = {
#if VECTOR == 16
    {12, tile_12}, {8, tile_8},
#endif
#if VECTOR == 8 || VECTOR == 16
    {6, tile_6},
#endif
#if VECTOR == 8 || VECTOR == 16 || defined(__aarch64__)
    {5, tile_5},   {4, tile_4},
#endif
    {3, tile_3},   {2, tile_2}, {1, tile_1}};

/* A panel with fewer columns than PANEL is computed in a spare one. */
static void tile_narrow(int rows, int columns, void (*run)(const struct tile *t), const struct tile *t)
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
static void panel_run(int rows, int columns, struct tile t)
{
    for (int row = 0, shape = 0; row < rows;) {
        while (tiles[shape].rows > rows - row)
            shape++;
        if (columns < PANEL)
            tile_narrow(tiles[shape].rows, columns, tiles[shape].run, &t);
        else
            tiles[shape].run(&t);
        row += tiles[shape].rows;
        t.a += tiles[shape].rows * t.a_stride;
        t.start += t.start ? tiles[shape].rows * t.start_stride : 0;
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
                             .a = p->a + k,
                             .a_stride = p->a_stride,
                             .b = p->b + ((size_t)panel * (size_t)p->k + (size_t)k) * PANEL,
                             .start = start,
                             .start_stride = start_stride,
                             .c = p->c + column,
                             .c_stride = p->c_stride};
            panel_run(p->rows, columns, t);
            start = p->c + column; /* resume the sum where it stopped */
            start_stride = p->c_stride;
            k += PANEL_DEPTH;
        } while (k < p->k);
    }
}

/* ---- moving ----------------------------------------------------------------------------------------------------- */

void linear_pack(int k, int columns, const real *from, ptrdiff_t k_stride, ptrdiff_t column_stride, int first, int last,
                 real *packed)
{
    packed += (size_t)first * (size_t)k * PANEL;
    for (int panel = first; panel < last; panel++, packed += (size_t)k * PANEL) {
        int column = panel * PANEL, width = columns - column < PANEL ? columns - column : PANEL;
        const real *at = from + column * column_stride;
        if (width < PANEL)
            memset(packed, 0, sizeof(real) * (size_t)k * PANEL);
        if (column_stride == 1)
            for (int d = 0; d < k; d++)
                memcpy(packed + d * PANEL, at + d * k_stride, sizeof(real) * (size_t)width);
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
