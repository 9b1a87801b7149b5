#include "view/verdict.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "morph/family.h"
#include "telemetry/alerts.h"
#include "view/sheet.h"

#define EPISODES_TO_JUDGE 10
#define UPDATES_TO_JUDGE  10

enum { DATA, NUMERICS, POLICY, CRITIC, LIFECYCLE };

const char *verdict_state_name(enum verdict_state state)
{
    static const char *const names[] = {"interpretable", "collecting", "watch", "blocked"};
    return names[state];
}

const char *gate_state_name(enum gate_state state)
{
    static const char *const names[] = {"pass", "watch", "fail", "unknown"};
    return names[state];
}

static double asked(const struct sheet *health, const char *column)
{
    return sheet_number(health, 0, column);
}

/* In SQL a sum over no rows is missing. */
static double counted(const struct sheet *health, const char *column)
{
    double value = asked(health, column);
    return isnan(value) ? 0 : value;
}

/* The thresholds are those of the alerts; missing numbers are not bad. */
static enum gate_state judged(const struct alert_rule *rule, double value)
{
    if (rule->below)
        return value < rule->critical ? GATE_FAIL : value < rule->warn ? GATE_WATCH : GATE_PASS;
    return value > rule->critical ? GATE_FAIL : value > rule->warn ? GATE_WATCH : GATE_PASS;
}

static enum gate_state worse(enum gate_state a, enum gate_state b)
{
    return a > b ? a : b;
}

static void judge_data(struct verdict_gate *gate, const struct sheet *health, const struct run_status *status)
{
    double critical = counted(health, "critical_lost"), bulk = counted(health, "bulk_lost");
    bool crashed = status->state == RUN_RUNNING && !status->alive, failed = status->state == RUN_FAILED;
    gate->state = critical > 0 || crashed || failed ? GATE_FAIL : bulk > 0 ? GATE_WATCH : GATE_PASS;
    if (critical > 0)
        snprintf(gate->text, VERDICT_TEXT, "%.0f rows of rounds, episodes or events were lost", critical);
    else if (crashed || failed)
        snprintf(gate->text, VERDICT_TEXT, "the trainer %s; its record up to then is valid",
                 crashed ? "died" : "failed");
    else if (bulk > 0)
        snprintf(gate->text, VERDICT_TEXT, "%.0f rows of steps, seeds or phases were lost to a full buffer", bulk);
    else
        snprintf(gate->text, VERDICT_TEXT, "no row lost; %.0f rounds, %.0f episodes", counted(health, "rounds_done"),
                 counted(health, "episodes"));
}

static void judge_numerics(struct verdict_gate *gate, const struct sheet *health)
{
    double nonfinite = counted(health, "nonfinite_epochs"), rollbacks = counted(health, "rollbacks");
    double episodes = counted(health, "episodes"), rate = episodes > 0 ? 100 * rollbacks / episodes : 0;
    gate->state = nonfinite > 0 ? GATE_FAIL : judged(alert_rule_named("rollbacks"), rate);
    if (nonfinite > 0)
        snprintf(gate->text, VERDICT_TEXT, "%.0f epochs of updates were not finite; %.0f rollbacks", nonfinite,
                 rollbacks);
    else
        snprintf(gate->text, VERDICT_TEXT, "all updates finite; %.0f rollback%s, %.1f per 100 episodes", rollbacks,
                 rollbacks == 1 ? "" : "s", rate);
}

/* How severe the recorder rated it: it knows the course of the whole run. */
static enum gate_state standing(const struct sheet *alerts, const char *rule)
{
    for (int i = 0; i < alerts->rows; i++) {
        const char *name = sheet_text(alerts, i, "rule"), *severity = sheet_text(alerts, i, "severity");
        if (name && severity && strcmp(name, rule) == 0)
            return strcmp(severity, "critical") == 0 ? GATE_FAIL : GATE_WATCH;
    }
    return GATE_PASS;
}

/* Low entropy without an alert means a policy that has settled (alerts.h). */
static void judge_policy(struct verdict_gate *gate, const struct sheet *health, const struct sheet *alerts)
{
    double updates = counted(health, "updates"), kl = asked(health, "kl_recent");
    double entropy = asked(health, "op_entropy_recent"), clip = asked(health, "clip_recent");
    if (updates < UPDATES_TO_JUDGE) {
        snprintf(gate->text, VERDICT_TEXT, "%.0f updates so far; judged from %d on", updates, UPDATES_TO_JUDGE);
        return;
    }
    const struct alert_rule *divergence = alert_rule_named("kl"), *spread = alert_rule_named("entropy");
    enum gate_state explores = standing(alerts, spread->name);
    bool settled = explores == GATE_PASS && entropy < spread->warn;
    char limit[32] = "settled";
    if (!settled)
        snprintf(limit, sizeof limit, "at least %g", spread->warn);
    gate->state = worse(judged(divergence, kl), explores);
    snprintf(gate->text, VERDICT_TEXT,
             "last 10 updates: KL %.4f (at most %g), op entropy %.2f of 1 (%s), %.0f %% clipped", kl, divergence->warn,
             entropy, limit, 100 * clip);
}

static void judge_critic(struct verdict_gate *gate, const struct sheet *health)
{
    double updates = counted(health, "updates"), variance = asked(health, "explained_variance_recent");
    if (updates < UPDATES_TO_JUDGE || isnan(variance)) {
        snprintf(gate->text, VERDICT_TEXT, "%.0f updates so far; judged from %d on", updates, UPDATES_TO_JUDGE);
        return;
    }
    const struct alert_rule *rule = alert_rule_named("explained_variance");
    bool never = asked(health, "explained_variance_best5") < rule->critical;
    gate->state = never ? GATE_FAIL : variance < rule->warn ? GATE_WATCH : GATE_PASS;
    snprintf(gate->text, VERDICT_TEXT, "last 10 updates: %.2f of the returns' variance explained (at least %g)",
             variance, rule->warn);
}

static void judge_lifecycle(struct verdict_gate *gate, const struct sheet *health)
{
    double born = counted(health, "germinations_recent"), kept = counted(health, "fossilizations_recent");
    if (counted(health, "rounds_done") == 0) {
        snprintf(gate->text, VERDICT_TEXT, "no round has finished");
        return;
    }
    gate->state = born > 0 && kept == 0 ? GATE_WATCH : born > 0 ? GATE_PASS : GATE_UNKNOWN;
    if (born > 0)
        snprintf(gate->text, VERDICT_TEXT, "last 10 rounds: %.0f seeds germinated, %.0f fossilised", born, kept);
    else
        snprintf(gate->text, VERDICT_TEXT, "last 10 rounds: nothing germinated");
}

static void tell_trend(struct verdict *verdict, const struct sheet *health, const struct family_words *words)
{
    char before[FAMILY_SCORE], now[FAMILY_SCORE];
    double first = asked(health, "val_accuracy_first"), recent = asked(health, "val_accuracy_recent");
    if (counted(health, "rounds_done") < 20 || isnan(first) || isnan(recent))
        snprintf(verdict->trend, VERDICT_TEXT, "too few rounds for a trend; it takes 20");
    else
        snprintf(verdict->trend, VERDICT_TEXT,
                 "validation %s %+.1f points: %s in the first 10 rounds, %s in the last 10; reward %+.1f", words->score,
                 recent - first, family_score(words, first, before), family_score(words, recent, now),
                 asked(health, "reward_recent") - asked(health, "reward_first"));
}

/* The text comes from the first gate that fails, then from a critical alert that was not cleared, then from the first
 * gate to watch, then from a warning, which changes nothing. */
static void conclude(struct verdict *verdict, const struct sheet *health, const struct sheet *alerts, bool ended)
{
    const struct verdict_gate *worst = &verdict->gates[DATA];
    const char *severity = sheet_text(alerts, 0, "severity"), *alert = sheet_text(alerts, 0, "text");
    bool alarmed = severity && strcmp(severity, "critical") == 0;
    double episodes = counted(health, "episodes");
    for (int i = 0; i < VERDICT_GATES; i++)
        if (verdict->gates[i].state != GATE_UNKNOWN && verdict->gates[i].state > worst->state)
            worst = &verdict->gates[i];
    bool broken = verdict->gates[DATA].state == GATE_FAIL || verdict->gates[NUMERICS].state == GATE_FAIL;
    verdict->state = broken                                 ? VERDICT_BLOCKED
                     : worst->state != GATE_PASS || alarmed ? VERDICT_WATCH
                     : episodes < EPISODES_TO_JUDGE         ? VERDICT_COLLECTING
                                                            : VERDICT_INTERPRETABLE;
    if (worst->state == GATE_FAIL || (worst->state == GATE_WATCH && !alarmed))
        snprintf(verdict->text, VERDICT_TEXT, "%s: %.170s", worst->name, worst->text);
    else if (alarmed)
        snprintf(verdict->text, VERDICT_TEXT, "%s: %.150s", ended ? "alert at the end" : "alert", alert ? alert : "-");
    else if (episodes < EPISODES_TO_JUDGE)
        snprintf(verdict->text, VERDICT_TEXT, "%.0f episodes so far; judged from %d on", episodes, EPISODES_TO_JUDGE);
    else if (alerts->rows)
        snprintf(verdict->text, VERDICT_TEXT, "data complete, numbers finite; %s: %.100s",
                 ended ? "a warning at the end" : "a warning is active", alert ? alert : "-");
    else
        snprintf(verdict->text, VERDICT_TEXT, "data complete, numbers finite, nothing to watch in the last 10 rounds");
}

enum esper_status verdict_of(struct query *query, const struct run *run, const struct run_status *status,
                             struct verdict *verdict, struct esper_error *error)
{
    const struct question_values all = question_all();
    struct sheet health, alerts;
    *verdict = (struct verdict){
        .gates = {{.name = "data", .title = "Is the record complete?", .state = GATE_UNKNOWN},
                  {.name = "numerics", .title = "Are the numbers sound?", .state = GATE_UNKNOWN},
                  {.name = "policy", .title = "Does the policy explore, or has it settled?", .state = GATE_UNKNOWN},
                  {.name = "critic", .title = "Does the critic predict the returns?", .state = GATE_UNKNOWN},
                  {.name = "lifecycle", .title = "Do seeds grow up?", .state = GATE_UNKNOWN}}};
    TRY(sheet_ask(&health, query, "health", &all, error));
    enum esper_status asked_alerts = sheet_ask(&alerts, query, "standing", &all, error);
    if (asked_alerts != ESPER_OK) {
        sheet_free(&health);
        return asked_alerts;
    }
    judge_data(&verdict->gates[DATA], &health, status);
    judge_numerics(&verdict->gates[NUMERICS], &health);
    judge_policy(&verdict->gates[POLICY], &health, &alerts);
    judge_critic(&verdict->gates[CRITIC], &health);
    judge_lifecycle(&verdict->gates[LIFECYCLE], &health);
    tell_trend(verdict, &health, &host_family_of(&run->config)->words);
    conclude(verdict, &health, &alerts, run_has_ended(status));
    sheet_free(&health);
    sheet_free(&alerts);
    return ESPER_OK;
}
