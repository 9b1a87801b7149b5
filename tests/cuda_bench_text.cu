/*
 * How fast transformers are in bf16: whole training steps and validations, bare and grown, of the host of text_bytes
 * with each kernel of a batch alone, or of the wide host of text_gpt (width 384, 6 layers, 256 tokens).
 *
 *     cuda_bench_text ENVS BATCH [ENVS BATCH]...           the small host
 *     cuda_bench_text wide 1 32 16 8                       the wide one
 *     cuda_bench_text                                      the smallest of everything, once
 *
 * With the first number of envs all blueprints are grown, with the others mlp alone; with `bare` at the end, none.
 */
#include "device_timer.cuh"
#include "text_rig.cuh"
#include "transformer/bf16/net.cuh"

static int batches = 1, windows = 1, width = 64, heads = 4, layers = 3, context = 16;

static void open(struct pair *pair, int envs, int batch, int blueprint, int stage)
{
    struct config config = text_config(envs, width, heads, layers, context);
    config.data_batch = batch;
    config.data_batches = batches;
    config.data_val_images = windows;
    pair_begin(pair, config, "bench");
    pair_attach(pair, &transformer_bf16);
    engine_reset(pair->engine, 1);
    for (int k = 0; blueprint != BLUEPRINT_NOOP && k < envs * pair->world->shape.slots; k++)
        plant_seed(pair->world, k / pair->world->shape.slots, k % pair->world->shape.slots, stage, blueprint,
                   ALGORITHM_ADD, stage == STAGE_TRAINING ? 0.0f : 0.4f);
    pair_write(pair);
}

static void bench_steps(int envs, int batch, int blueprint, int stage)
{
    struct pair pair;
    open(&pair, envs, batch, blueprint, stage);
    const double train = microseconds(&pair, 1, [&] { pair.kernels->train(pair.net); }) / batches,
                 evaluate = microseconds(&pair, 1, [&] { pair_evaluate(&pair); });
    printf("%d envs x %d, %s%s: %.1f us a batch, %.2f M tokens/s; validation of %d windows %.0f us\n", envs, batch,
           blueprint == BLUEPRINT_NOOP ? "bare" : named(blueprint),
           blueprint == BLUEPRINT_NOOP ? ""
           : stage == STAGE_TRAINING   ? " training in every slot"
                                       : " blended in every slot",
           train, (double)envs * batch * context / train, windows, evaluate);
    fflush(stdout);
    pair_close(&pair);
}

/* The kernels of a batch, one after the other. */
static void bench_kernels(int envs, int batch)
{
    struct pair pair;
    open(&pair, envs, batch, BLUEPRINT_NOOP, STAGE_DORMANT);
    struct small_net *net = small_net_of(transformer_net_of(pair.net));
    const int all = std::min(envs, net->view.group), again = turns > 1 ? 20 : 1;
    microseconds(&pair, 1, [&] { pair.kernels->train(pair.net); });
    const double gather = microseconds(&pair, again, [&] { transformer_gather(net, 0, all, 0); }),
                 pack = microseconds(&pair, again, [&] { small_pack(net, 0, all, false); }),
                 passes = microseconds(&pair, again, [&] { small_passes(net, 0, all); }),
                 reduce = microseconds(&pair, again, [&] { small_reduce(net, 0, all); }),
                 update = microseconds(&pair, again, [&] { transformer_update(net, 0, all); });
    printf("%d envs x %d, us: gather %.1f, pack %.1f, passes %.1f, reduce %.1f, update %.1f\n", all, batch, gather,
           pack, passes, reduce, update);
    fflush(stdout);
    pair_close(&pair);
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        bench_steps(1, 1, TRANSFORMER_MLP, STAGE_BLENDING);
        bench_kernels(1, 1);
        width = 128;
        heads = 2;
        bench_steps(1, 1, TRANSFORMER_LORA, STAGE_BLENDING);
        return conclude();
    }
    const bool wide = strcmp(argv[1], "wide") == 0, bare = strcmp(argv[argc - 1], "bare") == 0;
    batches = wide ? 8 : 24;
    windows = wide ? 100 : 500;
    context = wide ? 256 : 64;
    width = wide ? 384 : 64;
    heads = wide ? 6 : 4;
    layers = wide ? 6 : 3;
    turns = 5;
    for (int i = wide ? 2 : 1; i + 1 < argc; i += 2) {
        const int envs = atoi(argv[i]), batch = atoi(argv[i + 1]);
        bench_steps(envs, batch, BLUEPRINT_NOOP, STAGE_DORMANT);
        if (!wide)
            bench_kernels(envs, batch);
        const bool all = i <= 2;
        for (int blueprint : blueprints)
            for (int stage : {STAGE_TRAINING, STAGE_HOLDING})
                if (!bare &&
                    (all ? blueprint != BLUEPRINT_NOOP : blueprint == TRANSFORMER_MLP && stage == STAGE_HOLDING))
                    bench_steps(envs, batch, blueprint, stage);
    }
    return 0;
}
