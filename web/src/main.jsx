// The page: the address decides what is shown.
import { render } from "preact";
import { useEffect } from "preact/hooks";
import "./style.css";
import { address } from "./api.js";
import { useAnswer, useRows } from "./ask.js";
import { count, duration, known, shownRound, time, words } from "./format.js";
import { connection, now, watch } from "./live.js";
import { Badge, Panel } from "./parts.jsx";
import { link, route } from "./route.js";
import { zoom, zoomTo } from "./series.js";
import { theme, toggleTheme } from "./theme.js";
import { Attribution } from "./view_attribution.jsx";
import { Compare } from "./view_compare.jsx";
import { Envs } from "./view_envs.jsx";
import { Events } from "./view_events.jsx";
import { Heads } from "./view_heads.jsx";
import { Overlay } from "./view_overlay.jsx";
import { Outcomes } from "./view_outcomes.jsx";
import { Overview } from "./view_overview.jsx";
import { Policy } from "./view_policy.jsx";
import { Runs } from "./view_runs.jsx";
import { Seeds } from "./view_seeds.jsx";
import { System } from "./view_system.jsx";
import { Text } from "./view_text.jsx";

// [address, title, view, whether its charts run over rounds and follow the zoom, whether it is of text alone]
const VIEWS = [
    ["overview", "Overview", Overview, true],
    ["policy", "Policy and critic", Policy, true],
    ["heads", "Heads", Heads, true],
    ["envs", "Environments", Envs],
    ["seeds", "Seeds", Seeds],
    ["attribution", "Attribution", Attribution],
    ["outcomes", "Outcomes", Outcomes],
    ["text", "Text", Text, false, true],
    ["events", "Events", Events],
    ["system", "System", System, true],
];

const CONNECTIONS = {
    off: "○ not connected",
    connecting: "… connecting",
    live: "● live",
    lost: "✗ connection lost, retrying",
    ended: "■ not running",
};

function Progress({ run }) {
    const news = now.value;
    const round = news?.rounds_done ?? run.summary?.rounds_done ?? 0;
    const left =
        run.state === "running" && round > 0 && known(run.summary.seconds)
            ? (run.summary.seconds / round) * (run.rounds - round)
            : null;
    const running = run.state === "running";
    return (
        <span class="progress">
            <progress max={run.rounds} value={round} aria-label="rounds done" />{" "}
            <span data-name="rounds_done">{count(round)}</span> of {count(run.rounds)} rounds
            {running && (
                <>
                    {" "}
                    · step <span data-name="step">{count(news?.step ?? run.step)}</span> of {count(run.steps)}
                </>
            )}
            {known(left) && <> · about {duration(left)} left</>}
        </span>
    );
}

// What is wrong right now, on every view. A run that has ended has a verdict instead.
function AlertStrip({ run }) {
    const { rows } = useRows(run, "standing");
    if (!rows.length) return null;
    return (
        <p class="strip" role="status" data-name="standing">
            {rows.slice(0, 4).map((alert) => (
                <span key={alert.rule}>
                    <Badge state={alert.severity} text={words(alert.rule)} /> {alert.text}
                </span>
            ))}
            {rows.length > 4 && <span>and {rows.length - 4} more</span>}
        </p>
    );
}

function ZoomBadge() {
    if (!zoom.value) return null;
    const [from, to] = zoom.value;
    return (
        <p class="zoom" role="status" data-name="zoom">
            charts show rounds {count(from)} to {count(to)} <button onClick={() => zoomTo(null)}>✕ all rounds</button>
        </p>
    );
}

function NoRun({ name }) {
    return (
        <main id="main">
            <Panel title="No such run" data-name="norun">
                <p>
                    There is no run “{name}” here. It may have been renamed or removed, or the server shows another
                    directory. <a href="#/">All runs here</a>
                </p>
            </Panel>
        </main>
    );
}

function RunPage({ name, view }) {
    const answer = useAnswer(address("run", name));
    const run = answer.data?.name ? answer.data : null;
    const there = !!run && !answer.missing;
    useEffect(() => (there ? watch(name) : undefined), [name, there]); // a missing run has no stream
    const [, , View, zooms] = VIEWS.find(([key]) => key === view) ?? VIEWS[0];
    const state = now.value?.state ?? run?.state;
    useEffect(() => void (document.title = `${name} · Esper`), [name]);
    if (answer.missing) return <NoRun name={name} />;
    return (
        <>
            <div class="runhead">
                <h1>{name}</h1>
                {state && (
                    <span data-name="state">
                        <Badge state={state} />
                    </span>
                )}
                {run && (
                    <span class="muted">
                        {run.task}, {run.policy}, seed {run.seed}
                        {run.evaluate ? ", evaluation" : ""}
                    </span>
                )}
                {run && <Progress run={run} />}
                <span class={`connection ${connection.value}`} data-name="connection" role="status">
                    {CONNECTIONS[connection.value]}
                </span>
            </div>
            <nav aria-label="views of the run">
                {VIEWS.filter(([, , , , ofText]) => !ofText || run?.words.bytes).map(([key, title]) => (
                    <a
                        key={key}
                        href={link(["run", name, key], { rounds: route.value.values.rounds })}
                        aria-current={key === view ? "page" : undefined}
                    >
                        {title}
                    </a>
                ))}
            </nav>
            {answer.error && (
                <p class="problem" role="alert">
                    {answer.error}
                </p>
            )}
            {state === "crashed" && (
                <p class="problem" role="alert">
                    The trainer died: the run is marked as running, but its process is gone. Last update{" "}
                    {time(run?.updated)}, round {shownRound(run?.round) ?? "–"}. Continue with: esper train --resume{" "}
                    {name}
                </p>
            )}
            {run && state === "running" && <AlertStrip run={run} />}
            {run?.configuration["telemetry.level"] === "off" && (
                <p class="strip">
                    telemetry.level is off: only rounds, episodes, rollbacks and checkpoints are recorded, not steps,
                    seeds and updates.
                </p>
            )}
            {zooms && <ZoomBadge />}
            <main id="main">{run && <View run={run} key={view} />}</main>
        </>
    );
}

function Page() {
    const [kind, name, view = "overview"] = route.value.parts;
    useEffect(() => {
        if (kind !== "run") document.title = "Esper";
    }, [kind]);
    return (
        <>
            <header>
                <a class="brand" href="#/">
                    Esper
                </a>
                <a href="#/" aria-current={!kind ? "page" : undefined}>
                    Runs
                </a>
                <a href="#/overlay" aria-current={kind === "overlay" ? "page" : undefined}>
                    Overlay
                </a>
                <a href="#/compare" aria-current={kind === "compare" ? "page" : undefined}>
                    Compare
                </a>
                <button class="theme" onClick={toggleTheme}>
                    {theme.value === "dark" ? "☀ light" : "☾ dark"}
                </button>
            </header>
            {kind === "run" && name ? (
                <RunPage key={name} name={name} view={view} />
            ) : (
                <main id="main">{kind === "compare" ? <Compare /> : kind === "overlay" ? <Overlay /> : <Runs />}</main>
            )}
        </>
    );
}

render(<Page />, document.body);
