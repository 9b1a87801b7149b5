// Lines over rounds or steps (uPlot), with bands, marks and a cursor that all charts of a page share.
import uPlot from "uplot";
import { useEffect, useRef } from "preact/hooks";
import { figures, known } from "./format.js";
import { colour, theme } from "./theme.js";

// A dash for each colour, so that no line is told by its colour alone.
const DASHES = [[], [7, 3], [2, 3], [9, 3, 2, 3], [12, 4], [4, 4], [2, 6], [14, 3, 2, 3, 2, 3]];

const NOTCH = 7; // px
const BORDERS = ["solid", "dashed", "dotted", "double"]; // the nearest thing in the legend
const WHOLE = [1, 2, 5].flatMap((n) => [1, 10, 100, 1e3, 1e4, 1e5].map((ten) => n * ten)).sort((a, b) => a - b); // there is no round 1.5

// Notches at the top where something was noticed, level lines for limits: drawn behind the lines.
function drawMarks(u, props) {
    const { ctx, bbox } = u;
    ctx.save();
    ctx.lineWidth = devicePixelRatio;
    ctx.strokeStyle = colour("warn");
    ctx.beginPath();
    for (const x of props.marks ?? []) {
        const at = u.valToPos(x, "x", true);
        if (at >= bbox.left && at <= bbox.left + bbox.width)
            (ctx.moveTo(at, bbox.top), ctx.lineTo(at, bbox.top + NOTCH * devicePixelRatio));
    }
    ctx.stroke();
    ctx.beginPath();
    ctx.setLineDash([2, 4]);
    for (const limit of props.limits ?? []) {
        const at = u.valToPos(limit, "y", true);
        if (at >= bbox.top && at <= bbox.top + bbox.height)
            (ctx.moveTo(bbox.left, at), ctx.lineTo(bbox.left + bbox.width, at));
    }
    ctx.stroke();
    ctx.restore();
}

function axis(size) {
    return {
        stroke: () => colour("muted"),
        grid: { stroke: () => colour("line"), width: 1 },
        ticks: { stroke: () => colour("line"), width: 1 },
        font: "11px system-ui, sans-serif",
        size,
    };
}

// As wide as the longest number beside the ticks.
const room = (u, texts) => Math.max(44, 24 + 6.5 * Math.max(0, ...(texts ?? []).map((text) => text.length)));

// Bands are two more series without a line or a row in the legend.
function seriesOf(lines, xName) {
    // Without a cursor the newest point is read out, missing values included.
    const show = (u, value, i, at) => figures(known(at) ? value : u.data[i].at(-1));
    const series = [{ label: xName, value: show }];
    const bands = [];
    lines.forEach((line, i) => {
        const name = `line${line.ink ?? (i % 8) + 1}`;
        series.push({
            label: line.name,
            stroke: () => colour(name),
            dash: DASHES[i % 8],
            border: BORDERS[i % 4],
            width: 1.6,
            value: show,
            points: { size: 5 },
        });
        if (line.low) {
            bands.push({ series: [series.length + 1, series.length], fill: () => colour(name) + "30" });
            series.push(
                { class: "band", width: 0, points: { show: false } },
                { class: "band", width: 0, points: { show: false } },
            );
        }
    });
    return { series, bands };
}

const dataOf = (x, lines) => [
    x,
    ...lines.flatMap((line) => (line.low ? [line.values, line.low, line.high] : [line.values])),
];

function create(box, props, current) {
    const { series, bands } = seriesOf(props.lines, props.xName);
    const within = (u, low, high) => {
        const [from, to] = current().range ?? [null, null];
        return uPlot.rangeNum(
            Math.min(low ?? from ?? 0, from ?? Infinity),
            Math.max(high ?? to ?? 1, to ?? -Infinity),
            0.08,
            false,
        );
    };
    return new uPlot(
        {
            width: Math.max(box.clientWidth, 120),
            height: props.height ?? 170,
            series,
            bands,
            scales: { x: { time: false }, y: { range: within } },
            axes: [
                { ...axis(28), incrs: WHOLE },
                { ...axis(room), space: 28 },
            ],
            cursor: {
                drag: { x: true, y: false, setScale: false },
                sync: { key: props.sync ?? "page" },
                bind: { dblclick: () => () => (current().onZoom?.(null), null) },
            },
            legend: { live: true, markers: { width: 3, dash: (u, i) => u.series[i].border } },
            hooks: {
                drawClear: [(u) => drawMarks(u, current())],
                setSelect: [
                    (u) => {
                        if (u.select.width < 4) return;
                        const ends = [u.select.left, u.select.left + u.select.width].map((at) => u.posToVal(at, "x"));
                        u.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
                        current().onZoom?.(ends);
                    },
                ],
            },
        },
        dataOf(props.x, props.lines),
        box,
    );
}

// The keyboard moves the cursor: arrows, with shift by ten; + zooms in around it, - shows all.
function press(event, u, props) {
    const last = u.data[0].length - 1;
    const at = u.cursor.idx ?? last;
    const by = event.shiftKey ? 10 : 1;
    const to = { ArrowLeft: at - by, ArrowRight: at + by, Home: 0, End: last }[event.key];
    if (to !== undefined) {
        const x = u.data[0][Math.min(Math.max(to, 0), last)];
        u.setCursor({ left: u.valToPos(x, "x"), top: 10 }, true, true); // and in the other charts
    } else if (event.key === "+" && props.onZoom) {
        const x = u.data[0][at];
        const half = (u.scales.x.max - u.scales.x.min) / 4;
        props.onZoom([x - half, x + half]);
    } else if (event.key === "-" && props.onZoom) props.onZoom(null);
    else return;
    event.preventDefault();
}

/* lines: [{name, values, low, high, ink}], ink: 1 to 8, else by order; marks: x values; limits: y values; range: [from, to] always shown. */
export function Chart(props) {
    const box = useRef();
    const plot = useRef();
    const latest = useRef();
    latest.current = props;
    const shape = props.lines.map((line) => line.name + (line.low ? "~" : "")).join();
    useEffect(() => {
        plot.current = create(box.current, props, () => latest.current);
        const observer = new ResizeObserver(([{ contentRect }]) =>
            plot.current.setSize({ width: Math.max(contentRect.width, 120), height: props.height ?? 170 }),
        );
        observer.observe(box.current);
        return () => {
            observer.disconnect();
            plot.current.destroy();
        };
    }, [shape]);
    useEffect(() => plot.current.setData(dataOf(props.x, props.lines)), [props.x, props.lines]);
    useEffect(() => plot.current.redraw(false), [theme.value, props.marks]);
    return (
        <figure class="chart" data-name={props.name}>
            <figcaption>
                {props.title} {props.unit && <small>{props.unit}</small>}
            </figcaption>
            <div
                ref={box}
                tabindex="0"
                role="group"
                aria-label={`${props.title}: arrow keys move the cursor, + and - zoom`}
                onKeyDown={(e) => press(e, plot.current, latest.current)}
            />
        </figure>
    );
}
