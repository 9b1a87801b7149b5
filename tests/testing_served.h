/* A server over runs that were trained: a folder with one of five rounds, `done`, and a server started and stopped. */
#ifndef TESTS_TESTING_SERVED_H
#define TESTS_TESTING_SERVED_H

#include "testing_http.h"
#include "testing_sessions.h"

static struct run done; /* a run that was trained to its end */

static inline struct config live_config(int rounds)
{
    struct config config = small_session(POLICY_PPO);
    config.rounds = rounds;
    config.telemetry = TELEMETRY_DEBUG;
    return config;
}

struct job {
    const char *name;
    struct config config;
};

/* In a child: 0 when the run came to its end. */
static inline int train(const void *context)
{
    const struct job *job = context;
    const struct session_options options = {.runs = folder, .name = job->name, .command = "<a \"test\">\x01"};
    struct session *session;
    struct session_progress progress;
    if (session_create(&session, &job->config, &options, NULL) != ESPER_OK)
        return 1;
    while (!session_done(session))
        if (session_advance(session, &progress, NULL) != ESPER_OK)
            return 2;
    return session_close(session, NULL) == ESPER_OK ? 0 : 3;
}

static inline int set_up(void **state)
{
    struct job job = {"done", live_config(5)};
    if (folder_make(state) != 0 || exit_code(start_child(train, &job)) != 0)
        return -1;
    return run_open(&done, folder, "done", NULL) == ESPER_OK ? 0 : -1;
}

/* The server goes away meanwhile: there may be no threads. */
static inline void train_another(const struct job *job)
{
    stop_server();
    assert_int_equal(exit_code(start_child(train, job)), 0);
    start_server(&(struct serve_options){.runs = folder});
}

static inline int start(void **state)
{
    (void)state;
    start_server(&(struct serve_options){.runs = folder});
    return 0;
}

static inline int stop(void **state)
{
    (void)state;
    double begin = clock_seconds();
    stop_server();
    return clock_seconds() - begin < 3 * patience() ? 0 : -1; /* it stops promptly, whatever its clients do */
}

static inline const cJSON *at(const cJSON *array, int index)
{
    return cJSON_GetArrayItem(array, index);
}

#endif
