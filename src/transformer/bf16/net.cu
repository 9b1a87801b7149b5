/* Setup and release of the transformer's bf16 networks: where everything lies, and the order of a training step. */
#include "cuda/runtime.cuh"

#include "transformer/bf16/net.cuh"
#include "transformer/wide/net.cuh"

enum { WALKS = 4 }; /* thread blocks of an evaluation, per processor */

/* Width 64 or 32 with heads of 16, no more than 64 tokens, all bytes. */
static bool small_fits(const struct net_shape *host, int batch)
{
    const struct transformer_shape *shape = transformer_shape_of(host);
    return (shape->width == 64 || shape->width == 32) && shape->heads * TILE == shape->width &&
           shape->context <= TEAM_TOKENS && shape->vocabulary == TRANSFORMER_BYTES && batch >= 1;
}

/* ---- division of a batch ----------------------------------------------------------------------------------------- */

static size_t train_shared(int width, int teams)
{
    const struct crew crew = train_crew(teams);
    return width == 64 ? block_shared<64>::of_train(crew) : block_shared<32>::of_train(crew);
}

/* From its size and the card alone: an env's bits must not depend on the others. */
static void divide(struct small_view *small, int width, int batch)
{
#ifdef EMULATE /* so that a test's few sequences are divided as well */
    const int many = 8, some = 4;
#else
    const int many = 32, some = 16;
#endif
    small->teams = batch >= many ? TEAMS_MOST : batch >= some ? 2 : 1;
    while (small->teams > 1 && train_shared(width, small->teams) > runtime_shared_most())
        small->teams /= 2;
    const int groups = (batch + small->teams - 1) / small->teams;
    small->rounds = (groups + SLABS_MOST - 1) / SLABS_MOST;
    small->slabs = (groups + small->rounds - 1) / small->rounds;
}

/* ---- lots and slabs ---------------------------------------------------------------------------------------------- */

/* Takes a place for a matrix of `at` uint4 so far. */
static struct packed packed_at(uint32_t params, int rows, int columns, int width, uint32_t slab, uint32_t *at)
{
    const struct packed m = {params, rows, columns, *at, slab};
    *at += packed_size(m, width);
    return m;
}

static uint32_t take(uint32_t *at, uint32_t count)
{
    const uint32_t place = *at;
    *at += (count + LAYOUT_ALIGN - 1) / LAYOUT_ALIGN * LAYOUT_ALIGN;
    return place;
}

/* Gradients of the host are where its parameters are, matrices in tiles. */
static struct small_branch host_branch(const struct branch_view &view, int width, uint32_t *at)
{
    struct small_branch branch = {};
    branch.w1 = packed_at(view.w1, view.hidden, width, width, view.w1, at);
    branch.w2 = packed_at(view.w2, width, view.mixed, width, view.w2, at);
    branch.b1 = view.b1;
    branch.b2 = view.b2;
    return branch;
}

/* Those of a seed have their own places, because narrow matrices are padded. */
static struct small_branch seed_branch(const struct branch_view &view, int width, uint32_t *lots, uint32_t *slab)
{
    struct small_branch branch = {};
    branch.w1 = packed_at(view.w1, view.hidden, width, width, 0, lots);
    branch.w2 = packed_at(view.w2, width, view.mixed, width, 0, lots);
    branch.w1.slab = take(slab, packed_slab(branch.w1));
    branch.b1 = take(slab, (uint32_t)view.hidden);
    branch.w2.slab = take(slab, packed_slab(branch.w2));
    branch.b2 = take(slab, (uint32_t)width);
    return branch;
}

/* W1 of a slot's gate net, which is in no lot. */
static struct packed gate_matrix(const struct small_view *small, const struct exact_view *net)
{
    return {net->gate_branch.w1, net->gate_hidden, net->width, 0, small->gate_w1};
}

static void lay_out_lots(struct small_view *small, const struct exact_view *net)
{
    small->tokens = packed_at(net->tokens, net->vocabulary, net->width, net->width, net->tokens, &small->host_lots);
    for (int i = 0; i < net->layers; i++)
        for (int half = 0; half < 2; half++)
            small->half[i][half] = host_branch(net->layer[i].half[half].branch, net->width, &small->host_lots);
    for (int b = 0; b < TRANSFORMER_BLUEPRINTS; b++) {
        uint32_t lots = 0, slab = 0;
        if (net->seed_of[b].branch.kind != BRANCH_NONE)
            small->seed_of[b] = seed_branch(net->seed_of[b].branch, net->width, &lots, &slab);
        small->seed_lots = lots > small->seed_lots ? lots : small->seed_lots;
        small->seed_slab = slab > small->seed_slab ? slab : small->seed_slab;
    }
    uint32_t norm = 0; /* less than any branch */
    small->seed_norm.gamma = take(&norm, (uint32_t)net->width);
    small->seed_norm.beta = take(&norm, (uint32_t)net->width);
    small->seed_norm.sigma = take(&norm, 2);
    small->gate_w1 = take(&small->gate_slab, packed_slab(gate_matrix(small, net)));
    small->gate_b1 = take(&small->gate_slab, TILE);
    small->gate_w2 = take(&small->gate_slab, TILE);
    small->gate_b2 = take(&small->gate_slab, TILE);
    small->slab = net->host_storage + (uint32_t)net->slots * (small->seed_slab + small->gate_slab);
}

/* ---- where a number of the parameters is in a slab --------------------------------------------------------------- */

static void order_vector(uint32_t *order, uint32_t params, int count, uint32_t slab)
{
    for (int i = 0; i < count; i++)
        order[params + (uint32_t)i] = slab + (uint32_t)i;
}

/* Tiles of 16 x 8: lane 4 g + t has (g, 2t), (g, 2t + 1), (g + 8, 2t), (g + 8, 2t + 1). */
static void order_matrix(uint32_t *order, const struct packed &m)
{
    const int across = in_tiles(m.columns) * 2;
    for (int r = 0; r < m.rows; r++)
        for (int c = 0; c < m.columns; c++)
            order[m.params + (uint32_t)(r * m.columns + c)] =
                m.slab + (uint32_t)((r / TILE * across + c / 8) * TILE * 8 + (r % 8 * 4 + c % 8 / 2) * 4 +
                                    r % TILE / 8 * 2 + c % 2);
}

static void order_branch(uint32_t *order, const struct branch_view &view, const struct small_branch &branch, int width)
{
    order_matrix(order, branch.w1);
    order_matrix(order, branch.w2);
    if (view.biased) {
        order_vector(order, view.b1, view.hidden, branch.b1);
        order_vector(order, view.b2, width, branch.b2);
    }
}

static std::vector<uint32_t> host_order(const struct small_view *small, const struct exact_view *net)
{
    std::vector<uint32_t> order(net->host_storage, NOWHERE);
    const auto norm = [&](const struct norm_view &view) {
        order_vector(order.data(), view.gamma, net->width, view.gamma);
        order_vector(order.data(), view.beta, net->width, view.beta);
    };
    order_matrix(order.data(), small->tokens);
    order_vector(order.data(), net->positions, net->context * net->width, net->positions);
    for (int i = 0; i < net->layers; i++)
        for (int half = 0; half < 2; half++) {
            norm(net->layer[i].half[half].norm);
            order_branch(order.data(), net->layer[i].half[half].branch, small->half[i][half], net->width);
        }
    norm(net->last);
    return order;
}

/* The other way round. What is nobody's place has a number that nobody has, so that all numbers are written. */
static std::vector<uint32_t> host_numbers(const struct small_view *small, const struct exact_view *net)
{
    const std::vector<uint32_t> order = host_order(small, net);
    std::vector<uint32_t> numbers(order.size(), NOWHERE);
    for (uint32_t i = 0; i < order.size(); i++)
        if (order[i] != NOWHERE)
            numbers[order[i]] = i;
    uint32_t left = 0;
    for (uint32_t &number : numbers)
        if (number == NOWHERE) {
            while (order[left] != NOWHERE)
                left++;
            number = left++ | NOBODYS;
        }
    return numbers;
}

static std::vector<uint32_t> seed_order(const struct small_view *small, const struct exact_view *net)
{
    std::vector<uint32_t> order((size_t)small->seed_numbers * TRANSFORMER_BLUEPRINTS, NOWHERE);
    for (int b = 0; b < TRANSFORMER_BLUEPRINTS; b++) {
        const struct exact_seed &seed = net->seed_of[b];
        uint32_t *own = order.data() + (size_t)b * small->seed_numbers;
        if (seed.norm) {
            order_vector(own, seed.norm_at.gamma, net->width, small->seed_norm.gamma);
            order_vector(own, seed.norm_at.beta, net->width, small->seed_norm.beta);
            order_vector(own, seed.sigma, 1, small->seed_norm.sigma);
        } else if (seed.branch.kind != BRANCH_NONE) {
            order_branch(own, seed.branch, small->seed_of[b], net->width);
        }
    }
    return order;
}

static std::vector<uint32_t> gate_order(const struct small_view *small, const struct exact_view *net)
{
    uint32_t count = 1;
    for (int j = 0; j < net->slots; j++)
        count = net->slot[j].gate_storage > count ? net->slot[j].gate_storage : count;
    std::vector<uint32_t> order(count, NOWHERE);
    if (net->slots > 0) {
        order_matrix(order.data(), gate_matrix(small, net));
        order_vector(order.data(), net->gate_branch.b1, net->gate_hidden, small->gate_b1);
        order_vector(order.data(), net->gate_branch.w2, net->gate_hidden, small->gate_w2);
        order_vector(order.data(), net->gate_branch.b2, 1, small->gate_b2);
    }
    return order;
}

/* ---- where the host's numbers are in its lots -------------------------------------------------------------------- */

static void place_lots(std::vector<uint32_t> *places, const struct packed &m, int width)
{
    for (int r = 0; r < m.rows; r++)
        for (int c = 0; c < m.columns; c += LAYOUT_ALIGN) {
            const int lot = r / width * lots_across(m, width) + c / width;
            (*places)[(m.params + (uint32_t)(r * m.columns + c)) / LAYOUT_ALIGN] =
                (m.lots + (uint32_t)lot * lot_size(width)) * 8 + (uint32_t)(r % width * width + c % width);
        }
}

static std::vector<uint32_t> lot_places(const struct small_view *small, const struct exact_view *net)
{
    std::vector<uint32_t> places(net->host_storage / LAYOUT_ALIGN + 1, NOWHERE);
    place_lots(&places, small->tokens, net->width);
    for (int i = 0; i < net->layers; i++)
        for (const struct small_branch &branch : small->half[i]) {
            place_lots(&places, branch.w1, net->width);
            place_lots(&places, branch.w2, net->width);
        }
    return places;
}

/* ---- the tape ---------------------------------------------------------------------------------------------------- */

static struct small_tape tape_place(struct small_view *small, int width, int heads)
{
    const uint32_t wide = (uint32_t)(width / TILE), at = small->tape;
    const struct small_tape tape = {at, at + wide, at + 2 * wide, at + 3 * wide, small->logs};
    small->tape += 3 * wide + 1;
    small->logs += (uint32_t)(heads * TEAM_TOKENS);
    return tape;
}

static void lay_out_tape(struct small_view *small, const struct exact_view *net)
{
    for (int i = 0; i < net->layers; i++)
        small->layer[i] = tape_place(small, net->width, net->heads);
    for (int j = 0; j < net->slots; j++)
        small->slot[j] = tape_place(small, net->width, SEED_HEADS);
    small->last = tape_place(small, net->width, 0);
    small->kept = (uint32_t)(net->slots * net->width / 8);
}

/* ---- lifetime ---------------------------------------------------------------------------------------------------- */

static void view_small(struct small_net *net)
{
    struct small_view *small = &net->small;
    divide(small, net->view.width, net->view.batch);
    lay_out_lots(small, &net->view);
    lay_out_tape(small, &net->view);
    for (int j = 0; j < net->view.slots; j++)
        small->seed_numbers = net->view.slot[j].seed_storage > small->seed_numbers ? net->view.slot[j].seed_storage
                                                                                   : small->seed_numbers;
    net->train_shared = train_shared(net->view.width, small->teams);
    net->walk_shared = net->view.width == 64 ? block_shared<64>::of_walk() : block_shared<32>::of_walk();
}

static unsigned least(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

static void allocate_small(struct small_net *net)
{
    struct runtime *rt = net->runtime;
    struct small_view *small = &net->small;
    const size_t group = (size_t)net->view.group;
    const unsigned processors = (unsigned)runtime_processors(rt), envs = (unsigned)group;
    net->train_blocks = least(processors * (small->teams == 1 ? TRAINS_ALONE : 1), envs * (unsigned)small->slabs);
    net->walk_blocks = least(processors * WALKS, envs * EVAL_PARTS);
    small->lots = runtime_alloc<uint4>(rt, group * env_lots(&net->view, small));
    net->view.rounded = reinterpret_cast<struct bf16 *>(small->lots);
    net->view.rounded_stride = env_lots(&net->view, small) * 8;
    net->view.rounded_places = transformer_placed(rt, lot_places(small, &net->view));
    small->slabs_at = runtime_alloc<float>(rt, group * (size_t)small->slabs * small->slab);
    const size_t teams = (size_t)net->train_blocks * (size_t)small->teams;
    small->tapes = runtime_alloc<uint4>(rt, teams * small->tape * TEAM_THREADS);
    small->log = runtime_alloc<float>(rt, teams * small->logs);
    small->keeps = runtime_alloc<float4>(rt, (size_t)net->walk_blocks * small->kept * TEAM_THREADS + 1);
    const size_t banks = teams > net->walk_blocks ? teams : net->walk_blocks;
    small->banks = runtime_alloc<float4>(rt, banks * (size_t)(net->view.width / 8) * TEAM_THREADS);
    small->host_numbers = transformer_placed(rt, host_numbers(small, &net->view));
    small->seed_order = transformer_placed(rt, seed_order(small, &net->view));
    small->gate_order = transformer_placed(rt, gate_order(small, &net->view));
    net->placed_small = runtime_alloc<struct small_view>(rt, 1);
    runtime_copy_to(rt, net->placed_small, small, sizeof *small);
    runtime_wait(rt);
}

static struct net_device *create(struct runtime *rt, const struct net_setup *setup)
{
    if (!transformer_bf16_fits(setup->host_shape, (int)setup->source.batch))
        return nullptr;
    if (!small_fits(setup->host_shape, (int)setup->source.batch))
        return wide_create(rt, setup);
    struct small_net *net = new small_net();
    net_device_begin(net, rt, setup);
    transformer_view_init(net, FRAMES_NONE);
    view_small(net);
    transformer_allocate(net, env_lots(&net->view, &net->small) * sizeof(uint4) +
                                  (size_t)net->small.slabs * net->small.slab * sizeof(float));
    allocate_small(net);
    net->ready = small_ready;
    net->learn = small_learn;
    net->walk = small_walk;
    small_allow_train(net);
    small_allow_walk(net);
    transformer_place(net);
    if (rt->failed) {
        delete net;
        return nullptr;
    }
    return net;
}

void small_ready(struct transformer_net *given, int first, int envs)
{
    small_pack(small_net_of(given), first, envs, true);
}

void small_learn(struct transformer_net *given, int first, int envs)
{
    struct small_net *net = small_net_of(given);
    small_pack(net, first, envs, false);
    small_passes(net, first, envs);
    small_reduce(net, first, envs);
    transformer_update(net, first, envs);
}

bool transformer_bf16_fits(const struct net_shape *host, int batch)
{
    return small_fits(host, batch) || wide_fits(host, batch);
}

extern const struct net_device_kernels transformer_bf16 = {create,
                                                           transformer_release,
                                                           transformer_train_all,
                                                           transformer_evaluate_all,
                                                           transformer_measure_all,
                                                           transformer_test_all};
