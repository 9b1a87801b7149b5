/* Schedules: their text, the rule (P-20) case by case, and whole episodes in which every action obeys the masks. */
#include "policy/schedule.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "testing_engine.h"

static struct slot_state slot_in(int stage, uint32_t germinations)
{
    struct slot_state slot;
    slot_clear(&slot);
    slot.stage = (uint8_t)stage;
    slot.germinations = germinations;
    return slot;
}

static struct schedule parsed(const char *text)
{
    struct config config = quickstart_config(2);
    struct schedule schedule;
    struct esper_error error = {0};
    if (schedule_parse(&schedule, text, &config, &error) != ESPER_OK)
        fail_msg("%s: %s", text, error.text);
    return schedule;
}

static void assert_same(const struct planting *a, const struct planting *b)
{
    assert_true(a->step == b->step && a->slot == b->slot && a->birth == b->birth && a->blueprint == b->blueprint &&
                a->style == b->style && a->tempo == b->tempo);
}

/* ---- text -------------------------------------------------------------------------------------------------------- */

static void an_entry_says_where_what_how_and_when(void **state)
{
    (void)state;
    struct schedule schedule =
        parsed("conv_heavy@1,r0c2=norm/sigmoid_add@12, conv_light/8@3,r0c2=attention/gated_gate/3@40");
    static const struct planting expected[] = {
        {1, 0, 1, BLUEPRINT_CONV_HEAVY, STYLE_LINEAR_ADD, 1},
        {12, 2, 1, BLUEPRINT_NORM, STYLE_SIGMOID_ADD, 1},
        {3, 2, 2, BLUEPRINT_CONV_LIGHT, STYLE_LINEAR_ADD, 2},
        {40, 2, 3, BLUEPRINT_ATTENTION, STYLE_GATED_GATE, 0},
    };
    assert_int_equal(schedule.count, 4);
    for (int i = 0; i < 4; i++)
        assert_same(&schedule.planting[i], &expected[i]);
    assert_int_equal(parsed("none").count, 0);
}

static void text_reads_back(void **state)
{
    (void)state;
    static const char *const texts[] = {"none", "conv_heavy@1", "r0c1=norm@7", "norm@1,norm@1,norm@1",
                                        "norm/linear_multiply/8@40,r0c2=conv_small/3@1,r0c0=depthwise@2"};
    struct config config = quickstart_config(2);
    char text[SCHEDULE_TEXT];
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct schedule schedule = parsed(texts[i]);
        schedule_format(&schedule, &config, text, sizeof text);
        assert_string_equal(text, texts[i]);
    }
    struct schedule same = parsed("r0c0=norm/5/linear_add@1,r0c1=norm@2"); /* the defaults are left out */
    schedule_format(&same, &config, text, sizeof text);
    assert_string_equal(text, "norm@1,norm@2");
}

static void the_longest_text_fits(void **state)
{
    (void)state;
    struct config config = quickstart_config(2);
    struct schedule schedule = {0}, again;
    struct esper_error error = {0};
    char text[SCHEDULE_TEXT];
    config.steps = 65535;
    for (int i = 0; i < SCHEDULE_PLANTINGS; i++) {
        struct planting *planting = schedule_add(&schedule, 2 - i % 3, BLUEPRINT_CONV_HEAVY, 65535);
        planting->style = STYLE_LINEAR_MULTIPLY;
        planting->tempo = 2;
    }
    schedule_format(&schedule, &config, text, sizeof text);
    assert_true(strlen(text) < sizeof text - 1);
    assert_int_equal(schedule_parse(&again, text, &config, &error), ESPER_OK);
    assert_int_equal(again.count, schedule.count);
    for (int i = 0; i < again.count; i++)
        assert_same(&again.planting[i], &schedule.planting[i]);
}

static void bad_text_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"", "the schedule is empty; \"none\" plants nothing"},
        {" ", "the schedule is empty"},
        {"norm@1,", "entry 2 is empty"},
        {"norm@1,,norm@2", "entry 2 is empty"},
        {"none,norm@1", "an entry is [SLOT=]BLUEPRINT[/STYLE][/TEMPO]@STEP"},
        {"conv_heavy", "an entry is [SLOT=]"},
        {"conv_hevy@1", "entry 1, \"conv_hevy@1\": blueprint \"conv_hevy\" is unknown; did you mean \"conv_heavy\"?"},
        {"noop@1", "has nothing to train"},
        {"r1c0=norm@1", "slot \"r1c0\" is none of the task's"},
        {"=norm@1", "slot \"\" is none"},
        {"norm@1,norm@1,norm@1,norm@1", "the task has 3 slots; name the one"},
        {"norm/sigmoid@1", "style \"sigmoid\" is unknown; did you mean \"sigmoid_add\"?"},
        {"norm/@1", "style \"\" is unknown"},
        {"norm/4@1", "tempo 4 is not offered; choose one of 3, 5, 8"},
        {"norm/08@1", "tempo 08 is not offered"},
        {"norm/3/5@1", "\"5\" is a second tempo"},
        {"norm/linear_add/sigmoid_add@1", "\"sigmoid_add\" is a second style"},
        {"norm@0", "step \"0\" must be a whole number from 1 to 40"},
        {"norm@41", "from 1 to 40"},
        {"norm@", "step \"\""},
        {"norm@-1", "step \"-1\""},
        {"norm@1.5", "step \"1.5\""},
        {"norm@1@2", "step \"1@2\""},
        {"norm@4294967297", "step \"4294967297\""},
    };
    struct config config = quickstart_config(2);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct schedule schedule;
        struct esper_error error = {0};
        assert_int_equal(schedule_parse(&schedule, cases[i].text, &config, &error), ESPER_INVALID);
        assert_says(&error, cases[i].says);
    }
    char many[SCHEDULE_PLANTINGS * 16 + 16] = "norm@1";
    for (int i = 0; i < SCHEDULE_PLANTINGS; i++)
        strcat(many, ",r0c0=norm@1");
    struct schedule schedule;
    struct esper_error error = {0};
    assert_int_equal(schedule_parse(&schedule, many, &config, &error), ESPER_INVALID);
    assert_says(&error, "more than 32 entries");
}

/* ---- the rule ---------------------------------------------------------------------------------------------------- */

static struct action decide(const char *text, int step, const struct slot_state *slot, int max_seeds)
{
    struct schedule schedule = parsed(text);
    struct masks masks = masks_of_slots(slot, 3, CNN_OFFERED, max_seeds, true);
    return schedule_decide(&schedule, step, slot, 3, &masks);
}

#define DORMANT slot_in(STAGE_DORMANT, 0)

static void the_first_due_planting_that_may_start_does(void **state)
{
    (void)state;
    const struct slot_state bare[] = {DORMANT, DORMANT, DORMANT};
    struct action action = decide("norm@5,conv_heavy/gated_gate/8@3,attention@1", 2, bare, 0);
    assert_true(action.op == OP_GERMINATE && action.slot == 2 && action.blueprint == BLUEPRINT_ATTENTION);
    action = decide("norm@5,conv_heavy/gated_gate/8@3,attention@1", 4, bare, 0);
    assert_true(action.op == OP_GERMINATE && action.slot == 1 && action.blueprint == BLUEPRINT_CONV_HEAVY &&
                action.style == STYLE_GATED_GATE && action.tempo == 2);
    assert_int_equal(decide("norm@5", 4, bare, 0).op, OP_WAIT);
    assert_int_equal(decide("norm@5", 5, bare, 0).op, OP_GERMINATE);
    assert_int_equal(decide("none", 5, bare, 0).op, OP_WAIT);
}

/* Alpha leads to 1, as in a script: what the heads that an entry does not name mean. */
static void a_seed_blends_fully(void **state)
{
    (void)state;
    const struct slot_state bare[] = {DORMANT, DORMANT, DORMANT};
    assert_true(alpha_target_value(decide("norm@1", 1, bare, 0).alpha_target) == 1.0f);
}

static void masks_come_first(void **state)
{
    (void)state;
    const struct slot_state training[] = {slot_in(STAGE_TRAINING, 1), DORMANT, DORMANT};
    const struct slot_state cooling[] = {slot_in(STAGE_EMBARGOED, 1), DORMANT, DORMANT};
    const struct slot_state blending[] = {slot_in(STAGE_BLENDING, 1), DORMANT, DORMANT};
    assert_int_equal(decide("norm@1,norm@1", 9, training, 0).op, OP_WAIT);
    assert_int_equal(decide("norm@1,norm@1", 9, cooling, 0).op, OP_WAIT);
    assert_int_equal(decide("norm@1,norm@1", 9, blending, 0).op, OP_GERMINATE);
    assert_int_equal(decide("norm@1,norm@1", 9, blending, 1).op, OP_WAIT);
}

/* The k-th entry of a slot stands for its k-th birth: a lost seed is not replaced unless there is an entry for it. */
static void the_kth_entry_is_the_kth_birth(void **state)
{
    (void)state;
    const struct slot_state again[] = {slot_in(STAGE_DORMANT, 1), DORMANT, DORMANT};
    const struct slot_state thrice[] = {slot_in(STAGE_DORMANT, 2), DORMANT, DORMANT};
    const struct slot_state fossil[] = {slot_in(STAGE_FOSSILIZED, 1), DORMANT, DORMANT};
    assert_int_equal(decide("norm@1", 9, again, 0).op, OP_WAIT);
    struct action action = decide("norm@1,r0c0=attention@8", 9, again, 0);
    assert_true(action.op == OP_GERMINATE && action.blueprint == BLUEPRINT_ATTENTION);
    assert_int_equal(decide("norm@1,r0c0=attention@10", 9, again, 0).op, OP_WAIT);
    assert_int_equal(decide("norm@1,r0c0=attention@8", 9, thrice, 0).op, OP_WAIT);
    const struct slot_state bare[] = {DORMANT, DORMANT, DORMANT}; /* the second never comes before the first */
    assert_int_equal(decide("norm@20,r0c0=attention@1", 9, bare, 0).op, OP_WAIT);
    action = decide("norm@1,r0c0=attention@1,norm@1", 9, fossil, 0); /* nor does it keep others waiting */
    assert_true(action.op == OP_GERMINATE && action.slot == 2);
}

static void what_holds_becomes_a_fossil_at_once(void **state)
{
    (void)state;
    const struct slot_state held[] = {slot_in(STAGE_FOSSILIZED, 1), slot_in(STAGE_HOLDING, 1),
                                      slot_in(STAGE_HOLDING, 1)};
    struct action action = decide("norm@1,norm@1,norm@1", 9, held, 0);
    assert_true(action.op == OP_FOSSILIZE && action.slot == 1);
    const struct slot_state one[] = {DORMANT, slot_in(STAGE_HOLDING, 1),
                                     DORMANT}; /* but a planting that is due precedes */
    assert_int_equal(decide("norm@9,norm@1", 9, one, 0).op, OP_GERMINATE);
    assert_int_equal(decide("norm@10,norm@1", 9, one, 0).op, OP_FOSSILIZE);
}

/* ---- whole episodes ---------------------------------------------------------------------------------------------- */

/* One to three plantings anywhere, now and then a second one in a slot. */
static void random_schedule(const struct config *config, char *text, size_t size)
{
    struct schedule schedule = {0};
    for (int left = 1 + rand() % 4; left > 0; left--) {
        struct planting *planting = schedule_add(&schedule, rand() % config->slot_count,
                                                 1 + rand() % (BLUEPRINT_COUNT - 1), 1 + rand() % config->steps / 2);
        planting->style = (uint8_t)(rand() % STYLE_COUNT);
        planting->tempo = (uint8_t)(rand() % TEMPO_COUNT);
    }
    schedule_format(&schedule, config, text, size);
}

/* The step's action, from the rollout's row, against the masks that the row kept: what is legal for PPO, no more. */
static void check_step(const struct world *world, const struct schedule *schedule, int env)
{
    const int slots = world->shape.slots;
    const size_t row = world_rollout_row(world, env);
    const uint8_t *choice = world->rollout.choice + row * HEAD_COUNT;
    const uint64_t mask = mask_effective(world->rollout.mask[row], slots, choice[HEAD_OP]);
    const uint32_t ops = head_bits(mask, slots, HEAD_OP);
    for (int head = 0; head < HEAD_COUNT; head++)
        assert_true(head_bits(mask, slots, head) >> choice[head] & 1u);
    if (choice[HEAD_OP] == OP_WAIT)
        assert_false(ops >> OP_FOSSILIZE & 1u);
    if (choice[HEAD_OP] == OP_GERMINATE || !(ops >> OP_GERMINATE & 1u))
        return;
    for (int i = 0; i < schedule->count; i++) { /* germination was legal, so nothing was due for an empty slot */
        const struct planting *planting = &schedule->planting[i];
        const struct slot_state slot = world_slot(world, env, planting->slot);
        assert_false((int)*world->step + 1 >= planting->step && slot.stage == STAGE_DORMANT &&
                     slot.germinations + 1 == planting->birth);
    }
}

static void every_action_obeys_the_masks(void **state)
{
    (void)state;
    enum { ENVS = 12, SCHEDULES = 6 };
    char folder[] = "/tmp/esper_schedule_XXXXXX", text[SCHEDULE_TEXT], file[64];
    struct config config = small_config(ENVS, 0, 1);
    struct schedule *schedules;
    struct esper_error error = {0};
    int count;
    assert_non_null(mkdtemp(folder));
    snprintf(file, sizeof file, "%s/lines", folder);
    config.policy.kind = POLICY_SCHEDULE;
    config.max_seeds = 2;
    snprintf(config.policy.schedule, sizeof config.policy.schedule, "@%s", file);
    srand(17);
    FILE *lines = fopen(file, "w");
    assert_non_null(lines);
    for (int i = 0; i < SCHEDULES; i++) {
        random_schedule(&config, text, sizeof text);
        fprintf(lines, "%s\n", text);
    }
    fclose(lines);
    assert_int_equal(schedule_load(&schedules, &count, &config, &error), ESPER_OK);
    assert_int_equal(count, SCHEDULES);

    struct engine *engine = start(&config);
    const struct world *world = engine_world(engine);
    for (int step = 0; step < config.steps; step++) {
        engine_train(engine);
        engine_evaluate(engine);
        engine_decide(engine);
        for (int env = 0; env < ENVS; env++)
            check_step(world, &schedules[env % SCHEDULES], env);
        engine_apply(engine);
    }
    int births = 0, fossils = 0;
    for (int env = 0; env < ENVS; env++)
        for (int j = 0; j < world->shape.slots; j++) {
            struct slot_state slot = world_slot(world, env, j);
            births += (int)slot.germinations;
            fossils += slot.stage == STAGE_FOSSILIZED;
        }
    assert_true(births > ENVS && fossils >= ENVS / 2);
    engine_free(engine);
    memory_free(schedules);
    remove(file);
    remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_entry_says_where_what_how_and_when),
        cmocka_unit_test(text_reads_back),
        cmocka_unit_test(the_longest_text_fits),
        cmocka_unit_test(bad_text_is_refused),
        cmocka_unit_test(the_first_due_planting_that_may_start_does),
        cmocka_unit_test(a_seed_blends_fully),
        cmocka_unit_test(masks_come_first),
        cmocka_unit_test(the_kth_entry_is_the_kth_birth),
        cmocka_unit_test(what_holds_becomes_a_fossil_at_once),
        cmocka_unit_test(every_action_obeys_the_masks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
