#include "bench/steps.h"

#include <string.h>

#include "base/memory.h"
#include "base/philox.h"
#include "variant/variant.h"

enum { STEP_IMAGES = 4096, BENCH_SEED = 42 };
static const double step_seconds = 0.12, peer_seconds = 0.08;

/* ---- set-up ------------------------------------------------------------------------------------------------------ */

static enum esper_status make_images(struct steps *steps, struct esper_error *error)
{
    size_t pixels = (size_t)STEP_IMAGES * DATASET_SIZE * DATASET_SIZE * DATASET_COLOURS, words = pixels / 4;
    struct random_site site = random_at(BENCH_SEED, STREAM_SYNTHETIC, 0, 0, 0);
    steps->images = memory_alloc(pixels + sizeof(uint16_t) * STEP_IMAGES, 1, error);
    if (!steps->images)
        return ESPER_FAILED;
    for (size_t i = 0; i < words; i += 4) {
        struct philox_block block = random_block(site, (uint32_t)(i / 4));
        memcpy(steps->images + 4 * i, block.word, sizeof block.word);
    }
    uint16_t *labels = (uint16_t *)(void *)(steps->images + pixels);
    for (size_t i = 0; i < STEP_IMAGES; i++)
        labels[i] = (uint16_t)(i % DATASET_CLASSES);
    return ESPER_OK;
}

/* Images of either size are cut from the same bytes. */
static struct dataset view_images(const struct steps *steps, int size)
{
    size_t pixels = (size_t)STEP_IMAGES * DATASET_SIZE * DATASET_SIZE * DATASET_COLOURS;
    struct dataset dataset = {.size = size, .classes = DATASET_CLASSES};
    dataset.count[SPLIT_TRAIN] = STEP_IMAGES;
    dataset.images[SPLIT_TRAIN] = steps->images;
    dataset.labels[SPLIT_TRAIN] = (const uint16_t *)(const void *)(steps->images + pixels);
    return dataset;
}

static struct net_params params_at(const struct cnn_shape *shape, float *at)
{
    struct net_params params = {.host = at};
    params.stats = params.host + shape->net.host.storage;
    params.seed = params.stats + shape->net.stats;
    params.gate = params.seed + shape->net.seed_storage;
    return params;
}

/* As the engine resets an env; momentum and running means are zero already. */
static void init_params(const struct cnn_shape *shape, uint32_t env, const struct net_params *params)
{
    layout_init(&shape->net.host, BENCH_SEED, STREAM_HOST_INIT, 0, env, 0, params->host);
    for (int i = 0; i < shape->blocks; i++)
        for (int c = 0; c < shape->block[i].cout; c++)
            params->stats[shape->block[i].var + (size_t)c] = 1;
    for (int i = 0; i < shape->net.slots; i++) {
        struct param_layout layout;
        blueprint_layout(BLUEPRINT_CONV_LIGHT, shape->site[i].channels, &layout);
        layout_init(&layout, BENCH_SEED, STREAM_SEED_INIT, 0, env, (uint32_t)i << 8,
                    params->seed + shape->net.slot[i].seed);
    }
}

static enum esper_status init_net(struct step_host *host, int index, struct esper_error *error)
{
    const struct variant *variant = variant_best();
    const struct cnn_shape *shape = &host->host.shape;
    struct step_net *net = &host->net[index];
    int batch = host->host.config.data_batch;
    size_t size = shape->net.host.storage + shape->net.stats + shape->net.seed_storage + shape->net.gate_storage;
    net->workspace = memory_alloc(variant->net[FAMILY_CNN]->bytes(&shape->net, batch), 1, error);
    net->arrays = memory_alloc(2 * size, sizeof(float), error);
    if (!net->workspace || !net->arrays)
        return ESPER_FAILED;
    net->net = variant->net[FAMILY_CNN]->init(&shape->net, batch, net->workspace);
    net->params = params_at(shape, net->arrays);
    net->memory.first = params_at(shape, net->arrays + size);
    init_params(shape, (uint32_t)index, &net->params);
    return ESPER_OK;
}

static void gather(const struct step_case *step, int index)
{
    const struct config *config = &step->host->host.config;
    struct step_net *net = &step->host->net[index];
    struct net_input input = variant_best()->net[FAMILY_CNN]->input(net->net);
    struct gather_target target = {.images = input.pixels,
                                   .image_stride = input.image_stride,
                                   .row_stride = input.row_stride,
                                   .labels = input.labels};
    struct gather_job job = {.seed = BENCH_SEED,
                             .env = (uint32_t)index,
                             .step = ++net->steps,
                             .batches = 1,
                             .batch = (uint32_t)config->data_batch,
                             .augment = augment_of(config),
                             .conditions = conditions_plain((uint32_t)step->host->dataset.count[SPLIT_TRAIN])};
    gather_batch(&step->normalise, &step->host->dataset, &job, &target);
}

static enum esper_status init_host(struct steps *steps, const char *name, int nets, struct esper_error *error)
{
    struct step_host *host = &steps->host[steps->hosts++];
    TRY(host_load(&host->host, name, error));
    host->dataset = view_images(steps, host->host.config.data_size);
    host->net = memory_alloc((size_t)nets, sizeof *host->net, error);
    if (!host->net)
        return ESPER_FAILED;
    host->nets = nets;
    for (int i = 0; i < nets; i++)
        TRY(init_net(host, i, error));
    return ESPER_OK;
}

/* ---- work -------------------------------------------------------------------------------------------------------- */

static double train_in_place(void *subject, int item)
{
    const struct variant *variant = variant_best();
    const struct step_case *step = subject;
    struct step_net *net = &step->host->net[item];
    struct net_batch batch = {step->host->host.config.data_batch, step->exec};
    struct net_result result;
    variant->net[FAMILY_CNN]->gradients(net->net, &net->params, &batch, &result);
    variant->net[FAMILY_CNN]->update(net->net, &net->params, &net->memory, &batch, &step->rates, &result);
    return batch.samples;
}

static double train_gathered(void *subject, int item)
{
    gather(subject, item);
    return train_in_place(subject, item);
}

static double evaluate(void *subject, int item)
{
    const struct eval_case *evaluation = subject;
    struct step_net *net = &evaluation->host->net[item];
    struct net_score score[NET_MAX_CONFIGS] = {{0}};
    struct net_eval eval = {.samples = evaluation->host->host.config.data_batch,
                            .exec = evaluation->exec,
                            .configs = evaluation->configs,
                            .alpha = evaluation->alpha,
                            .score = score};
    variant_best()->net[FAMILY_CNN]->evaluate(net->net, &net->params, &eval);
    return (double)eval.samples * eval.configs;
}

/* ---- cases ------------------------------------------------------------------------------------------------------- */

static void add_step(struct steps *steps, struct step_host *host, bool grown, double seconds)
{
    struct step_case *step = &steps->step[steps->cases++];
    const struct config *config = &host->host.config;
    const struct data_facts set = data_facts_for(config);
    const float momentum = (float)config->momentum;
    *step = (struct step_case){
        .host = host,
        .grown = grown,
        .rates = {.host = optimiser_sgd((float)config->host_lr, momentum, (float)config->weight_decay),
                  .seed = optimiser_sgd((float)config->seed_lr, momentum, 0),
                  .max_grad_norm = config->max_grad_norm},
        .normalise = gather_table_make(&set),
        .in_place = {.work = train_in_place, .subject = step, .items = host->nets, .seconds = seconds},
        .gathered = {.work = train_gathered, .subject = step, .items = host->nets, .seconds = seconds},
    };
    for (int i = 0; i < host->host.shape.net.slots; i++)
        step->exec[i] = host_slot_exec(grown);
    for (int i = 0; i < host->nets; i++)
        gather(step, i); /* the images that in_place and the evaluations find */
}

/* `seeds` slots blended; a subset of them is a configuration, the full one first. */
static void add_evaluation(struct steps *steps, struct step_host *host, int seeds, double seconds)
{
    struct eval_case *evaluation = &steps->evaluation[steps->evaluations++];
    *evaluation = (struct eval_case){.host = host, .seeds = seeds, .configs = 1 << seeds};
    evaluation->measure =
        (struct measure){.work = evaluate, .subject = evaluation, .items = host->nets, .seconds = seconds};
    for (int i = 0; i < host->host.shape.net.slots; i++)
        evaluation->exec[i] = host_slot_exec(i < seeds);
    for (int k = 0; k < evaluation->configs; k++)
        for (int i = 0; i < seeds; i++)
            evaluation->alpha[k][i] = (k >> i) & 1 ? 0 : evaluation->exec[i].alpha;
}

enum esper_status steps_init(struct steps *steps, int threads, bool peer, struct esper_error *error)
{
    static const struct {
        const char *name;
        bool peer, peer_grown;
    } rows[STEP_HOSTS] = {
        {"cifar_baseline", true, true}, {WIDE_HOST, true, false},          {"cifar_impaired", true, false},
        {"cifar_scale", false, false},  {"cifar_pointwise", false, false}, {"quickstart", false, false},
    };
    double seconds = peer ? peer_seconds : step_seconds;
    TRY(make_images(steps, error));
    for (int i = 0; i < STEP_HOSTS; i++) {
        if (peer && !rows[i].peer)
            continue;
        TRY(init_host(steps, rows[i].name, threads, error));
        struct step_host *host = &steps->host[steps->hosts - 1];
        add_step(steps, host, false, seconds);
        if (!peer || rows[i].peer_grown)
            add_step(steps, host, true, seconds);
    }
    if (!peer) {
        struct step_host *baseline = &steps->host[0];
        add_evaluation(steps, baseline, 0, seconds);
        add_evaluation(steps, baseline, baseline->host.shape.net.slots, seconds);
    }
    return ESPER_OK;
}

void steps_free(struct steps *steps)
{
    for (int i = 0; i < steps->hosts; i++) {
        struct step_host *host = &steps->host[i];
        for (int k = 0; k < host->nets; k++) {
            memory_free(host->net[k].workspace);
            memory_free(host->net[k].arrays);
        }
        memory_free(host->net);
    }
    memory_free(steps->images);
}
