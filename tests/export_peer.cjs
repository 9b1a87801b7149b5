/*
 * Checks an exported network with onnxruntime.
 *
 *     node export_peer.cjs MODEL.onnx OUTPUT.safetensors
 *
 * OUTPUT is what `esper infer --output` wrote for the network: images or text, and its logits. Every largest logit must
 * be the same one, and no logit further off than 1e-4.
 */
"use strict";
const fs = require("fs");
const ort = require("onnxruntime-node");

const [model, output] = process.argv.slice(2);
const BATCH = 50;
const LIMIT = 1e-4;

function load(path) {
    const bytes = fs.readFileSync(path);
    const start = 8 + Number(bytes.readBigUInt64LE(0));
    const tensors = {};
    for (const [name, t] of Object.entries(JSON.parse(bytes.subarray(8, start)))) {
        if (name === "__metadata__") continue;
        const data = Uint8Array.prototype.slice.call(bytes, start + t.data_offsets[0], start + t.data_offsets[1]);
        tensors[name] = { shape: t.shape, data: t.dtype === "F32" ? new Float32Array(data.buffer) : data };
    }
    return tensors;
}

/* Bytes [n][h][w][3] as floats [n][3][h][w]. */
function planes(data, [n, h, w, colours]) {
    const out = new Float32Array(data.length);
    for (let i = 0; i < n; i++)
        for (let p = 0; p < h * w; p++)
            for (let c = 0; c < colours; c++) out[(i * colours + c) * h * w + p] = data[(i * h * w + p) * colours + c];
    return new ort.Tensor("float32", out, [n, colours, h, w]);
}

function inputs(sample, first, count) {
    const { shape, data } = sample.tokens || sample.images;
    const each = shape.slice(1).reduce((a, b) => a * b);
    const part = data.subarray(first * each, (first + count) * each);
    if (sample.images) return { image: planes(part, [count, ...shape.slice(1)]) };
    return { tokens: new ort.Tensor("int64", BigInt64Array.from(part, BigInt), [count, each]) };
}

async function main() {
    const sample = load(output);
    const session = await ort.InferenceSession.create(model);
    const { shape, data: wanted } = sample.logits;
    const classes = shape[shape.length - 1];
    const each = wanted.length / shape[0];
    let worst = 0, other = 0;
    const best = (row) => row.indexOf(row.reduce((a, b) => Math.max(a, b)));
    for (let first = 0; first < shape[0]; first += BATCH) {
        const count = Math.min(BATCH, shape[0] - first);
        const { logits } = await session.run(inputs(sample, first, count));
        const mine = wanted.subarray(first * each, (first + count) * each);
        if (logits.data.length !== mine.length) throw new Error(`${logits.dims}: not as many logits`);
        for (let i = 0; i < mine.length; i++) worst = Math.max(worst, Math.abs(mine[i] - logits.data[i]));
        for (let i = 0; i < mine.length; i += classes)
            other += best(mine.subarray(i, i + classes)) !== best(logits.data.subarray(i, i + classes));
    }
    console.log(`onnxruntime: ${shape[0]} samples, largest difference of a logit ${worst.toPrecision(2)}, ` +
                `${other} of ${wanted.length / classes} predictions differ`);
    process.exitCode = worst <= LIMIT && other === 0 ? 0 : 1;
}

main();
