/* For the tests of viewers: a run of any size whose every row follows from its numbers. */
#ifndef TESTS_TESTING_GROWN_H
#define TESTS_TESTING_GROWN_H

#include <math.h>
#include <sqlite3.h>

#include "testing_record.h"

struct grown {
    int rounds, envs, steps;
    int detailed; /* this many last rounds have steps, seeds, lives and phases */
    const char *blueprint, *command;
    bool busy; /* a gate is checked at every step, as while seeds blend */
    bool text; /* of transformers that read text */
};

enum { GROWN_BATCH = 512 };
struct grower {
    struct store *store;
    struct record_row rows[GROWN_BATCH];
    int count;
};

/* A row of zeros in which everything optional is missing. */
static inline union record *grow(struct grower *grower, enum record_kind kind)
{
    if (grower->count == GROWN_BATCH) {
        must_write(grower->store, grower->rows, grower->count);
        grower->count = 0;
    }
    struct record_row *row = &grower->rows[grower->count++];
    const struct store_layout *layout = &store_layouts[kind];
    char *field = (char *)&row->record;
    memset(row, 0, sizeof *row);
    row->kind = kind;
    for (int i = 0; i < layout->count; field += column_bytes(layout->columns[i].type), i++) {
        if (layout->columns[i].type == COLUMN_NUMBER)
            memcpy(field, &(double){NAN}, sizeof(double));
        if (layout->columns[i].type == COLUMN_OPTIONAL)
            memcpy(field, &(int64_t){RECORD_NONE}, sizeof(int64_t));
    }
    return &row->record;
}

/* Accuracies rise by round and env, with some noise; added parameters do not follow them. */
static inline double grown_accuracy(int round, int env)
{
    return 20 + 60.0 * round / (round + 20) + (env * 7 + round * 3) % 11 * 0.5;
}

static inline int64_t grown_params(int round, int env)
{
    return 100 * ((env * 5 + round * 7) % 13);
}

static inline void grow_round(struct grower *grower, const struct grown *grown, int round)
{
    static const char *const heads[] = {"slot", "blueprint", "style", "tempo", "op"};
    struct round_record *row = &grow(grower, RECORD_ROUND)->round;
    *row = (struct round_record){.round = round,
                                 .env_steps = (int64_t)grown->envs * grown->steps,
                                 .seconds = 2,
                                 .env_steps_per_s = grown->envs * grown->steps / 2.0,
                                 .images_per_s = NAN,
                                 .val_accuracy_mean = grown_accuracy(round, 0),
                                 .val_accuracy_best = grown_accuracy(round, 0) + 10,
                                 .test_accuracy_mean = round == 1 ? (double)NAN : grown_accuracy(round, 0) - 1,
                                 .reward_mean = round - 0.5,
                                 .germinations = 3,
                                 .fossilizations = 2,
                                 .prunes = 1};
    struct ppo_record *ppo = &grow(grower, RECORD_PPO)->ppo;
    ppo->round = round;
    ppo->kl = 0.001 * (1 + round % 3);
    ppo->op_entropy = 0.9 - 0.5 * round / grown->rounds;
    ppo->explained_variance = 0.5;
    ppo->clip_fraction = 0.1;
    ppo->return_p10 = -1, ppo->return_p50 = round, ppo->return_p90 = 2 * round + 1;
    for (int i = 0; i < 5; i++) {
        struct ppo_head_record *head = &grow(grower, RECORD_PPO_HEAD)->ppo_head;
        head->round = round;
        head->head = heads[i];
        head->entropy = i == 2 ? (double)NAN : 1.0 / (1 + i + round);
    }
    for (int env = 0; env < grown->envs; env++) {
        struct outcome_record *outcome = &grow(grower, RECORD_OUTCOME)->outcome;
        outcome->round = round;
        outcome->env = env;
        outcome->test_accuracy = env == 3 ? (double)NAN : grown_accuracy(round, env);
        outcome->val_accuracy = grown_accuracy(round, env) + 0.25;
        outcome->reward = round + env;
        outcome->host_params = 398;
        outcome->added_params = grown_params(round, env);
    }
}

static inline void grow_life(struct grower *grower, const struct grown *grown, int round, int step, int env,
                             int ordinal, const char *event, const char *from, const char *to)
{
    struct life_record *life = &grow(grower, RECORD_LIFE)->life;
    life->round = round, life->step = step, life->env = env, life->ordinal = ordinal;
    life->slot = env % 2;
    life->germination = 1;
    life->event = event;
    life->blueprint = env == 0 ? grown->blueprint : "conv_light";
    life->from_stage = from;
    life->to_stage = to;
    life->passed = RECORD_NONE;
    if (strcmp(event, "gate") == 0) {
        life->gate = "G2";
        life->passed = env % 2;
        snprintf(life->failed, sizeof life->failed, "%s", env % 2 ? "" : "health_low");
    }
}

/* A seed is planted at step 1, blends from 3 on, and is a fossil (odd envs) or pruned from 5 on. */
static inline void grow_step(struct grower *grower, const struct grown *grown, int round, int step, int env)
{
    const char *ops[] = {"wait", "germinate", "prune"};
    struct step_record *row = &grow(grower, RECORD_STEP)->step;
    row->round = round, row->step = step, row->env = env;
    row->op = ops[step == 1 ? 1 : step == 5 && env % 2 == 0 ? 2 : 0];
    row->result = step == 6 && env == 1 ? "refused" : "done";
    row->val_accuracy = grown_accuracy(round, env) * step / grown->steps;
    row->reward = 1 + 0.5 * env;
    row->attribution = 1;
    row->terminal = 0.5 * env;
    row->rent = 0;
    if (step > 1 && (env % 2 || step <= 5)) {
        struct seed_record *seed = &grow(grower, RECORD_SEED)->seed;
        seed->round = round, seed->step = step, seed->env = env, seed->slot = env % 2;
        seed->germination = 1;
        seed->stage = step <= 3 ? "training" : step <= 5 ? "blending" : "fossilized";
        seed->blueprint = env == 0 ? grown->blueprint : "conv_light";
        seed->params = 100 + env;
        seed->alpha = step <= 3 ? 0 : 0.5;
        seed->share = step == grown->steps ? env * 1.5 : (double)NAN;
    }
    if (grown->busy && step > 5)
        grow_life(grower, grown, round, step, env, 0, "gate", "training", "blending");
    if (step == 1) {
        grow_life(grower, grown, round, step, env, 0, "stage", "dormant", "germinated");
        grow_life(grower, grown, round, step, env, 1, "germinated", "dormant", "germinated");
        grow_life(grower, grown, round, step, env, 2, "stage", "germinated", "training");
    } else if (step == 3) {
        grow_life(grower, grown, round, step, env, 0, "gate", "training", "blending");
        grow_life(grower, grown, round, step, env, 1, "stage", "training", "blending");
    } else if (step == 5) {
        const char *to = env % 2 ? "fossilized" : "pruned";
        grow_life(grower, grown, round, step, env, 0, "stage", "blending", to);
        grow_life(grower, grown, round, step, env, 1, to, "blending", to);
    }
}

static inline void grow_details(struct grower *grower, const struct grown *grown, int round)
{
    static const char *const phases[] = {"train", "evaluate"};
    for (int step = 1; step <= grown->steps; step++) {
        for (int env = 0; env < grown->envs; env++)
            grow_step(grower, grown, round, step, env);
        for (int i = 0; i < 2; i++) {
            struct phase_record *phase = &grow(grower, RECORD_PHASE)->phase;
            phase->round = round, phase->step = step, phase->start_us = 1000 * i;
            phase->name = phases[i];
            phase->duration_us = 10000 * (1 + i);
        }
    }
}

/* Trouble of every kind, in round 1. */
static inline void grow_trouble(struct grower *grower)
{
    struct rollback_record *rollback = &grow(grower, RECORD_ROLLBACK)->rollback;
    rollback->round = 1, rollback->step = 2, rollback->env = 1, rollback->seeds_lost = 1;
    rollback->reason = "governor_nan";
    rollback->val_loss = 12.5;
    for (int i = 0; i < 2; i++) {
        struct alert_record *alert = &grow(grower, RECORD_ALERT)->alert;
        alert->round = 1 + i;
        alert->rule = "kl";
        alert->state = i ? "cleared" : "raised";
        alert->severity = "warn";
        alert->value = 0.25;
        snprintf(alert->text, sizeof alert->text, "KL 0.25");
    }
    struct alert_record *alert = &grow(grower, RECORD_ALERT)->alert;
    alert->round = 2;
    alert->rule = "rollbacks";
    alert->state = "raised";
    alert->severity = "warn";
    snprintf(alert->text, sizeof alert->text, "a & b < c > \"d\"");
    struct checkpoint_record *checkpoint = &grow(grower, RECORD_CHECKPOINT)->checkpoint;
    snprintf(checkpoint->file, sizeof checkpoint->file, "r000002-s000.ckpt");
    snprintf(checkpoint->hash, sizeof checkpoint->hash, "0123456789abcdef");
    checkpoint->kind = "final";
    checkpoint->round = 2;
    struct drops_record *drops = &grow(grower, RECORD_DROPS)->drops;
    drops->round = 1, drops->step = 3, drops->count = 7;
    drops->name = "step";
    drops->reason = "thinned";
    drops->first_sequence = drops->last_sequence = RECORD_NONE;
}

static inline void grow_run(struct run *run, const char *name, const struct grown *grown)
{
    static struct grower grower;
    struct config config = sample_config();
    struct esper_error error = {0};
    config.envs = grown->envs;
    config.steps = grown->steps;
    config.slot_count = 2;
    snprintf(config.slots[0], sizeof config.slots[0], "r0c0");
    snprintf(config.slots[1], sizeof config.slots[1], "r0c1");
    static const char *const text_keys[][2] = {
        {"host.family", "transformer"}, {"data.set", "language"},  {"host.segments", "2"},    {"host.layers", "2"},
        {"host.context", "16"},         {"data.val_images", "64"}, {"data.test_images", "64"}};
    for (size_t i = 0; grown->text && i < sizeof text_keys / sizeof text_keys[0]; i++)
        if (config_set_value(&config, text_keys[i][0], text_keys[i][1], ORIGIN_TASK, &error) != ESPER_OK)
            fail_msg("%s", error.text);
    if (run_create(run, folder, name, &config, "base", "", grown->command, &error) != ESPER_OK)
        fail_msg("%s", error.text);
    grower = (struct grower){.store = must_open(run)};
    for (int round = 0; round < grown->rounds; round++) {
        grow_round(&grower, grown, round);
        if (round >= grown->rounds - grown->detailed)
            grow_details(&grower, grown, round);
    }
    for (int round = 0; grown->text && round < grown->rounds; round += 4) {
        struct sample_record *sample = &grow(&grower, RECORD_SAMPLE)->sample;
        sample->round = round;
        sample->score = grown_accuracy(round, 0);
        sample->bits_per_byte = 8 * (1 - sample->score / 100);
        snprintf(sample->text, sizeof sample->text, "text of round %d\n<b id=evil>&amp; \\x00", round);
    }
    if (grown->rounds > 2)
        grow_trouble(&grower);
    must_write(grower.store, grower.rows, grower.count);
    store_close(grower.store);
}

#endif
