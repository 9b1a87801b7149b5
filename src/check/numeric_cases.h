/* The cases of the selftest. Each reports under its own name, followed by what it was run on. */
#ifndef CHECK_NUMERIC_CASES_H
#define CHECK_NUMERIC_CASES_H

#include "check/numeric_util.h"

/* The rounding of one operation; limits are small multiples of it. */
#define ROUNDING (WIDE ? 0x1p-53 : 0x1p-24)

/* numeric_conv.c */
void case_conv(struct check_report *report, const char *name);
void case_conv_rows(struct check_report *report, const char *name);
void case_depthwise(struct check_report *report, const char *name);

/* numeric_ops.c */
void case_channels(struct check_report *report, const char *name);
void case_pool(struct check_report *report, const char *name);
void case_mean(struct check_report *report, const char *name);
void case_batch_norm(struct check_report *report, const char *name);
void case_group_norm(struct check_report *report, const char *name);
void case_relu(struct check_report *report, const char *name);
void case_loss(struct check_report *report, const char *name);
void case_sgd(struct check_report *report, const char *name);
void case_adamw(struct check_report *report, const char *name);

/* numeric_blend.c */
void case_tanh(struct check_report *report, const char *name);
void case_blend(struct check_report *report, const char *name);
void case_blend_add(struct check_report *report, const char *name);
void case_blend_multiply(struct check_report *report, const char *name);
void case_blend_gate(struct check_report *report, const char *name);
void case_attenuation(struct check_report *report, const char *name);

/* numeric_gradient.c */
void case_gradient_seed(struct check_report *report, const char *name);
void case_gradient_blend(struct check_report *report, const char *name);
void case_gradient_network(struct check_report *report, const char *name);

/* numeric_linear.c */
void case_linear(struct check_report *report, const char *name);
void case_lstm_cell(struct check_report *report, const char *name);
void case_layer_norm(struct check_report *report, const char *name);

/* numeric_text_cases.c */
void case_gelu(struct check_report *report, const char *name);
void case_token_loss(struct check_report *report, const char *name);
void case_gradient_text(struct check_report *report, const char *name);
void case_text_causal(struct check_report *report, const char *name);
void case_text_birth(struct check_report *report, const char *name);
void case_text_leaf(struct check_report *report, const char *name);
void case_text_batch(struct check_report *report, const char *name);
void case_text_configs(struct check_report *report, const char *name);

/* numeric_policy.c */
void case_gradient_policy(struct check_report *report, const char *name);

/* numeric_loss.c */
void case_gradient_loss(struct check_report *report, const char *name);

/* numeric_birth.c */
void case_seed_shapes(struct check_report *report, const char *name);
void case_seed_birth(struct check_report *report, const char *name);

/* numeric_networks.c, numeric_text_networks.c, numeric_policies.c */
enum answer_status answer_network(const struct check_backend *backend, int index, struct answers *answers);
enum answer_status answer_text(const struct check_backend *backend, int index, struct answers *answers);
enum answer_status answer_policy(const struct check_backend *backend, int index, struct answers *answers);

#endif
