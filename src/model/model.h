/*
 * A grown network that has left its run: the host, the seeds that are part of its function, and where it came from.
 *
 * A seed is part of the function when it is blended in with alpha > 0. A seed in TRAINING learns beside the host but
 * the network's output does not depend on it, so it is left out and the source says so. The model has only the occupied
 * slots; every parameter keeps the layout in which the trainer stores it, so that the trainer's own kernels run the
 * model and give the trainer's own bits.
 */
#ifndef MODEL_MODEL_H
#define MODEL_MODEL_H

#include "data/data_set.h"
#include "host/families.h"
#include "morph/net.h"

#define MODEL_FORMAT "esper-model-1"

enum { MODEL_TENSORS = 192, MODEL_NAME = 48, MODEL_TEXT = 512 };

/* Where a network comes from, for people: it has no effect on what the network computes. */
struct model_source {
    char run[128], task[64];
    uint32_t round, step;      /* the round it grew in, from 1, and how many of its steps were done */
    uint32_t env;              /* its number in the run */
    bool best;                 /* it was the run's best so far */
    double val_accuracy;       /* percent, as the trainer measured it last */
    char left_out[MODEL_TEXT]; /* seeds that were left out, "r0c1 norm (training), ..."; "" when there are none */
};

struct model {
    struct config config; /* its host and slots only; the shape points at the names of its slots */
    union {
        struct net_shape shape; /* whose slots are the occupied ones */
        union host_shape host_shape;
    };
    struct slot_exec exec[SHAPE_SLOTS];
    uint8_t stage[SHAPE_SLOTS];
    struct net_params params; /* in `memory`, by the shape's layouts */
    float *memory;
    struct model_source source;
};

/*
 * Take a network out of a world; `host` is its configuration, `slots` [shape->slots] the env's rows. All of the source
 * is copied except left_out, which is written here. Parameters that are not finite are an error: such a network
 * computes nothing.
 */
enum esper_status model_take(struct model **out, const struct config *host, const struct net_shape *shape,
                             const struct net_params *params, const struct slot_state *slots,
                             const struct model_source *source, struct esper_error *error);
void model_free(struct model *model);

/* One safetensors file. The reader trusts nothing: what it returns can be run. */
enum esper_status model_write(const struct model *model, const char *path, struct esper_error *error);
enum esper_status model_read(const char *path, struct model **out, struct esper_error *error);

/* Real parameters: of the host, and of seeds and gate nets. */
size_t model_host_params(const struct model *model);
size_t model_seed_params(const struct model *model);

/* The source in one line: "best network of quick, round 12, env 3, step 40, validation 63.30 %". */
void model_describe(const struct model *model, char text[MODEL_TEXT]);

/* ---- samples ----------------------------------------------------------------------------------------------------- */

/* What a network reads, and what it answers: for each of a sample's targets a number per class. */
struct model_sample {
    enum data_kind kind;
    int size; /* images are size x size pixels of red, green, blue; text is so many bytes */
    size_t bytes, targets, classes;
};

struct model_sample model_sample(const struct model *model);

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

/* A tensor under the name that people see: "host.block0.conv.weight", "slot.r0c0.conv1.weight", "slot.r0c0.gate...". */
struct model_tensor {
    char name[MODEL_NAME];
    int dims, shape[4]; /* conv [out][kh][kw][in], depthwise [kh][kw][channels], linear [out][in], vectors [n] */
    size_t size;
    float *data; /* in the model */
};

/* A tensor of one of the parts, as it is laid out there, under the name "prefix.name". */
struct model_tensor model_tensor(const char *prefix, const char *name, const struct tensor_layout *layout, float *part);
/* All tensors in the order in which data passes through the network; returns how many. */
int model_tensors(const struct model *model, struct model_tensor tensors[MODEL_TENSORS]);

/* ---- for the reader -----------------------------------------------------------------------------------------------
 */

struct model_seed {
    char slot[8];
    uint8_t stage, blueprint, algorithm;
    float alpha;
};

/* An empty model: geometry and normalisation from host.*, data.size and data.set, all parameters zero. Seeds must be in
 * the order of the actions, row by row. */
enum esper_status model_make(struct model **out, const struct config *host, const struct model_seed *seeds, int count,
                             struct esper_error *error);
/* Check that every parameter is a finite number and no variance is below zero. */
enum esper_status model_check(const struct model *model, struct esper_error *error);

#endif
