#include "cnn/blueprint.h"

#include "cnn/shape.h"

/* ReLU-terminated chains start with ordinary weights: a zero branch that ends in ReLU is dead (D-02). */
static const struct seed_blueprint blueprints[BLUEPRINT_COUNT] = {
    [BLUEPRINT_NOOP] = {SEED_NOOP, 0, {{0}}},
    [BLUEPRINT_CONV_LIGHT] = {SEED_CHAIN,
                              1,
                              {{STEP_CONV3, WIDTH_SLOT, WIDTH_SLOT, ACT_NORM_RELU, "w", "gamma", "beta", false}}},
    [BLUEPRINT_ATTENTION] = {SEED_ATTENTION, 0, {{0}}},
    [BLUEPRINT_NORM] = {SEED_NORM, 0, {{0}}},
    [BLUEPRINT_DEPTHWISE] = {SEED_CHAIN,
                             2,
                             {{STEP_DEPTHWISE, WIDTH_SLOT, WIDTH_SLOT, ACT_NONE, "dw", NULL, NULL, false},
                              {STEP_CONV1, WIDTH_SLOT, WIDTH_SLOT, ACT_NORM_RELU, "pw", "gamma", "beta", false}}},
    [BLUEPRINT_BOTTLENECK] = {SEED_CHAIN,
                              3,
                              {{STEP_CONV1, WIDTH_SLOT, WIDTH_NECK, ACT_RELU, "wd", NULL, NULL, false},
                               {STEP_CONV3, WIDTH_NECK, WIDTH_NECK, ACT_RELU, "w3", NULL, NULL, false},
                               {STEP_CONV1, WIDTH_NECK, WIDTH_SLOT, ACT_NORM, "wu", "gamma", "beta", true}}},
    [BLUEPRINT_CONV_SMALL] = {SEED_CHAIN,
                              1,
                              {{STEP_CONV1, WIDTH_SLOT, WIDTH_SLOT, ACT_NORM_RELU, "w", "gamma", "beta", false}}},
    [BLUEPRINT_CONV_HEAVY] = {SEED_CHAIN,
                              2,
                              {{STEP_CONV3, WIDTH_SLOT, WIDTH_SLOT, ACT_NORM_RELU, "w1", "gamma1", "beta1", false},
                               {STEP_CONV3, WIDTH_SLOT, WIDTH_SLOT, ACT_NORM_RELU, "w2", "gamma2", "beta2", false}}},
};

const struct seed_blueprint *blueprint_at(int index)
{
    return index >= 0 && index < BLUEPRINT_COUNT ? &blueprints[index] : NULL;
}

int blueprint_neck(int channels)
{
    return channels / 4 > 8 ? channels / 4 : 8;
}

int blueprint_squeeze(int channels)
{
    return channels / 4 > 1 ? channels / 4 : 1;
}

static void layout_vector(struct param_layout *layout, const char *name, int size, float value)
{
    layout_add(layout, name, 0, value, 1, (const int[]){size});
}

static int width_of(enum step_width width, int channels)
{
    return width == WIDTH_SLOT ? channels : blueprint_neck(channels);
}

static void chain_layout(const struct seed_blueprint *blueprint, int channels, struct param_layout *layout)
{
    for (int i = 0; i < blueprint->steps; i++) {
        const struct chain_step *step = &blueprint->step[i];
        int from = width_of(step->from, channels), to = width_of(step->to, channels);
        int k = step->kind == STEP_CONV1 ? 1 : 3;
        if (step->kind == STEP_DEPTHWISE)
            layout_add(layout, step->weight, step->zero ? 0 : k * k, 0, 3, (const int[]){k, k, from});
        else
            layout_add(layout, step->weight, step->zero ? 0 : from * k * k, 0, 4, (const int[]){to, k, k, from});
        if (step->gamma) {
            layout_vector(layout, step->gamma, to, 1);
            layout_vector(layout, step->beta, to, 0);
        }
    }
}

void blueprint_layout(int index, int channels, struct param_layout *layout)
{
    const struct seed_blueprint *blueprint = blueprint_at(index);
    *layout = (struct param_layout){0};
    switch (blueprint->kind) {
    case SEED_NOOP:
        break;
    case SEED_CHAIN:
        chain_layout(blueprint, channels, layout);
        break;
    case SEED_NORM:
        layout_vector(layout, "gamma", channels, 1);
        layout_vector(layout, "beta", channels, 0);
        layout_vector(layout, "sigma", 1, 0);
        break;
    case SEED_ATTENTION: { /* the excite net starts closed at sigmoid(3) = 0.95: nearly the identity */
        int hidden = blueprint_squeeze(channels);
        layout_add(layout, "w1", channels, 0, 2, (const int[]){hidden, channels});
        layout_add(layout, "w2", 0, 0, 2, (const int[]){channels, hidden});
        layout_vector(layout, "b2", channels, 3);
        break;
    }
    }
}

uint64_t blueprint_macs(int index, int channels, int pixels)
{
    const struct seed_blueprint *blueprint = blueprint_at(index);
    uint64_t macs = 0;
    for (int i = 0; i < blueprint->steps; i++) {
        const struct chain_step *step = &blueprint->step[i];
        uint64_t from = (uint64_t)width_of(step->from, channels), to = (uint64_t)width_of(step->to, channels);
        uint64_t taps = step->kind == STEP_CONV1 ? 1 : 9;
        macs += taps * (step->kind == STEP_DEPTHWISE ? to : from * to) * (uint64_t)pixels;
    }
    if (blueprint->kind == SEED_ATTENTION)
        macs = 2u * (uint64_t)channels * (uint64_t)blueprint_squeeze(channels);
    return macs;
}

void gate_layout(int channels, struct param_layout *layout)
{
    int hidden = blueprint_neck(channels);
    *layout = (struct param_layout){0};
    layout_add(layout, "gw1", channels, 0, 2, (const int[]){hidden, channels});
    layout_add(layout, "gb1", channels, 0, 1, (const int[]){hidden});
    layout_add(layout, "gw2", hidden, 0, 2, (const int[]){1, hidden});
    layout_add(layout, "gb2", hidden, 0, 1, (const int[]){1});
}
