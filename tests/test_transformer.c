/* Transformer hosts: parameters by the formulas, the rules of their keys, what may grow in them, and that they learn.
 */
#include "testing.h"

#include <math.h>
#include <stdio.h>

#include "base/memory.h"
#include "host/families.h"
#include "variant/variant.h"

static struct config config_of(int width, int heads, int layers, int context, int segments)
{
    struct config config;
    config_defaults(&config);
    config.host_family = FAMILY_TRANSFORMER;
    config.host_width = width;
    config.host_heads = heads;
    config.host_layers = layers;
    config.host_context = context;
    config.host_segments = segments;
    config.slot_count = 1;
    snprintf(config.slots[0], sizeof config.slots[0], "r0c0");
    return config;
}

/* ---- shape ------------------------------------------------------------------------------------------------------ */

static void hosts_have_the_parameters_of_the_formula(void **state)
{
    (void)state;
    static const struct {
        int width, heads, layers, context;
        size_t params;
    } hosts[] = {{64, 4, 3, 64, 170560}, {384, 6, 6, 256, 10844160}, {32, 2, 2, 32, 34688}};
    for (size_t i = 0; i < sizeof hosts / sizeof hosts[0]; i++) {
        const struct config config =
            config_of(hosts[i].width, hosts[i].heads, hosts[i].layers, hosts[i].context, hosts[i].layers);
        static union host_shape shape;
        host_shape_init(&shape, &config);
        assert_int_equal(shape.net.host.params, hosts[i].params);
        assert_int_equal(shape.net.stats, 0);
        assert_true(transformer_forward_macs(&shape.transformer) >
                    (double)hosts[i].context * (double)hosts[i].params * 0.9);
    }
    static struct transformer_shape
        original; /* the size of the vocabulary is the only thing that tasks cannot choose */
    const struct config config = config_of(384, 6, 6, 256, 3);
    transformer_shape_init_sized(&original, &config, 50257);
    assert_int_equal(original.net.host.params, 30044544);
}

/* Embeddings and the last norm: nothing decays, and a token costs its row of the classifier. */
static void a_host_may_have_no_layers(void **state)
{
    (void)state;
    static union host_shape shape;
    struct config config = config_of(32, 2, 0, 16, 3);
    struct esper_error error = {0};
    snprintf(config.slots[0], sizeof config.slots[0], "r0c2");
    assert_int_equal(transformer_check_keys(&config, &error), ESPER_OK);
    host_shape_init(&shape, &config);
    assert_int_equal(shape.net.host.params, 256 * 32 + 16 * 32 + 2 * 32);
    assert_int_equal(shape.transformer.slot_after[1], -1);
    assert_int_equal(shape.transformer.slot_after[2], 0);
    assert_true(transformer_forward_macs(&shape.transformer) == 16.0 * 32 * 256);
    for (int t = 0; t < shape.net.host.count; t++)
        assert_false(host_tensor_decays(&shape.transformer, t));
    host_family_of(&config)->widen(&config);
    assert_int_equal(config.host_width, 36);
    assert_int_equal(transformer_check_keys(&config, &error), ESPER_OK);
}

/* What an exam's wider hosts are made of. */
static void the_next_wider_host_exists(void **state)
{
    (void)state;
    static const int heads[] = {1, 2, 3, 4, 6}, wider[] = {100, 100, 108, 100, 108};
    for (int i = 0; i < 5; i++) {
        struct config config = config_of(96, heads[i], 2, 32, 2);
        struct esper_error error = {0};
        host_family_of(&config)->widen(&config);
        assert_int_equal(config.host_width, wider[i]);
        assert_int_equal(host_family_of(&config)->check(&config, &error), ESPER_OK);
    }
}

static void births_shrink_with_the_layers_that_add_up(void **state)
{
    (void)state;
    static union host_shape shape;
    const struct config config = config_of(16, 2, 2, 8, 2);
    host_shape_init(&shape, &config);
    const struct tensor_layout *tensor = shape.net.host.tensor;
    assert_true(tensor[HOST_TOKENS].deviation == 0.02f && tensor[HOST_POSITIONS].deviation == 0.02f);
    for (int i = 0; i < 2; i++) {
        assert_true(tensor[layer_tensor(i, LAYER_QKV_WEIGHT)].deviation == 0.02f);
        assert_true(tensor[layer_tensor(i, LAYER_PROJ_WEIGHT)].deviation == 0.01f);
        assert_true(tensor[layer_tensor(i, LAYER_FC_WEIGHT)].deviation == 0.02f);
        assert_true(tensor[layer_tensor(i, LAYER_FCPROJ_WEIGHT)].deviation == 0.01f);
        assert_true(tensor[layer_tensor(i, LAYER_NORM2_GAMMA)].value == 1);
        for (int t = 0; t < LAYER_TENSORS; t++)
            assert_int_equal(tensor[layer_tensor(i, t)].fan_in, 0);
    }
    assert_string_equal(tensor[layer_tensor(1, LAYER_FC_BIAS)].name, "layer1.fc.bias");
    assert_true(tensor[layer_tensor(1, LAYER_FC_BIAS)].value == 0);
    assert_string_equal(tensor[last_norm_beta(&shape.transformer)].name, "lnf.beta");
}

static void hosts_that_cannot_be_are_refused(void **state)
{
    (void)state;
    struct esper_error error;
    struct config config = config_of(64, 4, 4, 64, 2);
    assert_int_equal(transformer_check_keys(&config, &error), ESPER_OK);
    config.host_heads = 6;
    assert_int_equal(transformer_check_keys(&config, &error), ESPER_INVALID);
    assert_non_null(strstr(error.text, "host.heads = 6"));
    config = config_of(18, 3, 4, 64, 2);
    assert_int_equal(transformer_check_keys(&config, &error), ESPER_INVALID);
    assert_non_null(strstr(error.text, "host.width = 18"));
    config = config_of(64, 4, 4, 64, 3);
    assert_int_equal(transformer_check_keys(&config, &error), ESPER_INVALID);
    assert_non_null(strstr(error.text, "host.segments = 3"));
    static const char *const slots[] = {"r0c2", "r1c0"};
    for (int i = 0; i < 2; i++) {
        config = config_of(64, 4, 4, 64, 2);
        snprintf(config.slots[0], sizeof config.slots[0], "%s", slots[i]);
        assert_int_equal(transformer_check_keys(&config, &error), ESPER_INVALID);
        assert_non_null(strstr(error.text, slots[i]));
        assert_non_null(strstr(error.text, "r0c0 to r0c1"));
    }
}

static void seeds_have_the_parameters_of_their_table(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int number;
        uint32_t params;
    } seeds[] = {{"noop", 0, 0},           {"attention", 2, 591360},  {"norm", 3, 769},    {"lora", 8, 6144},
                 {"lora_large", 9, 24576}, {"mlp_small", 10, 590976}, {"mlp", 11, 1181568}};
    static struct growth growth;
    const struct config config = config_of(384, 6, 6, 256, 3);
    host_growth_init(&growth, &config);
    const struct blueprint_list list = family_list(host_family_of(&config));
    assert_int_equal(list.count, sizeof seeds / sizeof seeds[0]);
    for (int i = 0; i < list.count; i++) {
        assert_int_equal(list.number[i], seeds[i].number);
        assert_string_equal(list.name[i], seeds[i].name);
        assert_int_equal(growth.seed[0][seeds[i].number].params, seeds[i].params);
        assert_int_equal(growth.offered >> seeds[i].number & 1u, i > 0);
    }
    for (int i = 0; i < ROTATION; i++) {
        assert_true(growth.offered >> growth.rotation.blueprint[i] & 1u);
        for (int k = 0; k < ROTATION; k++) { /* by_name: the ranks of the names */
            const char *a = list.name[0], *b = list.name[0];
            for (int n = 0; n < list.count; n++) {
                a = list.number[n] == growth.rotation.blueprint[i] ? list.name[n] : a;
                b = list.number[n] == growth.rotation.blueprint[k] ? list.name[n] : b;
            }
            assert_int_equal(strcmp(a, b) < 0, growth.rotation.by_name[i] < growth.rotation.by_name[k]);
        }
    }
    assert_int_equal(growth.gate[0].params, 37057);
    assert_int_equal(growth.classes, 256);
    assert_true(growth.scored_by_loss);
}

/* ---- learning --------------------------------------------------------------------------------------------------- */

enum { BATCH = 6 };

struct learner {
    struct config config;
    union host_shape shape;
    const struct net_kernels *kernels;
    struct net *net;
    struct net_params params;
    struct net_memory memory;
    uint32_t updates[8];
    struct slot_exec exec[SHAPE_SLOTS];
    void *taken[16];
    int count;
};

static float *taken(struct learner *l, size_t floats)
{
    struct esper_error error;
    void *memory = memory_alloc(floats, sizeof(float), &error);
    assert_non_null(memory);
    l->taken[l->count++] = memory;
    return memory;
}

/* Newborn, in front of six sentences of 16 bytes. */
static void learner_open(struct learner *l, const struct variant *variant)
{
    memset(l, 0, sizeof *l);
    l->config = config_of(16, 2, 2, 16, 2);
    host_shape_init(&l->shape, &l->config);
    l->kernels = variant->net[FAMILY_TRANSFORMER];
    l->net =
        l->kernels->init(&l->shape.net, BATCH, taken(l, l->kernels->bytes(&l->shape.net, BATCH) / sizeof(float) + 1));
    struct net_params *all[] = {&l->params, &l->memory.first, &l->memory.second};
    for (int i = 0; i < 3; i++) {
        all[i]->host = taken(l, l->shape.net.host.storage);
        all[i]->seed = taken(l, l->shape.net.seed_storage);
        all[i]->gate = taken(l, l->shape.net.gate_storage);
    }
    l->memory.updates = l->updates;
    layout_init(&l->shape.net.host, 42, STREAM_HOST_INIT, 0, 0, 0, l->params.host);
    const struct net_input input = l->kernels->input(l->net);
    assert_null(input.pixels);
    assert_int_equal(input.token_stride, 17);
    static const char text[] =
        "to be or not to be, that is the question: whether 'tis nobler in the mind to suffer the slings "
        "and arrows of outrageous fortune";
    for (int n = 0; n < BATCH; n++)
        memcpy(input.tokens + (size_t)n * input.token_stride, text + 16 * n, input.token_stride);
}

static void learner_close(struct learner *l)
{
    while (l->count > 0)
        memory_free(l->taken[--l->count]);
}

static struct net_rates rates_of(float lr, float weight_decay, double max_grad_norm)
{
    const struct optimiser adamw = {OPTIMISER_ADAMW, lr, 0.9f, 0.95f, 1e-8f, weight_decay};
    return (struct net_rates){adamw, adamw, max_grad_norm};
}

static double learn(struct learner *l, const struct net_rates *rates, int steps)
{
    const struct net_batch batch = {.samples = BATCH, .exec = l->exec};
    struct net_result result = {0};
    for (int i = 0; i < steps; i++) {
        l->kernels->gradients(l->net, &l->params, &batch, &result);
        l->kernels->update(l->net, &l->params, &l->memory, &batch, rates, &result);
    }
    assert_int_equal(result.score.count, BATCH * 16);
    return result.score.loss / (double)result.score.count;
}

/* From guessing to knowing a text by heart, on every instruction set. */
static void hosts_learn(void **state)
{
    (void)state;
    const struct variant *variant;
    for (int i = 0; (variant = variant_at(i)); i++) {
        static struct learner l;
        const struct net_rates rates = rates_of(0.01f, 0.01f, 1);
        learner_open(&l, variant);
        assert_true(fabs(learn(&l, &rates, 1) - log(256)) < 0.05);
        assert_true(learn(&l, &rates, 200) < 0.1);
        assert_int_equal(l.updates[NET_HOST], 201);
        learner_close(&l);
    }
}

/* With a gradient clipped to nothing, decay is all that is left of a step. */
static void only_matrices_decay(void **state)
{
    (void)state;
    static struct learner l;
    const struct net_rates rates = rates_of(0.1f, 0.5f, 1e-30);
    learner_open(&l, variant_best());
    const struct param_layout *layout = &l.shape.net.host;
    float *before = taken(&l, layout->storage);
    for (size_t i = 0; i < layout->storage; i++) /* biases and norms as well */
        before[i] = l.params.host[i] += 0.25f;
    learn(&l, &rates, 1);
    int decayed = 0;
    for (int t = 0; t < layout->count; t++) {
        const struct tensor_layout *tensor = &layout->tensor[t];
        const bool matrix = strstr(tensor->name, ".weight") != NULL;
        decayed += matrix;
        for (size_t i = tensor->offset; i < tensor->offset + tensor->size; i++)
            assert_true(fabsf(l.params.host[i] - before[i] * (matrix ? 0.95f : 1.0f)) < 1e-6f);
    }
    assert_int_equal(decayed, 8);
    learner_close(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hosts_have_the_parameters_of_the_formula),
        cmocka_unit_test(a_host_may_have_no_layers),
        cmocka_unit_test(the_next_wider_host_exists),
        cmocka_unit_test(births_shrink_with_the_layers_that_add_up),
        cmocka_unit_test(hosts_that_cannot_be_are_refused),
        cmocka_unit_test(seeds_have_the_parameters_of_their_table),
        cmocka_unit_test(hosts_learn),
        cmocka_unit_test(only_matrices_decay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
