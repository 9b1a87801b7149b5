/* The objective J, its twin (E-20) and the network it judges (E-19), in whole episodes of the engine. */
#include "testing_engine.h"

#include <math.h>

enum { ENVS = 6, STEPS = 30 };

/* What the envs do: nothing; a fossil early; a fossil by the very last action; a seed that is held and lost; a seed
 * that is pruned before it was ever heard; a fossil and, later, a rollback. */
enum part { BARE, EARLY, LATE, LOST, UNHEARD, TROUBLED };

static struct config gain_config(void)
{
    struct config config = small_config(ENVS, 2, 2);
    config.steps = STEPS;
    config.policy.kind = POLICY_STATIC;
    config.reward.mode = REWARD_GAIN;
    config.reward.price = 1.5;
    config.reward.flop_price = 0.25;
    return config;
}

static struct action act(const struct world *world, int env, int step)
{
    const struct slot_state slot = world_slot(world, env, 0);
    struct action fossilize = {.op = OP_FOSSILIZE}, prune = {.op = OP_PRUNE}, wait = {.op = OP_WAIT};
    if (env == BARE)
        return wait;
    if (step == 1)
        return germinate(0, env == LATE ? BLUEPRINT_CONV_HEAVY : BLUEPRINT_CONV_LIGHT, STYLE_LINEAR_ADD);
    if (env == UNHEARD)
        return step == 8 ? prune : wait;
    if (env == LOST || (env == LATE && step < STEPS) || slot.stage != STAGE_HOLDING)
        return wait;
    return fossilize;
}

struct played {
    double sum[ENVS];
    struct outcome_record outcomes[ENVS];
};

static void play(struct engine *engine, struct played *out)
{
    struct world *world = engine_world(engine);
    *out = (struct played){0};
    for (int step = 1; step <= STEPS; step++) {
        if (step == STEPS - 4)
            world_params(world, TROUBLED).host[0] = NAN;
        engine_train(engine);
        engine_evaluate(engine);
        engine_decide(engine);
        for (int env = 0; env < ENVS; env++) {
            struct action action = act(world, env, step);
            engine_override(engine, env, &action);
        }
        engine_apply(engine);
        for (int env = 0; env < ENVS; env++) {
            if (env == TROUBLED && step == STEPS - 4)
                continue; /* a step that is rolled back has no reward */
            out->sum[env] += world->episode.last_reward[env];
        }
    }
    engine_finish(engine, out->outcomes);
}

/* Also where every episode has a price of its own. */
static void rewards_sum_to_the_objective(void **state)
{
    (void)state;
    for (int share = 0; share <= 2; share++) {
        struct config config = gain_config();
        config.reward.potential = share / 2.0;
        config.mixed.price_least = share == 2 ? 0.01 : 1;
        struct engine *engine = start(&config);
        struct world *world = engine_world(engine);
        struct played played;
        play(engine, &played);
        for (int env = 0; env < ENVS; env++) {
            const struct outcome_record *o = &played.outcomes[env];
            double price = o->price * (double)o->added_params / 1000 + 0.25 * (o->train_work - 1);
            assert_true(share == 2 ? o->price > 0.015 && o->price < 1.5 : o->price == 1.5);
            assert_true(share < 2 || env == 0 || o->price != played.outcomes[0].price);
            assert_true(fabs(o->gain - (o->val_accuracy - o->twin_accuracy - price)) < 1e-9);
            assert_true(fabs(played.sum[env] - o->gain) < 1e-9);
            assert_true(o->gain == o->reward);
        }
        assert_int_equal(world->episode.rollbacks[TROUBLED], 1);
        assert_int_equal(played.outcomes[EARLY].fossilized, 1);
        assert_int_equal(played.outcomes[LATE].fossilized, 1);
        assert_true(played.outcomes[EARLY].gain != 0 && played.outcomes[TROUBLED].gain != 0);
        engine_free(engine);
    }
}

/* Whatever its luck, a host that nothing was added to earns exactly nothing, and neither does one whose seed was
 * removed before it was heard, but for the work spent on it. */
static void a_bare_host_earns_nothing(void **state)
{
    (void)state;
    struct config config = gain_config();
    config.reward.flop_price = 0;
    struct engine *engine = start(&config);
    struct world *world = engine_world(engine);
    struct played played;
    play(engine, &played);
    assert_true(played.sum[BARE] == 0 && played.outcomes[BARE].gain == 0 && played.outcomes[BARE].twin_accuracy > 0);
    assert_true(played.sum[UNHEARD] == 0 && played.outcomes[UNHEARD].gain == 0);
    assert_true(played.outcomes[UNHEARD].train_work > 1 && played.outcomes[BARE].train_work == 1);
    for (int step = 0; step < STEPS; step++)
        assert_true(isfinite(world->twin_accuracy[step * ENVS + EARLY]));
    engine_free(engine);
}

/* E-26: the last validation may see more images, of the twin as well; it is the one that counts, and gives what it
 * would give if all validations saw as many. */
static void more_images_judge_the_end(void **state)
{
    (void)state;
    static struct played played[2];
    double before[2];
    for (int all = 0; all < 2; all++) {
        struct config config = gain_config();
        config.data_val_images = all ? 100 : 32;
        config.data_final_images = all ? 0 : 100;
        struct engine *engine = start(&config);
        play(engine, &played[all]);
        before[all] = engine_world(engine)->twin_accuracy[(STEPS - 2) * ENVS + EARLY];
        engine_free(engine);
    }
    assert_true(fmod(before[0], 100.0 / 32) == 0 && before[0] != before[1]);
    for (int env = 0; env < ENVS; env++) {
        const struct outcome_record *a = &played[0].outcomes[env], *b = &played[1].outcomes[env];
        assert_true(a->val_accuracy == b->val_accuracy && a->val_loss == b->val_loss);
        assert_true(a->twin_accuracy == b->twin_accuracy && fabs(a->gain - b->gain) < 1e-9);
        assert_true(fabs(played[0].sum[env] - a->gain) < 1e-9);
    }
    assert_true(played[0].outcomes[EARLY].gain != 0 && played[0].outcomes[BARE].gain == 0);
}

/* E-19: what counts is the host with its fossils, one made by the last action included; a seed that was only held is
 * lost. */
static void the_committed_network_is_judged(void **state)
{
    (void)state;
    struct config config = gain_config();
    struct engine *engine = start(&config);
    struct world *world = engine_world(engine);
    struct played played;
    double tested[ENVS];
    play(engine, &played);
    assert_int_equal(world_slot(world, LOST, 0).stage, STAGE_HOLDING);
    assert_int_equal(played.outcomes[LOST].added_params, 0);
    assert_true(played.outcomes[LATE].added_params > played.outcomes[EARLY].added_params);
    for (int env = 0; env < ENVS; env++)
        assert_true(played.outcomes[env].val_accuracy == world_committed_accuracy(world, env));
    /* with the held seed taken out, the same network is tested */
    struct slot_state empty;
    slot_clear(&empty);
    world_set_slot(world, LOST, 0, &empty);
    engine_test(engine, tested);
    for (int env = 0; env < ENVS; env++)
        assert_true(tested[env] == played.outcomes[env].test_accuracy);
    assert_true(*world->best.accuracy >= played.outcomes[EARLY].val_accuracy);
    engine_free(engine);
}

/* At the last step a mask allows to wait and to commit, and nothing else happens whoever asks for it. */
static void the_last_step_only_commits(void **state)
{
    (void)state;
    struct config config = small_config(2, 1, 1);
    config.steps = 18;
    struct engine *engine = start(&config);
    struct world *world = engine_world(engine);
    struct action late = germinate(1, BLUEPRINT_NORM, STYLE_LINEAR_ADD), early = late;
    early.slot = 0;
    early.tempo = 0;
    for (int step = 1; step <= config.steps; step++) {
        engine_train(engine);
        engine_evaluate(engine);
        engine_decide(engine);
        struct action action = step == 1 ? early : step == config.steps ? late : (struct action){.op = OP_WAIT};
        for (int env = 0; env < 2; env++) {
            uint64_t mask = world->rollout.mask[(size_t)(step - 1) * 2 + (size_t)env];
            uint32_t ops = head_bits(mask, world->shape.slots, HEAD_OP);
            if (step == config.steps)
                assert_int_equal(ops & ~(1u << OP_WAIT | 1u << OP_FOSSILIZE), 0);
            else if (step == 1)
                assert_true(ops >> OP_GERMINATE & 1u);
            engine_override(engine, env, &action);
        }
        struct slot_state before = world_slot(world, 0, 0);
        engine_apply(engine);
        if (step == config.steps) {
            assert_int_equal(world_slot(world, 0, 1).stage, STAGE_DORMANT);
            assert_true(world_slot(world, 0, 0).alpha == before.alpha);
            assert_false(world->env_memory.last_success[0]);
        }
    }
    engine_free(engine);
}

/* E-01, E-20: twins do not depend on threads, envs or what was played beside them. */
static void twins_are_their_own(void **state)
{
    (void)state;
    struct config many = gain_config(), one = gain_config();
    one.envs = 1;
    one.threads = 1;
    struct engine *a = start(&many), *b = start(&one);
    while (engine_plays_twins(a))
        engine_twin_step(a);
    engine_train(b); /* plays them first */
    for (int step = 0; step < STEPS; step++)
        assert_true(engine_world(a)->twin_accuracy[step * ENVS] == engine_world(b)->twin_accuracy[step]);
    assert_int_equal(*engine_world(a)->step, 0);
    assert_int_equal(*engine_world(a)->total_env_steps, 0);
    engine_free(a);
    engine_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rewards_sum_to_the_objective), cmocka_unit_test(a_bare_host_earns_nothing),
        cmocka_unit_test(more_images_judge_the_end),    cmocka_unit_test(the_committed_network_is_judged),
        cmocka_unit_test(the_last_step_only_commits),   cmocka_unit_test(twins_are_their_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
