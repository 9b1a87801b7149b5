"""Checks exported networks with PyTorch and, where they are installed, onnx and onnxruntime.

usage: export_peer.py DOCS MODEL.safetensors MODEL.onnx OUTPUT.safetensors

DOCS is docs/export.md, whose loader is run as it stands; OUTPUT is what `esper infer --output` wrote for the model. The
ONNX file is walked with PyTorch's operators: an implementation of its meaning that owes nothing to Esper.
"""
import re
import sys

import torch
import torch.nn.functional as F

docs, model, onnx_file, output = sys.argv[1:]
scope = {}
for code in re.findall(r"```python\n(.*?)```", open(docs).read(), re.S):
    exec(code, scope)
_, sample = scope["load"](output)
text, wanted = "tokens" in sample, sample["logits"]
limit = 1e-4 if text else 1e-5
feed = {"tokens": sample["tokens"].long()} if text else {"image": sample["images"].permute(0, 3, 1, 2).float()}
failed = False


def compare(name, got, limit):
    global failed
    worst = (got - wanted).abs().max().item()
    failed |= not worst <= limit
    print(f"{name}: largest difference of a logit {worst:.2g} (limit {limit:g})")


loaded = scope["load"](model)
compare("PyTorch", scope["text_logits"](*loaded, sample["tokens"]) if text else scope["logits"](*loaded, sample["images"]),
        limit)

try:
    import onnx
    from onnx import numpy_helper
except ImportError:
    print("onnx is not installed: the checker and the walk through the graph are skipped")
else:
    graph = onnx.load(onnx_file)
    onnx.checker.check_model(graph, full_check=True)
    inferred = onnx.shape_inference.infer_shapes(graph, strict_mode=True, check_type=True)
    assert inferred.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "N"
    values = {t.name: torch.from_numpy(numpy_helper.to_array(t).copy()) for t in graph.graph.initializer}
    values.update(feed)
    for node in graph.graph.node:
        x = [values[name] for name in node.input]
        a = {k.name: onnx.helper.get_attribute_value(k) for k in node.attribute}
        pads = a.get("pads", [0, 0, 0, 0])
        assert pads[:2] == pads[2:]
        values[node.output[0]] = {
            "Add": lambda: x[0] + x[1],
            "Sub": lambda: x[0] - x[1],
            "Mul": lambda: x[0] * x[1],
            "Div": lambda: x[0] / x[1],
            "Relu": lambda: F.relu(x[0]),
            "Sigmoid": lambda: torch.sigmoid(x[0]),
            "Tanh": lambda: torch.tanh(x[0]),
            "Conv": lambda: F.conv2d(x[0], x[1], *x[2:], padding=pads[:2], groups=a["group"]),
            "BatchNormalization": lambda: F.batch_norm(x[0], x[3], x[4], x[1], x[2], eps=a["epsilon"]),
            "InstanceNormalization": lambda: F.instance_norm(x[0].double(), weight=x[1].double(), bias=x[2].double(),
                                                             eps=a["epsilon"]).float(),
            "MaxPool": lambda: F.max_pool2d(x[0], a["kernel_shape"], a["strides"]),
            "GlobalAveragePool": lambda: x[0].mean((2, 3), keepdim=True),
            "Reshape": lambda: x[0].reshape([x[0].shape[i] if n == 0 else n for i, n in enumerate(x[1].tolist())]),
            "Flatten": lambda: x[0].flatten(1),
            "Gemm": lambda: F.linear(x[0], x[1], x[2]),
            "Erf": lambda: torch.erf(x[0]),
            "MatMul": lambda: x[0] @ x[1],
            "Transpose": lambda: x[0].permute(a["perm"]),
            "Softmax": lambda: x[0].softmax(a["axis"]),
            "LayerNormalization": lambda: F.layer_norm(x[0], x[0].shape[-1:], x[1], x[2], a["epsilon"]),
            "Gather": lambda: x[0][x[1]],
        }[node.op_type]()
    compare("ONNX by PyTorch's operators", values["logits"], limit)

try:
    import onnxruntime
except ImportError:
    print("onnxruntime is not installed: skipped")
else:
    session = onnxruntime.InferenceSession(onnx_file, providers=["CPUExecutionProvider"])
    result = session.run(None, {name: value.numpy() for name, value in feed.items()})[0]
    compare("onnxruntime", torch.from_numpy(result), 1e-4)

sys.exit(failed)
