#include "telemetry/run_archive.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"

enum { PIECE = 1 << 20 };

struct packing {
    struct tar_writer *tar;
    const struct run_files *files;
    char *buffer; /* [PIECE] */
    archive_go_on *go_on;
    void *context;
};

static enum esper_status changed(const struct packing *packing, const struct run_file *file, struct esper_error *error)
{
    return error_set(error, ESPER_FAILED, "%s/%s: changed while it was packed; try again", packing->files->path,
                     file->name);
}

/* Exactly as many bytes as the file had when it was listed, and has now. */
static enum esper_status copy(const struct packing *packing, const struct run_file *file, int fd,
                              struct esper_error *error)
{
    struct stat info;
    uint64_t left = file->bytes;
    if (fstat(fd, &info) != 0 || (uint64_t)info.st_size != left || info.st_mtime != file->modified)
        return changed(packing, file, error);
    while (left) {
        ssize_t got = read(fd, packing->buffer, left < PIECE ? (size_t)left : PIECE);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return error_set(error, ESPER_FAILED, "%s/%s: cannot read: %s", packing->files->path, file->name,
                             strerror(errno));
        if (got == 0)
            return changed(packing, file, error);
        TRY(tar_write(packing->tar, packing->buffer, (size_t)got, error));
        left -= (uint64_t)got;
        if (!packing->go_on(packing->context, (uint64_t)got))
            return error_set(error, ESPER_INTERRUPTED, "stopped; there is no archive");
    }
    return ESPER_OK;
}

static enum esper_status pack_file(const struct packing *packing, const struct run_file *file, const char *name,
                                   struct esper_error *error)
{
    int fd;
    TRY(run_files_read(packing->files, file, &fd, error));
    enum esper_status status = tar_file(packing->tar, name, file->bytes, file->modified, error);
    if (status == ESPER_OK)
        status = copy(packing, file, fd, error);
    close(fd);
    return status;
}

/* When run.json was written: a directory's own time would be that of the last lock. */
static int64_t birth_of_run(const struct run_files *files)
{
    for (int i = 0; i < files->count; i++)
        if (strcmp(files->files[i].name, "run.json") == 0)
            return files->files[i].modified;
    return 0;
}

static enum esper_status pack(const struct packing *packing, const char *run, struct esper_error *error)
{
    char name[PATH_MAX];
    const int64_t born = birth_of_run(packing->files);
    TRY(tar_directory(packing->tar, run, born, error));
    snprintf(name, sizeof name, "%.200s/checkpoints", run);
    TRY(tar_directory(packing->tar, name, born, error)); /* every run has one, if an empty one */
    for (int i = 0; i < packing->files->count; i++) {
        const struct run_file *file = &packing->files->files[i];
        snprintf(name, sizeof name, "%.200s/%s", run, file->name);
        if (!file->temporary)
            TRY(pack_file(packing, file, name, error));
    }
    return ESPER_OK;
}

enum esper_status run_archive_add(struct tar_writer *tar, const struct run_files *files, const char *name,
                                  archive_go_on *go_on, void *context, struct esper_error *error)
{
    struct packing packing = {.tar = tar, .files = files, .go_on = go_on, .context = context};
    packing.buffer = memory_alloc(PIECE, 1, error);
    enum esper_status status = packing.buffer ? pack(&packing, name, error) : ESPER_FAILED;
    memory_free(packing.buffer);
    if (status != ESPER_OK)
        tar_abort(tar);
    return status;
}
