// Where we are: "#/run/NAME/seeds?round=3&env=1". The server only sees "/", so that links stay valid.
import { signal } from "@preact/signals";

function parse() {
    const [path, search = ""] = location.hash.replace(/^#\/?/, "").split("?");
    const values = {};
    for (const [key, value] of new URLSearchParams(search)) values[key] = value;
    return { parts: path.split("/").filter(Boolean).map(decodeURIComponent), values };
}

export const route = signal(parse());
addEventListener("hashchange", () => (route.value = parse()));

export function link(parts, values = {}) {
    const search = new URLSearchParams(
        Object.entries(values).filter(([, value]) => value !== null && value !== undefined),
    );
    return "#/" + parts.map(encodeURIComponent).join("/") + (search.size ? "?" + search : "");
}

const elsewhere = (values) => link(route.value.parts, { ...route.value.values, ...values });

// Other values at the same place; null removes one. No history entry: this is like turning a knob.
export function turn(values) {
    history.replaceState(null, "", elsewhere(values));
    route.value = parse();
}

// The same with a history entry: the browser's "back" undoes it.
export function step(values) {
    if (elsewhere(values) === location.hash) return;
    history.pushState(null, "", elsewhere(values));
    route.value = parse();
}

// A whole number from the address, or null.
export function chosen(key) {
    const text = route.value.values[key] ?? "";
    return /^\d{1,9}$/.test(text) ? Number(text) : null;
}
