/* esper export: the contents of a run, as files that other programs open. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "model/graph.h"
#include "session/export.h"
#include "session/learned.h"
#include "telemetry/dump.h"
#include "telemetry/tensorboard.h"
#include "telemetry/trace.h"

struct export_options {
    const char *env;
    const char *safetensors, *onnx;               /* the network */
    const char *policy;                           /* that it learned */
    const char *jsonl, *csv, *csv_output, *trace; /* the record; csv is a table's name */
    const char *tensorboard;                      /* a folder */
};

/* ---- the network ------------------------------------------------------------------------------------------------- */

/* "best" (-1), or the number of an env. */
static enum esper_status parse_env(const char *text, int *env, struct esper_error *error)
{
    char *end;
    *env = -1;
    if (strcmp(text, "best") == 0)
        return ESPER_OK;
    long number = strtol(text, &end, 10);
    if (end == text || *end || number < 0 || number > 1 << 20)
        return error_set(error, ESPER_INVALID, "--env %.60s: it must be best or the number of an env", text);
    *env = (int)number;
    return ESPER_OK;
}

static void print_model(const struct model *model)
{
    char text[MODEL_TEXT];
    model_describe(model, text);
    cli_print("%s\nhost of %zu parameters", text, model_host_params(model));
    for (int i = 0; i < model->shape.slots; i++) {
        int j = model->shape.exec_order[i];
        cli_print("; %s %s, %s at alpha %.3g", model->shape.slot[j].id,
                  family_blueprint(host_family_of(&model->config), model->exec[j].blueprint),
                  algorithm_name(model->exec[j].algorithm), (double)model->exec[j].alpha);
    }
    cli_print("; %zu parameters grown\n", model_seed_params(model));
    if (model->source.left_out[0])
        cli_print("left out, not part of its function: %s\n", model->source.left_out);
}

static enum esper_status write_onnx(const struct model *model, const char *path, struct esper_error *error)
{
    struct graph *graph;
    TRY(graph_from_model(&graph, model, error));
    enum esper_status status = onnx_write(graph, path, error);
    graph_free(graph);
    return status;
}

static enum esper_status export_network(const struct run *run, const struct export_options *options,
                                        struct esper_error *error)
{
    struct model *model;
    int env;
    TRY(parse_env(options->env, &env, error));
    TRY(export_run(run, env, &model, error));
    enum esper_status status = ESPER_OK;
    if (options->safetensors)
        status = model_write(model, options->safetensors, error);
    if (status == ESPER_OK && options->onnx)
        status = write_onnx(model, options->onnx, error);
    if (status == ESPER_OK) {
        print_model(model);
        cli_print("wrote %s%s%s\n", options->safetensors ? options->safetensors : "",
                  options->safetensors && options->onnx ? " and " : "", options->onnx ? options->onnx : "");
    }
    model_free(model);
    return status;
}

/* ---- the policy -------------------------------------------------------------------------------------------------- */

static enum esper_status export_policy(const struct run *run, const char *path, struct esper_error *error)
{
    if (strcmp(path, "-") == 0)
        return error_set(error, ESPER_INVALID, "--policy -: a policy goes to a file");
    TRY(learned_export(run, path, error));
    cli_print("wrote %s, the policy of %s; play it with: %s eval %s\n", path, run->name, program_invocation_name, path);
    return ESPER_OK;
}

/* ---- the record -------------------------------------------------------------------------------------------------- */

static enum esper_status whole_record(const struct run *run, const char *table, FILE *file, struct esper_error *error)
{
    (void)table;
    return dump_jsonl(run, file, error);
}

static enum esper_status phases(const struct run *run, const char *table, FILE *file, struct esper_error *error)
{
    (void)table;
    return dump_trace(run, file, error);
}

static enum esper_status export_record(const struct run *run, dump_writer *write, const char *table, const char *path,
                                       struct esper_error *error)
{
    TRY(dump_file(run, write, table, path, error));
    if (strcmp(path, "-") != 0)
        cli_print("wrote %s\n", path);
    return ESPER_OK;
}

static enum esper_status export_tensorboard(const struct run *run, const char *folder, struct esper_error *error)
{
    char path[PATH_MAX];
    int rounds;
    TRY(tensorboard_write(run, folder, path, &rounds, error));
    cli_print("wrote %s: %d rounds; see them with: tensorboard --logdir %s\n", path, rounds, folder);
    return ESPER_OK;
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

static const char *csv_path(const struct export_options *options)
{
    return options->csv_output ? options->csv_output : "-";
}

/* A file that is stdout has it to itself. */
static void claim_output(const struct export_options *options)
{
    const char *const files[] = {options->safetensors, options->onnx, options->jsonl,
                                 options->csv ? csv_path(options) : NULL, options->trace};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        cli_output(files[i]);
}

static enum esper_status export_files(struct cli_call *call, struct esper_error *error)
{
    const struct export_options *options = call->flags;
    struct run run;
    bool network = options->safetensors || options->onnx;
    claim_output(options);
    if (!network && !options->policy && !options->jsonl && !options->csv && !options->trace && !options->tensorboard)
        return error_set(
            error, ESPER_INVALID,
            "export: choose what to write: --safetensors, --onnx, --policy, --jsonl, --csv, --trace or --tensorboard; "
            "see --help");
    if (options->csv_output && !options->csv)
        return error_set(error, ESPER_INVALID, "export: --output says where --csv TABLE goes; the others name a file");
    TRY(run_open(&run, call->runs, call->words.items[0], error));
    enum esper_status status = network ? export_network(&run, options, error) : ESPER_OK;
    if (status == ESPER_OK && options->policy)
        status = export_policy(&run, options->policy, error);
    if (status == ESPER_OK && options->jsonl)
        status = export_record(&run, whole_record, NULL, options->jsonl, error);
    if (status == ESPER_OK && options->csv)
        status = export_record(&run, dump_csv, options->csv, csv_path(options), error);
    if (status == ESPER_OK && options->trace)
        status = export_record(&run, phases, NULL, options->trace, error);
    if (status == ESPER_OK && options->tensorboard)
        status = export_tensorboard(&run, options->tensorboard, error);
    run_close(&run);
    return status;
}

#define AT(member) offsetof(struct export_options, member)
const struct cli_page export_page = {
    .usage = "export RUN [--safetensors FILE] [--onnx FILE] [--env best|N] [--policy FILE] [--jsonl FILE]\n"
             "                        [--csv TABLE] [--output FILE] [--trace FILE] [--tensorboard DIR] [--runs DIR]",
    .about = "Writes the grown network of a run, host and blended seeds, from the run's newest checkpoint. `esper\n"
             "infer` runs either file; docs/export.md describes both and has a loader for PyTorch. Or writes the\n"
             "policy that the run learned, for `esper eval` and `--from`, anywhere. Or writes the run's record:\n"
             "everything that happened, as text. - as FILE is stdout, but not for a policy.",
    .example = "esper export latest --onnx grown.onnx",
    .options =
        (const struct cli_option[]){
            {"safetensors", CLI_TEXT, "FILE", AT(safetensors),
             "write the network with its seeds, structure in the metadata", 0, 0},
            {"onnx", CLI_TEXT, "FILE", AT(onnx), "write the network as an ONNX model (opset 17)", 0, 0},
            {"env", CLI_TEXT, "best|N", AT(env), "the best network of the run (default), or env N as it is now", 0, 0},
            {"policy", CLI_TEXT, "FILE", AT(policy), "write the policy that it learned", 0, 0},
            {"jsonl", CLI_TEXT, "FILE", AT(jsonl), "write the whole record, one object per line", 0, 0},
            {"csv", CLI_TEXT, "TABLE", AT(csv), "write a table of the record to stdout, or to --output", 0, 0},
            {"output", CLI_TEXT, "FILE", AT(csv_output), "where --csv goes", 0, 0},
            {"trace", CLI_TEXT, "FILE", AT(trace), "write where the time went, for Perfetto", 0, 0},
            {"tensorboard", CLI_TEXT, "DIR", AT(tensorboard), "write the rounds for TensorBoard, to DIR/<run>/", 0, 0},
            CLI_RUNS_OPTION,
            {0}},
    .min_words = 1,
    .max_words = 1,
    .wanted = "a run",
    .run = export_files,
    .flags_size = sizeof(struct export_options),
    .defaults = &(const struct export_options){.env = "best"},
};
