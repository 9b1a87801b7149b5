// The swimlane: a lane for each slot of each env, time in steps, spans coloured and lettered by stage. What the pointer,
// a finger or the arrow keys point at is described in a box beside it.
import { useEffect, useRef, useState } from "preact/hooks";
import { stageLetter, stageName, ticks } from "./format.js";

const LANE = 22; // px
const LEFT = 72; // px, the names
const RIGHT = 8; // px, half a number
const BELOW = 20; // px, the steps
const LETTER = 7; // px, about the width of one

function Span({ span, lane, from, width }) {
    const letters = stageLetter(span.stage) + " " + span.label;
    return (
        <g class={`span stage-${stageName(span.stage)}`} data-span={`${lane.name} ${span.from} ${span.stage}`}>
            <rect x={from} y="2" width={Math.max(width, 2)} height={LANE - 4} />
            {width > LETTER + 4 && (
                <text x={from + 3} y={LANE - 7}>
                    {width > letters.length * LETTER + 6 ? letters : letters[0]}
                </text>
            )}
        </g>
    );
}

/*
 * lanes: [{name, first, spans: [{from, to, stage, label}]}]; steps: the last one; onPoint(lane index, step) when
 * pointer or keys move, onPoint() when they leave. `children` is the content of the box beside that place.
 */
export function Lanes({ lanes, steps, onPoint, title, children }) {
    const frame = useRef();
    const [width, setWidth] = useState(0);
    const [at, setAt] = useState(null);
    const place = useRef(null); // keys may arrive faster than frames
    useEffect(() => {
        const observer = new ResizeObserver(([{ contentRect }]) => setWidth(contentRect.width)); // also called at once
        observer.observe(frame.current);
        return () => observer.disconnect();
    }, []);
    const stepWidth = Math.max(width - LEFT - RIGHT, 1) / (steps + 0.5);
    const x = (step) => LEFT + (step - 0.5) * stepWidth;
    const height = lanes.length * LANE;
    const go = (lane, step) => {
        const to = { lane: Math.min(Math.max(lane, 0), lanes.length - 1), step: Math.min(Math.max(step, 1), steps) };
        if (place.current?.lane === to.lane && place.current.step === to.step) return;
        const { top } = frame.current.getBoundingClientRect();
        to.above = top + (to.lane + 0.5) * LANE > innerHeight / 2; // put the box where there is more room
        place.current = to;
        setAt(to);
        onPoint(to.lane, to.step);
    };
    const leave = () => {
        place.current = null;
        setAt(null);
        onPoint();
    };
    const point = (event) => {
        const box = frame.current.getBoundingClientRect();
        go(Math.floor((event.clientY - box.top) / LANE), Math.round((event.clientX - box.left - LEFT) / stepWidth));
    };
    const press = (event) => {
        const move = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
        if (event.key === "Escape") leave();
        if (!move) return;
        event.preventDefault();
        go((place.current?.lane ?? 0) + move[0], (place.current?.step ?? 1) + move[1] * (event.shiftKey ? 10 : 1));
    };
    const shown = at && lanes[at.lane];
    return (
        <div ref={frame} class="lanesframe">
            <svg
                class="lanes"
                width={width}
                height={height + BELOW}
                tabindex="0"
                role="group"
                aria-label={`${title}: arrow keys move through lanes and steps`}
                onPointerMove={point}
                onPointerDown={point}
                onPointerLeave={(event) => event.pointerType === "mouse" && leave()} // lifting a finger keeps the box
                onBlur={leave}
                onKeyDown={press}
            >
                {ticks(1, steps, Math.min(Math.max((width - LEFT) / 60, 2), 12))
                    .filter((step) => Number.isInteger(step))
                    .map((step) => (
                        <g key={step}>
                            <line class="grid" x1={x(step + 0.5)} x2={x(step + 0.5)} y1="0" y2={height} />
                            <text class="tick" x={x(step + 0.5)} y={height + 14} text-anchor="middle">
                                {step}
                            </text>
                        </g>
                    ))}
                <text class="tick" x={LEFT - 6} y={height + 14} text-anchor="end">
                    step
                </text>
                {lanes.map((lane, i) => (
                    <g key={i} transform={`translate(0 ${i * LANE})`}>
                        <line class={lane.first ? "edge" : "grid"} x1="0" x2={width} y1="0" y2="0" />
                        <text class="lane" x={LEFT - 6} y={LANE - 7} text-anchor="end">
                            {lane.name}
                        </text>
                        {lane.spans.map((span) => (
                            <Span
                                key={`${span.from} ${span.stage}`}
                                span={span}
                                lane={lane}
                                from={x(span.from)}
                                width={x(span.to) - x(span.from)}
                            />
                        ))}
                    </g>
                ))}
                {shown && (
                    <rect
                        class="cursor"
                        x={x(at.step)}
                        y={at.lane * LANE}
                        width={Math.max(stepWidth, 3)}
                        height={LANE}
                    />
                )}
            </svg>
            {shown && (
                <div
                    class="tip"
                    role="status"
                    data-name="seed"
                    style={{
                        "--x": x(at.step) + "px",
                        [at.above ? "bottom" : "top"]:
                            (at.above ? height + BELOW - at.lane * LANE : (at.lane + 1) * LANE) + 6 + "px",
                    }}
                >
                    {children}
                </div>
            )}
        </div>
    );
}
