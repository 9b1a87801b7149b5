#include "view/sheet.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"

/* Texts are stored one after the other in pages that never move. */
struct page {
    struct page *next;
    size_t used, room;
    char text[];
};

/* While the rows arrive: in row order. */
struct growing {
    struct sheet *sheet;
    double *numbers;
    const char **texts;
    int room; /* rows */
};

static const char *keep_text(struct sheet *sheet, const char *text, struct esper_error *error)
{
    size_t bytes = strlen(text) + 1; /* text after a NUL is not shown */
    struct page *page = sheet->pages;
    if (!page || page->room - page->used < bytes) {
        size_t room = bytes > 16384 ? bytes : 16384;
        struct page *fresh = memory_alloc(sizeof *fresh + room, 1, error);
        if (!fresh)
            return NULL;
        fresh->next = page;
        fresh->room = room;
        sheet->pages = page = fresh;
    }
    char *place = page->text + page->used;
    memcpy(place, text, bytes);
    page->used += bytes;
    return place;
}

static enum esper_status grow(struct growing *growing, struct esper_error *error)
{
    size_t columns = (size_t)growing->sheet->columns, rows = (size_t)growing->sheet->rows;
    size_t room = rows * 2 + 64;
    double *numbers = memory_alloc(room * columns, sizeof *numbers, error);
    const char **texts = memory_alloc(room * columns, sizeof *texts, error);
    if (!numbers || !texts) {
        memory_free(numbers);
        memory_free(texts);
        return ESPER_FAILED;
    }
    if (rows) {
        memcpy(numbers, growing->numbers, rows * columns * sizeof *numbers);
        memcpy(texts, growing->texts, rows * columns * sizeof *texts);
    }
    memory_free(growing->numbers);
    memory_free(growing->texts);
    growing->numbers = numbers;
    growing->texts = texts;
    growing->room = (int)room;
    return ESPER_OK;
}

static enum esper_status take_row(void *context, const struct query_row *row, struct esper_error *error)
{
    struct growing *growing = context;
    struct sheet *sheet = growing->sheet;
    if (!row->values) {
        sheet->columns = row->count < SHEET_COLUMNS ? row->count : SHEET_COLUMNS;
        for (int i = 0; i < sheet->columns; i++)
            snprintf(sheet->names[i], SHEET_NAME, "%s", row->names[i]);
        return ESPER_OK;
    }
    if (sheet->rows == growing->room)
        TRY(grow(growing, error));
    size_t first = (size_t)sheet->rows * (size_t)sheet->columns;
    for (int i = 0; i < sheet->columns; i++) {
        const struct query_value *value = &row->values[i];
        growing->numbers[first + (size_t)i] = value->kind == QUERY_INTEGER ? (double)value->integer
                                              : value->kind == QUERY_REAL  ? value->real
                                                                           : (double)NAN;
        if (value->kind == QUERY_TEXT && !(growing->texts[first + (size_t)i] = keep_text(sheet, value->text, error)))
            return ESPER_FAILED;
    }
    sheet->rows++;
    return ESPER_OK;
}

/* Rows arrive one by one; plots need columns. */
static enum esper_status turn(struct growing *growing, struct esper_error *error)
{
    struct sheet *sheet = growing->sheet;
    size_t rows = (size_t)sheet->rows, columns = (size_t)sheet->columns;
    sheet->numbers = memory_alloc(rows * columns, sizeof *sheet->numbers, error);
    sheet->texts = memory_alloc(rows * columns, sizeof *sheet->texts, error);
    if (!sheet->numbers || !sheet->texts)
        return ESPER_FAILED;
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < columns; j++) {
            sheet->numbers[j * rows + i] = growing->numbers[i * columns + j];
            sheet->texts[j * rows + i] = growing->texts[i * columns + j];
        }
    return ESPER_OK;
}

enum esper_status sheet_ask(struct sheet *sheet, struct query *query, const char *name,
                            const struct question_values *values, struct esper_error *error)
{
    struct growing growing = {.sheet = sheet};
    const struct query_options options = {.timeout = QUERY_SECONDS};
    *sheet = (struct sheet){0};
    enum esper_status status = question_run(query, name, values, &options, take_row, &growing, error);
    if (status == ESPER_OK)
        status = turn(&growing, error);
    memory_free(growing.numbers);
    memory_free(growing.texts);
    if (status != ESPER_OK)
        sheet_free(sheet);
    return status;
}

void sheet_free(struct sheet *sheet)
{
    for (struct page *page = sheet->pages, *next; page; page = next) {
        next = page->next;
        memory_free(page);
    }
    memory_free(sheet->numbers);
    memory_free(sheet->texts);
    *sheet = (struct sheet){0};
}

static int find_column(const struct sheet *sheet, const char *column)
{
    for (int i = 0; i < sheet->columns; i++)
        if (strcmp(sheet->names[i], column) == 0)
            return i;
    return -1;
}

const double *sheet_series(const struct sheet *sheet, const char *column)
{
    int at = find_column(sheet, column);
    return at < 0 || sheet->rows == 0 ? NULL : sheet->numbers + (size_t)at * (size_t)sheet->rows;
}

double sheet_number(const struct sheet *sheet, int row, const char *column)
{
    const double *series = sheet_series(sheet, column);
    return series && row < sheet->rows ? series[row] : (double)NAN;
}

const char *sheet_text(const struct sheet *sheet, int row, const char *column)
{
    int at = find_column(sheet, column);
    return at < 0 || row >= sheet->rows ? NULL : sheet->texts[(size_t)at * (size_t)sheet->rows + (size_t)row];
}
