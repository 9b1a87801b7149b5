/*
 * learner_update on the device, which must agree with learn/update.c. Sums over rows run in fixed trees over chunks
 * that depend on the number of rows alone. Whether a pass still happens is decided on the device: `stop` ends the
 * update (divergence, nothing to learn from), `skip` skips the rest of one pass; kernels then return at once.
 */
#include "learn/update.cuh"

#include "learn/update_epoch.cuh"
#include "learn/update_trial.h"
#include "policy/network.cuh"

struct policy_device {
    struct runtime *rt;
    struct update_work work, part; /* of the rollout, and of a mini-batch: the same where there is only one */
    struct network_device *network, *part_network;
    std::vector<struct norm_piece> pieces;
    double *progress_host;
    struct ppo_device_report *report_host;
};

/* ---- after the epochs -------------------------------------------------------------------------------------------- */

/* One block. An update that made no step leaves no trace in the critic. */
KERNEL void update_end(const struct update_work u)
{
    device_wait();
    const struct update_state *s = u.state;
    struct update_report *record = &u.report->record;
    if (record->epochs == 0 && s->units_moved)
        for (int i = threadIdx.x; i <= u.value_inputs; i += blockDim.x)
            u.w[i == u.value_inputs ? u.value_bias : u.value_weight + i] = u.last_layer[i];
    if (threadIdx.x > 0)
        return;
    if (record->epochs == 0 && s->units_moved) {
        *u.value_shift = s->before.shift;
        *u.value_scale = s->before.scale;
        --*u.value_updates;
    }
    if (u.count->valid > 0) {
        const double valid = (double)u.count->valid, forced = (double)u.count->forced;
        record->advantage_positive = (double)s->positive / (valid - forced); /* NAN where none had a choice */
        record->forced_ratio = forced / valid;
        *u.updates += record->epochs > 0;
        *u.failures = record->epochs > 0 ? 0 : *u.failures + 1;
    }
    const struct moments rewards = {*u.reward_count, *u.reward_mean, *u.reward_m2};
    record->reward_scale = rewards.count < 2 ? (double)NAN : reward_scale(rewards);
    record->value_shift = *u.value_shift;
    record->value_scale = *u.value_scale;
}

/* ---- set-up ------------------------------------------------------------------------------------------------------ */

static void pieces_create(struct policy_device *policy, const struct policy_shape *shape)
{
    for (int t = 0; t < shape->count; t++) {
        const struct policy_tensor *tensor = &shape->tensor[t];
        const size_t size = (size_t)tensor->rows * tensor->columns;
        for (size_t first = 0; first < size; first += NORM_BLOCK)
            policy->pieces.push_back({(uint32_t)(tensor->offset + first),
                                      (uint32_t)(size - first < (size_t)NORM_BLOCK ? size - first : (size_t)NORM_BLOCK),
                                      shape->part[t]});
    }
    struct update_work *u = &policy->work;
    u->piece_count = (int)policy->pieces.size();
    struct norm_piece *pieces = runtime_alloc<struct norm_piece>(policy->rt, policy->pieces.size());
    runtime_copy_to(policy->rt, pieces, policy->pieces.data(), policy->pieces.size() * sizeof(struct norm_piece));
    u->pieces = pieces;
    u->squares = runtime_alloc<double>(policy->rt, policy->pieces.size());
}

static int look_blocks(const struct update_work *u)
{
    return (u->rows + LOOK_ROWS - 1) / LOOK_ROWS;
}

/* The update's own arrays. */
static void work_allocate(struct policy_device *policy)
{
    struct runtime *rt = policy->rt;
    struct update_work *u = &policy->work;
    const size_t rows = (size_t)u->rows, logits = rows * u->logits_count;
    u->state = runtime_alloc<struct update_state>(rt, 1);
    u->report = runtime_alloc<struct ppo_device_report>(rt, 1);
    u->row = runtime_alloc<struct loss_row>(rt, rows);
    u->reset = runtime_alloc<uint8_t>(rt, rows);
    u->logits = runtime_alloc<float>(rt, logits);
    u->dlogits = runtime_alloc<float>(rt, logits);
    u->values = runtime_alloc<float>(rt, rows);
    u->dvalues = runtime_alloc<float>(rt, rows);
    u->ref = runtime_alloc<float>(rt, rows * HEAD_COUNT);
    u->parts = runtime_alloc<struct look_part>(rt, (size_t)look_blocks(u));
    u->last_layer = runtime_alloc<float>(rt, (size_t)u->value_inputs + 1);
    u->progress = runtime_alloc<double>(rt, 1);
    policy->progress_host = runtime_pin<double>(rt, 1);
    policy->report_host = runtime_pin<struct ppo_device_report>(rt, 1);
    struct ppo_device_report *blank = runtime_alloc<struct ppo_device_report>(rt, 1);
    if (rt->failed)
        return;
    u->count = &u->state->all;
    update_report_clear(&policy->report_host->record);
    report_tally_clear(&policy->report_host->tally);
    for (int head = 0; head < HEAD_COUNT; head++)
        head_report_clear(&policy->report_host->heads[head], nullptr);
    runtime_copy_to(rt, blank, policy->report_host, sizeof *blank);
    u->blank = blank;
}

/* What a mini-batch has of its own; the rest it shares with the rollout. */
static void part_allocate(struct policy_device *policy)
{
    struct runtime *rt = policy->rt;
    struct update_work *u = &policy->work, *part = &policy->part;
    if (u->ppo.minibatches > 1)
        u->order = runtime_alloc<int32_t>(rt, (size_t)u->envs);
    *part = *u;
    if (u->ppo.minibatches == 1)
        return;
    part->envs = u->envs / u->ppo.minibatches;
    part->rows = part->envs * u->steps;
    const size_t rows = (size_t)part->rows;
    part->count = &u->state->part;
    part->row = runtime_alloc<struct loss_row>(rt, rows);
    part->reset = runtime_alloc<uint8_t>(rt, rows);
    part->ref = runtime_alloc<float>(rt, rows * HEAD_COUNT);
    part->rollout.state = runtime_alloc<float>(rt, rows * (size_t)u->obs);
    part->rollout.bp = runtime_alloc<int8_t>(rt, rows * (size_t)u->slots);
}

static void work_fill(struct update_work *u, const struct policy_setup *setup)
{
    const struct config *config = setup->config;
    const struct learner *learner = setup->learner;
    const struct policy_shape *shape = &learner->shape;
    const struct policy_tensor *weight = &shape->tensor[policy_shape_find(shape, "v.l4.weight")];
    u->envs = setup->rollout->envs;
    u->steps = setup->rollout->steps;
    u->rows = u->envs * u->steps;
    u->obs = shape->obs;
    u->slots = shape->slots;
    u->logits_count = shape->logits;
    u->hidden = shape->hidden;
    u->seed = config->seed;
    u->gamma = config->gamma;
    u->ppo = config->ppo;
    u->ppo.minibatches = learner_parts(config);
    for (int head = 0; head < HEAD_COUNT; head++)
        u->floor[head] = config->policy.floor[head];
    u->rollout = *setup->rollout;
    u->w = learner->w;
    u->m = learner->m;
    u->v = learner->v;
    u->grad = learner->grad;
    u->storage = shape->storage;
    u->value_weight = weight->offset;
    u->value_bias = shape->tensor[policy_shape_find(shape, "v.l4.bias")].offset;
    u->value_inputs = weight->columns;
    u->adam_steps = learner->adam_steps;
    u->updates = learner->updates;
    u->failures = learner->failures;
    u->obs_updates = learner->obs_updates;
    u->value_updates = learner->value_updates;
    u->obs_mean = learner->obs_mean;
    u->obs_var = learner->obs_var;
    u->reward_count = learner->reward_count;
    u->reward_mean = learner->reward_mean;
    u->reward_m2 = learner->reward_m2;
    u->value_shift = learner->value_shift;
    u->value_scale = learner->value_scale;
}

/* Whether the device can run this policy; if not, sets the runtime's error. */
static bool policy_fits(struct runtime *rt, const struct policy_setup *setup)
{
    const int hidden = setup->learner->shape.hidden, most = network_device_widest(rt);
    if (rt->failed || hidden <= most)
        return !rt->failed;
    rt->failed = true;
    error_set(&rt->error, ESPER_INVALID,
              "policy.hidden = %d: on this GPU it may be at most %d; lower it, or use device=cpu", hidden, most);
    return false;
}

static struct network_device *network_create(struct runtime *rt, const struct policy_setup *setup,
                                             const struct update_work *u)
{
    struct network_places places = {};
    places.shape = &setup->learner->shape;
    places.envs = u->envs;
    places.acting = setup->acting;
    places.steps = u->steps;
    places.exact = setup->exact;
    places.w = u->w;
    places.grad = u->grad;
    places.step = setup->step;
    places.state = u->rollout.state;
    places.bp = u->rollout.bp;
    places.reset = u->reset;
    places.hidden = setup->hidden;
    places.cell = setup->cell;
    places.act_logits = setup->logits;
    places.act_values = setup->values;
    places.logits = u->logits;
    places.values = u->values;
    places.dlogits = u->dlogits;
    places.dvalues = u->dvalues;
    places.stop = &u->state->stop;
    places.skip = &u->state->skip;
    return rt->failed ? nullptr : network_device_create(rt, &places);
}

struct policy_device *policy_device_create(struct runtime *rt, const struct policy_setup *setup)
{
    if (!policy_fits(rt, setup))
        return nullptr;
    struct policy_device *policy = new policy_device();
    struct update_work *u = &policy->work;
    policy->rt = rt;
    work_fill(u, setup);
    work_allocate(policy);
    pieces_create(policy, &setup->learner->shape);
    if (!rt->failed) {
        part_allocate(policy);
        policy->network = network_create(rt, setup, u);
        policy->part_network = u->ppo.minibatches > 1 ? network_create(rt, setup, &policy->part) : policy->network;
    }
    runtime_wait(policy->rt); /* what was copied may be freed */
    if (!policy->network || !policy->part_network) {
        policy_device_free(policy);
        return nullptr;
    }
    u->last_h = network_device_hidden(policy->network);
    u->last_c = network_device_cell(policy->network);
    policy_device_progress(policy, 0);
    return policy;
}

void policy_device_free(struct policy_device *policy)
{
    if (!policy)
        return;
    if (policy->part_network && policy->part_network != policy->network)
        network_device_free(policy->part_network);
    if (policy->network)
        network_device_free(policy->network);
    delete policy;
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

void policy_device_act(struct policy_device *policy)
{
    network_device_act(policy->network);
}

void policy_device_progress(struct policy_device *policy, double progress)
{
    if (policy->rt->failed)
        return;
    *policy->progress_host = progress;
    runtime_copy_to(policy->rt, (void *)policy->work.progress, policy->progress_host, sizeof progress);
}

static struct launch launch_of(int blocks, int threads, size_t shared)
{
    struct launch launch = {};
    launch.grid = dim3((unsigned)blocks);
    launch.block = dim3((unsigned)threads);
    launch.shared = shared;
    launch.overlap = true;
    return launch;
}

static void look_run(struct policy_device *policy, const struct update_work *u, bool first)
{
    network_device_unroll(u->count == policy->work.count ? policy->network : policy->part_network);
    runtime_launch(policy->rt, epoch_look, launch_of(look_blocks(u), LOOK_THREADS, LOOK_SHARED), *u, first);
}

/* The first look at the whole rollout. */
static void reference_run(struct policy_device *policy)
{
    const struct update_work *u = &policy->work;
    look_run(policy, u, true);
    runtime_launch(policy->rt, policy_describe, launch_of(1, WIDE_THREADS, DECIDE_SHARED), *u, look_blocks(u));
}

/* What was looked at makes its step. */
static void step_run(struct policy_device *policy, int epoch)
{
    struct runtime *rt = policy->rt;
    const struct update_work u = policy->part;
    const struct launch derive = launch_of(look_blocks(&u), LOOK_THREADS, 0);
    const size_t doubles = NORM_THREADS * sizeof(double);
    runtime_launch(rt, epoch_decide, launch_of(1, WIDE_THREADS, DECIDE_SHARED), u, epoch, look_blocks(&u));
    runtime_launch(rt, epoch_derive, derive, u);
    network_device_backward(policy->part_network);
    runtime_launch(rt, epoch_squares, launch_of(u.piece_count, NORM_THREADS, doubles), u);
    runtime_launch(rt, epoch_norm, launch_of(1, NORM_THREADS, doubles), u);
    runtime_launch(rt, epoch_adam, launch_of((int)((u.storage / 4 + 255) / 256), 256, 0), u);
}

static void epoch_run(struct policy_device *policy, int epoch)
{
    struct runtime *rt = policy->rt;
    const struct update_work u = policy->work, part = policy->part;
    const struct launch one = launch_of(1, 1, 0);
    const struct launch rows = launch_of((part.rows + ROW_THREADS - 1) / ROW_THREADS, ROW_THREADS, 0);
    if (u.ppo.minibatches == 1) {
        if (epoch > 0) /* the first look was the reference's */
            look_run(policy, &u, false);
        step_run(policy, epoch);
        return;
    }
    runtime_launch(rt, epoch_deal, one, u, epoch);
    for (int number = 0; number < u.ppo.minibatches; number++) {
        runtime_launch(rt, part_begin, one, part);
        runtime_launch(rt, part_take, rows, u, part, number);
        runtime_launch(rt, part_count, one, part);
        look_run(policy, &part, false);
        step_run(policy, epoch);
    }
}

static void update_run(struct policy_device *policy)
{
    struct runtime *rt = policy->rt;
    const struct update_work u = policy->work;
    const struct launch one = launch_of(1, 1, 0);
    const struct launch rows = launch_of((u.rows + ROW_THREADS - 1) / ROW_THREADS, ROW_THREADS, 0);
    struct launch first = one;
    first.overlap = false; /* the kernels before an update may not use device_wait */
    runtime_launch(rt, update_begin, first, u);
    runtime_launch(rt, update_rows, rows, u);
    runtime_launch(rt, update_counts, one, u);
    runtime_launch(rt, update_observations, launch_of(u.obs, 256, 256 * sizeof(struct moments)), u);
    runtime_launch(rt, update_advantages, launch_of((u.envs + 31) / 32, 32, 0), u);
    runtime_launch(rt, update_returns, launch_of(1, WIDE_THREADS, WIDE_THREADS * sizeof(double)), u);
    runtime_launch(rt, update_targets, rows, u);
    reference_run(policy);
    for (int epoch = 0; epoch < u.ppo.epochs; epoch++)
        epoch_run(policy, epoch);
    runtime_launch(rt, update_end, launch_of(1, 256, 0), u);
}

void policy_device_update(struct policy_device *policy)
{
    update_run(policy);
}

void policy_device_fetch(struct policy_device *policy)
{
    runtime_copy_from(policy->rt, policy->report_host, policy->work.report, sizeof *policy->report_host);
}

void policy_device_records(const struct policy_device *policy, struct update_report *record,
                           struct head_report heads[HEAD_COUNT])
{
    *record = policy->report_host->record;
    for (int head = 0; head < HEAD_COUNT; head++) {
        heads[head] = policy->report_host->heads[head];
        heads[head].head = head_name(head);
    }
    report_finish(&policy->report_host->tally, record, heads);
}

/* ---- one by one, for golden vectors ------------------------------------------------------------------------------ */

static void try_advantages(struct runtime *rt, struct update_work *u, struct update_state *state,
                           struct update_trial *trial)
{
    const size_t rows = (size_t)u->rows, bytes = rows * sizeof(float);
    struct rollout *r = &u->rollout;
    u->gamma = trial->rates.gamma;
    u->ppo.lambda = trial->rates.lambda;
    state->before = {trial->rates.shift, trial->rates.scale};
    u->state = runtime_place(rt, state, 1);
    r->flags = runtime_place(rt, trial->rows.flags, rows);
    r->reward = runtime_place(rt, trial->rows.reward, rows);
    r->value = runtime_place(rt, trial->rows.value, rows);
    r->bootstrap = runtime_place(rt, trial->rows.bootstrap, rows);
    r->advantage = runtime_place<float>(rt, nullptr, rows);
    r->returns = runtime_place<float>(rt, nullptr, rows);
    r->td_error = runtime_place<float>(rt, nullptr, rows);
    runtime_launch(rt, update_advantages, launch_of((u->envs + 31) / 32, 32, 0), *u);
    runtime_copy_from(rt, trial->rows.advantage, r->advantage, bytes);
    runtime_copy_from(rt, trial->rows.returns, r->returns, bytes);
    runtime_copy_from(rt, trial->rows.td_error, r->td_error, bytes);
}

/* The inputs of look and derive. */
static void place_outputs(struct runtime *rt, struct update_work *u, struct update_state *state,
                          const struct update_trial *trial)
{
    const size_t rows = (size_t)u->rows;
    state->rules = *trial->rules;
    for (size_t i = 0; i < rows; i++) {
        state->all.valid += trial->row[i].valid;
        state->all.forced += trial->row[i].valid && trial->row[i].forced;
        for (int head = 0; head < HEAD_COUNT; head++)
            state->all.decisions[head] += loss_counts_head(&trial->row[i], head);
    }
    if (trial->counts)
        state->all.counts = *trial->counts;
    u->slots = trial->rules->slots;
    u->logits_count = head_offset(u->slots, HEAD_COUNT);
    u->state = runtime_place(rt, state, 1);
    if (rt->failed)
        return;
    u->count = &u->state->all;
    u->row = runtime_place(rt, trial->row, rows);
    u->logits = runtime_place(rt, trial->logits, rows * (size_t)u->logits_count);
    u->values = runtime_place(rt, trial->values, rows);
    u->ref = runtime_place(rt, trial->ref, rows * HEAD_COUNT);
}

/* Runs twice: the first makes the policy's own output the reference; the sums are those of the second, given `ref`. */
static void try_look(struct runtime *rt, struct update_work *u, struct update_state *state, struct update_trial *trial)
{
    const size_t heads = (size_t)u->rows * HEAD_COUNT;
    place_outputs(rt, u, state, trial);
    u->rollout.logp = runtime_place<float>(rt, nullptr, heads);
    u->parts = runtime_place<struct look_part>(rt, nullptr, (size_t)look_blocks(u));
    u->report = runtime_place<struct ppo_device_report>(rt, nullptr, 1);
    runtime_launch(rt, epoch_look, launch_of(look_blocks(u), LOOK_THREADS, LOOK_SHARED), *u, true);
    runtime_copy_from(rt, trial->logp, u->ref, heads * sizeof(float));
    if (trial->ref)
        runtime_copy_to(rt, u->ref, trial->ref, heads * sizeof(float));
    runtime_launch(rt, epoch_look, launch_of(look_blocks(u), LOOK_THREADS, LOOK_SHARED), *u, false);
    runtime_launch(rt, epoch_decide, launch_of(1, WIDE_THREADS, DECIDE_SHARED), *u, 1, look_blocks(u));
    runtime_copy_from(rt, &trial->sums, &u->state->sums, sizeof trial->sums);
}

static void try_derive(struct runtime *rt, struct update_work *u, struct update_state *state,
                       struct update_trial *trial)
{
    const size_t rows = (size_t)u->rows;
    place_outputs(rt, u, state, trial);
    const size_t logits = rows * (size_t)u->logits_count;
    u->dlogits = runtime_place<float>(rt, nullptr, logits);
    u->dvalues = runtime_place<float>(rt, nullptr, rows);
    runtime_launch(rt, epoch_derive, launch_of(look_blocks(u), LOOK_THREADS, 0), *u);
    runtime_copy_from(rt, trial->dlogits, u->dlogits, logits * sizeof(float));
    runtime_copy_from(rt, trial->dvalues, u->dvalues, rows * sizeof(float));
}

/* The factor follows from a gradient of norm 1 and a limit on that norm. */
static void try_adam(struct runtime *rt, struct update_work *u, struct update_state *state, struct update_trial *trial)
{
    const struct norm_piece piece = {0, 0, 0};
    const double square = 1;
    const uint64_t steps = trial->adam.step - 1;
    const size_t bytes = trial->count * sizeof(float);
    state->lr = trial->adam.lr;
    u->ppo.beta1 = trial->adam.beta1;
    u->ppo.beta2 = trial->adam.beta2;
    u->ppo.epsilon = trial->adam.epsilon;
    u->ppo.max_grad_norm = (double)trial->factor * (1 + 1e-6);
    u->piece_count = 1;
    u->pieces = runtime_place(rt, &piece, 1);
    u->squares = runtime_place(rt, &square, 1);
    u->adam_steps = runtime_place(rt, &steps, 1);
    u->state = runtime_place(rt, state, 1);
    if (rt->failed)
        return;
    u->count = &u->state->all;
    u->report = runtime_place<struct ppo_device_report>(rt, nullptr, 1);
    u->storage = trial->count;
    u->grad = runtime_place(rt, trial->g, trial->count);
    u->w = runtime_place(rt, trial->w, trial->count);
    u->m = runtime_place(rt, trial->m, trial->count);
    u->v = runtime_place(rt, trial->v, trial->count);
    runtime_wait(rt); /* what was copied may be freed */
    runtime_launch(rt, epoch_norm, launch_of(1, NORM_THREADS, NORM_THREADS * sizeof(double)), *u);
    runtime_launch(rt, epoch_adam, launch_of((int)((trial->count / 4 + 255) / 256), 256, 0), *u);
    runtime_copy_from(rt, trial->w, u->w, bytes);
    runtime_copy_from(rt, trial->m, u->m, bytes);
    runtime_copy_from(rt, trial->v, u->v, bytes);
}

enum esper_status update_trial_run(struct update_trial *trial, struct esper_error *error)
{
    static void (*const parts[])(struct runtime *, struct update_work *, struct update_state *,
                                 struct update_trial *) = {try_advantages, try_look, try_derive, try_adam};
    struct update_work work = {};
    struct update_state state = {};
    struct runtime *rt = runtime_create(error);
    if (!rt)
        return ESPER_FAILED;
    work.envs = trial->envs;
    work.steps = trial->steps;
    work.rows = trial->envs * trial->steps;
    parts[trial->part](rt, &work, &state, trial);
    runtime_wait(rt);
    const enum esper_status status = rt->failed ? ESPER_FAILED : ESPER_OK;
    *error = rt->error;
    runtime_free(rt);
    return status;
}
