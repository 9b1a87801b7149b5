/*
 * Forged checkpoints: one number of a real one is changed, and all checksums are made anew. Whatever the number, it is
 * refused in one line that names its array, or the world it leads to can be played: to the end of its round, through
 * the update and into the next one. ESPER_FUZZ sets how many are forged at random: a tenth of it; ESPER_FUZZ_SEED
 * draws others.
 */
#include "testing_engine.h"
#include "testing_sessions.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/philox.h"
#include "session/checkpoint.h"

static long forgeries(void)
{
    const char *text = getenv("ESPER_FUZZ");
    return text ? atol(text) / 10 : 200;
}

static uint64_t fuzz_seed(void)
{
    const char *text = getenv("ESPER_FUZZ_SEED");
    return text ? strtoull(text, NULL, 10) : 18;
}

/* ---- a world in the middle of an episode, seeds in every stage of their lives --------------------------------------
 */

static struct config forged_config(enum policy_kind kind)
{
    struct config config = small_config(2, 1, 1);
    config.data_batch = 8;
    config.data_val_images = config.data_test_images = 16;
    config.steps = 25;
    config.policy.kind = kind;
    config.policy.feature_dim = config.policy.hidden = 8;
    config.ppo.epochs = 1;
    config.reward.mode = kind == POLICY_PPO ? REWARD_SHAPED : REWARD_GAIN;
    if (kind == POLICY_REPLAY)
        snprintf(config.policy.from, sizeof config.policy.from, "elsewhere");
    return config;
}

static struct engine *make_engine(const struct config *config)
{
    struct engine *engine;
    struct esper_error error = {0};
    if (config_check(config, &error) != ESPER_OK || engine_create(&engine, config, &error) != ESPER_OK)
        fail_msg("%s", error.text);
    return engine;
}

static void play(struct engine *engine)
{
    engine_train(engine);
    engine_evaluate(engine);
    engine_decide(engine);
    engine_apply(engine);
}

static void finish_round(struct engine *engine)
{
    struct outcome_record outcomes[2];
    struct update_report record;
    struct head_report heads[HEAD_COUNT];
    engine_finish(engine, outcomes);
    engine_update(engine, 0.5, &record, heads);
    engine_reset(engine, *engine_world(engine)->round + 1);
}

/* A step in which all envs do this, where it is allowed. */
static void act(struct engine *engine, struct action action)
{
    engine_train(engine);
    engine_evaluate(engine);
    engine_decide(engine);
    for (int env = 0; env < engine_world(engine)->envs; env++)
        engine_override(engine, env, &action);
    engine_apply(engine);
}

/* One round that leaves a best network, then 20 steps of the next: a fossil, a seed that blends, one that trains, one
 * slot that cools down, as far as the task has slots. */
static struct engine *grow(const struct config *config)
{
    struct engine *engine = make_engine(config);
    struct world *world = engine_world(engine);
    const int slots = world->shape.slots;
    if (config->policy.kind == POLICY_REPLAY) {
        world->replay.present[0] = 1;
        world->replay.blueprint[0] = BLUEPRINT_CONV_LIGHT;
        world->replay.algorithm[0] = ALGORITHM_GATE;
    }
    engine_begin(engine);
    for (int round = 0; round < 2; round++) {
        const int last = round == 0 ? config->steps : 20;
        for (int step = 0; step < last; step++) {
            struct action action = {.op = OP_WAIT};
            if (step < slots)
                action = germinate(step, 1 + step, step % 2 ? STYLE_GATED_GATE : STYLE_LINEAR_ADD);
            else if (step >= 15)
                action = (struct action){.op = step == 18 ? OP_PRUNE : OP_FOSSILIZE, .slot = (uint8_t)(step == 18)};
            act(engine, action);
        }
        if (round == 0)
            finish_round(engine);
    }
    return engine;
}

/* ---- forging ----------------------------------------------------------------------------------------------------- */

/* The engine whose world is forged and written, its true world, and the one that reads it. */
struct forger {
    struct config config;
    struct engine *source, *reader;
    char path[128];
    long refused, played;
};

static void forger_begin(struct forger *forger, enum policy_kind kind)
{
    memset(forger, 0, sizeof *forger);
    forger->config = forged_config(kind);
    forger->source = grow(&forger->config);
    forger->reader = make_engine(&forger->config);
    const char *quick = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp"; /* files are synced */
    snprintf(forger->path, sizeof forger->path, "%s/esper-forged-%ld.ckpt", quick, (long)getpid());
}

static void forger_end(struct forger *forger)
{
    unlink(forger->path);
    engine_free(forger->source);
    engine_free(forger->reader);
}

static void write_source(const struct forger *forger)
{
    const struct world *world = engine_world(forger->source);
    struct checkpoint_info info;
    struct esper_error error = {0};
    if (checkpoint_write(forger->path, &world->table, &forger->config, *world->round, *world->step, &info, &error) !=
        ESPER_OK)
        fail_msg("%s", error.text);
}

/* Plays what was read: the rest of the round, the update, and the first steps of the next round. */
static void play_on(struct forger *forger)
{
    const struct world *world = engine_world(forger->reader);
    while (engine_plays_twins(forger->reader))
        engine_twin_step(forger->reader);
    while (*world->step < (uint32_t)world->config.steps)
        play(forger->reader);
    finish_round(forger->reader);
    play(forger->reader);
}

/* Reads the forged file: refused in one line that names an array, with the table as it was, or played. */
static bool is_refused(struct forger *forger, const char *array)
{
    struct world *world = engine_world(forger->reader);
    struct checkpoint_info info;
    struct esper_error error = {0};
    uint64_t before = table_hash(&world->table);
    if (checkpoint_read(forger->path, &world->table, &forger->config, &info, &error) != ESPER_OK) {
        assert_int_equal(table_hash(&world->table), before);
        assert_says(&error, array);
    } else if (engine_restored(forger->reader, &error) == ESPER_OK) {
        forger->played++;
        play_on(forger);
        return false;
    }
    assert_says(&error, "array ");
    assert_says(&error, " holds ");
    forger->refused++;
    return true;
}

static size_t width(const struct table_row *row)
{
    size_t count = 1;
    for (int d = 0; d < row->dims; d++)
        count *= row->shape[d];
    return count ? row->bytes / count : 0;
}

/* With one number of the row replaced by these bytes. */
static bool forge(struct forger *forger, const struct table_row *row, size_t at, const void *bytes)
{
    uint8_t kept[8];
    const size_t size = width(row);
    char *place = (char *)row->data + at * size;
    memcpy(kept, place, size);
    memcpy(place, bytes, size);
    write_source(forger);
    memcpy(place, kept, size);
    return is_refused(forger, row->name);
}

static bool is_real(const struct table_row *row)
{
    return row->type == TYPE_F32 || row->type == TYPE_F64;
}

/* A number in the row's type; false: the type does not have it. */
static bool encode(const struct table_row *row, double number, void *bytes)
{
    static const double most[] = {[TYPE_I32] = INT32_MAX,  [TYPE_U32] = UINT32_MAX, [TYPE_U64] = 0x1p63,
                                  [TYPE_U16] = UINT16_MAX, [TYPE_U8] = UINT8_MAX,   [TYPE_I8] = INT8_MAX};
    const bool is_signed = row->type == TYPE_I32 || row->type == TYPE_I8;
    if (row->type == TYPE_F32) {
        float single = (float)number;
        memcpy(bytes, &single, sizeof single);
        return true;
    }
    if (row->type == TYPE_F64) {
        memcpy(bytes, &number, sizeof number);
        return true;
    }
    if (!(number <= most[row->type] && number >= (is_signed ? -most[row->type] - 1 : 0)))
        return false;
    uint64_t whole = number < 0 ? (uint64_t)(int64_t)number : (uint64_t)number; /* little end first */
    memcpy(bytes, &whole, width(row));
    return true;
}

static bool has(const struct table_row *row, double number)
{
    return (number >= row->range.low && number <= row->range.high) || number == row->range.also;
}

/* ---- every row, systematically ----------------------------------------------------------------------------------- */

/* Outside its range every number is refused, just beyond the ends as well as far away. */
static void forge_row(struct forger *forger, const struct table_row *row, size_t at)
{
    const double reals[] = {row->range.low - 0.01, row->range.high + 0.01, NAN, INFINITY};
    const double wholes[] = {row->range.low - 1, row->range.high + 1, INT8_MAX, UINT8_MAX - 1, UINT32_MAX - 1, 0x1p63};
    const double *numbers = is_real(row) ? reals : wholes;
    const size_t count = is_real(row) ? sizeof reals / sizeof reals[0] : sizeof wholes / sizeof wholes[0];
    for (size_t i = 0; i < count; i++) {
        uint8_t bytes[8] = {0};
        double stored = row->type == TYPE_F32 ? (double)(float)numbers[i] : numbers[i];
        if (encode(row, stored, bytes) && !has(row, stored) && !forge(forger, row, at, bytes))
            fail_msg("%s: %g at %zu was believed", row->name, numbers[i], at);
    }
}

static void forge_rows(enum policy_kind kind)
{
    struct forger forger;
    forger_begin(&forger, kind);
    const struct table *table = &engine_world(forger.source)->table;
    write_source(&forger);
    assert_false(is_refused(&forger, "none")); /* as it is, it can be played */
    for (int i = 0; i < table->count; i++) {
        const struct table_row *row = &table->rows[i];
        if (!row->saved || !row->bytes)
            continue;
        if (!is_real(row) && !row->range.bounded)
            fail_msg("%s has no range", row->name);
        if (row->range.bounded)
            forge_row(&forger, row, row->bytes / width(row) / 2);
    }
    assert_true(forger.refused > 300);
    forger_end(&forger);
}

static void test_out_of_range(void **state)
{
    (void)state;
    forge_rows(POLICY_PPO);
}

/* ---- numbers that are in range and wrong all the same --------------------------------------------------------------
 */

struct case_of {
    const char *row;
    size_t at;
    double number;
    const char *word;
};

static void refuse_all(struct forger *forger, const struct case_of *cases, size_t count)
{
    const struct table *table = &engine_world(forger->source)->table;
    for (size_t i = 0; i < count; i++) {
        uint8_t bytes[8] = {0};
        const struct table_row *row = table_find(table, cases[i].row);
        assert_non_null(row);
        assert_true(encode(row, cases[i].number, bytes));
        if (!forge(forger, row, cases[i].at, bytes))
            fail_msg("%s: %g at %zu was believed", cases[i].row, cases[i].number, cases[i].at);
    }
}

static void test_contradictions(void **state)
{
    (void)state;
    struct forger forger;
    forger_begin(&forger, POLICY_PPO);
    const struct world *world = engine_world(forger.source);
    const size_t later = 22 * 2 * (size_t)HEAD_COUNT;
    /* Slot 0 holds a fossil, slot 1 was pruned. */
    assert_int_equal(world_slot(world, 0, 0).stage, STAGE_FOSSILIZED);
    assert_true(stage_is_cooldown(world_slot(world, 0, 1).stage));
    const struct case_of cases[] = {{"slot.stage", 0, 5, "stage"},
                                    {"slot.prev_stage", 0, 5, "stage"},
                                    {"slot.stage", 0, STAGE_DORMANT, "blueprint"},
                                    {"slot.blueprint", 0, BLUEPRINT_NONE, "blueprint"},
                                    {"slot.blueprint", 0, BLUEPRINT_CONV_HEAVY, "seed_params"},
                                    {"slot.algorithm", 0, ALGORITHM_NONE, "algorithm"},
                                    {"slot.alpha", 0, 0.5, "alpha"},
                                    {"slot.alpha", 0, 0, "alpha"},
                                    {"slot.steps_done", 0, 9, "steps_done"},
                                    {"snapshot.slot.blueprint", 0, BLUEPRINT_NONE, "blueprint"},
                                    {"best.slot.stage", 0, STAGE_HOLDING, "best.slot.stage"},
                                    {"rollout.choice", HEAD_OP, OP_COUNT, "choice"},
                                    {"rollout.choice", HEAD_TEMPO, 7, "choice"},
                                    {"rollout.choice", HEAD_SLOT, 15, "choice"},
                                    {"rollout.choice", later + HEAD_STYLE, 4, "choice"},
                                    {"rollout.flags", 22 * 2, ROW_VALID, "flags"},
                                    {"episode.last_row", 0, 20, "last_row"},
                                    {"step", 0, 3, "last_row"},
                                    {"conditions.images", 0, 1000000000, "images"}};
    refuse_all(&forger, cases, sizeof cases / sizeof cases[0]);
    forger_end(&forger);
}

/* A topology that every episode starts from: no other policy has one. */
static void test_replay(void **state)
{
    (void)state;
    struct forger forger;
    const struct case_of seed[] = {{"replay.blueprint", 0, BLUEPRINT_NONE, "blueprint"},
                                   {"replay.blueprint", 0, 8, "blueprint"},
                                   {"replay.algorithm", 0, ALGORITHM_NONE, "algorithm"},
                                   {"replay.present", 1, 1, "blueprint"},
                                   {"twin.known", 0, 0, "twins"}};
    forger_begin(&forger, POLICY_REPLAY);
    engine_world(forger.source)->replay.blueprint[1] = BLUEPRINT_NONE;
    refuse_all(&forger, seed, sizeof seed / sizeof seed[0]);
    forger_end(&forger);
    const struct case_of none[] = {{"replay.present", 0, 1, "present"}};
    forger_begin(&forger, POLICY_HEURISTIC);
    refuse_all(&forger, none, 1);
    forger_end(&forger);
}

/* ---- at random --------------------------------------------------------------------------------------------------- */

/* Numbers that training drives may be anything; the others are drawn inside their range, where only what they mean can
 * be wrong, at its ends, or as any bits. */
static void draw(const struct table_row *row, struct random_site site, uint8_t bytes[8])
{
    static const double odd[] = {NAN, INFINITY, -INFINITY, 1e30, -1e30, 0, -1, 1e-30};
    const uint32_t kind = random_word(site, 2) % 8, word = random_word(site, 3), more = random_word(site, 4);
    double number = odd[word % 8];
    if (row->range.bounded && kind < 6) {
        double low = fmax(row->range.low, -1e9), high = fmin(row->range.high, 1e9);
        number = kind == 0 ? row->range.also : kind == 1 ? high : low + (high - low) * (double)random_unit(word);
        number = is_real(row) ? number : rint(number);
    } else if (!is_real(row) || kind == 7) {
        memcpy(bytes, &word, 4);
        memcpy(bytes + 4, &more, 4);
        return;
    }
    if (!encode(row, number, bytes))
        memset(bytes, 0, 8);
}

static void forge_at_random(enum policy_kind kind, long count)
{
    struct forger forger;
    forger_begin(&forger, kind);
    const struct table *table = &engine_world(forger.source)->table;
    for (long i = 0; i < count; i++) {
        struct random_site site = {.seed = fuzz_seed(), .env = (uint32_t)kind, .a = (uint32_t)i};
        const struct table_row *row = &table->rows[random_word(site, 0) % (uint32_t)table->count];
        if (!row->saved || !row->bytes)
            continue;
        uint8_t bytes[8] = {0};
        draw(row, site, bytes);
        forge(&forger, row, random_word(site, 1) % (row->bytes / width(row)), bytes);
    }
    assert_true(forger.played > 0 && forger.refused > 0);
    forger_end(&forger);
}

static void test_at_random(void **state)
{
    (void)state;
    forge_at_random(POLICY_PPO, forgeries() / 2);
    forge_at_random(POLICY_HEURISTIC, forgeries() / 4);
    forge_at_random(POLICY_REPLAY, forgeries() / 4);
}

/* ---- a run ------------------------------------------------------------------------------------------------------- */

/* Replace the first number of a row in a run's newest checkpoint; the bits that were there. */
static uint64_t forge_run(const char *name, const struct config *config, const char *row_name, double number)
{
    struct world *world;
    struct checkpoint_info info, again;
    struct esper_error error = {0};
    char path[PATH_MAX], note[512];
    snprintf(path, sizeof path, "%s/%s/checkpoints", folder, name);
    assert_int_equal(world_create(&world, config, &error), ESPER_OK);
    for (int i = 0; i < world->table.count; i++) /* what was forged before can be forged again */
        world->table.rows[i].range.bounded = false;
    assert_int_equal(checkpoint_newest(path, &info, note, &error), ESPER_OK);
    assert_int_equal(checkpoint_read(info.path, &world->table, config, &info, &error), ESPER_OK);
    uint8_t bytes[8] = {0};
    uint64_t before = 0;
    const struct table_row *row = table_find(&world->table, row_name);
    assert_true(encode(row, number, bytes));
    memcpy(&before, row->data, width(row));
    memcpy(row->data, bytes, width(row));
    snprintf(path, sizeof path, "%s", info.path);
    assert_int_equal(checkpoint_write(path, &world->table, config, info.round, info.step, &again, &error), ESPER_OK);
    world_free(world);
    return before;
}

static void refuse_run(const char *name, const char *word)
{
    struct session *session = NULL;
    struct esper_error error = {0};
    const struct session_changes none = {.threads = -1};
    double rows = ask(name, "select count(*) from step");
    assert_int_equal(session_resume(&session, in_folder(name), &none, &error), ESPER_INVALID);
    assert_says(&error, word);
    assert_says(&error, ".ckpt");
    assert_true(ask(name, "select count(*) from step") == rows);
}

/* A refused run is as it was: with the true checkpoint back, it goes on. */
static void test_resume(void **state)
{
    (void)state;
    struct config config = small_session(POLICY_PPO);
    struct session_progress progress;
    struct session *session = create(&config, "forged");
    const struct session_changes none = {.threads = -1};
    for (int i = 0; i < 7; i++)
        advance(session, &progress);
    uint64_t hash = session_hash(session);
    finish(session);
    uint64_t blueprint = forge_run("forged", &config, "slot.blueprint", 200);
    refuse_run("forged", "array slot.blueprint holds 200 at [0][0], where only 0 to 7 or 255 can be");
    forge_run("forged", &config, "slot.blueprint", (double)blueprint);
    session = resume("forged", &none);
    assert_int_equal(session_hash(session), hash);
    finish(session);
    forge_run("forged", &config, "step", 8); /* in range; the header says 7 */
    refuse_run("forged", "step 7");
}

/* What another run's checkpoint lends is checked likewise. */
static void test_lent(void **state)
{
    (void)state;
    struct config config = small_session(POLICY_PPO), taker;
    struct esper_error error = {0};
    struct session *session = NULL;
    struct session_options options = {.runs = folder, .name = "taker", .command = "a test"};
    run_whole(&config, "lender");
    taker = config;
    snprintf(taker.policy.from, sizeof taker.policy.from, "lender");
    forge_run("lender", &config, "learner.obs_var", -1);
    assert_int_equal(session_create(&session, &taker, &options, &error), ESPER_INVALID);
    assert_says(&error, "learner.obs_var holds -1 at [0]");
    taker.policy.kind = POLICY_REPLAY;
    forge_run("lender", &config, "learner.obs_var", 1);
    forge_run("lender", &config, "best.slot.stage", STAGE_FOSSILIZED);
    forge_run("lender", &config, "best.slot.blueprint", 200);
    assert_int_equal(session_create(&session, &taker, &options, &error), ESPER_INVALID);
    assert_says(&error, "best.slot.blueprint holds 200 at [0]");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_out_of_range), cmocka_unit_test(test_contradictions),
                                       cmocka_unit_test(test_replay),       cmocka_unit_test(test_at_random),
                                       cmocka_unit_test(test_resume),       cmocka_unit_test(test_lent)};
    return cmocka_run_group_tests_name("forged", tests, folder_make, folder_clear);
}
