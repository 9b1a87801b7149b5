/*
 * The learner's rules against golden vectors: normalisers, advantages, and whole PPO updates through the network
 * kernels of every float variant. Any file of the documented format, whatever its sizes and seeds.
 */
#ifndef CHECK_LEARN_VECTORS_H
#define CHECK_LEARN_VECTORS_H

#include "base/safetensors.h"
#include "check/report.h"

void check_normalizer_vectors(const struct st_file *file, struct check_report *report);
void check_gae_and_ppo_vectors(const struct st_file *file, struct check_report *report);

#endif
