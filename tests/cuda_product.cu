/*
 * Products and attention in bf16 on the tensor cores (nn/product.cuh, nn/flash.cuh, transformer/bf16/products.cuh)
 * compared with sums in double precision of the same rounded operands: every order of operands, sizes that fill no
 * tile, every size of a head, by warpgroups and by warps.
 */
#include "device_rig.cuh"
#include "nn/flash.cuh"
#include "transformer/bf16/products.cuh"

static float rounded(float x)
{
    uint32_t u;
    memcpy(&u, &x, 4);
    u = (u + 0x7fffu + (u >> 16 & 1u)) & 0xffff0000u;
    memcpy(&x, &u, 4);
    return x;
}

/* Numbers of about this size, as the device has them and as they are. */
struct operand {
    std::vector<struct bf16> bits;
    std::vector<double> value;
};

static struct operand operand_of(size_t count, uint32_t key, float size)
{
    struct operand o;
    for (size_t i = 0; i < count; i++) {
        const float x = rounded(size * noise(&key));
        uint32_t u;
        memcpy(&u, &x, 4);
        o.bits.push_back({(uint16_t)(u >> 16)});
        o.value.push_back(x);
    }
    return o;
}

static std::vector<double> values(const std::vector<struct bf16> &bits)
{
    std::vector<double> all;
    for (const struct bf16 x : bits) {
        const uint32_t u = (uint32_t)x.bits << 16;
        float f;
        memcpy(&f, &u, 4);
        all.push_back(f);
    }
    return all;
}

/* ---- products ---------------------------------------------------------------------------------------------------- */

/* By warps alone, as on cards without warpgroups; then by warpgroups below and beside one another. */
typedef struct product_tile<64, 128, 2, 4> warps_tile;
typedef struct product_tile<32, 256, 1, 8> long_tile;
typedef struct product_tile<128, 128, 2, 4, true> below_tile;
typedef struct product_tile<64, 256, 1, 8, true> beside_tile;

template <enum matmul_order A, enum matmul_order B, class T>
static __global__ void __launch_bounds__(T::THREADS)
    multiply(struct tile_product p, const float *bias, float *to, float *sides)
{
    SHARED_BYTES(shared);
    const struct share own = {(int)blockIdx.x, (int)gridDim.x};
    product_share<A, B, T>(
        p, own, smem(shared), [&](int column) { return bias[column]; }, nothing_beside(),
        [&](int row, int column, const auto &some, const auto &) {
            keep(to + (size_t)row * (size_t)p.columns + (size_t)column, some);
        });
    if (blockIdx.x > 0)
        return;
    tile_side<T, true> side = {{}, warp_column<T>() == 0}; /* lines of the first operand, summed */
    T tile;
    tile_start(tile, 0, p.columns, [](int) { return 0.0f; });
    tile_add<A, B>(tile, side, p, 0, 0, smem(shared));
    side_put(side, 0, p.rows, [&](int row, float sum) { sides[row] = sum; });
}

template <enum matmul_order A, enum matmul_order B, class T>
static void check_product(struct runtime *rt, const std::string &name, int rows, int columns, int depth)
{
    const auto up = [](int n) { return (n + 7) / 8 * 8; };
    const int a_stride = A == BY_DEPTH ? up(depth) : up(rows) + 8,
              b_stride = B == BY_DEPTH ? up(depth) + 8 : up(columns);
    const struct operand a = operand_of((size_t)(a_stride * (A == BY_DEPTH ? rows : depth)), 3, 2),
                         b = operand_of((size_t)(b_stride * (B == BY_DEPTH ? columns : depth)), 5, 2);
    std::vector<float> bias((size_t)columns);
    uint32_t key = 9;
    for (float &x : bias)
        x = noise(&key);
    const struct tile_product p = {rows, columns, depth, upload(rt, a.bits), upload(rt, b.bits), a_stride, b_stride};
    float *to = runtime_alloc<float>(rt, (size_t)(rows * columns)), *sides = runtime_alloc<float>(rt, (size_t)rows);
    const size_t bytes = std::min((size_t)product_shared<T>::MOST, runtime_shared_most());
    runtime_allow_shared(rt, multiply<A, B, T>, bytes);
    runtime_launch(rt, multiply<A, B, T>, {dim3(3), dim3(T::THREADS), bytes, false}, p, (const float *)upload(rt, bias),
                   to, sides);
    const std::vector<float> got = download(rt, to, (size_t)(rows * columns)), side = download(rt, sides, (size_t)rows);
    double most = 0, most_side = 0;
    for (int i = 0; i < rows; i++) {
        double lines = 0;
        for (int j = 0; j < columns; j++) {
            double sum = (double)bias[(size_t)j];
            lines = 0;
            for (int k = 0; k < depth; k++) {
                const double x = a.value[(size_t)(A == BY_DEPTH ? i * a_stride + k : k * a_stride + i)];
                sum += x * b.value[(size_t)(B == BY_DEPTH ? j * b_stride + k : k * b_stride + j)];
                lines += x;
            }
            most = std::max(most, std::fabs(sum - (double)got[(size_t)(i * columns + j)]));
        }
        if (i < T::M)
            most_side = std::max(most_side, std::fabs(lines - (double)side[(size_t)i]));
    }
    check_within(name + ", product", most, 1e-4 * std::sqrt(depth));
    check_within(name + ", lines summed", most_side, 1e-4 * std::sqrt(depth));
}

/* Several tiles down and across, parts of a tile without rows or columns, more slabs than stages, and less than one. */
template <class T> static void check_orders(struct runtime *rt, const std::string &tile)
{
    check_product<BY_DEPTH, BY_DEPTH, T>(rt, tile + ", x W^T", 275, 264, 88);
    check_product<BY_DEPTH, BY_LINE, T>(rt, tile + ", dy W", 65, 136, 328);
    check_product<BY_LINE, BY_LINE, T>(rt, tile + ", dy^T x", 200, 296, 77);
    check_product<BY_LINE, BY_LINE, T>(rt, tile + ", a row", 1, 8, 130);
    check_product<BY_DEPTH, BY_DEPTH, T>(rt, tile + ", one number", 1, 8, 8);
}

/* ---- attention --------------------------------------------------------------------------------------------------- */

template <int HEAD> static __global__ void __launch_bounds__(FLASH_THREADS) attend(struct attended<struct bf16> a)
{
    SHARED_BYTES(shared);
    flash_forward<HEAD>(a, (int)blockIdx.y, (int)blockIdx.x, smem(shared));
}

template <int HEAD> static __global__ void __launch_bounds__(FLASH_THREADS) attend_back(struct attended<struct bf16> a)
{
    SHARED_BYTES(shared);
    if (blockIdx.z)
        flash_backward_keys<HEAD>(a, (int)blockIdx.y, (int)blockIdx.x, smem(shared));
    else
        flash_backward_queries<HEAD>(a, (int)blockIdx.y, (int)blockIdx.x, smem(shared));
}

/* The same in double precision; its own output, so that nothing but sums and the rounding of weights differs. */
struct wanted {
    std::vector<double> out, dqkv;
};

static struct wanted attention(int length, int heads, int head, const std::vector<double> &qkv,
                               const std::vector<double> &dout)
{
    const size_t width = (size_t)(heads * head), wide = 3 * width;
    const double scale = 1 / std::sqrt(head);
    struct wanted w = {std::vector<double>((size_t)length * width), std::vector<double>((size_t)length * wide)};
    for (int h = 0; h < heads; h++)
        for (int i = 0; i < length; i++) {
            const size_t at = (size_t)(h * head);
            const double *q = &qkv[(size_t)i * wide + at], *g = &dout[(size_t)i * width + at];
            std::vector<double> p((size_t)i + 1), dp((size_t)i + 1);
            double total = 0, delta = 0;
            for (int j = 0; j <= i; j++) {
                for (int d = 0; d < head; d++)
                    p[(size_t)j] += q[d] * qkv[(size_t)j * wide + width + at + (size_t)d] * scale;
                p[(size_t)j] = std::exp(p[(size_t)j]);
                total += p[(size_t)j];
            }
            for (int j = 0; j <= i; j++) {
                p[(size_t)j] /= total;
                for (int d = 0; d < head; d++) {
                    const double v = qkv[(size_t)j * wide + 2 * width + at + (size_t)d];
                    w.out[(size_t)i * width + at + (size_t)d] += p[(size_t)j] * v;
                    dp[(size_t)j] += g[d] * v;
                }
                delta += p[(size_t)j] * dp[(size_t)j];
            }
            for (int j = 0; j <= i; j++)
                for (int d = 0; d < head; d++) {
                    const double ds = p[(size_t)j] * (dp[(size_t)j] - delta) * scale;
                    const size_t k = (size_t)j * wide + width + at + (size_t)d;
                    w.dqkv[(size_t)i * wide + at + (size_t)d] += ds * qkv[k];
                    w.dqkv[k] += ds * q[d];
                    w.dqkv[k + width] += p[(size_t)j] * g[d];
                }
        }
    return w;
}

static double apart(const std::vector<double> &got, const std::vector<double> &want)
{
    double off = 0, all = 0;
    for (size_t i = 0; i < want.size(); i++) {
        off += (got[i] - want[i]) * (got[i] - want[i]);
        all += want[i] * want[i];
    }
    return std::sqrt(off / all);
}

template <int HEAD> static void check_attention(struct runtime *rt, int length, int heads)
{
    const size_t rows = (size_t)length, width = (size_t)(heads * HEAD);
    const struct operand qkv = operand_of(rows * 3 * width, 11, 3), dout = operand_of(rows * width, 13, 1);
    const attended<bf16> a = {length,
                              heads,
                              HEAD,
                              upload(rt, qkv.bits),
                              runtime_alloc<struct bf16>(rt, rows * width),
                              runtime_alloc<float>(rt, rows * (size_t)heads),
                              upload(rt, dout.bits),
                              runtime_alloc<struct bf16>(rt, rows * 3 * width)};
    const unsigned parts = (unsigned)flash_parts(length);
    const size_t forward = flash_sheet<HEAD>::FORWARD, backward = flash_sheet<HEAD>::BACKWARD;
    runtime_allow_shared(rt, attend<HEAD>, forward);
    runtime_allow_shared(rt, attend_back<HEAD>, backward);
    runtime_launch(rt, attend<HEAD>, {dim3(parts, (unsigned)heads), dim3(FLASH_THREADS), forward, false}, a);
    runtime_launch(rt, attend_back<HEAD>, {dim3(parts, (unsigned)heads, 2), dim3(FLASH_THREADS), backward, false}, a);
    const struct wanted want = attention(length, heads, HEAD, qkv.value, dout.value);
    const std::string name = "attention, head of " + std::to_string(HEAD) + ", " + std::to_string(length) + " tokens";
    check_within(name + ", output", apart(values(download(rt, a.out, rows * width)), want.out), 6e-3);
    check_within(name + ", gradients", apart(values(download(rt, a.dqkv, rows * 3 * width)), want.dqkv), 1.2e-2);
}

/* ---- products of a team ------------------------------------------------------------------------------------------ */

enum { TRIED = 2, TRIED_SHEETS = 2 * TRIED, LOT_AT = TRIED_SHEETS * SHEET_BYTES, ONES_AT = LOT_AT + SHEET_BYTES };

/* Rows of C numbers into a sheet. */
template <int C> static __device__ void place_rows(uint32_t sheet, const struct bf16 *from, int rows)
{
    for (uint32_t i = threadIdx.x; i < (uint32_t)(rows * C / 8); i += TEAM_THREADS) {
        const uint4 eight = reinterpret_cast<const uint4 *>(from)[i];
        store_shared_128(sheet + sheet_chunk(i / (C / 8), i % (C / 8)), eight.x, eight.y, eight.z, eight.w);
    }
}

template <int C> static __device__ void keep_lines(float *to, const float (*v)[4])
{
    const int row = (int)threadIdx.x / TILE_LANES * TILE + lane_of() / 4;
    for (int j = 0; j < C / 8; j++)
        for (int e = 0; e < 4; e++)
            to[(row + e / 2 * 8) * C + column_of(j) + e % 2] = v[j][e];
}

/* x, y: [TRIED][64][C]; to: 1 + x times the lot by rows and by columns, from a sheet and from registers, then sums over
 * all tokens of x times y and, beside each other, of x alone. */
template <int C, bool GROUPS>
static __global__ void __launch_bounds__(TEAM_THREADS)
    team_products(const struct bf16 *x, const struct bf16 *y, const struct bf16 *lot, float *to)
{
    SHARED_BYTES(shared);
    const uint32_t base = (smem(shared) + SHEET_PATTERN - 1) / SHEET_PATTERN * SHEET_PATTERN;
    const int row = (int)threadIdx.x / TILE_LANES * TILE;
    for (int i = 0; i < TRIED; i++) {
        place_rows<C>(base + (uint32_t)(2 * i * SHEET_BYTES), x + i * TEAM_TOKENS * C, TEAM_TOKENS);
        place_rows<C>(base + (uint32_t)((2 * i + 1) * SHEET_BYTES), y + i * TEAM_TOKENS * C, TEAM_TOKENS);
    }
    place_rows<C>(base + LOT_AT, lot, C);
    if (threadIdx.x < SHEET_PATTERN / 16)
        store_shared_128(base + ONES_AT + 16 * threadIdx.x, TWO_ONES, TWO_ONES, TWO_ONES, TWO_ONES);
    group_publish();
    __syncthreads();
    struct pairs<C> own;
    sheet_load<C>(own.a, base, row, 0);
    for (int which = 0; which < 4; which++, to += TEAM_TOKENS * C) {
        struct lines<C> sum;
        for (int j = 0; j < C / 8; j++)
            for (int e = 0; e < 4; e++)
                sum.v[j][e] = 1;
        if (which == 0)
            multiply_sheet<C, LOT_ROWS, GROUPS>(sum, base, row, base + LOT_AT);
        else if (which == 1)
            multiply_sheet<C, LOT_COLUMNS, GROUPS>(sum, base, row, base + LOT_AT);
        else if (which == 2)
            multiply_lot<C, LOT_ROWS, GROUPS>(sum, own, base + LOT_AT);
        else
            multiply_lot<C, LOT_COLUMNS, GROUPS>(sum, own, base + LOT_AT);
        keep_lines<C>(to, sum.v);
    }
    for (int column = 0; column < C; column += 32, to += TEAM_TOKENS * 32) {
        const struct token_sums<32> sums = sum_tokens<32, GROUPS>(base, base + SHEET_BYTES + (uint32_t)(2 * column),
                                                                  TRIED, 2 * SHEET_BYTES, true, base + ONES_AT, row);
        keep_lines<32>(to, sums.v);
        for (int j = 0; j < 2; j++)
            if (lane_of() % 4 == 0)
                to[(C - column) * TEAM_TOKENS + row + lane_of() / 4 + 8 * j] = sums.side[0][2 * j];
    }
}

template <int C, bool GROUPS> static void check_team(struct runtime *rt, const std::string &name)
{
    enum { LINES = TEAM_TOKENS * C, SHARED = ONES_AT + 2 * SHEET_PATTERN };
    const struct operand x = operand_of(TRIED * LINES, 15, 2), y = operand_of(TRIED * LINES, 17, 2),
                         lot = operand_of(C * C, 19, 2);
    const size_t count = 5 * LINES + TEAM_TOKENS;
    float *to = runtime_alloc<float>(rt, count);
    runtime_allow_shared(rt, team_products<C, GROUPS>, SHARED);
    runtime_launch(rt, team_products<C, GROUPS>, {dim3(1), dim3(TEAM_THREADS), SHARED, false},
                   (const struct bf16 *)upload(rt, x.bits), (const struct bf16 *)upload(rt, y.bits),
                   (const struct bf16 *)upload(rt, lot.bits), to);
    const std::vector<float> got = download(rt, to, count);
    double most[4] = {}, most_sum = 0, most_side = 0;
    for (int which = 0; which < 4; which++)
        for (int i = 0; i < TEAM_TOKENS; i++)
            for (int n = 0; n < C; n++) {
                double sum = 1;
                for (int k = 0; k < C; k++)
                    sum += x.value[(size_t)(i * C + k)] * lot.value[(size_t)(which % 2 ? k * C + n : n * C + k)];
                most[which] = std::max(most[which], std::fabs(sum - (double)got[(size_t)(which * LINES + i * C + n)]));
            }
    for (int m = 0; m < C; m++) {
        double side = 0;
        for (int t = 0; t < TRIED * TEAM_TOKENS; t++)
            side += x.value[(size_t)(t * C + m)];
        for (int n = 0; n < C; n++) {
            double sum = 0;
            for (int t = 0; t < TRIED * TEAM_TOKENS; t++)
                sum += x.value[(size_t)(t * C + m)] * y.value[(size_t)(t * C + n)];
            const size_t at = (size_t)(4 * LINES + n / 32 * TEAM_TOKENS * 32 + m * 32 + n % 32);
            most_sum = std::max(most_sum, std::fabs(sum - (double)got[at]));
        }
        most_side = std::max(most_side, std::fabs(side - (double)got[(size_t)(5 * LINES + m)]));
    }
    const char *whose[4] = {"rows of a lot, tokens in a sheet", "columns, in a sheet", "rows, in registers",
                            "columns, in registers"};
    for (int which = 0; which < 4; which++)
        check_within(name + ", " + whose[which], most[which], 1e-4 * std::sqrt(C));
    check_within(name + ", sums over tokens", most_sum, 1e-4 * std::sqrt(TRIED * TEAM_TOKENS));
    check_within(name + ", one operand's", most_side, 1e-4 * std::sqrt(TRIED * TEAM_TOKENS));
}

int main(void)
{
    struct runtime *rt = open_runtime();
    check_team<64, true>(rt, "a team of width 64");
    check_team<32, true>(rt, "a team of width 32");
    check_team<64, false>(rt, "a team's warps, width 64");
    check_team<32, false>(rt, "a team's warps, width 32");
    check_orders<plain_tile>(rt, "plain");
    check_orders<wide_tile>(rt, "wide");
    check_orders<warps_tile>(rt, "by warps");
    check_orders<below_tile>(rt, "groups below");
    check_orders<beside_tile>(rt, "groups beside");
    check_product<BY_DEPTH, BY_DEPTH, long_tile>(rt, "all columns at once", 45, 256, 24);
    check_attention<32>(rt, 5, 2);
    check_attention<32>(rt, 150, 1);
    check_attention<64>(rt, 70, 2);
    check_attention<64>(rt, 300, 1); /* more queries than are marked at once */
    check_attention<96>(rt, 40, 1);
    check_attention<128>(rt, 33, 1);
    runtime_free(rt);
    return conclude();
}
