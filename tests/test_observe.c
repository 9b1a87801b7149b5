/* The observation: values, ranges, sentinels, what is remembered (P-05 to P-08, P-18). */
#include "policy/observe.h"

#include <stdlib.h>

#include "policy/uniform.h"
#include "testing_slots.h"

enum { STEPS = 100, SIZE = OBSERVE_BASE + OBSERVE_SLOT * HEAD_MAX_SLOTS };

/* An env at its first step with one slot; tests change what they look at. */
struct scene {
    struct tracker tracker;
    struct env_memory env;
    struct slot_state slot[HEAD_MAX_SLOTS];
    struct slot_memory memory[HEAD_MAX_SLOTS];
    int slots, step;
    double price, flop_price;
    float obs[SIZE];
    int8_t bp[HEAD_MAX_SLOTS];
};

static struct scene scene_of(int slots)
{
    struct scene scene = {.slots = slots, .step = 1};
    tracker_clear(&scene.tracker);
    memset(&scene.env, 0xA5, sizeof scene.env);
    memset(scene.memory, 0xA5, sizeof scene.memory);
    env_memory_clear(&scene.env);
    for (int s = 0; s < slots; s++) {
        slot_clear(&scene.slot[s]);
        slot_memory_clear(&scene.memory[s]);
    }
    tracker_update(&scene.tracker, 2.302585, 10.0);
    return scene;
}

static float *look(struct scene *scene)
{
    for (int i = 0; i < SIZE; i++)
        scene->obs[i] = NAN; /* every number must be written */
    struct observe_env env = {.step = scene->step,
                              .steps = STEPS,
                              .val_loss = tracker_loss(&scene->tracker, 0),
                              .val_accuracy = tracker_accuracy(&scene->tracker, 0),
                              .price = scene->price,
                              .flop_price = scene->flop_price,
                              .tracker = &scene->tracker,
                              .memory = &scene->env};
    observe(&env, scene->slot, scene->memory, scene->slots, scene->obs, scene->bp);
    return scene->obs;
}

static const float *look_at_slot(struct scene *scene, int slot)
{
    return look(scene) + OBSERVE_BASE + OBSERVE_SLOT * slot;
}

static void assert_near(double got, double want, double tolerance)
{
    if (!(fabs(got - want) <= tolerance))
        fail_msg("%.9g is not %.9g", got, want);
}

/* ---- single values ---------------------------------------------------------------------------------------------- */

static void logarithms_keep_sign_and_order(void **state)
{
    (void)state;
    assert_near((double)observe_symlog(1.5), 0.130899, 5e-7);
    assert_near((double)observe_symlog(2.302585), 0.170672, 5e-7);
    assert_near((double)observe_symlog(100.0), 0.659303, 5e-7);
    assert_near((double)observe_symlog(1000.0), 0.987, 5e-4);
    assert_true(observe_symlog(0.0) == 0.0f);
    for (double x = 1e-3, last = 0; x < 1e12; last = x, x *= 1.7) {
        assert_true(observe_symlog(-x) == -observe_symlog(x));
        assert_true(observe_symlog(x) > observe_symlog(last));
    }
}

static void the_start_of_an_episode(void **state)
{
    (void)state;
    struct scene scene = scene_of(2);
    const float *obs = look(&scene);
    assert_true(obs[0] == 0.01f);
    assert_near((double)obs[1], 0.170672, 5e-7);
    assert_true(obs[2] == 0.1f);
    for (int i = 0; i < 4; i++)
        assert_true(obs[3 + i] == -1.0f && obs[8 + i] == -1.0f);
    assert_true(obs[7] == obs[1] && obs[12] == obs[2]);
    assert_true(obs[13] == 0.0f && obs[14] == 0.0f && obs[15] == 0.0f);
    assert_true(obs[16] == 1.0f && obs[17] == 1.0f);
    for (int i = 18; i < observe_size(2); i++)
        assert_true(obs[i] == 0.0f);
    assert_int_equal(scene.bp[0], -1);
    assert_int_equal(observe_size(1), 60);
    assert_int_equal(observe_size(3), 122);
}

static void histories_run_from_old_to_new(void **state)
{
    (void)state;
    struct scene scene = scene_of(1);
    for (int t = 2; t <= 12; t++) {
        tracker_update(&scene.tracker, t, 5.0 * t);
        const float *obs = look(&scene);
        for (int i = 0; i < 5; i++) {
            int then = t - 4 + i; /* the step that column shows; step 1 had another loss and accuracy */
            float loss = then < 1 ? -1.0f : then == 1 ? observe_symlog(2.302585) : observe_symlog(then);
            float accuracy = then < 1 ? -1.0f : then == 1 ? 0.1f : (float)(5.0 * then / 100.0);
            assert_true(obs[3 + i] == loss);
            assert_true(obs[8 + i] == accuracy);
        }
    }
}

/* 0 was observed, -1 was not. */
static void a_zero_is_not_a_missing_value(void **state)
{
    (void)state;
    struct scene scene = scene_of(1);
    tracker_update(&scene.tracker, 0.0, 0.0);
    const float *obs = look(&scene);
    assert_true(obs[7] == 0.0f && obs[12] == 0.0f);
    assert_true(obs[5] == -1.0f && obs[10] == -1.0f);
}

static void a_loss_that_is_no_number_reads_as_a_thousand(void **state)
{
    (void)state;
    const double bad[] = {NAN, INFINITY, -INFINITY};
    for (int i = 0; i < 3; i++) {
        struct scene scene = scene_of(1);
        tracker_update(&scene.tracker, bad[i], 10.0);
        const float *obs = look(&scene);
        assert_true(obs[1] == observe_symlog(1e3) && obs[7] == obs[1]);
        tracker_update(&scene.tracker, 1.0, 10.0); /* and so it stays in the history */
        assert_true(look(&scene)[6] == observe_symlog(1e3));
    }
}

static void time_ends_with_the_episode(void **state)
{
    (void)state;
    struct scene scene = scene_of(1);
    scene.slot[0] = slot_in(STAGE_HOLDING);
    scene.slot[0].epochs_in_stage = 30;
    scene.slot[0].epochs_total = 1000;
    static const int steps[] = {1, 50, 100, 101, 100000};
    static const float want[] = {0.01f, 0.5f, 1.0f, 1.0f, 1.0f};
    for (int i = 0; i < 5; i++) {
        scene.step = steps[i];
        assert_true(look(&scene)[0] == want[i]);
    }
    assert_true(look_at_slot(&scene, 0)[28] == 0.3f);
    assert_true(look_at_slot(&scene, 0)[30] == 1.0f);
}

static void stages_are_counted_and_coded(void **state)
{
    (void)state;
    static const uint8_t stages[] = {STAGE_TRAINING,  STAGE_BLENDING, STAGE_HOLDING, STAGE_FOSSILIZED,
                                     STAGE_PRUNED,    STAGE_TRAINING, STAGE_DORMANT, STAGE_GERMINATED,
                                     STAGE_EMBARGOED, STAGE_RESETTING};
    static const int code[] = {3, 4, 5, 6, 7, 3, -1, 2, 8, 9};
    struct scene scene = scene_of(10);
    for (int s = 0; s < 10; s++) {
        scene.slot[s] = slot_in(stages[s]);
        scene.slot[s].blueprint = (uint8_t)(stages[s] == STAGE_DORMANT ? BLUEPRINT_NONE : s % BLUEPRINT_COUNT);
    }
    const float *obs = look(&scene);
    assert_true(obs[13] == 0.2f && obs[14] == 0.1f && obs[15] == 0.2f);
    for (int s = 0; s < 10; s++) {
        const float *row = obs + OBSERVE_BASE + OBSERVE_SLOT * s;
        assert_true(row[0] == (code[s] < 0 ? 0.0f : 1.0f));
        for (int i = 0; i < 10; i++)
            assert_true(row[1 + i] == (i == code[s] ? 1.0f : 0.0f));
        assert_int_equal(scene.bp[s], code[s] < 0 ? -1 : s % BLUEPRINT_COUNT);
    }
}

static void contributions_are_points_over_ten(void **state)
{
    (void)state;
    struct scene scene = scene_of(1);
    struct slot_state *slot = &scene.slot[0];
    *slot = slot_in(STAGE_BLENDING);
    slot->contribution = 7.0; /* not measured: whatever is stored there is not shown */
    assert_true(look_at_slot(&scene, 0)[12] == 0.0f);
    slot_record_contribution(slot, 4.0);
    assert_true(look_at_slot(&scene, 0)[12] == (float)asinh(0.4));
    assert_true(look_at_slot(&scene, 0)[13] == 0.0f);
    slot_record_contribution(slot, -6.0); /* velocity 0.3 times the change (D-13) */
    assert_true(look_at_slot(&scene, 0)[12] == (float)asinh(-0.6));
    assert_near((double)look_at_slot(&scene, 0)[13], asinh(-0.3), 1e-7);
    slot_record_contribution(slot, 80.0);
    slot->interaction_sum = -33.0;
    assert_true(look_at_slot(&scene, 0)[12] == (float)asinh(8)); /* eighty points are more than ten */
    assert_true(look_at_slot(&scene, 0)[13] > 1.0f);
    assert_true(look_at_slot(&scene, 0)[22] == (float)asinh(-3.3));
}

static double shown_price(double price)
{
    struct scene scene = scene_of(1);
    scene.price = price;
    return (double)look(&scene)[OBSERVE_PRICE];
}

/* Prices of tasks lie decades apart. With a column in proportion to them, policies that were shown what to grow at 0.02
 * to 1 grew the same at all of them. */
static void a_tenfold_price_is_as_plain_at_any_level(void **state)
{
    (void)state;
    struct scene scene = scene_of(1);
    scene.price = 0.2, scene.flop_price = 7;
    assert_true(look(&scene)[OBSERVE_PRICE] == (float)asinh(2));
    assert_true(look(&scene)[OBSERVE_FLOP_PRICE] == (float)asinh(70));
    assert_true(shown_price(0) == 0);
    for (double price = 0.3; price < 1e3; price *= 10)
        assert_near(shown_price(10 * price) - shown_price(price), log(10), 0.03);
}

static void the_ramp_is_shown_while_it_runs(void **state)
{
    (void)state;
    struct scene scene = scene_of(1);
    struct slot_state *slot = &scene.slot[0];
    *slot = slot_in(STAGE_BLENDING);
    slot->tempo = 3;
    slot->algorithm = ALGORITHM_GATE;
    alpha_retarget(slot, 0.7f, 5, CURVE_LINEAR, 12.0f);
    alpha_step(slot);
    alpha_step(slot);
    const float *row = look_at_slot(&scene, 0);
    assert_true(row[11] == slot->alpha && row[14] == 0.25f && row[15] == 0.7f && row[16] == 0.5f);
    assert_true(row[17] == 0.05f && row[18] == 0.02f && row[19] == 0.03f && row[21] == 1.0f);
    assert_near((double)row[20], 0.14, 1e-7);
    for (int i = 0; i < 3; i++)
        alpha_step(slot);
    row = look_at_slot(&scene, 0);
    assert_true(row[11] == 0.7f && row[16] == 0.0f && row[18] == 0.05f && row[19] == 0.0f && row[20] == 0.0f);
    alpha_retarget(slot, 0.7f, 8, CURVE_LINEAR, 12.0f); /* a command that goes nowhere has nothing left to do (D-14) */
    row = look_at_slot(&scene, 0);
    assert_true(row[17] == 0.08f && row[18] == 0.0f && row[19] == 0.0f);
    alpha_retarget(slot, 0.0f, 1, CURVE_LINEAR, 12.0f);
    row = look_at_slot(&scene, 0);
    assert_true(row[16] == 1.0f);
    assert_near((double)row[20], -0.7, 1e-7);
}

static void gradients_are_shown_once_measured(void **state)
{
    (void)state;
    struct scene scene = scene_of(1);
    struct slot_state *slot = &scene.slot[0];
    *slot = slot_in(STAGE_TRAINING);
    slot->grad_norm = slot->grad_health = 0.5;
    slot->flags = SLOT_VANISHING | SLOT_EXPLODING;
    for (int i = 23; i <= 26; i++)
        assert_true(look_at_slot(&scene, 0)[i] == 0.0f);
    struct gradient_sample sample = {100.0, 0.9, 0.2, true, false};
    slot_record_gradient(slot, &sample);
    const float *row = look_at_slot(&scene, 0);
    assert_near((double)row[23], 0.659303, 5e-7);
    assert_true(row[24] == 0.9f && row[25] == 1.0f && row[26] == 0.0f);
    sample.norm = INFINITY;
    slot_record_gradient(slot, &sample);
    row = look_at_slot(&scene, 0);
    assert_true(row[23] == 0.0f && row[24] == 0.0f && row[26] == 1.0f);
}

/* ---- memory ----------------------------------------------------------------------------------------------------- */

static void freshness_fades_from_the_measurement_on(void **state)
{
    (void)state;
    struct scene scene = scene_of(1);
    scene.slot[0] = slot_in(STAGE_BLENDING);
    for (int i = 0; i < 3; i++) { /* never measured stays unknown (P-06) */
        assert_true(look_at_slot(&scene, 0)[29] == -1.0f);
        observe_measured(&scene.memory[0], false);
        observe_executed(&scene.env, scene.memory, scene.slot, 1, OP_WAIT, true);
    }
    observe_measured(&scene.memory[0], true);
    assert_true(look_at_slot(&scene, 0)[29] == 1.0f);
    for (int age = 1; age <= 5; age++) {
        observe_executed(&scene.env, scene.memory, scene.slot, 1, OP_WAIT, true);
        observe_measured(&scene.memory[0], false);
        assert_near((double)look_at_slot(&scene, 0)[29], pow(0.995, age), 1e-7);
    }
    assert_near((double)look_at_slot(&scene, 0)[29], 0.975249, 5e-7);
    observe_measured(&scene.memory[0], true);
    assert_true(look_at_slot(&scene, 0)[29] == 1.0f);
}

static void health_of_the_step_before_is_kept(void **state)
{
    (void)state;
    struct scene scene = scene_of(1);
    struct slot_state *slot = &scene.slot[0];
    *slot = slot_in(STAGE_TRAINING);
    observe_executed(&scene.env, scene.memory, slot, 1, OP_WAIT, true);
    assert_true(look_at_slot(&scene, 0)[27] == -1.0f); /* nothing measured yet */
    static const double healths[] = {0.0, 1.0, 0.25};
    for (int i = 0; i < 3; i++) {
        struct gradient_sample sample = {1.0, healths[i], 0.2, false, false};
        slot_record_gradient(slot, &sample);
        assert_true(look_at_slot(&scene, 0)[27] == (i ? (float)healths[i - 1] : -1.0f));
        assert_true(look_at_slot(&scene, 0)[24] == (float)healths[i]);
        observe_executed(&scene.env, scene.memory, slot, 1, OP_WAIT, true);
    }
}

static void the_next_seed_inherits_no_memory(void **state)
{
    (void)state;
    struct scene scene = scene_of(2);
    for (int s = 0; s < 2; s++) {
        scene.slot[s] = slot_in(STAGE_TRAINING);
        slot_record_gradient(&scene.slot[s], &healthy);
        observe_measured(&scene.memory[s], true);
    }
    observe_executed(&scene.env, scene.memory, scene.slot, 2, OP_WAIT, true);
    slot_clear(&scene.slot[0]); /* freed by a tick; then GERMINATE comes, and sees the empty slot before it acts */
    observe_executed(&scene.env, scene.memory, scene.slot, 2, OP_GERMINATE, true);
    action_apply(&scene.slot[0], &germinate, &defaults, size, NULL);
    const float *row = look_at_slot(&scene, 0);
    assert_true(row[0] == 1.0f && row[27] == -1.0f && row[29] == -1.0f);
    row = look_at_slot(&scene, 1);
    assert_true(row[27] == 1.0f);
    assert_near((double)row[29], 0.995 * 0.995, 1e-7);
}

static void the_last_action_is_shown(void **state)
{
    (void)state;
    struct scene scene = scene_of(1);
    for (int op = 0; op < OP_COUNT; op++) {
        for (int success = 0; success < 2; success++) {
            observe_executed(&scene.env, scene.memory, scene.slot, 1, op, success);
            const float *obs = look(&scene);
            assert_true(obs[16] == (float)success);
            for (int i = 0; i < OP_COUNT; i++)
                assert_true(obs[17 + i] == (i == op ? 1.0f : 0.0f));
        }
    }
    observe_rolled_back(&scene.env);
    assert_true(look(&scene)[16] == 0.0f && look(&scene)[17] == 1.0f);
}

/* ---- properties ------------------------------------------------------------------------------------------------- */

static void assert_between(float value, float low, float high, int column)
{
    if (!(value >= low && value <= high))
        fail_msg("column %d is %g, not in [%g, %g]", column, (double)value, (double)low, (double)high);
}

static void check_slot_row(const float *row, const struct slot_state *slot, int bp)
{
    static const uint8_t signs[] = {12, 13, 20, 22, 27, 29}; /* may be negative */
    static const uint8_t wide[] = {12, 13, 22, 23};          /* may be beyond 1: asinh(10) = 3 */
    float code = 0.0f;
    if (slot->stage == STAGE_DORMANT) {
        for (int i = 0; i < OBSERVE_SLOT; i++)
            assert_true(row[i] == 0.0f);
        assert_int_equal(bp, -1);
        return;
    }
    assert_in_range(bp, BLUEPRINT_NOOP + 1, BLUEPRINT_COUNT - 1);
    for (int i = 1; i <= 10; i++)
        code += row[i];
    assert_true(row[0] == 1.0f && code == 1.0f && row[1 + observe_stage(slot->stage)] == 1.0f);
    for (int i = 0; i < OBSERVE_SLOT; i++)
        assert_between(row[i], memchr(signs, i, sizeof signs) ? -3.0f : 0.0f,
                       memchr(wide, i, sizeof wide) ? 3.0f : 1.0f, i);
}

/* Episodes of random play: in range, whole codes, and masks and features describe the same state (P-18). */
static void observations_stay_in_range(void **state)
{
    (void)state;
    int episodes = getenv("ESPER_SOAK") ? 1000 : 40;
    for (int episode = 0; episode < episodes; episode++) {
        struct scene scene = scene_of(1 + episode % HEAD_MAX_SLOTS);
        for (scene.step = 1; scene.step <= STEPS + 5; scene.step++) {
            struct random_site site = random_at(5, STREAM_ACTION, (uint32_t)episode, 0, (uint32_t)scene.step);
            tracker_update(&scene.tracker, 20.0 * (double)random_unit(random_word(site, 0)),
                           100.0 * (double)random_unit(random_word(site, 1)));
            for (int s = 0; s < scene.slots; s++) {
                bool measured = scene.slot[s].alpha > 0.0f;
                if (measured)
                    slot_record_contribution(&scene.slot[s], (double)random_symmetric(random_word(site, 2), 40.0));
                observe_measured(&scene.memory[s], measured);
            }
            const float *obs = look(&scene);
            for (int i = 0; i < OBSERVE_BASE; i++)
                assert_between(obs[i], i >= 3 && i <= 12 ? -1.0f : 0.0f, 1.0f, i);
            for (int i = observe_size(scene.slots); i < SIZE; i++)
                assert_true(isnan(obs[i])); /* and nothing beyond the end */
            for (int s = 0; s < scene.slots; s++)
                check_slot_row(obs + OBSERVE_BASE + OBSERVE_SLOT * s, &scene.slot[s], scene.bp[s]);
            struct masks masks = masks_of_slots(scene.slot, scene.slots, CNN_OFFERED, 0, true);
            for (int s = 0; s < scene.slots; s++)
                assert_int_equal(masks.slots[OP_FOSSILIZE] >> s & 1,
                                 obs[OBSERVE_BASE + OBSERVE_SLOT * s + 1 + 5] == 1.0f);
            static const double rate[OP_COUNT] = {1, 1, 1, 1, 1, 1};
            struct action action = uniform_decide(&masks, scene.slots, rate, site);
            observe_executed(&scene.env, scene.memory, scene.slot, scene.slots, action.op, true);
            for (int s = 0; s < scene.slots; s++)
                step(&scene.slot[s], &defaults, s == action.slot ? &action : &wait);
        }
    }
}

/* A slot's features are where its index says and depend on that slot alone; the env's do not depend on the order. */
static void exchanging_slots_exchanges_their_features(void **state)
{
    (void)state;
    struct scene scene = scene_of(3);
    scene.slot[0] = slot_holding(&germinate);
    scene.slot[1] = slot_in(STAGE_TRAINING);
    observe_measured(&scene.memory[0], true);
    struct scene other = scene;
    other.slot[2] = scene.slot[0];
    other.slot[0] = scene.slot[2];
    other.memory[2] = scene.memory[0];
    other.memory[0] = scene.memory[2];
    look(&scene);
    look(&other);
    static const int from[] = {2, 1, 0};
    assert_memory_equal(scene.obs, other.obs, OBSERVE_BASE * sizeof(float));
    for (int s = 0; s < 3; s++) {
        assert_memory_equal(scene.obs + OBSERVE_BASE + OBSERVE_SLOT * s,
                            other.obs + OBSERVE_BASE + OBSERVE_SLOT * from[s], OBSERVE_SLOT * sizeof(float));
        assert_int_equal(scene.bp[s], other.bp[from[s]]);
    }
}

static void only_unbounded_columns_are_normalised(void **state)
{
    (void)state;
    static const int base[] = {1, 3, 4, 5, 6, 7, 23}, slot[] = {12, 13, 22, 23};
    bool want[OBSERVE_BASE + 3 * OBSERVE_SLOT] = {false};
    for (int i = 0; i < 7; i++)
        want[base[i]] = true;
    for (int s = 0; s < 3; s++)
        for (int i = 0; i < 4; i++)
            want[OBSERVE_BASE + OBSERVE_SLOT * s + slot[i]] = true;
    for (int i = 0; i < observe_size(3); i++)
        assert_int_equal(observe_normalised(i), want[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(logarithms_keep_sign_and_order),
        cmocka_unit_test(the_start_of_an_episode),
        cmocka_unit_test(histories_run_from_old_to_new),
        cmocka_unit_test(a_zero_is_not_a_missing_value),
        cmocka_unit_test(a_loss_that_is_no_number_reads_as_a_thousand),
        cmocka_unit_test(time_ends_with_the_episode),
        cmocka_unit_test(stages_are_counted_and_coded),
        cmocka_unit_test(contributions_are_points_over_ten),
        cmocka_unit_test(a_tenfold_price_is_as_plain_at_any_level),
        cmocka_unit_test(the_ramp_is_shown_while_it_runs),
        cmocka_unit_test(gradients_are_shown_once_measured),
        cmocka_unit_test(freshness_fades_from_the_measurement_on),
        cmocka_unit_test(health_of_the_step_before_is_kept),
        cmocka_unit_test(the_next_seed_inherits_no_memory),
        cmocka_unit_test(the_last_action_is_shown),
        cmocka_unit_test(observations_stay_in_range),
        cmocka_unit_test(exchanging_slots_exchanges_their_features),
        cmocka_unit_test(only_unbounded_columns_are_normalised),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
