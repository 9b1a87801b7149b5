// What grew where and when: the swimlane of a round, details of each seed, and the fate of each blueprint.
import { useMemo, useState } from "preact/hooks";
import { useRows } from "./ask.js";
import { MISSING, count, figures, known, number, percent, shownRound, signed, slotName } from "./format.js";
import { Lanes } from "./lanes.jsx";
import { Badge, Lack, Panel, RoundPicker, Stage, StageLegend, Table, useRound } from "./parts.jsx";
import { chosen, turn } from "./route.js";
import { EMPTY_STAGES } from "./words.js";

const ENVS = 8; // per page of lanes

function lanesOf(run, rows, first, last) {
    const lanes = [];
    for (let env = first; env < Math.min(first + ENVS, run.envs); env++)
        run.slots.forEach((slot, i) =>
            lanes.push({ env, slot: i, name: `env ${env} ${slot}`, first: i === 0, spans: [] }),
        );
    for (const row of rows) {
        const lane = lanes[(row.env - first) * run.slots.length + row.slot];
        const to = row.to_step ?? last + 1;
        if (lane?.env === row.env && !EMPTY_STAGES.includes(row.stage) && to > row.from_step)
            lane.spans.push({ from: row.from_step, to, stage: row.stage, label: row.blueprint ?? "" });
    }
    return lanes;
}

// The details of the seed at `at`: a line for each fact.
function Readout({ run, round, at }) {
    const seeds = useRows(at && run, "swimlane", { round, env: at?.env });
    const lives = useRows(at && run, "lives", { round, env: at?.env });
    if (!at) return null;
    // A row shows the seed before the decision of its step; from round 201 on idle steps are thinned.
    const seed = [...seeds.rows].reverse().find((row) => row.slot === at.slot && row.step <= at.step);
    const here = lives.rows.filter((row) => row.slot === at.slot);
    const gates = here.filter(
        (row) => row.event === "gate" && row.step <= at.step && (!seed || row.germination === seed.germination),
    );
    const events = here.filter((row) => row.step === at.step && row.event !== "gate");
    return (
        <>
            <div>
                <b>
                    env {at.env}, {slotName(run, at.slot)}, step {at.step}
                </b>{" "}
                {at.span ? <Stage stage={at.span.stage} /> : "empty"}{" "}
                {at.span && <b data-name="blueprint">{at.span.label || MISSING}</b>}
            </div>
            {at.span && seed && (
                <>
                    <div>
                        alpha <b data-name="alpha">{number(seed.alpha, 3)}</b> → {number(seed.alpha_target, 2)} ·
                        gradient norm <b data-name="grad_norm">{figures(seed.grad_norm)}</b>, health{" "}
                        {number(seed.grad_health, 2)} (0 to 1)
                    </div>
                    <div>
                        adds <b>{signed(seed.contribution, 2, "points")}</b>, share{" "}
                        <b>{signed(seed.share, 2, "points")}</b> · {count(seed.params)} parameters
                    </div>
                    {seed.step !== at.step && <div class="muted">as of step {seed.step}</div>}
                </>
            )}
            {events.length > 0 && (
                <div>
                    at this step:{" "}
                    {events
                        .map((e) =>
                            e.event === "stage"
                                ? `${e.from_stage} → ${e.to_stage}`
                                : e.event + (e.reason ? ` by ${e.reason}` : ""),
                        )
                        .join(", ")}
                </div>
            )}
            {gates.slice(-3).map((g) => (
                <div key={`${g.step} ${g.ordinal}`}>
                    {g.gate} at step {g.step} to {g.to_stage}{" "}
                    <Badge state={g.passed ? "pass" : "fail"} text={g.passed ? "opened" : "refused"} />
                    {g.failed ? ` failed: ${g.failed}` : ""} score {number(g.score, 2)}
                </div>
            ))}
        </>
    );
}

function Swimlane({ run, round }) {
    const answer = useRows(run, "lanes", { round });
    const [spot, setSpot] = useState(null);
    const pages = Math.ceil(run.envs / ENVS);
    const page = Math.min(chosen("page") ?? 0, pages - 1);
    const running = run.state === "running" && round === run.summary.newest_round;
    const last = running ? (run.summary.newest_step ?? 0) : run.steps;
    const lanes = useMemo(() => lanesOf(run, answer.rows, page * ENVS, last), [answer.data, page, last]);
    const lane = spot && lanes[spot.lane];
    const at = lane && {
        env: lane.env,
        slot: lane.slot,
        step: spot.step,
        span: lane.spans.find((s) => spot.step >= s.from && spot.step < s.to),
    };
    return (
        <Panel
            title="Lives of the seeds"
            note={`round ${shownRound(round)}; a lane for each slot, time in steps; point, tap or use the arrow keys for details`}
            wide
            data-name="swimlane"
            save={() => ({
                columns: ["env", "slot", "from", "to", "stage", "label"],
                rows: lanes.flatMap((l) =>
                    l.spans.map((s) => [l.env, slotName(run, l.slot), s.from, s.to, s.stage, s.label]),
                ),
            })}
        >
            {pages > 1 && (
                <p class="tools">
                    {Array.from({ length: pages }, (_, i) => (
                        <button key={i} aria-pressed={i === page} onClick={() => turn({ page: i })}>
                            envs {i * ENVS}–{Math.min((i + 1) * ENVS, run.envs) - 1}
                        </button>
                    ))}
                </p>
            )}
            {answer.data ? (
                <Lanes
                    title="Lives of the seeds"
                    lanes={lanes}
                    steps={run.steps}
                    onPoint={(l, step) => setSpot(known(l) ? { lane: l, step } : null)}
                >
                    <Readout run={run} round={round} at={at} />
                </Lanes>
            ) : (
                <Lack answer={answer} />
            )}
            <StageLegend />
            {answer.data && !answer.rows.length && <p class="none">No seed has germinated in this round.</p>}
        </Panel>
    );
}

// The rounds that the rows cover, as the answer states them, and a note.
const among = ([row], rest) =>
    row ? `rounds ${shownRound(row.first_round)} to ${shownRound(row.last_round)}; ${rest}` : "";

export function Seeds({ run }) {
    const newest = run.summary.newest_round;
    const round = useRound(run, newest);
    const blueprints = useRows(run, "blueprints", {});
    const gates = useRows(run, "gate_checks", {});
    return (
        <>
            <p class="tools">
                <RoundPicker run={run} newest={newest} />
            </p>
            {known(round) && <Swimlane run={run} round={round} />}
            <div class="grid2">
                <Panel title="Blueprints" note={among(blueprints.rows, "share: mean of the fossils at the last step")}>
                    {blueprints.rows.length ? (
                        <Table
                            name="blueprints"
                            caption="blueprints"
                            rows={blueprints.rows}
                            columns={[
                                { key: "blueprint", text: true },
                                { key: "germinated", show: (x) => count(x) },
                                { key: "fossilized", show: (x) => count(x) },
                                { key: "pruned", show: (x) => count(x) },
                                { key: "rate_percent", title: "fossilised per germinated", show: percent },
                                { key: "share", title: "share, points", show: (x) => signed(x, 2) },
                                { key: "params", title: "parameters, mean", show: (x) => count(x) },
                            ]}
                        />
                    ) : (
                        <Lack answer={blueprints} none="No seed has germinated." />
                    )}
                </Panel>
                <Panel title="Gates" note={among(gates.rows, "score 0 to 1, mean")}>
                    {gates.rows.length ? (
                        <Table
                            name="gates"
                            caption="gates"
                            rows={gates.rows}
                            columns={[
                                { key: "gate", text: true },
                                { key: "to_stage", title: "to", text: true },
                                {
                                    key: "passed",
                                    title: "verdict",
                                    text: true,
                                    show: (x) => <Badge state={x ? "pass" : "fail"} text={x ? "opened" : "refused"} />,
                                },
                                { key: "failed", title: "failed checks", text: true, show: (x) => x || MISSING },
                                { key: "count", title: "times", show: (x) => count(x) },
                                { key: "score", show: (x) => number(x, 3) },
                            ]}
                        />
                    ) : (
                        <Lack answer={gates} none="No gate was asked yet." />
                    )}
                </Panel>
            </div>
        </>
    );
}
