/* esper selftest: runs the checks, and says what was compared and how close it was. */
#include "selftest/selftest.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "cli/cli.h"
#include "selftest/device.h"

/* ---- for people: one table per file and variant, one line per kind of tensor ------------------------------------ */

enum { VIEW_ROWS = 96, VIEW_BACKENDS = 8, VIEW_LACKS = 2000 };

struct view_row {
    char group[40], worst[120];
    int count;
    double share, error, limit; /* of the worst result: share is error / limit */
};

/* What a backend has no code for, for the summary. */
struct view_lacks {
    char backend[32], names[VIEW_LACKS];
};

struct view {
    struct selftest test;
    struct view_lacks lacks[VIEW_BACKENDS];
    char file[128], variant[32]; /* of the table being gathered; empty where there is none */
    struct view_row rows[VIEW_ROWS];
    int count;
    cJSON *results; /* gathered here instead for JSON */
};

static void view_flush(struct view *view)
{
    if (view->count)
        cli_print("%s%s%s\n", view->file[0] ? view->file : "cases", view->variant[0] ? ", " : "", view->variant);
    for (int i = 0; i < view->count; i++) {
        const struct view_row *row = &view->rows[i];
        cli_print("  %-22s %5d", row->group, row->count);
        if (row->worst[0])
            cli_print("   worst %8.2e of %8.2e  %s", row->error, row->limit, row->worst);
        cli_print("\n");
    }
    view->count = 0;
}

/* Starts a new table when the results come from another file or variant than the last. */
static void view_turn(struct view *view)
{
    const char *file = view->test.file ? view->test.file : "", *variant = view->test.variant ? view->test.variant : "";
    if (strncmp(view->file, file, sizeof view->file - 1) == 0 && strcmp(view->variant, variant) == 0)
        return;
    view_flush(view);
    snprintf(view->file, sizeof view->file, "%s", file);
    snprintf(view->variant, sizeof view->variant, "%s", variant);
}

/* The row that a result counts under: the case's name, or the kind of tensor, whatever its host, step or seed. */
static void view_group(const struct view *view, const char *name, char group[40])
{
    static const char *const kinds[] = {
        "y", "dx", "dh", "ds", "dq", "grad", "logits", "plain_logits", "loss", "correct", "grad_norm", "param", "mom",
        "stat", "exact", "groups", "telemetry", "execution_order",
        /* the rules */
        "out", "tracker", "obs", "blueprint_idx",
        /* the policy network */
        "z", "v", "hT", "cT", "logp", "ent", "single", "step", "weight_check",
        /* the learner */
        "advantage", "return", "td_error", "advantage_norm", "mean_std", "value_norm_after", "target", "losses",
        "ratio", "head_clipfrac", "joint_ratio", "ratio_stats", "kl_clipfrac", "ref_logp", "after",
        /* its normalisers */
        "mean", "var", "count", "probe_norm", "mean_m2", "eval_norm", "scale_before", "mean_var_count", "scale",
        "normalize", "denormalize"};
    const char *at = strchr(name, '.'), *owner = "";
    if (!view->file[0]) {
        snprintf(group, 40, "%.*s", (int)strcspn(name, " "), name);
        return;
    }
    for (int part = 1; at; part++) {
        size_t length = strcspn(++at, ".[("); /* an element or a variant may follow: "losses[5] (neon)" */
        while (length && at[length - 1] == ' ')
            length--;
        if (part > 1 && (strncmp(at, "seed.", 5) == 0 || strncmp(at, "gate.", 5) == 0))
            owner = *at == 's' ? "seed " : "gate ";
        for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
            if (strlen(kinds[i]) == length && strncmp(at, kinds[i], length) == 0) {
                snprintf(group, 40, "%s%s", owner, kinds[i]);
                return;
            }
        }
        at = strchr(at, '.');
    }
    at = strchr(name, '.');
    snprintf(group, 40, "%s", at ? at + 1 : name);
}

static struct view_row *view_row_of(struct view *view, const char *name)
{
    char group[40];
    view_group(view, name, group);
    for (int i = 0; i < view->count; i++)
        if (strcmp(view->rows[i].group, group) == 0)
            return &view->rows[i];
    if (view->count == VIEW_ROWS)
        return &view->rows[VIEW_ROWS - 1];
    struct view_row *row = &view->rows[view->count++];
    *row = (struct view_row){.share = -1};
    snprintf(row->group, sizeof row->group, "%s", group);
    return row;
}

static void view_lack(struct view *view, const char *name)
{
    struct view_lacks *of = view->lacks;
    while (of->backend[0] && strcmp(of->backend, view->variant) != 0 && of < view->lacks + VIEW_BACKENDS - 1)
        of++;
    snprintf(of->backend, sizeof of->backend, "%s", view->variant);
    const size_t used = strlen(of->names);
    snprintf(of->names + used, sizeof of->names - used, "%s%s", used ? ", " : "", name);
}

static void view_summary(const struct view *view)
{
    const int *count = view->test.report.count;
    for (const struct view_lacks *of = view->lacks; of < view->lacks + VIEW_BACKENDS && of->backend[0]; of++)
        cli_print("%s lacks: %s\n", of->backend, of->names);
    cli_print("%d passed, %d failed, %d skipped\n", count[CHECK_PASSED], count[CHECK_FAILED], count[CHECK_SKIPPED]);
}

static void view_show(void *context, enum check_result result, const char *name, double error, double limit,
                      const char *note)
{
    struct view *view = context;
    view_turn(view);
    if (result == CHECK_LACKED) {
        view_lack(view, name);
        return;
    }
    if (result == CHECK_SKIPPED) {
        cli_print("skipped  %s: %s\n", name, note);
        return;
    }
    if (result == CHECK_FAILED) {
        bool whole = strcmp(name, view->file) == 0; /* the file itself, not something in it */
        cli_print("FAILED   %s%s%s%s%s: ", view->variant, view->variant[0] ? " " : "", view->file,
                  view->file[0] && !whole ? " " : "", whole ? "" : name);
        if (note)
            cli_print("%s\n", note);
        else
            cli_print("off by %.3g, allowed %.3g\n", error, limit);
        return;
    }
    struct view_row *row = view_row_of(view, name);
    double share = limit > 0 ? error / limit : 0;
    row->count++;
    if (!isnan(error) && share > row->share) {
        row->share = share;
        row->error = error;
        row->limit = limit;
        const char *rest = view->file[0] ? strchr(name, '.') : NULL; /* the file's kind is known */
        snprintf(row->worst, sizeof row->worst, "%s", rest ? rest + 1 : name);
    }
}

/* ---- for programs: everything ----------------------------------------------------------------------------------- */

static void add_text(cJSON *item, const char *key, const char *text)
{
    if (text)
        json_add_text(item, key, text);
}

static void add_number(cJSON *item, const char *key, double value)
{
    if (!isnan(value))
        json_add_number(item, key, value);
}

static void json_show(void *context, enum check_result result, const char *name, double error, double limit,
                      const char *note)
{
    static const char *const results[] = {"passed", "failed", "skipped", "lacked"};
    struct view *view = context;
    cJSON *item = json_add_object(view->results, NULL);
    add_text(item, "file", view->test.file);
    add_text(item, "variant", view->test.variant);
    add_text(item, "name", name);
    add_text(item, "result", results[result]);
    add_number(item, "error", error);
    add_number(item, "limit", limit);
    add_text(item, "note", result == CHECK_PASSED ? NULL : note);
}

static enum esper_status json_print(struct view *view, struct esper_error *error)
{
    const int *count = view->test.report.count;
    char *text = json_finish(view->results, JSON_ONE_LINE);
    if (!text)
        return error_set(error, ESPER_FAILED, "not enough memory for the results; run without --json");
    cli_print("{\"results\":%s,\"passed\":%d,\"failed\":%d,\"skipped\":%d,\"lacked\":%d}\n", text, count[CHECK_PASSED],
              count[CHECK_FAILED], count[CHECK_SKIPPED], count[CHECK_LACKED]);
    cJSON_free(text);
    return ESPER_OK;
}

/* ---- the command ------------------------------------------------------------------------------------------------ */

/* Which checks to run: golden vectors, the case table of the CPU kernels, or a device compared with the CPU. */
struct choice {
    const char *vectors, *filter;
    bool json;
    struct cli_config_flags flags; /* device, precision */
    bool device;
    enum device_wish wish;
    enum precision_wish precision;
};

/* The CPU kernels unless a device is named: every machine has them. */
static enum esper_status choose(struct choice *choice, struct esper_error *error)
{
    struct config wish;
    config_defaults(&wish);
    TRY(cli_config_override(&choice->flags, &wish, error));
    choice->device = (choice->flags.device && wish.device == WISH_CUDA) || wish.precision == PRECISION_BF16;
    choice->wish = wish.device;
    choice->precision = wish.precision;
    return ESPER_OK;
}

static enum esper_status check(const struct choice *choice, struct selftest *test, struct esper_error *error)
{
    const int *count = test->report.count;
    if (choice->device && choice->vectors)
        TRY(selftest_device_vectors(test, choice->precision, choice->vectors, error));
    else if (choice->device)
        TRY(selftest_device(test, choice->wish, choice->precision, error));
    else if (choice->vectors)
        TRY(selftest_vectors(test, choice->vectors, error));
    else
        selftest_cases(test);
    if (count[CHECK_PASSED] + count[CHECK_FAILED] + count[CHECK_SKIPPED] + count[CHECK_LACKED] == 0)
        return error_set(error, ESPER_INVALID, "no case has \"%.60s\" in its name", choice->filter);
    return ESPER_OK;
}

static enum esper_status run(struct cli_call *call, struct esper_error *error)
{
    static struct view view;
    struct choice *choice = call->flags;
    const int *count = view.test.report.count;
    TRY(choose(choice, error));
    view.test.report =
        (struct check_report){.filter = choice->filter, .show = choice->json ? json_show : view_show, .context = &view};
    view.results = choice->json ? cJSON_CreateArray() : NULL;
    enum esper_status status = check(choice, &view.test, error);
    if (!choice->json)
        view_flush(&view);
    if (status != ESPER_OK) {
        cJSON_Delete(view.results);
        return status;
    }
    call->code = count[CHECK_FAILED] ? CLI_FAILED : CLI_OK;
    if (choice->json)
        return json_print(&view, error);
    view_summary(&view);
    return ESPER_OK;
}

#define AT(member) offsetof(struct choice, member)
const struct cli_page selftest_page = {
    .usage = "selftest [--vectors PATH] [--device cuda] [--case NAME] [--json]",
    .about =
        "Checks the numeric code of every kernel set that this machine can run: each operation against\n"
        "plain loops, each gradient against finite differences, networks and policies against double precision.\n"
        "What a kernel set lacks is named at the end. With --vectors: against golden numbers.\n"
        "With --device cuda: the GPU compared with the CPU, on a run and every seed, and with itself, bit by bit;\n"
        "with --vectors also its networks and policy against golden numbers, in fp32 or --precision bf16.",
    .example = "esper selftest --vectors tests/vectors",
    .options =
        (const struct cli_option[]){
            {"vectors", CLI_TEXT, "PATH", AT(vectors), "check golden vectors: a file, or all files of a folder", 0, 0},
            CLI_DEVICE_OPTIONS(AT(flags)),
            {"case", CLI_TEXT, "NAME", AT(filter), "only cases with this in their name", 0, 0},
            {"json", CLI_FLAG, NULL, AT(json), "print every result as JSON", 0, 0},
            {0}},
    .run = run,
    .flags_size = sizeof(struct choice),
};
