/* Who is still there: a rank that ends, fails or falls silent is named with where to go on from; a call for a meeting
 * reaches all; and ranks that part in good order say nothing. Two processes, and no MPI. */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/group_watch.h"
#include "testing.h"

static _Atomic int ends;
static char said[2048];

static void on_end(const char *line, enum esper_status status)
{
    (void)status;
    snprintf(said, sizeof said, "%s", line);
    atomic_fetch_add(&ends, 1);
}

static const watch_name names[2] = {"rank 0 (here)", "rank 1 (there)"};

/* Rank 1 does its part in another process; the watch of rank 0 is returned. */
static struct watch *watch_other(void (*part)(struct watch *watch), double silence, pid_t *child)
{
    struct watch_door door = {0};
    struct watch *watch;
    struct esper_error error = {0};
    int listener;
    atomic_store(&ends, 0);
    said[0] = '\0';
    assert_int_equal(watch_door_open(&door, true, &listener, &error), ESPER_OK);
    *child = fork();
    if (*child == 0) {
        close(listener);
        if (watch_open(&watch, 1, 2, names, &door, -1, 10, on_end, &error) != ESPER_OK)
            _exit(9);
        part(watch);
        _exit(atomic_load(&ends));
    }
    if (watch_open(&watch, 0, 2, names, &door, listener, silence, on_end, &error) != ESPER_OK)
        fail_msg("%s", error.text);
    close(listener);
    watch_words(watch, "go on");
    return watch;
}

static void wait_until_said(void)
{
    for (double start = clock_seconds(); !atomic_load(&ends) && clock_seconds() - start < 10 * patience();)
        usleep(2000);
}

static int code_of(pid_t child)
{
    int status = -1;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void end_at_once(struct watch *watch)
{
    usleep(50000);
    (void)watch;
}

static void ending_is_noticed(void **state)
{
    pid_t child;
    (void)state;
    struct watch *watch = watch_other(end_at_once, 10, &child);
    wait_until_said();
    assert_string_equal(said, "rank 1 (there) has ended; go on");
    assert_int_equal(code_of(child), 0);
    watch_close(watch);
    assert_int_equal(atomic_load(&ends), 1);
}

static void stop_here(struct watch *watch)
{
    (void)watch;
    raise(SIGSTOP);
}

static void silence_is_noticed(void **state)
{
    pid_t child;
    (void)state;
    struct watch *watch = watch_other(stop_here, 1, &child);
    wait_until_said();
    assert_string_equal(said, "rank 1 (there) has not been heard of for 1 s; go on");
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    watch_close(watch);
}

static void fail_here(struct watch *watch)
{
    const struct esper_error error = {.status = ESPER_FAILED, .text = "no more memory"};
    watch_fail(watch, &error);
}

static void a_failure_says_why(void **state)
{
    pid_t child;
    (void)state;
    struct watch *watch = watch_other(fail_here, 10, &child);
    wait_until_said();
    assert_string_equal(said, "rank 1 (there) failed: no more memory; go on");
    assert_int_equal(code_of(child), 1); /* it ends in silence */
    watch_close(watch);
}

/* Calls, hears that rank 0 counted it, makes steps until it is answered, and parts. */
static void call_and_part(struct watch *watch)
{
    watch_call(watch, true);
    while (watch_calls(watch) < 1)
        usleep(1000);
    watch_step(watch);
    while (watch_calls(watch) < 2)
        usleep(1000);
    watch_part(watch);
    usleep(200000);
}

static void a_call_reaches_all(void **state)
{
    pid_t child;
    (void)state;
    struct watch *watch = watch_other(call_and_part, 10, &child);
    for (double start = clock_seconds(); watch_calls(watch) < 1 && clock_seconds() - start < 10 * patience();)
        usleep(1000);
    assert_int_equal(watch_calls(watch), 1);
    assert_true(watch_stops(watch));
    assert_true(watch_still(watch, 1, clock_seconds()) < 1);
    watch_call(watch, false);
    watch_part(watch);
    assert_int_equal(code_of(child), 0);
    usleep(50000);
    assert_int_equal(atomic_load(&ends), 0); /* nobody was lost */
    watch_close(watch);
}

static void strangers_stay_out(void **state)
{
    struct watch_door door = {0};
    struct watch *watch = NULL;
    struct esper_error error = {0};
    int listener;
    (void)state;
    assert_int_equal(watch_door_open(&door, true, &listener, &error), ESPER_OK);
    const pid_t child = fork();
    if (child == 0) {
        door.token++;
        _exit(watch_open(&watch, 1, 2, names, &door, -1, 1, on_end, &error) != ESPER_OK);
    }
    assert_int_equal(watch_open(&watch, 0, 2, names, &door, listener, 1, on_end, &error), ESPER_FAILED);
    assert_non_null(strstr(error.text, "rank 1 (there) cannot reach rank 0 (here)"));
    waitpid(child, NULL, 0);
    close(listener);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ending_is_noticed),  cmocka_unit_test(silence_is_noticed),
        cmocka_unit_test(a_failure_says_why), cmocka_unit_test(a_call_reaches_all),
        cmocka_unit_test(strangers_stay_out),
    };
    return cmocka_run_group_tests_name("group", tests, NULL, NULL);
}
