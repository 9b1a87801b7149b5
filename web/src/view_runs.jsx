// All runs: sorted, searched, filtered by state, task and tag, and picked for what shows several at once.
import { count, duration, figures, score, scored, time, words } from "./format.js";
import { asksSettings, kept, parseSearch, pick, picked, picks, picksAll, useRuns, useSettings, wanted } from "./many.js";
import { Badge, Lack, Panel, Table } from "./parts.jsx";
import { chosen, link, route, turn } from "./route.js";

const PAGE = 50; // rows

function Tags({ run }) {
    return (run.tags ?? []).map((tag) => (
        <button key={tag} class="tag" title={`only runs tagged ${tag}`} onClick={() => turn({ tag, page: null })}>
            {tag}
        </button>
    ));
}

const columns = (chosenNames, all, toggle) => [
    {
        key: "name",
        title: "run",
        text: true,
        sort: true,
        show: (name, run) => (
            <>
                <input
                    type="checkbox"
                    aria-label={`pick ${name}`}
                    checked={all || chosenNames.has(name)}
                    onChange={() => toggle(name)}
                />
                <a href={link(["run", name])}>{name}</a>
                <Tags run={run} />
                {run.note && <small class="note">{run.note}</small>}
            </>
        ),
    },
    {
        key: "state",
        text: true,
        sort: true,
        show: (state, run) => (run.error ? <span class="problem">{run.error}</span> : <Badge state={state} />),
    },
    { key: "task", text: true, sort: true },
    {
        key: "policy",
        text: true,
        sort: true,
        show: (policy, run) => policy && policy + (run.evaluate ? ", evaluation" : ""),
    },
    { key: "seed", sort: true },
    {
        key: "rounds_done",
        title: "rounds",
        sort: true,
        show: (done, run) => (run.unread ? "reading …" : `${count(done)} of ${count(run.rounds)}`),
    },
    { key: "envs", sort: true, show: (n) => count(n) },
    { key: "val_accuracy", title: "validation", sort: true, show: (x, run) => scored(run, x) },
    { key: "val_accuracy_best", title: "best env", sort: true, show: (x, run) => score(run)(x) },
    { key: "test_accuracy", title: "test", sort: true, show: (x, run) => scored(run, x) },
    { key: "reward", title: "reward per episode", sort: true, show: (x) => figures(x) },
    { key: "seconds", title: "time", sort: true, show: (x) => duration(x) },
    { key: "updated", text: true, sort: true, show: time },
];

// One of the values that occur, with how often.
function Choice({ name, runs, values }) {
    const counts = new Map();
    for (const run of runs) for (const value of values(run)) counts.set(value, (counts.get(value) ?? 0) + 1);
    const now = route.value.values[name] ?? "";
    if (counts.size < 2 && !now) return null;
    return (
        <label>
            {name}{" "}
            <select value={now} onChange={(e) => turn({ [name]: e.target.value || null, page: null })}>
                <option value="">any</option>
                {[...counts.keys(), ...(now && !counts.has(now) ? [now] : [])].sort().map((value) => (
                    <option key={value} value={value}>
                        {value} ({counts.get(value) ?? 0})
                    </option>
                ))}
            </select>
        </label>
    );
}

// Where the table has no head: on a narrow screen.
function Order() {
    const now = route.value.values.sort ?? "";
    return (
        <label class="narrow">
            sort{" "}
            <select value={now} onChange={(e) => turn({ sort: e.target.value || null, page: null })}>
                <option value="">newest first</option>
                {columns(new Set(), false).map((c) =>
                    [c.text ? [c.key, "a to z"] : ["-" + c.key, "largest first"]].map(([value, how]) => (
                        <option key={value} value={value}>
                            {c.title ?? words(c.key)}, {how}
                        </option>
                    )),
                )}
            </select>
        </label>
    );
}

export function Search({ runs, order }) {
    return (
        <p class="tools" role="search">
            <input
                type="search"
                class="search"
                aria-label="search runs"
                placeholder="search: word, val>40, ppo.lr=0.001, tag=kept"
                value={route.value.values.q ?? ""}
                onInput={(e) => turn({ q: e.target.value || null, page: null })}
            />
            <Choice name="state" runs={runs} values={(run) => [run.state].filter(Boolean)} />
            <Choice name="task" runs={runs} values={(run) => [run.task].filter(Boolean)} />
            <Choice name="tag" runs={runs} values={(run) => run.tags ?? []} />
            {order && <Order />}
        </p>
    );
}

function Pages({ shown }) {
    const last = Math.max(Math.ceil(shown.length / PAGE), 1);
    const page = Math.min(Math.max(chosen("page") ?? 1, 1), last);
    const to = (n) => turn({ page: n > 1 ? n : null });
    if (last === 1) return null;
    return (
        <span class="picker">
            <button onClick={() => to(page - 1)} disabled={page <= 1} aria-label="previous page">
                ‹
            </button>
            {(page - 1) * PAGE + 1} to {Math.min(page * PAGE, shown.length)}
            <button onClick={() => to(page + 1)} disabled={page >= last} aria-label="next page">
                ›
            </button>
        </span>
    );
}

function Picking({ shown, chosenRuns }) {
    return (
        <span class="picker" data-name="picked">
            <button onClick={() => turn({ pick: "*" })} disabled={picksAll() || !shown.length}>
                pick all {count(shown.length)}
            </button>
            <button onClick={() => pick([])} disabled={!chosenRuns.length}>
                none
            </button>
            {chosenRuns.length > 0 && (
                <a class="button" href={link(["overlay"], { ...kept(), page: null })}>
                    overlay {count(chosenRuns.length)} {chosenRuns.length === 1 ? "run" : "runs"}
                </a>
            )}
        </span>
    );
}

export function Runs() {
    const answer = useRuns();
    const runs = answer.data?.runs ?? [];
    const settings = useSettings(asksSettings(parseSearch(route.value.values.q)), runs);
    const shown = wanted(runs, settings);
    const chosenRuns = picked(runs, shown);
    const names = new Set(chosenRuns.map((run) => run.name));
    const sort = route.value.values.sort;
    const from = (Math.min(chosen("page") ?? 1, Math.max(Math.ceil(shown.length / PAGE), 1)) - 1) * PAGE;
    // Taking one out of "all" names the others.
    const toggle = (name) =>
        pick(names.has(name) ? [...names].filter((n) => n !== name) : [...(picksAll() ? names : picks()), name]);
    // Numbers start with the largest, texts with a; a third press restores the order of time.
    const sortBy = (key, text) => {
        const [first, second] = text ? [key, "-" + key] : ["-" + key, key];
        turn({ sort: sort === first ? second : sort === second ? null : first, page: null });
    };
    return (
        <Panel
            title="Runs"
            note={`${sort ? "" : "newest first; "}accuracy, or of text the score, at the end of the newest round: means of the envs`}
            wide
        >
            {runs.length > 0 && <Search runs={runs} order />}
            {runs.length > 0 && (
                <p class="tools">
                    <span data-name="count">
                        {shown.length === runs.length ? count(runs.length) : `${count(shown.length)} of ${count(runs.length)}`}{" "}
                        runs
                    </span>
                    <Pages shown={shown} />
                    <Picking shown={shown} chosenRuns={chosenRuns} />
                </p>
            )}
            {runs.length ? (
                <Table
                    name="runs"
                    columns={columns(names, picksAll(), toggle)}
                    rows={shown.slice(from, from + PAGE)}
                    caption="runs"
                    cards
                    tall
                    sort={sort}
                    onSort={sortBy}
                />
            ) : (
                <Lack answer={answer} none="No runs here yet. Start one: esper train" />
            )}
            {runs.length > 0 && !shown.length && <p class="none">No run fits.</p>}
            {answer.data?.truncated && <p class="none">Older runs are not listed.</p>}
            {runs.length > 0 && answer.error && (
                <p class="problem" role="alert">
                    {answer.error}
                </p>
            )}
        </Panel>
    );
}
