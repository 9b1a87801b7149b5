// Builds web/dist from web/src. The output depends on the sources and the pinned packages alone, so that anyone can
// rebuild it and get the same bytes (tests/run_page.sh does). Usage: node build.mjs [FOLDER]
import { build } from "esbuild";
import { copyFile, mkdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

const web = dirname(fileURLToPath(import.meta.url));
const out = process.argv[2] ?? join(web, "dist");
const LIMIT = 72_000; // bytes of the whole page, gzipped

await mkdir(out, { recursive: true });
await build({
    absWorkingDir: web,
    entryPoints: { app: "src/main.jsx" },
    outdir: out,
    bundle: true,
    minify: true,
    format: "esm",
    target: "es2022",
    jsx: "automatic",
    jsxImportSource: "preact",
    legalComments: "none",
    charset: "utf8",
    logLevel: "warning",
});
await copyFile(join(web, "src/index.html"), join(out, "index.html"));
await copyFile(join(web, "src/icon.svg"), join(out, "icon.svg"));

// What the bundle holds of others goes with their notices, in one file beside it.
const notices = await Promise.all(
    ["preact", "@preact/signals", "@preact/signals-core", "uplot"].map(
        async (name) => `${name}\n\n${await readFile(join(web, "node_modules", name, "LICENSE"), "utf8")}`,
    ),
);
await writeFile(join(out, "licences.txt"), notices.join("\n"));

let bytes = 0;
for (const name of ["index.html", "app.js", "app.css", "icon.svg", "licences.txt"])
    bytes += gzipSync(await readFile(join(out, name)), { level: 9 }).length;
console.log(`page: ${bytes} bytes gzipped, at most ${LIMIT}`);
if (bytes > LIMIT) process.exit(1);
