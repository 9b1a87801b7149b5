/*
 * Schedules: plantings written in advance that keep to the policy's masks (P-20), the controls that a policy has to
 * beat. A schedule is one line of entries [SLOT=]BLUEPRINT[/STYLE][/TEMPO]@STEP, such as
 * `conv_heavy@1,conv_light/sigmoid_add/8@12` or `r0c2=norm@5`. Without SLOT the i-th entry goes to the task's i-th
 * slot; style and tempo are linear_add and 5 unless an entry says otherwise. The word `none` is the schedule that
 * plants nothing.
 */
#ifndef POLICY_SCHEDULE_H
#define POLICY_SCHEDULE_H

#include "base/config.h"
#include "policy/masks.h"

enum { SCHEDULE_PLANTINGS = 32, SCHEDULE_TEXT = SCHEDULE_PLANTINGS * 48 };

struct planting {
    uint16_t step;       /* due from this step on */
    uint8_t slot, birth; /* the birth of its slot that it stands for, from 1 */
    uint8_t blueprint, style, tempo;
};

struct schedule {
    int count;
    struct planting planting[SCHEDULE_PLANTINGS];
};

/* Is it the planting's turn, and do the masks allow it? */
ESPER_RULE bool planting_may_start(const struct planting *planting, int step, const struct slot_state *slot, int slots,
                                   const struct masks *masks)
{
    return step >= planting->step && slot[planting->slot].germinations + 1u == planting->birth &&
           (masks->slots[OP_GERMINATE] >> planting->slot & 1u) &&
           (head_bits(masks->base, slots, HEAD_BLUEPRINT) >> planting->blueprint & 1u);
}

/*
 * Germinate the first planting that is due, whose slot has had exactly the births before it, and that the masks allow;
 * otherwise fossilise the lowest slot that may be; otherwise wait. The slots are the only memory. `step` counts from 1.
 */
ESPER_RULE struct action schedule_decide(const struct schedule *schedule, int step, const struct slot_state *slot,
                                         int slots, const struct masks *masks)
{
    uint8_t choice[HEAD_COUNT];
    for (int head = 0; head < HEAD_COUNT; head++)
        choice[head] = (uint8_t)head_canonical(head);
    for (int i = 0; i < schedule->count; i++) {
        const struct planting *planting = &schedule->planting[i];
        if (!planting_may_start(planting, step, slot, slots, masks))
            continue;
        choice[HEAD_OP] = OP_GERMINATE;
        choice[HEAD_SLOT] = planting->slot;
        choice[HEAD_BLUEPRINT] = planting->blueprint;
        choice[HEAD_STYLE] = planting->style;
        choice[HEAD_TEMPO] = planting->tempo;
        return action_of_heads(choice);
    }
    if (masks->slots[OP_FOSSILIZE]) {
        choice[HEAD_OP] = OP_FOSSILIZE;
        while (!(masks->slots[OP_FOSSILIZE] >> choice[HEAD_SLOT] & 1u))
            choice[HEAD_SLOT]++;
    }
    return action_of_heads(choice);
}

/* ---- as text; host only ------------------------------------------------------------------------------------------ */

/* Slots and steps are checked against the configuration. */
enum esper_status schedule_parse(struct schedule *schedule, const char *text, const struct config *config,
                                 struct esper_error *error);
/* The shortest text that is parsed to the same schedule; SCHEDULE_TEXT bytes suffice. */
void schedule_format(const struct schedule *schedule, const struct config *config, char *text, size_t size);

/* `count` schedules, `stride` bytes apart, one per line as a file of them has them. Release with memory_free. */
enum esper_status schedule_lines(const struct schedule *first, size_t stride, int count, const struct config *config,
                                 char **lines, struct esper_error *error);

/* A planting for the end of the schedule, in the defaults of the text. It must have room. */
struct planting *schedule_add(struct schedule *schedule, int slot, int blueprint, int step);

/* What policy.schedule says, one schedule or, as @FILE, one per line of that file: env e plays number e modulo count.
 * Release with memory_free. */
enum esper_status schedule_load(struct schedule **out, int *count, const struct config *config,
                                struct esper_error *error);

#endif
