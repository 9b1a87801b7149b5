// Dark or light: follows the system until the user chooses. Canvases cannot use CSS variables, so they ask here.
import { computed, effect, signal } from "@preact/signals";

const system = matchMedia("(prefers-color-scheme: light)");
const systemLight = signal(system.matches);
system.addEventListener("change", () => (systemLight.value = system.matches));

let stored = null;
try {
    stored = localStorage.getItem("theme"); // may be forbidden
} catch {}
const choice = signal(["dark", "light"].includes(stored) ? stored : null);

export const theme = computed(() => choice.value ?? (systemLight.value ? "light" : "dark"));
const colours = new Map();
effect(() => {
    document.documentElement.dataset.theme = theme.value;
    colours.clear();
});

export function toggleTheme() {
    choice.value = theme.value === "dark" ? "light" : "dark";
    try {
        localStorage.setItem("theme", choice.value);
    } catch {}
}

export function colour(name) {
    if (!colours.has(name))
        colours.set(
            name,
            getComputedStyle(document.documentElement)
                .getPropertyValue("--" + name)
                .trim(),
        );
    return colours.get(name);
}

// Dark blue to yellow in even steps of brightness (after "cividis"): reads the same with any colour vision, and in grey.
const RAMP = [
    [0, 32, 81],
    [60, 77, 110],
    [127, 124, 117],
    [187, 175, 106],
    [253, 234, 69],
];
export function ramp(share) {
    const at = Math.min(Math.max(share, 0), 1) * (RAMP.length - 1);
    const i = Math.min(Math.floor(at), RAMP.length - 2);
    const mix = RAMP[i].map((from, c) => Math.round(from + (RAMP[i + 1][c] - from) * (at - i)));
    return { back: `rgb(${mix})`, ink: share > 0.5 ? "#000" : "#fff" };
}
