/* Rounds for the tests of alerts: good ones, and the numbers at which each rule should fire. */
#ifndef TESTS_TESTING_ALERTS_H
#define TESTS_TESTING_ALERTS_H

#include <stddef.h>

#include "telemetry/alerts.h"
#include "testing_recorder.h"

enum { HEADS = 8 };
static const char *const head_names[HEADS] = {"slot",         "blueprint",   "style",       "tempo",
                                              "alpha_target", "alpha_speed", "alpha_curve", "op"};

/* ---- rounds ------------------------------------------------------------------------------------------------------ */

/* Everything that the rules look at in a round, good in every respect. */
struct scene {
    struct round_record round;
    struct ppo_record ppo;
    struct ppo_head_record head[HEADS];
    int episodes, choices, waits, forced, refused; /* step rows; refused are actions */
    bool learns;
};

#define MISSING_INTEGER(name)     scene.ppo.name = 0;
#define MISSING_NUMBER(name)      scene.ppo.name = NAN;
#define MISSING(kind, name, help) MISSING_##kind(name)

static inline struct scene a_fine_scene(int64_t number)
{
    struct scene scene = {.episodes = 8, .choices = 100, .waits = 50, .learns = true};
    PPO_FIELDS(MISSING)
    scene.round = (struct round_record){.round = number, .env_steps = 320, .val_accuracy_mean = 50};
    scene.ppo.round = number;
    scene.ppo.epochs = 4;
    scene.ppo.policy_loss = scene.ppo.entropy = scene.ppo.ratio_mean = 1;
    scene.ppo.value_loss = scene.ppo.value_nrmse = 0.5;
    scene.ppo.op_entropy = scene.ppo.advantage_positive = scene.ppo.hidden_rms = scene.ppo.cell_rms = 0.5;
    scene.ppo.kl = 0.01;
    scene.ppo.clip_fraction = 0.1;
    scene.ppo.ratio_max = 1.5;
    scene.ppo.ratio_min = 0.7;
    scene.ppo.grad_norm = 4;
    scene.ppo.explained_variance = 0.6;
    scene.ppo.value_scale = 10;
    scene.ppo.bellman_error = 5;
    scene.ppo.advantage_std = 8;
    for (int i = 0; i < HEADS; i++)
        scene.head[i] = (struct ppo_head_record){.round = number,
                                                 .head = head_names[i],
                                                 .learnable = 0.5,
                                                 .entropy = 0.5,
                                                 .log_prob_min = -3,
                                                 .grad_norm = 1};
    return scene;
}

/* What takes the rows: the alerts themselves, or a recorder. */
typedef void take_row(void *context, enum record_kind kind, const void *record, size_t bytes);

static inline void give_step(const struct scene *scene, int i, take_row *take, void *context)
{
    bool choice = i < scene->choices, action = choice ? i >= scene->waits : false;
    struct step_record step = {.round = scene->round.round, .step = i % 40 + 1, .env = i / 40};
    step.op = action ? "prune" : "wait";
    step.result = action && i - scene->waits < scene->refused ? "refused" : "done";
    step.forced = !choice;
    step.slot = step.tempo = step.alpha_speed = RECORD_NONE;
    take(context, RECORD_STEP, &step, sizeof step);
}

static inline void give_rest(const struct scene *scene, take_row *take, void *context)
{
    for (int i = 0; i < scene->episodes; i++) {
        struct outcome_record outcome = {.round = scene->round.round, .env = i};
        take(context, RECORD_OUTCOME, &outcome, sizeof outcome);
    }
    for (int i = 0; scene->learns && i < HEADS; i++)
        take(context, RECORD_PPO_HEAD, &scene->head[i], sizeof scene->head[i]);
    if (scene->learns)
        take(context, RECORD_PPO, &scene->ppo, sizeof scene->ppo);
}

/* The table of rules, written out a second time (T-04); thresholds are between the numbers. */
#define PPO(field) offsetof(struct ppo_record, field)
static const struct {
    const char *rule;
    size_t field;
    double good, warn, critical; /* numbers of a round; warn NAN: it is critical at once */
    int warn_rounds, critical_rounds, warm_up;
} cases[] = {
    {"entropy", PPO(op_entropy), 0.31, 0.29, 0.09, 1, 1, 20},
    {"kl", PPO(kl), 0.019, 0.021, 0.11, 1, 1, 0},
    {"clip_fraction", PPO(clip_fraction), 0.24, 0.26, 0.41, 2, 2, 0},
    {"ratio_max", PPO(ratio_max), 2.9, 3.1, 10.1, 3, 3, 0},
    {"ratio_min", PPO(ratio_min), 0.31, 0.29, 0.09, 3, 3, 0},
    {"hidden_low", PPO(hidden_rms), 2e-4, 0.9e-4, 0.9e-6, 1, 1, 0},
    {"cell_high", PPO(cell_rms), 9.9, 10.1, 30.1, 1, 1, 0},
    {"cell_low", PPO(cell_rms), 2e-4, 0.9e-4, 0.9e-6, 1, 1, 0},
    {"explained_variance", PPO(explained_variance), 0.31, 0.29, -0.01, 3, 5, 30},
    {"value_nrmse", PPO(value_nrmse), 0.99, 1.01, 2.01, 2, 2, 0},
    {"value_loss", PPO(value_loss), 2.9, 3.1, 5.1, 2, 2, 0},
    {"td_error", PPO(bellman_error), 29, 31, 51, 2, 2, 0}, /* of a scale of 10 */
    {"advantage_std_high", PPO(advantage_std), 19, 21, 31, 2, 2, 0},
    {"advantage_std_low", PPO(advantage_std), 1.1, 0.9, 0.09, 2, 2, 0},
    {"advantage_positive_high", PPO(advantage_positive), 0.79, 0.81, 0.96, 2, 2, 30},
    {"advantage_positive_low", PPO(advantage_positive), 0.21, 0.19, 0.04, 2, 2, 30},
};
enum { CASES = sizeof cases / sizeof cases[0] };

#endif
