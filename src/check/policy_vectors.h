/*
 * Masks and observations against golden vectors: any safetensors file of the documented format, whatever its sizes and
 * seeds, up to the number of slots a policy can have.
 */
#ifndef CHECK_POLICY_VECTORS_H
#define CHECK_POLICY_VECTORS_H

#include "base/safetensors.h"
#include "check/report.h"

void check_mask_vectors(const struct st_file *file, struct check_report *report);
void check_observation_vectors(const struct st_file *file, struct check_report *report);

#endif
