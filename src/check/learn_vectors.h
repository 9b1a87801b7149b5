/*
 * The learner's rules against golden vectors: normalisers, advantages, and whole PPO updates through the network
 * kernels of every float variant, or of a device. Any file of the documented format, whatever its sizes and seeds.
 */
#ifndef CHECK_LEARN_VECTORS_H
#define CHECK_LEARN_VECTORS_H

#include "base/safetensors.h"
#include "check/report.h"
#include "learn/update_trial.h"
#include "policy/network.h"

void check_normalizer_vectors(const struct st_file *file, struct check_report *report);
void check_gae_and_ppo_vectors(const struct st_file *file, struct check_report *report);

/* What executes an update: its network and Adam's step, and the other parts of it. */
struct update_kernels {
    const char *name; /* NULL: not worth reporting */
    const struct policy_kernels *policy;
    void (*run)(struct update_trial *trial);
};
void check_gae_and_ppo_on(const struct update_kernels *kernels, const struct st_file *file,
                          struct check_report *report);

#endif
