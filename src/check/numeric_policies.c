/* A policy of the case table, answered: its steps one by one, the whole sequence with resets, and the gradients. */
#include <stdio.h>
#include <string.h>

#include "check/numeric_cases.h"
#include "check/numeric_policy.h"

/* With and without projection, more envs than a tile has rows, one row; large ones. */
static const struct {
    int obs, slots, feature, hidden, envs, steps;
} shapes[] = {{21, 3, 32, 32, 3, 7}, {37, 3, 48, 40, 19, 2},   {5, 1, 30, 40, 5, 4},    {37, 6, 64, 64, 18, 3},
              {9, 2, 32, 32, 1, 1},  {37, 3, 512, 512, 16, 2}, {37, 3, 256, 128, 70, 3}};

enum { LARGE = 128 }; /* hidden units of a large one */

/* The states that are handed from step to step end where those of the whole sequence do. */
static void act(struct policy_rig *rig, struct answers *answers)
{
    const struct policy_shape *shape = &rig->shape;
    for (int step = 0; step < rig->steps; step++) {
        const size_t first = (size_t)step * (size_t)rig->envs;
        const struct policy_step row = {rig->envs,
                                        rig->obs + first * (size_t)shape->obs,
                                        rig->bp + first * (size_t)shape->slots,
                                        rig->h0,
                                        rig->c0,
                                        rig->logits + first * (size_t)shape->logits,
                                        rig->value + first};
        policy_net_act(rig->net, &row);
    }
    answer_reals(answers, ANSWER_VALUES, 0, (size_t)(rig->rows * shape->logits), rig->logits, "logits, acting");
    answer_reals(answers, ANSWER_VALUES, 0, (size_t)rig->rows, rig->value, "values, acting");
    answer_reals(answers, ANSWER_VALUES, 0, (size_t)(rig->envs * shape->hidden), rig->h0, "hidden state");
    answer_reals(answers, ANSWER_VALUES, 0, (size_t)(rig->envs * shape->hidden), rig->c0, "cell state");
}

static void unroll(struct policy_rig *rig, struct answers *answers)
{
    const struct policy_shape *shape = &rig->shape;
    policy_net_unroll(rig->net, &rig->sequence, rig->logits, rig->value);
    policy_net_backward(rig->net, &rig->sequence, rig->dlogits, rig->dvalue, rig->grad);
    answer_reals(answers, ANSWER_VALUES, 0, (size_t)(rig->rows * shape->logits), rig->logits, "logits");
    answer_reals(answers, ANSWER_VALUES, 0, (size_t)rig->rows, rig->value, "values");
    for (int t = 0; t < shape->count; t++)
        answer_reals(answers, ANSWER_GRADIENTS, 1e-3, (size_t)(shape->tensor[t].rows * shape->tensor[t].columns),
                     rig->grad + shape->tensor[t].offset, shape->tensor[t].name);
}

enum answer_status answer_policy(const struct check_backend *backend, int index, struct answers *answers)
{
    struct scrap scrap = {0};
    struct policy_shape shape;
    struct policy_rig rig;
    struct check_report silent = {.count = {0}};
    if (index >= (int)(sizeof shapes / sizeof shapes[0]))
        return ANSWER_END;
    const int envs = shapes[index].envs, steps = shapes[index].steps;
    policy_shape_init(&shape, shapes[index].obs, shapes[index].slots, shapes[index].feature, shapes[index].hidden);
    snprintf(answers->name, sizeof answers->name, "%d x %d, width %d/%d", envs, steps, shape.feature, shape.hidden);
    snprintf(answers->group, sizeof answers->group, "%s", answers->name);
    if (!backend)
        return ANSWER_GIVEN;
    if (backend->slow && shape.hidden >= LARGE)
        return ANSWER_LACKED;
    if (!policy_rig_init(&rig, &scrap, &shape, envs, steps, 1, &silent, answers->name)) {
        answers->failed = true;
    } else {
        uint8_t *reset = scrap_take(&scrap, (size_t)rig.rows, 1);
        policy_rig_randomise(&rig, 300 + 1000 * (uint32_t)index);
        policy_net_pack(rig.net, rig.w);
        act(&rig, answers);
        rig.sequence.h0 = rig.sequence.c0 = NULL;
        for (int i = 0; reset && i < rig.rows; i++)
            reset[i] = random_word_of(301, (uint32_t)i) % 7 == 0;
        rig.sequence.reset = reset;
        unroll(&rig, answers);
        policy_rig_free(&rig);
    }
    scrap_free(&scrap);
    return ANSWER_GIVEN;
}
