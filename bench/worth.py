#!/usr/bin/env python3
"""What schedules are worth by all that trainings with lessons played of them, and what policies forgo by what they play.

EXAM is the folder of an exam (several may be of the same task). A schedule's worth is the test score that it adds to the
bare host: a birth's luck, which all share who had it, is taken out by least squares. A schedule counts as the same at
every tempo. Runs that were recorded before `outcome.schedule` existed tell schedules apart by the parameters that they
added. --prices: the best schedules at each price, in points per 1000 parameters, and how far what each policy played in
the exam falls short of the best of them. --images: worth by the number of images that an episode had, in ranges that end
there.
"""
import argparse
import glob
import math
import os
import re
import sqlite3
from collections import defaultdict

LEAST = 30  # plays of a schedule that is spoken of


def plays(folder):
    for path in sorted(glob.glob(os.path.join(folder, "training*", "telemetry.db"))):
        with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as db:
            known = any(row[1] == "schedule" for row in db.execute("PRAGMA table_info(outcome)"))
            for birth, test, added, images, schedule in db.execute(
                    f"SELECT round || ' ' || twin_accuracy || ' ' || images, test_accuracy, added_params, images, "
                    f"{'schedule' if known else 'NULL'} FROM outcome WHERE test_accuracy IS NOT NULL"):
                name = re.sub(r"/[38]@", "@", schedule) if schedule else f"{added} parameters"
                yield (path, birth), name, test, added, images


def fit(rows):
    """Worth, plays, standard error and parameters of every schedule, compared with the bare host where it was played."""
    births, added = defaultdict(list), {}
    for birth, schedule, test, parameters, _ in rows:
        births[birth].append((schedule, test))
        added[schedule] = parameters
    births = [played for played in births.values() if len(played) > 1]
    worth = defaultdict(float)
    for _ in range(300):
        sums, counts = defaultdict(float), defaultdict(int)
        for played in births:
            level = sum(test - worth[schedule] for schedule, test in played) / len(played)
            for schedule, test in played:
                sums[schedule] += test - level
                counts[schedule] += 1
        worth.update({schedule: sums[schedule] / counts[schedule] for schedule in sums})
    squares = defaultdict(float)
    for played in births:
        level = sum(test - worth[schedule] for schedule, test in played) / len(played)
        for schedule, test in played:
            squares[schedule] += (test - level - worth[schedule]) ** 2
    bare = next((worth[schedule] for schedule in ("none", "0 parameters") if schedule in worth), 0)
    return {schedule: (worth[schedule] - bare, counts[schedule],
                       math.sqrt(squares[schedule]) / counts[schedule], added[schedule]) for schedule in counts}


def net(value, price):
    return value[0] - price * value[3] / 1000


def print_prices(table, prices, folders):
    for price in prices:
        ranked = sorted((s for s in table if table[s][1] >= LEAST), key=lambda s: -net(table[s], price))
        best = net(table[ranked[0]], price)
        print(f"\nprice {price:g}: worth minus the price; standard error; plays")
        for schedule in ranked[:5]:
            print(f"  {net(table[schedule], price):7.2f}  {table[schedule][2]:5.2f}  {table[schedule][1]:5d}  {schedule}")
        of_params = {table[s][3]: table[s] for s in reversed(ranked)}
        for folder in folders:
            short = []
            for path in sorted(glob.glob(os.path.join(folder, f"ppo-p{price:g}-s*", "telemetry.db"))):
                with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as db:
                    played = [row[0] for row in db.execute("SELECT added_params FROM outcome")]
                known = [of_params[added] for added in played if added in of_params]
                if 2 * len(known) > len(played):
                    short.append(sum(net(value, price) for value in known) / len(known) - best)
            if short:
                print(f"  {folder}: policies fall short by {' '.join(f'{x:.2f}' for x in short)}; "
                      f"mean {sum(short) / len(short):.2f}")


def print_images(rows, ends):
    ranges = list(zip([0] + ends, ends + [float("inf")]))
    tables = [fit([row for row in rows if low <= row[4] < high]) for low, high in ranges]
    whole = fit(rows)
    print("\nworth, standard error, by the number of images from", ", ".join(str(low) for low, _ in ranges), "on; of all")
    for schedule in sorted((s for s in whole if whole[s][1] >= LEAST), key=lambda s: -whole[s][0]):
        cells = ["%6.2f %4.2f" % table[schedule][::2][:2] if schedule in table else " " * 11 for table in tables + [whole]]
        print("  ".join(cells), f" {whole[schedule][3]:6d}  {schedule}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prices", default="0")
    parser.add_argument("--images", default="")
    parser.add_argument("exam", nargs="+")
    options = parser.parse_args()
    rows = [row for folder in options.exam for row in plays(folder)]
    if not rows:
        parser.error("no record of a training in " + ", ".join(options.exam))
    print(f"{len(rows)} episodes")
    print_prices(fit(rows), [float(price) for price in options.prices.split(",")], options.exam)
    if options.images:
        print_images(rows, [int(end) for end in options.images.split(",")])


if __name__ == "__main__":
    main()
