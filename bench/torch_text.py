#!/usr/bin/python3
"""Trains the host of text_bytes in PyTorch by the same recipe, and compares loss and speed with Esper's.

The recipe: pre-norm transformer over bytes with tied embeddings and exact GELU, births N(0, 0.02) (output projections
divided by the root of twice the layers), AdamW with betas 0.9 and 0.95 and a decay of 0.1 on matrices alone, gradients
clipped to a norm of 1, windows drawn without replacement. Esper trains the bare host of the task in as many envs as
there are seeds; both report the mean loss over the same validation windows.

    bench/torch_text.py --esper build/esper --data data/text.safetensors            losses of five seeds, and the speed
    bench/torch_text.py --esper build/esper --data data/text.safetensors --speed    the speed alone, in alternating rounds
"""

import argparse
import json
import math
import multiprocessing
import os
import statistics
import struct
import subprocess
import sys
import tempfile
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

try:
    import torch
    from torch import nn
    from torch.nn import functional as F
except ImportError:
    sys.exit("torch_text: PyTorch is missing for this Python; run: apt-get install python3-torch libopenblas0")

WIDTH, HEADS, LAYERS, CONTEXT, VOCABULARY, BATCH, LR = 64, 4, 3, 64, 256, 32, 1e-3
VALIDATION = 500
BATCHES = 24  # of a step
TWO_PROCESSES = 0  # in place of a number of threads


class Layer(nn.Module):
    def __init__(self, fused):
        super().__init__()
        self.fused = fused
        self.ln1, self.ln2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.fc, self.fcproj = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def attend(self, x, mask):
        n, t, c = x.shape
        q, k, v = (y.view(n, t, HEADS, c // HEADS).transpose(1, 2) for y in self.qkv(x).split(c, dim=2))
        if self.fused:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            y = torch.softmax(q @ k.transpose(2, 3) / math.sqrt(c // HEADS) + mask, dim=3) @ v
        return self.proj(y.transpose(1, 2).reshape(n, t, c))

    def forward(self, x, mask):
        x = x + self.attend(self.ln1(x), mask)
        return x + self.fcproj(F.gelu(self.fc(self.ln2(x))))


class Host(nn.Module):
    def __init__(self, fused):
        super().__init__()
        self.tokens, self.places = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.layers = nn.ModuleList(Layer(fused) for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)
        self.register_buffer("mask", torch.full((CONTEXT, CONTEXT), -math.inf).triu(1))
        for name, p in self.named_parameters():
            if p.dim() == 2:
                nn.init.normal_(p, 0, 0.02 / (math.sqrt(2 * LAYERS) if "proj.weight" in name else 1))
            elif name.endswith("bias"):
                nn.init.zeros_(p)

    def forward(self, window):
        x, y = window[:, :-1], window[:, 1:]
        h = self.tokens(x) + self.places.weight
        for layer in self.layers:
            h = layer(h, self.mask)
        logits = self.norm(h) @ self.tokens.weight.t()
        return F.cross_entropy(logits.reshape(-1, VOCABULARY), y.reshape(-1))


def optimiser_of(host):
    decays = [p for n, p in host.named_parameters() if p.dim() == 2 and "layers" in n]
    others = [p for n, p in host.named_parameters() if p.dim() == 1 or "layers" not in n]
    return torch.optim.AdamW([{"params": decays, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}],
                             lr=LR, betas=(0.9, 0.95), eps=1e-8)


def train_step(host, optimiser, window):
    optimiser.zero_grad(set_to_none=True)
    host(window).backward()
    nn.utils.clip_grad_norm_(host.parameters(), 1.0)
    optimiser.step()


def streams_of(path):
    with open(path, "rb") as file:
        size = struct.unpack("<Q", file.read(8))[0]
        header = json.loads(file.read(size))
        body = file.read()
    def of(split):
        name = next(n for n in header if n.startswith(split) and header[n]["dtype"] == "U8")
        begin, end = header[name]["data_offsets"]
        return torch.frombuffer(bytearray(body[begin:end]), dtype=torch.uint8)
    return of("train"), of("val")


def windows_at(stream, starts):
    return stream[starts[:, None] + torch.arange(CONTEXT + 1)].long()


def loss_of_torch(path, seed, steps):
    train, val = streams_of(path)
    torch.manual_seed(seed)
    host = Host(hasattr(F, "scaled_dot_product_attention"))
    optimiser = optimiser_of(host)
    order = torch.randperm(len(train) - CONTEXT)
    for i in range(steps * BATCHES):
        train_step(host, optimiser, windows_at(train, order[i * BATCH:(i + 1) * BATCH]))
    with torch.no_grad():
        return host(windows_at(val, torch.arange(VALIDATION) * CONTEXT)).item()


def losses_of_esper(esper, path, seeds, steps):
    with tempfile.TemporaryDirectory() as runs:
        call = [esper, "train", "--task", "text_bytes", "--policy", "static", "--envs", str(seeds), "--steps", str(steps),
                "--rounds", "1", "--device", "cpu", "--quiet", "--runs", runs, "--name", "bare", "--set",
                "data.path=" + os.path.abspath(path), "--set", "reward.mode=shaped", "--set", f"data.val_images={VALIDATION}"]
        subprocess.run(call, check=True, stdout=subprocess.DEVNULL)
        answer = subprocess.run([esper, "sql", "bare", "select val_loss from step where step = (select max(step) from "
                                 "step) order by env", "--csv", "--runs", runs], check=True, capture_output=True, text=True)
        return [float(line) for line in answer.stdout.split()[1:]]


def torch_rate(fused, threads, seconds):
    """One process, or two of a thread each, a network of its own in each."""
    if threads == TWO_PROCESSES:
        with multiprocessing.get_context("fork").Pool(2) as pool:
            return sum(pool.starmap(torch_rate, [(fused, 1, seconds)] * 2))
    torch.set_num_threads(threads)
    host = Host(fused)
    optimiser = optimiser_of(host)
    window = torch.randint(0, 256, (BATCH, CONTEXT + 1))
    train_step(host, optimiser, window)
    steps, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        train_step(host, optimiser, window)
        steps += 1
    return steps * BATCH * CONTEXT / (time.perf_counter() - start)


def esper_rate(esper, path, seconds):
    call = [esper, "bench", "--part", "train", "--task", "text_bytes", "--envs", "2", "--batch", str(BATCH),
            "--milliseconds", str(int(1000 * seconds)), "--csv", "-"]
    where = dict(os.environ, ESPER_DATA=os.path.dirname(os.path.abspath(path)))
    table = subprocess.run(call, check=True, capture_output=True, text=True, env=where).stdout
    rows = [line.split(",") for line in table.splitlines()]
    return CONTEXT * float(next(row[4] for row in rows if row[0] == "train" and row[5] == "images/s"))


def speed(options):
    settings = [(fused, threads) for fused in (False, True) if not fused or hasattr(F, "scaled_dot_product_attention")
                for threads in (1, 2, TWO_PROCESSES)]
    rates = {setting: [] for setting in settings}
    ours = []
    for _ in range(options.repeats):
        ours.append(esper_rate(options.esper, options.data, 2))
        for setting in settings:
            rates[setting].append(torch_rate(*setting, 2))
    print(f"| program | tokens/s, median of {options.repeats} |\n|---|---|")
    for (fused, threads), measured in rates.items():
        how = {1: "1 thread", 2: "2 threads", TWO_PROCESSES: "2 processes"}[threads] + ", fused attention" * fused
        print(f"| PyTorch {torch.__version__}, {how} | {statistics.median(measured):.0f} |")
    best = max(statistics.median(measured) for measured in rates.values())
    print(f"| Esper, two networks on two threads | {statistics.median(ours):.0f} |")
    print(f"\nEsper is {statistics.median(ours) / best:.2f} times as fast as the best setting")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--esper", required=True)
    parser.add_argument("--data", required=True, help="the packed text that `esper data get text` wrote")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=20, help=f"of {BATCHES} batches each")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--speed", action="store_true", help="the speed alone")
    options = parser.parse_args()
    if not options.speed:
        theirs = [loss_of_torch(options.data, seed, options.steps) for seed in range(options.seeds)]
        ours = losses_of_esper(options.esper, options.data, options.seeds, options.steps)
        for name, losses in (("PyTorch", theirs), ("Esper", ours)):
            print(f"{name}: {', '.join(f'{x:.4f}' for x in losses)}; mean {statistics.mean(losses):.4f} nats")
        print(f"apart by {abs(statistics.mean(theirs) - statistics.mean(ours)):.4f} after {options.steps * BATCHES} batches\n")
    speed(options)


if __name__ == "__main__":
    main()
