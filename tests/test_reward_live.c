/*
 * The reward over whole episodes: random and chosen actions drive the program's own lifecycle and subset tables.
 */
#include "testing_reward.h"

#define NEAR 1e-9

static const enum reward_mode modes[] = {REWARD_SHAPED, REWARD_SIMPLIFIED, REWARD_SPARSE, REWARD_MINIMAL,
                                         REWARD_BASIC,  REWARD_BASIC_PLUS, REWARD_ESCROW, REWARD_LOSS};
enum { MODES = 8 };

static int episodes(int usual)
{
    return getenv("ESPER_SOAK") ? usual * 50 : usual;
}

/* An env of 1 to 6 slots whose seeds help or harm, some gates strict, some manual. */
static void rig_begin_random(struct rig *rig, struct reward_config config, uint32_t seed)
{
    uint32_t random = seed;
    rig_begin(rig, config, 1 + draw_below(&random, RIG_SLOTS), 30 + draw_below(&random, 60), seed);
    rig->synergy = draw(&random, -1, 2);
    rig->drift = draw(&random, -0.1, 0.3);
    rig->gates.permissive = draw_below(&random, 3) > 0;
    rig->gates.auto_g1 = rig->gates.auto_g2 = rig->gates.auto_g3 = draw_below(&random, 3) > 0;
    for (int j = 0; j < rig->slots; j++)
        rig->effect[j] = draw(&random, -4, 8);
}

/* ---- any episode (R-22) ----------------------------------------------------------------------------------------- */

static void every_step_is_finite_and_adds_up(void **state)
{
    (void)state;
    int removed = 0, fossils = 0, rollbacks = 0;
    for (int k = 0; k < episodes(160); k++) {
        struct rig rig;
        rig_begin_random(&rig, rewards(modes[k % MODES], both[k / MODES % 2]), (uint32_t)k + 1);
        while (rig.step < rig.steps) {
            if (draw_below(&rig.random, 60) == 0) {
                rig_rollback(&rig);
                rollbacks++;
                continue;
            }
            double sum = 0, total = rig_step(&rig, rig_random(&rig));
            for (int i = 0; i < REWARD_COMPONENT_COUNT; i++) {
                assert_true(isfinite(rig.component[i]));
                sum += rig.component[i];
            }
            assert_true(fabs(sum - total) < NEAR && fabs(total) <= 100);
            for (int j = 0; j < rig.slots; j++) {
                bool live = stage_is_live(rig.slot[j].stage);
                removed += stage_is_cooldown(rig.slot[j].stage);
                assert_true(live || (rig.kept[j].credit == 0 && isnan(rig.kept[j].birth)));
                for (int i = 0; i < rig.slots; i++)
                    assert_true(live || (rig.pairs.boost[i][j] == 0 && rig.pairs.boost[j][i] == 0));
            }
        }
        fossils += (int)rig.state.fossils;
    }
    assert_true(removed > 100 && fossils > 20 && rollbacks > 20); /* the walks reach what they should */
}

/* ---- shaping (R-04) --------------------------------------------------------------------------------------------- */

/* whatever happens, nothing of the potential is left at the end, not even of fossils. */
static void shaping_telescopes(void **state)
{
    (void)state;
    static const enum reward_mode shaped[] = {REWARD_SHAPED, REWARD_ESCROW, REWARD_BASIC, REWARD_SIMPLIFIED,
                                              REWARD_LOSS};
    int fossils = 0;
    double most = 0;
    for (int k = 0; k < episodes(200); k++) {
        struct reward_config config = rewards(shaped[k % 5], REWARD_RULES_ESPER);
        double weight = config.mode == REWARD_LOSS ? config.stage_potential_weight : config.pbrs_weight;
        double sum = 0, factor = 1;
        struct rig rig;
        rig_begin_random(&rig, config, (uint32_t)k + 1000);
        while (rig.step < rig.steps) {
            rig_measure(&rig);
            rig_act(&rig, rig_random(&rig));
            sum += factor * rig.component[REWARD_PBRS];
            factor *= GAMMA;
            most = fmax(most, fabs(sum) / weight);
        }
        for (int j = 0; j < rig.slots; j++)
            fossils += rig.slot[j].stage == STAGE_FOSSILIZED;
        assert_true(fabs(sum) < NEAR);
    }
    assert_true(fossils > 5 && most > 1); /* there was something to lose */
}

/* a seed that is germinated, kept for k steps and pruned earns nothing by shaping, whatever stages it saw. */
static void germinating_to_prune_does_not_pay(void **state)
{
    (void)state;
    for (int k = 5; k < 60; k++)
        for (int speed = 0; speed < ALPHA_SPEED_COUNT; speed++) {
            struct rig rig;
            double sum = 0, factor = 1;
            rig_begin(&rig, rewards(REWARD_SHAPED, REWARD_RULES_ESPER), 1, 150, 1);
            rig.effect[0] = k % 3 - 1;
            rig.config.germinate_cost = rig.config.prune_cost = 0;
            bool pruned = false;
            for (int t = 0; t < 100; t++, factor *= GAMMA) {
                struct action action = rig_op(t == 0 ? OP_GERMINATE : OP_WAIT, 0);
                if (t >= k && !pruned)
                    action.op = OP_PRUNE;
                action.alpha_speed = (uint8_t)speed;
                rig_step(&rig, action);
                pruned = pruned || (action.op == OP_PRUNE && rig.result.success);
                sum += factor * rig.component[REWARD_PBRS];
                if (action.op == OP_PRUNE && rig.result.success) /* what is paid for harm is not shaping */
                    sum += factor * fmin(rig.component[REWARD_ACTION_SHAPING], 0);
            }
            assert_true(pruned && sum <= NEAR);
        }
}

/* original: GERMINATE pays a deposit that grows with time and is withheld at the end. */
static void the_original_deposits_for_germination(void **state)
{
    (void)state;
    struct reward_config config = rewards(REWARD_SHAPED, REWARD_RULES_ORIGINAL);
    double last = -1;
    config.germinate_cost = 0;
    for (int t = 1; t <= 150; t++) {
        struct reward_scene scene = {.slots = 1, .op = OP_GERMINATE, .step = t, .steps = 150};
        scene.seed[0].stage = STAGE_DORMANT;
        scene.seed[0].contribution = scene.seed[0].gain = scene.seed[0].birth = NAN;
        double deposit = paid(&config, &scene, REWARD_ACTION_SHAPING);
        assert_true(t == 150 ? deposit == 0 : deposit > 0 && deposit >= last);
        last = deposit;
    }
}

/* original: the clawback cancels the deposit of a seed that never blended. */
static void the_original_takes_the_deposit_back(void **state)
{
    (void)state;
    for (int birth = 10; birth < 40; birth++) {
        struct rig rig;
        double sum = 0, factor = 1;
        rig_begin(&rig, rewards(REWARD_SHAPED, REWARD_RULES_ORIGINAL), 1, 60, 1);
        rig.config.germinate_cost = 0;
        rig.gates.auto_g2 = false;
        while (rig.step < rig.steps) {
            rig_step(&rig, rig_op(rig.step + 1 == birth ? OP_GERMINATE : OP_WAIT, 0));
            sum += factor * (rig.component[REWARD_ACTION_SHAPING] + rig.component[REWARD_GERMINATION_CLAWBACK]);
            factor *= GAMMA;
        }
        assert_int_equal(rig.slot[0].stage, STAGE_TRAINING);
        assert_true(fabs(sum) < NEAR);
    }
}

/* ---- who is looked at (R-01, R-02) ------------------------------------------------------------------------------ */

static void a_seed_elsewhere_is_paid_too(void **state)
{
    (void)state;
    for (int rules = 0; rules < 2; rules++) {
        struct rig rig;
        rig_begin(&rig, rewards(REWARD_SHAPED, both[rules]), 3, 150, 1);
        rig_step(&rig, rig_op(OP_GERMINATE, 2));
        rig_wait_for(&rig, 2, STAGE_HOLDING);
        rig_step(&rig, rig_op(OP_WAIT, 0));
        assert_true((rig.component[REWARD_ATTRIBUTION] > 0) == (rules == 1));
        assert_true((rig.component[REWARD_PBRS] != 0) == (rules == 1));
        rig_step(&rig, rig_op(OP_WAIT, 2));
        assert_true(rig.component[REWARD_ATTRIBUTION] > 0);
    }
}

/* Under esper it does not matter which slot WAIT names. */
static void waiting_is_the_same_everywhere(void **state)
{
    (void)state;
    for (int k = 0; k < 40; k++) {
        struct rig rig;
        rig_begin_random(&rig, rewards(k % 2 ? REWARD_SHAPED : REWARD_ESCROW, REWARD_RULES_ESPER), (uint32_t)k + 77);
        while (rig.step < rig.steps) {
            rig_measure(&rig);
            double first = 0;
            for (int j = 0; j < rig.slots; j++) {
                struct rig copy = rig;
                double reward = rig_act(&copy, rig_op(OP_WAIT, j));
                assert_true(j == 0 || fabs(reward - first) < NEAR);
                first = j ? first : reward;
            }
            rig_act(&rig, rig_random(&rig));
        }
    }
}

/* the share of a harmful seed is its own; a good one beside it is neither discounted nor hides the bad one. */
static void gains_are_per_seed(void **state)
{
    (void)state;
    struct rig rig;
    rig_begin(&rig, rewards(REWARD_SHAPED, REWARD_RULES_ESPER), 2, 150, 1);
    rig.effect[1] = -5;
    rig_step(&rig, rig_op(OP_GERMINATE, 0));
    rig_step(&rig, rig_op(OP_GERMINATE, 1));
    rig_wait_for(&rig, 1, STAGE_HOLDING);
    rig_measure(&rig);
    struct reward_scene scene;
    struct reward_env env = rig_env(&rig, rig_op(OP_WAIT, 0));
    reward_look(&rig.config, &env, &scene);
    assert_true(fabs(scene.seed[0].gain - 3) < 0.01 && fabs(scene.seed[1].gain + 5) < 0.01);
    rig.config.rules = REWARD_RULES_ORIGINAL;
    reward_look(&rig.config, &env, &scene);
    assert_true(fabs(scene.seed[0].gain + 2) < 0.01 && fabs(scene.seed[1].gain + 2) < 0.01);
}

/* ---- escrow (R-14, R-07) ---------------------------------------------------------------------------------------- */

/* Without fossils and harm, everything that was credited is taken back in the end, whatever removed the seed. */
static void escrow_sums_to_nothing(void **state)
{
    (void)state;
    double most = 0;
    for (int k = 0; k < episodes(100); k++) {
        struct rig rig;
        double sum = 0;
        rig_begin_random(&rig, rewards(REWARD_ESCROW, REWARD_RULES_ESPER), (uint32_t)k + 500);
        rig.synergy = 0;
        for (int j = 0; j < rig.slots; j++)
            rig.effect[j] = fabs(rig.effect[j]);
        while (rig.step < rig.steps) {
            if (draw_below(&rig.random, 30) == 0 && rig.step + 1 < rig.steps) {
                rig_rollback(&rig);
                continue;
            }
            struct action action = rig_random(&rig);
            if (action.op == OP_FOSSILIZE)
                action.op = OP_WAIT;
            rig_step(&rig, action);
            sum += rig.component[REWARD_ATTRIBUTION] + rig.component[REWARD_ESCROW_FORFEIT];
            most = fmax(most, sum);
        }
        assert_true(fabs(sum) < NEAR);
    }
    assert_true(most > 3);
}

/* A FOSSILIZE that succeeds at the last step keeps its credit; the original forfeits it. */
static void the_last_fossil_keeps_its_credit(void **state)
{
    (void)state;
    for (int rules = 0; rules < 2; rules++)
        for (int refused = 0; refused < 2; refused++) {
            struct rig rig;
            rig_begin(&rig, rewards(REWARD_ESCROW, both[rules]), 1, 40, 1);
            rig_step(&rig, rig_op(OP_GERMINATE, 0));
            while (rig.step < rig.steps - 1)
                rig_step(&rig, rig_op(OP_WAIT, 0));
            assert_int_equal(rig.slot[0].stage, STAGE_HOLDING);
            assert_true(rig.kept[0].credit > 1);
            rig_measure(&rig);
            if (refused)
                slot_set(&rig.slot[0], SLOT_CF_MEASURED, false);
            rig_act(&rig, rig_op(OP_FOSSILIZE, 0));
            assert_int_equal(rig.result.success, !refused);
            assert_true((rig.component[REWARD_ESCROW_FORFEIT] == 0) == (rules == 1 && !refused));
        }
}

/* ---- what comes a step later (R-25, R-18, R-19) ----------------------------------------------------------------- */

static void the_governor_is_charged_once(void **state)
{
    (void)state;
    for (int rules = 0; rules < 2; rules++) {
        struct rig rig;
        rig_begin(&rig, rewards(REWARD_SHAPED, both[rules]), 3, 150, 1);
        rig_step(&rig, rig_op(OP_GERMINATE, 0));
        rig_step(&rig, rig_op(OP_GERMINATE, 1));
        rig_step(&rig, rig_op(OP_WAIT, 0));
        rig_rollback(&rig);
        rig_step(&rig, rig_op(OP_WAIT, 0));
        assert_true(fabs(rig.component[REWARD_AUTO_PRUNE] + 0.4) < NEAR);
        for (int t = 0; t < 15; t++) {
            rig_step(&rig, rig_op(OP_WAIT, 0));
            assert_true(rig.component[REWARD_AUTO_PRUNE] == 0);
        }
        rig_step(&rig, rig_op(OP_GERMINATE, 0)); /* and a prune by the policy never */
        for (int t = 0; t < 6; t++)
            rig_step(&rig, rig_op(OP_WAIT, 0));
        rig_step(&rig, rig_op(OP_PRUNE, 0));
        assert_true(rig.result.success);
        for (int t = 0; t < 3; t++) {
            rig_step(&rig, rig_op(OP_WAIT, 0));
            assert_true(rig.component[REWARD_AUTO_PRUNE] == 0);
        }
    }
}

/* Two seeds that help each other: the first to be fossilised credits the other, once, with the next reward. */
static void scaffolds_are_thanked(void **state)
{
    (void)state;
    struct rig rig;
    rig_begin(&rig, rewards(REWARD_SHAPED, REWARD_RULES_ESPER), 3, 150, 1);
    rig.synergy = 2;
    rig_step(&rig, rig_op(OP_GERMINATE, 0));
    rig_step(&rig, rig_op(OP_GERMINATE, 2));
    rig_wait_for(&rig, 2, STAGE_HOLDING);
    rig_step(&rig, rig_op(OP_WAIT, 0));
    assert_true(fabs(rig.pairs.boost[2][0] - 2) < 0.01 && fabs(rig.pairs.boost[0][2] - 2) < 0.01);
    assert_int_equal(rig.pairs.boost_step[2][0], rig.step);
    int measured = rig.step;
    rig_step(&rig, rig_op(OP_FOSSILIZE, 0));
    assert_true(rig.result.success && rig.component[REWARD_HINDSIGHT] == 0);
    assert_true(rig.pairs.boost[2][0] == 0 && rig.pairs.boost[0][2] > 0);
    double owed = reward_hindsight(2, 5, GAMMA, rig.step - measured); /* c = 3 + 2 */
    rig_step(&rig, rig_op(OP_WAIT, 0));
    assert_true(fabs(rig.component[REWARD_HINDSIGHT] - owed) < 1e-3 && owed > 0.05);
    rig_step(&rig, rig_op(OP_WAIT, 0));
    assert_true(rig.component[REWARD_HINDSIGHT] == 0);

    rig.pairs.boost[0][2] = rig.pairs.boost[1][2] = 1000; /* never more than 0.2 at once */
    rig_step(&rig, rig_op(OP_FOSSILIZE, 2));
    rig_step(&rig, rig_op(OP_WAIT, 0));
    assert_true(rig.component[REWARD_HINDSIGHT] > 0 && rig.component[REWARD_HINDSIGHT] <= REWARD_HINDSIGHT_CAP);
}

/* the drip starts after the fossil, never pays more than was set aside, and ends. */
static void a_drip_is_a_pool(void **state)
{
    (void)state;
    for (int rules = 0; rules < 2; rules++) {
        struct rig rig;
        double sum = 0;
        rig_begin(&rig, rewards(REWARD_BASIC_PLUS, both[rules]), 2, 150, 1);
        rig.effect[0] = 9;
        rig_step(&rig, rig_op(OP_GERMINATE, 0));
        rig_wait_for(&rig, 0, STAGE_HOLDING);
        rig_step(&rig, rig_op(OP_WAIT, 0));
        rig_step(&rig, rig_op(OP_FOSSILIZE, 0));
        assert_true(rig.result.success && rig.component[REWARD_DRIP] == 0);
        double pool = rig.kept[0].drip_left;
        assert_true(pool > 0 && rig.component[REWARD_FOSSILIZE_BONUS] > 0);
        while (rig.step < rig.steps) {
            rig_step(&rig, rig_op(OP_WAIT, 1));
            assert_true(rig.component[REWARD_DRIP] >= 0 && rig.component[REWARD_DRIP] <= 0.1 + NEAR);
            sum += rig.component[REWARD_DRIP];
        }
        assert_true(rules == 1 ? fabs(sum - pool) < NEAR : sum > pool + 1);
    }
}

/* basic pays the episode's gain at the end; the count of contributing fossils reads their own contributions. */
static void the_end_is_read_rightly(void **state)
{
    (void)state;
    for (int rules = 0; rules < 2; rules++) {
        struct rig rig;
        rig_begin(&rig, rewards(REWARD_BASIC, both[rules]), 1, 60, 1);
        rig.effect[0] = 0.5; /* contributes less than a point while the host drifts by several */
        rig_step(&rig, rig_op(OP_GERMINATE, 0));
        rig_wait_for(&rig, 0, STAGE_HOLDING);
        rig_step(&rig, rig_op(OP_WAIT, 0));
        rig_step(&rig, rig_op(OP_FOSSILIZE, 0));
        assert_int_equal(rig.state.fossils, 1);
        assert_int_equal(rig.state.contributing, rules == 0);
        assert_true(isnan(rig.kept[0].birth) == (rules == 0)); /* */
        while (rig.step < rig.steps)
            rig_step(&rig, rig_op(OP_WAIT, 0));
        double gained = rules == 1 ? 0.1 * 59 + 0.5 : 0.1;
        assert_true(fabs(rig.component[REWARD_TERMINAL] - 0.05 * gained) < 1e-3);
    }
}

/* An op that cannot be executed is credited as WAIT. */
static void impossible_ops_count_as_waiting(void **state)
{
    (void)state;
    struct rig rig;
    rig_begin(&rig, rewards(REWARD_SHAPED, REWARD_RULES_ESPER), 2, 150, 1);
    rig_step(&rig, rig_op(OP_GERMINATE, 0));
    rig_measure(&rig);
    for (int op = 0; op < OP_COUNT; op++)
        for (int j = 0; j < 3; j++) {
            struct reward_env env = rig_env(&rig, rig_op(op, j));
            bool valid = j == 1 ? op == OP_GERMINATE
                                : j == 0 && (rig.slot[0].stage == STAGE_TRAINING && op == OP_ADVANCE);
            assert_int_equal(reward_effective_op(&env), valid ? op : OP_WAIT);
        }
}

static void outcomes_are_judged(void **state)
{
    (void)state;
    const double calm[] = {1, 1, 1}, wild[] = {-5, 5};
    assert_true(reward_outcome_of(3, calm, 3, 100, 50, 80).success);
    assert_false(reward_outcome_of(3, calm, 3, 100, 50, 79.99).success);
    assert_true(reward_outcome_of(3, calm, 3, 100, 50, 80).param_ratio == 1.5);
    assert_true(reward_outcome_of(3, calm, 3, 100, 50, 80).stability == 1);
    assert_true(fabs(reward_outcome_of(0, wild, 2, 100, 0, 80).stability - 1.0 / 26) < NEAR);
    assert_true(reward_outcome_of(0, wild, 1, 0, 0, 80).stability == 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_step_is_finite_and_adds_up),
        cmocka_unit_test(shaping_telescopes),
        cmocka_unit_test(germinating_to_prune_does_not_pay),
        cmocka_unit_test(the_original_deposits_for_germination),
        cmocka_unit_test(the_original_takes_the_deposit_back),
        cmocka_unit_test(a_seed_elsewhere_is_paid_too),
        cmocka_unit_test(waiting_is_the_same_everywhere),
        cmocka_unit_test(gains_are_per_seed),
        cmocka_unit_test(escrow_sums_to_nothing),
        cmocka_unit_test(the_last_fossil_keeps_its_credit),
        cmocka_unit_test(the_governor_is_charged_once),
        cmocka_unit_test(scaffolds_are_thanked),
        cmocka_unit_test(a_drip_is_a_pool),
        cmocka_unit_test(the_end_is_read_rightly),
        cmocka_unit_test(impossible_ops_count_as_waiting),
        cmocka_unit_test(outcomes_are_judged),
    };
    return cmocka_run_group_tests_name("reward_live", tests, NULL, NULL);
}
