#include "session/checkpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/config_json.h"
#include "base/crc32.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/safetensors.h"

/* Entries of the metadata in the order in which the seal, the last one, covers the others. */
enum { META_FORMAT, META_ESPER, META_ROUND, META_STEP, META_HASH, META_CONFIG, META_CRC, META_SEAL, META_COUNT };
static const char *const meta_names[META_COUNT] = {"format", "esper", "round", "step", "hash", "config", "crc", "seal"};

static const enum st_dtype dtypes[] = {
    [TYPE_F32] = ST_F32, [TYPE_F64] = ST_F64, [TYPE_I32] = ST_I32, [TYPE_U32] = ST_U32,
    [TYPE_U64] = ST_U64, [TYPE_U16] = ST_U16, [TYPE_U8] = ST_U8,   [TYPE_I8] = ST_I8};

void checkpoint_name(uint32_t round, uint32_t step, char name[32])
{
    snprintf(name, 32, "r%06u-s%03u.ckpt", (unsigned)round, (unsigned)step);
}

static void format_crc(uint32_t crc, char text[16])
{
    snprintf(text, 16, "%08x", (unsigned)crc);
}

static void format_hash(uint64_t hash, char text[32])
{
    snprintf(text, 32, "%016llx", (unsigned long long)hash);
}

/* Each entry with its NUL, so that no text can move from one to the next. */
static void make_seal(const char *const meta[META_COUNT], char seal[16])
{
    uint32_t crc = 0;
    for (int i = 0; i < META_SEAL; i++)
        crc = crc32_update(crc, meta[i], strlen(meta[i]) + 1);
    format_crc(crc, seal);
}

static enum esper_status no_memory(struct esper_error *error)
{
    return error_set(error, ESPER_FAILED, "out of memory while making a checkpoint's header");
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static int saved_tensors(const struct table *table, struct st_tensor *tensors)
{
    int count = 0;
    for (int i = 0; i < table->count; i++) {
        const struct table_row *row = &table->rows[i];
        if (!row->saved)
            continue;
        struct st_tensor *tensor = &tensors[count++];
        *tensor = (struct st_tensor){.name = row->name, .dtype = dtypes[row->type], .dims = row->dims};
        memcpy(tensor->shape, row->shape, sizeof row->shape);
        tensor->bytes = row->bytes;
        tensor->data = row->data;
    }
    return count;
}

/* The tensors' CRCs as JSON text, to be released with cJSON_free; NULL: out of memory. */
static char *crc_text(const struct st_tensor *tensors, int count)
{
    cJSON *object = cJSON_CreateObject();
    for (int i = 0; i < count; i++) {
        char crc[16];
        format_crc(crc32_update(0, tensors[i].data, tensors[i].bytes), crc);
        json_add_text(object, tensors[i].name, crc);
    }
    return json_finish(object, JSON_ONE_LINE);
}

static enum esper_status write_tensors(const char *path, const struct st_tensor *tensors, int count,
                                       const struct config *config, const struct checkpoint_info *info,
                                       struct esper_error *error)
{
    char round[16], step[16], hash[32], seal[16];
    char *configuration = json_finish(config_to_json(config), JSON_ONE_LINE), *crc = crc_text(tensors, count);
    enum esper_status status;
    if (configuration && crc) {
        snprintf(round, sizeof round, "%u", (unsigned)info->round);
        snprintf(step, sizeof step, "%u", (unsigned)info->step);
        format_hash(info->hash, hash);
        const char *values[META_COUNT] = {CHECKPOINT_FORMAT, ESPER_VERSION, round, step, hash,
                                          configuration,     crc,           seal};
        make_seal(values, seal);
        const char *meta[META_COUNT][2];
        for (int i = 0; i < META_COUNT; i++) {
            meta[i][0] = meta_names[i];
            meta[i][1] = values[i];
        }
        status = st_write(path, tensors, count, (const char *const(*)[2])meta, META_COUNT, error);
    } else {
        status = no_memory(error);
    }
    cJSON_free(configuration);
    cJSON_free(crc);
    return status;
}

enum esper_status checkpoint_write(const char *path, const struct table *table, const struct config *config,
                                   uint32_t round, uint32_t step, struct checkpoint_info *info,
                                   struct esper_error *error)
{
    struct st_tensor *tensors = memory_alloc((size_t)table->count, sizeof *tensors, error);
    if (!tensors)
        return ESPER_FAILED;
    info->round = round;
    info->step = step;
    info->hash = table_hash(table);
    snprintf(info->path, sizeof info->path, "%s", path);
    enum esper_status status = write_tensors(path, tensors, saved_tensors(table, tensors), config, info, error);
    memory_free(tensors);
    return status;
}

/* ---- opening: the metadata --------------------------------------------------------------------------------------- */

struct opened {
    struct st_file *file;
    const char *meta[META_COUNT];
    struct checkpoint_info info;
    struct config config;
};

/* Adds advice to the error about a file that used to be a checkpoint. */
static enum esper_status damaged(struct esper_error *error)
{
    if (!error)
        return ESPER_INVALID;
    size_t used = strlen(error->text);
    snprintf(error->text + used, sizeof error->text - used,
             "; it is damaged or cut short: take an older one or a copy");
    return error->status;
}

static enum esper_status check_format(struct opened *opened, struct esper_error *error)
{
    static const char family[] = "esper-checkpoint-";
    const char *format = st_meta(opened->file, meta_names[META_FORMAT]);
    if (!format || strncmp(format, family, sizeof family - 1) != 0)
        return error_set(error, ESPER_INVALID,
                         "a safetensors file, but not a checkpoint; checkpoints are in RUN/checkpoints/*.ckpt");
    if (strcmp(format, CHECKPOINT_FORMAT) != 0) {
        const char *version = st_meta(opened->file, meta_names[META_ESPER]);
        return error_set(error, ESPER_UNSUPPORTED,
                         "format %.40s, but esper " ESPER_VERSION " reads " CHECKPOINT_FORMAT
                         " only; use esper %.20s, which wrote it",
                         format, version ? version : "(unknown)");
    }
    return ESPER_OK;
}

static bool parse_count(const char *text, uint32_t *out)
{
    char again[16];
    unsigned long value = strtoul(text, NULL, 10);
    *out = (uint32_t)value;
    snprintf(again, sizeof again, "%u", (unsigned)*out);
    return strcmp(text, again) == 0; /* one spelling only: no sign, blanks, zeros or overflow */
}

static bool parse_hash(const char *text, uint64_t *out)
{
    char again[32];
    *out = strtoull(text, NULL, 16);
    format_hash(*out, again);
    return strcmp(text, again) == 0;
}

static enum esper_status read_config(struct opened *opened, struct esper_error *error)
{
    cJSON *object;
    const char *text = opened->meta[META_CONFIG];
    TRY(json_parse(text, strlen(text), &object, error));
    enum esper_status status = config_from_json(&opened->config, object, error);
    cJSON_Delete(object);
    return status;
}

static enum esper_status read_metadata(struct opened *opened, struct esper_error *error)
{
    char seal[16];
    TRY(check_format(opened, error));
    for (int i = 0; i < META_COUNT; i++) {
        opened->meta[i] = st_meta(opened->file, meta_names[i]);
        if (!opened->meta[i]) {
            error_set(error, ESPER_INVALID, "its metadata has no \"%s\"", meta_names[i]);
            return damaged(error);
        }
    }
    make_seal(opened->meta, seal);
    if (strcmp(seal, opened->meta[META_SEAL]) != 0) {
        error_set(error, ESPER_INVALID, "its metadata does not match its checksum");
        return damaged(error);
    }
    if (!parse_count(opened->meta[META_ROUND], &opened->info.round) ||
        !parse_count(opened->meta[META_STEP], &opened->info.step) ||
        !parse_hash(opened->meta[META_HASH], &opened->info.hash)) {
        error_set(error, ESPER_INVALID, "its round, step or hash is not a number");
        return damaged(error);
    }
    if (read_config(opened, error) != ESPER_OK)
        return error_where(error, "its configuration, written by esper %.20s", opened->meta[META_ESPER]);
    return ESPER_OK;
}

static enum esper_status open_metadata(const char *path, struct opened *opened, struct esper_error *error)
{
    struct stat info;
    TRY(file_check_own(path, error));
    enum esper_status status = st_open(path, &opened->file, error);
    if (status != ESPER_OK) /* no file, or a directory, needs no advice */
        return status == ESPER_INVALID && stat(path, &info) == 0 && S_ISREG(info.st_mode) ? damaged(error) : status;
    snprintf(opened->info.path, sizeof opened->info.path, "%s", path);
    status = read_metadata(opened, error);
    if (status != ESPER_OK) {
        st_close(opened->file);
        return error_where(error, "%s", path);
    }
    return ESPER_OK;
}

/* ---- opening: the tensors ---------------------------------------------------------------------------------------- */

/* Checks one tensor against its CRC, as the table row that it was. */
static enum esper_status check_tensor(const struct st_file *file, const cJSON *crc, struct table_row *row,
                                      struct esper_error *error)
{
    char computed[16];
    const struct st_tensor *tensor = st_find(file, crc->string);
    if (!tensor || strlen(tensor->name) >= TABLE_NAME)
        return error_set(error, ESPER_INVALID, "tensor %.100s is missing", crc->string);
    format_crc(crc32_update(0, tensor->data, tensor->bytes), computed);
    if (!cJSON_IsString(crc) || strcmp(crc->valuestring, computed) != 0)
        return error_set(error, ESPER_INVALID, "tensor %.100s does not match its checksum", tensor->name);
    memcpy(row->name, tensor->name, strlen(tensor->name) + 1);
    row->saved = true;
    row->bytes = tensor->bytes;
    row->data = (void *)(uintptr_t)tensor->data; /* read only: for the hash */
    return ESPER_OK;
}

/* Every tensor's CRC, and their hash in the table's order, which is that of the list of CRCs. */
static enum esper_status check_list(const struct opened *opened, const cJSON *list, struct esper_error *error)
{
    int count = st_count(opened->file);
    if (!cJSON_IsObject(list) || cJSON_GetArraySize(list) != count)
        return error_set(error, ESPER_INVALID, "its list of checksums does not name its tensors");
    struct table view = {.rows = memory_alloc((size_t)count, sizeof *view.rows, error)};
    if (!view.rows)
        return ESPER_FAILED;
    enum esper_status status = ESPER_OK;
    for (const cJSON *crc = list->child; crc && status == ESPER_OK; crc = crc->next)
        status = check_tensor(opened->file, crc, &view.rows[view.count++], error);
    if (status == ESPER_OK && table_hash(&view) != opened->info.hash)
        status = error_set(error, ESPER_INVALID, "its tensors do not match its hash");
    memory_free(view.rows);
    return status;
}

static enum esper_status check_tensors(const struct opened *opened, struct esper_error *error)
{
    cJSON *list;
    const char *text = opened->meta[META_CRC];
    enum esper_status status = json_parse(text, strlen(text), &list, error);
    if (status == ESPER_OK) {
        status = check_list(opened, list, error);
        cJSON_Delete(list);
    }
    return status == ESPER_INVALID ? damaged(error) : status;
}

/* Open and check all that can be checked without a world. */
static enum esper_status open_checked(const char *path, struct opened *opened, struct esper_error *error)
{
    TRY(open_metadata(path, opened, error));
    if (check_tensors(opened, error) != ESPER_OK) {
        st_close(opened->file);
        return error_where(error, "%s", path);
    }
    return ESPER_OK;
}

/* ---- does it fit? ------------------------------------------------------------------------------------------------ */

static enum esper_status check_config(const struct config *theirs, const struct config *ours, struct esper_error *error)
{
    char there[CONFIG_TEXT], here[CONFIG_TEXT];
    int key = config_difference(theirs, ours, KEY_RESUMES);
    if (key < 0)
        return ESPER_OK;
    config_format_exact(theirs, key, there);
    config_format_exact(ours, key, here);
    return error_set(error, ESPER_INVALID,
                     "a checkpoint of another world: %s is \"%.60s\" there and \"%.60s\" here; resume with the "
                     "same value, or start a new run",
                     config_key_name(key), there, here);
}

/* "F32 [8][398]" */
static void describe(enum st_dtype dtype, int dims, const size_t *shape, char text[128])
{
    size_t used = (size_t)snprintf(text, 128, "%s ", st_dtype_name(dtype));
    for (int i = 0; i < dims && used < 128; i++)
        used += (size_t)snprintf(text + used, 128 - used, "[%zu]", shape[i]);
}

static enum esper_status check_row(const struct st_file *file, const struct table_row *row, struct esper_error *error)
{
    char there[128], here[128];
    const struct st_tensor *tensor = st_find(file, row->name);
    if (!tensor)
        return error_set(error, ESPER_INVALID,
                         "has no array %s, so it is from another kind of run or another version of esper; take one "
                         "that has",
                         row->name);
    describe(tensor->dtype, tensor->dims, tensor->shape, there);
    describe(dtypes[row->type], row->dims, row->shape, here);
    if (strcmp(there, here) != 0)
        return error_set(error, ESPER_INVALID,
                         "a checkpoint of another world: array %s is %s there and %s here; take one with the same "
                         "envs, slots and policy width",
                         row->name, there, here);
    return ESPER_OK;
}

/* Whoever changes a number can change its checksum as well. */
static enum esper_status check_numbers(const struct st_file *file, const struct table_row *row,
                                       struct esper_error *error)
{
    return row->bytes ? table_check(row, st_find(file, row->name)->data, error) : ESPER_OK;
}

static enum esper_status check_rows(const struct st_file *file, const struct table *table, struct esper_error *error)
{
    int saved = 0;
    for (int i = 0; i < table->count; i++)
        if (table->rows[i].saved) {
            TRY(check_row(file, &table->rows[i], error));
            TRY(check_numbers(file, &table->rows[i], error));
            saved++;
        }
    for (int i = 0; i < st_count(file) && saved != st_count(file); i++) {
        const struct table_row *row = table_find(table, st_at(file, i)->name);
        if (!row || !row->saved)
            return error_set(error, ESPER_INVALID,
                             "has an array %.100s that this world does not know, so it is from another kind of run or "
                             "another version of esper",
                             st_at(file, i)->name);
    }
    return ESPER_OK;
}

static void copy_row(const struct st_file *file, const struct table_row *row)
{
    if (row->bytes)
        memcpy(row->data, st_find(file, row->name)->data, row->bytes);
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

enum esper_status checkpoint_peek(const char *path, struct checkpoint_info *info, struct config *config,
                                  struct esper_error *error)
{
    struct opened opened;
    TRY(open_metadata(path, &opened, error));
    *info = opened.info;
    if (config)
        *config = opened.config;
    st_close(opened.file);
    return ESPER_OK;
}

enum esper_status checkpoint_verify(const char *path, struct checkpoint_info *info, struct config *config,
                                    struct esper_error *error)
{
    struct opened opened;
    TRY(open_checked(path, &opened, error));
    *info = opened.info;
    if (config)
        *config = opened.config;
    st_close(opened.file);
    return ESPER_OK;
}

enum esper_status checkpoint_read(const char *path, const struct table *table, const struct config *config,
                                  struct checkpoint_info *info, struct esper_error *error)
{
    struct opened opened;
    TRY(open_checked(path, &opened, error));
    enum esper_status status = check_config(&opened.config, config, error);
    if (status == ESPER_OK)
        status = check_rows(opened.file, table, error);
    if (status == ESPER_OK) {
        for (int i = 0; i < table->count; i++)
            if (table->rows[i].saved)
                copy_row(opened.file, &table->rows[i]);
        *info = opened.info;
    }
    st_close(opened.file);
    return status == ESPER_OK ? status : error_where(error, "%s", path);
}

enum esper_status checkpoint_read_rows(const char *path, const struct table *table, const char *const names[],
                                       int count, struct esper_error *error)
{
    struct opened opened;
    TRY(open_checked(path, &opened, error));
    enum esper_status status = ESPER_OK;
    for (int i = 0; i < count && status == ESPER_OK; i++) {
        const struct table_row *row = table_find(table, names[i]);
        status = row ? check_row(opened.file, row, error)
                     : error_set(error, ESPER_INVALID, "this world has no array %s", names[i]);
        if (status == ESPER_OK)
            status = check_numbers(opened.file, row, error);
    }
    for (int i = 0; i < count && status == ESPER_OK; i++)
        copy_row(opened.file, table_find(table, names[i]));
    st_close(opened.file);
    return status == ESPER_OK ? status : error_where(error, "%s", path);
}

/* ---- a part of one ----------------------------------------------------------------------------------------------- */

/* The row that a tensor was; its data stay the file's. */
static enum esper_status view_tensor(const struct st_file *file, const char *name, struct table_row *row,
                                     struct esper_error *error)
{
    const struct st_tensor *tensor = st_find(file, name);
    if (!tensor || tensor->dims > TABLE_DIMS)
        return error_set(error, ESPER_INVALID, "has no array %s, so it is from another kind of run", name);
    *row = (struct table_row){.saved = true, .dims = tensor->dims, .bytes = tensor->bytes};
    snprintf(row->name, sizeof row->name, "%s", name);
    while (dtypes[row->type] != tensor->dtype)
        if (++row->type == sizeof dtypes / sizeof dtypes[0])
            return error_set(error, ESPER_INVALID, "its array %s is of a type that no world has", name);
    memcpy(row->shape, tensor->shape, (size_t)tensor->dims * sizeof *row->shape);
    row->data = (void *)(uintptr_t)tensor->data; /* read only */
    return ESPER_OK;
}

static enum esper_status write_part(const struct opened *opened, const char *to, struct table *view,
                                    const char *const names[], struct checkpoint_info *info, struct esper_error *error)
{
    for (int i = 0; i < view->count; i++)
        TRY(view_tensor(opened->file, names[i], &view->rows[i], error));
    return checkpoint_write(to, view, &opened->config, opened->info.round, opened->info.step, info, error);
}

enum esper_status checkpoint_extract(const char *from, const char *to, const char *const names[], int count,
                                     struct checkpoint_info *info, struct esper_error *error)
{
    struct opened opened;
    TRY(open_checked(from, &opened, error));
    struct table view = {.rows = memory_alloc((size_t)count, sizeof *view.rows, error), .count = count};
    enum esper_status status = view.rows ? write_part(&opened, to, &view, names, info, error) : ESPER_FAILED;
    memory_free(view.rows);
    st_close(opened.file);
    return status == ESPER_INVALID ? error_where(error, "%s", from) : status;
}
