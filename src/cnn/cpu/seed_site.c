#include <string.h>

#include "cnn/cpu/seed.h"

static void take_conv(struct conv *conv, int height, int width, int cin, int cout, int kernel, struct bump *bump)
{
    void *table = bump_take(bump, conv_table_bytes(height, width), 1);
    if (bump->base)
        conv_init(conv, height, width, cin, cout, kernel, table);
}

void seed_site_init(struct seed_site *site, int channels, int height, int width, int batch,
                    struct seed_scratch *scratch, struct bump *bump)
{
    int neck = blueprint_neck(channels), cp = padded(channels), neck_p = padded(neck);
    size_t wide = (size_t)(cp > neck_p ? cp : neck_p), pixels = (size_t)height * width;
    /* The larger of two 3x3 steps at slot width and down, 3x3, up through the neck. */
    size_t heavy = 2 * conv_packed_reals(height, width, channels, channels, 3);
    size_t through = 2 * conv_packed_reals(height, width, channels, neck, 1) +
                     conv_packed_reals(height, width, neck, neck, 3);
    size_t packed = heavy > through ? heavy : through;
    struct seed_site made = {.channels = channels,
                             .cp = cp,
                             .neck = neck,
                             .neck_p = neck_p,
                             .height = height,
                             .width = width,
                             .pixels = (int)pixels,
                             .batch = batch,
                             .map = pixels * cp,
                             .wide_map = pixels * wide,
                             .scratch = scratch};

    take_conv(&made.slot3, height, width, channels, channels, 3, bump);
    take_conv(&made.slot1, height, width, channels, channels, 1, bump);
    take_conv(&made.down, height, width, channels, neck, 1, bump);
    take_conv(&made.neck3, height, width, neck, neck, 3, bump);
    take_conv(&made.up, height, width, neck, channels, 1, bump);
    made.packed[0] = bump_take(bump, packed, sizeof(real));
    made.packed[1] = bump_take(bump, packed, sizeof(real));
    made.sums = bump_take(bump, packed, sizeof(real));
    made.dgamma = bump_take(bump, (size_t)SEED_NORMS * cp, sizeof(double));
    made.dbeta = bump_take(bump, (size_t)SEED_NORMS * cp, sizeof(double));
    for (int i = 0; i < CHAIN_STEPS; i++)
        made.pre[i] = bump_take(bump, (size_t)batch * made.wide_map, sizeof(real));
    for (int i = 0; i < SEED_NORMS; i++)
        made.norms[i] = bump_take(bump, (size_t)batch * NORM_ARRAYS * cp, sizeof(real));
    made.out = bump_take(bump, (size_t)batch * made.map, sizeof(real));
    made.gates = bump_take(bump, (size_t)batch * (size_t)(cp + neck_p + 1), sizeof(real));
    if (bump->base) {
        for (int i = 0; i < BLUEPRINT_COUNT; i++)
            blueprint_layout(i, channels, &made.layout[i]);
        gate_layout(channels, &made.gate_layout);
        *site = made;
    }
}

void seed_begin(const struct seed *seed)
{
    switch (seed->blueprint->kind) {
    case SEED_CHAIN:
        chain_begin(seed);
        break;
    case SEED_NORM:
        scale_begin(seed);
        break;
    case SEED_ATTENTION:
        attention_begin(seed);
        break;
    case SEED_NOOP:
        break;
    }
}

void seed_end(const struct seed *seed)
{
    if (seed->blueprint->kind == SEED_CHAIN)
        chain_end(seed);
    else if (seed->blueprint->kind == SEED_NORM)
        scale_end(seed);
}

void seed_forward(const struct seed *seed, int first, int images, const real *x, real *s)
{
    switch (seed->blueprint->kind) {
    case SEED_CHAIN:
        chain_forward(seed, first, images, x, s);
        break;
    case SEED_NORM:
        scale_forward(seed, first, images, x, s);
        break;
    case SEED_ATTENTION:
        attention_forward(seed, first, images, x, s);
        break;
    case SEED_NOOP:
        memcpy(s, x, sizeof(real) * (size_t)images * seed->site->map);
        break;
    }
}

void seed_backward(const struct seed *seed, int first, int images, const real *x, const real *u, real *dx)
{
    switch (seed->blueprint->kind) {
    case SEED_CHAIN:
        chain_backward(seed, first, images, x, u, dx);
        break;
    case SEED_NORM:
        scale_backward(seed, first, images, x, u, dx);
        break;
    case SEED_ATTENTION:
        attention_backward(seed, first, images, x, u, dx);
        break;
    case SEED_NOOP:
        if (dx)
            memcpy(dx, u, sizeof(real) * (size_t)images * seed->site->map);
        break;
    }
}
