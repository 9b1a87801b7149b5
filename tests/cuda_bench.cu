/*
 * How fast the bf16 networks are: whole steps and validations, and each kernel of a batch alone.
 *
 *     cuda_bench ENVS BATCH          all of it; without arguments the smallest of everything, once
 *     cuda_bench ENVS BATCH whole    steps and validations only
 */
#include "cnn/bf16/conv.cuh"
#include "cnn/bf16/seed.cuh"
#include "device_timer.cuh"
#include "morph/plan.cuh"

static int envs = 1, batch = 1, batches = 1, images = 2;

static void open(struct pair *pair, int count)
{
    const struct world_case c = {"bench", 8, 3, 3, 3, 32, {"r0c0", "r0c1", "r0c2"}, batch, count, envs, images};
    pair_open(pair, c, &cnn_bf16);
}

/* ---- whole steps ------------------------------------------------------------------------------------------------- */

/* The first rounds of a fresh policy: of a hundred slots, the number with seeds in training and with blended seeds. */
struct mix {
    const char *name;
    unsigned training, blended;
};

/* conv_light in the same stage in every slot, and mixtures of all kinds. */
static const struct mix mixes[] = {
    {"conv_light dormant in every slot", 0, 0},         {"conv_light training in every slot", 100, 0},
    {"conv_light blending in every slot", 0, 100},      {"all kinds, 15 % training", 15, 0},
    {"all kinds, 15 % training, 15 % blended", 15, 15}, {"all kinds, 15 % training, 33 % blended", 15, 33}};

static void plant_mix(struct world *world, const struct mix &mix)
{
    uint32_t state = 77;
    const int slots = world->shape.slots;
    for (int k = 0; k < world->envs * slots; k++) {
        state = state * 1664525u + 1013904223u;
        const bool same = mix.training + mix.blended == 100;
        const unsigned draw = (state >> 8) % 100;
        const int blueprint = same ? (int)BLUEPRINT_CONV_LIGHT /* a policy is not offered noop */
                                   : 1 + (int)((state >> 16) % (BLUEPRINT_COUNT - 1));
        if (draw < mix.training)
            plant(world, k / slots, k % slots, STAGE_TRAINING, blueprint, ALGORITHM_ADD, 0);
        else if (draw < mix.training + mix.blended)
            plant(world, k / slots, k % slots, STAGE_HOLDING, blueprint, same ? 1 : 1 + (int)(state >> 28) % 3, 0.7f);
    }
}

static void bench_steps(const struct mix &mix)
{
    struct pair pair;
    open(&pair, batches);
    plant_mix(pair.world, mix);
    pair_write(&pair);
    const double train = microseconds(&pair, 1, [&] { pair.kernels->train(pair.net); }),
                 evaluate = microseconds(&pair, 1, [&] { pair_evaluate(&pair); });
    printf("%-40s %d envs: training %7.2f M images/s at batch %d (%.0f us), validation %7.2f M images/s (%.0f us)\n",
           mix.name, envs, (double)envs * batch * batches / train, batch, train, (double)envs * images / evaluate,
           evaluate);
    fflush(stdout);
    pair_close(&pair);
}

/* ---- kernels of the host ----------------------------------------------------------------------------------------- */

/* The kernels of a batch, in order, without those that look for seeds. */
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

static void bench_host(void)
{
    struct pair pair;
    open(&pair, 1);
    struct bf16_net *net = bf16_net_of(pair.net);
    net->setup.source.augment = AUGMENT_CROP_FLIP;
    pair_write(&pair);
    pair.kernels->train(pair.net);
    runtime_wait(pair.runtime);
    const double count = (double)envs * batch, whole = microseconds(&pair, turns, [&] {
                                                   for (int k = 0; k < 10; k++)
                                                       enqueue_kernel(net, k);
                                               });
    printf("a batch without slots: %.2f million images/s, %.1f us\n", count / whole, whole);
    for (int k = 0; k < 10; k++) {
        const char *name = NULL;
        const double us = microseconds(&pair, turns, [&] { name = enqueue_kernel(net, k); });
        const struct prediction p = predict(net->host, k);
        printf("  %-10s %7.1f us  predicted %5.1f kB and %5.0f kMAC per image: %5.0f GB/s, %5.1f TFLOP/s\n", name, us,
               p.kilobytes, p.kmacs, p.kilobytes * 1.024 * count / us, 2e-3 * p.kmacs * count / us);
    }
    pair_close(&pair);
}

/* ---- kernels of seeds -------------------------------------------------------------------------------------------- */

static void bench_seeds(int blueprint, int stage)
{
    static const struct {
        const char *name;
        void (*work)(struct bf16_net *net, int block);
        bool blended;
    } kernels[] = {{"leaf", seed_leaf, false},
                   {"blend forward", seed_blend_forward, true},
                   {"blend backward", seed_blend_backward, true}};
    struct pair pair;
    open(&pair, 1);
    for (int k = 0; k < 3 * envs; k++)
        plant(pair.world, k / 3, k % 3, stage, blueprint, ALGORITHM_ADD, stage == STAGE_TRAINING ? 0.0f : 0.5f);
    pair_write(&pair);
    pair.kernels->train(pair.net); /* fills the buffers */
    runtime_wait(pair.runtime);
    printf("%s in every slot\n", blueprint_name(blueprint));
    for (const auto &kernel : kernels)
        for (int i = 0; i < 3 && kernel.blended == (stage != STAGE_TRAINING); i++) {
            const double us = microseconds(&pair, turns > 1 ? 50 : 1, [&] { kernel.work(bf16_net_of(pair.net), i); }),
                         count = (double)envs * batch;
            printf("%-28s block %d %8.1f us  %8.2f M images/s  %6.1f ns/image\n", kernel.name, i, us, count / us,
                   1e3 * us / count);
            fflush(stdout);
        }
    pair_close(&pair);
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        bench_steps(mixes[5]);
        bench_host();
        bench_seeds(BLUEPRINT_CONV_SMALL, STAGE_TRAINING);
        bench_seeds(BLUEPRINT_CONV_SMALL, STAGE_BLENDING);
        return conclude();
    }
    envs = atoi(argv[1]);
    batch = atoi(argv[2]);
    batches = 6;
    images = 625;
    turns = 10;
    for (const struct mix &mix : mixes)
        bench_steps(mix);
    if (argc > 3)
        return 0;
    bench_host();
    for (int blueprint = 0; blueprint < BLUEPRINT_COUNT; blueprint++)
        for (int stage : {STAGE_TRAINING, STAGE_BLENDING})
            bench_seeds(blueprint, stage);
    return 0;
}
