/* An environment while it is played: reset, observe, masks, step, outcomes, save. */
#include <string.h>

#include "api/parts.h"
#include "engine/step.h"
#include "session/checkpoint.h"

/* ---- what it is -------------------------------------------------------------------------------------------------- */

enum esper_status esper_env_describe(struct esper_env *env, struct esper_env_info *out, struct esper_error *error)
{
    TRY(api_enter(env ? &env->handle : NULL, "esper_env_describe", error));
    if (!out)
        return api_leave(&env->handle, error_set(error, ESPER_INVALID, "esper_env_describe: out is NULL"));
    const struct world *world = engine_world(env->engine);
    const int slots = world->shape.slots;
    *out = (struct esper_env_info){.envs = (uint32_t)world->envs,
                                   .steps = (uint32_t)world->config.steps,
                                   .features = (uint32_t)world->rollout.obs,
                                   .slots = (uint32_t)slots,
                                   .choices = (uint32_t)head_offset(slots, HEAD_COUNT)};
    for (int head = 0; head < HEAD_COUNT; head++)
        out->head_size[head] = (uint32_t)head_size(slots, head);
    return api_leave(&env->handle, ESPER_OK);
}

const char *esper_env_slot_name(const struct esper_env *env, uint32_t slot)
{
    if (!env || slot >= (uint32_t)engine_world(env->engine)->shape.slots)
        return NULL;
    return engine_world(env->engine)->config.slots[slot];
}

const char *esper_env_blueprint_name(const struct esper_env *env, uint32_t blueprint)
{
    if (!env || blueprint >= BLUEPRINT_MAX)
        return NULL;
    const struct host_family *family = host_family_of(&engine_world(env->engine)->config);
    return family_has(family, (int)blueprint) ? family->blueprint_names[blueprint] : NULL;
}

/* ---- episodes ---------------------------------------------------------------------------------------------------- */

static enum esper_status reset_to(struct esper_env *env, uint32_t episode, struct esper_error *error)
{
    if (episode >= EVALUATION_ROUND) /* from there on, numbers belong to episodes of another kind */
        return error_set(error, ESPER_INVALID, "episode %u: there are episodes 0 to %u", (unsigned)episode,
                         EVALUATION_ROUND - 1);
    engine_reset(env->engine, env_first(env) + episode);
    env->next = episode + 1;
    env->place = ENV_BETWEEN;
    return ESPER_OK;
}

enum esper_status esper_env_reset(struct esper_env *env, struct esper_error *error)
{
    TRY(api_enter(env ? &env->handle : NULL, "esper_env_reset", error));
    return api_leave(&env->handle, reset_to(env, env->next, error));
}

enum esper_status esper_env_reset_to(struct esper_env *env, uint32_t episode, struct esper_error *error)
{
    TRY(api_enter(env ? &env->handle : NULL, "esper_env_reset_to", error));
    return api_leave(&env->handle, reset_to(env, episode, error));
}

enum esper_status env_ask(struct esper_env *env, struct esper_error *error)
{
    if (env->place == ENV_OPENED)
        return error_set(error, ESPER_INVALID, "no episode has begun; call esper_env_reset first");
    if (env->place == ENV_ENDED)
        return error_set(error, ESPER_INVALID, "the episode is over; call esper_env_reset for the next");
    if (env->place == ENV_ASKED)
        return ESPER_OK;
    engine_train(env->engine);
    engine_evaluate(env->engine);
    engine_decide(env->engine);
    env->masks = engine_ask(env->engine);
    TRY(engine_check(env->engine, error));
    env->place = ENV_ASKED;
    return ESPER_OK;
}

/* The rollout's first row of the decision that is due, or, after the last one, of that. */
static enum esper_status row_of_decision(struct esper_env *env, size_t *row, struct esper_error *error)
{
    const struct world *world = engine_world(env->engine);
    if (env->place != ENV_ENDED)
        TRY(env_ask(env, error));
    *row = world_round_row(world, *world->step - (env->place == ENV_ENDED ? 1u : 0u), 0);
    return ESPER_OK;
}

static enum esper_status observe_all(struct esper_env *env, float *out, size_t count, struct esper_error *error)
{
    const struct world *world = engine_world(env->engine);
    const size_t features = (size_t)world->rollout.obs, wanted = (size_t)world->envs * features;
    size_t row;
    TRY(api_array("esper_env_observe: out [envs][features]", out, count, wanted, error));
    TRY(row_of_decision(env, &row, error));
    memcpy(out, world->rollout.raw + row * features, wanted * sizeof *out);
    return ESPER_OK;
}

static enum esper_status tell_blueprints(struct esper_env *env, int8_t *out, size_t count, struct esper_error *error)
{
    const struct world *world = engine_world(env->engine);
    const size_t slots = (size_t)world->shape.slots, wanted = (size_t)world->envs * slots;
    size_t row;
    TRY(api_array("esper_env_blueprints: out [envs][slots]", out, count, wanted, error));
    TRY(row_of_decision(env, &row, error));
    memcpy(out, world->rollout.bp + row * slots, wanted * sizeof *out);
    return ESPER_OK;
}

enum esper_status esper_env_blueprints(struct esper_env *env, int8_t *out, size_t count, struct esper_error *error)
{
    TRY(api_enter(env ? &env->handle : NULL, "esper_env_blueprints", error));
    return api_leave(&env->handle, tell_blueprints(env, out, count, error));
}

enum esper_status esper_env_observe(struct esper_env *env, float *out, size_t count, struct esper_error *error)
{
    TRY(api_enter(env ? &env->handle : NULL, "esper_env_observe", error));
    return api_leave(&env->handle, observe_all(env, out, count, error));
}

static enum esper_status write_masks(struct esper_env *env, uint8_t *choices, size_t choice_count, uint8_t *slot_by_op,
                                     size_t slot_count, struct esper_error *error)
{
    const struct world *world = engine_world(env->engine);
    const int slots = world->shape.slots, columns = head_offset(slots, HEAD_COUNT);
    const size_t envs = (size_t)world->envs;
    if (choices || choice_count)
        TRY(api_array("esper_env_masks: choices [envs][choices]", choices, choice_count, envs * (size_t)columns,
                      error));
    if (slot_by_op || slot_count)
        TRY(api_array("esper_env_masks: slot_by_op [envs][ops][slots]", slot_by_op, slot_count,
                      envs * OP_COUNT * (size_t)slots, error));
    TRY(env_ask(env, error));
    for (int e = 0; e < world->envs; e++) {
        const struct masks *masks = &env->masks[e];
        for (int i = 0; choices && i < columns; i++)
            *choices++ = masks->base >> i & 1u;
        for (int i = 0; slot_by_op && i < OP_COUNT * slots; i++)
            *slot_by_op++ = masks->slots[i / slots] >> i % slots & 1u;
    }
    return ESPER_OK;
}

enum esper_status esper_env_masks(struct esper_env *env, uint8_t *choices, size_t choice_count, uint8_t *slot_by_op,
                                  size_t slot_count, struct esper_error *error)
{
    TRY(api_enter(env ? &env->handle : NULL, "esper_env_masks", error));
    return api_leave(&env->handle, write_masks(env, choices, choice_count, slot_by_op, slot_count, error));
}

/* ---- a step ------------------------------------------------------------------------------------------------------ */

static enum esper_status refuse(int env, int head, const uint8_t *action, struct esper_error *error)
{
    if (head == HEAD_OP)
        return error_set(error, ESPER_INVALID, "env %d: op = %d (%s): the masks do not allow it", env, action[head],
                         op_name(action[head]));
    return error_set(error, ESPER_INVALID, "env %d: %s = %d: the masks do not allow it for op = %d (%s)", env,
                     head_name(head), action[head], action[HEAD_OP], op_name(action[HEAD_OP]));
}

/* The masks are those that a policy samples under. Heads that do not matter get their one canonical choice, as there.
 */
static enum esper_status take_action(const struct world *world, int env, const struct masks *masks,
                                     const uint8_t *given, struct action *out, struct esper_error *error)
{
    const int slots = world->shape.slots, op = given[HEAD_OP];
    uint8_t choice[HEAD_COUNT];
    if (op >= OP_COUNT || !(head_bits(masks->base, slots, HEAD_OP) >> op & 1u))
        return refuse(env, HEAD_OP, given, error);
    const uint64_t mask = mask_effective(mask_of_op(masks, slots, op), slots, op);
    for (int head = 0; head < HEAD_COUNT; head++) {
        const uint32_t set = head_bits(mask, slots, head);
        choice[head] = given[head];
        if (head == HEAD_OP)
            continue;
        if (!(head_relevance(op) >> head & 1u))
            choice[head] = (uint8_t)__builtin_ctz(set);
        else if (given[head] >= head_size(slots, head) || !(set >> given[head] & 1u))
            return refuse(env, head, given, error);
    }
    *out = action_of_heads(choice);
    return ESPER_OK;
}

/* Which envs' actions a step would take. */
static enum esper_status judge_actions(struct esper_env *env, const uint8_t *actions, size_t action_count,
                                       uint8_t *allowed, size_t allowed_count, struct esper_error *error)
{
    const struct world *world = engine_world(env->engine);
    const size_t envs = (size_t)world->envs;
    struct action ignored;
    TRY(api_array("esper_env_allowed: actions [envs][heads]", actions, action_count, envs * HEAD_COUNT, error));
    TRY(api_array("esper_env_allowed: allowed [envs]", allowed, allowed_count, envs, error));
    TRY(env_ask(env, error));
    for (int e = 0; e < world->envs; e++)
        allowed[e] = take_action(world, e, &env->masks[e], actions + e * HEAD_COUNT, &ignored, NULL) == ESPER_OK;
    return ESPER_OK;
}

enum esper_status esper_env_allowed(struct esper_env *env, const uint8_t *actions, size_t action_count,
                                    uint8_t *allowed, size_t allowed_count, struct esper_error *error)
{
    TRY(api_enter(env ? &env->handle : NULL, "esper_env_allowed", error));
    return api_leave(&env->handle, judge_actions(env, actions, action_count, allowed, allowed_count, error));
}

/* What a rollback takes back from the step that it blames; the rewards of an episode add up to its outcome's. */
static double reward_of(const struct world *world, const struct step_report *report)
{
    if (report->result != STEP_ROLLED_BACK)
        return report->reward;
    const bool paid = report->blamed_step != STEP_NOBODY && world->config.reward.mode != REWARD_GAIN;
    return paid ? report->penalty - report->replaced : 0;
}

static void write_steps(struct esper_env *env, const struct step_report *reports, struct esper_step *out)
{
    const struct world *world = engine_world(env->engine);
    for (int e = 0; e < world->envs; e++) {
        const struct step_report *report = &reports[e];
        out[e] = (struct esper_step){.reward = reward_of(world, report),
                                     .train_loss = report->train_loss,
                                     .train_score = report->train_accuracy,
                                     .val_loss = report->val_loss,
                                     .val_score = report->val_accuracy,
                                     .result = report->result,
                                     .ended = env->place == ENV_ENDED};
        if (report->result != STEP_ROLLED_BACK)
            memcpy(out[e].component, report->components, sizeof out[e].component);
    }
}

static enum esper_status take_step(struct esper_env *env, const uint8_t *actions, size_t action_count,
                                   struct esper_step *out, size_t out_count, struct esper_error *error)
{
    const struct world *world = engine_world(env->engine);
    const size_t envs = (size_t)world->envs;
    struct action action;
    TRY(api_array("esper_env_step: actions [envs][heads]", actions, action_count, envs * HEAD_COUNT, error));
    if (out || out_count)
        TRY(api_array("esper_env_step: out [envs]", out, out_count, envs, error));
    TRY(env_ask(env, error));
    for (int e = 0; e < world->envs; e++) /* all or none */
        TRY(take_action(world, e, &env->masks[e], actions + e * HEAD_COUNT, &action, error));
    for (int e = 0; e < world->envs; e++) {
        TRY(take_action(world, e, &env->masks[e], actions + e * HEAD_COUNT, &action, error));
        engine_override(env->engine, e, &action);
    }
    engine_apply(env->engine);
    const struct step_report *reports = engine_reports(env->engine);
    TRY(engine_check(env->engine, error));
    env->place = *world->step < (uint32_t)world->config.steps ? ENV_BETWEEN : ENV_ENDED;
    if (env->place == ENV_ENDED)
        engine_finish(env->engine, env->outcomes);
    if (out)
        write_steps(env, reports, out);
    return engine_check(env->engine, error);
}

_Static_assert((int)ESPER_DONE == (int)STEP_DONE && (int)ESPER_REFUSED == (int)STEP_REFUSED &&
                   (int)ESPER_VOID == (int)STEP_VOID && (int)ESPER_ROLLED_BACK == (int)STEP_ROLLED_BACK,
               "results of esper.h");

enum esper_status esper_env_step(struct esper_env *env, const uint8_t *actions, size_t action_count,
                                 struct esper_step *out, size_t out_count, struct esper_error *error)
{
    TRY(api_enter(env ? &env->handle : NULL, "esper_env_step", error));
    return api_leave(&env->handle, take_step(env, actions, action_count, out, out_count, error));
}

/* ---- what is left of it ------------------------------------------------------------------------------------------ */

static enum esper_status write_outcomes(struct esper_env *env, struct esper_outcome *out, size_t count,
                                        struct esper_error *error)
{
    const size_t envs = (size_t)engine_world(env->engine)->envs;
    TRY(api_array("esper_env_outcomes: out [envs]", out, count, envs, error));
    if (env->place != ENV_ENDED)
        return error_set(error, ESPER_INVALID, "esper_env_outcomes: the episode is not over");
    for (size_t e = 0; e < envs; e++) {
        const struct outcome_record *record = &env->outcomes[e];
        out[e] = (struct esper_outcome){.val_score = record->val_accuracy,
                                        .test_score = record->test_accuracy,
                                        .val_loss = record->val_loss,
                                        .twin_score = record->twin_accuracy,
                                        .gain = record->gain,
                                        .reward = record->reward,
                                        .stability = record->stability,
                                        .forward_macs = record->forward_macs,
                                        .train_work = record->train_work,
                                        .host_params = record->host_params,
                                        .added_params = record->added_params,
                                        .episode = (uint32_t)record->round - env_first(env),
                                        .env = (uint32_t)record->env,
                                        .germinated = (uint32_t)record->germinated,
                                        .pruned = (uint32_t)record->pruned,
                                        .rollbacks = (uint32_t)record->rollbacks,
                                        .fossilized = (uint32_t)record->fossilized,
                                        .live = (uint32_t)record->live,
                                        .success = (uint32_t)record->success};
    }
    return ESPER_OK;
}

enum esper_status esper_env_outcomes(struct esper_env *env, struct esper_outcome *out, size_t count,
                                     struct esper_error *error)
{
    TRY(api_enter(env ? &env->handle : NULL, "esper_env_outcomes", error));
    return api_leave(&env->handle, write_outcomes(env, out, count, error));
}

static enum esper_status save(struct esper_env *env, const char *path, struct esper_error *error)
{
    const struct world *world = engine_world(env->engine);
    struct checkpoint_info info;
    if (!path)
        return error_set(error, ESPER_INVALID, "esper_env_save: path is NULL");
    if (env->place != ENV_BETWEEN)
        return error_set(error, ESPER_INVALID, "esper_env_save: %s",
                         env->place == ENV_ASKED
                             ? "a step has begun; save after esper_env_step, before the next observation"
                             : "there is no episode in progress; call esper_env_reset first");
    engine_read(env->engine);
    TRY(engine_check(env->engine, error));
    return checkpoint_write(path, &world->table, &world->config, *world->round - env_first(env), *world->step, &info,
                            error);
}

enum esper_status esper_env_save(struct esper_env *env, const char *path, struct esper_error *error)
{
    TRY(api_enter(env ? &env->handle : NULL, "esper_env_save", error));
    return api_leave(&env->handle, save(env, path, error));
}
