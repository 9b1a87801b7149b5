// Numbers and names for people. A missing value is "–" and never 0; the unit goes with the number.
import { HEADS as C_HEADS, COOLDOWN_STAGES, EVALUATION_ROUND, LIVE_STAGES } from "./words.js";

export const MISSING = "–";

// The op first: it says which other heads matter.
export const HEADS = ["op", ...C_HEADS.filter((head) => head !== "op")];

// Letters repeat what the colours say (.stage-X in style.css); the terminal viewer uses the same letters.
export const STAGES = [...LIVE_STAGES.map((name) => [name, name[0].toUpperCase()]), ["cooling", "x"]];

export function stageName(stage) {
    return COOLDOWN_STAGES.includes(stage) ? "cooling" : stage;
}

export function stageLetter(stage) {
    return STAGES.find(([name]) => name === stageName(stage))?.[1] ?? "·";
}

export const known = (x) => x !== null && x !== undefined && !Number.isNaN(x);

// "12 345.60 %": a narrow space between thousands, a real minus, `digits` after the point.
export function number(x, digits = 2, unit = "") {
    if (!known(x)) return MISSING;
    const [whole, rest] = Math.abs(x).toFixed(digits).split(".");
    const text = whole.replace(/\B(?=(\d{3})+$)/g, "\u202f") + (rest ? "." + rest : "");
    const sign = x < 0 && Number(x.toFixed(digits)) !== 0 ? "\u2212" : "";
    return sign + text + (unit && "\u00a0" + unit);
}

// Three significant figures, whatever the magnitude: for losses, gradients and similar numbers.
export function figures(x, unit = "") {
    if (!known(x)) return MISSING;
    const size = Math.abs(x);
    if (Number.isInteger(x) && size < 1e6) return number(x, 0, unit);
    if (size !== 0 && (size < 1e-3 || size >= 1e6))
        return x.toExponential(2).replace(/-/g, "\u2212") + (unit && "\u00a0" + unit);
    return number(x, size >= 100 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 3, unit);
}

export const count = (x, unit = "") => number(x, 0, unit);
export const percent = (x) => number(x, 2, "%");

// Scores in the words of the run's family, which come with the run (src/base/family_words.h): accuracy in % or points, and
// of text bits per byte beside them.
export const score =
    (run, digits = 2) =>
    (x) =>
        number(x, digits, run.words?.unit);
export const bits = (run, points) =>
    run.words?.bytes && known(points) ? number(8 * (1 - points / 100), 3, "bits per byte") : "";
export const scored = (run, points) => [score(run)(points), bits(run, points)].filter(Boolean).join(", ");
export const capital = (text) => text[0].toUpperCase() + text.slice(1);

export function signed(x, digits = 2, unit = "") {
    return known(x) && x > 0 ? "+" + number(x, digits, unit) : number(x, digits, unit);
}

export function duration(seconds) {
    if (!known(seconds)) return MISSING;
    const s = Math.round(seconds);
    if (seconds < 60) return number(seconds, 1, "s");
    if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`;
    return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
}

export function bytes(x) {
    return !known(x) ? MISSING : x < 1e6 ? number(x / 1e3, 1, "kB") : number(x / 1e6, 1, "MB");
}

// Round numbers from `low` to `high` or just inside, about `wanted` of them.
export function ticks(low, high, wanted = 5) {
    const rough = (high - low) / wanted || 1;
    const ten = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].find((n) => n * ten >= rough) * ten;
    const all = [];
    for (let at = Math.ceil(low / step - 1e-9); at * step <= high + step * 1e-9; at++) all.push(at * step);
    return all;
}

// ISO 8601 UTC as the server sends it, shortened.
export const time = (text) => (text ? text.replace("T", " ").replace("Z", " UTC") : MISSING);

// Rounds count from 0 in the record, those of evaluations from a large number; people count from 1.
export function roundsBefore(round) {
    return known(round) ? (round >= EVALUATION_ROUND ? round - EVALUATION_ROUND : round) : null;
}
export function shownRound(round) {
    return known(round) ? roundsBefore(round) + 1 : null;
}
export function storedRound(shown, run) {
    return shown - 1 + (run.evaluate ? EVALUATION_ROUND : 0);
}

export const slotName = (run, slot) => (known(slot) ? (run.slots[slot] ?? String(slot)) : MISSING);
export const words = (name) => name.replaceAll("_", " ");

// Run states and gates: a sign for each, so that nothing depends on colour alone.
export const SIGNS = {
    running: "▶",
    finished: "✓",
    interrupted: "‖",
    failed: "✗",
    crashed: "✗",
    pass: "✓",
    watch: "!",
    fail: "✗",
    unknown: "?",
    interpretable: "✓",
    collecting: "…",
    blocked: "✗",
    warn: "!",
    critical: "✗",
};
