/* esper compare: quantiles and intervals against known values, and whole comparisons of synthetic runs. */
#include <math.h>

#include "base/json.h"
#include "base/philox.h"
#include "cli/cli.h"
#include "telemetry/cohort.h"
#include "testing_runs.h"

static struct esper_error error;

/* ---- statistics -------------------------------------------------------------------------------------------------- */

static void quantiles(void **state)
{
    (void)state;
    /* From an integration of the density with 40 digits. */
    static const struct {
        double level, degrees, t;
    } known[] = {
        {0.95, 1, 12.706204736174705},   {0.95, 2, 4.3026527297494639},
        {0.95, 3, 3.1824463052837096},   {0.95, 4, 2.7764451051977944},
        {0.95, 10, 2.2281388519862747},  {0.95, 63, 1.9983405425207416},
        {0.95, 191, 1.9724619897672112}, {0.95, 1e6, 1.959966356814107},
        {0.99, 5, 4.0321429835552281},   {0.5, 1, 1.0},
        {0.999, 20, 3.8495162749308272},
    };
    for (int i = 0; i < (int)(sizeof known / sizeof known[0]); i++) {
        double t = student_quantile(known[i].level, known[i].degrees);
        if (!(fabs(t / known[i].t - 1) < (known[i].degrees > 1e5 ? 1e-8 : 1e-12)))
            fail_msg("level %g, %g degrees: %.17g, not %.17g", known[i].level, known[i].degrees, t, known[i].t);
    }
}

static void assert_near(double value, double wanted)
{
    if (!(fabs(value - wanted) <= 1e-9 * fmax(1, fabs(wanted))))
        fail_msg("%.17g, not %.17g", value, wanted);
}

static void assert_interval(const struct interval *interval, int count, double mean, double half)
{
    assert_int_equal(interval->count, count);
    assert_near(interval->mean, mean);
    assert_near(interval->low, mean - half);
    assert_near(interval->high, mean + half);
}

static void means(void **state)
{
    (void)state;
    const double values[] = {1, 2, NAN, 3, 4, 5}, equal[] = {7, 7, 7};
    struct interval interval = interval_of_mean(values, 6);
    assert_interval(&interval, 5, 3, 2.7764451051977944 * sqrt(0.5));
    interval = interval_of_mean(equal, 3);
    assert_interval(&interval, 3, 7, 0);
    interval = interval_of_mean(values, 1);
    assert_int_equal(interval.count, 1);
    assert_near(interval.mean, 1);
    assert_true(isnan(interval.low) && isnan(interval.high));
    interval = interval_of_mean(values + 2, 1);
    assert_int_equal(interval.count, 0);
    assert_true(isnan(interval.mean));
}

static void ratios(void **state)
{
    (void)state;
    const double x[] = {1, 0, 3, 4}, twice[] = {2, 0, 6, 8}, y[] = {3, 1, 5, 7}, none[] = {0, 0, 0, 0};
    struct interval interval = interval_of_ratio(twice, x, 4);
    assert_interval(&interval, 4, 2, 0);
    /* r = 16/8 = 2, residuals over the mean of x: (1, 1, -1, -1)/2; their squares sum to 1 */
    interval = interval_of_ratio(y, x, 4);
    assert_interval(&interval, 4, 2, 3.1824463052837096 * sqrt(1.0 / 3 / 4));
    interval = interval_of_ratio(y, none, 4);
    assert_true(isnan(interval.mean));
}

/* 95 % intervals contain the truth 95 times in 100: of five normals each, and of ratios. */
static void coverage(void **state)
{
    (void)state;
    enum { TRIALS = 4000 };
    int mean_holds = 0, ratio_holds = 0;
    for (uint32_t trial = 0; trial < TRIALS; trial++) {
        double x[40], y[40];
        for (uint32_t i = 0; i < 40; i++) {
            double normal[2];
            struct philox_block block = philox(7, i, trial, 0, 0);
            for (int j = 0; j < 2; j++)
                normal[j] = sqrt(-2 * log((block.word[2 * j] + 0.5) * 0x1p-32)) *
                            cos(6.283185307179586 * (block.word[2 * j + 1] * 0x1p-32));
            x[i] = 10 + normal[0];
            y[i] = 3 * x[i] + normal[1];
        }
        struct interval mean = interval_of_mean(x, 5), ratio = interval_of_ratio(y, x, 40);
        mean_holds += mean.low <= 10 && 10 <= mean.high;
        ratio_holds += ratio.low <= 3 && 3 <= ratio.high;
    }
    assert_in_range(mean_holds, TRIALS * 93.6 / 100, TRIALS * 96.4 / 100);
    assert_in_range(ratio_holds, TRIALS * 93.6 / 100, TRIALS * 96.4 / 100);
}

/* ---- synthetic runs ---------------------------------------------------------------------------------------------- */

/* Two rounds of four envs. Episode i (0 to 7) of `shift` s has test accuracy 30 + i + s*(i + 1). */
struct plan {
    const char *name, *sets[4];
    double shift;
    int added;
    int rounds; /* 0: two */
    bool training, unfinished;
};

static void make_run(const struct plan *plan)
{
    struct config config = sample_config();
    struct run run;
    struct store *store;
    config.evaluate = !plan->training;
    for (int i = 0; i < 4 && plan->sets[i]; i++)
        if (config_set(&config, plan->sets[i], &error) != ESPER_OK)
            fail_msg("%s", error.text);
    create_run(&run, plan->name, &config);
    assert_int_equal(store_open(&store, &run, &error), ESPER_OK);
    int rounds = plan->rounds ? plan->rounds : 2;
    for (int round = 0; round < rounds; round++) {
        struct record_row rows[5] = {{.kind = RECORD_ROUND}};
        int64_t number = round + (plan->training ? 0 : (int64_t)EVALUATION_ROUND);
        rows[0].record.round.round = number;
        for (int env = 0; env < 4; env++) {
            int i = 4 * round + env;
            rows[1 + env].kind = RECORD_OUTCOME;
            rows[1 + env].record.outcome = (struct outcome_record){
                .round = number,
                .env = env,
                .test_accuracy = 30 + i + plan->shift * (i + 1),
                .val_accuracy = i == 3 ? NAN : 40 + plan->shift,
                .reward = plan->shift,
                .host_params = 400,
                .added_params = env % 2 ? plan->added : 0,
                .fossilized = plan->added > 0,
                .pruned = i,
            };
        }
        assert_int_equal(store_write(store, rows, 5, &error), ESPER_OK);
    }
    store_close(store);
    assert_int_equal(run_set_status(&run, plan->unfinished ? RUN_RUNNING : RUN_FINISHED, 2, 0, &error), ESPER_OK);
    run_close(&run);
}

static int make_runs(void **state)
{
    if (folder_make(state) != 0)
        return -1;
    const struct plan plans[] = {
        {.name = "ppo1", .sets = {"seed=1", "ppo.lr=0.1", "checkpoint.keep=9"}, .shift = 1, .added = 500},
        {.name = "ppo2", .sets = {"seed=2"}, .shift = 2, .added = 500},
        {.name = "ppo3", .sets = {"seed=3"}, .shift = 6, .added = 500},
        {.name = "still1", .sets = {"seed=1", "policy.kind=static", "threads=3"}},
        {.name = "still2", .sets = {"seed=2", "policy.kind=static"}},
        {.name = "still3", .sets = {"seed=3", "policy.kind=static", "rounds=1"}, .rounds = 1},
        {.name = "random1", .sets = {"seed=1", "policy.kind=random"}, .added = 100, .unfinished = true},
        {.name = "basic1", .sets = {"seed=1", "reward.mode=basic"}, .shift = 3},
        {.name = "long1", .sets = {"seed=1", "steps=99"}},
        {.name = "trained1", .sets = {"seed=1"}, .training = true},
        {.name = "trained1b", .sets = {"seed=1"}, .training = true, .shift = 1},
    };
    for (int i = 0; i < (int)(sizeof plans / sizeof plans[0]); i++)
        make_run(&plans[i]);
    return 0;
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

static char output[65536], complaint[4096];

static int run_command(const void *context)
{
    char *const *words = context;
    char *argv[16] = {"compare", "--runs", folder};
    int argc = 3;
    for (; words[argc - 3]; argc++)
        argv[argc] = words[argc - 3];
    if (!freopen(in_folder("stdout"), "w", stdout) || !freopen(in_folder("stderr"), "w", stderr))
        return 99;
    int code = cli_command(argc, argv, &compare_page);
    fflush(NULL);
    return code;
}

static void slurp(const char *name, char *text, size_t size)
{
    FILE *file = fopen(in_folder(name), "r");
    assert_non_null(file);
    text[fread(text, 1, size - 1, file)] = '\0';
    fclose(file);
    unlink(in_folder(name));
}

#define compare(...) compare_words((char *[]){__VA_ARGS__, NULL})

static int compare_words(char *const words[])
{
    int code = exit_code(start_child(run_command, words));
    slurp("stdout", output, sizeof output);
    slurp("stderr", complaint, sizeof complaint);
    return code;
}

static cJSON *compare_json(int code)
{
    cJSON *result = NULL;
    if (code != 0)
        fail_msg("%s", complaint);
    assert_string_equal(complaint, "");
    assert_int_equal(json_parse(output, strlen(output), &result, &error), ESPER_OK);
    return result;
}

/* The value at a path such as "comparisons.0.differences.reward.episodes". */
static const cJSON *find(const cJSON *at, const char *path)
{
    while (*path) {
        char part[64];
        size_t span = strcspn(path, ".");
        snprintf(part, sizeof part, "%.*s", (int)span, path);
        at = cJSON_IsArray(at) ? cJSON_GetArrayItem(at, atoi(part)) : json_find(at, part);
        if (!at)
            return NULL;
        path += span + (path[span] == '.');
    }
    return at;
}

static void assert_json_interval(const cJSON *root, const char *path, int count, double mean, double half)
{
    const cJSON *at = find(root, path);
    if (!at)
        fail_msg("no %s", path);
    struct interval interval = {json_find(at, "count")->valueint, json_find(at, "mean")->valuedouble,
                                json_find(at, "low")->valuedouble, json_find(at, "high")->valuedouble};
    assert_interval(&interval, count, mean, half);
}

#define T7 2.3646242515927849

static void one_seed(void **state)
{
    (void)state;
    cJSON *root = compare_json(compare("--json", "ppo1", "still1"));
    /* differences 1..8: mean 4.5, variance 6 */
    assert_json_interval(root, "comparisons.0.differences.test_accuracy.episodes", 8, 4.5, T7 * sqrt(6.0 / 8));
    assert_json_interval(root, "comparisons.0.differences.val_accuracy.episodes", 7, 1, 0); /* one was not measured */
    assert_json_interval(root, "comparisons.0.differences.reward.episodes", 8, 1, 0);
    /* 0 and 500 alternating: mean 250, variance 8*250^2/7 */
    assert_json_interval(root, "comparisons.0.differences.added_params.episodes", 8, 250, T7 * 250 / sqrt(7));
    assert_json_interval(root, "comparisons.0.differences.fossilized.episodes", 8, 1, 0);
    assert_json_interval(root, "comparisons.0.differences.pruned.episodes", 8, 0, 0);
    assert_int_equal(find(root, "comparisons.0.pairs")->valueint, 8);
    assert_true(cJSON_IsNull(find(root, "comparisons.0.differences.reward.seeds.low"))); /* one seed has no spread */
    /* means: 30 + 3.5 + 4.5 */
    assert_near(find(root, "cohorts.0.means.test_accuracy.mean")->valuedouble, 38);
    assert_near(find(root, "cohorts.1.means.test_accuracy.mean")->valuedouble, 33.5);
    assert_near(find(root, "cohorts.1.means.accuracy_per_1000.mean")->valuedouble, 33.5 / 0.4);
    assert_string_equal(find(root, "cohorts.0.policy")->valuestring, "ppo");
    /* 36 points for 4 x 500 parameters; only the linearised interval needs a formula */
    double squares = 0;
    for (int i = 0; i < 8; i++) {
        double residual = (i + 1 - 18 * (i % 2 ? 0.5 : 0)) / 0.25;
        squares += residual * residual;
    }
    assert_json_interval(root, "cohorts.0.gain_per_1000_added", 8, 18, T7 * sqrt(squares / 7 / 8));
    assert_null(find(root, "cohorts.1.gain_per_1000_added"));
    cJSON_Delete(root);
}

/* Every line fits a terminal of 80 columns, and has no trailing spaces. */
static void assert_readable(void)
{
    for (char *line = output; *line; line += strcspn(line, "\n") + 1) {
        size_t length = strcspn(line, "\n");
        if (length > 80 || (length && line[length - 1] == ' '))
            fail_msg("\"%.*s\" has %zu bytes", (int)length, line, length);
    }
}

static void several_seeds(void **state)
{
    (void)state;
    cJSON *root = compare_json(compare("--json", "ppo1,ppo2,ppo3", "still3,still2,still1"));
    /* seed 3 has one round on the other side: means 4.5, 9 and 6*2.5 */
    assert_int_equal(find(root, "comparisons.0.pairs")->valueint, 20);
    assert_int_equal(find(root, "comparisons.0.seeds")->valueint, 3);
    assert_json_interval(root, "comparisons.0.differences.test_accuracy.seeds", 3, 9.5,
                         4.3026527297494639 * sqrt((25 + 0.25 + 30.25) / 2 / 3));
    assert_near(find(root, "comparisons.0.differences.test_accuracy.episodes.mean")->valuedouble,
                (36 + 72 + 60) / 20.0);
    assert_int_equal(find(root, "cohorts.0.episodes")->valueint, 24);
    assert_string_equal(find(root, "cohorts.1.runs.2.seed")->valuestring, "1");
    cJSON_Delete(root);

    assert_int_equal(compare("ppo1,ppo2,ppo3", "still3,still2,still1"), 0);
    assert_non_null(strstr(output, "20 paired episodes of 3 seeds (4 unpaired)"));
    assert_non_null(strstr(output, "95 % over seeds"));
    assert_readable();
}

static void tables(void **state)
{
    (void)state;
    assert_int_equal(compare("ppo1", "still1", "random1", "basic1"), 0);
    assert_string_equal(complaint, "");
    assert_readable();
    static const char *const says[] = {
        "A  ppo",
        "random1 (crashed)",
        "A - B: ppo minus static, 8 paired episodes\n",
        "A - C: ppo minus random",
        "+4.50  [+2.45, +6.55]",
        "rewards are not compared: reward.mode differs",
        "gained over B (static)",
        "C  random",
    };
    for (int i = 0; i < (int)(sizeof says / sizeof says[0]); i++)
        if (!strstr(output, says[i]))
            fail_msg("\"%s\" is not in\n%s", says[i], output);

    assert_int_equal(compare("ppo1,ppo2", "still1,still2"), 0);
    assert_readable();
    assert_int_equal(compare("--metric", "pruned", "ppo1", "still1"), 0);
    assert_non_null(strstr(output, "seeds pruned"));
    assert_null(strstr(output, "test accuracy"));
    assert_int_equal(compare("--metric", "gain_per_1000_added", "ppo1", "still1"), 0);
    assert_non_null(strstr(output, "+18.000"));
    assert_int_equal(compare("trained1b", "trained1"), 0);
    assert_non_null(strstr(output, "Training episodes"));
    assert_readable();
}

static void nothing_added(void **state)
{
    (void)state;
    assert_int_equal(compare("basic1", "still1"), 0);
    assert_non_null(strstr(output, "nothing was added"));
    cJSON *root = compare_json(compare("--json", "basic1", "still1"));
    assert_true(cJSON_IsNull(find(root, "cohorts.0.gain_per_1000_added.mean")));
    assert_null(find(root, "comparisons.0.differences.reward"));
    assert_string_equal(find(root, "comparisons.0.rewards_differ_in")->valuestring, "reward.mode");
    cJSON_Delete(root);
}

/* Exit code 2, one line that says it, nothing on stdout. */
static void refuse(char *const words[], const char *says)
{
    int code = compare_words(words);
    size_t length = strlen(complaint);
    if (code != 2 || *output || !strstr(complaint, says) || length == 0 ||
        strchr(complaint, '\n') != complaint + length - 1)
        fail_msg("exit code %d, \"%s\" does not say \"%s\"", code, complaint, says);
}

#define refused(says, ...) refuse((char *[]){__VA_ARGS__, NULL}, says)

static void refusals(void **state)
{
    (void)state;
    refused("give two runs or more", "ppo1");
    refused("do not pair: steps is 150 and 99", "ppo1", "long1");
    refused("do not pair: evaluate is true and false; compare the `esper eval` runs", "ppo1", "trained1");
    refused("share no episodes: seed 1, rounds 1 to 2, and seed 2", "ppo1", "still2");
    refused("no run \"ppo\" in", "ppo", "still1");
    refused("both have seed 1", "ppo1,basic1", "still1");
    refused("ppo2 is ppo but", "still1,ppo2", "still1");
    refused("name of a run is empty", "ppo1,,ppo2", "still1");
    refused("name of a run is empty", "ppo1,", "still1");
    refused("--metric accuracy is unknown; did you mean \"val_accuracy\"?", "--metric", "accuracy", "ppo1", "still1");
    refused("name such a run as well", "--metric", "gain_per_1000_added", "ppo1", "random1");
    refused("unknown option --jsn", "--jsn", "ppo1", "still1");

    char path[PATH_MAX];
    struct config config = sample_config();
    struct run run;
    create_run(&run, "fresh", &config);
    run_close(&run);
    refused("no record yet", "ppo1", "fresh");
    snprintf(path, sizeof path, "%s", in_folder("fresh/telemetry.db"));
    put_file(path,
             "rubbish, and more than a header's worth of it, so that SQLite looks inside: "
             "0123456789012345678901234567890123456789",
             116);
    refused("not an SQLite database", "fresh", "ppo1");
    unlink(path);
    struct store *store;
    assert_int_equal(store_open(&store, &run, &error), ESPER_OK);
    store_close(store);
    refused("no finished episode yet (it is crashed)", "ppo1", "fresh");
    refused("give the run's directory", "ppo1", path);
}

/* A record may say anything about parameters. */
static void huge_networks(void **state)
{
    (void)state;
    const struct outcome_record outcome = {.test_accuracy = 50, .host_params = INT64_MAX, .added_params = INT64_MAX};
    assert_true(metric_value(METRIC_ACCURACY_PER_1000, &outcome) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quantiles),     cmocka_unit_test(means),         cmocka_unit_test(ratios),
        cmocka_unit_test(coverage),      cmocka_unit_test(one_seed),      cmocka_unit_test(several_seeds),
        cmocka_unit_test(tables),        cmocka_unit_test(nothing_added), cmocka_unit_test(refusals),
        cmocka_unit_test(huge_networks),
    };
    return cmocka_run_group_tests(tests, make_runs, folder_clear);
}
