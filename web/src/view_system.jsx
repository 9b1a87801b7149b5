// Where the time goes, what is missing from the record, and the exact identity of this run.
import { useMemo } from "preact/hooks";
import { useRows } from "./ask.js";
import { Chart } from "./chart.jsx";
import { bytes, count, duration, figures, number, roundsBefore, shownRound, time } from "./format.js";
import { Lack, Panel, RoundPicker, Table, useRound } from "./parts.jsx";
import { table } from "./save.jsx";
import { useSeries, zoomTo } from "./series.js";

const NAMES = [
    "round.env_steps_per_s",
    "round.images_per_s",
    "round.seconds",
    "ppo.seconds",
    "round.refusals",
    "round.rollbacks",
    "round.unattributed",
];

function Identity({ run }) {
    const facts = [
        ["command", run.command],
        ["version", run.version],
        ["kernels", `${run.kernels}, ${run.architecture}`],
        ["created", time(run.created)],
        ["last update", time(run.updated)],
        ["size", `${count(run.envs)} envs × ${count(run.steps)} steps × ${count(run.rounds)} rounds`],
        ["time in rounds", duration(run.summary.seconds)],
        ["record", `schema ${run.schema}`],
    ];
    return (
        <Panel title="This run" wide>
            <dl>
                {facts.map(([name, value]) => (
                    <div key={name}>
                        <dt>{name}</dt>
                        <dd>{value}</dd>
                    </div>
                ))}
            </dl>
            <details>
                <summary>
                    configuration: {Object.keys(run.configuration).length} keys, and where each value came from
                </summary>
                <Table
                    caption="configuration"
                    rows={Object.entries(run.configuration).map(([key, value]) => ({
                        key,
                        value,
                        origin: run.origins?.[key],
                    }))}
                    columns={[
                        { key: "key", text: true },
                        { key: "value", text: true, show: (v) => String(v) }, // as --set takes it: a list is "a,b"
                        { key: "origin", text: true },
                    ]}
                />
            </details>
        </Panel>
    );
}

const SPAN = 10; // rounds that the ranks' times are the mean of

// A bar per rank, as long as a round: what it was busy, then what it waited for the last one.
function RankBars({ ranks }) {
    const most = Math.max(...ranks.map((r) => r.busy + r.waited), 1e-9);
    const x = (seconds) => (seconds / most) * 440;
    return (
        <svg
            class="drawing"
            viewBox={`0 0 700 ${ranks.length * 20 + 4}`}
            role="img"
            aria-label="time of the ranks; the table below gives the same values"
        >
            {ranks.map((r, i) => (
                <g key={`${r.rank} ${r.node}`} transform={`translate(0 ${i * 20})`}>
                    <text class="tick" x="64" y="15" text-anchor="end">
                        rank {r.rank}
                    </text>
                    <rect class="part0" x="72" y="4" width={x(r.busy)} height="13" />
                    <rect class="waits" x={72 + x(r.busy)} y="4" width={Math.max(x(r.waited), 1)} height="13" />
                    <text class="value" x="524" y="15">
                        {number(r.busy, 2, "s")} + {number(r.waited, 2, "s")} waiting
                    </text>
                </g>
            ))}
        </svg>
    );
}

function Ranks({ run, round }) {
    const answer = useRows(run, "ranks", { from: Math.max((round ?? 0) - SPAN + 1, 0), to: round ?? 0 });
    const ranks = answer.rows;
    if (!ranks.length)
        return (
            <Panel title="Ranks and devices">
                <Lack answer={answer} none={`One process played these rounds: ${run.kernels}, ${run.architecture}.`} />
            </Panel>
        );
    const last = ranks.reduce((most, r) => (r.last > most.last ? r : most));
    const others = ranks.filter((r) => r !== last);
    const wait = others.reduce((sum, r) => sum + r.waited, 0) / Math.max(others.length, 1);
    return (
        <Panel
            title="Ranks and devices"
            note={`means of the last ${count(ranks[0].rounds)} rounds; light: waiting for the last rank`}
            save={table(["rank", "node", "device", "first_env", "envs", "rounds", "busy", "waited", "last"], ranks)}
            data-name="ranks"
        >
            <RankBars ranks={ranks} />
            <p>
                The others waited for rank {last.rank} ({last.node}) in {count(last.last)} of {count(last.rounds)} rounds,{" "}
                {number(wait, 2, "s")} per round on average.
            </p>
            <Table
                name="ranks"
                caption="ranks"
                rows={ranks}
                columns={[
                    { key: "rank" },
                    { key: "node", text: true },
                    { key: "device", text: true },
                    {
                        key: "envs",
                        title: "envs",
                        text: true,
                        show: (n, r) => (n > 1 ? `${r.first_env} to ${r.first_env + n - 1}` : r.first_env),
                    },
                    { key: "busy", show: (x) => number(x, 3, "s") },
                    { key: "waited", show: (x) => number(x, 3, "s") },
                    { key: "waited_percent", title: "waiting", show: (x) => number(x, 1, "%") },
                    { key: "last", title: "waited for", help: "rounds in which it was the last", show: (x) => count(x) },
                ]}
            />
        </Panel>
    );
}

export function System({ run }) {
    const newest = run.summary.last_round;
    const round = useRound(run, newest);
    const series = useSeries(run, NAMES);
    const phases = useRows(run, "phases", { round });
    const drops = useRows(run, "drops", {});
    const checkpoints = useRows(run, "checkpoints", { limit: 20 });
    const charts = useMemo(
        () => [
            ["speed", "Speed", "env-steps per second", [series.line(NAMES[0], "env-steps/s")]],
            ["images", `Training ${run.words.samples}`, "per second", [series.line(NAMES[1], `${run.words.samples}/s`)]],
            [
                "time",
                "Time of a round",
                "s",
                [series.line(NAMES[2], "round"), series.line(NAMES[3], "update")],
            ],
            [
                "trouble",
                "Refusals and rollbacks",
                "per round",
                [
                    series.line(NAMES[4], "refused by a gate"),
                    series.line(NAMES[5], "rollbacks"),
                    series.line(NAMES[6], "rollbacks without a step to blame"),
                ],
            ],
        ],
        [series],
    );
    return (
        <>
            <div class="grid2">
                {charts.map(([name, title, unit, lines]) => (
                    <Chart
                        key={name}
                        name={name}
                        title={title}
                        unit={unit}
                        lines={lines}
                        x={series.x}
                        xName="round"
                        onZoom={zoomTo}
                        range={[0, 1]}
                    />
                ))}
                <Panel title="Where the time of a round went" note="percent of its wall time, all threads together">
                    <p class="tools">
                        <RoundPicker run={run} newest={newest} />
                    </p>
                    {phases.rows.length ? (
                        <Table
                            name="phases"
                            caption="phases"
                            rows={phases.rows}
                            columns={[
                                { key: "name", title: "phase", text: true },
                                {
                                    key: "percent",
                                    title: "percent",
                                    show: (x) => (
                                        <span class="bar">
                                            <span style={{ width: Math.min(x ?? 0, 200) / 2 + "px" }} />{" "}
                                            {number(x, 1, "%")}
                                        </span>
                                    ),
                                },
                                { key: "seconds", show: (x) => number(x, 3, "s") },
                                { key: "spans", show: (x) => count(x) },
                                { key: "threads", show: (x) => count(x) },
                                { key: "mean_ms", title: "mean", show: (x) => number(x, 3, "ms") },
                                { key: "max_ms", title: "longest", show: (x) => number(x, 3, "ms") },
                            ]}
                        />
                    ) : (
                        <Lack answer={phases} none="No spans of this round were recorded." />
                    )}
                </Panel>
                <Ranks run={run} round={round} />
                <Panel title="Rows missing from the record" note="full: lost because a buffer was full; thinned: left out on purpose">
                    {drops.rows.length ? (
                        <Table
                            name="drops"
                            caption="missing rows"
                            rows={drops.rows}
                            columns={[
                                { key: "name", title: "table", text: true },
                                { key: "reason", text: true, show: (r) => (r === "full" ? "✗ full" : "~ " + r) },
                                { key: "count", title: "rows", show: (x) => count(x) },
                                { key: "first_round", title: "from round", show: shownRound },
                                { key: "last_round", title: "to round", show: shownRound },
                            ]}
                        />
                    ) : (
                        <Lack answer={drops} none="None: the record is complete." />
                    )}
                </Panel>
                <Panel title="Checkpoints" note="newest first, including those removed since">
                    {checkpoints.rows.length ? (
                        <Table
                            name="checkpoints"
                            caption="checkpoints"
                            rows={checkpoints.rows}
                            columns={[
                                { key: "file", text: true },
                                { key: "kind", text: true },
                                { key: "round", title: "rounds done", show: roundsBefore },
                                { key: "step" },
                                { key: "bytes", title: "size", show: bytes },
                                { key: "written", text: true, show: time },
                                { key: "hash", text: true },
                            ]}
                        />
                    ) : (
                        <Lack answer={checkpoints} none="None has been written yet." />
                    )}
                </Panel>
            </div>
            <Identity run={run} />
        </>
    );
}
