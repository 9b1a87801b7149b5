/* The library as a program uses it (esper.h): order of calls, sizes, actions; the bits of `esper eval`; save and
 * resume. */
#include "session/export.h"
#include "testing_api.h"

static struct esper_error wrong;

#define REFUSED(with, word, call)                                                                                      \
    do {                                                                                                               \
        assert_int_equal(call, with);                                                                                  \
        assert_int_equal(wrong.status, with);                                                                          \
        assert_says(&wrong, word);                                                                                     \
    } while (0)

/* ---- order, sizes, actions --------------------------------------------------------------------------------------- */

/* Episodes from beginning to end; what was told step by step is what the outcomes say. */
static void test_episodes(void **state)
{
    (void)state;
    struct esper_env *env = open_small();
    struct esper_env_info info;
    struct esper_outcome outcome[ENVS];
    uint32_t dice = 1, born = 0;
    WORKS(esper_env_describe(env, &info, &failed));
    assert_int_equal(info.steps, 12);
    assert_string_equal(esper_env_slot_name(env, 0), "r0c0");
    assert_null(esper_env_slot_name(env, info.slots));
    assert_string_equal(esper_env_blueprint_name(env, 0), "noop");
    assert_null(esper_env_blueprint_name(env, 4000));
    for (uint32_t episode = 0; episode < 3; episode++) {
        double reward[ENVS] = {0};
        WORKS(esper_env_reset(env, &failed));
        born += (uint32_t)play(env, &dice, 12, reward);
        WORKS(esper_env_outcomes(env, outcome, ENVS, &failed));
        for (uint32_t e = 0; e < ENVS; e++) {
            assert_int_equal(outcome[e].episode, episode);
            assert_int_equal(outcome[e].env, e);
            assert_true(outcome[e].reward == reward[e]);
            born -= outcome[e].germinated;
        }
    }
    assert_int_equal(born, 0);
    esper_env_close(&env);
    assert_null(env);
    esper_env_close(&env);
}

static void test_order(void **state)
{
    (void)state;
    struct esper_env *env = open_small();
    struct esper_env_info info;
    struct esper_outcome outcome[ENVS];
    uint8_t waits[ACTIONS] = {0};
    float seen[ENVS * 512], again[ENVS * 512], last[ENVS * 512];
    int8_t grown[ENVS * 16];
    WORKS(esper_env_describe(env, &info, &failed));
    const size_t features = ENVS * info.features;
    REFUSED(ESPER_INVALID, "esper_env_reset", esper_env_observe(env, seen, features, &wrong));
    REFUSED(ESPER_INVALID, "esper_env_reset", esper_env_step(env, waits, ACTIONS, NULL, 0, &wrong));
    REFUSED(ESPER_INVALID, "esper_env_reset", esper_env_save(env, in_folder("early.ckpt"), &wrong));
    WORKS(esper_env_reset(env, &failed));
    REFUSED(ESPER_INVALID, "not over", esper_env_outcomes(env, outcome, ENVS, &wrong));
    WORKS(esper_env_observe(env, seen, features, &failed));
    WORKS(esper_env_observe(env, again, features, &failed));
    assert_memory_equal(seen, again, sizeof(float) * features);
    REFUSED(ESPER_INVALID, "a step has begun", esper_env_save(env, in_folder("late.ckpt"), &wrong));
    for (uint32_t i = 1; i < info.steps; i++)
        WORKS(esper_env_step(env, waits, ACTIONS, NULL, 0, &failed)); /* without a look */
    WORKS(esper_env_observe(env, last, features, &failed));
    WORKS(esper_env_step(env, waits, ACTIONS, NULL, 0, &failed));
    WORKS(esper_env_blueprints(env, grown, ENVS * info.slots, &failed));
    assert_true(grown[0] == -1 && grown[ENVS * info.slots - 1] == -1);
    WORKS(esper_env_observe(env, again, features, &failed)); /* what there was to see before it ended */
    assert_memory_equal(last, again, sizeof(float) * features);
    REFUSED(ESPER_INVALID, "is over", esper_env_step(env, waits, ACTIONS, NULL, 0, &wrong));
    REFUSED(ESPER_INVALID, "is over", esper_env_masks(env, NULL, 0, NULL, 0, &wrong));
    REFUSED(ESPER_INVALID, "no episode", esper_env_save(env, in_folder("late.ckpt"), &wrong));
    WORKS(esper_env_outcomes(env, outcome, ENVS, &failed));
    REFUSED(ESPER_INVALID, "episode 8388608", esper_env_reset_to(env, 1u << 23, &wrong));
    WORKS(esper_env_reset_to(env, 0, &failed)); /* the same again */
    WORKS(esper_env_observe(env, again, features, &failed));
    assert_memory_equal(seen, again, sizeof(float) * features);
    esper_env_close(&env);
}

static void test_openings(void **state)
{
    (void)state;
    struct esper_env *env = NULL;
    struct esper_policy *policy = NULL;
    struct esper_network *network = NULL;
    const char *set = NULL;
    REFUSED(ESPER_INVALID, "unknown task", esper_env_open(&env, "quikstart", NULL, 0, &wrong));
    REFUSED(ESPER_INVALID, "what to open is NULL", esper_env_open(&env, NULL, NULL, 0, &wrong));
    REFUSED(ESPER_INVALID, "out is NULL", esper_env_open(NULL, "quickstart", NULL, 0, &wrong));
    REFUSED(ESPER_INVALID, "sets is NULL", esper_env_open(&env, "quickstart", NULL, 1, &wrong));
    REFUSED(ESPER_INVALID, "number 0 is NULL", esper_env_open(&env, "quickstart", &set, 1, &wrong));
    set = "evns=3";
    REFUSED(ESPER_INVALID, "envs", esper_env_open(&env, "quickstart", &set, 1, &wrong));
    set = "policy.kind=random";
    REFUSED(ESPER_INVALID, "decides", esper_env_open(&env, "quickstart", &set, 1, &wrong));
    set = "device=cuda:7";
    REFUSED(ESPER_UNSUPPORTED, "cuda", esper_env_open(&env, "quickstart", &set, 1, &wrong));
    REFUSED(ESPER_INVALID, "cannot open", esper_env_open_run(&env, "/nowhere/run", NULL, 0, &wrong));
    REFUSED(ESPER_INVALID, "/nowhere/x.ckpt", esper_env_resume(&env, "/nowhere/x.ckpt", &wrong));
    REFUSED(ESPER_INVALID, "cannot open", esper_policy_open(&policy, "/nowhere/run", &wrong));
    REFUSED(ESPER_INVALID, "what to open is NULL", esper_policy_open(&policy, NULL, &wrong));
    REFUSED(ESPER_INVALID, "/nowhere/x.onnx", esper_network_open(&network, "/nowhere/x.onnx", &wrong));
    assert_true(!env && !policy && !network);
    put_file(in_folder("junk.ckpt"), "junk", 4);
    REFUSED(ESPER_INVALID, "junk.ckpt", esper_policy_open(&policy, in_folder("junk.ckpt"), &wrong));
    REFUSED(ESPER_INVALID, "junk.ckpt", esper_env_resume(&env, in_folder("junk.ckpt"), &wrong));
    REFUSED(ESPER_INVALID, "junk.ckpt", esper_network_open(&network, in_folder("junk.ckpt"), &wrong));
    assert_true(!env && !policy && !network);
    assert_int_equal(esper_env_open(&env, "nothing", NULL, 0, NULL), ESPER_INVALID); /* nobody wants to know why */
}

/* What the masks do not allow is refused by env, head and value, and nothing happens. */
static void test_wrong_actions(void **state)
{
    (void)state;
    struct esper_env *env = open_small();
    struct esper_step step[ENVS];
    uint8_t actions[ACTIONS] = {0}, *second = actions + ESPER_HEADS, allowed[ENVS];
    uint32_t dice = 3;
    WORKS(esper_env_reset(env, &failed));
    REFUSED(ESPER_INVALID, "has 15 elements; 16", esper_env_step(env, actions, ACTIONS - 1, NULL, 0, &wrong));
    REFUSED(ESPER_INVALID, "is NULL", esper_env_step(env, NULL, ACTIONS, NULL, 0, &wrong));
    REFUSED(ESPER_INVALID, "out [envs]: has 1", esper_env_step(env, actions, ACTIONS, step, 1, &wrong));
    second[ESPER_HEAD_OP] = ESPER_OP_FOSSILIZE;
    REFUSED(ESPER_INVALID, "env 1: op = 4 (fossilize)", esper_env_step(env, actions, ACTIONS, NULL, 0, &wrong));
    second[ESPER_HEAD_OP] = 77;
    REFUSED(ESPER_INVALID, "env 1: op = 77", esper_env_step(env, actions, ACTIONS, NULL, 0, &wrong));
    second[ESPER_HEAD_OP] = ESPER_OP_GERMINATE;
    second[ESPER_HEAD_BLUEPRINT] = 0;
    REFUSED(ESPER_INVALID, "env 1: blueprint = 0", esper_env_step(env, actions, ACTIONS, NULL, 0, &wrong));
    second[ESPER_HEAD_BLUEPRINT] = 1;
    second[ESPER_HEAD_SLOT] = 9;
    REFUSED(ESPER_INVALID, "env 1: slot = 9", esper_env_step(env, actions, ACTIONS, NULL, 0, &wrong));
    second[ESPER_HEAD_SLOT] = 255;
    REFUSED(ESPER_INVALID, "env 1: slot = 255", esper_env_step(env, actions, ACTIONS, NULL, 0, &wrong));
    WORKS(esper_env_allowed(env, actions, ACTIONS, allowed, ENVS, &failed));
    assert_true(allowed[0] == 1 && allowed[1] == 0);
    REFUSED(ESPER_INVALID, "allowed [envs]: has 1", esper_env_allowed(env, actions, ACTIONS, allowed, 1, &wrong));
    REFUSED(ESPER_INVALID, "actions [envs][heads]: has 3", esper_env_allowed(env, actions, 3, allowed, ENVS, &wrong));
    random_actions(env, &dice, actions); /* still the first step */
    WORKS(esper_env_allowed(env, actions, ACTIONS, allowed, ENVS, &failed));
    assert_true(allowed[0] == 1 && allowed[1] == 1);
    memset(actions, 0, sizeof actions);
    actions[ESPER_HEAD_OP] = ESPER_OP_GERMINATE;
    actions[ESPER_HEAD_BLUEPRINT] = 7;
    actions[ESPER_HEAD_SLOT] = 1;
    WORKS(esper_env_step(env, actions, ACTIONS, step, ENVS, &failed));
    assert_false(step[0].ended);
    int8_t grown[ENVS * 3];
    REFUSED(ESPER_INVALID, "has 2 elements; 6", esper_env_blueprints(env, grown, 2, &wrong));
    WORKS(esper_env_blueprints(env, grown, ENVS * 3, &failed));
    assert_true(grown[0] == -1 && grown[1] == 7 && grown[2] == -1 && grown[4] == -1);
    esper_env_close(&env);
}

static void test_abi(void **state)
{
    (void)state;
    const struct esper_abi here = ESPER_ABI_HERE;
    struct esper_abi own, other = here;
    esper_abi_get(&own);
    esper_abi_get(NULL);
    assert_memory_equal(&own, &here, sizeof own);
    WORKS(esper_abi_check(&here, &failed));
    other.step += 8;
    REFUSED(ESPER_UNSUPPORTED, "struct esper_step has", esper_abi_check(&other, &wrong));
    other = here;
    other.abi++;
    REFUSED(ESPER_UNSUPPORTED, "interface 2", esper_abi_check(&other, &wrong));
    REFUSED(ESPER_INVALID, "ESPER_ABI_HERE", esper_abi_check(NULL, &wrong));
    /* Whoever changes a struct changes ESPER_ABI, and these numbers. */
    assert_int_equal(ESPER_ABI, 1);
    assert_int_equal(own.error, 516);
    assert_int_equal(own.env_info, 52);
    assert_int_equal(own.step, 200);
    assert_int_equal(own.outcome, 120);
    assert_int_equal(own.network_info, 532);
    assert_non_null(strstr(esper_version(), ESPER_VERSION " ("));
    assert_string_equal(esper_head_name(ESPER_HEAD_OP), "op");
    assert_string_equal(esper_op_name(ESPER_OP_PRUNE), "prune");
    assert_string_equal(esper_component_name(0), "attribution");
    assert_true(esper_op_uses(ESPER_OP_GERMINATE, ESPER_HEAD_BLUEPRINT) && esper_op_uses(ESPER_OP_WAIT, ESPER_HEAD_OP));
    assert_true(!esper_op_uses(ESPER_OP_WAIT, ESPER_HEAD_SLOT) && !esper_op_uses(ESPER_OPS, ESPER_HEAD_OP) &&
                !esper_op_uses(ESPER_OP_WAIT, ESPER_HEADS));
    assert_true(!esper_head_name(ESPER_HEADS) && !esper_op_name(ESPER_OPS) && !esper_component_name(ESPER_COMPONENTS));
}

/* ---- the bits of eval -------------------------------------------------------------------------------------------- */

/* Its evaluation, as `esper eval` plays it. */
static void evaluate(void)
{
    struct config config = learn();
    struct esper_error error = {0};
    config.evaluate = true;
    config.group = 1;
    assert_int_equal(config_set_value(&config, "policy.from", in_folder("learned"), ORIGIN_FLAG, &error), ESPER_OK);
    run_whole(&config, "sampled");
    config.policy.greedy = true;
    run_whole(&config, "greedy");
}

static void compare_outcome(struct store *store, const struct esper_outcome *outcome)
{
#define SAME(column, member)                                                                                           \
    assert_true(number(store, "SELECT " column " FROM outcome WHERE round = %u AND env = %u",                          \
                       (1u << 23) + outcome->episode, outcome->env) == (double)outcome->member)
    SAME("val_accuracy", val_score);
    SAME("test_accuracy", test_score);
    SAME("val_loss", val_loss);
    SAME("reward", reward);
    SAME("stability", stability);
    SAME("train_work", train_work);
    SAME("added_params", added_params);
    SAME("germinated", germinated);
    SAME("fossilized", fossilized);
    SAME("pruned", pruned);
    SAME("rollbacks", rollbacks);
    SAME("live", live);
#undef SAME
}

static void same_as(const char *name, bool greedy)
{
    struct esper_env *env = NULL;
    struct esper_policy *policy = NULL;
    struct esper_env_info info;
    struct esper_outcome outcome[ENVS];
    uint8_t actions[ACTIONS], again[ACTIONS];
    struct store *store = record_of(name);
    uint32_t rollbacks = 0, germinated = 0;
    WORKS(esper_env_open_run(&env, in_folder("learned"), NULL, 0, &failed));
    WORKS(esper_policy_open(&policy, in_folder("learned"), &failed));
    WORKS(esper_env_describe(env, &info, &failed));
    for (int episode = 0; episode < 2; episode++) {
        WORKS(esper_env_reset(env, &failed));
        for (uint32_t step = 0; step < info.steps; step++) {
            WORKS(esper_policy_act(policy, env, greedy, actions, ACTIONS, &failed));
            WORKS(esper_policy_act(policy, env, greedy, again, ACTIONS, &failed)); /* from the same memory */
            assert_memory_equal(actions, again, ACTIONS);
            WORKS(esper_env_step(env, actions, ACTIONS, NULL, 0, &failed));
        }
        WORKS(esper_env_outcomes(env, outcome, ENVS, &failed));
        for (int e = 0; e < ENVS; e++) {
            compare_outcome(store, &outcome[e]);
            rollbacks += outcome[e].rollbacks;
            germinated += outcome[e].germinated;
        }
    }
    print_message("%s: %u germinations, %u rollbacks\n", name, germinated, rollbacks);
    assert_true(germinated > 0 && rollbacks > 0); /* there was something to get wrong */
    store_close(store);
    esper_policy_close(&policy);
    esper_policy_close(&policy);
    esper_env_close(&env);
}

static void test_same_as_eval(void **state)
{
    (void)state;
    evaluate();
    same_as("sampled", false);
    same_as("greedy", true);
}

/* A policy serves environments of its own shape, of any number of envs, one after the other. */
static void test_policies(void **state)
{
    (void)state;
    static const char *const more[] = {"envs=3"}, *const fewer_slots[] = {"slots=r0c0"};
    struct esper_env *two = NULL, *three = NULL, *other = NULL, *none = NULL;
    struct esper_policy *policy = NULL;
    uint8_t first[ACTIONS], again[ACTIONS], actions[3 * ESPER_HEADS];
    struct checkpoint_info info;
    assert_int_equal(checkpoint_newest(in_folder("learned/checkpoints"), &info, NULL, &wrong), ESPER_OK);
    WORKS(esper_policy_open(&policy, info.path, &failed)); /* the file alone */
    WORKS(esper_env_open_run(&two, in_folder("learned"), NULL, 0, &failed));
    WORKS(esper_env_open_run(&three, in_folder("learned"), more, 1, &failed));
    WORKS(esper_env_open_run(&other, in_folder("learned"), fewer_slots, 1, &failed));
    REFUSED(ESPER_INVALID, "esper_env_reset", esper_policy_act(policy, two, 0, first, ACTIONS, &wrong));
    WORKS(esper_env_reset(two, &failed));
    WORKS(esper_env_reset(three, &failed));
    WORKS(esper_env_reset(other, &failed));
    REFUSED(ESPER_INVALID, "slots", esper_policy_act(policy, other, 0, first, ACTIONS, &wrong));
    REFUSED(ESPER_INVALID, "has 16 elements; 24", esper_policy_act(policy, three, 0, actions, ACTIONS, &wrong));
    REFUSED(ESPER_INVALID, "handle is NULL", esper_policy_act(policy, NULL, 0, first, ACTIONS, &wrong));
    REFUSED(ESPER_INVALID, "handle is NULL", esper_policy_act(NULL, two, 0, first, ACTIONS, &wrong));
    WORKS(esper_policy_act(policy, two, 0, first, ACTIONS, &failed));
    WORKS(esper_policy_act(policy, three, 0, actions, sizeof actions, &failed));
    assert_memory_equal(first, actions, ACTIONS); /* an env does not depend on its neighbours */
    WORKS(esper_policy_act(policy, two, 0, again, ACTIONS, &failed));
    assert_memory_equal(first, again, ACTIONS);
    REFUSED(ESPER_INVALID, "esper_env_save", esper_env_resume(&none, info.path, &wrong));
    esper_policy_close(&policy);
    esper_env_close(&two);
    esper_env_close(&three);
    esper_env_close(&other);
}

/* The best network of a run: the same logits as the trainer's own kernels give. */
static void test_networks(void **state)
{
    (void)state;
    struct esper_network *network = NULL;
    struct esper_network_info info;
    struct network own = {0};
    enum { IMAGES = 70, BYTES = 16 * 16 * 3, LOGITS = 10 * IMAGES }; /* more than a batch */
    uint8_t *images = memory_alloc(IMAGES, BYTES, NULL);
    float logits[LOGITS], expected[LOGITS];
    uint32_t dice = 5;
    for (int i = 0; i < IMAGES * BYTES; i++)
        images[i] = (uint8_t)roll(&dice, 256);
    WORKS(esper_network_open(&network, in_folder("learned"), &failed));
    WORKS(esper_network_describe(network, &info, &failed));
    assert_true(!info.text && info.bytes == BYTES && info.targets == 1 && info.classes == 10);
    assert_non_null(strstr(info.source, "learned"));
    WORKS(esper_network_infer(network, images, IMAGES * BYTES, logits, LOGITS, &failed));
    WORKS(export_open(folder, "learned", IMAGES, &own, &failed));
    network_logits(&own, images, IMAGES, expected);
    assert_memory_equal(logits, expected, sizeof logits);
    WORKS(esper_network_infer(network, images, 0, logits, 0, &failed));
    REFUSED(ESPER_INVALID, "not whole", esper_network_infer(network, images, BYTES + 1, logits, LOGITS, &wrong));
    REFUSED(ESPER_INVALID, "has 9 elements; 10", esper_network_infer(network, images, BYTES, logits, 9, &wrong));
    REFUSED(ESPER_INVALID, "NULL", esper_network_infer(network, NULL, BYTES, logits, 10, &wrong));
    REFUSED(ESPER_INVALID, "out is NULL", esper_network_describe(network, NULL, &wrong));
    network_close(&own);
    esper_network_close(&network);
    esper_network_close(&network);
    memory_free(images);
}

/* ---- save and resume --------------------------------------------------------------------------------------------- */

static void test_resume(void **state)
{
    (void)state;
    struct esper_env *env = open_small(), *other = NULL;
    struct esper_outcome outcome[ENVS], resumed[ENVS];
    double reward[ENVS] = {0};
    uint32_t dice = 7;
    WORKS(esper_env_reset_to(env, 4, &failed));
    play(env, &dice, 7, reward);
    WORKS(esper_env_save(env, in_folder("middle.ckpt"), &failed));
    uint32_t same = dice;
    play(env, &dice, 5, reward);
    WORKS(esper_env_outcomes(env, outcome, ENVS, &failed));
    WORKS(esper_env_resume(&other, in_folder("middle.ckpt"), &failed));
    play(other, &same, 5, reward);
    WORKS(esper_env_outcomes(other, resumed, ENVS, &failed));
    for (int e = 0; e < ENVS; e++) {
        assert_int_equal(outcome[e].episode, 4);
        assert_true(resumed[e].reward == outcome[e].reward && resumed[e].val_loss == outcome[e].val_loss &&
                    resumed[e].test_score == outcome[e].test_score && resumed[e].live == outcome[e].live &&
                    resumed[e].episode == 4);
    }
    WORKS(esper_env_reset(env, &failed)); /* and the episode after that one */
    WORKS(esper_env_reset(other, &failed));
    WORKS(esper_env_save(env, in_folder("a.ckpt"), &failed));
    WORKS(esper_env_save(other, in_folder("b.ckpt"), &failed));
    struct checkpoint_info a, b;
    assert_int_equal(checkpoint_peek(in_folder("a.ckpt"), &a, NULL, NULL), ESPER_OK);
    assert_int_equal(checkpoint_peek(in_folder("b.ckpt"), &b, NULL, NULL), ESPER_OK);
    assert_true(a.round == 5 && a.hash == b.hash);
    esper_env_close(&env);
    esper_env_close(&other);
}

/* Where rewards are relative to a twin, it is played first, also after a resume; the rewards add up to the gain. */
static void test_twins(void **state)
{
    (void)state;
    const char *sets[SMALL];
    struct esper_env *env = NULL, *early = NULL, *middle = NULL;
    struct esper_outcome outcome[ENVS], resumed[ENVS];
    double reward[ENVS] = {0}, ignored[ENVS] = {0};
    uint32_t dice = 9, first = 9;
    memcpy(sets, small, sizeof sets);
    sets[SMALL_REWARD] = "reward.mode=gain";
    WORKS(esper_env_open(&env, "quickstart", sets, SMALL, &failed));
    WORKS(esper_env_reset(env, &failed));
    WORKS(esper_env_save(env, in_folder("early.ckpt"), &failed));
    play(env, &dice, 5, reward);
    WORKS(esper_env_save(env, in_folder("middle.ckpt"), &failed));
    uint32_t second = dice;
    play(env, &dice, 7, reward);
    WORKS(esper_env_outcomes(env, outcome, ENVS, &failed));
    for (int e = 0; e < ENVS; e++) {
        assert_true(isfinite(outcome[e].twin_score) && outcome[e].gain == reward[e]);
    }
    WORKS(esper_env_resume(&early, in_folder("early.ckpt"), &failed));
    WORKS(esper_env_resume(&middle, in_folder("middle.ckpt"), &failed));
    play(early, &first, 12, ignored);
    play(middle, &second, 7, ignored);
    WORKS(esper_env_outcomes(early, resumed, ENVS, &failed));
    assert_memory_equal(outcome, resumed, sizeof outcome);
    WORKS(esper_env_outcomes(middle, resumed, ENVS, &failed));
    assert_memory_equal(outcome, resumed, sizeof outcome);
    esper_env_close(&env);
    esper_env_close(&early);
    esper_env_close(&middle);
}

/* Hosts of another family are played in the same way. */
static void test_text(void **state)
{
    (void)state;
    static const char *const sets[] = {"envs=2",       "steps=3",   "data.batches=1",     "data.val_images=8",
                                       "data.batch=8", "threads=1", "data.test_images=8", "reward.mode=shaped"};
    struct esper_env *env = NULL;
    double reward[ENVS] = {0};
    struct esper_outcome outcome[ENVS];
    uint32_t dice = 13;
    WORKS(esper_env_open(&env, "text_quick", sets, sizeof sets / sizeof sets[0], &failed));
    WORKS(esper_env_reset(env, &failed));
    play(env, &dice, 3, reward);
    WORKS(esper_env_outcomes(env, outcome, ENVS, &failed));
    assert_true(outcome[0].reward == reward[0] && outcome[1].reward == reward[1] && outcome[0].val_loss > 0);
    esper_env_close(&env);
}

/* On the device an env sees what it sees on the CPU, may do the same, and does what it is told. */
static void test_device(void **state)
{
    (void)state;
    struct esper_env *device = open_small(), *cpu = NULL;
    struct esper_env_info info;
    struct esper_step steps[2][ENVS];
    struct esper_outcome outcome[2][ENVS];
    float seen[2][ENVS * 512];
    uint8_t actions[ACTIONS], choices[2][ENVS * MOST_CHOICES], slots[2][ENVS * ESPER_OPS * 16];
    uint32_t dice = 23, born = 0;
    small[SMALL_DEVICE] = "device=cpu";
    cpu = open_small();
    small[SMALL_DEVICE] = "device=cuda";
    struct esper_env *both[2] = {device, cpu};
    WORKS(esper_env_describe(cpu, &info, &failed));
    for (int i = 0; i < 2; i++)
        WORKS(esper_env_reset(both[i], &failed));
    for (uint32_t step = 0; step < info.steps; step++) {
        random_actions(cpu, &dice, actions);
        for (int i = 0; i < 2; i++) {
            WORKS(esper_env_observe(both[i], seen[i], ENVS * info.features, &failed));
            WORKS(esper_env_masks(both[i], choices[i], ENVS * info.choices, slots[i], ENVS * ESPER_OPS * info.slots,
                                  &failed));
            WORKS(esper_env_step(both[i], actions, ACTIONS, steps[i], ENVS, &failed));
        }
        assert_memory_equal(choices[0], choices[1], ENVS * info.choices);
        assert_memory_equal(slots[0], slots[1], ENVS * ESPER_OPS * info.slots);
        for (size_t k = 0; k < ENVS * info.features; k++)
            assert_true(fabs(seen[0][k] - seen[1][k]) < 2e-3 * (1 + fabs(seen[1][k])));
        for (int e = 0; e < ENVS; e++) {
            assert_int_equal(steps[0][e].result, steps[1][e].result);
            assert_true(fabs(steps[0][e].val_loss - steps[1][e].val_loss) < 1e-3);
        }
    }
    for (int i = 0; i < 2; i++)
        WORKS(esper_env_outcomes(both[i], outcome[i], ENVS, &failed));
    for (int e = 0; e < ENVS; e++) {
        assert_int_equal(outcome[0][e].germinated, outcome[1][e].germinated);
        assert_int_equal(outcome[0][e].added_params, outcome[1][e].added_params);
        born += outcome[0][e].germinated;
    }
    assert_true(born > 0);
    esper_env_close(&device);
    esper_env_close(&cpu);
}

static int run_on_device(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_device), cmocka_unit_test(test_episodes), cmocka_unit_test(test_order),
        cmocka_unit_test(test_resume), cmocka_unit_test(test_twins),
    };
    small[SMALL_DEVICE] = "device=cuda";
    return cmocka_run_group_tests(tests, folder_make, folder_clear);
}

/* ESPER_TEST_DEVICE=cuda: what is played, on the device (testing.h). */
int main(void)
{
    if (on_device())
        return run_on_device();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_episodes),      cmocka_unit_test(test_order),    cmocka_unit_test(test_openings),
        cmocka_unit_test(test_wrong_actions), cmocka_unit_test(test_abi),      cmocka_unit_test(test_same_as_eval),
        cmocka_unit_test(test_policies),      cmocka_unit_test(test_networks), cmocka_unit_test(test_resume),
        cmocka_unit_test(test_twins),         cmocka_unit_test(test_text),
    };
    return cmocka_run_group_tests(tests, folder_make, folder_clear);
}
