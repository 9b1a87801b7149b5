/* Checkpoints whose checksums are right, whatever they hold: who changes a number can change its checksum as well. */
#include <string.h>

#include "base/crc32.h"
#include "base/json.h"
#include "base/safetensors.h"
#include "harness.h"
#include "session/checkpoint.h"

enum { TENSORS = 16 }; /* more than the world has */

/* A small world with a row of each type: bounded, as most are, and not. */
static struct table *world_table(void)
{
    static struct table table;
    static struct rows {
        uint8_t *stage;
        int8_t *lean;
        uint16_t *flags;
        uint32_t *step;
        int32_t *age;
        uint64_t *key;
        float *alpha, *weight;
        double *mean;
    } rows;
    if (table.allocated)
        return &table;
    TABLE_ADD(&table, &rows.stage, "stage", TYPE_U8, CLASS_STATE, true, SCOPE_RUN, 2, 3);
    TABLE_ADD(&table, &rows.lean, "lean", TYPE_I8, CLASS_STATE, true, SCOPE_RUN, 2);
    TABLE_ADD(&table, &rows.flags, "flags", TYPE_U16, CLASS_STATE, true, SCOPE_RUN, 2);
    TABLE_ADD(&table, &rows.step, "step", TYPE_U32, CLASS_STATE, true, SCOPE_RUN, 1);
    TABLE_ADD(&table, &rows.age, "age", TYPE_I32, CLASS_STATE, true, SCOPE_RUN, 2, 2);
    TABLE_ADD(&table, &rows.key, "key", TYPE_U64, CLASS_STATE, true, SCOPE_RUN, 2);
    TABLE_ADD(&table, &rows.alpha, "alpha", TYPE_F32, CLASS_STATE, true, SCOPE_RUN, 2, 3);
    TABLE_ADD(&table, &rows.weight, "weight", TYPE_F32, CLASS_PARAM, true, SCOPE_RUN, 4);
    TABLE_ADD(&table, &rows.mean, "mean", TYPE_F64, CLASS_STATE, true, SCOPE_RUN, 2);
    table_bound_also(&table, "stage", 0, 7, 255);
    table_bound(&table, "lean", -1, 1);
    table_bound(&table, "flags", 0, 15);
    table_bound(&table, "step", 0, 25);
    table_bound(&table, "age", 0, 65535);
    table_bound(&table, "key", 0, 1e9);
    table_bound(&table, "alpha", 0, 1);
    table_bound(&table, "mean", -1e6, 1e6);
    PROMISE(table_allocate(&table, NULL) == ESPER_OK);
    return &table;
}

/* The list of checksums, and the hash of the whole in its order. */
static char *crc_list(const struct st_tensor *tensors, int count, char hash[32])
{
    struct table_row rows[TENSORS] = {0};
    const struct table view = {.rows = rows, .count = count};
    cJSON *object = cJSON_CreateObject();
    for (int i = 0; i < count; i++) {
        char crc[16];
        snprintf(crc, sizeof crc, "%08x", (unsigned)crc32_update(0, tensors[i].data, tensors[i].bytes));
        json_add_text(object, tensors[i].name, crc);
        snprintf(rows[i].name, sizeof rows[i].name, "%s", tensors[i].name);
        rows[i].saved = true;
        rows[i].bytes = tensors[i].bytes;
        rows[i].data = (void *)(uintptr_t)tensors[i].data; /* read only: for the hash */
    }
    snprintf(hash, 32, "%016llx", (unsigned long long)table_hash(&view));
    return json_finish(object, JSON_ONE_LINE);
}

/* The same file with the checksums that its content should have; false if it lacks one of a checkpoint's entries. */
static bool seal(const struct st_file *file, const char *path)
{
    enum { HASH = 4, CRC = 6, SEAL = 7 };
    static const char *const names[] = {"format", "esper", "round", "step", "hash", "config", "crc", "seal"};
    struct st_tensor tensors[TENSORS];
    const char *meta[SEAL + 1][2];
    char hash[32], text[16];
    struct esper_error error = {0};
    const int count = st_count(file);
    if (count > TENSORS)
        return false;
    for (int i = 0; i < count; i++)
        tensors[i] = *st_at(file, i);
    char *crc = crc_list(tensors, count, hash);
    PROMISE(crc);
    bool whole = true;
    uint32_t sum = 0;
    for (int i = 0; i <= SEAL && whole; i++) {
        meta[i][0] = names[i];
        meta[i][1] = i == HASH ? hash : i == CRC ? crc : i == SEAL ? text : st_meta(file, names[i]);
        whole = meta[i][1] != NULL;
        if (whole && i < SEAL)
            sum = crc32_update(sum, meta[i][1], strlen(meta[i][1]) + 1);
    }
    snprintf(text, sizeof text, "%08x", (unsigned)sum);
    if (whole)
        PROMISE(st_write(path, tensors, count, (const char *const(*)[2])meta, SEAL + 1, &error) == ESPER_OK);
    cJSON_free(crc);
    return whole;
}

/* What is accepted is in range, and a refusal leaves the table as it was. */
bool harness_checkpoint(const uint8_t *data, size_t size)
{
    static char sealed[160];
    struct table *table = world_table();
    struct config config;
    struct checkpoint_info info;
    struct st_file *file;
    struct esper_error error = {0};
    if (!harness_accepted(st_open(harness_file("file", data, size), &file, &error), &error))
        return false;
    snprintf(sealed, sizeof sealed, "%s/sealed.ckpt", harness_folder());
    const bool whole = seal(file, sealed);
    st_close(file);
    if (!whole)
        return false;
    config_defaults(&config);
    const uint64_t before = table_hash(table);
    if (!harness_accepted(checkpoint_read(sealed, table, &config, &info, &error), &error)) {
        PROMISE(table_hash(table) == before);
        return false;
    }
    for (int i = 0; i < table->count; i++)
        PROMISE(table_check(&table->rows[i], table->rows[i].data, NULL) == ESPER_OK);
    return true;
}
