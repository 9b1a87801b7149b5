/*
 * The page, as people see it, against the record: a scripted run that is over, and one that trains while it is watched,
 * whose server is restarted and whose trainer is killed. Numbers are read off the page and compared with SQL.
 * Usage: node page.mjs ESPER RUNS [FOLDER FOR PICTURES]
 */
import { execFile, spawn } from "node:child_process";
import { mkdir, writeFile } from "node:fs/promises";
import { promisify } from "node:util";
import { sleep, startBrowser, until } from "./page_browser.mjs";

const [esper, runs, pictures] = process.argv.slice(2);
const execute = promisify(execFile);
const children = new Set();
let failures = 0;

function check(name, problem) {
    if (problem) failures++;
    console.log(problem ? `FAILED ${name}: ${problem}` : `ok     ${name}`);
}

async function attempt(name, test) {
    try {
        check(name, await test());
    } catch (problem) {
        check(name, problem.message);
    }
}

function start(...options) {
    const child = spawn(esper, options, { stdio: ["ignore", "pipe", "pipe"] });
    child.said = "";
    child.stdout.on("data", (data) => (child.said += data));
    child.stderr.on("data", (data) => (child.said += data));
    child.over = new Promise((resolve) => child.on("exit", resolve));
    children.add(child);
    return child;
}

async function sql(run, question) {
    const { stdout } = await execute(esper, ["sql", run, question, "--json", "--runs", runs], { maxBuffer: 1 << 26 });
    return JSON.parse(stdout);
}

async function serve(port) {
    const child = start("serve", runs, "--port", String(port));
    const url = await Promise.race([
        until("the server's address", () => child.said.match(/http:\S+/)?.[0]),
        child.over.then(() => null),
    ]);
    if (url) return { child, url };
    console.log(child.said.trim());
    process.exit(child.said.includes("libmicrohttpd") ? 77 : 1);
}

// "−1 234.50 %" as a number, and half a unit of its last place: what rounding may hide.
function parse(text) {
    const clean = (text ?? "").replaceAll("\u202f", "").replaceAll("\u2212", "-").trim();
    const match = clean.match(/^[+]?(-?\d+(?:\.(\d+))?(?:e[+-]?\d+)?)/);
    if (!match) return { value: null, half: 0, unit: clean };
    const places = match[2]?.length ?? 0;
    return {
        value: Number(match[1]),
        half: clean.includes("e") ? Math.abs(Number(match[1])) * 0.006 : 0.5001 * 10 ** -places,
        unit: clean.slice(match[0].length).trim(),
    };
}

// What is wrong with `text` when the record says `value`; "" when nothing is. Null must be shown as missing, never as 0.
function differs(what, text, value, unit) {
    const shown = parse(text);
    if (value === null) return text?.trim() === "–" ? "" : `${what}: the page says "${text}", the record has nothing; `;
    if (shown.value === null || Math.abs(shown.value - value) > shown.half)
        return `${what}: the page says "${text}", the record ${value}; `;
    return unit !== undefined && shown.unit !== unit ? `${what}: "${text}" has not the unit ${unit}; ` : "";
}

const quick = [
    "--runs",
    runs,
    "--quiet",
    "--threads",
    "1",
    "--set",
    "data.batches=2",
    "--set",
    "data.val_images=64",
    "--set",
    "data.test_images=100",
];
const cells = (tab, name) =>
    tab.run(
        `[...document.querySelectorAll('table[data-name="${name}"] tbody tr')].map((tr) => [...tr.children].map((td) => td.textContent))`,
    );
const tile = (tab, name) => tab.text(`.tile[data-name="${name}"] .value`);

async function show(tab, hash, selector) {
    await tab.run(`location.hash = ${JSON.stringify(hash)}`);
    await until(`${selector} on ${hash}`, () =>
        tab.run(`!!document.querySelector(${JSON.stringify(selector)}) && location.hash === ${JSON.stringify(hash)}`),
    );
    await sleep(150); // the rest of what was asked for
}

async function checkNarrow(tab) {
    const wide = () => tab.run("document.documentElement.scrollWidth");
    await show(tab, "#/run/over/seeds", ".lanes .span text");
    const letter = await tab.box(".lanes .lane");
    const lane = await tab.box(".lanes .span rect");
    let problem = letter.height >= 11 && lane.height >= 16 ? "" : `letters ${letter.height} px; `;
    problem += (await wide()) > 390 ? "lanes are wider; " : "";
    await show(tab, "#/run/over/overview", ".chart canvas");
    problem += (await wide()) > 390 ? "charts are wider; " : "";
    await show(tab, "#/", "table[data-name=runs] tbody tr");
    const outside = await tab.run(
        "[...document.querySelectorAll('table[data-name=runs] td')].filter((td) => td.getBoundingClientRect().right > 390 || td.scrollWidth > td.clientWidth + 1).map((td) => td.textContent)",
    );
    return problem + (outside.length ? `cut off in the list: ${outside}` : "");
}

async function checkFinished(tab) {
    await attempt("the list shows the runs, their states and accuracies", async () => {
        await until("the list", () =>
            tab.run("document.querySelectorAll('table[data-name=runs] tbody tr').length >= 2"),
        );
        const line = (await cells(tab, "runs")).find((row) => row[0] === "over");
        const [{ v, t }] = await sql(
            "over",
            "select val_accuracy_mean v, test_accuracy_mean t from round order by round desc limit 1",
        );
        return (
            (line[1].includes("finished") ? "" : `state ${line[1]}; `) +
            differs("validation", line[7], v, "%") +
            differs("test", line[9], t, "%")
        );
    });
    await attempt("overview: tiles and gates", async () => {
        await show(tab, "#/run/over/overview", ".tile .value");
        const [r] = await sql(
            "over",
            "select val_accuracy_mean v, test_accuracy_mean t, reward_mean r, (select max(val_accuracy_best) from round) b, (select sum(germinations) from round) g from round order by round desc limit 1",
        );
        const gates = await tab.run("document.querySelectorAll('.gate').length");
        return (
            differs("validation", await tile(tab, "val_accuracy"), r.v, "%") +
            differs("best", await tile(tab, "val_accuracy_best"), r.b, "%") +
            differs("test", await tile(tab, "test_accuracy"), r.t, "%") +
            differs("reward", await tile(tab, "reward"), r.r) +
            differs("seeds", await tile(tab, "germinations"), r.g) +
            (gates === 5 ? "" : `${gates} gates; `)
        );
    });
    await attempt("a run that has ended: its alerts are in the list, the verdict is its banner", async () => {
        await show(tab, "#/run/alarmed/overview", "[data-name=alerts] td");
        const [{ text }] = await sql("alarmed", "select text from alert where rule = 'kl' and state = 'raised'");
        const listed = (await tab.text("[data-name=alerts]")).includes(text);
        const banner = await tab.run("!!document.querySelector('[data-name=standing]')");
        return (
            (listed ? "" : `"${text}" is not in the list; `) +
            (banner ? "it is above the view, too; " : "") +
            ((await tab.text("[data-name=verdict]")).includes(text) ? "" : "the verdict does not tell; ")
        );
    });
    await attempt("a policy that does not learn: missing is said, not shown as 0", async () => {
        await show(tab, "#/run/over/policy", ".none");
        await until("the line", async () => (await tab.text("main")).includes("does not learn"));
        await show(tab, "#/run/over/system", "[data-name=time] .u-legend");
        const legend = await tab.text("[data-name=time] .u-legend");
        return legend.includes("–") ? "" : legend;
    });
    await attempt("environments: every cell, every decision", async () => {
        await show(tab, "#/run/over/envs?env=1", ".cell");
        await until("decisions", async () => (await cells(tab, "decisions")).length);
        const envs = await sql("over", "select env, val_accuracy from step where round = 1 and step = 40 order by env");
        let problem = "";
        for (const { env, val_accuracy } of envs)
            problem += differs(`env ${env}`, await tab.text(`.cell[data-env="${env}"] b`), val_accuracy, "%");
        const letters = await tab.text('.cell[data-env="1"] .letters');
        const steps = await sql(
            "over",
            "select step, op, reward, val_accuracy, entropy, added_params from step where round = 1 and env = 1 order by step desc",
        );
        const rows = await cells(tab, "decisions");
        if (rows.length !== steps.length) problem += `${rows.length} decisions, not ${steps.length}; `;
        steps.forEach(
            (s, i) =>
                (problem +=
                    differs("step", rows[i][0], s.step) +
                    (rows[i][1] === s.op.replaceAll("_", " ") ? "" : `op ${rows[i][1]}; `) +
                    differs("entropy", rows[i][6], s.entropy) +
                    differs("reward", rows[i][8], s.reward) +
                    differs("accuracy", rows[i][9], s.val_accuracy, "%") +
                    differs("parameters", rows[i][12], s.added_params)),
        );
        return problem + (letters === "FF·" ? "" : `letters ${letters}; `);
    });
    await attempt("seeds: lanes, and what pointer and keys read out", async () => {
        await show(tab, "#/run/over/seeds", ".lanes .span");
        const spans = await tab.run("[...document.querySelectorAll('.lanes .span')].map((g) => g.dataset.span).sort()");
        const life = await sql(
            "over",
            "select env, slot, step, to_stage from (select *, lead(step) over (partition by env, slot order by step, ordinal) as next from life where round = 1 and event = 'stage') where next is null or next > step",
        );
        const wanted = life
            .filter((l) => l.to_stage !== "dormant")
            .map((l) => `env ${l.env} r0c${l.slot} ${l.step} ${l.to_stage}`)
            .sort();
        let problem = JSON.stringify(spans) === JSON.stringify(wanted) ? "" : `spans ${spans} are not ${wanted}; `;
        await tab.run("document.querySelector('.lanes').focus()");
        for (let i = 0; i < 12; i++) await tab.key("ArrowRight");
        const [s] = await sql(
            "over",
            "select blueprint, alpha, grad_norm from seed where round = 1 and env = 0 and slot = 0 and step = 13",
        );
        await until(
            "the readout",
            async () =>
                (await tab.text('[data-name="alpha"]')) !== null &&
                (await tab.text('[data-name="seed"]')).includes("step 13"),
        );
        problem +=
            differs("alpha", await tab.text('[data-name="alpha"]'), s.alpha) +
            differs("gradient", await tab.text('[data-name="grad_norm"]'), s.grad_norm);
        const text = await tab.text('[data-name="seed"]');
        const box = await tab.box(".lanes");
        const [x, y] = [box.x + box.width * 0.5, box.y + 5];
        await tab.move(x, y);
        await until("the pointer's readout", async () =>
            /step 1[89]|step 2/.test(await tab.text('[data-name="seed"]')),
        );
        const tip = await tab.box(".tip");
        if (tip.y < y || tip.y > y + 40 || tip.x > x + 40 || tip.x + tip.width < x)
            problem += `the readout at ${JSON.stringify(tip)} is not beside the pointer at ${x}, ${y}; `;
        await tab.move(x, box.y - 20);
        await until("the readout to go with the pointer", async () => (await tab.text(".tip")) === null);
        return problem + (text.includes(s.blueprint) && text.includes("blending") && text.includes("G2") ? "" : text);
    });
    await attempt("seeds: tables say which rounds they are of", async () => {
        await show(tab, "#/run/over/seeds", "table[data-name=gates] tbody tr");
        const notes = await tab.run(
            "[...document.querySelectorAll('.grid2 h2 small')].map((note) => note.textContent)",
        );
        return notes.length === 2 && notes.every((note) => note.startsWith("rounds 1 to 2;")) ? "" : notes.join();
    });
    await attempt("overview: slots by stage, each area as large as the record says", async () => {
        await show(tab, "#/run/over/overview", "[data-name=stageareas] .u-legend");
        const stages = ["cooling", "fossilized", "holding", "blending", "training", "germinated"];
        const [r] = await sql("over", `select ${stages} from round where round = 0`);
        await tab.run("document.querySelector('[data-name=stageareas] [tabindex]').focus()");
        await tab.key("Home");
        const values = () =>
            tab.run(
                "[...document.querySelectorAll('[data-name=stageareas] .u-legend .u-value')].map((v) => v.textContent)",
            );
        await until("the first round", async () => (await values())[0] === "1");
        const [, ...shown] = await values();
        return stages.map((stage, i) => differs(stage, shown[i], r[stage])).join("") + (r.fossilized ? "" : "no seed");
    });
    await attempt("at 390 px: lanes, list and charts can be read, nothing is cut off", async () => {
        await tab.resize([390, 844]);
        try {
            return await checkNarrow(tab);
        } finally {
            await tab.resize(null);
        }
    });
    await attempt("a run that is not there: the page says so, and of no connection", async () => {
        await show(tab, "#/run/nowhere", "[data-name=norun]");
        await sleep(300); // a stream would fail meanwhile
        const text = await tab.text("body");
        tab.errors.splice(0, Infinity, ...tab.errors.filter((error) => !/ 404 .*run\/nowhere$/.test(error)));
        return text.includes("no run “nowhere”") && !/lost|connect/.test(text) && !tab.errors.length
            ? ""
            : text + tab.errors;
    });
    await attempt("configuration: values as --set takes them", async () => {
        await show(tab, "#/run/over/system", "details tbody tr");
        const rows = await tab.run(
            "[...document.querySelectorAll('details tbody tr')].map((tr) => tr.children[0].textContent + '=' + tr.children[1].textContent)",
        );
        let problem = rows.includes("slots=r0c0,r0c1,r0c2") ? "" : rows.find((row) => row.startsWith("slots"));
        const settable = rows.filter((row) => !row.startsWith("task=")); // has a flag of its own
        for (let at = 0; at < settable.length; at += 60)
            await execute(esper, ["config", ...settable.slice(at, at + 60).flatMap((row) => ["--set", row])]).catch(
                (error) => (problem += error.stderr),
            );
        return problem;
    });
    await attempt("attribution: the subset table of the last step", async () => {
        await show(tab, "#/run/over/attribution?env=1", "table[data-name=subsets] tbody tr");
        const rows = await cells(tab, "subsets");
        const shares = await cells(tab, "shares");
        const subsets = await sql(
            "over",
            "select correct, accuracy from subset where round = 1 and step = 40 and env = 1 order by mask",
        );
        const seeds = await sql(
            "over",
            "select share, share_error, contribution from seed where round = 1 and step = 40 and env = 1 order by slot",
        );
        let problem = rows.length === subsets.length && shares.length === seeds.length ? "" : "other rows; ";
        subsets.forEach(
            (s, i) =>
                (problem +=
                    differs("correct", rows[i][1], s.correct) + differs("accuracy", rows[i][2], s.accuracy, "%")),
        );
        seeds.forEach(
            (s, i) =>
                (problem +=
                    differs("share", shares[i][3], s.share) +
                    differs("error", shares[i][4], s.share_error) +
                    differs("contribution", shares[i][5], s.contribution)),
        );
        return problem;
    });
    await attempt("outcomes: frontier and best episodes", async () => {
        await show(tab, "#/run/over/outcomes", "table[data-name=top] tbody tr");
        const top = await sql(
            "over",
            "select round, env, test_accuracy, added_params from outcome order by test_accuracy desc, added_params, round, env limit 10",
        );
        const rows = await cells(tab, "top");
        const sum = await tab.run("[...document.querySelectorAll('[data-name=reward] .value')].pop().textContent");
        const [{ r }] = await sql("over", "select sum(reward) / count(distinct env) r from step where round = 1");
        let problem = differs("sum of the reward", sum, r);
        top.forEach(
            (o, i) =>
                (problem +=
                    differs("round", rows[i][0], o.round + 1) +
                    differs("test", rows[i][2], o.test_accuracy, "%") +
                    differs("size", rows[i][4], o.added_params)),
        );
        return problem;
    });
    await attempt("events, phases, checkpoints; text is only text", async () => {
        await show(tab, "#/run/over/events", "table[data-name=events] tbody tr");
        const kinds = await tab.run("[...document.querySelectorAll('select option')].map((o) => o.textContent)");
        await show(tab, "#/run/over/system", "table[data-name=phases] tbody tr");
        const phases = await cells(tab, "phases");
        const spans = await sql(
            "over",
            "select name, count(*) n, sum(duration_us) / 1e6 s from phase where round = 1 group by name",
        );
        let problem = ["germinated", "stage", "gate", "fossilized", "checkpoint"]
            .filter((k) => !kinds.includes(k))
            .join();
        for (const { name, n, s } of spans) {
            const row = phases.find((p) => p[0] === name) ?? [];
            problem += differs(`${name} seconds`, row[2], s, "s") + differs(`${name} spans`, row[3], n);
        }
        const evil = await tab.run(
            "[!!document.getElementById('evil'), document.body.textContent.includes('<b id=evil>')]",
        );
        return problem + (evil[0] || !evil[1] ? "markup of a configuration was not shown as text" : "");
    });
    await attempt("dark and light, by the system and by the button; all by keyboard", async () => {
        const theme = () =>
            tab.run("document.documentElement.dataset.theme + getComputedStyle(document.body).backgroundColor");
        const emulate = (value) =>
            tab.call("Emulation.setEmulatedMedia", { features: [{ name: "prefers-color-scheme", value }] });
        const become = async (value) => (
            await emulate(value),
            await until(`the page to be ${value}`, async () => (await theme()).startsWith(value)),
            theme()
        );
        const light = await become("light");
        const dark = await become("dark");
        const reached = new Set();
        await tab.run("document.activeElement.blur(); scrollTo(0, 0)");
        for (let i = 0; i < 80; i++) {
            await tab.call("Input.dispatchKeyEvent", {
                type: "keyDown",
                key: "Tab",
                code: "Tab",
                windowsVirtualKeyCode: 9,
            });
            await tab.call("Input.dispatchKeyEvent", {
                type: "keyUp",
                key: "Tab",
                code: "Tab",
                windowsVirtualKeyCode: 9,
            });
            reached.add(await tab.run("document.activeElement.textContent"));
        }
        await tab.run("document.querySelector('.theme').click()");
        const turned = await theme();
        await tab.run("document.querySelector('.theme').click(); localStorage.clear()");
        const links = ["Runs", "Compare", "Overview", "Heads", "Seeds", "System"].filter((name) => !reached.has(name));
        return (
            (turned === light && light.slice(5) !== dark.slice(4) ? "" : `${light} ${dark} ${turned}; `) +
            (links.length ? `Tab does not reach ${links}` : "")
        );
    });
}

// When a row got in lies between the last look without it and the first with it; the earlier one counts.
async function measureDelay(tab) {
    await show(tab, "#/run/live/overview", ".tile .value");
    await tab.run(
        `window.seen = {}; new MutationObserver(() => { const text = document.querySelector('.tile[data-name="speed"] .note')?.textContent; if (text) seen[text] ??= Date.now(); }).observe(document.querySelector('#main'), { subtree: true, childList: true, characterData: true }); 0`,
    );
    const arrived = [];
    let before = Date.now();
    const [{ steps: first }] = await sql("live", "select sum(env_steps) steps from round");
    let last = first;
    const end = Date.now() + 20000;
    while (arrived.length < 5 && Date.now() < end) {
        const asked = Date.now();
        const [{ steps }] = await sql("live", "select sum(env_steps) steps from round");
        if (steps !== last) arrived.push({ steps, before });
        last = steps;
        before = asked;
    }
    await sleep(1500);
    // A round may come and go while the one before is being read: what counts is that the page is not behind it.
    const seen = Object.entries(await tab.run("window.seen")).map(([text, at]) => [parse(text).value, at]);
    const delays = arrived
        .map(
            ({ steps, before: since }) =>
                Math.min(...seen.filter(([shown]) => shown >= steps).map(([, at]) => at)) - since,
        )
        .sort((x, y) => x - y);
    if (delays.length < 3) return `only ${delays.length} rounds in 20 s`;
    console.log(`       rounds were on the page ${delays.join(", ")} ms after their rows, at most`);
    return delays[delays.length >> 1] > 1000 ? `${delays} ms after the row` : "";
}

async function checkLive(tab, trainer, server) {
    await attempt("a live run: tiles are those of a round just written", async () => {
        await show(tab, "#/run/live/overview", ".tile .value");
        await until("the first round", async () => parse(await tile(tab, "val_accuracy")).value !== null, 20000);
        const shown = await tile(tab, "val_accuracy");
        const state = await tab.text('[data-name="state"]');
        const rows = await sql("live", "select val_accuracy_mean v from round order by round desc limit 3");
        return (
            (rows.some(({ v }) => differs("", shown, v, "%") === "")
                ? ""
                : `${shown} is none of ${JSON.stringify(rows)}; `) + (state.includes("running") ? "" : state)
        );
    });
    await attempt("rounds are shown within 1 s", () => measureDelay(tab));
    await attempt("policy and heads: every chart has lines, the table is the newest update", async () => {
        await show(tab, "#/run/live/policy", "[data-name=kl] canvas");
        const charts = await tab.run(
            "[...document.querySelectorAll('.chart')].filter((c) => !c.querySelector('canvas')).length",
        );
        await show(tab, "#/run/live/heads", "table[data-name=heads] tbody tr");
        const rows = await cells(tab, "heads");
        const heads = await sql(
            "live",
            "select round, entropy, grad_norm from ppo_head where head = 'op' order by round desc limit 4",
        );
        const same = heads.some((h) => !differs("", rows[0][3], h.entropy) && !differs("", rows[0][10], h.grad_norm));
        return (
            (charts ? `${charts} charts without a picture; ` : "") +
            (same ? "" : `${rows[0]} is none of ${JSON.stringify(heads)}`)
        );
    });
    await attempt("charts by keyboard: a cursor for all of them, zoom and back", async () => {
        await show(tab, "#/run/live/policy", "[data-name=kl] [tabindex]");
        await tab.run("document.querySelector('[data-name=kl] [tabindex]').focus()");
        const first = async (name) => parse((await tab.text(`[data-name=${name}] .u-legend .u-value`)) ?? "").value;
        await tab.key("Home");
        await until(
            "the cursor on the first round",
            async () => (await first("kl")) === 1 && (await first("loss")) === 1,
        );
        const crosses = await tab.run("document.querySelectorAll('.u-cursor-y').length"); // no level is common to charts
        const zoomed = async () => (await tab.text("[data-name=zoom]"))?.match(/rounds 1 to \d+/)?.[0];
        await tab.key("+");
        await until("the zoom", zoomed);
        await tab.key("-");
        await until("all rounds", async () => !(await zoomed()));
        return crosses ? `${crosses} horizontal lines` : "";
    });
    await attempt("a zoom lies in the address: back, other views, a link, and its button", async () => {
        const zoomed = () => tab.text("[data-name=zoom]");
        await until("six rounds", async () => parse(await tab.text("[data-name=rounds_done]")).value >= 6, 60000);
        await show(tab, "#/run/live/policy", "[data-name=loss] .u-over");
        const box = await tab.box("[data-name=loss] .u-over");
        await tab.drag(box.x + box.width * 0.3, box.y + 20, box.x + box.width * 0.6);
        const text = await until("the zoom", zoomed);
        const hash = await tab.run("location.hash");
        const [, from, to] = hash.match(/\?rounds=(\d+)-(\d+)$/) ?? [];
        let problem = from > 1 && text.includes(`rounds ${from} to ${to}`) ? "" : `${hash}: ${text}; `;
        await tab.run("history.back()");
        await until("back to lead to all rounds", async () => !(await zoomed()));
        await tab.run("history.forward()");
        await until("forward to lead to the zoom", zoomed);
        await tab.run("[...document.querySelectorAll('nav a')].find((a) => a.textContent === 'Overview').click()");
        await until("the zoom of the overview", async () => (await tab.text(".tile")) && (await zoomed()) === text);
        await tab.call("Page.reload");
        const first = async () => parse((await tab.text("[data-name=reward] .u-legend .u-value")) ?? "").value;
        await until("the zoom after a reload", async () => (await zoomed()) === text && (await first()) === Number(to));
        await tab.run("document.querySelector('[data-name=zoom] button').click()");
        await until("all rounds", async () => !(await zoomed()) && (await first()) > to);
        return problem + ((await tab.run("location.hash")).includes("rounds") ? "rounds are left in the address" : "");
    });
    const errors = tab.errors.splice(0);
    await attempt("the server restarts: the page says so and comes back", async () => {
        await show(tab, "#/run/live/overview", ".tile .value");
        server.child.kill("SIGTERM");
        await until("a word that the connection is lost", async () =>
            (await tab.text('[data-name="connection"]')).includes("lost"),
        );
        await server.child.over;
        const done = await tab.text('[data-name="rounds_done"]');
        server.child = (await serve(Number(new URL(server.url).port))).child;
        await until("the connection", async () => (await tab.text('[data-name="connection"]')).includes("live"), 15000);
        await until("new rounds", async () => (await tab.text('[data-name="rounds_done"]')) !== done, 15000);
        await until("every part of the page to be well again", async () => (await tab.text(".problem")) === null);
        return "";
    });
    // While there was no server, requests had to fail; nothing else may have gone wrong.
    tab.errors.splice(0, Infinity, ...errors, ...tab.errors.filter((text) => !text.includes("net::ERR_")));
    await attempt("the trainer is killed: the page says crashed", async () => {
        trainer.kill("SIGKILL");
        const killed = Date.now();
        await until("crashed", async () => (await tab.text('[data-name="state"]')).includes("crashed"), 5000);
        const seconds = (Date.now() - killed) / 1000;
        await until("what to do", async () => (await tab.text(".problem"))?.includes("--resume"));
        console.log(`       crashed was on the page after ${seconds.toFixed(1)} s`);
        await show(tab, "#/", "table[data-name=runs]");
        await until("the list", async () =>
            (await cells(tab, "runs")).find((row) => row[0] === "live")?.[1].includes("crashed"),
        );
        return seconds > 3 ? `after ${seconds} s` : "";
    });
    await attempt("compare: means and differences", async () => {
        await show(tab, "#/compare?runs=over%2Cplain", "table[data-name='A minus B'] tbody tr");
        const means = await cells(tab, "means");
        const row = (await cells(tab, "A minus B")).find((cell) => cell[0].startsWith("test"));
        const mean = async (name) => (await sql(name, "select avg(test_accuracy) m from outcome"))[0].m;
        const a = await mean("over");
        return (
            differs("mean", means.find((m) => m[0].startsWith("test"))[1], a) +
            differs("difference", row[1], a - (await mean("plain")))
        );
    });
}

// A run on text: scores are points with bits per byte beside them, and what the best network wrote is text, never markup.
async function checkText(tab) {
    const beside = (points) => `${(8 * (1 - points / 100)).toFixed(3)}\u00a0bits per byte`;
    await attempt("a run on text: points and bits per byte, no accuracy", async () => {
        await show(tab, "#/", "table[data-name=runs] tbody tr");
        await until("the list", async () => (await cells(tab, "runs")).some((row) => row[0] === "prose"));
        const [{ v, t }] = await sql(
            "prose",
            "select val_accuracy_mean v, test_accuracy_mean t from round order by round desc limit 1",
        );
        const line = (await cells(tab, "runs")).find((row) => row[0] === "prose");
        let problem =
            differs("validation", line[7], v, `points, ${beside(v)}`) +
            differs("test", line[9], t, `points, ${beside(t)}`);
        for (const view of ["overview", "envs", "outcomes", "attribution", "seeds"]) {
            await show(tab, `#/run/prose/${view}`, "main .panel");
            if (/accuracy/i.test(await tab.text("main"))) problem += `${view} speaks of accuracy; `;
        }
        await show(tab, "#/run/prose/overview", ".tile .value");
        return (
            problem +
            differs("validation", await tile(tab, "val_accuracy"), v, "points") +
            ((await tab.text('.tile[data-name="val_accuracy"] .note')).includes(beside(v)) ? "" : "no bits; ")
        );
    });
    await attempt("a run on text: what the best network wrote, newest first, is text and no markup", async () => {
        await show(tab, "#/run/prose/text", "[data-name=samples] pre");
        const wanted = await sql("prose", "select score, text from sample order by round desc");
        const shown = await tab.run(
            `[...document.querySelectorAll("[data-name=samples] li")].map((li) => ({
                text: li.querySelector("pre").textContent,
                markup: li.querySelector("pre").children.length,
                score: li.querySelector("[data-name=score]").textContent,
            }))`,
        );
        if (shown.length !== wanted.length || !shown.length) return `${shown.length} texts, not ${wanted.length}`;
        return (
            wanted
                .map(
                    ({ score, text }, i) =>
                        (shown[i].text === text ? "" : `"${shown[i].text}" is not "${text}"; `) +
                        (shown[i].markup ? "it is markup; " : "") +
                        differs("score", shown[i].score, score, `points, ${beside(score)}`),
                )
                .join("") + (wanted.some(({ text }) => text.includes("<b id=evil>")) ? "" : "no text is dangerous; ")
        );
    });
    await attempt("a run on images has no view of text", async () => {
        await show(tab, "#/run/over/overview", ".tile .value");
        const links = await tab.run("[...document.querySelectorAll('nav a')].map((a) => a.textContent)");
        await show(tab, "#/run/over/text", ".none");
        return links.includes("Text") || !links.includes("Outcomes") ? `${links}` : "";
    });
}

async function takePictures(tab, url) {
    const views = [
        ["runs", "#/"],
        ...["overview", "policy", "heads", "envs", "seeds", "attribution", "outcomes", "events", "system"].map(
            (view) => [view, `#/run/tour/${view}`],
        ),
        ["overlay", "#/overlay?q=lr0&pick=*&band=range&smooth=0.7&metric=round.reward_mean"],
        ["compare", "#/compare?runs=tour-eval-ppo%2Ctour-eval-static"],
    ];
    const { shrink } = await import("./page_png.mjs");
    await mkdir(pictures, { recursive: true });
    await tab.go(url);
    for (const [name, hash] of views) {
        await tab.run(`location.hash = ${JSON.stringify(hash)}; scrollTo(0, 0)`);
        await sleep(1200);
        if (name === "seeds") {
            await tab.run("document.querySelector('.lanes').focus()"); // taking a picture moves the pointer away
            for (let i = 0; i < 13; i++) await tab.key("ArrowRight");
            await sleep(600); // the readout of a seed
        }
        const height = Math.min(await tab.run("document.documentElement.scrollHeight"), 1150);
        await writeFile(`${pictures}/page-${name}.png`, shrink(await tab.picture(height)));
    }
}

await execute(esper, [
    "train",
    ...quick,
    "--name",
    "over",
    "--rounds",
    "2",
    "--envs",
    "4",
    "--script",
    "examples/two_seeds.json",
    "--set",
    'about=<b id=evil>"x"</b>',
]);
// An update that goes much too far: an alert is raised and stands when the run ends.
await execute(esper, ["train", ...quick, "--name", "alarmed", "--rounds", "2", "--steps", "10", "--set", "ppo.lr=0.3"]);
await execute(esper, [
    "train",
    ...quick,
    "--name",
    "plain",
    "--rounds",
    "2",
    "--envs",
    "4",
    "--policy",
    "static",
    "--set",
    'about=<b id=evil>"x"</b>',
]);
// A language that is markup: its networks write nothing else.
await mkdir(runs, { recursive: true });
await writeFile(`${runs}/markup.txt`, "<b id=evil>x</b>\n".repeat(4000));
await execute(esper, ["data", "import", `${runs}/markup.txt`, "--as", "text", "--out", `${runs}/markup.safetensors`]);
const prose = ["data.set=text", `data.path=${runs}/markup.safetensors`, "data.batch=8", "data.batches=4"];
prose.push("data.val_images=16", "data.test_images=16", "host.context=16", "host.width=16", "reward.mode=shaped");
prose.push("host.layers=2", "host.lr=0.003", "seed.lr=0.003", "steps=40");
await execute(esper, [
    "train",
    ...["--runs", runs, "--quiet", "--threads", "1", "--name", "prose", "--task", "text_quick"],
    ...["--rounds", "3", "--envs", "2", "--policy", "random"],
    ...prose.flatMap((key) => ["--set", key]),
]);
if (pictures) {
    await execute(esper, ["train", "--runs", runs, "--quiet", "--name", "tour", "--rounds", "60"]);
    for (const rate of ["0.0003", "0.003", "0.01"])
        for (const seed of ["1", "2", "3"])
            await execute(esper, [
                ...["train", ...quick, "--name", `lr${rate}-seed${seed}`, "--rounds", "40", "--envs", "4", "--steps", "20"],
                ...["--seed", seed, "--set", `ppo.lr=${rate}`],
            ]);
    for (const policy of ["ppo", "static"])
        await execute(esper, ["eval", "tour", "--policy", policy, "--runs", runs, "--quiet"]);
}
const trainer = start("train", ...quick, "--name", "live", "--rounds", "100000", "--envs", "4");
const server = await serve(0);
const browser = await startBrowser("chromium");
try {
    const tab = await browser.openTab();
    await tab.go(server.url);
    await checkFinished(tab);
    await checkText(tab);
    if (pictures) await takePictures(tab, server.url);
    await checkLive(tab, trainer, server);
    check("no error on the console", tab.errors.join("; "));
    check(
        "no request left this server",
        tab.requests.filter((url) => !url.startsWith(server.url) && !/^(data|about):/.test(url)).join(),
    );
} finally {
    await browser.close();
    for (const child of children) child.kill("SIGKILL");
}
process.exit(failures ? 1 : 0);
