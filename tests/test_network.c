/*
 * Hosts, blueprints, blending and evaluation as the program uses them: through the kernels of variant_best(). What
 * needs the inside of a variant (I-11, I-12, I-17, I-21 ... I-25, I-29) is a case of `esper selftest`. That everything
 * is channels-last (I-13) follows from there being no other layout.
 */
#include "network_rig.h"

/* ---- hosts ------------------------------------------------------------------------------------------------------ */

static const struct {
    const char *name;
    size_t params;
    uint64_t macs;
    double gflop; /* host alone, training, per env-step (E-17) */
} tasks[] = {
    {"quickstart", 398, 7328, 0.010},           {"cifar_pointwise", 398, 28832, 0.15},
    {"quick_mixed", 398, 7328, 0.010},          {"cifar_mixed", 6418, 811328, 13.6},
    {"cifar_baseline", 6418, 811328, 13.6},     {"cifar_multichannel", 6418, 811328, 13.6},
    {"cifar_scale", 99922, 1402112, 24.5},      {"cifar_deep_multichannel", 99922, 1402112, 24.5},
    {"cifar_postpool", 24346, 2802304, 48.9},   {"cifar_highres", 24346, 2802304, 48.9},
    {"cifar_impaired", 77, 4136, 0.019},        {"cifar_minimal", 164, 47184, 0.28},
    {"cifar_deep_impaired", 1140, 14656, 0.08}, {"fashion_baseline", 6418, 811328, 13.6},
    {"mnist_baseline", 6418, 811328, 13.6},
};
enum { TASKS = sizeof tasks / sizeof tasks[0] };

static void load_task(const char *name, struct config *config)
{
    struct esper_error error = {0};
    config_defaults(config);
    if (config_load_task(config, name, &error) != ESPER_OK)
        fail_msg("%s", error.text);
}

static void i01_parameters_and_macs_are_those_of_the_tables(void **state)
{
    (void)state;
    for (int i = 0; i < TASKS; i++) {
        struct config config;
        struct cnn_shape shape;
        load_task(tasks[i].name, &config);
        cnn_shape_init(&shape, &config);
        assert_int_equal(shape.net.host.params, tasks[i].params);
        assert_int_equal(cnn_forward_macs(&shape), tasks[i].macs);
        double gflop = 2e-9 * (double)cnn_train_macs(&shape) * config.data_batch * config.data_batches;
        assert_true(fabs(gflop - tasks[i].gflop) < 0.05 * tasks[i].gflop);
    }
}

static void i02_every_task_gives_finite_logits_and_learns(void **state)
{
    (void)state;
    for (int i = 0; i < TASKS; i++) {
        struct config config;
        struct rig rig;
        float logits[LOGITS];
        load_task(tasks[i].name, &config);
        rig_open(&rig, &config, config.data_size, config.data_size, 5);
        double first = rig_step(&rig).score.loss, last = first;
        for (int k = 0; k < 5; k++) /* the same batch repeatedly: its loss must fall */
            last = rig_step(&rig).score.loss;
        assert_true(last < first);
        rig_logits(&rig, logits);
        assert_true(all_finite(logits, 5 * SHAPE_CLASSES));
        rig_close(&rig);
    }
}

static void i02_images_need_not_be_square_and_may_be_one_pixel(void **state)
{
    (void)state;
    static const int sizes[][3] = {{1, 1, 0}, {1, 7, 0}, {9, 5, 2}, {8, 31, 3}, {5, 4, 1}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int kernel = 1; kernel <= 3; kernel += 2) {
            struct config config;
            struct rig rig;
            float logits[LOGITS];
            load_task("cifar_baseline", &config);
            config.host_kernel = kernel;
            config.host_pools = sizes[i][2];
            rig_open(&rig, &config, sizes[i][0], sizes[i][1], 7);
            rig_wake(&rig, 0, SLOT_BLEND, BLUEPRINT_CONV_LIGHT, ALGORITHM_GATE, 0.5f);
            rig_wake(&rig, 2, SLOT_STE, BLUEPRINT_DEPTHWISE, ALGORITHM_ADD, 0);
            double loss = rig_step(&rig).score.loss;
            assert_true(isfinite(loss) && loss > 0);
            assert_true(all_finite(rig.memory.first.host, rig.shape.host.storage));
            rig_logits(&rig, logits);
            assert_true(all_finite(logits, 7 * SHAPE_CLASSES));
            rig_close(&rig);
        }
}

static void i03_evaluation_does_not_depend_on_the_rest_of_the_batch(void **state)
{
    (void)state;
    struct rig many, one;
    float together[LOGITS], alone[LOGITS];
    rig_open_small(&many, 19); /* groups of eight leave three over */
    rig_open_small(&one, 1);
    rig_grow(&many);
    rig_grow(&one);
    rig_logits(&many, together);
    struct net_input from = many.variant->net[FAMILY_CNN]->input(many.net),
                     to = one.variant->net[FAMILY_CNN]->input(one.net);
    for (int n = 0; n < 19; n++) {
        for (int y = 0; y < one.height; y++)
            memcpy(to.pixels + y * to.row_stride, from.pixels + n * from.image_stride + y * from.row_stride,
                   sizeof(float) * 4 * (size_t)one.width);
        rig_logits(&one, alone);
        assert_memory_equal(alone, together + n * SHAPE_CLASSES, sizeof(float) * SHAPE_CLASSES);
    }
    rig_close(&many);
    rig_close(&one);
}

static void i03_envs_share_a_net_but_no_statistics(void **state)
{
    (void)state;
    struct rig rig;
    rig_open_small(&rig, 6);
    float *other = copy(rig.params.stats, rig.shape.stats), *mine = rig.params.stats;
    float *before = copy(other, rig.shape.stats);
    rig_step(&rig);
    assert_memory_equal(other, before, sizeof(float) * rig.shape.stats);
    assert_memory_not_equal(mine, before, sizeof(float) * rig.shape.stats);
    memory_free(other);
    memory_free(before);
    rig_close(&rig);
}

static void i04_channels_double_and_slots_see_the_maps_of_the_table(void **state)
{
    (void)state;
    struct config config;
    struct cnn_shape shape;
    load_task("cifar_deep_multichannel", &config);
    cnn_shape_init(&shape, &config);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(shape.block[i].cout, 8 << i);
        assert_int_equal(shape.block[i].height, 32 >> i);
    }
    static const char *const actions[] = {"r0c0", "r0c1", "r0c2", "r0c3", "r0c4",
                                          "r1c0", "r1c1", "r1c2", "r1c3", "r1c4"};
    static const char *const order[] = {"r0c0", "r1c0", "r0c1", "r1c1", "r0c2", "r1c2", "r0c3", "r1c3", "r0c4", "r1c4"};
    for (int j = 0; j < 10; j++) {
        const struct slot_shape *slot = &shape.net.slot[j];
        assert_string_equal(slot->id, actions[j]);
        assert_string_equal(shape.net.slot[shape.net.exec_order[j]].id, order[j]);
        assert_int_equal(shape.site[j].channels, 8 << slot->column);
        assert_int_equal(shape.site[j].height, (slot->row ? 16 : 32) >> slot->column);
        assert_int_equal(shape.site[j].width, shape.site[j].height);
    }
    assert_int_equal(shape.site[9].height, 1); /* r1c4 */
}

static void i04_the_action_index_is_the_rank_among_the_slots_in_use(void **state)
{
    (void)state;
    struct config config;
    struct cnn_shape shape;
    load_task("cifar_multichannel", &config);
    struct esper_error error;
    assert_int_equal(config_set(&config, "slots=r0c2,r1c0,r1c2", &error), ESPER_OK);
    cnn_shape_init(&shape, &config);
    static const char *const actions[] = {"r0c2", "r1c0", "r1c2"};
    static const int order[] = {1, 0, 2};
    assert_int_equal(shape.net.slots, 3);
    for (int j = 0; j < 3; j++) {
        assert_string_equal(shape.net.slot[j].id, actions[j]);
        assert_int_equal(shape.net.exec_order[j], order[j]);
    }
}

/* A noop seed cuts the network at its slot and passes on what it got: the parts must make the whole, to the bit. */
static void i05_a_network_is_the_composition_of_its_segments(void **state)
{
    (void)state;
    struct rig rig;
    float whole[LOGITS], parts[LOGITS];
    rig_open_small(&rig, 11);
    rig_logits(&rig, whole);
    for (int j = 0; j < rig.shape.slots; j++) {
        memset(rig.exec, 0, sizeof rig.exec);
        rig_wake(&rig, j, SLOT_BLEND, BLUEPRINT_NOOP, ALGORITHM_ADD, 1);
        rig_logits(&rig, parts);
        assert_memory_equal(parts, whole, sizeof(float) * 11 * SHAPE_CLASSES);
    }
    rig_close(&rig);
}

/* ---- blueprints ------------------------------------------------------------------------------------------------- */

static void i10_parameter_counts_are_those_of_the_table(void **state)
{
    (void)state;
    static const int blueprints[] = {BLUEPRINT_NORM,       BLUEPRINT_ATTENTION,  BLUEPRINT_DEPTHWISE,
                                     BLUEPRINT_BOTTLENECK, BLUEPRINT_CONV_SMALL, BLUEPRINT_CONV_LIGHT,
                                     BLUEPRINT_CONV_HEAVY};
    static const size_t counts[][9] = {
        {1, 3, 3, 12, 594, 3, 11, 22, 25},
        {2, 5, 6, 26, 612, 8, 40, 80, 33},
        {4, 9, 12, 60, 648, 24, 152, 304, 49},
        {8, 17, 40, 152, 720, 80, 592, 1184, 81},
        {16, 33, 144, 432, 864, 288, 2336, 4672, 145},
        {32, 65, 544, 1376, 1152, 1088, 9280, 18560, 273},
        {64, 129, 2112, 4800, 4480, 4224, 36992, 73984, 1057},
        {128, 257, 8320, 17792, 17664, 16640, 147712, 295424, 4161},
    };
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        struct param_layout layout;
        int c = (int)counts[i][0];
        for (int k = 0; k < 7; k++) {
            blueprint_layout(blueprints[k], c, &layout);
            assert_int_equal(layout.params, counts[i][1 + k]);
        }
        gate_layout(c, &layout);
        assert_int_equal(layout.params, counts[i][8]);
        blueprint_layout(BLUEPRINT_NOOP, c, &layout);
        assert_int_equal(layout.params, 0);
    }
    /* conv_light costs the same in every slot of a base-8 host, and conv_heavy twice that (D-32). */
    for (int i = 0; i < 3; i++) {
        assert_int_equal(blueprint_macs(BLUEPRINT_CONV_LIGHT, 8 << i, 1024 >> (2 * i)), 589824);
        assert_int_equal(blueprint_macs(BLUEPRINT_CONV_HEAVY, 8 << i, 1024 >> (2 * i)), 2 * 589824);
    }
}

static void check_uniform(const struct tensor_layout *t, const float *values)
{
    double bound = 1 / sqrt((double)t->fan_in), mean = 0, square = 0, largest = 0;
    for (size_t i = 0; i < t->size; i++) {
        assert_true(fabs((double)values[i]) <= bound);
        mean += (double)values[i] / (double)t->size;
        square += (double)values[i] * (double)values[i] / (double)t->size;
        largest = fmax(largest, fabs((double)values[i]));
    }
    if (t->size < 500)
        return;
    double sigma = bound / sqrt(3);
    assert_true(fabs(mean) < 4 * sigma / sqrt((double)t->size));
    assert_true(fabs(square / (sigma * sigma) - 1) < 4 * 0.9 / sqrt((double)t->size));
    assert_true(largest > 0.98 * bound);
}

/* I-14: uniform in +-1/sqrt(fan_in) or the constant of the table; a draw depends on its key alone. */
static void i14_initial_values_are_drawn_as_the_table_says(void **state)
{
    (void)state;
    for (int blueprint = 0; blueprint < BLUEPRINT_COUNT; blueprint++) {
        struct param_layout layout;
        blueprint_layout(blueprint, 32, &layout);
        float *a = take(layout.storage, sizeof(float)), *b = take(layout.storage, sizeof(float));
        layout_init(&layout, 7, STREAM_SEED_INIT, 3, 2, 1u << 16, a);
        for (int t = 0; t < layout.count; t++) {
            const struct tensor_layout *tensor = &layout.tensor[t];
            if (tensor->fan_in)
                check_uniform(tensor, a + tensor->offset);
            for (size_t i = 0; !tensor->fan_in && i < tensor->size; i++)
                assert_true(a[tensor->offset + i] == tensor->value);
        }
        layout_init(&layout, 7, STREAM_SEED_INIT, 3, 2, 1u << 16, b);
        assert_memory_equal(a, b, sizeof(float) * layout.storage);
        bool random = false;
        for (int t = 0; t < layout.count; t++)
            random |= layout.tensor[t].fan_in > 0;
        for (int k = 0; random && k < 4; k++) { /* another env, slot, germination, run: other draws */
            layout_init(&layout, k == 3 ? 8 : 7, STREAM_SEED_INIT, 3, k == 0 ? 1 : 2,
                        k == 1   ? (1u << 16) + (1u << 8)
                        : k == 2 ? 2u << 16
                                 : 1u << 16,
                        b);
            assert_memory_not_equal(a, b, sizeof(float) * layout.storage);
        }
        memory_free(a);
        memory_free(b);
    }
}

static void i14_special_values_are_exact(void **state)
{
    (void)state;
    static const struct {
        int blueprint;
        const char *tensor;
        float value;
    } special[] = {{BLUEPRINT_NORM, "sigma", 0},     {BLUEPRINT_NORM, "gamma", 1},
                   {BLUEPRINT_ATTENTION, "w2", 0},   {BLUEPRINT_ATTENTION, "b2", 3},
                   {BLUEPRINT_BOTTLENECK, "wu", 0},  {BLUEPRINT_BOTTLENECK, "gamma", 1},
                   {BLUEPRINT_CONV_LIGHT, "beta", 0}};
    for (size_t i = 0; i < sizeof special / sizeof special[0]; i++) {
        struct param_layout layout;
        blueprint_layout(special[i].blueprint, 16, &layout);
        int t = layout_find(&layout, special[i].tensor);
        assert_true(t >= 0);
        assert_int_equal(layout.tensor[t].fan_in, 0);
        assert_true(layout.tensor[t].value == special[i].value);
    }
    struct param_layout layout; /* D-02: no chain that ends in ReLU starts at zero */
    static const int chains[] = {BLUEPRINT_CONV_SMALL, BLUEPRINT_CONV_LIGHT, BLUEPRINT_CONV_HEAVY, BLUEPRINT_DEPTHWISE};
    for (int i = 0; i < 4; i++) {
        blueprint_layout(chains[i], 16, &layout);
        for (int t = 0; t < layout.count; t++)
            assert_true(layout.tensor[t].fan_in > 0 || layout.tensor[t].dims == 1);
    }
}

/* ---- evaluation ------------------------------------------------------------------------------------------------- */

enum { CONFIGS = 33 };

/* All subsets of the five slots, on at their own alpha; the last one sets other values. */
static void fill_configs(const struct rig *rig, float alpha[CONFIGS][SHAPE_SLOTS])
{
    memset(alpha, 0, sizeof(float) * CONFIGS * SHAPE_SLOTS);
    for (int k = 0; k < CONFIGS; k++)
        for (int j = 0; j < rig->shape.slots; j++) {
            bool on = k == 0 || ((k - 1) >> j & 1);
            float own = rig->exec[j].mode == SLOT_BLEND ? rig->exec[j].alpha : 0;
            alpha[k][j] = k == CONFIGS - 1 ? 0.25f * (float)(rig->exec[j].mode == SLOT_BLEND) : on ? own : 0;
        }
}

static void i60_many_configurations_at_once_are_each_one_by_itself(void **state)
{
    (void)state;
    struct rig rig;
    static float alpha[CONFIGS][SHAPE_SLOTS], fused[CONFIGS * 11 * SHAPE_CLASSES], single[LOGITS];
    struct net_score scores[CONFIGS] = {{0}};
    rig_open_small(&rig, 11);
    rig_grow(&rig);
    fill_configs(&rig, alpha);
    rig_evaluate(&rig, CONFIGS, (const float(*)[SHAPE_SLOTS])alpha, scores, fused);
    for (int k = 0; k < CONFIGS; k++) {
        struct net_score score = {0};
        rig_evaluate(&rig, 1, (const float(*)[SHAPE_SLOTS])(alpha + k), &score, single);
        assert_memory_equal(single, fused + k * 11 * SHAPE_CLASSES, sizeof(float) * 11 * SHAPE_CLASSES);
        /* I-61: no configuration is affected by the others */
        assert_true(score.hits == scores[k].hits && score.loss == scores[k].loss && score.count == 11);
    }
    rig_close(&rig);
}

/* I-61: a seed in TRAINING has no normal path: only the host runs. */
static void i61_a_seed_in_training_takes_no_part_in_evaluation(void **state)
{
    (void)state;
    struct rig rig;
    float plain[LOGITS], logits[LOGITS];
    rig_open_small(&rig, 5);
    rig_logits(&rig, plain);
    rig_wake(&rig, 2, SLOT_STE, BLUEPRINT_CONV_HEAVY, ALGORITHM_ADD, 0);
    rig.params.seed[rig.shape.slot[2].seed] = NAN;
    rig_logits(&rig, logits);
    assert_memory_equal(logits, plain, sizeof(float) * 5 * SHAPE_CLASSES);
    rig_close(&rig);
}

static void i62_evaluation_changes_nothing(void **state)
{
    (void)state;
    struct rig rig;
    static float alpha[CONFIGS][SHAPE_SLOTS];
    struct net_score scores[CONFIGS] = {{0}}, again[CONFIGS] = {{0}};
    struct slot_exec exec[SHAPE_SLOTS];
    rig_open_small(&rig, 11);
    rig_grow(&rig);
    rig_step(&rig);
    memcpy(exec, rig.exec, sizeof exec);
    struct state before = state_of(&rig);
    fill_configs(&rig, alpha);
    rig_evaluate(&rig, CONFIGS, (const float(*)[SHAPE_SLOTS])alpha, scores, NULL);
    assert_all_same(&rig, &before);
    assert_memory_equal(exec, rig.exec, sizeof exec);
    rig_evaluate(&rig, CONFIGS, (const float(*)[SHAPE_SLOTS])alpha, again, NULL);
    assert_memory_equal(scores, again, sizeof scores);
    state_free(&before);
    rig_close(&rig);
}

/* What the kernels of chains take (cnn/cpu/seed_site.c): a row beyond that would write where it has no room. */
static void chains_are_what_kernels_take(void **state)
{
    (void)state;
    for (int b = 0; b < BLUEPRINT_COUNT; b++) {
        const struct seed_blueprint *row = blueprint_at(b);
        enum step_width width = WIDTH_SLOT;
        int norms = 0, wide = 0;
        for (int i = 0; i < row->steps; i++) {
            const struct chain_step *step = &row->step[i];
            const bool normed = step->act == ACT_NORM || step->act == ACT_NORM_RELU;
            const char *flaw = step->from != width ? "takes another width than it is given"
                               : step->kind != STEP_CONV1 && step->from != step->to     ? "is 3x3 and changes the width"
                               : step->kind == STEP_DEPTHWISE && step->to != WIDTH_SLOT ? "is depthwise in the neck"
                               : normed && step->to != WIDTH_SLOT                       ? "normalises in the neck"
                               : normed != (step->gamma && step->beta) ? "has gamma and beta, or lacks them"
                                                                       : NULL;
            if (flaw)
                fail_msg("%s: step %d %s", blueprint_name(b), i + 1, flaw);
            width = step->to;
            norms += normed;
            wide += step->kind == STEP_CONV3 && step->to == WIDTH_SLOT;
        }
        assert_int_equal(width, WIDTH_SLOT);
        assert_true(row->steps <= CHAIN_STEPS && norms <= 2 && wide <= 2 && (wide < 2 || row->steps == 2));
        if (row->kind == SEED_CHAIN) /* the sum is normalised: the last step says how much of it there is */
            assert_true(row->step[row->steps - 1].gamma != NULL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(i01_parameters_and_macs_are_those_of_the_tables),
        cmocka_unit_test(i02_every_task_gives_finite_logits_and_learns),
        cmocka_unit_test(i02_images_need_not_be_square_and_may_be_one_pixel),
        cmocka_unit_test(i03_evaluation_does_not_depend_on_the_rest_of_the_batch),
        cmocka_unit_test(i03_envs_share_a_net_but_no_statistics),
        cmocka_unit_test(i04_channels_double_and_slots_see_the_maps_of_the_table),
        cmocka_unit_test(i04_the_action_index_is_the_rank_among_the_slots_in_use),
        cmocka_unit_test(i05_a_network_is_the_composition_of_its_segments),
        cmocka_unit_test(i10_parameter_counts_are_those_of_the_table),
        cmocka_unit_test(i14_initial_values_are_drawn_as_the_table_says),
        cmocka_unit_test(i14_special_values_are_exact),
        cmocka_unit_test(i60_many_configurations_at_once_are_each_one_by_itself),
        cmocka_unit_test(i61_a_seed_in_training_takes_no_part_in_evaluation),
        cmocka_unit_test(i62_evaluation_changes_nothing),
        cmocka_unit_test(chains_are_what_kernels_take),
    };
    return cmocka_run_group_tests_name("network", tests, NULL, NULL);
}
