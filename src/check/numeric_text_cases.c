/* What holds for every transformer: gradients, causality, and that sequences, seeds and configurations do not meddle.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/philox.h"
#include "check/numeric_cases.h"
#include "check/numeric_probe.h"
#include "check/numeric_text.h"
#include "nn/tokens.h"
#include "transformer/cpu/work.h"

static const int blueprints[] = {BLUEPRINT_NOOP,         TRANSFORMER_ATTENTION, TRANSFORMER_NORM, TRANSFORMER_LORA,
                                 TRANSFORMER_LORA_LARGE, TRANSFORMER_MLP_SMALL, TRANSFORMER_MLP};
enum { KINDS = sizeof blueprints / sizeof blueprints[0] };

static const int operators[] = {ALGORITHM_ADD, ALGORITHM_MULTIPLY, ALGORITHM_GATE};
static const char *const operator_names[] = {"ADD", "MULTIPLY", "GATE"};
enum { OPERATORS = 3 };

/* Odd sizes: two segments, heads of five, a context that fills no panel, more sequences than one group. */
static const struct text_host small = {
    .vocabulary = 29, .width = 20, .heads = 2, .layers = 2, .context = 11, .segments = 2, .samples = 7};

/* With layers in its segments, and without. */
static const struct {
    int layers;
    const char *name;
} hosts[] = {{2, ""}, {0, " without layers"}};
enum { HOSTS = sizeof hosts / sizeof hosts[0] };

static const char *named(int blueprint)
{
    return family_blueprint(&transformer_family, blueprint);
}

/* ---- operations ------------------------------------------------------------------------------------------------- */

void case_gelu(struct check_report *report, const char *name)
{
    enum { COUNT = 4001 };
    real x[COUNT], act[COUNT], slope[COUNT];
    double error = 0, slope_error = 0;
    for (int i = 0; i < COUNT; i++)
        x[i] = (real)((i - COUNT / 2) * 0.005);
    gelu_forward(COUNT, x, act, slope);
    for (int i = 0; i < COUNT; i++) {
        const double v = (double)x[i], phi = 0.5 * erfc(-v / sqrt(2)), want = v * phi;
        const double bell = exp(-0.5 * v * v) / sqrt(2 * acos(-1));
        /* The tail's argument is squared before it is rounded: the error grows with it. */
        error = fmax(error, fabs((double)act[i] - want) / (fabs(want) * (1 + v * v) + 1e-30));
        slope_error = fmax(slope_error, fabs((double)slope[i] - (phi + v * bell)));
    }
    case_error(report, error, 8 * ROUNDING, "%s", name);
    case_error(report, slope_error, 4 * ROUNDING, "%s slope", name);
    real wild[3] = {(real)NAN, 60, -60};
    gelu_forward(3, wild, act, slope);
    case_flag(report, isnan(act[0]) && act[1] == 60 && fabs((double)act[2]) < 1e-30, "of NAN and far out", "%s ends",
              name);
}

/* Loss, hits and gradients of rows against libm, ties and targets at both ends among them. */
void case_token_loss(struct check_report *report, const char *name)
{
    static const int sizes[] = {2, 23, 50, 256};
    for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
        enum { ROWS = 5 };
        const int classes = sizes[k];
        real logits[ROWS * 256], kept[ROWS * 256];
        const uint8_t targets[ROWS] = {0, (uint8_t)(classes - 1), 1, (uint8_t)(classes / 2), 1};
        struct token_score score = {0};
        struct worst worst = {0};
        double loss = 0, hits = 0;
        fill_random(logits, (size_t)(ROWS * classes), 500 + (uint32_t)k, 8);
        logits[2 * classes] = logits[2 * classes + 1] = 9; /* two largest: the first one counts */
        logits[4 * classes + 1] = 12;
        memcpy(kept, logits, sizeof kept);
        token_loss(ROWS, classes, logits, targets, (real)0.125, &score);
        for (int r = 0; r < ROWS; r++) {
            const real *row = kept + r * classes;
            double total = 0;
            int best = 0;
            for (int i = 0; i < classes; i++) {
                total += exp((double)row[i]);
                best = row[i] > row[best] ? i : best;
            }
            loss += log(total) - (double)row[targets[r]];
            hits += best == targets[r];
            for (int i = 0; i < classes; i++)
                worst_add(&worst, (double)logits[r * classes + i],
                          0.125 * (exp((double)row[i]) / total - (i == targets[r])));
        }
        case_error(report, fabs(score.loss - loss) / loss, 40 * ROUNDING, "%s of %d classes", name, classes);
        case_error(report, worst.error, 4 * ROUNDING, "%s of %d classes, gradient", name, classes);
        case_flag(report, score.hits == hits, "counts otherwise", "%s of %d classes, hits", name, classes);
    }
}

/* ---- gradients -------------------------------------------------------------------------------------------------- */

static double text_loss(void *context)
{
    struct text_rig *rig = context;
    const struct net_score score = text_logits(rig, rig->samples, NULL);
    return score.loss / (double)score.count;
}

static void keep(struct net_params *kept, const struct text_rig *rig)
{
    const struct net_params grads = transformer_grads(rig->net);
    memcpy(kept->host, grads.host, sizeof(real) * rig->shape.host.storage);
    memcpy(kept->seed, grads.seed, sizeof(real) * rig->shape.seed_storage);
    memcpy(kept->gate, grads.gate, sizeof(real) * rig->shape.gate_storage);
}

static struct net_params kept_in(struct scrap *scrap, const struct text_rig *rig)
{
    return (struct net_params){.host = scrap_reals(scrap, rig->shape.host.storage),
                               .seed = scrap_reals(scrap, rig->shape.seed_storage),
                               .gate = scrap_reals(scrap, rig->shape.gate_storage)};
}

/* A seed in the first slot and another in the last, both mixed in. */
static void probe_pair(struct check_report *report, const char *name, int turn, int layers)
{
    struct scrap scrap = {0};
    struct text_rig rig;
    const int first = blueprints[turn % KINDS], second = blueprints[(turn + 3) % KINDS],
              with = operators[turn % OPERATORS], also = operators[(turn / OPERATORS + 1) % OPERATORS];
    const struct text_host host = {
        .vocabulary = 11, .width = 8, .heads = 2, .layers = layers, .context = 5, .segments = 2, .samples = 2};
    text_init(&rig, &scrap, &host);
    struct net_params kept = kept_in(&scrap, &rig);
    if (!scrap_ready(&scrap, report, name))
        goto cleanup;
    text_wake(&rig, 0, SLOT_BLEND, first, with, 0.6f);
    text_wake(&rig, 1, SLOT_BLEND, second, also, 0.8f);
    rig.exec[1].train = turn % 4 != 3; /* a frozen seed still passes gradients through */
    text_randomise(&rig, 510 + (uint32_t)turn);
    const struct probe probe = {text_loss, &rig};
    char label[96];
    const struct net_batch batch = text_batch(&rig);
    struct net_result result;
    transformer_gradients(rig.net, &rig.params, &batch, &result);
    keep(&kept, &rig);
    snprintf(label, sizeof label, "%s %s then %s, host", name, named(first), named(second));
    probe_layout(report, &probe, &rig.shape.host, rig.params.host, kept.host, label);
    for (int j = 0; j < 2; j++) {
        const struct slot_shape *place = &rig.shape.slot[j];
        if (!rig.exec[j].train)
            continue;
        snprintf(label, sizeof label, "%s %s of %s then %s", name, named(rig.exec[j].blueprint), named(first),
                 named(second));
        probe_layout(report, &probe, &rig.seed_layout[j], rig.params.seed + place->seed, kept.seed + place->seed,
                     label);
        snprintf(label, sizeof label, "%s gate of %s then %s", name, named(first), named(second));
        if (rig.exec[j].gate)
            probe_layout(report, &probe, &rig.gate_layout, rig.params.gate + place->gate, kept.gate + place->gate,
                         label);
    }
cleanup:
    scrap_free(&scrap);
}

void case_gradient_text(struct check_report *report, const char *name)
{
    for (int k = 0; k < HOSTS * KINDS * OPERATORS; k++) {
        const int host = k / (KINDS * OPERATORS);
        char label[64];
        snprintf(label, sizeof label, "%s%s", name, hosts[host].name);
        probe_pair(report, label, k % (KINDS * OPERATORS), hosts[host].layers);
    }
}

/* ---- bits ------------------------------------------------------------------------------------------------------- */

/* I-15: a later token moves nothing before it: in the host, in every blueprint, with every operator. */
void case_text_causal(struct check_report *report, const char *name)
{
    for (int turn = 0; turn < HOSTS * KINDS * OPERATORS; turn++) {
        struct scrap scrap = {0};
        struct text_rig rig;
        struct text_host host = small;
        const int blueprint = blueprints[turn % KINDS], with = turn / KINDS % OPERATORS,
                  of = turn / (KINDS * OPERATORS);
        host.layers = hosts[of].layers;
        host.samples = 1;
        host.context = 37; /* more than a panel */
        text_init(&rig, &scrap, &host);
        const size_t count = text_logit_count(&rig), row = (size_t)host.vocabulary;
        real *before = scrap_reals(&scrap, count), *after = scrap_reals(&scrap, count);
        if (scrap_ready(&scrap, report, name)) {
            bool causal = true, seen = true;
            text_wake(&rig, 0, SLOT_BLEND, blueprint, operators[with], 0.7f);
            text_randomise(&rig, 540);
            text_logits(&rig, 1, before);
            for (int t = 0; t < host.context; t++) {
                uint8_t *token = transformer_input(rig.net).tokens + t, was = *token;
                *token = (uint8_t)((was + 1) % host.vocabulary);
                text_logits(&rig, 1, after);
                causal &= same_bits(before, after, (size_t)t * row);
                seen &= !same_bits(before + (size_t)t * row, after + (size_t)t * row, row);
                *token = was;
            }
            case_flag(report, causal && seen, causal ? "a token does not see itself" : "a token sees its future",
                      "%s%s %s with %s (I-15)", name, hosts[of].name, named(blueprint), operator_names[with]);
        }
        scrap_free(&scrap);
    }
}

/* As germination makes them. */
static void birth(const struct param_layout *layout, struct scrap *scrap, real *params)
{
    float *initial = scrap_take(scrap, layout->storage, sizeof(float));
    if (scrap->failed)
        return;
    layout_init(layout, 42, STREAM_SEED_INIT, 0, 0, 1u << 16, initial);
    for (size_t i = 0; i < layout->storage; i++)
        params[i] = (real)initial[i];
}

/* I-11: every newborn seed is the identity, at any alpha, bit for bit; and I-17: each of them can learn. */
void case_text_birth(struct check_report *report, const char *name)
{
    static const float alphas[] = {0.25f, 0.5f, 0.9f, 1.0f};
    for (int k = 0; k < HOSTS * KINDS * OPERATORS; k++) {
        const int blueprint = blueprints[k % KINDS], with = k / KINDS % OPERATORS, of = k / (KINDS * OPERATORS);
        struct scrap scrap = {0};
        struct text_rig rig;
        struct text_host host = small;
        host.layers = hosts[of].layers;
        text_init(&rig, &scrap, &host);
        const size_t count = text_logit_count(&rig);
        real *bare = scrap_reals(&scrap, count), *grown = scrap_reals(&scrap, count);
        if (scrap.failed || !scrap_ready(&scrap, report, name)) {
            scrap_free(&scrap);
            continue;
        }
        bool same = true;
        text_randomise(&rig, 550);
        text_logits(&rig, rig.samples, bare);
        for (size_t a = 0; a < sizeof alphas / sizeof alphas[0]; a++) {
            text_wake(&rig, 0, SLOT_BLEND, blueprint, operators[with], alphas[a]);
            birth(&rig.seed_layout[0], &scrap, rig.params.seed);
            if (rig.exec[0].gate)
                birth(&rig.gate_layout, &scrap, rig.params.gate);
            text_logits(&rig, rig.samples, grown);
            same &= same_bits(bare, grown, count);
        }
        case_flag(report, same, "changes its host", "%s%s %s with %s is the identity (I-11)", name, hosts[of].name,
                  named(blueprint), operator_names[with]);
        const struct net_batch batch = text_batch(&rig);
        struct net_result result;
        transformer_gradients(rig.net, &rig.params, &batch, &result);
        transformer_measure(rig.net, &batch, &result);
        if (blueprint != BLUEPRINT_NOOP)
            case_flag(report, result.grads[0].norm > 0 && result.grads[0].finite, "no parameter gets a gradient",
                      "%s%s %s with %s lives (I-17)", name, hosts[of].name, named(blueprint), operator_names[with]);
        scrap_free(&scrap);
    }
}

/* I-24: a seed in TRAINING changes nothing of its host's step, and learns. */
void case_text_leaf(struct check_report *report, const char *name)
{
    static const struct net_rates rates = {{OPTIMISER_ADAMW, (real)1e-2, (real)0.9, (real)0.95, (real)1e-8, (real)0.1},
                                           {OPTIMISER_ADAMW, (real)1e-2, (real)0.9, (real)0.95, (real)1e-8, (real)0.1},
                                           0.5};
    for (int turn = 0; turn < HOSTS * KINDS; turn++) {
        struct scrap scrap = {0};
        struct text_rig bare, grown;
        struct text_host host = small;
        const int k = turn % KINDS, of = turn / KINDS;
        host.layers = hosts[of].layers;
        text_init(&bare, &scrap, &host);
        text_init(&grown, &scrap, &host);
        if (scrap_ready(&scrap, report, name)) {
            struct net_result plain, with;
            text_wake(&grown, 0, SLOT_STE, blueprints[k], ALGORITHM_ADD, 0);
            text_wake(&grown, 1, SLOT_STE, blueprints[(k + 1) % KINDS], ALGORITHM_ADD, 0);
            text_randomise(&bare, 560);
            text_randomise(&grown, 560);
            const struct net_batch one = text_batch(&bare), two = text_batch(&grown);
            bool same = true;
            for (int step = 0; step < 3; step++) {
                transformer_gradients(bare.net, &bare.params, &one, &plain);
                transformer_gradients(grown.net, &grown.params, &two, &with);
                transformer_update(bare.net, &bare.params, &bare.memory, &one, &rates, &plain);
                transformer_update(grown.net, &grown.params, &grown.memory, &two, &rates, &with);
                same &= plain.score.loss == with.score.loss &&
                        same_bits(bare.params.host, grown.params.host, bare.shape.host.storage) &&
                        same_bits(bare.memory.second.host, grown.memory.second.host, bare.shape.host.storage);
            }
            case_flag(report, same, "changes its host's steps", "%s%s %s (I-24)", name, hosts[of].name,
                      named(blueprints[k]));
            const bool counted = grown.memory.updates[NET_HOST] == 3 && grown.memory.updates[net_seed_part(0)] == 3 &&
                                 grown.memory.updates[net_gate_part(2, 0)] == 0;
            case_flag(report, counted && (blueprints[k] == BLUEPRINT_NOOP || with.slot_norm[0] > 0),
                      "does not learn, or its updates are not counted", "%s%s %s learns", name, hosts[of].name,
                      named(blueprints[k]));
        }
        scrap_free(&scrap);
    }
}

/* A sequence's logits do not depend on the others of its batch, nor gradients on how many fit into a group. */
void case_text_batch(struct check_report *report, const char *name)
{
    struct scrap scrap = {0};
    struct text_rig rig;
    text_init(&rig, &scrap, &small);
    const size_t count = text_logit_count(&rig), each = count / (size_t)small.samples;
    real *all = scrap_reals(&scrap, count), *alone = scrap_reals(&scrap, each);
    if (scrap_ready(&scrap, report, name)) {
        bool same = true;
        text_wake(&rig, 0, SLOT_BLEND, TRANSFORMER_ATTENTION, ALGORITHM_GATE, 0.7f);
        text_wake(&rig, 1, SLOT_BLEND, TRANSFORMER_MLP, ALGORITHM_MULTIPLY, 0.4f);
        text_randomise(&rig, 570);
        text_logits(&rig, rig.samples, all);
        const struct net_input input = transformer_input(rig.net);
        for (int n = 0; n < small.samples; n++) {
            memmove(input.tokens, input.tokens + (size_t)n * input.token_stride, input.token_stride);
            text_logits(&rig, 1, alone);
            same &= same_bits(alone, all + (size_t)n * each, each);
        }
        case_flag(report, same, "a sequence alone has other bits", "%s", name);
    }
    scrap_free(&scrap);
}

/* Configurations together equal each of them alone, whatever the others are. */
static void configs_of(struct check_report *report, const char *name, int layers)
{
    enum { CONFIGS = 9 };
    struct scrap scrap = {0};
    struct text_rig rig;
    struct text_host host = small;
    host.layers = layers;
    text_init(&rig, &scrap, &host);
    const size_t count = text_logit_count(&rig);
    real *all = scrap_reals(&scrap, CONFIGS * count), *alone = scrap_reals(&scrap, count);
    if (scrap_ready(&scrap, report, name)) {
        float alpha[CONFIGS][SHAPE_SLOTS] = {{0}};
        struct net_score scores[CONFIGS] = {{0}};
        bool same = true;
        for (int k = 0; k < CONFIGS; k++) {
            alpha[k][0] = (float)(k % 3) * 0.4f;
            alpha[k][1] = (float)(k / 3) * 0.5f;
        }
        text_wake(&rig, 0, SLOT_BLEND, TRANSFORMER_MLP_SMALL, ALGORITHM_GATE, 0.4f);
        text_wake(&rig, 1, SLOT_BLEND, TRANSFORMER_ATTENTION, ALGORITHM_ADD, 0.5f);
        text_randomise(&rig, 580);
        struct net_eval eval = {.samples = rig.samples,
                                .exec = rig.exec,
                                .configs = CONFIGS,
                                .alpha = (const float(*)[SHAPE_SLOTS])alpha,
                                .score = scores,
                                .logits = all};
        transformer_evaluate(rig.net, &rig.params, &eval);
        for (int k = 0; k < CONFIGS; k++) {
            struct net_score score = {0};
            struct net_eval one = eval;
            one.configs = 1;
            one.alpha = (const float(*)[SHAPE_SLOTS])alpha[k];
            one.score = &score;
            one.logits = alone;
            transformer_evaluate(rig.net, &rig.params, &one);
            same &= same_bits(alone, all + (size_t)k * count, count) && score.loss == scores[k].loss &&
                    score.hits == scores[k].hits && score.count == scores[k].count;
        }
        case_flag(report, same, "differs from the configurations one by one", "%s", name);
    }
    scrap_free(&scrap);
}

void case_text_configs(struct check_report *report, const char *name)
{
    for (int k = 0; k < HOSTS; k++) {
        char label[64];
        snprintf(label, sizeof label, "%s%s", name, hosts[k].name);
        configs_of(report, label, hosts[k].layers);
    }
}
