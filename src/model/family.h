/* How a family's networks leave their run: what is its own about a model's files and its graph. */
#ifndef MODEL_FAMILY_H
#define MODEL_FAMILY_H

#include "base/json.h"
#include "model/graph.h"

struct model_family {
    const char *layout; /* how weights are stored, for readers of the file */
    struct model_sample (*sample)(const struct model *model);
    int (*tensors)(const struct model *model, struct model_tensor tensors[MODEL_TENSORS]);
    /* The keys that describe its host, from one configuration to another. */
    void (*copy_host)(struct config *to, const struct config *from);
    /* The host in the metadata "network", and what a seed's entry says beside the words that all families have. */
    void (*write_host)(const struct model *model, cJSON *network);
    void (*write_seed)(const struct model *model, int slot, cJSON *entry);
    enum esper_status (*read_host)(const cJSON *network, struct config *host, struct esper_error *error);
    /* Adds the whole network to a graph; what goes wrong is in graph->error. */
    void (*build)(const struct model *model, struct graph *graph);
};

extern const struct model_family model_cnn, model_transformer;

const struct model_family *model_family_of(const struct config *config);

/* model/cnn_graph.c, model/transformer_graph.c */
void cnn_graph_build(const struct model *model, struct graph *graph);
void transformer_graph_build(const struct model *model, struct graph *graph);

/* For read_host. */
enum esper_status model_get_int(const cJSON *object, const char *key, int min, int max, int *out,
                                struct esper_error *error);

#endif
