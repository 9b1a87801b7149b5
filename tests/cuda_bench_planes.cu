/*
 * How fast hosts of any shape are, in bf16 (cnn_planes) and beside it in fp32: whole steps and validations, bare and
 * with a blended conv_light in every slot.
 *
 *     cuda_bench_planes ENVS BATCH [NAME [bare|grown]]    of the shapes with this in their names, in one or both forms;
 *                                                         without arguments the smallest of one of them, once
 */
#include "device_timer.cuh"

static int envs = 1, batch = 2, batches = 1, images = 2;

struct shape {
    const char *name;
    int base, blocks, kernel, pools;
    std::vector<const char *> slots;
};

static const std::vector<const char *> before = {"r0c0", "r0c1", "r0c2"}, after = {"r1c0", "r1c1", "r1c2"},
                                       deep = {"r0c0", "r0c1", "r0c2", "r0c3", "r0c4"};
static const struct shape shapes[] = {{"cifar_impaired", 1, 3, 1, 3, before},
                                      {"cifar_minimal", 2, 3, 1, 0, before},
                                      {"cifar_pointwise", 4, 3, 1, 3, before},
                                      {"cifar_deep_impaired", 2, 5, 1, 5, deep},
                                      {"base 12", 12, 3, 3, 3, before},
                                      {"cifar_highres", 16, 3, 3, 3, before},
                                      {"cifar_postpool", 16, 3, 3, 3, after},
                                      {"cifar_scale", 8, 5, 3, 5, deep},
                                      {"base 8, as any other", 8, 3, 3, 3, before}};

static void bench(const struct shape &shape, const struct net_device_kernels *kernels, bool grown)
{
    const struct world_case c = {shape.name,  shape.base, shape.blocks, shape.kernel, shape.pools, 32,
                                 shape.slots, batch,      batches,      envs,         images};
    struct pair pair;
    pair_open(&pair, c, kernels);
    for (int k = 0; grown && k < envs * pair.world->shape.slots; k++)
        plant(pair.world, k / pair.world->shape.slots, k % pair.world->shape.slots, STAGE_HOLDING, BLUEPRINT_CONV_LIGHT,
              ALGORITHM_ADD, 0.7f);
    pair_write(&pair);
    const double train = microseconds(&pair, 1, [&] { pair.kernels->train(pair.net); }),
                 evaluate = microseconds(&pair, 1, [&] { pair_evaluate(&pair); });
    printf("%-22s %s %-6s training %7.2f M images/s (%.0f us), validation %7.2f M images/s (%.0f us)\n", shape.name,
           kernels == &cnn_fp32 ? "fp32" : "bf16", grown ? "grown" : "bare", (double)envs * batch * batches / train,
           train, (double)envs * images / evaluate, evaluate);
    fflush(stdout);
    pair_close(&pair);
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        bench(shapes[0], &cnn_planes, true);
        return conclude();
    }
    envs = atoi(argv[1]);
    batch = atoi(argv[2]);
    batches = 6;
    images = 625;
    turns = 3;
    for (const struct shape &shape : shapes)
        for (const struct net_device_kernels *kernels : {&cnn_planes, &cnn_fp32})
            for (bool grown : {false, true})
                if ((argc < 4 || strstr(shape.name, argv[3])) && (argc < 5 || grown == (argv[4][0] == 'g')))
                    bench(shape, kernels, grown);
    return 0;
}
