#include "view/questions.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/vocabulary.h"

/* ---- SQL that questions share ------------------------------------------------------------------------------------ */

/* A long series is thinned to about 2000 rounds, evenly, and ends with the newest. */
#define SERIES(table)                                                                                                  \
    " WHERE round BETWEEN :from AND :to AND (round % (1 + ((SELECT max(round) FROM " table                             \
    " WHERE round <= :to) - (SELECT min(round) FROM " table " WHERE round >= :from)) / 2000) = 0"                      \
    " OR round = (SELECT max(round) FROM " table " WHERE round <= :to)) "

/* The steps of the episode, one look-up each: far quicker than reading all envs of the round. */
#define STEPS_OF(table)                                                                                                \
    "WITH RECURSIVE number(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number"                                         \
    " WHERE n < (SELECT max(step) FROM " table " WHERE round = :round)) "

/* Only this many rounds before :to, whatever :from says; `table` determines which rounds there are. */
#define RECENT(table, rounds)                                                                                          \
    " BETWEEN max(:from, coalesce((SELECT max(round) FROM " table " WHERE round <= :to), 0) - " #rounds " + 1)"        \
    " AND :to "

/* Which of those rounds have rows, for a label over the answer. */
#define ROUNDS_OF(table, rounds)                                                                                       \
    " (SELECT min(round) FROM " table " WHERE round" RECENT(table, rounds) ") AS first_round,"                         \
                                                                           " (SELECT max(round) FROM " table           \
                                                                           " WHERE round <= :to) AS last_round "

/* As many rows as requested, up to a maximum; to SQLite a negative limit would mean no limit. */
#define LIMITED(rows) " LIMIT min(max(:limit, 0), " #rows ")"

/* The frontier: no episode has fewer or as many added parameters and a higher test accuracy, and of those with the same
 * accuracy none has fewer. Ties stay. */
#define FRONTIER                                                                                                       \
    "WITH best AS (SELECT added_params AS params, max(test_accuracy) AS accuracy FROM outcome"                         \
    " WHERE round BETWEEN :from AND :to AND test_accuracy IS NOT NULL GROUP BY added_params),"                         \
    " ranked AS (SELECT params, accuracy, max(accuracy) OVER (ORDER BY params ROWS BETWEEN UNBOUNDED PRECEDING"        \
    " AND 1 PRECEDING) AS before FROM best),"                                                                          \
    " frontier AS (SELECT params, accuracy FROM ranked WHERE before IS NULL OR accuracy > before) "

#define PARETO "round, env, added_params, host_params, test_accuracy, val_accuracy, reward, stability, fossilized"

#define SUM_OF(with, NAME, name, help)  ", sum(" #name ") AS " #name
#define MEAN_OF(with, NAME, name, help) ", sum(" #name ") / count(DISTINCT env) AS " #name

/* ---- the table --------------------------------------------------------------------------------------------------- */

// clang-format off
const struct question questions[] = {
    {"summary", "the run and its progress: one row; newest_step is the newest recorded step of newest_round", "",
     "SELECT run.name, task, policy, seed, evaluate, created, version, kernels,"
     " (SELECT count(*) FROM round) AS rounds_done,"
     " (SELECT min(round) FROM round) AS first_round,"
     " (SELECT max(round) FROM round) AS last_round,"
     " coalesce(max((SELECT max(round) FROM step), (SELECT max(round) FROM round)),"
     "  (SELECT max(round) FROM step), (SELECT max(round) FROM round)) AS newest_round,"
     " (SELECT max(step) FROM step WHERE round = (SELECT max(round) FROM step)) AS newest_step,"
     " (SELECT sum(env_steps) FROM round) AS env_steps,"
     " (SELECT sum(seconds) FROM round) AS seconds,"
     " (SELECT max(val_accuracy_best) FROM round) AS val_accuracy_best,"
     " (SELECT max(val_accuracy_mean) FROM round) AS val_accuracy_mean_best,"
     " (SELECT val_accuracy_mean FROM round ORDER BY round DESC LIMIT 1) AS val_accuracy_mean_last,"
     " (SELECT test_accuracy_mean FROM round ORDER BY round DESC LIMIT 1) AS test_accuracy_mean_last,"
     " (SELECT reward_mean FROM round ORDER BY round DESC LIMIT 1) AS reward_mean_last,"
     " (SELECT sum(germinations) FROM round) AS germinations,"
     " (SELECT sum(fossilizations) FROM round) AS fossilizations,"
     " (SELECT sum(prunes) FROM round) AS prunes,"
     " (SELECT count(*) FROM rollback) AS rollbacks,"
     " (SELECT count(*) FROM alert WHERE state = 'raised') AS alerts,"
     " (SELECT count(*) FROM checkpoint) AS checkpoints,"
     " (SELECT sum(count) FROM drops WHERE reason = 'full') AS rows_lost,"
     " (SELECT sum(count) FROM drops WHERE reason = 'thinned') AS rows_thinned,"
     " configuration FROM run LIMIT 1"},

    {"rounds", "scores, reward, seeds by stage, events and speed of each round; thinned to 2000 rounds", ":from :to",
     "SELECT * FROM round" SERIES("round") "ORDER BY round LIMIT 2002"},

    {"ppo", "all numbers of the updates; thinned to 2000 rounds", ":from :to",
     "SELECT * FROM ppo" SERIES("ppo") "ORDER BY round LIMIT 2002"},

    {"heads", "all numbers of each head; thinned to 2000 rounds", ":from :to",
     "SELECT * FROM ppo_head" SERIES("ppo_head") "ORDER BY round, head LIMIT 16016"},

    {"ops",
     "what was decided: attempted = done + refused + void + rolled_back, per round and op, of the last 4 rounds to :to",
     ":from :to",
     "SELECT round, op, count(*) AS attempted, sum(result = 'done') AS done, sum(result = 'refused') AS refused,"
     " sum(result = 'void') AS void, sum(result = 'rolled_back') AS rolled_back, sum(forced) AS forced"
     " FROM step WHERE round" RECENT("step", 4) "GROUP BY round, op ORDER BY round, op LIMIT 64"},

    {"envs", "each env at its newest step up to :step of :round; reward_sum is the episode's so far, of `kept` steps",
     ":round :step",
     "SELECT env, max(step) AS step, op, result, slot, blueprint, val_accuracy, val_loss, train_accuracy, train_loss,"
     " live, added_params, value, entropy, reward, sum(reward) AS reward_sum, count(*) AS kept"
     " FROM step WHERE round = :round AND step <= :step GROUP BY env ORDER BY env LIMIT 8192"},

    {"env_seeds", "the live seeds of each env at its newest step up to :step of :round", ":round :step",
     "WITH newest AS (SELECT env, max(step) AS step FROM step WHERE round = :round AND step <= :step GROUP BY env)"
     " SELECT seed.env, slot, seed.step, germination, stage, blueprint, algorithm, params, alpha, alpha_target, age,"
     " stage_age, contribution, share, grad_norm, grad_health, vanishing, exploding"
     " FROM newest CROSS JOIN seed ON seed.round = :round AND seed.step = newest.step AND seed.env = newest.env"
     " ORDER BY seed.env, slot LIMIT 65536"},

    {"episode", "every kept step of an env in a round: decision, probabilities, scores, reward and its components",
     ":round :env",
     STEPS_OF("step") "SELECT step.* FROM number CROSS JOIN step ON round = :round AND step = n AND env = :env"
     " ORDER BY step LIMIT 10000"},

    {"swimlane", "the live seeds of an env in a round, slot by slot and step by step", ":round :env",
     STEPS_OF("seed") "SELECT slot, step, germination, stage, blueprint, alpha, alpha_target, contribution, share,"
     " grad_norm, grad_health, params"
     " FROM number CROSS JOIN seed ON round = :round AND step = n AND env = :env"
     " ORDER BY slot, step LIMIT 65536"},

    {"lives", "every event in the lives of an env's seeds in a round, in order", ":round :env",
     STEPS_OF("life") "SELECT step, slot, ordinal, germination, event, blueprint, from_stage, to_stage, reason, gate,"
     " passed, failed, score"
     " FROM number CROSS JOIN life ON round = :round AND step = n AND env = :env"
     " ORDER BY step, slot, ordinal LIMIT 10000"},

    {"gates", "gates and their verdicts, newest first, over the last 10 rounds to :to", ":from :to :limit",
     "SELECT round, step, env, slot, blueprint, gate, from_stage, to_stage, passed, failed, score FROM life"
     " WHERE round" RECENT("life", 10) "AND event = 'gate'"
     " ORDER BY round DESC, step DESC, env DESC, slot DESC, ordinal DESC" LIMITED(10000)},

    {"gate_checks",
     "how often each gate was asked and opened, and which checks kept it shut, over the last 5 rounds to :to", ":from :to",
     "SELECT gate, to_stage, passed, failed, count(*) AS count, avg(score) AS score," ROUNDS_OF("life", 5) "FROM life"
     " WHERE round" RECENT("life", 5) "AND event = 'gate'"
     " GROUP BY gate, to_stage, passed, failed ORDER BY gate, to_stage, count DESC, failed LIMIT 200"},

    {"blueprints",
     "what became of each blueprint's seeds in the last 10 rounds to :to; rate = fossilized / germinated, percent;"
     " share: of fossils at the last step, points",
     ":from :to",
     "WITH born AS (SELECT blueprint, sum(event = 'germinated') AS germinated, sum(event = 'fossilized') AS fossilized,"
     "  sum(event = 'pruned') AS pruned FROM life WHERE round" RECENT("life", 10)
     "  AND event IN ('germinated', 'fossilized', 'pruned') GROUP BY blueprint),"
     " ends AS (SELECT round, (SELECT max(step) FROM seed WHERE seed.round = round.round) AS step FROM round"
     "  WHERE round" RECENT("life", 10) "),"
     " last AS (SELECT blueprint, stage, share, params FROM ends CROSS JOIN seed ON seed.round = ends.round"
     "  AND seed.step = ends.step),"
     " sized AS (SELECT blueprint, avg(share) FILTER (WHERE stage = 'fossilized') AS share, avg(params) AS params"
     "  FROM last GROUP BY blueprint)"
     " SELECT born.blueprint, germinated, fossilized, pruned,"
     " CASE WHEN germinated > 0 THEN 100.0 * fossilized / germinated END AS rate_percent, share, params,"
     ROUNDS_OF("life", 10) "FROM born LEFT JOIN sized USING (blueprint) ORDER BY germinated DESC, born.blueprint LIMIT 64"},

    {"reward_rounds",
     "sum of each component of the reward, mean of the envs, per round, of the last 4 rounds to :to, over `kept` steps",
     ":from :to",
     "SELECT round, count(DISTINCT env) AS envs, count(*) AS kept,"
     " sum(reward) / count(DISTINCT env) AS reward" REWARD_COMPONENTS(MEAN_OF, )
     " FROM step WHERE round" RECENT("step", 4) "GROUP BY round ORDER BY round LIMIT 4"},

    {"reward_episode", "sum of each component of the reward of an env in a round, over `kept` steps", ":round :env",
     STEPS_OF("step") "SELECT count(*) AS kept, sum(reward) AS reward" REWARD_COMPONENTS(SUM_OF, )
     " FROM number CROSS JOIN step ON round = :round AND step = n AND env = :env LIMIT 1"},

    {"outcomes", "the episodes of a round", ":round",
     "SELECT * FROM outcome WHERE round = :round ORDER BY env LIMIT 8192"},

    {"top", "the episodes with the highest test score, then the fewest added parameters", ":from :to :limit",
     "SELECT * FROM outcome WHERE round BETWEEN :from AND :to AND test_accuracy IS NOT NULL"
     " ORDER BY test_accuracy DESC, added_params, round, env" LIMITED(1000)},

    {"pareto", "episodes, test score versus added parameters: the frontier first (frontier = 1), then the newest",
     ":from :to :limit",
     FRONTIER
     "SELECT * FROM (SELECT * FROM (SELECT " PARETO ", 1 AS frontier FROM outcome WHERE round BETWEEN :from AND :to"
     "  AND (added_params, test_accuracy) IN (SELECT params, accuracy FROM frontier) LIMIT 10000)"
     " UNION ALL SELECT * FROM (SELECT " PARETO ", 0 FROM outcome WHERE round BETWEEN :from AND :to"
     "  AND test_accuracy IS NOT NULL AND (added_params, test_accuracy) NOT IN (SELECT params, accuracy FROM frontier)"
     "  ORDER BY round DESC, env DESC" LIMITED(10000) "))"
     " ORDER BY frontier DESC, frontier * added_params, round DESC, env" LIMITED(10000)},

    {"subsets", "validation score with seeds switched off, at the newest step of the episode that has it",
     ":round :env",
     "SELECT step, mask, correct, accuracy FROM subset WHERE round = :round AND env = :env"
     " AND step = (SELECT max(step) FROM subset WHERE round = :round) ORDER BY mask LIMIT 4096"},

    {"shares",
     "what each live seed adds at the last recorded step of the episode: share and interaction, points",
     ":round :env",
     "SELECT step, slot, germination, stage, blueprint, params, alpha, contribution, interaction, share, share_error"
     " FROM seed WHERE round = :round AND env = :env"
     " AND step = (SELECT max(step) FROM seed WHERE round = :round) ORDER BY slot LIMIT 64"},

    {"rollbacks", "rollbacks by the governor, newest first", ":from :to :limit",
     "SELECT * FROM rollback WHERE round BETWEEN :from AND :to"
     " ORDER BY round DESC, step DESC, env DESC" LIMITED(10000)},

    {"alerts", "alerts, newest first", ":from :to :limit",
     "SELECT * FROM alert WHERE round BETWEEN :from AND :to ORDER BY round DESC, rule" LIMITED(10000)},

    {"standing", "active alerts, raised and not cleared: critical ones first, then the newest", "",
     "SELECT round, rule, severity, value, threshold, text FROM (SELECT *, max(round) FROM alert GROUP BY rule)"
     " WHERE state = 'raised' ORDER BY severity, round DESC, rule LIMIT 64"},

    {"samples", "what the best network of a run on text wrote whenever there was a better one, newest first",
     ":from :to :limit",
     "SELECT * FROM sample WHERE round BETWEEN :from AND :to ORDER BY round DESC" LIMITED(1000)},

    {"ranks", "who waits for whom: the time of each rank of a run that several play, mean of these rounds; last: the"
              " rounds in which the others waited for it",
     ":from :to",
     "SELECT rank, node, device, first_env, envs, count(*) AS rounds, avg(busy) AS busy, avg(waited) AS waited,"
     " 100.0 * sum(waited) / nullif(sum(busy) + sum(waited), 0) AS waited_percent,"
     " sum(waited <= (SELECT min(m.waited) FROM rank m WHERE m.round = r.round)) AS last"
     " FROM rank r WHERE round BETWEEN :from AND :to GROUP BY rank, node, device, first_env, envs ORDER BY rank, node"},
    {"phases",
     "where the time of a round went; percent of its wall time, all threads together; where some steps were timed, those"
     " stand for all",
     ":round",
     "WITH spans AS (SELECT name, count(*) AS spans, count(DISTINCT thread) AS threads, sum(duration_us) / 1e6 *"
     " iif(name IN ('train', 'evaluate', 'observe', 'decide', 'apply'),"
     " (SELECT 1.0 * max(step) FROM phase WHERE round = :round) / count(DISTINCT step), 1) AS seconds,"
     " avg(duration_us) / 1e3 AS mean_ms, max(duration_us) / 1e3 AS max_ms FROM phase WHERE round = :round GROUP BY name)"
     " SELECT *, 100.0 * seconds / (SELECT seconds FROM round WHERE round = :round) AS percent"
     " FROM spans ORDER BY seconds DESC, name LIMIT 64"},

    {"drops", "missing rows by table and reason: lost because a buffer was full, or thinned on purpose", "",
     "SELECT name, reason, sum(count) AS count, min(round) AS first_round, max(round) AS last_round FROM drops"
     " GROUP BY name, reason ORDER BY reason, name LIMIT 64"},

    {"checkpoints", "files written to checkpoints/, newest first, including those removed since", ":limit",
     "SELECT * FROM checkpoint ORDER BY round DESC, step DESC, written DESC, file" LIMITED(10000)},

    {"events", "what happened, newest first: lives of seeds, rollbacks, alerts, checkpoints, lost rows",
     ":from :to :limit",
     "SELECT * FROM (SELECT * FROM (SELECT round, step, env, slot, event AS kind,"
     "  trim(coalesce(blueprint, '') || ' ' || CASE WHEN event = 'gate' THEN coalesce(gate, 'gate')"
     "  || CASE passed WHEN 1 THEN ' opened to ' ELSE ' refused ' END || coalesce(to_stage, '-')"
     "  ELSE coalesce(from_stage, '-') || ' to ' || coalesce(to_stage, '-') END || coalesce(' by ' || reason, '')"
     "  || coalesce(', failed ' || nullif(failed, ''), '')) AS text"
     "  FROM life WHERE round BETWEEN :from AND :to"
     "  ORDER BY round DESC, step DESC, env DESC, slot DESC, ordinal DESC" LIMITED(2000) ")"
     " UNION ALL SELECT * FROM (SELECT round, step, env, NULL, 'rollback',"
     "  coalesce(reason, '-') || ', ' || seeds_lost || ' seeds lost' FROM rollback WHERE round BETWEEN :from AND :to"
     "  ORDER BY round DESC, step DESC, env DESC" LIMITED(2000) ")"
     " UNION ALL SELECT * FROM (SELECT round, NULL, NULL, NULL, 'alert',"
     "  coalesce(severity, '-') || ' ' || coalesce(state, '-') || ', ' || rule || ': ' || coalesce(text, '-')"
     "  FROM alert WHERE round BETWEEN :from AND :to ORDER BY round DESC, rule" LIMITED(2000) ")"
     " UNION ALL SELECT * FROM (SELECT round, step, NULL, NULL, 'checkpoint', coalesce(kind, '-') || ' ' || file"
     "  FROM checkpoint WHERE round BETWEEN :from AND :to ORDER BY round DESC, step DESC" LIMITED(2000) ")"
     " UNION ALL SELECT * FROM (SELECT round, step, NULL, NULL, 'drops',"
     "  count || ' rows of ' || coalesce(name, '-') || ' lost'"
     "  FROM drops WHERE reason = 'full' AND round BETWEEN :from AND :to ORDER BY round DESC, step DESC"
     LIMITED(2000) ")) ORDER BY round DESC, coalesce(step, 1000000000) DESC, env DESC, slot DESC, kind" LIMITED(2000)},

    {"bottom", "the episodes with the lowest test score, then the most added parameters", ":from :to :limit",
     "SELECT * FROM outcome WHERE round BETWEEN :from AND :to AND test_accuracy IS NOT NULL"
     " ORDER BY test_accuracy, added_params DESC, round DESC, env" LIMITED(1000)},

    {"stages", "the stages that an env's slots went through in a round: from from_step to to_step, or to the end",
     ":round :env",
     STEPS_OF("life") "SELECT slot, germination, blueprint, to_stage AS stage, step AS from_step,"
     " lead(step) OVER (PARTITION BY slot ORDER BY step, ordinal) AS to_step"
     " FROM number CROSS JOIN life ON round = :round AND step = n AND env = :env"
     " WHERE event = 'stage' ORDER BY slot, step, ordinal LIMIT 10000"},

    {"health", "the figures behind the verdict: one row; `recent` is the last 10 rounds, `first` the first 10", "",
     "SELECT (SELECT count(*) FROM outcome) AS episodes,"
     " (SELECT count(*) FROM round) AS rounds_done,"
     " (SELECT sum(count) FROM drops WHERE reason = 'full' AND name IN ('step', 'seed', 'subset', 'phase'))"
     "  AS bulk_lost,"
     " (SELECT sum(count) FROM drops WHERE reason = 'full' AND name NOT IN ('step', 'seed', 'subset', 'phase'))"
     "  AS critical_lost,"
     " (SELECT sum(nonfinite) FROM ppo) AS nonfinite_epochs,"
     " (SELECT count(*) FROM rollback) AS rollbacks,"
     " (SELECT sum(rollbacks) FROM (SELECT rollbacks FROM round ORDER BY round DESC LIMIT 10)) AS rollbacks_recent,"
     " (SELECT count(*) FROM ppo) AS updates,"
     " (SELECT avg(kl) FROM (SELECT kl FROM ppo ORDER BY round DESC LIMIT 10)) AS kl_recent,"
     " (SELECT avg(clip_fraction) FROM (SELECT clip_fraction FROM ppo ORDER BY round DESC LIMIT 10)) AS clip_recent,"
     " (SELECT avg(op_entropy) FROM (SELECT op_entropy FROM ppo ORDER BY round DESC LIMIT 10)) AS op_entropy_recent,"
     " (SELECT avg(explained_variance) FROM (SELECT explained_variance FROM ppo ORDER BY round DESC LIMIT 10))"
     "  AS explained_variance_recent,"
     " (SELECT max(explained_variance) FROM (SELECT explained_variance FROM ppo ORDER BY round DESC LIMIT 5))"
     "  AS explained_variance_best5,"
     " (SELECT sum(germinations) FROM (SELECT germinations FROM round ORDER BY round DESC LIMIT 10))"
     "  AS germinations_recent,"
     " (SELECT sum(fossilizations) FROM (SELECT fossilizations FROM round ORDER BY round DESC LIMIT 10))"
     "  AS fossilizations_recent,"
     " (SELECT avg(val_accuracy_mean) FROM (SELECT val_accuracy_mean FROM round ORDER BY round LIMIT 10))"
     "  AS val_accuracy_first,"
     " (SELECT avg(val_accuracy_mean) FROM (SELECT val_accuracy_mean FROM round ORDER BY round DESC LIMIT 10))"
     "  AS val_accuracy_recent,"
     " (SELECT avg(reward_mean) FROM (SELECT reward_mean FROM round ORDER BY round LIMIT 10)) AS reward_first,"
     " (SELECT avg(reward_mean) FROM (SELECT reward_mean FROM round ORDER BY round DESC LIMIT 10)) AS reward_recent"},

    {"lanes", "`stages` of all envs of a round", ":round",
     "SELECT env, slot, germination, blueprint, to_stage AS stage, step AS from_step,"
     " lead(step) OVER (PARTITION BY env, slot ORDER BY step, ordinal) AS to_step"
     " FROM life WHERE round = :round AND event = 'stage' ORDER BY env, slot, step, ordinal LIMIT 50000"},
};
// clang-format on
const int question_count = (int)(sizeof questions / sizeof questions[0]);

/* ---- filling ----------------------------------------------------------------------------------------------------- */

struct question_values question_all(void)
{
    return (struct question_values){.to = INT64_MAX, .limit = 200};
}

const struct question *question_find(const char *name)
{
    for (int i = 0; i < question_count; i++)
        if (strcmp(questions[i].name, name) == 0)
            return &questions[i];
    return NULL;
}

/* The value of the parameter that `text` begins with, and the length of its name; NULL: there is none. */
static const int64_t *parameter_at(const char *text, const struct question_values *values, size_t *length)
{
    const struct {
        const char *name;
        const int64_t *value;
    } parameters[] = {{":round", &values->round}, {":step", &values->step}, {":env", &values->env},
                      {":slot", &values->slot},   {":from", &values->from}, {":to", &values->to},
                      {":limit", &values->limit}};
    *length = 1 + strspn(text + 1, "abcdefghijklmnopqrstuvwxyz_");
    for (size_t i = 0; text[0] == ':' && i < sizeof parameters / sizeof parameters[0]; i++)
        if (strlen(parameters[i].name) == *length && strncmp(text, parameters[i].name, *length) == 0)
            return parameters[i].value;
    return NULL;
}

enum esper_status question_fill(const char *name, const struct question_values *values, char *sql, size_t size,
                                struct esper_error *error)
{
    const struct question *question = question_find(name);
    size_t used = 0, length;
    if (!question)
        return error_set(error, ESPER_FAILED, "there is no question \"%.40s\"; see view/questions.c", name);
    for (const char *at = question->sql; *at;) {
        const int64_t *value = parameter_at(at, values, &length);
        char number[24] = {*at, '\0'};
        if (value)
            snprintf(number, sizeof number, "%" PRId64, *value);
        if (used + strlen(number) >= size)
            return error_set(error, ESPER_FAILED, "the question \"%s\" needs a buffer of more than %zu bytes", name,
                             size);
        memcpy(sql + used, number, strlen(number));
        used += strlen(number);
        at += value ? length : 1;
    }
    sql[used] = '\0';
    return ESPER_OK;
}

enum esper_status question_run(struct query *query, const char *name, const struct question_values *values,
                               const struct query_options *options, query_take row, void *context,
                               struct esper_error *error)
{
    char sql[QUESTION_BYTES];
    TRY(question_fill(name, values, sql, sizeof sql, error));
    return query_run(query, sql, options, row, context, error);
}
