/* Whether the policy learns (L-20), through the real learner and network. */
#include "testing_lessons.h"

enum { MAX_ENVS = 64 };

/* Share of good ends over the last rounds: each round reports its own, and a short memory smooths it. */
struct tally {
    int good[8], all[8], at;
};

static double tally_share(struct tally *tally, int rounds)
{
    int good = 0, all = 0;
    for (int k = 0; k < rounds; k++) {
        good += tally->good[(tally->at + 8 - k) % 8];
        all += tally->all[(tally->at + 8 - k) % 8];
    }
    tally->at = (tally->at + 1) % 8;
    tally->good[tally->at] = tally->all[tally->at] = 0;
    return all ? (double)good / all : 0;
}

static void tally_add(struct tally *tally, bool good)
{
    tally->good[tally->at] += good;
    tally->all[tally->at]++;
}

/* ---- bandit: every head of GERMINATE has one right choice -------------------------------------------------------- */

static const uint8_t bandit_best[HEAD_COUNT] = {2, 5, 1, 2, 0, 0, 0, OP_GERMINATE};

static void bandit_observe(const struct world *world, int env, int step, float *raw)
{
    for (uint32_t k = 0; k < 4; k++)
        raw[k] = (float)world_unit(world, env, step, k);
}

static struct masks bandit_masks(const struct world *world, int env, int step)
{
    (void)world, (void)env, (void)step;
    return masks_with_ops(4, 1u << OP_WAIT | 1u << OP_GERMINATE | 1u << OP_FOSSILIZE);
}

static double bandit_act(struct world *world, int env, int step, const uint8_t choice[HEAD_COUNT], bool *over)
{
    (void)world, (void)env, (void)step, (void)over;
    if (choice[HEAD_OP] == OP_WAIT)
        return 0.2;
    if (choice[HEAD_OP] == OP_FOSSILIZE)
        return choice[HEAD_SLOT] == 1 ? 0.4 : 0;
    int right = 0;
    for (int head = HEAD_SLOT; head <= HEAD_ALPHA_TARGET; head++)
        right += choice[head] == bandit_best[head];
    return right / 5.0;
}

/* The greedy decision on what the envs saw last. */
static double greedy_share(struct rig *rig, const struct masks *masks, const uint8_t best[HEAD_COUNT])
{
    int right = 0;
    for (int env = 0; env < rig->rollout.envs; env++) {
        struct decision decision;
        policy_sample(masks, rig->rollout.slots, rig->config.policy.floor,
                      rig->logits + (size_t)env * (size_t)rig->learner.shape.logits,
                      random_at(0, STREAM_ACTION, 0, 0, 0), true, 1, &decision);
        right += memcmp(decision.choice, best, HEAD_COUNT) == 0;
    }
    return (double)right / rig->rollout.envs;
}

/* Also: the two heads that no legal op uses keep the weights that they started with, bit for bit. */
static double bandit_score(struct rig *rig, struct world *world)
{
    static float before[2][4096];
    const struct masks masks = bandit_masks(world, 0, 0);
    const int heads[] = {HEAD_ALPHA_SPEED, HEAD_ALPHA_CURVE};
    for (int h = 0; h < 2; h++) {
        size_t at = 0;
        for (int k = 0; k < rig->learner.shape.count; k++) {
            const struct policy_tensor *tensor = &rig->learner.shape.tensor[k];
            const size_t count = (size_t)tensor->rows * (size_t)tensor->columns;
            if (rig->learner.shape.part[k] != heads[h])
                continue;
            assert_true(at + count <= 4096);
            if (world->round == 1) /* the first round was just played: nothing has been learned yet */
                memcpy(before[h] + at, rig->learner.w + tensor->offset, count * sizeof(float));
            assert_memory_equal(before[h] + at, rig->learner.w + tensor->offset, count * sizeof(float));
            at += count;
        }
        assert_true(at > 0);
    }
    return greedy_share(rig, &masks, bandit_best);
}

/* A world without memory: what is chosen is paid at once, and nothing else matters. */
static struct toy bandit(struct world world, double (*score)(struct rig *rig, struct world *world))
{
    world.reset = nothing_to_reset;
    world.observe = bandit_observe;
    struct toy toy = toy_usual(world, 32, 8, 4);
    toy.gamma = toy.lambda = 0;
    toy.updates = 100;
    toy.entropy = .01;
    toy.goal = 1;
    toy.score = score;
    return toy;
}

static void bandit_finds_every_head_and_leaves_the_unused_alone(void **state)
{
    (void)state;
    struct toy toy = bandit((struct world){.masks = bandit_masks, .act = bandit_act}, bandit_score);
    toy.slots = 4;
    assert_learns("bandit", &toy);
}

/* ---- delayed recall ---------------------------------------------------------------------------------------------- */

enum { RECALL_STEPS = 20 };

static int cue_of(const struct world *world, int env)
{
    return (int)(world_word(world, env, 0, 9) & 1u);
}

static void recall_observe(const struct world *world, int env, int step, float *raw)
{
    raw[0] = step == 0 ? (cue_of(world, env) ? 1 : -1) : 0;
    raw[1] = step == RECALL_STEPS - 1;
    raw[2] = (float)step / RECALL_STEPS;
}

static double recall_act(struct world *world, int env, int step, const uint8_t choice[HEAD_COUNT], bool *over)
{
    (void)over;
    if (step < RECALL_STEPS - 1)
        return 0;
    const bool right = (choice[HEAD_OP] == OP_FOSSILIZE) == cue_of(world, env);
    tally_add(world->state, right);
    return right ? 1 : -1;
}

static double recall_score(struct rig *rig, struct world *world)
{
    (void)rig;
    return tally_share(world->state, 2);
}

static struct toy recall(struct tally *tally)
{
    const struct world world = {
        .state = tally, .reset = nothing_to_reset, .observe = recall_observe, .masks = two_ops, .act = recall_act};
    struct toy toy = toy_usual(world, 64, RECALL_STEPS, 3);
    *tally = (struct tally){{0}, {0}, 0};
    toy.updates = 200;
    toy.entropy = .005;
    toy.goal = .95;
    toy.score = recall_score;
    return toy;
}

static void delayed_recall_remembers_the_cue(void **state)
{
    (void)state;
    struct tally tally;
    struct toy toy = recall(&tally);
    assert_learns("delayed recall", &toy);
}

/* With the memory wiped before every step there is nothing to know: its score is chance. */
static struct tally long_tally;

static double forgetful_score(struct rig *rig, struct world *world)
{
    struct tally *tally = world->state;
    (void)rig;
    long_tally.good[0] += world->round > 20 ? tally->good[tally->at] : 0;
    long_tally.all[0] += world->round > 20 ? tally->all[tally->at] : 0;
    tally_share(tally, 1);
    return 0;
}

static void delayed_recall_without_memory_is_chance(void **state)
{
    (void)state;
    struct tally tally;
    struct toy toy = recall(&tally);
    toy.world.forgetful = true;
    toy.updates = getenv("ESPER_SOAK") ? 200 : 60;
    toy.score = forgetful_score;
    long_tally = (struct tally){{0}, {0}, 0};
    lesson(&toy, 1);
    const double share = (double)long_tally.good[0] / long_tally.all[0];
    print_message("delayed recall without memory: %.3f of %d answers\n", share, long_tally.all[0]);
    assert_true(share > .45 && share < .55);
}

/* ---- T-maze: the cue at the entrance, a corridor of ten, left or right ------------------------------------------- */

enum { CORRIDOR = 10, MAZE_STEPS = 24 };
struct maze {
    struct tally tally;
    int place[MAX_ENVS], began[MAX_ENVS];
    bool finished[MAX_ENVS];
};

static void maze_reset(struct world *world, int env, int step)
{
    struct maze *maze = world->state;
    maze->place[env] = 0;
    maze->began[env] = step;
    if (step == 0)
        maze->finished[env] = false;
}

static int maze_cue(const struct world *world, int env)
{
    const struct maze *maze = world->state;
    return (int)(world_word(world, env, maze->began[env], 9) & 1u);
}

static void maze_observe(const struct world *world, int env, int step, float *raw)
{
    const struct maze *maze = world->state;
    raw[0] = step == maze->began[env] ? (maze_cue(world, env) ? 1 : -1) : 0;
    raw[1] = maze->place[env] == CORRIDOR;
    raw[2] = (float)step / MAZE_STEPS;
}

static struct masks maze_masks(const struct world *world, int env, int step)
{
    (void)world, (void)env, (void)step;
    return masks_with_ops(1, 1u << OP_WAIT | 1u << OP_PRUNE | 1u << OP_FOSSILIZE); /* forward, left, right */
}

static double maze_act(struct world *world, int env, int step, const uint8_t choice[HEAD_COUNT], bool *over)
{
    struct maze *maze = world->state;
    const bool forward = choice[HEAD_OP] == OP_WAIT, at_end = maze->place[env] == CORRIDOR;
    if (!at_end || forward) {
        maze->place[env] += !at_end && forward;
        if (step == MAZE_STEPS - 1 && !maze->finished[env])
            tally_add(&maze->tally, false); /* lost */
        return forward && !at_end ? 0 : -0.1;
    }
    const bool right = (choice[HEAD_OP] == OP_FOSSILIZE) == maze_cue(world, env);
    if (!maze->finished[env])
        tally_add(&maze->tally, right);
    maze->finished[env] = true;
    *over = true;
    return right ? 4 : -0.1;
}

static double maze_score(struct rig *rig, struct world *world)
{
    (void)rig;
    return tally_share(&((struct maze *)world->state)->tally, 2);
}

static void t_maze_turns_by_the_cue(void **state)
{
    (void)state;
    struct maze maze = {.place = {0}};
    const struct world world = {
        .state = &maze, .reset = maze_reset, .observe = maze_observe, .masks = maze_masks, .act = maze_act};
    struct toy toy = toy_usual(world, 64, MAZE_STEPS, 3);
    toy.gamma = .98;
    toy.updates = 300;
    toy.entropy = .01;
    toy.goal = .9;
    toy.score = maze_score;
    assert_learns("T-maze", &toy);
}

/* ---- CartPole ---------------------------------------------------------------------------------------------------- */

enum { POLE_STEPS = 200, POLE_ENVS = 32 };
struct pole {
    double x[POLE_ENVS][4]; /* place, speed, angle, turn */
    int length[POLE_ENVS];  /* of the first episode of the round */
    bool fell[POLE_ENVS], blind;
};

static void pole_reset(struct world *world, int env, int step)
{
    struct pole *pole = world->state;
    for (uint32_t k = 0; k < 4; k++)
        pole->x[env][k] = 0.1 * world_unit(world, env, step, k) - 0.05;
    if (step == 0) {
        pole->length[env] = 0;
        pole->fell[env] = false;
    }
}

static void pole_observe(const struct world *world, int env, int step, float *raw)
{
    const struct pole *pole = world->state;
    raw[0] = (float)pole->x[env][0];
    raw[1] = (float)pole->x[env][2];
    raw[2] = pole->blind ? 0 : (float)pole->x[env][1];
    raw[3] = pole->blind ? 0 : (float)pole->x[env][3];
    raw[4] = (float)step / POLE_STEPS;
}

static double pole_act(struct world *world, int env, int step, const uint8_t choice[HEAD_COUNT], bool *over)
{
    struct pole *pole = world->state;
    double *x = pole->x[env];
    const double force = choice[HEAD_OP] == OP_WAIT ? -10 : 10, length = 0.5, mass = 0.1, total = 1.1;
    const double sine = sin(x[2]), cosine = cos(x[2]);
    const double push = (force + mass * length * x[3] * x[3] * sine) / total;
    const double turn = (9.8 * sine - cosine * push) / (length * (4.0 / 3 - mass * cosine * cosine / total));
    const double go = push - mass * length * turn * cosine / total;
    x[0] += 0.02 * x[1];
    x[1] += 0.02 * go;
    x[2] += 0.02 * x[3];
    x[3] += 0.02 * turn;
    (void)step;
    *over = fabs(x[0]) > 2.4 || fabs(x[2]) > 12 * 3.14159265358979 / 180;
    pole->length[env] += !pole->fell[env];
    pole->fell[env] = pole->fell[env] || *over;
    /* a fall hurts: with a constant reward there would be nothing but the running deviation */
    return *over ? -1 : 0.1;
}

static double pole_score(struct rig *rig, struct world *world)
{
    const struct pole *pole = world->state;
    double sum = 0;
    (void)rig;
    for (int env = 0; env < POLE_ENVS; env++)
        sum += pole->length[env];
    return sum / POLE_ENVS;
}

static void learn_to_balance(const char *name, bool blind, double goal)
{
    struct pole pole = {.blind = blind};
    const struct world world = {
        .state = &pole, .reset = pole_reset, .observe = pole_observe, .masks = two_ops, .act = pole_act};
    struct toy toy = toy_usual(world, POLE_ENVS, POLE_STEPS, 5);
    toy.updates = 300;
    toy.entropy = .005;
    toy.goal = goal;
    toy.score = pole_score;
    assert_learns(name, &toy);
}

static void cart_pole_is_balanced(void **state)
{
    (void)state;
    learn_to_balance("CartPole", false, 190);
}

static void cart_pole_is_balanced_without_velocities(void **state)
{
    (void)state;
    learn_to_balance("CartPole without velocities", true, 150);
}

/* ---- the best op starts below its floor -------------------------------------------------------------------------- */

static const uint8_t shy_best[HEAD_COUNT] = {0, BLUEPRINT_NOOP, STYLE_SIGMOID_ADD, 1, 2, 0, 0, OP_ADVANCE};

static struct masks shy_masks(const struct world *world, int env, int step)
{
    (void)world, (void)env, (void)step;
    return masks_with_ops(1, (1u << OP_COUNT) - 1);
}

static double shy_act(struct world *world, int env, int step, const uint8_t choice[HEAD_COUNT], bool *over)
{
    (void)world, (void)env, (void)step, (void)over;
    return choice[HEAD_OP] == OP_ADVANCE ? 1 : 0.2;
}

static void shy_prepare(struct rig *rig)
{
    const struct policy_shape *shape = &rig->learner.shape;
    const struct policy_tensor *bias = &shape->tensor[policy_shape_find(shape, "head.op.l2.bias")];
    rig->learner.w[bias->offset + OP_ADVANCE] = -3;
    learner_load(&rig->learner);
}

static double shy_score(struct rig *rig, struct world *world)
{
    const struct masks masks = shy_masks(world, 0, 0);
    if (world->round == 1) {
        struct distribution d;
        distribution_init(&d, OP_COUNT, 0x3F, .02, rig->logits + head_offset(1, HEAD_OP));
        assert_true(d.p[OP_ADVANCE] < .02f && d.q[OP_ADVANCE] >= .02f * .999f);
    }
    return greedy_share(rig, &masks, shy_best);
}

static void an_optimum_below_the_floor_is_found(void **state)
{
    (void)state;
    struct toy toy = bandit((struct world){.masks = shy_masks, .act = shy_act}, shy_score);
    toy.prepare = shy_prepare;
    assert_learns("optimum below the floor", &toy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bandit_finds_every_head_and_leaves_the_unused_alone),
        cmocka_unit_test(delayed_recall_remembers_the_cue),
        cmocka_unit_test(delayed_recall_without_memory_is_chance),
        cmocka_unit_test(t_maze_turns_by_the_cue),
        cmocka_unit_test(cart_pole_is_balanced),
        cmocka_unit_test(cart_pole_is_balanced_without_velocities),
        cmocka_unit_test(an_optimum_below_the_floor_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
