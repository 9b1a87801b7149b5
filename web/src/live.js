/*
 * The stream of one run: what it is doing now, and a number that grows when the views should read again.
 *
 * A finished round is read at once; steps at most once a second, so that watching stays cheap. A hidden page has no
 * stream: browsers allow six connections per server. The stream ends with the run; it is reopened from time to time,
 * because a run can be resumed.
 */
import { signal } from "@preact/signals";
import { address } from "./api.js";

export const version = signal(0);
export const now = signal(null); // {state, round, step, rounds_done} of the watched run
export const connection = signal("off"); // off, connecting, live, lost, ended

const GAP = 1000; // ms between reads triggered by steps
const AGAIN = 10000; // ms until we check whether an ended run was resumed
const RETRY = 1000; // ms after the server refused the stream

let watched = null;
let source = null;
let waiting = 0; // timer of a delayed read
let reopening = 0;
let last = -GAP; // time of the last read

function change(soon) {
    const wait = soon ? 0 : last + GAP - performance.now();
    if (wait > 0) {
        waiting ||= setTimeout(() => change(true), wait);
        return;
    }
    clearTimeout(waiting);
    waiting = 0;
    last = performance.now();
    version.value++;
}

function take(event, all) {
    const news = JSON.parse(event.data);
    const old = now.value;
    now.value = news;
    const changed = (key) => old?.[key] !== news[key];
    if (all || changed("state") || changed("rounds_done")) change(true);
    else if (changed("round") || changed("step") || news.alerts?.length) change(false);
}

function open() {
    source = new EventSource(address("run", watched, "stream"));
    source.addEventListener("hello", (event) => {
        const back = connection.value === "lost"; // it may be another server: read everything
        take(event, back);
        connection.value = now.value.state === "running" ? "live" : "ended";
    });
    source.addEventListener("tick", (event) => take(event, false));
    source.addEventListener("end", (event) => {
        take(event, false);
        source.close();
        connection.value = "ended";
        reopening = setTimeout(open, AGAIN);
    });
    source.onerror = () => {
        connection.value = "lost";
        // The browser reconnects by itself unless the server answered with an error.
        if (source.readyState === EventSource.CLOSED) reopening = setTimeout(open, RETRY);
    };
}

function close() {
    source.close();
    clearTimeout(reopening);
    clearTimeout(waiting);
    waiting = 0;
}

export function watch(name) {
    watched = name;
    connection.value = "connecting";
    if (!document.hidden) open();
    return () => {
        if (source) close();
        watched = source = null;
        now.value = null;
        connection.value = "off";
    };
}

document.addEventListener("visibilitychange", () => {
    if (!watched) return;
    if (source) close();
    if (!document.hidden) open();
});
