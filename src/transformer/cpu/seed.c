/* Seeds, their gate nets, and how a slot mixes them into the stream. */
#include <math.h>
#include <string.h>

#include "nn/flat.h"
#include "nn/rows.h"
#include "nn/tokens.h"
#include "transformer/cpu/work.h"

/* ---- setting up ------------------------------------------------------------------------------------------------- */

void site_lay_out(struct site *site, const struct transformer_shape *shape, size_t rows, struct bump *bump)
{
    const size_t width = (size_t)shape->width;
    const int hidden = transformer_gate_hidden(shape->width);
    const struct attention attention = {shape->context, SEED_HEADS, shape->width / SEED_HEADS};
    const int mlp = MLP_WIDER * shape->width,
              widest = mlp > SEED_RANK_MAX ? mlp : SEED_RANK_MAX; /* an MLP, or a large LORA */
    struct site made = {0};
    branch_lay_out(&made.branch, shape->width, widest, &attention, rows, bump);
    made.norm.hat = bump_take(bump, rows * width, sizeof(real));
    made.norm.rstd = bump_take(bump, rows, sizeof(real));
    made.gate.packed[0] = bump_take(bump, dense_packed(shape->width, hidden), sizeof(real));
    made.gate.packed[1] = bump_take(bump, dense_packed(shape->width, hidden), sizeof(real));
    made.x = bump_take(bump, rows * width, sizeof(real));
    made.s = bump_take(bump, rows * width, sizeof(real));
    made.gate_hidden = bump_take(bump, rows * (size_t)hidden, sizeof(real));
    made.q = bump_take(bump, rows, sizeof(real));
    if (bump->base)
        *site = made;
}

/* A branch's tensors in a layout; `g` NULL where it does not learn. */
static struct branch_params params_of(const struct seed_plan *plan, const struct param_layout *layout, const real *w,
                                      real *g)
{
    const size_t at[4] = {layout->tensor[0].offset, layout->tensor[1].offset, layout->tensor[2].offset,
                          layout->tensor[3].offset};
    if (plan->kind == BRANCH_LORA)
        return (struct branch_params){.w1 = w + at[LORA_DOWN],
                                      .w2 = w + at[LORA_UP],
                                      .dw1 = g ? g + at[LORA_DOWN] : NULL,
                                      .dw2 = g ? g + at[LORA_UP] : NULL};
    return (struct branch_params){.w1 = w + at[BRANCH_W1],
                                  .b1 = w + at[BRANCH_B1],
                                  .w2 = w + at[BRANCH_W2],
                                  .b2 = w + at[BRANCH_B2],
                                  .dw1 = g ? g + at[BRANCH_W1] : NULL,
                                  .db1 = g ? g + at[BRANCH_B1] : NULL,
                                  .dw2 = g ? g + at[BRANCH_W2] : NULL,
                                  .db2 = g ? g + at[BRANCH_B2] : NULL};
}

static void gate_begin(struct net *net, const struct net_params *params, int slot, bool train, bool backward)
{
    struct dense *gate = &net->site[slot].gate;
    const struct slot_shape *place = &net->shape->net.slot[slot];
    const real *w = params->gate + place->gate;
    real *g = net->grads.gate + place->gate;
    const struct tensor_layout *tensor = net->gate_layout.tensor;
    gate->in = net->shape->width;
    gate->out = transformer_gate_hidden(gate->in);
    gate->weight = w + tensor[GATE_W1].offset;
    gate->bias = w + tensor[GATE_B1].offset;
    gate->dweight = train ? g + tensor[GATE_W1].offset : NULL;
    gate->dbias = train ? g + tensor[GATE_B1].offset : NULL;
    memset(g, 0, sizeof(real) * place->gate_storage);
    dense_pack(gate, backward);
}

void seeds_begin(struct net *net, const struct net_params *params, const struct slot_exec *exec, bool evaluating)
{
    for (int j = 0; j < net->shape->net.slots; j++) {
        struct seed *seed = &net->seed[j];
        const struct slot_shape *place = &net->shape->net.slot[j];
        seed->awake = exec[j].mode != SLOT_SKIP && !(evaluating && exec[j].mode == SLOT_STE);
        seed->plan = transformer_seed(exec[j].blueprint);
        if (!seed->awake)
            continue;
        const bool train = exec[j].train && !evaluating;
        const real *w = params->seed + place->seed;
        real *g = net->grads.seed + place->seed;
        transformer_seed_layout(exec[j].blueprint, net->shape->width, &seed->layout);
        /* Blueprints overlay one pool: what the last one left between the tensors must not count. */
        memset(g, 0, sizeof(real) * seed->layout.storage);
        if (seed->plan && !seed->plan->norm)
            branch_begin(&net->site[j].branch, seed->plan->kind, net->shape->width,
                         seed_hidden(seed->plan, net->shape->width),
                         params_of(seed->plan, &seed->layout, w, train ? g : NULL), !evaluating);
        if (exec[j].gate)
            gate_begin(net, params, j, train, !evaluating);
    }
}

/* ---- norm ------------------------------------------------------------------------------------------------------- */

static const real *seed_tensor(const struct net *net, const struct net_params *params, int slot, int tensor)
{
    return params->seed + net->shape->net.slot[slot].seed + net->seed[slot].layout.tensor[tensor].offset;
}

static real *seed_grad(const struct net *net, int slot, int tensor)
{
    return net->grads.seed + net->shape->net.slot[slot].seed + net->seed[slot].layout.tensor[tensor].offset;
}

static real mix_of(const struct net *net, const struct net_params *params, int slot)
{
    return (real)tanh((double)seed_tensor(net, params, slot, NORM_SIGMA)[0]);
}

/* s = x + t (LayerNorm(x) - x). */
static void norm_forward(const struct net *net, const struct net_params *params, int slot, size_t rows)
{
    const struct site *site = &net->site[slot];
    const real t = mix_of(net, params, slot);
    const size_t count = rows * (size_t)net->shape->width;
    layer_norm_forward((int)rows, net->shape->width, site->x, seed_tensor(net, params, slot, NORM_GAMMA),
                       seed_tensor(net, params, slot, NORM_BETA), site->norm.hat, site->norm.rstd, site->s);
    for (size_t i = 0; i < count; i++)
        site->s[i] = site->x[i] + t * (site->s[i] - site->x[i]);
}

/* dx = the gradient of x; u = dL/ds. */
static void norm_backward(const struct net *net, const struct net_params *params, int slot, size_t rows, bool train,
                          const real *u, real *dx)
{
    const struct site *site = &net->site[slot];
    const int width = net->shape->width;
    const size_t count = rows * (size_t)width;
    const real *gamma = seed_tensor(net, params, slot, NORM_GAMMA), *beta = seed_tensor(net, params, slot, NORM_BETA);
    const real t = mix_of(net, params, slot);
    real *du = net->grad_mixed; /* of LayerNorm's output */
    if (train) {
        double sum = 0;
        layer_norm_again((int)rows, width, site->norm.hat, gamma, beta, du);
        for (size_t r = 0; r < rows; r++)
            sum += (double)blend_amplitude_grad((size_t)width, site->x + r * (size_t)width, du + r * (size_t)width,
                                                u + r * (size_t)width);
        seed_grad(net, slot, NORM_SIGMA)[0] += (real)((1 - (double)t * (double)t) * sum);
    }
    for (size_t i = 0; i < count; i++) {
        du[i] = t * u[i];
        dx[i] = u[i] - du[i];
    }
    layer_norm_backward((int)rows, width, site->norm.hat, site->norm.rstd, gamma, du, dx,
                        train ? seed_grad(net, slot, NORM_GAMMA) : NULL,
                        train ? seed_grad(net, slot, NORM_BETA) : NULL);
}

/* ---- gate net --------------------------------------------------------------------------------------------------- */

static const real *gate_tensor(const struct net *net, const struct net_params *params, int slot, int tensor)
{
    return params->gate + net->shape->net.slot[slot].gate + net->gate_layout.tensor[tensor].offset;
}

static real *gate_grad(const struct net *net, int slot, int tensor)
{
    return net->grads.gate + net->shape->net.slot[slot].gate + net->gate_layout.tensor[tensor].offset;
}

static double sigmoid(double x)
{
    return x >= 0 ? 1 / (1 + exp(-x)) : exp(x) / (1 + exp(x));
}

void site_gate_forward(const struct net *net, const struct net_params *params, int slot, size_t rows)
{
    const struct site *site = &net->site[slot];
    const size_t hidden = (size_t)site->gate.out;
    const real *w = gate_tensor(net, params, slot, GATE_W2), bias = gate_tensor(net, params, slot, GATE_B2)[0];
    dense_forward(&site->gate, (int)rows, site->x, site->gate_hidden);
    for (size_t r = 0; r < rows; r++) {
        real *row = site->gate_hidden + r * hidden;
        double sum = (double)bias;
        relu_row((int)hidden, row);
        for (size_t k = 0; k < hidden; k++)
            sum += (double)w[k] * (double)row[k];
        site->q[r] = (real)sigmoid(sum);
    }
}

void site_gate_backward(const struct net *net, const struct net_params *params, int slot, size_t rows, bool train,
                        real *dx)
{
    const struct site *site = &net->site[slot];
    const size_t hidden = (size_t)site->gate.out;
    const real *w = gate_tensor(net, params, slot, GATE_W2);
    real *dw = gate_grad(net, slot, GATE_W2), *dbias = gate_grad(net, slot, GATE_B2), *dhidden = net->grad_mixed;
    for (size_t r = 0; r < rows; r++) {
        const real *row = site->gate_hidden + r * hidden, q = site->q[r], d = net->gate_grad[r] * q * (1 - q);
        for (size_t k = 0; k < hidden; k++) {
            dhidden[r * hidden + k] = row[k] > 0 ? d * w[k] : 0;
            if (train)
                dw[k] += d * row[k];
        }
        if (train)
            dbias[0] += d;
    }
    dense_backward(&site->gate, (int)rows, site->x, dhidden, dx ? net->grad_part : NULL, net->workspace);
    if (dx)
        add_into(rows * (size_t)net->shape->width, net->grad_part, dx);
}

/* ---- the slot --------------------------------------------------------------------------------------------------- */

static real clamp01(real a)
{
    return a < 0 ? 0 : a > 1 ? 1 : a;
}

static void seed_run(const struct net *net, const struct net_params *params, int slot, int sequences)
{
    const struct site *site = &net->site[slot];
    const struct seed_plan *plan = net->seed[slot].plan;
    const size_t rows = net_rows(net, sequences), count = rows * (size_t)net->shape->width;
    if (!plan) {
        memcpy(site->s, site->x, sizeof(real) * count);
    } else if (plan->norm) {
        norm_forward(net, params, slot, rows);
    } else {
        branch_forward(&site->branch, net, sequences, site->x, site->s);
        add_into(count, site->x, site->s);
    }
}

void site_forward(const struct net *net, const struct net_params *params, const struct slot_exec *exec, int slot,
                  int sequences, const real *x)
{
    const size_t rows = net_rows(net, sequences);
    memcpy(net->site[slot].x, x, sizeof(real) * rows * (size_t)net->shape->width);
    seed_run(net, params, slot, sequences);
    if (exec->gate)
        site_gate_forward(net, params, slot, rows);
}

/* The weight of a token's seed: alpha, scaled by the gate where there is one. */
static real amplitude_of(const struct site *site, const struct slot_exec *exec, real a, size_t row)
{
    return exec->gate ? clamp01(a * site->q[row]) : a;
}

void site_blend(const struct net *net, const struct slot_exec *exec, int slot, real alpha, int sequences, real *y)
{
    const struct site *site = &net->site[slot];
    const size_t rows = net_rows(net, sequences), width = (size_t)net->shape->width;
    const real a = clamp01(alpha);
    if (exec->algorithm == ALGORITHM_MULTIPLY) {
        blend_multiply_forward(rows * width, site->x, site->s, a, y);
        return;
    }
    if (!exec->gate) {
        blend_add_forward(rows * width, site->x, site->s, a, y);
        return;
    }
    for (size_t r = 0; r < rows; r++)
        blend_add_forward(width, site->x + r * width, site->s + r * width, amplitude_of(site, exec, a, r),
                          y + r * width);
}

/* From u = dL/ds to dx, where it is given; gradients are summed where the slot learns. */
static void seed_backward(const struct net *net, const struct net_params *params, const struct slot_exec *exec,
                          int slot, int sequences, const real *u, real *dx)
{
    const struct site *site = &net->site[slot];
    const struct seed_plan *plan = net->seed[slot].plan;
    const size_t rows = net_rows(net, sequences), count = rows * (size_t)net->shape->width;
    if (plan && plan->norm)
        norm_backward(net, params, slot, rows, exec->train, u, dx ? dx : net->normed);
    else if (plan)
        branch_backward(&site->branch, net, sequences, site->x, u, dx);
    else if (dx)
        memset(dx, 0, sizeof(real) * count);
    if (dx && !(plan && plan->norm)) /* s = x + ... */
        add_into(count, u, dx);
}

static void blend_backward(const struct net *net, const struct net_params *params, const struct slot_exec *exec,
                           int slot, int sequences, real *grad)
{
    const struct site *site = &net->site[slot];
    const size_t rows = net_rows(net, sequences), width = (size_t)net->shape->width, count = rows * width;
    real *ds = net->grad_seed, *dx = net->normed, *dh = net->added, a = clamp01((real)exec->alpha);
    if (a == 0) /* nothing of the seed is mixed in, so no gradient reaches it, whatever it holds */
        return;
    if (exec->algorithm == ALGORITHM_MULTIPLY) {
        blend_multiply_backward(count, site->x, site->s, grad, a, dh, ds);
    } else {
        for (size_t r = 0; r < rows; r++) {
            const size_t at = r * width;
            blend_add_backward(width, grad + at, amplitude_of(site, exec, a, r), dh + at, ds + at);
            net->gate_grad[r] = exec->gate ? a * blend_amplitude_grad(width, site->x + at, site->s + at, grad + at) : 0;
        }
    }
    if (exec->algorithm == ALGORITHM_MULTIPLY && !exec->isolate)
        subtract_from(count, ds, dh);
    if (exec->train || !exec->isolate)
        seed_backward(net, params, exec, slot, sequences, ds, exec->isolate ? NULL : dx);
    if (!exec->isolate)
        add_into(count, dx, dh);
    if (exec->gate)
        site_gate_backward(net, params, slot, rows, exec->train, exec->isolate ? NULL : dh);
    memcpy(grad, dh, sizeof(real) * count);
}

void site_backward(const struct net *net, const struct net_params *params, const struct slot_exec *exec, int slot,
                   int sequences, real *grad)
{
    if (exec->mode == SLOT_BLEND) {
        blend_backward(net, params, exec, slot, sequences, grad);
    } else if (exec->mode == SLOT_STE && exec->train) { /* learns from the gradient here, changes nothing (I-24) */
        seed_run(net, params, slot, sequences);
        seed_backward(net, params, exec, slot, sequences, grad, NULL);
    }
}
