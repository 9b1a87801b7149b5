/* The rows of a step as they are made from its report: every number in the column of its own name. */
#include "engine/emit.h"
#include "reward/scene.h"
#include "testing_recorder.h"
#include "testing_sessions.h"

/* A world of three slots in which a network decides, and its recorder. */
struct scene {
    struct run run;
    struct world world;
    struct engine engine;
    struct step_report report;
};

static struct scene *scene_open(const char *name)
{
    static struct scene scene;
    const struct config config = sample_config();
    scene = (struct scene){.world = {.config = config, .learns = true, .shape = {.slots = 3}}};
    scene.report = (struct step_report){.round = 1, .step = 2, .env = 3, .result = STEP_DONE};
    scene.engine = (struct engine){.world = &scene.world, .recorder = start_run(&scene.run, name, TELEMETRY_NORMAL)};
    return &scene;
}

/* The report is written down; what reads its record. The caller closes it. */
static struct store *scene_emit(struct scene *scene)
{
    emit_report(&scene->engine, &scene->report);
    must_stop(scene->engine.recorder);
    struct store *store = must_read(&scene->run);
    run_close(&scene->run);
    return store;
}

static void every_component_and_op_has_its_own_column(void **state)
{
    (void)state;
    struct scene *scene = scene_open("columns");
    for (int i = 0; i < REWARD_COMPONENT_COUNT; i++)
        scene->report.components[i] = i + 0.5;
    for (int op = 0; op < OP_COUNT; op++)
        scene->report.decision.op_probability[op] = 0.125f * (float)(op + 1);
    struct store *store = scene_emit(scene);
    for (int i = 0; i < REWARD_COMPONENT_COUNT; i++)
        assert_true(number(store, "SELECT %s FROM step", reward_component_name(i)) == i + 0.5);
    for (int op = 0; op < OP_COUNT; op++)
        assert_true(number(store, "SELECT p_%s FROM step", op_name(op)) == 0.125 * (op + 1));
    store_close(store);
}

static void what_was_rolled_back_or_not_sampled_is_missing(void **state)
{
    (void)state;
    struct scene *scene = scene_open("missing");
    scene->world.learns = false;
    scene->report.result = STEP_ROLLED_BACK;
    struct store *store = scene_emit(scene);
    for (int i = 0; i < REWARD_COMPONENT_COUNT; i++)
        assert_true(isnan(number(store, "SELECT %s FROM step", reward_component_name(i))));
    for (int op = 0; op < OP_COUNT; op++)
        assert_true(isnan(number(store, "SELECT p_%s FROM step", op_name(op))));
    store_close(store);
}

/* Only one of these has a gate net: blended by addition, blended by a gate, to be blended by one. */
static void gate_nets_are_counted_where_they_are(void **state)
{
    (void)state;
    struct scene *scene = scene_open("params");
    struct slot_state *slot = scene->report.before;
    slot[0] = (struct slot_state){
        .stage = STAGE_FOSSILIZED, .algorithm = ALGORITHM_ADD, .seed_params = 1000, .gate_params = 25};
    slot[1] = (struct slot_state){
        .stage = STAGE_HOLDING, .algorithm = ALGORITHM_GATE, .seed_params = 2000, .gate_params = 35};
    slot[2] = (struct slot_state){
        .stage = STAGE_TRAINING, .algorithm = ALGORITHM_GATE, .seed_params = 4000, .gate_params = 45};
    struct store *store = scene_emit(scene);
    uint32_t sum = 0;
    for (int j = 0; j < 3; j++) {
        assert_true(number(store, "SELECT params FROM seed WHERE slot = %d", j) == slot_params(&slot[j]));
        sum += slot_params(&slot[j]);
    }
    assert_int_equal(sum, 1000 + 2000 + 35 + 4000);
    assert_true(number(store, "SELECT added_params FROM step") == sum);
    store_close(store);
}

/* The slots keep what was measured up to BLENDING, for gates and policy; the record has what the step measured. */
static void gradients_are_those_of_the_step(void **state)
{
    (void)state;
    struct scene *scene = scene_open("gradients");
    for (int j = 0; j < 3; j++)
        scene->report.before[j] = (struct slot_state){.stage = STAGE_HOLDING,
                                                      .flags = SLOT_GRAD_MEASURED | SLOT_VANISHING,
                                                      .grad_norm = 7,
                                                      .grad_health = 0.5,
                                                      .grad_ratio = 0.25};
    scene->report.before[2].stage = STAGE_BLENDING;
    scene->report.grads[0] =
        (struct slot_grads){.measured = true, .finite = true, .norm = 3, .health = 0.2, .ratio = 9, .exploding = true};
    scene->report.grads[2] = (struct slot_grads){.measured = true, .norm = INFINITY, .exploding = true};
    struct store *store = scene_emit(scene);
    assert_true(number(store, "SELECT count(*) FROM seed WHERE slot = 0 AND grad_norm = 3 AND grad_health = 0.2 AND "
                              "grad_ratio IS NULL AND vanishing = 0 AND exploding = 1") == 1);
    assert_true(number(store, "SELECT count(*) FROM seed WHERE slot = 1 AND "
                              "coalesce(grad_norm, grad_health, grad_ratio, vanishing, exploding) IS NULL") == 1);
    assert_true(number(store, "SELECT count(*) FROM seed WHERE slot = 2 AND grad_norm IS NULL AND grad_health = 0 AND "
                              "grad_ratio = 0.25 AND exploding = 1") == 1);
    store_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_component_and_op_has_its_own_column),
        cmocka_unit_test(what_was_rolled_back_or_not_sampled_is_missing),
        cmocka_unit_test(gate_nets_are_counted_where_they_are),
        cmocka_unit_test(gradients_are_those_of_the_step),
    };
    return cmocka_run_group_tests(tests, folder_make, folder_clear);
}
