// Lines or areas over rounds or steps (uPlot), with bands, marks and a cursor that all charts of a page share.
import uPlot from "uplot";
import { useLayoutEffect, useRef } from "preact/hooks";
import { chartSvg } from "./chart_svg.js";
import { figures, known } from "./format.js";
import { Save } from "./save.jsx";
import { colour, theme } from "./theme.js";

// A dash pattern for each colour, so that no line is identified by colour alone.
const DASHES = [[], [7, 3], [2, 3], [9, 3, 2, 3], [12, 4], [4, 4], [2, 6], [14, 3, 2, 3, 2, 3]];

const NOTCH = 7; // px
const BORDERS = ["solid", "dashed", "dotted", "double"]; // the nearest thing in the legend
const WHOLE = [1, 2, 5].flatMap((n) => [1, 10, 100, 1e3, 1e4, 1e5].map((ten) => n * ten)).sort((a, b) => a - b); // there is no round 1.5

// Notches at the top where an alert was raised, horizontal lines for limits: drawn behind the lines.
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

// Wide enough for the longest number beside the ticks.
const room = (u, texts) => Math.max(44, 24 + 6.5 * Math.max(0, ...(texts ?? []).map((text) => text.length)));

// On a logarithmic axis only powers of ten, twos and fives are written.
const figure10 = (v) => (v && /^[125]/.test(v.toExponential()) ? figures(v) : "");

// Without a cursor the legend shows the newest point, missing values included.
const show = (u, value, i, at) => figures(known(at) ? value : u.data[i].at(-1));

// Bands are two more series without a line or a row in the legend.
// `look` numbers colour and dashes; without it every line has its own.
const lookOf = (line, i) => ({ ink: `line${((line.look ?? i) % 8) + 1}`, dash: DASHES[(line.look ?? i) % 8] });

function seriesOf(lines, { xName, spans, focus }) {
    const series = [{ label: xName, value: show }];
    const bands = [];
    lines.forEach((line, i) => {
        const { ink: name, dash } = lookOf(line, i);
        series.push({
            label: line.name,
            line: i,
            stroke: () => colour(name),
            dash: focus ? [] : dash, // of many lines, the one in focus is named
            spanGaps: spans,
            border: BORDERS[i % 4],
            width: 1.6,
            value: show,
            points: focus ? { show: (u) => u.data[0].length === 1 } : { size: 5 },
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

// The value of an area: its height from the axis, less that of the area below, which is drawn over it.
function thickness(u, i, at) {
    const top = u.data[i][at];
    return known(top) ? top - (u.data[i + 1]?.[at] ?? 0) : null;
}

function areasOf(areas, xName) {
    const series = areas.map((area) => ({
        label: area.name,
        stroke: () => colour(area.ink),
        fill: () => colour(area.ink),
        border: "solid",
        width: 1,
        value: (u, value, i, at) => figures(thickness(u, i, at ?? u.data[0].length - 1)),
        points: { show: (u) => u.data[0].length === 1 }, // a single round has no area
    }));
    return { series: [{ label: xName, value: show }, ...series], bands: [] };
}

// The top of each area: the first is stacked on top of all others.
function heights(areas) {
    let below = [];
    return areas
        .map((area) => area.values)
        .reverse()
        .map((values) => (below = values.map((v, i) => (known(v) ? v + (below[i] ?? 0) : null))))
        .reverse();
}

// Each area's letter where it is thickest, so that none is identified by colour alone.
function drawLetters(u, areas) {
    const { ctx, bbox } = u;
    const size = 11 * devicePixelRatio;
    ctx.save();
    ctx.font = `600 ${size}px system-ui, sans-serif`;
    ctx.textAlign = "center";
    ctx.textBaseline = "middle";
    ctx.fillStyle = "#000";
    areas.forEach((area, i) => {
        const all = u.data[0].map((_, at) => thickness(u, i + 1, at) ?? 0);
        const at = all.indexOf(Math.max(...all));
        if (at < 0) return;
        const top = u.valToPos(u.data[i + 1][at], "y", true);
        const bottom = u.valToPos(u.data[i + 1][at] - all[at], "y", true);
        const x = Math.min(
            Math.max(u.valToPos(u.data[0][at], "x", true), bbox.left + size),
            bbox.left + bbox.width - size,
        );
        if (bottom - top > size) ctx.fillText(area.letter, x, (top + bottom) / 2);
    });
    ctx.restore();
}

const dataOf = ({ x, lines, areas }) => [
    x,
    ...(areas
        ? heights(areas)
        : lines.flatMap((line) => (line.low ? [line.values, line.low, line.high] : [line.values]))),
];

function create(box, props, current) {
    const { series, bands } = props.areas ? areasOf(props.areas, props.xName) : seriesOf(props.lines, props);
    const within = (u, low, high) => {
        if (current().areas) return current().range;
        if (current().log) return low > 0 ? uPlot.rangeLog(low, high, 10, false) : [1, 10];
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
            scales: { x: { time: false }, y: { range: within, distr: props.log ? 3 : 1 } },
            focus: { alpha: props.focus ? 0.15 : 1 },
            axes: [
                props.whole === false
                    ? { ...axis(28), values: (u, splits) => splits.map((v) => figures(v)) }
                    : { ...axis(28), incrs: WHOLE },
                { ...axis(room), space: 28, ...(props.log && { values: (u, splits) => splits.map(figure10) }) },
            ],
            cursor: {
                y: false, // charts share the round, not the value
                drag: { x: true, y: false, setScale: false },
                sync: { key: props.sync ?? "page" },
                focus: { prox: props.focus ? 16 : -1 },
                bind: { dblclick: () => () => (current().onZoom?.(null), null) },
            },
            legend: { show: !props.focus, live: true, markers: { width: 3, dash: (u, i) => u.series[i].border } },
            hooks: {
                drawClear: [(u) => drawMarks(u, current())],
                draw: [(u) => current().areas && drawLetters(u, current().areas)],
                setSeries: [(u, i) => current().focus?.(i === null ? null : (u.series[i]?.line ?? null), u)],
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
        dataOf(props),
        box,
    );
}

// What is drawn, for a file; `solid` areas lie between their own top and the next one's.
function curvesOf({ lines, areas }) {
    if (!areas)
        return lines.map((line, i) => {
            const { ink, dash } = lookOf(line, i);
            return { ...line, ink: colour(ink), dash };
        });
    const tops = heights(areas);
    return areas.map((area, i) => ({
        name: area.name,
        ink: colour(area.ink),
        dash: [],
        solid: true,
        high: tops[i],
        low: tops[i + 1] ?? tops[i].map((v) => (known(v) ? 0 : null)),
    }));
}

// A column per line, and its band.
function numbersOf({ x, xName, lines, areas }) {
    const columns = [[xName, x]];
    for (const line of areas ?? lines) {
        columns.push([line.name, line.values]);
        if (line.low) columns.push([`${line.name} low`, line.low], [`${line.name} high`, line.high]);
    }
    return { columns: columns.map(([name]) => name), rows: x.map((_, i) => columns.map(([, values]) => values[i])) };
}

// The keyboard moves the cursor: arrows, with shift by ten; + zooms in around it, - shows all.
function press(event, u, props) {
    const last = u.data[0].length - 1;
    const at = u.cursor.idx ?? last;
    const by = event.shiftKey ? 10 : 1;
    const to = { ArrowLeft: at - by, ArrowRight: at + by, Home: 0, End: last }[event.key];
    if (to !== undefined) {
        const x = u.data[0][Math.min(Math.max(to, 0), last)];
        u.setCursor({ left: u.valToPos(x, "x"), top: 10 }, true, true); // also in the other charts
    } else if (event.key === "+" && props.onZoom) {
        const x = u.data[0][at];
        const half = (u.scales.x.max - u.scales.x.min) / 4;
        props.onZoom([x - half, x + half]);
    } else if (event.key === "-" && props.onZoom) props.onZoom(null);
    else return;
    event.preventDefault();
}

/*
 * lines: [{name, values, low, high}]; marks: x values; limits: y values; range: [from, to] always shown. Instead of lines
 * areas: [{name, letter, ink, values}], the first on top of all others, in exactly that range. log: y by magnitude; whole
 * false: x is no count; spans: lines go on over missing values; numbers(): instead of the lines' own. For many lines,
 * focus(line, plot) is told which one the pointer is near instead of a legend.
 */
export function Chart(props) {
    const box = useRef();
    const plot = useRef();
    const latest = useRef();
    latest.current = props;
    const shape = [
        props.log,
        props.xName,
        ...(props.areas ?? props.lines).map((line) => line.name + (line.low ? "~" : "") + (line.look ?? "")),
    ].join();
    const draw = () => {
        const { x, y } = plot.current.scales;
        const scales = [x, y].map(({ min, max }) => [min ?? 0, max ?? 1]);
        return chartSvg({ ...latest.current, scales, curves: curvesOf(latest.current) });
    };
    // Before anybody can press a button of the caption, which reads the plot.
    useLayoutEffect(() => {
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
    useLayoutEffect(() => plot.current.setData(dataOf(props)), [props.x, props.lines, props.areas]);
    useLayoutEffect(() => plot.current.redraw(false), [theme.value, props.marks]);
    return (
        <figure class={props.areas ? "chart areas" : "chart"} data-name={props.name}>
            <figcaption>
                {props.title} {props.unit && <small>{props.unit}</small>}{" "}
                <Save title={props.title} draw={draw} numbers={props.numbers ?? (() => numbersOf(latest.current))} />
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
