// Picked runs on one axis: any metric, over rounds, env-steps or time, smoothed, with bands over seeds; and what they differ in.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { read } from "./api.js";
import { useAnswer } from "./ask.js";
import { Chart } from "./chart.jsx";
import { count, figures, known, shownRound, words } from "./format.js";
import { MOST, differing, groupsOf, kept, picked, picks, picksAll, useRuns, useSettings, wanted } from "./many.js";
import { at, axisOf, band, placed, positive, smooth } from "./overlay.js";
import { Parallel } from "./parallel.jsx";
import { Badge, Lack, Panel, Table } from "./parts.jsx";
import { link, route, turn } from "./route.js";
import { Search } from "./view_runs.jsx";

const METRIC = "round.val_accuracy_mean";
const AXES = { rounds: "round", steps: "env-steps", time: "seconds" };
const BANDS = { none: "a line per run", range: "mean and range of seeds", interval: "mean and 95 % of seeds" };
const NAMES = 3000; // bytes of run names in one request: its line is limited
const EACH = 25; // runs of one request: two at once take half as long

const title = (metric) => words(metric.replace(/^round\./, "").replace(/^ppo\./, "update: ").replace(/^ppo_head\.([^.]+)\.(.+)/, "head $2: $1"));

/* ---- reading ------------------------------------------------------------------------------------------------------- */

function requests(names, metric) {
    const parts = [[]];
    for (const name of names) {
        const last = parts.at(-1);
        if (last.length === EACH || last.join().length + name.length > NAMES) parts.push([name]);
        else last.push(name);
    }
    return parts.filter((p) => p.length).map((p) => `/api/overlay?name=${metric}&points=200&runs=${p.join()}`);
}

// Counts the changes of these runs that the list tells: another round, another state.
function useChanges(runs) {
    const seen = useRef(new Map()).current;
    const changes = useRef(0);
    for (const { name, unread, rounds_done, state } of runs) {
        if (unread) continue;
        const now = `${rounds_done} ${state}`;
        if (seen.has(name) && seen.get(name) !== now) changes.current++;
        seen.set(name, now);
    }
    return changes.current;
}

// {runs: [{name, x, steps, seconds, last}], help, error}; read again when one of the runs has changed.
function useOverlay(names, runs, metric) {
    const [state, setState] = useState({ runs: [] });
    const changes = useChanges(runs);
    const signature = [metric, changes, ...names].join();
    useEffect(() => {
        let wantedStill = true;
        Promise.all(requests(names, metric).map((path) => read(path)))
            .then((all) => {
                if (wantedStill) setState({ metric, runs: all.flatMap((a) => a.runs), help: all[0]?.help, done: true });
            })
            .catch((problem) => wantedStill && setState((old) => ({ ...old, error: problem.message })));
        return () => (wantedStill = false);
    }, [signature]);
    return state;
}

/* ---- lines --------------------------------------------------------------------------------------------------------- */

function curvesOf(overlay, axis, weight) {
    return overlay.runs
        .filter((run) => !run.error)
        .map((run) => ({
            name: run.name,
            run,
            x: axis === "steps" ? run.steps : axis === "time" ? run.seconds : run.x.map(shownRound),
            y: smooth(run.last, weight),
        }));
}

const groupName = ({ keys, values, runs }) =>
    (keys.length && keys.length === values.length
        ? keys.map((key, i) => `${key.name} ${values[i]}`).join(", ")
        : (values[0] ?? "all")) + ` (${runs.length} ${runs.length === 1 ? "run" : "runs"})`;

// {x, lines} for the chart. Lines of one group share their colour where there are several groups.
function linesOf(curves, groups, kind, log) {
    const { x, exact } = axisOf(curves);
    const clean = log ? positive : (values) => values;
    const byName = new Map(curves.map((curve) => [curve.name, curve]));
    if (kind === "none") {
        const look = new Map(groups.flatMap((group, i) => group.runs.map((run) => [run.name, i])));
        return {
            x,
            lines: curves.map((curve, i) => ({
                name: curve.name,
                values: clean(exact ? placed(curve, x) : at(curve, x)),
                look: groups.length > 1 ? (look.get(curve.name) ?? 0) : i,
            })),
        };
    }
    const lines = groups
        .map((group, i) => {
            const rows = group.runs.map((run) => byName.get(run.name)).filter(Boolean).map((curve) => at(curve, x));
            if (!rows.length) return null;
            const { mean, low, high } = band(rows, kind);
            return { name: groupName(group), values: clean(mean), low: clean(low), high: clean(high), look: i };
        })
        .filter(Boolean);
    return { x, lines };
}

// The numbers as they are in the record, a row per run and point, with what is drawn beside them.
const numbersOf = (curves) => () => ({
    columns: ["run", "round", "env_steps", "seconds", "value", "smoothed"],
    rows: curves.flatMap(({ name, run, y }) =>
        run.x.map((round, i) => [name, shownRound(round), run.steps[i], run.seconds[i], run.last[i], y[i]]),
    ),
});

/* ---- knobs --------------------------------------------------------------------------------------------------------- */

function Knob({ name, label, options, otherwise }) {
    return (
        <label>
            {label}{" "}
            <select
                value={route.value.values[name] ?? otherwise}
                onChange={(e) => turn({ [name]: e.target.value === otherwise ? null : e.target.value })}
            >
                {Object.entries(options).map(([value, text]) => (
                    <option key={value} value={value}>
                        {text}
                    </option>
                ))}
            </select>
        </label>
    );
}

const KINDS = [
    ["of rounds", /^round\./],
    ["of updates", /^ppo\./],
    ["of heads", /^ppo_head\./],
];

function MetricKnob({ metric }) {
    const names = useAnswer("/api/metrics", 0).data?.metrics ?? [{ name: metric }];
    return (
        <label>
            metric{" "}
            <select
                name="metric"
                value={metric}
                onChange={(e) => turn({ metric: e.target.value === METRIC ? null : e.target.value })}
            >
                {KINDS.map(([kind, of]) => (
                    <optgroup key={kind} label={kind}>
                        {names
                            .filter(({ name }) => of.test(name))
                            .map(({ name, help }) => (
                                <option key={name} value={name} title={help}>
                                    {title(name)}
                                </option>
                            ))}
                    </optgroup>
                ))}
            </select>
        </label>
    );
}

const weightOf = (text) => (/^0?\.\d+$/.test(text ?? "") ? Math.min(Number(text), 0.99) : 0);

function Knobs({ metric }) {
    const weight = weightOf(route.value.values.smooth);
    return (
        <p class="tools">
            <MetricKnob metric={metric} />
            <Knob name="x" label="over" options={{ rounds: "rounds", steps: "env-steps", time: "time" }} otherwise="rounds" />
            <Knob name="band" label="show" options={BANDS} otherwise="none" />
            <label>
                smoothing{" "}
                <input
                    type="range"
                    min="0"
                    max="0.98"
                    step="0.02"
                    value={weight}
                    onInput={(e) => turn({ smooth: Number(e.target.value) ? e.target.value : null })}
                />{" "}
                {weight ? figures(weight) : "none"}
            </label>
            <label>
                <input
                    type="checkbox"
                    name="log"
                    checked={route.value.values.log === "y"}
                    onChange={(e) => turn({ log: e.target.checked ? "y" : null })}
                />{" "}
                log scale
            </label>
        </p>
    );
}

/* ---- the picture --------------------------------------------------------------------------------------------------- */

function Lines({ runs, overlay, groups, metric }) {
    const { x: over = "rounds", band: kind = "none", log } = route.value.values;
    const weight = weightOf(route.value.values.smooth);
    const axis = AXES[over] ? over : "rounds";
    const way = BANDS[kind] ? kind : "none";
    const curves = useMemo(() => curvesOf(overlay, axis, weight), [overlay, axis, weight]);
    const grouping = groups.map((group) => groupName(group)).join("\n");
    const { x, lines } = useMemo(() => linesOf(curves, groups, way, log === "y"), [curves, grouping, way, log]);
    const [near, setNear] = useState(null);
    const many = lines.length > 8;
    const focus = (i, u) => setNear(i === null ? null : { name: lines[i]?.name, at: u.cursor.idx, i });
    const value = near && lines[near.i]?.values[near.at];
    const broken = overlay.runs.filter((run) => run.error);
    return (
        <>
            {lines.length > 0 && (
                <Chart
                    name="overlay"
                    title={title(metric)}
                    unit={overlay.help}
                    x={x}
                    xName={AXES[axis]}
                    whole={axis === "rounds"}
                    lines={lines}
                    log={log === "y"}
                    spans
                    height={340}
                    focus={many ? focus : undefined}
                    numbers={numbersOf(curves)}
                />
            )}
            {many && (
                <p class="readout" data-name="near" aria-live="polite">
                    {near ? (
                        <b>
                            {near.name}: {known(value) ? figures(value) : "–"} at {AXES[axis]} {figures(x[near.at])}
                        </b>
                    ) : (
                        `${count(lines.length)} lines${groups.length > 1 ? "; a colour per setting" : ""}: point at one to read it`
                    )}
                </p>
            )}
            {!lines.length && overlay.done && <p class="none">None of these runs has finished a round.</p>}
            {broken.slice(0, 5).map((run) => (
                <p key={run.name} class="problem">
                    {run.name}: {run.error}
                </p>
            ))}
            {runs.length > MOST && <p class="none">The first {MOST} runs of {count(runs.length)} are shown.</p>}
        </>
    );
}

/* ---- what differs -------------------------------------------------------------------------------------------------- */

const FEW = 6; // runs that fit beside each other

function Differences({ runs, settings, results, metric }) {
    const keys = differing(runs, settings);
    const unread = runs.filter((run) => !settings?.has(run)).length; // a server that has just started reads them one by one
    const same = runs.length > 1 && !keys.length && !unread;
    const nameOf = (run) => <a href={link(["run", run.name])}>{run.name}</a>;
    const columns = [...keys.map((key) => key.name), metric];
    const rows = runs.map((run) => [run.name, ...keys.map((key) => key.values.get(run.name)), results.get(run.name)]);
    if (runs.length < 2) return null;
    return (
        <Panel
            title="What differs"
            note="settings in which these runs differ, and the metric's last value"
            wide
            data-name="differs"
            save={() => ({ columns: ["run", ...columns], rows })}
            only="CSV"
        >
            {same && <p class="none">Their configurations are the same.</p>}
            {unread > 0 && <p class="none">reading … {count(unread)} of the runs are not read yet</p>}
            {runs.length <= FEW ? (
                <Table
                    name="differs"
                    caption="what differs"
                    rows={[
                        ...keys.map((key) => ({ key: key.name, help: key.help, value: (run) => key.values.get(run.name) })),
                        { key: title(metric), value: (run) => figures(results.get(run.name)) },
                    ]}
                    columns={[
                        { key: "key", title: "setting", text: true, show: (key, row) => <span title={row.help}>{key}</span> },
                        ...runs.map((run) => ({ key: run.name, title: run.name, show: (_, row) => row.value(run) ?? "–" })),
                    ]}
                />
            ) : (
                <Table
                    name="differs"
                    caption="what differs"
                    rows={runs}
                    columns={[
                        { key: "name", title: "run", text: true, show: (_, run) => nameOf(run) },
                        { key: "state", text: true, show: (state) => <Badge state={state} /> },
                        ...keys.map((key) => ({
                            key: key.name,
                            title: key.name,
                            help: key.help,
                            show: (_, run) => key.values.get(run.name) ?? "–",
                        })),
                        { key: "result", title: title(metric), show: (_, run) => figures(results.get(run.name)) },
                    ]}
                />
            )}
        </Panel>
    );
}

const AXES_MOST = 9;

function Coordinates({ runs, settings, results, metric }) {
    const keys = differing(runs, settings).slice(0, AXES_MOST);
    if (runs.length < 2 || !keys.length) return null;
    const axes = [
        ...keys.map((key) => ({ name: key.name, values: runs.map((run) => key.values.get(run.name) ?? null) })),
        { name: title(metric), values: runs.map((run) => results.get(run.name) ?? null) },
    ];
    return (
        <Panel
            title="Settings and result"
            note="a line per run, from its settings to the metric's last value"
            wide
            data-name="parallel"
            save={() => ({
                columns: ["run", ...axes.map((axis) => axis.name)],
                rows: runs.map((run, i) => [run.name, ...axes.map((axis) => axis.values[i])]),
            })}
        >
            <Parallel axes={axes} lines={runs.map((run) => run.name)} />
        </Panel>
    );
}

/* ---- the view ------------------------------------------------------------------------------------------------------ */

// Groups of runs that differ in the seed alone, as cohorts of the comparison.
function compareLink(groups) {
    const runs = groups
        .slice(0, 8)
        .map((group) => group.runs.slice(0, 16).map((run) => run.name).join(":"))
        .join();
    return link(["compare"], { runs });
}

export function Overlay() {
    const answer = useRuns();
    const runs = answer.data?.runs ?? [];
    const settings = useSettings(true, runs);
    const chosen = picked(runs, wanted(runs, settings)).filter((run) => !run.error);
    const shown = chosen.slice(0, MOST);
    const metric = /^[a-z_]+(\.[a-z_0-9]+){1,2}$/.test(route.value.values.metric ?? "") ? route.value.values.metric : METRIC;
    // Picked by name they need not wait for the list.
    const names = picksAll() ? shown.map((run) => run.name) : picks().slice(0, MOST);
    const overlay = useOverlay(names, shown, metric);
    const groups = groupsOf(shown, settings);
    const results = new Map(overlay.runs.map((run) => [run.name, run.last?.findLast(known) ?? null]));
    const common = { runs: shown, settings, results, metric };
    return (
        <>
            <Panel title="Overlay" note={chosen.length ? `${count(chosen.length)} ${chosen.length === 1 ? "run" : "runs"}` : ""} wide>
                <Search runs={runs} />
                <Knobs metric={metric} />
                <p class="tools">
                    <a href={link([], kept())}>pick runs</a>
                    <button onClick={() => turn({ pick: "*" })} disabled={route.value.values.pick === "*"}>
                        all that the search finds
                    </button>
                    {groups.length > 1 && groups.length <= 8 && <a href={compareLink(groups)}>compare the {groups.length} settings</a>}
                </p>
                {!names.length && <Lack answer={answer} none="No run is picked. Pick some in the list, or all that the search finds." />}
                {overlay.error && (
                    <p class="problem" role="alert">
                        {overlay.error}
                    </p>
                )}
                {names.length > 0 && <Lines {...common} runs={chosen} overlay={overlay} groups={groups} />}
            </Panel>
            <Coordinates {...common} />
            <Differences {...common} />
        </>
    );
}
