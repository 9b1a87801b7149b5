/*
 * I-48: a random walk through the state machine with every invariant checked after every action and every tick.
 * ESPER_FUZZ_STEPS sets its length (one million by default).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/philox.h"
#include "cnn/blueprint.h"
#include "morph/action.h"

static const struct seed_size size = {592, 81};

struct dice {
    struct random_site at;
    uint32_t next;
};

/* Uniform in 0 ... sides - 1. */
static uint32_t roll(struct dice *dice, uint32_t sides)
{
    return (uint32_t)((uint64_t)random_word(dice->at, dice->next++) * sides >> 32);
}

struct walk {
    struct dice dice;
    struct gate_rules rules;
    struct slot_state slot;
    long visits[STAGE_LIMIT], successes[OP_COUNT], rollbacks; /* proof that the walk went everywhere */
};

static bool slots_equal(const struct slot_state *a, const struct slot_state *b)
{
    bool equal = true;
#define FIELD_EQUAL(type, name) equal = equal && a->name == b->name;
    SLOT_FIELDS(FIELD_EQUAL)
    return equal;
}

/* ---- invariants ------------------------------------------------------------------------------------------------ */

/* What holds for a row at any time. */
static void check_row(const struct slot_state *slot)
{
    int stage = slot->stage;
    bool live = stage == 2 || stage == 3 || stage == 4 || stage == 6 || stage == 7;
    assert_true(stage >= 1 && stage <= 10 && stage != 5);
    assert_true(slot->alpha >= 0 && slot->alpha <= 1);
    assert_true(slot->alpha_start >= 0 && slot->alpha_start <= 1);
    assert_true(slot->alpha_target >= 0 && slot->alpha_target <= 1);
    assert_int_equal(stage_is_live(stage), live);
    assert_int_equal(stage_is_cooldown(stage), stage >= 8);
    if (slot->alpha_mode != ALPHA_HOLD) {
        assert_int_equal(stage, STAGE_BLENDING);
        assert_true(slot->steps_done < slot->steps_total);
    }
    assert_true(slot->steps_done <= slot->steps_total);
    if (stage == STAGE_HOLDING || stage == STAGE_FOSSILIZED)
        assert_true(slot->alpha == 1.0f);
    else if (stage != STAGE_BLENDING)
        assert_true(slot->alpha == 0.0f);
    if (slot_has_gate(slot))
        assert_true(slot->algorithm == ALGORITHM_GATE && live && stage >= 4);
    if (slot->alpha_mode == ALPHA_DOWN)
        assert_true(slot_has(slot, SLOT_FROZEN));
    if (slot_has(slot, SLOT_FROZEN))
        assert_true(stage == STAGE_BLENDING && slot->alpha_mode != ALPHA_UP);
    assert_true(slot->acc_best >= slot->acc_current);
    assert_true(slot->epochs_total >= slot->epochs_in_stage);
    assert_int_equal(slot->blueprint == BLUEPRINT_NONE, stage == STAGE_DORMANT);
    if (slot->prune_reason != PRUNE_NONE) /* ordered, and in progress or done */
        assert_true(stage >= 8 || (slot->alpha_mode == ALPHA_DOWN && slot->alpha_target == 0));
    if (slot_has(slot, SLOT_AUTO_PRUNED))
        assert_true(stage >= 8 && prune_is_governor(slot->prune_reason));
    if (stage == STAGE_DORMANT) {
        struct slot_state clear;
        slot_clear(&clear);
        clear.germinations = slot->germinations;
        assert_true(slots_equal(slot, &clear));
    }
    struct slot_exec exec = slot_exec_of(slot);
    assert_int_equal(exec.mode == SLOT_SKIP, !live || stage == STAGE_GERMINATED);
    assert_int_equal(exec.isolate, exec.mode == SLOT_STE);
    assert_int_equal(exec.train, exec.mode != SLOT_SKIP && !slot_has(slot, SLOT_FROZEN));
}

/* The log holds a legal chain of stages from `before` to `after`, each change after its verdict. */
static void check_log(const struct life_log *log, const struct slot_state *before, const struct slot_state *after)
{
    int stage = before->stage;
    assert_true(log->count <= 5);
    for (int i = 0; i < log->count; i++) {
        const struct life_event *event = &log->event[i];
        if (event->type == LIFE_STAGE_CHANGED) {
            assert_int_equal(event->from, stage);
            assert_true(stage_may_follow(stage, event->to));
            stage = event->to;
        } else if (event->type == LIFE_GATE_EVALUATED) {
            assert_int_equal(event->from, stage);
            assert_int_equal(event->verdict.pass, event->verdict.failed == 0);
            assert_true(event->verdict.score >= 0 && event->verdict.score <= 1);
            if (event->verdict.pass)
                assert_true(i + 1 < log->count && log->event[i + 1].to == event->to);
        } else {
            assert_true(i > 0 && log->event[i - 1].type == LIFE_STAGE_CHANGED && event->to == stage);
        }
    }
    assert_int_equal(stage, after->stage);
}

/* Effects say exactly what changed. */
static void check_effects(uint32_t effects, const struct slot_state *before, const struct slot_state *after)
{
    bool was_live = stage_is_live(before->stage), is_live = stage_is_live(after->stage);
    assert_int_equal((effects & EFFECT_INIT_SEED) != 0, !was_live && is_live);
    assert_int_equal((effects & EFFECT_DROPPED) != 0, was_live && !is_live);
    assert_int_equal((effects & EFFECT_INIT_GATE) != 0, !slot_has_gate(before) && slot_has_gate(after));
    bool fossilized = before->stage != STAGE_FOSSILIZED && after->stage == STAGE_FOSSILIZED;
    assert_int_equal((effects & EFFECT_ZERO_MOMENTUM) != 0, fossilized);
    assert_int_equal((effects & EFFECT_SNAPSHOT) != 0, fossilized);
    assert_int_equal(after->germinations, before->germinations + ((effects & EFFECT_INIT_SEED) != 0));
}

static void check_action(const struct slot_state *before, const struct slot_state *after, struct action_result result)
{
    assert_true(result.allowed || !result.success);
    if (!result.success)
        assert_true(slots_equal(before, after) && result.effects == 0);
    if (before->stage == STAGE_FOSSILIZED || stage_is_cooldown(before->stage))
        assert_true(slots_equal(before, after));
}

static void check_tick(const struct slot_state *before, const struct slot_state *after)
{
    if (after->stage == STAGE_BLENDING) {
        /* frozen follows the mode at the start of the tick: equal to DOWN now, or one step behind */
        assert_int_equal(slot_has(after, SLOT_FROZEN), before->alpha_mode == ALPHA_DOWN);
        if (before->stage == STAGE_TRAINING) /* D-09 */
            assert_true(after->steps_done == 1 && after->alpha > 0);
    }
    bool kept = stage_is_live(after->stage);
    if (before->alpha_mode == ALPHA_UP)
        assert_true(after->alpha >= before->alpha && after->alpha <= before->alpha_target);
    if (before->alpha_mode == ALPHA_DOWN)
        assert_true(after->alpha <= before->alpha && (!kept || after->alpha >= before->alpha_target));
    if (before->alpha_mode == ALPHA_HOLD && before->stage == STAGE_BLENDING)
        assert_true(after->alpha == before->alpha || (after->alpha == 1.0f && before->alpha >= ALPHA_FULL));
    if (before->stage == STAGE_HOLDING || before->stage == STAGE_FOSSILIZED || before->stage == STAGE_DORMANT)
        assert_true(slots_equal(before, after)); /* I-43 */
    if (before->stage >= STAGE_EMBARGOED && after->stage != STAGE_DORMANT)
        assert_int_equal(after->epochs_total, before->epochs_total + 1); /* D-05 */
    else if (after->stage != STAGE_DORMANT)
        assert_int_equal(after->epochs_total, before->epochs_total);
    if (stage_is_cooldown(before->stage))
        assert_true(stage_is_cooldown(after->stage) || after->stage == STAGE_DORMANT);
}

/* ---- the walk -------------------------------------------------------------------------------------------------- */

static void walk_measure(struct walk *walk)
{
    struct dice *dice = &walk->dice;
    struct slot_state *slot = &walk->slot;
    if (!stage_is_live(slot->stage))
        return;
    slot_record_accuracy(slot, roll(dice, 1001) / 10.0);
    if ((slot->stage == STAGE_TRAINING || slot->stage == STAGE_BLENDING) && roll(dice, 4)) {
        struct gradient_sample sample = {roll(dice, 100) ? roll(dice, 100) / 10.0 : INFINITY, roll(dice, 11) / 10.0,
                                         roll(dice, 100) / 100.0, roll(dice, 4) == 0, roll(dice, 4) == 0};
        slot_record_gradient(slot, &sample);
    }
    if (slot->alpha > 0 && roll(dice, 2))
        slot_record_contribution(slot, roll(dice, 200) / 10.0 - 10.0);
}

/* Any op with any heads, one in each head now and then out of range; FOSSILIZE, which ends all change, more rarely. */
static struct action walk_choose(struct walk *walk)
{
    struct dice *dice = &walk->dice;
    struct action action = {.op = (uint8_t)roll(dice, OP_COUNT + (roll(dice, 50) == 0)),
                            .blueprint = (uint8_t)roll(dice, BLUEPRINT_COUNT + (roll(dice, 50) == 0)),
                            .style = (uint8_t)roll(dice, STYLE_COUNT + (roll(dice, 50) == 0)),
                            .tempo = (uint8_t)roll(dice, TEMPO_COUNT + (roll(dice, 50) == 0)),
                            .alpha_target = (uint8_t)roll(dice, ALPHA_TARGET_COUNT + (roll(dice, 50) == 0)),
                            .alpha_speed = (uint8_t)roll(dice, ALPHA_SPEED_COUNT + (roll(dice, 50) == 0)),
                            .alpha_curve = (uint8_t)roll(dice, ALPHA_CURVE_COUNT + (roll(dice, 50) == 0))};
    if ((action.op == OP_FOSSILIZE || action.op == OP_PRUNE) && roll(dice, 4))
        action.op = OP_WAIT;
    return action;
}

static void walk_rollback(struct walk *walk)
{
    struct slot_state *slot = &walk->slot, before = *slot;
    struct life_log log = {.count = 0};
    uint32_t effects = slot_rollback(slot, PRUNE_GOVERNOR_NAN + (int)roll(&walk->dice, 4), &log);
    check_row(slot);
    check_log(&log, &before, slot);
    check_effects(effects, &before, slot);
    if (!stage_is_live(before.stage) || before.stage == STAGE_FOSSILIZED)
        assert_true(slots_equal(&before, slot));
    walk->rollbacks += effects != 0;
}

/* One step of an environment. The same without a log must give the same row: watching never changes the run. */
static void walk_step(struct walk *walk)
{
    struct slot_state *slot = &walk->slot;
    walk_measure(walk);
    check_row(slot);
    if (roll(&walk->dice, 200) == 0) { /* a panic step has no action and no tick */
        walk_rollback(walk);
        return;
    }
    struct action action = walk_choose(walk);
    struct slot_state before = *slot, unwatched = *slot;
    struct life_log log = {.count = 0};
    struct action_result result = action_apply(slot, &action, &walk->rules, size, &log);
    check_row(slot);
    check_log(&log, &before, slot);
    check_effects(result.effects, &before, slot);
    check_action(&before, slot, result);
    if (result.success)
        walk->successes[action.op]++;

    before = *slot;
    log.count = 0;
    uint32_t effects = slot_tick(slot, &walk->rules, &log);
    check_row(slot);
    check_log(&log, &before, slot);
    check_effects(effects, &before, slot);
    check_tick(&before, slot);
    walk->visits[slot->stage]++;

    action_apply(&unwatched, &action, &walk->rules, size, NULL);
    slot_tick(&unwatched, &walk->rules, NULL);
    assert_true(slots_equal(&unwatched, slot));
}

static long fuzz_steps(void)
{
    const char *text = getenv("ESPER_FUZZ_STEPS");
    long steps = text ? strtol(text, NULL, 10) : 0;
    return steps > 0 ? steps : 1000000;
}

static void i48_random_walk(void **state)
{
    (void)state;
    long steps = fuzz_steps();
    struct walk walk = {.rollbacks = 0};
    uint32_t episode = 0;
    for (long taken = 0, left = 0; taken < steps; taken++, left--) {
        if (left == 0) { /* a new episode under other rules */
            walk.dice.at = random_at(48, STREAM_RANDOM_POLICY, 0, 0, episode++);
            walk.dice.next = 0;
            uint32_t bits = roll(&walk.dice, 2) ? 15 : roll(&walk.dice, 16);
            struct gate_rules rules = {bits & 1, bits >> 1 & 1, bits >> 2 & 1, bits >> 3 & 1};
            walk.rules = rules;
            slot_clear(&walk.slot);
            left = 150;
        }
        walk_step(&walk);
    }
    if (steps < 100000)
        return;
    for (int stage = STAGE_DORMANT; stage < STAGE_LIMIT; stage++)
        if (stage_is_legal(stage))
            assert_true(walk.visits[stage] > steps / 10000);
    for (int op = 0; op < OP_COUNT; op++)
        assert_true(walk.successes[op] > steps / 10000);
    assert_true(walk.rollbacks > steps / 10000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(i48_random_walk)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
