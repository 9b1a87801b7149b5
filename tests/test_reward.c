/* The terms of the reward on single scenes. Both rule sets unless said otherwise. */
#include "testing_reward.h"

#define NEAR 1e-9

static const enum reward_mode modes[] = {REWARD_SHAPED, REWARD_SIMPLIFIED, REWARD_SPARSE, REWARD_MINIMAL,
                                         REWARD_BASIC,  REWARD_BASIC_PLUS, REWARD_ESCROW, REWARD_LOSS};
enum { MODES = 8 };

/* ---- any scene (R-22) ------------------------------------------------------------------------------------------- */

static const int stages[] = {STAGE_DORMANT,    STAGE_GERMINATED, STAGE_TRAINING,  STAGE_BLENDING, STAGE_HOLDING,
                             STAGE_FOSSILIZED, STAGE_PRUNED,     STAGE_EMBARGOED, STAGE_RESETTING};

static double sometimes(uint32_t *random, double low, double high)
{
    return draw_below(random, 4) ? draw(random, low, high) : (double)NAN;
}

static struct reward_scene scene_random(uint32_t *random, double big, double params)
{
    struct reward_scene scene = {.slots = 1 + draw_below(random, 3), .step = 1 + draw_below(random, 150), .steps = 150};
    scene.target = draw_below(random, scene.slots);
    scene.op = draw_below(random, OP_COUNT);
    scene.step = draw_below(random, 5) ? scene.step : scene.steps;
    scene.val_accuracy = draw(random, 0, 100);
    scene.stable_accuracy = draw(random, 0, scene.val_accuracy);
    scene.committed_accuracy = draw(random, 0, 100);
    scene.accuracy_delta = draw(random, -100, 100);
    scene.val_loss = draw(random, 0, 10);
    scene.loss_delta = draw_below(random, 8) ? draw(random, -2, 2) : INFINITY;
    scene.host_params = draw_below(random, 8) ? draw(random, 1, params) : 0;
    scene.total_params = scene.host_params + draw(random, 0, params);
    scene.effective_params = sometimes(random, 0, params);
    scene.fossil_params = draw(random, 0, params);
    scene.shock = draw(random, 0, big);
    scene.active = draw_below(random, 4);
    scene.fossils = draw_below(random, 4);
    scene.contributing = draw_below(random, 4);
    for (int j = 0; j < scene.slots; j++) {
        struct reward_seed *seed = &scene.seed[j];
        seed->stage = stages[draw_below(random, 9)];
        seed->live = stage_is_live(seed->stage);
        seed->leaving = seed->stage == STAGE_BLENDING && draw_below(random, 3) == 0;
        seed->fossilizes = j == scene.target && scene.op == OP_FOSSILIZE && seed->stage == STAGE_HOLDING &&
                           draw_below(random, 2);
        seed->epochs = draw_below(random, big > 100 ? 1000000 : 30);
        seed->age = seed->epochs + draw_below(random, 30);
        seed->contribution = sometimes(random, -big / 3, big);
        seed->gain = isnan(seed->contribution) ? (double)NAN : draw(random, -big / 3, big);
        seed->birth = sometimes(random, 0, 100);
        seed->improvement = draw(random, -10, 10);
        seed->interaction = draw(random, -5, 5);
        seed->credit = draw(random, 0, 5);
        seed->potential = draw(random, 0, 8);
        scene.drip_scale[j] = draw_below(random, 3) ? 0 : draw(random, 0, 0.1);
        scene.drip_left[j] = draw(random, 0, 1);
        scene.drip_contribution[j] = seed->contribution;
    }
    return scene;
}

static void components_are_finite_and_add_up(void **state)
{
    (void)state;
    int count = getenv("ESPER_SOAK") ? 1000000 : 20000;
    uint32_t random = 1;
    for (int k = 0; k < count; k++) {
        struct reward_config config = rewards(modes[k % MODES], both[k / MODES % 2]);
        double component[REWARD_COMPONENT_COUNT], sum = 0;
        bool extreme = k / MODES / 2 % 2;
        struct reward_scene scene = scene_random(&random, extreme ? 1e6 : 15, extreme ? 1e12 : 1e5);
        double total = pay(&config, &scene, component);
        for (int i = 0; i < REWARD_COMPONENT_COUNT; i++) {
            assert_true(isfinite(component[i]));
            sum += component[i];
        }
        assert_true(fabs(sum - total) <= NEAR * fmax(1, fabs(total)));
        assert_true(extreme || fabs(total) <= 50);
    }
}

/* ---- potential and attribution (R-12, R-13) --------------------------------------------------------------------- */

static void potentials_rise_and_fossils_add_least(void **state)
{
    (void)state;
    double last = 0, least = INFINITY;
    for (int i = 1; i <= 5; i++) { /* GERMINATED to FOSSILIZED */
        double now = reward_stage_potential(stages[i]);
        assert_true(now > last);
        least = fmin(least, now - last);
        last = now;
    }
    assert_true(reward_stage_potential(STAGE_FOSSILIZED) - reward_stage_potential(STAGE_HOLDING) == least);
    for (int i = 6; i < 9; i++)
        assert_true(reward_stage_potential(stages[i]) == 0);
    assert_true(reward_stage_potential(STAGE_DORMANT) == 0);
}

static void ransom_does_not_pay(void **state)
{
    (void)state;
    uint32_t random = 2;
    for (int k = 0; k < 2000; k++) {
        struct reward_config config = rewards(REWARD_SHAPED, both[k % 2]);
        struct reward_scene scene = scene_base();
        struct reward_trace trace;
        double component[REWARD_COMPONENT_COUNT];
        scene.seed[0].contribution = draw(&random, 1, 20);
        scene.seed[0].gain = draw(&random, -10, -0.2);
        scene.seed[0].birth = scene.val_accuracy + draw(&random, 0, 5);
        scene.seed[0].interaction = draw(&random, 0, 5);
        scene.seed[0].potential = reward_potential(&config, STAGE_BLENDING, 2);
        double total = reward_mode(&config, GAMMA, &scene, component, &trace);
        assert_true(trace.discount < 0.5 && component[REWARD_SYNERGY] == 0 && total <= 0.5);
        assert_int_equal(trace.alarms & ALARM_RANSOMWARE, scene.seed[0].gain < -0.2 ? ALARM_RANSOMWARE : 0);
    }
}

static void ratios_are_penalised_within_bounds(void **state)
{
    (void)state;
    uint32_t random = 3;
    for (int k = 0; k < 2000; k++) {
        struct reward_config config = rewards(REWARD_SHAPED, both[k % 2]);
        struct reward_seed seed = scene_base().seed[0];
        seed.contribution = draw(&random, 1.001, 40);
        seed.gain = draw(&random, -1, 8);
        double penalty = reward_ratio_penalty(&config, &seed, reward_discount(&config, &seed));
        assert_true(penalty <= 0 && penalty >= -0.3);
        assert_true(!(seed.gain > 0.1) || (seed.contribution / seed.gain > 5) == (penalty < 0));
        /* it also makes PRUNE dearer */
        struct reward_scene scene = scene_base();
        scene.seed[0] = seed;
        struct reward_worth worth = reward_worth_shaped(&config, &scene, &seed, OP_PRUNE);
        config.disable_anti_gaming = true;
        double without = reward_worth_shaped(&config, &scene, &seed, OP_PRUNE).attribution;
        assert_true(worth.attribution <= without);
    }
}

static void attribution_is_bounded_by_contribution(void **state)
{
    (void)state;
    uint32_t random = 4;
    for (int k = 0; k < 4000; k++) {
        struct reward_config config = rewards(REWARD_SHAPED, both[k % 2]);
        struct reward_scene scene = scene_base();
        struct reward_seed *seed = &scene.seed[0];
        double p = draw(&random, 0.01, 9), c = draw(&random, 0, 9);
        config.disable_anti_gaming = config.disable_timing_discount = true;
        config.contribution_weight = draw(&random, 0.1, 1);
        seed->birth = scene.val_accuracy - p;
        seed->contribution = seed->gain = c;
        double weight = config.contribution_weight, a = paid(&config, &scene, REWARD_ATTRIBUTION);
        assert_true(a >= 0 && a <= weight * c + NEAR);
        config.attribution_formula = ATTRIBUTION_MINIMUM;
        assert_true(paid(&config, &scene, REWARD_ATTRIBUTION) <= a + NEAR);
        config.attribution_formula = ATTRIBUTION_HARMONIC;
        double both_mean = reward_combine(&config, p, c);
        assert_true(c == 0 || (both_mean >= fmin(p, c) - NEAR && both_mean <= 2 * fmin(p, c) + NEAR));
        seed->contribution = p * (1 + 1e-12);
        double above = paid(&config, &scene, REWARD_ATTRIBUTION);
        seed->contribution = p * (1 - 1e-12);
        assert_true(fabs(above - paid(&config, &scene, REWARD_ATTRIBUTION)) < NEAR); /* continuous at c = p */
    }
}

static void pruning_takes_attribution_back(void **state)
{
    (void)state;
    uint32_t random = 5;
    for (int k = 0; k < 2000; k++) {
        struct reward_config config = rewards(REWARD_SHAPED, both[k % 2]);
        struct reward_scene scene = scene_base();
        scene.seed[0].contribution = scene.seed[0].gain = draw(&random, -9, 9);
        scene.seed[0].birth = draw(&random, 50, 60);
        scene.seed[0].interaction = 3;
        double kept = paid(&config, &scene, REWARD_ATTRIBUTION);
        scene.op = OP_PRUNE;
        double pruned = paid(&config, &scene, REWARD_ATTRIBUTION);
        if (config.rules == REWARD_RULES_ORIGINAL) {
            assert_true(fabs(pruned + kept) < NEAR);
        } else { /* */
            assert_true(fabs(pruned - fmin(-kept, 0.15)) < NEAR);
            assert_true(paid(&config, &scene, REWARD_SYNERGY) == 0);
        }
    }
}

/* a fossil is paid like the seed it was, without the warning; the original's is paid nothing. */
static void fossils_go_on_earning(void **state)
{
    (void)state;
    for (int rules = 0; rules < 2; rules++) {
        struct reward_config config = rewards(REWARD_SHAPED, both[rules]);
        struct reward_scene scene = scene_holding(6);
        scene.seed[0].contribution = scene.seed[0].gain = 4;
        scene.seed[0].birth = 50;
        double holding = paid(&config, &scene, REWARD_ATTRIBUTION);
        assert_true(holding > 0 && paid(&config, &scene, REWARD_HOLDING_WARNING) < 0);
        scene.seed[0].stage = STAGE_FOSSILIZED;
        assert_true(paid(&config, &scene, REWARD_ATTRIBUTION) == (rules == 0 ? 0 : holding));
        assert_true(paid(&config, &scene, REWARD_HOLDING_WARNING) == 0);
    }
}

/* */
static void attribution_is_clipped_by_slot(void **state)
{
    (void)state;
    struct reward_config config = rewards(REWARD_SHAPED, REWARD_RULES_ESPER);
    struct reward_scene scene = scene_base();
    scene.slots = 3;
    scene.seed[0].contribution = scene.seed[0].gain = 70;
    scene.seed[0].birth = 0;
    scene.seed[1] = scene.seed[2] = scene.seed[0];
    scene.seed[2].contribution = -70;
    double sane = paid(&config, &scene, REWARD_ATTRIBUTION);
    scene.seed[0].contribution = scene.seed[0].gain = 60;
    assert_true(paid(&config, &scene, REWARD_ATTRIBUTION) < sane); /* the clip is beyond what a seed can bring */
    config.contribution_weight = 10;
    scene.seed[0] = scene.seed[1];
    assert_true(fabs(paid(&config, &scene, REWARD_ATTRIBUTION) - 100) < NEAR); /* 100 + 100 - 100 */
}

static void early_seeds_are_paid_less(void **state)
{
    (void)state;
    struct reward_config config = rewards(REWARD_SHAPED, REWARD_RULES_ESPER);
    for (int birth = 0; birth < 20; birth++) {
        double factor = reward_timing(&config, birth);
        assert_true(fabs(factor - (birth < 10 ? 0.4 + 0.06 * birth : 1)) < NEAR);
    }
    config.disable_timing_discount = true;
    assert_true(reward_timing(&config, 0) == 1);
}

/* ---- warnings, fossilise (R-15, R-16) --------------------------------------------------------------------------- */

static void warnings_grow_to_their_floor(void **state)
{
    (void)state;
    for (int rules = 0; rules < 2; rules++) {
        struct reward_config config = rewards(REWARD_SHAPED, both[rules]);
        double last = 0, blending_last = 0;
        for (int e = 0; e < 12; e++) {
            struct reward_scene scene = scene_holding(e);
            scene.seed[0].contribution = scene.seed[0].gain = 2;
            scene.seed[0].birth = 50;
            double waiting = paid(&config, &scene, REWARD_HOLDING_WARNING);
            assert_true(waiting <= last && waiting >= -0.3 && (waiting == 0) == (e < 2));
            last = waiting;
            scene.op = OP_SET_ALPHA_TARGET;
            assert_true(paid(&config, &scene, REWARD_HOLDING_WARNING) == waiting);
            scene.op = OP_FOSSILIZE;
            assert_true(paid(&config, &scene, REWARD_HOLDING_WARNING) == 0);
            scene.op = OP_PRUNE;
            assert_true(paid(&config, &scene, REWARD_HOLDING_WARNING) == 0);
            scene.op = OP_WAIT;
            scene.seed[0].contribution = -1;
            assert_true(paid(&config, &scene, REWARD_HOLDING_WARNING) == 0);

            scene = scene_base();
            scene.seed[0].epochs = e;
            assert_true(paid(&config, &scene, REWARD_BLENDING_WARNING) == 0);
            scene.seed[0].gain = 0;
            assert_true(paid(&config, &scene, REWARD_BLENDING_WARNING) == 0);
            scene.seed[0].gain = -0.01;
            double blending = paid(&config, &scene, REWARD_BLENDING_WARNING);
            assert_true(blending <= blending_last && blending <= -0.1 && blending >= -0.4);
            blending_last = blending;
        }
        assert_true(fabs(last + 0.3) < NEAR && fabs(blending_last + 0.4) < NEAR);
    }
}

static void fossilising_pays_for_patience_and_worth(void **state)
{
    (void)state;
    for (int rules = 0; rules < 2; rules++) {
        struct reward_config config = rewards(REWARD_SHAPED, both[rules]);
        double last = -1;
        for (int e = 0; e < 9; e++) {
            struct reward_scene scene = scene_holding(e);
            scene.op = OP_FOSSILIZE;
            scene.seed[0].fossilizes = true;
            scene.seed[0].birth = 70; /* the host declines; the gain alone counts */
            scene.seed[0].contribution = scene.seed[0].gain = 3;
            double bonus = paid(&config, &scene, REWARD_ACTION_SHAPING);
            assert_true(e <= 5 ? bonus > last : bonus == last);
            last = bonus;
            scene.seed[0].gain = -0.1;
            assert_true(paid(&config, &scene, REWARD_ACTION_SHAPING) < 0);
        }
        assert_true(last > 0);
    }
}

/* the bonus depends on the gate; costs and penalties do not. */
static void a_refused_fossil_earns_no_bonus(void **state)
{
    (void)state;
    struct reward_scene scene = scene_holding(6);
    scene.op = OP_FOSSILIZE;
    scene.seed[0].contribution = scene.seed[0].gain = 3;
    scene.seed[0].birth = 50;
    for (int rules = 0; rules < 2; rules++) {
        struct reward_config shaped = rewards(REWARD_SHAPED, both[rules]), basic = rewards(REWARD_BASIC, both[rules]);
        double component[REWARD_COMPONENT_COUNT];
        struct reward_trace trace;
        basic.drip_fraction = 0.5;
        scene.seed[0].fossilizes = false;
        double action = paid(&shaped, &scene, REWARD_ACTION_SHAPING);
        reward_mode(&basic, GAMMA, &scene, component, &trace);
        if (rules == 1) {
            assert_true(action == shaped.fossilize_cost);
            assert_true(component[REWARD_FOSSILIZE_BONUS] == 0 && isnan(trace.drip_total));
        } else {
            assert_true(action > 1 && component[REWARD_FOSSILIZE_BONUS] > 0 && trace.drip_total > 0);
        }
        scene.seed[0].fossilizes = true;
        assert_true(paid(&shaped, &scene, REWARD_ACTION_SHAPING) > 1);
        assert_true(paid(&basic, &scene, REWARD_FOSSILIZE_BONUS) > 0);
        scene.seed[0].fossilizes = false;
        scene.seed[0].gain = NAN;
        assert_true(fabs(paid(&shaped, &scene, REWARD_ACTION_SHAPING) - (-1 - 0.01)) < NEAR);
        scene.seed[0].gain = 3;
    }
}

/* ---- escrow (R-14) ---------------------------------------------------------------------------------------------- */

static void escrow_moves_as_it_pays(void **state)
{
    (void)state;
    uint32_t random = 6;
    for (int k = 0; k < 4000; k++) {
        struct reward_config config = rewards(REWARD_ESCROW, both[k % 2]);
        struct reward_scene scene = scene_base();
        struct reward_seed *seed = &scene.seed[0];
        struct reward_trace trace;
        double component[REWARD_COMPONENT_COUNT];
        seed->credit = draw(&random, 0, 30);
        seed->birth = draw(&random, 40, 70);
        seed->contribution = seed->gain = draw(&random, -5, 15);
        reward_mode(&config, GAMMA, &scene, component, &trace);
        double moved = trace.credit[0] - seed->credit;
        assert_true(fabs(moved - trace.credit_delta) < NEAR && trace.credit_target >= 0);
        if (seed->contribution >= 0) {
            assert_true(fabs(moved) <= 2 + NEAR && fabs(component[REWARD_ATTRIBUTION] - moved) < NEAR);
            /* towards the target, never beyond it */
            assert_true(fabs(trace.credit[0] - trace.credit_target) <= fabs(seed->credit - trace.credit_target));
        } else if (config.rules == REWARD_RULES_ESPER) { /* clipped downwards as well */
            assert_true(moved >= -2 - NEAR);
        }
        scene.op = OP_PRUNE;
        reward_mode(&config, GAMMA, &scene, component, &trace);
        assert_true(component[REWARD_ATTRIBUTION] == -seed->credit && trace.credit[0] == 0);
        scene.op = OP_WAIT;
        seed->stage = STAGE_FOSSILIZED;
        reward_mode(&config, GAMMA, &scene, component, &trace);
        assert_true(component[REWARD_ATTRIBUTION] == 0 && trace.credit[0] == seed->credit);
        seed->stage = STAGE_BLENDING;
        seed->contribution = NAN;
        reward_mode(&config, GAMMA, &scene, component, &trace);
        assert_true(component[REWARD_ATTRIBUTION] == 0 && trace.credit[0] == seed->credit);
    }
}

/* an ordered prune mints no credit. */
static void escrow_is_frozen_once_a_prune_is_ordered(void **state)
{
    (void)state;
    struct reward_config config = rewards(REWARD_ESCROW, REWARD_RULES_ESPER);
    struct reward_scene scene = scene_base();
    scene.seed[0].contribution = scene.seed[0].gain = 5;
    scene.seed[0].birth = 50;
    assert_true(paid(&config, &scene, REWARD_ATTRIBUTION) == 2);
    scene.seed[0].leaving = true;
    assert_true(paid(&config, &scene, REWARD_ATTRIBUTION) == 0);
}

/* ---- costs and the other modes (R-10, R-17, R-18) --------------------------------------------------------------- */

static void rent_and_shock_follow_the_seeds(void **state)
{
    (void)state;
    struct reward_config config = rewards(REWARD_SHAPED, REWARD_RULES_ESPER);
    struct reward_slot kept;
    struct reward_scene scene = scene_base();
    scene.seed[0].params = 1e6;
    for (int i = 1; i <= 5; i++) { /* GERMINATED and TRAINING pay none */
        reward_slot_clear(&kept);
        scene.seed[0].stage = stages[i];
        reward_weigh(&config, &scene, &kept);
        double rent = reward_rent(&config, &scene);
        assert_true((rent == 0) == (i <= 2) && rent >= -1.5);
    }
    scene.seed[0].live = false; /* gone: no rent, the last drop of alpha is charged once */
    reward_weigh(&config, &scene, &kept);
    assert_true(reward_rent(&config, &scene) == 0 && reward_shock(&config, &scene) < 0);
    assert_true(reward_shock(&config, &scene) >= -1);
    reward_weigh(&config, &scene, &kept);
    assert_true(reward_shock(&config, &scene) == 0);

    static const int ramps[] = {1, 3, 5, 8};
    double last = INFINITY;
    for (int r = 0; r < 4; r++) { /* slower is smoother */
        double sum = 0;
        reward_slot_clear(&kept);
        kept.params = 1000;
        scene.seed[0].live = true;
        scene.seed[0].params = 1000;
        for (int k = 1; k <= ramps[r]; k++) {
            scene.seed[0].alpha = (double)k / ramps[r];
            reward_weigh(&config, &scene, &kept);
            sum += scene.shock;
        }
        assert_true(sum < last);
        last = sum;
    }
}

/* a cooling slot occupies nothing. */
static void occupancy_counts_seeds(void **state)
{
    (void)state;
    for (int rules = 0; rules < 2; rules++) {
        struct reward_config config = rewards(REWARD_SHAPED, both[rules]);
        struct reward_scene scene = scene_base();
        struct reward_state kept;
        struct reward_slot slots[REWARD_SLOTS];
        int counted[9];
        reward_state_clear(&kept);
        for (int i = 0; i < 9; i++) {
            reward_slot_clear(&slots[0]);
            scene.seed[0].stage = stages[i];
            scene.seed[0].live = stage_is_live(stages[i]);
            reward_recall(&config, &scene, &kept, slots);
            counted[i] = scene.active;
        }
        for (int i = 0; i < 9; i++)
            assert_int_equal(counted[i], (i >= 1 && i <= 4) || (rules == 0 && i >= 7));
        for (int seeds = 0; seeds < 5; seeds++) {
            scene.active = seeds;
            scene.fossils = 1;
            assert_true(fabs(reward_occupancy(&config, &scene) + 0.01 * seeds) < NEAR);
        }
    }
}

static void sparse_pays_at_the_end_alone(void **state)
{
    (void)state;
    struct reward_config config = rewards(REWARD_SPARSE, REWARD_RULES_ESPER);
    double component[REWARD_COMPONENT_COUNT], last = -2;
    struct reward_scene scene = scene_base();
    assert_true(pay(&config, &scene, component) == 0);
    scene.step = scene.steps;
    for (int acc = 0; acc <= 100; acc += 10) {
        scene.committed_accuracy = acc;
        scene.committed_params = 1e5;
        double now = pay(&config, &scene, component);
        assert_true(now > last && fabs(now) <= 1);
        last = now;
        scene.committed_params = 2e5;
        assert_true(pay(&config, &scene, component) < now);
    }
    scene.committed_accuracy = 80;
    scene.committed_params = 5e5;
    double large = pay(&config, &scene, component);
    scene.committed_accuracy = 70;
    scene.committed_params = 1e5;
    assert_true(large > pay(&config, &scene, component));
}

static void drips_stay_in_bounds(void **state)
{
    (void)state;
    uint32_t random = 7;
    for (int k = 0; k < 1000; k++) {
        double c = draw(&random, -30, 30), x = reward_drip(draw(&random, 0, 0.3), c, 0.1, 0.5);
        assert_true(x >= -0.05 && x <= 0.1 && x * c >= 0);
    }
    struct reward_config config = rewards(REWARD_BASIC_PLUS, REWARD_RULES_ESPER); /* the pool ends it */
    struct reward_scene scene = scene_base();
    struct reward_trace trace;
    double component[REWARD_COMPONENT_COUNT], sum = 0;
    scene.drip_scale[0] = 0.02;
    scene.drip_left[0] = 0.77;
    for (int k = 0; k < 100; k++) {
        scene.drip_contribution[0] = draw(&random, -4, 8);
        reward_mode(&config, GAMMA, &scene, component, &trace);
        sum += fabs(component[REWARD_DRIP]);
        scene.drip_left[0] = trace.drip_left[0];
    }
    assert_true(fabs(sum - 0.77) < NEAR);
}

static void switches_switch_off(void **state)
{
    (void)state;
    uint32_t random = 8;
    for (int k = 0; k < 4000; k++) {
        struct reward_config config = rewards(k / 2 % 2 ? REWARD_SHAPED : REWARD_ESCROW, both[k % 2]);
        struct reward_scene scene = scene_random(&random, 15, 1e5);
        config.disable_pbrs = config.disable_terminal_reward = config.disable_anti_gaming = true;
        config.germinate_cost = config.prune_cost = 0;
        double component[REWARD_COMPONENT_COUNT];
        struct reward_trace trace;
        reward_mode(&config, GAMMA, &scene, component, &trace);
        assert_true(component[REWARD_PBRS] == 0 && component[REWARD_TERMINAL] == 0);
        assert_true(component[REWARD_ALPHA_SHOCK] == 0 && trace.ratio_penalty == 0);
        const struct reward_seed *target = &scene.seed[scene.target];
        if (scene.op == OP_GERMINATE && !target->live)
            assert_true(component[REWARD_ACTION_SHAPING] == 0);
        if (scene.op == OP_PRUNE)
            assert_true(component[REWARD_ACTION_SHAPING] == reward_prune_shaping(&config, target));
        assert_true(reward_fossilize_now(&config, target) == 0);
    }
}

/* a falling loss pays, a rising one costs half; the first step says nothing. */
static void the_loss_is_read_the_right_way_round(void **state)
{
    (void)state;
    struct reward_config config = rewards(REWARD_LOSS, REWARD_RULES_ESPER);
    struct reward_env env = {.val_loss = 1.0, .previous_loss = 1.1};
    struct reward_scene scene = {.slots = 1, .steps = 10};
    scene.loss_delta = reward_loss_delta(&config, &env);
    assert_true(fabs(paid(&config, &scene, REWARD_LOSS_DELTA) - 5) < NEAR);
    env.previous_loss = 0.9;
    scene.loss_delta = reward_loss_delta(&config, &env);
    assert_true(fabs(paid(&config, &scene, REWARD_LOSS_DELTA) + 2.5) < NEAR);
    env.previous_loss = NAN;
    assert_true(reward_loss_delta(&config, &env) == 0);
    config.rules = REWARD_RULES_ORIGINAL;
    assert_true(reward_loss_delta(&config, &env) == INFINITY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(components_are_finite_and_add_up),
        cmocka_unit_test(potentials_rise_and_fossils_add_least),
        cmocka_unit_test(ransom_does_not_pay),
        cmocka_unit_test(ratios_are_penalised_within_bounds),
        cmocka_unit_test(attribution_is_bounded_by_contribution),
        cmocka_unit_test(pruning_takes_attribution_back),
        cmocka_unit_test(fossils_go_on_earning),
        cmocka_unit_test(attribution_is_clipped_by_slot),
        cmocka_unit_test(early_seeds_are_paid_less),
        cmocka_unit_test(warnings_grow_to_their_floor),
        cmocka_unit_test(fossilising_pays_for_patience_and_worth),
        cmocka_unit_test(a_refused_fossil_earns_no_bonus),
        cmocka_unit_test(escrow_moves_as_it_pays),
        cmocka_unit_test(escrow_is_frozen_once_a_prune_is_ordered),
        cmocka_unit_test(rent_and_shock_follow_the_seeds),
        cmocka_unit_test(occupancy_counts_seeds),
        cmocka_unit_test(sparse_pays_at_the_end_alone),
        cmocka_unit_test(drips_stay_in_bounds),
        cmocka_unit_test(switches_switch_off),
        cmocka_unit_test(the_loss_is_read_the_right_way_round),
    };
    return cmocka_run_group_tests_name("reward", tests, NULL, NULL);
}
