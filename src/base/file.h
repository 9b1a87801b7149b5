/*
 * Files: whole reads and atomic writes (temp, fsync, rename, fsync directory). A reader of a path sees the old content
 * or the new, never part of it; after any failure nothing half-written is left behind.
 */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

/* Read all of `path`, at most `max_bytes`. A NUL follows the data (not counted). Release with memory_free. */
enum esper_status file_read(const char *path, size_t max_bytes, char **data, size_t *size, struct esper_error *error);

/* Read a regular file of any size that fits in memory. Not mapped: a file that is cut short later would end the
 * process. An empty file gives NULL and size 0. Release with memory_free. */
enum esper_status file_load(const char *path, void **data, size_t *size, struct esper_error *error);

/*
 * A file of a run. The directory may come from a stranger: only a regular file of that very name will do. Links, pipes,
 * devices and sockets are refused by a line that says what they are, without waiting for them or writing to them.
 */
enum esper_status file_open_own(const char *path, int flags, int *fd, struct esper_error *error); /* as open(2) */
enum esper_status file_read_own(const char *path, size_t max_bytes, char **data, size_t *size,
                                struct esper_error *error);
/* For a file that other code opens: what has that name, if anything, is a regular file. */
enum esper_status file_check_own(const char *path, struct esper_error *error);

/* What a file is by its first bytes, for error lines: "a PNG picture", "an ONNX model", ...; NULL when unknown. */
const char *file_kind(const void *data, size_t size);
#define FILE_SAFETENSORS "a safetensors file"
#define FILE_ONNX        "an ONNX model"

struct file_writer {
    bool open;
    int fd;
    char path[PATH_MAX]; /* where the data goes at commit */
    char temp[PATH_MAX]; /* where it is until then, in the same directory */
};

/*
 * begin, write ..., commit. A call that fails has already removed the temporary file; file_abort does so for a caller
 * that gives up for its own reasons, and may be called at any time after file_begin (also when that failed). The path
 * "-" is standard output, which has none of these guarantees.
 */
enum esper_status file_begin(struct file_writer *writer, const char *path, struct esper_error *error);
enum esper_status file_write(struct file_writer *writer, const void *data, size_t bytes, struct esper_error *error);
enum esper_status file_commit(struct file_writer *writer, struct esper_error *error);
void file_abort(struct file_writer *writer);

/* A library that is opened as the program runs: beside the program or libesper.so, whichever this code is in, where a
 * build has it, or where `make install` puts it. false: in neither place. */
bool file_find_library(const char *name, char *path, size_t size);

/* Create a directory and its parents; those that exist already are fine. */
enum esper_status file_make_directories(const char *path, struct esper_error *error);

#endif
