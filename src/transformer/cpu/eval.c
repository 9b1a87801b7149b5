/*
 * Evaluation of many alpha configurations. They share their work as far as they agree: the network is walked depth
 * first, and at every blended slot the current configurations split into one branch per distinct alpha. The seed itself
 * runs once for all of them.
 */
#include <string.h>

#include "nn/tokens.h"
#include "transformer/cpu/work.h"

struct walk {
    struct net *net;
    const struct net_params *params;
    struct net_eval *eval;
    int first, sequences; /* of this group */
};

/* The configurations that have agreed so far. */
struct fork {
    int depth, count;
    uint8_t config[NET_MAX_CONFIGS];
};

static void walk_leaf(const struct walk *walk, const real *stream, const struct fork *fork)
{
    const struct net *net = walk->net;
    struct net_eval *eval = walk->eval;
    const size_t rows = net_rows(net, walk->sequences), classes = (size_t)net->shape->vocabulary;
    struct token_score score = {0};
    host_classify(net, walk->sequences, stream);
    for (int k = 0; eval->logits && k < fork->count; k++)
        memcpy(eval->logits + (net_rows(net, fork->config[k] * eval->samples + walk->first)) * classes, net->logits,
               sizeof(real) * rows * classes);
    for (int n = 0; n < walk->sequences; n++)
        token_loss(net->shape->context, (int)classes, net->logits + net_rows(net, n) * classes,
                   net->targets + (size_t)(walk->first + n) * net->target_stride, 0, &score);
    for (int k = 0; k < fork->count; k++)
        net_score_add(&eval->score[fork->config[k]], (struct net_score){score.loss, score.hits, rows});
}

static void walk_segment(const struct walk *walk, int segment, real *stream, const struct fork *fork);

/* One branch per distinct alpha of the slot that x enters. */
static void walk_slot(const struct walk *walk, int segment, int slot, const real *x, const struct fork *fork)
{
    const struct net *net = walk->net;
    const struct slot_exec *exec = &walk->eval->exec[slot];
    bool done[NET_MAX_CONFIGS] = {false}, ran = false;
    for (int k = 0; k < fork->count; k++) {
        if (done[k])
            continue;
        const float alpha = walk->eval->alpha[fork->config[k]][slot];
        struct fork part = {.depth = fork->depth + 1};
        for (int m = k; m < fork->count; m++) {
            if (walk->eval->alpha[fork->config[m]][slot] == alpha) {
                part.config[part.count++] = fork->config[m];
                done[m] = true;
            }
        }
        real *y = net->level[part.depth];
        if (alpha > 0) {
            if (!ran) /* nothing behind this slot touches what it leaves in the site */
                site_forward(net, walk->params, exec, slot, walk->sequences, x);
            ran = true;
            site_blend(net, exec, slot, (real)alpha, walk->sequences, y);
        } else {
            memcpy(y, x, sizeof(real) * net_rows(net, walk->sequences) * (size_t)net->shape->width);
        }
        walk_segment(walk, segment + 1, y, &part);
    }
}

/* The stream is this branch's own, to change. */
static void walk_segment(const struct walk *walk, int segment, real *stream, const struct fork *fork)
{
    const struct net *net = walk->net;
    const int each = transformer_segment_layers(net->shape);
    if (segment == net->shape->segments) {
        walk_leaf(walk, stream, fork);
        return;
    }
    for (int i = segment * each; i < (segment + 1) * each; i++)
        host_layer(net, i, walk->sequences, stream);
    const int slot = net->shape->slot_after[segment];
    if (slot >= 0 && net->seed[slot].awake)
        walk_slot(walk, segment, slot, stream, fork);
    else
        walk_segment(walk, segment + 1, stream, fork);
}

void transformer_evaluate(struct net *net, const struct net_params *params, struct net_eval *eval)
{
    struct walk walk = {.net = net, .params = params, .eval = eval};
    struct fork all = {.count = eval->configs};
    for (int k = 0; k < eval->configs; k++)
        all.config[k] = (uint8_t)k;
    host_begin(net, params, false);
    seeds_begin(net, params, eval->exec, true);
    for (walk.first = 0; walk.first < eval->samples; walk.first += net->group) {
        walk.sequences = eval->samples - walk.first < net->group ? eval->samples - walk.first : net->group;
        host_embed(net, params, walk.first, walk.sequences, net->level[0]);
        walk_segment(&walk, 0, net->level[0], &all);
    }
}
