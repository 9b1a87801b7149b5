/*
 * Wide transformers in bf16 on the device: gradients of every tensor, with every blueprint in training and with every
 * blend, compared with fp32 on the device, which is the CPU's (cuda_transformer_fp32); whole steps and evaluations of
 * many networks with the CPU's, and what must be bit-identical, as for small ones (cuda_transformer_bf16). Products and
 * attention alone: cuda_product.
 */
#include "text_bf16.cuh"

/* ---- gradients, tensor by tensor --------------------------------------------------------------------------------- */

/* A step of one network: its gradients, and the loss. */
struct learned {
    std::vector<float> grad[3];
    double loss;
};

static struct learned step_of(const struct network &n, bool bf16)
{
    struct esper_error error = {};
    std::vector<float> params[3], first[3], second[3];
    std::vector<uint32_t> updates((size_t)net_parts(n.shape.net.slots));
    struct net_trial trial = {};
    struct learned step;
    const auto all = [](std::vector<float> *of) {
        return net_params{of[0].data(), nullptr, of[1].data(), of[2].data()};
    };
    for (int k = 0; k < 3; k++) {
        params[k] = n.params[k];
        first[k].assign(params[k].size(), 0);
        second[k] = step.grad[k] = first[k];
    }
    trial.shape = &n.shape.net;
    trial.samples = n.samples;
    trial.tokens = n.tokens.data();
    trial.exec = n.exec.data();
    trial.learn = true;
    trial.bf16 = bf16;
    trial.rates.host = trial.rates.seed = {OPTIMISER_ADAMW, 1e-3f, 0.9f, 0.95f, 1e-8f, 0.1f};
    trial.rates.max_grad_norm = 1;
    trial.params = all(params);
    trial.memory = {all(first), all(second), updates.data()};
    trial.grads = all(step.grad);
    if (transformer_device.try_net(&trial, &error) != ESPER_OK)
        stop("trial", error.text);
    step.loss = trial.result.score.loss;
    return step;
}

static void compare_part(const std::string &name, const struct param_layout &layout, const float *got,
                         const float *want, double least, bool gate)
{
    const std::vector<double> a(got, got + layout.storage), b(want, want + layout.storage);
    double square = 0;
    for (const double x : b)
        square += x * x;
    for (int t = 0; t < layout.count; t++)
        compare_tensor(name + " " + layout.tensor[t].name, &a[layout.tensor[t].offset], &b[layout.tensor[t].offset],
                       layout.tensor[t].size, std::max(square, least), gate ? 0.99 : 0.999, gate ? 0.15 : 0.02);
}

static void compare_network(const std::string &name, const struct network &n)
{
    const struct learned got = step_of(n, true), want = step_of(n, false);
    double host = 0;
    for (const float x : want.grad[0])
        host += (double)x * (double)x;
    check_within(name + ", loss", relative(got.loss, want.loss), 1e-3);
    compare_part(name + ", host", n.shape.net.host, got.grad[0].data(), want.grad[0].data(), 0, false);
    for (int j = 0; j < n.shape.net.slots; j++) {
        struct param_layout layout;
        const size_t seed = n.shape.net.slot[j].seed, gate = n.shape.net.slot[j].gate;
        const std::string slot = name + ", slot " + std::to_string(j) + " ";
        if (!n.exec[(size_t)j].train)
            continue;
        transformer_seed_layout(n.exec[(size_t)j].blueprint, n.shape.width, &layout);
        if (layout.count) /* below a hundredth of the host's, it is what cancelled there */
            compare_part(slot + named(n.exec[(size_t)j].blueprint), layout, &got.grad[1][seed], &want.grad[1][seed],
                         1e-4 * host, false);
        transformer_gate_layout(n.shape.width, &layout);
        if (n.exec[(size_t)j].gate)
            compare_part(slot + "gate", layout, &got.grad[2][gate], &want.grad[2][gate], 1e-4 * host, true);
    }
}

enum { SEATS = 3, WAYS = 4 };

/* A seed in TRAINING, or one that is blended; sometimes alone with its gradients, sometimes frozen. */
static void plant(struct network *n, int slot, int turn)
{
    const int way = turn / KINDS % WAYS;
    struct slot_exec *exec = &n->exec[(size_t)slot];
    network_plant(n, slot, blueprints[turn % KINDS], way == 0 ? (int)ALGORITHM_ADD : way, 0.3f + 0.1f * (float)way);
    exec->mode = way == 0 ? SLOT_STE : SLOT_BLEND;
    exec->isolate = way == 0 || turn % 5 == 3;
    exec->train = way == 0 || turn % 5 != 4;
}

static void check_gradients(void)
{
    for (int turn = 0; turn < KINDS * WAYS; turn += SEATS) {
        struct network n;
        network_make(&n, {TRANSFORMER_BYTES, 128, turn % 2 ? 4 : 2, 3, 9, 3, 4}, 40 + (uint32_t)turn);
        for (int j = 0; j < SEATS; j++)
            plant(&n, j, (turn + j) % (KINDS * WAYS));
        compare_network("grown " + std::to_string(turn), n);
    }
    struct network n;
    network_make(&n, {TRANSFORMER_BYTES, 128, 1, 1, 140, 1, 1}, 3);
    compare_network("long, heads of 128", n);
    network_make(&n, {TRANSFORMER_BYTES, 384, 6, 1, 17, 1, 1}, 4);
    network_plant(&n, 0, TRANSFORMER_ATTENTION, ALGORITHM_GATE, 0.6f);
    compare_network("of the large task's width", n);
    for (int turn = 0; turn < 3; turn++) { /* slots alone: every blueprint, in another way than the one before it */
        network_make(&n, {TRANSFORMER_BYTES, 128, 4, 0, 9, 3, 4}, 70 + (uint32_t)turn);
        for (int j = 0; j < SEATS; j++)
            plant(&n, j, (SEATS * turn + j) % KINDS + KINDS * ((turn + j) % WAYS));
        compare_network("without layers " + std::to_string(turn), n);
    }
}

static struct config config_of(int envs, int layers)
{
    struct config config = text_config(envs, 128, 2, layers, 7);
    config.data_batch = 5;
    config.data_val_images = 5;
    config.data_test_images = 2;
    config.data_batches = 1;
    return config;
}

static struct config worlds(int envs)
{
    return config_of(envs, 3);
}

static struct config layerless_worlds(int envs)
{
    return config_of(envs, 0);
}

int main(int argc, char **argv)
{
    const std::string only = argc > 1 ? argv[1] : ""; /* gradients, causality, world or bits: that alone */
    if (only.empty() || only == "gradients")
        check_gradients();
    if (only.empty() || only == "causality") {
        check_causality({TRANSFORMER_BYTES, 128, 4, 2, 19, 2, 2}, 12);
        check_causality({TRANSFORMER_BYTES, 128, 4, 0, 19, 2, 2}, 12);
    }
    if (only.empty() || only == "world") {
        check_world(in_bf16, worlds);
        check_world(in_bf16, layerless_worlds);
    }
    if (only.empty() || only == "bits") {
        check_bits(in_bf16, worlds);
        check_bits(in_bf16, layerless_worlds);
    }
    return conclude();
}
