// Makes a screenshot small: a palette of 256 colours is enough for a page, and a quarter of the bytes.
import { crc32, deflateSync, inflateSync } from "node:zlib";

// The pixels of a PNG of 8 bits per channel, 3 or 4 channels, not interlaced: what Chromium writes.
function decode(png) {
    const width = png.readUInt32BE(16);
    const height = png.readUInt32BE(20);
    const size = png[25] === 6 ? 4 : 3;
    const parts = [];
    for (let at = 8; at < png.length; at += 12 + png.readUInt32BE(at))
        if (png.toString("latin1", at + 4, at + 8) === "IDAT")
            parts.push(png.subarray(at + 8, at + 8 + png.readUInt32BE(at)));
    const data = inflateSync(Buffer.concat(parts));
    const line = width * size;
    const pixels = Buffer.alloc(line * height);
    for (let y = 0; y < height; y++) {
        const filter = data[y * (line + 1)];
        for (let x = 0; x < line; x++) {
            const left = x >= size ? pixels[y * line + x - size] : 0;
            const up = y ? pixels[(y - 1) * line + x] : 0;
            const corner = x >= size && y ? pixels[(y - 1) * line + x - size] : 0;
            const guess = left + up - corner;
            const [a, b, c] = [left, up, corner].map((v) => Math.abs(guess - v));
            const add = [0, left, up, (left + up) >> 1, a <= b && a <= c ? left : b <= c ? up : corner][filter];
            pixels[y * line + x] = data[y * (line + 1) + 1 + x] + add;
        }
    }
    return { width, height, size, pixels };
}

function chunk(type, data) {
    const body = Buffer.concat([Buffer.from(type, "latin1"), data]);
    const ends = Buffer.alloc(8);
    ends.writeUInt32BE(data.length, 0);
    ends.writeUInt32BE(crc32(body), 4);
    return Buffer.concat([ends.subarray(0, 4), body, ends.subarray(4)]);
}

export function shrink(png) {
    const { width, height, size, pixels } = decode(png);
    const counts = new Map(); // by 5 bits of each channel: how often, and the first colour seen there
    const key = (at) => ((pixels[at] >> 3) << 10) | ((pixels[at + 1] >> 3) << 5) | (pixels[at + 2] >> 3);
    for (let at = 0; at < pixels.length; at += size) {
        const found = counts.get(key(at));
        if (found) found.count++;
        else counts.set(key(at), { count: 1, rgb: [pixels[at], pixels[at + 1], pixels[at + 2]] });
    }
    const palette = [...counts.values()]
        .sort((a, b) => b.count - a.count)
        .slice(0, 256)
        .map((c) => c.rgb);
    const distance = (a, b) => (a[0] - b[0]) ** 2 + (a[1] - b[1]) ** 2 + (a[2] - b[2]) ** 2;
    for (const colour of counts.values())
        colour.index = palette.reduce(
            (best, rgb, i) => (distance(rgb, colour.rgb) < distance(palette[best], colour.rgb) ? i : best),
            0,
        );
    const lines = Buffer.alloc((width + 1) * height);
    for (let y = 0; y < height; y++)
        for (let x = 0; x < width; x++) lines[y * (width + 1) + 1 + x] = counts.get(key((y * width + x) * size)).index;
    const header = Buffer.alloc(13);
    header.writeUInt32BE(width, 0);
    header.writeUInt32BE(height, 4);
    header.set([8, 3, 0, 0, 0], 8);
    return Buffer.concat([
        png.subarray(0, 8),
        chunk("IHDR", header),
        chunk("PLTE", Buffer.from(palette.flat())),
        chunk("IDAT", deflateSync(lines, { level: 9 })),
        chunk("IEND", Buffer.alloc(0)),
    ]);
}
