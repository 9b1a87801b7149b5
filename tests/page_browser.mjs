// A headless Chromium, driven over its debugging pipe: no packages, no port.
import { spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

export const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// Waits until `test` gives something true; says what for when it never does.
export async function until(what, test, ms = 10000) {
    const end = performance.now() + ms;
    for (;;) {
        const value = await test();
        if (value) return value;
        if (performance.now() > end) throw new Error(`waited ${ms} ms in vain: ${what}`);
        await sleep(20);
    }
}

export async function startBrowser(program, size = [1400, 1000]) {
    const profile = await mkdtemp(join(tmpdir(), "esper-page-"));
    const options = [
        "--headless=new",
        "--remote-debugging-pipe",
        `--user-data-dir=${profile}`,
        `--window-size=${size}`,
        "--no-first-run",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--disable-extensions",
        "--mute-audio",
        "--hide-scrollbars",
        "--force-device-scale-factor=1",
    ];
    if (process.getuid() === 0) options.push("--no-sandbox"); // its sandbox refuses root
    const child = spawn(program, [...options, "about:blank"], { stdio: ["ignore", "ignore", "pipe", "pipe", "pipe"] });
    let said = "";
    child.stderr.on("data", (data) => (said = (said + data).slice(-2000)));
    const gone = new Promise((resolve) => child.on("exit", resolve));
    const waiting = new Map();
    const listeners = [];
    let number = 0;
    let rest = "";
    child.stdio[4].setEncoding("utf8").on("data", (data) => {
        const messages = (rest + data).split("\0");
        rest = messages.pop();
        for (const message of messages.map(JSON.parse)) {
            if (message.id) {
                const [resolve, reject] = waiting.get(message.id);
                waiting.delete(message.id);
                if (message.error) reject(new Error(message.error.message));
                else resolve(message.result);
            } else for (const listen of listeners) listen(message);
        }
    });
    gone.then(() => waiting.forEach(([, reject]) => reject(new Error("chromium is gone: " + said))));
    const send = (method, params = {}, sessionId) =>
        new Promise((resolve, reject) => {
            waiting.set(++number, [resolve, reject]);
            child.stdio[3].write(JSON.stringify({ id: number, method, params, sessionId }) + "\0");
        });

    async function close() {
        await Promise.race([send("Browser.close").catch(() => {}), sleep(2000)]);
        child.kill("SIGKILL");
        await gone;
        await rm(profile, { recursive: true, force: true, maxRetries: 5 });
    }

    // A tab that keeps what went wrong and which addresses were asked for.
    async function openTab() {
        const { targetId } = await send("Target.createTarget", { url: "about:blank" });
        const { sessionId } = await send("Target.attachToTarget", { targetId, flatten: true });
        const call = (method, params) => send(method, params, sessionId);
        const tab = { call, errors: [], requests: [] };
        listeners.push(({ method, params, sessionId: from }) => {
            if (from !== sessionId) return;
            if (method === "Runtime.exceptionThrown")
                tab.errors.push(params.exceptionDetails.exception?.description ?? params.exceptionDetails.text);
            if (method === "Runtime.consoleAPICalled" && ["error", "warning", "assert"].includes(params.type))
                tab.errors.push(params.args.map((a) => a.value ?? a.description).join(" "));
            if (method === "Log.entryAdded" && ["error", "warning"].includes(params.entry.level))
                tab.errors.push(`${params.entry.text} ${params.entry.url ?? ""}`);
            if (method === "Network.requestWillBeSent") tab.requests.push(params.request.url);
        });
        for (const domain of ["Page", "Runtime", "Log", "Network"]) await call(`${domain}.enable`);
        tab.run = async (expression) => {
            const answer = await call("Runtime.evaluate", { expression, awaitPromise: true, returnByValue: true });
            if (answer.exceptionDetails)
                throw new Error(answer.exceptionDetails.exception?.description ?? answer.exceptionDetails.text);
            return answer.result.value;
        };
        tab.go = async (url) => {
            await call("Page.navigate", { url });
            await until(`${url} to load`, () => tab.run("document.readyState === 'complete'"));
        };
        // The text of the first element, null when there is none.
        tab.text = (selector) => tab.run(`document.querySelector(${JSON.stringify(selector)})?.textContent ?? null`);
        tab.key = async (key, code = key) => {
            for (const type of ["keyDown", "keyUp"]) await call("Input.dispatchKeyEvent", { type, key, code });
        };
        const mouse = (type, x, y) =>
            call("Input.dispatchMouseEvent", {
                type,
                x,
                y,
                button: type === "mouseMoved" ? "none" : "left",
                clickCount: 1,
            });
        tab.move = (x, y) => mouse("mouseMoved", x, y);
        tab.press = (x, y) => tab.drag(x, y, x);
        tab.drag = async (x, y, toX) => {
            await tab.move(x, y);
            await mouse("mousePressed", x, y);
            await tab.move(toX, y);
            await mouse("mouseReleased", toX, y);
        };
        // Where the first element is in the window.
        tab.box = (selector) =>
            tab.run(
                `(({ x, y, width, height }) => ({ x, y, width, height }))(document.querySelector(${JSON.stringify(selector)}).getBoundingClientRect())`,
            );
        // Another size of the window, [width, height]; null: its own.
        tab.resize = (to) =>
            to
                ? call("Emulation.setDeviceMetricsOverride", {
                      width: to[0],
                      height: to[1],
                      deviceScaleFactor: 1,
                      mobile: to[0] < 600,
                  })
                : call("Emulation.clearDeviceMetricsOverride");
        tab.picture = async (height) => {
            const clip = height && { x: 0, y: 0, width: size[0], height, scale: 1 };
            const { data } = await call("Page.captureScreenshot", {
                format: "png",
                clip,
                captureBeyondViewport: true,
                optimizeForSpeed: false,
            });
            return Buffer.from(data, "base64");
        };
        return tab;
    }
    return { openTab, close };
}
