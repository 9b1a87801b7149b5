/*
 * Transformers in bf16 on the device: gradients of every tensor of the case table's small networks (every blueprint, in
 * training and with every blend) compared with the CPU in double precision, whole steps and evaluations of many
 * networks with the CPU's, and what must be bit-identical: repetition, other envs, groups, causality, seeds in
 * TRAINING.
 */
#include "morph/net_trial.cuh"
#include "text_rig.cuh"
#include "transformer/bf16/net.cuh"

extern "C" {
#include "check/numeric.h"
#include "selftest/cases.h"
#include "selftest/device_vectors.h"

const struct device_api *esper_device_api(void);
}

/* ---- gradients, tensor by tensor --------------------------------------------------------------------------------- */

/* The direction and the size of a tensor's gradient. Where it is next to nothing of its part's, what remains is
 * rounding: then its size is judged by the part's. */
static void compare_tensor(const std::string &name, const double *got, const double *want, size_t count, double part,
                           double cosine_least, double ratio_most)
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

static void compare_part(const std::string &name, const struct param_layout &layout, const struct answers &got,
                         const struct answers &want, const std::string &part)
{
    const struct answer *a = answers_find(&got, (part + " gradient").c_str()),
                        *b = answers_find(&want, (part + " gradient").c_str());
    const bool gate = part.find("gate") != std::string::npos;
    double square = 0;
    if (!b)
        return; /* frozen */
    for (size_t i = 0; i < b->count; i++)
        square += b->value[i] * b->value[i];
    square = std::max(square, b->floor * b->floor); /* a hundredth of the host's */
    for (int t = 0; t < layout.count; t++) {
        const struct tensor_layout &tensor = layout.tensor[t];
        if (!a || a->count != layout.storage || b->count != layout.storage)
            stop("layout of", part.c_str());
        /* A gate's is the sum of what the seed's every number is worth, in which most cancels. */
        compare_tensor(name + ", " + part + " " + tensor.name, a->value + tensor.offset, b->value + tensor.offset,
                       tensor.size, square, gate ? 0.99 : 0.999, gate ? 0.15 : 0.02);
    }
}

static void compare_case(const struct answers &got, const struct answers &want, int width, int layers)
{
    struct network n;
    struct param_layout layout;
    network_make(&n, {TRANSFORMER_BYTES, width, width / 16, layers, width == 32 ? 41 : 64, layers, 1}, 1);
    compare_part(want.name, n.shape.net.host, got, want, "host");
    for (int j = 0; j < layers; j++) {
        const std::string id = "r0c" + std::to_string(j) + " ";
        for (int blueprint : blueprints) {
            transformer_seed_layout(blueprint, width, &layout);
            if (layout.count)
                compare_part(want.name, layout, got, want, id + named(blueprint));
        }
        transformer_gate_layout(width, &layout);
        compare_part(want.name, layout, got, want, id + "gate");
    }
    const double loss = answers_find(&got, "loss")->value[0] / answers_find(&want, "loss")->value[0];
    check_within(std::string(want.name) + ", loss", std::fabs(loss - 1), 1e-3);
}

static const struct numeric_checks *reference(void)
{
    const struct numeric_checks *last = NULL;
    for (int i = 0; numeric_checks_at(i); i++)
        last = numeric_checks_at(i);
    return last;
}

static void check_gradients(const char *only)
{
    const struct numeric_case *row = reference()->cases;
    const struct check_backend backend = device_backend(esper_device_api(), true);
    struct esper_error error = {};
    int seen = 0;
    while (strcmp(row->name, "transformer") != 0)
        row++;
    struct answers named_only = {};
    for (int i = 0; row->answer(NULL, i, &named_only) != ANSWER_END; i++) {
        struct answers got = {}, want = {};
        if (strcmp(named_only.group, "small hosts") != 0 || (only && !strstr(named_only.name, only)))
            continue;
        if (device_answer(esper_device_api(), &backend, "transformer", i, &got, &error) != ANSWER_GIVEN)
            stop(named_only.name, error.text);
        row->answer(&reference()->backend, i, &want);
        compare_case(got, want, strncmp(named_only.name, "wide", 4) == 0 ? 64 : 32, 3);
        answers_free(&got);
        answers_free(&want);
        seen++;
    }
    check(only || seen == 26, "small networks of the case table", std::to_string(seen));
}

/* ---- causality --------------------------------------------------------------------------------------------------- */

/* Losses of every token of a batch. */
static std::vector<double> losses_of(struct network &n)
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
    const struct net_setup setup = trial_setup(rt, &trial);
    struct net_device *created = transformer_bf16.create(rt, &setup);
    if (!created)
        stop("create", rt->error.text);
    struct small_net *net = small_net_of(transformer_net_of(created));
    runtime_copy_to(rt, net->view.windows, n.tokens.data(), (size_t)n.samples * (size_t)(n.shape.context + 1));
    small_learn(net, 0, 1);
    const std::vector<double> losses = download(rt, net->view.losses, (size_t)net->view.rows);
    transformer_bf16.free(created);
    runtime_free(rt);
    return losses;
}

/* A token changes its own prediction and those after it; the loss before it is that of predicting it. */
static void check_causality(void)
{
    enum { CHANGED = 37 };
    const struct text_case c = {TRANSFORMER_BYTES, 32, 2, 2, 50, 2, 3};
    int turn = 0;
    for (int blueprint : blueprints) {
        struct network n;
        network_make(&n, c, 5);
        network_plant(&n, 0, blueprint, 1 + turn % 3, 0.7f);
        network_plant(&n, 1, blueprints[(turn + 2) % KINDS], 1 + (turn + 1) % 3, 0.5f);
        struct network changed_one = n;
        changed_one.tokens[(size_t)(1 * (c.context + 1) + CHANGED)] ^= 1;
        const std::vector<double> before = losses_of(n), after = losses_of(changed_one);
        bool same = true, seen = true;
        for (size_t i = 0; i < before.size(); i++) {
            const size_t sequence = i / (size_t)c.context, t = i % (size_t)c.context;
            const bool differs = before[i] != after[i];
            if (sequence != 1 || t + 1 < CHANGED)
                same = same && !differs;
            else
                seen = seen && differs;
        }
        check(same && seen, std::string("causality with ") + named(blueprint), "before the changed token, bit for bit");
        turn++;
    }
}

/* ---- worlds ------------------------------------------------------------------------------------------------------ */

static struct config worlds(int envs)
{
    return text_config(envs, 32, 2, 20);
}

static void check_train(struct pair *pair)
{
    struct world *world = pair->world;
    const size_t envs = (size_t)world->envs, hosts = envs * world->shape.host.storage,
                 seeds = envs * world->shape.seed_storage;
    const arenas start = arenas_of(world);
    const std::vector<float> host(world->host, world->host + hosts), seed(world->seed, world->seed + seeds);
    pair_write(pair);
    pair->kernels->train(pair->net);
    pair_read(pair);
    const arenas device = arenas_of(world);
    const std::vector<float> got(world->host, world->host + hosts), got_seed(world->seed, world->seed + seeds);
    const std::vector<double> loss(world->train_loss, world->train_loss + envs),
        points(world->train_accuracy, world->train_accuracy + envs);
    const std::vector<uint32_t> updates(world->updates, world->updates + envs * (size_t)net_parts(world->shape.slots));
    const std::vector<struct slot_grads> grads =
        download(pair->runtime, pair->net->setup.grads, envs * (size_t)world->shape.slots);
    struct graph graph = {};
    step_from(pair, &graph, start);
    check(step_from(pair, &graph, start) == device, "a step repeated");
    graph_free(&graph);
    arenas_restore(world, start);
    engine_train(pair->engine);
    for (size_t e = 0; e < envs; e++) {
        const std::string name = "env " + std::to_string(e);
        const size_t h = e * world->shape.host.storage, s = e * world->shape.seed_storage;
        check_within(name + ", loss", relative(loss[e], world->train_loss[e]), 2e-3);
        check_within(name + ", points", std::fabs(points[e] - world->train_accuracy[e]), 0.1);
        /* Adam's step of a gradient near zero has the sign of its rounding. */
        check_within(name + ", host", distance(world->shape.host.storage, &got[h], world->host + h, &host[h]), 0.35);
        check_within(name + ", seeds", distance(world->shape.seed_storage, &got_seed[s], world->seed + s, &seed[s]),
                     0.35);
        for (size_t j = e * (size_t)world->shape.slots; j < (e + 1) * (size_t)world->shape.slots; j++) {
            const struct slot_grads &own = grads[j], &wanted = pair->engine->grads[j];
            check(own.measured == wanted.measured && own.finite == wanted.finite &&
                      relative(own.norm, wanted.norm) < 0.05 && relative(own.ratio, wanted.ratio) < 0.05,
                  name + ", measured gradients of slot " + std::to_string(j % (size_t)world->shape.slots), "near");
        }
    }
    check(memcmp(updates.data(), world->updates, sizeof(uint32_t) * updates.size()) == 0, "updates counted", "all");
}

struct sets {
    int count;
    uint32_t mask[NET_SETS_MAX];
    double score[NET_SETS_MAX];
};

static void check_evaluate(struct pair *pair)
{
    struct world *world = pair->world;
    const size_t envs = (size_t)world->envs;
    pair_write(pair);
    pair->kernels->evaluate(pair->net);
    pair_read(pair);
    const std::vector<uint32_t> count(world->subset_count, world->subset_count + envs),
        mask(world->subset_mask, world->subset_mask + envs * SUBSETS_MAX);
    const std::vector<double> score(world->subset_score, world->subset_score + envs * SUBSETS_MAX),
        loss(world->val_loss, world->val_loss + envs);
    std::vector<sets> sets(envs);
    for (size_t e = 2; e < envs; e++)
        for (uint32_t k = 0; k < count[e]; k++) /* in another order */
            sets[e].mask[sets[e].count++] = mask[e * SUBSETS_MAX + count[e] - 1 - k];
    struct sets *device = upload(pair->runtime, sets);
    pair->kernels->measure(pair->net, {&device->count, device->mask, device->score, sizeof *device});
    const std::vector<struct sets> measured = download(pair->runtime, device, envs);
    bool same = true;
    for (size_t e = 2; e < envs; e++)
        for (uint32_t k = 0; k < count[e]; k++)
            same = same && measured[e].score[k] == score[e * SUBSETS_MAX + count[e] - 1 - k];
    check(same && count[2] == 8 && count[3] == 4, "sets scored as in the evaluation", "8 and 4");
    engine_evaluate(pair->engine);
    double apart = 0, losses = 0;
    for (size_t e = 0; e < envs; e++) {
        losses = std::max(losses, relative(loss[e], world->val_loss[e]));
        for (uint32_t k = 0; k < count[e]; k++)
            apart = std::max(apart, std::fabs(score[e * SUBSETS_MAX + k] - world->subset_score[e * SUBSETS_MAX + k]));
    }
    check(memcmp(count.data(), world->subset_count, sizeof(uint32_t) * envs) == 0 &&
              memcmp(mask.data(), world->subset_mask, sizeof(uint32_t) * mask.size()) == 0,
          "subsets", "all");
    check_within("points of subsets", apart, 0.1);
    check_within("validation loss", losses, 2e-3);
    pair->kernels->test(pair->net);
    const std::vector<double> test = download(pair->runtime, pair->net->setup.test_accuracy, envs);
    std::vector<double> wanted(envs);
    engine_test(pair->engine, wanted.data());
    check_within("test points", distance(envs, test.data(), wanted.data()), 0.05);
}

static void check_world(void)
{
    struct pair pair;
    pair_begin(&pair, worlds(4), "world");
    pair_attach(&pair, &transformer_bf16);
    engine_reset(pair.engine, 3);
    plant_all(pair.world);
    check_train(&pair);
    check_evaluate(&pair);
    pair_close(&pair);
}

/* ---- bit-identical ----------------------------------------------------------------------------------------------- */

static struct bits bits_of(int envs, void (*prepare)(struct world *), int slots = 3)
{
    return step_bits(&transformer_bf16, worlds(envs), prepare, slots);
}

static void check_bits(void)
{
    const struct bits one = bits_of(1, prepare_grown), three = bits_of(3, prepare_grown);
    check(same_host(one, three) && one.seed == three.seed, "env 0 among 1 and among 3");
    transformer_budget = 1; /* every env in its own group */
    const struct bits grouped = bits_of(3, prepare_grown);
    check(same_host(one, grouped) && one.seed == grouped.seed, "envs in groups");
    transformer_budget = 0;
    const struct bits bare = bits_of(1, prepare_bare), training = bits_of(1, prepare_training);
    check(same_host(bare, bits_of(1, prepare_bare, 1)), "T10: empty slots and a host with fewer");
    check(same_host(bare, training) && bare.seed != training.seed, "T11: seeds in TRAINING leave the host alone");
    check(same_host(bare, bits_of(1, prepare_alpha_zero)), "I-20: seeds at alpha 0, whatever they hold");
}

/* ---- which hosts have kernels ------------------------------------------------------------------------------------ */

static void check_fits(void)
{
    const struct {
        struct text_case c;
        bool fits;
    } hosts[] = {{{256, 64, 4, 3, 64, 3, 1}, true},  {{256, 32, 2, 8, 1, 8, 1}, true},
                 {{256, 64, 2, 3, 64, 3, 1}, false}, {{256, 48, 3, 3, 64, 3, 1}, false},
                 {{256, 64, 4, 3, 65, 3, 1}, false}, {{255, 64, 4, 3, 64, 3, 1}, false}};
    for (const auto &host : hosts) {
        struct network n;
        network_make(&n, host.c, 1);
        check(transformer_bf16_fits(&n.shape.net, 32) == host.fits,
              "width " + std::to_string(host.c.width) + ", heads " + std::to_string(host.c.heads) + ", context " +
                  std::to_string(host.c.context),
              host.fits ? "fits" : "refused");
    }
}

int main(int argc, char **argv)
{
    check_gradients(argc > 1 ? argv[1] : NULL); /* a part of a network's name: that one alone */
    if (argc > 1)
        return conclude();
    check_fits();
    check_causality();
    check_world();
    check_bits();
    return conclude();
}
