/* What is checked of transformers in bf16, small and wide: tensors compared, causality, and worlds. */
#ifndef TESTS_TEXT_BF16_CUH
#define TESTS_TEXT_BF16_CUH

#include "morph/net_trial.cuh"
#include "text_worlds.cuh"
#include "transformer/fp32/net.cuh"

/* The direction and the size of a tensor's gradient. Where it is next to nothing of its part's, what remains is
 * rounding: then its size is judged by the part's. */
static inline void compare_tensor(const std::string &name, const double *got, const double *want, size_t count,
                                  double part, double cosine_least, double ratio_most)
{
    double dot = 0, got_square = 0, want_square = 0, apart = 0;
    for (size_t i = 0; i < count; i++) {
        dot += got[i] * want[i];
        got_square += got[i] * got[i];
        want_square += want[i] * want[i];
        apart += (got[i] - want[i]) * (got[i] - want[i]);
    }
    const double off = apart > 0 ? std::sqrt(apart / part) : 0;
    if (count == 1) { /* of one number the direction says nothing, and all of it may cancel */
        check_within(name + ", of its part", off, 0.05);
        return;
    }
    if (want_square <= 1e-4 * part) {
        check_within(name + ", next to nothing", off, 5e-3);
        return;
    }
    const double cosine = dot / std::sqrt(got_square * want_square), ratio = std::sqrt(got_square / want_square);
    char text[96];
    snprintf(text, sizeof text, "cosine %.6f, ratio %.4f", cosine, ratio);
    check(cosine >= cosine_least && std::fabs(ratio - 1) <= ratio_most, name, text);
}

/* ---- causality --------------------------------------------------------------------------------------------------- */

/* What `take` takes of a network after a batch. */
template <class F> static auto after_batch(struct network &n, F take)
{
    struct runtime *rt = open_runtime();
    struct net_trial trial = {};
    std::vector<uint32_t> updates((size_t)net_parts(n.shape.net.slots));
    trial.shape = &n.shape.net;
    trial.samples = n.samples;
    trial.exec = n.exec.data();
    trial.params = trial.memory.first =
        trial.memory.second = {n.params[0].data(), nullptr, n.params[1].data(), n.params[2].data()};
    trial.memory.updates = updates.data();
    trial.rates.host.kind = trial.rates.seed.kind = OPTIMISER_ADAMW;
    trial.rates.host.epsilon = trial.rates.seed.epsilon = 1;
    const struct net_setup setup = trial_setup(rt, &trial);
    struct net_device *created = transformer_bf16.create(rt, &setup);
    if (!created)
        stop("create", rt->error.text);
    struct transformer_net *net = transformer_net_of(created);
    runtime_copy_to(rt, net->view.windows, n.tokens.data(), (size_t)n.samples * (size_t)(n.shape.context + 1));
    transformer_ready(net, 0, 1);
    net->learn(net, 0, 1);
    const auto taken = take(rt, net);
    transformer_bf16.free(created);
    runtime_free(rt);
    return taken;
}

/* Losses of every token of a batch. */
static inline std::vector<double> losses_of(struct network &n)
{
    return after_batch(n, [](struct runtime *rt, struct transformer_net *net) {
        return download(rt, net->view.losses, (size_t)net->view.rows);
    });
}

/* A token changes its own prediction and, where there is attention, those after it; the loss before it is that of
 * predicting it. */
static inline void check_causality(const struct text_case &c, size_t changed)
{
    int turn = 0;
    for (int blueprint : blueprints) {
        struct network n;
        network_make(&n, c, 5);
        network_plant(&n, 0, blueprint, 1 + turn % 3, 0.7f);
        network_plant(&n, 1, blueprints[(turn + 2) % KINDS], 1 + (turn + 1) % 3, 0.5f);
        struct network changed_one = n;
        changed_one.tokens[(size_t)(c.context + 1) + changed] ^= 1;
        const std::vector<double> before = losses_of(n), after = losses_of(changed_one);
        const bool attends = network_attends(n);
        bool same = true, seen = true, later = !attends; /* a seed's attention alone may pass over some tokens */
        for (size_t i = 0; i < before.size(); i++) {
            const size_t sequence = i / (size_t)c.context, t = i % (size_t)c.context;
            const bool differs = before[i] != after[i];
            if (sequence != 1 || t + 1 < changed || (t > changed && !attends))
                same = same && !differs;
            else if (t <= changed || c.layers > 0)
                seen = seen && differs;
            later = later || (sequence == 1 && t > changed && differs);
        }
        check(same && seen && later, std::string("causality with ") + named(blueprint), "elsewhere bit for bit");
        turn++;
    }
}

/* Adam's step of a gradient near zero has the sign of its rounding. */
static const struct text_kernels in_bf16 = {&transformer_bf16, 2e-3, 0.1, 0.35, 0.05, 0.05, 0.4, false};

#endif
