// A chart as a drawing that stands alone: the axes, lines, bands or areas that the page shows, with a legend.
import { figures, known, ticks } from "./format.js";
import { FONT, escape, frame } from "./save.jsx";
import { colour } from "./theme.js";

const LEFT = 64;
const RIGHT = 16;
const ENTRY = 18; // px, a line of the legend
const NAMED = 24; // lines that are named

// Powers of ten, and twos and fives between them where there are few.
function logTicks(low, high) {
    const all = [];
    const few = Math.log10(high / low) < 3;
    for (let ten = 10 ** Math.floor(Math.log10(low)); ten <= high; ten *= 10)
        for (const n of few ? [1, 2, 5] : [1]) if (n * ten >= low && n * ten <= high) all.push(n * ten);
    return all;
}

// "M1 2L3 4": a missing value lifts the pen, unless the line spans gaps.
function pathOf(x, y, xs, ys, spans) {
    let pen = "M";
    return xs
        .map((value, i) => {
            if (!known(ys[i])) {
                if (!spans) pen = "M";
                return "";
            }
            const text = `${pen}${x(value).toFixed(1)} ${y(ys[i]).toFixed(1)}`;
            pen = "L";
            return text;
        })
        .join("");
}

function closed(x, y, xs, top, bottom) {
    const there = xs.map((_, i) => i).filter((i) => known(top[i]) && known(bottom[i]));
    const go = (i, row) => `${x(xs[i]).toFixed(1)} ${y(row[i]).toFixed(1)}`;
    if (!there.length) return "";
    return `M${there.map((i) => go(i, top)).join("L")}L${there.reverse().map((i) => go(i, bottom)).join("L")}Z`;
}

/* scales: [[from, to], [from, to]] as shown; curves: [{name, ink, dash, values, low, high}], or with `base` areas. */
export function chartSvg({ title, unit, x: xs, xName, scales, log, curves, limits, spans }) {
    const width = 900;
    const height = 380;
    const [[left, right], [low, high]] = scales;
    const of = log ? Math.log : (v) => v;
    const x = (v) => LEFT + ((v - left) / (right - left || 1)) * (width - LEFT - RIGHT);
    const y = (v) => height - ((of(v) - of(low)) / (of(high) - of(low) || 1)) * (height - 10);
    const text = (at, down, anchor, what) =>
        `<text x="${at.toFixed(1)}" y="${down.toFixed(1)}" text-anchor="${anchor}" fill="${colour("muted")}" ${FONT}>${escape(what)}</text>`;
    const rule = (x1, y1, x2, y2, ink) => `<path d="M${x1} ${y1}L${x2} ${y2}" stroke="${colour(ink)}" fill="none"/>`;
    const parts = (log ? logTicks(low, high) : ticks(low, high, 7)).map(
        (v) => rule(LEFT, y(v).toFixed(1), width - RIGHT, y(v).toFixed(1), "line") + text(LEFT - 6, y(v) + 4, "end", figures(v)),
    );
    for (const v of ticks(left, right, 9)) parts.push(text(x(v), height + 16, "middle", figures(v)));
    parts.push(text(width - RIGHT, height + 32, "end", xName ?? ""), rule(LEFT, height, width - RIGHT, height, "muted"));
    for (const limit of limits ?? [])
        if (limit >= low && limit <= high) parts.push(rule(LEFT, y(limit), width - RIGHT, y(limit), "warn"));
    for (const c of curves)
        if (c.low) parts.push(`<path d="${closed(x, y, xs, c.high, c.low)}" fill="${c.ink}" fill-opacity="${c.solid ? 1 : 0.19}"/>`);
    for (const c of curves)
        if (!c.solid)
            parts.push(
                `<path d="${pathOf(x, y, xs, c.values, spans)}" fill="none" stroke="${c.ink}" stroke-width="1.6" stroke-dasharray="${c.dash.join(" ")}"/>`,
            );
    const named = curves.slice(0, NAMED);
    named.forEach((c, i) => {
        const [at, down] = [LEFT + (i % 2) * 410, height + 50 + Math.floor(i / 2) * ENTRY];
        parts.push(
            `<path d="M${at} ${down - 4}h26" stroke="${c.ink}" stroke-width="${c.solid ? 8 : 2}" stroke-dasharray="${c.dash.join(" ")}"/>`,
            text(at + 32, down, "start", c.name.length > 58 ? c.name.slice(0, 57) + "…" : c.name),
        );
    });
    const rows = Math.ceil(named.length / 2);
    if (curves.length > NAMED) parts.push(text(LEFT, height + 50 + rows * ENTRY, "start", `and ${curves.length - NAMED} more`));
    return frame(width, height + 60 + (rows + 1) * ENTRY, unit ? `${title}, ${unit}` : title, parts.join(""));
}
