/*
 * Evaluation of many alpha configurations. Running statistics leave images independent, so the configurations share
 * their work as far as they agree: the network is walked depth first, and at every blended slot the current
 * configurations split into one branch per distinct alpha. At the leaves of this tree there are integer counts.
 */
#include <string.h>

#include "cnn/cpu/work.h"

struct walk {
    struct net *net;
    const struct net_params *params;
    struct net_eval *eval;
    int first, images; /* of this group */
};

/* The configurations that have agreed so far. */
struct branch {
    int depth, count;
    uint8_t config[NET_MAX_CONFIGS];
};

static void walk_slot(const struct walk *walk, int i, int row, const real *h, const struct branch *branch);

static void walk_leaf(const struct walk *walk, const real *out, const struct branch *branch)
{
    struct net *net = walk->net;
    struct net_eval *eval = walk->eval;
    const struct net_block *last = &net->block[net->shape->blocks - 1];
    const int classes = net->shape->classes;
    struct loss_sums sums = {0};
    mean_forward(walk->images, (int)(last->out_map / (size_t)last->conv.cout_p), net->features_p, out, net->features);
    net_classify(net, walk->params, walk->images, net->features, net->logits);
    cross_entropy(walk->images, classes, net->classes_p, net->logits, net->labels + walk->first, NULL, &sums);
    for (int k = 0; k < branch->count; k++) {
        int config = branch->config[k];
        net_score_add(&eval->score[config], (struct net_score){sums.loss, sums.correct, (uint64_t)walk->images});
        for (int n = 0; eval->logits && n < walk->images; n++)
            memcpy(eval->logits + ((size_t)config * eval->samples + walk->first + n) * (size_t)classes,
                   net->logits + (size_t)n * net->classes_p, sizeof(real) * (size_t)classes);
    }
}

/* A block, from its input. */
static void walk_block(const struct walk *walk, int i, const real *in, const struct branch *branch)
{
    struct net *net = walk->net;
    struct net_block *block = &net->block[i];
    struct net_maps *maps = &net->level[branch->depth];
    const struct conv *conv = &block->conv;
    bool awake = block->slot[0] >= 0 && net->seed[block->slot[0]].blueprint;
    conv_forward(conv, walk->images, in, block->packed[0], maps->raw);
    if (block->pool && !awake) {
        pool_affine_forward(walk->images, conv->height, conv->width, conv->cout_p, maps->raw, block->norm.scale,
                            block->norm.shift, maps->blended,
                            placed_dense(maps->pooled, conv->height / 2, conv->width / 2, conv->cout_p));
        walk_slot(walk, i, 1, maps->pooled, branch);
    } else {
        channel_affine(walk->images * conv->height * conv->width, conv->cout_p, maps->raw, block->norm.scale,
                       block->norm.shift, true, NULL, maps->host);
        walk_slot(walk, i, 0, maps->host, branch);
    }
}

/* Continues after slot r{row}c{i}. */
static void walk_on(const struct walk *walk, int i, int row, const real *h, const struct branch *branch)
{
    struct net *net = walk->net;
    struct net_block *block = &net->block[i];
    struct net_maps *maps = &net->level[branch->depth];
    const struct conv *conv = &block->conv;
    if (row == 0 && block->pool) {
        pool_forward(walk->images, conv->height, conv->width, conv->cout_p, h, maps->pooled);
        walk_slot(walk, i, 1, maps->pooled, branch);
    } else if (i + 1 == net->shape->blocks) {
        walk_leaf(walk, h, branch);
    } else {
        const struct conv *next = &net->block[i + 1].conv;
        if (next->kernel == 3) {
            frame_images(walk->images, next->height, next->width, next->cin_p, h, maps->out);
            h = maps->out;
        }
        walk_block(walk, i + 1, h, branch);
    }
}

static void walk_slot(const struct walk *walk, int i, int row, const real *h, const struct branch *branch)
{
    struct net *net = walk->net;
    int slot = net->block[i].slot[row];
    if (slot < 0 || !net->seed[slot].blueprint) {
        walk_on(walk, i, row, h, branch);
        return;
    }
    bool done[NET_MAX_CONFIGS] = {false};
    for (int k = 0; k < branch->count; k++) {
        if (done[k])
            continue;
        float alpha = walk->eval->alpha[branch->config[k]][slot];
        struct branch part = {.depth = branch->depth + 1};
        for (int m = k; m < branch->count; m++) {
            if (walk->eval->alpha[branch->config[m]][slot] == alpha) {
                part.config[part.count++] = branch->config[m];
                done[m] = true;
            }
        }
        const real *y = h;
        if (alpha > 0) {
            real *blended = net->level[part.depth].blended;
            net_slot_forward(net, walk->params, &walk->eval->exec[slot], slot, (real)alpha, 0, walk->images, h,
                             blended);
            y = blended;
        }
        walk_on(walk, i, row, y, &part);
    }
}

void cnn_evaluate(struct net *net, const struct net_params *params, struct net_eval *eval)
{
    struct walk walk = {.net = net, .params = params, .eval = eval};
    struct branch all = {.count = eval->configs};
    for (int k = 0; k < eval->configs; k++)
        all.config[k] = (uint8_t)k;
    net_pack_host(net, params);
    net_begin_seeds(net, params, eval->exec, true);
    for (int i = 0; i < net->shape->blocks; i++) {
        const struct block_shape *b = &net->shape->block[i];
        batch_norm_eval(&net->block[i].norm, b->cout, net->block[i].conv.cout_p,
                        host_tensor(net, params->host, b->gamma), host_tensor(net, params->host, b->beta),
                        params->stats + b->mean, params->stats + b->var);
    }
    for (walk.first = 0; walk.first < eval->samples; walk.first += EVAL_GROUP) {
        walk.images = eval->samples - walk.first < EVAL_GROUP ? eval->samples - walk.first : EVAL_GROUP;
        walk_block(&walk, 0, net->block[0].in + (size_t)walk.first * net->block[0].conv.in_image, &all);
    }
}
