#include "engine/ranks.h"

#include <string.h>

#include "base/memory.h"
#include "engine/emit.h"
#include "engine/turn.h"
#include "telemetry/recorder.h"

#define BUSY_ROWS     2048 /* rows that the record has not written: enough to let reports wait */
#define FLUSH_SECONDS 30.0

struct ranks {
    unsigned char *env;          /* all rows of an env, on their way */
    unsigned char *round;        /* [env of the run] the rows that are shared at the end of a round */
    struct step_report *reports; /* [env of the run] of a step, as they come */
    double *sums;                /* [env of the run] what the episodes earned */
    uint8_t *executed;           /* [env of the run] */
    float *scaled;               /* likewise */
    uint32_t settled;            /* steps of the round whose rewards are scaled */
};

typedef bool wanted_rows(const struct table_row *row);

static bool begins(const char *name, const char *prefix)
{
    return strncmp(name, prefix, strlen(prefix)) == 0;
}

static bool is_saved(const struct table_row *row)
{
    return row->saved;
}

static bool is_told(const struct table_row *row) /* an outcome's */
{
    return row->saved &&
           (engine_row_is_outcome(row) || begins(row->name, "conditions.") || begins(row->name, "lesson.") ||
            strcmp(row->name, "round") == 0 || strcmp(row->name, "step") == 0);
}

static bool is_rollout(const struct table_row *row)
{
    return (row->saved && begins(row->name, "rollout.")) || strcmp(row->name, "rollout.earned") == 0 ||
           strcmp(row->name, "episode.reward_sum") == 0;
}

static bool is_reward(const struct table_row *row)
{
    return strcmp(row->name, "rollout.flags") == 0 || strcmp(row->name, "rollout.earned") == 0 ||
           strcmp(row->name, "rollout.reward") == 0 || strcmp(row->name, "episode.reward_sum") == 0;
}

static bool is_moments(const struct table_row *row)
{
    return begins(row->name, "learner.reward_");
}

/* ---- rows of an env ---------------------------------------------------------------------------------------------- */

/* Bytes of an env in a row, at one step where it has steps. */
static size_t cell_bytes(const struct world *world, const struct table_row *row)
{
    const size_t envs = (size_t)(row->scope == SCOPE_ENV ? world->envs : world->config.envs);
    return row->bytes / envs / (row->scope == SCOPE_ENV ? 1 : (size_t)world->config.steps);
}

/* Copies all cells of an env between the rows and a block, in the order of the table; returns the block's size. Without
 * a block, that is all. */
static size_t pass_env(const struct world *world, uint32_t number, wanted_rows *wanted, unsigned char *block, bool out)
{
    size_t used = 0;
    for (int i = 0; i < world->table.count; i++) {
        const struct table_row *row = &world->table.rows[i];
        if (row->scope == SCOPE_RUN || !wanted(row))
            continue;
        const bool steps = row->scope == SCOPE_STEP_ENV;
        const size_t cell = cell_bytes(world, row), count = steps ? (size_t)world->config.steps : 1;
        const size_t stride = cell * (size_t)world->config.envs;
        unsigned char *at = (unsigned char *)row->data + cell * (number - (steps ? 0u : (uint32_t)world->first_env));
        for (size_t k = 0; k < count; k++, used += cell) {
            if (block && out)
                memcpy(block + used, at + k * stride, cell);
            else if (block)
                memcpy(at + k * stride, block + used, cell);
        }
    }
    return used;
}

static int owner_of(const struct engine *engine, int number)
{
    return group_owner(engine->group, engine->world->config.envs, number);
}

static bool is_mine(const struct engine *engine, int number)
{
    return owner_of(engine, number) == group_rank(engine->group);
}

/* One env after another, so that there is room for one more alone. */
static void gather_rows(struct engine *engine, wanted_rows *wanted)
{
    const struct world *world = engine->world;
    unsigned char *block = engine->ranks->env;
    const size_t bytes = pass_env(world, (uint32_t)world->first_env, wanted, NULL, false);
    for (int number = 0; number < world->config.envs; number++) {
        if (is_mine(engine, number))
            pass_env(world, (uint32_t)number, wanted, block, true);
        group_bring(engine->group, owner_of(engine, number), block, bytes);
        if (engine->whole)
            pass_env(engine->whole, (uint32_t)number, wanted, block, false);
    }
    for (int i = 0; engine->whole && i < world->table.count; i++) {
        const struct table_row *row = &world->table.rows[i];
        if (row->scope == SCOPE_RUN && wanted(row))
            memcpy(table_find(&engine->whole->table, row->name)->data, row->data, row->bytes);
    }
}

void ranks_gather(struct engine *engine)
{
    if (engine->group)
        gather_rows(engine, is_saved);
}

void ranks_scatter(struct engine *engine)
{
    struct world *world = engine->world;
    if (!engine->group)
        return;
    unsigned char *block = engine->ranks->env;
    const size_t bytes = pass_env(world, (uint32_t)world->first_env, is_saved, NULL, false);
    for (int number = 0; number < world->config.envs; number++) {
        if (engine->whole)
            pass_env(engine->whole, (uint32_t)number, is_saved, block, true);
        group_hand(engine->group, owner_of(engine, number), block, bytes);
        if (is_mine(engine, number))
            pass_env(world, (uint32_t)number, is_saved, block, false);
    }
    for (int i = 0; i < world->table.count; i++) {
        const struct table_row *row = &world->table.rows[i];
        if (row->scope != SCOPE_RUN || !row->saved)
            continue;
        if (engine->whole)
            memcpy(row->data, table_find(&engine->whole->table, row->name)->data, row->bytes);
        group_tell(engine->group, row->data, row->bytes);
    }
    engine->ranks->settled = *world->step;
}

/* ---- the rollout ------------------------------------------------------------------------------------------------- */

/* From all to all: every env's rows have their place in one block, which goes through rank 0. */
static void share_rows(struct engine *engine, wanted_rows *wanted)
{
    const struct world *world = engine->world;
    struct ranks *ranks = engine->ranks;
    const int envs = world->config.envs;
    const size_t bytes = pass_env(world, (uint32_t)world->first_env, wanted, NULL, false);
    engine_read_rows(engine, wanted);
    for (int env = 0; env < world->envs; env++) {
        const uint32_t number = world_env_number(world, env);
        pass_env(world, number, wanted, ranks->round + number * bytes, true);
    }
    for (int rank = 0; rank < group_ranks(engine->group); rank++) {
        const struct env_part part = group_part_of(engine->group, rank, envs);
        group_bring(engine->group, rank, ranks->round + (size_t)part.first * bytes, (size_t)part.count * bytes);
    }
    group_tell(engine->group, ranks->round, (size_t)envs * bytes);
}

/* Out of that block: rows of rounds for all envs; of the envs' rows, what each episode earned. */
static void take_rows(struct engine *engine, wanted_rows *wanted)
{
    const struct world *world = engine->world;
    struct ranks *ranks = engine->ranks;
    const unsigned char *at = ranks->round;
    for (int number = 0; number < world->config.envs; number++)
        for (int i = 0; i < world->table.count; i++) {
            const struct table_row *row = &world->table.rows[i];
            if (row->scope == SCOPE_RUN || !wanted(row))
                continue;
            const size_t cell = cell_bytes(world, row), stride = cell * (size_t)world->config.envs;
            if (row->scope == SCOPE_ENV) {
                memcpy(&ranks->sums[number], at, sizeof *ranks->sums);
                at += cell;
                continue;
            }
            for (int step = 0; step < world->config.steps; step++, at += cell)
                memcpy((unsigned char *)row->data + (size_t)step * stride + (size_t)number * cell, at, cell);
        }
}

/* A row that was charged for a rollback keeps its penalty; at the last step nothing is rolled back. */
static bool was_charged(const struct world *world, size_t row, uint32_t step)
{
    return (world->rollout.flags[row] & ROW_DONE) && step + 1 < (uint32_t)world->config.steps;
}

/* The rewards of the steps that are not scaled yet, in the order in which one process meets them. */
static void settle_rewards(struct engine *engine)
{
    const struct world *world = engine->world;
    struct ranks *ranks = engine->ranks;
    const int envs = world->config.envs;
    for (; ranks->settled < *world->step; ranks->settled++) {
        const size_t first = (size_t)ranks->settled * (size_t)envs;
        const bool last = ranks->settled + 1 == (uint32_t)world->config.steps;
        for (int env = 0; env < envs; env++)
            ranks->executed[env] = (world->rollout.flags[first + (size_t)env] & ROW_VALID) != 0;
        learner_scale_rewards(&world->learner, envs, ranks->executed, world->earned + first, ranks->scaled);
        for (int env = 0; env < envs; env++)
            if (ranks->executed[env] && !was_charged(world, first + (size_t)env, ranks->settled))
                world->rollout.reward[first + (size_t)env] =
                    last ? step_learned_reward(world, ranks->sums, env, ranks->scaled[env]) : ranks->scaled[env];
    }
}

static void settle(struct engine *engine, wanted_rows *wanted)
{
    share_rows(engine, wanted);
    engine_read_rows(engine, is_moments);
    take_rows(engine, wanted);
    settle_rewards(engine);
    engine_write_rows(engine, wanted);
    engine_write_rows(engine, is_moments);
}

void ranks_share_rollout(struct engine *engine)
{
    if (engine->group)
        settle(engine, is_rollout);
}

void ranks_settle(struct engine *engine)
{
    if (engine->group && step_scales(engine->world) && !engine_plays_twins(engine) &&
        engine->ranks->settled < *engine->world->step)
        settle(engine, is_reward);
}

void ranks_reset(struct engine *engine)
{
    if (engine->group)
        engine->ranks->settled = 0;
}

/* ---- the end of a round ------------------------------------------------------------------------------------------ */

void ranks_gather_outcomes(struct engine *engine, double *accuracy)
{
    const int envs = engine->world->config.envs;
    if (!engine->group)
        return;
    gather_rows(engine, is_told);
    for (int rank = 0; rank < group_ranks(engine->group); rank++) {
        const struct env_part part = group_part_of(engine->group, rank, envs);
        double *from = engine->whole ? accuracy + part.first : engine->test_accuracy;
        if (engine->whole && rank == 0)
            memcpy(from, engine->test_accuracy, sizeof *from * (size_t)part.count);
        group_bring(engine->group, rank, from, sizeof *from * (size_t)part.count);
    }
}

void ranks_gather_network(struct engine *engine, int number)
{
    const struct net_shape *shape = &engine->world->shape;
    const int owner = owner_of(engine, number);
    struct net_params to = {0};
    if (is_mine(engine, number)) {
        const int env = number - engine->world->first_env;
        engine->backend->fetch_env(engine, env);
        to = world_params(engine->world, env);
    } else if (engine->whole)
        to = world_params(engine->whole, number);
    group_bring(engine->group, owner, to.host, sizeof(float) * shape->host.storage);
    group_bring(engine->group, owner, to.stats, sizeof(float) * shape->stats);
    group_bring(engine->group, owner, to.seed, sizeof(float) * shape->seed_storage);
    group_bring(engine->group, owner, to.gate, sizeof(float) * shape->gate_storage);
    if (engine->whole && owner == 0) {
        const struct net_params mine = world_params(engine->whole, number);
        memcpy(mine.host, to.host, sizeof(float) * shape->host.storage);
        memcpy(mine.stats, to.stats, sizeof(float) * shape->stats);
        memcpy(mine.seed, to.seed, sizeof(float) * shape->seed_storage);
        memcpy(mine.gate, to.gate, sizeof(float) * shape->gate_storage);
    }
}

/* ---- reports ----------------------------------------------------------------------------------------------------- */

static bool record_is_busy(const struct engine *engine)
{
    struct recorder_totals totals;
    if (!engine->recorder)
        return false;
    recorder_totals(engine->recorder, &totals);
    return totals.waiting > BUSY_ROWS;
}

static void take_reports(struct engine *engine, size_t bytes)
{
    const struct step_report *reports = engine->ranks->reports;
    for (size_t i = 0; i < bytes / sizeof *reports; i++) {
        world_mirror_report(engine->whole, (int)reports[i].env, &reports[i]);
        emit_report(engine, &reports[i]);
    }
}

void ranks_report(struct engine *engine, const struct step_report *reports)
{
    const struct world *world = engine->world;
    const size_t all = sizeof *reports * (size_t)world->config.envs;
    size_t bytes;
    if (!engine->group)
        return;
    if (!engine->whole) {
        group_post(engine->group, reports, sizeof *reports * (size_t)world->envs);
        return;
    }
    for (int env = 0; env < world->envs; env++)
        world_mirror_report(engine->whole, (int)reports[env].env, &reports[env]);
    while (!record_is_busy(engine) && group_take(engine->group, engine->ranks->reports, all, &bytes))
        take_reports(engine, bytes);
}

void ranks_report_end(struct engine *engine)
{
    const size_t all = sizeof *engine->step.reports * (size_t)engine->world->config.envs;
    size_t bytes;
    for (uint64_t owed = group_owed(engine->group); owed > 0; owed--) {
        if (record_is_busy(engine))
            recorder_flush(engine->recorder, FLUSH_SECONDS);
        group_take_owed(engine->group, engine->ranks->reports, all, &bytes);
        take_reports(engine, bytes);
    }
}

/* ---- lifetime ---------------------------------------------------------------------------------------------------- */

enum esper_status ranks_create(struct engine *engine, struct group *group, struct esper_error *error)
{
    const struct world *world = engine->world;
    const size_t envs = (size_t)world->config.envs;
    engine->whole = engine->world;
    if (!group)
        return ESPER_OK;
    engine->group = group;
    engine->whole = NULL;
    struct ranks *ranks = engine->ranks = memory_alloc(1, sizeof *ranks, error);
    if (!ranks || (group_leads(group) && world_create(&engine->whole, &world->config, error) != ESPER_OK))
        return ESPER_FAILED;
    const uint32_t number = (uint32_t)world->first_env;
    ranks->env = memory_alloc(pass_env(world, number, is_saved, NULL, false), 1, error);
    ranks->round = memory_alloc(envs * pass_env(world, number, is_rollout, NULL, false), 1, error);
    ranks->reports = memory_alloc(envs, sizeof *ranks->reports, error);
    ranks->sums = memory_alloc(envs, sizeof *ranks->sums, error);
    ranks->executed = memory_alloc(envs, sizeof *ranks->executed, error);
    ranks->scaled = memory_alloc(envs, sizeof *ranks->scaled, error);
    engine->all_accuracy = memory_alloc(envs, sizeof *engine->all_accuracy, error);
    return ranks->env && ranks->round && ranks->reports && ranks->sums && ranks->executed && ranks->scaled &&
                   engine->all_accuracy
               ? ESPER_OK
               : ESPER_FAILED;
}

void ranks_free(struct engine *engine)
{
    struct ranks *ranks = engine->ranks;
    if (engine->whole != engine->world)
        world_free(engine->whole);
    if (!ranks)
        return;
    memory_free(ranks->env);
    memory_free(ranks->round);
    memory_free(ranks->reports);
    memory_free(ranks->sums);
    memory_free(ranks->executed);
    memory_free(ranks->scaled);
    memory_free(engine->all_accuracy);
    memory_free(ranks);
}
