#include "check/answers.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"

double *answers_add(struct answers *answers, enum answer_kind kind, double floor, size_t count, const char *format, ...)
{
    struct answer *item = &answers->item[answers->count];
    va_list arguments;
    if (answers->count == ANSWERS_MAX || !(item->value = memory_alloc(count + 1, sizeof *item->value, NULL))) {
        answers->failed = true;
        return NULL;
    }
    answers->count++;
    item->kind = kind;
    item->count = count;
    item->floor = floor;
    va_start(arguments, format);
    vsnprintf(item->name, sizeof item->name, format, arguments);
    va_end(arguments);
    return item->value;
}

const struct answer *answers_find(const struct answers *answers, const char *name)
{
    for (int i = 0; i < answers->count; i++)
        if (strcmp(answers->item[i].name, name) == 0)
            return &answers->item[i];
    return NULL;
}

void answers_free(struct answers *answers)
{
    for (int i = 0; i < answers->count; i++)
        memory_free(answers->item[i].value);
    *answers = (struct answers){.count = 0};
}

double answer_distance(const struct answer *got, const struct answer *want)
{
    double apart = 0, size = want->floor * want->floor, worst = 0;
    if (got->count != want->count)
        return INFINITY;
    for (size_t i = 0; i < want->count; i++) {
        const double off = got->value[i] - want->value[i];
        apart += off * off;
        size += want->value[i] * want->value[i];
        worst = fabs(off) > worst ? fabs(off) : worst;
    }
    if (want->kind == ANSWER_COUNTS)
        return isnan(apart) ? apart : worst;
    return apart == 0 ? 0 : sqrt(apart / size);
}

void answers_compare(struct check_report *report, const char *table, const struct check_backend *backend,
                     const struct answers *got, const struct answers *want)
{
    if (got->failed || want->failed)
        report_flag(report, table, false, "not enough memory");
    for (int i = 0; i < want->count; i++) {
        const struct answer *item = &want->item[i], *own = answers_find(got, item->name);
        char name[160];
        if (item->kind == ANSWER_INPUT)
            continue;
        snprintf(name, sizeof name, "%s %s, %s", table, want->name, item->name);
        if (!own && !(backend->rough && (item->kind == ANSWER_VALUES || item->kind == ANSWER_COUNTS)))
            report_flag(report, name, false, "there is no answer");
        if (own)
            report_error(report, name, answer_distance(own, item),
                         backend->limit[item->kind] * (backend->rough && want->sensitive ? ROUGH_SENSITIVE : 1));
    }
}
