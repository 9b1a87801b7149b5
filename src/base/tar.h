/*
 * Writes tar archives as every tar reads them (ustar, POSIX.1-1988; sizes beyond 8 GiB as GNU tar and the BSDs write
 * them). Atomic as base/file.h: until tar_commit there is no file of that name. Equal contents give equal bytes: owners
 * and permissions are always the same.
 */
#ifndef BASE_TAR_H
#define BASE_TAR_H

#include <stdint.h>

#include "base/file.h"

struct tar_writer {
    struct file_writer file;
    uint64_t left; /* bytes of the current member that are still to come */
    unsigned pad;  /* zeros after them */
};

/*
 * begin, then members: a directory, or a file followed by exactly as many bytes as it was announced with, in pieces of
 * any size; then commit. A call that fails has removed what was written; tar_abort does so for other reasons. "-" is
 * standard output.
 */
enum esper_status tar_begin(struct tar_writer *tar, const char *path, struct esper_error *error);
enum esper_status tar_directory(struct tar_writer *tar, const char *name, int64_t modified, struct esper_error *error);
enum esper_status tar_file(struct tar_writer *tar, const char *name, uint64_t bytes, int64_t modified,
                           struct esper_error *error);
enum esper_status tar_write(struct tar_writer *tar, const void *data, size_t bytes, struct esper_error *error);
enum esper_status tar_commit(struct tar_writer *tar, struct esper_error *error);
void tar_abort(struct tar_writer *tar);

#endif
