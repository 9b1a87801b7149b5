// Is it learning, is it healthy, what is growing?
import { useMemo } from "preact/hooks";
import { useRows } from "./ask.js";
import { Chart } from "./chart.jsx";
import {
    STAGES,
    bits,
    capital,
    count,
    figures,
    known,
    number,
    score,
    shownRound,
    stageName,
    words,
} from "./format.js";
import { Badge, Lack, Panel, StageLegend, Table, Tile } from "./parts.jsx";
import { useAlertMarks, useSeries, zoomTo } from "./series.js";

const NAMES = [
    "val_accuracy_mean",
    "val_accuracy_best",
    "test_accuracy_mean",
    "reward_mean",
    ...STAGES.map(([stage]) => stage),
].map((n) => "round." + n);

function Verdict({ verdict }) {
    return (
        <Panel title="Verdict" wide data-name="verdict">
            <p>
                <Badge state={verdict.state} /> {verdict.text}
            </p>
            {verdict.trend && <p>{verdict.trend}</p>}
            <div class="gates">
                {verdict.gates.map((gate) => (
                    <div key={gate.name} class="gate" data-name={"gate " + gate.name}>
                        <b>{gate.name}</b> <Badge state={gate.state} />
                        <div class="muted">{gate.title}</div>
                        <div>{gate.text}</div>
                    </div>
                ))}
            </div>
        </Panel>
    );
}

function Tiles({ run }) {
    const s = run.summary;
    const name = run.words.score;
    const show = score(run);
    const beside = (points, note) => [bits(run, points), note].filter(Boolean).join("; ");
    return (
        <div class="tiles">
            <Tile
                name="val_accuracy"
                title={`validation ${name}`}
                value={show(s.val_accuracy_mean_last)}
                note={beside(s.val_accuracy_mean_last, "mean of the envs, newest round")}
            />
            <Tile
                name="val_accuracy_best"
                title={`best validation ${name}`}
                value={show(s.val_accuracy_best)}
                note={beside(s.val_accuracy_best, "best env over all rounds")}
            />
            <Tile
                name="test_accuracy"
                title={`test ${name}`}
                value={show(s.test_accuracy_mean_last)}
                note={beside(s.test_accuracy_mean_last, "mean of the envs, newest round")}
            />
            <Tile name="reward" title="reward" value={figures(s.reward_mean_last)} note="per episode, newest round" />
            <Tile
                name="speed"
                title="speed"
                value={number(s.seconds > 0 ? s.env_steps / s.seconds : null, 0, "env-steps/s")}
                note={`${count(s.env_steps)} env-steps`}
            />
            <Tile
                name="germinations"
                title="seeds"
                value={count(s.germinations)}
                note={`germinated; ${count(s.fossilizations)} fossilised, ${count(s.prunes)} pruned`}
            />
            <Tile name="rollbacks" title="rollbacks" value={count(s.rollbacks)} note="by the governor" />
        </div>
    );
}

function SeedsNow({ run }) {
    const answer = useRows(run, "env_seeds", { round: run.summary.newest_round });
    const slots = run.envs * run.slots.length;
    const counts = STAGES.map(([name]) => answer.rows.filter((seed) => stageName(seed.stage) === name).length);
    const taken = counts.reduce((a, b) => a + b, 0);
    return (
        <Panel
            title="Seeds by stage now"
            note={`${count(slots)} slots: ${run.envs} envs × ${run.slots.length}`}
            data-name="stages"
        >
            {!known(run.summary.newest_step) ? (
                <p class="none">No steps were recorded.</p>
            ) : answer.data ? (
                <div
                    class="stagebar"
                    role="img"
                    aria-label={STAGES.map(([name], i) => `${name} ${counts[i]}`).join(", ")}
                >
                    {STAGES.map(
                        ([name, letter], i) =>
                            counts[i] > 0 && (
                                <span key={name} class={`stage-${name}`} style={{ flexGrow: counts[i] }}>
                                    {letter} {counts[i]}
                                </span>
                            ),
                    )}
                    {slots > taken && (
                        <span class="empty" style={{ flexGrow: slots - taken }}>
                            · {slots - taken}
                        </span>
                    )}
                </div>
            ) : (
                <Lack answer={answer} />
            )}
            <StageLegend />
        </Panel>
    );
}

function OpMix({ run }) {
    const answer = useRows(run, "ops", {});
    const newest = Math.max(...answer.rows.map((row) => row.round));
    const rows = answer.rows.filter((row) => row.round === newest);
    const kept = rows.reduce((sum, row) => sum + row.attempted, 0); // idle steps of late rounds are thinned
    return (
        <Panel
            title="Decisions"
            note={
                rows.length
                    ? `round ${shownRound(newest)}: ${count(kept)} of ${count(run.envs * run.steps)} env-steps were recorded`
                    : ""
            }
        >
            {rows.length ? (
                <Table
                    caption="decisions by op"
                    rows={rows}
                    columns={[
                        { key: "op", text: true, show: words },
                        ...["attempted", "done", "refused", "void", "rolled_back", "forced"].map((key) => ({
                            key,
                            show: (x) => count(x),
                        })),
                    ]}
                />
            ) : (
                <Lack answer={answer} none="No steps were recorded." />
            )}
        </Panel>
    );
}

function Alerts({ run }) {
    const answer = useRows(run, "alerts", { limit: 100 });
    const columns = [
        { key: "round", show: shownRound },
        {
            key: "severity",
            text: true,
            show: (severity, row) => (row.state === "cleared" ? "✓ cleared" : <Badge state={severity} />),
        },
        { key: "rule", text: true, show: words },
        { key: "value", show: (x) => figures(x) },
        { key: "threshold", title: "limit", show: (x) => figures(x) },
        { key: "text", title: "in words", text: true },
    ];
    return (
        <Panel title="Alerts" note="newest first" wide data-name="alerts">
            {answer.rows.length ? (
                <Table caption="alerts" columns={columns} rows={answer.rows} />
            ) : (
                <Lack answer={answer} none="None so far." />
            )}
        </Panel>
    );
}

export function Overview({ run }) {
    const series = useSeries(run, NAMES);
    const marks = useAlertMarks(run);
    const lines = useMemo(
        () => ({
            accuracy: [
                series.line(NAMES[0], "validation, mean"),
                series.line(NAMES[1], "validation, best env"),
                series.line(NAMES[2], "test, mean"),
            ],
            reward: [series.line(NAMES[3], "reward")],
            stages: STAGES.map(([name, letter]) => ({
                ...series.line("round." + name),
                name: `${letter} ${name}`,
                letter,
                ink: name,
            })).reverse(),
        }),
        [series],
    );
    const slots = run.envs * run.slots.length;
    const shared = { x: series.x, marks, xName: "round", onZoom: zoomTo };
    return (
        <>
            <Verdict verdict={run.verdict} />
            <Tiles run={run} />
            {series.error && (
                <p class="problem" role="alert">
                    {series.error}
                </p>
            )}
            <div class="grid2">
                <Chart
                    {...shared}
                    name="accuracy"
                    title={`${capital(run.words.score)} at the end of the round`}
                    unit={run.words.unit}
                    lines={lines.accuracy}
                />
                <Chart
                    {...shared}
                    name="reward"
                    title="Reward of an episode"
                    unit="sum of raw rewards, mean of the envs"
                    lines={lines.reward}
                />
                <Chart
                    {...shared}
                    name="stageareas"
                    title="Slots by stage at the end of the round"
                    unit={`of ${count(slots)} slots, all envs; blank: empty`}
                    areas={lines.stages}
                    range={[0, slots]}
                    height={210}
                />
                <div>
                    <SeedsNow run={run} />
                    <OpMix run={run} />
                </div>
            </div>
            <Alerts run={run} />
        </>
    );
}
