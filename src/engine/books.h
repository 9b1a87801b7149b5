/* decide, first part: the governor's verdict and the slots' bookkeeping; then what the env sees and may do. */
#ifndef ENGINE_BOOKS_H
#define ENGINE_BOOKS_H

#include "engine/step.h"
#include "learn/normalise.h"

/* An env's state while the rules do its bookkeeping: what its lanes share. */
struct books {
    int verdict; /* the governor's */
    struct slot_state slot[SHAPE_SLOTS];
    struct slot_memory memory[SHAPE_SLOTS];
    struct subsets subsets;
    struct reward_pairs pairs;
    struct tracker tracker;
    struct governor governor;
};

ESPER_RULE void books_record_gradient(struct slot_state *slot, const struct slot_grads *grads)
{
    struct gradient_sample sample;
    if (!grads->measured || !slot_follows_gradient(slot))
        return;
    sample.norm = grads->finite ? grads->norm : (double)NAN;
    sample.health = grads->health;
    sample.ratio = grads->ratio;
    sample.vanishing = grads->vanishing;
    sample.exploding = grads->exploding;
    slot_record_gradient(slot, &sample);
}

/* The step's measurements, written into a slot's row, which gates and policy read. */
ESPER_RULE void books_record_slot(const struct step *step, int env, int j, struct books *books)
{
    const struct world *world = step->world;
    struct slot_state *slot = &books->slot[j];
    if (!stage_is_live(slot->stage))
        return;
    slot_record_accuracy(slot, world->val_accuracy[env]);
    books_record_gradient(slot, &step->grads[world_slot_row(world, env, j)]);
    bool measured = (books->subsets.all >> j) & 1u;
    slot->interaction_sum = measured ? subset_interaction(&books->subsets, j) : 0;
    if (measured)
        slot_record_contribution(slot, subset_contribution(&books->subsets, j));
    observe_measured(&books->memory[j], measured);
}

/* All that is kept about the env, from where it is kept. */
ESPER_RULE void books_load(const struct step *step, int env, struct books *books, struct lanes lanes)
{
    const struct world *world = step->world;
    LANES_EACH (j, world->shape.slots, lanes) {
        books->slot[j] = world_slot(world, env, j);
        books->memory[j] = slot_memory_load(&world->slot_memory, world_slot_row(world, env, j));
    }
    world_subsets_by(world, env, &books->subsets, lanes);
    world_pairs(world, env, &books->pairs, lanes);
    if (lanes_first(lanes)) {
        orders_clear(&step->orders[env]);
        books->tracker = tracker_load(&world->tracker, (size_t)env);
        books->governor = governor_load(&world->governor, (size_t)env);
    }
}

/* One lane: the governor's verdict and, unless it discards the network, the env's history. */
ESPER_RULE void books_judge(const struct world *world, int env, struct books *books)
{
    const size_t row = (size_t)env;
    int verdict =
        governor_verdict(&books->governor, &world->config.governor, world->growth.classes, world->val_loss[env]);
    if (world_last_step(world)) /* what was validated counts, however bad it is (E-19) */
        verdict = PRUNE_NONE;
    world->episode.panicked[env] = (uint8_t)verdict;
    governor_store(&world->governor, row, &books->governor);
    books->verdict = verdict;
    if (verdict != PRUNE_NONE)
        return;
    tracker_update(&books->tracker, world->val_loss[env], world->val_accuracy[env]);
    tracker_store(&world->tracker, row, &books->tracker);
    reward_measured(world->shape.slots, (int)*world->step + 1, &books->subsets, &books->pairs);
}

/* A network that the governor discards leaves no trace in the env's memory. */
ESPER_RULE void books_keep(const struct step *step, int env, struct books *books, struct lanes lanes)
{
    const struct world *world = step->world;
    lanes_meet(lanes);
    if (lanes_first(lanes))
        books_judge(world, env, books);
    lanes_meet(lanes);
    if (books->verdict != PRUNE_NONE)
        return;
    LANES_EACH (j, world->shape.slots, lanes) {
        books_record_slot(step, env, j, books);
        world_set_slot(world, env, j, &books->slot[j]);
        slot_memory_store(&world->slot_memory, world_slot_row(world, env, j), &books->memory[j]);
    }
    world_set_pairs(world, env, &books->pairs, lanes);
    bool due = (*world->step + 1) % (uint32_t)world->config.governor.snapshot_steps == 0;
    if (due && governor_may_snapshot(&books->governor))            /* none while a divergence streak runs (E-06) */
        orders_snapshot_by(world, env, &step->orders[env], lanes); /* of rows that the same lane has just written */
    lanes_meet(lanes);
}

/* The observation as the policy sees it, normalised with the frozen statistics. */
ESPER_RULE void books_normalise(const struct learner *learner, const float *raw, float *state, struct lanes lanes)
{
    LANES_EACH (i, learner->shape.obs, lanes)
        state[i] = observe_normalised(i) ? normalise_observation(raw[i], learner->obs_mean[i], learner->obs_var[i])
                                         : raw[i];
}

/* What may be done; at the last step, what leads to a network that was validated. */
ESPER_RULE struct masks books_masks(const struct world *world, const struct books *books)
{
    const struct config *config = &world->config;
    const int slots = world->shape.slots;
    const bool automatic = config->auto_g1 && config->auto_g2 && config->auto_g3;
    struct masks masks = masks_of_slots(books->slot, slots, world->growth.offered, config->max_seeds, automatic);
    if (world_last_step(world)) {
        uint32_t fossils = slots_committed(books->slot, slots), measured = 0;
        for (int j = 0; j < slots; j++)
            measured |= subset_find(&books->subsets, fossils | 1u << j) >= 0 ? 1u << j : 0u;
        masks_commit_only(&masks, slots, measured);
    }
    return masks;
}

/* All of the above; `books` is working memory that the env's lanes share. */
ESPER_RULE void step_observe_env(const struct step *step, int env, struct books *books, struct lanes lanes)
{
    const struct world *world = step->world;
    const struct config *config = &world->config;
    const int slots = world->shape.slots;
    books_load(step, env, books, lanes);
    books_keep(step, env, books, lanes);

    const size_t row = world_rollout_row(world, env);
    float *raw = world->rollout.raw + row * (size_t)world->rollout.obs;
    struct env_memory env_memory = env_memory_load(&world->env_memory, (size_t)env);
    struct observe_env seen;
    seen.step = (int)*world->step + 1;
    seen.steps = config->steps;
    seen.train_loss = world->train_loss[env];
    seen.train_accuracy = world->train_accuracy[env];
    seen.lead = world->twin_accuracy ? world->val_accuracy[env] - world_twin_accuracy(world, env) : 0.0;
    seen.price = world_price_factor(world, env) * config->reward.price;
    seen.flop_price = config->reward.flop_price;
    seen.work = world->reward_state.work[env];
    seen.val_loss = world->val_loss[env];
    seen.val_accuracy = world->val_accuracy[env];
    seen.tracker = &books->tracker;
    seen.memory = &env_memory;
    observe_by(&seen, books->slot, books->memory, slots, raw, world->rollout.bp + row * (size_t)slots, lanes);
    if (lanes_first(lanes))
        step->masks[env] = books_masks(world, books);
    lanes_meet(lanes);
    if (world->learns)
        books_normalise(&world->learner, raw, world->rollout.state + row * (size_t)world->rollout.obs, lanes);
}

#endif
