#include "data/pack.h"

#include <stdio.h>

#include "base/memory.h"
#include "base/safetensors.h"

enum esper_status pack_alloc(struct pack *pack, enum data_set set, size_t train, size_t test, struct esper_error *error)
{
    *pack = (struct pack){.set = set, .train = train, .test = test};
    pack->images = memory_alloc(train + test, PACK_IMAGE_BYTES, error);
    pack->labels = pack->images ? memory_alloc(train + test, 1, error) : NULL;
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

enum esper_status pack_write(const struct pack *pack, const size_t count[SPLIT_COUNT], const char *source,
                             const char *path, struct esper_error *error)
{
    char names[SPLIT_COUNT][2][16], counts[SPLIT_COUNT][24], checksum[DATASET_CHECKSUM_TEXT];
    uint32_t crc = 0;
    struct st_tensor tensors[2 * SPLIT_COUNT];
    size_t first = 0;
    for (int split = 0; split < SPLIT_COUNT; split++) {
        const size_t all = pack_count(pack, (enum split)split), n = count[split];
        if (n < 1 || n > all)
            return error_set(error, ESPER_INVALID, "%zu %s images requested; it must be from 1 to %zu", n,
                             split_name((enum split)split), all);
        snprintf(names[split][0], sizeof names[split][0], "%s.images", split_name((enum split)split));
        snprintf(names[split][1], sizeof names[split][1], "%s.labels", split_name((enum split)split));
        snprintf(counts[split], sizeof counts[split], "%zu", n);
        tensors[2 * split] = (struct st_tensor){.name = names[split][0],
                                                .dtype = ST_U8,
                                                .dims = 4,
                                                .shape = {n, DATASET_SIZE_MAX, DATASET_SIZE_MAX, DATASET_COLOURS},
                                                .data = pack->images + first * PACK_IMAGE_BYTES};
        tensors[2 * split + 1] = (struct st_tensor){
            .name = names[split][1], .dtype = ST_U8, .dims = 1, .shape = {n}, .data = pack->labels + first};
        crc = split_checksum(crc, pack->images + first * PACK_IMAGE_BYTES, pack->labels + first, n, DATASET_SIZE_MAX);
        first += all;
    }
    snprintf(checksum, sizeof checksum, "%08x", (unsigned)crc);
    const char *const meta[][2] = {
        {"format", DATASET_IMAGES},
        {"version", DATASET_VERSION},
        {"name", data_facts_of(pack->set)->name},
        {"source", source},
        {DATASET_CHECKSUM, checksum},
        {split_name(SPLIT_TRAIN), counts[SPLIT_TRAIN]},
        {split_name(SPLIT_VAL), counts[SPLIT_VAL]},
        {split_name(SPLIT_TEST), counts[SPLIT_TEST]},
    };
    return st_write(path, tensors, 2 * SPLIT_COUNT, meta, sizeof meta / sizeof meta[0], error);
}
