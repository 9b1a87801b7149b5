/* The library's handles from the inside. */
#ifndef API_PARTS_H
#define API_PARTS_H

#include <stdatomic.h>
#include <stdbool.h>

#include "engine/engine.h"
#include "model/network.h"

/* A handle is busy while a call works on it: another thread's call is refused. */
struct api_handle {
    atomic_bool busy;
};

/* Before anything is opened: kernels that were asked for exist, and threads have room for them. */
enum esper_status api_ready(struct esper_error *error);
/* Take the handle for a call, `name` being what its caller called; `handle` may be NULL, which is refused. */
enum esper_status api_enter(struct api_handle *handle, const char *name, struct esper_error *error);
/* ... and return the call's status. */
enum esper_status api_leave(struct api_handle *handle, enum esper_status status);
/* Take the handle for good, to close it: refused while a call works on it. */
enum esper_status api_retire(struct api_handle *handle);

/* Whether a call works on the handle now: what that changes cannot be told. */
static inline bool api_busy(const struct api_handle *handle)
{
    return atomic_load(&handle->busy);
}

/* An array of the caller: `count` elements where `wanted` are needed. */
enum esper_status api_array(const char *name, const void *array, size_t count, size_t wanted,
                            struct esper_error *error);

/* The caller's "key=value" texts; what comes out is not checked yet. */
enum esper_status api_set(struct config *config, const char *const *sets, size_t count, struct esper_error *error);

/* Where an environment is. A checkpoint holds the world between two steps, and nothing of a step that has begun. */
enum env_place {
    ENV_OPENED,  /* no episode has begun */
    ENV_BETWEEN, /* an episode began, or a step was taken */
    ENV_ASKED,   /* the hosts have learned and were measured: it waits for actions */
    ENV_ENDED    /* the last step was taken */
};

struct esper_env {
    struct api_handle handle;
    struct engine *engine;
    uint64_t number; /* of this handle among all that were opened: addresses come back */
    enum env_place place;
    const struct masks *masks;       /* [env] once asked: what may be done */
    uint32_t next;                   /* number of the next episode */
    struct outcome_record *outcomes; /* [env] of the last episode */
};

/* Train, measure and observe, unless that was done. */
enum esper_status env_ask(struct esper_env *env, struct esper_error *error);
/* The number of the episode's first round. */
static inline uint32_t env_first(struct esper_env *env)
{
    return round_first(engine_world(env->engine)->config.evaluate);
}

/* A handle over an engine that has a world, begun or restored; it takes the engine, even after an error. */
enum esper_status env_wrap(struct esper_env **out, struct engine *engine, struct esper_error *error);

struct esper_network {
    struct api_handle handle;
    struct network network;
};

#endif
