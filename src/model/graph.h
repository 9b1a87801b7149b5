/*
 * A network as a graph of standard operators: what an ONNX file holds. Built from a model and written (onnx_write),
 * or read from a file (onnx_read), and run by plain loops that share nothing with the trainer's kernels.
 *
 * Only the operators, attributes and types that the writer uses exist here, with ONNX's meaning (opset 17). Images are
 * NCHW floats, text is bytes as 64-bit integers.
 */
#ifndef MODEL_GRAPH_H
#define MODEL_GRAPH_H

#include "model/model.h"

enum graph_op {
    GRAPH_ADD,
    GRAPH_SUB,
    GRAPH_MUL,
    GRAPH_DIV,
    GRAPH_RELU,
    GRAPH_SIGMOID,
    GRAPH_TANH,
    GRAPH_ERF,
    GRAPH_CONV,
    GRAPH_BATCH_NORM,
    GRAPH_INSTANCE_NORM,
    GRAPH_MAX_POOL,
    GRAPH_MEAN, /* GlobalAveragePool */
    GRAPH_RESHAPE,
    GRAPH_FLATTEN,
    GRAPH_GEMM,
    GRAPH_MATMUL,
    GRAPH_TRANSPOSE,
    GRAPH_SOFTMAX,
    GRAPH_LAYER_NORM,
    GRAPH_GATHER,
    GRAPH_OP_COUNT
};

/* Attributes, and in graph_op_info which of them an operator has. */
enum graph_attribute {
    GRAPH_KERNEL = 1 << 0,  /* kernel_shape */
    GRAPH_STRIDES = 1 << 1, /* strides */
    GRAPH_PADS = 1 << 2,    /* pads */
    GRAPH_GROUP = 1 << 3,   /* group */
    GRAPH_EPSILON = 1 << 4, /* epsilon */
    GRAPH_TRANS_B = 1 << 5, /* transB */
    GRAPH_AXIS = 1 << 6,    /* axis */
    GRAPH_PERM = 1 << 7     /* perm */
};

struct graph_op_info {
    const char *name; /* in ONNX */
    int min_inputs, max_inputs;
    unsigned attributes;
};
extern const struct graph_op_info graph_ops[GRAPH_OP_COUNT];

enum { GRAPH_NODES = 1024, GRAPH_VALUES = 2048, GRAPH_NAME = 64, GRAPH_DIMS = 4, GRAPH_INPUTS = 5 };

/* A tensor: the input, a constant, or what a node makes. */
struct graph_value {
    char name[GRAPH_NAME];
    int dims;
    int64_t shape[GRAPH_DIMS]; /* of constants, and of input and output: a first extent of 0 is any number of samples */
    float *floats;             /* a constant's data, */
    int64_t *integers;         /* or that of a list of extents */
};

struct graph_node {
    enum graph_op op;
    int inputs[GRAPH_INPUTS], input_count, output; /* values */
    unsigned given;                                /* attributes that are set; the others have ONNX's defaults */
    int64_t kernel[2], strides[2], pads[4], group, trans_b, axis;
    int64_t perm[GRAPH_DIMS];
    int perm_count;
    float epsilon;
};

struct graph {
    int node_count, value_count;
    struct graph_node nodes[GRAPH_NODES]; /* each after the nodes whose outputs it reads */
    struct graph_value values[GRAPH_VALUES];
    int input, output;                                       /* values */
    char source[MODEL_TEXT], task[64], left_out[MODEL_TEXT]; /* where the network comes from, for people; or "" */
    struct esper_error error;                                /* the first thing that went wrong while adding */
};

struct graph *graph_create(struct esper_error *error);
void graph_free(struct graph *graph);

/*
 * Adding: each returns the value's or node's number, or -1 with graph->error set; given a -1 they do nothing, so that
 * code that builds a graph need not check every call.
 */
int graph_value(struct graph *graph, const char *name);
int graph_find(const struct graph *graph, const char *name); /* -1 when there is none */
/* The constant's data, zeroed, for the caller to fill; NULL when memory is short. */
float *graph_floats(struct graph *graph, int value, int dims, const int64_t *shape);
int64_t *graph_integers(struct graph *graph, int value, int count);
struct graph_node *graph_node(struct graph *graph, enum graph_op op, int output);

/* Images have channels and two extents, text has its length alone. */
static inline enum data_kind graph_reads(const struct graph *graph)
{
    return graph->values[graph->input].dims == 4 ? KIND_IMAGES : KIND_TEXT;
}

/* The model as a graph: raw pixels 0..255 in "image" [N][3][size][size] to "logits" [N][classes], or bytes in "tokens"
 * [N][context], integers, to "logits" [N][context][classes]. */
enum esper_status graph_from_model(struct graph **out, const struct model *model, struct esper_error *error);

/* ---- files ------------------------------------------------------------------------------------------------------- */

enum esper_status onnx_write(const struct graph *graph, const char *path, struct esper_error *error);
/* Trusts nothing; a file that this graph cannot express is refused. graph_plan decides what can be run. */
enum esper_status onnx_read(const char *path, struct graph **out, struct esper_error *error);

/* ---- running ----------------------------------------------------------------------------------------------------- */

struct graph_runner;

/* Compute every shape for this many samples at a time and allocate memory for all; refuse shapes that do not match.
 * The graph must outlive the runner. */
enum esper_status graph_runner_create(struct graph_runner **out, const struct graph *graph, int batch,
                                      struct esper_error *error);
void graph_runner_free(struct graph_runner *runner);

struct model_sample graph_sample(const struct graph_runner *runner);
double graph_work(const struct graph_runner *runner); /* multiply-accumulates of a batch, roughly */
/* samples [count][bytes], images as [height][width][3]; logits [count][targets][classes]. */
void graph_logits(struct graph_runner *runner, const uint8_t *samples, size_t count, float *logits);

#endif
