/*
 * The rules of a step on the device compared with the same functions on the CPU: random (state, action) pairs one by
 * one, and whole episodes with synthetic measurements. Integers and parameters must be equal bit for bit, f32 to one
 * unit in the last place, f64 to 1e-12. Every step starts from the CPU's state, so that differences do not accumulate.
 *
 *     cuda_step [pairs] [envs]
 */
#include "testing_step.cuh"

extern "C" {
#include "engine/books.h"
#include "engine/fresh.h"
#include "engine/pick.h"
#include "engine/turn.h"
#include "policy/script.h"
}

/* ---- pairs ------------------------------------------------------------------------------------------------------- */

enum { PAIR_SLOTS = 5 };

static const uint32_t PAIR_BATCH = 8192;

struct pair_result {
    uint32_t word[4];
    struct masks masks;
    struct action drawn;
    struct action_result result;
    uint32_t effects;
    struct slot_state slot;
    struct slot_exec exec;
    struct life_log log;
};

/* Successive numbers from a pair's own stream. */
struct dice {
    struct random_site site;
    uint32_t used;
};

ESPER_RULE uint32_t roll(struct dice *dice, uint32_t sides)
{
    return random_word(dice->site, dice->used++) % sides;
}

ESPER_RULE float roll_unit(struct dice *dice)
{
    uint32_t kind = roll(dice, 4);
    float unit = random_unit(random_word(dice->site, dice->used++));
    return kind == 0 ? 0.0f : kind == 1 ? 1.0f : unit;
}

ESPER_RULE double roll_points(struct dice *dice)
{
    uint32_t kind = roll(dice, 8);
    double unit = (double)random_unit(random_word(dice->site, dice->used++));
    return kind == 0 ? 0.0 : 60 * unit - 10;
}

/* Any possible slot, and some impossible ones: the rules must agree on those as well. */
ESPER_RULE void roll_slot(struct dice *dice, struct slot_state *slot)
{
    const uint8_t stage[] = {STAGE_DORMANT,    STAGE_GERMINATED, STAGE_TRAINING,  STAGE_BLENDING, STAGE_HOLDING,
                             STAGE_FOSSILIZED, STAGE_PRUNED,     STAGE_EMBARGOED, STAGE_RESETTING};
    slot_clear(slot);
    slot->stage = stage[roll(dice, sizeof stage)];
    if (slot->stage == STAGE_DORMANT)
        return;
    slot->prev_stage = stage[roll(dice, sizeof stage)];
    slot->blueprint = (uint8_t)roll(dice, BLUEPRINT_COUNT);
    slot->algorithm = (uint8_t)(1 + roll(dice, 3));
    slot->flags = roll(dice, 256);
    slot->germinations = 1 + roll(dice, 3);
    slot->alpha_mode = (uint8_t)roll(dice, 3);
    slot->alpha_curve = (uint8_t)(1 + roll(dice, 3));
    slot->alpha = roll_unit(dice);
    slot->alpha_start = roll_unit(dice);
    slot->alpha_target = roll_unit(dice);
    slot->steepness = 6.0f * (float)(1u << roll(dice, 3));
    slot->steps_total = roll(dice, 13);
    slot->steps_done = roll(dice, slot->steps_total + 1);
    slot->style = (uint8_t)roll(dice, STYLE_COUNT);
    slot->tempo = (uint8_t)(3 + roll(dice, 6));
    slot->blend_target = roll_unit(dice);
    slot->epochs_total = roll(dice, 40);
    slot->epochs_in_stage = roll(dice, 15);
    slot->acc_initial = roll_points(dice);
    slot->acc_current = roll_points(dice);
    slot->acc_best = roll_points(dice);
    slot->acc_stage_start = roll_points(dice);
    slot->grad_norm = roll_points(dice);
    slot->grad_health = (double)roll_unit(dice);
    slot->grad_ratio = (double)roll_unit(dice);
    slot->contribution = roll_points(dice) / 4;
    slot->contribution_velocity = roll_points(dice) / 8;
    slot->interaction_sum = roll_points(dice) / 4;
    slot->seed_params = roll(dice, 5000);
    slot->gate_params = roll(dice, 500);
    slot->prune_reason = (uint8_t)(roll(dice, 4) ? (int)PRUNE_NONE : (int)PRUNE_POLICY);
}

ESPER_RULE void pair_run(uint32_t pair, struct pair_result *out)
{
    struct dice dice = {random_at(2026, STREAM_RANDOM_POLICY, pair >> 20, pair, 1), 0};
    struct slot_state slot[PAIR_SLOTS];
    struct action action;
    struct gate_rules gates;
    struct seed_size size = {100, 10};
    for (int j = 0; j < PAIR_SLOTS; j++)
        roll_slot(&dice, &slot[j]);
    gates.permissive = roll(&dice, 2);
    gates.auto_g1 = roll(&dice, 4) != 0;
    gates.auto_g2 = roll(&dice, 4) != 0;
    gates.auto_g3 = roll(&dice, 4) != 0;
    action.op = (uint8_t)roll(&dice, OP_COUNT);
    action.slot = (uint8_t)roll(&dice, PAIR_SLOTS);
    action.blueprint = (uint8_t)roll(&dice, BLUEPRINT_HEAD_SIZE);
    action.style = (uint8_t)roll(&dice, STYLE_COUNT);
    action.tempo = (uint8_t)roll(&dice, TEMPO_COUNT);
    action.alpha_target = (uint8_t)roll(&dice, ALPHA_TARGET_COUNT);
    action.alpha_speed = (uint8_t)roll(&dice, ALPHA_SPEED_COUNT);
    action.alpha_curve = (uint8_t)roll(&dice, ALPHA_CURVE_COUNT);
    for (int i = 0; i < 4; i++)
        out->word[i] = random_word(dice.site, dice.used + (uint32_t)i);
    out->masks = masks_of_slots(slot, PAIR_SLOTS, CNN_OFFERED, (int)roll(&dice, 4), gates.auto_g1 && gates.auto_g2);
    double rate[OP_COUNT];
    for (int op = 0; op < OP_COUNT; op++)
        rate[op] = (double)roll_unit(&dice);
    out->drawn = uniform_decide(&out->masks, PAIR_SLOTS, rate, dice.site);
    out->log.count = 0;
    out->result = action_apply(&slot[action.slot], &action, &gates, size, &out->log);
    out->effects = slot_tick(&slot[action.slot], &gates, &out->log);
    out->slot = slot[action.slot];
    out->exec = slot_exec_of(&out->slot);
}

KERNEL void run_pairs(uint32_t first, uint32_t count, struct pair_result *out)
{
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        pair_run(first + i, &out[i]);
}

static void same_pair(struct tally &tally, const struct pair_result &a, const struct pair_result &b)
{
    for (int i = 0; i < 4; i++)
        same(tally, "random word", a.word[i], b.word[i]);
    same_masks(tally, a.masks, b.masks);
    same_action(tally, a.drawn, b.drawn);
    same(tally, "allowed", a.result.allowed, b.result.allowed);
    same(tally, "success", a.result.success, b.result.success);
    same(tally, "effects", a.result.effects, b.result.effects);
    same(tally, "effects of the tick", a.effects, b.effects);
    same_slot(tally, a.slot, b.slot);
    same(tally, "mode", a.exec.mode, b.exec.mode);
    same(tally, "train", a.exec.train, b.exec.train);
    same(tally, "gate net", a.exec.gate, b.exec.gate);
    same_log(tally, a.log, b.log);
}

static void test_pairs(struct runtime *rt, uint32_t pairs)
{
    struct tally tally;
    struct pair_result *device = runtime_alloc<struct pair_result>(rt, PAIR_BATCH);
    std::vector<struct pair_result> found(PAIR_BATCH);
    for (uint32_t first = 0; first < pairs && !rt->failed; first += PAIR_BATCH) {
        uint32_t count = pairs - first < PAIR_BATCH ? pairs - first : PAIR_BATCH;
        runtime_launch(rt, run_pairs, {dim3((count + 63) / 64), dim3(64), 0, false}, first, count, device);
        runtime_copy_from(rt, found.data(), device, count * sizeof *device);
        runtime_wait(rt);
        for (uint32_t i = 0; i < count; i++) {
            struct pair_result own;
            pair_run(first + i, &own);
            same_pair(tally, own, found[i]);
        }
    }
    char name[80];
    snprintf(name, sizeof name, "%u pairs of state and action", pairs);
    tally.report(name);
}

/* ---- a world on both sides --------------------------------------------------------------------------------------- */

struct rig {
    struct world *world; /* the CPU's */
    struct step step;    /* likewise its arrays */
    struct mirror *mirror;
    struct step_device *device;
    struct slot_grads *device_grads;
    float *logits, *values; /* device */
    std::vector<struct slot_grads> grads;
    std::vector<struct shapley_sums> shares;
    std::vector<float> random_logits, random_values;
    std::vector<struct masks> masks;
    std::vector<struct action> actions, script;
    std::vector<struct decision> decisions;
    std::vector<struct env_orders> orders;
    std::vector<double> rewards;
    std::vector<float> scaled;
    std::vector<uint8_t> executed;
    std::vector<struct step_report> reports;
    struct script lines;
    uint64_t state; /* of the synthetic measurements */
};

static double chance(struct rig &rig)
{
    rig.state = rig.state * 6364136223846793005u + 1442695040888963407u;
    return (double)(rig.state >> 40) / (double)(1u << 24);
}

static void write_world(const struct rig &rig)
{
    mirror_write(rig.mirror, rig.world->table.rows, rig.world->table.count);
}

static void make_arrays(struct rig &rig)
{
    const struct world *world = rig.world;
    size_t envs = (size_t)world->envs, slots = (size_t)world->shape.slots;
    rig.grads.resize(envs * slots);
    rig.shares.resize(envs);
    rig.random_logits.resize(envs * HEAD_MAX_LOGITS);
    rig.random_values.resize(envs);
    rig.masks.resize(envs);
    rig.actions.resize(envs);
    rig.decisions.resize(envs);
    rig.orders.resize(envs);
    rig.rewards.resize(envs);
    rig.scaled.resize(envs);
    rig.executed.resize(envs);
    rig.reports.resize(envs);
    rig.script.resize((size_t)world->config.steps * envs);
    for (size_t i = 0; i < rig.script.size(); i++)
        rig.script[i] = script_action(&rig.lines, (int)(i / envs) + 1, (int)(i % envs));
    rig.step.world = world;
    rig.step.gates = step_gates(&world->config);
    rig.step.grads = rig.grads.data();
    rig.step.shares = rig.shares.data();
    rig.step.logits = rig.random_logits.data();
    rig.step.values = rig.random_values.data();
    rig.step.script = rig.script.data();
    rig.step.masks = rig.masks.data();
    rig.step.actions = rig.actions.data();
    rig.step.decisions = rig.decisions.data();
    rig.step.orders = rig.orders.data();
    rig.step.rewards = rig.rewards.data();
    rig.step.scaled = rig.scaled.data();
    rig.step.executed = rig.executed.data();
    rig.step.reports = rig.reports.data();
}

/* Nonzero data in everything that a step reads and the rules do not write. */
static void fill_world(struct rig &rig)
{
    struct world *world = rig.world;
    for (int j = 0; j < world->shape.slots; j++) {
        world->replay.present[j] = world->config.policy.kind == POLICY_REPLAY && j % 2 == 0;
        world->replay.blueprint[j] = (uint8_t)(1 + j % 7);
        world->replay.algorithm[j] = (uint8_t)(1 + j % 3);
    }
    for (int i = 0; world->learns && i < world->learner.shape.obs; i++) {
        world->learner.obs_mean[i] = chance(rig) - 0.5;
        world->learner.obs_var[i] = 0.1 + chance(rig);
    }
    for (size_t i = 0; i < (size_t)world->envs * world->shape.seed_storage; i++)
        world->seed[i] = world->seed_momentum[i] = (float)chance(rig);
    for (size_t i = 0; i < (size_t)world->envs * world->shape.gate_storage; i++)
        world->gate[i] = world->gate_momentum[i] = (float)chance(rig);
}

static void rig_create(struct rig &rig, struct runtime *rt, const struct config *config, struct script lines)
{
    struct esper_error error = {};
    if (config_check(config, &error) != ESPER_OK || world_create(&rig.world, config, &error) != ESPER_OK)
        stop("world", error.text);
    rig.state = config->seed;
    rig.lines = lines;
    make_arrays(rig);
    fill_world(rig);
    rig.mirror = new struct mirror();
    mirror_create(rig.mirror, rt, rig.world);
    write_world(rig);
    struct device_setup setup = {};
    setup.gates = &rig.step.gates;
    setup.script = config->policy.kind == POLICY_SCRIPT ? rig.script.data() : nullptr;
    rig.device_grads = runtime_alloc<struct slot_grads>(rt, rig.grads.size());
    rig.logits = runtime_alloc<float>(rt, rig.random_logits.size());
    rig.values = runtime_alloc<float>(rt, rig.random_values.size());
    rig.device = step_device_create(rig.mirror, &setup, rig.device_grads, rig.logits, rig.values);
}

static void rig_free(struct rig &rig)
{
    step_device_free(rig.device);
    delete rig.mirror;
    world_free(rig.world);
}

/* ---- comparing --------------------------------------------------------------------------------------------------- */

static void same_world(struct tally &tally, const struct rig &rig)
{
    const struct table *table = &rig.world->table;
    std::vector<char> found;
    for (int i = 0; i < table->count; i++) {
        const struct table_row *row = &table->rows[i];
        found.resize(row->bytes);
        runtime_copy_from(rig.mirror->runtime, found.data(), mirror_place(rig.mirror, row->data), row->bytes);
        runtime_wait(rig.mirror->runtime);
        same_row(tally, row, found.data());
    }
}

static void same_step(struct tally &tally, const struct rig &rig)
{
    struct runtime *rt = rig.mirror->runtime;
    const struct step *arrays = step_arrays(rig.device);
    size_t envs = (size_t)rig.world->envs;
    std::vector<struct step_report> reports(envs);
    std::vector<struct masks> masks(envs);
    runtime_copy_from(rt, reports.data(), step_reports(rig.device), envs * sizeof reports[0]);
    runtime_copy_from(rt, masks.data(), arrays->masks, envs * sizeof masks[0]);
    runtime_wait(rt);
    for (size_t env = 0; env < envs; env++) {
        same_masks(tally, rig.masks[env], masks[env]);
        same_report(tally, rig.world, rig.reports[env], reports[env]);
    }
    same_world(tally, rig);
}

/* ---- episodes ---------------------------------------------------------------------------------------------------- */

/* What train and evaluate would have left: rising accuracies, gradients, now and then a lost network. */
static void measure_env(struct rig &rig, int env)
{
    struct world *world = rig.world;
    uint32_t blended = 0, fossils = 0;
    const double images = world->config.data_val_images;
    double level = 0.2 + 0.6 * (double)*world->step / world->config.steps;
    for (int j = 0; j < world->shape.slots; j++) {
        struct slot_state slot = world_slot(world, env, j);
        struct slot_grads *grads = &rig.grads[world_slot_row(world, env, j)];
        memset(grads, 0, sizeof *grads);
        grads->measured = slot_exec_of(&slot).mode != SLOT_SKIP;
        grads->finite = chance(rig) < 0.99;
        grads->norm = chance(rig);
        grads->health = 0.3 + 0.7 * chance(rig);
        grads->ratio = chance(rig);
        grads->vanishing = chance(rig) < 0.1;
        grads->exploding = chance(rig) < 0.02;
        if (stage_is_blended(slot.stage) && slot.alpha > 0) {
            blended |= 1u << j;
            fossils |= slot.stage == STAGE_FOSSILIZED ? 1u << j : 0;
        }
    }
    struct subsets subsets;
    subsets_plan(&subsets, blended, fossils);
    for (int k = 0; k < subsets.count; k++) {
        double share = blended ? (double)attribution_bits(subsets.mask[k]) / attribution_bits(blended) : 0;
        subsets.score[k] = 100 * floor(images * fmin(1, level + 0.2 * share + 0.1 * chance(rig))) / images;
    }
    world_set_subsets(world, env, &subsets);
    double fate = chance(rig);
    world->val_accuracy[env] = subset_score(&subsets, blended);
    world->val_loss[env] = fate < 0.01 ? (double)NAN : fate < 0.03 ? 50.0 : 3 - 2 * level + 0.1 * chance(rig);
    world->train_loss[env] = 2 * chance(rig);
    world->train_accuracy[env] = 100 * chance(rig);
}

static void measure(struct rig &rig)
{
    struct runtime *rt = rig.mirror->runtime;
    for (int env = 0; env < rig.world->envs; env++) {
        measure_env(rig, env);
        rig.random_values[(size_t)env] = (float)chance(rig);
    }
    for (float &logit : rig.random_logits)
        logit = (float)(4 * chance(rig) - 2);
    for (size_t env = 0; rig.world->learns && env < (size_t)rig.world->envs; env++) { /* let seeds grow old */
        float *row = &rig.random_logits[env * (size_t)rig.world->learner.shape.logits];
        row[head_offset(rig.world->shape.slots, HEAD_OP) + OP_PRUNE] -= 5;
        row[head_offset(rig.world->shape.slots, HEAD_OP) + OP_GERMINATE] += 3;
    }
    for (size_t i = 0; i < (size_t)rig.world->envs * rig.world->shape.host.storage; i += 7)
        rig.world->host[i] += 0.125f; /* training moves the host */
    write_world(rig);
    runtime_copy_to(rt, rig.device_grads, rig.grads.data(), rig.grads.size() * sizeof rig.grads[0]);
    runtime_copy_to(rt, rig.logits, rig.random_logits.data(), rig.random_logits.size() * sizeof(float));
    runtime_copy_to(rt, rig.values, rig.random_values.data(), rig.random_values.size() * sizeof(float));
    runtime_wait(rt);
}

static void reset_both(struct rig &rig, uint32_t round)
{
    struct world *world = rig.world;
    *world->round = round;
    *world->step = 0;
    write_world(rig);
    runtime_wait(rig.mirror->runtime);
    rollout_clear(&world->rollout);
    for (int env = 0; env < world->envs; env++) {
        struct reward_pairs pairs;
        step_reset_env(&rig.step, env, &pairs);
        orders_do(world, env, &rig.orders[(size_t)env]);
    }
    step_reset(rig.device);
}

static void step_both(struct rig &rig)
{
    struct world *world = rig.world;
    const size_t first = world_rollout_row(world, 0);
    for (int env = 0; env < world->envs; env++) {
        struct books books;
        step_observe_env(&rig.step, env, &books, lanes_alone());
    }
    for (int env = 0; env < world->envs; env++) {
        union pick_room room;
        step_pick_env(&rig.step, env, &room, lanes_alone());
    }
    for (int env = 0; env < world->envs; env++) {
        struct turn turn;
        step_apply_env(&rig.step, env, &turn, lanes_alone());
        orders_do(world, env, &rig.orders[(size_t)env]);
    }
    if (step_scales(world)) {
        learner_scale_rewards(&world->learner, world->envs, rig.executed.data(), rig.rewards.data(), rig.scaled.data());
        for (int env = 0; env < world->envs; env++)
            if (rig.executed[(size_t)env])
                world->rollout.reward[first + (size_t)env] = rig.scaled[(size_t)env];
    }
    step_count(world);
    step_observe(rig.device);
    step_choose(rig.device);
    step_apply(rig.device);
}

/* What must have happened at least once for the comparison to be meaningful. */
struct history {
    int germinated, fossilized, pruned, rolled_back, snapshots;
};

static void test_episodes(struct runtime *rt, const char *name, const struct config *config, struct script lines,
                          int rounds, struct history *seen)
{
    struct rig *rig = new struct rig();
    struct tally tally;
    memset(seen, 0, sizeof *seen);
    rig_create(*rig, rt, config, lines);
    for (int round = 0; round < rounds && !rt->failed; round++) {
        reset_both(*rig, (uint32_t)round);
        same_world(tally, *rig);
        for (int t = 0; t < config->steps && !rt->failed; t++) {
            measure(*rig);
            step_both(*rig);
            same_step(tally, *rig);
            for (int env = 0; env < config->envs; env++)
                seen->snapshots += rig->orders[(size_t)env].snapshot;
        }
        for (int env = 0; env < config->envs; env++) {
            seen->germinated += (int)rig->world->episode.germinated[env];
            seen->fossilized += (int)rig->world->episode.fossilized[env];
            seen->pruned += (int)rig->world->episode.pruned[env];
            seen->rolled_back += (int)rig->world->episode.rollbacks[env];
        }
    }
    char text[200];
    snprintf(text, sizeof text, "%s: %d envs, %d slots; %d germinated, %d fossilized, %d pruned, %d rolled back", name,
             config->envs, rig->world->shape.slots, seen->germinated, seen->fossilized, seen->pruned,
             seen->rolled_back);
    tally.report(text);
    rig_free(*rig);
    delete rig;
}

static struct config episode_config(int envs)
{
    struct config config;
    struct esper_error error = {};
    config_defaults(&config);
    if (config_load_task(&config, "quickstart", &error) != ESPER_OK)
        stop("quickstart", error.text);
    config.envs = envs;
    config.steps = 60;
    config.policy.hidden = 16;
    config.policy.feature_dim = 24;
    config.data_val_images = 200;
    config.governor.snapshot_steps = 4;
    return config;
}

static void set(struct config *config, const char *assignment)
{
    struct esper_error error = {};
    if (config_set(config, assignment, &error) != ESPER_OK)
        stop(assignment, error.text);
}

static void test_policies(struct runtime *rt, int envs)
{
    const enum policy_kind kind[] = {POLICY_PPO, POLICY_HEURISTIC, POLICY_RANDOM, POLICY_STATIC, POLICY_REPLAY};
    const char *const name[] = {"ppo", "heuristic", "random", "static", "replay"};
    struct history seen, all = {};
    for (int i = 0; i < 5; i++) {
        struct config config = episode_config(envs);
        config.policy.kind = kind[i];
        config.gates_permissive = i % 2 == 0;
        snprintf(config.policy.from, sizeof config.policy.from, "any");
        test_episodes(rt, name[i], &config, {}, i == 0 ? 2 : 1, &seen);
        all.germinated += seen.germinated;
        all.fossilized += seen.fossilized;
        all.pruned += seen.pruned;
        all.rolled_back += seen.rolled_back;
        all.snapshots += seen.snapshots;
    }
    check(all.germinated > 0 && all.fossilized > 0 && all.pruned > 0 && all.rolled_back > 0 && all.snapshots > 0,
          "every kind of event came about", "all policies together");
}

static void test_script(struct runtime *rt, int envs)
{
    struct script::script_line lines[] = {
        {1, -1, {OP_GERMINATE, 0, BLUEPRINT_CONV_LIGHT, STYLE_GATED_GATE, 0, 2, 1, 0}},
        {3, 0, {OP_GERMINATE, 1, BLUEPRINT_BOTTLENECK, STYLE_LINEAR_MULTIPLY, 1, 2, 1, 1}},
        {16, 1, {OP_SET_ALPHA_TARGET, 0, 0, STYLE_GATED_GATE, 0, 1, 1, 2}},
        {22, -1, {OP_FOSSILIZE, 0, 0, 0, 0, 0, 0, 0}},
        {25, 0, {OP_PRUNE, 1, 0, 0, 0, 0, 2, 3}},
        {26, 1, {OP_ADVANCE, 2, 0, 0, 0, 0, 0, 0}},
    };
    struct config config = episode_config(envs);
    struct history seen;
    config.policy.kind = POLICY_SCRIPT;
    config.gates_permissive = true;
    snprintf(config.policy.script, sizeof config.policy.script, "lines");
    struct script script = {};
    script.count = (int)(sizeof lines / sizeof lines[0]);
    script.lines = lines;
    test_episodes(rt, "script", &config, script, 1, &seen);
}

/* Ten slots, with replay five seeds at a time; every mode and both sets of reward rules. */
static void test_modes(struct runtime *rt, int envs)
{
    struct history seen;
    for (int mode = REWARD_SHAPED; mode <= REWARD_LOSS; mode++) {
        struct config config = episode_config(envs);
        char name[40];
        set(&config, "host.blocks=5");
        set(&config, "host.pools=5");
        set(&config, "host.base=2");
        set(&config, "data.size=32");
        set(&config, "slots=r0c0,r0c1,r0c2,r0c3,r0c4,r1c0,r1c1,r1c2,r1c3,r1c4");
        set(&config, "max_seeds=0");
        config.gates_permissive = true;
        config.policy.kind = mode == REWARD_MINIMAL ? POLICY_REPLAY : mode % 2 ? POLICY_RANDOM : POLICY_PPO;
        snprintf(config.policy.from, sizeof config.policy.from, "any");
        config.reward.mode = (enum reward_mode)mode;
        config.reward.rules = mode % 3 == 1 ? REWARD_RULES_ORIGINAL : REWARD_RULES_ESPER;
        snprintf(name, sizeof name, "reward mode %d, rules %d", mode, (int)config.reward.rules);
        test_episodes(rt, name, &config, {}, 1, &seen);
    }
}

int main(int argc, char **argv)
{
#ifdef EMULATE
    long pairs = 20000, envs = 5;
#else
    long pairs = 1000000, envs = 33;
#endif
    if (argc > 1)
        pairs = strtol(argv[1], nullptr, 10);
    if (argc > 2)
        envs = strtol(argv[2], nullptr, 10);
    struct runtime *rt = open_runtime();
    test_pairs(rt, (uint32_t)pairs);
    test_policies(rt, (int)envs);
    test_script(rt, (int)envs);
    test_modes(rt, (int)envs);
    check(!rt->failed, "the device did all of it", rt->failed ? rt->error.text : "no error");
    runtime_free(rt);
    return conclude();
}
