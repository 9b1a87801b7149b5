#include "data/idx_import.h"

#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#ifdef HAVE_PNG /* libpng, and zlib with it */
#include <zlib.h>
#endif

#include "base/crc32.h"
#include "base/file.h"
#include "base/memory.h"

enum {
    SIDE = 28,
    MARGIN = (DATASET_SIZE - SIDE) / 2,
    IMAGES_MAGIC = 0x803, /* bytes in three dimensions */
    LABELS_MAGIC = 0x801, /* bytes in one */
    HEADER_MAX = 4 * sizeof(uint32_t),
};

static const char *const file_names[IDX_FILES] = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                                                  "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"};

/* ---- bytes ------------------------------------------------------------------------------------------------------- */

struct content {
    uint8_t *bytes; /* released with memory_free */
    size_t size;
};

#ifdef HAVE_PNG
/* At most `room` bytes: one more than there should be is enough to see that there are too many. */
static enum esper_status unzip(const char *path, size_t room, struct content *content, struct esper_error *error)
{
    content->bytes = memory_alloc(room, 1, error);
    if (!content->bytes)
        return ESPER_FAILED;
    gzFile file = gzopen(path, "rb");
    const int got = file ? gzread(file, content->bytes, (unsigned)room) : -1;
    const bool whole = file && gzclose(file) == Z_OK && got >= 0;
    content->size = whole ? (size_t)got : 0;
    return whole ? ESPER_OK : error_set(error, ESPER_INVALID, "%s: cannot be decompressed; fetch the file again", path);
}
#else
static enum esper_status unzip(const char *path, size_t room, struct content *content, struct esper_error *error)
{
    (void)room;
    (void)content;
    return error_set(error, ESPER_UNSUPPORTED,
                     "%s: built without zlib: decompress the four files first (gzip -d), or apt-get install "
                     "libpng-dev zlib1g-dev and make again",
                     path);
}
#endif

/* The file or, where there is none, its compressed form; `path` becomes the one that was read. */
static enum esper_status content_read(const char *directory, int file, size_t bytes, char path[PATH_MAX],
                                      struct content *content, struct esper_error *error)
{
    *content = (struct content){0};
    snprintf(path, PATH_MAX, "%s/%s", directory, file_names[file]);
    if (access(path, F_OK) == 0) {
        void *data;
        TRY(file_load(path, &data, &content->size, error));
        content->bytes = data;
        return ESPER_OK;
    }
    snprintf(path, PATH_MAX, "%s/%s.gz", directory, file_names[file]);
    if (access(path, F_OK) == 0)
        return unzip(path, bytes + 1, content, error);
    return error_set(error, ESPER_INVALID, "%s: no %s or %s.gz here; name the directory that holds the four files",
                     directory, file_names[file], file_names[file]);
}

/* ---- their meaning ----------------------------------------------------------------------------------------------- */

static uint32_t big_endian(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

/* A header of a magic number and of the given sizes, and as many bytes as they say. */
static enum esper_status check_header(const struct content *content, uint32_t magic, size_t count, size_t side,
                                      struct esper_error *error)
{
    const size_t header = side ? HEADER_MAX : HEADER_MAX / 2, bytes = header + count * (side ? side * side : 1);
    const char *what = side ? "images" : "labels";
    if (content->size < header)
        return error_set(error, ESPER_INVALID, "%zu bytes, too few for a header; fetch the file again", content->size);
    if (big_endian(content->bytes) != magic)
        return error_set(error, ESPER_INVALID, "begins with %08x, not %08x: not an IDX file of %s",
                         big_endian(content->bytes), magic, what);
    const uint32_t stated = big_endian(content->bytes + 4);
    if (stated != count)
        return error_set(error, ESPER_INVALID, "holds %u %s, not %zu", stated, what, count);
    if (side && (big_endian(content->bytes + 8) != side || big_endian(content->bytes + 12) != side))
        return error_set(error, ESPER_INVALID, "images of %u x %u, not %zu x %zu", big_endian(content->bytes + 8),
                         big_endian(content->bytes + 12), side, side);
    if (content->size != bytes)
        return error_set(error, ESPER_INVALID, "%zu bytes, not %zu; fetch the file again", content->size, bytes);
    return ESPER_OK;
}

static enum esper_status take_images(const struct content *content, size_t count, uint8_t *images,
                                     struct esper_error *error)
{
    TRY(check_header(content, IMAGES_MAGIC, count, SIDE, error));
    const uint8_t *grey = content->bytes + HEADER_MAX;
    for (size_t i = 0; i < count; i++, images += PACK_IMAGE_BYTES) /* which are black as allocated */
        for (size_t y = 0; y < SIDE; y++) {
            uint8_t *out = images + ((MARGIN + y) * DATASET_SIZE + MARGIN) * DATASET_COLOURS;
            for (size_t x = 0; x < SIDE; x++, grey++)
                for (size_t c = 0; c < DATASET_COLOURS; c++)
                    *out++ = *grey;
        }
    return ESPER_OK;
}

static enum esper_status take_labels(const struct content *content, size_t count, uint16_t *labels,
                                     struct esper_error *error)
{
    TRY(check_header(content, LABELS_MAGIC, count, 0, error));
    for (size_t i = 0; i < count; i++) {
        labels[i] = content->bytes[HEADER_MAX / 2 + i];
        if (labels[i] >= DATASET_CLASSES)
            return error_set(error, ESPER_INVALID, "label %zu is %d, not a class from 0 to %d", i, labels[i],
                             DATASET_CLASSES - 1);
    }
    return ESPER_OK;
}

static enum esper_status read_file(struct pack *pack, const char *directory, int file, uint32_t *crc,
                                   struct esper_error *error)
{
    const bool images = file % 2 == 0;
    const size_t first = file < 2 ? 0 : pack->train, count = file < 2 ? pack->train : pack->test;
    char path[PATH_MAX];
    struct content content;
    enum esper_status status =
        content_read(directory, file, HEADER_MAX + count * (images ? SIDE * SIDE : 1), path, &content, error);
    if (status == ESPER_OK) {
        status = images ? take_images(&content, count, pack->images + first * PACK_IMAGE_BYTES, error)
                        : take_labels(&content, count, pack->labels + first, error);
        if (status != ESPER_OK)
            error_where(error, "%s", path);
        *crc = crc32_update(0, content.bytes, content.size);
    }
    memory_free(content.bytes);
    return status;
}

enum esper_status idx_read(struct pack *pack, const char *directory, uint32_t crc[IDX_FILES], struct esper_error *error)
{
    if (access(directory, R_OK | X_OK) != 0)
        return error_set(error, ESPER_INVALID, "%s: no such directory, or not readable", directory);
    for (int file = 0; file < IDX_FILES; file++)
        TRY(read_file(pack, directory, file, &crc[file], error));
    return ESPER_OK;
}

enum esper_status idx_verify(enum data_set set, const uint32_t crc[IDX_FILES], struct esper_error *error)
{
    static const uint32_t known[DATA_SETS][IDX_FILES] = {
        [DATA_FASHION] = {0xb4f29f28, 0x741a4657, 0x678fe0b1, 0x80142c1f},
        [DATA_MNIST] = {0xe9f4d8b3, 0xe0cb4ad2, 0x91373bdf, 0x4ab9eff9},
    };
    for (int file = 0; file < IDX_FILES; file++)
        if (crc[file] != known[set][file])
            return error_set(error, ESPER_INVALID, "%s: checksum %08x, not %08x: damaged, or not %s", file_names[file],
                             crc[file], known[set][file], data_facts_of(set)->title);
    return ESPER_OK;
}
