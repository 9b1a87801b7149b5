#include "base/tar.h"

#include <stdio.h>
#include <string.h>

enum { BLOCK = 512 };

/* A member's header. Numbers are octal digits with a NUL behind them. */
struct header {
    char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8], type, link[100];
    char magic[6], version[2], owner[32], group[32], major[8], minor[8], prefix[155], rest[12];
};
_Static_assert(sizeof(struct header) == BLOCK, "a header is one block");

/* The name as it is or, where it is long, cut at a '/' into prefix and rest. */
static enum esper_status put_name(struct header *header, const char *name, struct esper_error *error)
{
    size_t length = strlen(name);
    if (length <= sizeof header->name) {
        memcpy(header->name, name, length);
        return ESPER_OK;
    }
    for (const char *slash = strchr(name, '/'); slash; slash = strchr(slash + 1, '/')) {
        size_t before = (size_t)(slash - name), after = length - before - 1;
        if (before > 0 && before <= sizeof header->prefix && after > 0 && after <= sizeof header->name) {
            memcpy(header->prefix, name, before);
            memcpy(header->name, slash + 1, after);
            return ESPER_OK;
        }
    }
    return error_set(error, ESPER_INVALID, "%.120s...: the name is too long for an archive", name);
}

static void put_size(char size[12], uint64_t bytes)
{
    if (bytes < (uint64_t)1 << 33) {
        snprintf(size, 12, "%011llo", (unsigned long long)bytes);
        return;
    }
    memset(size, 0, 12); /* base 256, marked by the first bit */
    size[0] = (char)0x80;
    for (int i = 11; i > 3; i--, bytes >>= 8)
        size[i] = (char)(bytes & 255);
}

static enum esper_status put_header(struct tar_writer *tar, const char *name, char type, uint64_t bytes,
                                    int64_t modified, struct esper_error *error)
{
    struct header header = {.type = type};
    unsigned sum = 0;
    if (tar->left)
        return error_set(error, ESPER_FAILED, "%s: the archive's last member is not complete", tar->file.path);
    TRY(put_name(&header, name, error));
    memcpy(header.mode, type == '5' ? "0000755" : "0000644", 8);
    memcpy(header.uid, "0000000", 8);
    memcpy(header.gid, "0000000", 8);
    put_size(header.size, bytes);
    uint64_t time = modified < 0 ? 0 : (uint64_t)modified & (((uint64_t)1 << 33) - 1);
    snprintf(header.mtime, sizeof header.mtime, "%011llo", (unsigned long long)time);
    memcpy(header.magic, "ustar", 6);
    memcpy(header.version, "00", 2);
    memset(header.checksum, ' ', sizeof header.checksum); /* as these it counts in the sum */
    for (size_t i = 0; i < sizeof header; i++)
        sum += ((const unsigned char *)&header)[i];
    snprintf(header.checksum, sizeof header.checksum, "%06o", sum & 0777777);
    header.checksum[7] = ' ';
    tar->left = bytes;
    tar->pad = (unsigned)((BLOCK - bytes % BLOCK) % BLOCK);
    return file_write(&tar->file, &header, sizeof header, error);
}

enum esper_status tar_begin(struct tar_writer *tar, const char *path, struct esper_error *error)
{
    tar->left = tar->pad = 0;
    return file_begin(&tar->file, path, error);
}

enum esper_status tar_directory(struct tar_writer *tar, const char *name, int64_t modified, struct esper_error *error)
{
    char with_slash[PATH_MAX];
    if (snprintf(with_slash, sizeof with_slash, "%s/", name) >= (int)sizeof with_slash)
        return error_set(error, ESPER_INVALID, "%.80s...: the path is too long", name);
    enum esper_status status = put_header(tar, with_slash, '5', 0, modified, error);
    if (status != ESPER_OK)
        tar_abort(tar);
    return status;
}

enum esper_status tar_file(struct tar_writer *tar, const char *name, uint64_t bytes, int64_t modified,
                           struct esper_error *error)
{
    enum esper_status status = put_header(tar, name, '0', bytes, modified, error);
    if (status != ESPER_OK)
        tar_abort(tar);
    return status;
}

enum esper_status tar_write(struct tar_writer *tar, const void *data, size_t bytes, struct esper_error *error)
{
    static const char zeros[BLOCK];
    if (bytes > tar->left) {
        tar_abort(tar);
        return error_set(error, ESPER_FAILED, "%s: more bytes than the archive's member was to have", tar->file.path);
    }
    TRY(file_write(&tar->file, data, bytes, error));
    tar->left -= bytes;
    if (tar->left == 0 && tar->pad) {
        TRY(file_write(&tar->file, zeros, tar->pad, error));
        tar->pad = 0;
    }
    return ESPER_OK;
}

enum esper_status tar_commit(struct tar_writer *tar, struct esper_error *error)
{
    static const char end[2 * BLOCK]; /* two empty blocks */
    if (tar->left) {
        tar_abort(tar);
        return error_set(error, ESPER_FAILED, "%s: the archive's last member is not complete", tar->file.path);
    }
    TRY(file_write(&tar->file, end, sizeof end, error));
    return file_commit(&tar->file, error);
}

void tar_abort(struct tar_writer *tar)
{
    file_abort(&tar->file);
}
