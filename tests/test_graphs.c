/*
 * What the device's captured phases consist of: kernels that compute, and of anything else no more than the table below
 * permits. A copy, a fill or a kernel that only rewrites an array in another layout costs a launch and the memory's
 * time in every step, and no result shows it; nor what the host does in a step, which is counted here as well. With
 * ESPER_TEST_DEVICE=cuda alone; ESPER_CUDA_LIBRARY may be the emulation.
 */
#include "testing_engine.h"

#include <ctype.h>
#include <stdio.h>

#include "engine/device.h"
#include "engine/parts.h"

/* Kernels with such a name change a layout or a type and compute nothing. */
static const char *const conversion_words[] = {"pack",    "unpack", "round",   "convert",  "cast",
                                               "reorder", "copy",   "permute", "transpose"};

enum { ANY = -1, BATCHES = 2 };

/* Which networks; those of the engine and the policy are in every device. */
enum network { CNN_FP32, CNN_BF16, TEXT_FP32, TEXT_BF16, TEXT_WIDE, NETS, EVERY };

/*
 * The permitted nodes of a phase: how many fills, how many of which conversion, how many kernels if that is known.
 * There are never copies, nor nodes of another kind.
 */
struct permitted {
    enum network net;
    const char *phase;
    int kernels, fills;
    const char *conversion;
    int times;
};
static const struct permitted permitted[] = {
    {EVERY, "reset", 3, 15, NULL, 0}, /* the rollout's arrays, and the shares */
    {EVERY, "twin", 1, 0, NULL, 0},
    {EVERY, "act", 1, 0, NULL, 0},
    {EVERY, "apply", 3, 0, NULL, 0},
    {EVERY, "decide", 14, 0, NULL, 0},
    {EVERY, "update", ANY, 0, NULL, 0},
    /* Weights are kept as they are saved; kernels that want them otherwise have them packed once they changed. */
    {CNN_FP32, "train", ANY, 0, "pack", BATCHES},
    {CNN_FP32, "evaluate", ANY, 0, "pack", 1},
    {CNN_FP32, "evaluate last", ANY, 0, "pack", 1},
    {CNN_FP32, "shares", ANY, 0, "pack", 1},
    {CNN_FP32, "test", ANY, 0, "pack", 1},
    {CNN_BF16, "train", ANY, 0, "pack", 1},
    {CNN_BF16, "train", ANY, 0, "pack_weights", 1},
    {CNN_BF16, "evaluate", ANY, 0, "pack_weights", 1},
    {CNN_BF16, "evaluate last", ANY, 0, "pack_weights", 1},
    {CNN_BF16, "test", ANY, 0, "pack_weights", 1},
    {TEXT_FP32, "train", ANY, 0, NULL, 0},
    {TEXT_FP32, "evaluate", ANY, 0, NULL, 0},
    {TEXT_FP32, "evaluate last", ANY, 0, NULL, 0},
    {TEXT_FP32, "test", ANY, 0, NULL, 0},
    {TEXT_BF16, "train", ANY, 0, "pack", 1 + BATCHES}, /* of all, then of seeds */
    {TEXT_BF16, "evaluate", ANY, 0, "pack", 1},
    {TEXT_BF16, "evaluate last", ANY, 0, "pack", 1},
    {TEXT_BF16, "test", ANY, 0, "pack", 1},
    {TEXT_WIDE, "train", ANY, 0, "round_params", 1},
    {TEXT_WIDE, "evaluate", ANY, 0, "round_params", 1},
    {TEXT_WIDE, "evaluate last", ANY, 0, "round_params", 1},
    {TEXT_WIDE, "test", ANY, 0, "round_params", 1},
};

/* Each of the networks, small: a task, and what differs from it. */
static const struct {
    const char *name, *task, *set[8];
} nets[NETS] = {
    [CNN_FP32] = {"cnn fp32", "quickstart", {"reward.mode=gain", "slots=r0c0,r0c1,r0c2,r1c0,r1c1,r1c2"}},
    [CNN_BF16] = {"cnn bf16", "cifar_baseline", {"data.set=synthetic", "data.size=32", "envs=1"}},
    [TEXT_FP32] = {"text fp32", "text_quick", {"host.context=8"}},
    [TEXT_BF16] = {"text bf16", "text_quick", {"host.context=8"}},
    [TEXT_WIDE] = {"text wide", "text_quick", {"host.context=8", "host.width=128", "envs=1"}},
};

static const char *const all_small[] = {"envs=2",
                                        "steps=2",
                                        "data.batch=2",
                                        "data.val_images=2",
                                        "data.final_images=3",
                                        "data.batches=2",
                                        "threads=1",
                                        "data.test_images=2",
                                        "policy.hidden=16",
                                        "ppo.epochs=1",
                                        "device=cuda",
                                        "policy.feature_dim=16",
                                        "reward.mode=shaped"};

static void set(struct config *config, const char *assignment)
{
    struct esper_error error = {0};
    if (config_set(config, assignment, &error) != ESPER_OK)
        fail_msg("%s", error.text);
}

static struct config config_of(enum network net)
{
    struct config config;
    struct esper_error error = {0};
    config_defaults(&config);
    if (config_load_task(&config, nets[net].task, &error) != ESPER_OK)
        fail_msg("%s", error.text);
    for (size_t i = 0; i < sizeof all_small / sizeof *all_small; i++)
        set(&config, all_small[i]);
    set(&config, net == CNN_FP32 || net == TEXT_FP32 ? "precision=fp32" : "precision=bf16");
    for (int i = 0; nets[net].set[i]; i++)
        set(&config, nets[net].set[i]);
    return config;
}

/* What the host does in a step after the first: launches the phases, copies the reports of the step, waits once. */
static void assert_counts(const struct engine *engine, const struct device_counters *before, uint64_t graphs)
{
    struct device_counters now;
    assert_true(engine_counters(engine, &now));
    assert_int_equal(now.graph_launches - before->graph_launches, graphs);
    assert_int_equal(now.launches, before->launches);
    assert_int_equal(now.allocations, before->allocations);
    assert_int_equal(now.copies - before->copies, 1);
    assert_int_equal(now.bytes_to, before->bytes_to);
    assert_int_equal(now.syncs - before->syncs, 1);
}

/* Every phase once: what is captured is captured then. */
static struct engine *play(const struct config *config)
{
    struct engine *engine = start(config);
    struct outcome_record outcomes[2];
    struct update_report report;
    struct head_report heads[HEAD_COUNT];
    struct device_counters before;
    const struct action wait = {.op = OP_WAIT};
    const bool shares = engine_world(engine)->shape.slots > SUBSETS_EXACT;
    engine->keeps_seeds = true; /* so that shares are estimated */
    for (int step = 0; step < config->steps; step++) {
        engine_counters(engine, &before);
        engine_train(engine);
        engine_evaluate(engine);
        engine_decide(engine);
        if (step == 0)
            engine_override(engine, 0, &wait);
        engine_apply(engine);
        if (step > 0)
            assert_counts(engine, &before, shares && step + 1 == config->steps ? 5 : 4);
    }
    engine_finish(engine, outcomes);
    engine_update(engine, 0, &report, heads);
    return engine;
}

/* ---- judging them ------------------------------------------------------------------------------------------------ */

/* `pack<32>, shape, ...` is launched under the name "pack". */
static bool is_named(const char *launched, const char *name)
{
    const size_t length = strlen(name);
    return strncmp(launched, name, length) == 0 && !isalnum((unsigned char)launched[length]) && launched[length] != '_';
}

/* Whether one of the words of the kernel's name is one of those. */
static bool is_conversion(const char *launched)
{
    for (const char *word = launched; isalnum((unsigned char)*word) || *word == '_'; word++)
        for (size_t i = 0; i < sizeof conversion_words / sizeof *conversion_words; i++) {
            const size_t length = strlen(conversion_words[i]);
            if ((word == launched || word[-1] == '_') && strncmp(word, conversion_words[i], length) == 0 &&
                !isalnum((unsigned char)word[length]))
                return true;
        }
    return false;
}

static int count_named(const struct device_graph *graph, const char *name)
{
    int count = 0;
    for (uint32_t i = 0; i < graph->kernels; i++)
        count += is_named(graph->kernel[i], name);
    return count;
}

static bool covers(const struct permitted *row, enum network net, const struct device_graph *graph)
{
    return (row->net == net || row->net == EVERY) && strcmp(row->phase, graph->name) == 0;
}

/* The number of things wrong with a phase, each said unless they were to be expected. */
static int judge(enum network net, const struct device_graph *graph, bool say)
{
    int rows = 0, wrong = 0, conversions = 0;
#define WRONG(...) (wrong++, say && printf("%s, %s: ", nets[net].name, graph->name) && printf(__VA_ARGS__) && puts(""))
    if (graph->copies || graph->others)
        WRONG("%u copies, %u nodes of other kinds", graph->copies, graph->others);
    for (size_t i = 0; i < sizeof permitted / sizeof *permitted; i++) {
        const struct permitted *row = &permitted[i];
        if (!covers(row, net, graph))
            continue;
        rows++;
        if (row->fills != (int)graph->fills)
            WRONG("%u fills instead of %d", graph->fills, row->fills);
        if (row->kernels != ANY && row->kernels != (int)graph->kernels)
            WRONG("%u kernels instead of %d", graph->kernels, row->kernels);
        if (row->conversion && count_named(graph, row->conversion) != row->times)
            WRONG("%s %d times instead of %d", row->conversion, count_named(graph, row->conversion), row->times);
        conversions += row->times;
    }
    if (rows == 0)
        WRONG("it is not in the table");
    for (uint32_t i = 0; i < graph->kernels; i++)
        conversions -= is_conversion(graph->kernel[i]);
    for (uint32_t i = 0; conversions < 0 && i < graph->kernels; i++)
        if (is_conversion(graph->kernel[i]))
            WRONG("a conversion: %.60s", graph->kernel[i]);
#undef WRONG
    return wrong;
}

static void test_graphs(void **state)
{
    int wrong = 0, seen = 0;
    (void)state;
    if (!on_device())
        skip();
    for (enum network net = 0; net < NETS; net++) {
        const struct config config = config_of(net);
        struct engine *engine = play(&config);
        struct device_graph graphs[DEVICE_GRAPHS];
        struct esper_error error;
        assert_int_equal(engine_check(engine, &error), ESPER_OK);
        const int count = engine->use.cuda->graphs(engine->device, graphs);
        for (int i = 0; i < count; i++)
            wrong += judge(net, &graphs[i], true);
        seen += count;
        engine_free(engine);
    }
    assert_int_equal(wrong, 0);
    assert_int_equal(seen, NETS * (DEVICE_GRAPHS - 2) + 2); /* one of them has shares and twins as well */
}

/* The judge itself: what it must not let pass. */
static void test_judge(void **state)
{
    const char *const good[] = {"pack, shape, net", "block_forward, images", "pack, shape, net"},
                      *const more[] = {"pack, shape, net", "pack<8>, images", "pack_pixels, shape"};
    const struct device_graph fine = {"train", 3, 0, 0, 0, good}, copies = {"train", 3, 1, 0, 0, good},
                              fills = {"train", 3, 0, 1, 0, good}, host = {"train", 3, 0, 0, 1, good},
                              converts = {"train", 3, 0, 0, 0, more}, lacks = {"train", 2, 0, 0, 0, good},
                              unknown = {"trains", 3, 0, 0, 0, good};
    (void)state;
    assert_int_equal(judge(CNN_FP32, &fine, false), 0);
    assert_true(judge(CNN_FP32, &copies, false) && judge(CNN_FP32, &fills, false) && judge(CNN_FP32, &host, false));
    assert_true(judge(CNN_FP32, &converts, false) && judge(CNN_FP32, &lacks, false) &&
                judge(CNN_FP32, &unknown, false));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_judge), cmocka_unit_test(test_graphs)};
    return cmocka_run_group_tests_name("graphs", tests, NULL, NULL);
}
