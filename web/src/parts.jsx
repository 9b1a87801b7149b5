// The small components that all views use.
import { MISSING, SIGNS, STAGES, shownRound, stageLetter, stageName, storedRound, words } from "./format.js";
import { chosen, turn } from "./route.js";
import { Save } from "./save.jsx";

// save(): {columns, rows}, the numbers of the drawing in it; the drawing can then be saved as well. only: as in Save.
export function Panel({ title, note, children, wide, save, only, ...rest }) {
    return (
        <section class={wide ? "panel wide" : "panel"} {...rest}>
            <h2>
                {title} {note && <small>{note}</small>} {save && <Save title={title} numbers={save} only={only} />}
            </h2>
            {children}
        </section>
    );
}

export function Tile({ name, title, value, note }) {
    return (
        <div class="tile" data-name={name}>
            <div class="title">{title}</div>
            <div class="value">{value}</div>
            {note && <div class="note">{note}</div>}
        </div>
    );
}

export function Badge({ state, text }) {
    return (
        <span class={`badge state-${state}`}>
            <span aria-hidden="true">{SIGNS[state] ?? "?"}</span> {text ?? state}
        </span>
    );
}

// A line that says what is wrong, or that there is nothing yet, instead of an empty box.
export function Lack({ answer, none }) {
    if (answer.error)
        return (
            <p class="problem" role="alert">
                {answer.error}
            </p>
        );
    return <p class="none">{answer.data ? none : "reading …"}</p>;
}

/*
 * columns: [{key, title, show(value, row), text}]. Numbers are right-aligned, `text` columns left-aligned. `onPick`
 * makes the first cell of each row a button. `cards`: on narrow screens each row is a card, its cells under their
 * titles. `tall`: as long as it is. With onSort(key, text) the titles of columns that `sort` are buttons; sort: "key" up,
 * "-key" down.
 */
export function Table({ columns, rows, caption, onPick, picked, name, cards, tall, sort, onSort }) {
    const direction = (key) => (sort === key ? "ascending" : sort === "-" + key ? "descending" : undefined);
    const title = (c) => c.title ?? words(c.key);
    return (
        <div class={`scroll${cards ? " cards" : ""}${tall ? " tall" : ""}`} tabindex="0" role="region" aria-label={caption}>
            <table data-name={name}>
                <thead>
                    <tr>
                        {columns.map((c) => (
                            <th
                                key={c.key}
                                scope="col"
                                class={c.text ? "text" : ""}
                                title={c.help}
                                aria-sort={direction(c.key)}
                            >
                                {onSort && c.sort ? (
                                    <button class="head" onClick={() => onSort(c.key, c.text)}>
                                        {title(c)}
                                        {{ ascending: " ▲", descending: " ▼" }[direction(c.key)]}
                                    </button>
                                ) : (
                                    title(c)
                                )}
                            </th>
                        ))}
                    </tr>
                </thead>
                <tbody>
                    {rows.map((row, i) => (
                        <tr key={i} class={picked?.(row) ? "picked" : ""}>
                            {columns.map((c, j) => {
                                const shown = c.show ? c.show(row[c.key], row) : (row[c.key] ?? MISSING);
                                return (
                                    <td
                                        key={c.key}
                                        class={c.text ? "text" : ""}
                                        data-title={cards && title(c)}
                                    >
                                        {onPick && j === 0 ? (
                                            <button class="plain" onClick={() => onPick(row)}>
                                                {shown}
                                            </button>
                                        ) : (
                                            shown
                                        )}
                                    </td>
                                );
                            })}
                        </tr>
                    ))}
                </tbody>
            </table>
        </div>
    );
}

export function Stage({ stage }) {
    return (
        <span class={`chip stage-${stageName(stage)}`}>
            <b>{stageLetter(stage)}</b> {stage}
        </span>
    );
}

export function StageLegend() {
    return (
        <p class="legend">
            {STAGES.map(([name, letter]) => (
                <span key={name} class={`chip stage-${name}`}>
                    <b>{letter}</b> {name}
                </span>
            ))}
            <span>
                <b>·</b> empty
            </span>
        </p>
    );
}

// The round that a view shows: the newest, or the one in the address.
export function useRound(run, newest) {
    const shown = chosen("round");
    return shown === null ? newest : storedRound(shown, run);
}

export function RoundPicker({ run, newest }) {
    const shown = chosen("round") ?? shownRound(newest);
    const last = shownRound(newest);
    const to = (n) => turn({ round: n === null || n >= last ? null : Math.max(1, n) });
    if (last === null) return null;
    return (
        <span class="picker">
            <label>
                round{" "}
                <input
                    type="number"
                    min="1"
                    max={last}
                    value={shown}
                    onChange={(e) => to(Number(e.target.value) || null)}
                />
            </label>
            <button onClick={() => to(shown - 1)} disabled={shown <= 1} aria-label="previous round">
                ‹
            </button>
            <button onClick={() => to(shown + 1)} disabled={shown >= last} aria-label="next round">
                ›
            </button>
            <button onClick={() => to(null)} disabled={chosen("round") === null}>
                newest
            </button>
        </span>
    );
}

export function EnvPicker({ run }) {
    const env = Math.min(chosen("env") ?? 0, run.envs - 1);
    return (
        <span class="picker">
            <label>
                env{" "}
                <select value={env} onChange={(e) => turn({ env: e.target.value })}>
                    {Array.from({ length: run.envs }, (_, i) => (
                        <option key={i} value={i}>
                            {i}
                        </option>
                    ))}
                </select>
            </label>
            <button onClick={() => turn({ env: env - 1 })} disabled={env <= 0} aria-label="previous env">
                ‹
            </button>
            <button onClick={() => turn({ env: env + 1 })} disabled={env >= run.envs - 1} aria-label="next env">
                ›
            </button>
        </span>
    );
}

export const useEnv = (run) => Math.min(chosen("env") ?? 0, run.envs - 1);
