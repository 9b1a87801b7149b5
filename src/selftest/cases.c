#include "selftest/cases.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "check/numeric.h"
#include "selftest/selftest.h"

/* Double precision where it is built, as it is not with a sanitizer. */
static const struct numeric_checks *reference(void)
{
    const struct numeric_checks *checks, *last = NULL;
    for (int i = 0; (checks = numeric_checks_at(i)); i++)
        last = checks;
    return last;
}

/* Its answers are kept for the other variants. */
enum { KEPT_MAX = 128 };
static struct answers *kept[KEPT_MAX];
static int kept_count;

static const struct answers *reference_answers(const struct numeric_case *row, int index, const struct answers *named)
{
    for (int i = 0; i < kept_count; i++)
        if (strcmp(kept[i]->name, named->name) == 0)
            return kept[i];
    struct answers *own = kept_count < KEPT_MAX ? memory_alloc(1, sizeof *own, NULL) : NULL;
    if (own) {
        row->answer(&reference()->backend, index, own);
        kept[kept_count++] = own;
    }
    return own;
}

static void forget_answers(void)
{
    while (kept_count > 0) {
        answers_free(kept[--kept_count]);
        memory_free(kept[kept_count]);
    }
}

static bool wants_case(const struct check_report *report, const char *table, const char *name)
{
    char whole[160];
    snprintf(whole, sizeof whole, "%s %s", table, name);
    return report_wants(report, whole);
}

/* All cases of a row: a backend's answers compared with the reference's. */
static void compare_row(struct check_report *report, const struct check_backend *backend,
                        const struct numeric_case *row, answer_function answer)
{
    char lacked[64] = "", name[128];
    struct answers named = {.count = 0}, got = {.count = 0};
    for (int i = 0; row->answer(NULL, i, &named) != ANSWER_END; i++) {
        if (!wants_case(report, row->name, named.name))
            continue;
        if (answer(backend, row->name, i, &got) == ANSWER_GIVEN) {
            const struct answers *want = reference_answers(row, i, &named);
            if (want)
                answers_compare(report, row->name, backend, &got, want);
            else
                report_flag(report, row->name, false, "not enough memory");
        } else if (strcmp(lacked, named.group) != 0) {
            snprintf(lacked, sizeof lacked, "%s", named.group);
            snprintf(name, sizeof name, "%s %s", row->name, lacked);
            report_lack(report, name);
        }
        answers_free(&got);
    }
}

void cases_on_backend(struct check_report *report, const struct check_backend *backend, answer_function answer)
{
    for (const struct numeric_case *row = reference()->cases; row->name; row++) {
        if (row->answer)
            compare_row(report, backend, row, answer);
        else if (report_wants(report, row->name))
            report_lack(report, row->name);
    }
    forget_answers();
}

/* ---- the CPU's variants ------------------------------------------------------------------------------------------ */

static const struct numeric_checks *running;

static enum answer_status answer_of_variant(const struct check_backend *backend, const char *table, int index,
                                            struct answers *answers)
{
    const struct numeric_case *row = running->cases;
    while (strcmp(row->name, table) != 0)
        row++;
    return row->answer(backend, index, answers);
}

void selftest_cases(struct selftest *test)
{
    struct check_report *report = &test->report;
    test->file = NULL;
    for (int i = 0; (running = numeric_checks_at(i)); i++) {
        test->variant = running->backend.name;
        for (const struct numeric_case *row = running->cases; row->name; row++) {
            if (row->answer && running != reference())
                compare_row(report, &running->backend, &reference()->cases[row - running->cases], answer_of_variant);
            else if (row->run && report_wants(report, row->name) && (running->wide || !row->wide_only))
                row->run(report, row->name);
            else if (row->run && report_wants(report, row->name))
                report_lack(report, row->name);
        }
    }
    forget_answers();
}
