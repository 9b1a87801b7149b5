// All runs, newest first.
import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { useAnswer } from "./ask.js";
import { count, figures, score, scored, time } from "./format.js";
import { Badge, Lack, Panel, Table } from "./parts.jsx";
import { link } from "./route.js";

// There is no stream for the whole directory: it is read again every two seconds while the page is visible.
const beat = signal(0);
export function useRuns() {
    useEffect(() => {
        const timer = setInterval(() => !document.hidden && beat.value++, 2000);
        return () => clearInterval(timer);
    }, []);
    return useAnswer("/api/runs", beat.value);
}

const COLUMNS = [
    { key: "name", title: "run", text: true, show: (name) => <a href={link(["run", name])}>{name}</a> },
    {
        key: "state",
        text: true,
        show: (state, run) => (run.error ? <span class="problem">{run.error}</span> : <Badge state={state} />),
    },
    { key: "task", text: true },
    { key: "policy", text: true, show: (policy, run) => policy && policy + (run.evaluate ? ", evaluation" : "") },
    { key: "seed" },
    { key: "rounds_done", title: "rounds", show: (done, run) => `${count(done)} of ${count(run.rounds)}` },
    { key: "envs", show: (n) => count(n) },
    { key: "val_accuracy", title: "validation", show: (x, run) => scored(run, x) },
    { key: "val_accuracy_best", title: "best env", show: (x, run) => score(run)(x) },
    { key: "test_accuracy", title: "test", show: (x, run) => scored(run, x) },
    { key: "reward", title: "reward per episode", show: (x) => figures(x) },
    { key: "updated", text: true, show: time },
];

export function Runs() {
    const answer = useRuns();
    const runs = answer.data?.runs ?? [];
    return (
        <Panel title="Runs" note="newest first; accuracy, or of text the score, at the end of the newest round: means of the envs" wide>
            {runs.length ? (
                <Table name="runs" columns={COLUMNS} rows={runs} caption="runs" cards />
            ) : (
                <Lack answer={answer} none="No runs here yet. Start one: esper train" />
            )}
            {answer.data?.truncated && <p class="none">Older runs are not listed.</p>}
            {runs.length > 0 && answer.error && (
                <p class="problem" role="alert">
                    {answer.error}
                </p>
            )}
        </Panel>
    );
}
