/*
 * Transformers in fp32 on the device compared with the CPU: whole steps of many networks at once, a validation of all
 * subsets, sets of slots, a test. Then what must be bit-identical: repetition, other envs, groups of envs, the number
 * of sequences, causality, empty slots and seeds in TRAINING. Single networks are the case table's: cuda_cases.
 */
#include "nn/attend.cuh"
#include "text_worlds.cuh"

/* ---- one network ------------------------------------------------------------------------------------------------- */

/* Logits of its batch. */
static std::vector<float> logits_of(struct network &n)
{
    struct esper_error error = {};
    std::vector<float> logits((size_t)(n.samples * n.shape.context * n.shape.vocabulary));
    struct net_trial trial = {};
    trial.shape = &n.shape.net;
    trial.samples = n.samples;
    trial.tokens = n.tokens.data();
    trial.exec = n.exec.data();
    trial.params.host = n.params[0].data();
    trial.params.seed = n.params[1].data();
    trial.params.gate = n.params[2].data();
    trial.memory.first = trial.params; /* of a step that is not taken */
    trial.logits = logits.data();
    if (transformer_device.try_net(&trial, &error) != ESPER_OK)
        stop("trial", error.text);
    return logits;
}

/* ---- causality, and sequences by themselves ---------------------------------------------------------------------- */

static void check_causality(int layers)
{
    enum { CHANGED = 37 };
    const struct text_case c = {50, 24, 2, layers, 41, 2, 3};
    int turn = 0;
    for (int blueprint : blueprints) {
        struct network n;
        network_make(&n, c, 5);
        network_plant(&n, 0, blueprint, 1 + turn % 3, 0.7f);
        network_plant(&n, 1, blueprints[(turn + 2) % KINDS], 1 + (turn + 1) % 3, 0.5f);
        struct network changed_one = n, alone = n;
        uint8_t &token = changed_one.tokens[(size_t)(1 * (c.context + 1) + CHANGED)];
        token = (uint8_t)((token + 1) % c.vocabulary);
        alone.samples = 1;
        std::copy_n(n.tokens.begin() + c.context + 1, c.context + 1, alone.tokens.begin());
        const std::vector<float> before = logits_of(n), after = logits_of(changed_one), one = logits_of(alone);
        const size_t row = (size_t)c.vocabulary, sequence = row * (size_t)c.context, changed = sequence + CHANGED * row;
        const auto differ = [&](size_t from, size_t to) {
            return memcmp(&before[from], &after[from], (to - from) * sizeof(float)) != 0;
        };
        const bool attends = network_attends(n); /* then the last token changes, otherwise none after it */
        check(!differ(0, changed) && differ(changed, changed + row) &&
                  differ(attends ? 2 * sequence - row : changed + row, 2 * sequence) == attends &&
                  !differ(2 * sequence, 3 * sequence),
              std::string("causality with ") + named(blueprint), "elsewhere bit for bit");
        check(memcmp(&before[sequence], one.data(), sequence * sizeof(float)) == 0,
              std::string("a sequence by itself with ") + named(blueprint));
        turn++;
    }
}

/* ---- wide heads -------------------------------------------------------------------------------------------------- */

KERNEL void attend_alone(struct attended<float> a, int backward)
{
    SHARED_BYTES(shared);
    if (!backward)
        attend_forward(a, 0, (int)blockIdx.x, shared);
    else if (blockIdx.y == 0)
        attend_backward_queries(a, 0, (int)blockIdx.x, shared);
    else
        attend_backward_keys(a, 0, (int)blockIdx.x, shared);
}

/* Heads so wide that tiles must be smaller: compared with sums in double. */
static void check_wide(int head, int length)
{
    struct runtime *rt = open_runtime();
    const size_t t = (size_t)length, d = (size_t)head;
    std::vector<float> qkv(t * 3 * d), dout(t * d);
    uint32_t random = 1;
    for (float &v : qkv)
        v = noise(&random);
    for (float &v : dout)
        v = noise(&random);
    struct attended<float> a = {
    };
    a.length = length;
    a.heads = 1;
    a.head = head;
    a.qkv = upload(rt, qkv);
    a.dout = upload(rt, dout);
    a.out = runtime_alloc<float>(rt, t * d);
    a.logs = runtime_alloc<float>(rt, t);
    a.dqkv = runtime_alloc<float>(rt, t * 3 * d);
    const unsigned tiles = (unsigned)attend_tiles(length, head);
    runtime_allow_shared(rt, attend_alone, attend_shared(head));
    runtime_launch(rt, attend_alone, {dim3(tiles), dim3(ATTEND_THREADS), attend_shared(head), false}, a, 0);
    runtime_launch(rt, attend_alone, {dim3(tiles, 2), dim3(ATTEND_THREADS), attend_shared(head), false}, a, 1);
    const std::vector<float> out = download(rt, a.out, t * d), dqkv = download(rt, a.dqkv, t * 3 * d);
    std::vector<double> want(t * d), dwant(t * 3 * d);
    const auto dot = [&](const float *x, const float *y) {
        double sum = 0;
        for (size_t k = 0; k < d; k++)
            sum += (double)x[k] * (double)y[k];
        return sum;
    };
    for (size_t i = 0; i < t; i++) {
        std::vector<double> p(i + 1), dp(i + 1);
        double total = 0, mean = 0;
        for (size_t j = 0; j <= i; j++)
            total += p[j] = std::exp(dot(&qkv[i * 3 * d], &qkv[j * 3 * d + d]) / std::sqrt((double)head));
        for (size_t j = 0; j <= i; j++) {
            p[j] /= total;
            dp[j] = dot(&dout[i * d], &qkv[j * 3 * d + 2 * d]);
            mean += p[j] * dp[j];
        }
        for (size_t j = 0; j <= i; j++) {
            const double ds = p[j] * (dp[j] - mean) / std::sqrt((double)head);
            for (size_t k = 0; k < d; k++) {
                want[i * d + k] += p[j] * (double)qkv[j * 3 * d + 2 * d + k];
                dwant[i * 3 * d + k] += ds * (double)qkv[j * 3 * d + d + k];
                dwant[j * 3 * d + d + k] += ds * (double)qkv[i * 3 * d + k];
                dwant[j * 3 * d + 2 * d + k] += p[j] * (double)dout[i * d + k];
            }
        }
    }
    const std::string name = "attention, heads of " + std::to_string(head) + ", tiles of " +
                             std::to_string(attend_tile(head));
    check_within(name, distance(out.size(), out.data(), want.data()), 1e-5);
    check_within(name + ", gradients", distance(dqkv.size(), dqkv.data(), dwant.data()), 1e-5);
    runtime_free(rt);
}

/* ---- worlds ------------------------------------------------------------------------------------------------------ */

static struct config worlds(int envs)
{
    return text_config(envs, 16, 2, 3, 12);
}

static struct config layerless_worlds(int envs)
{
    return text_config(envs, 16, 2, 0, 12);
}

int main(void)
{
    for (const int layers : {2, 0})
        check_causality(layers);
    check_wide(48, 70); /* in tiles of 32, 16 and 4 */
    check_wide(400, 40);
    check_wide(1024, 19);
    const struct text_kernels exact = {&transformer_fp32, 1e-5, 1e-3, 5e-3, 1e-4, 1e-4, 1e-4, true};
    for (const auto &all : {worlds, layerless_worlds}) {
        check_world(exact, all);
        check_bits(exact, all);
    }
    return conclude();
}
