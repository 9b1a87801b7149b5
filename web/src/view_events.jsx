// What happened, newest first, with a filter; rollbacks in full.
import { useState } from "preact/hooks";
import { useRows } from "./ask.js";
import { MISSING, count, figures, known, roundsBefore, shownRound, slotName, words } from "./format.js";
import { Lack, Panel, Table } from "./parts.jsx";

const SIGN = {
    germinated: "+",
    stage: "→",
    gate: "⊢",
    fossilized: "◆",
    pruned: "✗",
    rollback: "↩",
    alert: "!",
    checkpoint: "■",
    drops: "?",
};

// A checkpoint says how many rounds were done: without a step of the next one, it belongs to the last of them.
const roundOf = (round, row) => (row.kind === "checkpoint" && row.step === 0 ? roundsBefore : shownRound)(round);

export function Events({ run }) {
    const [kind, setKind] = useState("");
    const [env, setEnv] = useState("");
    const [text, setText] = useState("");
    const answer = useRows(run, "events", { limit: 2000 });
    const rollbacks = useRows(run, "rollbacks", { limit: 100 });
    const kinds = [...new Set(answer.rows.map((row) => row.kind))].sort();
    const rows = answer.rows.filter(
        (row) =>
            (!kind || row.kind === kind) &&
            (env === "" || row.env === Number(env)) &&
            (!text || (row.text ?? "").includes(text)),
    );
    return (
        <>
            <Panel
                title="Events"
                note={`${count(rows.length)} of the newest ${count(answer.rows.length)}; the newest 300 are shown`}
                wide
            >
                <p class="tools">
                    <label>
                        kind{" "}
                        <select value={kind} onChange={(e) => setKind(e.target.value)}>
                            <option value="">all</option>
                            {kinds.map((k) => (
                                <option key={k}>{k}</option>
                            ))}
                        </select>
                    </label>
                    <label>
                        env <input type="number" min="0" value={env} onInput={(e) => setEnv(e.target.value)} />
                    </label>
                    <label>
                        text <input type="search" value={text} onInput={(e) => setText(e.target.value)} />
                    </label>
                </p>
                {answer.rows.length ? (
                    <Table
                        name="events"
                        caption="events"
                        rows={rows.slice(0, 300)}
                        columns={[
                            { key: "round", show: roundOf },
                            { key: "step" },
                            { key: "env" },
                            { key: "slot", text: true, show: (slot) => slotName(run, slot) },
                            { key: "kind", text: true, show: (k) => `${SIGN[k] ?? "·"} ${k}` },
                            { key: "text", title: "what", text: true },
                        ]}
                    />
                ) : (
                    <Lack answer={answer} none="Nothing has happened yet." />
                )}
            </Panel>
            <Panel title="Rollbacks by the governor" note="newest first" wide>
                {rollbacks.rows.length ? (
                    <Table
                        caption="rollbacks"
                        rows={rollbacks.rows}
                        columns={[
                            { key: "round", show: shownRound },
                            { key: "step" },
                            { key: "env" },
                            { key: "reason", text: true, show: (x) => (x ? words(x) : MISSING) },
                            { key: "val_loss", title: "validation loss, nats", show: (x) => figures(x) },
                            { key: "blamed_step", show: (x) => (known(x) ? x : MISSING) },
                            { key: "penalty", title: "reward now", show: (x) => figures(x) },
                            { key: "replaced", title: "reward before", show: (x) => figures(x) },
                            { key: "seeds_lost" },
                        ]}
                    />
                ) : (
                    <Lack answer={rollbacks} none="None." />
                )}
            </Panel>
        </>
    );
}
