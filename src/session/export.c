#include "session/export.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "session/checkpoint.h"

static struct model_source source_of(const struct world *world, const char *run)
{
    struct model_source source = {.round = (uint32_t)round_shown(*world->round), .step = *world->step};
    snprintf(source.run, sizeof source.run, "%s", run);
    snprintf(source.task, sizeof source.task, "%s", world->config.task);
    return source;
}

enum esper_status export_env(const struct world *world, int env, const char *run, struct model **out,
                             struct esper_error *error)
{
    struct slot_state slots[SHAPE_SLOTS];
    struct model_source source = source_of(world, run);
    if (env < 0 || env >= world->envs)
        return error_set(error, ESPER_INVALID, "env %d: the run has envs 0 to %d", env, world->envs - 1);
    if (*world->step == 0)
        return error_set(error, ESPER_INVALID,
                         "env %d: the newest checkpoint is between two rounds, where every host is new; take the "
                         "best network (--env best)",
                         env);
    world_slots(world, env, slots);
    struct net_params params = world_params(world, env);
    source.env = world_env_number(world, env);
    source.val_accuracy = world->val_accuracy[env];
    return model_take(out, &world->config, &world->shape, &params, slots, &source, error);
}

enum esper_status export_best(const struct world *world, const char *run, struct model **out, struct esper_error *error)
{
    struct slot_state slots[SHAPE_SLOTS];
    const struct world_best *best = &world->best;
    struct model_source source = source_of(world, run);
    if (*best->accuracy < 0)
        return error_set(error, ESPER_INVALID,
                         "no episode has ended, so there is no best network yet; take the network of an env (--env N)");
    for (int j = 0; j < world->shape.slots; j++)
        slots[j] = slot_load(&best->slots, (size_t)j);
    const struct net_params params = {best->host, best->stats, best->seed, best->gate};
    source.best = true;
    source.round = (uint32_t)round_shown(*best->round);
    source.step = (uint32_t)world->config.steps;
    source.env = *best->env;
    source.val_accuracy = *best->accuracy;
    return model_take(out, &world->config, &world->shape, &params, slots, &source, error);
}

enum esper_status export_run(const struct run *run, int env, struct model **out, struct esper_error *error)
{
    struct world *world;
    struct checkpoint_info info;
    char folder[PATH_MAX];
    if (snprintf(folder, sizeof folder, "%s/checkpoints", run->path) >= (int)sizeof folder)
        return error_set(error, ESPER_INVALID, "%.80s...: the path is too long", run->path);
    TRY(world_create(&world, &run->config, error));
    enum esper_status status = checkpoint_read_newest(folder, &world->table, &run->config, &info, NULL, error);
    if (status == ESPER_OK && world_check(world, error) != ESPER_OK)
        status = error_where(error, "%s", info.path);
    if (status == ESPER_OK) {
        status = env < 0 ? export_best(world, run->name, out, error) : export_env(world, env, run->name, out, error);
        if (status != ESPER_OK)
            error_where(error, "%s", run->path);
    }
    world_free(world);
    return status;
}

/* What is there and no directory, or has the name of one of our files. */
static bool is_file(const char *text)
{
    struct stat info;
    const char *dot = strrchr(text, '.');
    if (stat(text, &info) == 0)
        return !S_ISDIR(info.st_mode);
    return dot && (strcmp(dot, ".safetensors") == 0 || strcmp(dot, ".onnx") == 0);
}

enum esper_status export_open(const char *runs, const char *text, int batch, struct network *network,
                              struct esper_error *error)
{
    struct run run;
    struct model *model;
    if (is_file(text))
        return network_open(network, text, batch, error);
    TRY(run_open(&run, runs, text, error));
    enum esper_status status = export_run(&run, -1, &model, error);
    run_close(&run);
    return status == ESPER_OK ? network_take(network, model, batch, error) : status;
}
