/* An exported network in either form, ready to run: a model by the trainer's kernels, a graph by plain loops. */
#ifndef MODEL_NETWORK_H
#define MODEL_NETWORK_H

#include "model/graph.h"
#include "model/runner.h"

struct network {
    struct model *model; /* this, */
    struct model_runner *model_runner;
    struct graph *graph; /* or this */
    struct graph_runner *graph_runner;
    struct model_sample sample;
    char source[MODEL_TEXT]; /* where it comes from, in one line; or "" */
};

enum { NETWORK_BATCH = 64 };

/* From a file that `esper export` wrote, to run at most so many samples at a time; only what Esper has data for is
 * accepted. Start from {0}, and close it even after an error. */
enum esper_status network_open(struct network *network, const char *path, int batch, struct esper_error *error);
/* From a model, which is the network's from now on, even after an error. */
enum esper_status network_take(struct network *network, struct model *model, int batch, struct esper_error *error);
void network_close(struct network *network);

/* samples [count][bytes], logits [count][targets][classes]. */
void network_logits(struct network *network, const uint8_t *samples, size_t count, float *logits);

#endif
