#!/usr/bin/env python3
"""Draw how the validation accuracy of runs grows with the rounds, as SVG. Usage: learning_plot.py OUT RUN... [--bare PERCENT]"""
import sqlite3
import sys

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 760, 320, 52, 170, 18, 40
COLOURS = ["#0969da", "#1a7f37", "#9a6700", "#8250df", "#cf222e"]


def rounds(run):
    with sqlite3.connect(f"file:{run}/telemetry.db?mode=ro", uri=True) as db:
        seed = db.execute("SELECT seed FROM run").fetchone()[0]
        return seed, [row[0] for row in db.execute("SELECT val_accuracy_mean FROM round ORDER BY round")]


def smooth(values, width=5):
    return [sum(values[max(0, i - width + 1):i + 1]) / len(values[max(0, i - width + 1):i + 1]) for i in range(len(values))]


def main(arguments):
    bare = None
    if "--bare" in arguments:
        at = arguments.index("--bare")
        bare = float(arguments[at + 1])
        del arguments[at:at + 2]
    out, runs = arguments[0], [rounds(run) for run in arguments[1:]]
    last = max(len(values) for _, values in runs)

    def x(index):
        return LEFT + (WIDTH - LEFT - RIGHT) * index / (last - 1)

    def y(percent):
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * percent / 90

    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="system-ui,sans-serif" font-size="12">',
             "<title>Validation accuracy while the policy learns</title>", f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>']
    for percent in range(0, 91, 15):
        lines.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(percent):.1f}" y2="{y(percent):.1f}" stroke="#e5e7eb"/>'
                     f'<text x="{LEFT - 8}" y="{y(percent) + 4:.1f}" text-anchor="end" fill="#57606a">{percent} %</text>')
    for index in [0] + list(range(9, last, 10)):
        lines.append(f'<text x="{x(index):.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle" fill="#57606a">{index + 1}</text>')
    lines.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2:.1f}" y="{HEIGHT - 6}" text-anchor="middle" fill="#57606a">round</text>')
    if bare is not None:
        lines.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(bare):.1f}" y2="{y(bare):.1f}" stroke="#57606a" stroke-dasharray="4 3"/>'
                     f'<text x="{WIDTH - RIGHT + 8}" y="{y(bare) + 4:.1f}" fill="#57606a">hosts left alone</text>')
    ends = []
    for (seed, values), colour in zip(runs, COLOURS):
        points = " ".join(f"{x(i):.1f},{y(v):.1f}" for i, v in enumerate(values))
        means = smooth(values)
        curve = " ".join(f"{x(i):.1f},{y(v):.1f}" for i, v in enumerate(means))
        lines.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-opacity="0.25"/>'
                     f'<polyline points="{curve}" fill="none" stroke="{colour}" stroke-width="2"/>')
        ends.append((y(means[-1]), f"policy, seed {seed}", colour))
    previous = -99.0
    for height, label, colour in sorted(ends):
        previous = max(height, previous + 15)
        lines.append(f'<text x="{WIDTH - RIGHT + 8}" y="{previous + 4:.1f}" fill="{colour}">{label}</text>')
    with open(out, "w") as file:
        file.write("\n".join(lines + ["</svg>"]) + "\n")


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(sys.argv[1:])
