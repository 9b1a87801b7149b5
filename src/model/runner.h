/* Runs a model on samples with the trainer's own kernels: its logits are the trainer's, bit for bit. */
#ifndef MODEL_RUNNER_H
#define MODEL_RUNNER_H

#include "model/model.h"

struct model_runner;

/* The model must outlive the runner, which runs at most `batch` samples at a time. */
enum esper_status model_runner_create(struct model_runner **out, const struct model *model, int batch,
                                      struct esper_error *error);
void model_runner_free(struct model_runner *runner);

/* samples [count][bytes], images as [size][size][3]; logits [count][targets][classes]. */
void model_logits(struct model_runner *runner, const uint8_t *samples, size_t count, float *logits);

#endif
