/* Compares the results of the device's rules with the CPU's, number by number. */
#ifndef TESTS_TESTING_STEP_CUH
#define TESTS_TESTING_STEP_CUH

#include <type_traits>

#include "device_rig.cuh"
#include "engine/step.cuh"

/* What differed, and the largest difference of floats. */
struct tally {
    uint64_t compared = 0, wrong = 0;
    double worst_ulp = 0, worst_real = 0;
    char first[200] = "";

    void add(bool good, const char *what, double a, double b)
    {
        compared++;
        if (good)
            return;
        if (wrong++ == 0)
            snprintf(first, sizeof first, "%s: CPU %.17g, device %.17g", what, a, b);
    }
    void report(const char *name) const
    {
        char text[400];
        snprintf(text, sizeof text, "%llu numbers, %llu wrong, f32 %.0f ulp, f64 %.2g%s%s",
                 (unsigned long long)compared, (unsigned long long)wrong, worst_ulp, worst_real,
                 wrong ? "; first " : "", first);
        check(wrong == 0, name, text);
    }
};

static double ulps(float a, float b)
{
    int32_t x, y;
    if (a == b || (std::isnan(a) && std::isnan(b)))
        return 0;
    memcpy(&x, &a, sizeof x);
    memcpy(&y, &b, sizeof y);
    x = x < 0 ? INT32_MIN - x : x;
    y = y < 0 ? INT32_MIN - y : y;
    return std::fabs((double)x - (double)y);
}

static void same_real(struct tally &tally, const char *what, float a, float b, double slack = 0)
{
    double off = ulps(a, b);
    bool good = off <= 1 || std::fabs((double)a - (double)b) <= slack;
    if (good && off > tally.worst_ulp && slack == 0)
        tally.worst_ulp = off;
    tally.add(good, what, (double)a, (double)b);
}

static void same_real(struct tally &tally, const char *what, double a, double b)
{
    bool equal = a == b || (std::isnan(a) && std::isnan(b));
    double off = equal ? 0 : std::fabs(a - b) / std::fmax(1.0, std::fabs(a));
    if (off > tally.worst_real)
        tally.worst_real = off;
    tally.add(off <= 1e-12, what, a, b);
}

template <class T> static void same(struct tally &tally, const char *what, T a, T b)
{
    if constexpr (std::is_floating_point<T>::value)
        same_real(tally, what, a, b);
    else
        tally.add(a == b, what, (double)a, (double)b);
}

static void same_slot(struct tally &tally, const struct slot_state &a, const struct slot_state &b)
{
#define SAME_FIELD(type, name) same<type>(tally, "slot." #name, a.name, b.name);
    SLOT_FIELDS(SAME_FIELD)
#undef SAME_FIELD
}

static void same_masks(struct tally &tally, const struct masks &a, const struct masks &b)
{
    same(tally, "mask", a.base, b.base);
    for (int op = 0; op < OP_COUNT; op++)
        same(tally, "mask of an op", a.slots[op], b.slots[op]);
}

static void same_action(struct tally &tally, const struct action &a, const struct action &b)
{
    tally.add(memcmp(&a, &b, sizeof a) == 0, "action", a.op, b.op);
}

static void same_log(struct tally &tally, const struct life_log &a, const struct life_log &b)
{
    same(tally, "events", a.count, b.count);
    for (int i = 0; i < a.count && i < b.count; i++) {
        const struct life_event &x = a.event[i], &y = b.event[i];
        same(tally, "event", x.type, y.type);
        same(tally, "event from", x.from, y.from);
        same(tally, "event to", x.to, y.to);
        same(tally, "event reason", x.reason, y.reason);
        same(tally, "gate", x.verdict.gate, y.verdict.gate);
        same(tally, "gate pass", x.verdict.pass, y.verdict.pass);
        same(tally, "gate failures", x.verdict.failed, y.verdict.failed);
        same(tally, "gate score", x.verdict.score, y.verdict.score);
    }
}

/* ---- the world and the reports ----------------------------------------------------------------------------------- */

static bool starts_with(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* Parameters and copies of them result from exact operations. */
static bool is_exact(const struct table_row *row)
{
    return row->arena == CLASS_PARAM || row->arena == CLASS_OPT || starts_with(row->name, "snapshot.host") ||
           starts_with(row->name, "snapshot.stats") || starts_with(row->name, "snapshot.seed") ||
           starts_with(row->name, "snapshot.gate") || (row->type != TYPE_F32 && row->type != TYPE_F64);
}

/* Digits are lost where a normalised observation is near the mean and where a probability is near 1. */
static double row_slack(const struct table_row *row)
{
    return strcmp(row->name, "rollout.state") == 0 ? 1e-5 : strcmp(row->name, "rollout.logp") == 0 ? 1e-6 : 0;
}

static void same_row(struct tally &tally, const struct table_row *row, const void *found)
{
    if (is_exact(row)) {
        tally.add(memcmp(row->data, found, row->bytes) == 0, row->name, 0, 0);
    } else if (row->type == TYPE_F32) {
        double slack = row_slack(row);
        for (size_t i = 0; i < row->bytes / sizeof(float); i++)
            same_real(tally, row->name, ((const float *)row->data)[i], ((const float *)found)[i], slack);
    } else {
        for (size_t i = 0; i < row->bytes / sizeof(double); i++)
            same_real(tally, row->name, ((const double *)row->data)[i], ((const double *)found)[i]);
    }
}

static void same_decision(struct tally &tally, const struct decision &a, const struct decision &b)
{
    same(tally, "stored mask", a.mask, b.mask);
    for (int head = 0; head < HEAD_COUNT; head++) {
        same(tally, "choice", a.choice[head], b.choice[head]);
        same_real(tally, "log probability", a.logp[head], b.logp[head], 1e-6);
        same_real(tally, "entropy", a.entropy[head], b.entropy[head], 1e-6);
    }
    for (int op = 0; op < OP_COUNT; op++)
        same_real(tally, "probability", a.op_probability[op], b.op_probability[op], 1e-7);
}

static void same_report(struct tally &tally, const struct world *world, const struct step_report &a,
                        const struct step_report &b)
{
    same(tally, "report.env", a.env, b.env);
    same(tally, "report.round", a.round, b.round);
    same(tally, "report.step", a.step, b.step);
    same(tally, "report.result", a.result, b.result);
    same(tally, "report.forced", a.forced, b.forced);
    same(tally, "report.reason", a.reason, b.reason);
    same(tally, "report.seeds_lost", a.seeds_lost, b.seeds_lost);
    same(tally, "report.blamed_step", a.blamed_step, b.blamed_step);
    same(tally, "report.penalty", a.penalty, b.penalty);
    same(tally, "report.replaced", a.replaced, b.replaced);
    same(tally, "report.value", a.value, b.value);
    same(tally, "report.train_loss", a.train_loss, b.train_loss);
    same(tally, "report.val_loss", a.val_loss, b.val_loss);
    same(tally, "report.val_accuracy", a.val_accuracy, b.val_accuracy);
    same(tally, "report.reward", a.reward, b.reward);
    same(tally, "report.shares", a.shares.pairs, b.shares.pairs);
    same_action(tally, a.action, b.action);
    same_decision(tally, a.decision, b.decision);
    for (int i = 0; a.result != STEP_ROLLED_BACK && i < REWARD_COMPONENT_COUNT; i++)
        same(tally, "report.components", a.components[i], b.components[i]);
    tally.add(memcmp(&a.subsets, &b.subsets, sizeof a.subsets) == 0, "report.subsets", 0, 0);
    for (int j = 0; j < world->shape.slots; j++) {
        same_slot(tally, a.before[j], b.before[j]);
        same_slot(tally, a.after[j], b.after[j]);
        same_log(tally, a.log[j], b.log[j]);
    }
}

#endif
