#include "engine/mirror.cuh"

#include <cstring>

void *mirror_place(const struct mirror *mirror, const void *host)
{
    const struct table *table = &mirror->host->table;
    for (int i = 0; i < CLASS_COUNT; i++) {
        const char *base = (const char *)table->arena[i];
        if (base && (const char *)host >= base && (const char *)host < base + table->arena_bytes[i])
            return mirror->arena[i] + ((const char *)host - base);
    }
    return nullptr;
}

/* Whether a row lies within the arena of its class, here as there. For assertions. */
[[maybe_unused]] static bool mirror_has(const struct mirror *mirror, const struct table_row *row)
{
    const struct table *table = &mirror->host->table;
    const size_t at = (size_t)((const char *)row->data - (const char *)table->arena[row->arena]);
    return row->bytes == 0 ||
           (at <= table->arena_bytes[row->arena] && row->bytes <= table->arena_bytes[row->arena] - at);
}

/* Every registered pointer is inside the struct. */
void mirror_create(struct mirror *mirror, struct runtime *rt, struct world *host)
{
    struct world *view = &mirror->view;
    const struct table *table = &host->table;
    mirror->runtime = rt;
    mirror->host = host;
    for (int i = 0; i < CLASS_COUNT; i++)
        mirror->arena[i] = runtime_alloc<char>(rt, table->arena_bytes[i]);
    mirror->world = runtime_alloc<struct world>(rt, 1);
    if (rt->failed)
        return;
    memcpy((void *)view, (const void *)host, sizeof *view);
    for (int i = 0; i < table->count; i++) {
        size_t at = (size_t)((char *)table->rows[i].slot - (char *)host);
        void *place = mirror_place(mirror, table->rows[i].data);
        ESPER_ASSERT(at + sizeof place <= sizeof *view);
        ESPER_ASSERT(place || table->rows[i].bytes == 0);
        ESPER_ASSERT((uintptr_t)place % 64 == 0); /* as on the host: kernels read whole vectors */
        memcpy((char *)view + at, &place, sizeof place);
    }
    view->learner.config = &mirror->world->config;
    view->learner.pool = nullptr;
    view->learner.kernels = nullptr;
    view->learner.net = nullptr;
    view->learner.memory = nullptr;
    view->learner.work = nullptr;
    runtime_copy_to(rt, mirror->world, view, sizeof *view);
}

void mirror_write(const struct mirror *mirror, const struct table_row *rows, int count)
{
    for (int i = 0; i < count; i++) {
        ESPER_ASSERT(mirror_has(mirror, &rows[i]));
        runtime_copy_to(mirror->runtime, mirror_place(mirror, rows[i].data), rows[i].data, rows[i].bytes);
    }
    runtime_wait(mirror->runtime);
}

void mirror_read(const struct mirror *mirror, const struct table_row *rows, int count)
{
    for (int i = 0; i < count; i++) {
        ESPER_ASSERT(mirror_has(mirror, &rows[i]));
        runtime_copy_from(mirror->runtime, rows[i].data, mirror_place(mirror, rows[i].data), rows[i].bytes);
    }
    runtime_wait(mirror->runtime);
}

struct net_setup mirror_net_setup(const struct mirror *mirror, const struct device_setup *given)
{
    struct runtime *rt = mirror->runtime;
    const struct world *view = &mirror->view;
    const struct config *config = &view->config;
    const struct data_facts set = data_facts_for(config);
    const struct gather_table normalise = gather_table_make(&set);
    const size_t envs = (size_t)view->envs, rows = envs * (size_t)view->shape.slots;
    struct net_setup setup = {};
    setup.shape = view->shape;
    setup.host_shape = &mirror->host->shape;
    setup.envs = view->envs;
    setup.val_images = config->data_val_images;
    setup.final_images = config_val_images(config, true);
    setup.test_images = config->data_test_images;
    setup.rates = *given->rates;
    setup.scored_by_loss = view->growth.scored_by_loss;
    setup.classes = view->growth.classes;
    setup.source.data = gather_upload(rt, given->data, &normalise);
    setup.source.round = view->round;
    setup.source.step = view->step;
    setup.source.conditions = view->conditions;
    setup.source.first_env = view->first_env;
    setup.source.births = view->births;
    setup.source.batches = given->batches;
    setup.source.batch = (uint32_t)config->data_batch;
    setup.source.seed = config->seed;
    setup.source.augment = augment_of(config);
    setup.host = view->host;
    setup.host_momentum = view->host_momentum;
    setup.stats = view->stats;
    setup.seed = view->seed;
    setup.seed_momentum = view->seed_momentum;
    setup.gate = view->gate;
    setup.gate_momentum = view->gate_momentum;
    setup.host_second = view->host_second;
    setup.seed_second = view->seed_second;
    setup.gate_second = view->gate_second;
    setup.updates = view->updates;
    setup.slots = view->slots;
    setup.exec = runtime_alloc<struct slot_exec>(rt, rows);
    setup.grads = runtime_alloc<struct slot_grads>(rt, rows);
    setup.train_loss = view->train_loss;
    setup.train_accuracy = view->train_accuracy;
    setup.val_loss = view->val_loss;
    setup.val_accuracy = view->val_accuracy;
    setup.test_accuracy = runtime_alloc<double>(rt, envs);
    setup.subset_count = view->subset_count;
    setup.subset_all = view->subset_all;
    setup.subset_mask = view->subset_mask;
    setup.subset_score = view->subset_score;
    return setup;
}

struct policy_setup mirror_policy_setup(const struct mirror *mirror, const struct device_setup *given)
{
    const struct world *view = &mirror->view;
    struct policy_setup setup = {};
    setup.config = &mirror->host->config;
    setup.learner = &view->learner;
    setup.rollout = &view->rollout;
    setup.acting = {view->first_env, view->envs};
    setup.step = view->step;
    setup.hidden = view->hidden;
    setup.cell = view->cell;
    setup.exact = !given->tf32;
    return setup;
}
