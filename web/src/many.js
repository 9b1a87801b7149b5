// Many runs: which there are, which are wanted, which are picked. All of it is in the address.
import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { useAnswer } from "./ask.js";
import { known } from "./format.js";
import { route, turn } from "./route.js";

export const MOST = 200; // runs overlaid at once

// There is no stream for the whole directory: it is read again every two seconds while the page is visible, and at once
// while the server has not read all records.
const beat = signal(0);
export function useRuns() {
    const answer = useAnswer("/api/runs", beat.value);
    const unread = answer.data?.unread;
    useEffect(() => {
        const timer = setInterval(() => !document.hidden && beat.value++, 2000);
        return () => clearInterval(timer);
    }, []);
    useEffect(() => {
        const timer = unread && !document.hidden ? setTimeout(() => beat.value++, 20) : 0;
        return () => clearTimeout(timer);
    }, [answer.data]);
    return answer;
}

// What the configurations differ in: {keys: [{name, help, values: Map of run to text}], of(run, key)}; null: not asked.
export function useSettings(wanted, runs) {
    const news = runs.reduce((sum, run) => sum + (run.unread ? 0 : 1), 0); // a run's configuration never changes
    const { data } = useAnswer(wanted ? "/api/settings" : null, news);
    if (!data) return null;
    const keys = data.keys.map(({ name, help, values }) => ({
        name,
        help,
        values: new Map(data.runs.map((run, i) => [run, values[i]])),
    }));
    const found = new Map(keys.map((key) => [key.name, key]));
    const there = new Set(data.runs);
    return { keys, has: (run) => there.has(run.name), of: (run, key) => found.get(key)?.values.get(run.name) };
}

/* ---- search -------------------------------------------------------------------------------------------------------- */

// What a word of the search may name: columns of the list by short names; other names are keys of the configuration.
const FIELDS = {
    name: (run) => run.name,
    state: (run) => run.state,
    task: (run) => run.task,
    policy: (run) => run.policy,
    seed: (run) => run.seed,
    note: (run) => run.note,
    envs: (run) => run.envs,
    rounds: (run) => run.rounds_done,
    val: (run) => run.val_accuracy,
    test: (run) => run.test_accuracy,
    reward: (run) => run.reward,
};

// "val>40" {key, sign, value}; anything else {word}. Words are looked for in name, task, policy, tags and note.
export function parseSearch(text) {
    return (text ?? "")
        .split(/\s+/)
        .filter(Boolean)
        .map((word) => {
            const [, key, sign, value] = word.match(/^([a-z][\w.]*)(<=|>=|=|<|>)(.+)$/i) ?? [];
            return key ? { key, sign, value } : { word: word.toLowerCase() };
        });
}

export const asksSettings = (terms) => terms.some(({ key }) => key && key !== "tag" && !FIELDS[key]);

function holds({ key, sign, value }, run, settings) {
    if (key === "tag") return run.tags?.includes(value);
    const own = FIELDS[key] ? FIELDS[key](run) : settings?.of(run, key);
    if (!known(own)) return false;
    const [a, b] = [Number(own), Number(value)];
    const numbers = own !== "" && !Number.isNaN(a) && !Number.isNaN(b);
    if (sign === "=") return numbers ? a === b : String(own) === value;
    if (!numbers) return false;
    return { "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b }[sign];
}

function fits(run, terms, settings) {
    const text = [run.name, run.task, run.policy, run.note, ...(run.tags ?? [])].join(" ").toLowerCase();
    return terms.every((term) => (term.key ? holds(term, run, settings) : text.includes(term.word)));
}

// Missing values come last, whichever way it is sorted.
function sorted(runs, by) {
    const down = by?.startsWith("-");
    const key = by?.replace(/^-/, "");
    if (!key) return runs;
    const value = (run) => (key === "seed" && run.seed !== undefined ? Number(run.seed) : run[key]);
    const compare = (a, b) => (typeof a === "string" ? a.localeCompare(b, "en", { numeric: true }) : a - b);
    return [...runs].sort((x, y) => {
        const [a, b] = [value(x), value(y)];
        if (!known(a) || !known(b)) return known(b) - known(a);
        return down ? compare(b, a) : compare(a, b);
    });
}

// The runs that the address asks for, in its order.
export function wanted(runs, settings) {
    const { q, state, task, tag, sort } = route.value.values;
    const terms = parseSearch(q);
    return sorted(
        runs.filter(
            (run) =>
                (!state || run.state === state) &&
                (!task || run.task === task) &&
                (!tag || run.tags?.includes(tag)) &&
                fits(run, terms, settings),
        ),
        sort,
    );
}

/* ---- picked runs --------------------------------------------------------------------------------------------------- */

// "pick=*": all that are wanted; "pick=a,b": these, whatever the search says.
export const picksAll = () => route.value.values.pick === "*";
export const picks = () => (picksAll() ? [] : (route.value.values.pick ?? "").split(",").filter(Boolean));

export function picked(runs, shown) {
    if (picksAll()) return shown;
    const names = new Set(picks());
    return runs.filter((run) => names.has(run.name));
}

export function pick(names) {
    turn({ pick: names.length ? names.join() : null });
}

// The values of the address that other views of the same runs keep.
export const kept = () => route.value.values;

/* Runs that differ in nothing but the seed: [{runs, keys, values: [text]}], by the settings that differ among them. */
export function groupsOf(runs, settings) {
    const keys = differing(runs, settings).filter((key) => key.name !== "seed");
    const groups = new Map();
    for (const run of runs) {
        const values = settings?.has(run) ? keys.map((key) => key.values.get(run.name)) : [run.name]; // not read yet
        const name = values.join("\n");
        if (!groups.has(name)) groups.set(name, { runs: [], keys, values });
        groups.get(name).runs.push(run);
    }
    return [...groups.values()];
}

// The keys that differ among these runs, as far as they were read.
export function differing(runs, settings) {
    const there = runs.filter((run) => settings?.has(run));
    return (settings?.keys ?? []).filter((key) => new Set(there.map((run) => key.values.get(run.name))).size > 1);
}
