/*
 * net.h on the device: what the checks of golden vectors call, executed by its kernels. Compiled with those checks
 * into a separate object, as a variant is (see the Makefile).
 */
#include <string.h>

#include "check/numeric_cases.h"
#include "check/numeric_hosts.h"
#include "check/numeric_modules.h"
#include "check/numeric_policy.h"
#include "check/numeric_rig.h"
#include "check/numeric_text.h"
#include "morph/net_trial.h"
#include "selftest/device_parts.h"
#include "selftest/device_vectors.h"

const struct device_api *device_tried;
struct esper_error *device_failure;
bool device_in_bf16;

struct net {
    const struct net_shape *shape;
    real *pixels;     /* [image][y][x][4] */
    real *logits;     /* [image][class] */
    uint16_t *labels; /* [image] */
    struct net_params grads, spare;
    struct net_memory spare_memory;
    struct net_result result;
};

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static real *take(real **memory, size_t count)
{
    real *at = *memory;
    *memory += count;
    return at;
}

static void take_params(struct net_params *params, const struct net_shape *shape, real **memory)
{
    params->host = take(memory, shape->host.storage);
    params->stats = take(memory, shape->stats);
    params->seed = take(memory, shape->seed_storage);
    params->gate = take(memory, shape->gate_storage);
}

static const struct block_shape *first_block(const struct net_shape *shape)
{
    return &cnn_shape_of(shape)->block[0];
}

static size_t image_reals(const struct net_shape *shape)
{
    return (size_t)first_block(shape)->height * (size_t)first_block(shape)->width * 4;
}

size_t cnn_bytes(const struct net_shape *shape, int batch)
{
    const size_t classes = (size_t)cnn_shape_of(shape)->classes;
    size_t params = shape->host.storage + shape->stats + shape->seed_storage + shape->gate_storage;
    return sizeof(struct net) + sizeof(real) * (3 * params + (size_t)batch * (image_reals(shape) + classes)) +
           sizeof(uint16_t) * (size_t)batch;
}

struct net *cnn_init(const struct net_shape *shape, int batch, void *memory)
{
    struct net *net = memory;
    real *free = (real *)(net + 1);
    net->shape = shape;
    take_params(&net->grads, shape, &free);
    take_params(&net->spare, shape, &free);
    take_params(&net->spare_memory.first, shape, &free);
    net->pixels = take(&free, (size_t)batch * image_reals(shape));
    net->logits = take(&free, (size_t)batch * (size_t)cnn_shape_of(shape)->classes);
    net->labels = (uint16_t *)free;
    return net;
}

struct net_input cnn_input(struct net *net)
{
    return (struct net_input){.pixels = net->pixels,
                              .image_stride = image_reals(net->shape),
                              .row_stride = (size_t)first_block(net->shape)->width * 4,
                              .labels = net->labels};
}

/* ---- passes ------------------------------------------------------------------------------------------------------ */

void device_run(struct net_trial *trial)
{
    struct esper_error error = {0};
    if (!device_failure->text[0] && device_tried->try_net(trial, &error) != ESPER_OK)
        *device_failure = error;
}

static struct net_trial trial_of(struct net *net, const struct net_batch *batch)
{
    return (struct net_trial){.shape = net->shape,
                              .samples = batch->samples,
                              .pixels = net->pixels,
                              .labels = net->labels,
                              .exec = batch->exec,
                              .learn = true,
                              .bf16 = device_in_bf16,
                              .grads = net->grads,
                              .logits = net->logits};
}

static void copy_params(const struct net_shape *shape, const struct net_params *to, const struct net_params *from)
{
    memcpy(to->host, from->host, sizeof(real) * shape->host.storage);
    memcpy(to->stats, from->stats, sizeof(real) * shape->stats);
    memcpy(to->seed, from->seed, sizeof(real) * shape->seed_storage);
    memcpy(to->gate, from->gate, sizeof(real) * shape->gate_storage);
}

/* The device can only take whole steps: this one is taken on a copy, whose statistics are kept. */
void cnn_gradients(struct net *net, const struct net_params *params, const struct net_batch *batch,
                   struct net_result *result)
{
    struct net_trial trial = trial_of(net, batch);
    copy_params(net->shape, &net->spare, params);
    trial.params = net->spare;
    trial.memory = net->spare_memory;
    device_run(&trial);
    memcpy(params->stats, net->spare.stats, sizeof(real) * net->shape->stats);
    *result = net->result = trial.result;
}

void cnn_measure(struct net *net, const struct net_batch *batch, struct net_result *result)
{
    (void)batch;
    memcpy(result->grads, net->result.grads, sizeof result->grads);
}

/* The same step once more, for real; its statistics have been kept already. */
void cnn_update(struct net *net, const struct net_params *params, const struct net_memory *memory,
                const struct net_batch *batch, const struct net_rates *rates, struct net_result *result)
{
    struct net_trial trial = trial_of(net, batch);
    trial.params = *params;
    trial.params.stats = net->spare.stats;
    trial.memory = *memory;
    trial.rates = *rates;
    device_run(&trial);
    *result = trial.result;
}

/* Gradients and the step at once. */
void rig_step(struct rig *rig, const struct net_rates *rates, struct net_result *result)
{
    const struct net_batch batch = rig_batch(rig);
    struct net_trial trial = trial_of(rig->net, &batch);
    trial.params = rig->params;
    trial.memory = rig->memory;
    trial.rates = *rates;
    device_run(&trial);
    *result = trial.result;
}

struct net_params cnn_grads(struct net *net)
{
    return net->grads;
}

const real *cnn_logits(const struct net *net, int *stride)
{
    *stride = cnn_shape_of(net->shape)->classes;
    return net->logits;
}

/* One configuration after the other. */
void cnn_evaluate(struct net *net, const struct net_params *params, struct net_eval *eval)
{
    const size_t outputs = (size_t)eval->samples * (size_t)cnn_shape_of(net->shape)->classes;
    for (int k = 0; k < eval->configs; k++) {
        struct slot_exec exec[SHAPE_SLOTS];
        memcpy(exec, eval->exec, sizeof *exec * (size_t)net->shape->slots);
        for (int j = 0; j < net->shape->slots; j++)
            exec[j].alpha = eval->alpha[k][j];
        struct net_batch batch = {.samples = eval->samples, .exec = exec};
        struct net_trial trial = trial_of(net, &batch);
        trial.learn = false;
        trial.params = *params;
        trial.memory = net->spare_memory;
        device_run(&trial);
        net_score_add(&eval->score[k], trial.result.score);
        if (eval->logits)
            memcpy(eval->logits + (size_t)k * outputs, net->logits, sizeof(real) * outputs);
    }
}

/* ---- a seed by itself -------------------------------------------------------------------------------------------- */

/* In the only slot of a host that has the right form. Never the gate net: it has no separate kernels. */
bool module_run(struct module_case *c, struct scrap *scrap)
{
    static const char *const slots[] = {"r0c0"};
    const struct rig_host host = {
        .base = c->channels, .blocks = 1, .kernel = 1, .height = c->height, .width = c->width, .images = c->images};
    const size_t count = c->pixels * (size_t)c->channels;
    struct rig rig;
    rig_init(&rig, scrap, &host, slots, 1);
    real *x = scrap_reals(scrap, count), *dy = scrap_reals(scrap, count), *y = scrap_reals(scrap, count),
         *dx = scrap_reals(scrap, count);
    if (scrap->failed)
        return false;
    rig_wake(&rig, 0, SLOT_BLEND, c->blueprint, ALGORITHM_ADD, 1);
    memcpy(rig.params.seed, c->w, sizeof(real) * c->layout.storage);
    unpad_pixels(c->pixels, c->channels, c->in, x);
    unpad_pixels(c->pixels, c->channels, c->upstream, dy);
    const struct net_batch batch = rig_batch(&rig);
    struct net_trial trial = trial_of(rig.net, &batch);
    trial.params = rig.params;
    trial.memory = rig.memory;
    trial.x = x;
    trial.dy = dy;
    trial.y = y;
    trial.dx = dx;
    trial.learn = false;
    device_run(&trial);
    pad_pixels(c->pixels, c->channels, y, c->out);
    pad_pixels(c->pixels, c->channels, dx, c->d);
    memcpy(c->g, rig.net->grads.seed, sizeof(real) * c->layout.storage);
    return true;
}

/* ---- the files --------------------------------------------------------------------------------------------------- */

bool check_device_vectors(const struct device_api *api, bool bf16, const struct st_file *file, const char *kind,
                          struct check_report *report, struct esper_error *error)
{
    const struct source source = {.file = file,
                                  .report = report,
                                  .kind = kind,
                                  .rough = bf16,
                                  .takes = bf16 ? api->bf16_fits : NULL,
                                  .device = true};
    device_tried = api;
    device_in_bf16 = bf16;
    device_failure = error;
    if (strcmp(kind, "host_cnn") == 0)
        check_host_cnn(&source);
    else if (strcmp(kind, "host_slots") == 0)
        check_host_slots(&source);
    else if (strcmp(kind, "blueprints_cnn") == 0 && !bf16)
        check_blueprints(&source);
    else if (strcmp(kind, "host_transformer") == 0 && !bf16)
        check_host_transformer(&source);
    else if (strcmp(kind, "blueprints_transformer") == 0 && !bf16)
        check_blueprints_transformer(&source);
    else if (strcmp(kind, "policy_net") == 0 && !bf16)
        check_policy_net(&source);
    else if (strcmp(kind, "gae_and_ppo") == 0 && !bf16)
        check_updates_on_device(file, report);
    else
        return false;
    return true;
}

/* ---- the case table ---------------------------------------------------------------------------------------------- */

enum answer_status device_answer(const struct device_api *api, const struct check_backend *backend, const char *table,
                                 int index, struct answers *answers, struct esper_error *error)
{
    device_tried = api;
    device_in_bf16 = backend->rough;
    device_failure = error;
    if (strcmp(table, "network") == 0)
        return answer_network(backend, index, answers);
    if (strcmp(table, "transformer") == 0)
        return answer_text(backend, index, answers);
    return strcmp(table, "policy") == 0 ? answer_policy(backend, index, answers) : ANSWER_LACKED;
}
