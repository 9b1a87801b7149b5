#include "check/rules_vectors.h"

#include <math.h>
#include <string.h>

#include "check/columns.h"
#include "morph/action.h"
#include "policy/tracker.h"

#define RULES_TOLERANCE 2e-6 /* of both files; integers are exact */

/* ---- alpha_schedules ------------------------------------------------------------------------------------------- */

static void compare_alpha(struct column *column, size_t index, const struct slot_state *slot)
{
    column_compare(column, index, (double)slot->alpha);
    if (slot->steps_total > 0 && slot->steps_done == slot->steps_total) /* the last step is exact */
        column_compare_exactly(column, index, (double)slot->alpha);
}

/* One command per row; column 0 is the state after it, column t the state after t steps. */
static void check_ramps(struct vectors *source)
{
    size_t rows, width;
    if (!vectors_size(source, "ramp.alpha", &rows, &width))
        return;
    const float *start = vectors_data(source, "ramp.start", ST_F32, rows, 0);
    const float *target = vectors_data(source, "ramp.target", ST_F32, rows, 0);
    const int32_t *steps = vectors_data(source, "ramp.steps", ST_I32, rows, 0);
    const int32_t *curve = vectors_data(source, "ramp.curve", ST_I32, rows, 0);
    const float *steepness = vectors_data(source, "ramp.steepness", ST_F32, rows, 0);
    struct column columns[] = {{.name = "ramp.alpha", .dtype = ST_F32},
                               {.name = "ramp.mode", .dtype = ST_I32},
                               {.name = "ramp.done", .dtype = ST_I32}};
    columns_bind(source, columns, 3, rows, width);
    if (!source->complete)
        return;
    for (size_t row = 0; row < rows; row++) {
        struct slot_state slot;
        slot_clear(&slot);
        slot.alpha = start[row];
        alpha_retarget(&slot, target[row], steps[row], curve[row], steepness[row]);
        for (size_t t = 0; t < width; t++) {
            size_t at = row * width + t;
            compare_alpha(&columns[0], at, &slot);
            column_compare(&columns[1], at, slot.alpha_mode);
            column_compare(&columns[2], at, slot.steps_done);
            alpha_step(&slot);
        }
    }
    columns_report(source, columns, 3, width);
}

/* Random commands to one controller per row, some of them refused. */
static void check_sequences(struct vectors *source)
{
    size_t rows, width;
    if (!vectors_size(source, "seq.alpha", &rows, &width))
        return;
    const uint8_t *command = vectors_data(source, "seq.cmd", ST_U8, rows, width);
    const float *target = vectors_data(source, "seq.target", ST_F32, rows, width);
    const int32_t *steps = vectors_data(source, "seq.steps", ST_I32, rows, width);
    const int32_t *curve = vectors_data(source, "seq.curve", ST_I32, rows, width);
    const float *steepness = vectors_data(source, "seq.steepness", ST_F32, rows, width);
    struct column columns[] = {{.name = "seq.alpha", .dtype = ST_F32},  {.name = "seq.mode", .dtype = ST_I32},
                               {.name = "seq.done", .dtype = ST_I32},   {.name = "seq.total", .dtype = ST_I32},
                               {.name = "seq.refused", .dtype = ST_U8}, {.name = "seq.reached", .dtype = ST_U8}};
    columns_bind(source, columns, 6, rows, width);
    if (!source->complete)
        return;
    for (size_t row = 0; row < rows; row++) {
        struct slot_state slot;
        slot_clear(&slot);
        for (size_t at = row * width; at < (row + 1) * width; at++) {
            bool taken = command[at] && alpha_retarget(&slot, target[at], steps[at], curve[at], steepness[at]);
            bool reached = alpha_step(&slot);
            compare_alpha(&columns[0], at, &slot);
            column_compare(&columns[1], at, slot.alpha_mode);
            column_compare(&columns[2], at, slot.steps_done);
            column_compare(&columns[3], at, slot.steps_total);
            column_compare(&columns[4], at, command[at] && !taken);
            column_compare(&columns[5], at, reached);
        }
    }
    columns_report(source, columns, 6, width);
}

void check_alpha_vectors(const struct st_file *file, struct check_report *report)
{
    struct vectors ramps = {file, report, "alpha_schedules", "", RULES_TOLERANCE, true}, sequences = ramps;
    check_ramps(&ramps);
    check_sequences(&sequences);
}

/* ---- lifecycle ------------------------------------------------------------------------------------------------- */

/* Every output with its name here. */
#define LIFECYCLE_COLUMNS(COLUMN)                                                                                      \
    COLUMN("out.stage", ST_I32, slot->stage)                                                                           \
    COLUMN("out.prev_stage", ST_I32, slot->prev_stage)                                                                 \
    COLUMN("out.prev_epochs_in_stage", ST_I32, slot->prev_epochs_in_stage)                                             \
    COLUMN("out.epochs_total", ST_I32, slot->epochs_total)                                                             \
    COLUMN("out.epochs_in_stage", ST_I32, slot->epochs_in_stage)                                                       \
    COLUMN("out.mode", ST_I32, slot->alpha_mode)                                                                       \
    COLUMN("out.curve", ST_I32, slot->alpha_curve)                                                                     \
    COLUMN("out.steps_total", ST_I32, slot->steps_total)                                                               \
    COLUMN("out.steps_done", ST_I32, slot->steps_done)                                                                 \
    COLUMN("out.algo", ST_I32, slot->algorithm)                                                                        \
    COLUMN("out.blueprint", ST_I32, slot->blueprint == BLUEPRINT_NONE ? -1 : slot->blueprint)                          \
    COLUMN("out.tempo", ST_I32, slot->tempo)                                                                           \
    COLUMN("out.live", ST_I32, stage_is_live(slot->stage))                                                             \
    COLUMN("out.gate_live", ST_I32, slot_has_gate(slot))                                                               \
    COLUMN("out.frozen", ST_I32, slot_has(slot, SLOT_FROZEN))                                                          \
    COLUMN("out.blending_started", ST_I32, slot_has(slot, SLOT_BLENDING_STARTED))                                      \
    COLUMN("out.allowed", ST_I32, result->allowed)                                                                     \
    COLUMN("out.success", ST_I32, result->success)                                                                     \
    COLUMN("out.alpha", ST_F32, (double)slot->alpha)                                                                   \
    COLUMN("out.alpha_start", ST_F32, (double)slot->alpha_start)                                                       \
    COLUMN("out.alpha_target", ST_F32, (double)slot->alpha_target)                                                     \
    COLUMN("out.steepness", ST_F32, (double)slot->steepness)                                                           \
    COLUMN("out.acc_initial", ST_F32, slot->acc_initial)                                                               \
    COLUMN("out.acc_current", ST_F32, slot->acc_current)                                                               \
    COLUMN("out.acc_best", ST_F32, slot->acc_best)                                                                     \
    COLUMN("out.acc_stage_start", ST_F32, slot->acc_stage_start)                                                       \
    COLUMN("out.acc_blend_start", ST_F32, slot->acc_blend_start)

#define LIFECYCLE_INPUTS(INPUT)                                                                                        \
    INPUT(int32_t, ST_I32, op)                                                                                         \
    INPUT(int32_t, ST_I32, blueprint)                                                                                  \
    INPUT(int32_t, ST_I32, style)                                                                                      \
    INPUT(int32_t, ST_I32, tempo)                                                                                      \
    INPUT(int32_t, ST_I32, alpha_target)                                                                               \
    INPUT(int32_t, ST_I32, alpha_speed)                                                                                \
    INPUT(int32_t, ST_I32, alpha_curve)                                                                                \
    INPUT(int32_t, ST_I32, grad_measured)                                                                              \
    INPUT(int32_t, ST_I32, vanishing)                                                                                  \
    INPUT(int32_t, ST_I32, exploding)                                                                                  \
    INPUT(int32_t, ST_I32, cf_measured)                                                                                \
    INPUT(float, ST_F32, acc)                                                                                          \
    INPUT(float, ST_F32, grad_norm)                                                                                    \
    INPUT(float, ST_F32, health)                                                                                       \
    INPUT(float, ST_F32, ratio)                                                                                        \
    INPUT(float, ST_F32, cf)

#define INPUT_MEMBER(type, dtype, name) const type *name;
struct lifecycle_inputs { /* each [history][epoch] */
    LIFECYCLE_INPUTS(INPUT_MEMBER)
};

/* A head value of the file; what does not fit into a byte is out of range anyway. */
static uint8_t head_value(int32_t value)
{
    return (uint8_t)(value >= 0 && value < 255 ? value : 255);
}

/* One epoch of a history: record, act, tick. */
static struct action_result lifecycle_epoch(struct slot_state *slot, const struct lifecycle_inputs *in, size_t at,
                                            const struct gate_rules *rules, bool count_in_cooldown)
{
    bool live = stage_is_live(slot->stage), occupied = live || stage_is_cooldown(slot->stage);
    if (live || (count_in_cooldown && occupied)) /* the engine never records cooling slots (D-05) */
        slot_record_accuracy(slot, (double)in->acc[at]);
    if (occupied && in->grad_measured[at]) {
        struct gradient_sample sample = {(double)in->grad_norm[at], (double)in->health[at], (double)in->ratio[at],
                                         in->vanishing[at] != 0, in->exploding[at] != 0};
        slot_record_gradient(slot, &sample);
        slot->grad_ratio = sample.ratio; /* the file's ratios are averaged already */
    }
    if (occupied && in->cf_measured[at])
        slot_record_contribution(slot, (double)in->cf[at]);
    struct action action = {.op = head_value(in->op[at]),
                            .blueprint = head_value(in->blueprint[at]),
                            .style = head_value(in->style[at]),
                            .tempo = head_value(in->tempo[at]),
                            .alpha_target = head_value(in->alpha_target[at]),
                            .alpha_speed = head_value(in->alpha_speed[at]),
                            .alpha_curve = head_value(in->alpha_curve[at])};
    struct seed_size size = {0, 0};
    struct action_result result = action_apply(slot, &action, rules, size, NULL);
    slot_tick(slot, rules, NULL);
    return result;
}

static void lifecycle_compare(struct column *column, size_t at, const struct slot_state *slot,
                              const struct action_result *result)
{
#define COLUMN_COMPARE(name, dtype, value) column_compare(column++, at, value);
    LIFECYCLE_COLUMNS(COLUMN_COMPARE)
}

/* Whether this epoch of the file went from TRAINING to BLENDING without a command. From there the original runs one
   tick late (D-09), so the rest of that history is left out. */
static bool lifecycle_auto_blend(const struct lifecycle_inputs *in, const int32_t *stage, const int32_t *success,
                                 size_t at, bool first)
{
    return !first && stage[at - 1] == STAGE_TRAINING && stage[at] == STAGE_BLENDING &&
           !(in->op[at] == OP_ADVANCE && success[at]);
}

static void check_histories(struct vectors *source)
{
    size_t rows, width;
    if (!vectors_size(source, "in.op", &rows, &width))
        return;
    struct lifecycle_inputs in;
#define INPUT_BIND(type, dtype, field) in.field = vectors_data(source, "in." #field, dtype, rows, width);
    LIFECYCLE_INPUTS(INPUT_BIND)
    const uint8_t *permissive = vectors_data(source, "in.permissive", ST_U8, rows, 0);
    const uint8_t *automatic = vectors_data(source, "in.auto_g123", ST_U8, rows, 3);
    const uint8_t *count_in_cooldown = vectors_data(source, "in.count_in_cooldown", ST_U8, rows, 0);
#define COLUMN_ROW(label, type, value) {.name = label, .dtype = type},
    struct column columns[] = {LIFECYCLE_COLUMNS(COLUMN_ROW)}, isolate = {.name = "out.isolate", .dtype = ST_I32};
    size_t count = sizeof columns / sizeof columns[0];
    columns_bind(source, columns, count, rows, width);
    columns_bind(source, &isolate, 1, rows, width);
    const int32_t *stage = vectors_data(source, "out.stage", ST_I32, rows, width);
    const int32_t *success = vectors_data(source, "out.success", ST_I32, rows, width);
    if (!source->complete)
        return;
    for (size_t row = 0; row < rows; row++) {
        struct gate_rules rules = {permissive[row] != 0, automatic[3 * row] != 0, automatic[3 * row + 1] != 0,
                                   automatic[3 * row + 2] != 0};
        struct slot_state slot;
        slot_clear(&slot);
        for (size_t t = 0, at = row * width; t < width; t++, at++) {
            if (lifecycle_auto_blend(&in, stage, success, at, t == 0))
                break;
            struct action_result result = lifecycle_epoch(&slot, &in, at, &rules, count_in_cooldown[row] != 0);
            lifecycle_compare(columns, at, &slot, &result);
            /* GERMINATED has no pass to isolate, and from BLENDING on we do not (D-01). */
            if (stage[at] == STAGE_TRAINING || !stage_is_live(stage[at]))
                column_compare(&isolate, at, slot_isolates(&slot));
        }
    }
    columns_report(source, columns, count, width);
    columns_report(source, &isolate, 1, width);
}

/* ---- the tracker, in the same file ------------------------------------------------------------------------------ */

/* The file rounds to f32. It has no infinity: the gain of the first loss is stored as 0. */
static void tracker_compare(struct column columns[7], size_t at, const struct tracker *tracker)
{
    column_compare(&columns[0], at, tracker->count == 1 ? 0.0 : (double)(float)tracker_loss_delta(tracker));
    column_compare(&columns[1], at, (double)(float)tracker_acc_delta(tracker));
    column_compare(&columns[2], at, (double)(float)tracker->best_accuracy);
    column_compare(&columns[3], at, (double)(float)tracker_best_loss(tracker));
    column_compare(&columns[4], at, (double)(float)tracker_stable_accuracy(tracker, 3));
    column_compare_exactly(&columns[5], at, tracker->plateau);
    column_compare_exactly(&columns[6], at, tracker->stabilised);
}

static void check_tracker(struct vectors *source)
{
    size_t rows, width;
    if (!vectors_size(source, "tracker.val_loss", &rows, &width))
        return;
    const float *val_loss = vectors_data(source, "tracker.val_loss", ST_F32, rows, width);
    const float *val_acc = vectors_data(source, "tracker.val_acc", ST_F32, rows, width);
    struct column columns[] = {
        {.name = "tracker.loss_delta", .dtype = ST_F32},  {.name = "tracker.acc_delta", .dtype = ST_F32},
        {.name = "tracker.best_acc", .dtype = ST_F32},    {.name = "tracker.best_loss", .dtype = ST_F32},
        {.name = "tracker.stable_acc3", .dtype = ST_F32}, {.name = "tracker.plateau", .dtype = ST_F32},
        {.name = "tracker.stabilised", .dtype = ST_F32}};
    columns_bind(source, columns, 7, rows, width);
    if (!source->complete)
        return;
    for (size_t row = 0; row < rows; row++) {
        struct tracker tracker;
        tracker_clear(&tracker);
        for (size_t at = row * width; at < (row + 1) * width; at++) {
            tracker_update(&tracker, (double)val_loss[at], (double)val_acc[at]);
            tracker_compare(columns, at, &tracker);
        }
    }
    columns_report(source, columns, 7, width);
}

void check_lifecycle_vectors(const struct st_file *file, struct check_report *report)
{
    struct vectors histories = {file, report, "lifecycle", "", RULES_TOLERANCE, true}, signals = histories;
    check_histories(&histories);
    check_tracker(&signals);
}
