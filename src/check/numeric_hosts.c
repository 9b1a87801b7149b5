/* Golden vectors of hosts alone: host_cnn, training steps and an evaluation. And what host_slots shares with it. */
#include "check/numeric_hosts.h"

#include <math.h>
#include <string.h>

#include "base/json.h"

#define HOST_STATS       ((struct tolerance){5e-5, 1e-7})
#define HOST_STATS_ROUGH ((struct tolerance){5e-3, 0})

/* ---- what both files share -------------------------------------------------------------------------------------- */

/* Geometry as far as the tensors show it: prefix.conv{i}.weight [out][in][k][k]. The pools are the caller's. */
bool host_read_geometry(const struct source *source, const char *prefix, struct rig_host *host)
{
    const struct st_tensor *first = st_find(source->file, name_of("%s.conv0.weight", prefix).text);
    if (!first || first->dims != 4 || first->shape[0] > NORM_MAX_CHANNELS || first->shape[2] > 3) {
        source_fail(source, name_of("%s.conv0.weight", prefix).text, "should be F32 [out][3][k][k]");
        return false;
    }
    host->base = (int)first->shape[0];
    host->kernel = (int)first->shape[2];
    host->blocks = 0;
    while (host->blocks <= SHAPE_BLOCKS &&
           st_find(source->file, name_of("%s.conv%d.weight", prefix, host->blocks).text))
        host->blocks++;
    return true;
}

bool host_read_batch(const struct source *source, const char *x_name, const char *y_name, const struct rig_host *host,
                     struct host_batch *batch)
{
    const struct st_tensor *x = st_find(source->file, x_name);
    size_t images = x ? x->shape[0] : 1;
    batch->pixels = source_floats(source, x_name, 4,
                                  (const size_t[]){images, (size_t)host->height, (size_t)host->width, SHAPE_COLOURS});
    batch->labels = source_integers(source, y_name, images);
    if (!batch->pixels || !batch->labels)
        return false;
    batch->images = (int)images;
    for (size_t n = 0; n < images; n++) {
        if (batch->labels[n] < 0 || batch->labels[n] >= SHAPE_CLASSES) {
            source_fail(source, y_name, "has a label that is not a class");
            return false;
        }
    }
    return true;
}

void host_load_batch(struct rig *rig, const struct host_batch *batch)
{
    rig->images = batch->images;
    rig_load(rig, batch->images, batch->pixels);
    for (int n = 0; n < batch->images; n++)
        rig->labels[n] = (uint16_t)batch->labels[n];
}

/* The size of the images in tensor `name`, which determines everything else. */
bool host_read_size(const struct source *source, const char *name, struct rig_host *host)
{
    const struct st_tensor *x = st_find(source->file, name);
    if (!x || x->dims != 4 || x->shape[0] > 4096 || x->shape[1] > 512 || x->shape[2] > 512) {
        source_fail(source, name, "should be F32 [images][height][width][3]");
        return false;
    }
    host->images = (int)x->shape[0];
    host->height = (int)x->shape[1];
    host->width = (int)x->shape[2];
    return true;
}

/* prefix.bn{i}.mean and .var: read into the statistics, or compared with them. */
bool host_visit_stats(const struct source *source, const char *prefix, struct rig *rig, bool load)
{
    bool complete = true;
    for (int i = 0; i < rig->cnn.blocks; i++) {
        const struct block_shape *b = &rig->cnn.block[i];
        const size_t at[2] = {b->mean, b->var}, size = (size_t)b->cout;
        for (int k = 0; k < 2; k++) {
            struct source_name name = name_of("%s.bn%d.%s", prefix, i, k ? "var" : "mean");
            const struct st_tensor *tensor = source_tensor(source, name.text, ST_F32, 1, &size);
            complete &= tensor != NULL;
            for (size_t c = 0; tensor && load && c < size; c++)
                rig->params.stats[at[k] + c] = (real)((const float *)tensor->data)[c];
            if (tensor && !load)
                source_compare(source, name.text, rig->params.stats + at[k], tensor,
                               source->rough ? HOST_STATS_ROUGH : HOST_STATS);
        }
    }
    return complete;
}

/* Logits of the last pass, [images][stride], compared with a tensor [images][classes]. */
void host_compare_logits(const struct source *source, const char *name, int images, int stride, const real *logits,
                         struct tolerance allowed, struct scrap *scrap)
{
    const struct st_tensor *want =
        source_tensor(source, name, ST_F32, 2, (const size_t[]){(size_t)images, SHAPE_CLASSES});
    real *dense = scrap_reals(scrap, (size_t)images * SHAPE_CLASSES);
    if (!want || !scrap_ready(scrap, source->report, name))
        return;
    for (int n = 0; n < images; n++)
        memcpy(dense + n * SHAPE_CLASSES, logits + n * stride, sizeof(real) * SHAPE_CLASSES);
    source_compare(source, name, dense, want, allowed);
}

void host_compare_scalar(const struct source *source, const char *name, double got, struct tolerance allowed)
{
    const float *want = source_floats(source, name, 1, (const size_t[]){1});
    if (want)
        source_compare_value(source, name, got, (double)*want, allowed);
}

void host_compare_correct(const struct source *source, const char *name, uint32_t got)
{
    const int32_t *want = source_integers(source, name, 1);
    if (want)
        source_flag(source, name, *want >= 0 && (uint32_t)*want == got, "the count of correct answers differs");
}

/* ---- host_cnn --------------------------------------------------------------------------------------------------- */

#define CNN_LOGITS       ((struct tolerance){5e-5, 0})
#define CNN_LOSS         ((struct tolerance){0, 1e-5})
#define CNN_NORM         ((struct tolerance){1e-4, 0})
#define CNN_PARAMS       ((struct tolerance){0, 5e-6})
#define CNN_LOSS_ROUGH   ((struct tolerance){1e-2, 0})
#define CNN_COSINE_ROUGH 0.975 /* 0.98 for five blocks, 0.99 and more for three */

/* One training step from batch `k` on; everything that the file holds of it is compared. */
static bool cnn_step(const struct source *source, const char *host, struct rig *rig, int k, bool last,
                     const struct host_batch *images, const struct net_rates *rates, struct scrap *scrap)
{
    struct source_name step = name_of("%s.step%d", host, k);
    struct net_result result;
    int stride;
    host_load_batch(rig, images);
    struct net_batch batch = rig_batch(rig);
    cnn_gradients(rig->net, &rig->params, &batch, &result);

    const real *logits = cnn_logits(rig->net, &stride);
    host_compare_logits(source, name_of("%s.logits", step.text).text, images->images, stride, logits, CNN_LOGITS,
                        scrap);
    host_compare_scalar(source, name_of("%s.loss", step.text).text, result.score.loss / images->images, CNN_LOSS);
    host_compare_correct(source, name_of("%s.correct", step.text).text, (uint32_t)result.score.hits);
    host_compare_scalar(source, name_of("%s.grad_norm", step.text).text, result.host_norm, CNN_NORM);
    if (k == 0 || source_has(source, name_of("%s.grad.", step.text).text)) /* large hosts store some steps only */
        source_compare_layout(source, name_of("%s.grad", step.text).text, &rig->shape.host, cnn_grads(rig->net).host,
                              (struct tolerance){0, 1e-4 * result.host_norm});
    if (last || source_has(source, name_of("%s.stat.", step.text).text))
        host_visit_stats(source, name_of("%s.stat", step.text).text, rig, false);

    cnn_update(rig->net, &rig->params, &rig->memory, &batch, rates, &result);
    if (last || source_has(source, name_of("%s.param.", step.text).text))
        source_compare_layout(source, name_of("%s.param", step.text).text, &rig->shape.host, rig->params.host,
                              CNN_PARAMS);
    if (last || source_has(source, name_of("%s.mom.", step.text).text))
        source_compare_layout(source, name_of("%s.mom", step.text).text, &rig->shape.host, rig->memory.first.host,
                              (struct tolerance){0, 2e-4 * rates->max_grad_norm});
    return true;
}

/* What bf16 preserves of a step; gradients and statistics of the first only, as later ones start from its rounding. */
static void cnn_step_rough(const struct source *source, const char *host, struct rig *rig, int k,
                           const struct host_batch *images, const struct net_rates *rates)
{
    struct source_name step = name_of("%s.step%d", host, k);
    struct net_result result;
    host_load_batch(rig, images);
    struct net_batch batch = rig_batch(rig);
    cnn_gradients(rig->net, &rig->params, &batch, &result);
    host_compare_scalar(source, name_of("%s.loss", step.text).text, result.score.loss / images->images, CNN_LOSS_ROUGH);
    if (k == 0) {
        source_compare_direction(source, name_of("%s.grad", step.text).text, &rig->shape.host, cnn_grads(rig->net).host,
                                 CNN_COSINE_ROUGH);
        host_visit_stats(source, name_of("%s.stat", step.text).text, rig, false);
    }
    cnn_update(rig->net, &rig->params, &rig->memory, &batch, rates, &result);
}

static void cnn_eval(const struct source *source, const char *host, struct rig *rig, const struct host_batch *images,
                     struct scrap *scrap)
{
    struct net_score score = {0};
    const float alpha[1][SHAPE_SLOTS] = {{0}};
    struct net_eval eval = {.samples = images->images,
                            .exec = rig->exec,
                            .configs = 1,
                            .alpha = alpha,
                            .score = &score,
                            .logits = scrap_reals(scrap, (size_t)images->images * SHAPE_CLASSES)};
    if (!scrap_ready(scrap, source->report, host))
        return;
    host_load_batch(rig, images);
    cnn_evaluate(rig->net, &rig->params, &eval);
    host_compare_logits(source, name_of("%s.eval.logits", host).text, images->images, SHAPE_CLASSES, eval.logits,
                        CNN_LOGITS, scrap);
    host_compare_scalar(source, name_of("%s.eval.loss", host).text, score.loss / images->images, CNN_LOSS);
}

/* The host's settings in the metadata; the norm's constants must be those that are built in. */
static bool cnn_settings(const struct source *source, const cJSON *item, struct rig_host *host, struct net_rates *rates)
{
    double lr, momentum, decay;
    const char *name = item->string;
    if (!host_read_geometry(source, name_of("%s.init", name).text, host) ||
        !source_integer(source, item, name, "pools", 0, SHAPE_BLOCKS, &host->pools) ||
        !source_number(source, item, name, "lr", &lr) || !source_number(source, item, name, "momentum", &momentum) ||
        !source_number(source, item, name, "weight_decay", &decay) ||
        !source_number(source, item, name, "max_grad_norm", &rates->max_grad_norm))
        return false;
    rates->host = optimiser_sgd((real)lr, (real)momentum, (real)decay);
    double value;
    if ((json_find(item, "eps") && source_number(source, item, name, "eps", &value) && value != NORM_EPS) ||
        (json_find(item, "bn_momentum") && source_number(source, item, name, "bn_momentum", &value) &&
         value != NORM_MOMENTUM)) {
        source_fail(source, name, "needs norms with an epsilon or momentum other than 1e-5 and 0.1");
        return false;
    }
    return true;
}

static int count_batches(const struct source *source)
{
    int count = 0;
    while (st_find(source->file, name_of("batch%d.x", count).text))
        count++;
    return count;
}

static void cnn_host(const struct source *source, const cJSON *item)
{
    struct rig_host host = {0};
    struct net_rates rates = {0};
    struct scrap scrap = {0};
    struct rig rig;
    struct host_batch batch, eval;
    const char *name = item->string;
    int steps = count_batches(source);
    if (!host_read_size(source, "batch0.x", &host) || !cnn_settings(source, item, &host, &rates) ||
        !host_read_batch(source, "eval.x", "eval.y", &host, &eval))
        return;
    for (int k = 0; k < steps; k++) {
        if (!host_read_batch(source, name_of("batch%d.x", k).text, name_of("batch%d.y", k).text, &host, &batch))
            return;
        host.images = batch.images > host.images ? batch.images : host.images;
    }
    host.images = eval.images > host.images ? eval.images : host.images;
    if (!rig_host_valid(&host)) {
        source_fail(source, name, "is a host that cannot be built");
        return;
    }
    rig_init(&rig, &scrap, &host, NULL, 0);
    if (source_leaves_out(source, name, &rig.shape, host.images))
        goto cleanup;
    if (!scrap_ready(&scrap, source->report, name) ||
        !source_load_layout(source, name_of("%s.init", name).text, &rig.shape.host, rig.params.host) ||
        !host_visit_stats(source, name_of("%s.init", name).text, &rig, true))
        goto cleanup;
    for (int k = 0; k < steps; k++) {
        host_read_batch(source, name_of("batch%d.x", k).text, name_of("batch%d.y", k).text, &host, &batch);
        if (source->rough)
            cnn_step_rough(source, name, &rig, k, &batch, &rates);
        else
            cnn_step(source, name, &rig, k, k + 1 == steps, &batch, &rates, &scrap);
    }
    if (!source->rough) /* which keeps no logits */
        cnn_eval(source, name, &rig, &eval, &scrap);
cleanup:
    scrap_free(&scrap);
}

void check_host_cnn(const struct source *source)
{
    cJSON *hosts = source_meta(source, "hosts");
    const cJSON *item;
    cJSON_ArrayForEach(item, hosts)
    {
        cnn_host(source, item);
    }
    cJSON_Delete(hosts);
}
