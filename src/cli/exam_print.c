#include "cli/exam_print.h"

#include <math.h>
#include <stdio.h>

#include "base/json.h"
#include "cli/cli.h"
#include "morph/family.h"

/* ---- the plan ---------------------------------------------------------------------------------------------------- */

void exam_print_plan(const struct exam *exam)
{
    const long long total = exam_env_steps(exam);
    cli_print("%10s  %5s  %-20s  %s\n", "env-steps", "share", "run", "what");
    for (int i = 0; i < exam->count; i++) {
        const struct exam_part *part = &exam->parts[i];
        cli_print("%10lld  %4.1f%%  %-20s  %s\n", part->env_steps, 100.0 * (double)part->env_steps / (double)total,
                  part->name, exam_kind_title(part->kind));
    }
    cli_print("%10lld         %s", total, "in all");
    cli_print(exam->catalogue.count > EXAM_SCHEDULES ? "; fewer if the front has less than %d schedules\n" : "\n",
              EXAM_SCHEDULES);
}

/* ---- for people -------------------------------------------------------------------------------------------------- */

static void print_entry(const struct exam_entry *entry)
{
    char interval[32] = "-", gain[16] = "-", time[32] = "-";
    if (isfinite(entry->test.low))
        snprintf(interval, sizeof interval, "[%.2f, %.2f]", entry->test.low, entry->test.high);
    if (isfinite(entry->gain))
        snprintf(gain, sizeof gain, "%+.2f", entry->gain);
    if (isfinite(entry->seconds))
        cli_format_time(entry->seconds, time, sizeof time);
    cli_print("%-42.42s %6.2f %6.2f  %-14s %7s %8.0f %6.2f  %s\n", entry->name, entry->test.mean, entry->iqm, interval,
              gain, entry->added, entry->work, time);
}

static void print_entries(const struct exam_result *result)
{
    cli_print("%-42s %6s %6s  %-14s %7s %8s %6s  %s\n", "", "test %", "IQM", "95 %", "J", "added", "work", "found in");
    for (int i = 0; i < result->entries; i++)
        print_entry(&result->entry[i]);
}

static void print_ppo(const struct exam_result *result, int p)
{
    const struct exam_setup *setup = &result->exam->setup;
    const struct exam_ppo *ppo = &result->ppo[p];
    cli_print("\nprice %g: net score of PPO %.2f", setup->price[p], ppo->net.mean);
    if (isfinite(ppo->net.low))
        cli_print(" [%.2f, %.2f]", ppo->net.low, ppo->net.high);
    cli_print(", best known %.2f (%s), regret %.2f\n", ppo->best->net[p], ppo->best->name, ppo->regret);
    cli_print("  test score of each training:");
    for (int k = 0; k < setup->seeds; k++)
        cli_print(" %.2f", ppo->of_seed[k]);
    cli_print("; %.1f %% of the episodes near the bare host\n", 100 * ppo->near_bare);
}

static void print_verdict(const struct exam_verdict *verdict)
{
    cli_print("  %-14s  %-50s %+7.2f", exam_finding_title(verdict->finding), exam_claim_title(verdict->claim),
              verdict->difference.mean);
    if (isfinite(verdict->difference.low))
        cli_print("  [%+.2f, %+.2f]", verdict->difference.low, verdict->difference.high);
    cli_print("\n");
}

static void print_verdicts(const struct exam_result *result, int price)
{
    for (int i = 0; i < result->verdicts; i++)
        if (result->verdict[i].price == price)
            print_verdict(&result->verdict[i]);
}

static void print_all_prices(const struct exam_result *result)
{
    const struct exam_verdict *last = &result->verdict[result->verdicts - 1];
    if (last->price >= 0)
        return;
    cli_print("\nmean of all prices: net score of PPO %.2f", last->ppo);
    for (int i = 0; i < result->verdicts; i++)
        if (result->verdict[i].price < 0)
            cli_print("; of %s: %.2f", result->verdict[i].against->name, result->verdict[i].other);
    cli_print("\n");
    print_verdicts(result, -1);
}

static void print_searched(const struct exam_result *result)
{
    const struct exam *exam = result->exam;
    cli_print("\n");
    for (int p = 0; p < exam->setup.prices; p++) {
        char text[SCHEDULE_TEXT];
        schedule_format(&exam_find(exam, EXAM_SEARCHED, p, -1, -1)->schedule, &exam->setup.config, text, sizeof text);
        cli_print("the searched schedule, price %g: %s\n", exam->setup.price[p], text);
    }
}

static void print_notes(const struct exam_result *result)
{
    const struct exam *exam = result->exam;
    cli_print("rank correlation of J and test score over the catalogue's %d schedules: %.3f\n", exam->catalogue.count,
              result->rank_correlation);
    for (int i = 0; i < exam->count; i++)
        if (exam->parts[i].widest) {
            char host[64];
            host_family_of(&exam->parts[i].config)->brief(&exam->parts[i].config, host, sizeof host);
            cli_print("%s: the widest host that the engine takes (%s) falls short of it\n",
                      exam_kind_title(exam->parts[i].kind), host);
        }
    if (exam->setup.seeds < 2)
        cli_print("one training says nothing about the next: verdicts need --seeds 2 or more\n");
    if (exam->other_mode)
        cli_print("the task's own reward.mode is another; the exam is about `gain`\n");
}

void exam_print(const struct exam_result *result, const char *folder, const char *page)
{
    const struct exam_setup *setup = &result->exam->setup;
    char trained[96];
    exam_trained(result->exam, trained, sizeof trained);
    cli_print("%s: PPO trained %s; %d episodes each\n\n", folder, trained, setup->episodes);
    print_entries(result);
    for (int p = 0; p < setup->prices; p++) {
        print_ppo(result, p);
        print_verdicts(result, p);
    }
    print_all_prices(result);
    print_searched(result);
    print_notes(result);
    cli_print("\nthe page\n  %s\n", page);
}

/* ---- for machines ------------------------------------------------------------------------------------------------ */

/* cJSON writes NAN as null: a missing value is not 0. */
static void add_interval(cJSON *object, const char *name, const struct interval *interval)
{
    cJSON *inner = json_add_object(object, name);
    json_add_number(inner, "mean", interval->mean);
    json_add_number(inner, "low", interval->low);
    json_add_number(inner, "high", interval->high);
}

static void add_price(cJSON *object, const struct exam_result *result, int price)
{
    if (price >= 0)
        json_add_number(object, "price", result->exam->setup.price[price]);
}

static cJSON *entry_json(const struct exam_result *result, const struct exam_entry *entry)
{
    const struct exam_setup *setup = &result->exam->setup;
    cJSON *object = cJSON_CreateObject();
    json_add_text(object, "kind", exam_kind_name(entry->kind));
    json_add_text(object, "name", entry->name);
    add_price(object, result, entry->price);
    cJSON *runs = json_add_list(object, "runs");
    for (int k = 0; k < entry->runs; k++)
        json_add_text(runs, NULL, entry->part[k]->name);
    json_add_number(object, "episodes", entry->runs * setup->episodes);
    add_interval(object, "test_accuracy", &entry->test);
    json_add_number(object, "test_accuracy_iqm", entry->iqm);
    json_add_number(object, "gain", entry->gain);
    json_add_number(object, "params", entry->params);
    json_add_number(object, "added_params", entry->added);
    json_add_number(object, "forward_macs", entry->macs);
    json_add_number(object, "train_work", entry->work);
    json_add_number(object, "seconds_to_find", entry->seconds);
    cJSON *net = json_add_list(object, "net_score");
    for (int p = 0; p < setup->prices; p++)
        json_add_number(net, NULL, entry->net[p]);
    return object;
}

static cJSON *verdict_json(const struct exam_result *result, const struct exam_verdict *verdict)
{
    cJSON *object = cJSON_CreateObject();
    json_add_text(object, "claim", exam_claim_name(verdict->claim));
    json_add_text(object, "text", exam_claim_title(verdict->claim));
    add_price(object, result, verdict->price);
    json_add_text(object, "verdict", exam_finding_title(verdict->finding));
    json_add_text(object, "against", verdict->against->name);
    json_add_bool(object, "paired", verdict->paired);
    add_interval(object, "difference", &verdict->difference);
    return object;
}

static cJSON *ppo_json(const struct exam_result *result, int p)
{
    const struct exam_ppo *ppo = &result->ppo[p];
    cJSON *object = cJSON_CreateObject();
    add_price(object, result, p);
    add_interval(object, "net_score", &ppo->net);
    cJSON *seeds = json_add_list(object, "test_accuracy_of_trainings");
    for (int k = 0; k < result->exam->setup.seeds; k++)
        json_add_number(seeds, NULL, ppo->of_seed[k]);
    json_add_number(object, "share_near_bare_host", ppo->near_bare);
    json_add_text(object, "best_known", ppo->best->name);
    json_add_number(object, "regret", ppo->regret);
    return object;
}

enum esper_status exam_print_json(const struct exam_result *result, const char *page, struct esper_error *error)
{
    cJSON *root = cJSON_CreateObject();
    json_add_text(root, "task", result->exam->setup.config.task);
    cJSON *verdicts = json_add_list(root, "verdicts");
    for (int i = 0; i < result->verdicts; i++)
        json_add(verdicts, NULL, verdict_json(result, &result->verdict[i]));
    cJSON *ppo = json_add_list(root, "ppo");
    for (int p = 0; p < result->exam->setup.prices; p++)
        json_add(ppo, NULL, ppo_json(result, p));
    cJSON *entries = json_add_list(root, "contestants");
    for (int i = 0; i < result->entries; i++)
        json_add(entries, NULL, entry_json(result, &result->entry[i]));
    json_add_number(root, "rank_correlation", result->rank_correlation);
    json_add_number(root, "seconds", result->seconds);
    json_add_text(root, "page", page);
    return cli_print_json(root, error);
}
