/* The one table of cases. */
#include "check/numeric_cases.h"

#include "check/numeric.h"

static const struct {
    const char *name;
    void (*run)(struct check_report *report, const char *name);
    bool wide_only; /* meaningful in double only */
} cases[] = {
    {"conv", case_conv, false},
    {"conv_rows", case_conv_rows, false},
    {"depthwise", case_depthwise, false},
    {"channels", case_channels, false},
    {"pool", case_pool, false},
    {"mean", case_mean, false},
    {"batch_norm", case_batch_norm, false},
    {"group_norm", case_group_norm, false},
    {"relu", case_relu, false},
    {"loss", case_loss, false},
    {"sgd", case_sgd, false},
    {"linear", case_linear, false},
    {"lstm_cell", case_lstm_cell, false},
    {"layer_norm", case_layer_norm, false},
    {"tanh", case_tanh, false},
    {"blend", case_blend, false},
    {"blend_add", case_blend_add, false},
    {"blend_multiply", case_blend_multiply, false},
    {"blend_gate", case_blend_gate, false},
    {"attenuation", case_attenuation, false},
    {"seed_shapes", case_seed_shapes, false},
    {"seed_birth", case_seed_birth, false},
    {"gradient_seed", case_gradient_seed, true},
    {"gradient_blend", case_gradient_blend, true},
    {"gradient_network", case_gradient_network, true},
    {"gradient_policy", case_gradient_policy, true},
    {"gradient_loss", case_gradient_loss, true},
};

void check_cases(struct check_report *report)
{
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (report_wants(report, cases[i].name) && (WIDE || !cases[i].wide_only))
            cases[i].run(report, cases[i].name);
}
