#include "check/policy_vectors.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "check/columns.h"
#include "cnn/shape.h"
#include "policy/masks.h"
#include "policy/observe.h"

/* A number of the file as one byte of ours; what does not fit is out of range anyway. */
static uint8_t byte_of(int32_t value)
{
    return (uint8_t)(value >= 0 && value < 255 ? value : 255);
}

static bool slots_fit(struct vectors *source, size_t slots)
{
    if (slots <= HEAD_MAX_SLOTS)
        return true;
    report_skip(source->report, vectors_label_of(source, "*").text, "more slots than a policy can have");
    return false;
}

/* ---- action_masks ---------------------------------------------------------------------------------------------- */

#define BLUEPRINTS_TRANSFORMER 0x1F0Cu /* attention, norm, lora .. flex_attention */

struct mask_rows { /* [row][slot], but where noted */
    const uint8_t *occupied, *enabled;
    const int32_t *stage, *age, *alpha_mode;
    const int32_t *total_seeds, *max_seeds;                   /* [row] */
    const uint8_t *topology, *gov_override, *disable_advance; /* [row] */
};

static void mask_rows_bind(struct vectors *source, struct mask_rows *in, size_t rows, size_t slots)
{
    in->occupied = vectors_data(source, "in.occupied", ST_U8, rows, slots);
    in->enabled = vectors_data(source, "in.enabled", ST_U8, rows, slots);
    in->stage = vectors_data(source, "in.stage", ST_I32, rows, slots);
    in->age = vectors_data(source, "in.age", ST_I32, rows, slots);
    in->alpha_mode = vectors_data(source, "in.alpha_mode", ST_I32, rows, slots);
    in->total_seeds = vectors_data(source, "in.total_seeds", ST_I32, rows, 0);
    in->max_seeds = vectors_data(source, "in.max_seeds", ST_I32, rows, 0);
    in->topology = vectors_data(source, "in.topology", ST_U8, rows, 0);
    in->gov_override = vectors_data(source, "in.gov_override", ST_U8, rows, 0);
    in->disable_advance = vectors_data(source, "in.disable_advance", ST_U8, rows, 0);
}

/* Our single stage byte cannot say "occupied, yet DORMANT", and no slot of ours is ever UNKNOWN. */
static bool mask_row_is_ours(const struct mask_rows *in, size_t row, size_t slots)
{
    for (size_t at = row * slots; at < (row + 1) * slots; at++)
        if (in->occupied[at] && (in->stage[at] == STAGE_UNKNOWN || in->stage[at] == STAGE_DORMANT))
            return false;
    return true;
}

static struct masks mask_row(const struct mask_rows *in, size_t row, size_t slots)
{
    uint8_t stage[HEAD_MAX_SLOTS], alpha_mode[HEAD_MAX_SLOTS];
    uint32_t age[HEAD_MAX_SLOTS];
    struct mask_input input = {.slots = (int)slots,
                               .blueprints = in->topology[row] ? BLUEPRINTS_TRANSFORMER : CNN_OFFERED,
                               .total_seeds = (uint32_t)in->total_seeds[row],
                               .max_seeds = (uint32_t)in->max_seeds[row],
                               .override_hold = in->gov_override[row] != 0,
                               .advance_disabled = in->disable_advance[row] != 0,
                               .stage = stage,
                               .alpha_mode = alpha_mode,
                               .age = age};
    for (size_t s = 0, at = row * slots; s < slots; s++, at++) {
        stage[s] = in->occupied[at] ? byte_of(in->stage[at]) : STAGE_DORMANT;
        alpha_mode[s] = byte_of(in->alpha_mode[at]);
        age[s] = (uint32_t)in->age[at];
        input.enabled |= in->enabled[at] ? 1u << s : 0;
    }
    return masks_of(&input);
}

/* Column h is head h, the last one the slots of each op. */
static void mask_row_compare(struct column *columns, size_t row, int slots, const struct masks *masks)
{
    for (int head = 0; head < HEAD_COUNT; head++)
        for (int i = 0, size = head_size(slots, head); i < size; i++)
            column_compare(&columns[head], row * (size_t)size + (size_t)i,
                           head_bits(masks->base, slots, head) >> i & 1u);
    for (int op = 0; op < OP_COUNT; op++)
        for (int s = 0; s < slots; s++)
            column_compare(&columns[HEAD_COUNT], (row * OP_COUNT + (size_t)op) * (size_t)slots + (size_t)s,
                           masks->slots[op] >> s & 1u);
}

static void check_mask_group(struct vectors *source)
{
    size_t rows, slots, left_out = 0;
    struct mask_rows in;
    struct column columns[] = {
        {.name = "out.slot", .dtype = ST_U8},         {.name = "out.blueprint", .dtype = ST_U8},
        {.name = "out.style", .dtype = ST_U8},        {.name = "out.tempo", .dtype = ST_U8},
        {.name = "out.alpha_target", .dtype = ST_U8}, {.name = "out.alpha_speed", .dtype = ST_U8},
        {.name = "out.alpha_curve", .dtype = ST_U8},  {.name = "out.op", .dtype = ST_U8},
        {.name = "out.slot_by_op", .dtype = ST_U8}};
    if (!vectors_size(source, "in.stage", &rows, &slots) || !slots_fit(source, slots))
        return;
    size_t width[HEAD_COUNT + 1];
    for (int head = 0; head <= HEAD_COUNT; head++) {
        width[head] = head < HEAD_COUNT ? (size_t)head_size((int)slots, head) : OP_COUNT * slots;
        columns_bind(source, &columns[head], 1, rows, width[head]);
    }
    mask_rows_bind(source, &in, rows, slots);
    if (!source->complete)
        return;
    for (size_t row = 0; row < rows; row++) {
        if (!mask_row_is_ours(&in, row, slots)) {
            left_out++;
            continue;
        }
        struct masks masks = mask_row(&in, row, slots);
        mask_row_compare(columns, row, (int)slots, &masks);
    }
    for (int head = 0; head <= HEAD_COUNT && left_out < rows; head++)
        columns_report(source, &columns[head], 1, width[head]);
    struct vectors_label label = vectors_label_of(source, "rows");
    if (left_out && report_wants(source->report, label.text)) {
        char note[128];
        snprintf(note, sizeof note, "%zu of %zu have an occupied UNKNOWN or DORMANT slot; none of ours can", left_out,
                 rows);
        report_skip(source->report, label.text, note);
    }
}

/* Which heads matter to an op, and which could have mattered. */
static void check_relevance(struct vectors *source)
{
    size_t rows, width;
    if (!vectors_size(source, "avail.op_mask", &rows, &width))
        return;
    const uint8_t *ops = vectors_data(source, "avail.op_mask", ST_U8, rows, OP_COUNT);
    struct column causal = {.name = "causal", .dtype = ST_U8}, available = {.name = "avail.head", .dtype = ST_U8};
    columns_bind(source, &causal, 1, OP_COUNT, HEAD_COUNT);
    columns_bind(source, &available, 1, rows, HEAD_COUNT);
    if (!source->complete)
        return;
    for (size_t at = 0; at < OP_COUNT * HEAD_COUNT; at++)
        column_compare(&causal, at, head_relevance((int)(at / HEAD_COUNT)) >> at % HEAD_COUNT & 1);
    for (size_t row = 0; row < rows; row++) {
        unsigned allowed = 0;
        for (int op = 0; op < OP_COUNT; op++)
            allowed |= ops[row * OP_COUNT + (size_t)op] ? 1u << op : 0;
        for (size_t head = 0; head < HEAD_COUNT; head++)
            column_compare(&available, row * HEAD_COUNT + head, head_availability(allowed) >> head & 1);
    }
    columns_report(source, &causal, 1, HEAD_COUNT);
    columns_report(source, &available, 1, HEAD_COUNT);
}

static bool has_group(const struct st_file *file, const char *group)
{
    for (int i = 0; i < st_count(file); i++)
        if (strncmp(st_at(file, i)->name, group, strlen(group)) == 0)
            return true;
    return false;
}

/* One group for each number of slots, "s3." */
void check_mask_vectors(const struct st_file *file, struct check_report *report)
{
    struct vectors source = {file, report, "action_masks", "", 0.0, true};
    check_relevance(&source);
    for (int slots = 1; slots < 64; slots++) {
        char group[8];
        snprintf(group, sizeof group, "s%d.", slots);
        if (!has_group(file, group))
            continue;
        source.group = group;
        source.complete = true;
        check_mask_group(&source);
    }
}

/* ---- observations ---------------------------------------------------------------------------------------------- */

#define OBSERVE_TOLERANCE 1e-6

/* Of the env's columns the original has the first ones. */
enum { ORIGINAL_BASE = OBSERVE_TRAIN_LOSS };

#define ENV_INPUTS(INPUT)                                                                                              \
    INPUT(int32_t, ST_I32, epoch, 0)                                                                                   \
    INPUT(int32_t, ST_I32, hist_len, 0)                                                                                \
    INPUT(int32_t, ST_I32, last_op, 0)                                                                                 \
    INPUT(float, ST_F32, val_loss, 0)                                                                                  \
    INPUT(float, ST_F32, val_acc, 0)                                                                                   \
    INPUT(float, ST_F32, loss_hist, TRACKER_HISTORY)                                                                   \
    INPUT(float, ST_F32, acc_hist, TRACKER_HISTORY)                                                                    \
    INPUT(uint8_t, ST_U8, last_success, 0)

#define SLOT_INPUTS(INPUT)                                                                                             \
    INPUT(uint8_t, ST_U8, occupied, slots)                                                                             \
    INPUT(int32_t, ST_I32, stage, slots)                                                                               \
    INPUT(int32_t, ST_I32, blueprint, slots)                                                                           \
    INPUT(int32_t, ST_I32, alpha_mode, slots)                                                                          \
    INPUT(int32_t, ST_I32, steps_total, slots)                                                                         \
    INPUT(int32_t, ST_I32, steps_done, slots)                                                                          \
    INPUT(int32_t, ST_I32, algo, slots)                                                                                \
    INPUT(int32_t, ST_I32, tempo, slots)                                                                               \
    INPUT(int32_t, ST_I32, epochs_in_stage, slots)                                                                     \
    INPUT(int32_t, ST_I32, epochs_total, slots)                                                                        \
    INPUT(int32_t, ST_I32, cf_age, slots)                                                                              \
    INPUT(float, ST_F32, alpha, slots)                                                                                 \
    INPUT(float, ST_F32, alpha_start, slots)                                                                           \
    INPUT(float, ST_F32, alpha_target, slots)                                                                          \
    INPUT(float, ST_F32, contribution, slots)                                                                          \
    INPUT(float, ST_F32, velocity, slots)                                                                              \
    INPUT(float, ST_F32, interaction_sum, slots)                                                                       \
    INPUT(float, ST_F32, grad_norm, slots)                                                                             \
    INPUT(float, ST_F32, health, slots)                                                                                \
    INPUT(float, ST_F32, health_prev, slots)                                                                           \
    INPUT(uint8_t, ST_U8, cf_measured, slots)                                                                          \
    INPUT(uint8_t, ST_U8, grad_norm_measured, slots)                                                                   \
    INPUT(uint8_t, ST_U8, grad_norm_nonfinite, slots)                                                                  \
    INPUT(uint8_t, ST_U8, health_measured, slots)                                                                      \
    INPUT(uint8_t, ST_U8, vanishing, slots)                                                                            \
    INPUT(uint8_t, ST_U8, exploding, slots)                                                                            \
    INPUT(uint8_t, ST_U8, health_prev_known, slots)                                                                    \
    INPUT(uint8_t, ST_U8, cf_age_known, slots)

#define INPUT_MEMBER(type, dtype, name, width) const type *name;
struct env_inputs { /* each [row] or [row][width] */
    ENV_INPUTS(INPUT_MEMBER)
};
struct slot_inputs { /* each [row][slot] */
    SLOT_INPUTS(INPUT_MEMBER)
};

/* The file treats norm and health separately; we take both or neither. One that was not taken reads 0 either way. */
static void slot_of(const struct slot_inputs *in, size_t at, struct slot_state *slot, struct slot_memory *memory)
{
    slot_clear(slot);
    slot_memory_clear(memory);
    if (!in->occupied[at])
        return;
    slot->stage = byte_of(in->stage[at]);
    slot->blueprint = byte_of(in->blueprint[at]);
    slot->alpha_mode = byte_of(in->alpha_mode[at]);
    slot->steps_total = (uint32_t)in->steps_total[at];
    slot->steps_done = (uint32_t)in->steps_done[at];
    slot->algorithm = byte_of(in->algo[at]);
    slot->tempo = byte_of(in->tempo[at]);
    slot->epochs_in_stage = (uint32_t)in->epochs_in_stage[at];
    slot->epochs_total = (uint32_t)in->epochs_total[at];
    slot->alpha = in->alpha[at];
    slot->alpha_start = in->alpha_start[at];
    slot->alpha_target = in->alpha_target[at];
    slot->contribution = (double)in->contribution[at];
    slot->contribution_velocity = (double)in->velocity[at];
    slot->interaction_sum = (double)in->interaction_sum[at];
    slot->grad_norm = in->grad_norm_measured[at] ? (double)in->grad_norm[at] : 0.0;
    slot->grad_health = in->health_measured[at] ? (double)in->health[at] : 0.0;
    slot_set(slot, SLOT_CF_MEASURED, in->cf_measured[at] != 0);
    slot_set(slot, SLOT_GRAD_MEASURED, in->grad_norm_measured[at] || in->health_measured[at]);
    slot_set(slot, SLOT_NONFINITE, in->grad_norm_nonfinite[at] != 0);
    slot_set(slot, SLOT_VANISHING, in->vanishing[at] != 0);
    slot_set(slot, SLOT_EXPLODING, in->exploding[at] != 0);
    memory->health_prev = (double)in->health_prev[at];
    memory->health_known = in->health_prev_known[at] != 0;
    memory->cf_age = (uint32_t)in->cf_age[at];
    memory->cf_known = in->cf_age_known[at] != 0;
}

static struct tracker tracker_of(const struct env_inputs *in, size_t row)
{
    struct tracker tracker;
    tracker_clear(&tracker);
    for (int32_t back = (int32_t)TRACKER_HISTORY; back > 0; back--) {
        size_t at = (row + 1) * TRACKER_HISTORY - (size_t)back;
        if (back <= in->hist_len[row])
            tracker_update(&tracker, (double)in->loss_hist[at], (double)in->acc_hist[at]);
    }
    return tracker;
}

/* Flags, codes and sentinels, which are whole numbers, are exact. */
static void observation_compare(struct column *column, size_t at, float got)
{
    double want = column_want(column, at);
    if (want == 0.0 || fabs(want) == 1.0)
        column_compare_exactly(column, at, (double)got);
    else
        column_compare(column, at, (double)got);
}

/* Where the original's own pipeline made the file, no velocity ever arrived (D-13): the whole column is 0. */
static bool has_velocity(const struct column *obs, size_t rows, size_t slots, size_t width)
{
    for (size_t row = 0; row < rows; row++)
        for (size_t s = 0; s < slots; s++)
            if (column_want(obs, row * width + ORIGINAL_BASE + OBSERVE_SLOT * s + OBSERVE_SLOT_VELOCITY) != 0.0)
                return true;
    return false;
}

struct episode_form {
    int slots, steps;
    bool velocity;
};

struct observed {
    struct slot_state slot[HEAD_MAX_SLOTS];
    struct slot_memory memory[HEAD_MAX_SLOTS];
    float obs[OBSERVE_BASE + OBSERVE_SLOT * HEAD_MAX_SLOTS];
    int8_t bp[HEAD_MAX_SLOTS];
};

static void observation_row(const struct env_inputs *envs, const struct slot_inputs *in, size_t row,
                            struct episode_form form, struct observed *got)
{
    struct tracker tracker = tracker_of(envs, row);
    struct env_memory last = {.last_op = byte_of(envs->last_op[row]), .last_success = envs->last_success[row]};
    struct observe_env env = {.step = envs->epoch[row],
                              .steps = form.steps,
                              .val_loss = (double)envs->val_loss[row],
                              .val_accuracy = (double)envs->val_acc[row],
                              .tracker = &tracker,
                              .memory = &last};
    for (int s = 0; s < form.slots; s++)
        slot_of(in, row * (size_t)form.slots + (size_t)s, &got->slot[s], &got->memory[s]);
    observe(&env, got->slot, got->memory, form.slots, got->obs, got->bp);
}

static int original_size(int slots)
{
    return ORIGINAL_BASE + OBSERVE_SLOT * slots;
}

static void observation_row_compare(const struct observed *got, size_t row, struct episode_form form,
                                    struct column *obs, struct column *bp)
{
    const size_t first = row * (size_t)original_size(form.slots);
    for (int s = 0; s < form.slots; s++)
        column_compare(bp, row * (size_t)form.slots + (size_t)s, got->bp[s]);
    for (int i = 0; i < ORIGINAL_BASE; i++)
        observation_compare(obs, first + (size_t)i, got->obs[i]);
    for (int i = 0; i < OBSERVE_SLOT * form.slots; i++) {
        int s = i / OBSERVE_SLOT, place = i % OBSERVE_SLOT;
        bool resting = place == OBSERVE_SLOT_RAMP_LEFT && got->slot[s].alpha_mode == ALPHA_HOLD; /* D-14 */
        float value = got->obs[OBSERVE_BASE + i];
        if (place == OBSERVE_SLOT_CONTRIBUTION || place == OBSERVE_SLOT_VELOCITY || place == OBSERVE_SLOT_INTERACTION)
            value = observe_clamp(sinh((double)value)); /* the original clips points, ours do not (P-05) */
        if (!resting && (form.velocity || place != OBSERVE_SLOT_VELOCITY))
            observation_compare(obs, first + (size_t)(ORIGINAL_BASE + i), value);
    }
}

static bool stages_are_legal(struct vectors *source, const struct slot_inputs *in, size_t count)
{
    for (size_t at = 0; at < count; at++) {
        if (in->occupied[at] && !stage_is_legal(in->stage[at])) {
            report_flag(source->report, vectors_label_of(source, "slot.stage").text, false, "holds no stage");
            return false;
        }
    }
    return true;
}

static void observation_skip(struct vectors *source, const char *name, const char *why)
{
    struct vectors_label label = vectors_label_of(source, name);
    if (report_wants(source->report, label.text))
        report_skip(source->report, label.text, why);
}

static void check_observation_group(struct vectors *source, int steps)
{
    size_t rows, slots, width;
    struct env_inputs envs;
    struct slot_inputs in;
    if (!vectors_size(source, "slot.stage", &rows, &slots) || !slots_fit(source, slots))
        return;
    width = (size_t)original_size((int)slots);
#define ENV_BIND(type, dtype, field, columns) envs.field = vectors_data(source, "env." #field, dtype, rows, columns);
    ENV_INPUTS(ENV_BIND)
#define SLOT_BIND(type, dtype, field, columns) in.field = vectors_data(source, "slot." #field, dtype, rows, columns);
    SLOT_INPUTS(SLOT_BIND)
    struct column obs = {.name = "obs", .dtype = ST_F32}, bp = {.name = "blueprint_idx", .dtype = ST_I32};
    columns_bind(source, &obs, 1, rows, width);
    columns_bind(source, &bp, 1, rows, slots);
    if (!source->complete || !stages_are_legal(source, &in, rows * slots))
        return;
    struct episode_form form = {(int)slots, steps, has_velocity(&obs, rows, slots, width)};
    for (size_t row = 0; row < rows; row++) {
        struct observed got = {0};
        observation_row(&envs, &in, row, form, &got);
        observation_row_compare(&got, row, form, &obs, &bp);
    }
    columns_report(source, &obs, 1, width);
    columns_report(source, &bp, 1, slots);
    observation_skip(source, "obs.time_to_target", "not compared where alpha rests: ours reads 0");
    if (!form.velocity)
        observation_skip(source, "obs.velocity", "not compared: the file has none, ours has");
}

/* Names and episode lengths of the groups are in the metadata. */
static void check_observation_groups(struct vectors *source, const cJSON *groups)
{
    const cJSON *object;
    cJSON_ArrayForEach(object, groups)
    {
        const char *name;
        int64_t steps;
        struct esper_error error;
        char group[32];
        if (json_get_string(object, "name", &name, &error) != ESPER_OK ||
            json_get_integer(object, "max_epochs", 1, 1 << 20, &steps, &error) != ESPER_OK) {
            report_flag(source->report, "observations.groups", false, error.text);
            continue;
        }
        snprintf(group, sizeof group, "%.30s.", name);
        source->group = group;
        source->complete = true;
        check_observation_group(source, (int)steps);
    }
}

void check_observation_vectors(const struct st_file *file, struct check_report *report)
{
    struct vectors source = {file, report, "observations", "", OBSERVE_TOLERANCE, true};
    const char *text = st_meta(file, "groups");
    cJSON *groups = NULL;
    struct esper_error error;
    if (!text)
        report_flag(report, "observations.groups", false, "missing in the metadata");
    else if (json_parse(text, strlen(text), &groups, &error) != ESPER_OK)
        report_flag(report, "observations.groups", false, error.text);
    else if (!cJSON_IsArray(groups))
        report_flag(report, "observations.groups", false, "should be a list");
    else
        check_observation_groups(&source, groups);
    cJSON_Delete(groups);
}
