/*
 * Runs in one file: a tar archive with a directory per run, which any tar unpacks and every command then reads. What is
 * of no use elsewhere (the lock, remains of interrupted writes, what is not Esper's) is left out.
 */
#ifndef TELEMETRY_RUN_ARCHIVE_H
#define TELEMETRY_RUN_ARCHIVE_H

#include "base/tar.h"
#include "telemetry/run_files.h"

/* Called as bytes are packed; false stops (ESPER_INTERRUPTED). */
typedef bool archive_go_on(void *context, uint64_t bytes);

/* Packs a run as the directory `name`. The caller holds its lock (run_hold), so that it does not change meanwhile;
 * where it does all the same, that is an error. After an error there is no archive (base/tar.h). */
enum esper_status run_archive_add(struct tar_writer *tar, const struct run_files *files, const char *name,
                                  archive_go_on *go_on, void *context, struct esper_error *error);

#endif
