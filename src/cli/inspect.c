/* esper inspect: what a run, a checkpoint or any other safetensors file contains, and whether it is sound. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/safetensors.h"
#include "base/text.h"
#include "cli/cli.h"
#include "model/graph.h"
#include "session/checkpoint.h"
#include "session/resume.h"
#include "telemetry/query.h"
#include "telemetry/record.h"
#include "telemetry/run.h"
#include "telemetry/run_label.h"

/* Text from a file, on one line. */
static void clean(const char *text, char shown[128])
{
    snprintf(shown, 128, "%.127s", text);
    text_scrub(shown, "");
}

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

/* IEEE half precision: 5 bits of exponent, 10 of fraction. */
static double half(uint16_t bits)
{
    int exponent = bits >> 10 & 31;
    double fraction = bits & 1023, sign = bits >> 15 ? -1 : 1;
    if (exponent == 31)
        return fraction != 0 ? (double)NAN : sign * (double)INFINITY;
    return sign * (exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24));
}

static double brain_half(uint16_t bits)
{
    uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return (double)value;
}

static double element(const struct st_tensor *tensor, size_t i)
{
    switch (tensor->dtype) {
    case ST_F64:
        return ((const double *)tensor->data)[i];
    case ST_F32:
        return (double)((const float *)tensor->data)[i];
    case ST_F16:
        return half(((const uint16_t *)tensor->data)[i]);
    case ST_BF16:
        return brain_half(((const uint16_t *)tensor->data)[i]);
    case ST_I64:
        return (double)((const int64_t *)tensor->data)[i];
    case ST_I32:
        return ((const int32_t *)tensor->data)[i];
    case ST_I16:
        return ((const int16_t *)tensor->data)[i];
    case ST_I8:
        return ((const int8_t *)tensor->data)[i];
    case ST_U64:
        return (double)((const uint64_t *)tensor->data)[i];
    case ST_U32:
        return ((const uint32_t *)tensor->data)[i];
    case ST_U16:
        return ((const uint16_t *)tensor->data)[i];
    case ST_U8:
    case ST_BOOL:
        return ((const uint8_t *)tensor->data)[i];
    case ST_DTYPE_COUNT:
        break;
    }
    return (double)NAN;
}

static void print_tensor(const struct st_tensor *tensor, int width)
{
    double low = (double)INFINITY, high = -(double)INFINITY, sum = 0;
    size_t finite = 0, used = 0;
    for (size_t i = 0; i < tensor->count; i++) {
        double value = element(tensor, i);
        if (!isfinite(value))
            continue;
        low = value < low ? value : low;
        high = value > high ? value : high;
        sum += value;
        finite++;
    }
    char shape[ST_DIMS * 24] = "scalar", name[128];
    clean(tensor->name, name);
    for (int i = 0; i < tensor->dims; i++)
        used += (size_t)snprintf(shape + used, sizeof shape - used, "%s%zu", i ? "x" : "", tensor->shape[i]);
    cli_print("%-*s %-4s %-16s %10zu", width, name, st_dtype_name(tensor->dtype), shape, tensor->bytes);
    if (finite)
        cli_print(" %12.5g %12.5g %12.5g", low, high, sum / (double)finite);
    else
        cli_print(" %12s %12s %12s", "-", "-", "-");
    cli_print(" %10zu\n", tensor->count - finite);
}

static void print_tensors(const struct st_file *file)
{
    int width = 6;
    size_t bytes = 0;
    for (int i = 0; i < st_count(file); i++) {
        int length = (int)strlen(st_at(file, i)->name);
        width = length > width && length <= 64 ? length : width;
        bytes += st_at(file, i)->bytes;
    }
    cli_print("%-*s %-4s %-16s %10s %12s %12s %12s %10s\n", width, "tensor", "type", "shape", "bytes", "min", "max",
              "mean", "non-finite");
    for (int i = 0; i < st_count(file); i++)
        print_tensor(st_at(file, i), width);
    cli_print("%d tensors, %zu bytes\n", st_count(file), bytes);
}

/* ---- ONNX models ------------------------------------------------------------------------------------------------- */

static void print_extents(const struct graph_value *value)
{
    for (int i = 0; i < value->dims; i++)
        if (value->shape[i])
            cli_print("%s%lld", i ? "x" : "", (long long)value->shape[i]);
        else
            cli_print("%sN", i ? "x" : ""); /* any number of images */
}

static void print_graph(const struct graph *graph)
{
    size_t parameters = 0;
    int used[GRAPH_OP_COUNT] = {0};
    char shown[128];
    for (int i = 0; i < graph->value_count; i++) {
        size_t count = graph->values[i].floats ? 1 : 0;
        for (int d = 0; d < graph->values[i].dims; d++)
            count *= (size_t)graph->values[i].shape[d];
        parameters += count;
    }
    for (int i = 0; i < graph->node_count; i++)
        used[graph->nodes[i].op]++;
    if (graph->source[0]) {
        clean(graph->source, shown);
        cli_print("  %-12s %s\n", "source", shown);
    }
    clean(graph->values[graph->input].name, shown);
    cli_print("  %-12s %s ", "input", shown);
    print_extents(&graph->values[graph->input]);
    clean(graph->values[graph->output].name, shown);
    cli_print("\n  %-12s %s\n  %-12s %zu floats\n  %-12s %d:", "output", shown, "constants", parameters, "operators",
              graph->node_count);
    for (int op = 0; op < GRAPH_OP_COUNT; op++)
        if (used[op])
            cli_print(" %d %s", used[op], graph_ops[op].name);
    cli_print("\n");
}

static enum esper_status inspect_onnx(const char *path, struct esper_error *error)
{
    struct graph *graph;
    if (onnx_read(path, &graph, error) != ESPER_OK)
        return error->status;
    cli_print("%s: ONNX model\n", path);
    print_graph(graph);
    graph_free(graph);
    return ESPER_OK;
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

static void print_config(const struct config *config)
{
    for (int key = 0; key < config_key_count(); key++)
        if (config_key_is(key, KEY_SHOWN)) {
            char text[CONFIG_TEXT];
            config_format(config, key, text);
            cli_print("  %-12s %s\n", config_key_name(key), *text ? text : "none");
        }
}

static void print_checkpoint(const struct st_file *file, const struct checkpoint_info *info,
                             const struct config *config)
{
    char version[128];
    clean(st_meta(file, "esper"), version);
    cli_print("%s: checkpoint, %u rounds and %u steps done\n", info->path, (unsigned)info->round, (unsigned)info->step);
    print_config(config);
    cli_print("  %-12s %016llx\n  %-12s all match\n  %-12s %s\n\n", "hash", (unsigned long long)info->hash, "checksums",
              "written by", version);
}

static bool is_onnx(const char *path)
{
    void *data;
    size_t size;
    if (file_load(path, &data, &size, NULL) != ESPER_OK)
        return false;
    const char *kind = file_kind(data, size);
    memory_free(data);
    return kind && strcmp(kind, FILE_ONNX) == 0;
}

static enum esper_status inspect_file(const char *path, bool hash, struct esper_error *error)
{
    struct st_file *file;
    struct checkpoint_info info;
    struct config config;
    if (hash) {
        TRY(checkpoint_verify(path, &info, NULL, error));
        cli_print("%016llx\n", (unsigned long long)info.hash);
        return ESPER_OK;
    }
    if (is_onnx(path))
        return inspect_onnx(path, error);
    TRY(st_open(path, &file, error));
    const char *format = st_meta(file, "format");
    enum esper_status status = ESPER_OK;
    if (format && strncmp(format, "esper-checkpoint", 16) == 0) {
        status = checkpoint_verify(path, &info, &config, error);
        if (status == ESPER_OK)
            print_checkpoint(file, &info, &config);
    } else {
        char shown[128];
        clean(format ? format : "not named", shown);
        cli_print("%s: safetensors file, format %s\n\n", path, shown);
    }
    if (status == ESPER_OK)
        print_tensors(file);
    st_close(file);
    return status;
}

/* ---- runs -------------------------------------------------------------------------------------------------------- */

/* One checkpoint in a line. */
static void print_entry(const char *path)
{
    struct stat size = {0};
    struct checkpoint_info info;
    struct esper_error error;
    const char *slash = strrchr(path, '/');
    enum esper_status status = checkpoint_verify(path, &info, NULL, &error);
    stat(path, &size);
    cli_print("  %-20s %10lld  ", slash ? slash + 1 : path, (long long)size.st_size);
    if (status == ESPER_OK) {
        cli_print("%7u rounds %3u steps  %016llx  sound\n", (unsigned)info.round, (unsigned)info.step,
                  (unsigned long long)info.hash);
    } else {
        size_t length = strlen(path);
        bool prefixed = strncmp(error.text, path, length) == 0 && error.text[length] == ':';
        cli_print("UNUSABLE: %s\n", prefixed ? error.text + length + 2 : error.text);
    }
}

static enum esper_status print_checkpoints(const char *folder, struct esper_error *error)
{
    struct checkpoint_info *list;
    int count;
    char best[PATH_MAX];
    struct stat exists;
    TRY(checkpoint_list(folder, &list, &count, error));
    cli_print("\ncheckpoints:\n");
    for (int i = 0; i < count; i++)
        print_entry(list[i].path);
    memory_free(list);
    if (snprintf(best, sizeof best, "%s/best.ckpt", folder) < (int)sizeof best && stat(best, &exists) == 0)
        print_entry(best);
    else if (count == 0)
        cli_print("  none\n");
    return ESPER_OK;
}

/* Rows: table, number of rows, how many more were thinned out, how many were lost; in the last two NULL means none. */
static enum esper_status take_count(void *context, const struct query_row *row, struct esper_error *error)
{
    (void)context, (void)error;
    const struct query_value *value = row->values;
    if (!value)
        return ESPER_OK;
    cli_print("  %-12s %10lld", value[0].text, (long long)value[1].integer);
    if (value[2].kind != QUERY_NULL)
        cli_print("  %lld thinned out", (long long)value[2].integer);
    if (value[3].kind != QUERY_NULL)
        cli_print("  %lld LOST", (long long)value[3].integer);
    putchar('\n');
    return ESPER_OK;
}

static enum esper_status count_rows(const struct run *run, struct esper_error *error)
{
#define COUNT_ROWS(NAME, name, lane, level, key, help)                                                                 \
    " UNION ALL SELECT '" #name "', (SELECT count(*) FROM " #name "), "                                                \
    "(SELECT sum(count) FROM drops WHERE name = '" #name "' AND reason = 'thinned'), "                                 \
    "(SELECT sum(count) FROM drops WHERE name = '" #name "' AND reason = 'full')"
    static const char sql[] = "SELECT 'run', count(*), NULL, NULL FROM run" RECORD_KINDS(COUNT_ROWS);
#undef COUNT_ROWS
    const struct query_options options = {.timeout = QUERY_SECONDS};
    struct query *query;
    TRY(query_open(&query, run, error));
    enum esper_status status = query_run(query, sql, &options, take_count, NULL, error);
    query_close(query);
    return status;
}

/* A file that is not there has none. */
static enum esper_status file_bytes(const struct run *run, const char *name, long long *bytes,
                                    struct esper_error *error)
{
    char path[PATH_MAX];
    struct stat info = {0};
    if (snprintf(path, sizeof path, "%s/%s", run->path, name) >= (int)sizeof path)
        return error_set(error, ESPER_INVALID, "%.80s...: the path is too long", run->path);
    if (stat(path, &info) != 0 && errno != ENOENT)
        return error_set(error, ESPER_FAILED, "%s: %s", path, strerror(errno));
    *bytes = (long long)info.st_size;
    return ESPER_OK;
}

static enum esper_status describe_record(const struct run *run, struct esper_error *error)
{
    long long bytes, log;
    cli_print("\nrecord");
    TRY(file_bytes(run, "telemetry.db", &bytes, error));
    TRY(file_bytes(run, "telemetry.db-wal", &log, error));
    cli_print(", %lld bytes, %lld in its log; rows:\n", bytes, log);
    return count_rows(run, error);
}

/* A record that cannot be read does not hide the rest. */
static void print_record(const struct run *run)
{
    struct esper_error error;
    if (describe_record(run, &error) != ESPER_OK)
        cli_print("  UNUSABLE: %s\n", error.text);
}

/* What can be resumed, and how. */
static void print_outlook(const struct run *run, const struct run_status *status, const char *folder)
{
    struct resume_point point;
    struct esper_error error;
    if (status->alive) {
        cli_print("\nprocess %ld is training it now\n", status->pid);
        return;
    }
    if (status->state == RUN_FINISHED && run->config.evaluate) {
        cli_print("\nnothing to resume: the evaluation is finished\n");
        return;
    }
    if (resume_find(run, folder, false, &point, &error) != ESPER_OK) {
        cli_print("\n`esper train --resume` cannot continue: %s\n", error.text);
        return;
    }
    if (*point.note)
        cli_print("\n%s\n", point.note);
    if (point.begins)
        cli_print("\nno checkpoint yet; this starts the run again from its beginning:\n  esper train --resume %s\n",
                  run->path);
    else if (status->state == RUN_FINISHED)
        cli_print("\nnothing to resume: the run is finished; to add rounds:\n  esper train --resume %s --rounds %u\n",
                  run->path, 2 * status->round);
    else
        cli_print("\nthis continues from %s:\n  esper train --resume %s\n", strrchr(point.from.path, '/') + 1,
                  run->path);
}

/* One line, and a note on stderr where the newest checkpoint is not the one used. */
static enum esper_status print_run_hash(const char *folder, struct esper_error *error)
{
    struct checkpoint_info info;
    char note[512];
    TRY(checkpoint_newest(folder, &info, note, error));
    if (*note)
        cli_warn("%s", note);
    cli_print("%016llx\n", (unsigned long long)info.hash);
    return ESPER_OK;
}

static enum esper_status print_label(const char *path, struct esper_error *error)
{
    struct run_label label;
    TRY(run_label_read(path, &label, error));
    for (int i = 0; i < label.count; i++)
        cli_print("%s%s%s", i ? " " : "  tags         ", label.tags[i], i == label.count - 1 ? "\n" : "");
    if (*label.note)
        cli_print("  %-12s %s\n", "note", label.note);
    return ESPER_OK;
}

static enum esper_status inspect_run(const char *runs, const char *text, bool hash, struct esper_error *error)
{
    struct run run;
    struct run_status status = {0};
    char folder[PATH_MAX];
    TRY(run_open(&run, runs, text, error));
    enum esper_status result = run_get_status(&run, &status, error);
    if (result == ESPER_OK && snprintf(folder, sizeof folder, "%s/checkpoints", run.path) >= (int)sizeof folder)
        result = error_set(error, ESPER_INVALID, "%.80s...: the path is too long", run.path);
    if (result == ESPER_OK && hash) {
        result = print_run_hash(folder, error);
    } else if (result == ESPER_OK) {
        cli_print("%s: %s, %u rounds and %u steps done\n", run.path, run_state_name(&status), status.round,
                  status.step);
        print_config(&run.config);
        cli_print("  %-12s %s\n  %-12s %s\n  %-12s esper %s, kernels %s\n", "created", run.created, "updated",
                  status.updated, "made by", run.version, run.kernels);
        const enum esper_status label = print_label(run.path, error); /* which, if it is bad, hides nothing else */
        result = print_checkpoints(folder, error);
        print_record(&run);
        if (result == ESPER_OK)
            print_outlook(&run, &status, folder);
        if (result == ESPER_OK)
            result = label;
    }
    run_close(&run);
    return result;
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

/* A file that exists, or a name that only a file would have. Everything else is a run. */
static bool is_file(const char *text)
{
    struct stat info;
    const char *dot = strrchr(text, '.');
    if (stat(text, &info) == 0)
        return !S_ISDIR(info.st_mode);
    return dot && (strcmp(dot, ".ckpt") == 0 || strcmp(dot, ".safetensors") == 0 || strcmp(dot, ".onnx") == 0);
}

static enum esper_status inspect(struct cli_call *call, struct esper_error *error)
{
    const bool *hash = call->flags;
    const char *word = call->words.items[0];
    char target[PATH_MAX]; /* of a link that the user made; those inside of a run are refused */
    struct stat info;
    if (!is_file(word))
        return inspect_run(call->runs, word, *hash, error);
    if (lstat(word, &info) == 0 && S_ISLNK(info.st_mode) && realpath(word, target))
        word = target;
    return inspect_file(word, *hash, error);
}

const struct cli_page inspect_page = {
    .usage = "inspect FILE|RUN [--hash] [--runs DIR]",
    .about = "A run: its state, its checkpoints and whether each is sound, the rows of its record and those that\n"
             "are missing, and what can be resumed and how. A checkpoint: what it belongs to and every array of the\n"
             "state, after verifying all checksums. An exported network: its structure. Any other\n"
             "safetensors file (data, vectors): every tensor.\n"
             "Runs with equal hashes are equal bit for bit.",
    .example = "esper inspect latest --hash",
    .options =
        (const struct cli_option[]){
            {"hash", CLI_FLAG, NULL, 0, "print one line, the hash of the training state", 0, 0}, CLI_RUNS_OPTION, {0}},
    .min_words = 1,
    .max_words = 1,
    .wanted = "a run, a checkpoint or another file",
    .run = inspect,
    .flags_size = sizeof(bool),
};
