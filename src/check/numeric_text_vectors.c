/* Golden vectors of transformers: seeds alone, hosts alone, and hosts with seeds. */
#include <string.h>

#include "base/json.h"
#include "check/numeric_source.h"
#include "check/numeric_text.h"

#define TEXT_VALUES ((struct tolerance){5e-6, 1e-6})
#define TEXT_LOGITS ((struct tolerance){5e-6, 0})
#define TEXT_LOSS   ((struct tolerance){0, 5e-6})
#define TEXT_GRADS  ((struct tolerance){5e-5, 1e-6})

#define POOLED_GATE "its gate net sees the mean over the sequence; here, each token's own features"

/* ---- blueprints_transformer ------------------------------------------------------------------------------------- */

struct seed_vector {
    const char *name;
    int blueprint;
    bool gate; /* the gate net alone */
    struct text_host host;
    const struct st_tensor *x, *y, *dy, *dx;
    struct text_rig rig;
};

static int blueprint_named(const char *name)
{
    if (strcmp(name, "flex_attention") == 0) /* the same function */
        return TRANSFORMER_ATTENTION;
    for (int i = 0; i < transformer_family.blueprints; i++)
        if (family_has(&transformer_family, i) && strcmp(transformer_family.blueprint_names[i], name) == 0)
            return i;
    return -1;
}

static bool seed_vector_read(const struct source *source, const char *blueprint, struct seed_vector *v)
{
    v->gate = strcmp(blueprint, "gate") == 0;
    v->blueprint = v->gate ? BLUEPRINT_NOOP : blueprint_named(blueprint);
    v->x = st_find(source->file, name_of("%s.x", v->name).text);
    if (v->blueprint < 0 || !v->x || v->x->dtype != ST_F32 || v->x->dims != 3) {
        source_fail(source, v->name,
                    v->blueprint < 0 ? "names a blueprint that does not exist"
                                     : "should have x, F32 [sequences][tokens][width]");
        return false;
    }
    const size_t *shape = v->x->shape;
    v->host = (struct text_host){.vocabulary = 2, .heads = 1, .layers = 1, .segments = 1};
    if (shape[0] <= 64 && shape[1] <= 64 && shape[2] <= 1024) {
        v->host.samples = (int)shape[0];
        v->host.context = (int)shape[1];
        v->host.width = (int)shape[2];
    }
    if (!text_host_valid(&v->host) || v->host.samples * v->host.context > TEXT_SEED_ROWS) {
        source_fail(source, v->name, "is a seed that cannot be built");
        return false;
    }
    v->y = source_tensor(source, name_of("%s.y", v->name).text, ST_F32, v->gate ? 1 : 3, shape);
    v->dy = source_tensor(source, name_of("%s.dy", v->name).text, ST_F32, v->gate ? 1 : 3, shape);
    v->dx = source_tensor(source, name_of("%s.dx", v->name).text, ST_F32, 3, shape);
    return v->y && v->dy && v->dx;
}

static void copy_floats(const struct st_tensor *from, real *to)
{
    for (size_t i = 0; i < from->count; i++)
        to[i] = (real)((const float *)from->data)[i];
}

static void seed_vector_run(const struct source *source, struct seed_vector *v, real *x, real *dy, real *y, real *dx)
{
    const struct param_layout *layout = v->gate ? &v->rig.gate_layout : &v->rig.seed_layout[0];
    copy_floats(v->x, x);
    copy_floats(v->dy, dy);
    text_seed_run(&v->rig, v->gate, x, dy, y, dx);
    const struct net_params grads = transformer_grads(v->rig.net);
    source_compare(source, name_of("%s.y", v->name).text, y, v->y, TEXT_VALUES);
    source_compare(source, name_of("%s.dx", v->name).text, dx, v->dx, TEXT_VALUES);
    source_compare_layout(source, name_of("%s.grad", v->name).text, layout, v->gate ? grads.gate : grads.seed,
                          TEXT_VALUES);
}

static void seed_vector_check(const struct source *source, const char *name, const char *blueprint)
{
    struct seed_vector v = {.name = name};
    struct scrap scrap = {0};
    if (!seed_vector_read(source, blueprint, &v))
        return;
    if (v.gate && v.host.context > 1) {
        source_skip(source, name, POOLED_GATE);
        return;
    }
    if (v.gate && source->device) {
        source_skip(source, name, "the device has no gate net by itself; it is compared with the CPU's in networks");
        return;
    }
    real *map[4];
    for (int i = 0; i < 4; i++)
        map[i] = scrap_reals(&scrap, v.x->count);
    text_init(&v.rig, &scrap, &v.host);
    if (scrap_ready(&scrap, source->report, name)) {
        text_wake(&v.rig, 0, SLOT_BLEND, v.blueprint, v.gate ? ALGORITHM_GATE : ALGORITHM_ADD, 1);
        const struct source_name prefix = name_of("%s.param", name);
        if (v.gate ? source_load_layout(source, prefix.text, &v.rig.gate_layout, v.rig.params.gate)
                   : source_load_layout(source, prefix.text, &v.rig.seed_layout[0], v.rig.params.seed))
            seed_vector_run(source, &v, map[0], map[1], map[2], map[3]);
    }
    scrap_free(&scrap);
}

void check_blueprints_transformer(const struct source *source)
{
    cJSON *cases = source_meta(source, "cases");
    const cJSON *item;
    cJSON_ArrayForEach(item, cases)
    {
        const char *name, *blueprint;
        struct esper_error error;
        if (json_get_string(item, "case", &name, &error) != ESPER_OK ||
            json_get_string(item, "blueprint", &blueprint, &error) != ESPER_OK)
            source_fail(source, "__metadata__.cases", error.text);
        else
            seed_vector_check(source, name, blueprint);
    }
    cJSON_Delete(cases);
}

/* ---- host_transformer ------------------------------------------------------------------------------------------- */

/* A host of the file, and the batch that goes with it. */
struct host_vector {
    const char *name;      /* of the case */
    const char *prefix;    /* of the host's parameters */
    struct text_host host; /* with the context of the batch */
    int positions;         /* that the file's host has: the batch may be shorter */
    const struct st_tensor *x, *y;
    struct text_rig rig;
    struct param_layout stored; /* the host's, as in the file */
};

static bool host_vector_read(const struct source *source, const cJSON *item, const char *batch, struct host_vector *v)
{
    struct text_host *h = &v->host;
    int sequences;
    if (!source_integer(source, item, v->name, "vocab_size", 1, TRANSFORMER_BYTES, &h->vocabulary) ||
        !source_integer(source, item, v->name, "n_embd", 1, 1024, &h->width) ||
        !source_integer(source, item, v->name, "n_head", 1, 64, &h->heads) ||
        !source_integer(source, item, v->name, "n_layer", 1, TRANSFORMER_LAYERS, &h->layers) ||
        !source_integer(source, item, v->name, "block_size", 1, 1024, &v->positions) ||
        !source_integer(source, item, v->name, "num_segments", 1, TRANSFORMER_LAYERS, &h->segments) ||
        !source_integer(source, item, v->name, "B", 1, 4096, &sequences) ||
        !source_integer(source, item, v->name, "T", 1, v->positions, &h->context))
        return false;
    h->samples = sequences;
    if (!text_host_valid(h)) {
        source_fail(source, v->name, "is a host that cannot be built");
        return false;
    }
    const size_t shape[] = {(size_t)h->samples, (size_t)h->context};
    v->x = source_tensor(source, name_of("%s.x", batch).text, ST_I32, 2, shape);
    v->y = source_tensor(source, name_of("%s.y", batch).text, ST_I32, 2, shape);
    for (size_t i = 0; v->x && v->y && i < v->x->count; i++) {
        const int32_t x = ((const int32_t *)v->x->data)[i], y = ((const int32_t *)v->y->data)[i];
        if (x < 0 || x >= h->vocabulary || y < 0 || y >= h->vocabulary) {
            source_fail(source, v->name, "has a token outside its vocabulary");
            return false;
        }
    }
    return v->x && v->y;
}

/* Tensors of one host in the layout of another that has more or fewer positions. */
static void move_params(const struct param_layout *from, const real *source, const struct param_layout *to, real *out)
{
    memset(out, 0, sizeof(real) * to->storage);
    for (int t = 0; t < to->count; t++) {
        const size_t a = from->tensor[t].size, b = to->tensor[t].size;
        memcpy(out + to->tensor[t].offset, source + from->tensor[t].offset, sizeof(real) * (a < b ? a : b));
    }
}

static bool host_vector_open(const struct source *source, struct host_vector *v, struct scrap *scrap)
{
    struct transformer_shape whole;
    text_init(&v->rig, scrap, &v->host);
    struct config config = v->rig.config;
    config.host_context = v->positions;
    transformer_shape_init_sized(&whole, &config, v->host.vocabulary);
    v->stored = whole.net.host;
    real *params = scrap_reals(scrap, v->stored.storage);
    if (!scrap_ready(scrap, source->report, v->name) ||
        !source_load_layout(source, name_of("%s.param", v->prefix).text, &v->stored, params))
        return false;
    move_params(&v->stored, params, &v->rig.shape.host, v->rig.params.host);
    const struct net_input input = transformer_input(v->rig.net);
    for (size_t i = 0; i < v->x->count; i++) {
        const size_t row = i / (size_t)v->host.context, at = i % (size_t)v->host.context;
        input.tokens[row * input.token_stride + at] = (uint8_t)((const int32_t *)v->x->data)[i];
        v->rig.targets[i] = (uint8_t)((const int32_t *)v->y->data)[i];
    }
    transformer_targets(v->rig.net, v->rig.targets);
    return true;
}

static void host_vector_compare(const struct source *source, struct host_vector *v, struct scrap *scrap)
{
    struct text_rig *rig = &v->rig;
    const struct net_batch batch = text_batch(rig);
    struct net_result result;
    const size_t shape[] = {(size_t)v->host.samples, (size_t)v->host.context, (size_t)v->host.vocabulary};
    const struct source_name logit_name = name_of("%s.logits", v->name), loss_name = name_of("%s.loss", v->name);
    const struct st_tensor *want = source_tensor(source, logit_name.text, ST_F32, 3, shape);
    const float *loss = source_floats(source, loss_name.text, 1, (const size_t[]){1});
    real *logits = scrap_reals(scrap, text_logit_count(rig)), *grads = scrap_reals(scrap, v->stored.storage);
    if (!want || !loss || !scrap_ready(scrap, source->report, v->name))
        return;
    const struct net_score score = text_logits(rig, v->host.samples, logits);
    transformer_gradients(rig->net, &rig->params, &batch, &result);
    source_compare(source, logit_name.text, logits, want, TEXT_LOGITS);
    source_compare_value(source, loss_name.text, result.score.loss / (double)result.score.count, (double)*loss,
                         TEXT_LOSS);
    source_compare_value(source, name_of("%s.evaluated", v->name).text, score.loss / (double)score.count, (double)*loss,
                         TEXT_LOSS);
    if (st_find(source->file, name_of("%s.correct", v->name).text)) {
        const int32_t *correct = source_integers(source, name_of("%s.correct", v->name).text, 1);
        source_flag(source, name_of("%s.correct", v->name).text,
                    correct && result.score.hits == *correct && score.hits == *correct, "counts otherwise");
    }
    const struct net_params own = transformer_grads(rig->net);
    move_params(&rig->shape.host, own.host, &v->stored, grads);
    source_compare_layout(source, name_of("%s.grad", v->name).text, &v->stored, grads, TEXT_GRADS);
    for (int j = 0; j < rig->shape.slots; j++)
        if (rig->exec[j].mode != SLOT_SKIP && rig->exec[j].train)
            source_compare_layout(source, name_of("%s.seed.%s.grad", v->name, rig->config.slots[j]).text,
                                  &rig->seed_layout[j], own.seed + rig->shape.slot[j].seed, TEXT_GRADS);
}

/* The slots of a scenario. false: reported. */
static bool host_vector_wake(const struct source *source, struct host_vector *v)
{
    const size_t count = (size_t)v->rig.shape.slots;
    const int32_t *stage = source_integers(source, name_of("%s.stage", v->name).text, count),
                  *algorithm = source_integers(source, name_of("%s.algo", v->name).text, count),
                  *blueprint = source_integers(source, name_of("%s.blueprint", v->name).text, count);
    const float *alpha = source_floats(source, name_of("%s.alpha", v->name).text, 1, &count);
    const uint8_t *isolate = source_bytes(source, name_of("%s.isolate", v->name).text, count),
                  *frozen = source_bytes(source, name_of("%s.frozen", v->name).text, count);
    bool complete = stage && algorithm && blueprint && alpha && isolate && frozen;
    for (int j = 0; complete && j < (int)count; j++) {
        if (!stage_is_active(stage[j]))
            continue; /* its pool stays full of NAN: it must not be read (I-30) */
        if (!transformer_seed(blueprint[j]) || algorithm[j] < ALGORITHM_ADD || algorithm[j] > ALGORITHM_GATE) {
            source_fail(source, name_of("%s.blueprint", v->name).text, "has a live slot without seed or operator");
            return false;
        }
        if (algorithm[j] == ALGORITHM_GATE) {
            source_skip(source, v->name, POOLED_GATE);
            return false;
        }
        text_wake(&v->rig, j, stage_is_blended(stage[j]) ? SLOT_BLEND : SLOT_STE, blueprint[j], algorithm[j], alpha[j]);
        v->rig.exec[j].isolate = isolate[j] != 0;
        v->rig.exec[j].train = frozen[j] == 0;
        complete &= source_load_layout(source, name_of("%s.seed.%s.param", v->name, v->rig.config.slots[j]).text,
                                       &v->rig.seed_layout[j], text_seed(&v->rig, j));
    }
    return complete;
}

/* `geometry`: the case that describes the host and has the batch. */
static void host_vector_check(const struct source *source, const cJSON *item, const cJSON *geometry)
{
    struct scrap scrap = {0};
    struct host_vector v = {.name = item->string};
    char prefix[32] = "";
    const char *dot = strchr(geometry->string, '.');
    if (dot && (size_t)(dot - geometry->string) < sizeof prefix)
        memcpy(prefix, geometry->string, (size_t)(dot - geometry->string));
    v.prefix = prefix;
    if (host_vector_read(source, geometry, geometry->string, &v) && host_vector_open(source, &v, &scrap) &&
        (item == geometry || host_vector_wake(source, &v)))
        host_vector_compare(source, &v, &scrap);
    scrap_free(&scrap);
}

void check_host_transformer(const struct source *source)
{
    cJSON *cases = source_meta(source, "cases");
    const cJSON *item, *hosting = json_find(cases, "slots.full");
    cJSON_ArrayForEach(item, cases)
    {
        const bool scenario = json_find(item, "slots");
        if (scenario && !hosting)
            source_fail(source, item->string, "has slots, but there is no slots.full to have them");
        else
            host_vector_check(source, item, scenario ? hosting : item);
    }
    cJSON_Delete(cases);
}
