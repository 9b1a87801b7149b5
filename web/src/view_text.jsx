// What the best network of a run on text wrote, each time there was a better one.
import { useRows } from "./ask.js";
import { known, number, scored, shownRound } from "./format.js";
import { Lack, Panel } from "./parts.jsx";

export function Text({ run }) {
    const answer = useRows(run, "samples", { limit: 200 });
    return (
        <Panel
            title="Text by the best network"
            note="newest first; a text whenever a round ended with a better network than all before it"
            wide
        >
            {answer.rows.length ? (
                <ol class="samples" data-name="samples">
                    {answer.rows.map((row) => (
                        <li key={row.round}>
                            <p>
                                <b>round {shownRound(row.round)}</b>, env {known(row.env) ? number(row.env, 0) : "–"}:{" "}
                                <span data-name="score">{scored(run, row.score)}</span>
                            </p>
                            <pre>{row.text ?? ""}</pre>
                        </li>
                    ))}
                </ol>
            ) : (
                <Lack
                    answer={answer}
                    none={
                        run.words.bytes
                            ? "No text yet: the first comes with the first finished round, unless telemetry.level is off."
                            : "The networks of this run look at images; they write no text."
                    }
                />
            )}
        </Panel>
    );
}
