#include "telemetry/alerts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"

enum {
    WINDOW = 20,    /* rounds that a rolling number looks back over */
    SPAN = 10,      /* rounds before a number is compared with its past; the objective is a mean over this many */
    FEW = 20,       /* choices below which a share says nothing */
    KEPT_STEP = 10, /* every step that is a multiple of this is recorded, whatever is thinned */
    AHEAD = 64      /* rounds that may be in the lanes at once */
};

#define LEARNABLE  0.02 /* a head is judged from this share of rows with a choice */
#define EMA_WEIGHT 0.01

/* The objective has risen or fallen when it differs by this many standard errors. It falls from the best of many spans,
 * which is the best partly by chance; and part of the gain comes and goes in a healthy run. */
#define RISEN  2.0
#define FALLEN 3.0
#define LOST   0.33 /* of the gain over the first rounds */
#define EARLY  0.5  /* of the planned rounds: until then a policy that has learned nothing should explore */

/* The numbers of one round that the rules watch; NAN: missing. */
#define FIGURES(FIGURE)                                                                                                \
    FIGURE(log_prob_min)                                                                                               \
    FIGURE(gradient_growth) /* norm divided by its running mean */                                                     \
    FIGURE(td_error)        /* in units of the targets */                                                              \
    FIGURE(advantage_std)   /* likewise */                                                                             \
    FIGURE(skipped)         /* epochs */                                                                               \
    FIGURE(not_finite)      /* figures of the update */                                                                \
    FIGURE(wait_share)      /* of choices */                                                                           \
    FIGURE(refused_share)   /* of actions */                                                                           \
    FIGURE(rollback_rate)   /* per 100 episodes */                                                                     \
    FIGURE(accuracy_drop)   /* percent of the rolling mean */                                                          \
    FIGURE(bulk_lost)       /* rows per 100 env-steps */                                                               \
    FIGURE(critical_lost)   /* rows, all */

#define FIGURE_MEMBER(name) double name;
struct figures {
    struct ppo_record ppo;
    double head_entropy[HEAD_COUNT], head_gradient[HEAD_COUNT]; /* missing where the head had nothing to learn from */
    FIGURES(FIGURE_MEMBER)
};
#undef FIGURE_MEMBER

/* ---- the rules --------------------------------------------------------------------------------------------------- */

#define AT(field) offsetof(struct figures, field)
#define NONE      (double)NAN
#define RISE      false
#define FALL      true
#define SETTLES   true
#define ALWAYS    false
/*
 * Thresholds are the usual ones, except where those would raise alerts in every healthy run (T-04):
 *   td_error, advantage_std   have no natural size, the rewards' own grows as the policy does: in units of the targets.
 *                             A good critic leaves little advantage, so that only almost none is bad
 *   advantage_positive        one large reward at the end makes most advantages negative: the outer bounds, warm-up
 *   explained_variance        a critic takes some 25 rounds to learn what is paid at the end: warm-up
 *   ratio_max, ratio_min      one row of an update may be far off, and is clipped: three rounds in a row
 *   cell                      it may add 1 per step, and 6 is usual: 10 and 30. h is within 1 and cannot be too large
 *   gradient_growth           only the upward drift: training is meant to shrink gradients
 *   wait                      of the choices a policy had, not of all steps, and where it learns
 *   refusals                  our own rule: half of what a policy does comes to nothing
 *   performance               one round of a few episodes may be that much worse by chance: two in a row
 *   entropy, wait             a policy that knows what pays explores less and waits more: fine once it has settled. The
 *                             warm-up is that of the objective; 50 rounds are most of a short run
 */
#define HEAD_ENTROPY(NAME, name, collapse)                                                                             \
    {                                                                                                                  \
        "head_entropy_" #name, "head " #name " entropy %.3f", FALL, 1.5 * (collapse), collapse, 3, 3, 0,               \
            AT(head_entropy[HEAD_##NAME]), SETTLES                                                                     \
    }
#define DEAD_HEAD(NAME, name)                                                                                          \
    {                                                                                                                  \
        "dead_head_" #name, "head " #name " gets no gradient (%.1e)", FALL, 1e-6, 1e-6, 2, 5, 0,                       \
            AT(head_gradient[HEAD_##NAME]), ALWAYS                                                                     \
    }
#define HEAD(NAME, name, collapse) HEAD_ENTROPY(NAME, name, collapse), DEAD_HEAD(NAME, name)

const struct alert_rule alert_rules[] = {
    /* breakage */
    {"update_skipped", "%.0f epochs of the update not finite", RISE, NONE, 1, 1, 1, 0, AT(skipped), ALWAYS},
    {"not_finite", "%.0f figures of the update not finite", RISE, NONE, 1, 1, 1, 0, AT(not_finite), ALWAYS},
    {"rollbacks", "%.1f rollbacks per 100 episodes", RISE, 1, 10, 1, 1, 0, AT(rollback_rate), ALWAYS},
    {"rows_lost", "%.2f rows lost per 100 env-steps", RISE, 1e-9, 1, 1, 1, 0, AT(bulk_lost), ALWAYS},
    {"critical_rows_lost", "%.0f rows lost that must not be", RISE, NONE, 1, 1, 1, 0, AT(critical_lost), ALWAYS},
    /* the policy */
    {"entropy", "op entropy %.2f", FALL, 0.30, 0.10, 1, 1, 2 * SPAN, AT(ppo.op_entropy), SETTLES},
    HEAD(SLOT, slot, 0.10),
    HEAD(BLUEPRINT, blueprint, 0.05),
    HEAD(STYLE, style, 0.08),
    HEAD(TEMPO, tempo, 0.05),
    HEAD(ALPHA_TARGET, alpha_target, 0.08),
    HEAD(ALPHA_SPEED, alpha_speed, 0.08),
    HEAD(ALPHA_CURVE, alpha_curve, 0.08),
    HEAD(OP, op, 0.08),
    {"log_prob", "log-probability down to %.0f", FALL, -50, -100, 1, 1, 0, AT(log_prob_min), ALWAYS},
    {"kl", "KL %.3f", RISE, 0.02, 0.10, 1, 1, 0, AT(ppo.kl), ALWAYS},
    {"clip_fraction", "%.2f of the rows clipped", RISE, 0.25, 0.40, 2, 2, 0, AT(ppo.clip_fraction), ALWAYS},
    {"ratio_max", "joint ratio up to %.1f", RISE, 3, 10, 3, 3, 0, AT(ppo.ratio_max), ALWAYS},
    {"ratio_min", "joint ratio down to %.2f", FALL, 0.3, 0.1, 3, 3, 0, AT(ppo.ratio_min), ALWAYS},
    {"gradient_growth", "gradient norm %.1f times its mean", RISE, 1.5, 6, 3, 3, 0, AT(gradient_growth), ALWAYS},
    {"hidden_low", "recurrent state h of RMS %.1e", FALL, 1e-4, 1e-6, 1, 1, 0, AT(ppo.hidden_rms), ALWAYS},
    {"cell_high", "cell state c of RMS %.1f", RISE, 10, 30, 1, 1, 0, AT(ppo.cell_rms), ALWAYS},
    {"cell_low", "cell state c of RMS %.1e", FALL, 1e-4, 1e-6, 1, 1, 0, AT(ppo.cell_rms), ALWAYS},
    /* the critic and the advantages */
    {"explained_variance", "explained variance %.2f", FALL, 0.3, 0, 3, 5, 30, AT(ppo.explained_variance), ALWAYS},
    {"value_nrmse", "value error %.2f of the returns' spread", RISE, 1, 2, 2, 2, 0, AT(ppo.value_nrmse), ALWAYS},
    {"value_loss", "value loss %.1f", RISE, 3, 5, 2, 2, 0, AT(ppo.value_loss), ALWAYS},
    {"td_error", "temporal-difference error %.1f of the spread", RISE, 3, 5, 2, 2, 0, AT(td_error), ALWAYS},
    {"advantage_std_high", "advantages spread by %.1f", RISE, 2, 3, 2, 2, 0, AT(advantage_std), ALWAYS},
    {"advantage_std_low", "advantages spread by %.3f", FALL, 0.1, 0.01, 2, 2, 0, AT(advantage_std), ALWAYS},
    {"advantage_positive_high", "%.2f of the advantages positive", RISE, 0.8, 0.95, 2, 2, 30,
     AT(ppo.advantage_positive), ALWAYS},
    {"advantage_positive_low", "%.2f of the advantages positive", FALL, 0.2, 0.05, 2, 2, 30, AT(ppo.advantage_positive),
     ALWAYS},
    /* behaviour */
    {"wait", "WAIT is %.2f of the choices", RISE, 0.8, 0.95, 3, 3, 0, AT(wait_share), SETTLES},
    {"refusals", "%.2f of the actions refused", RISE, 0.5, 0.8, 3, 3, 0, AT(refused_share), ALWAYS},
    {"performance", "validation %.0f %% below its rolling mean", RISE, 10, 25, 2, 2, 0, AT(accuracy_drop), ALWAYS},
};
const int alert_rule_count = sizeof alert_rules / sizeof alert_rules[0];
enum { RULES = sizeof alert_rules / sizeof alert_rules[0] };
_Static_assert(RULES <= (int)ALERTS_MAX, "an alert for every rule");

static bool is(const char *text, const char *name)
{
    return text && strcmp(text, name) == 0;
}

const struct alert_rule *alert_rule_named(const char *name)
{
    int i = 0;
    while (!is(alert_rules[i].name, name))
        i++;
    return &alert_rules[i];
}

/* ---- state ------------------------------------------------------------------------------------------------------- */

enum severity { FINE, WARN, CRITICAL };
static const char *const severity_names[] = {"", "warn", "critical"};

/* A rule in the course of a run. */
struct watch {
    enum severity standing;
    int bad[CRITICAL + 1]; /* rounds at least this bad since the last good one */
    int good;              /* good rounds in a row */
};

/* Decisions of a policy that had a choice. */
struct choices {
    int64_t all, waits;
};

/* Steps of a round. They arrive on the bulk lane, and may run ahead of the rest of the previous round. */
struct tally {
    int64_t round;
    struct choices choices, sample; /* in all rows; in those that are never thinned */
    int64_t steps, actions, refused;
};

/* The reward of the policy over SPAN rounds. */
struct span {
    double mean, variance; /* the variance is that of the mean: the square of its standard error */
};

/* What low entropy means. */
enum course { EXPLORES, FALLS, SETTLED };

struct alerts {
    struct watch watch[RULES];
    int64_t planned; /* rounds of the run */
    int64_t rounds;  /* judged since the run began */
    /* the objective */
    double rewards[SPAN];
    int64_t rewarded; /* rounds that had one */
    struct span first, best;
    enum course course;
    /* running numbers */
    double gradient_mean;
    int64_t gradients;
    double accuracy[WINDOW];
    double episodes[WINDOW], rollbacks[WINDOW];
    /* the round in progress */
    struct figures now;
    bool learned;
    int64_t outcomes;
    double lost_bulk,
        lost_critical;           /* rows; a record that is read again may say anything, and doubles do not overflow */
    struct tally tallies[AHEAD]; /* by round; one that a later round displaces leaves its numbers missing */
};

/* Everything is missing; the integers of an update are not read before there is one. */
static void begin_round(struct alerts *alerts)
{
#define MISSING_INTEGER                 RECORD_NONE
#define MISSING_NUMBER                  (double)NAN
#define FIELD_MISSING(kind, name, help) .name = MISSING_##kind,
#define FIGURE_MISSING(name)            .name = NAN,
    alerts->now = (struct figures){.ppo = {PPO_FIELDS(FIELD_MISSING)}, FIGURES(FIGURE_MISSING)};
#undef FIGURE_MISSING
#undef FIELD_MISSING
    for (int head = 0; head < HEAD_COUNT; head++)
        alerts->now.head_entropy[head] = alerts->now.head_gradient[head] = NAN;
    alerts->learned = false;
    alerts->outcomes = 0;
    alerts->lost_bulk = alerts->lost_critical = 0;
}

struct alerts *alerts_create(int64_t planned, struct esper_error *error)
{
    struct alerts *alerts = memory_alloc(1, sizeof *alerts, error);
    if (!alerts)
        return NULL;
    alerts->planned = planned;
    begin_round(alerts);
    return alerts;
}

void alerts_free(struct alerts *alerts)
{
    memory_free(alerts);
}

static int count_from(const struct alerts *alerts, enum severity severity)
{
    int count = 0;
    for (int i = 0; i < RULES; i++)
        count += alerts->watch[i].standing >= severity;
    return count;
}

int alerts_standing(const struct alerts *alerts)
{
    return count_from(alerts, WARN);
}

int alerts_critical(const struct alerts *alerts)
{
    return count_from(alerts, CRITICAL);
}

void alerts_recall(struct alerts *alerts, const struct alert_record *row)
{
    for (int i = 0; i < RULES; i++)
        if (!row || is(row->rule, alert_rules[i].name)) {
            bool raised = row && is(row->state, "raised");
            bool critical = raised && is(row->severity, severity_names[CRITICAL]);
            alerts->watch[i].standing = critical ? CRITICAL : raised ? WARN : FINE;
        }
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

static void look_at_head(struct alerts *alerts, const struct ppo_head_record *row)
{
    if (isfinite(row->log_prob_min)) /* fmin takes the number when the other is missing */
        alerts->now.log_prob_min = fmin(alerts->now.log_prob_min, row->log_prob_min);
    for (int head = 0; head < HEAD_COUNT; head++)
        if (is(row->head, head_name(head)) && row->learnable >= LEARNABLE) {
            alerts->now.head_entropy[head] = row->entropy;
            alerts->now.head_gradient[head] = row->grad_norm;
        }
}

static struct tally *tally_of(struct alerts *alerts, int64_t round)
{
    struct tally *tally = &alerts->tallies[(uint64_t)round % AHEAD];
    if (tally->round != round)
        *tally = (struct tally){.round = round};
    return tally;
}

static void look_at_step(struct alerts *alerts, const struct step_record *row)
{
    struct tally *tally = tally_of(alerts, row->round);
    bool wait = is(row->op, "wait");
    tally->steps++;
    tally->actions += !wait;
    tally->refused += is(row->result, "refused");
    if (row->forced)
        return;
    tally->choices.all++;
    tally->choices.waits += wait;
    tally->sample.all += row->step % KEPT_STEP == 0;
    tally->sample.waits += wait && row->step % KEPT_STEP == 0;
}

static void look_at_drops(struct alerts *alerts, const struct drops_record *row)
{
#define LANE_NAME(NAME, name, lane, level, key, help) {#name, #lane},
    static const struct {
        const char *table, *lane;
    } lanes[] = {RECORD_KINDS(LANE_NAME)};
    if (!is(row->reason, "full"))
        return; /* thinned on purpose */
    for (int i = 0; i < RECORD_KIND_COUNT; i++)
        if (is(row->name, lanes[i].table))
            *(is(lanes[i].lane, "BULK") ? &alerts->lost_bulk : &alerts->lost_critical) += (double)row->count;
}

void alerts_look(struct alerts *alerts, const struct record_row *row)
{
    switch ((int)row->kind) {
    case RECORD_PPO:
        alerts->now.ppo = row->record.ppo;
        alerts->learned = true;
        break;
    case RECORD_PPO_HEAD:
        look_at_head(alerts, &row->record.ppo_head);
        break;
    case RECORD_STEP:
        look_at_step(alerts, &row->record.step);
        break;
    case RECORD_OUTCOME:
        alerts->outcomes++;
        break;
    case RECORD_DROPS:
        look_at_drops(alerts, &row->record.drops);
        break;
    default:
        break;
    }
}

/* ---- numbers derived from them ----------------------------------------------------------------------------------- */

/* An update that took a step has all of these; one that took none has none, and `skipped` says so. */
static double count_not_finite(const struct ppo_record *ppo)
{
    const double figures[] = {ppo->policy_loss, ppo->value_loss, ppo->entropy,   ppo->kl,         ppo->ratio_mean,
                              ppo->ratio_max,   ppo->ratio_min,  ppo->grad_norm, ppo->hidden_rms, ppo->cell_rms};
    int count = 0;
    for (size_t i = 0; i < sizeof figures / sizeof figures[0]; i++)
        count += !isfinite(figures[i]);
    return ppo->epochs > 0 ? count : (double)NAN;
}

/* Relative to the mean before this round. That mean starts as a plain average, so that the very first round does not
 * dominate. */
static void follow_gradient(struct alerts *alerts)
{
    double norm = alerts->now.ppo.grad_norm;
    if (!isfinite(norm))
        return;
    if (alerts->gradients >= SPAN && alerts->gradient_mean > 0)
        alerts->now.gradient_growth = norm / alerts->gradient_mean;
    alerts->gradients++;
    alerts->gradient_mean += (norm - alerts->gradient_mean) * fmax(1.0 / (double)alerts->gradients, EMA_WEIGHT);
}

/* Where rows are thinned the missing ones are WAITs: then only steps that are never thinned count. */
static void measure_choices(struct alerts *alerts, const struct round_record *round)
{
    const struct tally *tally = tally_of(alerts, round->round);
    const struct choices *choices = tally->steps < round->env_steps ? &tally->sample : &tally->choices;
    if (choices->all >= FEW && alerts->learned)
        alerts->now.wait_share = (double)choices->waits / (double)choices->all;
    if (tally->actions >= FEW)
        alerts->now.refused_share = (double)tally->refused / (double)tally->actions;
}

static void measure_past(struct alerts *alerts, const struct round_record *round)
{
    int64_t known = alerts->rounds < WINDOW ? alerts->rounds : WINDOW, at = alerts->rounds % WINDOW;
    int64_t count = 0;
    double mean = 0, episodes = 0, rollbacks = 0;
    for (int64_t i = 0; i < known; i++)
        if (isfinite(alerts->accuracy[i])) {
            mean += alerts->accuracy[i];
            count++;
        }
    mean /= count ? (double)count : 1;
    if (count >= SPAN && mean > 0 && isfinite(round->val_accuracy_mean))
        alerts->now.accuracy_drop = 100 * (mean - round->val_accuracy_mean) / mean;
    alerts->accuracy[at] = round->val_accuracy_mean;
    alerts->episodes[at] = (double)alerts->outcomes;
    alerts->rollbacks[at] = alerts->outcomes ? (double)round->rollbacks : 0;
    for (int i = 0; i < WINDOW; i++) {
        episodes += alerts->episodes[i];
        rollbacks += alerts->rollbacks[i];
    }
    if (alerts->outcomes) /* as if there had been a hundred: one rollback is not a rate yet */
        alerts->now.rollback_rate = 100 * rollbacks / fmax(100, episodes);
}

static struct span span_of(const double rewards[SPAN])
{
    double sum = 0, squares = 0;
    for (int i = 0; i < SPAN; i++)
        sum += rewards[i];
    for (int i = 0; i < SPAN; i++)
        squares += (rewards[i] - sum / SPAN) * (rewards[i] - sum / SPAN);
    return (struct span){sum / SPAN, squares / (SPAN * (SPAN - 1))};
}

static bool is_above(struct span high, struct span low, double errors)
{
    return high.mean - low.mean > errors * sqrt(high.variance + low.variance);
}

/* A policy has settled when it keeps what it reached, and has learned something or had half of its rounds to do so. */
static void follow_objective(struct alerts *alerts, const struct round_record *round)
{
    if (!isfinite(round->reward_mean))
        return;
    alerts->rewards[alerts->rewarded++ % SPAN] = round->reward_mean;
    if (alerts->rewarded < SPAN)
        return;
    struct span recent = span_of(alerts->rewards);
    if (alerts->rewarded == SPAN)
        alerts->first = alerts->best = recent;
    bool early = (double)alerts->rounds < EARLY * (double)alerts->planned;
    double kept = alerts->best.mean - LOST * (alerts->best.mean - alerts->first.mean);
    if (is_above(alerts->best, recent, FALLEN) && recent.mean < kept)
        alerts->course = FALLS;
    else
        alerts->course = early && !is_above(recent, alerts->first, RISEN) ? EXPLORES : SETTLED;
    if (recent.mean > alerts->best.mean)
        alerts->best = recent;
}

static void measure(struct alerts *alerts, const struct round_record *round)
{
    if (alerts->learned) {
        alerts->now.skipped = (double)alerts->now.ppo.nonfinite;
        alerts->now.not_finite = count_not_finite(&alerts->now.ppo);
        alerts->now.td_error = alerts->now.ppo.bellman_error / alerts->now.ppo.value_scale;
        alerts->now.advantage_std = alerts->now.ppo.advantage_std / alerts->now.ppo.value_scale;
        follow_gradient(alerts);
    }
    alerts->now.critical_lost = alerts->lost_critical;
    if (round->env_steps > 0)
        alerts->now.bulk_lost = 100 * alerts->lost_bulk / (double)round->env_steps;
    measure_choices(alerts, round);
    measure_past(alerts, round);
    follow_objective(alerts, round);
}

/* ---- verdicts ---------------------------------------------------------------------------------------------------- */

static enum severity severity_of(const struct alert_rule *rule, double number)
{
    if (rule->below ? number <= rule->critical : number >= rule->critical)
        return CRITICAL;
    return (rule->below ? number <= rule->warn : number >= rule->warn) ? WARN : FINE;
}

/* Counts the round; returns what the alert should be now. */
static enum severity follow(struct watch *watch, const struct alert_rule *rule, enum severity severity)
{
    if (severity == FINE) {
        watch->good = watch->good < ALERTS_GOOD ? watch->good + 1 : ALERTS_GOOD;
        watch->bad[WARN] = watch->bad[CRITICAL] = 0;
        return watch->good == ALERTS_GOOD ? FINE : watch->standing;
    }
    watch->good = 0;
    for (int i = WARN; i <= (int)severity; i++)
        watch->bad[i]++;
    if (watch->bad[CRITICAL] >= rule->critical_rounds || watch->standing == CRITICAL)
        return CRITICAL;
    return watch->bad[WARN] >= rule->warn_rounds ? WARN : watch->standing;
}

static void describe(const struct alert_rule *rule, enum severity severity, bool raised, double number, int64_t round,
                     enum course course, struct alert_record *row)
{
    static const char *const why[] = {[EXPLORES] = ", too early", [FALLS] = ", reward falls", [SETTLED] = ""};
    *row = (struct alert_record){.round = round,
                                 .rule = rule->name,
                                 .state = raised ? "raised" : "cleared",
                                 .severity = severity_names[severity],
                                 .value = number,
                                 .threshold = severity == CRITICAL ? rule->critical : rule->warn};
    int used = snprintf(row->text, sizeof row->text, rule->text, number);
    if (rule->settles && raised && used < (int)sizeof row->text)
        snprintf(row->text + used, sizeof row->text - (size_t)used, "%s", why[course]);
}

int alerts_judge(struct alerts *alerts, const struct round_record *round, struct alert_record out[ALERTS_MAX])
{
    int count = 0;
    measure(alerts, round);
    for (int i = 0; i < RULES; i++) {
        const struct alert_rule *rule = &alert_rules[i];
        struct watch *watch = &alerts->watch[i];
        double number;
        memcpy(&number, (const char *)&alerts->now + rule->figure, sizeof number);
        if (!isfinite(number) || alerts->rounds < rule->warm_up)
            continue;
        bool settled = rule->settles && alerts->course == SETTLED;
        enum severity before = watch->standing;
        watch->standing = follow(watch, rule, settled ? FINE : severity_of(rule, number));
        if (watch->standing != before)
            describe(rule, watch->standing > before ? watch->standing : before, watch->standing > before, number,
                     round->round, alerts->course, &out[count++]);
    }
    alerts->rounds++;
    begin_round(alerts);
    return count;
}
