// All envs at a glance, and one of them in full.
import { useMemo } from "preact/hooks";
import { useRows } from "./ask.js";
import { Waterfall, Stack } from "./bars.jsx";
import { table } from "./save.jsx";
import { Chart } from "./chart.jsx";
import {
    MISSING,
    capital,
    count,
    figures,
    known,
    number,
    score,
    shownRound,
    slotName,
    stageLetter,
    words,
} from "./format.js";
import { Host } from "./host.jsx";
import { EnvPicker, Lack, Panel, RoundPicker, StageLegend, Table, useEnv, useRound } from "./parts.jsx";
import { turn } from "./route.js";
import { ramp } from "./theme.js";
import { OPS, REWARD_COMPONENTS } from "./words.js";

// A cell: colour and number show the score, letters the stages of its slots.
function Cell({ run, env, seeds, low, high, picked }) {
    const share = known(env.val_accuracy) ? (env.val_accuracy - low) / (high - low || 1) : null;
    const { back, ink } = share === null ? {} : ramp(share);
    const letters = run.slots
        .map((_, slot) => stageLetter(seeds.find((s) => s.env === env.env && s.slot === slot)?.stage))
        .join("");
    const rolledBack = env.result === "rolled_back";
    return (
        <button
            class={picked ? "cell picked" : "cell"}
            data-env={env.env}
            style={{ background: back, color: ink }}
            aria-pressed={picked}
            aria-label={`env ${env.env}: ${score(run)(env.val_accuracy)}, slots ${letters}`}
            onClick={() => turn({ env: env.env })}
        >
            <small>
                env {env.env}
                {rolledBack ? " ↩" : ""}
            </small>
            <b>{number(env.val_accuracy, 1, run.words.bytes ? "" : run.words.unit)}</b>
            <span class="letters">{letters}</span>
        </button>
    );
}

function Grid({ run, round, env }) {
    const envs = useRows(run, "envs", { round });
    const seeds = useRows(run, "env_seeds", { round });
    const values = envs.rows.map((row) => row.val_accuracy).filter(known);
    const low = Math.min(...values);
    const high = Math.max(...values);
    return (
        <Panel
            title="Environments"
            wide
            note={
                values.length
                    ? `validation ${run.words.score}, dark ${score(run)(low)} to bright ${score(run)(high)}; letters: its slots ${run.slots.join(" ")}; ↩ rolled back`
                    : ""
            }
        >
            {envs.rows.length ? (
                <div class="cells" data-name="envs">
                    {envs.rows.map((row) => (
                        <Cell
                            key={row.env}
                            run={run}
                            env={row}
                            seeds={seeds.rows}
                            low={low}
                            high={high}
                            picked={row.env === env}
                        />
                    ))}
                </div>
            ) : (
                <Lack answer={envs} none="No steps of this round were recorded." />
            )}
            <StageLegend />
            {envs.rows.length > 0 && (
                <Panel
                    title={`Host of env ${env} now`}
                    note="line width of a seed's branch: alpha; adds: points lost without it"
                    save={table(
                        ["slot", "blueprint", "stage", "age", "alpha", "alpha_target", "params", "contribution"],
                        seeds.rows.filter((seed) => seed.env === env),
                    )}
                >
                    <Host run={run} seeds={seeds.rows.filter((seed) => seed.env === env)} />
                </Panel>
            )}
        </Panel>
    );
}

const chosenOf = (row, run) =>
    [
        known(row.slot) && slotName(run, row.slot),
        row.blueprint,
        row.style,
        known(row.tempo) && `tempo ${row.tempo} steps`,
        known(row.alpha_target) && `alpha to ${number(row.alpha_target, 2)}`,
        known(row.alpha_speed) && `in ${row.alpha_speed} steps`,
        row.alpha_curve,
    ]
        .filter(Boolean)
        .join(", ") || MISSING;

function decisions(run) {
    return [
        { key: "step" },
        { key: "op", text: true, show: words },
        {
            key: "result",
            text: true,
            show: (x, row) =>
                (x === "done" ? "✓ done" : x === "refused" ? "✗ refused" : x === "rolled_back" ? "↩ rolled back" : x) +
                (row.forced ? ", forced" : ""),
        },
        { key: "slot", title: "what", text: true, show: (_, row) => chosenOf(row, run) },
        { key: "p", title: "probability of the op", show: (_, row) => number(row["p_" + row.op], 3) },
        { key: "log_probability", title: "log-prob., nats", show: (x) => figures(x) },
        { key: "entropy", title: "entropy, 0–1", show: (x) => figures(x) },
        { key: "value", title: "value, target units", show: (x) => figures(x) },
        { key: "reward", show: (x) => figures(x) },
        { key: "val_accuracy", title: "validation", show: score(run) },
        { key: "train_accuracy", title: "training", show: score(run) },
        { key: "live", title: "live seeds", show: (x) => count(x) },
        { key: "added_params", title: "added parameters", show: (x) => count(x) },
    ];
}

function Detail({ run, round, env }) {
    const episode = useRows(run, "episode", { round, env });
    const steps = episode.rows;
    const lines = useMemo(() => {
        const line = (key, name) => ({ name, values: steps.map((row) => row[key]) });
        return {
            x: steps.map((row) => row.step),
            accuracy: [line("val_accuracy", "validation"), line("train_accuracy", "training")],
            loss: [line("val_loss", "validation"), line("train_loss", "training")],
            odds: OPS.map((op) => line("p_" + op, words(op))),
        };
    }, [episode.data]);
    const sums = REWARD_COMPONENTS.map((name) => ({
        name,
        value: steps.reduce((sum, row) => sum + (row[name] ?? 0), 0),
        used: steps.some((row) => row[name]),
    })).filter((part) => part.used);
    const total = steps.length ? steps.reduce((sum, row) => sum + (row.reward ?? 0), 0) : null;
    if (!steps.length)
        return (
            <Panel title={`Env ${env}`}>
                <Lack answer={episode} none="No steps of this env were recorded in this round." />
            </Panel>
        );
    const onRecord =
        steps.length < steps[steps.length - 1].step
            ? `${steps.length} of ${steps[steps.length - 1].step} steps were recorded`
            : `${steps.length} steps`;
    return (
        <>
            <div class="grid2">
                <Chart
                    title={`${capital(run.words.score)} of env ${env}`}
                    unit={run.words.unit}
                    x={lines.x}
                    lines={lines.accuracy}
                    xName="step"
                    sync="episode"
                />
                <Chart title="Loss" unit="nats" x={lines.x} lines={lines.loss} xName="step" sync="episode" />
                <Chart
                    title="Probabilities of the ops"
                    unit="0 to 1"
                    x={lines.x}
                    lines={lines.odds}
                    xName="step"
                    sync="episode"
                    range={[0, 1]}
                />
                <Panel
                    title="Parts of the reward by step"
                    note="gains above, costs below; sums beside the names"
                    save={sums.length ? table(["step", ...sums.map((s) => s.name)], steps) : undefined}
                >
                    {sums.length ? (
                        <Stack rows={steps} names={sums.map((s) => s.name)} steps={run.steps} />
                    ) : (
                        <p class="none">No part has been paid yet.</p>
                    )}
                </Panel>
                <Panel title="The episode's reward" note={onRecord} save={table(["name", "value"], sums)}>
                    <Waterfall parts={sums} total={total} />
                </Panel>
            </div>
            <Panel title={`Decisions of env ${env}`} note={`round ${shownRound(round)}, newest first`} wide>
                <Table name="decisions" caption="decisions" columns={decisions(run)} rows={[...steps].reverse()} />
            </Panel>
        </>
    );
}

export function Envs({ run }) {
    const newest = run.summary.newest_round;
    const round = useRound(run, newest);
    const env = useEnv(run);
    if (!known(round))
        return (
            <Panel title="Environments">
                <p class="none">No steps were recorded.</p>
            </Panel>
        );
    return (
        <>
            <p class="tools">
                <RoundPicker run={run} newest={newest} /> <EnvPicker run={run} />
            </p>
            <Grid run={run} round={round} env={env} />
            <Detail run={run} round={round} env={env} />
        </>
    );
}
