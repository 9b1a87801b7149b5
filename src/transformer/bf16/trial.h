/* A given batch on transformer_bf16 (fp32/trial.cu). */
#ifndef TRANSFORMER_BF16_TRIAL_H
#define TRANSFORMER_BF16_TRIAL_H

struct transformer_net;

/* Both passes and the step of env 0, whose windows are in place. */
void small_trial(struct transformer_net *net);

#endif
