// Any figure as a file: a drawing (SVG), a picture (PNG), its numbers (CSV). What is drawn with CSS gets its styles
// written into it, so that it looks the same elsewhere.
import { colour } from "./theme.js";

const SCALE = 2; // pixels of a picture per pixel of the drawing
// As attributes: the page's own rules forbid styles in the text of a document.
const STYLES = ["fill", "stroke", "stroke-width", "stroke-dasharray", "opacity", "font-size", "font-weight", "text-anchor"];
export const FONT = 'font-family="system-ui, sans-serif" font-size="11"';

function offer(name, type, content) {
    const url = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type }));
    const a = document.createElement("a");
    a.href = url;
    a.download = name;
    a.click();
    setTimeout(() => URL.revokeObjectURL(url), 10000);
}

// As spreadsheets read it; a missing value is an empty cell.
export function csv(columns, rows) {
    const cell = (value) => {
        const text = value === null || value === undefined || Number.isNaN(value) ? "" : String(value);
        return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
    };
    return [columns, ...rows].map((row) => row.map(cell).join(",")).join("\r\n") + "\r\n";
}

export const escape = (text) => String(text).replaceAll("&", "&amp;").replaceAll("<", "&lt;");

// A drawing of the page as a text that stands alone, on the page's ground, with its title above.
export function svgOf(element, title) {
    const { width, height } = element.getBoundingClientRect();
    const view = element.viewBox.baseVal?.width ? element.viewBox.baseVal : { x: 0, y: 0, width, height };
    const copy = element.cloneNode(true);
    const from = [element, ...element.querySelectorAll("*")];
    [copy, ...copy.querySelectorAll("*")].forEach((node, i) => {
        if (!(from[i] instanceof SVGElement)) return;
        const style = getComputedStyle(from[i]);
        node.removeAttribute("class");
        node.removeAttribute("style");
        for (const s of STYLES) node.setAttribute(s, style.getPropertyValue(s));
    });
    return frame(view.width, view.height, title, `<g ${FONT} transform="translate(${-view.x} ${-view.y})">${inner(copy)}</g>`);
}

const inner = (element) => [...element.childNodes].map((node) => new XMLSerializer().serializeToString(node)).join("");

export function frame(width, height, title, content) {
    const most = Math.floor(width / 8);
    const above = title.length > most ? title.slice(0, most - 1) + "…" : title;
    return (
        `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height + 26}" viewBox="0 -26 ${width} ${height + 26}">` +
        `<rect x="0" y="-26" width="${width}" height="${height + 26}" fill="${colour("panel")}"/>` +
        `<text x="8" y="-9" fill="${colour("ink")}" font-family="system-ui, sans-serif" font-size="13" font-weight="600">${escape(above)}</text>` +
        `${content}</svg>`
    );
}

async function picture(svg) {
    const image = new Image();
    image.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(svg);
    await image.decode();
    const canvas = document.createElement("canvas");
    canvas.width = image.width * SCALE;
    canvas.height = image.height * SCALE;
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}

const fileName = (title) =>
    title
        .toLowerCase()
        .replace(/[^a-z0-9]+/g, "-")
        .replace(/^-|-$/g, "");

/*
 * title: of the figure; numbers(): {columns, rows}; draw(): SVG. Without draw, the first drawing in the box that it is
 * in (a panel or a figure) is the figure. only: one of the kinds.
 */
export function Save({ title, numbers, draw, only }) {
    const svg = (event) => draw?.() ?? svgOf(event.target.closest(".panel, figure").querySelector("svg"), title);
    const kinds = {
        SVG: (event) => offer(fileName(title) + ".svg", "image/svg+xml", svg(event)),
        PNG: async (event) => offer(fileName(title) + ".png", "image/png", await picture(svg(event))),
        CSV: () => {
            const { columns, rows } = numbers();
            offer(fileName(title) + ".csv", "text/csv", csv(columns, rows));
        },
    };
    return (
        <span class="save">
            {Object.entries(kinds)
                .filter(([kind]) => !only || kind === only)
                .map(([kind, act]) => (
                <button key={kind} title={`save ${title} as ${kind}`} onClick={act}>
                    {kind}
                </button>
            ))}
        </span>
    );
}

// Rows of objects as numbers of a figure.
export const table = (columns, rows) => () => ({ columns, rows: rows.map((row) => columns.map((c) => row[c])) });
