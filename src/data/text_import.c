#include "data/text_import.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/crc32.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/safetensors.h"

#define BOOKS_FILE "corpus.txt"

enum {
    BOOKS_BYTES = 5244622,
    CUT_REACH = 50, /* a cut moves by at most a 50th of the text */
};

#define BOOKS_CRC 0x0549e7a0u

void text_free(struct text *text)
{
    memory_free(text->bytes);
    memory_free(text->ends);
    *text = (struct text){0};
}

/* A larger copy of an array, whose elements of before are kept. */
static enum esper_status grow(void **array, size_t old_bytes, size_t new_bytes, struct esper_error *error)
{
    void *larger = memory_alloc(new_bytes, 1, error);
    if (!larger)
        return ESPER_FAILED;
    if (old_bytes)
        memcpy(larger, *array, old_bytes);
    memory_free(*array);
    *array = larger;
    return ESPER_OK;
}

static enum esper_status add_end(struct text *text, size_t end, struct esper_error *error)
{
    void *ends = text->ends;
    enum esper_status status =
        grow(&ends, text->documents * sizeof *text->ends, (text->documents + 1) * sizeof *text->ends, error);
    text->ends = ends;
    if (status == ESPER_OK)
        text->ends[text->documents++] = end;
    return status;
}

enum esper_status text_add_file(struct text *text, const char *path, struct esper_error *error)
{
    void *data = NULL, *bytes = text->bytes;
    size_t size = 0;
    TRY(file_load(path, &data, &size, error));
    if (size == 0)
        return error_set(error, ESPER_INVALID, "%s: is empty; leave it out", path);
    enum esper_status status = grow(&bytes, text->size, text->size + size, error);
    text->bytes = bytes;
    if (status == ESPER_OK) {
        memcpy(text->bytes + text->size, data, size);
        text->size += size;
        status = add_end(text, text->size, error);
    }
    memory_free(data);
    return status;
}

enum esper_status text_read_books(struct text *text, const char *directory, struct esper_error *error)
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/" BOOKS_FILE, directory) >= (int)sizeof path)
        return error_set(error, ESPER_INVALID, "%.200s...: the path is too long", directory);
    void *data = NULL;
    TRY(file_load(path, &data, &text->size, error));
    text->bytes = data;
    const uint32_t crc = crc32_update(0, text->bytes, text->size);
    if (text->size != BOOKS_BYTES || crc != BOOKS_CRC)
        return error_set(error, ESPER_INVALID,
                         "%s: %zu bytes of checksum %08x, not %d of %08x; fetch it again, or use `esper data import`",
                         path, text->size, (unsigned)crc, BOOKS_BYTES, BOOKS_CRC);
    for (size_t i = 0; i < text->size; i++)
        if (text->bytes[i] == '\n')
            TRY(add_end(text, i + 1, error));
    return ESPER_OK;
}

static size_t move_cut(const struct text *text, size_t cut)
{
    size_t best = cut, least = text->size / CUT_REACH + 1;
    for (size_t i = 0; i < text->documents; i++) {
        const size_t end = text->ends[i], distance = end > cut ? end - cut : cut - end;
        if (distance < least) {
            least = distance;
            best = end;
        }
    }
    return best;
}

void text_split(const struct text *text, size_t bytes[SPLIT_COUNT])
{
    const size_t train = move_cut(text, text->size / 100 * 90 + text->size % 100 * 90 / 100);
    const size_t val = move_cut(text, text->size / 100 * 95 + text->size % 100 * 95 / 100);
    bytes[SPLIT_TRAIN] = train;
    bytes[SPLIT_VAL] = val - train;
    bytes[SPLIT_TEST] = text->size - val;
}

enum esper_status text_write(const struct text *text, const char *source, const char *path, struct esper_error *error)
{
    if (text->size < TEXT_LEAST || text->size > UINT32_MAX)
        return error_set(
            error, ESPER_INVALID,
            "%zu bytes of text are too %s for a training, a validation and a test split; give from %d to %u",
            text->size, text->size < TEXT_LEAST ? "few" : "many", TEXT_LEAST, UINT32_MAX);
    char names[SPLIT_COUNT][16], counts[SPLIT_COUNT][24], documents[24], checksum[DATASET_CHECKSUM_TEXT];
    struct st_tensor tensors[SPLIT_COUNT];
    size_t bytes[SPLIT_COUNT], first = 0;
    text_split(text, bytes);
    for (int split = 0; split < SPLIT_COUNT; first += bytes[split++]) {
        snprintf(names[split], sizeof names[split], "%s.bytes", split_name((enum split)split));
        snprintf(counts[split], sizeof counts[split], "%zu", bytes[split]);
        tensors[split] = (struct st_tensor){
            .name = names[split], .dtype = ST_U8, .dims = 1, .shape = {bytes[split]}, .data = text->bytes + first};
    }
    snprintf(documents, sizeof documents, "%zu", text->documents);
    snprintf(checksum, sizeof checksum, "%08x", (unsigned)crc32_update(0, text->bytes, text->size));
    const char *const meta[][2] = {
        {"format", DATASET_TEXT},
        {"version", DATASET_VERSION},
        {"name", data_facts_of(DATA_TEXT)->name},
        {"source", source},
        {DATASET_CHECKSUM, checksum},
        {DATASET_DOCUMENTS, documents},
        {split_name(SPLIT_TRAIN), counts[SPLIT_TRAIN]},
        {split_name(SPLIT_VAL), counts[SPLIT_VAL]},
        {split_name(SPLIT_TEST), counts[SPLIT_TEST]},
    };
    return st_write(path, tensors, SPLIT_COUNT, meta, sizeof meta / sizeof meta[0], error);
}
