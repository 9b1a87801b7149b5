// The eight heads of the policy over the rounds.
import { useMemo } from "preact/hooks";
import { useRows } from "./ask.js";
import { HEADS, figures, known, shownRound, words } from "./format.js";
import { Heat } from "./heat.jsx";
import { Lack, Panel, Table } from "./parts.jsx";
import { useSeries } from "./series.js";

const MAPS = [
    ["entropy", "Entropy", "0 to 1, over rows where the head had a choice", { low: 0, high: 1 }],
    ["learnable", "Learnable", "share of rows where the head mattered and had a choice, 0 to 1", { low: 0, high: 1 }],
    ["grad_norm", "Gradient norm", "before clipping, largest of the epochs", { log: true }],
    ["ratio_max", "Largest ratio", "new to old probability", {}],
];
const COLUMNS = [
    "learnable",
    "entropy",
    "entropy_all",
    "kl",
    "clip_fraction",
    "ratio_min",
    "ratio_max",
    "log_prob_min",
    "grad_norm",
];
const NAMES = MAPS.flatMap(([column]) => HEADS.map((head) => `ppo_head.${column}.${head}`));

// What a head is doing, in a few words, with a sign.
function condition(row) {
    if (!known(row.learnable) || row.learnable < 0.02) return "○ had no choice";
    if (known(row.grad_norm) && row.grad_norm < 1e-6) return "✗ gets no gradient";
    if (known(row.entropy) && row.entropy < 0.1) return "! nearly decided";
    return "● learns";
}

export function Heads({ run }) {
    const series = useSeries(run, NAMES);
    const newest = useRows(run, "heads", { from: run.summary.last_round ?? 0 });
    const maps = useMemo(
        () =>
            MAPS.map(([column, title, unit, more]) => ({
                name: column,
                title,
                unit,
                ...more,
                rows: HEADS.map((head) => ({ name: head, values: series.line(`ppo_head.${column}.${head}`).values })),
            })),
        [series],
    );
    if (!series.x.length)
        return (
            <Panel title="Heads">
                <Lack
                    answer={series}
                    none="No update was recorded: this policy does not learn, or the first round is still in progress."
                />
            </Panel>
        );
    const rows = HEADS.map((head) => newest.rows.find((row) => row.head === head)).filter(Boolean);
    return (
        <>
            <div class="grid2">
                {maps.map((map) => (
                    <Heat key={map.name} {...map} x={series.x} />
                ))}
            </div>
            <Panel
                title="The newest update"
                note={
                    rows.length
                        ? `round ${shownRound(rows[0].round)}; log-probabilities in nats, the rest dimensionless`
                        : ""
                }
                wide
            >
                <Table
                    name="heads"
                    caption="heads of the newest update"
                    rows={rows}
                    columns={[
                        { key: "head", text: true, show: words },
                        { key: "condition", text: true, show: (_, row) => condition(row) },
                        ...COLUMNS.map((key) => ({ key, show: (x) => figures(x) })),
                    ]}
                />
            </Panel>
        </>
    );
}
