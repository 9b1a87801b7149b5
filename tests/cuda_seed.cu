/*
 * Seeds of cnn_bf16 and their evaluation. Training seeds and blended seeds of every blueprint, form and operator, on
 * random activations: gradients and outputs compared with a plain model in double precision that rounds where the
 * kernels do, and with the same model without any rounding; then what must be bit-identical.
 *
 *     cuda_seed                 the checks
 *     cuda_seed bench ENVS BATCH   million images per second of steps and of each kernel, all slots of all envs in use
 *     cuda_seed bench ENVS BATCH whole   of steps only
 */
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "cnn/bf16/seed.cuh"
#include "engine/mirror.cuh"
#include "seed_model.h"

extern "C" {
#include "engine/parts.h"
}

static int checks, failures;

static void check(bool good, const std::string &name, double figure)
{
    checks++;
    failures += !good;
    printf(good ? "ok   %s (%.3g)\n" : "FAIL %s: %.3g\n", name.c_str(), figure);
    fflush(stdout);
}

[[noreturn]] static void stop(const char *what)
{
    printf("FAIL %s\n", what);
    exit(1);
}

static uint32_t noise_state = 1;
static float noise(void) /* roughly normal */
{
    float sum = 0;
    for (int i = 0; i < 4; i++) {
        noise_state = noise_state * 1664525u + 1013904223u;
        sum += (float)(noise_state >> 8) / 16777216.0f - 0.5f;
    }
    return sum * 1.7f;
}

/* ---- the device's side ------------------------------------------------------------------------------------------- */

/* The batches whose results are checked. As in a step, leaf jobs lag: those of batch 0 run after the blends of batch
 * 1. */
enum { LEAVES_BATCH, BLENDS_BATCH };

/* Random activations of a batch: what the host's kernels would have written for a block. */
struct rig_batch {
    std::vector<float> raw, pooled, grad; /* planes as floats */
    std::vector<float> scale, shift;      /* [env][channel] */
    float *sums;                          /* on the device */
};

struct rig {
    struct config config;
    struct cnn_shape shape;
    struct bf16_net net;
    std::vector<struct slot_exec> exec;
    std::vector<float> seed, gate, params;
    struct rig_batch batch[2][SHAPE_BLOCKS];
};

template <class T> static T *upload(struct runtime *rt, const std::vector<T> &v)
{
    T *to = runtime_alloc<T>(rt, v.size() + 16);
    runtime_copy_to(rt, to, v.data(), v.size() * sizeof(T));
    runtime_wait(rt);
    return to;
}

static uint4 *upload_planes(struct runtime *rt, const std::vector<float> &v)
{
    std::vector<uint16_t> bits(v.size());
    for (size_t i = 0; i < v.size(); i++) {
        uint32_t u;
        memcpy(&u, &v[i], 4);
        bits[i] = (uint16_t)(u >> 16);
    }
    return (uint4 *)(void *)upload(rt, bits);
}

static std::vector<float> download_planes(struct runtime *rt, const uint4 *from, size_t count)
{
    std::vector<uint16_t> bits(count);
    std::vector<float> v(count);
    runtime_copy_from(rt, bits.data(), from, count * 2);
    runtime_wait(rt);
    for (size_t i = 0; i < count; i++) {
        uint32_t u = (uint32_t)bits[i] << 16;
        memcpy(&v[i], &u, 4);
    }
    return v;
}

template <class T> static std::vector<T> download(struct runtime *rt, const T *from, size_t count)
{
    std::vector<T> v(count);
    runtime_copy_from(rt, v.data(), from, count * sizeof(T));
    runtime_wait(rt);
    if (rt->failed)
        stop(rt->error.text);
    return v;
}

/* Image n of planes as [channel][pixel]. */
static map_of image_of(const std::vector<float> &planes, size_t n, int channels, int area)
{
    map_of m((size_t)(channels * area));
    for (int c = 0; c < channels; c++)
        for (int p = 0; p < area; p++)
            m[(size_t)(c * area + p)] =
                planes[((n * (size_t)(channels / 8) + (size_t)(c / 8)) * (size_t)area + (size_t)p) * 8 +
                       (size_t)(c % 8)];
    return m;
}

/* What a batch writes for a block: different noise in every batch. */
static void rig_fill(struct rig *rig, int which, int i)
{
    struct runtime *rt = rig->net.runtime;
    const struct net_shape *shape = rig->net.setup.host_shape;
    const struct fast_host *host = &rig->net.host;
    const struct block_shape &b = cnn_shape_of(shape)->block[i];
    const struct fast_block *block = &host->block[i];
    struct rig_batch *own = &rig->batch[which][i];
    const int area = b.height * b.width, envs = host->envs, batch = host->batch;
    const size_t images = (size_t)(envs * batch);
    own->raw.resize(images * (size_t)(b.cout * area));
    own->pooled.resize(own->raw.size() / 4);
    own->grad.resize(own->raw.size() / 4);
    std::vector<float> sums((size_t)(envs * host->chunks * 2 * b.cout));
    for (size_t n = 0; n < images; n++) {
        noise_state = (uint32_t)(n % (size_t)batch + n / (size_t)batch * 512) * 7919u +
                      (uint32_t)(which * 104729 + i); /* independent of the number of envs */
        float *raw = &own->raw[n * (size_t)(b.cout * area)], *grad = &own->grad[n * (size_t)(b.cout * area / 4)];
        for (int k = 0; k < b.cout * area; k++) { /* smooth in x, so that windows differ in kind */
            raw[k] = rounded(noise() + 0.2f);
            float *sum =
                &sums[n / (size_t)batch * (size_t)(host->chunks * 2 * b.cout) + (size_t)(k / (area * 8) * 8 + k % 8)];
            sum[0] += raw[k];
            sum[b.cout] += raw[k] * raw[k];
        }
        for (int k = 0; k < b.cout * area / 4; k++)
            grad[k] = rounded(0.01f * noise());
        for (int plane = 0; plane < b.cout / 8; plane++)
            for (int p = 0; p < area / 4; p++)
                for (int c = 0; c < 8; c++) {
                    const int half = b.width / 2, at = p / half * 2 * b.width + p % half * 2;
                    const float *w = raw + (plane * area + at) * 8 + c;
                    own->pooled[n * (size_t)(b.cout * area / 4) + (size_t)((plane * (area / 4) + p) * 8 + c)] =
                        std::max(std::max(w[0], w[8]), std::max(w[b.width * 8], w[b.width * 8 + 8]));
                }
    }
    for (int e = 0; e < envs; e++)
        for (int c = 0; c < b.cout; c++) {
            const float *at = &sums[(size_t)(e * host->chunks * 2 * b.cout + c)],
                        *p = &rig->params[(size_t)e * shape->host.storage];
            const double count = (double)batch * area, mean = at[0] / count, var = at[b.cout] / count - mean * mean;
            const float scale = fabsf(p[block->gamma + (uint32_t)c]) / sqrtf((float)var + 1e-5f);
            own->scale.push_back(scale);
            own->shift.push_back(p[block->beta + (uint32_t)c] - scale * (float)mean);
        }
    own->sums = upload(rt, sums);
    std::vector<float> norm((size_t)(envs * 2 * b.cout));
    for (size_t c = 0; c < norm.size(); c++)
        norm[c] = (c / (size_t)b.cout % 2 ? own->shift
                                          : own->scale)[c / (size_t)(2 * b.cout) * (size_t)b.cout + c % (size_t)b.cout];
    rig->net.kept[which][i] = {upload_planes(rt, own->raw), upload_planes(rt, own->pooled),
                               upload_planes(rt, own->grad), upload(rt, norm)};
}

/* From now on launches read and write the buffers of this batch. */
static void rig_use(struct rig *rig, int which)
{
    fast_use_buffers(&rig->net, which);
    for (int i = 0; i < rig->net.host.blocks; i++)
        rig->net.host.block[i].sums = rig->batch[which][i].sums;
}

static void rig_open(struct rig *rig, int envs, int batch, bool both_rows)
{
    struct esper_error error = {};
    struct runtime *rt = runtime_create(&error);
    if (!rt)
        stop(error.text);
    *rig = {};
    config_defaults(&rig->config);
    rig->config.slot_count = 0;
    static const char *const names[] = {"r0c0", "r0c1", "r0c2", "r1c0", "r1c1", "r1c2"};
    for (int j = 0; j < (both_rows ? 6 : 3); j++)
        snprintf(rig->config.slots[rig->config.slot_count++], sizeof rig->config.slots[0], "%s", names[j]);
    rig->net.runtime = rt;
    struct net_setup *setup = &rig->net.setup;
    const struct net_shape *shape = &rig->shape.net;
    cnn_shape_init(&rig->shape, &rig->config);
    setup->shape = *shape;
    setup->host_shape = shape;
    setup->envs = envs;
    setup->rates.seed.lr = 0.05f;
    setup->rates.seed.momentum = 0.9f;
    setup->rates.max_grad_norm = 1.0;
    setup->grads = runtime_alloc<struct slot_grads>(rt, (size_t)(envs * shape->slots));

    struct fast_host *host = &rig->net.host;
    host->envs = envs;
    host->batch = batch;
    host->blocks = cnn_shape_of(shape)->blocks;
    host->slots = shape->slots;
    host->chunk_images = fast_chunk_images(batch);
    host->chunks = (batch + host->chunk_images - 1) / host->chunk_images;
    host->params_size = (uint32_t)shape->host.storage;
    host->host_norm = upload(rt, std::vector<double>((size_t)envs, 0.7));
    rig->params.assign((size_t)envs * shape->host.storage, 0);
    const size_t images = (size_t)(envs * batch);
    for (int e = 0; e < envs; e++)
        for (int i = 0; i < cnn_shape_of(shape)->blocks; i++)
            for (int c = 0; c < cnn_shape_of(shape)->block[i].cout; c++) {
                noise_state = (uint32_t)(e * 1000 + i * 100 + c) * 2654435761u + 99u;
                noise();
                float *at = &rig->params[(size_t)e * shape->host.storage];
                at[shape->host.tensor[cnn_shape_of(shape)->block[i].gamma].offset + (size_t)c] =
                    (c % 3 ? 1.0f : -1.0f) * (1.0f + 0.3f * noise());
                at[shape->host.tensor[cnn_shape_of(shape)->block[i].beta].offset + (size_t)c] = 0.3f * noise();
            }
    host->params = upload(rt, rig->params);
    for (int i = 0; i < cnn_shape_of(shape)->blocks; i++) {
        const struct block_shape &b = cnn_shape_of(shape)->block[i];
        struct fast_block *block = &host->block[i];
        const int area = b.height * b.width;
        block->cin = b.cin;
        block->cout = b.cout;
        block->size = b.height;
        block->share = 1.0 / ((double)batch * area);
        block->slot[0] = b.slot[0];
        block->slot[1] = b.slot[1];
        block->gamma = (uint32_t)shape->host.tensor[b.gamma].offset;
        block->beta = (uint32_t)shape->host.tensor[b.beta].offset;
        for (int which : {LEAVES_BATCH, BLENDS_BATCH})
            rig_fill(rig, which, i);
        const size_t cells = images * (size_t)(b.cout / 8 * area);
        block->act = runtime_alloc<uint4>(rt, cells / 4);
        block->grad = runtime_alloc<uint4>(rt, cells / 4);
        block->grad_full = runtime_alloc<uint4>(rt, cells);
        block_jobs(block, batch);
        block->back = runtime_alloc<float>(rt, (size_t)(envs * block->jobs * 2 * b.cout));
    }
    rig->exec.assign((size_t)(envs * shape->slots), {});
    rig->seed.assign((size_t)envs * shape->seed_storage, 0);
    rig->gate.assign((size_t)envs * shape->gate_storage, 0);
    setup->exec = runtime_alloc<struct slot_exec>(rt, rig->exec.size());
    host->exec = setup->exec;
    setup->seed = runtime_alloc<float>(rt, rig->seed.size());
    setup->seed_momentum = runtime_alloc<float>(rt, rig->seed.size());
    setup->gate = runtime_alloc<float>(rt, rig->gate.size());
    setup->gate_momentum = runtime_alloc<float>(rt, rig->gate.size());
    setup->source.conditions.lr_factor = upload(rt, std::vector<float>((size_t)envs, 1.0f));
    if (!cnn_bf16_fits(shape, batch))
        stop("the shape does not fit");
    rig->net.seeds = seed_create(&rig->net);
    if (!rig->net.seeds)
        stop(rt->error.text);
}

static void rig_close(struct rig *rig)
{
    seed_free(rig->net.seeds);
    runtime_free(rig->net.runtime);
}

/* Slots of the row in this state, with fresh random parameters. */
static void rig_set(struct rig *rig, int row, int mode, int blueprint, int algorithm, float alpha)
{
    const struct net_shape *shape = rig->net.setup.host_shape;
    for (int e = 0; e < rig->net.setup.envs; e++)
        for (int j = 0; j < shape->slots; j++) {
            if (shape->slot[j].row != row)
                continue;
            struct slot_exec *exec = &rig->exec[(size_t)(e * shape->slots + j)];
            *exec = {};
            exec->mode = (uint8_t)mode;
            exec->blueprint = (uint8_t)blueprint;
            exec->algorithm = (uint8_t)algorithm;
            exec->isolate = mode == SLOT_STE;
            exec->train = mode != SLOT_SKIP;
            exec->gate = mode == SLOT_BLEND && algorithm == ALGORITHM_GATE;
            exec->alpha = alpha;
            struct param_layout layout;
            float *w = &rig->seed[(size_t)e * shape->seed_storage + shape->slot[j].seed];
            blueprint_layout(blueprint, cnn_shape_of(shape)->site[j].channels, &layout);
            layout_init(&layout, 7, STREAM_SEED_INIT, 0, (uint32_t)e, (uint32_t)(j * 256), w);
            noise_state = (uint32_t)(e * 100 + j + 1) * 40503u;
            for (int t = 0; t < layout.count; t++) /* constants and zeros would hide mistakes */
                for (size_t k = 0; k < layout.tensor[t].size; k++)
                    w[layout.tensor[t].offset + k] += (layout.tensor[t].fan_in ? 0.02f : 0.3f) * noise();
            gate_layout(cnn_shape_of(shape)->site[j].channels, &layout);
            layout_init(&layout, 7, STREAM_SEED_INIT, 0, (uint32_t)e, (uint32_t)(j * 256),
                        &rig->gate[(size_t)e * shape->gate_storage + shape->slot[j].gate]);
        }
}

static void rig_run(struct rig *rig)
{
    struct runtime *rt = rig->net.runtime;
    runtime_copy_to(rt, rig->net.setup.exec, rig->exec.data(), rig->exec.size() * sizeof rig->exec[0]);
    runtime_copy_to(rt, rig->net.setup.seed, rig->seed.data(), rig->seed.size() * sizeof(float));
    runtime_copy_to(rt, rig->net.setup.gate, rig->gate.data(), rig->gate.size() * sizeof(float));
    seed_plan(&rig->net);
    runtime_wait(rt); /* in a step the host's kernels come in between */
    bool leaves = false;
    for (const struct slot_exec &exec : rig->exec)
        leaves = leaves || exec.mode == SLOT_STE;
    for (int which : {LEAVES_BATCH, BLENDS_BATCH}) {
        if (which == LEAVES_BATCH && !leaves) /* its results are not checked */
            continue;
        rig_use(rig, which);
        for (int i = 0; i < rig->net.host.blocks; i++)
            seed_blend_forward(&rig->net, i);
        for (int i = rig->net.host.blocks - 1; i >= 0; i--)
            seed_blend_backward(&rig->net, i);
    }
    rig_use(rig, LEAVES_BATCH);
    for (int i = rig->net.host.blocks - 1; i >= 0; i--)
        seed_leaf(&rig->net, i);
    runtime_wait(rt);
    if (rt->failed)
        stop(rt->error.text);
}

static void rig_update(struct rig *rig)
{
    seed_update(&rig->net, SLOT_STE);
    seed_update(&rig->net, SLOT_BLEND);
}

/* The chunks' gradients of a slot, summed: seed, then gate. */
static std::vector<float> rig_grads(struct rig *rig, int env, int slot)
{
    const struct seed_slot &s = rig->net.seeds->slot[slot];
    const struct fast_host &host = rig->net.host;
    const int chunks = host.block[s.block].jobs, filled = rig->exec[(size_t)(env * host.slots + slot)].mode == SLOT_STE
                                                              ? (host.batch + LEAF_IMAGES - 1) / LEAF_IMAGES
                                                              : chunks;
    std::vector<float> part = download(rig->net.runtime, s.part + (size_t)(env * chunks) * s.record,
                                       (size_t)chunks * s.record),
                       sum(s.record);
    for (int c = 0; c < filled; c++)
        for (size_t k = 0; k < s.record; k++)
            sum[k] += part[(size_t)c * s.record + k];
    return sum;
}

/* ---- comparison -------------------------------------------------------------------------------------------------- */

struct difference {
    double error, size;
    void add(double got, double want)
    {
        error += (got - want) * (got - want);
        size += want * want;
        if (got != got)
            error = INFINITY;
    }
    double ratio() const
    {
        return error == 0 ? 0 : std::sqrt(error / size);
    }
};

struct expected {
    std::vector<double> seed_grad, gate_grad;
    std::vector<map_of> out, grad; /* per image: the block's output, the gradient at the block's ReLU */
    std::vector<double> back;      /* [2][channels] */
};

/* Block i of env e by the model, in one of the batches. */
static void model_block(const struct rig &rig, int which, int e, int i, bool rounds, struct expected want[SLOT_ROWS])
{
    const struct rig_batch &own = rig.batch[which][i];
    const struct net_shape *shape = rig.net.setup.host_shape;
    const struct block_shape &b = cnn_shape_of(shape)->block[i];
    const int area = b.height * b.width, batch = rig.net.host.batch, c = b.cout;
    model full = {c, b.height, rounds}, half = {c, b.height / 2, rounds};
    struct slot_exec none = {};
    const struct slot_exec exec0 = b.slot[0] < 0 ? none : rig.exec[(size_t)(e * shape->slots + b.slot[0])];
    const struct slot_exec exec1 = b.slot[1] < 0 ? none : rig.exec[(size_t)(e * shape->slots + b.slot[1])];
    for (int row = 0; row < SLOT_ROWS; row++)
        if (b.slot[row] >= 0) {
            want[row].seed_grad.assign(shape->slot[b.slot[row]].seed_storage, 0);
            want[row].gate_grad.assign(shape->slot[b.slot[row]].gate_storage, 0);
        }
    want[0].back.assign((size_t)(2 * c), 0);
    for (int n = 0; n < batch; n++) {
        const size_t image = (size_t)(e * batch + n);
        const map_of raw = image_of(own.raw, image, c, area), pooled = image_of(own.pooled, image, c, area / 4);
        map_of g = image_of(own.grad, image, c, area / 4), h = raw, p = pooled;
        for (int k = 0; k < c * area; k++)
            h[(size_t)k] = full.r(std::max(0.0, raw[(size_t)k] * (double)own.scale[(size_t)(e * c + k / area)] +
                                                    (double)own.shift[(size_t)(e * c + k / area)]));
        for (int k = 0; k < c * area / 4; k++)
            p[(size_t)k] =
                full.r(std::max(0.0, pooled[(size_t)k] * (double)own.scale[(size_t)(e * c + k / (area / 4))] +
                                         (double)own.shift[(size_t)(e * c + k / (area / 4))]));
        map_of y = h, out = p;
        const float *w0 = b.slot[0] < 0 ? NULL
                                        : &rig.seed[(size_t)e * shape->seed_storage + shape->slot[b.slot[0]].seed];
        const float *w1 = b.slot[1] < 0 ? NULL
                                        : &rig.seed[(size_t)e * shape->seed_storage + shape->slot[b.slot[1]].seed];
        const float *g0 = b.slot[0] < 0 ? NULL
                                        : &rig.gate[(size_t)e * shape->gate_storage + shape->slot[b.slot[0]].gate];
        const float *g1 = b.slot[1] < 0 ? NULL
                                        : &rig.gate[(size_t)e * shape->gate_storage + shape->slot[b.slot[1]].gate];
        model_blend blend0(full, exec0, w0, g0), blend1(half, exec1, w1, g1);
        if (exec0.mode == SLOT_BLEND) {
            y = blend0.forward(h);
            p = out = pooled_of(y, c, b.height);
        }
        if (exec1.mode == SLOT_BLEND)
            out = blend1.forward(p);
        want[0].out.push_back(out);
        if (exec1.mode == SLOT_BLEND) {
            g = blend1.backward(g, want[1].seed_grad.data(), want[1].gate_grad.data());
            half.round(g);
        } else if (exec1.mode == SLOT_STE) {
            model_seed leaf(half, exec1.blueprint, w1);
            leaf.forward(p);
            leaf.backward(g, want[1].seed_grad.data());
        }
        if (exec0.mode == SLOT_BLEND) {
            map_of dh = blend0.backward(unpool(y, g, c, b.height), want[0].seed_grad.data(), want[0].gate_grad.data());
            for (int k = 0; k < c * area; k++) {
                double &v = dh[(size_t)k];
                v = h[(size_t)k] > 0 ? full.r(v) : 0;
                want[0].back[(size_t)(k / area)] += v;
                want[0].back[(size_t)(c + k / area)] += v * raw[(size_t)k];
            }
            want[0].grad.push_back(dh);
            continue;
        }
        if (exec0.mode == SLOT_STE) {
            model_seed leaf(full, exec0.blueprint, w0);
            leaf.forward(h);
            leaf.backward(unpool(h, g, c, b.height), want[0].seed_grad.data());
        }
        for (int k = 0; k < c * area / 4; k++) {
            double &v = g[(size_t)k];
            v = p[(size_t)k] > 0 ? v : 0;
            want[0].back[(size_t)(k / (area / 4))] += v;
            want[0].back[(size_t)(c + k / (area / 4))] += v * pooled[(size_t)k];
        }
        want[0].grad.push_back(g);
    }
}

/*
 * Everything that the kernels wrote for env e, compared with the model. The worst difference of any tensor; without
 * rounding, where small tensors of cancelling sums say little, the worst of a kind taken over all slots.
 */
static double compare(struct rig *rig, int e, bool rounds, std::string *where)
{
    const struct net_shape *shape = rig->net.setup.host_shape;
    double worst = 0;
    difference whole_grad = {}, whole_act = {}, whole_seed = {};
    const auto note = [&](const difference &d, const std::string &name) {
        difference *sum = name.find(".act") != std::string::npos ? &whole_act
                          : name.find("block") == 0              ? &whole_grad
                                                                 : &whole_seed;
        if (!rounds && name.find("sum") == std::string::npos && name.find("moment") == std::string::npos) {
            sum->error += d.error;
            sum->size += d.size;
        }
        if (!rounds)
            return;
        if (d.size > 0 && !(d.ratio() <= worst)) {
            worst = d.ratio();
            *where = name;
        }
        if (d.size == 0 && d.error > 0) {
            worst = INFINITY;
            *where = name;
        }
    };
    for (int i = 0; i < cnn_shape_of(shape)->blocks; i++) {
        const struct block_shape &b = cnn_shape_of(shape)->block[i];
        const struct fast_block &block = rig->net.host.block[i];
        const int area = b.height * b.width, batch = rig->net.host.batch;
        struct expected leaves[SLOT_ROWS], blends[SLOT_ROWS];
        int mode[SLOT_ROWS];
        for (int row = 0; row < SLOT_ROWS; row++)
            mode[row] = b.slot[row] < 0 ? (int)SLOT_SKIP
                                        : (int)rig->exec[(size_t)(e * shape->slots + b.slot[row])].mode;
        if (mode[0] == SLOT_STE || mode[1] == SLOT_STE)
            model_block(*rig, LEAVES_BATCH, e, i, rounds, leaves);
        if (mode[0] == SLOT_BLEND || mode[1] == SLOT_BLEND)
            model_block(*rig, BLENDS_BATCH, e, i, rounds, blends);
        for (int row = 0; row < SLOT_ROWS; row++) {
            const int j = b.slot[row];
            if (mode[row] == SLOT_SKIP)
                continue;
            const struct slot_exec &exec = rig->exec[(size_t)(e * shape->slots + j)];
            const struct expected &want = (mode[row] == SLOT_STE ? leaves : blends)[row];
            std::vector<float> got = rig_grads(rig, e, j);
            struct param_layout layout;
            blueprint_layout(exec.blueprint, b.cout, &layout);
            for (int t = 0; t < layout.count; t++) {
                difference d = {};
                for (size_t k = layout.tensor[t].offset; k < layout.tensor[t].offset + layout.tensor[t].size; k++)
                    d.add(got[k], want.seed_grad[k]);
                note(d, std::string(shape->slot[j].id) + "." + layout.tensor[t].name);
            }
            gate_layout(b.cout, &layout);
            for (int t = 0; exec.gate && t < layout.count; t++) {
                difference d = {};
                for (size_t k = layout.tensor[t].offset; k < layout.tensor[t].offset + layout.tensor[t].size; k++)
                    d.add(got[shape->slot[j].seed_storage + k], want.gate_grad[k]);
                note(d, std::string(shape->slot[j].id) + "." + layout.tensor[t].name);
            }
        }
        if (mode[0] != SLOT_BLEND && mode[1] != SLOT_BLEND)
            continue;
        const bool whole = mode[0] == SLOT_BLEND;
        const size_t cells = rig->batch[BLENDS_BATCH][i].pooled.size();
        std::vector<float> act = download_planes(rig->net.runtime, block.act, cells);
        std::vector<float> grad =
            download_planes(rig->net.runtime, whole ? block.grad_full : block.grad, whole ? 4 * cells : cells);
        std::vector<float> back = download(rig->net.runtime, block.back + (size_t)(e * block.jobs * 2 * b.cout),
                                           (size_t)(block.jobs * 2 * b.cout));
        difference d_act = {}, d_grad = {}, d_sum = {}, d_moment = {};
        for (int n = 0; n < batch; n++) {
            const size_t image = (size_t)(e * batch + n);
            const map_of a = image_of(act, image, b.cout, area / 4),
                         g = image_of(grad, image, b.cout, whole ? area : area / 4);
            for (size_t k = 0; k < a.size(); k++)
                d_act.add(a[k], blends[0].out[(size_t)n][k]);
            for (size_t k = 0; k < g.size(); k++)
                d_grad.add(g[k], blends[0].grad[(size_t)n][k]);
        }
        for (int c = 0; c < b.cout; c++) {
            double sum = 0, moment = 0;
            for (int k = 0; k < block.jobs; k++) {
                sum += back[(size_t)(2 * k * b.cout + c)];
                moment += back[(size_t)((2 * k + 1) * b.cout + c)];
            }
            d_sum.add(sum, blends[0].back[(size_t)c]);
            d_moment.add(moment, blends[0].back[(size_t)(b.cout + c)]);
        }
        const std::string name = "block" + std::to_string(i);
        note(d_act, name + ".act");
        note(d_grad, name + ".grad");
        note(d_sum, name + ".sum");
        note(d_moment, name + ".moment");
    }
    if (!rounds) {
        worst = std::max(std::max(whole_grad.ratio(), whole_act.ratio()), whole_seed.ratio());
        *where = worst == whole_seed.ratio() ? "parameters" : worst == whole_act.ratio() ? "output" : "input gradient";
    }
    return worst;
}

static void check_state(struct rig *rig, const std::string &name)
{
    rig_run(rig);
    std::string where;
    const int last = rig->net.setup.envs - 1;
    double alike = compare(rig, last, true, &where);
    check(alike <= 0.01, name + ", rounded alike, worst " + where, alike);
    double exact = compare(rig, last, false, &where);
    check(exact <= 0.2, name + ", unrounded, worst " + where, exact);
}

static const char *const mode_names[] = {"skip", "leaf", "blend"};

static void check_all(int envs, int batch)
{
    struct rig rig;
    rig_open(&rig, envs, batch, true);
    for (int blueprint = 0; blueprint < BLUEPRINT_COUNT; blueprint++) {
        const std::string name = std::string(blueprint_name(blueprint)) + " ";
        rig_set(&rig, 0, SLOT_STE, blueprint, ALGORITHM_NONE, 0);
        rig_set(&rig, 1, SLOT_STE, blueprint, ALGORITHM_NONE, 0);
        check_state(&rig, name + "leaves");
        const int algorithm = blueprint % 3 == 0   ? ALGORITHM_GATE
                              : blueprint % 3 == 1 ? ALGORITHM_ADD
                                                   : ALGORITHM_MULTIPLY;
        rig_set(&rig, 0, SLOT_BLEND, blueprint, algorithm, 0.6f);
        rig_set(&rig, 1, SLOT_SKIP, 0, ALGORITHM_NONE, 0);
        check_state(&rig, name + "r0 " + algorithm_name(algorithm));
        const int other = algorithm % 3 + 1;
        rig_set(&rig, 0, SLOT_SKIP, 0, ALGORITHM_NONE, 0);
        rig_set(&rig, 1, SLOT_BLEND, blueprint, other, 0.3f);
        check_state(&rig, name + "r1 " + algorithm_name(other));
    }
    for (int r0 = SLOT_STE; r0 <= SLOT_BLEND; r0++)
        for (int r1 = SLOT_STE; r1 <= SLOT_BLEND; r1++) {
            if (r0 == SLOT_STE && r1 == SLOT_STE)
                continue;
            rig_set(&rig, 0, r0, BLUEPRINT_CONV_LIGHT, ALGORITHM_ADD, 0.5f);
            rig_set(&rig, 1, r1, BLUEPRINT_CONV_SMALL, ALGORITHM_ADD, 0.5f);
            check_state(&rig, std::string("both rows, ") + mode_names[r0] + " and " + mode_names[r1]);
        }
    rig_set(&rig, 0, SLOT_BLEND, BLUEPRINT_CONV_LIGHT, ALGORITHM_ADD, 0.0f);
    rig_set(&rig, 1, SLOT_SKIP, 0, ALGORITHM_NONE, 0);
    rig_run(&rig);
    std::vector<float> got = rig_grads(&rig, 0, 0);
    double most = 0;
    for (float x : got)
        most = std::max(most, (double)fabsf(x));
    check(most == 0, "alpha 0 leaves no gradient", most);
    rig_close(&rig);
}

/* ---- bit-identical ----------------------------------------------------------------------------------------------- */

static std::vector<float> bits_of(int envs, int resident, int runs)
{
    struct rig rig;
    std::vector<float> all;
    rig_open(&rig, envs, 9, false);
    rig.net.resident = resident;
    rig_set(&rig, 0, SLOT_STE, BLUEPRINT_CONV_LIGHT, ALGORITHM_NONE, 0);
    for (int e = 0; e < envs; e++) { /* block 2 blends in every env, block 1 in the first only */
        rig.exec[(size_t)(e * 3 + 2)].mode = SLOT_BLEND;
        rig.exec[(size_t)(e * 3 + 2)].algorithm = ALGORITHM_ADD;
        rig.exec[(size_t)(e * 3 + 2)].alpha = 0.4f;
        rig.exec[(size_t)(e * 3 + 1)].mode = e == 0 ? SLOT_BLEND : SLOT_SKIP;
        rig.exec[(size_t)(e * 3 + 1)].alpha = 0.4f;
        rig.exec[(size_t)(e * 3 + 1)].algorithm = ALGORITHM_MULTIPLY;
    }
    for (int k = 0; k < runs; k++)
        rig_run(&rig);
    rig_update(&rig);
    seed_measure(&rig.net);
    for (int j = 0; j < 3; j++) {
        std::vector<float> g = rig_grads(&rig, 0, j);
        all.insert(all.end(), g.begin(), g.end());
    }
    std::vector<float> w = download(rig.net.runtime, rig.net.setup.seed, rig.net.setup.shape.seed_storage);
    all.insert(all.end(), w.begin(), w.end());
    rig_close(&rig);
    return all;
}

static double bits_differ(const std::vector<float> &a, const std::vector<float> &b)
{
    double count = a.size() != b.size();
    for (size_t k = 0; k < a.size() && k < b.size(); k++)
        count += memcmp(&a[k], &b[k], 4) != 0;
    return count;
}

static void check_bits(void)
{
    const std::vector<float> alone = bits_of(1, 0, 1);
    const double again = bits_differ(alone, bits_of(1, 0, 2)), among = bits_differ(alone, bits_of(3, 0, 1)),
                 few = bits_differ(alone, bits_of(3, 2, 1));
    check(again == 0, "the same bits twice", again);
    check(among == 0, "the same bits among three envs", among);
    check(few == 0, "the same bits on two resident blocks", few);
}

/* ---- update ------------------------------------------------------------------------------------------------------ */

static void check_update(void)
{
    struct rig rig;
    rig_open(&rig, 2, 9, false);
    struct runtime *rt = rig.net.runtime;
    rig_set(&rig, 0, SLOT_BLEND, BLUEPRINT_CONV_LIGHT, ALGORITHM_GATE, 0.6f);
    rig_run(&rig);
    const struct net_shape *shape = rig.net.setup.host_shape;
    std::vector<float> seed = rig.seed, gate = rig.gate;
    rig_update(&rig);
    seed_measure(&rig.net);
    std::vector<float> got = download(rt, rig.net.setup.seed, seed.size()),
                       got_gate = download(rt, rig.net.setup.gate, gate.size());
    std::vector<struct slot_grads> grads = download(rt, rig.net.setup.grads, (size_t)(2 * shape->slots));
    difference d = {};
    double norm_error = 0;
    for (int e = 0; e < 2; e++)
        for (int j = 0; j < shape->slots; j++) {
            const struct slot_shape &s = shape->slot[j];
            std::vector<float> g = rig_grads(&rig, e, j);
            struct param_layout layout;
            double square = 0;
            std::vector<bool> used(s.seed_storage + s.gate_storage);
            blueprint_layout(BLUEPRINT_CONV_LIGHT, cnn_shape_of(shape)->site[j].channels, &layout);
            for (int t = 0; t < layout.count; t++)
                for (size_t k = 0; k < layout.tensor[t].size; k++)
                    used[layout.tensor[t].offset + k] = true;
            gate_layout(cnn_shape_of(shape)->site[j].channels, &layout);
            for (int t = 0; t < layout.count; t++)
                for (size_t k = 0; k < layout.tensor[t].size; k++)
                    used[s.seed_storage + layout.tensor[t].offset + k] = true;
            for (size_t k = 0; k < g.size(); k++)
                square += used[k] ? (double)g[k] * (double)g[k] : 0;
            const double norm = std::sqrt(square), factor = std::min(1.0, 1.0 / (norm + 1e-6));
            norm_error = std::max(norm_error, std::fabs(grads[(size_t)(e * shape->slots + j)].norm - norm) / norm);
            for (size_t k = 0; k < s.seed_storage; k++)
                d.add(got[(size_t)e * shape->seed_storage + s.seed + k] -
                          seed[(size_t)e * shape->seed_storage + s.seed + k],
                      used[k] ? -0.05 * factor * (double)g[k] : 0);
            for (size_t k = 0; k < s.gate_storage; k++)
                d.add(got_gate[(size_t)e * shape->gate_storage + s.gate + k] -
                          gate[(size_t)e * shape->gate_storage + s.gate + k],
                      used[s.seed_storage + k] ? -0.05 * factor * (double)g[s.seed_storage + k] : 0);
        }
    check(d.ratio() < 1e-3, "a step of clipped descent", d.ratio());
    check(norm_error < 1e-6, "measured norms", norm_error);
    check(grads[0].measured && grads[0].finite && grads[0].health == 1 && grads[0].ratio > 0,
          "measured health and ratio", grads[0].ratio);
    rig_close(&rig);
}

/* ---- whole networks compared with the CPU's fp32 ----------------------------------------------------------------- */

struct grown {
    struct engine *engine;
    struct runtime *runtime;
    struct mirror mirror;
    struct net_device *net;
};

static struct config grown_config(int envs, int batch, int batches, int images, int slots)
{
    struct config config;
    struct esper_error error = {};
    config_defaults(&config);
    config.envs = envs;
    config.threads = 1;
    config.device = WISH_CPU;           /* the reference */
    config.reward.mode = REWARD_SHAPED; /* whose first step is not a twin's */
    static const char *const names[] = {"r0c0", "r0c1", "r0c2", "r1c0", "r1c1", "r1c2"};
    config.slot_count = slots;
    for (int j = 0; j < slots; j++)
        snprintf(config.slots[j], sizeof config.slots[j], "%s", names[j]);
    config.max_seeds = 0;
    config.mixed = {0.02, 0.3, 3}; /* every env has its own images, labels and learning rate */
    config.data_set = DATA_SYNTHETIC;
    config.data_size = 32;
    config.data_batch = batch;
    config.data_batches = batches;
    config.data_val_images = images;
    config.data_test_images = images;
    config.max_grad_norm = 1e9;
    config.policy.kind = POLICY_RANDOM;
    if (config_check(&config, &error) != ESPER_OK)
        stop(error.text);
    return config;
}

static void grown_open(struct grown *grown, const struct config &config)
{
    struct esper_error error = {};
    *grown = {};
    if (engine_create(&grown->engine, &config, &error) != ESPER_OK)
        stop(error.text);
    engine_begin(grown->engine);
    grown->runtime = runtime_create(&error);
    if (!grown->runtime)
        stop(error.text);
    struct device_setup given = {};
    given.data = grown->engine->data;
    given.rates = &grown->engine->rates;
    given.batches = grown->engine->batches;
    mirror_create(&grown->mirror, grown->runtime, grown->engine->world);
    const struct net_setup setup = mirror_net_setup(&grown->mirror, &given);
    grown->net = cnn_bf16.create(grown->runtime, &setup);
    if (!grown->net)
        stop("cnn_bf16 does not take the host");
}

static void grown_write(struct grown *grown)
{
    mirror_write(&grown->mirror, grown->engine->world->table.rows, grown->engine->world->table.count);
}

static void grown_read(struct grown *grown)
{
    mirror_read(&grown->mirror, grown->engine->world->table.rows, grown->engine->world->table.count);
    if (grown->runtime->failed)
        stop(grown->runtime->error.text);
}

/* A live seed without zero parameters. */
static void plant(struct world *world, int env, int slot, int stage, int blueprint, int algorithm, float alpha)
{
    struct slot_state state;
    slot_clear(&state);
    state.stage = (uint8_t)stage;
    state.blueprint = (uint8_t)blueprint;
    state.algorithm = (uint8_t)algorithm;
    state.alpha = alpha;
    state.germinations = 1;
    world_set_slot(world, env, slot, &state);
    const struct slot_shape *shape = &world->shape.slot[slot];
    const int channels = world->host_shape.cnn.site[slot].channels;
    struct net_params params = world_params(world, env);
    struct param_layout layout;
    blueprint_layout(blueprint, channels, &layout);
    layout_init(&layout, 5, STREAM_SEED_INIT, 0, (uint32_t)env, (uint32_t)(slot * 256), params.seed + shape->seed);
    for (size_t k = 0; k < layout.storage; k++)
        params.seed[shape->seed + k] += params.seed[shape->seed + k] != 0 ? 0.1f * noise() : 0;
    gate_layout(channels, &layout);
    layout_init(&layout, 6, STREAM_SEED_INIT, 0, (uint32_t)env, (uint32_t)(slot * 256), params.gate + shape->gate);
}

/* Env 0 is bare, env 1 trains seeds, env 2 blends before the pools, env 3 everywhere. */
static void plant_all(struct world *world)
{
    noise_state = 4711;
    for (int j = 0; j < 6 && world->envs > 1; j++)
        plant(world, 1, j, STAGE_TRAINING, 1 + j, ALGORITHM_ADD, 0);
    for (int j = 0; j < 3 && world->envs > 2; j++)
        plant(world, 2, j, STAGE_BLENDING,
              j == 0   ? BLUEPRINT_CONV_LIGHT
              : j == 1 ? BLUEPRINT_CONV_HEAVY
                       : BLUEPRINT_BOTTLENECK,
              1 + j, 0.6f);
    for (int j = 0; j < 6 && world->envs > 3; j++)
        plant(world, 3, j,
              j == 4   ? STAGE_TRAINING
              : j == 5 ? STAGE_FOSSILIZED
                       : STAGE_HOLDING,
              (j * 3 + 1) % BLUEPRINT_COUNT, 1 + j % 3, j == 5 ? 1.0f : 0.4f);
}

static double step_difference(size_t count, const float *before, const float *got, const float *want)
{
    difference d = {};
    for (size_t k = 0; k < count; k++)
        d.add(got[k] - before[k], want[k] - before[k]);
    return d.size > 0 ? d.ratio() : d.error > 0 ? INFINITY : 0;
}

/* Every set of an env's slots that are on, measured at once: those of the preceding evaluation yield the same
 * counts. */
static void check_sets(struct grown *grown, const std::vector<uint32_t> &correct)
{
    struct sets {
        int count;
        uint32_t mask[NET_SETS_MAX], correct[NET_SETS_MAX];
    };
    const struct world *world = grown->engine->world;
    struct runtime *rt = grown->runtime;
    std::vector<sets> sets((size_t)world->envs);
    for (int e = 2; e < world->envs; e++)
        for (uint32_t mask = 0; mask < 64; mask++)
            if (!(mask & ~world->subset_all[e]))
                sets[(size_t)e].mask[sets[(size_t)e].count++] = mask;
    struct sets *device = upload(rt, sets);
    cnn_bf16.measure(grown->net, {&device->count, device->mask, device->correct, sizeof *device / sizeof(uint32_t)});
    const std::vector<struct sets> got = download(rt, device, sets.size());
    int same = 0, among = 0;
    for (int e = 0; e < world->envs; e++) {
        const struct sets &own = got[(size_t)e];
        for (int k = 0; k < own.count; k++)
            for (uint32_t i = 0; i < world->subset_count[e]; i++)
                if (world->subset_mask[(uint32_t)e * SUBSETS_MAX + i] == own.mask[k]) {
                    among++;
                    same += correct[(size_t)e * SUBSETS_MAX + i] == own.correct[k];
                }
    }
    check(among >= 8 + 12 && same == among, "sets counted as in the evaluation, of " + std::to_string(among), same);
}

static void check_networks(int images)
{
    enum { ENVS = 4 };
    struct grown grown;
    struct config config = grown_config(ENVS, 12, 1, images, 6);
    grown_open(&grown, config);
    struct world *world = grown.engine->world;
    plant_all(world);
    grown_write(&grown);
    cnn_bf16.evaluate(grown.net);
    grown_read(&grown);
    std::vector<uint32_t> correct(world->subset_correct, world->subset_correct + ENVS * SUBSETS_MAX);
    check_sets(&grown, correct);
    std::vector<uint32_t> count(world->subset_count, world->subset_count + ENVS);
    std::vector<double> loss(world->val_loss, world->val_loss + ENVS), test(ENVS), reference(ENVS);
    engine_evaluate(grown.engine);
    double most = 0, loss_error = 0, test_error = 0;
    int configs = 0;
    for (int e = 0; e < ENVS; e++) {
        if (count[(size_t)e] != world->subset_count[e])
            most = INFINITY;
        for (uint32_t k = 0; k < count[(size_t)e]; k++, configs++)
            most = std::max(most, std::fabs((double)correct[(size_t)e * SUBSETS_MAX + k] -
                                            (double)world->subset_correct[e * SUBSETS_MAX + (int)k]));
        loss_error = std::max(loss_error, std::fabs(loss[(size_t)e] - world->val_loss[e]) / world->val_loss[e]);
    }
    check(most <= 1 + 0.01 * images, "counts of " + std::to_string(configs) + " configurations, images apart", most);
    check(loss_error < 0.01, "validation loss", loss_error);
    cnn_bf16.test(grown.net);
    test = download(grown.runtime, grown.net->setup.test_accuracy, ENVS);
    engine_test(grown.engine, reference.data());
    for (int e = 0; e < ENVS; e++)
        test_error = std::max(test_error, std::fabs(test[(size_t)e] - reference[(size_t)e]));
    check(test_error <= 1 + 100.0 / images, "test accuracy, points apart", test_error);

    /* one batch of training */
    const struct net_shape *shape = &world->shape;
    plant_all(world);
    const std::vector<float> host(world->host, world->host + ENVS * shape->host.storage),
        seed(world->seed, world->seed + ENVS * shape->seed_storage);
    grown_write(&grown);
    cnn_bf16.train(grown.net);
    engine_train(grown.engine);
    const std::vector<float> want_host(world->host, world->host + ENVS * shape->host.storage),
        want_seed(world->seed, world->seed + ENVS * shape->seed_storage);
    const std::vector<double> want_loss(world->train_loss, world->train_loss + ENVS);
    grown_read(&grown);
    for (int e = 0; e < ENVS; e++) {
        const std::string name = "a training step of env " + std::to_string(e);
        const size_t at = (size_t)e * shape->host.storage;
        const double error = step_difference(shape->host.storage, &host[at], world->host + at, &want_host[at]);
        check(error < 0.15, name + ", host", error);
        check(std::fabs(world->train_loss[e] / want_loss[(size_t)e] - 1) < 0.02, name + ", loss", world->train_loss[e]);
        for (int j = 0; j < shape->slots; j++) {
            if (!stage_is_live(world_slot(world, e, j).stage))
                continue;
            const size_t from = (size_t)e * shape->seed_storage + shape->slot[j].seed;
            const double apart =
                step_difference(shape->slot[j].seed_storage, &seed[from], world->seed + from, &want_seed[from]);
            check(apart < 0.25,
                  name + ", " + shape->slot[j].id + " " + blueprint_name(world_slot(world, e, j).blueprint), apart);
        }
    }
    cnn_bf16.free(grown.net);
    runtime_free(grown.runtime);
    engine_free(grown.engine);
}

/* ---- streams ----------------------------------------------------------------------------------------------------- */

/* In two blocks a seed trains, a batch behind the host, beside a blended one: one reads the output of r0, one that of
 * r1. */
static void plant_rows(struct world *world)
{
    noise_state = 815;
    for (int e = 0; e < world->envs; e++) {
        plant(world, e, 0, STAGE_HOLDING, BLUEPRINT_CONV_LIGHT, ALGORITHM_ADD, 0.5f);
        plant(world, e, 3, STAGE_TRAINING, BLUEPRINT_CONV_SMALL, ALGORITHM_ADD, 0);
        plant(world, e, 1, STAGE_TRAINING, BLUEPRINT_NORM, ALGORITHM_ADD, 0);
        plant(world, e, 4, STAGE_HOLDING, BLUEPRINT_CONV_LIGHT, ALGORITHM_MULTIPLY, 0.5f);
    }
}

/* Everything in the world after a captured step from the given state. */
typedef std::vector<std::vector<char>> arenas;
static arenas step_from(struct grown *grown, struct graph *graph, const arenas &state)
{
    const struct table *table = &grown->engine->world->table;
    arenas after;
    for (int c = 0; c < CLASS_COUNT; c++)
        memcpy(table->arena[c], state[(size_t)c].data(), state[(size_t)c].size());
    grown_write(grown);
    if (graph_begin(grown->runtime, graph))
        cnn_bf16.train(grown->net);
    graph_run(grown->runtime, graph);
    grown_read(grown);
    for (int c = 0; c < CLASS_COUNT; c++)
        after.emplace_back((char *)table->arena[c], (char *)table->arena[c] + table->arena_bytes[c]);
    return after;
}

/* Bits do not depend on the order in which streams execute what events permit: in the emulator the extreme orders, on a
 * device those that occur. There are enough batches for buffers to be reused. */
static void check_orders(int envs, int batch)
{
    struct grown grown;
    struct graph graph = {};
    grown_open(&grown, grown_config(envs, batch, 4, 8, 6));
    const struct table *table = &grown.engine->world->table;
    plant_rows(grown.engine->world);
    arenas state;
    for (int c = 0; c < CLASS_COUNT; c++)
        state.emplace_back((char *)table->arena[c], (char *)table->arena[c] + table->arena_bytes[c]);
#ifdef EMULATE
    const emulate::order asked = emulate::order_taken;
    emulate::order_taken = emulate::order::capture;
    const arenas first = step_from(&grown, &graph, state);
    emulate::order_taken = emulate::order::late;
    check(step_from(&grown, &graph, state) == first, "the same bits with side streams late", envs);
    emulate::order_taken = emulate::order::early;
    check(step_from(&grown, &graph, state) == first, "the same bits with side streams early", envs);
    emulate::order_taken = asked;
#else
    const arenas first = step_from(&grown, &graph, state);
    int same = 0, steps = 40;
    for (int k = 0; k < steps; k++)
        same += step_from(&grown, &graph, state) == first;
    check(same == steps, "the same bits in every step from the same state", same);
#endif
    check(first != state, "a step changes something", 0);
    graph_free(&graph);
    cnn_bf16.free(grown.net);
    runtime_free(grown.runtime);
    engine_free(grown.engine);
}

/* ---- speed ------------------------------------------------------------------------------------------------------- */

#ifndef EMULATE
static void time_kernel(struct rig *rig, const char *name, void (*work)(struct bf16_net *, int), int block)
{
    enum { TURNS = 50 };
    struct runtime *rt = rig->net.runtime;
    cudaEvent_t from, to;
    float ms = 0;
    cudaEventCreate(&from);
    cudaEventCreate(&to);
    for (int k = 0; k < 3; k++)
        work(&rig->net, block);
    struct graph graph = {};
    if (graph_begin(rt, &graph))
        for (int k = 0; k < TURNS; k++)
            work(&rig->net, block);
    graph_run(rt, &graph);
    cudaEventRecord(from, rt->stream);
    graph_run(rt, &graph);
    cudaEventRecord(to, rt->stream);
    runtime_wait(rt);
    cudaEventElapsedTime(&ms, from, to);
    if (rt->failed)
        stop(rt->error.text);
    const double us = 1e3 * ms / TURNS, images = (double)rig->net.host.envs * rig->net.host.batch;
    printf("%-28s block %d %8.1f us  %8.2f M images/s  %6.1f ns/image\n", name, block, us, images / us,
           1e3 * us / images);
    fflush(stdout);
    graph_free(&graph);
}

static void bench(int envs, int batch)
{
    for (int blueprint = -1; blueprint < BLUEPRINT_COUNT; blueprint++) {
        struct rig rig;
        rig_open(&rig, envs, batch, false);
        printf("%s in every slot\n", blueprint < 0 ? "nothing" : blueprint_name(blueprint));
        for (int mode = SLOT_STE; mode <= SLOT_BLEND; mode++) {
            rig_set(&rig, 0, blueprint < 0 ? (int)SLOT_SKIP : mode, blueprint < 0 ? 0 : blueprint, ALGORITHM_ADD, 0.5f);
            rig_run(&rig);
            for (int i = 0; i < 3; i++) {
                if (mode == SLOT_STE) {
                    time_kernel(&rig, "leaf", seed_leaf, i);
                } else {
                    time_kernel(&rig, "blend forward", seed_blend_forward, i);
                    time_kernel(&rig, "blend backward", seed_blend_backward, i);
                }
            }
        }
        time_kernel(
            &rig, "update", [](struct bf16_net *net, int) { seed_update(net, SLOT_STE); }, 0);
        rig_close(&rig);
    }
}

static double time_phase(struct grown *grown, void (*phase)(struct net_device *))
{
    enum { TURNS = 10 };
    struct runtime *rt = grown->runtime;
    struct graph graph = {};
    cudaEvent_t from, to;
    float ms = 0;
    cudaEventCreate(&from);
    cudaEventCreate(&to);
    if (graph_begin(rt, &graph))
        phase(grown->net);
    graph_run(rt, &graph);
    cudaEventRecord(from, rt->stream);
    for (int k = 0; k < TURNS; k++)
        graph_run(rt, &graph);
    cudaEventRecord(to, rt->stream);
    runtime_wait(rt);
    cudaEventElapsedTime(&ms, from, to);
    if (rt->failed)
        stop(rt->error.text);
    graph_free(&graph);
    return 1e3 * ms / TURNS;
}

/* The first rounds of a fresh policy: of a hundred slots, the number with seeds in training and with blended seeds. */
struct bench_mix {
    const char *name;
    unsigned training, blended;
};

static void plant_mix(struct world *world, int slots, const struct bench_mix *mix)
{
    uint32_t state = 77;
    for (int k = 0; k < world->envs * slots; k++) {
        state = state * 1664525u + 1013904223u;
        const unsigned draw = (state >> 8) % 100,
                       blueprint = 1 + (state >> 16) % (BLUEPRINT_COUNT - 1); /* a policy is not offered noop */
        if (draw < mix->training)
            plant(world, k / slots, k % slots, STAGE_TRAINING, (int)blueprint, ALGORITHM_ADD, 0);
        else if (draw < mix->training + mix->blended)
            plant(world, k / slots, k % slots, STAGE_HOLDING, (int)blueprint, 1 + (int)(state >> 28) % 3, 0.7f);
    }
}

/* Whole steps and validations: conv_light in the same stage in every slot, and mixtures of all kinds. */
static void bench_networks(int envs, int batch)
{
    static const struct bench_mix mixes[] = {
        {"conv_light dormant in every slot", 0, 0},         {"conv_light training in every slot", 100, 0},
        {"conv_light blending in every slot", 0, 100},      {"all kinds, 15 % training", 15, 0},
        {"all kinds, 15 % training, 15 % blended", 15, 15}, {"all kinds, 15 % training, 33 % blended", 15, 33}};
    const int batches = 6, images = 625;
    for (const struct bench_mix &mix : mixes) {
        struct grown grown;
        struct config config = grown_config(envs, batch, batches, images, 3);
        grown_open(&grown, config);
        if (mix.training + mix.blended == 100) {
            for (int k = 0; k < envs * 3; k++)
                plant(grown.engine->world, k / 3, k % 3, mix.training ? STAGE_TRAINING : STAGE_BLENDING,
                      BLUEPRINT_CONV_LIGHT, ALGORITHM_ADD, mix.training ? 0.0f : 0.5f);
        } else {
            plant_mix(grown.engine->world, 3, &mix);
        }
        grown_write(&grown);
        const double train = time_phase(&grown, cnn_bf16.train), evaluate = time_phase(&grown, cnn_bf16.evaluate);
        printf(
            "%-40s %d envs: training %7.2f M images/s at batch %d (%.0f us), validation %7.2f M images/s (%.0f us)\n",
            mix.name, envs, (double)envs * batch * batches / train, batch, train, (double)envs * images / evaluate,
            evaluate);
        fflush(stdout);
        cnn_bf16.free(grown.net);
        runtime_free(grown.runtime);
        engine_free(grown.engine);
    }
}
#endif

int main(int argc, char **argv)
{
#ifndef EMULATE
    if (argc > 1 && strcmp(argv[1], "bench") == 0) {
        bench_networks(argc > 2 ? atoi(argv[2]) : 64, argc > 3 ? atoi(argv[3]) : 128);
        if (argc < 5)
            bench(argc > 2 ? atoi(argv[2]) : 64, argc > 3 ? atoi(argv[3]) : 128);
        return 0;
    }
#else
    (void)argc, (void)argv;
#endif
    check_all(1, 9);
    check_bits();
    check_update();
#ifdef EMULATE
    check_networks(10);
    check_orders(1, 2);
#else
    check_networks(500);
    check_orders(16, 128);
#endif
    printf("%d checks, %d failures\n", checks, failures);
    return failures > 0;
}
