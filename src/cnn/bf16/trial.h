/* Runs a given batch on cnn_bf16 (trial.h of fp32). */
#ifndef CNN_BF16_TRIAL_H
#define CNN_BF16_TRIAL_H

#include <cstdint>

struct runtime;
struct net_setup;
struct net_trial;

uint16_t trial_rounded(float x); /* to bf16, to nearest, ties to even; does not handle NAN */

/* The setup has the trial's arrays, its exec and rates. Fetches gradients, loss and the count of correct answers. */
void fast_trial(struct runtime *rt, const struct net_setup *setup, struct net_trial *given);

#endif
