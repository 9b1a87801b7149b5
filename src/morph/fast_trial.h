/* Runs a given batch on net_bf16 (net_trial.h). */
#ifndef MORPH_FAST_TRIAL_H
#define MORPH_FAST_TRIAL_H

struct context;
struct net_trial;

/* The context has the trial's world, its exec and rates. Fetches gradients, loss and the count of correct answers. */
void fast_trial(struct context *context, struct net_trial *given);

#endif
