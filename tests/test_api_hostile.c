/* The library under calls in any order with anything, from several threads, and for long. ESPER_FUZZ sets how many
 * calls (10 000 by default). */
#include <pthread.h>
#include <stdatomic.h>

#include "testing_api.h"

struct hostile {
    uint32_t dice;
    struct esper_env *env[2];
    struct esper_policy *policy;
    struct esper_network *network;
    struct esper_run *run;
    size_t rows; /* of its answer */
    long worked;
};

enum { ROOM = 4096 };
static uint8_t bytes[ROOM];
static _Alignas(8) float floats[ROOM];

/* Right now and then, wrong in any way otherwise; never more than there is room for. */
static size_t any_count(struct hostile *h, size_t right)
{
    return roll(&h->dice, 4) ? right : roll(&h->dice, ROOM);
}

static void *any(struct hostile *h, void *array)
{
    return roll(&h->dice, 16) ? array : NULL;
}

static enum esper_status play_hostile(struct hostile *h, struct esper_env *env, struct esper_error *error)
{
    struct esper_step steps[ENVS];
    if (roll(&h->dice, 3))
        for (int i = 0; i < ACTIONS; i++)
            bytes[i] = (uint8_t)roll(&h->dice, roll(&h->dice, 8) ? 4 : 256);
    else
        memset(bytes, 0, ACTIONS);
    return esper_env_step(env, any(h, bytes), any_count(h, ACTIONS), roll(&h->dice, 2) ? steps : NULL,
                          roll(&h->dice, 3) ? ENVS : 0, error);
}

/* Questions to the record of a run, some of which are none, and columns that may not be there. */
static enum esper_status ask_hostile(struct hostile *h, struct esper_error *error)
{
    static const char *const questions[] = {"select * from round",
                                            "select name, null from run",
                                            "drop table round",
                                            "select op, slot from step limit 9",
                                            ";",
                                            "select 'a', 1.5, x'00'"};
    size_t rows = 0;
    uint32_t columns = 0;
    const uint32_t column = roll(&h->dice, 4);
    enum esper_status status;
    switch (roll(&h->dice, 8)) {
    case 0:
        esper_run_close(&h->run);
        return esper_run_open(&h->run, roll(&h->dice, 4) ? in_folder("learned") : "nothing", error);
    case 1:
    case 2:
        h->rows = 0; /* it is gone even if this fails */
        status = esper_run_ask(h->run, any(h, (void *)questions[roll(&h->dice, 6)]), &rows, any(h, &columns), error);
        h->rows = rows;
        return status;
    case 3:
        return esper_run_integers(h->run, column, any(h, floats), any_count(h, h->rows) / 2, error);
    case 4:
        return esper_run_reals(h->run, column, any(h, floats), any_count(h, h->rows) / 2, error);
    case 5:
        return esper_run_texts(h->run, column, any(h, floats), any_count(h, h->rows) / 2, error);
    default:
        esper_run_column_name(h->run, column);
        esper_run_column_kind(h->run, column);
        return esper_train_round(NULL, NULL, roll(&h->dice, 99), error);
    }
}

static enum esper_status hostile_call(struct hostile *h, struct esper_error *error)
{
    struct esper_env *env = h->env[roll(&h->dice, 2)];
    struct esper_env_info info = {0};
    struct esper_outcome outcomes[ENVS];
    struct esper_network_info network;
    const size_t features = esper_env_describe(env, &info, NULL) == ESPER_OK ? ENVS * info.features : 3;
    switch (roll(&h->dice, 19)) {
    case 0:
        return roll(&h->dice, 8) ? esper_env_reset(env, error)
                                 : esper_env_reset_to(env, roll(&h->dice, 9000000), error);
    case 1:
        return esper_env_observe(env, any(h, floats), any_count(h, features), error);
    case 2:
        return esper_env_masks(env, any(h, bytes), any_count(h, ENVS * info.choices), bytes + ROOM / 2,
                               roll(&h->dice, 2) * ENVS * ESPER_OPS * info.slots, error);
    case 3:
        return esper_env_outcomes(env, any(h, outcomes), roll(&h->dice, 4), error);
    case 4:
        return esper_env_save(env, any(h, (void *)in_folder("hostile.ckpt")), error);
    case 5:
        if (roll(&h->dice, 20))
            return ESPER_INVALID;
        esper_env_close(&h->env[0]);
        return esper_env_resume(&h->env[0], in_folder("hostile.ckpt"), error);
    case 6:
        return esper_policy_act(roll(&h->dice, 8) ? h->policy : NULL, env, (int)roll(&h->dice, 2), any(h, bytes),
                                any_count(h, ACTIONS), error);
    case 7:
        return esper_network_infer(h->network, any(h, bytes), any_count(h, 768), floats, any_count(h, 10), error);
    case 8:
        return esper_network_describe(h->network, any(h, &network), error);
    case 9:
        if (roll(&h->dice, 30))
            return ESPER_INVALID;
        esper_network_close(&h->network);
        return esper_network_open(&h->network, roll(&h->dice, 4) ? in_folder("learned") : "nothing", error);
    case 10:
        if (roll(&h->dice, 30))
            return ESPER_INVALID;
        esper_policy_close(&h->policy);
        return esper_policy_open(&h->policy, roll(&h->dice, 4) ? in_folder("learned") : "nothing", error);
    case 11:
        for (int i = 0; i < ACTIONS; i++)
            bytes[i] = (uint8_t)roll(&h->dice, 8);
        return esper_env_allowed(env, any(h, bytes), any_count(h, ACTIONS), any(h, bytes + ROOM / 2),
                                 any_count(h, ENVS), error);
    case 12:
        return ask_hostile(h, error);
    case 13:
        esper_op_uses(roll(&h->dice, 9), roll(&h->dice, 99));
        return esper_env_blueprints(env, any(h, bytes), any_count(h, ENVS * info.slots), error);
    default:
        return play_hostile(h, env, error);
    }
}

static void test_hostile_calls(void **state)
{
    (void)state;
    const char *text = getenv("ESPER_FUZZ");
    const long calls = text ? atol(text) : 10000;
    struct hostile h = {.dice = 11};
    learn();
    h.env[0] = open_small();
    WORKS(esper_policy_open(&h.policy, in_folder("learned"), &failed));
    for (long i = 0; i < calls; i++) { /* env[1] stays NULL */
        struct esper_error error = {0};
        enum esper_status status = hostile_call(&h, &error);
        h.worked += status == ESPER_OK;
        if (error.status != ESPER_OK) {
            assert_int_equal(status, error.status);
            assert_true(error.text[0] && !strchr(error.text, '\n'));
        }
    }
    print_message("%ld of %ld calls did something\n", h.worked, calls);
    assert_true(h.worked > calls / 50);
    esper_env_close(&h.env[0]);
    esper_policy_close(&h.policy);
    esper_network_close(&h.network);
    esper_run_close(&h.run);

    struct esper_env *env = open_small(); /* and the library is as it was */
    double reward[ENVS] = {0};
    WORKS(esper_env_reset(env, &failed));
    play(env, &h.dice, 12, reward);
    esper_env_close(&env);
}

static long resident_bytes(void)
{
    long pages = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%ld %ld", &pages, &resident), 2);
    fclose(file);
    return resident * sysconf(_SC_PAGESIZE);
}

/* A thousand episodes, and a hundred handles, take no more memory than the first few. */
static void test_memory(void **state)
{
    (void)state;
    struct esper_env *env = open_small();
    double reward[ENVS] = {0};
    uint32_t dice = 17;
    long before = 0;
    for (int i = 0; i < 1000; i++) {
        if (i == 20)
            before = resident_bytes();
        WORKS(esper_env_reset(env, &failed));
        play(env, &dice, i % 100 == 0, reward);
        if (i % 10 == 0) {
            esper_env_close(&env);
            env = open_small();
        }
    }
    const long growth = resident_bytes() - before;
    print_message("%ld KiB more after 1000 resets\n", growth / 1024);
#ifndef __SANITIZE_ADDRESS__ /* which holds back freed memory on purpose */
    assert_true(growth < 1 << 20);
#endif
    esper_env_close(&env);
}

/* A handle that is busy on one thread is refused on another. */
struct crowd {
    struct esper_env *env;
    long steps, busy, others;
};

static void *crowd(void *context)
{
    struct crowd *c = context;
    static const uint8_t waits[ACTIONS];
    for (int i = 0; i < 40; i++) {
        struct esper_error error = {0};
        if (esper_env_step(c->env, waits, ACTIONS, NULL, 0, &error) == ESPER_OK)
            c->steps++;
        else if (strstr(error.text, "another thread"))
            c->busy++;
        else if (strstr(error.text, "is over"))
            c->others += esper_env_reset(c->env, NULL) == ESPER_OK;
    }
    return NULL;
}

static void test_threads(void **state)
{
    (void)state;
    struct esper_env *env = open_small();
    struct crowd c[3];
    pthread_t thread[3];
    WORKS(esper_env_reset(env, &failed));
    for (int i = 0; i < 3; i++) {
        c[i] = (struct crowd){.env = env};
        assert_int_equal(pthread_create(&thread[i], NULL, crowd, &c[i]), 0);
    }
    long steps = 0, busy = 0;
    for (int i = 0; i < 3; i++) {
        pthread_join(thread[i], NULL);
        steps += c[i].steps;
        busy += c[i].busy;
    }
    print_message("%ld steps on three threads, %ld refused\n", steps, busy);
    assert_true(steps > 0);
    esper_env_close(&env);
}

/* Closing what another thread works on is refused, and harms nothing. */
struct player {
    struct esper_env *env;
    struct esper_policy *policy;
    enum esper_status status;
    _Atomic bool over;
};

static void *decide_once(void *context)
{
    struct player *p = context;
    uint8_t actions[ACTIONS];
    p->status = esper_policy_act(p->policy, p->env, 0, actions, ACTIONS, NULL);
    atomic_store(&p->over, true);
    return NULL;
}

/* False if the other thread was refused, or done, before this one could try to close what it used. */
static bool close_while_used(struct player *p)
{
    struct esper_env *env = p->env;
    struct esper_policy *policy = p->policy;
    struct esper_error error = {0};
    struct esper_env_info info;
    pthread_t thread;
    WORKS(esper_env_reset(env, &failed));
    atomic_store(&p->over, false);
    assert_int_equal(pthread_create(&thread, NULL, decide_once, p), 0);
    while (!atomic_load(&p->over) && esper_env_describe(env, &info, &error) == ESPER_OK)
        sched_yield();
    const enum esper_status env_closed = esper_env_close(&env);
    const enum esper_status policy_closed = esper_policy_close(&policy);
    pthread_join(thread, NULL);
    p->env = env;
    p->policy = policy;
    assert_int_equal(env_closed, env ? ESPER_INVALID : ESPER_OK);
    assert_int_equal(policy_closed, policy ? ESPER_INVALID : ESPER_OK);
    if (!env || !policy)
        return false;
    assert_says(&error, "another thread");
    assert_int_equal(p->status, ESPER_OK);
    return true;
}

static void test_closed_by_others(void **state)
{
    (void)state;
    const char *sets[SMALL];
    struct player p = {0};
    bool met = false;
    memcpy(sets, small, sizeof sets);
    sets[3] = "data.batches=200"; /* so that the hosts learn for a while */
    for (int i = 0; i < 50 && !met; i++) {
        if (!p.env)
            WORKS(esper_env_open(&p.env, "quickstart", sets, SMALL, &failed));
        if (!p.policy)
            WORKS(esper_policy_open(&p.policy, in_folder("learned"), &failed));
        met = close_while_used(&p);
    }
    assert_true(met);
    assert_int_equal(esper_env_close(&p.env), ESPER_OK);
    assert_int_equal(esper_policy_close(&p.policy), ESPER_OK);
    assert_true(!p.env && !p.policy);
}

/* A thread whose stack is too small for the kernels is told so. */
static void *cramped(void *context)
{
    struct esper_env *env = context, *other = NULL;
    static const uint8_t waits[ACTIONS];
    struct esper_error error[2] = {{0}};
    esper_env_step(env, waits, ACTIONS, NULL, 0, &error[0]);
    esper_env_open(&other, "quickstart", small, SMALL, &error[1]);
    for (int i = 0; i < 2; i++)
        if (error[i].status != ESPER_UNSUPPORTED || !strstr(error[i].text, "KiB of stack"))
            return "was not refused";
    return NULL;
}

static void test_small_stack(void **state)
{
    (void)state;
    struct esper_env *env = open_small();
    pthread_attr_t stack;
    pthread_t thread;
    void *problem = NULL;
    WORKS(esper_env_reset(env, &failed));
    assert_int_equal(pthread_attr_init(&stack), 0);
    assert_int_equal(pthread_attr_setstacksize(&stack, 512 << 10), 0);
    assert_int_equal(pthread_create(&thread, &stack, cramped, env), 0);
    pthread_join(thread, &problem);
    pthread_attr_destroy(&stack);
    if (problem)
        fail_msg("%s", (const char *)problem);
    esper_env_close(&env);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hostile_calls),    cmocka_unit_test(test_memory),      cmocka_unit_test(test_threads),
        cmocka_unit_test(test_closed_by_others), cmocka_unit_test(test_small_stack),
    };
    return cmocka_run_group_tests(tests, folder_make, folder_clear);
}
