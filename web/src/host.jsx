// One host as it is now: its blocks in the order of the data, its slots, and the seeds that grow in them.
import { count, figures, number, signed, stageLetter, stageName } from "./format.js";

const GAP = 26;
const TRUNK = 128; // y of the line that the data follows

// Slot r0c{i} sits after the ReLU of block i, r1c{i} after its pool (src/morph/shape.h).
function partsOf(run, seeds) {
    const c = run.configuration;
    const parts = [{ kind: "end", text: ["image"], width: 56 }];
    const slot = (name) => {
        const index = run.slots.indexOf(name);
        const seed = seeds.find((s) => s.slot === index);
        if (index >= 0) parts.push({ kind: "slot", name, seed, width: seed ? 152 : 64 });
    };
    for (let i = 0; i < c["host.blocks"]; i++) {
        parts.push({
            kind: "block",
            text: [`block ${i + 1}`, `conv ${c["host.kernel"]}×${c["host.kernel"]}`],
            width: 74,
        });
        slot(`r0c${i}`);
        if (i < c["host.pools"]) parts.push({ kind: "pool", text: ["pool"], width: 44 });
        slot(`r1c${i}`);
    }
    parts.push({ kind: "end", text: ["mean, classes"], width: 92 });
    let x = 4;
    for (const part of parts) {
        part.x = x;
        x += part.width + GAP;
    }
    return { parts, width: x - GAP + 4 };
}

function Seed({ part }) {
    const { x, width, seed } = part;
    if (!seed)
        return (
            <g>
                <circle class="emptyslot" cx={x + width / 2} cy={TRUNK} r="9" />
                <text x={x + width / 2} y={TRUNK + 4} text-anchor="middle">
                    ·
                </text>
                <text class="tick" x={x + width / 2} y={TRUNK + 28} text-anchor="middle">
                    {part.name} empty
                </text>
            </g>
        );
    const alpha = seed.alpha ?? 0;
    const says = `${part.name}: ${seed.blueprint}, ${seed.stage}, alpha ${number(seed.alpha, 2)}, ${count(seed.params)} parameters`;
    return (
        <g class={`stage-${stageName(seed.stage)}`} role="img" aria-label={says}>
            <path
                class="branch"
                d={`M${x - GAP / 2} ${TRUNK}C${x} ${TRUNK} ${x - 8} 64 ${x} 64M${x + width} 64C${x + width + 8} 64 ${x + width} ${TRUNK} ${x + width + GAP / 2} ${TRUNK}`}
                style={{ strokeWidth: 1 + 5 * alpha, strokeDasharray: alpha > 0 ? "none" : "3 4" }}
            />
            <rect x={x} y="22" width={width} height="84" rx="6" />
            <text class="big" x={x + 8} y="40">
                {stageLetter(seed.stage)} {seed.blueprint}
            </text>
            <text x={x + 8} y="55">
                {seed.stage}, age {count(seed.age)} steps
            </text>
            <text x={x + 8} y="70">
                alpha {number(seed.alpha, 2)} → {number(seed.alpha_target, 2)}
            </text>
            <text x={x + 8} y="85">
                {count(seed.params)} parameters
            </text>
            <text x={x + 8} y="100">
                adds {signed(seed.contribution, 1, "points")}
            </text>
            <text class="tick" x={x + width / 2} y={TRUNK + 18} text-anchor="middle">
                {part.name}
            </text>
            <text class="tick" x={x + width / 2} y={TRUNK + 32} text-anchor="middle">
                gradient {figures(seed.grad_norm)}
            </text>
        </g>
    );
}

export function Host({ run, seeds }) {
    const { parts, width } = partsOf(run, seeds);
    return (
        <div class="scroll" tabindex="0" role="region" aria-label="drawing of the host">
            <svg class="host" viewBox={`0 0 ${width} 168`} style={{ minWidth: width * 0.8 + "px" }}>
                <line class="trunk" x1="4" x2={width - 4} y1={TRUNK} y2={TRUNK} />
                {parts.map((part) =>
                    part.kind === "slot" ? (
                        <Seed key={part.name} part={part} />
                    ) : (
                        <g key={part.x} class={part.kind}>
                            <rect x={part.x} y={TRUNK - 22} width={part.width} height="44" rx="5" />
                            {part.text.map((line, i) => (
                                <text
                                    key={i}
                                    x={part.x + part.width / 2}
                                    y={TRUNK + 4 + (i - (part.text.length - 1) / 2) * 14}
                                    text-anchor="middle"
                                >
                                    {line}
                                </text>
                            ))}
                        </g>
                    ),
                )}
            </svg>
        </div>
    );
}
