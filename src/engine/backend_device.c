/*
 * The phases on a device: enqueued, and followed one step behind. The device owns the world's arrays during a round;
 * the host's copies are stale except for what their readers need: progress is kept from the reports, outcomes are read
 * at the end of a round, everything is read for a checkpoint. What the device never changes (the best network, the
 * totals, the clock) belongs to the host.
 */
#include <string.h>

#include "base/clock.h"
#include "engine/device.h"
#include "engine/emit.h"
#include "engine/ranks.h"
#include "engine/turn.h"

/* ---- the table --------------------------------------------------------------------------------------------------- */

static bool begins(const char *name, const char *prefix)
{
    return strncmp(name, prefix, strlen(prefix)) == 0;
}

static bool is_hosts(const struct table_row *row)
{
    return begins(row->name, "best.") || begins(row->name, "total.") || begins(row->name, "replay.") ||
           begins(row->name, "conditions.") || begins(row->name, "lesson.") || strcmp(row->name, "round") == 0 ||
           strcmp(row->name, "step") == 0 || strcmp(row->name, "twin.known") == 0;
}

static void read_rows(struct engine *engine, bool (*wanted)(const struct table_row *row))
{
    const struct table *table = &engine->world->table;
    for (int i = 0; i < table->count; i++)
        if (table->rows[i].saved && !is_hosts(&table->rows[i]) && (!wanted || wanted(&table->rows[i])))
            engine->use.cuda->read(engine->device, &table->rows[i], 1);
}

/* ---- following the device ---------------------------------------------------------------------------------------- */

/* Take the reports of the finished steps, all but the newest `left`. */
static void follow(struct engine *engine, uint32_t left)
{
    static const char *const phase[DEVICE_PHASES] = {"train", "evaluate", "decide", "apply"};
    struct device_step step;
    while (engine->steps_ahead > left && engine->use.cuda->take(engine->device, &step)) {
        for (int env = 0; env < engine->world->envs; env++) {
            world_mirror_report(engine->world, env, &step.reports[env]);
            emit_report(engine, &step.reports[env]);
        }
        ranks_report(engine, step.reports);
        for (int k = 0; step.timed && k < DEVICE_PHASES; k++)
            emit_device_phase(engine, phase[k], step.reports->round, step.reports->step,
                              engine->device_zero + step.time[k], engine->device_zero + step.time[k + 1]);
        engine->taken = step.reports;
        engine->steps_ahead--;
    }
}

/* ---- phases ------------------------------------------------------------------------------------------------------ */

static void reset_device(struct engine *engine)
{
    double start = clock_seconds();
    const struct table *table = &engine->world->table;
    follow(engine, 0);
    for (int i = 0; i < table->count; i++)
        if (begins(table->rows[i].name, "conditions.") || begins(table->rows[i].name, "lesson.schedule"))
            engine->use.cuda->write(engine->device, &table->rows[i], 1);
    engine->use.cuda->reset(engine->device);
    engine_span(engine, "reset", start);
}

static void train_device(struct engine *engine)
{
    engine->use.cuda->train(engine->device);
}

static void evaluate_device(struct engine *engine)
{
    engine->use.cuda->evaluate(engine->device, engine_wants_shares(engine));
}

static void twin_device(struct engine *engine)
{
    engine->use.cuda->twin(engine->device);
    ++*engine->world->step;
}

static void decide_device(struct engine *engine)
{
    engine->use.cuda->decide(engine->device);
}

/* The rows of the decision, and which envs begin to remember anew: what a policy decides from. */
static void ask_device(struct engine *engine)
{
    const struct device_api *api = engine->use.cuda;
    const struct world *world = engine->world;
    const struct rollout *rollout = &world->rollout;
    const size_t row = world_rollout_row(world, 0), envs = (size_t)world->envs, obs = (size_t)rollout->obs,
                 slots = (size_t)world->shape.slots;
    api->ask(engine->device, engine->step.masks, engine->step.actions);
    api->read_part(engine->device, rollout->raw + row * obs, envs * obs * sizeof *rollout->raw);
    api->read_part(engine->device, rollout->bp + row * slots, envs * slots * sizeof *rollout->bp);
    api->read_part(engine->device, world->episode.reset_next, envs * sizeof *world->episode.reset_next);
}

static void act_device(struct engine *engine, int env, const struct action *action)
{
    engine->step.actions[env] = *action;
    engine->acted = true;
}

static const struct step_report *reports_device(struct engine *engine)
{
    follow(engine, 0);
    return engine->taken;
}

static void apply_device(struct engine *engine)
{
    if (engine->acted)
        engine->use.cuda->act(engine->device, engine->step.actions);
    engine->acted = false;
    engine->use.cuda->apply(engine->device);
    step_count(engine->world);
    engine->steps_ahead++;
    follow(engine, 1);
}

static void test_device(struct engine *engine)
{
    double start = clock_seconds();
    follow(engine, 0);
    engine->use.cuda->test(engine->device, engine->test_accuracy);
    read_rows(engine, engine_row_is_outcome);
    engine_span(engine, "test", start);
}

static void update_device(struct engine *engine, double progress, struct update_report *record,
                          struct head_report heads[HEAD_COUNT])
{
    double start = clock_seconds();
    engine->use.cuda->update(engine->device, progress, record, heads);
    record->seconds = clock_seconds() - start;
    read_rows(engine, engine_row_is_outcome);
}

static void fetch_env_device(struct engine *engine, int env)
{
    const struct world *world = engine->world;
    struct net_params params = world_params(world, env);
    const struct device_api *api = engine->use.cuda;
    api->read_part(engine->device, params.host, sizeof(float) * world->shape.host.storage);
    api->read_part(engine->device, params.stats, sizeof(float) * world->shape.stats);
    api->read_part(engine->device, params.seed, sizeof(float) * world->shape.seed_storage);
    api->read_part(engine->device, params.gate, sizeof(float) * world->shape.gate_storage);
}

static void write_device(struct engine *engine)
{
    const struct table *table = &engine->world->table;
    follow(engine, 0);
    engine->use.cuda->write(engine->device, table->rows, table->count);
}

static void read_device(struct engine *engine)
{
    follow(engine, 0);
    read_rows(engine, NULL);
}

static void wait_device(struct engine *engine)
{
    follow(engine, 0);
    engine->use.cuda->wait(engine->device);
}

const struct backend backend_device = {.reset = reset_device,
                                       .train = train_device,
                                       .evaluate = evaluate_device,
                                       .twin = twin_device,
                                       .decide = decide_device,
                                       .ask = ask_device,
                                       .act = act_device,
                                       .reports = reports_device,
                                       .apply = apply_device,
                                       .test = test_device,
                                       .update = update_device,
                                       .fetch_env = fetch_env_device,
                                       .write = write_device,
                                       .read = read_device,
                                       .wait = wait_device};
