/* Configuration: the table of keys, precedence, the rules that involve several keys, the shipped tasks. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/config.h"
#include "data/data_set.h"

static char folder[] = "/tmp/esper-config-XXXXXX";

/* Write a file into the test's own folder; the path stays valid until the next call. */
static const char *file_of(const char *name, const char *text)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
    assert_int_equal(fclose(file), 0);
    return path;
}

/* The line must contain every word of `words` (separated by '|'). */
static void assert_says(const struct esper_error *error, const char *words)
{
    char part[64];
    assert_null(strchr(error->text, '\n'));
    while (*words) {
        size_t span = strcspn(words, "|");
        snprintf(part, sizeof part, "%.*s", (int)span, words);
        if (!strstr(error->text, part))
            fail_msg("\"%s\" does not say \"%s\"", error->text, part);
        words += span + (words[span] == '|');
    }
}

static void every_default_is_good_and_survives_a_round_trip(void **state)
{
    (void)state;
    struct config config, again;
    struct esper_error error;
    config_defaults(&config);
    assert_int_equal(config_check(&config, &error), ESPER_OK);
    again = config;
    for (int key = 0; key < config_key_count(); key++) {
        char text[CONFIG_TEXT];
        assert_true(strlen(config_key_help(key)) > 3);
        config_format(&config, key, text);
        if (strcmp(config_key_name(key), "task") == 0)
            continue;
        assert_int_equal(config_set_value(&again, config_key_name(key), text, ORIGIN_DEFAULT, &error), ESPER_OK);
    }
    assert_memory_equal(&config, &again, sizeof config);
}

static void defaults_are_those_of_the_decisions(void **state)
{
    (void)state;
    struct config c;
    config_defaults(&c);
    assert_int_equal(c.seed, 42);
    assert_true(c.host_lr == 0.01 && c.seed_lr == 0.01 && c.momentum == 0.9);
    assert_true(c.weight_decay == 5e-4 && c.max_grad_norm == 1.0);
    assert_true(c.gates_permissive && c.auto_g1 && c.auto_g2 && c.auto_g3 && c.data_augment);
    assert_int_equal(c.threads, 0);
    assert_int_equal(c.device, WISH_AUTO);
    assert_int_equal(c.precision, PRECISION_AUTO);
    assert_string_equal(c.data_path, "");
}

static void the_cpu_has_one_precision(void **state)
{
    (void)state;
    struct config c;
    struct esper_error error;
    config_defaults(&c);
    assert_int_equal(config_set(&c, "precision=bf16", &error), ESPER_OK);
    assert_int_equal(config_check(&c, &error), ESPER_OK); /* auto may be a GPU */
    assert_int_equal(config_set(&c, "device=cuda", &error), ESPER_OK);
    assert_int_equal(config_check(&c, &error), ESPER_OK);
    assert_int_equal(config_set(&c, "device=cpu", &error), ESPER_OK);
    assert_int_equal(config_check(&c, &error), ESPER_INVALID);
    assert_non_null(strstr(error.text, "precision = bf16: the CPU computes in fp32"));
}

static void later_sources_win_and_are_remembered(void **state)
{
    (void)state;
    struct config c;
    struct esper_error error;
    const char *task = file_of("little.json", "{\"envs\": 2, \"steps\": 3, \"rounds\": 4, \"host.lr\": 0.5}");
    config_defaults(&c);
    assert_int_equal(config_load_task(&c, task, &error), ESPER_OK);
    const char *file = file_of("over.json", "{\"steps\": 30, \"rounds\": 40, \"host.lr\": 0.25}");
    assert_int_equal(config_load_file(&c, file, &error), ESPER_OK);
    assert_int_equal(config_set(&c, "rounds=400", &error), ESPER_OK);
    assert_int_equal(config_set(&c, "host.lr=0.125", &error), ESPER_OK);
    assert_int_equal(config_set_value(&c, "host.lr", "0.0625", ORIGIN_FLAG, &error), ESPER_OK);
    assert_string_equal(c.task, "little");
    assert_int_equal(c.envs, 2);
    assert_int_equal(c.steps, 30);
    assert_int_equal(c.rounds, 400);
    assert_true(c.host_lr == 0.0625);
    assert_int_equal(c.origin[config_key_find("seed")], ORIGIN_DEFAULT);
    assert_int_equal(c.origin[config_key_find("envs")], ORIGIN_TASK);
    assert_int_equal(c.origin[config_key_find("steps")], ORIGIN_FILE);
    assert_int_equal(c.origin[config_key_find("rounds")], ORIGIN_SET);
    assert_int_equal(c.origin[config_key_find("host.lr")], ORIGIN_FLAG);
}

static void a_file_may_name_its_task_but_a_chosen_one_stays(void **state)
{
    (void)state;
    struct config c;
    struct esper_error error;
    char text[512];
    snprintf(text, sizeof text, "{\"steps\": 9, \"task\": \"%s\"}",
             file_of("first.json", "{\"envs\": 3, \"steps\": 5}"));
    const char *file = file_of("with_task.json", text);
    config_defaults(&c);
    assert_int_equal(config_load_file(&c, file, &error), ESPER_OK);
    assert_string_equal(c.task, "first");
    assert_int_equal(c.envs, 3);
    assert_int_equal(c.steps, 9);

    char copy[256];
    snprintf(copy, sizeof copy, "%s", file);
    config_defaults(&c);
    assert_int_equal(config_load_task(&c, file_of("second.json", "{\"envs\": 7}"), &error), ESPER_OK);
    assert_int_equal(config_load_file(&c, copy, &error), ESPER_OK);
    assert_string_equal(c.task, "second");
    assert_int_equal(c.envs, 7);
    assert_int_equal(c.steps, 9);
}

static void bad_files_get_one_line_that_helps(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"{\"host.bsae\": 8}", "bad.json|unknown key|host.bsae|host.base"},
        {"{\"data.agument\": true}", "did you mean \"data.augment\""},
        {"{\"host\": {\"base\": 8}}", "host.base|flat"},
        {"{\"host.base\": \"8\"}", "bad.json|host.base|a whole number from 1 to 512|a string"},
        {"{\"host.base\": 8.5}", "host.base = 8.5|whole number"},
        {"{\"host.base\": 0}", "host.base = 0|from 1 to 512"},
        {"{\"host.base\": 1e300}", "host.base|whole number"},
        {"{\"host.kernel\": 2}", "host.kernel = 2|one of 1|3"},
        {"{\"host.lr\": -0.1}", "host.lr = -0.1"},
        {"{\"host.lr\": NaN}", "bad.json: 1:13"},
        {"{\"host.lr\": 1e999}", "bad.json: 1:|too large"},
        {"{\"host.lr\": null}", "host.lr|null"},
        {"{\"data.set\": \"cifar100\"}", "data.set = cifar100|cifar10|synthetic|fashion|mnist"},
        {"{\"mixed.images_least\": 0}", "mixed.images_least = 0|1e-06 to 1"},
        {"{\"mixed.label_noise\": 1.5}", "mixed.label_noise = 1.5|0 to 1"},
        {"{\"mixed.lr_factor\": 0.5}", "mixed.lr_factor = 0.5|1 to 1000"},
        {"{\"mixed.price_least\": 0}", "mixed.price_least = 0|1e-06 to 1"},
        {"{\"mixed.price_free\": 2}", "mixed.price_free = 2|0 to 1"},
        {"{\"data.augment\": 1}", "data.augment|true|false|a number"},
        {"{\"seed\": -1}", "seed = -1|18446744073709551615"},
        {"{\"seed\": 9007199254740994}", "seed|as text"},
        {"{\"slots\": \"r0c0\"}", "slots|list|a string"},
        {"{\"slots\": []}", "slots|1 to 16"},
        {"{\"slots\": [\"early\"]}", "slots = early|r0c0"},
        {"{\"slots\": [\"r0c0,r0c1\"]}", "slots|list"},
        {"{\"slots\": [\"r0c1\", \"r0c1\"]}", "slots|different"},
        {"{\"slots\": [\"r00c1\"]}", "slots"},
        {"{\"slots\": [0]}", "slots|list"},
        {"{\"about\": \"two\\nlines\"}", "about"},
        {"{\"envs\": 1, \"envs\": 2}", "bad.json|envs|twice"},
        {"{\"envs\": 1} x", "bad.json: 1:13|after the value"},
        {"{\"envs\": 1", "bad.json: 1:11"},
        {"[1]", "bad.json|object|a list"},
        {"", "bad.json: 1:1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct config c, before;
        struct esper_error error = {0};
        config_defaults(&c);
        before = c;
        const char *path = file_of("bad.json", cases[i].text);
        if (config_load_file(&c, path, &error) != ESPER_INVALID)
            fail_msg("accepted: %s", cases[i].text);
        /* an error about a value that contains a newline shows it as it is; the command line replaces it */
        if (!strstr(cases[i].text, "\\n"))
            assert_says(&error, cases[i].says);
        if (i > 0 && !strstr(cases[i].text, "envs"))
            assert_memory_equal(&c, &before, sizeof c); /* an invalid value changes nothing */
    }
}

static void bad_assignments_get_one_line_that_helps(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"host.lr", "key=value"},
        {"=1", "key=value"},
        {"host.lr=", "host.lr|nothing"},
        {"host.lr=nan", "host.lr = nan"},
        {"host.lr=inf", "host.lr = inf"},
        {"host.lr=0x1p3", "host.lr"},
        {"host.lr= 1", "host.lr"},
        {"host.lr=1.5.2", "host.lr"},
        {"envs=+3", "envs = +3"},
        {"envs=3x", "envs = 3x"},
        {"envs=99999999999999", "envs"},
        {"seed=18446744073709551616", "seed"},
        {"seed=-1", "seed"},
        {"gates.auto_g1=yes", "true|false"},
        {"task=cifar_scale", "--task"},
        {"moment=0.5", "momentum"},
        {"slots=", "slots"},
        {"slots=[]", "slots|1 to 16"},
        {"slots=[\"r0c0\"", "slots|1:8"},
        {"slots=[\"r0c0\", 1]", "slots|this list"},
        {"slots=r0c0,r0c0", "slots|different"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct config c, before;
        struct esper_error error = {0};
        config_defaults(&c);
        before = c;
        if (config_set(&c, cases[i].text, &error) != ESPER_INVALID)
            fail_msg("accepted: %s", cases[i].text);
        assert_says(&error, cases[i].says);
        assert_memory_equal(&c, &before, sizeof c);
    }
}

static void good_assignments_arrive_exactly(void **state)
{
    (void)state;
    struct config c;
    struct esper_error error;
    config_defaults(&c);
    assert_int_equal(config_set(&c, "seed=18446744073709551615", &error), ESPER_OK);
    assert_true(c.seed == UINT64_MAX);
    assert_int_equal(config_set(&c, "host.lr=1e-3", &error), ESPER_OK);
    assert_true(c.host_lr == 1e-3);
    assert_int_equal(config_set(&c, "data.set=synthetic", &error), ESPER_OK);
    assert_int_equal(c.data_set, DATA_SYNTHETIC);
    assert_int_equal(config_set(&c, "gates.auto_g2=false", &error), ESPER_OK);
    assert_false(c.auto_g2);
    assert_true(c.auto_g1 && c.auto_g3);
    assert_int_equal(config_set(&c, "data.path=/a=b c", &error), ESPER_OK);
    assert_string_equal(c.data_path, "/a=b c");
    /* a seed beyond 2^53 in a file is written as text */
    assert_int_equal(config_load_file(&c, file_of("seed.json", "{\"seed\": \"18446744073709551614\"}"), &error),
                     ESPER_OK);
    assert_true(c.seed == UINT64_MAX - 1);
}

/* D-30: the policy's slot index is the rank row by row, whatever order the task lists them in. */
static void slots_are_kept_in_action_order(void **state)
{
    (void)state;
    struct config c;
    struct esper_error error;
    config_defaults(&c);
    assert_int_equal(config_set(&c, "slots=r1c0,r0c2,r1c1,r0c0", &error), ESPER_OK);
    assert_int_equal(c.slot_count, 4);
    assert_string_equal(c.slots[0], "r0c0");
    assert_string_equal(c.slots[1], "r0c2");
    assert_string_equal(c.slots[2], "r1c0");
    assert_string_equal(c.slots[3], "r1c1");
    assert_int_equal(config_set(&c, "slots=[\"r1c0\", \"r0c0\"]", &error), ESPER_OK);
    assert_int_equal(c.slot_count, 2);
    assert_string_equal(c.slots[0], "r0c0");
    assert_string_equal(c.slots[1], "r1c0");
    assert_int_equal(config_set(&c, "slots=r0c1", &error), ESPER_OK);
    assert_int_equal(c.slot_count, 1);
    assert_string_equal(c.slots[1], "");
}

static void keys_that_contradict_each_other_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *sets[4], *says; /* NULL: must pass */
    } cases[] = {
        {{"host.pools=4"}, "host.pools = 4|host.blocks"},
        {{"host.blocks=6", "host.pools=6"}, "host.pools = 6|32x32|halved"},
        {{"host.blocks=5", "host.pools=5", "data.set=synthetic", "data.size=16"}, "host.pools = 5|16x16"},
        {{"host.blocks=5", "host.pools=5"}, NULL},
        {{"host.blocks=6", "host.base=512"}, "host.base = 512|at most 512"},
        {{"host.width=32"}, "host.width = 32|family cnn|host.family"},
        {{"host.segments=2", "host.base=4"}, "host.segments = 2|family cnn"},
        {{"host.width=64", "host.family=cnn"}, NULL}, /* the default, said aloud */
        {{"host.optimizer=adamw"}, "host.optimizer = adamw|sgd"},
        {{"seed.optimizer=adamw"}, "seed.optimizer = adamw|sgd"},
        {{"host.optimizer=sgd", "seed.optimizer=sgd"}, NULL},
        {{"slots=r0c3"}, "r0c3|r0c2"},
        {{"slots=r2c0"}, "r2c0"},
        {{"slots=r1c0", "host.pools=0"}, "r1c0|0 pools"},
        {{"slots=r1c2", "host.pools=2"}, "r1c2|2 pools"},
        {{"slots=r1c1", "host.pools=2"}, NULL},
        {{"ppo.minibatches=3"}, "ppo.minibatches = 3|16 envs"},
        {{"ppo.minibatches=32"}, "ppo.minibatches = 32|16 envs"},
        {{"ppo.minibatches=16"}, NULL},
        {{"ppo.minibatches=3", "evaluate=true"}, NULL}, /* nothing learns */
        {{"ppo.minibatches=3", "policy.kind=static"}, NULL},
        {{"data.size=16"}, "data.size = 16|cifar10"},
        {{"data.size=16", "data.set=mnist"}, "data.size = 16|mnist images are 32x32"},
        {{"data.set=fashion", "data.batches=0", "steps=39046"}, "at most 2147483647"},
        {{"data.set=fashion", "data.batches=0", "steps=39045"}, NULL},
        {{"data.set=synthetic", "data.test_images=2001"}, "data.test_images = 2001|2000"},
        {{"data.set=synthetic", "data.test_images=2000", "data.val_images=2001"}, "data.val_images = 2001"},
        {{"data.set=synthetic", "data.test_images=2000", "data.val_images=2000"}, NULL},
        {{"data.set=synthetic", "data.test_images=2000", "data.final_images=2001"}, "data.final_images = 2001|2000"},
        {{"data.set=synthetic", "data.test_images=2000", "data.final_images=2000"}, NULL},
        {{"data.batch=4096", "data.batches=65535"}, "data.batches|at most 2147483647"},
        {{"data.batches=0", "steps=65535"}, "at most 2147483647"},
        {{"data.batches=0", "steps=40000"}, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct config c;
        struct esper_error error = {0};
        config_defaults(&c);
        for (int k = 0; k < 4 && cases[i].sets[k]; k++)
            assert_int_equal(config_set(&c, cases[i].sets[k], &error), ESPER_OK);
        enum esper_status status = config_check(&c, &error);
        if (status != (cases[i].says ? ESPER_INVALID : ESPER_OK))
            fail_msg("case %zu (%s ...): status %d, \"%s\"", i, cases[i].sets[0], (int)status, error.text);
        if (cases[i].says)
            assert_says(&error, cases[i].says);
    }
}

/* ---- tasks ------------------------------------------------------------------------------------------------------- */

static long parameters(const struct config *c)
{
    long sum = 0, in = 3;
    for (int i = 0; i < c->host_blocks; i++) {
        long out = (long)c->host_base << i;
        sum += (long)c->host_kernel * c->host_kernel * in * out + 2 * out;
        in = out;
    }
    return sum + 10 * in + 10;
}

/* The shipped tasks, written out a second time (D-31, E-17). */
static void shipped_tasks_are_those_of_the_table(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        long parameters;
        int pools, row0, row1, max_seeds, envs, steps, rounds, batch, batches, val, test;
    } tasks[] = {
        {"quickstart", 398, 3, 3, 0, 0, 8, 40, 60, 32, 8, 128, 1000},
        {"quick_mixed", 398, 3, 3, 0, 0, 8, 40, 60, 32, 8, 128, 1000},
        {"cifar_mixed", 6418, 3, 3, 0, 0, 64, 75, 70, 128, 24, 1000, 10000},
        {"cifar_baseline", 6418, 3, 3, 0, 0, 64, 150, 30, 128, 24, 1000, 10000},
        {"cifar_multichannel", 6418, 3, 3, 3, 3, 16, 150, 200, 128, 24, 1000, 10000},
        {"cifar_scale", 99922, 5, 5, 0, 3, 16, 150, 200, 128, 24, 1000, 10000},
        {"cifar_deep_multichannel", 99922, 5, 5, 5, 6, 16, 150, 200, 128, 24, 1000, 10000},
        {"cifar_postpool", 24346, 3, 0, 3, 2, 16, 150, 200, 128, 24, 1000, 10000},
        {"cifar_highres", 24346, 3, 3, 0, 2, 16, 150, 200, 128, 24, 1000, 10000},
        {"cifar_impaired", 77, 3, 3, 0, 0, 8, 150, 200, 128, 8, 500, 10000},
        {"cifar_minimal", 164, 0, 3, 0, 0, 8, 150, 200, 128, 8, 500, 10000},
        {"cifar_deep_impaired", 1140, 5, 5, 5, 6, 8, 150, 200, 128, 8, 500, 10000},
        {"cifar_pointwise", 398, 3, 3, 0, 0, 8, 150, 200, 128, 8, 500, 10000},
        {"fashion_baseline", 6418, 3, 3, 0, 0, 64, 150, 30, 128, 24, 1000, 10000},
        {"mnist_baseline", 6418, 3, 3, 0, 0, 64, 150, 30, 128, 24, 1000, 10000},
        {"images", 6418, 3, 3, 0, 0, 8, 40, 60, 32, 8, 128, 1000},
    };
    for (size_t i = 0; i < sizeof tasks / sizeof tasks[0]; i++) {
        struct config c;
        struct esper_error error = {0};
        config_defaults(&c);
        if (config_load_task(&c, tasks[i].name, &error) != ESPER_OK || config_check(&c, &error) != ESPER_OK)
            fail_msg("%s: %s", tasks[i].name, error.text);
        int rows[2] = {0, 0};
        for (int k = 0; k < c.slot_count; k++)
            rows[c.slots[k][1] - '0']++;
        assert_string_equal(c.task, tasks[i].name);
        assert_true(strlen(c.about) > 10);
        assert_int_equal(parameters(&c), tasks[i].parameters);
        assert_int_equal(c.host_pools, tasks[i].pools);
        assert_int_equal(rows[0], tasks[i].row0);
        assert_int_equal(rows[1], tasks[i].row1);
        assert_int_equal(c.max_seeds, tasks[i].max_seeds);
        assert_int_equal(c.envs, tasks[i].envs);
        assert_int_equal(c.steps, tasks[i].steps);
        assert_int_equal(c.rounds, tasks[i].rounds);
        assert_int_equal(c.data_batch, tasks[i].batch);
        assert_int_equal(c.data_batches, tasks[i].batches);
        assert_int_equal(c.data_val_images, tasks[i].val);
        assert_int_equal(c.data_test_images, tasks[i].test);
        assert_int_equal(c.data_set, strncmp(c.task, "quick", 5) == 0     ? DATA_SYNTHETIC
                                     : strncmp(c.task, "fashion", 7) == 0 ? DATA_FASHION
                                     : strncmp(c.task, "mnist", 5) == 0   ? DATA_MNIST
                                     : strcmp(c.task, "images") == 0      ? DATA_IMAGES
                                                                          : DATA_CIFAR10);
        const bool mixed = strstr(c.task, "mixed");
        assert_true((c.mixed.images_least < 1) == mixed && (c.mixed.label_noise > 0) == mixed);
        assert_true((c.mixed.lr_factor > 1) == mixed);
        assert_int_equal(c.data_size, c.data_set == DATA_SYNTHETIC ? 16 : 32);
    }
}

static void an_unknown_task_names_the_nearest(void **state)
{
    (void)state;
    struct config c;
    struct esper_error error;
    config_defaults(&c);
    assert_int_equal(config_load_task(&c, "cifar_baselin", &error), ESPER_INVALID);
    assert_says(&error, "unknown task|cifar_baselin|did you mean \"cifar_baseline\"");
    assert_int_equal(config_load_task(&c, "/nowhere/x.json", &error), ESPER_INVALID);
    assert_says(&error, "/nowhere/x.json");
    assert_int_equal(config_load_task(&c, file_of("t.json", "{\"task\": \"u\"}"), &error), ESPER_INVALID);
    assert_says(&error, "t.json|file name");
}

static void the_tasks_directory_can_be_chosen(void **state)
{
    (void)state;
    struct config c;
    struct esper_error error;
    file_of("quickstart.json", "{\"envs\": 5}");
    assert_int_equal(setenv("ESPER_TASKS", folder, 1), 0);
    config_defaults(&c);
    assert_int_equal(config_load_task(&c, "quickstart", &error), ESPER_OK);
    unsetenv("ESPER_TASKS");
    assert_int_equal(c.envs, 5);
    assert_int_equal(c.steps, 150);
}

/* A section is about one thing, and what may change in a run may also differ between runs that pair. */
static void sections_have_the_flags_of_their_subject(void **state)
{
    (void)state;
    static const struct {
        const char *start;
        bool pairs, reward;
    } sections[] = {{"host.", false, false},  {"mixed.", false, false},    {"gates.", false, false},
                    {"ppo.", true, false},    {"policy.", true, false},    {"governor.", false, false},
                    {"reward.", false, true}, {"checkpoint.", true, false}};
    for (int key = 0; key < config_key_count(); key++) {
        const char *name = config_key_name(key);
        assert_int_equal(config_key_find(name), key);
        assert_int_equal(config_key_is(key, KEY_TASK), strcmp(name, "task") == 0);
        assert_true(config_key_is(key, KEY_PAIRS) || !config_key_is(key, KEY_RESUMES));
        for (size_t i = 0; i < sizeof sections / sizeof sections[0]; i++)
            if (strncmp(name, sections[i].start, strlen(sections[i].start)) == 0) {
                assert_int_equal(config_key_is(key, KEY_PAIRS), sections[i].pairs);
                assert_int_equal(config_key_is(key, KEY_REWARD), sections[i].reward);
            }
    }
    assert_int_equal(config_key_find("host"), -1);
}

static void the_first_difference_that_matters_is_found(void **state)
{
    (void)state;
    struct config a, b;
    config_defaults(&a);
    b = a;
    assert_int_equal(config_difference(&a, &b, 0), -1);
    b.threads = 3;
    b.gamma = nextafter(a.gamma, 1);
    b.ppo.lr = 0.25;
    assert_int_equal(config_difference(&a, &b, 0), config_key_find("threads"));
    assert_int_equal(config_difference(&a, &b, KEY_RESUMES), config_key_find("gamma"));
    assert_int_equal(config_difference(&a, &b, KEY_RESUMES | KEY_REWARD), config_key_find("ppo.lr"));
    assert_int_equal(config_difference(&a, &b, KEY_PAIRS | KEY_REWARD), -1);
}

static int folder_make(void **state)
{
    (void)state;
    unsetenv("ESPER_TASKS");
    return mkdtemp(folder) ? 0 : -1;
}

static int folder_remove(void **state)
{
    (void)state;
    static const char *const names[] = {"little", "over", "first", "with_task", "second",
                                        "bad",    "seed", "t",     "quickstart"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char path[256];
        snprintf(path, sizeof path, "%s/%s.json", folder, names[i]);
        unlink(path);
    }
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_default_is_good_and_survives_a_round_trip),
        cmocka_unit_test(defaults_are_those_of_the_decisions),
        cmocka_unit_test(sections_have_the_flags_of_their_subject),
        cmocka_unit_test(the_first_difference_that_matters_is_found),
        cmocka_unit_test(the_cpu_has_one_precision),
        cmocka_unit_test(later_sources_win_and_are_remembered),
        cmocka_unit_test(a_file_may_name_its_task_but_a_chosen_one_stays),
        cmocka_unit_test(bad_files_get_one_line_that_helps),
        cmocka_unit_test(bad_assignments_get_one_line_that_helps),
        cmocka_unit_test(good_assignments_arrive_exactly),
        cmocka_unit_test(slots_are_kept_in_action_order),
        cmocka_unit_test(keys_that_contradict_each_other_are_refused),
        cmocka_unit_test(shipped_tasks_are_those_of_the_table),
        cmocka_unit_test(an_unknown_task_names_the_nearest),
        cmocka_unit_test(the_tasks_directory_can_be_chosen),
    };
    return cmocka_run_group_tests_name("config", tests, folder_make, folder_remove);
}
