// The swimlane: a lane for each slot of each env, time in steps, spans coloured and lettered by stage.
import { useRef, useState } from "preact/hooks";
import { stageLetter, stageName } from "./format.js";

const LANE = 18;
const LEFT = 84;
const WIDTH = 1000; // of the drawing's own units; the browser scales it

/*
 * lanes: [{name, group, spans: [{from, to, stage, label}]}]; steps: the last one; onPoint(lane index, step) when pointer
 * or keys go somewhere, null when they leave.
 */
export function Lanes({ lanes, steps, onPoint, title }) {
    const svg = useRef();
    const [at, setAt] = useState(null);
    const place = useRef(null); // keys may come faster than drawings
    const x = (step) => LEFT + ((step - 0.5) / (steps + 0.5)) * (WIDTH - LEFT);
    const height = lanes.length * LANE + 22;
    const go = (lane, step) => {
        const to = { lane: Math.min(Math.max(lane, 0), lanes.length - 1), step: Math.min(Math.max(step, 1), steps) };
        if (place.current?.lane === to.lane && place.current.step === to.step) return;
        place.current = to;
        setAt(to);
        onPoint(to.lane, to.step);
    };
    const point = (event) => {
        const box = svg.current.getBoundingClientRect();
        const unit = ((event.clientX - box.left) / box.width) * WIDTH;
        go(
            Math.floor((((event.clientY - box.top) / box.height) * height) / LANE),
            Math.round(((unit - LEFT) / (WIDTH - LEFT)) * (steps + 0.5)),
        );
    };
    const press = (event) => {
        const move = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
        if (!move) return;
        event.preventDefault();
        go((place.current?.lane ?? 0) + move[0], (place.current?.step ?? 1) + move[1] * (event.shiftKey ? 10 : 1));
    };
    const every = steps > 100 ? 25 : steps > 40 ? 10 : 5;
    const ticks = Array.from({ length: Math.floor(steps / every) }, (_, i) => (i + 1) * every);
    return (
        <svg
            ref={svg}
            class="lanes"
            viewBox={`0 0 ${WIDTH} ${height}`}
            tabindex="0"
            role="group"
            aria-label={`${title}: arrow keys move through lanes and steps`}
            onPointerMove={point}
            onKeyDown={press}
        >
            {ticks.map((step) => (
                <g key={step}>
                    <line class="grid" x1={x(step + 0.5)} x2={x(step + 0.5)} y1="0" y2={height - 20} />
                    <text class="tick" x={x(step + 0.5)} y={height - 6} text-anchor="middle">
                        {step}
                    </text>
                </g>
            ))}
            <text class="tick" x={LEFT - 6} y={height - 6} text-anchor="end">
                step
            </text>
            {lanes.map((lane, i) => (
                <g key={i} transform={`translate(0 ${i * LANE})`}>
                    <line class={lane.first ? "edge" : "grid"} x1="0" x2={WIDTH} y1="0" y2="0" />
                    <text class="lane" x={LEFT - 6} y={LANE - 5} text-anchor="end">
                        {lane.name}
                    </text>
                    {lane.spans.map((span) => (
                        <g
                            key={`${span.from} ${span.stage}`}
                            class={`span stage-${stageName(span.stage)}`}
                            data-span={`${lane.name} ${span.from} ${span.stage}`}
                        >
                            <rect
                                x={x(span.from)}
                                y="2"
                                width={Math.max(x(span.to) - x(span.from), 2)}
                                height={LANE - 4}
                            />
                            {x(span.to) - x(span.from) > 9 && (
                                <text x={x(span.from) + 3} y={LANE - 5}>
                                    {stageLetter(span.stage)}
                                    {x(span.to) - x(span.from) > 110 ? " " + span.label : ""}
                                </text>
                            )}
                        </g>
                    ))}
                </g>
            ))}
            {at && lanes[at.lane] && (
                <rect
                    class="cursor"
                    x={x(at.step)}
                    y={at.lane * LANE}
                    width={Math.max((WIDTH - LEFT) / (steps + 0.5), 3)}
                    height={LANE}
                />
            )}
        </svg>
    );
}
