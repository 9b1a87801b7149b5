#include "engine/emit.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "reward/attribution.h"
#include "telemetry/recorder.h"

/* The number of rounds recorded in full, and the interval of the recorded steps in later rounds where nothing was
 * done. */
enum { FULL_ROUNDS = 200, KEPT_STEP = 10 };

static bool is_last(const struct engine *engine, const struct step_report *report)
{
    return report->step == (uint32_t)engine->world->config.steps;
}

/* ---- rollback ---------------------------------------------------------------------------------------------------- */

static void emit_rollback(struct engine *engine, const struct step_report *report)
{
    bool blamed = report->blamed_step != STEP_NOBODY;
    struct rollback_record row = {.round = report->round,
                                  .step = report->step,
                                  .env = report->env,
                                  .reason = prune_reason_name(report->reason),
                                  .val_loss = report->val_loss,
                                  .blamed_step = blamed ? report->blamed_step : RECORD_NONE,
                                  .penalty = blamed ? report->penalty : (double)NAN,
                                  .replaced = blamed ? report->replaced : (double)NAN,
                                  .seeds_lost = report->seeds_lost};
    recorder_emit(engine->recorder, RECORD_ROLLBACK, &row);
}

/* ---- step -------------------------------------------------------------------------------------------------------- */

/* Heads that the op does not use are left empty. */
static const char *seed_name(const struct engine *engine, int blueprint)
{
    return family_blueprint(host_family_of(&engine->world->config), blueprint);
}

static void fill_action(const struct engine *engine, const struct action *action, struct step_record *row)
{
    uint8_t relevant = head_relevance(action->op);
    row->op = op_name(action->op);
    row->slot = row->tempo = row->alpha_speed = RECORD_NONE;
    row->alpha_target = NAN;
    if (relevant >> HEAD_SLOT & 1)
        row->slot = action->slot;
    if (relevant >> HEAD_BLUEPRINT & 1)
        row->blueprint = seed_name(engine, action->blueprint);
    if (relevant >> HEAD_STYLE & 1)
        row->style = style_name(action->style);
    if (relevant >> HEAD_TEMPO & 1)
        row->tempo = tempo_steps(action->tempo);
    if (relevant >> HEAD_ALPHA_TARGET & 1)
        row->alpha_target = (double)alpha_target_value(action->alpha_target);
    if (relevant >> HEAD_ALPHA_SPEED & 1)
        row->alpha_speed = alpha_speed_steps(action->alpha_speed);
    if (relevant >> HEAD_ALPHA_CURVE & 1)
        row->alpha_curve = alpha_curve_name(action->alpha_curve);
}

/* Missing where no network decides. */
static void fill_decision(const struct engine *engine, const struct step_report *report, struct step_record *row)
{
    const struct decision *decision = &report->decision;
    const bool learns = engine->world->learns;
#define OP_COLUMN(with, NAME, name) row->p_##name = learns ? (double)decision->op_probability[OP_##NAME] : (double)NAN;
    OPS(OP_COLUMN, )
#undef OP_COLUMN
    row->log_probability = row->entropy = row->value = NAN;
    if (!learns)
        return;
    row->log_probability = 0;
    for (int head = 0; head < HEAD_COUNT; head++)
        row->log_probability += (double)decision->logp[head];
    row->entropy = (double)decision->entropy[HEAD_OP];
    row->value = (double)report->value;
}

/* A step that was rolled back had no reward. */
static void fill_reward(const struct step_report *report, struct step_record *row)
{
    const bool executed = report->result != STEP_ROLLED_BACK;
    row->reward = executed ? report->reward : (double)NAN;
#define COMPONENT_COLUMN(with, NAME, name, help) row->name = executed ? report->components[REWARD_##NAME] : (double)NAN;
    REWARD_COMPONENTS(COMPONENT_COLUMN, )
#undef COMPONENT_COLUMN
}

static const char *result_name(int result)
{
    static const char *const name[] = {
        [STEP_DONE] = "done", [STEP_REFUSED] = "refused", [STEP_VOID] = "void", [STEP_ROLLED_BACK] = "rolled_back"};
    return name[result];
}

static void emit_decision(struct engine *engine, const struct step_report *report)
{
    struct step_record row = {.round = report->round,
                              .step = report->step,
                              .env = report->env,
                              .result = result_name(report->result),
                              .forced = report->forced,
                              .train_loss = report->train_loss,
                              .train_accuracy = report->train_accuracy,
                              .val_loss = report->val_loss,
                              .val_accuracy = report->val_accuracy};
    fill_action(engine, &report->action, &row);
    fill_decision(engine, report, &row);
    fill_reward(report, &row);
    for (int j = 0; j < engine->world->shape.slots; j++)
        if (stage_is_live(report->before[j].stage)) {
            row.live++;
            row.added_params += slot_params(&report->before[j]);
        }
    recorder_emit(engine->recorder, RECORD_STEP, &row);
}

/* ---- seed -------------------------------------------------------------------------------------------------------- */

static double if_measured(const struct slot_state *slot, uint32_t flag, double value)
{
    return slot_has(slot, flag) ? value : (double)NAN;
}

/* A sampled share has a standard error; the others follow from the subsets. */
static void fill_share(const struct engine *engine, const struct step_report *report, int j, struct seed_record *row)
{
    const struct shapley_sums *sums = &report->shares;
    const uint32_t all = report->subsets.all;
    row->share = row->share_error = NAN;
    if (!(all >> j & 1u))
        return;
    if (is_last(engine, report) && sums->pairs > 0) {
        int player = attribution_bits(all & ((1u << j) - 1));
        row->share = sums->mean[player];
        row->share_error = shapley_error(sums, player);
    } else {
        row->share = attribution_share(&report->subsets, j);
    }
}

static void emit_seed(struct engine *engine, const struct step_report *report, int j)
{
    const struct slot_state *slot = &report->before[j];
    const struct slot_grads *grads = &report->grads[j]; /* the slot keeps what was measured up to BLENDING */
    struct seed_record row = {.round = report->round,
                              .step = report->step,
                              .env = report->env,
                              .slot = j,
                              .germination = slot->germinations,
                              .stage = stage_name(slot->stage),
                              .blueprint = seed_name(engine, slot->blueprint),
                              .algorithm = algorithm_name(slot->algorithm),
                              .params = slot_params(slot),
                              .alpha = (double)slot->alpha,
                              .alpha_target = (double)slot->alpha_target,
                              .age = slot->epochs_total,
                              .stage_age = slot->epochs_in_stage,
                              .improvement = slot_improvement(slot),
                              .contribution = if_measured(slot, SLOT_CF_MEASURED, slot->contribution),
                              .contribution_velocity = if_measured(slot, SLOT_CF_MEASURED, slot->contribution_velocity),
                              .interaction = if_measured(slot, SLOT_CF_MEASURED, slot->interaction_sum),
                              .grad_norm = grads->measured && grads->finite ? grads->norm : (double)NAN,
                              .grad_health = grads->measured ? grads->health : (double)NAN,
                              .grad_ratio = grads->measured && slot_follows_gradient(slot) ? slot->grad_ratio
                                                                                           : (double)NAN,
                              .vanishing = grads->measured ? grads->vanishing : RECORD_NONE,
                              .exploding = grads->measured ? grads->exploding : RECORD_NONE};
    fill_share(engine, report, j, &row);
    recorder_emit(engine->recorder, RECORD_SEED, &row);
}

static void emit_subsets(struct engine *engine, const struct step_report *report)
{
    const struct world *world = engine->world;
    const int samples = config_val_images(&world->config, is_last(engine, report));
    const double images = world->growth.scored_by_loss ? 0 : samples;
    for (int k = 0; k < report->subsets.count; k++) {
        struct subset_record row = {.round = report->round,
                                    .step = report->step,
                                    .env = report->env,
                                    .mask = report->subsets.mask[k],
                                    .correct = (uint32_t)lround(report->subsets.score[k] * images / 100),
                                    .accuracy = report->subsets.score[k]};
        recorder_emit(engine->recorder, RECORD_SUBSET, &row);
    }
}

/* Nothing was done in the step, and the run is past the rounds that are recorded in full. */
static bool is_thinned(const struct engine *engine, const struct step_report *report)
{
    uint32_t rounds = report->round - round_first(engine->world->config.evaluate);
    bool idle = report->action.op == OP_WAIT && report->result != STEP_ROLLED_BACK;
    return idle && rounds >= FULL_ROUNDS && report->step % KEPT_STEP != 0 && !is_last(engine, report);
}

uint32_t emit_last_kept(uint32_t rounds, uint32_t step)
{
    return rounds < FULL_ROUNDS ? step : step - step % KEPT_STEP;
}

static void emit_step(struct engine *engine, const struct step_report *report)
{
    struct recorder *recorder = engine->recorder;
    int slots = engine->world->shape.slots, live = 0;
    if (!recorder_wants(recorder, RECORD_STEP))
        return;
    for (int j = 0; j < slots; j++)
        live += stage_is_live(report->before[j].stage);
    if (is_thinned(engine, report)) {
        recorder_thin(recorder, RECORD_STEP, 1);
        recorder_thin(recorder, RECORD_SEED, live);
        if (recorder_is_debug(recorder))
            recorder_thin(recorder, RECORD_SUBSET, report->subsets.count);
        return;
    }
    emit_decision(engine, report);
    if (report->result != STEP_ROLLED_BACK) /* a network that the governor discards was not measured */
        for (int j = 0; j < slots; j++)
            if (stage_is_live(report->before[j].stage))
                emit_seed(engine, report, j);
    if (is_last(engine, report) || recorder_is_debug(recorder))
        emit_subsets(engine, report);
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

static const char *event_name(int type)
{
    static const char *const name[] = {"germinated", "gate", "stage", "fossilized", "pruned"};
    return name[type];
}

static void fill_verdict(const struct gate_verdict *verdict, struct life_record *row)
{
    static const char *const gates[] = {"G0", "G1", "G2", "G3", "G4", "G5"};
    size_t used = 0;
    row->gate = verdict->gate <= GATE_G5 ? gates[verdict->gate] : NULL; /* an ADVANCE may have no target */
    row->passed = verdict->pass;
    row->score = verdict->score;
    for (uint32_t bit = 0; bit < GATE_FAILURES && used < sizeof row->failed; bit++)
        if (verdict->failed >> bit & 1u)
            used += (size_t)snprintf(row->failed + used, sizeof row->failed - used, "%s%s", used ? "," : "",
                                     gate_failure_name((int)bit));
}

static void emit_life(struct engine *engine, const struct step_report *report)
{
    if (!recorder_wants(engine->recorder, RECORD_LIFE))
        return;
    for (int j = 0; j < engine->world->shape.slots; j++)
        for (int i = 0; i < report->log[j].count; i++) {
            const struct life_event *event = &report->log[j].event[i];
            const struct slot_state *before = &report->before[j], *after = &report->after[j];
            const struct slot_state *seed = before->stage == STAGE_DORMANT ? after : before;
            struct life_record row = {.round = report->round,
                                      .step = report->step,
                                      .env = report->env,
                                      .slot = j,
                                      .ordinal = i,
                                      .germination = seed->germinations,
                                      .event = event_name(event->type),
                                      .blueprint = seed_name(engine, seed->blueprint),
                                      .from_stage = stage_name(event->from),
                                      .to_stage = stage_name(event->to),
                                      .passed = RECORD_NONE,
                                      .score = NAN};
            if (event->type == LIFE_PRUNED)
                row.reason = prune_reason_name(event->reason);
            if (event->type == LIFE_GATE_EVALUATED)
                fill_verdict(&event->verdict, &row);
            recorder_emit(engine->recorder, RECORD_LIFE, &row);
        }
}

void emit_report(struct engine *engine, const struct step_report *report)
{
    if (report->result == STEP_ROLLED_BACK)
        emit_rollback(engine, report);
    emit_step(engine, report);
    emit_life(engine, report);
}

/* ---- phase ------------------------------------------------------------------------------------------------------- */

static void emit_times(struct engine *engine, struct phase_record *row, double start, double end)
{
    /* both ends are rounded alike, so that nested spans stay nested */
    row->start_us = (int64_t)(1e6 * (start - engine->zero));
    row->duration_us = (int64_t)(1e6 * (end - engine->zero)) - row->start_us;
    recorder_emit(engine->recorder, RECORD_PHASE, row);
}

/* Phases of a step are timed as often as the configuration says, those of a round always. */
static bool is_timed(const struct world *world, const char *name)
{
    static const char *const of_steps[] = {"train", "evaluate", "observe", "decide", "apply"};
    for (size_t i = 0; i < sizeof of_steps / sizeof of_steps[0]; i++)
        if (strcmp(name, of_steps[i]) == 0)
            return world_times_step(world, *world->step);
    return true;
}

void emit_phase(struct engine *engine, const char *name, int thread, int env, double start)
{
    const struct world *world = engine->world;
    uint32_t steps = (uint32_t)world->config.steps;
    if (!recorder_wants(engine->recorder, RECORD_PHASE) || !is_timed(world, name))
        return;
    struct phase_record row = {.round = *world->round,
                               .step = *world->step < steps ? *world->step + 1 : steps,
                               .thread = thread,
                               .name = name,
                               .env = env < 0 ? env : (int64_t)world_env_number(world, env)};
    emit_times(engine, &row, start, clock_seconds());
}

void emit_device_phase(struct engine *engine, const char *name, uint32_t round, uint32_t step, double start, double end)
{
    enum { DEVICE_THREAD = 1000 }; /* a separate row in a trace, after the threads */
    if (!recorder_wants(engine->recorder, RECORD_PHASE))
        return;
    struct phase_record row = {.round = round, .step = step, .thread = DEVICE_THREAD, .name = name, .env = -1};
    emit_times(engine, &row, start, end);
}
