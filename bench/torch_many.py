#!/usr/bin/env python3
"""N small hosts trained at once in PyTorch on one GPU, in the ways an expert would try: million images per second.

Each host is `cifar_baseline` (blocks of 3x3 convolution with 8, 16 and 32 channels, BatchNorm, ReLU, 2x2 max pool; global
average; linear classifier), with its own parameters, trained by SGD with momentum and weight decay. The images are on
the GPU as bytes; a step picks a batch for every host, normalises it, and does forward, backward and update. Esper also
crops, mirrors and clips: --augment and --clip add that here.

    bench/torch_many.py                                    8 and 64 hosts, batches of 128 and 512, every method
    bench/torch_many.py --hosts 64 --batches 128 --methods graph,vmap
    bench/torch_many.py --device cpu --small               does it run at all? (no GPU needed)

Every figure comes from a separate process with a time limit, so that a method that hangs in compilation or runs out of
memory costs only its own cell. Compare with `esper bench --device cuda --part train`.
"""

import argparse
import contextlib
import itertools
import subprocess
import sys
import time

try:
    import torch
    from torch.nn import functional as F
except ImportError:
    sys.exit("torch_many: PyTorch is missing for this Python")

WIDTHS = (3, 8, 16, 32)
CLASSES = 10
SIZE = 32
PAD = 4
LR, MOMENTUM, DECAY = 0.01, 0.9, 5e-4
MAX_NORM = 1.0
MEAN, DEVIATION = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
EPSILON, STATISTICS = 1e-5, 0.1

METHODS = {
    "eager": "eager on N streams",
    "graph": "CUDA graph over N streams",
    "grouped": "grouped convolutions, compiled",
    "vmap": "vmap over stacked hosts, compiled",
}


# --- What all methods share: the images, the parameters of N hosts, one host's forward pass -----------------------------


class Images:
    """Bytes on the device, and a position in a shuffled order that advances by itself, also inside a graph."""

    def __init__(self, count, device, augment):
        self.pixels = torch.randint(0, 256, (count, SIZE, SIZE, 3), dtype=torch.uint8, device=device)
        self.labels = torch.randint(0, CLASSES, (count,), device=device)
        self.order = torch.randperm(count, device=device)
        self.mean = torch.tensor(MEAN, device=device) * 255
        self.scale = 1 / (torch.tensor(DEVIATION, device=device) * 255)
        self.augment = augment

    def batch(self, start, images):
        """`images` normalised pictures [images, 3, 32, 32], channels last, and their labels; `start` advances."""
        count = len(self.order)
        place = (start + torch.arange(images, device=start.device)) % count
        start.add_(images)
        index = self.order[place]
        picked = self.crop(index) if self.augment else self.pixels[index]
        return ((picked.float() - self.mean) * self.scale).permute(0, 3, 1, 2), self.labels[index]

    def crop(self, index):
        """A window moved by up to four pixels, black outside, mirrored half of the time."""
        n, device = len(index), index.device
        line = torch.arange(SIZE, device=device)
        shift = torch.randint(0, 2 * PAD + 1, (2, n, 1), device=device) - PAD
        mirror = torch.randint(0, 2, (n, 1), device=device)
        rows = line + shift[0]
        columns = torch.where(mirror == 1, SIZE - 1 - line, line) + shift[1]
        inside = ((rows >= 0) & (rows < SIZE))[:, :, None] & ((columns >= 0) & (columns < SIZE))[:, None, :]
        window = self.pixels[index[:, None, None], rows.clamp(0, SIZE - 1)[:, :, None],
                             columns.clamp(0, SIZE - 1)[:, None, :]]
        return window * inside[..., None]


def new_parameters(hosts, device):
    """Stacked parameters of all hosts, the host in the first dimension."""
    parameters = {}
    for block, (cin, cout) in enumerate(zip(WIDTHS, WIDTHS[1:])):
        bound = (9 * cin) ** -0.5
        parameters[f"conv{block}"] = torch.empty(hosts, cout, cin, 3, 3, device=device).uniform_(-bound, bound)
        parameters[f"gamma{block}"] = torch.ones(hosts, cout, device=device)
        parameters[f"beta{block}"] = torch.zeros(hosts, cout, device=device)
    bound = WIDTHS[-1] ** -0.5
    parameters["weight"] = torch.empty(hosts, CLASSES, WIDTHS[-1], device=device).uniform_(-bound, bound)
    parameters["bias"] = torch.empty(hosts, CLASSES, device=device).uniform_(-bound, bound)
    return parameters


def new_statistics(hosts, device):
    """Running means and variances of every block, [2, host, channels]."""
    return [torch.stack([torch.zeros(hosts, c, device=device), torch.ones(hosts, c, device=device)]) for c in WIDTHS[1:]]


def autocast(device, precision):
    if precision == "fp32":
        return contextlib.nullcontext()
    return torch.autocast(device.type, dtype=torch.bfloat16, cache_enabled=False)


def compiled(function):
    """torch.compile where there is one; old versions run the function as it is."""
    return torch.compile(function) if hasattr(torch, "compile") else function


def clip(gradients, hosts):
    """Scale to the norm 1 where it is larger, host by host where they are stacked, without a device synchronisation."""
    if hosts == 1:
        norm = torch.stack([g.float().norm() for g in gradients]).norm()
        factor = (MAX_NORM / (norm + 1e-6)).clamp(max=1)
        return [g * factor for g in gradients]
    squares = sum(g.float().reshape(hosts, -1).square().sum(1) for g in gradients)
    factor = (MAX_NORM / (squares.sqrt() + 1e-6)).clamp(max=1)
    return [g * factor.view(-1, *[1] * (g.dim() - 1)) for g in gradients]


# --- One network after the other: eager, or all of them captured in one graph ------------------------------------------


class SingleHost:
    """A host as anyone would write it, with its optimiser."""

    def __init__(self, images, batch, device, precision, clipped):
        self.images, self.batch, self.device, self.precision, self.clipped = images, batch, device, precision, clipped
        self.parameters = {name: value[0].clone().requires_grad_() for name, value in new_parameters(1, device).items()}
        for name in self.parameters:
            if name.startswith("conv"):
                value = self.parameters[name].detach().contiguous(memory_format=torch.channels_last)
                self.parameters[name] = value.requires_grad_()
        self.statistics = [s[:, 0].clone() for s in new_statistics(1, device)]
        self.start = torch.randint(0, len(images.order), (1,), device=device)
        self.optimizer = torch.optim.SGD(list(self.parameters.values()), lr=LR, momentum=MOMENTUM, weight_decay=DECAY,
                                         foreach=True)

    def forward(self, x):
        p = self.parameters
        for block, statistics in enumerate(self.statistics):
            x = F.conv2d(x, p[f"conv{block}"], padding=1)
            x = F.batch_norm(x, statistics[0], statistics[1], p[f"gamma{block}"], p[f"beta{block}"], True, STATISTICS,
                             EPSILON)
            x = F.max_pool2d(F.relu(x), 2)
        return F.linear(x.mean((2, 3)), p["weight"], p["bias"])

    def step(self):
        self.optimizer.zero_grad(set_to_none=True)
        x, labels = self.images.batch(self.start, self.batch)
        with autocast(self.device, self.precision):
            logits = self.forward(x)
        F.cross_entropy(logits.float(), labels).backward()
        if self.clipped:
            values = list(self.parameters.values())
            for value, gradient in zip(values, clip([v.grad for v in values], 1)):
                value.grad = gradient
        self.optimizer.step()


def make_eager(arguments, hosts, batch, device, images):
    nets = [SingleHost(images, batch, device, arguments.precision, arguments.clip) for _ in range(hosts)]
    if device.type != "cuda":
        return lambda: [net.step() for net in nets]
    streams = [torch.cuda.Stream() for _ in nets]

    def step():
        for net, stream in zip(nets, streams):
            with torch.cuda.stream(stream):
                net.step()

    return step


def make_graph(arguments, hosts, batch, device, images):
    if device.type != "cuda":
        return make_eager(arguments, hosts, batch, device, images)
    nets = [SingleHost(images, batch, device, arguments.precision, arguments.clip) for _ in range(hosts)]
    streams = [torch.cuda.Stream() for _ in nets]
    trunk = torch.cuda.Stream()

    def fork_and_join():
        for net, stream in zip(nets, streams):
            stream.wait_stream(trunk)
            with torch.cuda.stream(stream):
                net.step()
        for stream in streams:
            trunk.wait_stream(stream)

    trunk.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(trunk):  # momentum and library workspaces are created before anything is captured
        for _ in range(3):
            fork_and_join()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=trunk):
        fork_and_join()
    return graph.replay


# --- All networks as one ------------------------------------------------------------------------------------------------


def sgd(parameters, gradients, momenta):
    """v = 0.9 v + g + decay w; w -= lr v, for all tensors at once."""
    gradients = torch._foreach_add(gradients, parameters, alpha=DECAY)
    torch._foreach_mul_(momenta, MOMENTUM)
    torch._foreach_add_(momenta, gradients)
    torch._foreach_add_(parameters, momenta, alpha=-LR)


def make_grouped(arguments, hosts, batch, device, images):
    parameters = {name: value.requires_grad_() for name, value in new_parameters(hosts, device).items()}
    values = list(parameters.values())
    momenta = [torch.zeros_like(v) for v in values]
    statistics = [s.reshape(2, -1) for s in new_statistics(hosts, device)]
    start = torch.zeros(1, dtype=torch.long, device=device)

    def loss(p, x, labels):
        # [host, image, 3, 32, 32] to the hosts side by side in the channels
        x = x.reshape(hosts, batch, 3, SIZE, SIZE).transpose(0, 1).reshape(batch, hosts * 3, SIZE, SIZE)
        for block, running in enumerate(statistics):
            x = F.conv2d(x, p[f"conv{block}"].flatten(0, 1), padding=1, groups=hosts)
            x = F.batch_norm(x, running[0], running[1], p[f"gamma{block}"].flatten(), p[f"beta{block}"].flatten(), True,
                             STATISTICS, EPSILON)
            x = F.max_pool2d(F.relu(x), 2)
        x = x.mean((2, 3)).view(batch, hosts, -1).transpose(0, 1)
        logits = torch.baddbmm(p["bias"][:, None], x, p["weight"].transpose(1, 2))
        # the sum over hosts of each one's mean: every host gets its own gradient
        return F.cross_entropy(logits.float().reshape(-1, CLASSES), labels.view(hosts * batch), reduction="sum") / batch

    fast_batch, fast_loss = compiled(images.batch), compiled(loss)

    def step():
        x, labels = fast_batch(start, hosts * batch)
        with autocast(device, arguments.precision):
            value = fast_loss(parameters, x, labels)
        gradients = list(torch.autograd.grad(value, values))
        with torch.no_grad():
            sgd(values, clip(gradients, hosts) if arguments.clip else gradients, momenta)

    return step


def make_vmap(arguments, hosts, batch, device, images):
    try:
        from torch.func import grad, vmap
    except ImportError:
        from functorch import grad, vmap
    kind = torch.bfloat16 if arguments.precision == "bf16" else torch.float32
    parameters = new_parameters(hosts, device)
    names, values = list(parameters), list(parameters.values())
    momenta = [torch.zeros_like(v) for v in values]
    running = new_statistics(hosts, device)
    start = torch.zeros(1, dtype=torch.long, device=device)

    def loss(host_values, x, labels):
        p, measured = dict(zip(names, host_values)), []
        x = x.to(kind)
        for block in range(len(WIDTHS) - 1):
            x = F.conv2d(x, p[f"conv{block}"].to(kind), padding=1).float()
            mean = x.mean((0, 2, 3))
            variance = (x - mean.view(1, -1, 1, 1)).square().mean((0, 2, 3))
            factor = p[f"gamma{block}"] * torch.rsqrt(variance + EPSILON)
            x = (x - mean.view(1, -1, 1, 1)) * factor.view(1, -1, 1, 1) + p[f"beta{block}"].view(1, -1, 1, 1)
            x = F.max_pool2d(F.relu(x).to(kind), 2)
            measured += [mean.detach(), variance.detach()]
        logits = F.linear(x.float().mean((2, 3)), p["weight"], p["bias"])
        return F.cross_entropy(logits, labels), measured

    gradients_of = vmap(grad(loss, has_aux=True))

    def step():
        x, labels = images.batch(start, hosts * batch)
        gradients, measured = gradients_of(values, x.reshape(hosts, batch, 3, SIZE, SIZE), labels.view(hosts, batch))
        gradients = list(gradients)
        sgd(values, clip(gradients, hosts) if arguments.clip else gradients, momenta)
        for block, statistics in enumerate(running):
            statistics[0].lerp_(measured[2 * block], STATISTICS)
            statistics[1].lerp_(measured[2 * block + 1], STATISTICS)

    return compiled(step)


MAKERS = {"eager": make_eager, "graph": make_graph, "grouped": make_grouped, "vmap": make_vmap}


# --- Measuring ----------------------------------------------------------------------------------------------------------


def measure(arguments, method, hosts, batch):
    """Million images per second: the best of three repetitions of about a third of a second."""
    device = torch.device(arguments.device)
    torch.manual_seed(42)
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = True
    images = Images(512 if arguments.small else 45000, device, arguments.augment)
    wait = torch.cuda.synchronize if device.type == "cuda" else lambda: None
    step = MAKERS[method](arguments, hosts, batch, device, images)
    for _ in range(1 if arguments.small else 5):
        step()
    wait()
    begin = time.perf_counter()
    step()
    wait()
    once = time.perf_counter() - begin
    times = 1 if arguments.small else max(1, min(2000, int(0.35 / once)))
    best = 0
    for _ in range(3):
        begin = time.perf_counter()
        for _ in range(times):
            step()
        wait()
        best = max(best, times * hosts * batch / (time.perf_counter() - begin))
    return 1e-6 * best


def numbers(text):
    return [int(word) for word in text.split(",")]


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--hosts", type=numbers, default=[8, 64])
    parser.add_argument("--batches", type=numbers, default=[128, 512])
    parser.add_argument("--methods", default=",".join(METHODS), help="of " + ", ".join(METHODS))
    parser.add_argument("--precision", choices=["bf16", "fp32"], default="bf16")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--augment", action="store_true", help="crop and mirror, as Esper does")
    parser.add_argument("--clip", action="store_true", help="clip the gradient of every host, as Esper does")
    parser.add_argument("--small", action="store_true", help="tiny: shows that it runs, times mean nothing")
    parser.add_argument("--limit", type=float, default=60, help="seconds for one figure, compilation included (60)")
    parser.add_argument("--seconds", type=float, default=600, help="for everything; figures after that are left out (600)")
    parser.add_argument("--csv", help="also write the results to this file")
    parser.add_argument("--one", nargs=3, metavar=("METHOD", "HOSTS", "BATCH"), help=argparse.SUPPRESS)
    return parser.parse_args()


def ask(arguments, method, hosts, batch, limit):
    """A figure from a separate process, or why there is none."""
    command = [sys.executable, __file__, "--one", method, str(hosts), str(batch), "--device", arguments.device,
               "--precision", arguments.precision]
    command += ["--augment"] * arguments.augment + ["--clip"] * arguments.clip + ["--small"] * arguments.small
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        return f"> {limit:.0f} s"
    if done.returncode != 0:
        print(done.stderr.strip()[-600:], file=sys.stderr)
        return "out of memory" if "out of memory" in done.stderr else "failed"
    return float(done.stdout.strip().splitlines()[-1])


def write_csv(path, arguments, results):
    with open(path, "w", encoding="utf-8") as file:
        file.write("kind,name,what,threads,value,unit,of_roof\n")
        for (method, hosts, batch), value in results.items():
            if isinstance(value, float):
                file.write(f"torch,cifar_baseline,{hosts} envs x {batch} {method} {arguments.precision},0,"
                           f"{1e6 * value:.4g},images/s,\n")


def main():
    arguments = read_arguments()
    if arguments.one:
        method, hosts, batch = arguments.one
        print(measure(arguments, method, int(hosts), int(batch)))
        return
    if arguments.device.startswith("cuda") and not torch.cuda.is_available():
        sys.exit("torch_many: no CUDA device; --device cpu --small shows that it runs")
    if arguments.device == "cpu":
        arguments.precision = "fp32"  # not every CPU build of PyTorch has the rest
    if arguments.small:
        arguments.hosts, arguments.batches = [2], [4]
    methods = arguments.methods.split(",")
    unknown = [m for m in methods if m not in METHODS]
    if unknown:
        sys.exit(f"torch_many: unknown method {unknown[0]}; there are {', '.join(METHODS)}")
    cells = list(itertools.product(arguments.hosts, arguments.batches))
    name = torch.cuda.get_device_name() if arguments.device.startswith("cuda") else "cpu"
    print(f"{name}, PyTorch {torch.__version__}, {arguments.precision}{', augmented' * arguments.augment}"
          f"{', clipped' * arguments.clip}; million images/s of N hosts in batches of B\n")
    print("| method | " + " | ".join(f"N={n} B={b}" for n, b in cells) + " |")
    print("|---" * (len(cells) + 1) + "|")
    results, end = {}, time.monotonic() + arguments.seconds
    for method in methods:
        row = []
        for hosts, batch in cells:
            left = end - time.monotonic()
            value = ask(arguments, method, hosts, batch, min(arguments.limit, left)) if left > 5 else "no time"
            results[method, hosts, batch] = value
            row.append(f"{value:.3f}" if isinstance(value, float) else value)
        print(f"| {METHODS[method]} | " + " | ".join(row) + " |", flush=True)
    if arguments.csv:
        write_csv(arguments.csv, arguments, results)


if __name__ == "__main__":
    main()
