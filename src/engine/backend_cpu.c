/* The phases that run the networks on the CPU: whole envs on the pool's threads. */
#include <string.h>

#include "engine/fresh.h"
#include "engine/parts.h"

static void env_execs(const struct world *world, int env, struct slot_exec exec[SHAPE_SLOTS])
{
    for (int j = 0; j < world->shape.slots; j++) {
        struct slot_state slot = world_slot(world, env, j);
        exec[j] = slot_exec_of(&slot);
    }
}

static struct gather_target worker_target(const struct engine *engine, struct worker *worker)
{
    const struct net_input input = engine->nets->input(worker->net);
    return (struct gather_target){.images = input.pixels,
                                  .image_stride = input.image_stride,
                                  .row_stride = input.row_stride,
                                  .labels = input.labels,
                                  .tokens = input.tokens,
                                  .token_stride = input.token_stride};
}

static double points_of(const struct world *world, const struct net_score *score)
{
    return net_points(world->growth.scored_by_loss, world->growth.classes, score);
}

static void train_env(void *context, int env, int thread)
{
    struct engine *engine = context;
    struct world *world = engine->world;
    const struct config *config = &world->config;
    struct worker *worker = &engine->workers[thread];
    const struct net_params params = world_params(world, env);
    const struct net_memory memory = world_memory(world, env);
    struct slot_exec exec[SHAPE_SLOTS];
    struct net_batch batch = {config->data_batch, exec};
    struct gather_target target = worker_target(engine, worker);
    struct gather_job job = {.seed = config->seed,
                             .round = *world->round,
                             .env = world_birth(world, env),
                             .step = *world->step + 1,
                             .batches = engine->batches,
                             .batch = (uint32_t)config->data_batch,
                             .augment = augment_of(config),
                             .conditions = conditions_load(&world->conditions, (size_t)env)};
    const struct net_rates rates = net_rates_times(engine->rates, job.conditions.lr_factor);
    struct net_result result;
    struct net_score score = {0};
    env_execs(world, env, exec);
    for (job.index = 0; job.index < engine->batches; job.index++) {
        gather_batch(&engine->normalise, engine->data, &job, &target);
        engine->nets->gradients(worker->net, &params, &batch, &result);
        if (job.index + 1 == engine->batches)
            engine->nets->measure(worker->net, &batch, &result);
        engine->nets->update(worker->net, &params, &memory, &batch, &rates, &result);
        net_score_add(&score, result.score);
    }
    world->train_loss[env] = score.loss / (double)score.count;
    world->train_accuracy[env] = points_of(world, &score);
    memcpy(engine->grads + (size_t)env * (size_t)world->shape.slots, result.grads,
           sizeof result.grads[0] * (size_t)world->shape.slots);
}

static void train_cpu(struct engine *engine)
{
    engine_run(engine, "train", train_env);
}

/* Runs `count` samples of a split through the net under the subsets' alphas: their points, and the loss of the first.
 */
static double evaluate_split(struct engine *engine, int env, int thread, enum split split, int count,
                             struct subsets *subsets)
{
    struct world *world = engine->world;
    struct worker *worker = &engine->workers[thread];
    struct net_params params = world_params(world, env);
    struct gather_target target = worker_target(engine, worker);
    struct slot_exec exec[SHAPE_SLOTS];
    float alpha[SUBSETS_MAX][SHAPE_SLOTS] = {{0}};
    env_execs(world, env, exec);
    for (int k = 0; k < subsets->count; k++)
        for (int j = 0; j < world->shape.slots; j++)
            alpha[k][j] = (subsets->mask[k] >> j) & 1u ? exec[j].alpha : 0;
    struct net_score total[SUBSETS_MAX] = {{0}};
    for (int first = 0; first < count; first += world->config.data_batch) {
        int samples = count - first < world->config.data_batch ? count - first : world->config.data_batch;
        struct net_score score[SUBSETS_MAX] = {{0}};
        struct net_eval eval = {.samples = samples,
                                .exec = exec,
                                .configs = subsets->count,
                                .alpha = (const float(*)[SHAPE_SLOTS])alpha,
                                .score = score};
        gather_range(&engine->normalise, engine->data, split, (size_t)first, (size_t)samples, &target);
        engine->nets->evaluate(worker->net, &params, &eval);
        for (int k = 0; k < subsets->count; k++)
            net_score_add(&total[k], score[k]);
    }
    for (int k = 0; k < subsets->count; k++)
        subsets->score[k] = points_of(world, &total[k]);
    return total[0].loss / (double)total[0].count;
}

static void sample_shares(struct engine *engine, int env, int thread)
{
    const struct world *world = engine->world;
    struct shapley_plan plan;
    step_draw_coalitions(world, env, &plan);
    for (int first = 0; first < plan.count; first += SUBSETS_MAX) {
        struct subsets part = {.count = plan.count - first < SUBSETS_MAX ? plan.count - first : SUBSETS_MAX};
        memcpy(part.mask, plan.mask + first, sizeof *plan.mask * (size_t)part.count);
        evaluate_split(engine, env, thread, SPLIT_VAL, world_val_images(world), &part);
        memcpy(plan.score + first, part.score, sizeof *plan.score * (size_t)part.count);
    }
    if (plan.count > 0)
        shapley_estimate(&plan, &engine->shares[env]);
}

static void evaluate_env(void *context, int env, int thread)
{
    struct engine *engine = context;
    struct world *world = engine->world;
    uint32_t blended = 0, fossils = 0;
    for (int j = 0; j < world->shape.slots; j++) {
        struct slot_state slot = world_slot(world, env, j);
        if (stage_is_blended(slot.stage) && slot.alpha > 0) {
            blended |= 1u << j;
            fossils |= slot.stage == STAGE_FOSSILIZED ? 1u << j : 0;
        }
    }
    struct subsets subsets;
    subsets_plan(&subsets, blended, fossils);
    world->val_loss[env] = evaluate_split(engine, env, thread, SPLIT_VAL, world_val_images(world), &subsets);
    world->val_accuracy[env] = subset_score(&subsets, blended);
    world_set_subsets(world, env, &subsets);
    engine->shares[env].pairs = 0;
    if (engine_wants_shares(engine))
        sample_shares(engine, env, thread);
}

static void evaluate_cpu(struct engine *engine)
{
    engine_run(engine, "evaluate", evaluate_env);
}

static void twin_cpu(struct engine *engine)
{
    for (int env = 0; env < engine->world->envs; env++)
        step_keep_twin(engine->world, env);
    ++*engine->world->step;
}

static void test_env(void *context, int env, int thread)
{
    struct engine *engine = context;
    const struct world *world = engine->world;
    struct subsets committed = {.count = 1, .mask = {world_committed(world, env)}};
    evaluate_split(engine, env, thread, SPLIT_TEST, world->config.data_test_images, &committed);
    engine->test_accuracy[env] = committed.score[0];
}

static void test_cpu(struct engine *engine)
{
    engine_run(engine, "test", test_env);
}

/* ---- the rest of the backend ------------------------------------------------------------------------------------- */

static void reset_env(void *context, int env, int thread)
{
    struct engine *engine = context;
    struct reward_pairs pairs;
    (void)thread;
    step_reset_env(&engine->step, env, &pairs);
    orders_do(engine->world, env, &engine->step.orders[env]);
}

static void reset_cpu(struct engine *engine)
{
    rollout_clear(&engine->world->rollout);
    engine_run(engine, "reset", reset_env);
}

static void update_cpu(struct engine *engine, double progress, struct update_report *record,
                       struct head_report heads[HEAD_COUNT])
{
    struct world *world = engine->world;
    learner_update(&world->learner, observe_normalised, &world->rollout, progress, record, heads);
}

static void write_cpu(struct engine *engine)
{
    if (engine->world->learns)
        learner_load(&engine->world->learner);
}

/* The host's world is the only one. */
static void nothing(struct engine *engine)
{
    (void)engine;
}

static void nothing_of_env(struct engine *engine, int env)
{
    (void)engine;
    (void)env;
}

static const struct step_report *reports_cpu(struct engine *engine)
{
    return engine->step.reports;
}

const struct backend backend_cpu = {.reset = reset_cpu,
                                    .train = train_cpu,
                                    .evaluate = evaluate_cpu,
                                    .twin = twin_cpu,
                                    .decide = decide_cpu,
                                    .ask = nothing,
                                    .act = act_cpu,
                                    .reports = reports_cpu,
                                    .apply = apply_cpu,
                                    .test = test_cpu,
                                    .update = update_cpu,
                                    .fetch_env = nothing_of_env,
                                    .write = write_cpu,
                                    .read = nothing,
                                    .wait = nothing};
