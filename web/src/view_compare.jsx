// Runs compared: means and differences with 95 % intervals, and their learning curves on one axis.
import uPlot from "uplot";
import { useEffect, useMemo, useState } from "preact/hooks";
import { address, query, read } from "./api.js";
import { useAnswer } from "./ask.js";
import { Intervals } from "./bars.jsx";
import { Chart } from "./chart.jsx";
import { count, known, number, scored, shownRound, signed } from "./format.js";
import { asksSettings, parseSearch, useRuns, useSettings, wanted } from "./many.js";
import { Badge, Lack, Panel, Table } from "./parts.jsx";
import { route, turn } from "./route.js";
import { Search } from "./view_runs.jsx";


const LETTERS = "ABCDEFGH";
const CHOICES = 50; // runs to choose from at a time
const ANY = { score: "score", unit: "points" }; // until the server has said what it is called

// "a1:a2,b" in the address: cohorts by comma, runs of one policy with different seeds joined by colon.
const cohortsOf = (text) => (text ? text.split(",").map((names) => names.split(":")) : []);

// Puts a run into cohort `letter`, or into none; empty cohorts are removed.
function assign(cohorts, name, letter) {
    const next = Array.from({ length: LETTERS.length }, (_, i) => (cohorts[i] ?? []).filter((n) => n !== name));
    if (letter) next[LETTERS.indexOf(letter)].push(name);
    turn({
        runs:
            next
                .filter((names) => names.length)
                .map((names) => names.join(":"))
                .join(",") || null,
    });
}

function Chooser({ cohorts }) {
    const answer = useRuns();
    const all = answer.data?.runs ?? [];
    const settings = useSettings(asksSettings(parseSearch(route.value.values.q)), all);
    const found = wanted(all, settings).filter((run) => !run.error);
    const names = new Set(cohorts.flat()); // those that have a letter stay in sight
    const runs = [...found.filter((run) => names.has(run.name)), ...found.filter((run) => !names.has(run.name))];
    const letterOf = (name) => LETTERS[cohorts.findIndex((names) => names.includes(name))] ?? "";
    return (
        <Panel
            title="Choose"
            note="a letter for each run; runs of one policy with different seeds may share one. Differences are the first letter minus each of the others"
            wide
        >
            {all.length > 0 && <Search runs={all} />}
            {runs.length ? (
                <Table
                    name="choose"
                    caption="choose runs"
                    rows={runs.slice(0, CHOICES)}
                    columns={[
                        {
                            key: "cohort",
                            title: "cohort",
                            text: true,
                            show: (_, run) => (
                                <select
                                    aria-label={`cohort of ${run.name}`}
                                    value={letterOf(run.name)}
                                    onChange={(e) => assign(cohorts, run.name, e.target.value)}
                                >
                                    <option value="">–</option>
                                    {[...LETTERS].slice(0, Math.min(cohorts.length + 1, 8)).map((l) => (
                                        <option key={l}>{l}</option>
                                    ))}
                                </select>
                            ),
                        },
                        { key: "name", title: "run", text: true },
                        { key: "state", text: true, show: (state) => <Badge state={state} /> },
                        {
                            key: "policy",
                            text: true,
                            show: (policy, run) => policy && policy + (run.evaluate ? ", evaluation" : ""),
                        },
                        { key: "task", text: true },
                        { key: "seed" },
                        { key: "test_accuracy", title: "test", show: (x, run) => scored(run, x) },
                    ]}
                />
            ) : (
                <Lack answer={answer} none={all.length ? "No run fits." : "No runs here yet."} />
            )}
            {runs.length > CHOICES && <p class="none">{count(runs.length - CHOICES)} more: search for them.</p>}
        </Panel>
    );
}

function interval(of, digits, sign) {
    const show = sign ? signed : number;
    if (!of || !known(of.mean)) return "–";
    return `${show(of.mean, digits)}${known(of.low) ? ` [${show(of.low, digits)} to ${show(of.high, digits)}]` : ""} (${count(of.count)})`;
}

function Result({ answer }) {
    const { metrics, cohorts, comparisons } = answer.data;
    return (
        <>
            <Panel
                title="Means"
                note="of episodes; [95 % interval] (episodes)"
                wide
                save={() => ({
                    columns: ["metric", "cohort", "mean", "low", "high", "count"],
                    rows: metrics.flatMap((m) =>
                        cohorts.map((c) => {
                            const of = c.means[m.name];
                            return [m.name, c.cohort, of?.mean, of?.low, of?.high, of?.count];
                        }),
                    ),
                })}
            >
                <Table
                    name="means"
                    caption="means"
                    rows={metrics}
                    columns={[
                        { key: "title", title: "of", text: true },
                        ...cohorts.map((c) => ({
                            key: c.cohort,
                            title: `${c.cohort}: ${c.policy}, ${c.runs.map((r) => r.name).join(" + ")}`,
                            show: (_, m) => interval(c.means[m.name], m.decimals),
                        })),
                    ]}
                />
                <Intervals
                    lines={cohorts.map((c) => ({
                        name: `${c.cohort} ${c.policy}`,
                        ...c.means[metrics[0].name],
                        text: `${metrics[0].title}: ${interval(c.means[metrics[0].name], metrics[0].decimals)}`,
                    }))}
                />
            </Panel>
            {comparisons.map((c) => (
                <Panel
                    key={c.minus}
                    title={`${c.of} minus ${c.minus}`}
                    note={c.error ? "" : `pairs of episodes: ${count(c.pairs)}; seeds: ${count(c.seeds)}`}
                    wide
                >
                    {c.error ? (
                        <p class="problem">{c.error}</p>
                    ) : (
                        <>
                            {c.rewards_differ_in && (
                                <p class="problem">Rewards cannot be compared: they differ in {c.rewards_differ_in}.</p>
                            )}
                            <Table
                                name={`${c.of} minus ${c.minus}`}
                                caption="differences"
                                rows={metrics.filter((m) => c.differences[m.name])}
                                columns={[
                                    { key: "title", title: "of", text: true },
                                    {
                                        key: "episodes",
                                        title: "difference over episodes",
                                        show: (_, m) => interval(c.differences[m.name].episodes, m.decimals, true),
                                    },
                                    {
                                        key: "seeds",
                                        title: "difference over seeds",
                                        show: (_, m) => interval(c.differences[m.name].seeds, m.decimals, true),
                                    },
                                ]}
                            />
                        </>
                    )}
                </Panel>
            ))}
        </>
    );
}

// Series of several runs on one axis of rounds.
function Learning({ names, words }) {
    const [all, setAll] = useState([]);
    useEffect(() => {
        let wanted = true;
        const one = async (name) => ({
            name,
            ...(await read(address("run", name, "series") + query({ names: "round.val_accuracy_mean", points: 400 }))),
        });
        Promise.allSettled(names.map(one)).then(
            (done) => wanted && setAll(done.filter((d) => d.status === "fulfilled").map((d) => d.value)),
        );
        return () => (wanted = false);
    }, [names.join()]);
    const { x, lines } = useMemo(() => {
        if (!all.length) return { x: [], lines: [] };
        const [rounds, ...values] = uPlot.join(all.map((run) => [run.x.map(shownRound), run.series[0].last]));
        return { x: rounds, lines: values.map((v, i) => ({ name: all[i].name, values: v })) };
    }, [all]);
    return (
        lines.length > 0 && (
            <Chart
                title={`Validation ${words.score}, mean of the envs`}
                unit={words.unit}
                x={x}
                lines={lines}
                xName="round"
                height={220}
            />
        )
    );
}

export function Compare() {
    const text = route.value.values.runs ?? "";
    const cohorts = cohortsOf(text);
    const answer = useAnswer(
        cohorts.length >= 2
            ? "/api/compare?runs=" + encodeURIComponent(text).replaceAll("%2C", ",").replaceAll("%3A", ":")
            : null,
    );
    return (
        <>
            {cohorts.length < 2 ? (
                <p class="none">Choose two or more runs.</p>
            ) : answer.data && !answer.error ? (
                <Result answer={answer} />
            ) : (
                <Lack answer={answer} />
            )}
            {cohorts.length > 0 && <Learning names={cohorts.flat().slice(0, 8)} words={answer.data?.words ?? ANY} />}
            <Chooser cohorts={cohorts} />
        </>
    );
}
