#include "session/report.h"

#include <math.h>
#include <string.h>

void report_stages(const struct world *world, int stages[STAGE_LIMIT])
{
    memset(stages, 0, sizeof(int) * STAGE_LIMIT);
    for (int i = 0; i < world->envs * world->shape.slots; i++)
        stages[world->slots.stage[i]]++;
}

static void count_stages(const struct world *world, struct round_record *out)
{
    int stages[STAGE_LIMIT];
    report_stages(world, stages);
#define COUNT_LIVE(with, NAME, name, value)    out->name = stages[STAGE_##NAME];
#define COUNT_COOLING(with, NAME, name, value) out->cooling += stages[STAGE_##NAME];
    LIVE_STAGES(COUNT_LIVE, )
    COOLDOWN_STAGES(COUNT_COOLING, )
#undef COUNT_LIVE
#undef COUNT_COOLING
}

void report_round(struct engine *engine, const struct outcome_record *outcomes, struct round_record *out)
{
    const struct world *world = engine_whole(engine);
    double envs = world->envs;
    *out = (struct round_record){
        .round = *world->round, .env_steps = (int64_t)world->envs * world->config.steps, .val_accuracy_best = -1};
    count_stages(world, out);
    out->train_images = out->env_steps * world->config.data_batch * engine_batches(engine);
    for (int env = 0; env < world->envs; env++) {
        const struct outcome_record *outcome = &outcomes[env];
        out->val_accuracy_mean += outcome->val_accuracy / envs;
        out->val_accuracy_best = fmax(out->val_accuracy_best, outcome->val_accuracy);
        out->test_accuracy_mean += outcome->test_accuracy / envs;
        out->reward_mean += outcome->reward / envs;
        out->germinations += outcome->germinated;
        out->prunes += outcome->pruned;
        out->rollbacks += outcome->rollbacks;
        out->fossilizations += world->episode.fossilized[env];
        out->refusals += world->episode.refused[env];
        out->unattributed += world->episode.unattributed[env];
    }
}

/* The learner's report and the record take their fields from one list. */
#define COPY(kind, name, help) row.name = report->name;

static void emit_update(int64_t round, const struct update_report *report, struct recorder *recorder)
{
    struct ppo_record row = {.round = round};
    UPDATE_FIELDS(COPY)
    recorder_emit(recorder, RECORD_PPO, &row);
}

static void emit_head(int64_t round, const struct head_report *report, struct recorder *recorder)
{
    struct ppo_head_record row = {.round = round};
    HEAD_FIELDS(COPY)
    recorder_emit(recorder, RECORD_PPO_HEAD, &row);
}

#undef COPY

void report_emit(const struct round_report *report, int envs, struct recorder *recorder)
{
    for (int env = 0; env < envs; env++)
        recorder_emit(recorder, RECORD_OUTCOME, &report->outcomes[env]);
    if (report->has_ppo) {
        for (int head = 0; head < HEAD_COUNT; head++)
            emit_head(report->round.round, &report->heads[head], recorder);
        emit_update(report->round.round, &report->ppo, recorder);
    }
    recorder_emit(recorder, RECORD_ROUND, &report->round); /* last: a reader that sees the round sees the rest */
}
