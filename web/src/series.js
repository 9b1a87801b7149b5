// Numbers over rounds: one request for all lines of a view, thinned by the server so that no peak is lost.
import { computed } from "@preact/signals";
import { useMemo } from "preact/hooks";
import { address, query } from "./api.js";
import { useAnswer, useRows } from "./ask.js";
import { shownRound, storedRound } from "./format.js";
import { route, step } from "./route.js";

// [from, to] as shown, or null: all rounds. It is in the address as "rounds=3-12", so that a link shows the same.
export const zoom = computed(() => {
    const [, from, to] = (route.value.values.rounds ?? "").match(/^(\d{1,9})-(\d{1,9})$/)?.map(Number) ?? [];
    return from >= 1 && from < to ? [from, to] : null;
});

export function zoomTo(ends) {
    step({ rounds: ends && `${Math.max(Math.floor(ends[0]), 1)}-${Math.max(Math.ceil(ends[1]), 2)}` });
}

/* {x, line(name, title)}: x in rounds as shown; a line has a band where a point represents more than one round. */
export function useSeries(run, names) {
    const values = { names: names.join(), points: 400 };
    if (zoom.value) [values.from, values.to] = zoom.value.map((shown) => storedRound(shown, run));
    const answer = useAnswer(address("run", run.name, "series") + query(values).replaceAll("%2C", ","));
    return useMemo(() => {
        const found = new Map((answer.data?.series ?? []).map((s) => [s.name, s]));
        return {
            ...answer,
            x: (answer.data?.x ?? []).map(shownRound),
            line(name, title) {
                const s = found.get(name);
                return { name: title ?? name, values: s?.last ?? [], low: s?.min, high: s?.max, help: s?.help };
            },
        };
    }, [answer.data, answer.error]);
}

// Rounds, as shown, in which an alert was raised: marked in the charts.
export function useAlertMarks(run) {
    const { data, rows } = useRows(run, "alerts", { limit: 500 });
    return useMemo(
        () => [...new Set(rows.filter((a) => a.state === "raised").map((a) => shownRound(a.round)))],
        [data],
    );
}
