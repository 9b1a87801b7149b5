// Rows of cells over rounds: colour says how much, the newest value of each row is written beside it, and the cell under
// pointer or cursor keys is described in words.
import { useEffect, useRef, useState } from "preact/hooks";
import { MISSING, figures, known } from "./format.js";
import { FONT, Save, escape, frame } from "./save.jsx";
import { colour, ramp, theme } from "./theme.js";

const ROW = 20; // px, as in style.css

function paint(canvas, { x, rows, scale }) {
    const ratio = devicePixelRatio || 1;
    const width = canvas.clientWidth;
    const height = rows.length * ROW;
    canvas.width = width * ratio;
    canvas.height = height * ratio;
    const ctx = canvas.getContext("2d");
    ctx.scale(ratio, ratio);
    const step = width / Math.max(x.length, 1);
    rows.forEach((row, r) =>
        x.forEach((_, i) => {
            const value = row.values[i];
            ctx.fillStyle = known(value) ? ramp(scale(value)).back : colour("panel");
            ctx.fillRect(i * step, r * ROW + 1, Math.ceil(step), ROW - 2);
            if (known(value) || step < 3) return;
            ctx.strokeStyle = colour("line"); // missing: a stroke through an empty cell
            ctx.beginPath();
            ctx.moveTo(i * step, (r + 1) * ROW - 2);
            ctx.lineTo((i + 1) * step, r * ROW + 1);
            ctx.stroke();
        }),
    );
}

// The same as a drawing: a rectangle per cell.
function drawn({ title, x, rows, scale }) {
    const [left, width] = [110, 760];
    const step = width / Math.max(x.length, 1);
    const text = (at, y, what) =>
        `<text x="${at}" y="${y}" fill="${colour("ink")}" ${FONT}>${escape(what)}</text>`;
    const cells = rows.flatMap((row, r) => [
        text(8, r * ROW + 14, row.name),
        ...x.map((_, i) =>
            known(row.values[i])
                ? `<rect x="${(left + i * step).toFixed(2)}" y="${r * ROW + 1}" width="${Math.ceil(step)}" height="${ROW - 2}" fill="${ramp(scale(row.values[i])).back}"/>`
                : "",
        ),
        text(left + width + 8, r * ROW + 14, figures(row.values[x.length - 1])),
    ]);
    const axis = [text(left, rows.length * ROW + 14, `round ${x[0] ?? ""}`), text(left + width - 40, rows.length * ROW + 14, x.at(-1) ?? "")];
    return frame(left + width + 80, rows.length * ROW + 24, title, [...cells, ...axis].join(""));
}

function scaleOf({ rows, low, high, log }) {
    const values = rows.flatMap((row) => row.values).filter((v) => known(v) && (!log || v > 0));
    const of = log ? Math.log10 : (v) => v;
    const from = low ?? Math.min(...values);
    const to = high ?? Math.max(...values);
    const span = of(to) - of(from) || 1;
    return { from, to, scale: (v) => (log && v <= 0 ? 0 : (of(v) - of(from)) / span) };
}

/* rows: [{name, values}], one value per x; low, high: ends of the colour scale, by default those of the data; log:
 * logarithmic */
export function Heat(props) {
    const { title, unit, x, rows, log } = props;
    const canvas = useRef();
    const [at, setAt] = useState();
    const { from, to, scale } = scaleOf(props);
    useEffect(() => {
        const sheet = canvas.current;
        const observer = new ResizeObserver(() => paint(sheet, { x, rows, scale })); // also called at once
        observer.observe(sheet);
        return () => observer.disconnect();
    }, [x, rows, theme.value]);
    const clamp = (v, most) => Math.min(Math.max(v, 0), most);
    const point = (event) => {
        const box = canvas.current.getBoundingClientRect();
        setAt([
            clamp(Math.floor((event.clientY - box.top) / ROW), rows.length - 1),
            clamp(Math.floor(((event.clientX - box.left) / box.width) * x.length), x.length - 1),
        ]);
    };
    const press = (event) => {
        const move = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
        if (!move) return;
        event.preventDefault();
        setAt(([r, i] = [0, x.length - 1]) => [clamp(r + move[0], rows.length - 1), clamp(i + move[1], x.length - 1)]);
    };
    const shown = at && rows[at[0]] && at[1] < x.length ? at : null;
    return (
        <figure class="heat" data-name={props.name}>
            <figcaption>
                {title} <small>{unit}</small>{" "}
                <Save
                    title={title}
                    draw={() => drawn({ title, x, rows, scale })}
                    numbers={() => ({
                        columns: ["round", ...rows.map((row) => row.name)],
                        rows: x.map((round, i) => [round, ...rows.map((row) => row.values[i])]),
                    })}
                />
            </figcaption>
            <div class="heatgrid">
                <div>
                    {rows.map((row) => (
                        <div key={row.name} class="label">
                            {row.name}
                        </div>
                    ))}
                </div>
                <canvas
                    ref={canvas}
                    tabindex="0"
                    role="img"
                    aria-label={`${title}: arrow keys read out cells`}
                    onPointerMove={point}
                    onPointerLeave={() => setAt()}
                    onKeyDown={press}
                    style={{ height: rows.length * ROW + "px" }}
                />
                <div>
                    {rows.map((row) => (
                        <div key={row.name} class="label number" data-row={row.name}>
                            {figures(row.values[x.length - 1])}
                        </div>
                    ))}
                </div>
            </div>
            <p class="readout" aria-live="polite">
                <span
                    class="key"
                    style={{
                        background: `linear-gradient(90deg, ${[0, 0.25, 0.5, 0.75, 1].map((s) => ramp(s).back).join()})`,
                    }}
                />{" "}
                {Number.isFinite(from) ? `${figures(from)} to ${figures(to)}${log ? ", by magnitude" : ""}` : MISSING};
                beside: the newest; blank or struck through: missing
                {shown && (
                    <b>
                        {" "}
                        · {rows[shown[0]].name}, round {x[shown[1]]}: {figures(rows[shown[0]].values[shown[1]])}
                    </b>
                )}
            </p>
        </figure>
    );
}
