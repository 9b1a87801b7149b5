/*
 * What a world can be: the range of every number in its table, and how numbers of different rows must agree. A
 * checkpoint may come from a stranger, who can change a number and then its checksum; what passes here can be played.
 *
 * Not bounded are numbers that training may drive anywhere and that somebody watches: weights, momentum and losses (the
 * governor), rewards and what the policy computed (the gates of its update, L-08). They index nothing.
 */
#include <float.h>
#include <math.h>

#include "base/round.h"
#include "engine/world.h"
#include "search/lessons.h"

/* ---- ranges ------------------------------------------------------------------------------------------------------ */

struct bound {
    const char *name;
    double low, high;
};

#define BOUND(table, prefix, list)                                                                                     \
    for (size_t i = 0; i < sizeof(list) / sizeof *(list); i++)                                                         \
    bound_field(table, prefix, &(list)[i])

static void bound_field(struct table *table, const char *prefix, const struct bound *bound)
{
    char name[TABLE_NAME];
    snprintf(name, sizeof name, "%s.%s", prefix, bound->name);
    table_bound(table, name, bound->low, bound->high);
}

static int blueprints(const struct world *world)
{
    return host_family_of(&world->config)->blueprints;
}

static bool has_blueprint(const struct world *world, int blueprint)
{
    return family_has(host_family_of(&world->config), blueprint);
}

static double most_params(const struct world *world)
{
    uint32_t most = 0;
    for (int j = 0; j < world->shape.slots; j++) {
        for (int b = 0; b < BLUEPRINT_MAX; b++)
            most = world->growth.seed[j][b].params > most ? world->growth.seed[j][b].params : most;
        most = world->growth.gate[j].params > most ? world->growth.gate[j].params : most;
    }
    return most;
}

static void bound_slots(struct world *world, const char *prefix)
{
    const double steps = world->config.steps, params = most_params(world);
    const struct bound list[] = {{"stage", STAGE_DORMANT, STAGE_LIMIT - 1},
                                 {"prev_stage", STAGE_UNKNOWN, STAGE_LIMIT - 1},
                                 {"algorithm", ALGORITHM_NONE, ALGORITHM_GATE},
                                 {"flags", 0, 2 * SLOT_AUTO_PRUNED - 1},
                                 {"germinations", 0, steps},
                                 {"alpha_mode", ALPHA_HOLD, ALPHA_DOWN},
                                 {"alpha_curve", CURVE_NONE, CURVE_SIGMOID},
                                 {"alpha", 0, 1},
                                 {"alpha_start", 0, 1},
                                 {"alpha_target", 0, 1},
                                 {"steepness", 0, 1000},
                                 {"steps_total", 0, UINT8_MAX},
                                 {"steps_done", 0, UINT8_MAX},
                                 {"style", 0, STYLE_COUNT - 1},
                                 {"tempo", 0, UINT8_MAX},
                                 {"blend_target", 0, 1},
                                 {"epochs_total", 0, steps},
                                 {"epochs_in_stage", 0, steps},
                                 {"prev_epochs_in_stage", 0, steps},
                                 {"acc_initial", 0, 100},
                                 {"acc_current", 0, 100},
                                 {"acc_best", 0, 100},
                                 {"acc_stage_start", 0, 100},
                                 {"acc_blend_start", 0, 100},
                                 {"grad_norm", 0, DBL_MAX},
                                 {"grad_health", 0, 1},
                                 {"grad_ratio", 0, DBL_MAX},
                                 {"contribution", -100, 100},
                                 {"contribution_velocity", -200, 200},
                                 {"interaction_sum", -1000, 1000},
                                 {"seed_params", 0, params},
                                 {"gate_params", 0, params},
                                 {"prune_reason", PRUNE_NONE, PRUNE_REASON_COUNT - 1}};
    char name[TABLE_NAME];
    BOUND(&world->table, prefix, list);
    snprintf(name, sizeof name, "%s.blueprint", prefix);
    table_bound_also(&world->table, name, 0, blueprints(world) - 1, BLUEPRINT_NONE);
}

/* What the rules remember of an episode. */
static void bound_memories(struct world *world)
{
    struct table *t = &world->table;
    const double steps = world->config.steps, lives = steps * (world->shape.slots + 1);
    const struct bound tracker[] = {{"accuracy", 0, 100},       {"count", 0, steps},  {"plateau", 0, steps},
                                    {"stable_count", 0, steps}, {"stabilised", 0, 1}, {"best_accuracy", 0, 100},
                                    {"first_accuracy", 0, 100}};
    const struct bound governor[] = {{"history", -DBL_MAX, DBL_MAX}, {"count", 0, steps}, {"streak", 0, steps}};
    const struct bound heuristic[] = {{"penalty", 0, DBL_MAX},
                                      {"cursor", 0, ROTATION * steps},
                                      {"embargo_end", 0, steps + HEURISTIC_EMBARGO},
                                      {"decayed", 0, steps}};
    const struct bound episode[] = {{"panicked", PRUNE_NONE, PRUNE_REASON_COUNT - 1},
                                    {"reset_next", 0, 1},
                                    {"rewards", 0, steps},
                                    {"germinated", 0, lives},
                                    {"fossilized", 0, lives},
                                    {"pruned", 0, lives},
                                    {"refused", 0, lives},
                                    {"rollbacks", 0, steps},
                                    {"unattributed", 0, steps}};
    const struct bound memory[] = {{"last_op", 0, OP_COUNT - 1}, {"last_success", 0, 1}};
    const struct bound slot_memory[] = {
        {"health_prev", 0, 1}, {"cf_age", 0, steps}, {"health_known", 0, 1}, {"cf_known", 0, 1}};
    const struct bound reward[] = {{"fossils", 0, steps}, {"contributing", 0, steps}, {"boost_step", 0, steps}};
    const struct bound reward_slot[] = {{"alpha", 0, 1}, {"params", 0, 2 * most_params(world)}};
    BOUND(t, "tracker", tracker);
    BOUND(t, "governor", governor);
    BOUND(t, "heuristic", heuristic);
    BOUND(t, "episode", episode);
    table_bound_also(t, "episode.last_row", 0, steps - 1, EPISODE_NO_ROW);
    BOUND(t, "memory", memory);
    BOUND(t, "slot_memory", slot_memory);
    BOUND(t, "reward", reward);
    BOUND(t, "reward_slot", reward_slot);
}

static void bound_measurements(struct world *world)
{
    struct table *t = &world->table;
    const double sets = ldexp(1, world->shape.slots) - 1;
    const struct bound subset[] = {{"count", 0, SUBSETS_MAX}, {"all", 0, sets}, {"mask", 0, sets}, {"score", 0, 100}};
    const struct bound conditions[] = {{"images", 1, UINT32_MAX}, {"label_noise", 0, 1}, {"lr_factor", 0, 1000}};
    BOUND(t, "subset", subset);
    BOUND(t, "conditions", conditions);
    if (world->price_factor)
        table_bound(t, "conditions.price_factor", 0, 1);
    table_bound(t, "train.accuracy", 0, 100);
    table_bound(t, "val.accuracy", 0, 100);
    if (world->config.reward.mode == REWARD_GAIN) {
        table_bound(t, "twin.accuracy", 0, 100);
        table_bound(t, "twin.known", 0, 1);
    }
}

static void bound_policy(struct world *world)
{
    const double logits = head_offset(world->shape.slots, HEAD_COUNT);
    const struct bound rollout[] = {{"bp", -1, blueprints(world) - 1},
                                    {"choice", 0, HEAD_MAX_SLOTS - 1}, /* each head has its own end: world_check */
                                    {"effective_op", 0, OP_COUNT - 1},
                                    {"mask", 0, ldexp(1, (int)logits) - 1},
                                    {"flags", 0, 2 * ROW_SHOWN - 1}};
    const struct bound learner[] = {{"updates", 0, INT32_MAX},          {"failures", 0, INT32_MAX},
                                    {"obs_mean", -DBL_MAX, DBL_MAX},    {"obs_var", 0, DBL_MAX},
                                    {"obs_updates", 0, INT32_MAX},      {"reward_count", 0, DBL_MAX},
                                    {"reward_mean", -DBL_MAX, DBL_MAX}, {"reward_m2", 0, DBL_MAX},
                                    {"value_shift", -DBL_MAX, DBL_MAX}, {"value_scale", DBL_MIN, DBL_MAX},
                                    {"value_updates", 0, INT32_MAX}};
    BOUND(&world->table, "rollout", rollout);
    if (!world->learns)
        return;
    BOUND(&world->table, "learner", learner);
    if (world->lesson_schedule) {
        const struct bound lesson[] = {{"schedule", 0, LESSONS_MAX - 1},
                                       {"tried", 0, LESSONS_MAX},
                                       {"earned", -DBL_MAX, DBL_MAX},
                                       {"cost", 0, DBL_MAX}};
        BOUND(&world->table, "lesson", lesson);
    }
    table_bound(&world->table, "policy.adam_steps", 0, 0x1p53);
}

static void bound_run(struct world *world)
{
    struct table *t = &world->table;
    const double first = round_first(world->config.evaluate), last = first + EVALUATION_ROUND - 1;
    table_bound(t, "round", first, last);
    table_bound(t, "step", 0, world->config.steps - 1);
#define BOUND_TOTAL(name) table_bound(t, "total." #name, 0, 0x1p53);
    TOTAL_FIELDS(BOUND_TOTAL)
#undef BOUND_TOTAL
    table_bound(t, "best.round_accuracy", -1, 100);
    table_bound(t, "best.accuracy", -1, 100);
    table_bound(t, "best.round", 0, last);
    table_bound(t, "best.env", 0, world->config.envs - 1);
    table_bound(t, "replay.present", 0, world->config.policy.kind == POLICY_REPLAY);
    table_bound_also(t, "replay.blueprint", 0, blueprints(world) - 1, BLUEPRINT_NONE);
    table_bound(t, "replay.algorithm", ALGORITHM_NONE, ALGORITHM_GATE);
}

void world_bound(struct world *world)
{
    bound_run(world);
    bound_slots(world, "slot");
    bound_slots(world, "snapshot.slot");
    bound_slots(world, "best.slot");
    bound_memories(world);
    bound_measurements(world);
    bound_policy(world);
}

/* ---- numbers that must agree ------------------------------------------------------------------------------------- */

/* A number at a place of an array, and why it cannot be there. `env` < 0: the array has no envs. */
static enum esper_status refuse(struct esper_error *error, const char *array, const char *field, int env, int at,
                                double number, const char *why)
{
    char place[48] = "";
    if (env >= 0)
        snprintf(place, sizeof place, "[%d]", env);
    return error_set(error, ESPER_INVALID, "array %s.%s holds %.15g at %s[%d], where %s", array, field, number, place,
                     at, why);
}

static enum esper_status check_slot(const struct world *world, const char *array, int env, int j,
                                    const struct slot_state *slot, struct esper_error *error)
{
    const int stage = slot->stage;
    const struct seed_size size = world_seed_size(world, j, slot->blueprint);
#define REFUSE_UNLESS(condition, field, why)                                                                           \
    if (!(condition))                                                                                                  \
    return refuse(error, array, #field, env, j, (double)slot->field, why)
    REFUSE_UNLESS(stage_is_legal(stage), stage, "a slot is in another stage");
    REFUSE_UNLESS(stage_is_legal(slot->prev_stage), prev_stage, "a slot was in another stage");
    if (stage == STAGE_DORMANT) {
        REFUSE_UNLESS(slot->blueprint == BLUEPRINT_NONE, blueprint, "an empty slot has none (255)");
        return ESPER_OK;
    }
    REFUSE_UNLESS(has_blueprint(world, slot->blueprint), blueprint, "a seed has one of its family");
    REFUSE_UNLESS(slot->algorithm != ALGORITHM_NONE, algorithm, "a seed has one, 1 to 3");
    REFUSE_UNLESS(slot->steps_done <= slot->steps_total, steps_done, "a ramp has no more than its steps_total");
    if (stage == STAGE_HOLDING || stage == STAGE_FOSSILIZED)
        REFUSE_UNLESS(slot->alpha == 1.0f, alpha, "a seed that is held or a fossil has 1"); /* or no subset has it */
    if (stage_is_live(stage)) {
        REFUSE_UNLESS(slot->seed_params == size.seed_params, seed_params, "its blueprint has another number");
        REFUSE_UNLESS(slot->gate_params == size.gate_params, gate_params, "its slot's gate net has another number");
    }
#undef REFUSE_UNLESS
    return ESPER_OK;
}

static enum esper_status check_slots(const struct world *world, struct esper_error *error)
{
    for (int j = 0; j < world->shape.slots; j++) {
        for (int env = 0; env < world->envs; env++) {
            struct slot_state now = world_slot(world, env, j);
            struct slot_state saved = slot_load(&world->saved_slots, world_slot_row(world, env, j));
            TRY(check_slot(world, "slot", env, j, &now, error));
            TRY(check_slot(world, "snapshot.slot", env, j, &saved, error));
        }
        struct slot_state best = slot_load(&world->best.slots, (size_t)j);
        TRY(check_slot(world, "best.slot", -1, j, &best, error));
        if (best.stage != STAGE_DORMANT && best.stage != STAGE_FOSSILIZED)
            return refuse(error, "best.slot", "stage", -1, j, best.stage,
                          "the best network has fossils alone (7, or 1)");
    }
    return ESPER_OK;
}

enum esper_status world_check_replay(const struct world *world, struct esper_error *error)
{
    const struct world_replay *replay = &world->replay;
    for (int j = 0; j < world->shape.slots; j++) {
        if (replay->present[j] && !has_blueprint(world, replay->blueprint[j]))
            return refuse(error, "replay", "blueprint", -1, j, replay->blueprint[j], "a seed has one of its family");
        if (replay->present[j] && replay->algorithm[j] == ALGORITHM_NONE)
            return refuse(error, "replay", "algorithm", -1, j, replay->algorithm[j], "a seed has one, 1 to 3");
    }
    return ESPER_OK;
}

/* Every choice is one of its head's; rows of steps that were not played are empty. */
static enum esper_status check_rollout(const struct world *world, struct esper_error *error)
{
    const struct rollout *rollout = &world->rollout;
    for (int step = 0; step < rollout->steps; step++)
        for (int env = 0; env < rollout->envs; env++) {
            const size_t row = (size_t)step * (size_t)rollout->envs + (size_t)env;
            for (int head = 0; head < HEAD_COUNT; head++)
                if (rollout->choice[row * HEAD_COUNT + (size_t)head] >= head_size(rollout->slots, head))
                    return error_set(
                        error, ESPER_INVALID,
                        "array rollout.choice holds %d at [%d][%d][%d], where the head of the %s ends at %d",
                        rollout->choice[row * HEAD_COUNT + (size_t)head], step, env, head, head_name(head),
                        head_size(rollout->slots, head) - 1);
            if ((uint32_t)step >= *world->step && rollout->flags[row])
                return refuse(error, "rollout", "flags", step, env, rollout->flags[row], "no step was played yet (0)");
        }
    return ESPER_OK;
}

enum esper_status world_check(const struct world *world, struct esper_error *error)
{
    TRY(check_slots(world, error));
    TRY(world_check_replay(world, error));
    TRY(check_rollout(world, error));
    for (int env = 0; env < world->envs; env++) {
        const uint32_t last = world->episode.last_row[env];
        if (last != EPISODE_NO_ROW && last >= *world->step)
            return refuse(error, "episode", "last_row", -1, env, last, "this step was not played yet");
    }
    if (world_plays_twins(world) && *world->step > 0)
        return error_set(error, ESPER_INVALID, "array step holds %u at [0], where the twins are not known yet (0)",
                         (unsigned)*world->step);
    return ESPER_OK;
}
