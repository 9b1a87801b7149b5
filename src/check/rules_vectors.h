/*
 * The rules against golden vectors: any safetensors file of the documented format, whatever its sizes and seeds.
 * Every compared tensor adds a result to the report; a missing or misshapen one fails.
 */
#ifndef CHECK_RULES_VECTORS_H
#define CHECK_RULES_VECTORS_H

#include "base/safetensors.h"
#include "check/report.h"

void check_alpha_vectors(const struct st_file *file, struct check_report *report);
void check_lifecycle_vectors(const struct st_file *file, struct check_report *report);

#endif
