#include "transformer/blueprint.h"

static const struct seed_plan plans[TRANSFORMER_BLUEPRINTS] = {
    [TRANSFORMER_ATTENTION] = {.kind = BRANCH_ATTENTION, .wider = 3},
    [TRANSFORMER_NORM] = {.norm = true},
    [TRANSFORMER_LORA] = {.kind = BRANCH_LORA, .rank = 8},
    [TRANSFORMER_LORA_LARGE] = {.kind = BRANCH_LORA, .rank = SEED_RANK_MAX},
    [TRANSFORMER_MLP_SMALL] = {.kind = BRANCH_MLP, .wider = 2},
    [TRANSFORMER_MLP] = {.kind = BRANCH_MLP, .wider = 4},
};

const struct seed_plan *transformer_seed(int blueprint)
{
    const struct seed_plan *plan = &plans[blueprint >= 0 && blueprint < TRANSFORMER_BLUEPRINTS ? blueprint : 0];
    return plan->norm || plan->kind ? plan : NULL;
}

static void add_matrix(struct param_layout *layout, const char *name, int rows, int columns, bool zero)
{
    layout_add(layout, name, zero ? 0 : columns, 0, 2, (const int[]){rows, columns});
}

/* fan_in 0: all of them `value`. */
static void add_vector(struct param_layout *layout, const char *name, int size, int fan_in, float value)
{
    layout_add(layout, name, fan_in, value, 1, (const int[]){size});
}

void transformer_seed_layout(int blueprint, int width, struct param_layout *layout)
{
    const struct seed_plan *plan = transformer_seed(blueprint);
    *layout = (struct param_layout){0};
    if (!plan)
        return;
    const bool attention = plan->kind == BRANCH_ATTENTION;
    const int hidden = seed_hidden(plan, width);
    if (plan->norm) {
        add_vector(layout, "gamma", width, 0, 1);
        add_vector(layout, "beta", width, 0, 0);
        add_vector(layout, "sigma", 1, 0, 0);
    } else if (plan->kind == BRANCH_LORA) {
        add_matrix(layout, "d", hidden, width, false);
        add_matrix(layout, "u", width, hidden, true);
    } else {
        add_matrix(layout, attention ? "wqkv" : "w1", hidden, width, false);
        add_vector(layout, attention ? "bqkv" : "b1", hidden, width, 0);
        add_matrix(layout, attention ? "wp" : "w2", width, attention ? width : hidden, true);
        add_vector(layout, attention ? "bp" : "b2", width, 0, 0);
    }
}

double transformer_seed_macs(int blueprint, int width, int tokens)
{
    const struct seed_plan *plan = transformer_seed(blueprint);
    double c = width, t = tokens;
    if (!plan || plan->norm)
        return 0;
    if (plan->kind == BRANCH_ATTENTION)
        return t * (4 * c * c + 2 * t * c);
    return t * 2 * c * seed_hidden(plan, width);
}

int transformer_gate_hidden(int width)
{
    return width / 4 > 8 ? width / 4 : 8;
}

void transformer_gate_layout(int width, struct param_layout *layout)
{
    const int hidden = transformer_gate_hidden(width);
    *layout = (struct param_layout){0};
    add_matrix(layout, "gw1", hidden, width, false);
    add_vector(layout, "gb1", hidden, width, 0);
    add_matrix(layout, "gw2", 1, hidden, false);
    add_vector(layout, "gb2", 1, hidden, 0);
}
