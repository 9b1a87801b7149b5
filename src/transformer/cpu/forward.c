/* The host's parts, from tokens to logits. */
#include <string.h>

#include "nn/flat.h"
#include "nn/tokens.h"
#include "transformer/cpu/work.h"

static void norm_begin(struct net *net, const struct net_params *params, struct layer_norm *norm, int gamma, int beta)
{
    norm->gamma = host_tensor(net, params->host, gamma);
    norm->beta = host_tensor(net, params->host, beta);
    norm->dgamma = host_grad(net, gamma);
    norm->dbeta = host_grad(net, beta);
}

/* A branch whose four tensors follow one another from `first` on. */
static struct branch_params host_branch(const struct net *net, const struct net_params *params, int first)
{
    return (struct branch_params){.w1 = host_tensor(net, params->host, first + BRANCH_W1),
                                  .b1 = host_tensor(net, params->host, first + BRANCH_B1),
                                  .w2 = host_tensor(net, params->host, first + BRANCH_W2),
                                  .b2 = host_tensor(net, params->host, first + BRANCH_B2),
                                  .dw1 = host_grad(net, first + BRANCH_W1),
                                  .db1 = host_grad(net, first + BRANCH_B1),
                                  .dw2 = host_grad(net, first + BRANCH_W2),
                                  .db2 = host_grad(net, first + BRANCH_B2)};
}

void host_begin(struct net *net, const struct net_params *params, bool backward)
{
    const int width = net->shape->width;
    for (int i = 0; i < net->shape->layers; i++) {
        struct layer *layer = &net->layer[i];
        norm_begin(net, params, &layer->norm[0], layer_tensor(i, LAYER_NORM1_GAMMA), layer_tensor(i, LAYER_NORM1_BETA));
        norm_begin(net, params, &layer->norm[1], layer_tensor(i, LAYER_NORM2_GAMMA), layer_tensor(i, LAYER_NORM2_BETA));
        branch_begin(&layer->branch[0], BRANCH_ATTENTION, width, 3 * width,
                     host_branch(net, params, layer_tensor(i, LAYER_QKV_WEIGHT)), backward);
        branch_begin(&layer->branch[1], BRANCH_MLP, width, MLP_WIDER * width,
                     host_branch(net, params, layer_tensor(i, LAYER_FC_WEIGHT)), backward);
    }
    norm_begin(net, params, &net->last, last_norm_gamma(net->shape), last_norm_beta(net->shape));
    net->classifier.in = width;
    net->classifier.out = net->shape->vocabulary;
    net->classifier.weight = host_tensor(net, params->host, HOST_TOKENS);
    net->classifier.dweight = host_grad(net, HOST_TOKENS);
    dense_pack(&net->classifier, backward);
}

void host_embed(const struct net *net, const struct net_params *params, int first, int sequences, real *stream)
{
    const size_t width = (size_t)net->shape->width, context = (size_t)net->shape->context;
    const real *token = host_tensor(net, params->host, HOST_TOKENS),
               *position = host_tensor(net, params->host, HOST_POSITIONS);
    for (int n = 0; n < sequences; n++) {
        const uint8_t *row = net->tokens + (size_t)(first + n) * (context + 1);
        for (size_t t = 0; t < context; t++, stream += width) {
            memcpy(stream, position + t * width, sizeof(real) * width);
            add_into(width, token + row[t] * width, stream);
        }
    }
}

/* h += branch(norm(h)), twice. */
void host_layer(const struct net *net, int i, int sequences, real *stream)
{
    const struct layer *layer = &net->layer[i];
    const int width = net->shape->width;
    const size_t rows = net_rows(net, sequences);
    for (int half = 0; half < 2; half++) {
        const struct layer_norm *norm = &layer->norm[half];
        layer_norm_forward((int)rows, width, stream, norm->gamma, norm->beta, norm->hat, norm->rstd, net->normed);
        branch_forward(&layer->branch[half], net, sequences, net->normed, net->added);
        add_into(rows * (size_t)width, net->added, stream);
    }
}

void host_classify(const struct net *net, int sequences, const real *stream)
{
    const struct layer_norm *norm = &net->last;
    const int rows = (int)net_rows(net, sequences);
    layer_norm_forward(rows, net->shape->width, stream, norm->gamma, norm->beta, norm->hat, norm->rstd, net->normed);
    dense_forward(&net->classifier, rows, net->normed, net->logits);
}
