/*
 * The bf16 training step of the hosts (cnn_bf16 without seeds): gradients compared with a plain double-precision model
 * that rounds where the kernels do, and with the CPU's fp32; several steps of training; and what must be bit-identical.
 *
 *     cuda_fast                 the checks
 *     cuda_fast bench ENVS BATCH   million images per second of whole steps, and of each kernel alone
 */
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "cnn/bf16/conv.cuh"
#include "cnn/fp32/plan.cuh"
#include "engine/mirror.cuh"
#include "fast_model.h"

extern "C" {
#include "data/dataset.h"
#include "variant/variant.h"
}

static int checks, failures;

static void check(bool good, const std::string &name, const char *format, double figure)
{
    char text[64];
    snprintf(text, sizeof text, format, figure);
    checks++;
    failures += !good;
    printf(good ? "ok   %s (%s)\n" : "FAIL %s: %s\n", name.c_str(), text);
    fflush(stdout);
}

[[noreturn]] static void stop(const char *what)
{
    printf("FAIL %s\n", what);
    exit(1);
}

/* ---- a world on either side -------------------------------------------------------------------------------------- */

struct setting {
    int envs, batch, batches;
    bool plain; /* no weight decay, no clipping: momentum after one batch is the gradient */
    int resident;
    int stage[SLOT_ROWS]; /* of the seeds in slots r0 and r1 of every block; 0: none */
};

struct rig {
    struct config config;
    struct world *world;
    struct dataset *data;
    struct runtime *runtime;
    struct mirror mirror;
    struct net_rates rates;
    struct bf16_net net;
};

static struct config config_of(const struct setting &s)
{
    struct config config;
    struct esper_error error = {};
    config_defaults(&config);
    if (config_load_task(&config, "cifar_baseline", &error) != ESPER_OK)
        stop(error.text);
    config.envs = s.envs;
    config.threads = 1;
    config.data_set = DATA_SYNTHETIC;
    config.data_batch = s.batch;
    config.data_batches = s.batches;
    config.data_val_images = config.data_test_images = 8;
    config.policy.kind = POLICY_RANDOM;
    config.max_seeds = 0;
    config.slot_count = 0;
    for (int row = 0; row < SLOT_ROWS; row++)
        for (int i = 0; i < config.host_blocks; i++) {
            char *id = config.slots[config.slot_count++];
            memcpy(id, "r0c0", 5);
            id[1] = (char)(id[1] + row);
            id[3] = (char)(id[3] + i);
        }
    if (s.plain) {
        config.weight_decay = 0;
        config.max_grad_norm = 1e9;
    }
    if (config_check(&config, &error) != ESPER_OK)
        stop(error.text);
    return config;
}

/* Parameters that exercise every part: gammas of both signs, betas, no two envs alike. */
static void stir(struct world *world, uint32_t images, const int *stage)
{
    const struct net_shape *shape = &world->shape;
    for (int env = 0; env < world->envs; env++) {
        const struct conditions conditions = {images / (uint32_t)(1 + env), 0.1f * (float)env,
                                              1.0f + 0.5f * (float)env};
        conditions_store(&world->conditions, (size_t)env, &conditions);
        float *params = world->host + (size_t)env * shape->host.storage,
              *stats = world->stats + (size_t)env * shape->stats;
        layout_init(&shape->host, 1, STREAM_HOST_INIT, 0, (uint32_t)env, 0, params);
        for (int i = 0; i < cnn_shape_of(shape)->blocks; i++)
            for (int c = 0; c < cnn_shape_of(shape)->block[i].cout; c++)
                stats[cnn_shape_of(shape)->block[i].var + (size_t)c] = 1;
        for (int j = 0; j < shape->slots; j++) {
            struct slot_state slot;
            slot_clear(&slot);
            if (stage[shape->slot[j].row])
                slot.stage = (uint8_t)stage[shape->slot[j].row];
            slot_store(&world->slots, world_slot_row(world, env, j), &slot);
        }
        uint32_t state = 12345u + 77u * (uint32_t)env;
        for (int i = 0; i < cnn_shape_of(shape)->blocks; i++) {
            float *gamma = params + shape->host.tensor[cnn_shape_of(shape)->block[i].gamma].offset;
            float *beta = params + shape->host.tensor[cnn_shape_of(shape)->block[i].beta].offset;
            for (int c = 0; c < cnn_shape_of(shape)->block[i].cout; c++) {
                float r[3];
                for (float &x : r) {
                    state = state * 1664525u + 1013904223u;
                    x = (float)(state >> 8) / 16777216.0f;
                }
                gamma[c] = (r[0] < 0.3f ? -1.0f : 1.0f) * (0.5f + r[1]);
                beta[c] = r[2] - 0.4f;
            }
        }
    }
}

static void rig_write(struct rig *rig)
{
    mirror_write(&rig->mirror, rig->world->table.rows, rig->world->table.count);
}

static void rig_read(struct rig *rig)
{
    mirror_read(&rig->mirror, rig->world->table.rows, rig->world->table.count);
    if (rig->runtime->failed)
        stop(rig->runtime->error.text);
}

static void rig_open(struct rig *rig, const struct setting &s)
{
    struct esper_error error = {};
    *rig = {};
    rig->config = config_of(s);
    if (world_create(&rig->world, &rig->config, &error) != ESPER_OK ||
        dataset_open(NULL, DATA_SYNTHETIC, rig->config.data_size, &rig->data, &error) != ESPER_OK)
        stop(error.text);
    struct runtime *rt = rig->runtime = runtime_create(&error);
    if (!rt)
        stop(error.text);
    struct world *world = rig->world;
    stir(world, (uint32_t)rig->data->count[SPLIT_TRAIN], s.stage);
    rig->rates.host = {(float)rig->config.host_lr, (float)rig->config.momentum, (float)rig->config.weight_decay};
    rig->rates.seed = {(float)rig->config.seed_lr, (float)rig->config.momentum, 0};
    rig->rates.max_grad_norm = rig->config.max_grad_norm;
    struct device_setup given = {};
    given.data = rig->data;
    given.rates = &rig->rates;
    given.batches = (uint32_t)s.batches;
    mirror_create(&rig->mirror, rt, world);
    const struct net_setup setup = mirror_net_setup(&rig->mirror, &given);
    net_device_begin(&rig->net, rt, &setup);
    rig->net.resident = s.resident;
    if (!cnn_bf16_fits(&world->shape, s.batch) || !fast_host_create(&rig->net))
        stop("the host does not fit");
    rig_write(rig);
}

/* One answer for host, seeds and validation: a host that one of them does not support does not fit. */
static void check_fits(void)
{
    const struct {
        const char *name;
        int base, blocks, kernel, pools, size, batch;
        bool fits;
    } cases[] = {{"base 8", 8, 3, 3, 3, 32, 1, true},         {"base 4", 4, 3, 3, 3, 32, 128, false},
                 {"base 16", 16, 3, 3, 3, 32, 128, false},    {"two blocks", 8, 2, 3, 2, 32, 128, false},
                 {"four blocks", 8, 4, 3, 4, 32, 128, false}, {"1 x 1 kernels", 8, 3, 1, 3, 32, 128, false},
                 {"two pools", 8, 3, 3, 2, 32, 128, false},   {"images of 16", 8, 3, 3, 3, 16, 128, false},
                 {"no images", 8, 3, 3, 3, 32, 0, false}};
    for (const auto &c : cases)
        for (int slots : {0, 1}) {
            struct config config = config_of({1, 8, 1, false, 0, {}});
            struct cnn_shape shape;
            config.host_base = c.base;
            config.host_blocks = c.blocks;
            config.host_kernel = c.kernel;
            config.host_pools = c.pools;
            config.slot_count = slots; /* r0c0 */
            cnn_shape_init_sized(&shape, &config, c.size, c.size);
            check(cnn_bf16_fits(&shape.net, c.batch) == c.fits, std::string("fits, ") + c.name, "slots: %g", slots);
        }
}

static void rig_close(struct rig *rig)
{
    runtime_free(rig->runtime);
    dataset_close(rig->data);
    world_free(rig->world);
}

/*
 * Blended seeds that change nothing, a thread per (env, job, channel): the output is the input, as host.cuh
 * requires. Winners of a window are found among rounded values here, among exact ones in the kernels.
 */
KERNEL void identity_forward(const __grid_constant__ struct fast_host host, int i)
{
    device_wait();
    const struct fast_block &block = host.block[i];
    const int env = (int)blockIdx.y, channel = (int)threadIdx.x, pixels = block.size * block.size / 4;
    if (!block_use_of(host, env, i).blended)
        return;
    struct channel_norm norm = block_norm(host, i, env, channel);
    for (int n = (int)blockIdx.x * block.job_images; n < ((int)blockIdx.x + 1) * block.job_images && n < host.batch;
         n++)
        for (int p = 0; p < pixels; p++) {
            const size_t at =
                (size_t)(plane_at(block.pooled, block.cout, pixels, image_at(host, env, n), channel / 8, p) -
                         block.pooled) *
                    8 +
                (size_t)(channel % 8);
            const float z = bf16_lo(reinterpret_cast<uint16_t *>(block.pooled)[at]);
            reinterpret_cast<uint16_t *>(block.act)[at] = (uint16_t)pack_bf16_relu(fmaf(z, norm.scale, norm.shift), 0);
        }
}

KERNEL void identity_backward(const __grid_constant__ struct fast_host host, int i)
{
    device_wait();
    const struct fast_block &block = host.block[i];
    const int env = (int)blockIdx.y, channel = (int)threadIdx.x, size = block.size, half = size / 2;
    const struct block_use use = block_use_of(host, env, i);
    if (!use.blended)
        return;
    struct channel_norm norm = block_norm(host, i, env, channel);
    float sum = 0, moment = 0;
    for (int n = (int)blockIdx.x * block.job_images; n < ((int)blockIdx.x + 1) * block.job_images && n < host.batch;
         n++) {
        const size_t map = image_at(host, env, n) * (size_t)(block.cout / 8) + (size_t)(channel / 8);
        uint16_t *full = reinterpret_cast<uint16_t *>(block.grad_full + map * (size_t)(size * size)) + channel % 8;
        const uint16_t *raw = reinterpret_cast<uint16_t *>(block.raw + map * (size_t)(size * size)) + channel % 8;
        for (int w = 0; w < half * half; w++) {
            const size_t pooled = (map * (size_t)(half * half) + (size_t)w) * 8 + (size_t)(channel % 8);
            const float z = bf16_lo(reinterpret_cast<uint16_t *>(block.pooled)[pooled]);
            uint16_t bits = reinterpret_cast<uint16_t *>(block.grad_out)[pooled];
            if (!(fmaf(z, norm.scale, norm.shift) > 0))
                bits = 0;
            sum += bf16_lo(bits);
            moment += bf16_lo(bits) * z;
            if (!use.full) {
                reinterpret_cast<uint16_t *>(block.grad)[pooled] = bits;
                continue;
            }
            int winner = 0;
            size_t at[4];
            for (int k = 0; k < 4; k++) {
                at[k] = (size_t)((2 * (w / half) + k / 2) * size + 2 * (w % half) + k % 2) * 8;
                if (bf16_lo(raw[at[k]]) > bf16_lo(raw[at[winner]]))
                    winner = k;
            }
            for (int k = 0; k < 4; k++)
                full[at[k]] = k == winner ? bits : 0;
        }
    }
    float *back = block.back + ((size_t)env * block.jobs + blockIdx.x) * 2 * (size_t)block.cout;
    back[channel] = sum;
    back[block.cout + channel] = moment;
}

static void enqueue_identity(struct bf16_net *net, int i, bool forward)
{
    if (net->host.block[i].act == NULL)
        return;
    struct launch shape = {dim3((unsigned)net->host.block[i].jobs, (unsigned)net->host.envs),
                           dim3((unsigned)net->host.block[i].cout), 0, false};
    if (forward)
        runtime_launch(net->runtime, identity_forward, shape, net->host, i);
    else
        runtime_launch(net->runtime, identity_backward, shape, net->host, i);
}

/* A batch as fast_learn runs it, with different seeds. */
static void enqueue_batch(struct bf16_net *net, uint32_t batch, bool seeds)
{
    fast_images(net, batch);
    for (int i = 0; i < net->host.blocks; i++) {
        fast_forward(net, i);
        if (seeds)
            enqueue_identity(net, i, true);
    }
    fast_head(net);
    for (int i = net->host.blocks - 1; i >= 0; i--) {
        if (seeds)
            enqueue_identity(net, i, false);
        fast_backward(net, i);
    }
    fast_gradients(net, batch);
    fast_update(net);
}

static void enqueue_step(struct bf16_net *net, bool seeds = false)
{
    net_plan_train(net);
    fast_pack(net);
    for (uint32_t batch = 0; batch < net->setup.source.batches; batch++)
        enqueue_batch(net, batch, seeds);
}

template <class T> static std::vector<T> fetched(struct rig *rig, const T *from, size_t count)
{
    std::vector<T> v(count);
    runtime_copy_from(rig->runtime, v.data(), from, count * sizeof(T));
    runtime_wait(rig->runtime);
    return v;
}

/* ---- the CPU's fp32 ---------------------------------------------------------------------------------------------- */

static void cpu_step(struct rig *rig, struct world *world)
{
    const struct variant *kernels = variant_best();
    const struct gather_table table = gather_table_make(image_set_of(DATA_SYNTHETIC));
    const struct config *config = &rig->config;
    size_t bytes = kernels->net[FAMILY_CNN]->bytes(&world->shape, config->data_batch);
    void *memory = aligned_alloc(64, (bytes + 63) / 64 * 64);
    std::vector<uint8_t> labels((size_t)config->data_batch);
    for (int env = 0; env < world->envs; env++) {
        memset(memory, 0, bytes);
        struct net *net = kernels->net[FAMILY_CNN]->init(&world->shape, config->data_batch, memory);
        struct net_input input = kernels->net[FAMILY_CNN]->input(net);
        struct slot_exec exec[SHAPE_SLOTS] = {};
        struct net_params params = world_params(world, env), momentum = world_momentum(world, env);
        struct gather_target target = {input.pixels, input.image_stride, input.row_stride, labels.data()};
        struct gather_job job = {};
        job.seed = config->seed;
        job.round = *world->round;
        job.env = (uint32_t)env;
        job.step = *world->step + 1;
        job.batches = rig->net.setup.source.batches;
        job.batch = (uint32_t)config->data_batch;
        job.conditions = conditions_load(&world->conditions, (size_t)env);
        const struct net_rates rates = net_rates_times(rig->rates, job.conditions.lr_factor);
        struct net_batch batch = {config->data_batch, labels.data(), exec};
        double loss = 0, correct = 0;
        for (job.index = 0; job.index < job.batches; job.index++) {
            struct net_result result = {};
            gather_batch(&table, rig->data, &job, &target);
            kernels->net[FAMILY_CNN]->gradients(net, &params, &batch, &result);
            kernels->net[FAMILY_CNN]->update(net, &params, &momentum, &batch, &rates, &result);
            loss += result.loss;
            correct += result.correct;
        }
        world->train_loss[env] = loss / (job.batches * (double)job.batch);
        world->train_accuracy[env] = 100 * correct / (job.batches * (double)job.batch);
    }
    free(memory);
}

/* ---- checks ------------------------------------------------------------------------------------------------------ */

static bool same(const std::vector<float> &a, const std::vector<float> &b)
{
    return a.size() == b.size() && memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

template <class A, class B> static double distance(const A *a, const B *b, size_t count)
{
    double difference = 0, size = 0;
    for (size_t i = 0; i < count; i++) {
        difference += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        size += (double)b[i] * (double)b[i];
    }
    return sqrt(difference / (size + 1e-30));
}

static void check_gradients(int envs, int batch)
{
    struct rig rig;
    const std::string name = "gradients, batch " + std::to_string(batch);
    rig_open(&rig, {envs, batch, 1, true, 0, {}});
    const struct net_shape *shape = &rig.world->shape;
    const std::vector<float> before(rig.world->host, rig.world->host + (size_t)envs * shape->host.storage);
    enqueue_step(&rig.net);
    const struct fast_host &host = rig.net.host;
    std::vector<uint2> pixels = fetched(&rig, host.pixels, (size_t)(envs * batch * 1024));
    std::vector<uint8_t> labels = fetched(&rig, host.labels, (size_t)(envs * batch));
    std::vector<float> grads = fetched(&rig, host.grad, (size_t)envs * shape->host.storage);
    std::vector<double> norms = fetched(&rig, host.host_norm, (size_t)envs);
    rig_read(&rig);
    for (int env = 0; env < envs; env++) {
        const float *g = grads.data() + (size_t)env * shape->host.storage;
        struct model m = model_of(shape, before.data() + (size_t)env * shape->host.storage,
                                  pixels.data() + (size_t)(env * batch) * 1024, labels.data() + env * batch, batch);
        double square = 0;
        for (int t = 0; t < shape->host.count; t++) {
            const struct tensor_layout *tensor = &shape->host.tensor[t];
            double d = distance(g + tensor->offset, m.gradient.data() + tensor->offset, tensor->size);
            check(d < 0.005, name + ", env " + std::to_string(env) + ", " + tensor->name, "%.2g", d);
            for (size_t i = 0; i < tensor->size; i++)
                square += pow((double)g[tensor->offset + i], 2);
        }
        check(fabs(norms[(size_t)env] / sqrt(square) - 1) < 1e-12, name + ", norm", "%.6g", norms[(size_t)env]);
        double loss = fabs(rig.world->train_loss[env] - m.loss / batch) / (m.loss / batch);
        check(loss < 1e-4, name + ", loss", "%.2g", loss);
        check(fabs(rig.world->train_accuracy[env] - 100 * m.correct / batch) <= 100.0 / batch, name + ", accuracy",
              "%.4g", rig.world->train_accuracy[env]);
        double worst = 0;
        for (int i = 0; i < cnn_shape_of(shape)->blocks; i++) {
            const struct model_block &b = m.block[(size_t)i];
            const float *stats = rig.world->stats + (size_t)env * shape->stats;
            const double count = (double)batch * b.size * b.size;
            for (size_t c = 0; c < (size_t)b.cout; c++) {
                const double mean = 0.1 * b.sign[c] * b.mean[c], var = 0.9 + 0.1 * b.var[c] * count / (count - 1);
                worst = std::max(worst, fabs((double)stats[cnn_shape_of(shape)->block[i].mean + c] - mean));
                worst = std::max(worst, fabs((double)stats[cnn_shape_of(shape)->block[i].var + c] - var));
            }
        }
        check(worst < 1e-4, name + ", running statistics", "%.2g", worst);
    }
    /* the fp32 CPU, from the same parameters */
    struct rig cpu;
    rig_open(&cpu, {envs, batch, 1, true, 0, {}});
    cpu_step(&cpu, cpu.world);
    for (int env = 0; env < envs; env++) {
        const size_t at = (size_t)env * shape->host.storage;
        double d = distance(grads.data() + at, cpu.world->host_momentum + at, shape->host.storage);
        check(d < (batch < 64 ? 0.08 : 0.04), name + ", compared with fp32", "%.3g", d);
    }
    rig_close(&cpu);
    rig_close(&rig);
}

static std::vector<float> slot_gradients(int batch, int stage0, int stage1)
{
    struct rig rig;
    rig_open(&rig, {2, batch, 1, true, 0, {stage0, stage1}});
    enqueue_step(&rig.net, true);
    std::vector<float> v = fetched(&rig, rig.net.host.grad, 2 * rig.world->shape.host.storage);
    rig_close(&rig);
    return v;
}

/* Seeds that only observe change no bit; those that pass on their input change next to nothing. */
static void check_slots(int batch)
{
    const std::vector<float> none = slot_gradients(batch, 0, 0);
    const std::string name = "slots, batch " + std::to_string(batch);
    check(same(none, slot_gradients(batch, STAGE_TRAINING, STAGE_TRAINING)), name + ", training", "%g", 0);
    const struct {
        const char *name;
        int stage[2];
        double bound;
    } cases[] = {{", blended after the pool", {0, STAGE_BLENDING}, 3e-3},
                 {", blended before the pool", {STAGE_BLENDING, 0}, 0.05},
                 {", blended after, training before", {STAGE_TRAINING, STAGE_FOSSILIZED}, 3e-3}};
    for (const auto &c : cases) {
        const std::vector<float> v = slot_gradients(batch, c.stage[0], c.stage[1]);
        double d = distance(v.data(), none.data(), none.size());
        check(d < c.bound, name + c.name, "%.2g", d);
    }
}

static void check_training(int envs, int batch, int batches, int steps)
{
    struct rig rig, cpu;
    rig_open(&rig, {envs, batch, batches, false, 0, {}});
    rig_open(&cpu, {envs, batch, batches, false, 0, {}});
    double worst = 0;
    for (int s = 0; s < steps; s++) {
        *rig.world->step = *cpu.world->step = (uint32_t)s;
        rig_write(&rig);
        enqueue_step(&rig.net);
        rig_read(&rig);
        cpu_step(&cpu, cpu.world);
        for (int env = 0; env < envs; env++)
            worst = std::max(worst, fabs(rig.world->train_loss[env] / cpu.world->train_loss[env] - 1));
    }
    check(worst < 0.02, "training, loss of " + std::to_string(steps) + " steps compared with fp32", "%.3g", worst);
    double params = distance(rig.world->host, cpu.world->host, (size_t)envs * rig.world->shape.host.storage);
    check(params < 0.05, "training, parameters compared with fp32", "%.3g", params);
    double stats = distance(rig.world->stats, cpu.world->stats, (size_t)envs * rig.world->shape.stats);
    check(stats < 0.02, "training, running statistics compared with fp32", "%.3g", stats);
    rig_close(&cpu);
    rig_close(&rig);
}

/* The results of a step for env 0. */
static std::vector<float> traces(const struct setting &s, int steps)
{
    struct rig rig;
    rig_open(&rig, s);
    for (int i = 0; i < steps; i++) {
        *rig.world->step = (uint32_t)i;
        rig_write(&rig);
        enqueue_step(&rig.net);
        rig_read(&rig);
    }
    const struct net_shape *shape = &rig.world->shape;
    std::vector<float> v(rig.world->host, rig.world->host + shape->host.storage);
    v.insert(v.end(), rig.world->host_momentum, rig.world->host_momentum + shape->host.storage);
    v.insert(v.end(), rig.world->stats, rig.world->stats + shape->stats);
    v.push_back((float)rig.world->train_loss[0]);
    rig_close(&rig);
    return v;
}

static void check_bits(int batch, int batches, int steps)
{
    const std::vector<float> one = traces({1, batch, batches, false, 0, {}}, steps);
    check(same(one, traces({1, batch, batches, false, 0, {}}, steps)), "bits, twice", "%g", (double)one.size());
    check(same(one, traces({3, batch, batches, false, 0, {}}, steps)), "bits, among three", "%g", (double)one.size());
    for (int resident : {1, 5})
        check(same(one, traces({3, batch, batches, false, resident, {}}, steps)),
              "bits, with room for " + std::to_string(resident) + " blocks", "%g", (double)one.size());
}

/* ---- bench ------------------------------------------------------------------------------------------------------- */

#ifndef EMULATE
template <class F> static double microseconds(struct rig *rig, int repeat, F enqueue)
{
    struct runtime *rt = rig->runtime;
    struct graph graph = {};
    if (graph_begin(rt, &graph))
        enqueue();
    graph_run(rt, &graph);
    cudaEvent_t start, end;
    cudaEventCreate(&start);
    cudaEventCreate(&end);
    std::vector<double> times;
    for (int round = 0; round < 9; round++) {
        cudaEventRecord(start, rt->stream);
        for (int i = 0; i < repeat; i++)
            graph_run(rt, &graph);
        cudaEventRecord(end, rt->stream);
        cudaEventSynchronize(end);
        float ms;
        cudaEventElapsedTime(&ms, start, end);
        times.push_back(1e3 * (double)ms / repeat);
    }
    cudaEventDestroy(start);
    cudaEventDestroy(end);
    graph_free(&graph);
    if (rt->failed)
        stop(rt->error.text);
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
}

/* The kernels of a batch, in order, one at a time. */
static const char *enqueue_kernel(struct bf16_net *net, int k)
{
    static const char *const names[] = {"gather",     "forward 0",  "forward 1",  "forward 2", "head",
                                        "backward 2", "backward 1", "backward 0", "add_parts", "step"};
    if (k == 0)
        gather_train_bf16(net->runtime, &net->setup.source, net->setup.envs, {net->host.pixels, net->host.labels}, 0);
    else if (k < 4)
        fast_forward(net, k - 1);
    else if (k == 4)
        fast_head(net);
    else if (k < 8)
        fast_backward(net, 7 - k);
    else if (k == 8)
        fast_gradients(net, 0);
    else
        fast_update(net);
    return names[k];
}

/* Per image: kilobytes that must move, and thousands of multiply-adds. */
struct prediction {
    double kilobytes, kmacs;
};

static struct prediction predict(const struct fast_host &host, int k)
{
    double in[3], out[3], part[3], kmacs[3], parts = 0;
    for (int i = 0; i < 3; i++) {
        const struct fast_block &b = host.block[i];
        in[i] = (i ? b.cin : 4) * b.size * b.size * 2 / 1024.0;
        out[i] = b.cout * b.size * b.size / 4 * 2 / 1024.0;
        part[i] = b.part_size * 4.0 / 1024 / host.chunk_images;
        kmacs[i] = 9e-3 * b.cin * b.cout * b.size * b.size;
        parts += part[i];
    }
    if (k == 0)
        return {3 + in[0], 0};
    if (k < 4)
        return {in[k - 1] + out[k - 1], kmacs[k - 1]};
    if (k == 4)
        return {2 * out[2], 0};
    if (k < 8) /* the convolution again, the weights, and the input except in the first block */
        return {in[7 - k] * (k < 7 ? 2 : 1) + out[7 - k] + part[7 - k], kmacs[7 - k] * (k < 7 ? 3 : 2)};
    return {k == 8 ? parts : 0, 0};
}

static void bench(int envs, int batch)
{
    const int batches = 8, again = 10;
    struct rig rig;
    rig_open(&rig, {envs, batch, batches, false, 0, {}});
    struct bf16_net *net = &rig.net;
    net->setup.source.augment = AUGMENT_CROP_FLIP;
    const double images = (double)envs * batch;
    for (int i = 0; i < 20; i++)
        enqueue_step(net);
    runtime_wait(rig.runtime);
    const double step = microseconds(&rig, 5, [&] { enqueue_step(net); });
    printf("envs %d batch %d: %.2f million images/s, %.1f us per batch\n", envs, batch, images * batches / step,
           step / batches);
    double sum = 0;
    for (int k = 0; k < 10; k++) {
        const char *name = NULL;
        const double us = microseconds(&rig, 20,
                                       [&] {
                                           for (int i = 0; i < again; i++)
                                               name = enqueue_kernel(net, k);
                                       }) /
                          again;
        const struct prediction p = predict(net->host, k);
        sum += us;
        printf("  %-10s %7.1f us  predicted %5.1f kB and %5.0f kMAC per image: %5.0f GB/s, %5.1f TFLOP/s\n", name, us,
               p.kilobytes, p.kmacs, p.kilobytes * 1.024 * images / us, 2e-3 * p.kmacs * images / us);
    }
    printf("  sum        %7.1f us\n", sum);
    rig_close(&rig);
}
#endif

int main(int argc, char **argv)
{
#ifndef EMULATE
    if (argc >= 4 && strcmp(argv[1], "bench") == 0) {
        bench(atoi(argv[2]), atoi(argv[3]));
        return 0;
    }
    check_fits();
    check_gradients(3, 128);
    check_gradients(1, 100);
    check_slots(128);
    check_training(2, 128, 4, 3);
    check_bits(128, 2, 2);
    check_gradients(1, 512);
#else
    (void)argc;
    (void)argv;
    check_fits();
    check_gradients(2, 12);
    check_slots(9);
    check_training(1, 16, 2, 2);
    check_bits(20, 1, 1);
#endif
    printf("%d checks, %d failures\n", checks, failures);
    return failures ? 1 : 0;
}
