// Was it worth it: score by size, best and worst episodes, and the parts of the reward.
import { useRows } from "./ask.js";
import { Scatter, Waterfall } from "./bars.jsx";
import { table } from "./save.jsx";
import { capital, count, figures, known, number, score, scored, shownRound } from "./format.js";
import { Lack, Panel, RoundPicker, Table, useRound } from "./parts.jsx";
import { link } from "./route.js";
import { REWARD_COMPONENTS } from "./words.js";

function columns(run) {
    return [
        {
            key: "round",
            show: (round, row) => (
                <a href={link(["run", run.name, "envs"], { round: shownRound(round), env: row.env })}>
                    {shownRound(round)}
                </a>
            ),
        },
        { key: "env" },
        { key: "test_accuracy", title: "test", show: score(run) },
        { key: "val_accuracy", title: "validation", show: score(run) },
        { key: "added_params", title: "added parameters", show: (x) => count(x) },
        { key: "fossilized", title: "fossils", show: (x) => count(x) },
        { key: "reward", show: (x) => figures(x) },
        { key: "stability", title: "stability, 0–1", show: (x) => number(x, 3) },
    ];
}

export function Outcomes({ run }) {
    const newest = run.summary.last_round;
    const round = useRound(run, newest);
    const pareto = useRows(run, "pareto", { limit: 1500 });
    const top = useRows(run, "top", { limit: 10 });
    const bottom = useRows(run, "bottom", { limit: 10 });
    const parts = useRows(known(round) && run, "reward_rounds", { from: round, to: round });
    const reward = parts.rows.find((row) => row.round === round);
    const used = reward
        ? REWARD_COMPONENTS.filter((name) => reward[name]).map((name) => ({ name, value: reward[name] }))
        : [];
    const points = pareto.rows.map((p) => ({
        x: p.added_params,
        y: p.test_accuracy,
        frontier: p.frontier,
        label: `round ${shownRound(p.round)}, env ${p.env}: ${scored(run, p.test_accuracy)}, ${count(p.added_params)} parameters added`,
    }));
    const frontier = pareto.rows.filter((p) => p.frontier);
    return (
        <div class="grid2">
            <Panel
                title={`${capital(run.words.score)} by size`}
                note="one point per episode, the newest 1 500 and the frontier ◆: nothing smaller is better"
                save={
                    points.length
                        ? table(["round", "env", "added_params", "test_accuracy", "frontier"], pareto.rows)
                        : undefined
                }
            >
                {points.length ? (
                    <Scatter points={points} xName="added parameters" yName={`test ${run.words.score}, ${run.words.unit}`} />
                ) : (
                    <Lack answer={pareto} none="No episode has finished yet." />
                )}
            </Panel>
            <Panel
                title="Parts of the reward"
                note={
                    reward
                        ? `round ${shownRound(round)}: sums per episode, mean of ${reward.envs} envs, ${count(reward.kept)} recorded steps`
                        : ""
                }
                save={used.length ? table(["name", "value"], used) : undefined}
            >
                <p class="tools">
                    <RoundPicker run={run} newest={newest} />
                </p>
                {used.length ? (
                    <Waterfall name="reward" parts={used} total={reward.reward} />
                ) : (
                    <Lack answer={parts} none="No steps of this round were recorded." />
                )}
            </Panel>
            <Panel
                title="The frontier"
                note={frontier.length ? `host alone: ${count(frontier[0].host_params)} parameters` : ""}
            >
                {frontier.length ? (
                    <Table name="frontier" caption="frontier" rows={frontier} columns={columns(run)} />
                ) : (
                    <Lack answer={pareto} none="No episode has finished yet." />
                )}
            </Panel>
            <Panel title="Best episodes" note={`by test ${run.words.score}`}>
                {top.rows.length ? (
                    <Table name="top" caption="best episodes" rows={top.rows} columns={columns(run)} />
                ) : (
                    <Lack answer={top} none="No episode has finished yet." />
                )}
            </Panel>
            <Panel title="Worst episodes" note={`by test ${run.words.score}`}>
                {bottom.rows.length ? (
                    <Table name="bottom" caption="worst episodes" rows={bottom.rows} columns={columns(run)} />
                ) : (
                    <Lack answer={bottom} none="No episode has finished yet." />
                )}
            </Panel>
        </div>
    );
}
