#!/usr/bin/python3
"""Trains the bare `cifar_baseline` host on CIFAR-10 in PyTorch: the accuracy that Esper's host has to reach.

The recipe: 45 000 training images, five epochs of 351 batches of 128, crop (pad 4) and flip, SGD lr 0.01, momentum 0.9,
weight decay 5e-4 on all parameters, gradient norm clipped to 1.0, PyTorch's default initialisation; the score is taken
on the 10 000 test images. Reads the packed file of `esper data get cifar10`. Needs python3-torch and libopenblas0.
"""

import argparse
import json
import platform
import statistics
import struct
import sys
import time

from torch_peer import HOSTS, Host  # first: it sets up BLAS before torch is loaded

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

BATCH = 128
PAD = 4
SIZE = 32
MEAN = torch.tensor([0.4914, 0.4822, 0.4465])
STD = torch.tensor([0.2470, 0.2435, 0.2616])


def read_tensors(path, names):
    """The named U8 tensors of a safetensors file: an 8-byte header length, the header as JSON, then the raw bytes."""
    try:
        with open(path, "rb") as file:
            content = file.read()
        (length,) = struct.unpack_from("<Q", content)
        header = json.loads(content[8:8 + length])
        body = np.frombuffer(content, dtype=np.uint8)[8 + length:]
        tensors = []
        for name in names:
            entry = header[name]
            if entry["dtype"] != "U8":
                raise ValueError(f"{name} has type {entry['dtype']}, not U8")
            begin, end = entry["data_offsets"]
            tensors.append(torch.from_numpy(body[begin:end].reshape(entry["shape"]).copy()))
        return tensors
    except OSError as error:
        sys.exit(f"torch_accuracy: {path}: {error.strerror}; make it with: esper data get cifar10")
    except (ValueError, KeyError, TypeError, struct.error) as error:
        sys.exit(f"torch_accuracy: {path}: not a packed data file ({error!r}); make it with: esper data get cifar10")


def normalised(images):
    """u8 [B][H][W][C] to float [B][C][H][W]."""
    return ((images.float() / 255 - MEAN) / STD).permute(0, 3, 1, 2).contiguous()


def augmented(images, generator):
    """Each image shifted by up to 4 pixels each way, black outside the image, and flipped half of the time."""
    count = len(images)
    padded = F.pad(images, (0, 0, PAD, PAD, PAD, PAD))
    top, left = torch.randint(0, 2 * PAD + 1, (2, count, 1), generator=generator)
    flip = torch.randint(0, 2, (count, 1), generator=generator)
    along = torch.arange(SIZE)
    rows = top + along
    columns = left + torch.where(flip == 1, SIZE - 1 - along, along)
    return padded[torch.arange(count)[:, None, None], rows[:, :, None], columns[:, None, :]]


def train_epoch(host, optimiser, images, labels, generator):
    host.train()
    order = torch.randperm(len(images), generator=generator)
    total = 0.0
    batches = len(images) // BATCH  # the tail is dropped
    for batch in range(batches):
        chosen = order[batch * BATCH:(batch + 1) * BATCH]
        optimiser.zero_grad(set_to_none=True)
        loss = F.cross_entropy(host(normalised(augmented(images[chosen], generator))), labels[chosen])
        loss.backward()
        nn.utils.clip_grad_norm_(host.parameters(), 1.0)
        optimiser.step()
        total += loss.item()
    return total / batches


@torch.no_grad()
def accuracy(host, images, labels):
    host.eval()
    parts = zip(images.split(500), labels.split(500))
    correct = sum((host(normalised(part)).argmax(1) == truth).sum().item() for part, truth in parts)
    return 100.0 * correct / len(images)


def train_seed(seed, epochs, data):
    train_images, train_labels, test_images, test_labels = data
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    host = Host(HOSTS["cifar_baseline"])
    optimiser = torch.optim.SGD(host.parameters(), lr=0.01, momentum=0.9, weight_decay=5e-4)
    result = {"seed": seed, "train_loss": []}
    start = time.monotonic()
    for epoch in range(epochs):
        result["train_loss"].append(round(train_epoch(host, optimiser, train_images, train_labels, generator), 4))
        print(f"torch_accuracy: seed {seed}, epoch {epoch + 1} of {epochs}, {time.monotonic() - start:.0f} s: "
              f"training loss {result['train_loss'][-1]:.4f}", file=sys.stderr, flush=True)
    result["test_accuracy"] = accuracy(host, test_images, test_labels)
    return result


def main():
    parser = argparse.ArgumentParser(description="Accuracy of the cifar_baseline host in PyTorch.")
    parser.add_argument("--data", metavar="FILE", default="data/cifar10.safetensors", help="default %(default)s")
    parser.add_argument("--seeds", type=int, default=5, help="how many seeds, from 0 (default %(default)s)")
    parser.add_argument("--epochs", type=int, default=5, help="default %(default)s")
    parser.add_argument("--threads", type=int, default=2, help="default %(default)s")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of the table")
    options = parser.parse_args()
    if min(options.seeds, options.epochs, options.threads) < 1:
        parser.error("--seeds, --epochs and --threads must be at least 1")

    torch.set_num_threads(options.threads)
    torch.set_flush_denormal(True)
    images, labels, test_images, test_labels = read_tensors(
        options.data, ("train.images", "train.labels", "test.images", "test.labels"))
    data = images, labels.long(), test_images, test_labels.long()
    # torch_peer.py measures it: Debian's oneDNN is slower than the native convolutions everywhere but on x86.
    with torch.backends.mkldnn.flags(enabled=platform.machine() == "x86_64"):
        runs = [train_seed(seed, options.epochs, data) for seed in range(options.seeds)]

    scores = [run["test_accuracy"] for run in runs]
    summary = {"mean": statistics.mean(scores), "std": statistics.stdev(scores) if len(scores) > 1 else 0.0}
    if options.json:
        facts = {"host": "cifar_baseline", "epochs": options.epochs, "train_images": len(images),
                 "test_images": len(test_images), "torch": torch.__version__}
        print(json.dumps({**facts, "runs": runs, **summary}, indent=1))
        return
    print("seed  last training loss  test accuracy %")
    for run in runs:
        print(f"{run['seed']:>4}  {run['train_loss'][-1]:>18.4f}  {run['test_accuracy']:>15.2f}")
    print(f"mean {summary['mean']:.2f} %, standard deviation {summary['std']:.2f}")


if __name__ == "__main__":
    main()
