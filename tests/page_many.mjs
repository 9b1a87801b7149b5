/*
 * The page with many runs, which tests/many_runs.sh made: the list, what is picked from it on one axis, what differs,
 * figures as files; and how long the list and an overlay of 50 runs take.
 * Usage: node page_many.mjs ESPER RUNS COUNT, of 60 or more
 */
import { execFile, spawn } from "node:child_process";
import { mkdtemp, readFile, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { promisify } from "node:util";
import { sleep, startBrowser, until } from "./page_browser.mjs";

const [esper, runs, total] = process.argv.slice(2);
const count = Number(total);
const execute = promisify(execFile);
const patience = Number(process.env.ESPER_PATIENCE ?? 1);
const name = (i) => "m" + String(i).padStart(3, "0");
const all = Array.from({ length: count }, (_, i) => i);
const clip = (i) => ((Math.floor(i / 5) % 10) % 3) + 1; // as many_runs.sh sets ppo.clip, in tenths
let failures = 0;

async function attempt(what, test) {
    const problem = (await test().catch((error) => error.message)).slice(0, 1000);
    if (problem) failures++;
    console.log(problem ? `FAILED ${what}: ${problem}` : `ok     ${what}`);
}

const server = spawn(esper, ["serve", runs, "--port", "0"], { stdio: ["ignore", "pipe", "inherit"] });
let said = "";
server.stdout.on("data", (data) => (said += data));
const gone = new Promise((resolve) => server.on("exit", () => resolve(null)));
const url = await Promise.race([until("the server's address", () => said.match(/http:\S+/)?.[0]), gone]);
if (!url) process.exit(1); // page.mjs has said why
await writeFile(`${runs}/${name(1)}/label.json`, '{"tags": ["odd"], "note": "<b id=evil>x</b>"}\n');
const folder = await mkdtemp(tmpdir() + "/esper-files-");
const browser = await startBrowser("chromium");

const tab = await browser.openTab();
const texts = (selector) =>
    tab.run(`[...document.querySelectorAll(${JSON.stringify(selector)})].map((e) => e.textContent)`);
const shownRuns = () => texts("table[data-name=runs] tbody tr td:first-child a");
const counted = (n) => until(`${n} runs`, async () => (await tab.text("[data-name=count]"))?.startsWith(n));
const wide = () => tab.run("document.documentElement.scrollWidth");
const same = (what, a, b) => (JSON.stringify(a) === JSON.stringify(b) ? "" : `${what}: ${JSON.stringify(a)}, not ${JSON.stringify(b)}; `);

async function show(hash, selector) {
    await tab.run(`location.hash = ${JSON.stringify(hash)}`);
    await until(`${selector} on ${hash}`, () => tab.run(`!!document.querySelector(${JSON.stringify(selector)})`));
}

// Milliseconds from a change of the address until `ready` (an expression) holds, in the page's own time.
const timed = (hash, ready) =>
    tab.run(`(async () => {
        const begun = performance.now();
        location.hash = ${JSON.stringify(hash)};
        while (!(${ready}) && performance.now() < begun + 20000) await new Promise(requestAnimationFrame);
        return performance.now() - begun;
    })()`);

// Where a button of a figure is, once it stays there and nothing lies over it: a page moves while its numbers arrive.
const placeOf = (selector, kind) =>
    tab.run(`(async () => {
        for (let last = null, begun = performance.now(); performance.now() < begun + 10000; ) {
            const b = [...document.querySelectorAll(${JSON.stringify(selector + " .save button")})].find((e) => e.textContent === "${kind}");
            b?.scrollIntoView({ block: "center", behavior: "instant" });
            const box = b?.getBoundingClientRect();
            const place = box && { x: box.x + box.width / 2, y: box.y + box.height / 2 };
            if (last && place?.x === last.x && place.y === last.y && document.elementFromPoint(place.x, place.y) === b) return place;
            last = place;
            await new Promise((resolve) => setTimeout(resolve, 100));
        }
        return null;
    })()`);

// What a button of a figure saves. It is pressed with the mouse: of ten downloads without a person's doing the browser
// may drop the last.
async function saved(selector, kind) {
    for (const old of await readdir(folder)) await rm(`${folder}/${old}`);
    const button = await placeOf(selector, kind);
    if (!button) throw new Error(`${selector} has no ${kind} that stays in its place`);
    await tab.press(button.x, button.y);
    const file = await until(`${kind} of ${selector}`, async () =>
        (await readdir(folder)).find((f) => f.endsWith("." + kind.toLowerCase())),
    );
    return readFile(`${folder}/${file}`);
}

async function checkFigure(selector, least) {
    const svg = (await saved(selector, "SVG")).toString();
    const parsed = await tab.run(
        `(() => { const d = new DOMParser().parseFromString(${JSON.stringify(svg)}, "image/svg+xml"); return d.querySelector("parsererror") ? -1 : d.querySelectorAll("path, rect, circle, line").length; })()`,
    );
    const png = await saved(selector, "PNG");
    const rows = (await saved(selector, "CSV")).toString().split("\r\n").length - 2;
    return (
        (parsed >= least ? "" : `${selector}: a drawing of ${parsed} shapes; `) +
        (png.subarray(1, 4).toString() === "PNG" && png.length > 2000 ? "" : `${selector}: ${png.length} bytes are no picture; `) +
        (rows > 0 ? "" : `${selector}: no numbers; `)
    );
}

async function checkList() {
    await attempt("the list: every run, fifty at a time", async () => {
        await counted(count);
        await until("all records", async () => !(await texts("table[data-name=runs] td")).includes("reading …"), 30000);
        const rows = await shownRuns();
        await tab.run("document.querySelector('[aria-label=\"next page\"]').click()");
        await until("the next page", async () => (await shownRuns())[0] !== rows[0]);
        return same("rows", rows.length, Math.min(count, 50)) + same("address", await tab.run("location.hash"), "#/?page=2");
    });
    await attempt("sorted by a press on a title, both ways and back", async () => {
        await show("#/", "table[data-name=runs] tbody tr");
        const press = () => tab.run("[...document.querySelectorAll('button.head')].find((b) => b.textContent.startsWith('run')).click()");
        const first = [];
        for (let i = 0; i < 3; i++) {
            await press();
            await sleep(50);
            first.push((await shownRuns())[0]);
        }
        return same("first runs", first.slice(0, 2), [name(0), name(count - 1)]) + same("address", await tab.run("location.hash"), "#/");
    });
    await attempt("searched by words, numbers, settings and tags", async () => {
        const cases = [
            ["m00", Math.min(count, 10)],
            ["name=m007", 1],
            ["val>100", 0],
            ["val>=0 seed=2", all.filter((i) => i % 5 === 1).length],
            ["ppo.clip=0.2", all.filter((i) => clip(i) === 2).length],
            ["tag=kept", all.filter((i) => i % 7 === 0).length],
        ];
        for (const [text, wanted] of cases) {
            await tab.run(
                `(() => { const i = document.querySelector(".search"); i.value = ${JSON.stringify(text)}; i.dispatchEvent(new Event("input")); })()`,
            );
            await until(`${wanted} runs for ${text}`, async () =>
                wanted === count ? true : (await tab.text("[data-name=count]")) === `${wanted} of ${count} runs`,
            );
        }
        return "";
    });
    await attempt("a tag is a filter, a note no markup", async () => {
        await show("#/?sort=name", "button.tag");
        await tab.run("[...document.querySelectorAll('button.tag')].find((b) => b.textContent === 'odd').click()");
        await counted(1);
        return same("runs", await shownRuns(), [name(1)]) + ((await tab.run("!!document.querySelector('#evil')")) ? "markup; " : "");
    });
    await attempt("picked runs are in the address", async () => {
        await show("#/?sort=name", "table[data-name=runs] tbody tr");
        await tab.run("[...document.querySelectorAll('table[data-name=runs] input')].slice(0, 3).forEach((i) => i.click())");
        await until("three", async () => (await tab.text("[data-name=picked] a")) === "overlay 3 runs");
        await tab.call("Page.reload");
        await until("three again", async () => (await tab.text("[data-name=picked] a")) === "overlay 3 runs");
        await tab.run("document.querySelector('[data-name=picked] a').click()");
        await until("their lines", async () => (await texts("[data-name=overlay] .u-series th")).length === 4);
        return same("address", (await tab.run("location.hash")).match(/pick=([^&]*)/)?.[1], [0, 1, 2].map(name).join("%2C"));
    });
}

async function checkOverlay() {
    const fifty = all.slice(0, 50).map(name).join();
    await attempt("an overlay: its numbers are those of the record", async () => {
        await show(`#/overlay?pick=${name(0)},${name(3)}&metric=ppo.kl&x=time&smooth=0.5`, "[data-name=overlay] canvas");
        await until("two lines", async () => (await texts("[data-name=overlay] .u-series th")).length === 3);
        const text = (await saved("[data-name=overlay]", "CSV")).toString().trim().split("\r\n").map((line) => line.split(","));
        let problem = same("columns", text[0], ["run", "round", "env_steps", "seconds", "value", "smoothed"]);
        const { stdout } = await execute(esper, [
            ...["sql", name(3), "--json", "--runs", runs],
            "select round + 1 r, kl, sum(env_steps) over (order by round) s from ppo join round using (round)",
        ]);
        const rows = text.filter((row) => row[0] === name(3));
        const record = JSON.parse(stdout);
        problem += same("rows", rows.length, record.length);
        let [sum, norm] = [0, 0];
        record.forEach(({ r, kl, s }, i) => {
            [sum, norm] = [(sum + kl) / 2, (norm + 1) / 2]; // half of what it was, half of the new
            const near = (a, b) => Math.abs(Number(a) - b) <= 1e-5 * Math.abs(b) + 1e-12;
            if (Number(rows[i]?.[1]) !== r || Number(rows[i][2]) !== s || !near(rows[i][4], kl) || !near(rows[i][5], sum / norm))
                problem += `${rows[i]} is not ${[r, s, kl, sum / norm]}; `;
        });
        return problem;
    });
    await attempt("bands over seeds, a logarithmic axis: all in the link", async () => {
        await show(`#/overlay?pick=${fifty}&band=range&log=y&metric=round.seconds&x=steps&smooth=0.4`, "[data-name=overlay] .u-series");
        await tab.call("Page.reload");
        const settings = new Set(all.slice(0, 50).map((i) => Math.floor(i / 5) % 10)).size;
        const seeds = Math.min(count, 50) / settings;
        await until("a line per setting", async () =>
            settings > 8
                ? (await tab.text("[data-name=near]"))?.startsWith(`${settings} lines`)
                : (await texts("[data-name=overlay] .u-series:not(.band) th")).length === settings + 1,
        );
        const knobs = await tab.run(
            `[...document.querySelectorAll("main .tools select, main input[type=range], input[name=log]")].map((e) => e.type === "checkbox" ? e.checked : e.value)`,
        );
        const svg = (await saved("[data-name=overlay]", "SVG")).toString();
        return (
            same("knobs", knobs.slice(-5), ["round.seconds", "steps", "range", "0.4", true]) +
            (svg.includes(`(${seeds} runs)`) ? "" : `no group of ${seeds} in the legend; `)
        );
    });
    await attempt("what differs: these settings and no others, and parallel coordinates", async () => {
        await show(`#/overlay?pick=${fifty}`, "table[data-name=differs] tbody tr");
        const heads = await texts("table[data-name=differs] th");
        const lines = await tab.run("document.querySelectorAll('.parallel path').length");
        let problem = same("columns", heads, ["run", "state", "seed", "ppo.lr", "ppo.clip", "val accuracy mean"]) + same("lines", lines, Math.min(count, 50));
        await show(`#/overlay?pick=${name(0)},${name(5)}`, "[data-name=differs]");
        await until("two columns", async () => (await texts("table[data-name=differs] th")).length === 3);
        const keys = await texts("table[data-name=differs] td:first-child");
        return problem + same("keys", keys, ["ppo.lr", "ppo.clip", "val accuracy mean"]);
    });
    await attempt("figures as files", async () => {
        await show(`#/overlay?pick=${fifty}`, ".parallel path");
        await until("fifty lines", async () => (await tab.text("[data-name=near]"))?.startsWith("50 lines"));
        let problem = (await checkFigure("[data-name=overlay]", 50)) + (await checkFigure("[data-name=parallel]", 50));
        await show(`#/run/${name(0)}/heads`, ".heat canvas");
        problem += await checkFigure(".heat", 30);
        await show(`#/run/${name(0)}/overview`, ".chart.areas canvas, .chart canvas");
        problem += await checkFigure(".chart", 3);
        await show(`#/run/${name(0)}/seeds`, ".lanes .lane");
        problem += (await saved("[data-name=swimlane]", "SVG")).length > 1000 ? "" : "no lanes; ";
        await show(`#/run/${name(0)}/outcomes`, ".drawing .dot, .drawing .diamond");
        return problem + (await checkFigure(".panel:has(.dot, .diamond)", 3));
    });
    await attempt("on a phone nothing is cut off", async () => {
        await tab.resize([390, 844]);
        let problem = "";
        for (const [hash, selector] of [
            ["#/", "table[data-name=runs] tbody tr"],
            [`#/overlay?pick=${fifty}&band=range`, ".parallel path"],
        ]) {
            await show(hash, selector);
            await sleep(300);
            if ((await wide()) > 390) problem += `${hash} is ${await wide()} px wide; `;
        }
        await tab.resize(null);
        return problem;
    });
}

async function checkTime() {
    const fifty = all.slice(0, 50).map(name).join();
    const best = async (other, hash, ready) => {
        const times = [];
        for (let i = 0; i < 5; i++) {
            await show(other, "main");
            await sleep(200);
            times.push(await timed(hash, ready));
        }
        return times.map(Math.round).sort((a, b) => a - b);
    };
    await attempt("in time", async () => {
        const list = await best("#/overlay", "#/", `document.querySelectorAll("table[data-name=runs] tbody tr").length >= ${Math.min(count, 50)}`);
        const overlay = await best("#/overlay", `#/overlay?pick=${fifty}`, "document.querySelector('[data-name=near]')?.textContent.startsWith('50 lines')");
        console.log(`       ${count} runs: list ${list.join(", ")} ms; overlay of 50 ${overlay.join(", ")} ms`);
        return (
            (list[2] > 200 * patience ? `the list takes ${list[2]} ms; ` : "") +
            (overlay[2] > 500 * patience ? `the overlay takes ${overlay[2]} ms; ` : "")
        );
    });
}

try {
    await tab.call("Browser.setDownloadBehavior", { behavior: "allow", downloadPath: folder });
    await tab.go(url);
    await checkList();
    await checkOverlay();
    await checkTime();
    await attempt("no error on the console", async () => tab.errors.slice(0, 3).join("; "));
} finally {
    await browser.close();
    server.kill("SIGKILL");
    await rm(folder, { recursive: true, force: true });
}
process.exit(failures ? 1 : 0);
