#!/usr/bin/python3
"""Times the training step of the CNN hosts in PyTorch, in every sensible setting, and compares Esper with the fastest.

One step is what `esper bench` times: zero_grad, forward, cross entropy, backward, gradient clip, SGD, for 2 networks of
batch 128 on 2 threads, the images already in memory as normalised floats (which is less work than Esper does: it also
gathers and augments). Needs Debian's python3-torch and, for a fair opponent, libopenblas0.

    bench/torch_peer.py                            the table of settings
    bench/torch_peer.py --esper build/esper        the same, with Esper in alternating rounds, and the ratio
"""

import argparse
import json
import multiprocessing
import os
import platform
import statistics
import subprocess
import sys
import time
from collections import namedtuple

# What a careful user sets for the worker processes, which read it when they start. The matrix products of a convolution
# run inside torch's own parallel loop over the batch, so BLAS threads would only fight with it; and freed activations
# stay with malloc instead of being faulted in again at every step.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("MALLOC_MMAP_THRESHOLD_", str(1 << 30))
os.environ.setdefault("MALLOC_TRIM_THRESHOLD_", str(1 << 31))

try:
    import torch
    from torch import nn
    from torch.nn import functional as F
except ImportError:
    sys.exit("torch_peer: PyTorch is missing for this Python; run: apt-get install python3-torch libopenblas0")

NETS = 2
BATCH = 128
CLASSES = 10
IMAGE = 32
BATCHES_IN_MEMORY = 4
SEED_ALPHA = 0.5

Plan = namedtuple("Plan", "passes screen_s refine finalists rounds round_s budget_s")
FULL = Plan(passes=2, screen_s=0.25, refine=True, finalists=3, rounds=5, round_s=0.8, budget_s=225)
QUICK = Plan(passes=1, screen_s=0.1, refine=False, finalists=1, rounds=3, round_s=0.3, budget_s=50)

HostShape = namedtuple("HostShape", "base blocks kernel pools grown")
HOSTS = {
    "cifar_baseline": HostShape(base=8, blocks=3, kernel=3, pools=3, grown=False),
    "cifar_baseline grown": HostShape(base=8, blocks=3, kernel=3, pools=3, grown=True),
    "host_32_64_128": HostShape(base=32, blocks=3, kernel=3, pools=3, grown=False),
    "cifar_impaired": HostShape(base=1, blocks=3, kernel=1, pools=3, grown=False),
}

TURNS = "in turn"        # one process with 2 threads trains one network after the other
PROCESSES = "2 proc."    # one process with 1 thread for each network, at the same time
GROUPED = "grouped"      # one process with 2 threads, both networks as one model of grouped convolutions


class Setting(namedtuple("Setting", "arrangement mkldnn channels_last foreach traced")):
    def __str__(self):
        words = [f"{self.arrangement:<8}", "mkldnn" if self.mkldnn else "native",
                 "nhwc" if self.channels_last else "nchw"]
        return " ".join(words + ["foreach"] * self.foreach + ["traced"] * self.traced)


# --- The networks. Every class holds `nets` independent networks side by side in the channels; with nets = 1 it is the
# --- plain model anyone would write.


def group_count(channels):
    """GroupNorm groups of a seed: the first divisor that leaves 16 channels per group, else the first divisor."""
    divisors = [g for g in (32, 16, 8, 4, 2, 1) if channels % g == 0]
    return next((g for g in divisors if channels // g >= 16), divisors[0])


class ConvLight(nn.Module):
    """The conv_light seed, blended half in. Not isolated: its input gradient reaches the host."""

    def __init__(self, channels, nets):
        super().__init__()
        self.conv = nn.Conv2d(nets * channels, nets * channels, 3, padding=1, groups=nets, bias=False)
        self.norm = nn.GroupNorm(nets * group_count(channels), nets * channels)

    def forward(self, h):
        return torch.lerp(h, h + F.relu(self.norm(self.conv(h))), SEED_ALPHA)


class StackedLinear(nn.Module):
    def __init__(self, inputs, outputs, nets):
        super().__init__()
        bound = inputs ** -0.5
        self.weight = nn.Parameter(torch.empty(nets, inputs, outputs).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(nets, 1, outputs).uniform_(-bound, bound))

    def forward(self, x):
        nets, inputs, outputs = self.weight.shape
        by_net = x.view(-1, nets, inputs).transpose(0, 1)
        return torch.baddbmm(self.bias, by_net, self.weight).transpose(0, 1).reshape(-1, outputs)


class Host(nn.Module):
    """Blocks of convolution, BatchNorm, ReLU, [seed], max pool; then global average and a linear classifier."""

    def __init__(self, shape, nets=1):
        super().__init__()
        self.pools = shape.pools
        self.convs, self.norms, self.seeds = nn.ModuleList(), nn.ModuleList(), nn.ModuleList()
        channels = 3
        for block in range(shape.blocks):
            wider = shape.base << block
            self.convs.append(nn.Conv2d(nets * channels, nets * wider, shape.kernel, padding=shape.kernel // 2,
                                        groups=nets, bias=False))
            self.norms.append(nn.BatchNorm2d(nets * wider))
            if shape.grown:
                self.seeds.append(ConvLight(wider, nets))
            channels = wider
        self.head = nn.Linear(channels, CLASSES) if nets == 1 else StackedLinear(channels, CLASSES, nets)

    def forward(self, x):
        for block, (conv, norm) in enumerate(zip(self.convs, self.norms)):
            x = F.relu_(norm(conv(x)))
            if self.seeds:
                x = self.seeds[block](x)
            if block < self.pools:
                x = F.max_pool2d(x, 2)
        return self.head(x.mean((2, 3)))


def clip_each_net(parameters, nets, max_norm=1.0):
    """clip_grad_norm_ for every network of a grouped model: the first dimension of each tensor is net-major."""
    norms = torch.stack([p.grad.reshape(nets, -1).norm(dim=1) for p in parameters]).norm(dim=0)
    scale = (max_norm / (norms + 1e-6)).clamp(max=1.0)
    for p in parameters:
        rows = scale.repeat_interleave(p.shape[0] // nets)
        p.grad.mul_(rows.view(-1, *[1] * (p.dim() - 1)))


class Trainer:
    """A model of one or more networks with its data, optimiser and clip groups (the host, and each seed on its own)."""

    def __init__(self, shape, setting, nets):
        layout = torch.channels_last if setting.channels_last else torch.contiguous_format
        self.nets = nets
        model = Host(shape, nets).to(memory_format=layout)
        self.images = [torch.randn(BATCH, nets * 3, IMAGE, IMAGE).contiguous(memory_format=layout)
                       for _ in range(BATCHES_IN_MEMORY)]
        self.labels = [torch.randint(0, CLASSES, (BATCH * nets,)) for _ in range(BATCHES_IN_MEMORY)]

        seeds = [list(seed.parameters()) for seed in model.seeds]
        host = [p for name, p in model.named_parameters() if not name.startswith("seeds.")]
        self.clip_groups = [host] + seeds
        options = {"foreach": True} if setting.foreach else {}
        self.optimiser = torch.optim.SGD(
            [{"params": host, "weight_decay": 5e-4}, {"params": [p for seed in seeds for p in seed]}][:1 + bool(seeds)],
            lr=0.01, momentum=0.9, **options)
        self.forward = torch.jit.trace(model, self.images[0], check_trace=False) if setting.traced else model

    def step(self, number):
        batch = number % BATCHES_IN_MEMORY
        self.optimiser.zero_grad(set_to_none=True)
        loss = F.cross_entropy(self.forward(self.images[batch]), self.labels[batch])
        (loss * self.nets if self.nets > 1 else loss).backward()
        for group in self.clip_groups:
            if self.nets > 1:
                clip_each_net(group, self.nets)
            else:
                nn.utils.clip_grad_norm_(group, 1.0)
        self.optimiser.step()


GO, STOP = "go", "stop"

# --- Measuring. Two worker processes live for the whole run; a setting with one process uses only the first.


def trainers_of(shape, setting):
    if setting.arrangement == GROUPED:
        return [Trainer(shape, setting, NETS)]
    here = 1 if setting.arrangement == PROCESSES else NETS
    return [Trainer(shape, setting, 1) for _ in range(here)]


def train_for(seconds, trainers, at_least):
    start, steps = time.perf_counter(), 0
    while steps < at_least or time.perf_counter() - start < seconds:
        for trainer in trainers:
            trainer.step(steps)
        steps += 1
    images = steps * BATCH * sum(trainer.nets for trainer in trainers)
    return images / (time.perf_counter() - start)


def worker(pipe):
    torch.set_flush_denormal(True)
    try:
        serve(pipe)
    except (EOFError, KeyboardInterrupt):
        pass  # the main process is gone or going: it says why


def serve(pipe):
    while True:
        shape, setting, seconds = pipe.recv()
        torch.set_num_threads(1 if setting.arrangement == PROCESSES else NETS)
        with torch.backends.mkldnn.flags(enabled=setting.mkldnn):
            trainers = trainers_of(shape, setting)
            train_for(0, trainers, at_least=4 if setting.traced else 1)  # the first calls of a traced model compile it
            pipe.send(train_for(seconds / 4, trainers, at_least=1))
            if pipe.recv() == GO:
                pipe.send(train_for(seconds, trainers, at_least=2))


class Workers:
    def __init__(self):
        spawn = multiprocessing.get_context("spawn")
        self.pipes = []
        for _ in range(NETS):
            ours, theirs = spawn.Pipe()
            spawn.Process(target=worker, args=(theirs,), daemon=True).start()
            self.pipes.append(ours)

    def images_per_s(self, shape, setting, seconds, hopeless=0.0):
        """A setting whose first short run is slower than `hopeless` images/s is not timed further."""
        pipes = self.pipes if setting.arrangement == PROCESSES else self.pipes[:1]
        for pipe in pipes:
            pipe.send((shape, setting, seconds))
        first = sum(pipe.recv() for pipe in pipes)
        for pipe in pipes:
            pipe.send(GO if first >= hopeless else STOP)
        return sum(pipe.recv() for pipe in pipes) if first >= hopeless else first


def screen(workers, shape, seconds, refine, speeds):
    """Every arrangement × convolution library × layout; then, around the two best, the multi-tensor optimiser and a
    traced model, which change the rest of the step. `speeds` keeps the best figure of each: noise only slows."""

    def try_out(setting):
        hopeless = 0.5 * max(speeds.values(), default=0.0)
        speed = workers.images_per_s(shape, setting, seconds, hopeless)
        speeds[setting] = max(speed, speeds.get(setting, 0.0))

    for arrangement in (PROCESSES, TURNS, GROUPED):
        for mkldnn in [False] + [True] * torch.backends.mkldnn.is_available():
            for channels_last in (False, True):
                try_out(Setting(arrangement, mkldnn, channels_last, foreach=False, traced=False))
    plain = {setting: speed for setting, speed in speeds.items() if not (setting.foreach or setting.traced)}
    for setting in fastest(plain, 2 if refine else 1):
        for foreach, traced in ((True, False), (False, True), (True, True)) if refine else ((True, True),):
            try_out(setting._replace(foreach=foreach, traced=traced))


def fastest(speeds, count):
    return sorted(speeds, key=speeds.get, reverse=True)[:count]


def esper_speeds(program):
    """Images/s by host, from the whole-step figures of `esper bench`."""
    command = [program, "bench", "--json", "--peer"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        steps = json.loads(done.stdout)["steps"]
        return {step["name"] + " grown" * step["grown"]: step["images_per_s"] for step in steps
                if (step["nets"], step["batch"], step["threads"]) == (NETS, BATCH, NETS)}
    except OSError as error:
        sys.exit(f"torch_peer: cannot run {program}: {error.strerror}; build it with: make all")
    except subprocess.CalledProcessError as error:
        sys.exit(f"torch_peer: '{' '.join(command)}' ended with code {error.returncode}: {error.stderr.strip()}")
    except (ValueError, KeyError, TypeError) as error:
        sys.exit(f"torch_peer: '{' '.join(command)}' did not print the expected JSON ({error!r})")


def compare(workers, speeds, finalists, plan, program, deadline):
    """Finalists and Esper alternate, so that whatever else the machine does hits both; medians count. The medians of
    the finalists replace their screening figures in `speeds`. Returns the medians of Esper by host."""
    torch_rounds = {host: {setting: [] for setting in chosen} for host, chosen in finalists.items()}
    esper_rounds = {host: [] for host in finalists}
    for number in range(plan.rounds):
        print(f"torch_peer: round {number + 1} of {plan.rounds} ...", file=sys.stderr)
        start = time.monotonic()
        for host, chosen in finalists.items():
            for setting in chosen:
                torch_rounds[host][setting].append(workers.images_per_s(HOSTS[host], setting, plan.round_s))
        if program:
            for host, speed in esper_speeds(program).items():
                if host in esper_rounds:
                    esper_rounds[host].append(speed)
        if time.monotonic() + (time.monotonic() - start) > deadline:
            break
    for host, by_setting in torch_rounds.items():
        for setting, figures in by_setting.items():
            speeds[host][setting] = statistics.median(figures)
    return {host: statistics.median(figures) for host, figures in esper_rounds.items() if figures}


# --- Reporting.


def blas_in_use():
    try:
        with open("/proc/self/maps", encoding="ascii", errors="replace") as maps:
            paths = {line.split()[-1] for line in maps if "libblas" in line or "openblas" in line}
    except OSError:
        return "unknown"
    return min(paths, key=len, default="built in")


def print_table(speeds, results):
    hosts = list(speeds)
    print(f"{'images/s':<36}" + "".join(f"{host:>22}" for host in hosts))
    settings = {setting: None for host in hosts for setting in speeds[host]}
    for setting in settings:
        cells = (f"{speeds[host][setting]:>22,.0f}" if setting in speeds[host] else f"{'-':>22}" for host in hosts)
        print(f"{str(setting):<36}" + "".join(cells))
    for row, form in (("best", ",.0f"), ("esper", ",.0f"), ("ratio", ".2f")):
        if any(row in results[host] for host in hosts):
            cells = (format(results[host][row], form) if row in results[host] else "-" for host in hosts)
            print(f"{row:<36}" + "".join(f"{cell:>22}" for cell in cells))


def report(speeds, finalists, esper):
    """The best is the best of the finalists: a screening figure of the others is one short measurement."""
    results = {}
    for host, by_setting in speeds.items():
        best = max(by_setting[setting] for setting in finalists[host])
        results[host] = {str(setting): round(speed, 1) for setting, speed in by_setting.items()}
        results[host]["best"] = round(best, 1)
        if host in esper:
            results[host]["esper"] = round(esper[host], 1)
            results[host]["ratio"] = round(esper[host] / best, 3)
    return results


def main():
    parser = argparse.ArgumentParser(description="Training steps of the CNN hosts in PyTorch, Esper compared with the best.")
    parser.add_argument("--esper", metavar="PATH", help="the built esper program; adds its figures and the ratio")
    parser.add_argument("--host", action="append", choices=list(HOSTS), help="only this host (may be repeated)")
    parser.add_argument("--quick", action="store_true", help="a rougher answer within a minute instead of four")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of the table")
    options = parser.parse_args()

    begin = time.monotonic()
    plan = QUICK if options.quick else FULL
    blas = blas_in_use()
    if "/blas/libblas" in blas:
        print("torch_peer: this is the slow reference BLAS; for a fair opponent: apt-get install libopenblas0",
              file=sys.stderr)
    if os.getloadavg()[0] > 0.5:
        print(f"torch_peer: the machine is busy (load {os.getloadavg()[0]:.1f}); do not trust figures taken now",
              file=sys.stderr)
    if options.esper and not os.access(options.esper, os.X_OK):
        sys.exit(f"torch_peer: {options.esper} is not a program; build it with: make all")
    workers = Workers()
    speeds = {host: {} for host in options.host or HOSTS}
    for _ in range(plan.passes):
        for host in speeds:
            print(f"torch_peer: settings of {host} ...", file=sys.stderr)
            screen(workers, HOSTS[host], plan.screen_s, plan.refine, speeds[host])
    finalists = {host: fastest(speeds[host], plan.finalists) for host in speeds}
    esper = compare(workers, speeds, finalists, plan, options.esper, begin + plan.budget_s)

    results = report(speeds, finalists, esper)
    if options.json:
        print(json.dumps(results, indent=1))
        return
    print(f"PyTorch {torch.__version__}, BLAS {blas}, {platform.machine()}, {NETS} networks x batch {BATCH}, "
          f"{NETS} threads")
    print_table(speeds, results)


if __name__ == "__main__":
    main()
