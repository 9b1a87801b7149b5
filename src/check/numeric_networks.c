/* A network of the case table, answered: a step of training, and an evaluation of what it leaves. */
#include <math.h>
#include <stdio.h>

#include "check/numeric_cases.h"
#include "check/numeric_rig.h"

/* Both norms are clipped, in most networks: seeds step more carefully than their host. */
static const struct net_rates rates = {.host = {.lr = 0.05f, .momentum = 0.9f, .weight_decay = 1e-3f},
                                       .seed = {.lr = 0.02f, .momentum = 0.8f, .weight_decay = 1e-4f},
                                       .max_grad_norm = 0.5};

enum { CONFIGS = 3 }; /* as it is; every other seed switched off; the bare host */

struct network_run {
    const struct network_case *network;
    struct rig rig;
    struct answers *answers;
    double floor; /* below which gradients are what cancelled in the host's */
};

static void add_number(struct network_run *run, enum answer_kind kind, double number, const char *name)
{
    double *to = answers_add(run->answers, kind, 0, 1, "%s", name);
    if (to)
        *to = number;
}

/* Momentum that is not zero, statistics unlike a newborn's. */
static void unsettle(struct rig *rig, uint32_t key)
{
    fill_random(rig->memory.first.host, rig->shape.host.storage, key + 900, 0.02);
    for (int j = 0; j < rig->shape.slots; j++) {
        const struct slot_shape *slot = &rig->shape.slot[j];
        if (rig->exec[j].mode == SLOT_SKIP)
            continue;
        fill_random(rig->memory.first.seed + slot->seed, rig_seed_layout(rig, j)->storage, key + 901, 0.02);
        if (rig->exec[j].gate)
            fill_random(rig->memory.first.gate + slot->gate, rig_gate_layout(rig, j)->storage, key + 902, 0.02);
    }
    for (int i = 0; i < rig->cnn.blocks; i++)
        for (int c = 0; c < rig->cnn.block[i].cout; c++) {
            rig->params.stats[rig->cnn.block[i].mean + (size_t)c] += (real)(0.01 * (c % 7));
            rig->params.stats[rig->cnn.block[i].var + (size_t)c] += (real)(0.02 * (c % 5));
        }
}

/* ---- parts: the host, and each seed and gate net that is there --------------------------------------------------- */

static void each_tensor(struct network_run *run, enum answer_kind kind, const struct param_layout *layout,
                        const real *values, const double *from, const char *what)
{
    double *to =
        answers_add(run->answers, kind, kind == ANSWER_GRADIENTS ? run->floor : 0, layout->storage, "%s", what);
    for (int t = 0; to && t < layout->count; t++) /* what lies between tensors means nothing */
        for (size_t i = layout->tensor[t].offset; i < layout->tensor[t].offset + layout->tensor[t].size; i++)
            to[i] = (double)values[i] - (from ? from[i] : 0);
}

/* `before`: the parameters that these are subtracted from; NULL: nothing is. */
static void each_part(struct network_run *run, enum answer_kind kind, const struct net_params *values,
                      const struct answers *before, const char *what)
{
    char name[48];
    snprintf(name, sizeof name, "host %s", what);
    each_tensor(run, kind, &run->rig.shape.host, values->host,
                before ? answers_find(before, "host before")->value : NULL, name);
    for (int j = 0; j < run->rig.shape.slots; j++) {
        const struct slot_shape *slot = &run->rig.shape.slot[j];
        const struct network_seat *seat = &run->network->seat[j];
        if (seat->mode == SLOT_SKIP || (kind == ANSWER_GRADIENTS && seat->frozen))
            continue;
        for (int gate = 0; gate <= (int)run->rig.exec[j].gate; gate++) {
            const char *part = gate ? "gate" : blueprint_name(seat->blueprint);
            const double *from = NULL;
            if (before) {
                snprintf(name, sizeof name, "%s %s before", seat->id, part);
                from = answers_find(before, name)->value;
            }
            snprintf(name, sizeof name, "%s %s %s", seat->id, part, what);
            each_tensor(run, kind, gate ? rig_gate_layout(&run->rig, j) : rig_seed_layout(&run->rig, j),
                        gate ? values->gate + slot->gate : values->seed + slot->seed, from, name);
        }
    }
}

static void inputs(struct network_run *run)
{
    struct rig *rig = &run->rig;
    const struct net_input input = cnn_input(rig->net);
    const struct block_shape *first = &rig->cnn.block[0];
    double *pixels = answers_add(run->answers, ANSWER_INPUT, 0,
                                 (size_t)(rig->images * first->height * first->width * 3), "pixels"),
           *labels = answers_add(run->answers, ANSWER_INPUT, 0, (size_t)rig->images, "labels");
    for (int n = 0; !run->answers->failed && n < rig->images; n++) {
        labels[n] = rig->labels[n];
        for (int y = 0; y < first->height; y++)
            for (int x = 0; x < first->width; x++)
                for (int c = 0; c < 3; c++)
                    *pixels++ = (double)input.pixels[(size_t)n * input.image_stride + (size_t)y * input.row_stride +
                                                     (size_t)(4 * x + c)];
    }
    each_part(run, ANSWER_INPUT, &rig->params, NULL, "before");
    answer_reals(run->answers, ANSWER_INPUT, 0, rig->shape.stats, rig->params.stats, "stats before");
}

/* ---- passes ------------------------------------------------------------------------------------------------------ */

/* Whether some tensor has no gradient but rounding: whether that is below 1e-7, which is called vanished, is a matter
 * of precision and cannot be compared; golden vectors compare it. */
static bool is_doubtful(const struct param_layout *layout, const real *grads)
{
    for (int t = 0; t < layout->count; t++) {
        const struct tensor_layout *tensor = &layout->tensor[t];
        double square = 0;
        for (size_t i = tensor->offset; i < tensor->offset + tensor->size; i++)
            square += (double)grads[i] * (double)grads[i];
        if (square < 1e-10)
            return true;
    }
    return false;
}

static bool slot_is_doubtful(const struct rig *rig, const struct net_params *grads, int slot)
{
    const struct slot_shape *shape = &rig->shape.slot[slot];
    return is_doubtful(rig_seed_layout(rig, slot), grads->seed + shape->seed) ||
           (rig->exec[slot].gate && is_doubtful(rig_gate_layout(rig, slot), grads->gate + shape->gate));
}

static void measured(struct network_run *run, const struct net_params *gradients, const struct net_result *result)
{
    for (int j = 0; j < run->rig.shape.slots; j++) {
        const struct slot_grads *grads = &result->grads[j];
        if (!grads->measured)
            continue;
        const char *id = run->network->seat[j].id;
        double *norm = answers_add(run->answers, ANSWER_GRADIENTS, run->floor, 1, "%s norm", id),
               *ratio = answers_add(run->answers, ANSWER_GRADIENTS, 0.1, 1, "%s ratio", id),
               *rest = answers_add(run->answers, ANSWER_COUNTS, 0, 2, "%s flags and health", id);
        if (run->answers->failed)
            return;
        *norm = grads->norm;
        *ratio = grads->ratio;
        const bool doubtful = !run->network->seat[j].frozen && slot_is_doubtful(&run->rig, gradients, j);
        rest[0] = 4 * (grads->vanishing && !doubtful) + 2 * grads->exploding + grads->finite;
        rest[1] = doubtful ? 1 : grads->health;
    }
}

static void train(struct network_run *run, const struct check_backend *backend)
{
    struct rig *rig = &run->rig;
    struct net_result result = {0};
    int stride;
    rig_step(rig, &rates, &result);
    add_number(run, ANSWER_VALUES, result.score.loss, "loss");
    add_number(run, ANSWER_COUNTS, result.score.hits, "correct answers");
    const real *logits = cnn_logits(rig->net, &stride);
    double *to = backend->rough
                     ? NULL
                     : answers_add(run->answers, ANSWER_VALUES, 0, (size_t)(rig->images * rig->cnn.classes), "logits");
    for (int i = 0; to && i < rig->images * rig->cnn.classes; i++)
        to[i] = (double)logits[i / rig->cnn.classes * stride + i % rig->cnn.classes];
    const struct net_params grads = cnn_grads(rig->net);
    double square = 0;
    for (int t = 0; t < rig->shape.host.count; t++) {
        const struct tensor_layout *tensor = &rig->shape.host.tensor[t];
        for (size_t i = tensor->offset; i < tensor->offset + tensor->size; i++)
            square += (double)grads.host[i] * (double)grads.host[i];
    }
    run->floor = 1e-2 * sqrt(square);
    add_number(run, ANSWER_GRADIENTS, result.host_norm, "host norm");
    each_part(run, ANSWER_GRADIENTS, &grads, NULL, "gradient");
    measured(run, &grads, &result);
    each_part(run, ANSWER_GRADIENTS, &rig->memory.first, NULL, "momentum");
    each_part(run, ANSWER_STEPS, &rig->params, run->answers, "step");
    answer_reals(run->answers, ANSWER_STATS, 0, rig->shape.stats, rig->params.stats, "running statistics");
}

static void evaluate(struct network_run *run, struct scrap *scrap)
{
    struct rig *rig = &run->rig;
    float alpha[CONFIGS][SHAPE_SLOTS] = {{0}};
    struct net_score score[CONFIGS] = {{0}};
    for (int k = 0; k < CONFIGS; k++)
        for (int j = 0; j < rig->shape.slots; j++)
            alpha[k][j] = rig->exec[j].mode == SLOT_BLEND && (k == 0 || (k == 1 && j % 2)) ? rig->exec[j].alpha : 0;
    struct net_eval eval = {.samples = rig->images,
                            .exec = rig->exec,
                            .configs = CONFIGS,
                            .alpha = (const float(*)[SHAPE_SLOTS])alpha,
                            .score = score,
                            .logits = scrap_reals(scrap, (size_t)(CONFIGS * rig->images * rig->cnn.classes))};
    if (scrap->failed)
        return;
    cnn_evaluate(rig->net, &rig->params, &eval);
    add_number(run, ANSWER_VALUES, score[0].loss, "evaluated loss");
    answer_reals(run->answers, ANSWER_VALUES, 0, (size_t)(CONFIGS * rig->images * rig->cnn.classes), eval.logits,
                 "evaluated logits");
    double *counts = answers_add(run->answers, ANSWER_COUNTS, 0, CONFIGS, "evaluated correct answers");
    for (int k = 0; counts && k < CONFIGS; k++)
        counts[k] = score[k].hits;
}

static bool has_isolated_blend(const struct network_case *network)
{
    for (int j = 0; j < network->seats; j++)
        if (network->seat[j].mode == SLOT_BLEND && network->seat[j].isolate)
            return true;
    return false;
}

enum answer_status answer_network(const struct check_backend *backend, int index, struct answers *answers)
{
    struct network_case network;
    struct scrap scrap = {0};
    if (!network_case_at(index, &network))
        return ANSWER_END;
    struct network_run run = {.network = &network, .answers = answers};
    snprintf(answers->name, sizeof answers->name, "%s", network.name);
    snprintf(answers->group, sizeof answers->group, "%s", network.group);
    answers->sensitive = network.host.base < 8 || network.host.blocks > 3;
    if (!backend)
        return ANSWER_GIVEN;
    const bool built = rig_build(&run.rig, &network, &scrap);
    const bool lacked = (backend->takes && !backend->takes(&run.rig.shape, network.host.images)) ||
                        (backend->rough && has_isolated_blend(&network));
    if (built && !lacked) {
        unsettle(&run.rig, network.key);
        inputs(&run);
        if (!answers->failed)
            train(&run, backend);
        if (!answers->failed && !backend->rough)
            evaluate(&run, &scrap);
    }
    answers->failed = answers->failed || scrap.failed;
    scrap_free(&scrap);
    return lacked ? ANSWER_LACKED : ANSWER_GIVEN;
}
