/*
 * Transformers in bf16 on the device: gradients of every tensor of the case table's small networks (every blueprint, in
 * training and with every blend) compared with the CPU in double precision, whole steps and evaluations of many
 * networks with the CPU's, and what must be bit-identical: repetition, other envs, groups, causality, seeds in
 * TRAINING. And GELU by itself.
 */
#include "nn/gelu.cuh"
#include "text_bf16.cuh"
#include "transformer/bf16/net.cuh"

extern "C" {
#include "check/numeric.h"
#include "selftest/cases.h"
#include "selftest/device_vectors.h"

const struct device_api *esper_device_api(void);
}

/* ---- gradients, tensor by tensor --------------------------------------------------------------------------------- */

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
    enum { SLOTS = 3 };
    struct network n;
    struct param_layout layout;
    network_make(&n, {TRANSFORMER_BYTES, width, width / 16, layers, width == 32 ? 41 : 64, SLOTS, 1}, 1);
    compare_part(want.name, n.shape.net.host, got, want, "host");
    for (int j = 0; j < SLOTS; j++) {
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
        compare_case(got, want, strncmp(named_only.name, "wide", 4) == 0 ? 64 : 32,
                     strncmp(named_only.name, "layerless", 9) == 0 ? 0 : 3);
        answers_free(&got);
        answers_free(&want);
        seen++;
    }
    check(only || seen == 30, "small networks of the case table", std::to_string(seen));
}

/* ---- GELU -------------------------------------------------------------------------------------------------------- */

/* Of x and -x: both, then their slopes. */
KERNEL void gelu_of(const float *x, float4 *to, int count)
{
    for (int i = (int)threadIdx.x; i < count; i += (int)blockDim.x) {
        uint32_t slope;
        const uint32_t both = gelu_pair_both(x[i], -x[i], &slope);
        to[i] = make_float4(bf16_lo(both), bf16_hi(both), bf16_lo(slope), bf16_hi(slope));
        if (gelu_pair(x[i], -x[i]) != both)
            to[i].x = NAN;
    }
}

/* What its comment says, and half a unit of bf16; numbers beyond those of fp16 are no worse than large. */
static void check_gelu(void)
{
    std::vector<float> x;
    for (float at = 0; at < 12; at += 1 / 512.0f)
        x.push_back(at);
    for (float at = 12; at < 1e38f; at *= 3)
        x.push_back(at);
    x.push_back(INFINITY);
    struct runtime *rt = open_runtime();
    float4 *to = runtime_alloc<float4>(rt, x.size());
    const struct launch shape = {dim3(1), dim3(32), 0, false};
    runtime_launch(rt, gelu_of, shape, (const float *)runtime_place(rt, x.data(), x.size()), to, (int)x.size());
    const std::vector<float4> got = download(rt, to, x.size());
    runtime_free(rt);
    double value = 0, slope = 0;
    for (size_t i = 0; i < x.size(); i++) {
        const double at = std::fmin((double)x[i], 65504.0), share = 0.5 * std::erfc(-at * M_SQRT1_2),
                     bend = at * std::exp(-at * at / 2) * 0.3989422804;
        const double off[] = {(double)got[i].x - at * share, (double)got[i].y + at * (1 - share),
                              (double)got[i].z - share - bend, (double)got[i].w - (1 - share) + bend};
        for (int k = 0; k < 4; k++) {
            double &worst = k < 2 ? value : slope;
            const double own = std::fabs(off[k]) / (k < 2 ? at + 1e-3 : 1);
            worst = std::isnan(own) ? INFINITY : std::fmax(worst, own);
        }
    }
    check_within("GELU, relative to x", value, 5.5e-3);
    check_within("its slope", slope, 8e-3);
}

/* ---- which hosts have kernels ------------------------------------------------------------------------------------ */

static void check_fits(void)
{
    const struct {
        struct text_case c;
        bool fits;
    } hosts[] = {
        {{256, 64, 4, 3, 64, 3, 1}, true},   {{256, 32, 2, 8, 1, 8, 1}, true},     {{256, 64, 2, 3, 64, 3, 1}, false},
        {{256, 48, 3, 3, 64, 3, 1}, false},  {{256, 64, 4, 3, 65, 3, 1}, false},   {{255, 64, 4, 3, 64, 3, 1}, false},
        {{256, 384, 6, 6, 256, 6, 1}, true}, {{256, 128, 4, 1, 9, 1, 1}, true},    {{256, 32, 2, 0, 64, 8, 1}, true},
        {{256, 192, 6, 1, 9, 1, 1}, false},  {{256, 384, 24, 6, 256, 6, 1}, false}};
    for (const auto &host : hosts) {
        struct network n;
        network_make(&n, host.c, 1);
        check(transformer_bf16_fits(&n.shape.net, 32) == host.fits,
              "width " + std::to_string(host.c.width) + ", heads " + std::to_string(host.c.heads) + ", context " +
                  std::to_string(host.c.context),
              host.fits ? "fits" : "refused");
    }
}

static struct config worlds(int envs)
{
    return text_config(envs, 32, 2, 3, 20);
}

static struct config layerless_worlds(int envs)
{
    return text_config(envs, 32, 2, 0, 20);
}

/* ---- lots -------------------------------------------------------------------------------------------------------- */

/* What the optimiser rounds is what packing the parameters makes of them. */
static void check_rounded(const struct text_case &c)
{
    struct network n;
    network_make(&n, c, 5);
    const bool same = after_batch(n, [](struct runtime *rt, struct transformer_net *net) {
        struct small_net *small = small_net_of(net);
        const auto lots = [&] {
            return download(rt, (const uint32_t *)small->small.lots, (size_t)small->small.host_lots * 4);
        };
        runtime_fill(rt, small->small.lots, 0, (size_t)small->small.host_lots * sizeof(uint4));
        transformer_update(net, 0, 1);
        const std::vector<uint32_t> kept = lots();
        small_pack(small, 0, 1, true);
        return kept == lots();
    });
    check(same, "lots by the optimiser, width " + std::to_string(c.width));
}

int main(int argc, char **argv)
{
    check_gradients(argc > 1 ? argv[1] : NULL); /* a part of a network's name: that one alone */
    if (argc > 1)
        return conclude();
    check_gelu();
    check_fits();
    check_causality({TRANSFORMER_BYTES, 32, 2, 2, 50, 2, 3}, 37);
    check_causality({TRANSFORMER_BYTES, 32, 2, 0, 50, 2, 3}, 37);
    check_rounded({TRANSFORMER_BYTES, 32, 2, 2, 50, 2, 3});
    check_rounded({TRANSFORMER_BYTES, 64, 4, 1, 20, 1, 3});
    check_world(in_bf16, worlds);
    check_world(in_bf16, layerless_worlds);
    check_bits(in_bf16, worlds);
    check_bits(in_bf16, layerless_worlds);
    return conclude();
}
