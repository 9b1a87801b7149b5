/* The numbers by which ONNX's messages name their fields: what both the writer and the reader must agree on. */
#ifndef MODEL_ONNX_H
#define MODEL_ONNX_H

enum { ONNX_IR_VERSION = 8, ONNX_OPSET = 17 };
enum { ONNX_FLOAT = 1, ONNX_INT64 = 7 };                    /* element types */
enum { ONNX_A_FLOAT = 1, ONNX_A_INT = 2, ONNX_A_INTS = 7 }; /* attribute types */
enum { MODEL_IR = 1, MODEL_PRODUCER, MODEL_PRODUCER_VERSION, MODEL_DOC = 6, MODEL_GRAPH, MODEL_OPSET, MODEL_META = 14 };
enum { OPSET_DOMAIN = 1, OPSET_VERSION };
enum { META_KEY = 1, META_VALUE };
enum { GRAPHS_NODE = 1, GRAPHS_NAME, GRAPHS_CONSTANT = 5, GRAPHS_INPUT = 11, GRAPHS_OUTPUT };
enum { NODE_INPUT = 1, NODE_OUTPUT, NODE_NAME, NODE_OP, NODE_ATTRIBUTE, NODE_DOMAIN = 7 };
enum { ATTRIBUTE_NAME = 1, ATTRIBUTE_FLOAT, ATTRIBUTE_INT, ATTRIBUTE_INTS = 8, ATTRIBUTE_TYPE = 20 };
enum { TENSOR_DIMS = 1, TENSOR_TYPE, TENSOR_NAME = 8, TENSOR_RAW };
enum { VALUE_NAME = 1, VALUE_TYPE };
enum { TYPE_TENSOR = 1 };
enum { TENSOR_TYPE_ELEMENT = 1, TENSOR_TYPE_SHAPE };
enum { SHAPE_DIM = 1 };
enum { DIM_VALUE = 1, DIM_PARAM };

#define ONNX_META_SOURCE   "esper.source"
#define ONNX_META_TASK     "esper.task"
#define ONNX_META_LEFT_OUT "esper.left_out"

#endif
