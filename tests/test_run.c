/* The run directory: complete or absent, one trainer, found by what a user types, and always readable. */
#include <signal.h>
#include <sys/file.h>

#include "base/build.h"
#include "base/json.h"
#include "telemetry/run_json.h"
#include "telemetry/run_plan.h"
#include "testing_runs.h"

static struct esper_error error;

static bool exists(const char *directory, const char *name)
{
    char path[2 * PATH_MAX];
    struct stat info;
    snprintf(path, sizeof path, "%s/%s", directory, name);
    return lstat(path, &info) == 0;
}

static void write_in(const char *directory, const char *name, const char *text)
{
    char path[2 * PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    put_file(path, text, strlen(text));
}

static void creation_is_complete(void **state)
{
    (void)state;
    struct config config = sample_config();
    struct run run;
    struct run_status status;
    create_run(&run, "complete", &config);
    assert_string_equal(run.path, in_folder("complete"));
    static const char *const parts[] = {"run.json", "status.json", "lock", "checkpoints"};
    for (int i = 0; i < 4; i++)
        assert_true(exists(run.path, parts[i]));
    assert_int_equal(entries_in(run.path), 4);

    struct stat info;
    mode_t mask = umask(0);
    umask(mask);
    assert_int_equal(stat(run.path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0777 & ~mask);

    assert_int_equal(run_get_status(&run, &status, &error), ESPER_OK);
    assert_string_equal(run_state_name(&status), "running");
    assert_true(status.alive);
    assert_int_equal(status.pid, getpid());
    assert_int_equal(strlen(status.updated), 20);

    char link[256] = {0};
    assert_true(readlink(in_folder("latest"), link, sizeof link - 1) > 0);
    assert_string_equal(link, "complete");
    run_close(&run);
    run_close(&run); /* harmless */
}

static void configuration_reads_back_exactly(void **state)
{
    (void)state;
    static const char *const odd[] = {
        "seed=18446744073709551615", "host.lr=0.30000000000000004", "ppo.epsilon=1.0000000000000001e-11",
        "slots=r1c1,r0c2",           "gates.auto_g2=false",         "policy.kind=heuristic",
        "data.path=a \"b\"\\c/é",    "reward.mode=basic_plus",      "gamma=0.99999999999999989",
    };
    struct config config = sample_config();
    for (int i = 0; i < (int)(sizeof odd / sizeof odd[0]); i++)
        assert_int_equal(config_set(&config, odd[i], &error), ESPER_OK);
    assert_int_equal(config_set_value(&config, "envs", "7", ORIGIN_FLAG, &error), ESPER_OK);
    assert_int_equal(config_set_value(&config, "steps", "9", ORIGIN_FILE, &error), ESPER_OK);
    assert_int_equal(config_set_value(&config, "about", "one line", ORIGIN_TASK, &error), ESPER_OK);

    struct run made, opened;
    create_run(&made, "exact", &config);
    run_close(&made);
    assert_int_equal(run_open(&opened, folder, "exact", &error), ESPER_OK);
    assert_memory_equal(&opened.config, &config, sizeof config);
    assert_string_equal(opened.name, "exact");
    assert_string_equal(opened.kernels, "base");
    assert_string_equal(opened.version, esper_build);
    assert_string_equal(opened.created, made.created);

    /* Types are those of task files, for readers of run.json. */
    cJSON *object;
    char path[2 * PATH_MAX];
    snprintf(path, sizeof path, "%s/run.json", opened.path);
    assert_int_equal(json_read_file(path, &object, &error), ESPER_OK);
    const cJSON *values = json_find(object, "configuration");
    assert_true(cJSON_IsNumber(json_find(values, "envs")));
    assert_true(cJSON_IsString(json_find(values, "seed")));
    assert_true(cJSON_IsArray(json_find(values, "slots")));
    assert_true(cJSON_IsBool(json_find(values, "gates.auto_g2")));
    assert_string_equal(json_find(object, "command")->valuestring, "esper train --name x");
    assert_string_equal(json_find(json_find(object, "origins"), "envs")->valuestring, "flag");
    cJSON_Delete(object);
}

static void bytes_that_are_not_text(void **state)
{
    (void)state;
    struct config config = sample_config();
    struct run run;
    assert_int_equal(run_create(&run, folder, "bytes", &config, "base", "", "esper \xFF\xFE\n \x1B[31m", &error),
                     ESPER_OK);
    run_close(&run);
    assert_int_equal(run_open(&run, folder, "bytes", &error), ESPER_OK);

    assert_int_equal(config_set(&config, "data.path=\xC0\xAF", &error), ESPER_OK);
    int before = entries_in(folder);
    assert_int_equal(run_create(&run, folder, "bytes2", &config, "base", "", "esper", &error), ESPER_INVALID);
    assert_says(&error, "not UTF-8");
    assert_int_equal(entries_in(folder), before); /* nothing half-written */
}

static void made_names(void **state)
{
    (void)state;
    struct config config = sample_config();
    struct run run[2];
    snprintf(config.task, sizeof config.task, "odd task/%s", "0123456789012345678901234567890123456789");
    create_run(&run[0], NULL, &config);
    create_run(&run[1], NULL, &config);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(run_check_name(run[i].name, &error), ESPER_OK);
        assert_int_equal(run[i].name[8], 'T');
        assert_int_equal(run[i].name[15], 'Z');
        assert_non_null(strstr(run[i].name, "Z-odd_task_0123"));
        assert_non_null(strstr(run[i].name, "-42-"));
        assert_int_equal(strlen(strrchr(run[i].name, '-')), 5);
        run_close(&run[i]);
    }
    assert_string_not_equal(run[0].name, run[1].name);

    /* and they are found again */
    struct run opened;
    assert_int_equal(run_open(&opened, folder, run[0].name, &error), ESPER_OK);
    assert_int_equal(run_open(&opened, folder, "latest", &error), ESPER_OK);
    assert_string_equal(opened.path, run[1].path);
}

static void bad_names(void **state)
{
    (void)state;
    char longest[102];
    memset(longest, 'x', sizeof longest);
    longest[101] = '\0';
    const char *const bad[] = {"", ".", "..", ".x", "-x", "a/b", "a b", "a\nb", "é", "a:b", longest};
    struct config config = sample_config();
    struct run run;
    int before = entries_in(folder);
    for (int i = 0; i < (int)(sizeof bad / sizeof bad[0]); i++) {
        assert_int_equal(run_create(&run, folder, bad[i], &config, "base", "", "", &error), ESPER_INVALID);
        assert_says(&error, "cannot name a run");
        assert_int_equal(run.lock, -1);
    }
    assert_int_equal(run_create(&run, folder, "latest", &config, "base", "", "", &error), ESPER_INVALID);
    assert_says(&error, "newest run");
    assert_int_equal(entries_in(folder), before);
    longest[100] = '\0';
    assert_int_equal(run_check_name(longest, &error), ESPER_OK);
    assert_int_equal(run_check_name("Aa0._-", &error), ESPER_OK);
}

static void names_are_never_reused(void **state)
{
    (void)state;
    struct config config = sample_config();
    struct run run, again;
    create_run(&run, "once", &config);
    run_close(&run);
    mkdir(in_folder("empty"), 0777); /* rename alone would replace this one */
    put_file(in_folder("file"), "x", 1);
    int before = entries_in(folder);
    static const char *const taken[] = {"once", "empty", "file"};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(run_create(&again, folder, taken[i], &config, "base", "", "", &error), ESPER_INVALID);
        assert_says(&error, "already exists");
        assert_says(&error, "--resume");
        assert_int_equal(again.lock, -1);
    }
    assert_int_equal(entries_in(folder), before);
    assert_int_equal(entries_in(in_folder("empty")), 0);
    rmdir(in_folder("empty"));
    unlink(in_folder("file"));
}

static void runs_directory_is_made(void **state)
{
    (void)state;
    struct config config = sample_config();
    struct run run;
    char runs[PATH_MAX];
    snprintf(runs, sizeof runs, "%s", in_folder("deep/er/runs"));
    assert_int_equal(run_create(&run, runs, "x", &config, "base", "", "", &error), ESPER_OK);
    run_close(&run);
    assert_int_equal(run_open(&run, runs, "x", &error), ESPER_OK);
    /* a file in the way */
    put_file(in_folder("deep/file"), "x", 1);
    assert_int_equal(run_create(&run, in_folder("deep/file/runs"), "x", &config, "base", "", "", &error),
                     ESPER_INVALID);
    assert_says(&error, "deep/file");
    /* a file called latest stays what it is */
    unlink(in_folder("deep/er/runs/latest"));
    put_file(in_folder("deep/er/runs/latest"), "mine", 4);
    assert_int_equal(run_create(&run, runs, "y", &config, "base", "", "", &error), ESPER_OK);
    run_close(&run);
    struct stat info;
    assert_int_equal(lstat(in_folder("deep/er/runs/latest"), &info), 0);
    assert_true(S_ISREG(info.st_mode));
}

static struct config sample; /* for children */

static int create_unprivileged(const void *context)
{
    struct run run;
    drop_privileges();
    if (run_create(&run, context, "x", &sample, "base", "", "", &error) != ESPER_FAILED)
        return 1;
    return strstr(error.text, "Permission denied") && strstr(error.text, "create a run there") ? 0 : 2;
}

static void unwritable_directory(void **state)
{
    (void)state;
    sample = sample_config();
    chmod(folder, 0755);
    mkdir(in_folder("closed"), 0555);
    assert_int_equal(exit_code(start_child(create_unprivileged, in_folder("closed"))), 0);
    assert_int_equal(entries_in(in_folder("closed")), 0);
}

/* ---- the lock ---------------------------------------------------------------------------------------------------- */

static int try_to_train(const void *path)
{
    struct run run;
    struct esper_error mine = {0};
    char holder[64];
    if (run_open_to_train(&run, path, &mine) == ESPER_OK)
        return 1;
    snprintf(holder, sizeof holder, "process %ld is training this run", (long)getppid());
    return mine.status == ESPER_FAILED && strstr(mine.text, holder) && run.lock == -1 ? 0 : 2;
}

static void one_trainer_per_run(void **state)
{
    (void)state;
    struct config config = sample_config();
    struct run run, reader;
    struct run_status status;
    create_run(&run, "locked", &config);
    char path[2 * PATH_MAX];
    snprintf(path, sizeof path, "%s", run.path);
    assert_int_equal(exit_code(start_child(try_to_train, path)), 0);
    /* readers need no lock, and asking does not take it away */
    assert_int_equal(run_open(&reader, folder, "locked", &error), ESPER_OK);
    assert_int_equal(run_get_status(&reader, &status, &error), ESPER_OK);
    assert_true(status.alive);
    assert_int_equal(exit_code(start_child(try_to_train, path)), 0);
    run_close(&run);
    assert_int_equal(run_open_to_train(&run, path, &error), ESPER_OK);
    assert_int_equal(exit_code(start_child(try_to_train, path)), 0);
    run_close(&run);
}

/* Viewers that keep asking must not keep a trainer out. */
static int ask_all_the_time(const void *path)
{
    struct run run;
    struct run_status status;
    run_open(&run, ".", path, NULL);
    for (int i = 0; i < 1 << 30; i++) /* until it is killed */
        run_get_status(&run, &status, NULL);
    return 0;
}

static void viewers_do_not_lock_out(void **state)
{
    (void)state;
    struct config config = sample_config();
    struct run run;
    create_run(&run, "watched", &config);
    run_close(&run);
    char path[2 * PATH_MAX];
    snprintf(path, sizeof path, "%s", run.path);
    pid_t viewer = start_child(ask_all_the_time, path);
    for (int i = 0; i < 200; i++) {
        if (run_open_to_train(&run, path, &error) != ESPER_OK)
            fail_msg("%s", error.text);
        run_close(&run);
    }
    kill(viewer, SIGKILL);
    exit_code(viewer);
}

/* ---- states ------------------------------------------------------------------------------------------------------ */

static int train_until_killed(const void *context)
{
    struct run run;
    (void)context;
    if (run_create(&run, folder, "victim", &sample, "base", "", "", NULL) != ESPER_OK)
        return 1;
    run_set_status(&run, RUN_RUNNING, 3, 17, NULL);
    pause();
    return 0;
}

static void crashed_is_told_from_running(void **state)
{
    (void)state;
    sample = sample_config();
    pid_t pid = start_child(train_until_killed, NULL);
    struct run run;
    struct run_status status = {0};
    for (int i = 0; i < 500 && status.round != 3; i++) {
        usleep(10000);
        if (run_open(&run, folder, "victim", &error) == ESPER_OK)
            assert_int_equal(run_get_status(&run, &status, &error), ESPER_OK);
    }
    assert_string_equal(run_state_name(&status), "running");
    assert_int_equal(status.pid, pid);
    assert_int_equal(status.step, 17);
    kill(pid, SIGKILL);
    assert_int_equal(exit_code(pid), 128 + SIGKILL);
    assert_int_equal(run_get_status(&run, &status, &error), ESPER_OK);
    assert_false(status.alive);
    assert_string_equal(run_state_name(&status), "crashed");

    static const struct {
        enum run_state state;
        const char *name;
    } ends[] = {{RUN_FINISHED, "finished"}, {RUN_INTERRUPTED, "interrupted"}, {RUN_FAILED, "failed"}};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(run_set_status(&run, ends[i].state, 5, 0, &error), ESPER_OK);
        assert_int_equal(run_get_status(&run, &status, &error), ESPER_OK);
        assert_string_equal(run_state_name(&status), ends[i].name);
        assert_int_equal(status.round, 5);
    }
}

/* kill -9 while a run is created leaves a readable run or none. */
static int create_many(const void *context)
{
    const int *first = context;
    for (int i = 0; i < 1000; i++) {
        struct run run;
        char name[32];
        snprintf(name, sizeof name, "k%d-%d", (int)getpid(), i);
        if (run_create(&run, folder, name, &sample, "base", "", "", NULL) == ESPER_OK)
            run_close(&run);
        if (i == 0 && write(first[1], "x", 1) != 1)
            return 1;
    }
    return 0;
}

static void killed_creation(void **state)
{
    (void)state;
    sample = sample_config();
    for (int i = 0; i < (getenv("ESPER_SOAK") ? 200 : 10); i++) {
        int first[2];
        char byte;
        assert_int_equal(pipe(first), 0);
        pid_t pid = start_child(create_many, first);
        assert_int_equal(read(first[0], &byte, 1), 1);
        usleep((useconds_t)(i * 977 % 30000));
        kill(pid, SIGKILL);
        exit_code(pid);
        close(first[0]);
        close(first[1]);
    }
    DIR *listing = opendir(folder);
    int seen = 0;
    for (struct dirent *entry; (entry = readdir(listing));) {
        struct run run;
        if (entry->d_name[0] != 'k')
            continue;
        if (run_open(&run, folder, entry->d_name, &error) != ESPER_OK)
            fail_msg("%s", error.text);
        seen++;
    }
    closedir(listing);
    assert_true(seen >= 10);
}

/* ---- finding ----------------------------------------------------------------------------------------------------- */

static void finding(void **state)
{
    (void)state;
    struct config config = sample_config();
    struct run run;
    char path[PATH_MAX], other[2 * PATH_MAX];
    create_run(&run, "findme", &config);
    run_close(&run);
    assert_int_equal(run_find(folder, "findme", path, &error), ESPER_OK);
    assert_string_equal(path, run.path);
    snprintf(other, sizeof other, "%s///", run.path);
    assert_int_equal(run_find("nowhere", other, path, &error), ESPER_OK);
    assert_string_equal(path, run.path);

    const struct {
        const char *text, *says;
    } bad[] = {
        {"", "is empty"},
        {"findm", "did you mean \"findme\"?"},
        {"./findme", "cannot open"},
        {in_folder("findme/run.json"), "give the run's directory"},
        {in_folder("findme/checkpoints"), "give the run's directory"},
        {"/", "no run.json"},
        {"/dev/null", "is a file"},
        {"/nowhere/at/all", "No such file"},
    };
    for (int i = 0; i < (int)(sizeof bad / sizeof bad[0]); i++) {
        assert_int_equal(run_find(folder, bad[i].text, path, &error), ESPER_INVALID);
        assert_says(&error, bad[i].says);
    }
    assert_int_equal(run_find("/nowhere", "x", path, &error), ESPER_INVALID);
    assert_says(&error, "esper train");
    assert_int_equal(run_find("/nowhere", "latest", path, &error), ESPER_INVALID);

    char longest[PATH_MAX + 10];
    memset(longest, 'y', sizeof longest);
    longest[sizeof longest - 1] = '\0';
    assert_int_equal(run_find(folder, longest, path, &error), ESPER_INVALID);
    assert_says(&error, "too long");

    remove_tree(run.path); /* latest points nowhere now */
    assert_int_equal(run_find(folder, "latest", path, &error), ESPER_INVALID);
    assert_says(&error, "gone");
}

/* ---- damage ------------------------------------------------------------------------------------------------------ */

static void refused_text(const struct run *run, const char *file, const char *text, const char *says)
{
    struct run opened;
    struct run_status status;
    write_in(run->path, file, text);
    bool is_status = strcmp(file, "status.json") == 0;
    enum esper_status result = is_status ? run_get_status(run, &status, &error)
                                         : run_open(&opened, folder, run->path, &error);
    assert_int_equal(result, ESPER_INVALID);
    assert_says(&error, says);
    assert_says(&error, file);
}

static void damaged_files(void **state)
{
    (void)state;
    struct config config = sample_config();
    struct run run;
    create_run(&run, "damaged", &config);
    run_close(&run);
#define HEAD "\"name\":\"x\",\"created\":\"x\",\"version\":\"9.9\",\"kernels\":\"x\","
    refused_text(&run, "run.json", "", "1:1");
    refused_text(&run, "run.json", "[]", "format");
    refused_text(&run, "run.json", "{\"format\":2}", "a run of format 2");
    refused_text(&run, "run.json", "{\"format\":1}", "\"name\" is missing");
    refused_text(&run, "run.json", "{\"format\":1," HEAD "\"configuration\":{},\"origins\":3}", "\"origins\" must be");
    refused_text(&run, "run.json", "{\"format\":1," HEAD "\"configuration\":{\"warp\":9},\"origins\":{}}",
                 "the key \"warp\" is unknown here: Esper 9.9");
    refused_text(&run, "run.json", "{\"format\":1," HEAD "\"configuration\":{\"envs\":0},\"origins\":{}}", "envs = 0");
    refused_text(&run, "run.json", "{\"format\":1," HEAD "\"configuration\":{},\"origins\":{\"envs\":\"hearsay\"}}",
                 "hearsay");
    refused_text(&run, "status.json", "{}", "\"state\" is missing");
    refused_text(&run, "status.json",
                 "{\"state\":\"asleep\",\"round\":1,\"step\":1,\"pid\":1,\"boot\":\"\",\"updated\":\"\"}", "asleep");
    unlink(in_folder("damaged/status.json"));
    struct run_status status;
    assert_int_equal(run_get_status(&run, &status, &error), ESPER_INVALID);
    assert_says(&error, "status.json");
}

/* "0:60 60:62": from which round on each number of rounds applied; and what a reader of the run finds. */
static void assert_plan(const struct run *run, const char *wanted)
{
    struct run_stage *stages;
    struct run seen;
    char text[256] = "";
    int count;
    assert_int_equal(run_plan_read(run, &stages, &count, &error), ESPER_OK);
    for (int i = 0; i < count; i++) {
        size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, "%s%u:%d", i ? " " : "", stages[i].from, stages[i].rounds);
    }
    assert_string_equal(text, wanted);
    assert_int_equal(run_open(&seen, folder, run->name, &error), ESPER_OK);
    assert_int_equal(seen.config.rounds, stages[count - 1].rounds);
    assert_int_equal(run->config.rounds, stages[count - 1].rounds);
    memory_free(stages);
}

static void plans_change(void **state)
{
    (void)state;
    static const struct {
        unsigned done;
        int rounds;
        const char *wanted;
    } changes[] = {
        {60, 60, "0:60"},                   /* resumed as it was */
        {60, 62, "0:60 60:62"},             /* given more */
        {60, 62, "0:60 60:62"},             /* killed before the 61st round was saved */
        {61, 62, "0:60 60:62"},             /* stopped on the way */
        {62, 70, "0:60 60:62 62:70"},       /* and more */
        {65, 66, "0:60 60:62 62:70 65:66"}, /* or fewer, before it got there */
        {61, 66, "0:60 60:62 61:66"},       /* newer checkpoints were damaged: those rounds are played again */
        {59, 66, "0:60 59:66"},
        {0, 10, "0:10"},
    };
    struct config config = sample_config();
    struct run run;
    config.rounds = 60;
    create_run(&run, "planned", &config);
    assert_plan(&run, "0:60");
    assert_false(exists(run.path, "plan.json"));
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        assert_int_equal(run_plan_change(&run, changes[i].done, changes[i].rounds, "base", &error), ESPER_OK);
        assert_plan(&run, changes[i].wanted);
    }
    assert_int_equal(run_plan_change(&run, 4, 10, "other", &error), ESPER_OK); /* played elsewhere from here on */
    assert_plan(&run, "0:10 4:10");
    static const char *const damaged[] = {"{", "{}", "{\"stages\": []}", "{\"stages\": [7]}",
                                          "{\"stages\": [{\"from\": 3, \"rounds\": 5, \"kernels\": \"base\", "
                                          "\"version\": \"1\"}]}"};
    for (size_t i = 0; i < sizeof damaged / sizeof damaged[0]; i++) {
        struct run seen;
        write_in(run.path, "plan.json", damaged[i]);
        assert_int_equal(run_open(&seen, folder, "planned", &error), ESPER_INVALID);
        assert_says(&error, "planned/plan.json");
    }
    run_close(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(creation_is_complete),
        cmocka_unit_test(configuration_reads_back_exactly),
        cmocka_unit_test(bytes_that_are_not_text),
        cmocka_unit_test(made_names),
        cmocka_unit_test(bad_names),
        cmocka_unit_test(names_are_never_reused),
        cmocka_unit_test(runs_directory_is_made),
        cmocka_unit_test(unwritable_directory),
        cmocka_unit_test(one_trainer_per_run),
        cmocka_unit_test(viewers_do_not_lock_out),
        cmocka_unit_test(crashed_is_told_from_running),
        cmocka_unit_test(killed_creation),
        cmocka_unit_test(finding),
        cmocka_unit_test(damaged_files),
        cmocka_unit_test(plans_change),
    };
    return cmocka_run_group_tests(tests, folder_make, folder_clear);
}
