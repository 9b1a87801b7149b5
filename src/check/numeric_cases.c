/* The one table of cases. */
#include "check/numeric_cases.h"

#include "check/numeric.h"

const struct numeric_case numeric_case_table[] = {
    {"conv", case_conv, NULL, false},
    {"conv_rows", case_conv_rows, NULL, false},
    {"depthwise", case_depthwise, NULL, false},
    {"channels", case_channels, NULL, false},
    {"pool", case_pool, NULL, false},
    {"mean", case_mean, NULL, false},
    {"batch_norm", case_batch_norm, NULL, false},
    {"group_norm", case_group_norm, NULL, false},
    {"relu", case_relu, NULL, false},
    {"loss", case_loss, NULL, false},
    {"sgd", case_sgd, NULL, false},
    {"adamw", case_adamw, NULL, false},
    {"linear", case_linear, NULL, false},
    {"lstm_cell", case_lstm_cell, NULL, false},
    {"layer_norm", case_layer_norm, NULL, false},
    {"tanh", case_tanh, NULL, false},
    {"blend", case_blend, NULL, false},
    {"blend_add", case_blend_add, NULL, false},
    {"blend_multiply", case_blend_multiply, NULL, false},
    {"blend_gate", case_blend_gate, NULL, false},
    {"attenuation", case_attenuation, NULL, false},
    {"seed_shapes", case_seed_shapes, NULL, false},
    {"seed_birth", case_seed_birth, NULL, false},
    {"gradient_seed", case_gradient_seed, NULL, true},
    {"gradient_blend", case_gradient_blend, NULL, true},
    {"gradient_network", case_gradient_network, NULL, true},
    {"gradient_policy", case_gradient_policy, NULL, true},
    {"gradient_loss", case_gradient_loss, NULL, true},
    {"network", NULL, answer_network, false},
    {"policy", NULL, answer_policy, false},
    {NULL, NULL, NULL, false},
};
