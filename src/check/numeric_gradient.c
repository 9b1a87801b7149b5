/* Gradients of seeds, operators and whole networks against central differences (I-12); for the double variant. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "check/numeric_cases.h"
#include "check/numeric_probe.h"
#include "check/numeric_rig.h"
#include "check/numeric_solo.h"

/* ---- seeds and gate net alone ----------------------------------------------------------------------------------- */

struct seed_probe {
    struct solo solo;
    int blueprint; /* -1: the gate net */
    int images;
    size_t count;
    real *w, *g, *x, *y, *dy, *dx;
};

static double seed_loss(void *context)
{
    struct seed_probe *p = context;
    double sum = 0;
    if (p->blueprint < 0) {
        gate_forward(&p->solo.site, p->w, 0, p->images, p->x);
        for (int n = 0; n < p->images; n++)
            sum += (double)*gate_value(&p->solo.site, n) * (double)p->dy[n];
        return sum;
    }
    struct seed seed = solo_seed(&p->solo, p->blueprint, p->w, p->g);
    seed_begin(&seed);
    seed_forward(&seed, 0, p->images, p->x, p->y);
    for (size_t i = 0; i < p->count; i++)
        sum += (double)p->y[i] * (double)p->dy[i];
    return sum;
}

static void seed_gradients(struct seed_probe *p)
{
    seed_loss(p);
    if (p->blueprint < 0) {
        gate_backward(&p->solo.site, p->w, 0, p->images, p->dy, p->g, p->dx);
        return;
    }
    struct seed seed = solo_seed(&p->solo, p->blueprint, p->w, p->g);
    seed_backward(&seed, 0, p->images, p->x, p->dy, p->dx);
    seed_end(&seed);
}

static void seed_check(struct check_report *report, const char *name, int blueprint, const int shape[4])
{
    int images = shape[0], height = shape[1], width = shape[2], c = shape[3];
    struct scrap scrap = {0};
    struct seed_probe p = {.blueprint = blueprint, .images = images};
    struct param_layout layout;
    size_t pixels = (size_t)images * height * width;
    if (blueprint < 0)
        gate_layout(c, &layout);
    else
        blueprint_layout(blueprint, c, &layout);
    p.count = pixels * padded(c);
    real **maps[] = {&p.x, &p.y, &p.dy, &p.dx}, *dense = scrap_reals(&scrap, p.count);
    for (int i = 0; i < 4; i++)
        *maps[i] = scrap_reals(&scrap, p.count);
    p.w = scrap_reals(&scrap, layout.storage);
    p.g = scrap_reals(&scrap, layout.storage);
    real *grads = scrap_reals(&scrap, layout.storage);
    solo_init(&p.solo, &scrap, c, height, width, images);
    if (scrap_ready(&scrap, report, name)) {
        const char *what = blueprint < 0 ? "gate net" : blueprint_name(blueprint);
        const struct probe probe = {seed_loss, &p};
        char label[96];
        snprintf(label, sizeof label, "%s %s, %d channels, %d of %dx%d,", name, what, c, images, height, width);
        fill_layout(&layout, 200, p.w);
        fill_random(dense, pixels * c, 201, 1.5);
        pad_pixels(pixels, c, dense, p.x);
        fill_random(dense, pixels * c, 202, 1);
        pad_pixels(pixels, c, dense, p.dy);
        seed_gradients(&p);
        memcpy(grads, p.g, sizeof(real) * layout.storage); /* the probe's own passes clear them */
        probe_layout(report, &probe, &layout, p.w, grads, label);
        case_error(report, probe_error(&probe, p.x, p.dx, p.count, 203), FD_LIMIT, "%s input (I-12)", label);
    }
    scrap_free(&scrap);
}

void case_gradient_seed(struct check_report *report, const char *name)
{
    static const int shapes[][4] = {{3, 4, 5, 6}, {2, 3, 3, 16}, {2, 6, 2, 1}, {3, 1, 1, 32}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        for (int blueprint = -1; blueprint < BLUEPRINT_COUNT; blueprint++)
            seed_check(report, name, blueprint, shapes[i]);
}

/* ---- operators -------------------------------------------------------------------------------------------------- */

struct blend_probe {
    bool multiply;
    size_t count;
    real a, h[40], s[40], x[40], g[40];
};

/* y of the operator with the seed-input reference x given apart from h (D-33). */
static double blend_loss(void *context)
{
    const struct blend_probe *p = context;
    double sum = 0;
    for (size_t i = 0; i < p->count; i++) {
        double h = (double)p->h[i], s = (double)p->s[i], a = (double)p->a;
        double y = p->multiply ? h * (1 + a * tanh(s - (double)p->x[i])) : h + a * (s - h);
        sum += y * (double)p->g[i];
    }
    return sum;
}

void case_gradient_blend(struct check_report *report, const char *name)
{
    for (int multiply = 0; multiply < 2; multiply++) {
        struct blend_probe p = {.multiply = multiply, .count = 40, .a = (real)0.6};
        const struct probe probe = {blend_loss, &p};
        real dh[40], ds[40], dx[40] = {0};
        fill_random(p.h, p.count, 210, 1);
        memcpy(p.x, p.h, sizeof p.x);
        fill_random(p.s, p.count, 211, 1);
        fill_random(p.g, p.count, 212, 1);
        if (multiply) {
            blend_multiply_backward(p.count, p.h, p.s, p.g, p.a, dh, ds);
            subtract_from(p.count, ds, dx);
        } else {
            blend_add_backward(p.count, p.g, p.a, dh, ds);
        }
        double error = fmax(probe_error(&probe, p.h, dh, p.count, 213), probe_error(&probe, p.s, ds, p.count, 214));
        error = fmax(error, probe_error(&probe, p.x, dx, p.count, 215));
        if (!multiply) {
            real da = blend_amplitude_grad(p.count, p.h, p.s, p.g);
            error = fmax(error, probe_error(&probe, &p.a, &da, 1, 216));
        }
        case_error(report, error, FD_LIMIT, "%s %s (I-12)", name, multiply ? "MULTIPLY" : "ADD and GATE");
    }
}

/* ---- networks --------------------------------------------------------------------------------------------------- */

struct network_probe {
    struct rig rig;
    struct net_result result;
};

static double network_loss(void *context)
{
    struct network_probe *p = context;
    struct net_batch batch = rig_batch(&p->rig);
    cnn_gradients(p->rig.net, &p->rig.params, &batch, &p->result);
    return p->result.score.loss / p->rig.images;
}

/* The host's tensors from the first one after every isolated slot on. */
static int first_free_tensor(const struct network_case *network, const struct net_shape *shape)
{
    int first = 0;
    for (int i = 0; i < network->seats; i++)
        if (network->seat[i].isolate)
            first = cnn_shape_of(shape)->block[shape->slot[i].column + 1].weight;
    return first;
}

static void network_check(struct check_report *report, const char *name, const struct network_case *network)
{
    struct scrap scrap = {0};
    struct network_probe p;
    bool built = rig_build(&p.rig, network, &scrap);
    const struct net_shape *shape = &p.rig.shape;
    struct net_params kept = {.host = scrap_reals(&scrap, shape->host.storage),
                              .seed = scrap_reals(&scrap, shape->seed_storage),
                              .gate = scrap_reals(&scrap, shape->gate_storage)};
    if (!scrap_ready(&scrap, report, name) || !built)
        goto cleanup;
    const struct probe probe = {network_loss, &p};
    char label[96];
    network_loss(&p);
    struct net_params grads = cnn_grads(p.rig.net);
    memcpy(kept.host, grads.host, sizeof(real) * shape->host.storage);
    memcpy(kept.seed, grads.seed, sizeof(real) * shape->seed_storage);
    memcpy(kept.gate, grads.gate, sizeof(real) * shape->gate_storage);

    struct param_layout host = shape->host;
    int first = first_free_tensor(network, shape);
    host.count -= first;
    memmove(host.tensor, host.tensor + first, sizeof host.tensor[0] * (size_t)host.count);
    snprintf(label, sizeof label, "%s %s, host", name, network->name);
    probe_layout(report, &probe, &host, p.rig.params.host, kept.host, label);
    for (int j = 0; j < shape->slots; j++) {
        if (network->seat[j].mode == SLOT_SKIP || network->seat[j].frozen)
            continue;
        snprintf(label, sizeof label, "%s %s, %s in %s", name, network->name, blueprint_name(p.rig.exec[j].blueprint),
                 network->seat[j].id);
        probe_layout(report, &probe, rig_seed_layout(&p.rig, j), p.rig.params.seed + shape->slot[j].seed,
                     kept.seed + shape->slot[j].seed, label);
        if (p.rig.exec[j].gate)
            probe_layout(report, &probe, rig_gate_layout(&p.rig, j), p.rig.params.gate + shape->slot[j].gate,
                         kept.gate + shape->slot[j].gate, label);
    }
cleanup:
    scrap_free(&scrap);
}

void case_gradient_network(struct check_report *report, const char *name)
{
    struct network_case network;
    for (int i = 0; network_case_at(i, &network); i++)
        if (network.probed)
            network_check(report, name, &network);
}
