/* A transformer of the case table, answered: a step of training with AdamW, and an evaluation of what it leaves. */
#include <stdio.h>

#include "check/numeric_cases.h"
#include "check/numeric_text.h"

static const struct net_rates rates = {.host = {OPTIMISER_ADAMW, 1e-2f, 0.9f, 0.95f, 1e-8f, 0.1f},
                                       .seed = {OPTIMISER_ADAMW, 3e-2f, 0.8f, 0.9f, 1e-8f, 0.05f},
                                       .max_grad_norm = 0.5};

/* Odd sizes: heads of ten and of five, a context that fills no panel and no tile, several groups and chunks. */
static const struct text_host plain = {29, 20, 2, 3, 11, 3, 7}, tall = {50, 24, 2, 1, 71, 1, 9};

/* Hosts for which bf16 has kernels: of the smaller width, a context that fills no tile and several blocks of a batch;
 * of the larger, a whole context; and as many sequences as a block takes at once. One has slots alone. */
static const struct text_host small = {256, 32, 2, 3, 41, 3, 5}, small_wide = {256, 64, 4, 3, 64, 3, 2},
                              small_full = {256, 64, 4, 3, 64, 3, 8}, layerless = {256, 32, 2, 0, 41, 3, 5};

static const int blueprints[] = {BLUEPRINT_NOOP,         TRANSFORMER_ATTENTION, TRANSFORMER_NORM, TRANSFORMER_LORA,
                                 TRANSFORMER_LORA_LARGE, TRANSFORMER_MLP_SMALL, TRANSFORMER_MLP};
static const struct {
    int mode, algorithm;
    float alpha;
    bool frozen, isolate;
} ways[] = {{SLOT_STE, ALGORITHM_ADD, 0, false, false},           {SLOT_BLEND, ALGORITHM_ADD, 0.3f, false, false},
            {SLOT_BLEND, ALGORITHM_MULTIPLY, 0.6f, false, false}, {SLOT_BLEND, ALGORITHM_GATE, 0.7f, false, false},
            {SLOT_BLEND, ALGORITHM_ADD, 1, false, false},         {SLOT_BLEND, ALGORITHM_GATE, 0.9f, true, false},
            {SLOT_BLEND, ALGORITHM_GATE, 0.4f, false, true},      {SLOT_BLEND, ALGORITHM_GATE, 0, false, false}};
enum {
    KINDS = sizeof blueprints / sizeof blueprints[0],
    WAYS = sizeof ways / sizeof ways[0],
    SEATS = 3,
    DEALT = (KINDS * WAYS + SEATS - 1) / SEATS, /* networks in which every blueprint is in every way once */
    TALL = 1 + DEALT,                           /* the first is bare, the last has long sequences */
    SMALL = TALL + 1,                           /* likewise for bf16 */
    SMALL_WIDE = SMALL + 1 + DEALT,
    WIDER = 6, /* of these, in which every blueprint is twice */
    LAYERLESS = SMALL_WIDE + WIDER,
    NETWORKS = LAYERLESS + 4, /* bare, and every blueprint and every way once at least */
    CONFIGS = 3               /* as it is; every other seed switched off; the bare host */
};

struct text_run {
    struct text_rig rig;
    struct answers *answers;
    double floor; /* below which gradients are what cancelled in the host's */
};

static void plant(struct text_rig *rig, int slot, int turn)
{
    const int way = turn / KINDS % WAYS;
    text_wake(rig, slot, ways[way].mode, blueprints[turn % KINDS], ways[way].algorithm, ways[way].alpha);
    rig->exec[slot].train = !ways[way].frozen;
    rig->exec[slot].isolate |= ways[way].isolate;
}

static const struct text_host *host_at(int index)
{
    return index < TALL            ? &plain
           : index == TALL         ? &tall
           : index < SMALL_WIDE    ? &small
           : index < LAYERLESS - 1 ? &small_wide
           : index < LAYERLESS     ? &small_full
                                   : &layerless;
}

static void build(struct text_run *run, int index, struct scrap *scrap)
{
    struct text_rig *rig = &run->rig;
    const int dealt = index < TALL ? index : index - SMALL, wide = index - SMALL_WIDE, slots = index - LAYERLESS;
    text_init(rig, scrap, host_at(index));
    if (scrap->failed)
        return;
    for (int j = 0; j < SEATS && dealt > 0 && index != TALL && index < SMALL_WIDE; j++)
        plant(rig, j, SEATS * (dealt - 1) + j);
    for (int j = 0; j < SEATS && wide > 0 && slots < 0; j++)
        plant(rig, j, (SEATS * (wide - 1) + j) % KINDS + KINDS * ((wide + j) % 4));
    for (int j = 0; j < SEATS && slots > 0; j++)
        plant(rig, j, (SEATS * (slots - 1) + j) % KINDS + KINDS * (SEATS * (slots - 1) + j));
    if (index == TALL)
        plant(rig, 0, KINDS + 1); /* attention */
    text_randomise(rig, 700 + 1000 * (uint32_t)index);
}

/* ---- parts: the host, and each seed and gate net that is there --------------------------------------------------- */

struct part {
    const struct param_layout *layout;
    real *values; /* of the arrays given */
    char name[48];
    bool learns;
};

/* The k-th of them; false after the last. */
static bool part_at(const struct text_rig *rig, const struct net_params *values, int k, struct part *part)
{
    *part = (struct part){&rig->shape.host, values->host, "host", true};
    if (k == 0)
        return true;
    for (int j = 0; j < rig->shape.slots; j++) {
        const struct slot_exec *exec = &rig->exec[j];
        if (exec->mode == SLOT_SKIP)
            continue;
        for (int gate = 0; gate <= (int)exec->gate; gate++) {
            if (--k > 0)
                continue;
            *part = (struct part){.layout = gate ? &rig->gate_layout : &rig->seed_layout[j],
                                  .values = gate ? values->gate + rig->shape.slot[j].gate
                                                 : values->seed + rig->shape.slot[j].seed,
                                  .learns = exec->train};
            snprintf(part->name, sizeof part->name, "%s %s", rig->shape.slot[j].id,
                     gate ? "gate" : family_blueprint(&transformer_family, exec->blueprint));
            return true;
        }
    }
    return false;
}

/* What lies between tensors means nothing. Steps are how far the values moved from what they were "before". */
static void each_part(struct text_run *run, enum answer_kind kind, const struct net_params *values, const char *what)
{
    struct part part;
    for (int k = 0; part_at(&run->rig, values, k, &part); k++) {
        char before[64];
        snprintf(before, sizeof before, "%s before", part.name);
        const struct answer *from = kind == ANSWER_STEPS ? answers_find(run->answers, before) : NULL;
        if (kind == ANSWER_GRADIENTS && !part.learns)
            continue;
        double *to = answers_add(run->answers, kind, kind == ANSWER_GRADIENTS ? run->floor : 0, part.layout->storage,
                                 "%s %s", part.name, what);
        for (int t = 0; to && t < part.layout->count; t++)
            for (size_t i = 0; i < part.layout->tensor[t].size; i++) {
                const size_t at = part.layout->tensor[t].offset + i;
                to[at] = (double)part.values[at] - (from ? from->value[at] : 0);
            }
    }
}

/* Moments unlike a newborn's; above all second ones that no gradient which is all rounding can do without. */
static void unsettle(struct text_rig *rig, uint32_t key)
{
    struct part first, second;
    for (int k = 0; part_at(rig, &rig->memory.first, k, &first) && part_at(rig, &rig->memory.second, k, &second); k++)
        for (int t = 0; t < first.layout->count; t++) {
            const struct tensor_layout *tensor = &first.layout->tensor[t];
            fill_random(first.values + tensor->offset, tensor->size, key + (uint32_t)k, 0.02);
            fill_random(second.values + tensor->offset, tensor->size, key + 50 + (uint32_t)k, 2e-4);
            for (size_t i = 0; i < tensor->size; i++)
                second.values[tensor->offset + i] += (real)3e-4;
        }
    for (int i = 0; i < net_parts(rig->shape.slots); i++)
        rig->memory.updates[i] = (uint32_t)(2 + i);
}

/* ---- passes ------------------------------------------------------------------------------------------------------ */

static void add_number(struct text_run *run, enum answer_kind kind, double number, const char *name)
{
    double *to = answers_add(run->answers, kind, 0, 1, "%s", name);
    if (to)
        *to = number;
}

static void measured(struct text_run *run, const struct net_result *result)
{
    for (int j = 0; j < run->rig.shape.slots; j++) {
        const struct slot_grads *grads = &result->grads[j];
        const char *id = run->rig.shape.slot[j].id;
        if (!grads->measured)
            continue;
        double *norm = answers_add(run->answers, ANSWER_GRADIENTS, run->floor, 1, "%s norm", id),
               *ratio = answers_add(run->answers, ANSWER_GRADIENTS, 0.1, 1, "%s ratio", id),
               *rest = answers_add(run->answers, ANSWER_COUNTS, 0, 2, "%s flags and health", id);
        if (run->answers->failed)
            return;
        *norm = grads->norm;
        *ratio = grads->ratio;
        rest[0] = 4 * grads->vanishing + 2 * grads->exploding + grads->finite;
        rest[1] = grads->health;
    }
}

static void train(struct text_run *run)
{
    struct text_rig *rig = &run->rig;
    struct net_result result = {0};
    each_part(run, ANSWER_INPUT, &rig->params, "before");
    if (run->answers->failed)
        return;
    text_step(rig, &rates, &result);
    const struct net_params grads = transformer_grads(rig->net);
    run->floor = 1e-2 * result.host_norm;
    add_number(run, ANSWER_VALUES, result.score.loss, "loss");
    add_number(run, ANSWER_COUNTS, result.score.hits, "targets predicted right");
    add_number(run, ANSWER_GRADIENTS, result.host_norm, "host norm");
    each_part(run, ANSWER_GRADIENTS, &grads, "gradient");
    measured(run, &result);
    each_part(run, ANSWER_GRADIENTS, &rig->memory.first, "first moment");
    each_part(run, ANSWER_GRADIENTS, &rig->memory.second, "second moment");
    each_part(run, ANSWER_STEPS, &rig->params, "step");
    double *updates = answers_add(run->answers, ANSWER_COUNTS, 0, (size_t)net_parts(rig->shape.slots), "updates");
    for (int i = 0; updates && i < net_parts(rig->shape.slots); i++)
        updates[i] = rig->memory.updates[i];
}

static void evaluate(struct text_run *run, struct scrap *scrap)
{
    struct text_rig *rig = &run->rig;
    float alpha[CONFIGS][SHAPE_SLOTS] = {{0}};
    struct net_score score[CONFIGS] = {{0}};
    for (int k = 0; k < CONFIGS; k++)
        for (int j = 0; j < rig->shape.slots; j++)
            alpha[k][j] = rig->exec[j].mode == SLOT_BLEND && (k == 0 || (k == 1 && j % 2)) ? rig->exec[j].alpha : 0;
    struct net_eval eval = {.samples = rig->samples,
                            .exec = rig->exec,
                            .configs = CONFIGS,
                            .alpha = (const float(*)[SHAPE_SLOTS])alpha,
                            .score = score,
                            .logits = scrap_reals(scrap, CONFIGS * text_logit_count(rig))};
    if (scrap->failed)
        return;
    transformer_evaluate(rig->net, &rig->params, &eval);
    answer_reals(run->answers, ANSWER_VALUES, 0, CONFIGS * text_logit_count(rig), eval.logits, "evaluated logits");
    double *losses = answers_add(run->answers, ANSWER_VALUES, 0, CONFIGS, "evaluated losses"),
           *hits = answers_add(run->answers, ANSWER_COUNTS, 0, CONFIGS, "evaluated hits");
    for (int k = 0; !run->answers->failed && k < CONFIGS; k++) {
        losses[k] = score[k].loss;
        hits[k] = score[k].hits;
    }
}

enum answer_status answer_text(const struct check_backend *backend, int index, struct answers *answers)
{
    struct scrap scrap = {0};
    struct text_run run = {.answers = answers};
    if (index >= NETWORKS)
        return ANSWER_END;
    snprintf(answers->name, sizeof answers->name, "%s %d",
             index == 0           ? "bare"
             : index < TALL       ? "grown"
             : index == TALL      ? "long"
             : index < SMALL_WIDE ? "small"
             : index < LAYERLESS  ? "wide"
                                  : "layerless",
             index);
    snprintf(answers->group, sizeof answers->group, index > TALL ? "small hosts" : "hosts");
    if (!backend)
        return ANSWER_GIVEN;
    build(&run, index, &scrap);
    const bool lacked = !scrap.failed && backend->takes && !backend->takes(&run.rig.shape, run.rig.samples);
    if (!scrap.failed && !lacked) {
        unsettle(&run.rig, 300 + 1000 * (uint32_t)index);
        train(&run);
        if (!answers->failed && !backend->rough)
            evaluate(&run, &scrap);
    }
    answers->failed = answers->failed || scrap.failed;
    scrap_free(&scrap);
    return lacked ? ANSWER_LACKED : ANSWER_GIVEN;
}
