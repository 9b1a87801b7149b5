/*
 * run.json: what a run is, written once. The configuration has the form of a task file, so that any tool can query it,
 * and reads back exactly; a second object says where each value came from.
 */
#ifndef TELEMETRY_RUN_JSON_H
#define TELEMETRY_RUN_JSON_H

#include "telemetry/run.h"

#define RUN_FORMAT 1

/* Writes directory/run.json from the run's name, configuration, kernels, data_checksum, created and version. */
enum esper_status run_json_write(const char *directory, const struct run *run, const char *command,
                                 struct esper_error *error);
/* The command line as typed. Release with free. */
enum esper_status run_json_command(const struct run *run, char **command, struct esper_error *error);
/* Fills all of them from directory/run.json. */
enum esper_status run_json_read(const char *directory, struct run *run, struct esper_error *error);
/* Whether Esper, of whatever version, wrote directory/run.json: for who wants the room that a run takes, not its
 * content. */
enum esper_status run_json_check(const char *directory, struct esper_error *error);

/* Replaces a file of the run by this text, all of it or nothing. */
enum esper_status run_json_replace(const char *path, const char *text, struct esper_error *error);

#endif
