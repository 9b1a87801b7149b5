// Answers that stay up to date while a view shows them.
import { useEffect, useRef, useState } from "preact/hooks";
import { address, query, read } from "./api.js";
import { version } from "./live.js";

const RETRY = 2000; // ms
const NOTHING = { path: null, data: null, error: null, missing: false };

// One question at a time per asker: changes during a request lead to another one after it.
async function keepAsking(asker, setState) {
    asker.busy = true;
    do {
        asker.again = false;
        const path = asker.path;
        let news;
        try {
            news = { path, data: await read(path), error: null, missing: false };
        } catch (problem) {
            news = { path, error: problem.message, missing: problem.status === 404 };
            // A wrong question stays wrong; an absent or busy server is asked again, even about a run that has ended.
            if (!(problem.status < 500)) asker.timer = setTimeout(() => asker.ask(), RETRY);
        }
        if (asker.path === path) setState((old) => ({ ...(old.path === path ? old : NOTHING), ...news }));
    } while (asker.again && asker.path);
    asker.busy = false;
}

/*
 * The answer at `path`, read again whenever `changes` changes (live.js counts the changes of the run) and only while a
 * component that shows it is mounted. The old answer stays until the new one arrives; an error does not clear it. A
 * null path: nothing to ask yet.
 */
export function useAnswer(path, changes = version.value) {
    const [state, setState] = useState(NOTHING);
    const asker = useRef({ path: null, busy: false, again: false }).current;
    asker.path = path;
    asker.ask = () => {
        clearTimeout(asker.timer);
        asker.again = true;
        if (!asker.busy && asker.path) keepAsking(asker, setState);
    };
    useEffect(() => asker.ask(), [path, changes]);
    useEffect(() => () => (asker.path = null), []);
    return path ? state : NOTHING;
}

// The rows of an answer {"columns", "rows"} as objects.
export function rows(answer) {
    if (!answer) return [];
    return answer.rows.map((row) => Object.fromEntries(row.map((value, i) => [answer.columns[i], value])));
}

// A named question about a run (src/view/questions.h).
export function useRows(run, question, values = {}) {
    const answer = useAnswer(run && address("run", run.name, "ask", question) + query(values));
    return { ...answer, rows: rows(answer.data), truncated: answer.data?.truncated };
}
