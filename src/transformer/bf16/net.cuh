/*
 * The transformer's bf16 networks: small hosts, width 64 or 32 with heads of 16, sequences of at most 64 bytes.
 *
 * A thread block takes some sequences of an env through both passes of a batch at once, a *team* of four warps per
 * sequence, a warp per sixteen tokens (lines.cuh). Products are bf16 on the tensor cores with fp32 sums, by a team's
 * warps together where the card can do that (products.cuh); weights come to them through shared memory, on the team's
 * *belt* (belt.cuh). What the backward pass needs of the forward pass is
 * on the team's *tape*, in global memory, from where the same threads read it that wrote it. Gradients of weights are
 * products over all tokens of the block, in a *slab* of its own; the slabs of an env are added up in order. Sequences
 * of a block and blocks of a slab depend on the batch alone, so an env's bits do not depend on what else is trained.
 *
 * Parameters, planning, the optimiser's step and the scores of an evaluation are those of fp32 (struct exact_view).
 */
#ifndef TRANSFORMER_BF16_NET_CUH
#define TRANSFORMER_BF16_NET_CUH

#include "transformer/bf16/lines.cuh"
#include "transformer/fp32/net.cuh"

enum { SHEETS = 4, TEAMS_MOST = 4, TRAINS_ALONE = 2 /* blocks of a team alone, per processor */ };
#ifdef EMULATE /* fewer, or a test's few sequences would never share one */
enum { SLABS_MOST = 2 };
#else
enum { SLABS_MOST = 8 };
#endif
#define NOBODYS 0x80000000u

/* A matrix rounded and cut into *lots*, [width][width] each, which products take from the belt; zeros pad it. Lots lie
 * side by side and below one another as they do in the matrix; all of ours have one row or one column of them. */
struct packed {
    uint32_t params;   /* offset of its numbers, [rows][columns] */
    int rows, columns; /* real ones */
    uint32_t lots;     /* offset in uint4 */
    uint32_t slab;     /* of its gradient: tiles of 16 x 8, a float4 per lane */
};

static inline __host__ __device__ int in_tiles(int count)
{
    return (count + TILE - 1) / TILE;
}

/* uint4 of a lot. */
static inline __host__ __device__ uint32_t lot_size(int width)
{
    return (uint32_t)(width * width / 8);
}

static inline __host__ __device__ int lots_across(const struct packed &m, int width)
{
    return (m.columns + width - 1) / width;
}

/* uint4 of a packed matrix, and floats of its gradient. */
static inline __host__ __device__ uint32_t packed_size(const struct packed &m, int width)
{
    return (uint32_t)((m.rows + width - 1) / width * lots_across(m, width)) * lot_size(width);
}

static inline __host__ __device__ uint32_t packed_slab(const struct packed &m)
{
    return (uint32_t)(in_tiles(m.rows) * in_tiles(m.columns) * TILE * TILE);
}

/* W2 f(W1 x + b1) + b2 (struct branch_view has the parameters' places): its matrices, and where gradients go. */
struct small_branch {
    struct packed w1, w2;
    uint32_t b1, b2; /* in a slab */
};

struct small_norm {
    uint32_t gamma, beta, sigma; /* in a slab */
};

/* Places on a tape, in uint4 of a thread; logs: in floats of a team. */
struct small_tape {
    uint32_t first, second, mixed, numbers, logs;
};

struct small_view {
    int teams;  /* sequences of a block */
    int rounds; /* how often a block takes as many, at most */
    int slabs;  /* blocks of an env */
    struct packed tokens;
    struct small_branch half[TRANSFORMER_LAYERS][2];
    struct small_branch seed_of[TRANSFORMER_BLUEPRINTS]; /* places within a slot's */
    struct small_norm seed_norm;                         /* likewise */
    uint32_t gate_w1, gate_b1, gate_w2, gate_b2;         /* in a slab */
    uint32_t host_lots, seed_lots;                       /* uint4 of the host and of a slot's seed */
    uint32_t seed_slab, gate_slab, slab;                 /* floats of a slot's seed and gate net; of all */

    struct small_tape layer[TRANSFORMER_LAYERS], slot[SHAPE_SLOTS], last;
    uint32_t tape, logs; /* uint4 of a thread, floats of a team */
    uint32_t kept;       /* float4 of a thread: streams that enter slots, in an evaluation */

    uint4 *lots;                  /* [env] of the group */
    uint4 *tapes;                 /* [block][team] */
    float *log;                   /* likewise */
    float4 *keeps;                /* [block of an evaluation] */
    float4 *banks;                /* [block][team]: a stream, or its gradient, that waits; [block of an evaluation] */
    float *slabs_at;              /* [env of the group][slab] */
    const uint32_t *host_numbers; /* [place in a slab]: the number of the host whose gradient it has, or NOBODYS */
    const uint32_t *seed_order;   /* [blueprint][number of a slot]: its place within a slot's, or NOWHERE */
    const uint32_t *gate_order;
    uint32_t seed_numbers; /* of a slot */
};

static inline __host__ __device__ size_t env_lots(const struct exact_view *net, const struct small_view *small)
{
    return small->host_lots + (size_t)net->slots * small->seed_lots;
}

struct small_net : transformer_net {
    struct small_view small;         /* on the host */
    struct small_view *placed_small; /* on the device */
    unsigned train_blocks;           /* at once */
    unsigned walk_blocks;
    size_t train_shared, walk_shared;
};

static inline struct small_net *small_net_of(struct transformer_net *net)
{
    return static_cast<struct small_net *>(net);
}

/* Parts of a phase, for the envs first .. first + envs - 1. */
void small_pack(struct small_net *net, int first, int envs, bool host); /* weights into lots: slots', and the host's */
void small_reduce(struct small_net *net, int first, int envs);          /* slabs into gradients */
void small_ready(struct transformer_net *net, int first, int envs);     /* before a group's first batch: lots */
void small_learn(struct transformer_net *net, int first, int envs);     /* all that a batch is, and the step */
void small_walk(struct transformer_net *net, struct exact_pass pass);

/* Both passes of a batch of windows, to slabs and losses, by width; `allow` once, in create. */
void small_passes_64(struct small_net *net, int first, int envs);
void small_passes_32(struct small_net *net, int first, int envs);
void small_allow_train_64(struct small_net *net);
void small_allow_train_32(struct small_net *net);
static inline void small_passes(struct small_net *net, int first, int envs)
{
    if (net->view.width == 64)
        small_passes_64(net, first, envs);
    else
        small_passes_32(net, first, envs);
}
static inline void small_allow_train(struct small_net *net)
{
    if (net->view.width == 64)
        small_allow_train_64(net);
    else
        small_allow_train_32(net);
}
void small_allow_walk(struct small_net *net);

/* ---- shared memory of a block of training ------------------------------------------------------------------------ */

enum { PLAN_BYTES = 9 * 1024 };

/* How many teams a block has, and how many lots a team's belt; in memory that is left, few teams wait less for them. */
struct crew {
    int teams, lots;
};

static inline __host__ __device__ struct crew train_crew(int teams)
{
    return {teams, teams == TEAMS_MOST ? 2 : 4};
}

static inline __host__ __device__ struct crew walk_crew()
{
    return {1, 2};
}

/* Bytes from a multiple of a sheet's pattern: sheets and belt of every team, biases that come with lots, a pattern of
 * ones, sums of columns per warp, numbers of attention per team, the plan. */
template <int C> struct block_shared {
    enum { LOT = C * SHEET_ROW };
    static inline __host__ __device__ uint32_t team(struct crew crew)
    {
        return (uint32_t)(SHEETS * SHEET_BYTES + crew.lots * LOT);
    }
    static inline __host__ __device__ uint32_t sheets(struct crew crew, int index)
    {
        return (uint32_t)index * team(crew);
    }
    static inline __host__ __device__ uint32_t belt(struct crew crew, int index)
    {
        return sheets(crew, index) + SHEETS * SHEET_BYTES;
    }
    static inline __host__ __device__ uint32_t beside(struct crew crew)
    {
        return sheets(crew, crew.teams);
    }
    static inline __host__ __device__ uint32_t ones(struct crew crew)
    {
        const uint32_t behind = beside(crew) + (uint32_t)(crew.teams * crew.lots * C * 4);
        return (behind + SHEET_PATTERN - 1) / SHEET_PATTERN * SHEET_PATTERN;
    }
    static inline __host__ __device__ uint32_t sums(struct crew crew)
    {
        return ones(crew) + SHEET_PATTERN;
    }
    static inline __host__ __device__ uint32_t marks(struct crew crew)
    {
        return sums(crew) + (uint32_t)(crew.teams * TEAM_WARPS * 2 * C * 4);
    }
    static inline __host__ __device__ uint32_t plan(struct crew crew)
    {
        return marks(crew) + (uint32_t)(crew.teams * 4 * TEAM_TOKENS * 8); /* at most four heads */
    }
    /* What launches ask for, to begin at a multiple. */
    static inline __host__ __device__ uint32_t of_train(struct crew crew)
    {
        return plan(crew) + PLAN_BYTES + SHEET_PATTERN;
    }
    static inline __host__ __device__ uint32_t of_walk()
    {
        return ones(walk_crew()) + SHEET_PATTERN;
    }
};

#endif
