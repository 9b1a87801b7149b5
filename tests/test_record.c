/* The record of whole runs is complete: what the checkpoint counts, what progress prints, every reward, every stage and
 * every share follow from its rows. */
#include <math.h>

#include "cli/progress.h"
#include "morph/stage.h"
#include "policy/heads.h"
#include "reward/scene.h"
#include "testing_sessions.h"

/* ---- rewards ----------------------------------------------------------------------------------------------------- */

/* The columns are the components, in their order. */
static void check_component_names(struct store *store)
{
    double first = number(store, "SELECT cid FROM pragma_table_info('step') WHERE name = 'attribution'");
    for (int i = 0; i < REWARD_COMPONENT_COUNT; i++) {
        char sql[128];
        snprintf(sql, sizeof sql, "SELECT name FROM pragma_table_info('step') WHERE cid = %d", (int)first + i);
        assert_string_equal(query_text(store, sql), reward_component_name(i));
    }
    assert_none(store, "SELECT count(*) FROM pragma_table_info('step') WHERE cid >= %d",
                (int)first + REWARD_COMPONENT_COUNT);
}

static void check_rewards(struct store *store, int steps)
{
    char sum[512] = "0";
    for (int i = 0; i < REWARD_COMPONENT_COUNT; i++)
        snprintf(sum + strlen(sum), sizeof sum - strlen(sum), " + %s", reward_component_name(i));
    check_component_names(store);
    assert_none(store, "SELECT count(*) FROM step WHERE abs(reward - (%s)) > 1e-9", sum);
    assert_none(store, "SELECT count(*) FROM step WHERE (reward IS NULL) <> (result = 'rolled_back')");
    assert_none(store, "SELECT count(*) FROM step WHERE ((%s) IS NULL) <> (reward IS NULL)", sum);
    /* when they are paid shows of some that they are in their own column */
    assert_none(store, "SELECT count(*) FROM step WHERE (terminal <> 0 OR terminal_fossil <> 0) AND step <> %d", steps);
    assert_none(store, "SELECT count(*) FROM step WHERE (rent <> 0 OR occupancy_rent <> 0 OR attribution <> 0) AND "
                       "live = 0");
    assert_none(store, "SELECT count(*) FROM step WHERE (action_shaping <> 0 AND op = 'wait') OR (fossilize_bonus <> 0 "
                       "AND op <> 'fossilize') OR (loss_delta <> 0)");
    assert_none(store, "SELECT count(*) FROM step t WHERE (drip <> 0 OR fossilized_rent <> 0) AND NOT EXISTS (SELECT * "
                       "FROM seed s WHERE s.round = t.round AND s.step = t.step AND s.env = t.env AND stage = "
                       "'fossilized')");
    /* an episode's rewards, less what rollbacks replaced */
    assert_none(store, "SELECT count(*) FROM outcome o WHERE NOT abs(reward "
                       "- (SELECT total(reward) FROM step s WHERE s.round = o.round AND s.env = o.env) "
                       "- (SELECT total(penalty - replaced) FROM rollback r WHERE r.round = o.round AND r.env = o.env))"
                       " <= 1e-9");
    assert_none(store, "SELECT count(*) FROM rollback r JOIN step s ON s.round = r.round AND s.env = r.env AND "
                       "s.step = r.blamed_step WHERE s.reward IS NOT r.replaced");
    /* the last 20 rewards as they are in the end */
    assert_none(store, "WITH paid AS (SELECT s.round, s.env, s.step, coalesce(r.penalty, s.reward) AS reward, "
                       "row_number() OVER (PARTITION BY s.round, s.env ORDER BY s.step DESC) AS place "
                       "FROM step s LEFT JOIN rollback r ON r.round = s.round AND r.env = s.env AND "
                       "r.blamed_step = s.step WHERE s.reward IS NOT NULL), "
                       "spread AS (SELECT round, env, avg(reward * reward) - avg(reward) * avg(reward) AS variance "
                       "FROM paid WHERE place <= 20 GROUP BY round, env) "
                       "SELECT count(*) FROM outcome o JOIN spread USING (round, env) "
                       "WHERE abs(o.stability - 1 / (1 + variance)) > 1e-9");
}

/* ---- counts ------------------------------------------------------------------------------------------------------ */

static void check_rounds(struct store *store, const struct config *config)
{
    assert_true(rows_in(store, "round") == config->rounds);
    assert_true(rows_in(store, "outcome") == config->rounds * config->envs);
    assert_true(rows_in(store, "step") == config->rounds * config->envs * config->steps);
    assert_none(store, "SELECT count(*) FROM step WHERE step NOT BETWEEN 1 AND %d OR env NOT BETWEEN 0 AND %d",
                config->steps, config->envs - 1);
    assert_none(store, "SELECT count(*) FROM round WHERE env_steps <> %d OR train_images <> %d",
                config->envs * config->steps, config->envs * config->steps * config->data_batch * config->data_batches);
    assert_none(store, "SELECT count(*) FROM round r JOIN (SELECT round, avg(reward) AS reward, avg(val_accuracy) AS "
                       "val, max(val_accuracy) AS best, avg(test_accuracy) AS test, sum(germinated) AS germinated, "
                       "sum(pruned) AS pruned, sum(rollbacks) AS rollbacks, sum(fossilized) AS fossilized "
                       "FROM outcome GROUP BY round) o USING (round) WHERE abs(reward_mean - reward) > 1e-9 "
                       "OR abs(val_accuracy_mean - val) > 1e-9 OR val_accuracy_best <> best "
                       "OR abs(test_accuracy_mean - test) > 1e-9 OR germinations <> o.germinated "
                       "OR prunes <> pruned OR r.rollbacks <> o.rollbacks OR r.fossilized <> o.fossilized");
    assert_none(store,
                "SELECT count(*) FROM outcome o JOIN step s USING (round, env) WHERE s.step = %d AND "
                "((o.live = o.fossilized AND o.val_accuracy <> s.val_accuracy) OR o.val_loss IS NOT s.val_loss OR "
                "o.success <> (o.val_accuracy >= 80))",
                config->steps);
}

/* What was done, what happened and what was counted are the same. */
static void check_events(struct store *store)
{
    assert_none(store, "SELECT count(*) FROM round r WHERE germinations <> (SELECT count(*) FROM life l WHERE "
                       "l.round = r.round AND event = 'germinated') OR fossilizations <> (SELECT count(*) FROM life l "
                       "WHERE l.round = r.round AND event = 'fossilized') OR prunes <> (SELECT count(*) FROM life l "
                       "WHERE l.round = r.round AND event = 'pruned')");
    assert_none(store, "SELECT count(*) FROM round r WHERE refusals <> (SELECT count(*) FROM step s WHERE s.round = "
                       "r.round AND result = 'refused') OR rollbacks <> (SELECT count(*) FROM rollback b WHERE b.round "
                       "= r.round) OR unattributed <> (SELECT count(*) FROM rollback b WHERE b.round = r.round AND "
                       "blamed_step IS NULL)");
    assert_none(store, "SELECT count(*) FROM (SELECT round, step, env FROM step WHERE result = 'rolled_back' EXCEPT "
                       "SELECT round, step, env FROM rollback)");
    assert_none(store, "SELECT count(*) FROM rollback b WHERE seeds_lost <> (SELECT count(*) FROM life l WHERE l.round "
                       "= b.round AND l.step = b.step AND l.env = b.env AND event = 'pruned' AND l.reason = b.reason)");
    assert_none(store, "SELECT count(*) FROM life l LEFT JOIN rollback b USING (round, step, env) WHERE event = "
                       "'pruned' AND (l.reason <> 'policy') <> (b.reason IS NOT NULL)");
    assert_none(store, "SELECT count(*) FROM (SELECT round, step, env, slot, blueprint FROM step WHERE op = "
                       "'germinate' AND result = 'done' EXCEPT SELECT round, step, env, slot, blueprint FROM life "
                       "WHERE event = 'germinated')");
    assert_none(store, "SELECT count(*) FROM step s WHERE result = 'refused' AND NOT EXISTS (SELECT * FROM life l WHERE"
                       " l.round = s.round AND l.step = s.step AND l.env = s.env AND l.slot = s.slot AND passed = 0)");
    assert_none(store, "SELECT count(*) FROM life WHERE (event = 'gate') <> (gate IS NOT NULL) OR "
                       "(event = 'gate') <> (passed IS NOT NULL) OR (event = 'pruned') <> (reason IS NOT NULL) OR "
                       "(passed IS 0) <> (failed IS NOT NULL)");
}

/* The op's own heads and no others; probabilities where a network decides and nowhere else. */
static void check_decisions(struct store *store, const struct config *config)
{
    assert_none(store, "SELECT count(*) FROM step WHERE (slot IS NULL) <> (op = 'wait') OR (blueprint IS NULL) <> (op "
                       "<> 'germinate')");
    if (config->policy.kind == POLICY_PPO)
        assert_none(store, "SELECT count(*) FROM step WHERE NOT abs(p_wait + p_germinate + p_set_alpha_target + p_prune"
                           " + p_fossilize + p_advance - 1) < 1e-5 OR NOT log_probability <= 0 OR NOT entropy BETWEEN 0"
                           " AND 1.000001 OR value IS NULL");
    else
        assert_none(store, "SELECT count(*) FROM step WHERE coalesce(p_wait, p_germinate, p_set_alpha_target, p_prune, "
                           "p_fossilize, p_advance, log_probability, entropy, value) IS NOT NULL");
}

/* ---- seeds ------------------------------------------------------------------------------------------------------- */

static void check_stages(struct store *store, const struct config *config)
{
    int steps = config->steps;
    static const char *const ends[][2] = {
        {"germinated", "('germinated')"},
        {"training", "('training')"},
        {"blending", "('blending')"},
        {"holding", "('holding')"},
        {"fossilized", "('fossilized')"},
        {"cooling", "('pruned', 'embargoed', "
                    "'resetting')"},
    };
    /* every move begins where the one before ended */
    assert_none(store, "SELECT count(*) FROM (SELECT from_stage, lag(to_stage, 1, 'dormant') OVER (PARTITION BY round, "
                       "env, slot ORDER BY step, ordinal) AS was FROM life WHERE event = 'stage') WHERE from_stage <> "
                       "was");
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
        assert_none(store,
                    STAYS "SELECT count(*) FROM round r WHERE %s <> (SELECT count(*) FROM stays s WHERE "
                          "s.round = r.round AND ends AND stage IN %s)",
                    steps, ends[i][0], ends[i][1]);
    assert_none(store,
                STAYS "SELECT count(*) FROM outcome o WHERE live <> (SELECT count(*) FROM stays s WHERE "
                      "s.round = o.round AND s.env = o.env AND ends AND stage IN " LIVE ")",
                steps);
}

/* From TRAINING on a seed trains at every step, fossils too, and what is told of its gradient is of that step. */
static void check_gradients(struct store *store)
{
    assert_none(store, "SELECT count(*) FROM seed WHERE (stage = 'germinated') <> (grad_health IS NULL) OR (vanishing "
                       "IS NULL) <> (grad_health IS NULL) OR (exploding IS NULL) <> (grad_health IS NULL)");
    assert_none(store, "SELECT count(*) FROM seed WHERE (stage IN ('training', 'blending')) <> (grad_ratio NOTNULL)");
    assert_none(store, "SELECT count(*) FROM (SELECT stage, grad_norm, lag(grad_norm) OVER (PARTITION BY round, env, "
                       "slot, germination ORDER BY step) AS before FROM seed) WHERE stage IN ('holding', 'fossilized') "
                       "AND grad_norm = before AND grad_norm > 0");
}

/* A row for every live seed and step that counted, with the stage that its life says, and no other row. */
static void check_seeds(struct store *store, const struct config *config)
{
    int steps = config->steps;
#define EXPECTED                                                                                                       \
    "expected AS (SELECT t.round, t.step, t.env, s.slot, s.stage FROM step t JOIN stays s ON s.round = t.round AND "   \
    "s.env = t.env AND t.step BETWEEN s.first AND s.last WHERE stage IN " LIVE " AND t.result <> 'rolled_back')"
    assert_none(store,
                STAYS ", " EXPECTED " SELECT count(*) FROM (SELECT * FROM expected EXCEPT "
                      "SELECT round, step, env, slot, stage FROM seed)",
                steps);
    assert_none(store,
                STAYS ", " EXPECTED " SELECT count(*) FROM (SELECT round, step, env, slot, stage FROM seed "
                      "EXCEPT SELECT * FROM expected)",
                steps);
    assert_none(store, "SELECT count(*) FROM step t WHERE result <> 'rolled_back' AND (live <> (SELECT count(*) FROM "
                       "seed s WHERE s.round = t.round AND s.step = t.step AND s.env = t.env) OR added_params <> "
                       "(SELECT total(params) FROM seed s WHERE s.round = t.round AND s.step = t.step AND s.env = "
                       "t.env))");
    assert_none(store, "SELECT count(*) FROM seed s WHERE germination <> (SELECT count(*) FROM life l WHERE l.round = "
                       "s.round AND l.env = s.env AND l.slot = s.slot AND l.step < s.step AND event = 'germinated')");
    assert_none(store, "SELECT count(*) FROM life e WHERE germination <> (SELECT count(*) FROM life l WHERE l.round = "
                       "e.round AND l.env = e.env AND l.slot = e.slot AND l.step <= e.step AND event = 'germinated')");
    /* where nothing was done and nothing happened at the last step, the outcome counts what that step counted */
    assert_none(store,
                "SELECT count(*) FROM outcome o JOIN step t USING (round, env) WHERE t.step = %d AND t.op = 'wait' AND "
                "NOT EXISTS (SELECT * FROM life l WHERE l.round = t.round AND l.step = t.step AND l.env = t.env) AND "
                "o.live = o.fossilized AND o.added_params <> t.added_params",
                steps);
    check_gradients(store);
    assert_none(store, "SELECT count(*) FROM seed WHERE (contribution IS NULL) <> (stage NOT IN ('blending', 'holding',"
                       " 'fossilized')) OR (contribution IS NULL) <> (share IS NULL) OR (contribution IS NULL) <> "
                       "(interaction IS NULL)");
}

/* ---- shares ------------------------------------------------------------------------------------------------------ */

enum { SLOTS = 16, MASKS = 1 << 6 };

/* Mean over all orders in which the seeds of `left` may come of what seed `own` adds. */
static double mean_gain(const double value[MASKS], int here, int left, int own)
{
    double sum = 0;
    int count = 0;
    for (int j = 0; j < SLOTS; j++)
        if (left >> j & 1) {
            int with = here | 1 << j;
            sum += j == own ? value[with] - value[here] : mean_gain(value, with, left & ~(1 << j), own);
            count++;
        }
    return sum / count;
}

struct moment {
    int round, step, env;
};

/* The subsets of a step reproduce its accuracy and the recorded contributions of its seeds. */
static int check_moment(struct store *store, struct moment at, bool last)
{
    double value[MASKS], sum = 0;
    char where[96];
    int all = 0, seeds = 0;
    sqlite3_stmt *rows;
    snprintf(where, sizeof where, "WHERE round = %d AND step = %d AND env = %d", at.round, at.step, at.env);
    for (int mask = 0; mask < MASKS; mask++) {
        value[mask] = number(store, "SELECT max(accuracy) FROM subset %s AND mask = %d", where, mask);
        all = isnan(value[mask]) ? all : mask;
    }
    assert_true(number(store, "SELECT val_accuracy FROM step %s", where) == value[all]);
    char sql[256];
    snprintf(sql, sizeof sql, "SELECT slot, contribution, share, share_error FROM seed %s AND share IS NOT NULL",
             where);
    assert_int_equal(sqlite3_prepare_v2(store_sql(store), sql, -1, &rows, NULL), SQLITE_OK);
    int count = __builtin_popcount((unsigned)all);
    for (; sqlite3_step(rows) == SQLITE_ROW; seeds++) {
        int own = sqlite3_column_int(rows, 0);
        double share = sqlite3_column_double(rows, 2), alone = value[1 << own] - value[0];
        bool sampled = sqlite3_column_type(rows, 3) != SQLITE_NULL;
        assert_true(all >> own & 1);
        assert_true(fabs(sqlite3_column_double(rows, 1) - (value[all] - value[all & ~(1 << own)])) < 1e-9);
        assert_int_equal(sampled, last && count > 4);
        if (count <= 4)
            assert_true(fabs(share - mean_gain(value, 0, all, own)) < 1e-9);
        else if (!sampled)
            assert_true(fabs(share - 0.5 * (alone + sqlite3_column_double(rows, 1))) < 1e-9);
        else
            assert_true(sqlite3_column_double(rows, 3) >= 0);
        sum += share;
    }
    sqlite3_finalize(rows);
    assert_int_equal(seeds, count);
    if (count <= 4 || last) /* shares add up to what all contribute; sampled ones do so in every order */
        assert_true(fabs(sum - (value[all] - value[0])) < 1e-9);
    return count;
}

/* All steps that have subsets. Returns the largest number of seeds met. */
static int check_shares(struct store *store, const struct config *config, bool debug)
{
    int most = 0;
    for (int round = 0; round < config->rounds; round++)
        for (int env = 0; env < config->envs; env++)
            for (int step = debug ? 1 : config->steps; step <= config->steps; step++) {
                struct moment at = {round, step, env};
                if (number(store,
                           "SELECT count(*) FROM rollback WHERE round = %d AND step = %d "
                           "AND env = %d",
                           round, step, env) > 0)
                    continue; /* measured for nothing: no seed has rows */
                int seeds = check_moment(store, at, step == config->steps);
                most = seeds > most ? seeds : most;
            }
    assert_true(number(store, "SELECT count(DISTINCT round * 1000000 + step * 1000 + env) FROM subset") ==
                config->rounds * config->envs * (debug ? config->steps : 1));
    assert_none(store, "SELECT count(*) FROM subset WHERE abs(accuracy - 100.0 * correct / %d) > 1e-9",
                config->data_val_images);
    return most;
}

/* ---- what progress showed ---------------------------------------------------------------------------------------- */

/* A row as its struct, as the store received it; without names. */
static void read_back(struct store *store, enum record_kind kind, int round, void *record)
{
    const struct store_layout *layout = &store_layouts[kind];
    char sql[128], *field = record;
    sqlite3_stmt *row;
    snprintf(sql, sizeof sql, "SELECT * FROM %s WHERE round = %d", layout->name, round);
    assert_int_equal(sqlite3_prepare_v2(store_sql(store), sql, -1, &row, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(row), SQLITE_ROW);
    for (int i = 0; i < layout->count; field += column_bytes(layout->columns[i].type), i++) {
        int64_t whole = sqlite3_column_int64(row, i);
        double real = sqlite3_column_type(row, i) == SQLITE_NULL ? (double)NAN : sqlite3_column_double(row, i);
        if (layout->columns[i].type == COLUMN_NUMBER)
            memcpy(field, &real, sizeof real);
        else if (layout->columns[i].type == COLUMN_INTEGER)
            memcpy(field, &whole, sizeof whole);
    }
    sqlite3_finalize(row);
}

/* Alerts that were raised up to a round and not cleared. */
static int standing_after(struct store *store, int round)
{
    return (int)number(store,
                       "SELECT count(*) FROM (SELECT state, max(round) FROM alert WHERE round <= %d GROUP BY rule) "
                       "WHERE state = 'raised'",
                       round);
}

/* What a run showed: the last step of every round, and all alerts. */
enum { ROUNDS_MAX = 8, ALERTS_SHOWN = 64 };
struct shown {
    struct session_progress round[ROUNDS_MAX];
    struct alert_record alert[ALERTS_SHOWN];
    int alerts;
};

static void watch(struct session *session, int rounds, struct shown *shown)
{
    shown->alerts = 0;
    for (int round = 0; round < rounds;) {
        struct session_progress progress;
        advance(session, &progress);
        assert_string_equal(progress.notice, "");
        for (int i = 0; i < progress.alert_count && shown->alerts < ALERTS_SHOWN; i++)
            shown->alert[shown->alerts++] = progress.alerts[i];
        if (progress.round_done)
            shown->round[round++] = progress;
    }
}

static void read_update(struct store *store, int round, struct update_report *report)
{
    struct ppo_record row;
    read_back(store, RECORD_PPO, round, &row);
#define COPY(kind, name, help) report->name = row.name;
    UPDATE_FIELDS(COPY)
#undef COPY
}

/* Lines that progress would print from the record alone are those it printed. */
static void check_shown(struct store *store, const struct config *config, const struct shown *shown)
{
    struct progress progress;
    char live[2][512], again[2][512];
    progress_begin(&progress, config, PROGRESS_QUIET);
    unsigned columns = progress_columns(&progress, 240);
    for (int round = 0; round < config->rounds; round++) {
        const struct session_progress *step = &shown->round[round];
        struct session_progress stored = {.round = (uint32_t)round + 1, .round_done = true};
        read_back(store, RECORD_ROUND, round, &stored.record);
        stored.has_ppo = number(store, "SELECT count(*) FROM ppo WHERE round = %d", round) > 0;
        if (stored.has_ppo)
            read_update(store, round, &stored.ppo);
        stored.alerts_standing = step->alerts_standing; /* as far as the writer had come; the last one is checked */
        progress_plain(&progress, step, live[0], sizeof live[0]);
        progress_plain(&progress, &stored, again[0], sizeof again[0]);
        progress_row(&progress, columns, step, live[1], sizeof live[1]);
        progress_row(&progress, columns, &stored, again[1], sizeof again[1]);
        assert_string_equal(live[0], again[0]);
        assert_string_equal(live[1], again[1]);
    }
    assert_true(number(store, "SELECT count(*) FROM alert WHERE state = 'raised'") == shown->alerts);
    for (int i = 0; i < shown->alerts; i++)
        assert_true(number(store,
                           "SELECT count(*) FROM alert WHERE round = %d AND rule = '%s' AND state = 'raised' AND "
                           "text = '%s'",
                           (int)shown->alert[i].round, shown->alert[i].rule, shown->alert[i].text) == 1);
    assert_true(standing_after(store, config->rounds) == shown->round[config->rounds - 1].alerts_standing);
}

/* ---- whole runs -------------------------------------------------------------------------------------------------- */

static void check_totals(struct store *store, const char *name)
{
    static const char *const pairs[][2] = {{"total.episodes", "SELECT count(*) FROM outcome"},
                                           {"total.env_steps", "SELECT count(*) FROM step"},
                                           {"total.germinations", "SELECT sum(germinations) FROM round"},
                                           {"total.fossilizations", "SELECT sum(fossilizations) FROM round"},
                                           {"total.prunes", "SELECT sum(prunes) FROM round"},
                                           {"total.rollbacks", "SELECT count(*) FROM rollback"}};
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
        assert_true(number(store, "%s", pairs[i][1]) == (double)total(name, pairs[i][0]));
}

/* A run, and all that its record must hold. The caller closes the record. */
static struct store *check_run(const struct config *config, const char *name, int *seeds)
{
    struct shown shown;
    struct session *session = create(config, name);
    assert_true(config->rounds <= ROUNDS_MAX);
    watch(session, config->rounds, &shown);
    finish(session);
    struct store *store = record_of(name);
    check_rewards(store, config->steps);
    check_rounds(store, config);
    check_events(store);
    check_decisions(store, config);
    check_stages(store, config);
    check_seeds(store, config);
    *seeds = check_shares(store, config, config->telemetry == TELEMETRY_DEBUG);
    check_shown(store, config, &shown);
    check_totals(store, name);
    assert_true(rows_in(store, "drops") == 0);
    return store;
}

static void assert_happened(struct store *store, const char *what)
{
    if (!(number(store, "SELECT count(*) FROM %s", what) > 0))
        fail_msg("the run is no test: there was no %s", what);
}

static void use_script(struct config *config, const char *text)
{
    config->policy.kind = POLICY_SCRIPT;
    snprintf(config->policy.script, sizeof config->policy.script, "%s", in_folder("script.json"));
    put_file(config->policy.script, text, strlen(text));
}

static void test_scripted_run(void **state)
{
    (void)state;
    struct config config = small_session(POLICY_SCRIPT);
    int seeds;
    config.envs = 4;
    config.rounds = 3;
    config.telemetry = TELEMETRY_DEBUG;
    config.auto_g2 = false; /* seeds ask for G2, too early and in time */
    restless(&config, 0.1, 4);
    use_script(&config,
               "[{\"step\":1,\"op\":\"germinate\",\"slot\":\"r0c0\",\"blueprint\":\"conv_light\"},"
               "{\"step\":2,\"op\":\"fossilize\",\"slot\":\"r0c0\"},"
               "{\"step\":4,\"op\":\"advance\",\"slot\":\"r0c0\"},"
               "{\"step\":6,\"op\":\"germinate\",\"slot\":\"r0c1\",\"blueprint\":\"norm\",\"style\":\"sigmoid_add\"},"
               "{\"step\":11,\"op\":\"advance\",\"slot\":\"r0c0\"},"
               "{\"step\":16,\"op\":\"advance\",\"slot\":\"r0c1\"},"
               "{\"step\":24,\"op\":\"fossilize\",\"slot\":\"r0c0\"},"
               "{\"step\":26,\"env\":0,\"op\":\"prune\",\"slot\":\"r0c1\",\"speed\":0},"
               "{\"step\":26,\"env\":1,\"op\":\"prune\",\"slot\":\"r0c1\",\"speed\":3},"
               "{\"step\":26,\"env\":2,\"op\":\"set_alpha_target\",\"slot\":\"r0c1\",\"target\":0.7,\"speed\":3},"
               "{\"step\":38,\"op\":\"germinate\",\"slot\":\"r0c1\",\"blueprint\":\"norm\",\"style\":\"gated_gate\"},"
               "{\"step\":40,\"op\":\"germinate\",\"slot\":\"r0c2\",\"blueprint\":\"depthwise\"}]");
    struct store *store = check_run(&config, "scripted", &seeds);
    assert_happened(store, "life WHERE event = 'fossilized'");
    assert_happened(store, "life WHERE event = 'pruned' AND reason = 'policy'");
    assert_happened(store, "life WHERE event = 'pruned' AND reason <> 'policy'");
    assert_happened(store, "life WHERE event = 'germinated' AND germination = 2");
    assert_happened(store, "step WHERE result = 'refused'");
    assert_happened(store, "step WHERE result = 'void'");
    assert_happened(store, "rollback WHERE blamed_step IS NOT NULL");
    assert_happened(store, "seed WHERE stage = 'holding' AND grad_norm > 0");
    assert_happened(store, "seed WHERE stage = 'fossilized' AND grad_norm > 0");
    assert_happened(store, "step WHERE attribution <> 0");
    assert_happened(store, "step WHERE rent <> 0");
    assert_happened(store, "step WHERE terminal <> 0");
    assert_int_equal(seeds, 2);
    store_close(store);
}

static void test_learning_run(void **state)
{
    (void)state;
    struct config config = small_session(POLICY_PPO);
    int seeds;
    config.envs = 3;
    config.rounds = 4;
    config.auto_g1 = config.auto_g2 = false; /* so that there is more to decide */
    restless(&config, 0.3, 2.5);
    struct store *store = check_run(&config, "learning", &seeds);
    assert_happened(store, "step WHERE result = 'refused'");
    assert_happened(store, "rollback");
    assert_happened(store, "life WHERE event = 'pruned'");
    assert_true(rows_in(store, "ppo") == 4 && rows_in(store, "ppo_head") == 4 * HEAD_COUNT);
    store_close(store);
}

/* Beyond four seeds the last step's shares are sampled and say how well. */
static void test_many_seeds(void **state)
{
    (void)state;
    struct config config = small_session(POLICY_SCRIPT);
    char script[1024] = "[", *at = script + 1;
    int seeds;
    assert_int_equal(config_set(&config, "slots=r0c0,r0c1,r0c2,r1c0,r1c1,r1c2", NULL), ESPER_OK);
    for (int i = 0; i < 6; i++)
        at += sprintf(at, "%s{\"step\":%d,\"op\":\"germinate\",\"slot\":\"r%dc%d\",\"blueprint\":\"norm\"}",
                      i ? "," : "", i + 1, i / 3, i % 3);
    sprintf(at, "]");
    use_script(&config, script);
    config.steps = 30;
    config.rounds = 1;
    config.telemetry = TELEMETRY_DEBUG;
    struct store *store = check_run(&config, "many", &seeds);
    assert_int_equal(seeds, 6);
    assert_happened(store, "seed WHERE share_error > 0");
    store_close(store);
}

/* Panic after panic: the first of them blames the step before, the others no step. */
static void test_hopeless_run(void **state)
{
    (void)state;
    struct config config = small_session(POLICY_PPO);
    int seeds;
    config.governor.lobotomy_mean = config.governor.lobotomy_width = 10; /* every loss looks like a lobotomy */
    config.steps = 24;
    struct store *store = check_run(&config, "hopeless", &seeds);
    assert_happened(store, "rollback WHERE blamed_step IS NOT NULL AND penalty = -10");
    assert_happened(store, "rollback WHERE blamed_step IS NULL AND penalty IS NULL AND replaced IS NULL");
    assert_happened(store, "round WHERE unattributed > 0");
    store_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scripted_run),
        cmocka_unit_test(test_learning_run),
        cmocka_unit_test(test_many_seeds),
        cmocka_unit_test(test_hopeless_run),
    };
    return cmocka_run_group_tests(tests, folder_make, folder_clear);
}
