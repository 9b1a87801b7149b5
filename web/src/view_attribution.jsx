// What each seed adds: validation with seeds switched off, shares, and interactions.
import { useRows } from "./ask.js";
import { Intervals } from "./bars.jsx";
import { table } from "./save.jsx";
import { MISSING, count, known, number, score, shownRound, signed, slotName, stageLetter } from "./format.js";
import { EnvPicker, Lack, Panel, RoundPicker, Stage, Table, useEnv, useRound } from "./parts.jsx";

const names = (run, mask) => run.slots.filter((_, i) => mask & (1 << i)).join(" + ") || "none";

function Subsets({ run, answer }) {
    const rows = answer.rows;
    const none = rows.find((row) => row.mask === 0)?.accuracy ?? null;
    return (
        <Panel
            title="Seeds switched off"
            note={rows.length ? `step ${rows[0].step}; validation ${run.words.score} with only these seeds on` : ""}
        >
            {rows.length ? (
                <Table
                    name="subsets"
                    caption="subsets"
                    rows={rows}
                    columns={[
                        { key: "mask", title: "seeds on", text: true, show: (mask) => names(run, mask) },
                        ...(run.words.bytes // scored by its loss
                            ? []
                            : [{ key: "correct", title: "correct, images", show: (x) => count(x) }]),
                        { key: "accuracy", title: run.words.score, show: score(run) },
                        {
                            key: "gain",
                            title: "gain over none, points",
                            show: (_, row) => signed(known(none) ? row.accuracy - none : null, 2),
                        },
                    ]}
                />
            ) : (
                <Lack
                    answer={answer}
                    none="No subset was recorded: no seed was live at the end, or the round is still in progress."
                />
            )}
        </Panel>
    );
}

// v(ij) - v(i) - v(j) + v(none): what two seeds add together beyond each alone, the others switched off.
function Pairs({ run, rows, seeds }) {
    const value = new Map(rows.map((row) => [row.mask, row.accuracy]));
    const pair = (i, j) => {
        const all = [(1 << i) | (1 << j), 1 << i, 1 << j, 0].map((mask) => value.get(mask));
        return all.every(known) ? all[0] - all[1] - all[2] + all[3] : null;
    };
    const slots = seeds.map((seed) => seed.slot);
    if (slots.length < 2) return <p class="none">Interactions need two live seeds.</p>;
    return (
        <Table
            name="pairs"
            caption="interactions of pairs"
            rows={slots.map((slot) => ({ slot }))}
            columns={[
                { key: "slot", title: "points", text: true, show: (slot) => slotName(run, slot) },
                ...slots.map((other) => ({
                    key: "with" + other,
                    title: slotName(run, other),
                    show: (_, row) => (row.slot === other ? "" : signed(pair(row.slot, other), 2)),
                })),
            ]}
        />
    );
}

export function Attribution({ run }) {
    const newest = run.summary.last_round ?? run.summary.newest_round;
    const round = useRound(run, newest);
    const env = useEnv(run);
    const subsets = useRows(known(round) && run, "subsets", { round, env });
    const shares = useRows(known(round) && run, "shares", { round, env });
    const seeds = shares.rows;
    const lines = seeds.map((seed) => ({
        name: `${slotName(run, seed.slot)} ${stageLetter(seed.stage)}`,
        mean: seed.share,
        low: known(seed.share_error) ? seed.share - 1.96 * seed.share_error : null,
        high: known(seed.share_error) ? seed.share + 1.96 * seed.share_error : null,
        text: !known(seed.share)
            ? MISSING
            : signed(seed.share, 2, "points") +
              (known(seed.share_error) ? ` ± ${number(seed.share_error, 2)} (standard error)` : ", exact"),
    }));
    return (
        <>
            <p class="tools">
                <RoundPicker run={run} newest={newest} /> <EnvPicker run={run} />
            </p>
            <div class="grid2">
                <Panel
                    title="Shapley shares"
                    note={
                        seeds.length
                            ? `round ${shownRound(round)}, step ${seeds[0].step}; each seed's part of what all seeds add; whiskers: 95 % where sampled`
                            : ""
                    }
                    save={seeds.length ? table(["name", "mean", "low", "high"], lines) : undefined}
                >
                    {seeds.length ? (
                        <Intervals lines={lines} zero />
                    ) : (
                        <Lack answer={shares} none="No live seed at the last recorded step." />
                    )}
                    {seeds.length > 0 && (
                        <Table
                            name="shares"
                            caption="shares"
                            rows={seeds}
                            columns={[
                                { key: "slot", text: true, show: (slot) => slotName(run, slot) },
                                { key: "blueprint", text: true },
                                { key: "stage", text: true, show: (stage) => <Stage stage={stage} /> },
                                { key: "share", title: "share, points", show: (x) => signed(x, 2) },
                                { key: "share_error", title: "error, points", show: (x) => number(x, 2) },
                                { key: "contribution", title: "lost without it, points", show: (x) => signed(x, 2) },
                                { key: "interaction", title: "with the others, points", show: (x) => signed(x, 2) },
                                { key: "params", title: "parameters", show: (x) => count(x) },
                            ]}
                        />
                    )}
                </Panel>
                <Subsets run={run} answer={subsets} />
                <Panel
                    title="Interactions of pairs"
                    note="beyond what each adds alone, others off; above 0: they help each other"
                >
                    <Pairs run={run} rows={subsets.rows} seeds={seeds} />
                </Panel>
            </div>
        </>
    );
}
