/* Residual chains, s = x + chain(x): conv_light, conv_heavy, conv_small, bottleneck, depthwise. */
#include <string.h>

#include "cnn/cpu/seed.h"
#include "nn/channels.h"
#include "nn/flat.h"

/* A step of the chain with its tensors and memory resolved. */
struct step {
    const struct chain_step *what;
    const struct conv *conv; /* NULL for depthwise */
    int weight, gamma, beta; /* tensors of the layout; gamma and beta -1 where there is no norm */
    int norm;                /* index among the chain's norms, -1 if none */
    int out, out_p;          /* output channels */
    size_t in_map, out_map;
    real *packed[2], *sums;
    size_t packed_size;
    real *pre; /* saved output of the linear part, [batch][out_map] */
};

static const struct conv *step_conv(const struct seed_site *site, const struct chain_step *what)
{
    if (what->kind == STEP_CONV3)
        return what->from == WIDTH_NECK ? &site->neck3 : &site->slot3;
    if (what->kind == STEP_CONV1)
        return what->from == WIDTH_NECK ? &site->up : what->to == WIDTH_NECK ? &site->down : &site->slot1;
    return NULL;
}

static void chain_steps(const struct seed *seed, struct step steps[CHAIN_STEPS])
{
    const struct seed_site *site = seed->site;
    size_t used = 0, in_map = site->map;
    int tensor = 0, norm = 0;
    for (int i = 0; i < seed->blueprint->steps; i++) {
        const struct chain_step *what = &seed->blueprint->step[i];
        bool normed = what->act == ACT_NORM || what->act == ACT_NORM_RELU, neck = what->to == WIDTH_NECK;
        struct step *step = &steps[i];
        *step = (struct step){.what = what,
                              .conv = step_conv(site, what),
                              .weight = tensor++,
                              .gamma = -1,
                              .beta = -1,
                              .norm = -1,
                              .out = neck ? site->neck : site->channels,
                              .out_p = neck ? site->neck_p : site->cp,
                              .in_map = in_map};
        if (normed) {
            step->gamma = tensor++;
            step->beta = tensor++;
            step->norm = norm++;
        }
        step->out_map = (size_t)site->pixels * step->out_p;
        step->packed_size = step->conv ? conv_packed_size(step->conv) : 9 * (size_t)step->out_p;
        step->packed[0] = site->packed[0] + used;
        step->packed[1] = site->packed[1] + used;
        step->sums = site->sums + used;
        step->pre = site->pre[i];
        used += step->packed_size;
        in_map = step->out_map;
    }
}

/* [9][c] padded to [9][cp], taps reversed for backward-data. */
static void pack_depthwise(const real *w, int c, int cp, bool reverse, real *packed)
{
    for (int t = 0; t < 9; t++)
        for (int k = 0; k < cp; k++)
            packed[t * cp + k] = k < c ? w[(reverse ? 8 - t : t) * c + k] : 0;
}

void chain_begin(const struct seed *seed)
{
    struct step steps[CHAIN_STEPS];
    chain_steps(seed, steps);
    for (int i = 0; i < seed->blueprint->steps; i++) {
        const struct step *step = &steps[i];
        const real *w = seed_tensor(seed, step->weight);
        if (step->conv) {
            conv_pack_forward(step->conv, w, step->packed[0]);
            if (seed->backward)
                conv_pack_backward(step->conv, w, step->packed[1]);
        } else {
            pack_depthwise(w, step->out, step->out_p, false, step->packed[0]);
            if (seed->backward)
                pack_depthwise(w, step->out, step->out_p, true, step->packed[1]);
        }
        memset(step->sums, 0, sizeof(real) * step->packed_size);
    }
    memset(seed->site->dgamma, 0, sizeof(double) * SEED_NORMS * (size_t)seed->site->cp);
    memset(seed->site->dbeta, 0, sizeof(double) * SEED_NORMS * (size_t)seed->site->cp);
}

void chain_end(const struct seed *seed)
{
    struct step steps[CHAIN_STEPS];
    chain_steps(seed, steps);
    for (int i = 0; i < seed->blueprint->steps; i++) {
        const struct step *step = &steps[i];
        real *g = seed_grad(seed, step->weight);
        if (step->conv) {
            conv_unpack_weights(step->conv, step->sums, g);
        } else {
            for (int t = 0; t < 9; t++)
                memcpy(g + (size_t)t * step->out, step->sums + (size_t)t * step->out_p, sizeof(real) * step->out);
        }
        for (int k = 0; step->norm >= 0 && k < step->out; k++) {
            seed_grad(seed, step->gamma)[k] = (real)seed->site->dgamma[step->norm * seed->site->cp + k];
            seed_grad(seed, step->beta)[k] = (real)seed->site->dbeta[step->norm * seed->site->cp + k];
        }
    }
}

/* The step's linear part; 3x3 kernels read a framed copy of their input. */
static void step_linear(const struct seed_site *site, const struct step *step, int images, const real *in, real *out)
{
    int cin_p = (int)(step->in_map / (size_t)site->pixels);
    if (step->what->kind != STEP_CONV1) {
        frame_images(images, site->height, site->width, cin_p, in, site->scratch->framed_in);
        in = site->scratch->framed_in;
    }
    if (step->conv)
        conv_forward(step->conv, images, in, step->packed[0], out);
    else
        depthwise_forward(images, site->height, site->width, site->cp, in, step->packed[0], out);
}

/* What follows the linear part: from its saved output `pre` to `out`, plus `residual` where that is given. */
static void step_act(const struct seed_site *site, const struct step *step, int first, int images, const real *residual,
                     real *out)
{
    const real *pre = step->pre + (size_t)first * step->out_map;
    if (step->norm < 0) { /* only inside a chain: no residual */
        if (step->what->act == ACT_RELU)
            relu_forward((size_t)images * step->out_map, pre, out);
        else
            memcpy(out, pre, sizeof(real) * (size_t)images * step->out_map);
        return;
    }
    for (int n = 0; n < images; n++) {
        struct norm norm = seed_norm(site, step->norm, first + n);
        size_t at = (size_t)n * step->out_map;
        channel_affine(site->pixels, step->out_p, pre + at, norm.scale, norm.shift, step->what->act == ACT_NORM_RELU,
                       residual ? residual + at : NULL, out + at);
    }
}

void chain_forward(const struct seed *seed, int first, int images, const real *x, real *s)
{
    const struct seed_site *site = seed->site;
    struct step steps[CHAIN_STEPS];
    chain_steps(seed, steps);
    const real *in = x;
    for (int i = 0; i < seed->blueprint->steps; i++) {
        const struct step *step = &steps[i];
        real *pre = step->pre + (size_t)first * step->out_map;
        step_linear(site, step, images, in, pre);
        for (int n = 0; step->norm >= 0 && n < images; n++) {
            struct norm norm = seed_norm(site, step->norm, first + n);
            group_norm_forward(&norm, site->pixels, step->out, step->out_p, pre + (size_t)n * step->out_map,
                               seed_tensor(seed, step->gamma), seed_tensor(seed, step->beta));
        }
        bool last = i + 1 == seed->blueprint->steps;
        step_act(site, step, first, images, last ? x : NULL, last ? s : site->scratch->act);
        in = site->scratch->act;
    }
}

/* From the gradient after the step's act to the one before it. */
static void step_act_backward(const struct seed *seed, const struct step *step, int first, int images, const real *g,
                              real *out)
{
    const struct seed_site *site = seed->site;
    const real *pre = step->pre + (size_t)first * step->out_map;
    if (step->norm < 0) {
        if (step->what->act == ACT_RELU)
            relu_backward((size_t)images * step->out_map, pre, g, out);
        else
            memcpy(out, g, sizeof(real) * (size_t)images * step->out_map);
        return;
    }
    bool relu = step->what->act == ACT_NORM_RELU;
    for (int n = 0; n < images; n++) {
        struct norm norm = seed_norm(site, step->norm, first + n);
        size_t at = (size_t)n * step->out_map;
        group_norm_backward(&norm, site->pixels, step->out, step->out_p, pre + at, g + at, relu,
                            seed_tensor(seed, step->gamma), site->dgamma + step->norm * site->cp,
                            site->dbeta + step->norm * site->cp);
        channel_grad(1, 1, site->pixels, step->out_p, pre + at, g + at, norm.scale, norm.shift, relu, norm.gain,
                     norm.slope, norm.offset, placed_dense(out + at, 1, site->pixels, step->out_p));
    }
}

/* Weight gradient from the step's input, and the input gradient where `dx` is given. g is the gradient before the
 * act. */
static void step_linear_backward(const struct seed *seed, const struct step *step, int images, const real *in,
                                 const real *g, real *dx)
{
    const struct seed_site *site = seed->site;
    struct seed_scratch *scratch = site->scratch;
    const real *dense_grad = g;
    if (step->what->kind != STEP_CONV1) {
        int cin_p = (int)(step->in_map / (size_t)site->pixels);
        if (seed->train)
            frame_images(images, site->height, site->width, cin_p, in, scratch->framed_in);
        frame_images(images, site->height, site->width, step->out_p, g, scratch->framed_grad);
        in = scratch->framed_in;
        g = scratch->framed_grad;
    }
    if (step->conv) {
        if (seed->train)
            conv_backward_weights(step->conv, images, in, g, step->sums);
        if (dx)
            conv_backward_data(step->conv, images, g, step->packed[1], dx);
    } else {
        if (seed->train)
            depthwise_weights(images, site->height, site->width, site->cp, in, dense_grad, step->sums);
        if (dx)
            depthwise_forward(images, site->height, site->width, site->cp, g, step->packed[1], dx);
    }
}

void chain_backward(const struct seed *seed, int first, int images, const real *x, const real *u, real *dx)
{
    const struct seed_site *site = seed->site;
    struct seed_scratch *scratch = site->scratch;
    struct step steps[CHAIN_STEPS];
    chain_steps(seed, steps);
    const real *g = u;
    for (int i = seed->blueprint->steps - 1; i >= 0; i--) {
        const struct step *step = &steps[i];
        const real *in = x;
        step_act_backward(seed, step, first, images, g, scratch->grad_b);
        if (i > 0 && seed->train) {
            step_act(site, &steps[i - 1], first, images, NULL, scratch->act);
            in = scratch->act;
        }
        step_linear_backward(seed, step, images, in, scratch->grad_b, i > 0 || dx ? scratch->grad_a : NULL);
        g = scratch->grad_a;
    }
    if (dx) {
        memcpy(dx, u, sizeof(real) * (size_t)images * site->map);
        add_into((size_t)images * site->map, g, dx);
    }
}
