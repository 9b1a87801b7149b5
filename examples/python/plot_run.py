#!/usr/bin/env python3
"""Draws how a run learned, as an SVG file that any browser shows: scores, rewards and seeds by round. Needs numpy alone.

    python3 plot_run.py runs/first first.svg
"""
import sys
from xml.sax.saxutils import escape

import numpy as np

import esper

WIDTH, HEIGHT, LEFT, GAP = 640, 150, 60, 46
COLOURS = ("#1b6ca8", "#c8553d", "#3a7d44")


def ticks(low, high):
    """About four round numbers between the two."""
    step = 10 ** np.floor(np.log10((high - low) / 4))
    step *= next(factor for factor in (1, 2, 5, 10) if (high - low) / (factor * step) <= 5)
    return np.arange(np.ceil(low / step) * step, high + step / 1e6, step)


def panel(top, title, rounds, lines):
    """One plot of several lines {name: values}, over the same rounds."""
    values = np.concatenate(list(lines.values()))
    low, high = np.nanmin(values), np.nanmax(values)
    if not high > low:
        low, high = low - 1, high + 1
    across = LEFT + (rounds - rounds[0]) / max(rounds[-1] - rounds[0], 1) * (WIDTH - LEFT - 20)
    yield f'<text x="{LEFT}" y="{top - 8}" font-weight="bold">{escape(title)}</text>'
    for tick in ticks(low, high):
        y = top + HEIGHT * (high - tick) / (high - low)
        yield f'<path d="M{LEFT} {y:.1f}H{WIDTH - 20}" stroke="#ddd"/>'
        yield f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{tick + 0.0:g}</text>'
    for place, ((name, column), colour) in enumerate(zip(lines.items(), COLOURS)):
        down = top + HEIGHT * (high - column) / (high - low)
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in zip(across, down) if y == y)  # what is missing is left out
        yield f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.6"/>'
        yield f'<text x="{WIDTH - 20 - 110 * place}" y="{top - 8}" text-anchor="end" fill="{colour}">{escape(name)}</text>'


def draw(run):
    table = run.query("select * from round order by round")
    rounds = np.arange(1, len(table["round"]) + 1)
    if not len(rounds):
        raise SystemExit(f"{run.path}: no round is finished yet")
    envs = run.config["envs"]
    panels = (("score, points", {"test": table["test_accuracy_mean"], "validation": table["val_accuracy_mean"]}),
              ("reward of an episode", {"reward": table["reward_mean"]}),
              ("seeds of an episode", {"fossilised": table["fossilizations"] / envs,
                                       "germinated": table["germinations"] / envs}))
    total = len(panels) * (HEIGHT + GAP) + 30
    yield (f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{total}" '
           f'font-family="sans-serif" font-size="11"><rect width="100%" height="100%" fill="white"/>')
    for place, (title, lines) in enumerate(panels):
        yield from panel(GAP - 14 + place * (HEIGHT + GAP), title, rounds, lines)
    yield f'<text x="{WIDTH - 20}" y="{total - 12}" text-anchor="end">rounds 1 to {rounds[-1]} of {escape(run.path)}</text>'
    yield "</svg>"


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit("usage: plot_run.py RUN FILE.svg")
    with esper.Run(sys.argv[1]) as run, open(sys.argv[2], "w") as file:
        file.write("\n".join(draw(run)) + "\n")
