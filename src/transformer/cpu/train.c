/*
 * One training batch: each group of sequences forward and then backward. Seeds in TRAINING are leaves: both of their
 * passes happen on the host's way back, where the gradient at their slot is available.
 */
#include <math.h>
#include <string.h>

#include "nn/flat.h"
#include "nn/tokens.h"
#include "transformer/cpu/work.h"

/* ---- forward ---------------------------------------------------------------------------------------------------- */

static void slot_forward(const struct net *net, const struct net_params *params, const struct slot_exec *exec, int slot,
                         int sequences)
{
    if (exec->mode == SLOT_STE) {
        memcpy(net->site[slot].x, net->stream, sizeof(real) * net_rows(net, sequences) * (size_t)net->shape->width);
    } else if (exec->mode == SLOT_BLEND && exec->alpha > 0) {
        site_forward(net, params, exec, slot, sequences, net->stream);
        site_blend(net, exec, slot, (real)exec->alpha, sequences, net->stream);
    }
}

static void group_forward(const struct net *net, const struct net_params *params, const struct net_batch *batch,
                          int first, int sequences)
{
    const int each = transformer_segment_layers(net->shape);
    host_embed(net, params, first, sequences, net->stream);
    for (int segment = 0; segment < net->shape->segments; segment++) {
        const int slot = net->shape->slot_after[segment];
        for (int i = segment * each; i < (segment + 1) * each; i++)
            host_layer(net, i, sequences, net->stream);
        if (slot >= 0)
            slot_forward(net, params, &batch->exec[slot], slot, sequences);
    }
    host_classify(net, sequences, net->stream);
}

/* ---- backward --------------------------------------------------------------------------------------------------- */

/* The logits are their gradients by now. */
static void classifier_backward(const struct net *net, int sequences)
{
    const struct layer_norm *norm = &net->last;
    const int rows = (int)net_rows(net, sequences), width = net->shape->width;
    dense_backward(&net->classifier, rows, net->normed, net->logits, net->grad_part, net->workspace);
    memset(net->grad, 0, sizeof(real) * (size_t)rows * (size_t)width);
    layer_norm_backward(rows, width, norm->hat, norm->rstd, norm->gamma, net->grad_part, net->grad, norm->dgamma,
                        norm->dbeta);
}

static void layer_backward(const struct net *net, int i, int sequences)
{
    const struct layer *layer = &net->layer[i];
    const int rows = (int)net_rows(net, sequences), width = net->shape->width;
    for (int half = 1; half >= 0; half--) {
        const struct layer_norm *norm = &layer->norm[half];
        layer_norm_again(rows, width, norm->hat, norm->gamma, norm->beta, net->normed);
        branch_backward(&layer->branch[half], net, sequences, net->normed, net->grad, net->grad_part);
        layer_norm_backward(rows, width, norm->hat, norm->rstd, norm->gamma, net->grad_part, net->grad, norm->dgamma,
                            norm->dbeta);
    }
}

static void embed_backward(const struct net *net, int first, int sequences)
{
    const size_t width = (size_t)net->shape->width, context = (size_t)net->shape->context;
    real *token = host_grad(net, HOST_TOKENS), *position = host_grad(net, HOST_POSITIONS);
    const real *grad = net->grad;
    for (int n = 0; n < sequences; n++) {
        const uint8_t *row = net->tokens + (size_t)(first + n) * (context + 1);
        for (size_t t = 0; t < context; t++, grad += width) {
            add_into(width, grad, token + row[t] * width);
            add_into(width, grad, position + t * width);
        }
    }
}

static void group_backward(const struct net *net, const struct net_params *params, const struct net_batch *batch,
                           int first, int sequences)
{
    const int each = transformer_segment_layers(net->shape);
    classifier_backward(net, sequences);
    for (int segment = net->shape->segments - 1; segment >= 0; segment--) {
        const int slot = net->shape->slot_after[segment];
        if (slot >= 0)
            site_backward(net, params, &batch->exec[slot], slot, sequences, net->grad);
        for (int i = (segment + 1) * each - 1; i >= segment * each; i--)
            layer_backward(net, i, sequences);
    }
    embed_backward(net, first, sequences);
}

void transformer_gradients(struct net *net, const struct net_params *params, const struct net_batch *batch,
                           struct net_result *result)
{
    const int context = net->shape->context;
    const real scale = (real)(1 / ((double)batch->samples * context));
    struct token_score score = {0};
    *result = (struct net_result){0};
    memset(net->grads.host, 0, sizeof(real) * net->shape->net.host.storage);
    host_begin(net, params, true);
    seeds_begin(net, params, batch->exec, false);
    for (int first = 0; first < batch->samples; first += net->group) {
        const int sequences = batch->samples - first < net->group ? batch->samples - first : net->group;
        group_forward(net, params, batch, first, sequences);
        for (int n = 0; n < sequences; n++)
            token_loss(context, net->shape->vocabulary, net->logits + net_rows(net, n) * (size_t)net->shape->vocabulary,
                       net->targets + (size_t)(first + n) * net->target_stride, scale, &score);
        group_backward(net, params, batch, first, sequences);
    }
    result->score = (struct net_score){score.loss, score.hits, (uint64_t)batch->samples * (uint64_t)context};
    result->host_norm = sqrt(square_norm(net->shape->net.host.storage, net->grads.host));
}

/* ---- statistics and update --------------------------------------------------------------------------------------- */

/* Adds to the sum of all squares. */
static void measure_tensors(const struct param_layout *layout, const real *g, struct gradient_tally *tally,
                            double *square)
{
    for (int t = 0; t < layout->count; t++) {
        double norm = sqrt(square_norm(layout->tensor[t].size, g + layout->tensor[t].offset));
        gradient_count(tally, norm);
        *square += norm * norm;
    }
}

void transformer_measure(struct net *net, const struct net_batch *batch, struct net_result *result)
{
    for (int j = 0; j < net->shape->net.slots; j++) {
        const struct slot_exec *exec = &batch->exec[j];
        const struct slot_shape *place = &net->shape->net.slot[j];
        result->grads[j] = gradient_none(exec->mode != SLOT_SKIP);
        if (exec->mode == SLOT_SKIP || !exec->train)
            continue;
        const struct param_layout *layout = &net->seed[j].layout;
        size_t params = layout->params + (exec->gate ? net->gate_layout.params : 0);
        struct gradient_tally tally = {0};
        double square = 0;
        measure_tensors(layout, net->grads.seed + place->seed, &tally, &square);
        if (exec->gate)
            measure_tensors(&net->gate_layout, net->grads.gate + place->gate, &tally, &square);
        result->grads[j] = gradient_report(&tally, sqrt(square), (double)params, result->host_norm,
                                           (double)net->shape->net.host.params);
    }
}

/* A part that was born as one: its arrays, and where its updates are counted. */
struct part {
    const struct param_layout *layout;
    const real *g;
    struct optimiser_piece at;
    uint32_t *updates;
    const struct transformer_shape *host; /* NULL: a seed or a gate net */
};

static real *beyond(real *array, size_t offset)
{
    return array ? array + offset : NULL;
}

static void part_step(const struct part *part, const struct optimiser *optimiser, real factor)
{
    const uint32_t update = part->updates ? ++*part->updates : 0;
    for (int t = 0; t < part->layout->count; t++) {
        const struct tensor_layout *tensor = &part->layout->tensor[t];
        const bool decays = part->host ? host_tensor_decays(part->host, t) : tensor->dims == 2;
        struct optimiser own = *optimiser;
        own.weight_decay = decays ? own.weight_decay : 0;
        const struct optimiser_piece piece = {part->at.w + tensor->offset, part->at.first + tensor->offset,
                                              beyond(part->at.second, tensor->offset)};
        optimiser_step(&own, tensor->size, update, factor, part->g + tensor->offset, piece);
    }
}

void transformer_update(struct net *net, const struct net_params *params, const struct net_memory *memory,
                        const struct net_batch *batch, const struct net_rates *rates, struct net_result *result)
{
    const struct net_shape *shape = &net->shape->net;
    const struct part host = {&shape->host,
                              net->grads.host,
                              {params->host, memory->first.host, memory->second.host},
                              net_updates(memory, NET_HOST),
                              net->shape};
    part_step(&host, &rates->host, (real)gradient_clip(result->host_norm, rates->max_grad_norm));
    for (int j = 0; j < shape->slots; j++) {
        if (!batch->exec[j].train)
            continue;
        const size_t at = shape->slot[j].seed, gate_at = shape->slot[j].gate;
        const struct part seed = {&net->seed[j].layout,
                                  net->grads.seed + at,
                                  {params->seed + at, memory->first.seed + at, beyond(memory->second.seed, at)},
                                  net_updates(memory, net_seed_part(j)),
                                  NULL};
        const struct part gate = {
            &net->gate_layout,
            net->grads.gate + gate_at,
            {params->gate + gate_at, memory->first.gate + gate_at, beyond(memory->second.gate, gate_at)},
            net_updates(memory, net_gate_part(shape->slots, j)),
            NULL};
        double square = square_norm(net->seed[j].layout.storage, seed.g);
        if (batch->exec[j].gate)
            square += square_norm(net->gate_layout.storage, gate.g);
        const real factor = (real)gradient_clip(sqrt(square), rates->max_grad_norm);
        result->slot_norm[j] = sqrt(square);
        part_step(&seed, &rates->seed, factor);
        if (batch->exec[j].gate)
            part_step(&gate, &rates->seed, factor);
    }
}
