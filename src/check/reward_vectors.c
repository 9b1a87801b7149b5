#include "check/reward_vectors.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check/reward_case.h"
#include "policy/tracker.h"
#include "reward/reward.h"

#define MODE_COMPONENTS REWARD_ESCROW_FORFEIT /* this many come from the mode, the rest from the step */

/* ---- reward, loss: one call of the mode function ---------------------------------------------------------------- */

static void read_seed(struct reward_case *c, const cJSON *in, struct reward_seed *seed)
{
    *seed = (struct reward_seed){.live = case_number(c, in, "has_seed") == 1,
                                 .stage = case_integer(c, in, "stage", STAGE_DORMANT),
                                 .epochs = case_integer(c, in, "epochs_in_stage", 0),
                                 .previous_stage = case_integer(c, in, "previous_stage", 0),
                                 .previous_epochs = case_integer(c, in, "previous_epochs_in_stage", 0),
                                 .age = case_integer(c, in, "seed_age_epochs", 0),
                                 .contribution = case_number(c, in, "seed_contribution"),
                                 .gain = case_number(c, in, "counterfactual_total_improvement"),
                                 .improvement = case_number(c, in, "improvement_since_stage_start"),
                                 .interaction = case_number(c, in, "interaction_sum"),
                                 .birth = case_number(c, in, "acc_at_germination"),
                                 .credit = case_number(c, in, "escrow_credit_prev")};
}

static void read_scene(struct reward_case *c, const cJSON *in, struct reward_scene *scene)
{
    const cJSON *scale = case_list(c, in, "drip_scale", 0, REWARD_SLOTS);
    const cJSON *contribution = case_list(c, in, "drip_contribution", 0, REWARD_SLOTS);
    *scene = (struct reward_scene){.slots = 1,
                                   .op = case_op(c, in, "op"),
                                   .step = case_integer(c, in, "epoch", 0),
                                   .steps = case_integer(c, in, "max_epochs", 0),
                                   .val_accuracy = case_number(c, in, "val_acc"),
                                   .stable_accuracy = case_number(c, in, "stable_val_acc"),
                                   .committed_accuracy = case_number(c, in, "committed_val_acc"),
                                   .accuracy_delta = case_number(c, in, "acc_delta"),
                                   .val_loss = case_number(c, in, "val_loss"),
                                   .loss_delta = case_number(c, in, "loss_delta"),
                                   .host_params = case_number(c, in, "host_params"),
                                   .total_params = case_number(c, in, "total_params"),
                                   .fossil_params = case_number(c, in, "fossilized_seed_params"),
                                   .effective_params = case_number(c, in, "effective_seed_params"),
                                   .shock = case_number(c, in, "alpha_delta_sq_sum"),
                                   .active = case_integer(c, in, "n_active_seeds", 0),
                                   .fossils = case_integer(c, in, "num_fossilized_seeds", 0),
                                   .contributing = case_integer(c, in, "num_contributing_fossilized", 0)};
    read_seed(c, in, &scene->seed[0]);
    for (int i = 0; i < cJSON_GetArraySize(scale) && !c->problem[0]; i++) {
        scene->drip_scale[i] = case_item(c, scale, i);
        scene->drip_contribution[i] = case_item(c, contribution, i);
    }
}

static void compare_alarms(struct reward_case *c, const cJSON *alarms, uint32_t got)
{
    uint32_t want = 0;
    for (const cJSON *alarm = alarms->child; alarm; alarm = alarm->next) {
        const char *name = cJSON_IsString(alarm) ? alarm->valuestring : "";
        if (strcmp(name, "attribution_ratio") == 0)
            want |= ALARM_ATTRIBUTION_RATIO;
        else if (strcmp(name, "ransomware_signature") == 0)
            want |= ALARM_RANSOMWARE;
        else
            case_complain(c, "unknown alarm", name);
    }
    case_compare_within(c, "alarms", got, want, CASE_TOLERANCE);
}

/* Modes report what they have: every diagnostic that is there must be known and right. */
static void compare_diagnostics(struct reward_case *c, const struct reward_trace *trace)
{
    bool escrow = c->config.reward.mode == REWARD_ESCROW;
    const struct {
        const char *name;
        double got;
    } known[] = {{"progress", trace->progress},           {"attribution_discount", trace->discount},
                 {"ratio_penalty", trace->ratio_penalty}, {"timing_discount", trace->timing},
                 {"growth_ratio", trace->growth_ratio},   {"escrow_credit_target", trace->credit_target},
                 {"escrow_delta", trace->credit_delta},   {"escrow_credit_next", escrow ? trace->credit[0] : 0},
                 {"new_drip_total", trace->drip_total},   {"new_drip_scale", trace->drip_scale}};
    const cJSON *all = case_member(c, c->json, "diagnostics");
    for (const cJSON *one = all ? all->child : NULL; one; one = one->next) {
        size_t k = 0, count = sizeof known / sizeof known[0];
        if (strcmp(one->string, "alarms") == 0) {
            compare_alarms(c, one, trace->alarms);
            continue;
        }
        while (k < count && strcmp(one->string, known[k].name) != 0)
            k++;
        if (k < count)
            case_compare(c, all, one->string, known[k].got);
        else
            case_complain(c, "unknown diagnostic", one->string);
    }
}

static void check_mode(struct reward_case *c, const cJSON *in)
{
    struct reward_scene scene;
    struct reward_trace trace;
    double component[REWARD_COMPONENT_COUNT];
    read_scene(c, in, &scene);
    double total = reward_mode(&c->config.reward, CASE_GAMMA, &scene, component, &trace);
    const cJSON *want = case_member(c, c->json, "components");
    for (int k = 0; k < MODE_COMPONENTS; k++)
        case_compare(c, want, reward_component_name(k), component[k]);
    compare_diagnostics(c, &trace);
    case_compare(c, c->json, "total", total);
}

/* ---- step: an env with all its slots ---------------------------------------------------------------------------- */

struct step_case {
    struct reward_scene scene;
    struct reward_state state;
    struct reward_slot slots[REWARD_SLOTS];
    struct slot_state rows[REWARD_SLOTS]; /* which decide whether the op is valid */
};

static void read_step_slot(struct reward_case *c, const cJSON *in, struct step_case *step, int j)
{
    const cJSON *slot = cJSON_GetArrayItem(json_find(in, "slots"), j);
    struct reward_seed *seed = &step->scene.seed[j];
    double loo = case_item(c, case_member(c, in, "loo_acc"), j);
    reward_slot_clear(&step->slots[j]);
    slot_clear(&step->rows[j]);
    *seed = (struct reward_seed){.stage = STAGE_DORMANT, .contribution = step->scene.val_accuracy - loo};
    step->scene.drip_contribution[j] = seed->contribution;
    step->slots[j].alpha = case_item(c, case_member(c, in, "prev_alpha"), j);
    step->slots[j].params = (uint32_t)case_item(c, case_member(c, in, "prev_params"), j);
    step->slots[j].credit = case_item(c, case_member(c, in, "escrow_credit"), j);
    if (cJSON_IsNull(slot))
        return;
    double drip_scale = case_number(c, slot, "drip_scale");
    seed->live = case_number(c, slot, "active") == 1;
    seed->stage = case_integer(c, slot, "stage", STAGE_DORMANT);
    seed->epochs = case_integer(c, slot, "epochs_in_stage", 0);
    seed->previous_stage = case_integer(c, slot, "previous_stage", 0);
    seed->previous_epochs = case_integer(c, slot, "previous_epochs_in_stage", 0);
    seed->age = case_integer(c, slot, "age", 0);
    seed->alpha = case_number(c, slot, "alpha");
    seed->params = case_number(c, slot, "seed_params");
    seed->improvement = case_number(c, slot, "cur_acc") - case_number(c, slot, "stage_start_acc");
    seed->interaction = case_number(c, slot, "interaction_sum");
    step->slots[j].birth = case_number(c, slot, "acc_at_germination");
    step->slots[j].drip_scale = isnan(drip_scale) ? 0 : drip_scale;
    step->rows[j].stage = (uint8_t)seed->stage;
    step->rows[j].epochs_total = (uint32_t)seed->age;
    step->rows[j].alpha_mode = case_number(c, slot, "alpha_hold") == 1 ? ALPHA_HOLD : ALPHA_UP;
    slot_set(&step->rows[j], SLOT_AUTO_PRUNED, case_number(c, slot, "auto_pruned") == 1);
}

/* The op that is credited. Our governor never forbids an op beforehand; a file may say that there was one. */
static int step_op(struct reward_case *c, const cJSON *in, const struct step_case *step)
{
    struct reward_env env = {.slots = step->scene.slots, .slot = step->rows};
    env.action.op = (uint8_t)case_op(c, in, "op");
    env.action.slot = (uint8_t)step->scene.target;
    return case_number(c, c->json, "governor_veto") == 1 ? OP_WAIT : reward_effective_op(&env);
}

static void read_step(struct reward_case *c, const cJSON *in, struct step_case *step)
{
    struct reward_scene *scene = &step->scene;
    struct tracker tracker;
    double one_off[REWARD_SLOTS];
    int results;
    double *history = case_numbers(c, in, "acc_history", &results);
    const cJSON *slots = case_list(c, in, "slots", 1, REWARD_SLOTS);
    *scene = (struct reward_scene){.slots = c->problem[0] ? 0 : cJSON_GetArraySize(slots),
                                   .target = case_integer(c, in, "target_slot", 0),
                                   .step = case_integer(c, in, "epoch", 0),
                                   .steps = case_integer(c, in, "max_epochs", 0),
                                   .val_accuracy = case_number(c, in, "val_acc"),
                                   .committed_accuracy = case_number(c, in, "committed_val_acc"),
                                   .accuracy_delta = case_number(c, in, "acc_delta"),
                                   .val_loss = case_number(c, in, "val_loss"),
                                   .loss_delta = case_number(c, in, "loss_delta"),
                                   .host_params = case_number(c, in, "host_params"),
                                   .total_params = case_number(c, in, "total_params")};
    if (scene->target < 0 || scene->target >= scene->slots)
        case_complain(c, "not a slot", "target_slot");
    tracker_clear(&tracker);
    for (int i = 0; i < results; i++)
        tracker_update(&tracker, 1, history[i]);
    free(history);
    scene->stable_accuracy =
        results ? tracker_stable_accuracy(&tracker, (uint32_t)c->config.reward.escrow_stable_window) : NAN;
    for (int j = 0; j < scene->slots; j++) {
        read_step_slot(c, in, step, j);
        one_off[j] = scene->val_accuracy - scene->seed[j].contribution;
    }
    double total = attribution_total(scene->val_accuracy, case_number(c, in, "all_off_acc"), one_off, scene->slots);
    for (int j = 0; j < scene->slots; j++)
        scene->seed[j].gain = scene->seed[j].live ? total : NAN;
    step->state = (struct reward_state){.fossils = (uint32_t)case_integer(c, in, "num_fossilized_seeds", 0),
                                        .contributing = (uint32_t)case_integer(c, in, "num_contributing_fossilized", 0),
                                        .auto_prune = case_number(c, in, "pending_auto_prune"),
                                        .hindsight = case_number(c, in, "pending_hindsight")};
}

static void compare_derived(struct reward_case *c, const struct reward_scene *scene)
{
    const cJSON *want = case_member(c, c->json, "derived");
    const struct reward_seed *seed = &scene->seed[scene->target];
    case_compare_within(c, "action_for_reward", scene->op, case_op(c, want, "action_for_reward"), CASE_TOLERANCE);
    if (c->config.reward.mode == REWARD_LOSS) /* which looks at nothing else */
        return;
    case_compare(c, want, "seed_contribution", seed->contribution);
    case_compare(c, want, "counterfactual_total_improvement", seed->gain);
    case_compare(c, want, "has_seed", seed->live);
    case_compare(c, want, "acc_at_germination", seed->birth);
    case_compare(c, want, "effective_seed_params", scene->effective_params);
    case_compare(c, want, "alpha_delta_sq_sum", scene->shock);
    case_compare(c, want, "n_active_seeds", scene->active);
    case_compare(c, want, "fossilized_seed_params", scene->fossil_params);
    case_compare(c, want, "stable_val_acc", c->config.reward.mode == REWARD_ESCROW ? scene->stable_accuracy : NAN);
}

/* The file's step ends after the tick: what the governor removed before has been charged for by then. */
static void compare_after(struct reward_case *c, struct step_case *step)
{
    const cJSON *want = case_member(c, c->json, "after");
    struct reward_pairs pairs;
    reward_pairs_clear(&pairs);
    reward_ticked(&c->config.reward, CASE_GAMMA, step->scene.slots, step->rows, &step->state, step->slots, &pairs);
    double credit[REWARD_SLOTS], alpha[REWARD_SLOTS], params[REWARD_SLOTS];
    for (int j = 0; j < step->scene.slots; j++) {
        credit[j] = step->slots[j].credit;
        alpha[j] = step->slots[j].alpha;
        params[j] = step->slots[j].params;
    }
    case_compare_list(c, want, "escrow_credit", credit, step->scene.slots);
    case_compare_list(c, want, "prev_alpha", alpha, step->scene.slots);
    case_compare_list(c, want, "prev_params", params, step->scene.slots);
    case_compare(c, want, "pending_auto_prune", step->state.auto_prune);
    case_compare(c, want, "pending_hindsight", step->state.hindsight);
}

static void check_step(struct reward_case *c, const cJSON *in)
{
    struct step_case step;
    struct reward_trace trace;
    double component[REWARD_COMPONENT_COUNT], mode = 0;
    read_step(c, in, &step);
    if (c->problem[0])
        return;
    step.scene.op = step_op(c, in, &step);
    double total =
        reward_settle(&c->config.reward, CASE_GAMMA, &step.scene, &step.state, step.slots, component, &trace);
    for (int k = 0; k < MODE_COMPONENTS; k++)
        mode += component[k];
    const cJSON *want = case_member(c, c->json, "components");
    case_compare(c, want, "mode_reward", mode);
    for (int k = MODE_COMPONENTS; k < REWARD_COMPONENT_COUNT; k++)
        case_compare(c, want, reward_component_name(k), component[k]);
    compare_derived(c, &step.scene);
    compare_after(c, &step);
    case_compare(c, c->json, "total", total);
}

/* ---- the file --------------------------------------------------------------------------------------------------- */

static void check_case(struct reward_case *c, const char *kind)
{
    static const struct {
        const char *kind;
        void (*check)(struct reward_case *c, const cJSON *in);
    } kinds[] = {{"reward", check_mode},
                 {"loss", check_mode},
                 {"step", check_step},
                 {"attribution", check_attribution},
                 {"shapley_antithetic", check_antithetic},
                 {"fused_configs", check_configurations},
                 {"drip", check_drip},
                 {"hindsight", check_hindsight},
                 {"normalizer", check_normaliser},
                 {"pbrs_episode", check_pbrs},
                 {"episode_outcome", check_outcome},
                 {"value_metrics", check_value_metrics}};
    size_t k = 0, count = sizeof kinds / sizeof kinds[0];
    while (k < count && strcmp(kind, kinds[k].kind) != 0)
        k++;
    case_configure(c);
    const cJSON *in = case_member(c, c->json, "inputs");
    if (k == count)
        case_complain(c, "unknown kind", kind);
    else if (!c->problem[0])
        kinds[k].check(c, in);
}

/* A result's name: id, then kind and mode, by which results are summed up, then the worst part of a failure. */
static void case_name(const struct reward_case *c, const char *id, const char *kind, char name[200])
{
    const cJSON *mode = json_find(c->json, "mode");
    bool told = cJSON_IsString(mode) && strcmp(mode->valuestring, kind) != 0;
    snprintf(name, 200, "%.60s.%.30s%s%.30s%s%s", id[0] ? id : "unnamed", kind, told ? " " : "",
             told ? mode->valuestring : "", c->worst > 1 ? "." : "", c->worst > 1 ? c->worst_at : "");
}

void check_reward_vectors(const cJSON *json, struct check_report *report)
{
    if (!cJSON_IsArray(json) || !json->child) {
        report_flag(report, "reward vectors", false, "should be a list of cases, not empty");
        return;
    }
    for (const cJSON *one = json->child; one; one = one->next) {
        struct reward_case c = {.json = one};
        const char *id = case_text(&c, one, "id"), *kind = case_text(&c, one, "kind");
        char name[200];
        case_name(&c, id, kind, name);
        if (!report_wants(report, name))
            continue;
        if (!c.problem[0])
            check_case(&c, kind);
        case_name(&c, id, kind, name);
        if (c.problem[0])
            report_flag(report, name, false, c.problem);
        else
            report_error(report, name, c.worst * CASE_TOLERANCE, CASE_TOLERANCE);
    }
}
