// The arithmetic of overlaid runs: smoothing, a common axis, bands over seeds. Missing values are null and stay so.
import { known } from "./format.js";

const EXACT = 600; // different x values that are shown as they are
const GRID = 400; // points of a common axis where there are more

/* A running mean in which a value counts `weight` times as much one point later, corrected for its start. */
export function smooth(values, weight) {
    if (!weight) return values;
    let sum = 0;
    let norm = 0;
    return values.map((value) => {
        if (!known(value)) return null;
        sum = weight * sum + (1 - weight) * value;
        norm = weight * norm + (1 - weight);
        return sum / norm;
    });
}

// The values of the axis: those of all curves, or as many evenly spaced ones as a screen shows.
export function axisOf(curves) {
    const all = [...new Set(curves.flatMap((curve) => curve.x))].sort((a, b) => a - b);
    if (all.length <= EXACT) return { x: all, exact: true };
    const [from, to] = [all[0], all.at(-1)];
    return { x: Array.from({ length: GRID }, (_, i) => from + ((to - from) * i) / (GRID - 1)), exact: false };
}

// The curve at every x: between its points by straight lines, outside of them missing.
export function at(curve, x) {
    const points = curve.x.map((value, i) => [value, curve.y[i]]).filter(([, y]) => known(y));
    let i = 0;
    return x.map((value) => {
        if (!points.length || value < points[0][0] || value > points.at(-1)[0]) return null;
        while (i < points.length - 1 && points[i + 1][0] <= value) i++;
        const [left, low] = points[i];
        if (left === value || i === points.length - 1) return low;
        const [right, high] = points[i + 1];
        return low + ((high - low) * (value - left)) / (right - left);
    });
}

// The points themselves on the axis: nothing is drawn where a curve has none.
export function placed(curve, x) {
    const found = new Map(curve.x.map((value, i) => [value, curve.y[i]]));
    return x.map((value) => found.get(value) ?? null);
}

// 97.5 % of Student's t for n - 1 degrees of freedom.
const STUDENT = [12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.16, 2.145, 2.131];
const student = (n) => STUDENT[n - 2] ?? 1.96 + 2.5 / (n - 1);

/* Mean and band of curves that were brought to one axis. kind "range": least and largest; "interval": the mean's 95 %. */
export function band(rows, kind) {
    const columns = rows[0].map((_, i) => rows.map((row) => row[i]).filter(known));
    const mean = columns.map((c) => (c.length ? c.reduce((a, b) => a + b, 0) / c.length : null));
    const half = columns.map((c, i) => {
        if (c.length < 2) return 0;
        const square = c.reduce((sum, v) => sum + (v - mean[i]) ** 2, 0) / (c.length - 1);
        return student(c.length) * Math.sqrt(square / c.length);
    });
    const edge = (pick, sign) =>
        columns.map((c, i) => (!c.length ? null : kind === "range" ? pick(...c) : mean[i] + sign * half[i]));
    return { mean, low: edge(Math.min, -1), high: edge(Math.max, 1) };
}

// A logarithmic axis has no place for what is not above 0.
export const positive = (values) => values.map((v) => (known(v) && v > 0 ? v : null));
