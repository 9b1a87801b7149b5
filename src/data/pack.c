#include "data/pack.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/crc32.h"
#include "base/memory.h"
#include "base/safetensors.h"

enum esper_status pack_alloc(struct pack *pack, enum data_set set, size_t train, size_t test, struct esper_error *error)
{
    *pack = (struct pack){.set = set, .train = train, .test = test};
    pack->images = memory_alloc(train + test, PACK_IMAGE_BYTES, error);
    pack->labels = pack->images ? memory_alloc(train + test, sizeof *pack->labels, error) : NULL;
    if (pack->labels)
        return ESPER_OK;
    pack_free(pack);
    return ESPER_FAILED;
}

enum esper_status pack_whole(struct pack *pack, enum data_set set, struct esper_error *error)
{
    const struct data_facts *known = data_facts_of(set);
    return pack_alloc(pack, set, (size_t)known->train + (size_t)known->val, (size_t)known->test, error);
}

void pack_free(struct pack *pack)
{
    memory_free(pack->images);
    memory_free(pack->labels);
    *pack = (struct pack){0};
}

size_t pack_count(const struct pack *pack, enum split split)
{
    const struct data_facts *set = data_facts_of(pack->set);
    const size_t val = pack->train * (size_t)set->val / (size_t)(set->train + set->val);
    return split == SPLIT_TRAIN ? pack->train - val : split == SPLIT_VAL ? val : pack->test;
}

/* Labels take a byte each where that is enough. Little-endian, as all of the file. */
static void pack_labels(const struct packed *packed, enum split split, bool wide, uint8_t *to)
{
    for (size_t i = 0; i < packed->count[split]; i++)
        if (wide)
            memcpy(to + 2 * i, &packed->labels[split][i], 2);
        else
            to[i] = (uint8_t)packed->labels[split][i];
}

static enum esper_status write_tensors(const struct packed *packed, bool wide, uint8_t *labels,
                                       const char *const meta[][2], int lines, const char *path,
                                       struct esper_error *error)
{
    char names[SPLIT_COUNT][2][16], counts[SPLIT_COUNT][24], checksum[DATASET_CHECKSUM_TEXT];
    const size_t size = (size_t)packed->size, bytes = size * size * DATASET_COLOURS, width = wide ? 2 : 1;
    const char *all[PACKED_META + SPLIT_COUNT + 3][2] = {{"format", DATASET_IMAGES}, {"version", DATASET_VERSION}};
    struct st_tensor tensors[2 * SPLIT_COUNT];
    uint32_t crc = 0;
    int used = 2;
    for (int i = 0; i < lines && i < PACKED_META; i++, used++)
        memcpy(all[used], meta[i], sizeof all[used]);
    for (int split = 0; split < SPLIT_COUNT; split++) {
        const char *name = split_name((enum split)split);
        const size_t n = packed->count[split];
        snprintf(names[split][0], sizeof names[split][0], "%s.images", name);
        snprintf(names[split][1], sizeof names[split][1], "%s.labels", name);
        snprintf(counts[split], sizeof counts[split], "%zu", n);
        pack_labels(packed, (enum split)split, wide, labels);
        tensors[2 * split] = (struct st_tensor){.name = names[split][0],
                                                .dtype = ST_U8,
                                                .dims = 4,
                                                .shape = {n, size, size, DATASET_COLOURS},
                                                .data = packed->images[split]};
        tensors[2 * split + 1] = (struct st_tensor){
            .name = names[split][1], .dtype = wide ? ST_U16 : ST_U8, .dims = 1, .shape = {n}, .data = labels};
        crc = crc32_update(crc32_update(crc, packed->images[split], n * bytes), labels, n * width);
        labels += n * width;
        all[used][0] = name;
        all[used++][1] = counts[split];
    }
    snprintf(checksum, sizeof checksum, "%08x", (unsigned)crc);
    all[used][0] = DATASET_CHECKSUM;
    all[used++][1] = checksum;
    return st_write(path, tensors, 2 * SPLIT_COUNT, (const char *const(*)[2])all, used, error);
}

enum esper_status packed_write(const struct packed *packed, const char *const meta[][2], int lines, const char *path,
                               struct esper_error *error)
{
    const bool wide = packed->classes > 256;
    const size_t count = packed->count[SPLIT_TRAIN] + packed->count[SPLIT_VAL] + packed->count[SPLIT_TEST];
    uint8_t *labels = memory_alloc(count, wide ? 2 : 1, error);
    if (!labels)
        return ESPER_FAILED;
    enum esper_status status = write_tensors(packed, wide, labels, meta, lines, path, error);
    memory_free(labels);
    return status;
}

enum esper_status pack_write(const struct pack *pack, const size_t count[SPLIT_COUNT], const char *source,
                             const char *path, struct esper_error *error)
{
    struct packed packed = {.size = DATASET_SIZE, .classes = DATASET_CLASSES};
    size_t first = 0;
    for (int split = 0; split < SPLIT_COUNT; split++) {
        const size_t all = pack_count(pack, (enum split)split), n = count[split];
        if (n < 1 || n > all)
            return error_set(error, ESPER_INVALID, "%zu %s images requested; it must be from 1 to %zu", n,
                             split_name((enum split)split), all);
        packed.count[split] = n;
        packed.images[split] = pack->images + first * PACK_IMAGE_BYTES;
        packed.labels[split] = pack->labels + first;
        first += all;
    }
    const char *const meta[][2] = {{"name", data_facts_of(pack->set)->name}, {"source", source}};
    return packed_write(&packed, meta, 2, path, error);
}
