// Parallel coordinates: an axis per setting and one for the result, a line per run. What the pointer is on stands out.
import { useEffect, useRef, useState } from "preact/hooks";
import { figures, known, ticks } from "./format.js";
import { ramp, theme } from "./theme.js";

const HEIGHT = 300;
const TOP = 40;
const BOTTOM = 14;

// Numbers by size, by magnitude where they span several; words in the order of the alphabet.
function scaleOf(values) {
    const given = values.filter(known);
    const numbers = given.length > 0 && given.every((v) => v !== "" && Number.isFinite(Number(v)));
    const place = (share) => TOP + (1 - share) * (HEIGHT - TOP - BOTTOM);
    if (!numbers) {
        const all = [...new Set(given)].sort();
        const y = (v) => place(all.length > 1 ? all.indexOf(v) / (all.length - 1) : 0.5);
        return { y, marks: all.slice(0, 24).map((v) => [String(v), y(v)]), share: () => 0.5 };
    }
    const all = [...new Set(given.map(Number))].sort((a, b) => a - b);
    const [low, high] = [all[0], all.at(-1)];
    const log = low > 0 && high / low >= 20;
    const of = log ? Math.log : (v) => v;
    const share = (v) => (high > low ? (of(Number(v)) - of(low)) / (of(high) - of(low)) : 0.5);
    const y = (v) => place(share(v));
    const texts = new Map(given.map((v) => [Number(v), typeof v === "string" ? v : figures(v)])); // as they were written
    const wanted = all.length <= 8 ? all : log ? [low, high] : [...new Set([low, ...ticks(low, high, 5), high])];
    // No mark where another one is already written.
    const marks = [];
    for (const v of wanted) if (marks.every(([, at]) => Math.abs(at - y(v)) > 12)) marks.push([texts.get(v) ?? figures(v), y(v)]);
    return { y, marks, share };
}

/* axes: [{name, values}], a value per line or null; the last one gives the colour. lines: [name]. */
export function Parallel({ axes, lines }) {
    const [over, setOver] = useState(-1);
    const [room, setRoom] = useState(0);
    const box = useRef();
    useEffect(() => {
        const observer = new ResizeObserver(([{ contentRect }]) => setRoom(contentRect.width)); // also called at once
        observer.observe(box.current);
        return () => observer.disconnect();
    }, []);
    const width = Math.max(room, 60 + axes.length * 100);
    const x = (i) => 50 + (i * (width - 130)) / Math.max(axes.length - 1, 1);
    const scales = axes.map((axis) => scaleOf(axis.values));
    const result = axes.at(-1);
    // The part of the ramp that is seen on this ground.
    const shade = (value) => {
        const share = scales.at(-1).share(value);
        return ramp(theme.value === "dark" ? 0.35 + 0.65 * share : 0.85 * share).back;
    };
    const path = (line) => {
        let text = "";
        let pen = "M"; // a missing value lifts it
        axes.forEach((axis, i) => {
            const value = axis.values[line];
            if (!known(value)) pen = "M";
            else {
                text += `${pen}${x(i)} ${scales[i].y(value).toFixed(1)}`;
                pen = "L";
            }
        });
        return text;
    };
    const says = (line) =>
        `${lines[line]}: ${axes.map((a) => `${a.name} ${known(a.values[line]) ? a.values[line] : "–"}`).join(", ")}`;
    const order = lines.map((_, i) => i).sort((a, b) => (a === over) - (b === over)); // the one in front is drawn last
    return (
        <>
            <div class="sideways" ref={box}>
                <svg
                    class="parallel"
                    viewBox={`0 0 ${width} ${HEIGHT}`}
                    width={width}
                    height={HEIGHT}
                    role="img"
                    aria-label={`settings and ${result.name} of ${lines.length} runs; the table beside it gives the same values`}
                    onPointerLeave={() => setOver(-1)}
                >
                    {axes.map((axis, i) => (
                        <g key={axis.name} transform={`translate(${x(i)} 0)`}>
                            <line class="edge" y1={TOP - 6} y2={HEIGHT - BOTTOM + 6} />
                            <text class="axis" y={i % 2 ? 28 : 12} text-anchor={i === 0 ? "start" : "middle"} x={i === 0 ? -46 : 0}>
                                {axis.name}
                            </text>
                        </g>
                    ))}
                    {order.map((line) => (
                        <path
                            key={line}
                            class={over === line ? "line over" : over >= 0 ? "line faint" : "line"}
                            style={{ stroke: known(result.values[line]) ? shade(result.values[line]) : undefined }}
                            d={path(line)}
                            onPointerEnter={() => setOver(line)}
                        >
                            <title>{says(line)}</title>
                        </path>
                    ))}
                    {axes.map((axis, i) =>
                        scales[i].marks.map(([text, y]) => (
                            <text key={axis.name + text} class="tick" x={x(i) + 5} y={y + 4}>
                                {text}
                            </text>
                        )),
                    )}
                </svg>
            </div>
            <p class="readout" aria-live="polite">
                {over >= 0 ? <b>{says(over)}</b> : `colour: ${result.name}, yellow is most; point at a line to read it`}
            </p>
        </>
    );
}
