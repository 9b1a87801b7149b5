// Drawings in SVG: waterfall, stack over steps, scatter, intervals.
import { figures, known, signed, ticks, words } from "./format.js";

// A waterfall: bars that each start where the last one ended, and their sum. Signs repeat what colours say.
export function Waterfall({ parts, total, unit = "", name }) {
    let at = 0;
    const bars = parts.map((part) => ({ ...part, from: at, to: (at += part.value) }));
    const low = Math.min(0, ...bars.map((b) => b.to), total ?? 0);
    const high = Math.max(0, ...bars.map((b) => b.to), total ?? 0);
    const x = (v) => 190 + ((v - low) / (high - low || 1)) * 420;
    const line = (label, from, to, value, kind, i) => (
        <g key={label} transform={`translate(0 ${i * 20})`}>
            <text class="tick" x="184" y="14" text-anchor="end">
                {label}
            </text>
            <rect
                class={kind}
                x={Math.min(x(from), x(to))}
                y="3"
                width={Math.max(Math.abs(x(to) - x(from)), 1)}
                height="14"
            />
            <text class="value" x="690" y="14" text-anchor="end">
                {signed(value, 3, unit)}
            </text>
        </g>
    );
    return (
        <svg
            class="drawing"
            data-name={name}
            viewBox={`0 0 700 ${bars.length * 20 + 24}`}
            role="img"
            aria-label={parts.map((p) => `${words(p.name)} ${signed(p.value, 3)}`).join(", ")}
        >
            <line class="edge" x1={x(0)} x2={x(0)} y1="0" y2={bars.length * 20 + 22} />
            {bars.map((b, i) => line(words(b.name), b.from, b.to, b.value, b.value < 0 ? "minus" : "plus", i))}
            {known(total) && line("sum", 0, total, total, "sum", bars.length)}
        </svg>
    );
}

const REST = "all others";

// The parts that pay or cost most, and the rest as one: no more colours than people can tell apart.
function largest(rows, names, most) {
    const size = (n) => rows.reduce((sum, row) => sum + Math.abs(row[n] ?? 0), 0);
    const sorted = [...names].sort((a, b) => size(b) - size(a));
    if (sorted.length <= most) return { rows, names: sorted };
    const rest = sorted.splice(most - 1);
    return {
        rows: rows.map((row) => ({ ...row, [REST]: rest.reduce((sum, n) => sum + (row[n] ?? 0), 0) })),
        names: [...sorted, REST],
    };
}

// Parts of a reward step by step, gains above the line and costs below it.
export function Stack({ steps, ...all }) {
    const { rows, names } = largest(all.rows, all.names, 8);
    const sums = rows.map((row) =>
        names.reduce((sum, n) => (row[n] > 0 ? [sum[0] + row[n], sum[1]] : [sum[0], sum[1] + (row[n] ?? 0)]), [0, 0]),
    );
    const high = Math.max(...sums.map((s) => s[0]), 1e-9);
    const low = Math.min(...sums.map((s) => s[1]), -1e-9);
    const y = (v) => 8 + ((high - v) / (high - low)) * 164;
    const width = 640 / steps;
    return (
        <>
            <svg
                class="drawing"
                viewBox="0 0 700 196"
                role="img"
                aria-label="parts of the reward by step; the table below gives the sums"
            >
                {[high, 0, low].map((v) => (
                    <g key={v}>
                        <line class="grid" x1="50" x2="694" y1={y(v)} y2={y(v)} />
                        <text class="tick" x="46" y={y(v) + 4} text-anchor="end">
                            {figures(v)}
                        </text>
                    </g>
                ))}
                {rows.map((row) => {
                    const top = [0, 0];
                    return names.map((n, i) => {
                        const v = row[n];
                        if (!v) return null;
                        const side = v > 0 ? 0 : 1;
                        const from = top[side];
                        top[side] += v;
                        return (
                            <rect
                                key={n + row.step}
                                class={`part${i % 8}`}
                                x={52 + (row.step - 1) * width}
                                width={Math.max(width - 0.6, 1)}
                                y={y(Math.max(from, from + v))}
                                height={Math.max(Math.abs(y(from + v) - y(from)), 0.5)}
                            >
                                <title>{`step ${row.step}: ${words(n)} ${signed(v, 3)}`}</title>
                            </rect>
                        );
                    });
                })}
                <text class="tick" x="694" y="192" text-anchor="end">
                    step {steps}
                </text>
                <text class="tick" x="52" y="192">
                    1
                </text>
            </svg>
            <p class="legend">
                {names.map((n, i) => (
                    <span key={n}>
                        <svg class="swatch" viewBox="0 0 10 10">
                            <rect class={`part${i % 8}`} width="10" height="10" />
                        </svg>{" "}
                        {words(n)}{" "}
                        <b>
                            {signed(
                                rows.reduce((sum, row) => sum + (row[n] ?? 0), 0),
                                2,
                            )}
                        </b>
                    </span>
                ))}
            </p>
        </>
    );
}

/* points: [{x, y, frontier, label}], the frontier by rising x. Those of the frontier are diamonds, joined by steps. */
export function Scatter({ points, xName, yName }) {
    const right = Math.max(...points.map((p) => p.x), 1);
    const ys = points.map((p) => p.y);
    const low = Math.floor(Math.min(...ys) / 5) * 5;
    const high = Math.ceil(Math.max(...ys) / 5) * 5 || 5;
    const x = (v) => 56 + (v / right) * 620;
    const y = (v) => 12 + ((high - v) / (high - low || 1)) * 280;
    const frontier = points.filter((p) => p.frontier);
    const path = frontier.map((p, i) => (i ? `H${x(p.x)}V${y(p.y)}` : `M${x(p.x)} ${y(p.y)}`)).join("");
    return (
        <svg
            class="drawing"
            viewBox="0 0 700 330"
            role="img"
            aria-label={`${yName} by ${xName}; the table next to it lists the frontier`}
        >
            {ticks(low, high).map((v) => (
                <g key={v}>
                    <line class="grid" x1="56" x2="676" y1={y(v)} y2={y(v)} />
                    <text class="tick" x="50" y={y(v) + 4} text-anchor="end">
                        {figures(v)}
                    </text>
                </g>
            ))}
            {ticks(0, right).map((v) => (
                <text key={v} class="tick" x={x(v)} y="308" text-anchor="middle">
                    {figures(v)}
                </text>
            ))}
            <text class="tick" x="56" y="10">
                {yName}
            </text>
            <text class="tick" x="676" y="326" text-anchor="end">
                {xName}
            </text>
            {points
                .filter((p) => !p.frontier)
                .map((p, i) => (
                    <circle key={i} class="dot" cx={x(p.x)} cy={y(p.y)} r="2.6">
                        <title>{p.label}</title>
                    </circle>
                ))}
            <path class="frontier" d={path} />
            {frontier.map((p, i) => (
                <path key={i} class="diamond" d={`M${x(p.x)} ${y(p.y) - 6}l6 6l-6 6l-6-6z`}>
                    <title>{p.label}</title>
                </path>
            ))}
        </svg>
    );
}

/* lines: [{name, mean, low, high, text}] of one quantity; without low and high only the mean is drawn. */
export function Intervals({ lines, zero }) {
    const values = lines.flatMap((l) => [l.mean, l.low, l.high]).filter(known);
    if (zero) values.push(0);
    const low = Math.min(...values);
    const high = Math.max(...values);
    const x = (v) => 130 + ((v - low) / (high - low || 1)) * 270;
    return (
        <svg
            class="drawing"
            viewBox={`0 0 700 ${lines.length * 22 + 4}`}
            role="img"
            aria-label={lines.map((l) => `${l.name}: ${l.text}`).join("; ")}
        >
            {zero && <line class="edge" x1={x(0)} x2={x(0)} y1="0" y2={lines.length * 22} />}
            {lines.map((l, i) => (
                <g key={l.name} transform={`translate(0 ${i * 22})`}>
                    <text class="tick" x="122" y="15" text-anchor="end">
                        {l.name}
                    </text>
                    {known(l.low) && known(l.high) && (
                        <path class="whisker" d={`M${x(l.low)} 6v10M${x(l.low)} 11H${x(l.high)}M${x(l.high)} 6v10`} />
                    )}
                    {known(l.mean) && <circle class="mean" cx={x(l.mean)} cy="11" r="4" />}
                    <text class="value" x="412" y="15">
                        {l.text}
                    </text>
                </g>
            ))}
        </svg>
    );
}
